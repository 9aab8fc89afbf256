#pragma once
/// What a case works with: a conversation over the wire, and queue pairs, memory and completions at the device.

#include <chrono>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "conformance/cases/conversation.hpp"
#include "conformance/cases/device_under_test.hpp"

namespace rdmawire::conformance {

class Bench;

/// How a queue pair of the device is made and connected to the tester.
struct ConnectOptions {
  Transport transport = Transport::rc;
  std::uint32_t mtu = 1024;
  std::uint32_t receives = 0;           ///< receive requests that are posted
  std::uint32_t receive_octets = 1024;  ///< each of them holds
  std::uint64_t region_octets = 8192;
  peer::Names region_access = {"local_write", "remote_write", "remote_read", "remote_atomic"};
  peer::Names access = {"remote_write", "remote_read", "remote_atomic"};  ///< the queue pair's
  std::uint8_t reads_at_once = 4;  ///< that the device answers: max_dest_rd_atomic
  std::uint8_t own_reads = 4;      ///< that the device may have outstanding: max_rd_atomic
  std::uint8_t timeout = 14, retry_cnt = 7, rnr_retry = 7;
  std::uint8_t min_rnr_timer = 12;
  std::uint32_t send_wr = 32;
  std::uint32_t inline_octets = 0;
  peer::Names send_ops{};
  std::uint8_t hop_limit = 64, traffic_class = 0;
  std::int64_t first_psn = -1;   ///< of the tester; -1: by chance
  std::int64_t device_psn = -1;  ///< of the device; likewise
};

/// A queue pair of the device in RTS, and the tester's end of it.
struct Connected : TesterQueuePair {
  Connected(Bench& at, TesterQueuePair end, peer::CompletionQueue completions, peer::Region memory,
            peer::Region receives, peer::QueuePair made, const ConnectOptions& how)
      : TesterQueuePair(std::move(end)),
        cq(std::move(completions)),
        region(std::move(memory)),
        inbox(std::move(receives)),
        qp(std::move(made)),
        options(how),
        bench_(&at) {}

  peer::CompletionQueue cq;
  peer::Region region;  ///< for READs, WRITEs and atomics of both sides
  peer::Region inbox;   ///< receive request n has octets n * receive_octets and on
  peer::QueuePair qp;
  ConnectOptions options;

  /// Of a request into the region.
  [[nodiscard]] Operands at(std::uint64_t offset, std::uint32_t length = 0, std::string payload = {}) const {
    return {.payload = std::move(payload), .va = region.addr() + offset, .rkey = region.rkey(), .length = length};
  }
  /// For a work request of the device: memory of the region.
  [[nodiscard]] peer::Piece piece(std::uint64_t offset, std::uint32_t length) const {
    return region.piece(offset, length);
  }

  /// Posts further receive requests; their wr_id counts from 0.
  void post_receives(std::uint32_t count);
  /// Posts a send request at the device, or ends the case.
  void post(peer::SendRequest request);

  /// The next completion has this status and wr_id, or the case ends.
  peer::Completion completes(std::uint64_t wr_id, const std::string& status = "success");
  /// None comes for a while.
  void completes_nothing();
  /// The queue pair is in this state within the usual patience.
  void is_in(const std::string& state);
  /// The region holds these octets.
  void holds(std::uint64_t offset, const std::string& expected);
  /// The receive request's memory does.
  void received(std::uint64_t wr_id, const std::string& expected);
  void fill(std::uint64_t offset, const std::string& octets);

 private:
  Bench* bench_;
  std::uint32_t posted_receives_ = 0;
};

class Bench : public Conversation {
 public:
  Bench(DeviceUnderTest& device, std::uint64_t seed)
      : Conversation(*device.wire, device.patience), device_(device), random_(seed) {}

  Connected& connect(const ConnectOptions& options);
  Connected& rc(ConnectOptions options = {}) { return connect(options); }
  Connected& uc(ConnectOptions options = {}) {
    options.transport = Transport::uc;
    return connect(options);
  }

  [[nodiscard]] DeviceUnderTest& device() { return device_; }
  /// A number by chance, of the case's seed.
  std::uint32_t any(std::uint32_t below) { return std::uniform_int_distribution<std::uint32_t>(0, below - 1)(random_); }

  /// What the device's verbs gave; where they refused, the case ends: unsupported where the device has no such thing,
  /// else an error of the tester.
  template <class T>
  T take(peer::PeerResult<T> result, const std::string& what) {
    if (!result) refused(result.error(), what);
    record(Step::Kind::verbs, what);
    if constexpr (!std::is_void_v<T>) return std::move(*result);
  }
  [[nodiscard]] std::chrono::milliseconds answer_time() const {
    return std::chrono::milliseconds(patience().answer / 1'000'000);
  }
  [[nodiscard]] std::chrono::milliseconds silence_time() const {
    return std::chrono::milliseconds(patience().silence / 1'000'000);
  }

 private:
  [[noreturn]] void refused(const peer::PeerError& error, const std::string& what);

  DeviceUnderTest& device_;
  std::mt19937_64 random_;
  std::vector<peer::ProtectionDomain> domains_;
  std::deque<Connected> connected_;
};

}  // namespace rdmawire::conformance
