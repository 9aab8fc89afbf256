#include "replay/peer/authentication.hpp"

#include <fmt/format.h>
#include <sodium/crypto_auth_hmacsha256.h>
#include <sodium/utils.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <iterator>

#include "replay/peer/message.hpp"

namespace rdmawire::peer {

PeerResult<std::string> read_secret(const std::string& path) {
  constexpr std::size_t most = 4096;
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string secret;
  if (file) {
    secret.resize(most + 1);
    file.read(secret.data(), static_cast<std::streamsize>(secret.size()));
    secret.resize(static_cast<std::size_t>(file.gcount()));
  }
  if (!file.is_open() || file.bad())
    return tl::unexpected(peer_error(PeerError::Kind::usage, errno == 0 ? EIO : errno,
                                     fmt::format("the agent's secret: cannot read {}", path)));
  if (secret.size() > most)
    return tl::unexpected(
        peer_error(PeerError::Kind::usage, EFBIG, fmt::format("the agent's secret: {} exceeds {} bytes", path, most)));
  secret.erase(secret.find_last_not_of(" \t\r\n") + 1);
  if (secret.empty())
    return tl::unexpected(
        peer_error(PeerError::Kind::usage, EINVAL, fmt::format("the agent's secret: {} is empty", path)));
  return secret;
}

std::string prove(std::string_view secret, std::string_view challenge) {
  const auto bytes = [](std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); };
  crypto_auth_hmacsha256_state state;
  std::array<unsigned char, crypto_auth_hmacsha256_BYTES> proof{};
  crypto_auth_hmacsha256_init(&state, bytes(secret), secret.size());
  crypto_auth_hmacsha256_update(&state, bytes(challenge), challenge.size());
  crypto_auth_hmacsha256_final(&state, proof.data());
  sodium_memzero(&state, sizeof state);
  return to_hex({reinterpret_cast<const char*>(proof.data()), proof.size()});
}

}  // namespace rdmawire::peer
