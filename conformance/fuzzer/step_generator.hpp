#pragma once
/// What comes next: steps that the protocol allows where the connection stands, and steps that are wrong in one way.
/// Where it stands is read from a sound reference device that hears the same.

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "conformance/fuzzer/device_fixture.hpp"
#include "conformance/fuzzer/frames.hpp"
#include "conformance/fuzzer/rng.hpp"
#include "conformance/fuzzer/script.hpp"

namespace rdmawire::fuzzer {

/// Which steps a walk may make.
struct WalkOptions {
  bool verbs = true;        ///< misuse of verbs, too, and fast registration; else what a consumer may ask for
  bool windows = true;      ///< memory windows
  bool xrc = true;          ///< XRC, too, and queue pair 1 in a consumer's hands
  bool other_ways = true;   ///< IPv6, RoCEv1, groups, too
  bool wait = true;         ///< timers run, and steps follow each other without any time between
  bool extensions = true;   ///< FLUSH and ATOMIC WRITE, too
  bool connections = true;  ///< some lives connect by the communication manager
  bool mixed = true;        ///< in those queue pairs are connected by verbs, too
};

/// A change of one field of a frame's headers, by what its table says of it.
Mutation change_of_field(Rng& chance, Bytes frame);
/// Of one field of these layers.
Mutation change_of_field(Rng& chance, Bytes frame, std::span<const Layer> layers);
/// Numbers that a field of so many bits is tried with, beside those around what it holds.
std::uint64_t boundary(Rng& chance, unsigned bits, std::uint64_t was);

/// What requests and answers count from, by where the queue pair stands.
Bases bases_of(const device::QueuePair* qp);

class StepGenerator {
 public:
  /// `chance` must outlive it.
  StepGenerator(Rng& chance, WalkOptions options)
      : chance_(chance), options_(options), by_cm_(options.connections && chance.one_in(8)) {}

  /// The next step, and whether it is meant to be wrong.
  Step next(DeviceFixture& shadow, const FrameMaker& maker);
  /// After a step was made: what can be said again.
  void said(const Step& step, const Bases& bases);
  void forget() { history_.clear(); }

 private:
  Step anything(DeviceFixture& shadow, const FrameMaker& maker);
  Step connect(std::int64_t at);
  Step request(const device::QueuePair& qp, std::int64_t at);
  [[nodiscard]] std::int64_t key_to_invalidate(std::int64_t at) const;
  Step first_request(const device::QueuePair& qp, std::int64_t at);
  Step answer(const device::QueuePair& qp, std::int64_t at);
  Step post(const device::QueuePair& qp, std::int64_t at);
  Step verbs(std::int64_t at);
  std::optional<Step> window(const DeviceFixture& shadow, std::int64_t at);
  Step legal(DeviceFixture& shadow, std::int64_t at);
  Step connection(const DeviceFixture& shadow, std::int64_t at);
  Step message(std::int64_t attribute, const DeviceFixture& shadow, std::int64_t at);
  void lie_to_cm(Step& step, const DeviceFixture& shadow, const FrameMaker& maker);
  Step misuse(std::int64_t at);
  Step revoke(std::int64_t at);
  bool again(Step& step, const Bases& bases);
  void lie(Step& step, const device::QueuePair* qp);
  void lie_once(Step& step, const device::QueuePair* qp);
  void change_frame(Step& step);

  struct Said {
    Step step;
    Psn psn;
  };
  Rng& chance_;
  WalkOptions options_;
  std::array<bool, 2> bound_{};  ///< type 2 windows, by the queue pair that binds them
  bool by_cm_;                   ///< this life connects by the communication manager
  std::deque<Said> history_;     ///< of requests and answers, newest last
};

}  // namespace rdmawire::fuzzer
