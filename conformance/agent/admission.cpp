#include "conformance/agent/admission.hpp"

#include <algorithm>

namespace rdmawire::agent {

Loop::Time Admission::delay_after(unsigned failures) const {
  if (failures < bounds_.free_failures) return 0;
  const unsigned doublings = std::min(failures - bounds_.free_failures, 20U);
  return std::min(bounds_.first_delay << doublings, bounds_.longest_delay);
}

Loop::Time Admission::next_attempt(const std::string& address, Loop::Time now) const {
  const auto found = records_.find(address);
  if (found == records_.end() || now - found->second.last_failure > bounds_.memory) return now;
  return found->second.next_attempt;
}

void Admission::start(const std::string& address, Loop::Time now) {
  const auto found = records_.find(address);
  if (found != records_.end()) found->second.next_attempt = now + delay_after(found->second.failures);
}

void Admission::fail(const std::string& address, Loop::Time now) {
  std::erase_if(records_, [&](const auto& entry) { return now - entry.second.last_failure > bounds_.memory; });
  if (!records_.contains(address) && records_.size() >= bounds_.most_addresses) {
    records_.erase(std::min_element(records_.begin(), records_.end(), [](const auto& a, const auto& b) {
      return a.second.last_failure < b.second.last_failure;
    }));
  }
  Record& record = records_[address];
  ++record.failures;
  record.last_failure = now;
  record.next_attempt = now + delay_after(record.failures);
}

}  // namespace rdmawire::agent
