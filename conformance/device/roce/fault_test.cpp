/// Tests that each fault changes the trace of the fault script.

#include <gtest/gtest.h>

#include <set>

#include "conformance/device/roce/fault_script_for_test.hpp"
#include "conformance/device/roce/fault_table.hpp"
#include "conformance/rules/rules.hpp"

namespace rdmawire::device {
namespace {

struct Trace {
  std::string wire, verbs;
};

/// Return device options. Each fault has an effect with at least one of them.
std::vector<DeviceOptions> kinds() {
  std::vector<DeviceOptions> all(3, reference_options());
  all[1].congestion_control = false;
  for (GidEntry& entry : all[2].port.gids) entry.vlan = 7;
  return all;
}

Trace played(const DeviceOptions& options, std::optional<Fault> fault) {
  const std::uint64_t from = fault ? static_cast<std::uint64_t>(*fault) : 0;
  testing::Script script(from, fault ? from + 1 : 0, options);
  play(script);
  return {std::move(script.wire), std::move(script.verbs)};
}

TEST(Faults, NamesAreUniqueAndEachViolatesKnownRules) {
  EXPECT_EQ(find_fault("naks-every-packet")->fault, Fault::naks_every_packet);
  EXPECT_EQ(find_fault("none-of-these"), nullptr);
  std::set<std::string_view> names;
  for (const FaultRow& row : fault_rows) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.broken().empty()) << row.name;
    for (const std::string_view rule : row.broken()) EXPECT_NE(conformance::find_rule(rule), nullptr) << rule;
  }
}

TEST(Faults, ScriptWithoutFaultIsDeterministic) {
  const Trace first = played(reference_options(), std::nullopt), second = played(reference_options(), std::nullopt);
  EXPECT_EQ(first.wire, second.wire);
  EXPECT_EQ(first.verbs, second.verbs);
  EXPECT_GT(first.wire.size(), 10'000U);
}

TEST(Faults, EachFaultChangesTrace) {
  const auto options = kinds();
  std::vector<Trace> clean;
  for (const DeviceOptions& kind : options) clean.push_back(played(kind, std::nullopt));
  for (const FaultRow& row : fault_rows) {
    bool wire = false, verbs = false;
    for (std::size_t i = 0; i < options.size() && !(row.on_the_wire ? wire : wire || verbs); ++i) {
      const Trace faulty = played(options[i], row.fault);
      wire = wire || faulty.wire != clean[i].wire;
      verbs = verbs || faulty.verbs != clean[i].verbs;
    }
    if (row.on_the_wire)
      EXPECT_TRUE(wire) << row.name << (verbs ? ": visible only through verbs" : ": has no effect");
    else
      EXPECT_TRUE(wire || verbs) << row.name << ": has no effect";
  }
}

}  // namespace
}  // namespace rdmawire::device
