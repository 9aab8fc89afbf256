#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <random>

#include "replay/peer/session_state.hpp"
#include "replay/rpc/events.hpp"
#include "replay/rpc/session_commands.hpp"

namespace rdmawire::peer {

using nlohmann::json;
using std::chrono::milliseconds;
using Clock = Deadline::Clock;

namespace {

constexpr std::size_t most_questions = 4096;
constexpr std::size_t most_outgoing_bytes = std::size_t{64} << 20;
constexpr std::size_t most_held_bytes = std::size_t{128} << 20;
constexpr milliseconds farewell{1000};
constexpr milliseconds least_silence{rpc::least_heartbeat_ms}, most_silence{rpc::most_heartbeat_ms};

/// A random id, different from those of earlier sessions.
std::string fresh_id() {
  std::random_device random;
  return fmt::format("hello-{:08x}{:08x}", random(), random());
}

milliseconds since(Clock::time_point begin) { return std::chrono::duration_cast<milliseconds>(Clock::now() - begin); }

PeerError broken(std::string what) {
  return peer_error(PeerError::Kind::lost, EPROTO, "protocol violation by the agent: " + std::move(what));
}

/// One line: {"id":1,"do":"alloc_pd","device":7}
PeerResult<std::string> compose(const json& id, std::string_view command, const json& arguments) {
  const auto unusable = [&](int number, std::string_view why) {
    return tl::unexpected(peer_error(PeerError::Kind::usage, number, fmt::format("{}: {}", command, why)));
  };
  if (!arguments.is_null() && !arguments.is_object()) return unusable(EINVAL, "the arguments are not a JSON object");
  if (arguments.contains("id") || arguments.contains("do"))
    return unusable(EINVAL, "\"id\" and \"do\" are reserved argument names");
  try {
    std::string line = fmt::format("{{\"id\":{},\"do\":{}", id.dump(), json(command).dump());
    if (!arguments.empty()) {
      line += ',';
      line += arguments.dump().substr(1);
    } else {
      line += '}';
    }
    if (line.size() > most_line_bytes)
      return unusable(EMSGSIZE, fmt::format("{} bytes exceed the line limit of {}", line.size(), most_line_bytes));
    return line + '\n';
  } catch (const json::exception&) {
    return unusable(EILSEQ, "a string argument is not valid UTF-8");
  }
}

}  // namespace

Session::Session(Descriptor stream, std::optional<TlsChannel> tls, Options options)
    : options_(std::move(options)),
      stream_(std::move(stream)),
      tls_(std::move(tls)),
      ready_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      last_heard_(Clock::now()),
      next_heartbeat_(Clock::now() + options_.heartbeat) {
  if (!stream_ || !ready_ || !wake_) {
    lose(peer_error(PeerError::Kind::lost, errno, fmt::format("cannot start the session: {}", std::strerror(errno))));
    return;
  }
  // Signals are handled by the threads of the program.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Session::~Session() { close(); }

PeerResult<void> Session::greet() {
  PeerResult<json> answer = tl::unexpected(PeerError{});
  {
    std::unique_lock lock(mutex_);
    hello_id_ = fresh_id();
    rpc::Hello hello{.controller = options_.controller};
    if (options_.heartbeat.count() > 0)
      hello.heartbeat_ms =
          static_cast<std::uint64_t>(std::clamp(options_.silence, least_silence, most_silence).count());
    auto line = compose(hello_id_, rpc::Hello::command().name, rpc::arguments_of(hello));
    if (!line) return tl::unexpected(line.error());
    // A previous user of the channel may have left an incomplete line. The agent ignores empty lines.
    line->insert(0, 1, '\n');
    if (auto written = write_line(std::move(*line)); !written) return written;
    const Deadline deadline = options_.timeout;
    changed_.wait_until(lock, deadline.time(), [&] { return hello_answer_ || lost_; });
    if (hello_answer_) {
      answer = std::move(*hello_answer_);
    } else if (lost_) {
      return tl::unexpected(*lost_);
    } else {
      return tl::unexpected(peer_error(PeerError::Kind::timeout, ETIMEDOUT,
                                       fmt::format("hello: no response within {} ms", options_.timeout.count())));
    }
  }
  if (!answer) return tl::unexpected(answer.error());
  if (!answer->is_object() || answer->value("protocol", json()) != rpc::protocol_version)
    return tl::unexpected(peer_error(
        PeerError::Kind::lost, EPROTONOSUPPORT,
        fmt::format("hello: unsupported protocol version, expected {}: {}", rpc::protocol_version, answer->dump())));
  hello_ = std::move(*answer);
  const std::lock_guard lock(mutex_);
  beating_ = true;
  wake();
  return {};
}

PeerResult<json> Session::call(std::string_view command, const json& arguments, Deadline deadline) {
  std::unique_lock lock(mutex_);
  const auto number = ask(command, arguments, ReplyDestination::by_call);
  if (!number) return tl::unexpected(number.error());
  return wait(lock, questions_.find(*number), deadline);
}

PeerResult<std::uint64_t> Session::send(std::string_view command, const json& arguments) {
  const std::lock_guard lock(mutex_);
  return ask(command, arguments, ReplyDestination::by_collect);
}

PeerResult<json> Session::collect(std::uint64_t number, Deadline deadline) {
  std::unique_lock lock(mutex_);
  const auto question = questions_.find(number);
  if (question == questions_.end() || question->second.wanted != ReplyDestination::by_collect)
    return tl::unexpected(peer_error(PeerError::Kind::usage, ENOENT,
                                     fmt::format("collect: unknown number {}, or already collected", number)));
  return wait(lock, question, deadline);
}

void Session::forget(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto question = questions_.find(number);
  if (question == questions_.end() || question->second.wanted != ReplyDestination::by_collect) return;
  if (question->second.answer) {
    (void)take(question);
  } else {
    question->second.wanted = ReplyDestination::nowhere;
  }
}

void Session::release(std::string_view command, const json& arguments) {
  const std::lock_guard lock(mutex_);
  if (lost_) return;
  if (auto asked = ask(command, arguments, ReplyDestination::release); !asked) {
    if (unattended_.count++ == 0) unattended_.first = asked.error();
  }
}

PeerResult<std::optional<Event>> Session::next_event(Deadline deadline, const Peer::EventFilter& filter) {
  std::unique_lock lock(mutex_);
  std::uint64_t seen = 0;  // the filter is called once per event
  for (;;) {
    for (auto event = events_.begin(); event != events_.end(); ++event) {
      if (event->serial <= seen) continue;
      seen = event->serial;
      if (filter && !filter(event->event)) continue;
      std::optional<Event> taken = std::move(event->event);
      held_bytes_ -= event->bytes;
      events_.erase(event);
      show_readiness();
      return taken;
    }
    if (lost_) return tl::unexpected(*lost_);
    if (Clock::now() >= deadline.time()) return std::nullopt;
    changed_.wait_until(lock, deadline.time());
  }
}

std::uint64_t Session::dropped_events() {
  const std::lock_guard lock(mutex_);
  return dropped_events_;
}

std::optional<PeerError> Session::lost() {
  const std::lock_guard lock(mutex_);
  return lost_;
}

Peer::ReleaseErrors Session::unattended() {
  const std::lock_guard lock(mutex_);
  return unattended_;
}

void Session::close() {
  std::call_once(closed_, [this] {
    {
      std::unique_lock lock(mutex_);
      if (!lost_ && greeted_)
        if (const auto bye = ask(rpc::Bye::command().name, nullptr, ReplyDestination::by_call); bye)
          (void)wait(lock, questions_.find(*bye), std::min(farewell, options_.timeout));
      stopping_ = true;
      wake();
    }
    if (thread_.joinable()) thread_.join();
    const std::lock_guard lock(mutex_);
    lose(peer_error(PeerError::Kind::lost, ENOTCONN, "the session is closed"));
    stream_ = Descriptor();
  });
}

PeerResult<std::uint64_t> Session::ask(std::string_view command, const json& arguments, ReplyDestination wanted) {
  if (lost_) {
    PeerError error = *lost_;
    error.message = fmt::format("{}: {}", command, error.message);
    return tl::unexpected(std::move(error));
  }
  if (questions_.size() >= most_questions)
    return tl::unexpected(
        peer_error(PeerError::Kind::usage, ENOBUFS,
                   fmt::format("{}: {} requests are pending or not collected", command, most_questions)));
  const std::uint64_t number = last_number_ + 1;
  auto line = compose(number, command, arguments);
  if (!line) return tl::unexpected(line.error());
  if (auto written = write_line(std::move(*line)); !written) return tl::unexpected(written.error());
  questions_.emplace(number, Question{std::string(command), wanted, std::nullopt, 0});
  last_number_ = number;
  return number;
}

PeerResult<void> Session::write_line(std::string line) {
  if (lost_) return tl::unexpected(*lost_);
  if (outgoing_.size() + line.size() > most_outgoing_bytes)
    return tl::unexpected(
        peer_error(PeerError::Kind::usage, ENOBUFS,
                   fmt::format("{} bytes wait to be sent; the agent does not read", outgoing_.size())));
  if (tls_) {
    tls_->send(line);
    outgoing_ += tls_->take_output();
  } else {
    outgoing_ += line;
  }
  wake();
  return {};
}

PeerResult<json> Session::wait(std::unique_lock<std::mutex>& lock, Questions::iterator question, Deadline deadline) {
  const auto begin = Clock::now();
  changed_.wait_until(lock, deadline.time(), [&] { return question->second.answer || lost_; });
  if (question->second.answer) return take(question);
  if (lost_) {
    PeerError error = *lost_;
    error.message = fmt::format("{}: {}", question->second.command, error.message);
    questions_.erase(question);
    return tl::unexpected(std::move(error));
  }
  if (question->second.wanted == ReplyDestination::by_call) question->second.wanted = ReplyDestination::nowhere;
  return tl::unexpected(peer_error(
      PeerError::Kind::timeout, ETIMEDOUT,
      fmt::format("{}: no response from the agent within {} ms", question->second.command, since(begin).count())));
}

PeerResult<json> Session::take(Questions::iterator question) {
  PeerResult<json> answer = std::move(*question->second.answer);
  held_bytes_ -= question->second.bytes;
  if (question->second.wanted == ReplyDestination::by_collect) --collectable_;
  questions_.erase(question);
  show_readiness();
  return answer;
}

void Session::lose(PeerError error) {
  if (lost_) return;
  lost_ = std::move(error);
  outgoing_.clear();
  ::shutdown(stream_.get(), SHUT_RDWR);
  show_readiness();
  changed_.notify_all();
}

void Session::hear(std::string_view line) {
  auto message = parse_message(line);
  if (!message) {
    if (greeted_) lose(broken(message.error()));
    return;
  }
  if (auto* answer = std::get_if<Answer>(&*message)) {
    hear(std::move(*answer), line.size());
  } else if (greeted_) {
    hear(std::move(std::get<Event>(*message)), line.size());
  }
}

void Session::hear(Answer answer, std::size_t bytes) {
  if (!greeted_) {
    if (answer.id.is_null() && !answer.result) early_error_ = answer.result.error();
    if (hello_id_.empty() || answer.id != hello_id_) return;
    greeted_ = true;
    hello_answer_ = std::move(answer.result);
    changed_.notify_all();
    return;
  }
  if (answer.id.is_null())
    return lose(broken("it could not parse a request: " +
                       (answer.result ? std::string("no reason given") : to_string(answer.result.error()))));
  const auto question =
      answer.id.is_number_unsigned() ? questions_.find(answer.id.get<std::uint64_t>()) : questions_.end();
  if (question == questions_.end() || question->second.answer)
    return lose(broken(fmt::format("response to unknown id {}", answer.id.dump().substr(0, 60))));

  Question& asked = question->second;
  switch (asked.wanted) {
    case ReplyDestination::heartbeat: heartbeat_open_ = false; [[fallthrough]];
    case ReplyDestination::release:
      if (!answer.result && unattended_.count++ == 0) unattended_.first = answer.result.error();
      [[fallthrough]];
    case ReplyDestination::nowhere: questions_.erase(question); return;
    case ReplyDestination::by_call: break;
    case ReplyDestination::by_collect: ++collectable_; break;
  }
  if (held_bytes_ + bytes > most_held_bytes) {
    answer.result = tl::unexpected(
        peer_error(PeerError::Kind::usage, ENOBUFS,
                   fmt::format("{}: response dropped, because {} bytes of responses and events are not fetched",
                               asked.command, held_bytes_)));
    bytes = 0;
  }
  asked.answer = std::move(answer.result);
  asked.bytes = bytes;
  held_bytes_ += bytes;
  show_readiness();
  changed_.notify_all();
}

void Session::hear(Event event, std::size_t bytes) {
  if (event.name == rpc::EndedEvent::event().name) {
    const auto ended = rpc::read_event<rpc::EndedEvent>(event.body);
    return lose(peer_error(PeerError::Kind::lost, ECONNRESET,
                           "the agent ended the session: " + (ended ? ended->why : std::string("no reason given"))));
  }
  while (!events_.empty() && (events_.size() >= options_.most_events || held_bytes_ + bytes > most_held_bytes)) {
    held_bytes_ -= events_.front().bytes;
    events_.pop_front();
    ++dropped_events_;
  }
  if (options_.most_events == 0 || held_bytes_ + bytes > most_held_bytes) {
    ++dropped_events_;
    return;
  }
  held_bytes_ += bytes;
  events_.push_back({std::move(event), bytes, ++last_serial_});
  show_readiness();
  changed_.notify_all();
}

void Session::show_readiness() {
  const bool is_ready = lost_ || !events_.empty() || collectable_ > 0;
  if (is_ready == shown_ready_ || !ready_) return;
  eventfd_t value = 0;
  if (is_ready) {
    ::eventfd_write(ready_.get(), 1);
  } else {
    ::eventfd_read(ready_.get(), &value);
  }
  shown_ready_ = is_ready;
}

void Session::wake() {
  if (wake_) ::eventfd_write(wake_.get(), 1);
}

void Session::run() {
  for (;;) {
    milliseconds pause{};
    bool writes = false;
    {
      const std::lock_guard lock(mutex_);
      pause = keep_alive();
      if (stopping_ || lost_) return;
      writes = !outgoing_.empty();
    }
    std::array<pollfd, 2> wait = {
        {{stream_.get(), static_cast<short>(writes ? POLLIN | POLLOUT : POLLIN), 0}, {wake_.get(), POLLIN, 0}}};
    if (::poll(wait.data(), wait.size(), static_cast<int>(pause.count())) < 0) continue;
    if (wait[1].revents != 0) {
      eventfd_t value = 0;
      ::eventfd_read(wake_.get(), &value);
    }
    if ((wait[0].revents & ~POLLOUT) != 0 && !read_some()) return;
    if ((wait[0].revents & POLLOUT) != 0) write_some();
  }
}

bool Session::read_some() {
  std::array<char, std::size_t{64} << 10> bytes;
  const ssize_t got = ::read(stream_.get(), bytes.data(), bytes.size());
  const int number = errno;
  if (got < 0 && (number == EAGAIN || number == EINTR)) return true;

  const std::lock_guard lock(mutex_);
  if (got <= 0) {
    if (!greeted_ && early_error_) {
      lose(std::move(*early_error_));
      return false;
    }
    lose(got == 0 ? peer_error(PeerError::Kind::lost, ECONNRESET, "the agent closed the connection")
                  : peer_error(PeerError::Kind::lost, number,
                               fmt::format("the connection to the agent: {}", std::strerror(number))));
    return false;
  }
  last_heard_ = Clock::now();
  std::string_view received(bytes.data(), static_cast<std::size_t>(got));
  std::string text;
  if (tls_) {
    const bool valid = tls_->receive(received, text);
    outgoing_ += tls_->take_output();
    received = text;
    if (!valid) {
      lose(broken(tls_->error()));
      return false;
    }
  }
  const auto state = lines_.append(received);
  while (!lost_) {
    const auto line = lines_.next();
    if (!line) break;
    hear(*line);
  }
  if (state == LineBuffer::State::overlong) lose(broken(fmt::format("line of more than {} bytes", most_line_bytes)));
  return !lost_;
}

void Session::write_some() {
  const std::lock_guard lock(mutex_);
  if (outgoing_.empty()) return;
  // Avoids SIGPIPE on sockets. Terminals do not raise it.
  ssize_t put = ::send(stream_.get(), outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (put < 0 && errno == ENOTSOCK) put = ::write(stream_.get(), outgoing_.data(), outgoing_.size());
  if (put >= 0) {
    outgoing_.erase(0, static_cast<std::size_t>(put));
  } else if (errno != EAGAIN && errno != EINTR && errno != EPIPE && errno != ECONNRESET) {
    lose(
        peer_error(PeerError::Kind::lost, errno, fmt::format("the connection to the agent: {}", std::strerror(errno))));
  } else if (errno == EPIPE || errno == ECONNRESET) {
    // The agent closed the connection: discard unsent data. Data that the agent sent before is still read, and then the
    // end of the stream.
    outgoing_.clear();
  }
}

milliseconds Session::keep_alive() {
  constexpr milliseconds at_most{60'000};
  if (options_.heartbeat.count() <= 0 || !beating_) return at_most;
  const auto now = Clock::now();
  if (now >= next_heartbeat_) {
    next_heartbeat_ = now + options_.heartbeat;
    if (!heartbeat_open_) {
      heartbeat_open_ = ask(rpc::Ping::command().name, nullptr, ReplyDestination::heartbeat).has_value();
      heartbeat_asked_ = now;
    } else if (now - std::max(last_heard_, heartbeat_asked_) > options_.silence) {
      lose(peer_error(PeerError::Kind::lost, ETIMEDOUT,
                      fmt::format("the agent is silent: no data for {} ms and no response to a heartbeat",
                                  since(std::max(last_heard_, heartbeat_asked_)).count())));
    }
  }
  return std::clamp(std::chrono::ceil<milliseconds>(next_heartbeat_ - now), milliseconds(1), at_most);
}

}  // namespace rdmawire::peer
