#include "conformance/coverage/blind_fault.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "conformance/coverage/seeded_fault.hpp"

namespace rdmawire::conformance {
namespace {

TEST(BlindFaults, NamesAreUniqueAndDescriptionsComplete) {
  std::set<std::string_view> names;
  for (const SeededFault& fault : seeded_faults()) names.insert(fault.name);
  for (const BlindFault& fault : blind_faults()) {
    EXPECT_TRUE(names.insert(fault.name).second) << fault.name;
    EXPECT_FALSE(fault.area.empty()) << fault.name;
    EXPECT_TRUE(fault.sentence.ends_with('.')) << fault.name;
    EXPECT_FALSE(fault.trigger.empty()) << fault.name;
    EXPECT_GE(fault.round, 1U) << fault.name;
    EXPECT_EQ(fault.date.size(), 10U) << fault.name;
  }
}

TEST(BlindFaults, JsonListsBothTables) {
  const auto json = nlohmann::json::parse(faults_as_json());
  EXPECT_EQ(json.at("seeded").size(), seeded_faults().size());
  ASSERT_EQ(json.at("blind").size(), blind_faults().size());
  EXPECT_EQ(json.at("blind").at(0).at("name"), blind_faults()[0].name);
  EXPECT_EQ(json.at("blind").at(0).at("family"), to_string(blind_faults()[0].family));
}

}  // namespace
}  // namespace rdmawire::conformance
