#pragma once
/// What comes next: steps that the protocol allows where the connection stands, and steps that are wrong in one way.
/// Where it stands is read from a sound reference device that hears the same.

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "conformance/device/random.hpp"
#include "conformance/fuzzer/frames.hpp"
#include "conformance/fuzzer/script.hpp"
#include "conformance/fuzzer/world.hpp"

namespace rdmawire::fuzzer {

/// Chance from a seed.
class Chance {
 public:
  explicit Chance(std::uint64_t seed) : random_(seed) {}
  std::uint64_t any() { return random_.next(); }
  /// From 0 on, below `count`, which is not 0.
  std::uint64_t below(std::uint64_t count) { return (random_.next() >> 16) % count; }
  bool one_in(std::uint64_t count) { return below(count) == 0; }
  bool percent(std::uint64_t share) { return below(100) < share; }
  template <class Range>
  const auto& of(const Range& range) {
    return *(std::begin(range) + static_cast<std::ptrdiff_t>(below(std::size(range))));
  }

 private:
  device::Random random_;
};

/// Which steps a walk may make.
struct WalkOptions {
  bool verbs = true;       ///< misuse of verbs, too; else what a consumer may ask for
  bool services = true;    ///< UC, UD, XRC, too; else RC alone
  bool requester = true;   ///< the device sends, too, and is answered
  bool other_ways = true;  ///< IPv6, RoCEv1, groups, too
  bool wait = true;        ///< timers run, and steps follow each other without any time between
  bool extensions = true;  ///< FLUSH and ATOMIC WRITE, too
};

/// A change of one field of a frame's headers, by what its table says of it.
Mutation change_of_field(Chance& chance, Bytes frame);
/// Numbers that a field of so many bits is tried with, beside those around what it holds.
std::uint64_t boundary(Chance& chance, unsigned bits, std::uint64_t was);

/// What requests and answers count from, by where the queue pair stands.
Bases bases_of(const device::QueuePair* qp);

class Walk {
 public:
  Walk(std::uint64_t seed, WalkOptions options) : chance_(seed), options_(options) {}

  /// The next step, and whether it is meant to be wrong.
  Step next(World& shadow, const FrameMaker& maker);
  /// After a step was made: what can be said again.
  void said(const Step& step, const Bases& bases);
  void forget() { history_.clear(); }
  Chance& chance() { return chance_; }

 private:
  Step anything(World& shadow, const FrameMaker& maker);
  Step connect(std::int64_t at);
  Step request(const device::QueuePair& qp, std::int64_t at);
  Step first_request(const device::QueuePair& qp, std::int64_t at);
  Step answer(const device::QueuePair& qp, std::int64_t at);
  Step post(std::int64_t at);
  Step verbs(std::int64_t at);
  Step legal(World& shadow, std::int64_t at);
  Step misuse(std::int64_t at);
  bool again(Step& step, const Bases& bases);
  void lie(Step& step, const device::QueuePair* qp);
  void lie_once(Step& step, const device::QueuePair* qp);
  void change_frame(Step& step);

  struct Said {
    Step step;
    Psn psn;
  };
  Chance chance_;
  WalkOptions options_;
  std::deque<Said> history_;  ///< of requests and answers, newest last
};

}  // namespace rdmawire::fuzzer
