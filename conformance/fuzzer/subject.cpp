/// This file is compiled twice. RDMAWIRE_TRACED_COPY is defined for the instrumented copy.

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
/// Replaces Tracing in the normal copy. Does nothing.
struct Tracing {
  explicit Tracing(EdgeMap* /*map*/) {}
};
}  // namespace
#endif

namespace {

class FixtureOfCopy final : public RoceSubject {
 public:
  FixtureOfCopy(std::uint64_t seed, const device::Faults& faults, EdgeMap* map) : fixture_(seed, faults), map_(map) {}
  void perform(const Step& step, std::span<const std::vector<std::uint8_t>> frames, Outcome& outcome) override {
    [[maybe_unused]] const Tracing tracing(map_);
    fixture_.perform(step, frames, outcome);
  }
  [[nodiscard]] const KnownObjects& objects() const override { return fixture_.objects(); }
  [[nodiscard]] Bytes memory() override { return fixture_.memory(); }
  [[nodiscard]] const device::Port& port() const override { return fixture_.port(); }

 private:
  DeviceFixture fixture_;
  EdgeMap* map_;
};

class IwarpFixtureOfCopy final : public IwarpSubject {
 public:
  IwarpFixtureOfCopy(std::uint64_t seed, const endpoint::Faults& faults, EdgeMap* map)
      : fixture_(seed, faults), map_(map) {}
  void perform(const Step& step, std::span<const std::vector<std::uint8_t>> segments, Outcome& outcome) override {
    [[maybe_unused]] const Tracing tracing(map_);
    fixture_.perform(step, segments, outcome);
  }
  [[nodiscard]] const KnownObjects& objects() const override { return fixture_.objects(); }
  [[nodiscard]] Bytes memory() override { return fixture_.memory(); }
  [[nodiscard]] const std::vector<std::uint8_t>& streams() const override { return fixture_.streams(); }
  [[nodiscard]] StreamBases bases(std::int64_t at) const override { return fixture_.bases(at); }

 private:
  IwarpDeviceFixture fixture_;
  EdgeMap* map_;
};

const Subjects here{
    [](std::uint64_t seed, const device::Faults& faults, EdgeMap* map) -> std::unique_ptr<RoceSubject> {
      return std::make_unique<FixtureOfCopy>(seed, faults, map);
    },
    [](std::uint64_t seed, const endpoint::Faults& faults, EdgeMap* map) -> std::unique_ptr<IwarpSubject> {
      return std::make_unique<IwarpFixtureOfCopy>(seed, faults, map);
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
