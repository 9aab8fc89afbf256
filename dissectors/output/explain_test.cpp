#include "dissectors/output/explain.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "dissectors/protocol/infiniband.hpp"
#include "source_directory.hpp"

namespace rdmawire::output {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string first(std::string_view query) {
  const auto topics = find_topics(query);
  return topics.empty() ? "nothing" : explain(topics.front());
}

TEST(Explain, HeaderIsDrawnAsInTheSpecification) {
  EXPECT_EQ(draw_header(info<Bth>),
            "    0                   1                   2                   3\n"
            "    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1\n"
            "   ┌───────────────┬─┬─┬───┬───────┬───────────────────────────────┐\n"
            "  0│    opcode     │s│m│pad│ tver  │             pkey              │\n"
            "   ├─┬─┬───────────┼─┴─┴───┴───────┴───────────────────────────────┤\n"
            "  4│f│b│ reserved  │                    dest_qp                    │\n"
            "   ├─┼─┴───────────┼───────────────────────────────────────────────┤\n"
            "  8│a│  reserved   │                      psn                      │\n"
            "   └─┴─────────────┴───────────────────────────────────────────────┘\n"
            "    s se, m migreq, f fecn, b becn, a ack_request\n");
}

TEST(Explain, EquivalentNames) {
  const std::string write_only = first("0x0a");
  EXPECT_THAT(write_only, HasSubstr("RC RDMA WRITE Only"));
  EXPECT_THAT(write_only, HasSubstr("reth (16 bytes)"));
  for (const char* query : {"10", "opcode 10", "bth.opcode 0xa", "OPCODE 10"})
    EXPECT_EQ(first(query), write_only) << query;
  EXPECT_THAT(first("RC RDMA WRITE Only"), HasSubstr("10 (0xa) in bth.opcode"));
  EXPECT_EQ(first("rc-rdma-write-only"), first("RC RDMA WRITE Only"));
  EXPECT_EQ(find_topics("rdma write only").size(), 5U) << "RC, UC, RD, XRC, MRC";
  EXPECT_THAT(first("0xdc"), HasSubstr("MRC SACK"));
  EXPECT_THAT(first("0xdc"), HasSubstr("mrc.opcode"));

  EXPECT_THAT(first("bth"), HasSubstr("Base Transport Header"));
  EXPECT_EQ(first("base transport header"), first("bth"));
  EXPECT_THAT(first("bth.psn"), HasSubstr("bits 72 to 95"));
  EXPECT_EQ(first("infiniband.bth.psn"), first("bth.psn"));
}

TEST(Explain, Acknowledgements) {
  EXPECT_THAT(first("syndrome 0x60"), HasSubstr("PSN sequence error"));
  EXPECT_THAT(first("rnr 14"), HasSubstr("1.28 ms"));
  EXPECT_THAT(first("nak 2"), HasSubstr("remote access error"));
  EXPECT_THAT(first("nak code 2"), HasSubstr("remote access error"));
  EXPECT_THAT(first("nak.sequence-error"), HasSubstr("aeth.syndrome 0x60"));
  EXPECT_THAT(first("rnr nak"), HasSubstr("not ready"));
  EXPECT_THAT(first("rnr nak"), HasSubstr("1 (0x1) in aeth.syndrome.kind\n"));
  EXPECT_THAT(first("rnr nak"), HasSubstr("also defined   aeth.syndrome.timer, RNR NAK: timer code"));
  EXPECT_THAT(first("nak"), HasSubstr("rejected"));
  EXPECT_THAT(first("nak"), HasSubstr("aeth.syndrome.nak_code, NAK: error code (explain nak-code)"));
}

TEST(Explain, ReasonsAndCodes) {
  EXPECT_THAT(first("reject reason 28"), HasSubstr("Consumer Reject"));
  EXPECT_THAT(first("CM REJ reason 8"), HasSubstr("Invalid Service ID"));
  EXPECT_THAT(first("consumer reject"), HasSubstr("28 (0x1c) in cmrej.reason"));
  EXPECT_THAT(first("ethertype 0x8915"), HasSubstr("RoCEv1"));
}

TEST(Explain, TerminateByLayerTypeAndCode) {
  EXPECT_THAT(first("terminate 0 1 0"), HasSubstr("Remote Protection Error"));
  EXPECT_EQ(first("terminate 0/1/0x00"), first("terminate 0 1 0"));
  EXPECT_EQ(json::parse(explain_json(find_topics("terminate 0 1 0").front()))["fields"]["layer_name"], "RDMA");
  EXPECT_TRUE(find_topics("terminate 0 16 0").empty()) << "a type has four bits";
}

TEST(Explain, UnknownNamesGetSuggestions) {
  EXPECT_TRUE(find_topics("bth.psnn").empty());
  EXPECT_EQ(nearest_topics("bth.psnn").front(), "bth.psn");
  EXPECT_EQ(nearest_topics("bht").front(), "bth") << "a transposition is one mistake";
  EXPECT_EQ(nearest_topics("remote acess error").front(), "remote access error");
  EXPECT_TRUE(find_topics("").empty());
  EXPECT_TRUE(find_topics("...").empty());
  EXPECT_TRUE(find_topics("256").empty()) << "no opcode";
}

// find_topics() finds every topic by its identifier, and explain() explains it.
TEST(Explain, EveryIdentifierIsAccepted) {
  for (const HeaderInfo* header : all_headers()) {
    const auto topics = find_topics(header->name);
    ASSERT_FALSE(topics.empty()) << header->name;
    EXPECT_EQ(topics.front().header, header);
    EXPECT_THAT(explain(topics.front()), HasSubstr(std::string(header->title)));
    for (const Field& field : header->fields) {
      const std::string path = std::string(header->name) + "." + std::string(field.name);
      const auto found = find_topics(path);
      ASSERT_FALSE(found.empty()) << path;
      EXPECT_EQ(found.front().field, &field) << path;
      explain(found.front());
      EXPECT_EQ(json::parse(explain_json(found.front()))["id"], path);
    }
  }
  for (const Names* names : all_names())
    for (const Name& entry : names->entries) {
      if (entry.name == "reserved") continue;  // skipped, because fields have this name, too
      const auto topics = find_topics(std::string(names->title) + " " + std::string(entry.name));
      EXPECT_TRUE(std::any_of(topics.begin(), topics.end(), [&](const Topic& t) { return t.entry == &entry; }))
          << names->title << " " << entry.name;
    }
}

TEST(Explain, ArbitraryQueriesAreSafe) {
  std::mt19937 random(7);
  static constexpr std::string_view alphabet = "abcnrtkps 0123456789.x-_\xc3\xa9\n";
  for (int i = 0; i < 300; ++i) {
    std::string query;
    for (std::size_t n = random() % 24; n > 0; --n) query += alphabet[random() % alphabet.size()];
    for (const Topic& topic : find_topics(query)) {
      EXPECT_FALSE(explain(topic, true).empty());
      EXPECT_TRUE(json::accept(explain_json(topic)));
    }
    nearest_topics(query);
  }
}

TEST(Reference, PageMatchesTheTables) {
  std::ifstream file(RDMAWIRE_SOURCE_DIR "/docs/reference/headers.md");
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_TRUE(page.str() == reference_page())
      << "docs/reference/headers.md is stale: rdmawire explain --reference > docs/reference/headers.md";
}

}  // namespace
}  // namespace rdmawire::output
