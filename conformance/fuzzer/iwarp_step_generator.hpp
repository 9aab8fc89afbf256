#pragma once
/// What comes next on a stream of iWARP: steps that MPA, DDP and RDMAP allow where it stands, and steps that are wrong
/// in one way. Where it stands is read from a sound endpoint that hears the same.

#include <array>
#include <cstdint>
#include <deque>

#include "conformance/fuzzer/iwarp_device_fixture.hpp"
#include "conformance/fuzzer/rng.hpp"
#include "conformance/fuzzer/script.hpp"
#include "conformance/fuzzer/stream_tester.hpp"

namespace rdmawire::fuzzer {

/// Which steps a walk may make.
struct IwarpWalkOptions {
  std::optional<std::int64_t>
      settings{};          ///< stream_settings that the device has; nothing: it can be set up in every way
  bool extensions = true;  ///< RFC 7306
  bool verbs = true;       ///< windows, fast registration, misuse of verbs, notifications
  bool timing = true;      ///< timers run, and steps follow each other before the device has answered
};

class IwarpStepGenerator {
 public:
  /// `chance` must outlive it.
  IwarpStepGenerator(Rng& chance, const IwarpWalkOptions& options) : chance_(chance), options_(options) {}

  Step next(const IwarpDeviceFixture& shadow, const std::array<StreamTester, 2>& testers);
  /// What comes next for who knows nothing of states.
  Step plain(const IwarpDeviceFixture& shadow, const StreamTester& tester);
  /// After a step was made: what is open, and what can be said again.
  void said(const Step& step);

 private:
  Step legal(const IwarpDeviceFixture& shadow, const StreamTester& tester, std::int64_t at);
  Step connect(std::int64_t at);
  void set_up(Step& step, bool device_asks, bool peer_to_peer);
  Step segment(std::int64_t at);
  Step answer(const StreamTester::Request& oldest, std::int64_t at);
  Step post(std::int64_t at);
  Step verbs(std::int64_t at);
  Step misuse(std::int64_t at);
  Step more(std::int64_t at);
  void place(Step& step, std::int64_t bytes);
  void lie(Step& step);
  void lie_of_setup(Step& step);
  void change_fields(Step& step, const IwarpDeviceFixture& shadow, const StreamTester& tester);
  void change_whole(Step& step);

  static constexpr std::size_t most_said = 24;
  Rng& chance_;
  IwarpWalkOptions options_;
  std::deque<Step> history_;                 ///< of segments, newest last
  std::array<std::optional<Step>, 2> open_;  ///< the last segment of a Send that goes on
};

}  // namespace rdmawire::fuzzer
