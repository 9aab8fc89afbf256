#include "conformance/agent/server.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace rdmawire::agent {
namespace {

/// Same as write(2), but without SIGPIPE on closed sockets. Serial channels are not sockets.
ssize_t put(int descriptor, const char* bytes, std::size_t length) {
  const ssize_t sent = ::send(descriptor, bytes, length, MSG_NOSIGNAL);
  return sent < 0 && errno == ENOTSOCK ? ::write(descriptor, bytes, length) : sent;
}

tl::unexpected<Error> system_failed(std::string_view doing, const std::string& to) {
  const int number = errno;
  return fail(number, "{} {}: {}", doing, to, errno_text(number));
}

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

std::string name_of(const sockaddr& address, socklen_t length) {
  char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
  getnameinfo(&address, length, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
  return address.sa_family == AF_INET6 ? fmt::format("tcp:[{}]:{}", host, port) : fmt::format("tcp:{}:{}", host, port);
}

/// Queue of outgoing responses.
class Outbox {
 public:
  void add(std::string line) {
    bytes_ += line.size() + 1;
    line += '\n';
    lines_.push_back(std::move(line));
  }
  /// Writes as much as possible. Returns false if the descriptor fails. `went`: number of written bytes.
  bool write_to(int descriptor, std::size_t& went) {
    while (!lines_.empty()) {
      const std::string& line = lines_.front();
      const ssize_t written = put(descriptor, line.data() + begun_, line.size() - begun_);
      if (written < 0) return errno == EAGAIN || errno == EINTR;
      if (written == 0) return true;
      went += static_cast<std::size_t>(written);
      bytes_ -= static_cast<std::size_t>(written);
      begun_ += static_cast<std::size_t>(written);
      if (begun_ < line.size()) return true;
      lines_.pop_front();
      begun_ = 0;
    }
    return true;
  }
  void clear() {
    lines_.clear();
    bytes_ = begun_ = 0;
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] bool empty() const { return lines_.empty(); }

 private:
  std::deque<std::string> lines_;
  std::size_t bytes_ = 0;
  std::size_t begun_ = 0;  ///< written bytes of the first line
};

}  // namespace

/// A socket or an open serial channel with its protocol state.
class Server::Connection {
 public:
  /// `gone` is called once, when the connection is unusable. It may destroy this object.
  Connection(Server& server, int descriptor, std::function<void()> gone)
      : server_(&server),
        descriptor_(descriptor),
        gone_(std::move(gone)),
        conversation_(
            *server.loop_, *server.settings_, [this](std::string line) { say(std::move(line)); },
            [this] { return out_.bytes() >= server_->bounds_.enough_unread; }) {
    watch_ = server.loop_->add_descriptor(descriptor, POLLIN, [this](short events) { ready(events); });
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] bool stranger() const { return server_->settings_->secret && !conversation_.authenticated(); }
  /// Closes the connection if it is not authenticated in time.
  void limit_stranger() {
    stranger_ = server_->loop_->add_timer_in(server_->bounds_.stranger_time, [this] {
      if (stranger()) end();
    });
  }

 private:
  void say(std::string line) {
    if (ending_) return;
    out_.add(std::move(line));
    if (out_.bytes() > server_->bounds_.most_unread) return end();
    // Runs at the end of this turn, because the caller may be in the middle of an operation.
    if (!flush_) flush_ = server_->loop_->add_timer_in(0, [this] { flush(); });
  }

  void flush() {
    flush_.stop();
    if (ending_) return;
    std::size_t went = 0;
    if (!out_.write_to(descriptor_, went)) return end();
    if (out_.empty()) {
      stalled_.stop();
    } else if (went > 0 || !stalled_) {
      stalled_ = server_->loop_->add_timer_in(server_->bounds_.unread_time, [this] { end(); });
    }
    if (out_.bytes() < server_->bounds_.enough_unread && conversation_.waiting() > 0) conversation_.resume();
    listen();
  }

  void listen() {
    const bool enough = out_.bytes() >= server_->bounds_.enough_unread;
    watch_.set_events(static_cast<short>((enough ? 0 : POLLIN) | (out_.empty() ? 0 : POLLOUT)));
  }

