#include "conformance/rules/rules.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "conformance/rules/explain_rules.hpp"
#include "conformance/rules/well_formed.hpp"
#include "source_directory.hpp"

namespace rdmawire::conformance {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The compiler performs the same check, but does not report which rule is wrong.
TEST(Rules, AllAreWellFormed) {
  for (const Rule& rule : rules) EXPECT_EQ(fault_of(rule), "") << rule.id << " " << rule.alias;
  std::vector<std::string_view> names;
  for (const Rule& rule : rules) names.insert(names.end(), {rule.id, rule.alias});
  std::ranges::sort(names);
  std::erase(names, std::string_view());
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
}

TEST(Rules, MalformedRuleIsRejected) {
  const Rule good = *find_rule("RSP-009");
  EXPECT_EQ(fault_of(good), "");
  const auto with = [&](auto change) {
    Rule rule = good;
    change(rule);
    return fault_of(rule);
  };
  for (const std::string_view id : {"rc.responder.psn", "rc.responder.psn.a.b", "RC.responder.psn.a", "rc..psn.a",
                                    "rc.responder.psn.-a", "rc.responder.psn.a-", "rc.responder.psn.a b", ""})
    EXPECT_THAT(with([&](Rule& rule) { rule.id = id; }), HasSubstr("SUBJECT")) << id;
  for (const std::string_view alias : {"RSP-9", "rsp-009", "RSPX-009", "R-009", "RSP009", "RSP-0x9"})
    EXPECT_THAT(with([&](Rule& rule) { rule.alias = alias; }), HasSubstr("alias")) << alias;
  EXPECT_EQ(with([](Rule& rule) { rule.alias = ""; }), "") << "a rule outside the catalog";
  EXPECT_THAT(with([](Rule& rule) { rule.clauses = {}; }), HasSubstr("no clause"));
  EXPECT_THAT(with([](Rule& rule) { rule.clauses[0].number = {}; }), HasSubstr("clause"));
  for (const std::string_view sentence : {"The sender shall send", "A gap. A NAK.", "the sender shall send.", ""})
    EXPECT_THAT(with([&](Rule& rule) { rule.sentence = sentence; }), HasSubstr("sentence")) << sentence;
  EXPECT_THAT(with([](Rule& rule) { rule.services = Services::none; }), HasSubstr("service"));

  std::array<Rule, 2> twice{good, good};
  EXPECT_FALSE(are_unique(twice));
  twice[1].id = "rc.responder.psn.another";
  EXPECT_FALSE(are_unique(twice)) << "duplicate alias";
  twice[1].alias = "";
  EXPECT_TRUE(are_unique(twice));
  EXPECT_EQ(first_fault(twice), 2U);
  twice[1].sentence = "";
  EXPECT_EQ(first_fault(twice), 1U);

  EXPECT_TRUE(follows_catalog(xrc_rules, "XRC", 9));
  EXPECT_FALSE(follows_catalog(xrc_rules, "XRC", 10)) << "a rule is missing";
  EXPECT_FALSE(follows_catalog(xrc_rules, "XRC", 8)) << "an alias exceeds the catalog";
  EXPECT_FALSE(follows_catalog(xrc_rules, "UC", 9));
  EXPECT_FALSE(follows_catalog(std::span(xrc_rules).subspan(1), "XRC", 8)) << "the first alias is not 001";
}

// Number of rules per alias prefix, as declared with follows_catalog() in rules.cpp.
TEST(Rules, CountsMatchCatalog) {
  const std::size_t with_alias = std::ranges::count_if(rules, [](const Rule& rule) { return !rule.alias.empty(); });
  EXPECT_EQ(with_alias, 441U);
  struct Row {
    std::string prefix;
    std::ptrdiff_t count;
  };
  const Row rows[] = {{"HDR", 42}, {"RSP", 72}, {"REQ", 44}, {"UC", 13},  {"UD", 20},
                      {"XRC", 9},  {"CNP", 13}, {"QPS", 31}, {"MPA", 37}, {"FPD", 22},
                      {"DDP", 29}, {"RDM", 35}, {"TRM", 18}, {"EXT", 19}, {"MRC", 37}};
  for (const Row& row : rows) {
    EXPECT_EQ(std::ranges::count_if(rules, [&](const Rule& rule) { return matches(rule, row.prefix + "-*"); }),
              row.count);
    const auto group = std::ranges::find(groups, row.prefix, &Group::prefix);
    ASSERT_NE(group, groups.end());
    EXPECT_GE(group->size, static_cast<std::size_t>(row.count));
    EXPECT_EQ(group->rules().front().alias, row.prefix + "-001");
  }
}

// A sentence starts with "The <actor> <modal verb>", or with "If <condition>, the <actor> <modal verb>". The role in
// the ID determines the actor, and the level determines the modal verb.
TEST(Rules, SentencesNameActorAndModalVerbOfLevel) {
  const std::map<std::string, std::string> actors{{"sender", "sender"},
                                                  {"receiver", "receiver"},
                                                  {"requester", "requester"},
                                                  {"responder", "responder"},
                                                  {"endpoint", "endpoint"},
                                                  {"notification-point", "notification point"},
                                                  {"reaction-point", "reaction point"},
                                                  {"active-side", "active side"},
                                                  {"initiator", "initiator"},
                                                  {"data-source", "data source"},
                                                  {"data-sink", "data sink"},
                                                  {"verbs", "device"},
                                                  {"tester", "tester"}};
  for (const Rule& rule : rules) {
    const std::string id(rule.id), sentence(rule.sentence);
    const std::size_t role = id.find('.') + 1;
    const auto actor = actors.find(id.substr(role, id.find('.', role) - role));
    ASSERT_NE(actor, actors.end()) << id;
    // The modal verb of tool rules is "shall".
    const std::string modal(rule.level == Level::tool ? "shall" : to_string(rule.level));
    const bool starts_with_actor = sentence.starts_with("The " + actor->second + " " + modal);
    const bool starts_with_condition =
        sentence.starts_with("If ") && sentence.find(", the " + actor->second + " " + modal + " ") != std::string::npos;
    EXPECT_TRUE(starts_with_actor || starts_with_condition) << id << ": " << sentence;
  }
}

TEST(Rules, TextsUseTermsOfTheGlossary) {
  std::string words;
  for (const std::string_view word :
       {"octets?",  "behind",   "besides?", "likewise", "anew",    "nobody", "somebody",       "whoever",
        "whatever", "consumer", "tells?",   "told",     "says?",   "said",   "asks?",          "asked",
        "hears?",   "heard",    "draws?",   "stands?",  "judged?", "half",   "sen[dt]s? again"})
    words += (words.empty() ? "" : "|") + std::string(word);
  const std::regex banned("\\b(" + words + ")\\b");
  for (const Rule& rule : rules) {
    std::vector<std::string> texts{std::string(rule.sentence), std::string(rule.stimulus), std::string(rule.applies)};
    for (const Clause& clause : rule.sources()) texts.emplace_back(clause.title);
    for (const std::string& text : texts) EXPECT_FALSE(std::regex_search(text, banned)) << rule.id << ": " << text;
  }
}

TEST(Rules, HaveExpectedLevelModeAndServices) {
  EXPECT_EQ(RuleId("roce.sender.udp.checksum-zero")->level, Level::should);
  EXPECT_EQ(RuleId("roce.sender.udp.checksum-zero")->mode, Mode::passive);
  EXPECT_EQ(RuleId("rc.responder.read.too-many")->level, Level::may);
  EXPECT_EQ(RuleId("roce.tester.icrc.sample-packet")->mode, Mode::unit);
  EXPECT_EQ(RuleId("roce.tester.icrc.cut-off-inconclusive")->level, Level::tool);
  EXPECT_EQ(RuleId("rc.responder.psn.sequence-error")->mode, Mode::both);
  EXPECT_EQ(to_string(RuleId("rc.responder.psn.sequence-error")->services), "RC, XRC");
  EXPECT_EQ(to_string(RuleId("bth.sender.ack-request.clear-if-unacknowledged")->services), "UC, UD");
  EXPECT_TRUE(contains(Services::connected, Services::uc));
  EXPECT_FALSE(contains(Services::connected, Services::ud));
  EXPECT_FALSE(contains(Services::infiniband, Services::iwarp));
  EXPECT_EQ(RuleId("mpa.receiver.frame.never-ends")->level, Level::should);
  EXPECT_EQ(RuleId("rdmap.responder.order.write-after-read")->level, Level::may);
  EXPECT_EQ(RuleId("fpdu.tester.crc.sample-fpdus")->mode, Mode::unit);
  EXPECT_EQ(RuleId("fpdu.sender.ulpdu.one-each")->mode, Mode::passive);
  for (const std::string_view prefix : {"MPA", "FPD", "DDP", "RDM", "TRM", "EXT"})
    for (const Rule& rule : std::ranges::find(groups, prefix, &Group::prefix)->rules())
      EXPECT_EQ(to_string(rule.services), "iWARP") << rule.id;
}

TEST(Rules, EachRuleOfMrcHasTwoSources) {
  for (const Rule& rule : mrc_rules) {
    std::vector<std::string> sources;
    for (const Clause& clause : rule.sources())
      sources.emplace_back(clause.document == "OCP MRC 1.0" ? clause.title.substr(0, clause.title.find(':'))
                                                            : clause.document);
    std::ranges::sort(sources);
    EXPECT_GE(std::ranges::unique(sources).begin() - sources.begin(), 2) << rule.id;
  }
}

TEST(Rules, FindRuleAcceptsIdAndAlias) {
  constexpr RuleId rule = "rc.responder.psn.sequence-error";
  EXPECT_EQ(rule->alias, "RSP-009");
  EXPECT_EQ(find_rule("RSP-009"), &*rule);
  EXPECT_EQ(find_rule("rsp-009"), &*rule);
  EXPECT_EQ(find_rule("rc.responder.psn.sequence-error"), &*rule);
  EXPECT_EQ(find_rule("RC.Responder.PSN.sequence-error"), &*rule);
  EXPECT_EQ(find_rule("RSP-9"), nullptr);
  EXPECT_EQ(find_rule("RSP-*"), nullptr);
  EXPECT_EQ(find_rule(""), nullptr) << "although some rules have no alias";
}

TEST(Rules, MatchPatterns) {
  const Rule& rule = *RuleId("rc.responder.psn.sequence-error");
  for (const std::string_view pattern :
       {"*", "rc.*", "RC.*", "*.psn.*", "*error", "rc.responder.psn.sequence-error", "RSP-009", "rsp-???", "RSP-*",
        "**", "r*r*e-e*r", "?c.*", "*rc.responder.psn.sequence-error*"})
    EXPECT_TRUE(matches(rule, pattern)) << pattern;
  for (const std::string_view pattern :
       {"", "rc", "rc.responder.psn", "uc.*", "RSP-??", "RSP-009?", "*erro", "?", "c.*"})
    EXPECT_FALSE(matches(rule, pattern)) << pattern;
  // A backtracking matcher would need exponential time for this pattern.
  std::string stars;
  for (int i = 0; i < 2000; ++i) stars += "*?";
  EXPECT_FALSE(matches(rule, stars + "x"));
}

TEST(Rules, SelectByPatternIdPartsAndClause) {
  const auto ids = [](std::string_view pattern) {
    std::vector<std::string_view> found;
    for (const Rule* rule : select_rules(pattern)) found.push_back(rule->id);
    return found;
  };
  EXPECT_THAT(ids("rc.responder.atomic-write.*"),
              ElementsAre("rc.responder.atomic-write.executed", "rc.responder.atomic-write.length",
                          "rc.responder.atomic-write.misaligned", "rc.responder.atomic-write.duplicate"));
  EXPECT_EQ(ids("rc.responder.atomic-write"), ids("rc.responder.atomic-write.*")) << "leading parts of an id";
  EXPECT_THAT(ids("rc.responder.atomic-wr"), IsEmpty());
  EXPECT_THAT(ids("HDR-042"), ElementsAre("roce.tester.icrc.cut-off-inconclusive"));
  EXPECT_THAT(ids(""), IsEmpty());
  EXPECT_EQ(ids("*").size(), rules.size());
  EXPECT_THAT(ids("c9-105"), ElementsAre("rc.responder.duplicate.not-executed-again",
                                         "rc.responder.duplicate.newest-psn-acknowledged"))
      << "rules that cite the clause";
}

TEST(Rules, NearestNamesAreFound) {
  EXPECT_EQ(nearest_rules("rc.responder.psn.sequence-eror").front(), "rc.responder.psn.sequence-error");
  EXPECT_EQ(nearest_rules("RC.RESPONDER.PSN.SEQUENCE-EROR").front(), "rc.responder.psn.sequence-error");
  EXPECT_THAT(nearest_rules("RSP-9", 1), ElementsAre("RSP-009"));
  EXPECT_THAT(nearest_rules("RSP-079", 3), ElementsAre("RSP-070", "RSP-071", "RSP-072"))
      << "longest common prefix first";
  EXPECT_LE(nearest_rules("RSP-100").size(), 5U);
  EXPECT_THAT(nearest_rules("completely unlike anything here"), IsEmpty());
  EXPECT_THAT(nearest_rules(""), IsEmpty());
}

TEST(Clauses, ToStringMarksUnverifiedNumbers) {
  EXPECT_EQ(to_string(ib("C9-148", "9.7.7.1")), "IBTA vol 1, C9-148 (9.7.7.1)");
  EXPECT_EQ(to_string(ib("9.7.5")), "IBTA vol 1, 9.7.5");
  EXPECT_EQ(to_string(ib_unverified("one NAK for a gap")),
            "IBTA vol 1, one NAK for a gap (clause number not verified)");
  EXPECT_EQ(to_string(ib_unverified("state RTR", "10.3.1")),
            "IBTA vol 1, state RTR (near 10.3.1, clause number not verified)");
  EXPECT_EQ(to_string(rfc("RFC 5044", "7.1.1")), "RFC 5044, 7.1.1");
  EXPECT_EQ(to_string(rfc("RFC 5044", "7.1.2", "rule 5")), "RFC 5044, 7.1.2 (rule 5)");
  EXPECT_EQ(to_string(practice("Lumina")), "practice: Lumina");
  EXPECT_EQ(clauses_of(*find_rule("RSP-009")),
            "IBTA vol 1, 9.7.5.2.2 (NAK codes); IBTA vol 1, one NAK for a gap (clause number not verified)");
  EXPECT_EQ(find_rule("QPS-014")->clause_count(), 8U) << "the maximum";
}

TEST(ExplainRules, OneRule) {
  EXPECT_EQ(
      explain_rule(*find_rule("RSP-061")),
      "rc.responder.atomic-write.executed  RSP-061  shall\n"
      "  The responder shall write the 8 bytes of an ATOMIC WRITE, return an RDMA READ response Only without payload,\n"
      "  and increment the MSN.\n"
      "  services  RC\n"
      "  applies   the device supports ATOMIC WRITE\n"
      "  checked   passively in a capture, and actively with a stimulus\n"
      "  stimulus  ATOMIC WRITE\n"
      "  clause    IBTA vol 1, oA19-28\n"
      "            IBTA vol 1, A19.4.2\n");
  EXPECT_THAT(explain_rule(*find_rule("RSP-061"), true), HasSubstr("\033["));
}

TEST(ExplainRules, AList) {
  const std::string list = list_rules(select_rules("HDR-01?"));
  EXPECT_THAT(list, HasSubstr("HDR-013  should  passive  roce.sender.udp.checksum-zero\n"
                              "                          The sender should set the UDP checksum to 0.\n"));
  EXPECT_EQ(list_rules({}), "");
}

TEST(ExplainRules, Json) {
  const auto json = nlohmann::json::parse(rule_json(*find_rule("RSP-058")));
  EXPECT_EQ(json, nlohmann::json::parse(R"({"kind":"rule","id":"rc.responder.state.ready-to-receive","alias":"RSP-058",
      "level":"shall","mode":"active","services":["rc","xrc"],
      "clauses":[{"document":"IBTA vol 1","number":"10.3.1","title":"state RTR","verified":false}],
      "sentence":"The responder shall execute and acknowledge requests while its QP is in RTR.",
      "stimulus":"requests to a queue pair in RTR","applies":""})"));
}

TEST(ExplainRules, DocumentationPageIsCurrent) {
  std::ifstream file(RDMAWIRE_SOURCE_DIR "/docs/reference/rules.md");
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_TRUE(page.str() == rules_page())
      << "docs/reference/rules.md is outdated: rdmawire explain --rules > docs/reference/rules.md";
}

}  // namespace
}  // namespace rdmawire::conformance
