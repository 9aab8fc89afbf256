#include "conformance/lab/sockets.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>

namespace rdmawire::lab {

Result<Descriptor> connect_to_guest(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string text = path.string();
  if (text.size() >= sizeof address.sun_path) return failure(LabError::Kind::system, text + ": too long for a socket");
  std::memcpy(address.sun_path, text.data(), text.size());
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return system_failure("socket");
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return system_failure("connect to the guest at " + text);
  return socket;
}

}  // namespace rdmawire::lab