  void ready(short events) {
    if (ending_) return;
    if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) {
      std::array<char, 65536> bytes;
      const ssize_t got = ::read(descriptor_, bytes.data(), bytes.size());
      if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return end();
      if (got > 0) conversation_.receive({bytes.data(), static_cast<std::size_t>(got)});
      // After a hangup, responses cannot be read.
      if (got < 0 && (events & POLLHUP) != 0) return end();
    }
    flush();
  }

  /// Deferred to the next turn, because the caller may be inside of conversation_.
  void end() {
    if (ending_) return;
    ending_ = true;
    watch_.stop();
    flush_.stop();
    stalled_.stop();
    end_ = server_->loop_->add_timer_in(0, [this] {
      const auto gone = std::move(gone_);
      gone();
    });
  }

  Server* server_;
  int descriptor_;
  std::function<void()> gone_;
  Outbox out_;
  bool ending_ = false;
  Loop::Watch watch_, flush_, stalled_, stranger_, end_;
  Conversation conversation_;  // destroyed first, because it may still send
};

/// A serial channel: one controller at a time. There is no connection event. The channel reports POLLHUP or end of file
/// while its other end is closed.
class Server::Serial {
 public:
  Serial(Server& server, int descriptor) : server_(&server), descriptor_(descriptor) { look(); }
  Serial(const Serial&) = delete;
  Serial& operator=(const Serial&) = delete;
  ~Serial() {
    connection_.reset();
    ::close(descriptor_);
  }

 private:
  void look() {
    connection_.reset();
    pollfd descriptor{descriptor_, POLLIN, 0};
    ::poll(&descriptor, 1, 0);
    if ((descriptor.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) {
      pause_ = server_->loop_->add_timer_in(server_->bounds_.serial_pause, [this] { look(); });
    } else {
      connection_ = std::make_unique<Connection>(*server_, descriptor_, [this] { rest(); });
    }
  }
  /// Deferred, because a channel at its end may report that without POLLHUP.
  void rest() {
    connection_.reset();
    pause_ = server_->loop_->add_timer_in(server_->bounds_.serial_pause, [this] { look(); });
  }

  Server* server_;
  int descriptor_;
  std::unique_ptr<Connection> connection_;
  Loop::Watch pause_;
};

Server::Server(Loop& loop, const Settings& settings, Bounds bounds)
    : loop_(&loop), settings_(&settings), bounds_(bounds) {}

Server::~Server() {
  while (!connections_.empty()) remove(connections_.back().get());
  serials_.clear();
  for (Listener& listener : listeners_) {
    listener.watch.stop();
    ::close(listener.descriptor);
    if (!listener.path.empty()) ::unlink(listener.path.c_str());
  }
}

Result<std::vector<std::string>> Server::listen(const std::string& endpoint) {
  const std::size_t colon = endpoint.find(':');
  const std::string scheme = endpoint.substr(0, colon);
  const std::string rest = colon == std::string::npos ? "" : endpoint.substr(colon + 1);
  if (scheme == "unix" && !rest.empty()) return listen_unix(rest);
  if (scheme == "serial" && !rest.empty()) return open_serial(rest);
  const std::size_t port = rest.rfind(':');
  if (scheme == "tcp" && port != std::string::npos && port != 0) {
    std::string host = rest.substr(0, port);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
    return listen_tcp(endpoint, host, rest.substr(port + 1));
  }
  return fail(EINVAL, "{}: invalid endpoint; expected tcp:HOST:PORT, unix:PATH or serial:PATH", endpoint);
}

Result<std::vector<std::string>> Server::listen_tcp(const std::string& endpoint, const std::string& host,
                                                    const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int wrong = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); wrong != 0) {
    return fail(EINVAL, "{}: {}", endpoint, gai_strerror(wrong));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> guard(found, freeaddrinfo);
  if (!settings_->secret) {
    for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
      if (is_loopback(*at->ai_addr)) continue;
      return fail(EACCES, "{}: {} is reachable from other hosts and requires a secret (--secret-file)", endpoint,
                  name_of(*at->ai_addr, at->ai_addrlen));
    }
  }
  std::vector<std::string> taken;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    const int descriptor = ::socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (descriptor < 0) {
      if (errno == EAFNOSUPPORT && at->ai_next != nullptr) continue;
      return system_failed("listen on", endpoint);
    }
    const int yes = 1;
    ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (at->ai_family == AF_INET6) ::setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
    if (::bind(descriptor, at->ai_addr, at->ai_addrlen) != 0 || ::listen(descriptor, 16) != 0) {
      const auto error = system_failed("listen on", endpoint);
      ::close(descriptor);
      // localhost also resolves to ::1 on hosts without IPv6.
      if (error.value().number == EADDRNOTAVAIL && (at->ai_next != nullptr || !taken.empty())) continue;
      return error;
    }
    sockaddr_storage own{};
    socklen_t length = sizeof own;
    ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &length);
    taken.push_back(name_of(reinterpret_cast<const sockaddr&>(own), length));
    listen_at(descriptor, "");
  }
  return taken;
}

