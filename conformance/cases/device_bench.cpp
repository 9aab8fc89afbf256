#include "conformance/cases/device_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace rdmawire::conformance {

namespace {

/// Describes the first difference of two byte sequences.
std::string difference(const peer::ByteVector& found, const std::string& expected) {
  for (std::size_t i = 0; i < found.size() && i < expected.size(); ++i)
    if (found[i] != static_cast<std::uint8_t>(expected[i]))
      return fmt::format("byte {} is {:#04x} instead of {:#04x}", i, found[i], static_cast<std::uint8_t>(expected[i]));
  return fmt::format("{} bytes instead of {}", found.size(), expected.size());
}

bool same(const peer::ByteVector& found, const std::string& expected) {
  return std::equal(found.begin(), found.end(), expected.begin(), expected.end(),
                    [](std::uint8_t a, char b) { return a == static_cast<std::uint8_t>(b); });
}

double milliseconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e6; }

bool is_progress(const std::string& type) { return type == "addr_resolved" || type == "route_resolved"; }

}  // namespace

std::string text_of(const peer::Completion& completion) {
  return fmt::format("completion of {} with {}", completion.wr_id, completion.status);
}

void DeviceBench::refused(const peer::PeerError& error, const std::string& what) {
  const bool lacking = error.number == EOPNOTSUPP || error.number == ENOSYS || error.number == ENOTSUP;
  end_case(lacking ? Verdict::unsupported : Verdict::error, fmt::format("{}: {}", what, error.message));
}

void DeviceBench::is_refusal(const peer::PeerError& error, const std::string& what) {
  if (error.kind != peer::PeerError::Kind::refused) refused(error, what);
  constexpr std::array other_reasons{ENOMEM, ENODEV, EIO, EAGAIN, EINTR, EFAULT, EBADF};
  if (std::ranges::find(other_reasons, error.number) != other_reasons.end())
    end_case(Verdict::inconclusive, fmt::format("{}: refused for another reason: {}", what, error.message));
}

void DeviceBench::is_error_of(const peer::PeerError& error, std::initializer_list<int> errors,
                              const std::string& what) {
  std::string expected = what + " is refused with";
  const char* separator = " ";
  for (const int number : errors) {
    expected += separator + std::string(strerrorname_np(number));
    separator = " or ";
  }
  story_.require(std::ranges::find(errors, error.number) != errors.end(), expected, error.message,
                 Verdict::fail_wrong_code);
}

const peer::ProtectionDomain& DeviceBench::domain(std::size_t number) {
  while (domains_.size() <= number)
    domains_.push_back(take(device_.device->protection_domain(), "a protection domain"));
  return domains_[number];
}

peer::Region DeviceBench::region(std::uint64_t bytes, const peer::Names& access, std::size_t in) {
  if (!std::exchange(has_region_, true)) {
    constexpr std::size_t second = 1, after_another = 2;
    const std::size_t position = environment_->take(Parameter::region);
    const auto other = [&] { return take(domain(in).region(4096, access), "another memory region"); };
    if (position == second) other_region_ = other();
    if (position == after_another) static_cast<void>(other());  // deregistered immediately
  }
  return take(domain(in).region(bytes, access),
              fmt::format("a memory region of {} bytes: {}", bytes, fmt::join(access, ", ")));
}

std::optional<std::uint64_t> DeviceBench::counter(std::initializer_list<const char*> names) {
  const auto all = counters();
  std::optional<std::uint64_t> sum;
  for (const char* name : names)
    if (const auto found = all.find(name); found != all.end()) sum = sum.value_or(0) + found->second;
  return sum;
}

void DeviceBench::tells(const std::string& event, const std::string& kind, std::uint64_t handle) {
  const auto about = [&](const peer::Event& candidate) {
    return candidate.name == "async" && candidate.body.value("type", "") == event &&
           candidate.body.value(kind, std::uint64_t{0}) == handle;
  };
  const bool came = next_event(story_.patience().answer, about).has_value();
  story_.require(came, fmt::format("the asynchronous event {} of the {}", event, kind), "no event");
}

