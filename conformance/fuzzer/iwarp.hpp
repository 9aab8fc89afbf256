#pragma once
/// iWARP family of the fuzzer: tester, reference model and targets.

#include <array>
#include <memory>

#include "conformance/fuzzer/iwarp_device_fixture.hpp"
#include "conformance/fuzzer/iwarp_step_generator.hpp"
#include "conformance/fuzzer/reference_model.hpp"
#include "conformance/fuzzer/stream_frames.hpp"
#include "conformance/fuzzer/target.hpp"

namespace rdmawire::fuzzer {

/// The tester's sides of the two streams.
class IwarpTester {
 public:
  /// Return the TCP segments of a step. They are valid until the next call.
  std::span<const std::vector<std::uint8_t>> make(const Step& step, const KnownObjects& objects,
                                                  const StreamBases& bases);
  /// Process segments from the device. `streams`: stream index of each segment.
  void receive(std::span<const std::vector<std::uint8_t>> frames, std::span<const std::uint8_t> streams,
               const std::array<bool, 2>& markers);
  [[nodiscard]] const std::array<StreamTester, 2>& streams() const { return streams_; }
  void clear() { streams_ = {}; }

 private:
  std::array<StreamTester, 2> streams_;
  std::vector<std::vector<std::uint8_t>> segments_;
};

class IwarpReferenceModel final : public ReferenceModel {
 public:
  /// `chance` must outlive the model.
  IwarpReferenceModel(std::uint64_t seed, Rng& chance, const IwarpGeneratorOptions& options)
      : fixture_(seed, {}, options.settings), generator_(chance, options) {}

  Step next() override { return generator_.next(fixture_, tester_.streams()); }
  Step plain() override { return generator_.plain(fixture_, tester_.streams()[0]); }
  void perform(const Step& step) override;
  [[nodiscard]] const Outcome& outcome() const override { return outcome_; }
  [[nodiscard]] Bytes memory() override { return fixture_.memory(); }
  [[nodiscard]] std::int64_t now() const override { return fixture_.now(); }
  [[nodiscard]] std::uint64_t edge(const Step& step, const Outcome& actual) const override;
  [[nodiscard]] std::optional<Alarm> judge(const Step& step, const Outcome& actual, Bytes memory,
                                           const Tolerance& tolerance) override;
  void exchanged(std::size_t step, const Outcome& actual, std::vector<Exchanged>& frames) override;

  // Values of the last step, for targets.
  [[nodiscard]] const StreamBases& bases() const { return bases_; }
  [[nodiscard]] const IwarpDeviceFixture& world() const { return fixture_; }

 private:
  IwarpDeviceFixture fixture_;
  IwarpTester tester_;
  IwarpStepGenerator generator_;
  StreamBases bases_;
  Outcome outcome_;
  std::int64_t began_ = 0;  ///< start of the last step
  const Step* step_ = nullptr;
  StreamFrames frames_;
};

/// Return a one-line summary of an endpoint's TCP segment: "Terminate: DDP, Untagged Buffer Error, …", "MPA Reply
/// Frame".
std::string summary_of_stream(Bytes segment);

/// Implements Target::broken() for iWARP.
std::vector<FaultyReference> broken_endpoint(const Tolerance& tolerance);
/// Return an in-process endpoint with these faults. `tolerance`: permitted differences from the reference (default:
/// none).
std::unique_ptr<Target> reference_endpoint_target(const endpoint::Faults& faults, std::string name = "reference:iwarp",
                                                  const Tolerance& tolerance = {});
/// Return an iWARP device behind an agent. `first`: an open connection to use first. nullptr: call `reopen`.
tl::expected<std::unique_ptr<Target>, conformance::TargetError> iwarp_remote_target(
    Reopen reopen, std::string name, std::unique_ptr<conformance::Target> first = nullptr);

}  // namespace rdmawire::fuzzer
