#pragma once
/// Creates device fixtures from one of two copies of their code: the normal copy, or an instrumented copy that reports
/// executed edges (cmake/traced.cmake). The reference model uses the normal copy, so that its edges are not counted.

#include <memory>
#include <span>
#include <vector>

#include "conformance/device/iwarp/faults.hpp"
#include "conformance/device/roce/faults.hpp"
#include "conformance/device/roce/port.hpp"
#include "conformance/fuzzer/edge_map.hpp"
#include "conformance/fuzzer/known_objects.hpp"
#include "conformance/fuzzer/outcome.hpp"
#include "conformance/fuzzer/script.hpp"
#include "conformance/fuzzer/stream_tester.hpp"

namespace rdmawire::fuzzer {

/// See DeviceFixture.
class RoceSubject {
 public:
  RoceSubject() = default;
  RoceSubject(const RoceSubject&) = delete;
  RoceSubject& operator=(const RoceSubject&) = delete;
  virtual ~RoceSubject() = default;
  virtual void perform(const Step& step, std::span<const std::vector<std::uint8_t>> frames, Outcome& outcome) = 0;
  [[nodiscard]] virtual const KnownObjects& objects() const = 0;
  [[nodiscard]] virtual Bytes memory() = 0;
  [[nodiscard]] virtual const device::Port& port() const = 0;
};

/// See IwarpDeviceFixture.
class IwarpSubject {
 public:
  IwarpSubject() = default;
  IwarpSubject(const IwarpSubject&) = delete;
  IwarpSubject& operator=(const IwarpSubject&) = delete;
  virtual ~IwarpSubject() = default;
  virtual void perform(const Step& step, std::span<const std::vector<std::uint8_t>> segments, Outcome& outcome) = 0;
  [[nodiscard]] virtual const KnownObjects& objects() const = 0;
  [[nodiscard]] virtual Bytes memory() = 0;
  [[nodiscard]] virtual const std::vector<std::uint8_t>& streams() const = 0;
  [[nodiscard]] virtual StreamBases bases(std::int64_t at) const = 0;
};

/// Functions that create fixtures of one copy. If the copy is instrumented, edges that perform() executes are added to
/// `map`, unless it is nullptr. The map must outlive the fixtures.
struct Subjects {
  std::unique_ptr<RoceSubject> (*roce)(std::uint64_t seed, const device::Faults& faults, EdgeMap* map);
  std::unique_ptr<IwarpSubject> (*iwarp)(std::uint64_t seed, const endpoint::Faults& faults, EdgeMap* map);
};

/// Return the normal copy.
const Subjects& plain_subjects();
/// Return the instrumented copy, or nullptr if this build has none.
const Subjects* traced_subjects();
/// Return a number that identifies the code of the instrumented copy and its edges. 0: there is no such copy.
std::uint64_t traced_build_number();

}  // namespace rdmawire::fuzzer
