#include "conformance/device/roce/rpc_server.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace rdmawire::device {

RpcServer::RpcServer(std::mutex& mutex, LineHandler handler, int descriptor)
    : mutex_(mutex), handler_(std::move(handler)), descriptor_(descriptor) {
  thread_ = std::thread([this] { serve(); });
}

peer::PeerResult<std::unique_ptr<RpcServer>> RpcServer::start(std::mutex& mutex, LineHandler handler) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return tl::unexpected(
        peer::peer_error(peer::PeerError::Kind::lost, errno, "reference device: cannot create a socket pair"));
  std::unique_ptr<RpcServer> server(new RpcServer(mutex, std::move(handler), ends[0]));
  peer::Options client;
  client.heartbeat = std::chrono::milliseconds(0);
  auto peer = peer::Peer::over(peer::Descriptor(ends[1]), client);
  if (!peer) return tl::unexpected(peer.error());
  server->peer_ = std::make_unique<peer::Peer>(std::move(*peer));
  return server;
}

RpcServer::~RpcServer() {
  peer_.reset();
  shutdown(descriptor_, SHUT_RDWR);
  if (thread_.joinable()) thread_.join();
  close(descriptor_);
}

void RpcServer::serve() {
  constexpr std::size_t most_line = 4U << 20;
  std::string input;
  char bytes[65'536];
  for (;;) {
    const ssize_t count = read(descriptor_, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    input.append(bytes, static_cast<std::size_t>(count));
    for (std::size_t end; (end = input.find('\n')) != std::string::npos; input.erase(0, end + 1)) {
      const std::lock_guard lock(mutex_);
      send_lines(handler_(std::string_view(input).substr(0, end)));
    }
    if (input.size() > most_line) return;
  }
}

void RpcServer::send_lines(const std::vector<std::string>& lines) const {
  std::string output;
  for (const std::string& line : lines) output += line + '\n';
  for (std::string_view left = output; !left.empty();) {
    const ssize_t sent = send(descriptor_, left.data(), left.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;  // the client has closed the connection. The reading thread detects that
    left.remove_prefix(static_cast<std::size_t>(sent));
  }
}

}  // namespace rdmawire::device
