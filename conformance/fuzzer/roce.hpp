#pragma once
/// RoCE, for a session: the reference device and frames.

#include <memory>

#include "conformance/fuzzer/device_fixture.hpp"
#include "conformance/fuzzer/frames.hpp"
#include "conformance/fuzzer/reference_model.hpp"
#include "conformance/fuzzer/requests.hpp"
#include "conformance/fuzzer/step_generator.hpp"

namespace rdmawire::fuzzer {

class RoceShadow final : public ReferenceModel {
 public:
  /// `chance` must outlive it.
  RoceShadow(std::uint64_t seed, Rng& chance, const WalkOptions& options);

  Step next() override { return walk_.next(world_, maker_); }
  Step plain() override;
  void perform(const Step& step) override;
  [[nodiscard]] const Outcome& outcome() const override { return outcome_; }
  [[nodiscard]] Bytes memory() override { return world_.memory(); }
  [[nodiscard]] std::int64_t now() const override { return world_.now(); }
  [[nodiscard]] std::uint64_t edge(const Step& step, const Outcome& actual) const override;
  [[nodiscard]] std::optional<Alarm> judge(const Step& step, const Outcome& actual, Bytes memory,
                                           const Tolerance& tolerance) override;
  void exchanged(std::size_t step, const Outcome& actual, std::vector<Exchanged>& frames) override;

  // Of the last step, for targets.
  [[nodiscard]] const Bases& bases() const { return bases_; }
  [[nodiscard]] std::span<const std::vector<std::uint8_t>> frames() const { return frames_; }
  /// As the tester knew them when it said that.
  [[nodiscard]] const KnownObjects& objects() const { return objects_; }

 private:
  Rng& chance_;
  DeviceFixture world_;
  FrameMaker maker_;
  StepGenerator walk_;
  Bases bases_;
  std::vector<std::vector<std::uint8_t>> frames_;
  KnownObjects objects_;
  Outcome outcome_;
  KnownRequests requests_;
  std::int64_t began_ = 0;  ///< the last step
};

}  // namespace rdmawire::fuzzer
