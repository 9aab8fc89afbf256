#include "conformance/agent/server.hpp"

#include <arpa/inet.h>
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
#include <map>

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

/// The part of a peer's address that one host or site controls: an IPv4 address, or an IPv6 /64.
std::string site_of(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
  }
  if (address.ss_family == AF_INET6) {
    in6_addr v6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    std::memset(v6.s6_addr + 8, 0, 8);
    return ::inet_ntop(AF_INET6, &v6, text, sizeof text);
  }
  return "local";
}

/// Queue of bytes that wait to be sent.
class Outbox {
 public:
  void add(std::string line) {
    line += '\n';
    add_bytes(std::move(line));
  }
  void add_bytes(std::string bytes) {
    if (bytes.empty()) return;
    bytes_ += bytes.size();
    lines_.push_back(std::move(bytes));
  }
  /// Writes as many bytes as the descriptor accepts, and adds their number to `went`. Returns false after an error.
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
  std::size_t begun_ = 0;  ///< number of bytes of the first line that are already written
};

}  // namespace

/// A socket or an open serial channel with its protocol state.
class Server::Connection {
 public:
  /// The peer's complete address, and the part that Admission uses (site_of).
  struct From {
    std::string address, site;
  };
  /// `tls`: nullptr for plain text. `gone` is called once, when the connection has ended. It may destroy this object.
  Connection(Server& server, int descriptor, From from, std::shared_ptr<const peer::TlsContext> tls,
             std::function<void()> gone)
      : server_(&server),
        descriptor_(descriptor),
        from_(std::move(from)),
        gone_(std::move(gone)),
        conversation_(
            *server.loop_, *server.settings_, [this](std::string line) { say(std::move(line)); },
            [this] { return ending_ || closing_ || out_.bytes() >= server_->bounds_.enough_unread; }) {
    if (tls) tls_.emplace(std::move(tls));
    watch_ = server.loop_->add_descriptor(descriptor, 0, [this](short events) { ready(events); });
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] const std::string& address() const { return from_.address; }
  [[nodiscard]] const std::string& site() const { return from_.site; }
  /// Returns whether the peer is not authenticated. Without TLS: whether it has no session.
  [[nodiscard]] bool stranger() const { return tls_ ? !tls_->established() : conversation_.session() == nullptr; }
  /// Returns whether the connection waits for start(). Until then, it reads nothing.
  [[nodiscard]] bool held() const { return held_; }
  void start() {
    held_ = false;
    watch_.set_events(POLLIN);
  }
  /// Closes the connection if it is not authenticated in time.
  void limit_stranger() {
    stranger_ = server_->loop_->add_timer_in(server_->bounds_.stranger_time, [this] {
      if (!stranger()) return;
      if (tls_) server_->log(from_.address, "no authentication in time");
      end();
    });
  }

 private:
  /// Logs the reason and closes the connection after the pending output.
  void reject(std::string_view why) {
    server_->log(from_.address, why);
    closing_ = true;
  }

  void receive(std::string_view bytes) {
    if (!tls_) {
      if (first_ && peer::looks_like_tls(bytes)) {
        out_.add(error_line("null", {EPROTO, "the agent uses no TLS; start it with --credentials"}));
        return reject("the controller uses TLS, but the agent was started without --credentials");
      }
      first_ = false;
      return conversation_.receive(bytes);
    }
    const bool stranger = !tls_->established();
    std::string text;
    const bool valid = tls_->receive(bytes, text);
    out_.add_bytes(tls_->take_output());
    if (stranger && tls_->established()) {
      server_->admission_.succeed(from_.site);
      server_->admit();
    }
    if (!text.empty()) conversation_.receive(text);
    if (!valid) {
      // A controller that uses no TLS can read an error message in plain text.
      if (tls_->peer_sends_plain_text())
        out_.add(error_line("null", {EACCES, "the agent requires TLS; specify the credentials"}));
      if (!tls_->established()) server_->admission_.fail(from_.site, server_->loop_->now());
      reject(tls_->error());
    } else if (tls_->closed()) {
      end();
    } else if (!tls_->established() && (handshake_ += bytes.size()) > server_->bounds_.most_handshake) {
      reject("too many bytes before authentication");
    }
  }

  void say(std::string line) {
    if (ending_) return;
    if (tls_) {
      line += '\n';
      tls_->send(line);
      out_.add_bytes(tls_->take_output());
    } else {
      out_.add(std::move(line));
    }
    if (out_.bytes() > server_->bounds_.most_unread) return end();
    // Deferred to a timer of this turn, because the caller may be in the middle of an operation.
    if (!flush_) flush_ = server_->loop_->add_timer_in(0, [this] { flush(); });
  }

  void flush() {
    flush_.stop();
    if (ending_) return;
    std::size_t went = 0;
    if (!out_.write_to(descriptor_, went)) return end();
    if (out_.empty()) {
      if (closing_) return end();
      stalled_.stop();
    } else if (went > 0 || !stalled_) {
      stalled_ = server_->loop_->add_timer_in(server_->bounds_.unread_time, [this] { end(); });
    }
    if (out_.bytes() < server_->bounds_.enough_unread && conversation_.waiting() > 0) conversation_.resume();
    listen();
  }

