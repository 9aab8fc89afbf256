#pragma once
/// Limits how often a peer address can fail to authenticate.

#include <map>
#include <string>

#include "conformance/agent/loop.hpp"

namespace rdmawire::agent {

/// Decides when a connection may try to authenticate. The caller provides the time. Memory is bounded.
class Admission {
 public:
  struct Bounds {
    unsigned free_failures = 3;  ///< number of failures of an address after which its attempts are delayed
    /// Delay between two attempts of an address. It doubles with each further failure, up to `longest_delay`.
    Loop::Time first_delay = 1000 * Loop::millisecond, longest_delay = 4000 * Loop::millisecond;
    /// After this time without a failure, the failures of an address are forgotten.
    Loop::Time memory = 600'000 * Loop::millisecond;
    std::size_t most_addresses = 1024;  ///< beyond it, the address whose last failure is oldest is forgotten
  };

  Admission() : Admission(Bounds()) {}
  explicit Admission(const Bounds& bounds) : bounds_(bounds) {}

  /// Returns the earliest time of the next attempt. If it is not after `now`, the attempt may start immediately.
  [[nodiscard]] Loop::Time next_attempt(const std::string& address, Loop::Time now) const;
  /// Must be called when an attempt starts.
  void start(const std::string& address, Loop::Time now);
  /// Must be called when the attempt failed.
  void fail(const std::string& address, Loop::Time now);
  /// Must be called when the attempt succeeded. Forgets the failures of the address.
  void succeed(const std::string& address) { records_.erase(address); }

  [[nodiscard]] std::size_t addresses() const { return records_.size(); }

 private:
  struct Record {
    unsigned failures = 0;
    Loop::Time last_failure = 0;
    Loop::Time next_attempt = 0;
  };
  [[nodiscard]] Loop::Time delay_after(unsigned failures) const;

  Bounds bounds_;
  std::map<std::string, Record> records_;
};

}  // namespace rdmawire::agent
