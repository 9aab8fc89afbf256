#include "replay/wires/unix.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <vector>

#include "replay/wires/descriptor.hpp"
#include "replay/wires/error.hpp"
#include "replay/wires/sending.hpp"

namespace rdmawire::replay {
namespace {

constexpr std::size_t unix_batch = 32;
constexpr int unix_buffer_bytes = 4 << 20;
constexpr std::size_t longest_path = sizeof(sockaddr_un{}.sun_path) - 1;

WireResult<sockaddr_un> address_of(const std::string& name, const std::string& path) {
  if (path.size() > longest_path)
    return tl::unexpected(wire_error(WireError::Kind::specification, ENAMETOOLONG,
                                     "{}: the path {} has {} bytes, the maximum for a Unix socket is {}; use a shorter "
                                     "directory or a path relative to it",
                                     name, path, path.size(), longest_path));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, longest_path);
  return address;
}

Descriptor datagram_socket() { return Descriptor(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

int connect_to(int descriptor, const sockaddr_un& address) {
  return connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
}

class UnixWire final : public Wire {
 public:
  static WireResult<std::unique_ptr<Wire>> open(const UnixWireOptions& options);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] const WireCapabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] int descriptor() const override { return in_.get(); }
  [[nodiscard]] WireCounters counters() const override { return counters_; }

  using Wire::send;
  WireResult<std::size_t> send(std::span<const Outgoing> frames) override {
    if (!in_) return tl::unexpected(closed_error(name_));
    return send_when_due(frames, unix_batch, [this](std::span<const Outgoing> run) { return hand_over(run); });
  }
  WireResult<bool> writable(std::int64_t deadline) override;
  WireResult<std::optional<Received>> receive(std::int64_t deadline) override;
  void close() override;
  ~UnixWire() override { close(); }

 private:
  UnixWire() = default;
  WireResult<void> listen(unsigned mode);
  WireResult<void> reach();
  WireResult<std::size_t> hand_over(std::span<const Outgoing> frames);
  WireError gone(int number) const;

  std::string name_, local_path_, remote_path_;
  sockaddr_un local_{}, remote_{};
  WireCapabilities capabilities_;
  WireCounters counters_;
  // Two sockets: poll() reports queue space only for a connected socket, and a socket connected to a closed peer cannot
  // send to its successor.
  Descriptor in_, out_;
  bool reached_ = false;
  struct stat file_ {};

  struct Waiting {
    std::uint32_t bytes = 0, wire_bytes = 0;
    std::int64_t time = 0;
  };
  std::vector<std::uint8_t> room_;
  std::array<Waiting, unix_batch> waiting_;
  std::size_t next_ = 0, count_ = 0;
  std::int64_t last_time_ = 0;
};

WireResult<void> UnixWire::listen(unsigned mode) {
  const auto wrong = [&](int number, std::string_view hint) {
    const auto kind = number == EACCES || number == EPERM ? WireError::Kind::forbidden
                      : number == ENOENT                  ? WireError::Kind::missing
                                                          : WireError::Kind::system;
    return tl::unexpected(
        wire_error(kind, number, "{}: listen on {}: {}{}", name_, local_path_, errno_text(number), hint));
  };
  in_ = datagram_socket();
  if (!in_) return wrong(errno, "");
  // Sets the mode of the socket file directly, because the umask applies to the whole process.
  if (fchmod(in_.get(), mode) != 0) return wrong(errno, "");
  const auto bind_it = [&] {
    return bind(in_.get(), reinterpret_cast<const sockaddr*>(&local_), sizeof local_) == 0 ? 0 : errno;
  };
  int number = bind_it();
  if (number == EADDRINUSE) {
    struct stat there {};
    if (lstat(local_path_.c_str(), &there) == 0 && !S_ISSOCK(there.st_mode))
      return wrong(EEXIST, "; the file is not a socket; use local=OWN for another path");
    const Descriptor probe = datagram_socket();
    const int answer = connect_to(probe.get(), local_);
    if (answer == ECONNREFUSED)
      unlink(local_path_.c_str());
    else if (answer != ENOENT)
      return wrong(answer ? answer : number,
                   "; another program listens there; stop it or use local=OWN for another path");
    number = bind_it();
  }
  if (number == ENOENT) return wrong(number, "; create its directory first");
  if (number != 0) return wrong(number, "");
  if (chmod(local_path_.c_str(), mode) != 0 || lstat(local_path_.c_str(), &file_) != 0) return wrong(errno, "");
  return {};
}

WireResult<std::unique_ptr<Wire>> UnixWire::open(const UnixWireOptions& options) {
  std::unique_ptr<UnixWire> wire(new UnixWire());
  wire->name_ = options.name.empty() ? "unix:" + options.path : options.name;
  wire->remote_path_ = options.path;
  const std::string local = options.local.empty() ? options.path + ".peer" : options.local;
  if (options.path == local)
    return tl::unexpected(wire_error(WireError::Kind::specification, 0,
                                     "{}: both ends have the path {}; they must differ", wire->name_, local));
  const auto remote_address = address_of(wire->name_, options.path);
  if (!remote_address) return tl::unexpected(remote_address.error());
  const auto local_address = address_of(wire->name_, local);
  if (!local_address) return tl::unexpected(local_address.error());
  wire->remote_ = *remote_address;
  wire->local_ = *local_address;
  wire->local_path_ = local;
  wire->capabilities_.max_bytes = options.max_bytes;
  wire->capabilities_.min_bytes = 14;
  wire->capabilities_.batch = unix_batch;
  if (auto listening = wire->listen(options.mode); !listening) {
    // The file is not owned or was not created.
    return tl::unexpected(listening.error());
  }
  const int on = 1;
  setsockopt(wire->in_.get(), SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
  // A larger buffer than the system's limit requires a privilege. Otherwise the limit applies.
  if (setsockopt(wire->in_.get(), SOL_SOCKET, SO_RCVBUFFORCE, &unix_buffer_bytes, sizeof unix_buffer_bytes) != 0)
    setsockopt(wire->in_.get(), SOL_SOCKET, SO_RCVBUF, &unix_buffer_bytes, sizeof unix_buffer_bytes);
  wire->room_.resize(unix_batch * options.max_bytes);
  return std::unique_ptr<Wire>(std::move(wire));
}

WireError UnixWire::gone(int number) const {
  return wire_error(WireError::Kind::down, number, "{}: send to {}: {}; no process listens there; start the peer",
                    name_, remote_path_, errno_text(number));
}

// Connects the sending socket to the current socket at the path.
WireResult<void> UnixWire::reach() {
  if (reached_) return {};
  out_ = datagram_socket();
  if (!out_)
    return tl::unexpected(
        wire_error(WireError::Kind::system, errno, "{}: making a socket: {}", name_, errno_text(errno)));
  if (setsockopt(out_.get(), SOL_SOCKET, SO_SNDBUFFORCE, &unix_buffer_bytes, sizeof unix_buffer_bytes) != 0)
    setsockopt(out_.get(), SOL_SOCKET, SO_SNDBUF, &unix_buffer_bytes, sizeof unix_buffer_bytes);
  const int number = connect_to(out_.get(), remote_);
  if (number == 0) {
    reached_ = true;
    return {};
  }
  if (number == ECONNREFUSED || number == ENOENT) return tl::unexpected(gone(number));
  if (number == EACCES || number == EPERM)
    return tl::unexpected(wire_error(WireError::Kind::forbidden, number,
                                     "{}: send to {}: {}; write permission for the socket is missing", name_,
                                     remote_path_, errno_text(number)));
  return tl::unexpected(wire_error(number == EPROTOTYPE ? WireError::Kind::unsupported : WireError::Kind::system,
                                   number, "{}: send to {}: {}{}", name_, remote_path_, errno_text(number),
                                   number == EPROTOTYPE ? "; the peer must use a datagram socket" : ""));
}

WireResult<std::size_t> UnixWire::hand_over(std::span<const Outgoing> frames) {
  std::array<mmsghdr, unix_batch> messages{};
  std::array<iovec, unix_batch> pieces;
  std::size_t count = 0;
  for (; count < frames.size(); ++count) {
    const Bytes frame = frames[count].frame;
    if (frame.size() < capabilities_.min_bytes || frame.size() > capabilities_.max_bytes) {
      if (count > 0) break;
      return tl::unexpected(wire_error(WireError::Kind::frame, EMSGSIZE,
                                       "{}: frame of {} bytes; the valid range is {} to {}", name_, frame.size(),
                                       capabilities_.min_bytes, capabilities_.max_bytes));
    }
    pieces[count] = {const_cast<std::uint8_t*>(frame.data()), frame.size()};
    messages[count].msg_hdr.msg_iov = &pieces[count];
    messages[count].msg_hdr.msg_iovlen = 1;
  }
  // A restarted peer has a new socket: reconnect and retry once.
  for (int attempt = 0;; ++attempt) {
    if (auto reached = reach(); !reached) return tl::unexpected(reached.error());
    const int sent = sendmmsg(out_.get(), messages.data(), static_cast<unsigned>(count), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      for (int i = 0; i < sent; ++i) counters_.sent_bytes += frames[static_cast<std::size_t>(i)].frame.size();
      counters_.sent += static_cast<std::uint64_t>(sent);
      return static_cast<std::size_t>(sent);
    }
    const int number = errno;
    if (number == EAGAIN || number == ENOBUFS || number == ENOMEM || number == EINTR) return 0;
    if (number == ECONNREFUSED || number == ENOTCONN || number == ECONNRESET || number == EPIPE || number == ENOENT) {
      reached_ = false;
      if (attempt == 0) continue;
      return tl::unexpected(gone(number));
    }
    return tl::unexpected(wire_error(number == EMSGSIZE ? WireError::Kind::frame : WireError::Kind::system, number,
                                     "{}: send {} bytes to {}: {}", name_, frames.front().frame.size(), remote_path_,
                                     errno_text(number)));
  }
}

WireResult<bool> UnixWire::writable(std::int64_t deadline) {
  if (!in_) return tl::unexpected(closed_error(name_));
  if (auto reached = reach(); !reached) return tl::unexpected(reached.error());
  return wire_clock::wait_for(out_.get(), POLLOUT, deadline);
}

WireResult<std::optional<Received>> UnixWire::receive(std::int64_t deadline) {
  if (!in_) return tl::unexpected(closed_error(name_));
  while (next_ == count_) {
    std::array<mmsghdr, unix_batch> messages{};
    std::array<iovec, unix_batch> pieces;
    struct alignas(cmsghdr) Control {
      std::array<char, CMSG_SPACE(sizeof(timespec))> bytes;
    };
    std::array<Control, unix_batch> controls;
    for (std::size_t i = 0; i < unix_batch; ++i) {
      pieces[i] = {room_.data() + i * capabilities_.max_bytes, capabilities_.max_bytes};
      messages[i].msg_hdr.msg_iov = &pieces[i];
      messages[i].msg_hdr.msg_iovlen = 1;
      messages[i].msg_hdr.msg_control = &controls[i];
      messages[i].msg_hdr.msg_controllen = sizeof(Control);
    }
    const int got = recvmmsg(in_.get(), messages.data(), unix_batch, MSG_DONTWAIT | MSG_TRUNC, nullptr);
    if (got < 0) {
      const int number = errno;
      if (number == EINTR) continue;
      if (number != EAGAIN)
        return tl::unexpected(wire_error(WireError::Kind::system, number, "{}: receive at {}: {}", name_, local_path_,
                                         errno_text(number)));
      if (!wire_clock::wait_for(in_.get(), POLLIN, deadline)) return std::nullopt;
      continue;
    }
    next_ = 0;
    count_ = static_cast<std::size_t>(got);
    const std::int64_t now = wire_clock::now(), shift = wire_clock::minus_realtime();
    for (std::size_t i = 0; i < count_; ++i) {
      Waiting& frame = waiting_[i];
      frame.wire_bytes = messages[i].msg_len;
      frame.bytes = std::min(frame.wire_bytes, capabilities_.max_bytes);
      frame.time = now;
      for (cmsghdr* c = CMSG_FIRSTHDR(&messages[i].msg_hdr); c; c = CMSG_NXTHDR(&messages[i].msg_hdr, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
          timespec stamp;
          std::memcpy(&stamp, CMSG_DATA(c), sizeof stamp);
          frame.time = std::min(now, stamp.tv_sec * std::int64_t{1'000'000'000} + stamp.tv_nsec + shift);
        }
      last_time_ = frame.time = std::max(frame.time, last_time_);
      ++counters_.received;
      counters_.received_bytes += frame.wire_bytes;
    }
  }
  const Waiting& frame = waiting_[next_];
  return Received{Bytes(room_).subspan(next_++ * capabilities_.max_bytes, frame.bytes), frame.time, frame.wire_bytes,
                  false};
}

void UnixWire::close() {
  if (!in_) return;
  // Keeps a file that another process created at the same path.
  struct stat there {};
  if (lstat(local_path_.c_str(), &there) == 0 && there.st_ino == file_.st_ino && there.st_dev == file_.st_dev)
    unlink(local_path_.c_str());
  in_ = {};
  out_ = {};
}

}  // namespace

WireResult<std::unique_ptr<Wire>> open_unix_wire(const UnixWireOptions& options) { return UnixWire::open(options); }

WireResult<std::unique_ptr<Wire>> open_unix_wire(const WireSpec& spec) {
  if (auto known =
          spec.check({{"local", true, "local socket path"}, {"mode", true, "mode of the local socket file, octal"}});
      !known)
    return tl::unexpected(known.error());
  UnixWireOptions options;
  options.name = spec.text;
  options.path = spec.address;
  options.local = spec.value("local").value_or("");
  if (const auto mode = spec.value("mode")) {
    const auto [end, error] = std::from_chars(mode->data(), mode->data() + mode->size(), options.mode, 8);
    if (error != std::errc() || end != mode->data() + mode->size() || options.mode > 0777)
      return tl::unexpected(
          specification_error(spec.text, fmt::format("mode={}: expected octal digits, for example mode=0660", *mode)));
  }
  return open_unix_wire(options);
}

}  // namespace rdmawire::replay
