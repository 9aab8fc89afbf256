#pragma once
/// A device with everything that scripts speak of, and the tester beside it: what makes steps happen, and says what
/// came of them. The device is the reference device, in virtual time.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "conformance/device/device.hpp"
#include "conformance/fuzzer/frames.hpp"
#include "conformance/fuzzer/script.hpp"

namespace rdmawire::fuzzer {

/// The consumer's memory, one piece of it. Between what is registered lies what nobody may write.
namespace layout {
inline constexpr std::uint64_t page = 4096, size = 19 * page;
struct Range {
  std::uint64_t offset, octets;
  [[nodiscard]] constexpr std::uint64_t end() const { return offset + octets; }
};
inline constexpr Range everything{1 * page, page}, read_only{3 * page, 1000}, write_only{5 * page, page},
    closed{7 * page, page}, foreign{8 * page, page}, fast{10 * page, page}, receives{12 * page, 2 * page},
    local{15 * page, 3 * page};
/// A type 2 window covers so much of `everything`, from its beginning.
inline constexpr std::uint64_t window_octets = 512;
/// What may change: by remote writes and atomics, by receives, by the device's own READs.
inline constexpr Range writable[] = {everything, write_only, fast, receives, local};
}  // namespace layout

/// What the tester knows of a device's objects, so that it can name them in frames.
struct KnownObjects {
  std::array<std::uint32_t, 2> qpns{};
  struct Memory {
    std::uint32_t key = 0;
    std::uint64_t address = 0;
    friend bool operator==(const Memory&, const Memory&) = default;
  };
  std::array<Memory, keys> memory{};
  std::array<std::uint32_t, 3> srqs{};  ///< numbers of XRC: the right one, one of another domain, none

  friend bool operator==(const KnownObjects&, const KnownObjects&) = default;
};

/// What came of one step.
struct Outcome {
  std::vector<std::vector<std::uint8_t>> frames;  ///< that the device sent, in order
  std::vector<int> results;                       ///< of verbs: 0, or the error's number
  std::vector<device::Completion> completions;
  std::vector<device::AsyncEvent> events;
  std::uint32_t notified = 0;  ///< events of the completion channel
  std::array<device::QpState, 2> states{};
  std::array<std::uint32_t, 2> receives{};  ///< that wait

  void clear();
};

/// One fresh device and its objects.
class World {
 public:
  explicit World(std::uint64_t seed, const device::Faults& faults = {});
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// A step that is no packet, or a packet whose frames were made.
  void perform(const Step& step, std::span<const std::vector<std::uint8_t>> frames, Outcome& outcome);

  /// As they were after the last step; of what is gone, as they were before.
  [[nodiscard]] const KnownObjects& objects() const { return objects_; }
  [[nodiscard]] Bytes memory() { return device_->memory(buffer_, layout::size); }
  /// nullptr: none is in that place.
  [[nodiscard]] const device::QueuePair* queue_pair(std::int64_t at) const;
  [[nodiscard]] const device::Port& port() const { return device_->port(); }
  [[nodiscard]] std::int64_t now() const { return now_; }
  [[nodiscard]] device::Device& device() { return *device_; }

 private:
  void connect(const Step& step, Outcome& outcome);
  void modify(const Step& step, Outcome& outcome);
  void post(const Step& step, Outcome& outcome);
  void post_work(const Step& step, Outcome& outcome);
  void receive(std::int64_t at, std::int64_t octets, Outcome& outcome);
  void send(Bytes frame, Outcome& outcome);
  void run(std::int64_t nanoseconds, Outcome& outcome);
  void drain(Outcome& outcome);
  void learn_objects();
  [[nodiscard]] device::AddressVector path_of(std::int64_t gid) const;
  template <class T>
  static void tell(Outcome& outcome, const device::Result<T>& result) {
    outcome.results.push_back(result ? 0 : result.error().number);
  }

  std::unique_ptr<device::Device> device_;
  std::uint32_t pd_ = 0, other_pd_ = 0, channel_ = 0, cq_ = 0, small_cq_ = 0, srq_ = 0;
  std::uint32_t xrcd_ = 0, other_xrcd_ = 0, xrc_srq_ = 0, other_xrc_srq_ = 0, ah_ = 0;
  std::uint64_t buffer_ = 0;
  std::uint32_t receive_key_ = 0, local_key_ = 0;
  std::array<std::uint32_t, 2> qps_{};
  std::array<std::uint32_t, 6> regions_{};  ///< handles, of the keys up to fast
  std::array<std::uint32_t, 3> windows_{};  ///< likewise, from window on
  KnownObjects objects_;
  std::int64_t now_ = 0;
  std::uint64_t last_id_ = 0;
  std::uint32_t received_ = 0;  ///< receive requests that were posted: where the next one lies
};

}  // namespace rdmawire::fuzzer
