#include "replay/peer/peer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "replay/peer/credentials.hpp"
#include "replay/peer/session_state.hpp"

namespace rdmawire::peer {

using nlohmann::json;

namespace {

/// Completes the TLS handshake within the timeout.
PeerResult<TlsChannel> establish(int stream, const Options& options) {
  const auto failed = [](PeerError::Kind kind, int number, std::string message) {
    return tl::unexpected(peer_error(kind, number, std::move(message)));
  };
  auto keys = read_keys(options.credentials);
  if (!keys) return failed(PeerError::Kind::usage, EINVAL, "credentials: " + keys.error());
  auto context = TlsContext::make(TlsContext::Side::controller, std::move(*keys));
  if (!context)
    return failed(PeerError::Kind::usage, EINVAL,
                  fmt::format("credentials: {}: {}", options.credentials, context.error()));
  TlsChannel tls(std::move(*context));
  const Deadline deadline = options.timeout;
  std::string outgoing = tls.take_output(), text;
  while (!tls.established() || !outgoing.empty()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.time() - Deadline::Clock::now());
    if (left.count() <= 0)
      return failed(PeerError::Kind::timeout, ETIMEDOUT,
                    fmt::format("TLS: no response within {} ms", options.timeout.count()));
    pollfd wait{stream, static_cast<short>(outgoing.empty() ? POLLIN : POLLIN | POLLOUT), 0};
    if (::poll(&wait, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 1 << 30))) < 0 && errno != EINTR)
      return failed(PeerError::Kind::lost, errno, fmt::format("TLS: {}", std::strerror(errno)));
    if ((wait.revents & POLLOUT) != 0) {
      ssize_t put = ::send(stream, outgoing.data(), outgoing.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (put > 0) outgoing.erase(0, static_cast<std::size_t>(put));
      // The reason may still be readable.
      if (put < 0 && errno != EAGAIN && errno != EINTR) outgoing.clear();
    }
    if ((wait.revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
    std::array<char, 16384> bytes;
    const ssize_t got = ::read(stream, bytes.data(), bytes.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0)
      return failed(PeerError::Kind::lost, ECONNRESET,
                    "TLS: the agent closed the connection during the handshake; its standard error has the reason");
    const std::string_view received(bytes.data(), static_cast<std::size_t>(got));
    const bool valid = tls.receive(received, text);
    outgoing += tls.take_output();
    if (valid) continue;
    if (!outgoing.empty()) (void)!::send(stream, outgoing.data(), outgoing.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    std::string why = tls.error();
    if (tls.peer_sends_plain_text()) {
      // An agent that accepts no further connection reports it in plain text.
      const auto message = parse_message(received.substr(0, received.find('\n')));
      const auto* answer = message ? std::get_if<Answer>(&*message) : nullptr;
      if (answer != nullptr && !answer->result && answer->result.error().number == EUSERS)
        why = answer->result.error().message;
    }
    return failed(PeerError::Kind::usage, EACCES, std::move(why));
  }
  return tls;
}

}  // namespace

Peer::Peer(std::shared_ptr<Session> session) : session_(std::move(session)) {}

Peer& Peer::operator=(Peer&& other) noexcept {
  if (this != &other) {
    close();
    session_ = std::move(other.session_);
  }
  return *this;
}

Peer::~Peer() { close(); }

PeerResult<Peer> Peer::connect(const std::string& address, const Options& options) {
  const bool tcp = address.starts_with("tcp:");
  if (!tcp && !options.credentials.empty())
    return tl::unexpected(
        peer_error(PeerError::Kind::usage, EINVAL, fmt::format("connect {}: only tcp: uses credentials", address)));
  auto stream = open_channel(address, options.timeout, options.credentials.empty());
  if (!stream) return tl::unexpected(stream.error());
  auto peer = over(std::move(*stream), options);
  if (!peer) {
    PeerError error = peer.error();
    error.message = address + ": " + error.message;
    return tl::unexpected(std::move(error));
  }
  return peer;
}

PeerResult<Peer> Peer::over(Descriptor stream, const Options& options) {
  if (const int flags = ::fcntl(stream.get(), F_GETFL); flags >= 0) ::fcntl(stream.get(), F_SETFL, flags | O_NONBLOCK);
  std::optional<TlsChannel> tls;
  if (!options.credentials.empty()) {
    auto made = establish(stream.get(), options);
    if (!made) return tl::unexpected(made.error());
    tls = std::move(*made);
  }
  Peer peer(std::make_shared<Session>(std::move(stream), std::move(tls), options));
  if (auto greeted = peer.session_->greet(); !greeted) return tl::unexpected(greeted.error());
  return peer;
}

const json& Peer::hello() const { return session_->hello(); }
PeerResult<json> Peer::call(std::string_view command, const json& arguments) {
  return session_->call(command, arguments);
}
PeerResult<json> Peer::call(std::string_view command, const json& arguments, Deadline deadline) {
  return session_->call(command, arguments, deadline);
}
PeerResult<std::uint64_t> Peer::send(std::string_view command, const json& arguments) {
  return session_->send(command, arguments);
}
PeerResult<json> Peer::collect(std::uint64_t number, Deadline deadline) { return session_->collect(number, deadline); }
void Peer::forget(std::uint64_t number) { session_->forget(number); }
PeerResult<std::optional<Event>> Peer::next_event(Deadline deadline, const EventFilter& filter) {
  return session_->next_event(deadline, filter);
}
std::uint64_t Peer::dropped_events() const { return session_->dropped_events(); }
int Peer::descriptor() const { return session_->descriptor(); }
std::optional<PeerError> Peer::lost() const { return session_->lost(); }
Peer::ReleaseErrors Peer::unattended() const { return session_->unattended(); }
void Peer::close() {
  if (session_) session_->close();
}

}  // namespace rdmawire::peer
