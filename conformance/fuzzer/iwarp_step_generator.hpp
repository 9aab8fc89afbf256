#pragma once
/// Generates steps for iWARP streams: steps of MPA, DDP and RDMAP that are valid in the current state, and steps with
/// one mutation. The state is that of a reference endpoint that receives the same segments.

#include <array>
#include <cstdint>
#include <deque>

#include "conformance/fuzzer/iwarp_device_fixture.hpp"
#include "conformance/fuzzer/rng.hpp"
#include "conformance/fuzzer/script.hpp"
#include "conformance/fuzzer/stream_tester.hpp"

namespace rdmawire::fuzzer {

/// Steps that the generator may use.
struct IwarpGeneratorOptions {
  std::optional<std::int64_t> settings{};  ///< stream_settings of the device. nullopt: all settings are supported
  bool extensions = true;                  ///< atomics and immediate data of RFC 7306
  bool verbs = true;                       ///< windows, fast registration, misuse of verbs, notifications
  bool timing = true;  ///< waiting for timers, and steps that are sent before the device has responded
};

class IwarpStepGenerator {
 public:
  /// `chance` must outlive this.
  IwarpStepGenerator(Rng& chance, const IwarpGeneratorOptions& options) : chance_(chance), options_(options) {}

  Step next(const IwarpDeviceFixture& fixture, const std::array<StreamTester, 2>& testers);
  /// Return a step that ignores the state.
  Step plain(const IwarpDeviceFixture& fixture, const StreamTester& tester);
  /// Update unfinished messages and the history after a step.
  void add_to_history(const Step& step);

 private:
  Step legal(const IwarpDeviceFixture& fixture, const StreamTester& tester, std::int64_t at);
  Step connect(std::int64_t at);
  void set_up(Step& step, bool device_initiates, bool peer_to_peer);
  Step segment(std::int64_t at);
  Step answer(const StreamTester::Request& oldest, std::int64_t at);
  Step post(std::int64_t at);
  Step verbs(std::int64_t at);
  Step misuse(std::int64_t at);
  Step more(std::int64_t at);
  void place(Step& step, std::int64_t bytes);
  void mutate(Step& step);
  void mutate_setup(Step& step);
  void change_fields(Step& step, const IwarpDeviceFixture& fixture, const StreamTester& tester);
  void change_whole(Step& step);

  static constexpr std::size_t max_history = 24;
  Rng& chance_;
  IwarpGeneratorOptions options_;
  std::deque<Step> history_;                 ///< segments, newest last
  std::array<std::optional<Step>, 2> open_;  ///< last segment of an unfinished Send, by stream
};

}  // namespace rdmawire::fuzzer
