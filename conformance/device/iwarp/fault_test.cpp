/// Tests that each fault changes the trace of the fault script.

#include <gtest/gtest.h>

#include <set>

#include "conformance/device/iwarp/fault_table.hpp"
#include "conformance/device/iwarp/script_parts_for_test.hpp"
#include "conformance/rules/rules.hpp"

namespace rdmawire::endpoint {
namespace testing {

void play_exchanges(std::optional<Fault> fault, Trace& trace) {
  using device::WorkOpcode;
  for (const bool initiates : {true, false})
    for (const bool markers : {false, true}) {
      auto mpa = script_settings(2);
      mpa.markers = markers;
      Consumer dut(mpa, {.seed = 1}, 1460, fault), other(mpa, {.seed = 2});
      Consumer &a = initiates ? dut : other, &b = initiates ? other : dut;
      StreamLink link(*a.end, *b.end);
      if (trace.wire) {
        trace.wire->connection();
        link.observer = [&, own = initiates ? 0 : 1](int from, Bytes segment, bool fin, bool reset) {
          const bool of_dut = from == own;
          if (fin) return trace.wire->fin(of_dut);
          if (reset) return trace.wire->reset(of_dut);
          trace.wire->segment(of_dut, segment);
        };
      }
      (void)b.end->await(0);
      (void)a.end->connect({}, 0);
      link.run();
      (void)b.end->accept({});
      link.run();
      for (std::uint64_t id = 100; id < 110; ++id) {
        a.receive(id, 40'000, 8000);
        b.receive(id, 50'000, 8000);
      }
      a.fill(0, "content of the memory of the initiator, and more");
      b.fill(0, "content of the memory of the responder, and more");
      const auto work = [&](Consumer& from, Consumer& to, std::uint64_t id, WorkOpcode opcode, std::uint32_t bytes) {
        device::SendRequest request{.id = id, .opcode = opcode, .sges = {from.piece(id * 100, bytes)}};
        request.remote_address = to.buffer + 1000;
        request.rkey = to.stag;
        request.swap_add = 0x0101010101010101;
        request.swap_add_mask = ~0ULL;
        request.immediate_data = 0x1122334455667788;
        return request;
      };
      for (Consumer* from : {&a, &b}) {
        Consumer& to = from == &a ? b : a;
        (void)from->end->post_send(work(*from, to, 1, WorkOpcode::send, 7));
        (void)from->end->post_send(work(*from, to, 2, WorkOpcode::send, 3001));
        auto event = work(*from, to, 3, WorkOpcode::send, 0);
        event.solicited = true;
        (void)from->end->post_send(event);
        link.run();
        for (std::uint64_t id = 4; id < 8; ++id) (void)from->end->post_send(work(*from, to, id, WorkOpcode::read, 9));
        link.run();
        (void)from->end->post_send(work(*from, to, 8, WorkOpcode::write_imm, 3005));
        for (std::uint64_t id = 9; id < 13; ++id)
          (void)from->end->post_send(work(*from, to, id, id % 2 ? WorkOpcode::fetch_add : WorkOpcode::compare_swap, 8));
        link.run();
        from->end->set_emss(700);
        (void)from->end->post_send(work(*from, to, 13, WorkOpcode::write, 4000));
        link.run();
      }
      a.end->disconnect();
      link.run_until(link.now + 20'000'000'000);
      const int own = initiates ? 0 : 1;
      for (const std::uint8_t byte : link.sent[own]) trace.bytes += fmt::format("{:02x}", byte);
      for (const std::size_t bytes : link.segments[own]) trace.bytes += fmt::format(" {}", bytes);
      note_consumer(dut, trace.verbs);
    }
}

}  // namespace testing

namespace {

testing::Trace played(std::optional<Fault> fault) {
  testing::Trace trace;
  testing::play_exchanges(fault, trace);
  testing::play_setup(fault, trace);
  testing::play_errors(fault, trace);
  return trace;
}

TEST(EndpointFaults, NamesAreUniqueAndEachRuleIsViolated) {
  EXPECT_EQ(find_fault("ignores-crc")->fault, Fault::ignores_crc);
  EXPECT_EQ(find_fault("none-of-these"), nullptr);
  std::set<std::string_view> names, checks;
  for (const FaultRow& row : fault_rows) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_NE(conformance::find_rule(row.check), nullptr) << row.check;
    checks.insert(row.check);
  }
  // 160 rules, of which no endpoint can violate FPD-002, FPD-019, FPD-022 and RDM-020.
  EXPECT_EQ(checks.size(), 156U);
}

TEST(EndpointFaults, ScriptWithoutFaultIsDeterministic) {
  const testing::Trace first = played(std::nullopt), second = played(std::nullopt);
  EXPECT_TRUE(first.bytes == second.bytes);
  EXPECT_TRUE(first.verbs == second.verbs);
  EXPECT_TRUE(first.timing == second.timing);
  EXPECT_GT(first.bytes.size(), 10'000U);
}

TEST(EndpointFaults, EachFaultChangesTrace) {
  const testing::Trace clean = played(std::nullopt);
  for (const FaultRow& row : fault_rows) {
    const testing::Trace faulty = played(row.fault);
    const bool bytes = faulty.bytes != clean.bytes, timing = faulty.timing != clean.timing,
               verbs = faulty.verbs != clean.verbs;
    switch (row.shows) {
      case FaultShows::bytes: EXPECT_TRUE(bytes) << row.name << (verbs ? ": visible only through verbs" : ""); break;
      case FaultShows::timing: EXPECT_TRUE(timing) << row.name; break;
      case FaultShows::verbs: EXPECT_TRUE(bytes || verbs) << row.name; break;
    }
  }
}

}  // namespace
}  // namespace rdmawire::endpoint
