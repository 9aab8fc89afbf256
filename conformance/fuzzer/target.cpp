#include "conformance/fuzzer/target.hpp"

namespace rdmawire::fuzzer {

namespace {

class ReferenceTarget final : public Target {
 public:
  ReferenceTarget(const device::Faults& faults, std::string name) : faults_(faults), name_(std::move(name)) {}

  [[nodiscard]] std::string name() const override { return name_; }
  std::optional<std::string> start(std::uint64_t seed) override {
    world_ = std::make_unique<World>(seed, faults_);
    maker_ = std::make_unique<FrameMaker>(tester_port(world_->port()));
    return std::nullopt;
  }
  void perform(const Made& made, Outcome& outcome) override {
    const bool packet = made.step.kind == StepKind::request || made.step.kind == StepKind::answer;
    // Its numbers are those of the sound one, as long as it draws as many: then its frames are the same.
    if (packet && world_->objects() != made.objects) {
      maker_->make(made.step, world_->objects(), made.bases, own_);
      world_->perform(made.step, own_, outcome);
    } else {
      world_->perform(made.step, made.frames, outcome);
    }
  }
  Bytes memory() override { return world_->memory(); }

 private:
  device::Faults faults_;
  std::string name_;
  std::unique_ptr<World> world_;
  std::unique_ptr<FrameMaker> maker_;
  std::vector<std::vector<std::uint8_t>> own_;
};

}  // namespace

std::unique_ptr<Target> reference_target(const device::Faults& faults, std::string name) {
  return std::make_unique<ReferenceTarget>(faults, std::move(name));
}

}  // namespace rdmawire::fuzzer