std::optional<peer::Event> DeviceBench::next_event(std::int64_t for_ns, const peer::Peer::EventFilter& filter) {
  constexpr std::int64_t a_while = 2'000'000;
  const std::int64_t until = story_.now() + for_ns;
  for (;;) {
    // A device in virtual time reports pending events with its next reply.
    if (const auto alive = device_.peer->call("ping"); !alive) refused(alive.error(), "wait for an event");
    auto event = device_.peer->next_event(std::chrono::milliseconds(0), filter);
    if (!event) refused(event.error(), "wait for an event");
    if (*event || story_.now() >= until) return std::move(*event);
    story_.pass(a_while);
  }
}

BoundWindow ask_for_window(DeviceBench& bench, DeviceQueuePair& through, std::uint64_t offset, std::uint64_t length,
                           const peer::Names& access, std::uint64_t wr_id) {
  BoundWindow bound{.window = bench.take(bench.domain().memory_window(2), "a memory window of type 2")};
  // The application chooses the lowest byte of a type 2 window's key.
  bound.rkey = (bound.window.rkey() & ~0xffU) | ((bound.window.rkey() + 1) & 0xff);
  through.post({.opcode = "bind_mw",
                .wr_id = wr_id,
                .more = {{"mw", bound.window.handle()},
                         {"mr", through.region.handle()},
                         {"new_rkey", bound.rkey},
                         {"addr", through.region.addr() + offset},
                         {"length", length},
                         {"access", access}}});
  return bound;
}

BoundWindow DeviceBench::bind_window(DeviceQueuePair& through, std::uint64_t offset, std::uint64_t length,
                                     const peer::Names& access) {
  constexpr std::uint64_t bind_wr_id = 0xb1d;
  BoundWindow bound = ask_for_window(*this, through, offset, length, access, bind_wr_id);
  through.completes(bind_wr_id);
  return bound;
}

void DeviceBench::holds(const peer::Region& region, std::uint64_t offset, const std::string& expected) {
  const auto found = take(region.read(offset, expected.size()), "read the memory region");
  story_.require(same(found, expected),
                 fmt::format("{} bytes as expected at offset {} of the memory region", expected.size(), offset),
                 difference(found, expected));
}

peer::CmConnection DeviceBench::requested(const peer::Listener& listener) {
  return wait_for("the request", story_.patience().answer,
                  [&] { return listener.request(std::chrono::milliseconds(0)); });
}

peer::CmEvent DeviceBench::expect_event(const peer::CmConnection& connection, const std::string& type,
                                        std::int64_t within_ns) {
  for (;;) {
    peer::CmEvent event = wait_for(type, within_ns ? within_ns : story_.patience().answer,
                                   [&] { return connection.next_event(std::chrono::milliseconds(0)); });
    if (event.type != type && is_progress(event.type)) continue;
    story_.require(event.type == type, fmt::format("application notified: {}", type), event.body.dump());
    return event;
  }
}

void DeviceBench::no_sooner(std::int64_t earlier, std::int64_t later, std::int64_t least, const std::string& what) {
  story_.require(later - earlier >= least, fmt::format("{} after {:.3f} ms at the earliest", what, milliseconds(least)),
                 fmt::format("after {:.3f} ms", milliseconds(later - earlier)));
}

std::vector<peer::Piece> DeviceQueuePair::pieces_of(const peer::Region& region, std::uint64_t offset,
                                                    std::uint32_t length, std::uint32_t count) {
  count = std::clamp<std::uint32_t>(count, 1, std::max<std::uint32_t>(1, length));
  std::vector<peer::Piece> pieces;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t begin = length / count * i, end = i + 1 == count ? length : length / count * (i + 1);
    pieces.push_back(region.piece(offset + begin, end - begin));
  }
  return pieces;
}

void DeviceQueuePair::post_receives(std::uint32_t count) {
  std::vector<peer::ReceiveRequest> requests;
  for (std::uint32_t i = 0; i < count; ++i, ++posted_receives_)
    requests.push_back({posted_receives_, pieces_of(inbox, std::uint64_t{posted_receives_} * receive_bytes,
                                                    receive_bytes, receive_sges)});
  device_->take(srq.handle() != 0 ? srq.post_recv(requests) : qp.post_recv(requests),
                fmt::format("{} receive requests of {} bytes", count, receive_bytes));
}

