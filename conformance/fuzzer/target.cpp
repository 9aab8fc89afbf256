#include "conformance/fuzzer/target.hpp"

#include "conformance/device/roce/fault_table.hpp"
#include "conformance/fuzzer/roce.hpp"
#include "conformance/fuzzer/subject.hpp"

namespace rdmawire::fuzzer {

namespace {

class ReferenceTarget final : public Target {
 public:
  ReferenceTarget(const device::Faults& faults, std::string name, const Tolerance& tolerance)
      : faults_(faults), name_(std::move(name)), tolerance_(tolerance) {}

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] Tolerance tolerance() const override { return tolerance_; }
  [[nodiscard]] std::vector<FaultyReference> broken() const override { return broken_reference(tolerance_); }
  std::optional<std::string> start(std::uint64_t seed) override {
    const Subjects* traced = map_ ? traced_subjects() : nullptr;
    fixture_ = (traced ? *traced : plain_subjects()).roce(seed, faults_, map_);
    maker_ = std::make_unique<FrameMaker>(tester_port(fixture_->port()));
    return std::nullopt;
  }
  [[nodiscard]] std::unique_ptr<ReferenceModel> create_model(std::uint64_t seed, Rng& chance) const override {
    return std::make_unique<RoceReferenceModel>(seed, chance, GeneratorOptions());
  }
  bool trace(EdgeMap* map) override {
    map_ = map;
    return traced_subjects() != nullptr;
  }
  [[nodiscard]] std::uint64_t code() const override { return traced_build_number(); }
  void perform(const Step& step, ReferenceModel& model, Outcome& outcome) override {
    auto& made = static_cast<RoceReferenceModel&>(model);
    // Object numbers equal those of the model, unless a fault changes the random numbers. The model's frames can then
    // be reused.
    if (is_packet(step.kind) && fixture_->objects() != made.objects()) {
      maker_->make(step, fixture_->objects(), made.bases(), own_);
      fixture_->perform(step, own_, outcome);
      outcome.sent_frames = own_;
    } else {
      fixture_->perform(step, made.frames(), outcome);
    }
  }
  Bytes memory() override { return fixture_->memory(); }

 private:
  device::Faults faults_;
  std::string name_;
  Tolerance tolerance_;
  EdgeMap* map_ = nullptr;
  std::unique_ptr<RoceSubject> fixture_;
  std::unique_ptr<FrameMaker> maker_;
  std::vector<std::vector<std::uint8_t>> own_;
};

}  // namespace

std::vector<FaultyReference> broken_reference(const Tolerance& tolerance) {
  std::vector<FaultyReference> all;
  for (const device::FaultRow& row : device::fault_rows)
    all.push_back({row.name, row.broken(), [fault = row.fault, tolerance] {
                     device::Faults faults;
                     faults.set(fault);
                     return reference_target(faults, {}, tolerance);
                   }});
  return all;
}

std::unique_ptr<Target> reference_target(const device::Faults& faults, std::string name, const Tolerance& tolerance) {
  return std::make_unique<ReferenceTarget>(faults, std::move(name), tolerance);
}

}  // namespace rdmawire::fuzzer