  void listen() {
    const bool enough = closing_ || out_.bytes() >= server_->bounds_.enough_unread;
    watch_.set_events(static_cast<short>((enough ? 0 : POLLIN) | (out_.empty() ? 0 : POLLOUT)));
  }

  void ready(short events) {
    if (ending_) return;
    if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) {
      std::array<char, 65536> bytes;
      const ssize_t got = ::read(descriptor_, bytes.data(), bytes.size());
      if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return end();
      if (got > 0) receive({bytes.data(), static_cast<std::size_t>(got)});
      if (ending_) return;
      // After a hangup, the peer cannot receive responses.
      if (got < 0 && (events & POLLHUP) != 0) return end();
    }
    flush();
  }

  /// Ends the connection. The object is removed in the next turn, because a function of conversation_ may be running.
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
  From from_;
  std::function<void()> gone_;
  std::optional<peer::TlsChannel> tls_;
  bool first_ = true;          ///< nothing was received yet
  std::size_t handshake_ = 0;  ///< bytes received before authentication
  Outbox out_;
  bool held_ = true;
  bool closing_ = false;  ///< true: the connection ends when the pending output is sent
  bool ending_ = false;
  Loop::Watch watch_, flush_, stalled_, stranger_, end_;
  Conversation conversation_;  // last member: destroyed first, because its destructor may send
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
      connection_ =
          std::make_unique<Connection>(*server_, descriptor_, Connection::From{}, nullptr, [this] { rest(); });
      connection_->start();
    }
  }
  /// Closes the channel, and opens it again after a pause. Without the pause, a channel whose other end is closed would
  /// be opened and closed continuously if it reports end of file without POLLHUP.
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
    : loop_(&loop), settings_(&settings), bounds_(bounds), admission_(bounds.admission) {}

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
  if (!settings_->tls) {
    for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
      if (is_loopback(*at->ai_addr)) continue;
      return fail(EACCES, "{}: {} is reachable from other hosts and requires --credentials", endpoint,
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
      // Ignore an unavailable address if there is another one: localhost resolves to ::1 even on hosts without IPv6.
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
    // If the socket file refuses connections, it was left by a killed process. Replace it.
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
  listener.watch = loop_->add_descriptor(
      descriptor, POLLIN, [this, descriptor, local = !listener.path.empty()](short) { accept_at(descriptor, local); });
}

void Server::accept_at(int listener, bool local) {
  sockaddr_storage from{};
  socklen_t length = sizeof from;
  const int descriptor = ::accept4(listener, reinterpret_cast<sockaddr*>(&from), &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (descriptor < 0) return;
  const auto strangers = static_cast<std::size_t>(
      std::count_if(connections_.begin(), connections_.end(), [](const auto& other) { return other->stranger(); }));
  const bool full = connections_.size() >= bounds_.most_connections || strangers >= bounds_.most_strangers;
  const std::string address = local ? "unix" : name_of(reinterpret_cast<const sockaddr&>(from), length);
  if (full && !drop_stranger()) {
    // The message is plain text even if the agent uses TLS, because no TLS session is established yet.
    const std::string line = error_line("null", {EUSERS, "the connection limit of the agent is reached"}) + "\n";
    static_cast<void>(put(descriptor, line.data(), line.size()));
    ::close(descriptor);
    return log(address, "the connection limit is reached");
  }
  // On Unix sockets, the first call fails. They do not need the option.
  const int yes = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  ::setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  auto& connection = connections_.emplace_back();
  connection =
      std::make_unique<Connection>(*this, descriptor, Connection::From{address, site_of(from)},
                                   local ? nullptr : settings_->tls, [this, raw = &connection] { remove(raw->get()); });
  connection->limit_stranger();
  admit();
}

bool Server::drop_stranger() {
  std::map<std::string, std::size_t> strangers;
  for (const auto& connection : connections_) {
    if (connection->stranger()) ++strangers[connection->site()];
  }
  Connection* dropped = nullptr;
  for (const auto& connection : connections_) {
    if (!connection->stranger()) continue;
    if (dropped == nullptr || strangers[connection->site()] > strangers[dropped->site()]) dropped = connection.get();
  }
  if (dropped == nullptr) return false;
  log(dropped->address(), "replaced by a newer connection before authentication");
  remove(dropped);
  return true;
}

void Server::admit() {
  const Loop::Time now = loop_->now();
  std::optional<Loop::Time> next;
  for (auto at = connections_.rbegin(); at != connections_.rend(); ++at) {
    Connection& connection = **at;
    if (!connection.held()) continue;
    const Loop::Time time = admission_.next_attempt(connection.site(), now);
    if (time <= now) {
      admission_.start(connection.site(), now);
      connection.start();
    } else {
      next = std::min(next.value_or(time), time);
    }
  }
  admit_.stop();
  if (next) admit_ = loop_->add_timer(*next, [this] { admit(); });
}

void Server::log(const std::string& address, std::string_view why) {
  if (!settings_->log) return;
  const Loop::Time now = loop_->now();
  if (now < next_log_) {
    ++omitted_logs_;
    return;
  }
  next_log_ = now + 1000 * Loop::millisecond;
  std::string line = fmt::format("{}: rejected: {}", address, why);
  if (omitted_logs_ > 0) line += fmt::format(" ({} other rejected connections since the last message)", omitted_logs_);
  omitted_logs_ = 0;
  settings_->log(std::move(line));
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
