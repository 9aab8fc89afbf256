#pragma once
/// The device side of a case, for both families. Uses the device's agent: protection domains, memory, completions and
/// events.

#include <chrono>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <map>
#include <optional>
#include <random>
#include <string>

#include "conformance/cases/case_recorder.hpp"
#include "conformance/cases/device_under_test.hpp"
#include "conformance/cases/environment.hpp"
#include "replay/peer/connection_manager.hpp"

namespace rdmawire::conformance {

/// "completion of 3 with success"
std::string text_of(const peer::Completion& completion);

struct DeviceQueuePair;

/// A bound type 2 memory window. Must be released before its QP and region.
struct BoundWindow {
  peer::MemoryWindow window;
  std::uint32_t rkey = 0;
};

class DeviceBench {
 public:
  /// The references must outlive this object.
  DeviceBench(CaseRecorder& story, DeviceUnderTest& device, std::uint64_t seed, Environment& environment)
      : story_(story), device_(device), random_(seed), environment_(&environment) {}
  /// Uses the default environment.
  DeviceBench(CaseRecorder& story, DeviceUnderTest& device, std::uint64_t seed)
      : story_(story), device_(device), random_(seed) {}
  DeviceBench(const DeviceBench&) = delete;
  DeviceBench& operator=(const DeviceBench&) = delete;

  /// Returns a protection domain by number. The QPs of this case belong to domain 0.
  const peer::ProtectionDomain& domain(std::size_t number = 0);
  /// The parameters that the case does not determine.
  [[nodiscard]] Environment& environment() { return *environment_; }
  /// Registers new memory, the first time after the regions of the environment.
  peer::Region region(std::uint64_t bytes, const peer::Names& access, std::size_t domain = 0);
  /// Binds a type 2 window to a part of the QP's region through the QP.
  BoundWindow bind_window(DeviceQueuePair& through, std::uint64_t offset, std::uint64_t length,
                          const peer::Names& access);
  /// Checks the content of the region.
  void holds(const peer::Region& region, std::uint64_t offset, const std::string& expected);
  /// Checks that the device rejected the verb. An error that no rule about the call explains, such as a lack of memory,
  /// ends the case as inconclusive.
  template <class T>
  void is_refused(const peer::PeerResult<T>& result, const std::string& what) {
    if (!result) is_refusal(result.error(), what);
    story_.require(!result, what + " is refused", "it was done");
  }
  /// Checks that the device rejected the verb with one of these errors (errno). Another error is the wrong code.
  template <class T>
  void is_refused_with(const peer::PeerResult<T>& result, std::initializer_list<int> errors, const std::string& what) {
    is_refused(result, what);
    is_error_of(result.error(), errors, what);
  }
  /// Checks that the device reports this asynchronous event ("sq_drained") for this object (kind and handle).
  void tells(const std::string& event, const std::string& kind, std::uint64_t handle);
  /// Returns the next event of the agent that the filter accepts, or nullopt after this time of the wire's clock.
  std::optional<peer::Event> next_event(std::int64_t for_ns, const peer::Peer::EventFilter& filter);
  /// The device's counters by name.
  std::map<std::string, std::uint64_t> counters() { return take(device_.device->counters(), "the device's counters"); }
  /// Returns the sum of the named counters that the device has, or nullopt if it has none of them.
  std::optional<std::uint64_t> counter(std::initializer_list<const char*> names);
  /// Repeats the attempt until it returns something other than a timeout. Ends the case after `within_ns`. Time passes
  /// between attempts, and frames are kept.
  template <class Attempt>
  auto wait_for(const std::string& event, std::int64_t within_ns, const Attempt& attempt) {
    const std::string expected = "the device's application notified: " + event;
    const std::int64_t until = story_.now() + within_ns;
    for (;;) {
      // A device in virtual time reports pending events with its next reply.
      if (const auto alive = device_.peer->call("ping"); !alive)
        end_case(Verdict::error, "call the device's agent: " + alive.error().message);
      auto result = attempt();
      const bool waits = !result && result.error().kind == peer::PeerError::Kind::timeout;
      if (!waits) return take(std::move(result), expected);
      story_.require(story_.now() < until, expected, "nothing");
      story_.pass(2'000'000);
    }
  }
  /// Returns the request that the device's application was notified of, or ends the case.
  [[nodiscard]] peer::CmConnection requested(const peer::Listener& listener);
  /// Checks the next event of the connection at the device's application. Skips progress events ("addr_resolved",
  /// "route_resolved").
  peer::CmEvent expect_event(const peer::CmConnection& connection, const std::string& type, std::int64_t within_ns = 0);
  /// Checks that `later` is at least `least` nanoseconds after `earlier`.
  void no_sooner(std::int64_t earlier, std::int64_t later, std::int64_t least, const std::string& what);

