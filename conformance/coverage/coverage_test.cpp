#include "conformance/coverage/coverage.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "source_directory.hpp"

namespace rdmawire::conformance {
namespace {

using testing::HasSubstr;

std::string content(const std::string& path) {
  std::ifstream file(std::filesystem::path(RDMAWIRE_SOURCE_DIR) / path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Coverage, EveryRuleIsChecked) { EXPECT_EQ(gaps(coverage()), ""); }

TEST(Coverage, GapIsReported) {
  Coverage one;
  const auto said = [&](const char* id) {
    one.rule = find_rule(id);
    return gaps({&one, 1});
  };
  EXPECT_EQ(said("roce.tester.icrc.sample-packet"),
            "HDR-016 roce.tester.icrc.sample-packet: mode unit, but no unit check\n");
  EXPECT_THAT(said("rc.responder.psn.sequence-error"), HasSubstr("mode both, but no case or monitor"));
  EXPECT_THAT(said("roce.sender.udp.checksum-zero"), HasSubstr("passive, but no monitor"));
  one.cases = {"a case"};
  EXPECT_THAT(said("roce.sender.udp.checksum-zero"), HasSubstr("passive, but no monitor"));
  EXPECT_EQ(said("rc.responder.psn.sequence-error"), "");
  const LeftOut reason{"rc.responder.psn.sequence-error", "For a reason."};
  one.without = &reason;
  EXPECT_THAT(said("rc.responder.psn.sequence-error"), HasSubstr("listed as an exception, but has all checks"));
}

TEST(Coverage, UnitChecksExist) {
  for (const UnitCheck& check : unit_checks()) {
    std::string declared = "TEST(" + std::string(check.test) + ")";
    declared.replace(declared.find('.'), 1, ", ");
    EXPECT_THAT(content(std::string(check.file)), HasSubstr(declared));
  }
}

TEST(Coverage, DocumentationPageIsCurrent) {
  EXPECT_EQ(coverage_page(), content("docs/reference/coverage.md"))
      << "rdmawire certify --coverage >docs/reference/coverage.md";
}

}  // namespace
}  // namespace rdmawire::conformance
