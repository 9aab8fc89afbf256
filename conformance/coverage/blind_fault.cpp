#include "conformance/coverage/blind_fault.hpp"

#include <nlohmann/json.hpp>
#include <vector>

#include "conformance/coverage/seeded_fault.hpp"
#include "conformance/device/iwarp/blind/blind_faults.hpp"
#include "conformance/device/roce/blind/blind_faults.hpp"

namespace rdmawire::conformance {

std::span<const BlindFault> blind_faults() {
  static const std::vector<BlindFault> all = [] {
    std::vector<BlindFault> faults;
    const auto add = [&](Family family, const auto& fault) {
      faults.push_back({.family = family,
                        .name = fault.name,
                        .area = fault.area,
                        .sentence = fault.sentence,
                        .trigger = fault.trigger,
                        .round = fault.round,
                        .date = fault.date});
    };
    for (const auto* fault : device::blind_faults()) add(Family::infiniband, *fault);
    for (const auto* fault : endpoint::blind_faults()) add(Family::iwarp, *fault);
    return faults;
  }();
  return all;
}

std::string faults_as_json() {
  using Json = nlohmann::ordered_json;
  Json seeded = Json::array(), blind = Json::array();
  for (const SeededFault& fault : seeded_faults())
    seeded.push_back({{"name", fault.name},
                      {"family", to_string(fault.family)},
                      {"behavior", fault.sentence},
                      {"rules", fault.broken}});
  for (const BlindFault& fault : blind_faults())
    blind.push_back({{"name", fault.name},
                     {"family", to_string(fault.family)},
                     {"area", fault.area},
                     {"behavior", fault.sentence},
                     {"trigger", fault.trigger},
                     {"round", fault.round},
                     {"date", fault.date}});
  return Json{{"seeded", seeded}, {"blind", blind}}.dump(2) + "\n";
}

}  // namespace rdmawire::conformance
