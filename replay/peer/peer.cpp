#include "replay/peer/peer.hpp"

#include <fcntl.h>

#include "replay/peer/session_state.hpp"

namespace rdmawire::peer {

using nlohmann::json;

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
  auto stream = open_channel(address, options.timeout);
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
  Peer peer(std::make_shared<Session>(std::move(stream), options));
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
