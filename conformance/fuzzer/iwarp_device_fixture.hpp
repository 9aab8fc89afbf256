#pragma once
/// The software endpoint of iWARP with everything that scripts speak of, in virtual time: its two streams, and a
/// consumer's memory, queues and keys as World has them. TCP is calls: each segment arrives as it was said.

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
  /// `settings`: stream_settings that all streams have, whatever steps say; nothing: as the steps say.
  explicit IwarpDeviceFixture(std::uint64_t seed, const endpoint::Faults& faults = {},
                              std::optional<std::int64_t> settings = std::nullopt);
  IwarpDeviceFixture(const IwarpDeviceFixture&) = delete;
  IwarpDeviceFixture& operator=(const IwarpDeviceFixture&) = delete;

  /// A step, with the TCP segments that it says.
  void perform(const Step& step, std::span<const std::vector<std::uint8_t>> segments, Outcome& outcome);
  /// Of which stream each of the last outcome's frames is.
  [[nodiscard]] const std::vector<std::uint8_t>& streams() const { return streams_; }

  [[nodiscard]] const KnownObjects& objects() const { return objects_; }
  [[nodiscard]] Bytes memory() { return rnic_.memory().at(memory_.buffer, layout::size); }
  /// nullptr: none was made in that place.
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
  void learn_objects();
  template <class T>
  static void tell(Outcome& outcome, const device::Result<T>& result) {
    outcome.results.push_back(result ? 0 : result.error().number);
  }

  endpoint::Rnic rnic_;
  std::optional<std::int64_t> settings_;
  std::uint32_t pd_ = 0, other_pd_ = 0, cq_ = 0, small_cq_ = 0;
  FixtureMemory memory_;
  std::array<std::unique_ptr<endpoint::Endpoint>, 2> endpoints_;
  std::array<bool, 2> asks_{};  ///< the device is the initiator
  KnownObjects objects_;
  std::vector<std::uint8_t> streams_;
  std::int64_t now_ = 0;
  std::uint64_t last_id_ = 0;
  std::uint32_t received_ = 0;  ///< receive requests that were posted: where the next one lies
};

}  // namespace rdmawire::fuzzer
