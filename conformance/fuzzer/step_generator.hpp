#pragma once
/// Generates steps for RoCE: steps that are valid in the current state, and steps with one mutation. The state is that
/// of a reference device that receives the same frames.

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

/// Steps that the generator may use.
struct GeneratorOptions {
  bool verbs = true;        ///< fast registration and misuse of verbs
  bool windows = true;      ///< memory windows
  bool xrc = true;          ///< XRC, and QP 1 used by the application
  bool other_ways = true;   ///< IPv6, RoCEv1 and multicast
  bool wait = true;         ///< waiting for timers, and steps without a pause
  bool extensions = true;   ///< FLUSH and ATOMIC WRITE
  bool connections = true;  ///< scripts that use the communication manager
  bool mixed = true;        ///< scripts with the communication manager also connect queue pairs by verbs
};

/// Return a mutation of a random header field of a frame.
Mutation change_of_field(Rng& chance, Bytes frame);
/// Return a mutation of a random field of these layers.
Mutation change_of_field(Rng& chance, Bytes frame, std::span<const Layer> layers);
/// Return a boundary value for a field of `bits` bits, or a value close to `was`.
std::uint64_t boundary(Rng& chance, unsigned bits, std::uint64_t was);

std::int64_t key_of(Key key);
/// Return the length in bytes of the memory that a key of a step gives access to.
std::int64_t bytes_of(std::int64_t key);

/// Return the base values of packets to this queue pair in its current state.
Bases bases_of(const device::QueuePair* qp);

class StepGenerator {
 public:
  /// `chance` must outlive this.
  StepGenerator(Rng& chance, GeneratorOptions options)
      : chance_(chance), options_(options), by_cm_(options.connections && chance.one_in(8)) {}

  /// Return the next step. Step::mutated is true if the step is intentionally invalid.
  Step next(DeviceFixture& fixture, const FrameMaker& maker);
  /// Update the history after a step.
  void add_to_history(const Step& step, const Bases& bases);

 private:
  Step anything(DeviceFixture& fixture, const FrameMaker& maker);
  Step connect(std::int64_t at);
  Step request(const device::QueuePair& qp, std::int64_t at);
  [[nodiscard]] std::int64_t key_to_invalidate(std::int64_t at) const;
  Step first_request(const device::QueuePair& qp, std::int64_t at);
  Step answer(const device::QueuePair& qp, std::int64_t at);
  Step post(const device::QueuePair& qp, std::int64_t at);
  Step verbs(std::int64_t at);
  std::optional<Step> window(const DeviceFixture& fixture, std::int64_t at);
  Step legal(DeviceFixture& fixture, std::int64_t at);
  Step connection(const DeviceFixture& fixture, std::int64_t at);
  Step message(std::int64_t attribute, const DeviceFixture& fixture, std::int64_t at);
  void mutate_cm_message(Step& step, const DeviceFixture& fixture, const FrameMaker& maker);
  Step misuse(std::int64_t at);
  Step revoke(std::int64_t at);
  bool repeat_packet(Step& step, const Bases& bases);
  void mutate(Step& step, const device::QueuePair* qp);
  void mutate_once(Step& step, const device::QueuePair* qp);
  void change_frame(Step& step);

  struct SentStep {
    Step step;
    Psn psn;
  };
  Rng& chance_;
  GeneratorOptions options_;
  std::array<bool, 2> bound_{};   ///< true: the queue pair's type 2 window is bound
  bool by_cm_;                    ///< this script uses the communication manager
  std::deque<SentStep> history_;  ///< requests and responses, newest last
};

}  // namespace rdmawire::fuzzer
