#pragma once
/// The iWARP reference device in virtual time, with all objects that scripts refer to: two streams, and memory, queues
/// and keys as in DeviceFixture. Calls replace TCP: each segment arrives unchanged.

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "conformance/device/iwarp/endpoint.hpp"
#include "conformance/fuzzer/fixture_memory.hpp"
#include "conformance/fuzzer/known_objects.hpp"
#include "conformance/fuzzer/layout.hpp"
#include "conformance/fuzzer/outcome.hpp"
#include "conformance/fuzzer/stream_tester.hpp"

namespace rdmawire::fuzzer {

class IwarpDeviceFixture {
 public:
  /// `settings`: stream_settings of all streams, which override those of the steps.
  explicit IwarpDeviceFixture(std::uint64_t seed, const endpoint::Faults& faults = {},
                              std::optional<std::int64_t> settings = std::nullopt);
  IwarpDeviceFixture(const IwarpDeviceFixture&) = delete;
  IwarpDeviceFixture& operator=(const IwarpDeviceFixture&) = delete;

  /// Perform a step with its TCP segments.
  void perform(const Step& step, std::span<const std::vector<std::uint8_t>> segments, Outcome& outcome);
  /// Return the stream index of each frame of the last outcome.
  [[nodiscard]] const std::vector<std::uint8_t>& streams() const { return streams_; }

  [[nodiscard]] const KnownObjects& objects() const { return objects_; }
  [[nodiscard]] Bytes memory() { return rnic_.memory().at(memory_.buffer, layout::size); }
  /// Return nullptr if the slot is empty.
  [[nodiscard]] const endpoint::Endpoint* endpoint(std::int64_t at) const {
    return endpoints_[static_cast<std::size_t>(at)].get();
  }
  [[nodiscard]] StreamBases bases(std::int64_t at) const;
  [[nodiscard]] std::int64_t now() const { return now_; }

 private:
  void connect(const Step& step, std::span<const std::vector<std::uint8_t>> segments, Outcome& outcome);
  void receive(std::int64_t at, std::int64_t bytes, Outcome& outcome);
  void post(const Step& step, Outcome& outcome);
  void post_work(const Step& step, Outcome& outcome);
  void settle(std::size_t at, Outcome& outcome, std::size_t most = 0);
  void run(std::int64_t nanoseconds, Outcome& outcome);
  void drain(Outcome& outcome);
  void update_objects();
  template <class T>
  static void tell(Outcome& outcome, const device::Result<T>& result) {
    outcome.results.push_back(result ? 0 : result.error().number);
  }

  endpoint::Rnic rnic_;
  std::optional<std::int64_t> settings_;
  std::uint32_t pd_ = 0, other_pd_ = 0, cq_ = 0, small_cq_ = 0;
  FixtureMemory memory_;
  std::array<std::unique_ptr<endpoint::Endpoint>, 2> endpoints_;
  std::array<bool, 2> initiates_{};  ///< the device is the initiator
  KnownObjects objects_;
  std::vector<std::uint8_t> streams_;
  std::int64_t now_ = 0;
  std::uint64_t last_id_ = 0;
  std::uint32_t received_ = 0;  ///< number of posted receive requests, which determines the next buffer
};

}  // namespace rdmawire::fuzzer