Result<std::vector<std::string>> Server::listen_unix(const std::string& path) {
  const std::string endpoint = "unix:" + path;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return fail(ENAMETOOLONG, "{}: the path of a Unix socket exceeds {} bytes", endpoint, sizeof address.sun_path - 1);
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const auto* name = reinterpret_cast<const sockaddr*>(&address);
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return system_failed("listen on", endpoint);
  int bound = ::bind(descriptor, name, sizeof address);
  if (bound != 0 && errno == EADDRINUSE) {
    // A stale socket file of a killed process refuses connections.
    struct stat what {};
    const int other = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool stale = ::lstat(path.c_str(), &what) == 0 && S_ISSOCK(what.st_mode) &&
                       ::connect(other, name, sizeof address) != 0 && errno == ECONNREFUSED;
    ::close(other);
    errno = EADDRINUSE;
    if (stale && ::unlink(path.c_str()) == 0) bound = ::bind(descriptor, name, sizeof address);
  }
  if (bound != 0 || ::chmod(path.c_str(), 0600) != 0 || ::listen(descriptor, 16) != 0) {
    const auto error = system_failed("listen on", endpoint);
    ::close(descriptor);
    return error;
  }
  listen_at(descriptor, path);
  return std::vector{endpoint};
}

Result<std::vector<std::string>> Server::open_serial(const std::string& path) {
  const std::string endpoint = "serial:" + path;
  const int descriptor = ::open(path.c_str(), O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return system_failed("open", endpoint);
  if (termios settings{}; ::isatty(descriptor) == 1 && ::tcgetattr(descriptor, &settings) == 0) {
    cfmakeraw(&settings);
    ::tcsetattr(descriptor, TCSANOW, &settings);
  }
  serials_.push_back(std::make_unique<Serial>(*this, descriptor));
  return std::vector{endpoint};
}

void Server::listen_at(int descriptor, std::string path) {
  auto& listener = listeners_.emplace_back(Listener{descriptor, std::move(path), {}});
  listener.watch = loop_->add_descriptor(descriptor, POLLIN, [this, descriptor](short) { accept_at(descriptor); });
}

void Server::accept_at(int listener) {
  const int descriptor = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (descriptor < 0) return;
  const auto strangers = static_cast<std::size_t>(
      std::count_if(connections_.begin(), connections_.end(), [](const auto& other) { return other->stranger(); }));
  if (connections_.size() >= bounds_.most_connections || strangers >= bounds_.most_strangers) {
    const std::string line =
        error_line("null", {EUSERS, "the connection limit is reached; close another connection"}) + "\n";
    static_cast<void>(put(descriptor, line.data(), line.size()));
    ::close(descriptor);
    return;
  }
  // Fails on Unix sockets, which do not need these options.
  const int yes = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  ::setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  auto& connection = connections_.emplace_back();
  connection = std::make_unique<Connection>(*this, descriptor, [this, raw = &connection] { remove(raw->get()); });
  if (settings_->secret) connection->limit_stranger();
}

void Server::remove(Connection* connection) {
  const auto found = std::find_if(connections_.begin(), connections_.end(),
                                  [&](const auto& other) { return other.get() == connection; });
  const int descriptor = connection->descriptor();
  found->reset();
  connections_.erase(found);
  ::close(descriptor);
}

}  // namespace rdmawire::agent