  [[nodiscard]] DeviceUnderTest& device() { return device_; }
  /// Returns a random number below `below`, derived from the case's seed.
  std::uint32_t any(std::uint32_t below) { return std::uniform_int_distribution<std::uint32_t>(0, below - 1)(random_); }

  /// Returns the result of a verb. On failure, ends the case: unsupported if the device lacks the feature, otherwise an
  /// error of the tester.
  template <class T>
  T take(peer::PeerResult<T> result, const std::string& what) {
    if (!result) refused(result.error(), what);
    story_.record(Step::Kind::verbs, what);
    if constexpr (!std::is_void_v<T>) return std::move(*result);
  }
  [[nodiscard]] std::chrono::milliseconds answer_time() const {
    return std::chrono::milliseconds(story_.patience().answer / 1'000'000);
  }
  [[nodiscard]] std::chrono::milliseconds silence_time() const {
    return std::chrono::milliseconds(story_.patience().silence / 1'000'000);
  }

  [[nodiscard]] CaseRecorder& story() { return story_; }

 private:
  [[noreturn]] void refused(const peer::PeerError& error, const std::string& what);
  void is_refusal(const peer::PeerError& error, const std::string& what);
  void is_error_of(const peer::PeerError& error, std::initializer_list<int> errors, const std::string& what);

  CaseRecorder& story_;
  DeviceUnderTest& device_;
  std::mt19937_64 random_;
  Environment default_environment_;
  Environment* environment_ = &default_environment_;
  std::deque<peer::ProtectionDomain> domains_;
  std::optional<peer::Region> other_region_;  // registered before the regions of the case
  bool has_region_ = false;
};

/// A QP of the device, with memory and a completion queue.
struct DeviceQueuePair {
  explicit DeviceQueuePair(DeviceBench& at, std::uint32_t each_receive) : receive_bytes(each_receive), device_(&at) {}

  peer::CompletionQueue cq;
  const peer::CompletionQueue* shared_cq = nullptr;  ///< replaces `cq` if set
  peer::Region region;                               ///< for READs, WRITEs and atomics of both sides
  peer::Region inbox;                                ///< receive request n starts at n * receive_bytes
  peer::SharedReceiveQueue srq;                      ///< the queue for receive requests, if any. Must outlive the QP
  peer::QueuePair qp;
  std::uint32_t receive_bytes;
  std::uint32_t receive_sges = 1, send_sges = 1;  ///< of each request

  [[nodiscard]] const peer::CompletionQueue& completions() const { return shared_cq ? *shared_cq : cq; }
  /// Local memory of the region for a work request.
  [[nodiscard]] peer::Piece piece(std::uint64_t offset, std::uint32_t length) const {
    return region.piece(offset, length);
  }

  /// The same memory in `send_sges` elements, as far as each of them has a byte.
  [[nodiscard]] std::vector<peer::Piece> pieces(std::uint64_t offset, std::uint32_t length) const {
    return pieces_of(region, offset, length, send_sges);
  }
  /// Memory of a region in at most `count` consecutive elements.
  static std::vector<peer::Piece> pieces_of(const peer::Region& region, std::uint64_t offset, std::uint32_t length,
                                            std::uint32_t count);
  /// Posts further receive requests. The wr_id counts from 0.
  void post_receives(std::uint32_t count);
  /// Posts a send request unchanged, or ends the case.
  void post(peer::SendRequest request);

  /// Checks wr_id and status of the next completion.
  peer::Completion completes(std::uint64_t wr_id, const std::string& status = "success");
  /// Checks that there is no completion for a while.
  void completes_nothing();
  /// Requests one notification of the completion queue: for the next completion, or the next solicited one.
  void ask_for_notification(bool solicited_only);
  /// Checks whether the notification arrives.
  void is_notified(bool expected);
  /// Checks for a completion with an error other than "flushed", for errors whose status is not specified.
  peer::Completion fails(std::uint64_t wr_id);
  /// Checks for a completion with any error, including "flushed": the device chooses the request that fails.
  peer::Completion fails_or_is_flushed(std::uint64_t wr_id);
  /// Checks that these requests complete as flushed, in order.
  void flushes(std::uint64_t first, std::uint64_t last);
  /// Checks that the QP enters this state within the timeout.
  void is_in(const std::string& state);
  /// Checks the content of the region.
  void holds(std::uint64_t offset, const std::string& expected);
  /// Checks the content of the memory of a receive request.
  void received(std::uint64_t wr_id, const std::string& expected);
  void fill(std::uint64_t offset, const std::string& bytes);

 private:
  peer::Completion completes_badly(std::uint64_t wr_id, bool or_flushed);

  DeviceBench* device_;
  std::uint32_t posted_receives_ = 0;
};

}  // namespace rdmawire::conformance
