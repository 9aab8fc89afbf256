#pragma once
/// The device's side of a case, whatever its queue pairs speak: protection domains, memory, completions and events, by
/// its agent.

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
#include "replay/peer/connection_manager.hpp"

namespace rdmawire::conformance {

/// "completion of 3 with success"
std::string text_of(const peer::Completion& completion);

struct DeviceQueuePair;

/// A memory window of type 2 that is bound; not after its queue pair and region.
struct BoundWindow {
  peer::MemoryWindow window;
  std::uint32_t rkey = 0;
};

class DeviceBench {
 public:
  /// Both must outlive it.
  DeviceBench(CaseRecorder& story, DeviceUnderTest& device, std::uint64_t seed)
      : story_(story), device_(device), random_(seed) {}
  DeviceBench(const DeviceBench&) = delete;
  DeviceBench& operator=(const DeviceBench&) = delete;

  /// A protection domain, by number; the queue pairs of this case belong to 0.
  const peer::ProtectionDomain& domain(std::size_t number = 0);
  /// Memory of its own.
  peer::Region region(std::uint64_t bytes, const peer::Names& access, std::size_t domain = 0);
  /// A window of type 2 onto a piece of the queue pair's region, bound through the queue pair.
  BoundWindow bind_window(DeviceQueuePair& through, std::uint64_t offset, std::uint64_t length,
                          const peer::Names& access);
  /// The region holds these bytes, or the case ends.
  void holds(const peer::Region& region, std::uint64_t offset, const std::string& expected);
  /// The device refuses what was asked of its verbs, or the case ends.
  template <class T>
  void is_refused(const peer::PeerResult<T>& result, const std::string& what) {
    if (!result && result.error().kind != peer::PeerError::Kind::refused) refused(result.error(), what);
    story_.require(!result, what + " is refused", "it was done");
  }
  /// The device tells of this asynchronous event: "sq_drained", about that object (its kind and handle).
  void tells(const std::string& event, const std::string& kind, std::uint64_t handle);
  /// The next event that the filter takes, of the agent's; nothing when none comes within that time of the wire's
  /// clock.
  std::optional<peer::Event> next_event(std::int64_t for_ns, const peer::Peer::EventFilter& filter);
  /// The device's counters by name.
  std::map<std::string, std::uint64_t> counters() { return take(device_.device->counters(), "the device's counters"); }
  /// The sum of those named that the device has; nothing where it has none of them.
  std::optional<std::uint64_t> counter(std::initializer_list<const char*> names);
  /// What the attempt gives as soon as it does not time out; the case ends when that takes longer. Time goes on
  /// meanwhile, and what comes is kept.
  template <class Attempt>
  auto wait_for(const std::string& event, std::int64_t within_ns, const Attempt& attempt) {
    const std::string expected = "the device's consumer told of: " + event;
    const std::int64_t until = story_.now() + within_ns;
    for (;;) {
      // A device in virtual time tells of what has happened with its next answer.
      if (const auto alive = device_.peer->call("ping"); !alive)
        end_case(Verdict::error, "ask the device's agent: " + alive.error().message);
      auto result = attempt();
      const bool waits = !result && result.error().kind == peer::PeerError::Kind::timeout;
      if (!waits) return take(std::move(result), expected);
      story_.require(story_.now() < until, expected, "nothing");
      story_.pass(2'000'000);
    }
  }
  /// The request that the device's consumer was told of, or the case ends.
  [[nodiscard]] peer::CmConnection requested(const peer::Listener& listener);
  /// The device's consumer is told of this event of the connection next, or the case ends. Those that only report
  /// progress ("addr_resolved", "route_resolved") are passed over.
  peer::CmEvent expect_event(const peer::CmConnection& connection, const std::string& type, std::int64_t within_ns = 0);
  /// `later` came no sooner than `least` nanoseconds after `earlier`.
  void no_sooner(std::int64_t earlier, std::int64_t later, std::int64_t least, const std::string& what);

  [[nodiscard]] DeviceUnderTest& device() { return device_; }
  /// A number by chance, of the case's seed.
  std::uint32_t any(std::uint32_t below) { return std::uniform_int_distribution<std::uint32_t>(0, below - 1)(random_); }

  /// What the device's verbs gave; where they refused, the case ends: unsupported where the device has no such thing,
  /// else an error of the tester.
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

  CaseRecorder& story_;
  DeviceUnderTest& device_;
  std::mt19937_64 random_;
  std::deque<peer::ProtectionDomain> domains_;
};

/// A queue pair of the device, with memory and a completion queue.
struct DeviceQueuePair {
  explicit DeviceQueuePair(DeviceBench& at, std::uint32_t each_receive) : receive_bytes(each_receive), device_(&at) {}

  peer::CompletionQueue cq;
  const peer::CompletionQueue* shared_cq = nullptr;  ///< in place of it, where there is one
  peer::Region region;                               ///< for READs, WRITEs and atomics of both sides
  peer::Region inbox;                                ///< receive request n has bytes n * receive_bytes and on
  peer::SharedReceiveQueue srq;  ///< where receive requests go, if there is one; outlives the queue pair
  peer::QueuePair qp;
  std::uint32_t receive_bytes;

  [[nodiscard]] const peer::CompletionQueue& completions() const { return shared_cq ? *shared_cq : cq; }
  /// For a work request of the device: memory of the region.
  [[nodiscard]] peer::Piece piece(std::uint64_t offset, std::uint32_t length) const {
    return region.piece(offset, length);
  }

  /// Posts further receive requests; their wr_id counts from 0.
  void post_receives(std::uint32_t count);
  /// Posts a send request at the device, as it stands, or ends the case.
  void post(peer::SendRequest request);

  /// The next completion has this status and wr_id, or the case ends.
  peer::Completion completes(std::uint64_t wr_id, const std::string& status = "success");
  /// None comes for a while.
  void completes_nothing();
  /// Asks for one notification of the completion queue's: at the next completion, or at the next solicited one.
  void ask_for_notification(bool solicited_only);
  /// The notification comes; or none does.
  void is_notified(bool expected);
  /// It comes, with any error but "flushed": those of which the specification names no code.
  peer::Completion fails(std::uint64_t wr_id);
  /// It comes, with an error of its own or flushed: whether an error belongs to this request is the device's opinion.
  peer::Completion fails_or_is_flushed(std::uint64_t wr_id);
  /// These complete as flushed, one after the other.
  void flushes(std::uint64_t first, std::uint64_t last);
  /// The queue pair is in this state within the usual patience.
  void is_in(const std::string& state);
  /// The region holds these bytes.
  void holds(std::uint64_t offset, const std::string& expected);
  /// The receive request's memory does.
  void received(std::uint64_t wr_id, const std::string& expected);
  void fill(std::uint64_t offset, const std::string& bytes);

 private:
  peer::Completion completes_badly(std::uint64_t wr_id, bool or_flushed);

  DeviceBench* device_;
  std::uint32_t posted_receives_ = 0;
};

}  // namespace rdmawire::conformance
