#pragma once
/// RoCE family of the fuzzer: the reference model.

#include <memory>

#include "conformance/fuzzer/device_fixture.hpp"
#include "conformance/fuzzer/frames.hpp"
#include "conformance/fuzzer/reference_model.hpp"
#include "conformance/fuzzer/requests.hpp"
#include "conformance/fuzzer/step_generator.hpp"

namespace rdmawire::fuzzer {

class RoceReferenceModel final : public ReferenceModel {
 public:
  /// `chance` must outlive this.
  RoceReferenceModel(std::uint64_t seed, Rng& chance, const GeneratorOptions& options);

  Step next() override { return generator_.next(fixture_, maker_); }
  Step plain() override;
  void perform(const Step& step) override;
  [[nodiscard]] const Outcome& outcome() const override { return outcome_; }
  [[nodiscard]] Bytes memory() override { return fixture_.memory(); }
  [[nodiscard]] std::int64_t now() const override { return fixture_.now(); }
  [[nodiscard]] std::uint64_t edge(const Step& step, const Outcome& actual) const override;
  [[nodiscard]] std::optional<Alarm> judge(const Step& step, const Outcome& actual, Bytes memory,
                                           const Tolerance& tolerance) override;
  void exchanged(std::size_t step, const Outcome& actual, std::vector<Exchanged>& frames) override;

  // Values of the last step, for targets.
  [[nodiscard]] const Bases& bases() const { return bases_; }
  [[nodiscard]] std::span<const std::vector<std::uint8_t>> frames() const { return frames_; }
  /// Return the tester's knowledge of the objects before the step.
  [[nodiscard]] const KnownObjects& objects() const { return objects_; }

 private:
  Rng& chance_;
  DeviceFixture fixture_;
  FrameMaker maker_;
  StepGenerator generator_;
  Bases bases_;
  std::vector<std::vector<std::uint8_t>> frames_;
  KnownObjects objects_;
  Outcome outcome_;
  KnownRequests requests_;
  std::int64_t began_ = 0;  ///< start of the last step
};

}  // namespace rdmawire::fuzzer
