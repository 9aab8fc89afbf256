#pragma once
/// iWARP, for a session: the software endpoint and streams.

#include <array>
#include <memory>

#include "conformance/fuzzer/iwarp_device_fixture.hpp"
#include "conformance/fuzzer/iwarp_step_generator.hpp"
#include "conformance/fuzzer/reference_model.hpp"
#include "conformance/fuzzer/stream_frames.hpp"
#include "conformance/fuzzer/target.hpp"

namespace rdmawire::fuzzer {

/// What is said to a device, and what the tester hears of it.
class IwarpTester {
 public:
  /// The TCP segments of a step, until the next one.
  std::span<const std::vector<std::uint8_t>> make(const Step& step, const KnownObjects& objects,
                                                  const StreamBases& bases);
  /// What the device sent; `streams`: of which stream each is.
  void heard(std::span<const std::vector<std::uint8_t>> frames, std::span<const std::uint8_t> streams,
             const std::array<bool, 2>& markers);
  [[nodiscard]] const std::array<StreamTester, 2>& streams() const { return streams_; }
  void clear() { streams_ = {}; }

 private:
  std::array<StreamTester, 2> streams_;
  std::vector<std::vector<std::uint8_t>> segments_;
};

class IwarpShadow final : public ReferenceModel {
 public:
  /// `chance` must outlive it.
  IwarpShadow(std::uint64_t seed, Rng& chance, const IwarpWalkOptions& options)
      : world_(seed, {}, options.settings), walk_(chance, options) {}

  Step next() override { return walk_.next(world_, tester_.streams()); }
  Step plain() override { return walk_.plain(world_, tester_.streams()[0]); }
  void perform(const Step& step) override;
  [[nodiscard]] const Outcome& outcome() const override { return outcome_; }
  [[nodiscard]] Bytes memory() override { return world_.memory(); }
  [[nodiscard]] std::int64_t now() const override { return world_.now(); }
  [[nodiscard]] std::uint64_t edge(const Step& step, const Outcome& actual) const override;
  [[nodiscard]] std::optional<Alarm> judge(const Step& step, const Outcome& actual, Bytes memory,
                                           const Tolerance& tolerance) override;
  void exchanged(std::size_t step, const Outcome& actual, std::vector<Exchanged>& frames) override;

  // Of the last step, for targets.
  [[nodiscard]] const StreamBases& bases() const { return bases_; }
  [[nodiscard]] const IwarpDeviceFixture& world() const { return world_; }

 private:
  IwarpDeviceFixture world_;
  IwarpTester tester_;
  IwarpStepGenerator walk_;
  StreamBases bases_;
  Outcome outcome_;
  std::int64_t began_ = 0;  ///< the last step
  const Step* step_ = nullptr;
  StreamFrames frames_;
};

/// What an endpoint's TCP segment says, one line: "Terminate: DDP, Untagged Buffer Error, …", "MPA Reply Frame".
std::string summary_of_stream(Bytes segment);

/// Target::broken() of iWARP's.
std::vector<FaultyReference> broken_endpoint(const Tolerance& tolerance);
/// The software endpoint, in this process, with these faults; compared as another device is, if that is said.
std::unique_ptr<Target> reference_endpoint_target(const endpoint::Faults& faults, std::string name = "reference:iwarp",
                                                  const Tolerance& tolerance = {});
/// A device of iWARP behind an agent. `first`, if there is one, is used before any is opened.
tl::expected<std::unique_ptr<Target>, conformance::TargetError> iwarp_remote_target(
    Reopen reopen, std::string name, std::unique_ptr<conformance::Target> first = nullptr);

}  // namespace rdmawire::fuzzer
