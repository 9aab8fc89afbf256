#pragma once
/// The RoCE reference device in virtual time, with all objects that scripts refer to. Performs steps and returns their
/// outcomes.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conformance/device/roce/device.hpp"
#include "conformance/fuzzer/connections.hpp"
#include "conformance/fuzzer/fixture_memory.hpp"
#include "conformance/fuzzer/frames.hpp"
#include "conformance/fuzzer/known_objects.hpp"
#include "conformance/fuzzer/layout.hpp"
#include "conformance/fuzzer/outcome.hpp"
#include "conformance/fuzzer/script.hpp"

namespace rdmawire::fuzzer {

/// A new device and its objects.
class DeviceFixture {
 public:
  explicit DeviceFixture(std::uint64_t seed, const device::Faults& faults = {});
  DeviceFixture(const DeviceFixture&) = delete;
  DeviceFixture& operator=(const DeviceFixture&) = delete;

  /// Perform a step. `frames`: the frames to send to the device, if the step sends a packet.
  void perform(const Step& step, std::span<const std::vector<std::uint8_t>> frames, Outcome& outcome);

  /// Return keys and numbers after the last step. Those of destroyed objects keep their last value.
  [[nodiscard]] const KnownObjects& objects() const { return objects_; }
  [[nodiscard]] Bytes memory() { return device_->memory(memory_.buffer, layout::size); }
  /// Return nullptr if the slot is empty.
  [[nodiscard]] const device::QueuePair* queue_pair(std::int64_t at) const;
  /// Return whether a window is bound. `number`: Step::number of a bind step.
  [[nodiscard]] bool window_is_bound(std::int64_t number) const;
  [[nodiscard]] const device::Port& port() const { return device_->port(); }
  [[nodiscard]] std::int64_t now() const { return now_; }
  /// Return the state of the slot's connection in the device's communication manager.
  [[nodiscard]] machines::CmState connection(std::int64_t at) const;
  [[nodiscard]] device::Device& device() { return *device_; }

 private:
  void connect(const Step& step, Outcome& outcome);
  void modify(const Step& step, Outcome& outcome);
  void post(const Step& step, Outcome& outcome);
  void post_work(const Step& step, Outcome& outcome);
  void receive(std::int64_t at, std::int64_t bytes, Outcome& outcome);
  void send(Bytes frame, Outcome& outcome);
  void run(std::int64_t nanoseconds, Outcome& outcome);
  void drain(Outcome& outcome);
  void fresh_queue_pair(std::int64_t at, Outcome& outcome);
  void perform_cm_step(const Step& step, Outcome& outcome);
  void listen_to(const device::CmEvent& event);
  void update_objects();
  [[nodiscard]] device::AddressVector path_of(std::int64_t gid) const;
  template <class T>
  static void tell(Outcome& outcome, const device::Result<T>& result) {
    outcome.results.push_back(result ? 0 : result.error().number);
  }

  std::unique_ptr<device::Device> device_;
  std::uint32_t pd_ = 0, other_pd_ = 0, channel_ = 0, cq_ = 0, small_cq_ = 0, srq_ = 0;
  std::uint32_t xrcd_ = 0, other_xrcd_ = 0, xrc_srq_ = 0, other_xrc_srq_ = 0, ah_ = 0;
  FixtureMemory memory_;
  std::array<std::uint32_t, 2> qps_{};
  KnownObjects objects_;
  std::array<std::uint32_t, 2> connections_{};  ///< handles
  std::int64_t now_ = 0;
  std::uint64_t last_id_ = 0;
  std::uint32_t received_ = 0;  ///< number of posted receive requests, which determines the next buffer
};

}  // namespace rdmawire::fuzzer
