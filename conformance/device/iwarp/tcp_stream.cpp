#include "conformance/device/iwarp/tcp_stream.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace rdmawire::endpoint {

namespace {

using Milliseconds = std::chrono::milliseconds;

tl::unexpected<device::Error> refuse_with_errno(int number, std::string_view doing) {
  return tl::unexpected(device::Error{number, fmt::format("{}: {}", doing, std::strerror(number))});
}

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};
std::optional<Address> address_of(const std::string& text, std::uint16_t port) {
  Address address;
  auto* four = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* six = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (::inet_pton(AF_INET, text.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(port);
    address.length = sizeof *four;
  } else if (::inet_pton(AF_INET6, text.c_str(), &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(port);
    address.length = sizeof *six;
  } else {
    return std::nullopt;
  }
  return address;
}

/// Wait until the descriptor is ready, and return whether it is. `timeout` of zero or less: do not wait.
bool ready(int descriptor, short events, Milliseconds timeout) {
  pollfd one{descriptor, events, 0};
  return ::poll(&one, 1, static_cast<int>(std::max<Milliseconds::rep>(timeout.count(), 0))) > 0;
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

std::int64_t steady_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

TcpStream::TcpStream(replay::Descriptor socket) : socket_(std::move(socket)) {
  // Send FPDUs immediately. RFC 5044, 5.1
  const int on = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

device::Result<TcpStream> TcpStream::connect(const std::string& address, std::uint16_t port, Milliseconds timeout) {
  const std::string doing = fmt::format("connect to {} port {}", address, port);
  const auto to = address_of(address, port);
  if (!to) return refuse_with_errno(EINVAL, doing);
  replay::Descriptor socket(::socket(to->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return refuse_with_errno(errno, doing);
  if (::connect(socket.get(), to->get(), to->length) != 0) {
    if (errno != EINPROGRESS) return refuse_with_errno(errno, doing);
    if (!ready(socket.get(), POLLOUT, timeout)) return refuse_with_errno(ETIMEDOUT, doing);
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return refuse_with_errno(error, doing);
  }
  return TcpStream(std::move(socket));
}

TcpStream::Arrival TcpStream::receive() {
  Arrival arrival;
  arrival.bytes.resize(64 << 10);
  const ssize_t got = ::recv(socket_.get(), arrival.bytes.data(), arrival.bytes.size(), 0);
  const int error = errno;
  arrival.bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  arrival.closed = got == 0;
  arrival.lost = got < 0 && !would_block(error);
  return arrival;
}

std::optional<std::size_t> TcpStream::send(Bytes bytes) {
  const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent >= 0) return static_cast<std::size_t>(sent);
  if (would_block(errno)) return 0;
  return std::nullopt;
}

void TcpStream::close_half() { ::shutdown(socket_.get(), SHUT_WR); }

void TcpStream::reset() {
  const linger at_once{1, 0};
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  socket_ = replay::Descriptor();
}

std::uint32_t TcpStream::emss() const {
  int bytes = 0;
  socklen_t length = sizeof bytes;
  if (::getsockopt(socket_.get(), IPPROTO_TCP, TCP_MAXSEG, &bytes, &length) != 0 || bytes <= 0) return 536;
  return static_cast<std::uint32_t>(bytes);
}

device::Result<TcpListener> TcpListener::listen(const std::string& address, std::uint16_t port) {
  const std::string doing = fmt::format("listen on {} port {}", address, port);
  const auto at = address_of(address, port);
  if (!at) return refuse_with_errno(EINVAL, doing);
  replay::Descriptor socket(::socket(at->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return refuse_with_errno(errno, doing);
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), at->get(), at->length) != 0 || ::listen(socket.get(), 16) != 0)
    return refuse_with_errno(errno, doing);
  Address bound;
  bound.length = sizeof bound.storage;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound.storage), &bound.length) != 0)
    return refuse_with_errno(errno, doing);
  const std::uint16_t chosen = bound.storage.ss_family == AF_INET
                                   ? reinterpret_cast<const sockaddr_in*>(&bound.storage)->sin_port
                                   : reinterpret_cast<const sockaddr_in6*>(&bound.storage)->sin6_port;
  return TcpListener(std::move(socket), ntohs(chosen));
}

device::Result<TcpStream> TcpListener::accept(Milliseconds timeout) {
  const std::string doing = fmt::format("accept on port {}", port_);
  if (!ready(socket_.get(), POLLIN, timeout)) return refuse_with_errno(ETIMEDOUT, doing);
  replay::Descriptor socket(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return refuse_with_errno(errno, doing);
  return TcpStream(std::move(socket));
}

bool TcpDriver::write() {
  bool moved = false;
  while (!sent_end_) {
    if (unsent_.empty()) {
      Output output = endpoint_.take(steady_now());
      if (output.reset) {
        stream_.reset();
        sent_end_ = received_end_ = true;
        return true;
      }
      for (const auto& segment : output.segments) unsent_.insert(unsent_.end(), segment.begin(), segment.end());
      fin_waits_ = fin_waits_ || output.fin;
    }
    if (unsent_.empty()) break;
    const auto sent = stream_.send(unsent_);
    if (!sent) {
      sent_end_ = received_end_ = true;
      endpoint_.lost(steady_now());
      return true;
    }
    if (*sent == 0) return moved;
    unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<std::ptrdiff_t>(*sent));
    moved = true;
  }
  if (fin_waits_ && !sent_end_) {
    stream_.close_half();
    sent_end_ = moved = true;
  }
  return moved;
}

bool TcpDriver::read() {
  if (received_end_) return false;
  const TcpStream::Arrival arrival = stream_.receive();
  if (!arrival.bytes.empty()) endpoint_.received(arrival.bytes, steady_now());
  if (arrival.closed) endpoint_.peer_closed(steady_now());
  if (arrival.lost) {
    endpoint_.lost(steady_now());
    sent_end_ = true;
  }
  received_end_ = arrival.closed || arrival.lost;
  return received_end_ || !arrival.bytes.empty();
}

bool TcpDriver::step(Milliseconds wait) {
  bool moved = write();
  if (over()) return moved;
  if (endpoint_.wakes() != never)
    wait = std::min(wait, Milliseconds(std::max<std::int64_t>((endpoint_.wakes() - steady_now()) / 1'000'000 + 1, 0)));
  // The socket stays readable after the peer's FIN. Then wait only until it is writable.
  const auto events = static_cast<short>((received_end_ ? 0 : POLLIN) | (unsent_.empty() || sent_end_ ? 0 : POLLOUT));
  if (!moved) (void)ready(stream_.descriptor(), events, wait);
  moved = read() || moved;
  if (endpoint_.wakes() <= steady_now()) endpoint_.woken(steady_now());
  return write() || moved;
}

bool TcpDriver::run(const std::function<bool()>& done, Milliseconds timeout) {
  const auto until = std::chrono::steady_clock::now() + timeout;
  while (!done()) {
    const auto left = std::chrono::ceil<Milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    if (over()) return done();
    (void)step(std::min<Milliseconds>(left, Milliseconds(50)));
  }
  return true;
}

}  // namespace rdmawire::endpoint
