#pragma once
/// The devices of World and IwarpDeviceFixture that are fuzzed, from one of two copies of their code: the one that
/// everybody uses, and one that reports which edges of its code it runs through (cmake/traced.cmake). The shadow beside
/// them is of the first, so that what it runs is not counted.

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

/// As World.
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

/// As IwarpDeviceFixture.
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

/// One copy. What its subjects run through in perform() is added to the map, if the copy can; nullptr: to none. The map
/// must outlive them.
struct Subjects {
  std::unique_ptr<RoceSubject> (*roce)(std::uint64_t seed, const device::Faults& faults, EdgeMap* map);
  std::unique_ptr<IwarpSubject> (*iwarp)(std::uint64_t seed, const endpoint::Faults& faults, EdgeMap* map);
};

/// The copy that everybody uses.
const Subjects& plain_subjects();
/// The copy that reports; nullptr: this build has none.
const Subjects* traced_subjects();
/// A number of that copy's code: the edges of another one are others. 0: there is none.
std::uint64_t traced_build_number();

}  // namespace rdmawire::fuzzer
