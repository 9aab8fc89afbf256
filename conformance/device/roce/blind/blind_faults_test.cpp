/// Tests that each blind fault changes a frame, a completion, an event or memory for its trigger.

#include "conformance/device/roce/blind/blind_faults.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "conformance/device/roce/blind/bench_for_test.hpp"
#include "conformance/device/roce/ends_for_test.hpp"

namespace rdmawire::device {
namespace {

using testing::Bench;
using testing::Extra;
using testing::Setup;

constexpr auto send = Operation::send, write = Operation::rdma_write, read = Operation::rdma_read_request,
               swap = Operation::compare_swap, add = Operation::fetch_add;
constexpr std::uint8_t sequence_nak = 0x60;

struct Trigger {
  std::string_view fault;
  Setup setup;
  void (*play)(Bench& bench);
};

void write_u64(Bench& b, std::uint64_t offset, std::uint64_t value) {
  store_le(b.device.memory(b.buffer + offset, 8).data(), 8, value);
}

SendRequest send_request(Bench& b, WorkOpcode opcode, std::vector<std::uint32_t> lengths) {
  SendRequest request{.opcode = opcode};
  std::uint64_t at = b.buffer;
  for (const std::uint32_t length : lengths) {
    request.sges.push_back({at, length, b.region->key});
    at += length;
  }
  std::ranges::fill(b.device.memory(b.buffer, 16'384), std::uint8_t{0x5a});
  return request;
}

/// Register another region. `iova` 0: its address.
const Region* another_region(Bench& b, std::uint64_t offset, std::uint64_t bytes, std::uint64_t iova = 0,
                             std::uint32_t rights = Bench::rights) {
  return *b.device.reg_mr(b.pd, b.buffer + offset, bytes, rights,
                          iova == 0 ? std::optional<std::uint64_t>() : std::optional(iova));
}

/// Bind a type 2 window to the first region.
const Window* bound_window(Bench& b, std::uint64_t bytes, std::uint32_t rights) {
  const Window* window = *b.device.alloc_mw(b.pd, 2);
  SendRequest bind{.opcode = WorkOpcode::bind_mw};
  bind.window = window->handle;
  bind.region = b.region->handle;
  bind.new_key = 5;
  bind.address = b.buffer;
  bind.bytes_bound = bytes;
  bind.rights = rights;
  b.post(bind);
  return window;
}

/// The packets are lost.
void lose(const std::vector<OutgoingPacket>& /*packets*/) {}

const Trigger responder_triggers[] = {
    {"msn-lost-at-psn-wrap", {.rq_psn = 0xffffff}, [](Bench& b) { b.message(write, 3000); }},
    {"ignores-ackreq-inside-messages", {}, [](Bench& b) { b.message(write, 3000, {.ack_request = 1}); }},
    {"nak-repeats-after-duplicate",
     {},
     [](Bench& b) {
       const auto first = b.packets(write, 8);
       b.send(first[0]);
       lose(b.packets(write, 8));
       b.message(write, 8);
       b.send(first[0]);
       b.message(write, 8);
     }},
    {"nak-state-survives-read",
     {},
     [](Bench& b) {
       const auto lost = b.packets(read, 8);
       const auto next = b.packets(write, 8);
       b.send(next[0]);
       b.send(lost[0]);
       b.message(write, 8);
     }},
    {"far-gaps-are-duplicates",
     {},
     [](Bench& b) {
       b.psn += 0x8000;
       b.message(write, 8);
     }},
    {"packet-257-rejected", {.mtu = 256}, [](Bench& b) { b.message(write, 257 * 256); }},
    {"long-payload-accepted-at-mtu-256",
     {.mtu = 256},
     [](Bench& b) {
       auto packet = b.packets(write, 256)[0];
       packet.payload.resize(300);
       packet.fields.length = 300;
       b.send(packet);
     }},
    {"pad-three-read-as-two", {}, [](Bench& b) { b.message(write, 1025); }},
    {"keeps-power-of-two-of-responses",
     {.dest_reads = 3},
     [](Bench& b) {
       const auto first = b.packets(read, 8);
       b.send(first[0]);
       b.message(read, 8);
       b.message(read, 8);
       b.send(first[0]);
     }},
    {"replays-reads-to-the-end",
     {},
     [](Bench& b) {
       auto request = b.packets(read, 5000)[0];
       b.send(request);
       request.fields.psn += 1;
       request.fields.va += 1024;
       request.fields.length = 1024;
       b.send(request);
     }},
    {"duplicate-ack-covers-read",
     {},
     [](Bench& b) {
       const auto first = b.packets(write, 8);
       b.send(first[0]);
       b.message(read, 8);
       b.send(first[0]);
     }},
    {"exact-reads-end-with-middle", {}, [](Bench& b) { b.message(read, 2048); }},
    {"reads-use-2048-at-mtu-4096", {.mtu = 4096}, [](Bench& b) { b.message(read, 4096); }},
    {"msn-of-8-bits",
     {},
     [](Bench& b) {
       for (int i = 0; i < 256; ++i) b.message(write, 8);
     }},
    {"empty-read-not-counted", {}, [](Bench& b) { b.message(read, 0); }},
    {"credits-rounded-up",
     {},
     [](Bench& b) {
       b.receives(5, 64);
       b.message(write, 8);
     }},
    {"rnr-nak-of-write-names-first-packet", {}, [](Bench& b) { b.message(write, 2000, {.immediate = true}); }},
    {"rnr-code-zero-sent-as-one", {.rnr_timer = 0}, [](Bench& b) { b.message(send, 8); }},
    {"nak-after-second-rnr",
     {},
     [](Bench& b) {
       const auto request = b.packets(send, 8);
       b.send(request[0]);
       b.send(request[0]);
       b.message(send, 8);
     }},
    {"late-overrun-flushes-receive",
     {},
     [](Bench& b) {
       b.receives(1, 2500);
       b.message(send, 3000);
     }},
    {"byte-count-of-16-bits",
     {},
     [](Bench& b) {
       b.receives(1, 70'000);
       b.message(send, 66'000);
     }},
    {"write-immediate-counts-last-packet",
     {},
     [](Bench& b) {
       b.receives(1, 64);
       b.message(write, 2000, {.immediate = true});
     }},
    {"solicited-only-in-single-packets",
     {},
     [](Bench& b) {
       b.receives(1, 4096);
       (void)b.device.req_notify_cq(b.cq, true);
       b.message(send, 2000, {.solicited = true});
     }},
    {"atomic-replay-of-newest",
     {},
     [](Bench& b) {
       const auto first = b.packets(add, 8, {.swap_add = 1});
       b.send(first[0]);
       b.message(add, 8, {.swap_add = 1});
       b.send(first[0]);
     }},
    {"compare-of-32-bits",
     {},
     [](Bench& b) {
       write_u64(b, 0, 0x100000005);
       b.message(swap, 8, {.swap_add = 7, .compare = 5});
       b.note_memory(0, 8);
     }},
    {"add-without-carry-at-bit-32",
     {},
     [](Bench& b) {
       write_u64(b, 0, 0xffffffff);
       b.message(add, 8, {.swap_add = 1});
       b.note_memory(0, 8);
     }},
    {"atomic-at-region-end-refused",
     {},
     [](Bench& b) { b.message(add, 8, {.va = b.buffer + Bench::memory - 8, .swap_add = 1}); }},
    {"failed-swap-replayed-as-success",
     {},
     [](Bench& b) {
       const auto request = b.packets(swap, 8, {.swap_add = 7, .compare = 5});
       b.send(request[0]);
       b.send(request[0]);
     }},
    {"fetch-add-needs-write-right",
     {},
     [](Bench& b) {
       const Region* region = another_region(b, 0, 64, 0, access::local_write | access::remote_write);
       b.message(add, 8, {.rkey = region->key, .swap_add = 1});
     }},
};

const Trigger requester_triggers[] = {
    {"rnr-retries-not-restored",
     {.rnr_retries = 1},
     [](Bench& b) {
       for (std::uint32_t psn = 200; psn < 203; ++psn) {
         b.post(WorkOpcode::write, 8);
         b.acknowledge(psn, 0x21);
         b.wait(1'000'000);
         b.acknowledge(psn);
       }
     }},
    {"retries-restored-only-when-idle",
     {.retries = 1},
     [](Bench& b) {
       b.post(WorkOpcode::write, 8);
       b.post(WorkOpcode::write, 8);
       b.wait(3'000'000);
       b.acknowledge(200);
       b.wait(3'000'000);
     }},
    {"rnr-code-zero-waits-10-us",
     {},
     [](Bench& b) {
       b.post(WorkOpcode::send, 8);
       b.acknowledge(200, 0x20);
       b.wait(5'000'000);
     }},
    {"timeout-code-one-is-none",
     {.timeout = 1, .retries = 2},
     [](Bench& b) {
       b.post(WorkOpcode::write, 8);
       b.wait(1'000'000);
     }},
    {"retry-requests-no-acknowledgement",
     {},
     [](Bench& b) {
       b.post(WorkOpcode::write, 3000);
       b.acknowledge(202, sequence_nak);
     }},
    {"retry-restarts-wrapped-message",
     {.sq_psn = 0xfffffe},
     [](Bench& b) {
       b.post(WorkOpcode::write, 4000);
       b.acknowledge(1, sequence_nak);
     }},
    {"rnr-restarts-message",
     {},
     [](Bench& b) {
       b.post(WorkOpcode::write_imm, 2000);
       b.acknowledge(201, 0x21);
       b.wait(1'000'000);
     }},
    {"read-retry-steps-back",
     {},
     [](Bench& b) {
       b.post(WorkOpcode::read, 5120);
       b.respond(200, Operation::rdma_read_response, Position::first, 1024);
       b.respond(201, Operation::rdma_read_response, Position::middle, 1024);
       b.respond(202, Operation::rdma_read_response, Position::middle, 1024);
       b.respond(204, Operation::rdma_read_response, Position::last, 1024);
     }},
    {"partial-ack-completes-message",
     {},
     [](Bench& b) {
       b.post(WorkOpcode::write, 3000);
       b.acknowledge(201);
       b.wait(5'000'000);
     }},
    {"read-depth-rounded-up",
     {.reads = 3},
     [](Bench& b) {
       for (int i = 0; i < 4; ++i) b.post(WorkOpcode::read, 8);
     }},
    {"unaligned-element-loses-byte",
     {},
     [](Bench& b) {
       b.post(send_request(b, WorkOpcode::send, {5, 8}));
     }},
    {"read-tail-lost",
     {},
     [](Bench& b) {
       b.post(WorkOpcode::read, 1027);
       b.respond(200, Operation::rdma_read_response, Position::first, 1024);
       b.respond(201, Operation::rdma_read_response, Position::last, 3);
       b.note_memory(1020, 8);
     }},
    {"fence-ignores-atomics",
     {},
     [](Bench& b) {
       b.post(WorkOpcode::fetch_add, 8);
       b.post(WorkOpcode::write, 8, true);
     }},
    {"credits-limit-writes",
     {},
     [](Bench& b) {
       b.post(WorkOpcode::write, 8);
       b.acknowledge(200, 0);
       for (int i = 0; i < 3; ++i) b.post(WorkOpcode::write, 8);
     }},
    {"exact-read-takes-another-psn",
     {},
     [](Bench& b) {
       b.post(WorkOpcode::read, 2048);
       b.post(WorkOpcode::write, 8);
     }},
    {"solicited-lost-in-last-with-immediate",
     {},
     [](Bench& b) {
       SendRequest request = send_request(b, WorkOpcode::send_imm, {2000});
       request.solicited = true;
       b.post(request);
     }},
    {"inline-data-restarts",
     {.mtu = 256},
     [](Bench& b) {
       SendRequest request{.opcode = WorkOpcode::send, .is_inline = true};
       for (int i = 0; i < 600; ++i) request.bytes.push_back(static_cast<std::uint8_t>(i / 3));
       b.post(request);
     }},
};

const Trigger memory_triggers[] = {
    {"write-address-of-32-bits",
     {},
     [](Bench& b) {
       const Region* region = another_region(b, 0, 4096, 0x1'ffff'f800);
       b.message(write, 4096, {.va = 0x1'ffff'f800, .rkey = region->key});
     }},
    {"deregistration-ends-overlapping-regions",
     {},
     [](Bench& b) {
       const Region* region = another_region(b, 64, 64);
       (void)b.device.dereg_mr(region->handle);
       b.message(write, 8);
     }},
    {"stale-key-after-deregistration",
     {},
     [](Bench& b) {
       const Region* older = another_region(b, 64, 64);
       const std::uint32_t key = older->key;
       (void)another_region(b, 128, 64);
       (void)b.device.dereg_mr(older->handle);
       b.message(write, 8, {.va = b.buffer + 64, .rkey = key});
     }},
    {"second-window-has-rights-of-region",
     {},
     [](Bench& b) {
       const Window* first = bound_window(b, 64, access::remote_read);
       (void)bound_window(b, 64, access::remote_read);
       b.message(write, 8, {.rkey = first->key});
     }},
    {"window-length-rounded-to-page",
     {},
     [](Bench& b) {
       const Window* window = bound_window(b, 64, access::remote_write);
       b.message(write, 8, {.va = b.buffer + 64, .rkey = window->key});
     }},
    {"zero-based-second-page-refused",
     {},
     [](Bench& b) {
       const Region* region = another_region(b, 0, 8192, 0, Bench::rights | access::zero_based);
       b.message(write, 8, {.va = 4096, .rkey = region->key});
     }},
    {"fast-registration-drops-page-offset",
     {},
     [](Bench& b) {
       const Region* region = *b.device.alloc_mr(b.pd, 4096);
       SendRequest request{.opcode = WorkOpcode::reg_mr};
       request.region = region->handle;
       request.address = request.iova = b.buffer + 100;
       request.bytes_bound = 64;
       request.rights = Bench::rights & ~access::mw_bind;
       b.post(request);
       b.message(write, 8, {.va = b.buffer + 100 + 56, .rkey = region->key});
     }},
    {"last-packet-stops-at-page",
     {},
     [](Bench& b) {
       b.message(write, 1024 + 64, {.va = b.buffer + 4096 - 1024 - 8});
       b.note_memory(4080, 80);
     }},
    {"key-byte-ignored", {}, [](Bench& b) { b.message(write, 8, {.rkey = b.region->key ^ 1}); }},
};

const Trigger queue_pair_triggers[] = {
    {"busy-queue-pair-blocks-fourth",
     {},
     [](Bench& b) {
       const std::uint32_t first = b.qp;
       for (int i = 0; i < 3; ++i) b.qp = b.connect();
       b.post(WorkOpcode::write, 8);
       b.qp = first;
       b.post(WorkOpcode::write, 8);
     }},
    {"srq-limit-of-one-ignored",
     {.srq = true},
     [](Bench& b) {
       b.receives(1, 64);
       (void)b.device.modify_srq(b.srq, 1);
       b.message(send, 8);
     }},
    {"srq-ignores-rnr-timer", {.srq = true}, [](Bench& b) { b.message(send, 8); }},
    {"flushes-sixteen-receives",
     {},
     [](Bench& b) {
       b.receives(17, 64);
       b.change({.state = QpState::err});
     }},
    {"reset-keeps-nak-state",
     {},
     [](Bench& b) {
       const auto gap = [&b] {
         lose(b.packets(write, 8));
         b.message(write, 8);
       };
       gap();
       b.change({.state = QpState::reset});
       b.to_rts(b.qp);
       b.psn = Psn(b.setup.rq_psn);
       gap();
     }},
    {"reset-keeps-used-retries",
     {.retries = 2},
     [](Bench& b) {
       b.post(WorkOpcode::write, 8);
       b.wait(5'000'000);
       b.change({.state = QpState::reset});
       b.to_rts(b.qp);
       b.post(WorkOpcode::write, 8);
       b.wait(20'000'000);
     }},
    {"flush-does-not-notify",
     {},
     [](Bench& b) {
       b.receives(1, 64);
       (void)b.device.req_notify_cq(b.cq, true);
       b.change({.state = QpState::err});
     }},
    {"no-gap-nak-in-sqd",
     {},
     [](Bench& b) {
       b.change({.state = QpState::sqd});
       lose(b.packets(write, 8));
       b.message(write, 8);
     }},
    {"destination-of-23-bits", {}, [](Bench& b) { b.message(write, 8); }},
};

const Trigger service_triggers[] = {
    {"uc-drops-earlier-psns",
     {.type = QpType::uc},
     [](Bench& b) {
       b.receives(1, 64);
       b.psn += -10;
       b.message(send, 8);
     }},
    {"ud-immediate-lost-without-payload",
     {.type = QpType::ud},
     [](Bench& b) {
       b.receives(1, 64);
       b.message(send, 0, {.immediate = true});
     }},
    {"ud-header-misplaced-in-vlan",
     {.type = QpType::ud, .way = 2},
     [](Bench& b) {
       b.receives(1, 64);
       b.message(send, 8);
       b.note_memory(0, 40);
     }},
    {"ud-source-of-16-bits",
     {.type = QpType::ud},
     [](Bench& b) {
       b.receives(1, 64);
       b.message(send, 8, {.source_qpn = 0x10123});
     }},
    {"xrc-empty-srq-rejected", {.type = QpType::xrc_target}, [](Bench& b) { b.message(send, 8); }},
    {"xrc-number-lost-in-retry",
     {.type = QpType::xrc_initiator},
     [](Bench& b) {
       SendRequest request = send_request(b, WorkOpcode::send, {8});
       request.xrc_srq = 5;
       b.post(request);
       b.wait(3'000'000);
     }},
    {"no-cnp-for-marked-responses",
     {},
     [](Bench& b) {
       b.post(WorkOpcode::read, 8);
       b.respond(200, Operation::rdma_read_response, Position::only, 8, 3);
     }},
    {"no-cnp-over-ipv6", {.way = 1}, [](Bench& b) { b.message(write, 8, {.ecn = 3}); }},
    {"cnp-of-datagram-to-qp-zero",
     {.type = QpType::ud},
     [](Bench& b) {
       b.receives(1, 64);
       b.message(send, 8, {.ecn = 3});
     }},
};

std::string play(const Trigger& trigger, const RoceBlindFault* fault) {
  Bench bench(fault, trigger.setup);
  trigger.play(bench);
  return bench.finish();
}

class BlindFaultTriggers : public ::testing::TestWithParam<std::span<const Trigger>> {};

TEST_P(BlindFaultTriggers, TriggerShowsFault) {
  for (const Trigger& trigger : GetParam()) {
    const RoceBlindFault* fault = find_blind_fault(trigger.fault);
    ASSERT_NE(fault, nullptr) << trigger.fault;
    const std::string conforming = play(trigger, nullptr);
    EXPECT_EQ(conforming, play(trigger, nullptr)) << trigger.fault;
    EXPECT_NE(conforming, play(trigger, fault)) << trigger.fault << "\n" << conforming;
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, BlindFaultTriggers,
                         ::testing::Values(std::span<const Trigger>(responder_triggers),
                                           std::span<const Trigger>(requester_triggers),
                                           std::span<const Trigger>(memory_triggers),
                                           std::span<const Trigger>(queue_pair_triggers),
                                           std::span<const Trigger>(service_triggers)));

/// Connect device a to device b, of which one has the fault. Return the frames of both and the PSNs of a.
std::string connected(const RoceBlindFault* of_a, const RoceBlindFault* of_b, std::uint8_t number, bool accepts,
                      bool answers) {
  using testing::End;
  End a(1), b(number);
  if (of_a) a.device.set_blind_faults({of_a});
  if (of_b) b.device.set_blind_faults({of_b});
  testing::Line line(a.device, b.device);
  bool accepted = false;
  line.way = [&](const testing::Seen& seen) {
    const bool lost = seen.from == 0 && accepted && !answers;
    return lost ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{testing::Line::delay};
  };
  const Gid to = Gid::ipv4(0x0a000000U | number);
  a.device.port().learn(to, b.device.options().port.mac);
  EXPECT_TRUE(b.device.cm_listen({{}, 7471}, 4));
  CmParameters with;
  with.qp = a.qp;
  EXPECT_TRUE(a.device.cm_connect({to, 7471}, {}, with));
  line.run(10'000);
  if (accepts) {
    const auto event = b.device.get_cm_event();
    EXPECT_TRUE(event);
    accepted = true;
    with.qp = b.qp;
    with.rnr_retry_count = 3;
    EXPECT_TRUE(event && b.device.cm_accept(event->cm_id, with));
  }
  line.run(60'000'000'000);
  std::string trace = fmt::format("PSN {}\n", a.device.qp(a.qp)->attributes.sq_psn);
  for (const testing::Seen& seen : line.seen)
    trace += fmt::format("{} {} {:02x}\n", seen.from, seen.time, fmt::join(seen.bytes, ""));
  return trace;
}

TEST(BlindFaults, ConnectionManagerTriggersShowFaults) {
  const auto* no_retry = find_blind_fault("cm-no-retry-after-mra");
  EXPECT_NE(connected(nullptr, nullptr, 2, false, true), connected(no_retry, nullptr, 2, false, true));
  const auto* limited = find_blind_fault("cm-rep-retries-limited-to-two");
  EXPECT_NE(connected(nullptr, nullptr, 2, true, false), connected(nullptr, limited, 2, true, false));
  const auto* unlimited = find_blind_fault("cm-rep-always-unlimited-rnr");
  EXPECT_NE(connected(nullptr, nullptr, 2, true, true), connected(nullptr, unlimited, 2, true, true));
  // The starting PSN is random. One or more of these devices choose a large one.
  const auto* cut = find_blind_fault("cm-starting-psn-of-23-bits");
  bool differs = false;
  for (std::uint8_t number = 2; number < 10; ++number)
    differs = differs || connected(nullptr, nullptr, number, true, true) != connected(cut, nullptr, number, true, true);
  EXPECT_TRUE(differs);
}

TEST(BlindFaults, EachHasTrigger) {
  std::set<std::string_view> names;
  for (const std::span<const Trigger> part :
       {std::span<const Trigger>(responder_triggers), std::span<const Trigger>(requester_triggers),
        std::span<const Trigger>(memory_triggers), std::span<const Trigger>(queue_pair_triggers),
        std::span<const Trigger>(service_triggers)})
    for (const Trigger& trigger : part) names.insert(trigger.fault);
  // The test ConnectionManagerTriggersShowFaults has the triggers of this area.
  for (const RoceBlindFault* fault : blind_faults())
    EXPECT_NE(names.contains(fault->name), fault->area == "connection manager") << fault->name;
}

TEST(BlindFaults, UnknownNameIsNotFound) { EXPECT_EQ(find_blind_fault("none-of-these"), nullptr); }

}  // namespace
}  // namespace rdmawire::device