void DeviceQueuePair::post(peer::SendRequest request) {
  const std::string what = fmt::format("send request {}: {}", request.wr_id, request.opcode);
  device_->take(qp.post_send({std::move(request)}), what);
}

peer::Completion DeviceQueuePair::completes(std::uint64_t wr_id, const std::string& status) {
  auto found = device_->take(completions().poll(1, device_->answer_time()), "poll for a completion");
  const std::string expected = fmt::format("completion of {} with {}", wr_id, status);
  device_->story().require(!found.empty() && found.front().wr_id == wr_id, expected,
                           found.empty() ? "no completion" : text_of(found.front()));
  const bool other_error = status != "success" && !found.front().good();
  device_->story().require(found.front().status == status, expected, text_of(found.front()),
                           other_error ? Verdict::fail_wrong_code : Verdict::fail);
  return found.front();
}

void DeviceQueuePair::completes_nothing() {
  const auto found = device_->take(completions().poll(1, device_->silence_time()), "poll for a completion");
  device_->story().require(found.empty(), "no completion", found.empty() ? "" : text_of(found.front()));
}

peer::Completion DeviceQueuePair::completes_badly(std::uint64_t wr_id, bool or_flushed) {
  auto found = device_->take(completions().poll(1, device_->answer_time()), "poll for a completion");
  const bool as_expected = !found.empty() && found.front().wr_id == wr_id && !found.front().good() &&
                           (or_flushed || found.front().status != "wr_flush_err");
  device_->story().require(
      as_expected,
      fmt::format("completion of {} with {}", wr_id, or_flushed ? "an error" : "an error other than flushed"),
      found.empty() ? "no completion" : text_of(found.front()));
  device_->story().note(text_of(found.front()));
  return found.front();
}

peer::Completion DeviceQueuePair::fails(std::uint64_t wr_id) { return completes_badly(wr_id, false); }

peer::Completion DeviceQueuePair::fails_or_is_flushed(std::uint64_t wr_id) { return completes_badly(wr_id, true); }

void DeviceQueuePair::flushes(std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t wr_id = first; wr_id <= last; ++wr_id) completes(wr_id, "wr_flush_err");
}

void DeviceQueuePair::is_in(const std::string& state) {
  const std::int64_t until = device_->story().now() + device_->story().patience().answer;
  std::string found;
  do {
    found = device_->take(qp.state(), "query the QP");
    if (found == state) break;
    device_->story().pass(device_->story().patience().silence / 5);
  } while (device_->story().now() < until);
  device_->story().require(found == state, fmt::format("the QP in state {}", state), fmt::format("state {}", found));
}

void DeviceQueuePair::ask_for_notification(bool solicited_only) {
  device_->take(completions().notify(solicited_only),
                solicited_only ? "request a notification of solicited completions" : "request a notification");
}

void DeviceQueuePair::is_notified(bool expected) {
  const auto of_this_queue = [handle = completions().handle()](const peer::Event& event) {
    return event.name == "completion" && event.body.value("cq", std::uint64_t{0}) == handle;
  };
  const std::int64_t within = expected ? device_->story().patience().answer : device_->story().patience().silence;
  const bool came = device_->next_event(within, of_this_queue).has_value();
  const auto words = [](bool yes) { return yes ? "a notification of the completion queue" : "no notification"; };
  device_->story().require(came == expected, words(expected), words(came));
}

void DeviceQueuePair::holds(std::uint64_t offset, const std::string& expected) {
  device_->holds(region, offset, expected);
}

void DeviceQueuePair::received(std::uint64_t wr_id, const std::string& expected) {
  const auto found = device_->take(inbox.read(wr_id * receive_bytes, expected.size()), "read the received data");
  device_->story().require(same(found, expected),
                           fmt::format("the {} bytes that were sent in receive request {}", expected.size(), wr_id),
                           difference(found, expected));
}

void DeviceQueuePair::fill(std::uint64_t offset, const std::string& bytes) {
  device_->take(region.write(offset, Bytes(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size())),
                fmt::format("{} bytes written to the memory region at offset {}", bytes.size(), offset));
}

}  // namespace rdmawire::conformance
