#include "replay/peer/channel.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

namespace rdmawire::peer {

namespace {

using Clock = std::chrono::steady_clock;

tl::unexpected<PeerError> failed(const std::string& address, int number, std::string_view what) {
  return tl::unexpected(peer_error(PeerError::Kind::lost, number,
                                   fmt::format("connect {}: {}: {}", address, what, std::strerror(number))));
}
tl::unexpected<PeerError> misspelt(const std::string& address, std::string_view why) {
  return tl::unexpected(
      peer_error(PeerError::Kind::usage, EINVAL,
                 fmt::format("connect {}: {}; expected tcp:HOST:PORT, unix:PATH or serial:PATH", address, why)));
}

/// Connects before `deadline`. Returns 0 or an errno.
int connect_until(int socket, const sockaddr* to, socklen_t length, Clock::time_point deadline) {
  if (::connect(socket, to, length) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd wait{socket, POLLOUT, 0};
    const int ready = ::poll(&wait, 1, static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30)));
    if (ready < 0 && errno != EINTR) return errno;
    if (ready == 0) return ETIMEDOUT;
    if (ready < 0) continue;
    int number = 0;
    socklen_t size = sizeof number;
    return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &number, &size) < 0 ? errno : number;
  }
}

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24 == 127;
  return address.sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

PeerResult<Descriptor> open_tcp(const std::string& address, std::string_view rest, Clock::time_point deadline,
                                bool only_this_host) {
  const auto colon = rest.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == rest.size())
    return misspelt(address, "missing host or port");
  std::string host(rest.substr(0, colon));
  const std::string port(rest.substr(colon + 1));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);

  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int wrong = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); wrong != 0)
    return tl::unexpected(peer_error(PeerError::Kind::lost, wrong == EAI_SYSTEM ? errno : EHOSTUNREACH,
                                     fmt::format("connect {}: {}", address, ::gai_strerror(wrong))));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, ::freeaddrinfo);
  for (const addrinfo* one = found; only_this_host && one != nullptr; one = one->ai_next) {
    if (is_loopback(*one->ai_addr)) continue;
    return tl::unexpected(peer_error(
        PeerError::Kind::usage, EACCES,
        fmt::format("connect {}: an agent on another host requires credentials (rdmawire-agent --make-credentials)",
                    address)));
  }
  int number = EHOSTUNREACH;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    Descriptor socket(::socket(one->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, one->ai_protocol));
    number = socket ? connect_until(socket.get(), one->ai_addr, one->ai_addrlen, deadline) : errno;
    if (number != 0) continue;
    // Requests are small writes that wait for a response.
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return socket;
  }
  return failed(address, number, "no agent responds");
}

PeerResult<Descriptor> open_unix(const std::string& address, std::string_view path, Clock::time_point deadline) {
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  if (path.empty()) return misspelt(address, "missing path");
  if (path.size() >= sizeof to.sun_path)
    return misspelt(address, fmt::format("the socket path exceeds {} bytes", sizeof to.sun_path - 1));
  std::copy(path.begin(), path.end(), to.sun_path);
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int number =
      socket ? connect_until(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to, deadline) : errno;
  if (number != 0) return failed(address, number, "no agent responds");
  return socket;
}

PeerResult<Descriptor> open_serial(const std::string& address, std::string_view path) {
  if (path.empty()) return misspelt(address, "missing path");
  Descriptor line(::open(std::string(path).c_str(), O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
  if (!line) return failed(address, errno, "open");
  if (termios settings{}; ::tcgetattr(line.get(), &settings) == 0) {
    ::cfmakeraw(&settings);
    settings.c_cflag |= CLOCAL;
    if (::tcsetattr(line.get(), TCSANOW, &settings) < 0) return failed(address, errno, "set raw mode");
  }
  return line;
}

}  // namespace

PeerResult<Descriptor> open_channel(const std::string& address, std::chrono::milliseconds timeout,
                                    bool only_this_host) {
  const auto deadline = Clock::now() + timeout;
  const std::string_view text(address);
  if (text.starts_with("tcp:")) return open_tcp(address, text.substr(4), deadline, only_this_host);
  if (text.starts_with("unix:")) return open_unix(address, text.substr(5), deadline);
  if (text.starts_with("serial:")) return open_serial(address, text.substr(7));
  return misspelt(address, "unknown kind of channel");
}

}  // namespace rdmawire::peer
