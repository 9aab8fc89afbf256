/// Compiled twice: with RDMAWIRE_TRACED_COPY for the copy that reports.

#include "conformance/fuzzer/subject.hpp"

#include "conformance/fuzzer/device_fixture.hpp"
#include "conformance/fuzzer/iwarp_device_fixture.hpp"

#ifdef RDMAWIRE_TRACED_COPY
#include "conformance/fuzzer/trace.hpp"
#elif defined(RDMAWIRE_HAS_TRACED_COPY)
#include <traced_subjects.hpp>
#endif

namespace rdmawire::fuzzer {

#ifndef RDMAWIRE_TRACED_COPY
namespace {
/// Nothing is noted of this copy.
struct Tracing {
  explicit Tracing(EdgeMap* /*map*/) {}
};
}  // namespace
#endif

namespace {

class RoceWorld final : public RoceSubject {
 public:
  RoceWorld(std::uint64_t seed, const device::Faults& faults, EdgeMap* map) : world_(seed, faults), map_(map) {}
  void perform(const Step& step, std::span<const std::vector<std::uint8_t>> frames, Outcome& outcome) override {
    [[maybe_unused]] const Tracing tracing(map_);
    world_.perform(step, frames, outcome);
  }
  [[nodiscard]] const KnownObjects& objects() const override { return world_.objects(); }
  [[nodiscard]] Bytes memory() override { return world_.memory(); }
  [[nodiscard]] const device::Port& port() const override { return world_.port(); }

 private:
  DeviceFixture world_;
  EdgeMap* map_;
};

class StreamWorld final : public IwarpSubject {
 public:
  StreamWorld(std::uint64_t seed, const endpoint::Faults& faults, EdgeMap* map) : world_(seed, faults), map_(map) {}
  void perform(const Step& step, std::span<const std::vector<std::uint8_t>> segments, Outcome& outcome) override {
    [[maybe_unused]] const Tracing tracing(map_);
    world_.perform(step, segments, outcome);
  }
  [[nodiscard]] const KnownObjects& objects() const override { return world_.objects(); }
  [[nodiscard]] Bytes memory() override { return world_.memory(); }
  [[nodiscard]] const std::vector<std::uint8_t>& streams() const override { return world_.streams(); }
  [[nodiscard]] StreamBases bases(std::int64_t at) const override { return world_.bases(at); }

 private:
  IwarpDeviceFixture world_;
  EdgeMap* map_;
};

const Subjects here{
    [](std::uint64_t seed, const device::Faults& faults, EdgeMap* map) -> std::unique_ptr<RoceSubject> {
      return std::make_unique<RoceWorld>(seed, faults, map);
    },
    [](std::uint64_t seed, const endpoint::Faults& faults, EdgeMap* map) -> std::unique_ptr<IwarpSubject> {
      return std::make_unique<StreamWorld>(seed, faults, map);
    }};

}  // namespace

#ifdef RDMAWIRE_TRACED_COPY

extern "C" const Subjects* rdmawire_traced_subjects() { return &here; }

#else

const Subjects& plain_subjects() { return here; }

#ifdef RDMAWIRE_HAS_TRACED_COPY
extern "C" const Subjects* rdmawire_traced_subjects();
const Subjects* traced_subjects() { return rdmawire_traced_subjects(); }
std::uint64_t traced_build_number() { return traced_build; }
#else
const Subjects* traced_subjects() { return nullptr; }
std::uint64_t traced_build_number() { return 0; }
#endif

#endif

}  // namespace rdmawire::fuzzer
