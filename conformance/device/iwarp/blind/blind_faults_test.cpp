/// Tests that each blind fault changes sent bytes, a completion, an event or memory for its trigger.

#include "conformance/device/iwarp/blind/blind_faults.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>

#include "conformance/device/iwarp/stream_link_for_test.hpp"

namespace rdmawire::endpoint {
namespace {

using device::WorkOpcode;

struct Setup {
  bool initiates = false;  ///< the endpoint under test is the initiator
  machines::MpaSettings own{}, peer{};
  std::size_t private_bytes = 0;  ///< in the peer's frame
  std::size_t split_at = 0;       ///< bytes of the peer's frame in its first TCP segment. 0: all
};

/// An endpoint with a blind fault, and a scripted peer that sends single segments.
class Bench {
 public:
  Bench(const IwarpBlindFault* fault, const Setup& setup) : own(setup.own, {}, 1460), sender_({}) {
    if (fault) own.rnic.set_blind_faults({fault});
    const std::vector<std::uint8_t> data(setup.private_bytes, 0x31);
    std::vector<std::uint8_t> frame;
    machines::MpaAgreement agreement;
    const machines::MpaSetupFrame asks = machines::request_of(setup.initiates ? setup.own : setup.peer);
    const machines::MpaAnswer answer = machines::accept_request(setup.initiates ? setup.peer : setup.own, asks);
    if (setup.initiates) {
      EXPECT_TRUE(own.end->connect({}, now_));
      frame = conforming::encode_setup(answer.reply, data);
    } else {
      EXPECT_TRUE(own.end->await(now_));
      frame = conforming::encode_setup(asks, data);
    }
    sender_ = MpaSender({.markers = setup.own.markers, .crc = true});
    const std::size_t first = setup.split_at != 0 ? setup.split_at : frame.size();
    own.end->received(Bytes(frame).first(first), now_);
    own.end->received(Bytes(frame).subspan(first), now_);
    if (!setup.initiates) (void)own.end->accept({});
    take();
  }

  [[nodiscard]] std::vector<std::uint8_t> untagged(RdmapOperation operation, std::uint32_t queue, std::uint32_t msn,
                                                   std::uint32_t offset, Bytes payload, bool last = true,
                                                   std::uint32_t invalidated = 0) const {
    std::vector<std::uint8_t> bytes = start(operation, false, last);
    append(bytes,
           Value<DdpUntagged>().set<"invalidate_stag">(invalidated).set<"qn">(queue).set<"msn">(msn).set<"mo">(offset));
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    return bytes;
  }
  [[nodiscard]] std::vector<std::uint8_t> tagged(RdmapOperation operation, std::uint32_t stag, std::uint64_t to,
                                                 std::size_t count, bool last = true) const {
    std::vector<std::uint8_t> bytes = start(operation, true, last);
    append(bytes, Value<DdpTagged>().set<"stag">(stag).set<"to">(to));
    bytes.insert(bytes.end(), count, std::uint8_t{0xab});
    return bytes;
  }
  [[nodiscard]] std::vector<std::uint8_t> read_request(std::uint32_t msn, std::uint32_t bytes) const {
    const auto header = Value<RdmapReadRequest>()
                            .set<"sink_stag">(7 + msn)
                            .set<"sink_to">(0)
                            .set<"size">(bytes)
                            .set<"src_stag">(own.stag)
                            .set<"src_to">(own.buffer);
    return untagged(RdmapOperation::read_request, 1, msn, 0, header.bytes());
  }
  /// Send segments in one TCP segment. `fin`: the peer closes.
  void send(const std::vector<std::vector<std::uint8_t>>& segments, bool fin = false, bool wrong_crc = false) {
    std::vector<std::uint8_t> stream;
    for (const auto& segment : segments) ASSERT_TRUE(sender_.send(stream, segment));
    if (wrong_crc) stream.back() ^= 1;
    own.end->received(stream, now_);
    if (fin) own.end->peer_closed(now_);
    take();
  }
  void post(WorkOpcode opcode, std::uint32_t bytes, std::uint64_t to = 0x1000) {
    device::SendRequest request{.opcode = opcode, .sges = {own.piece(0, bytes)}};
    request.remote_address = to;
    request.rkey = 0x77;
    const auto done = own.end->post_send(request);
    ASSERT_TRUE(done) << done.error().message;
    take();
  }
  /// Deregister the memory after one segment of the response to a request.
  void end_region_in_response(const std::vector<std::uint8_t>& request) {
    std::vector<std::uint8_t> stream;
    ASSERT_TRUE(sender_.send(stream, request));
    own.end->received(stream, now_);
    ASSERT_EQ(own.end->take(now_, 1).segments.size(), 1U);
    ASSERT_TRUE(own.rnic.memory().deregister(own.region));
    take();
  }
  void note_memory(std::uint64_t offset, std::size_t count) {
    trace_ += fmt::format("memory {:02x}\n", fmt::join(own.at(offset, count), ""));
  }
  std::string finish() {
    for (const device::Completion& c : own.poll())
      trace_ += fmt::format("completion {} status {} bytes {}\n", c.id, static_cast<int>(c.status), c.bytes);
    for (const ConnectionEvent& event : own.events())
      trace_ += fmt::format("event {} data {} error {} {} {}\n", static_cast<int>(event.type),
                            event.private_data.size(), event.error.layer, event.error.type, event.error.code);
    while (own.rnic.next_notification()) trace_ += "notification\n";
    return std::move(trace_);
  }

  testing::Consumer own;

 private:
  template <class Header>
  static void append(std::vector<std::uint8_t>& to, const Header& header) {
    const auto bytes = header.bytes();
    to.insert(to.end(), bytes.begin(), bytes.end());
  }
  static std::vector<std::uint8_t> start(RdmapOperation operation, bool is_tagged, bool last) {
    std::vector<std::uint8_t> bytes;
    append(bytes, Value<Ddp>().set<"tagged">(is_tagged).set<"last">(last).set<"dv">(1));
    append(bytes, Value<Rdmap>().set<"rv">(1).set<"opcode">(static_cast<unsigned>(operation)));
    return bytes;
  }
  void take() {
    for (;;) {
      const Output output = own.end->take(now_);
      if (output.empty()) return;
      for (const auto& segment : output.segments) trace_ += fmt::format("sent {:02x}\n", fmt::join(segment, ""));
      trace_ += fmt::format("{}{}", output.fin ? "FIN\n" : "", output.reset ? "RST\n" : "");
      if (output.reset) return;
    }
  }

  std::int64_t now_ = 0;
  MpaSender sender_;
  std::string trace_;
};

struct Trigger {
  std::string_view fault;
  Setup setup;
  void (*play)(Bench& bench);
};

machines::MpaSettings with_markers() { return {.markers = true}; }
machines::MpaSettings with_depth(std::uint16_t ird, std::uint16_t ord) { return {.ird = ird, .ord = ord}; }
machines::MpaSettings peer_to_peer(bool only_read) {
  return {.peer_to_peer = true,
          .rtr = only_read ? machines::RtrKinds{.read = true} : machines::RtrKinds{true, true, true}};
}

const std::vector<std::uint8_t> some(100, 0x42);

constexpr auto send = RdmapOperation::send, write = RdmapOperation::rdma_write;

const Trigger mpa_triggers[] = {
    {"second-marker-points-to-first",
     {.initiates = true, .peer = with_markers()},
     [](Bench& b) { b.post(WorkOpcode::write, 1400); }},
    {"marker-before-fpdu-rejected",
     {.own = with_markers()},
     [](Bench& b) {
       // The first FPDU occupies 512 bytes with its marker.
       b.send({b.tagged(write, b.own.stag, b.own.buffer, 512 - 4 - 2 - 14 - 4)});
       b.send({b.tagged(write, b.own.stag, b.own.buffer, 8)});
     }},
    {"crc-omits-three-pad-bytes", {.initiates = true}, [](Bench& b) { b.post(WorkOpcode::write, 1); }},
    {"crc-unchecked-without-payload",
     {},
     [](Bench& b) {
       b.own.receive(1, 0, 64);
       b.send({b.untagged(send, 0, 1, 0, {})}, false, true);
     }},
    {"ulpdu-above-16-kib-rejected", {}, [](Bench& b) { b.send({b.tagged(write, b.own.stag, b.own.buffer, 17'000)}); }},
    {"private-data-cut-to-words", {.private_bytes = 5}, [](Bench&) {}},
    {"reply-ord-rounded-up", {.own = with_depth(4, 8), .peer = with_depth(3, 4)}, [](Bench&) {}},
    {"rtr-write-instead-of-read",
     {.initiates = true, .own = peer_to_peer(false), .peer = peer_to_peer(true)},
     [](Bench&) {}},
    {"setup-split-after-key-refused", {.split_at = 18}, [](Bench&) {}},
};

const Trigger ddp_triggers[] = {
    {"message-offset-of-16-bits",
     {.initiates = true},
     [](Bench& b) {
       device::SendRequest request{.opcode = WorkOpcode::send};
       for (int i = 0; i < 2; ++i) request.sges.push_back(b.own.piece(0, 40'000));
       ASSERT_TRUE(b.own.end->post_send(request));
       b.post(WorkOpcode::send, 8);
     }},
    {"tagged-offset-of-32-bits", {.initiates = true}, [](Bench& b) { b.post(WorkOpcode::write, 3000, 0xffff'fc00); }},
    {"msn-of-open-message-unchecked",
     {},
     [](Bench& b) {
       b.own.receive(1, 0, 400);
       b.send({b.untagged(send, 0, 1, 0, some, false), b.untagged(send, 0, 2, 100, some)});
     }},
    {"offset-of-last-segment-unchecked",
     {},
     [](Bench& b) {
       b.own.receive(1, 0, 400);
       b.send({b.untagged(send, 0, 1, 0, some, false), b.untagged(send, 0, 1, 120, some)});
     }},
    {"split-receive-one-byte-short",
     {},
     [](Bench& b) {
       ASSERT_TRUE(b.own.end->post_receive({.id = 1, .sges = {b.own.piece(0, 60), b.own.piece(60, 40)}}));
       b.send({b.untagged(send, 0, 1, 0, some)});
     }},
    {"bytes-after-page-boundary-lost",
     {},
     [](Bench& b) {
       b.send({b.tagged(write, b.own.stag, b.own.buffer + 4090, 8)});
       b.note_memory(4088, 12);
     }},
    {"untagged-msn-of-8-bits",
     {.initiates = true},
     [](Bench& b) {
       for (int i = 0; i < 256; ++i) b.post(WorkOpcode::send, 4);
     }},
};

const Trigger rdmap_triggers[] = {
    {"read-response-tail-lost",
     {.initiates = true},
     [](Bench& b) {
       b.post(WorkOpcode::read, 203);
       const std::uint32_t stag = b.own.stag;
       b.send({b.tagged(RdmapOperation::read_response, stag, b.own.buffer, 200, false),
               b.tagged(RdmapOperation::read_response, stag, b.own.buffer + 200, 3)});
       b.note_memory(196, 8);
     }},
    {"second-of-three-reads-first",
     {.own = with_depth(8, 8), .peer = with_depth(8, 8)},
     [](Bench& b) {
       b.send({b.read_request(1, 4), b.read_request(2, 4), b.read_request(3, 4)});
     }},
    {"ird-rounded-up",
     {.own = with_depth(3, 3), .peer = with_depth(3, 3)},
     [](Bench& b) {
       b.send({b.read_request(1, 4), b.read_request(2, 4), b.read_request(3, 4), b.read_request(4, 4)});
     }},
    {"ord-rounded-up",
     {.initiates = true, .own = with_depth(3, 3), .peer = with_depth(3, 3)},
     [](Bench& b) {
       for (int i = 0; i < 4; ++i) b.post(WorkOpcode::read, 8);
     }},
    {"invalidate-lost-with-last-receive",
     {},
     [](Bench& b) {
       b.own.receive(1, 0, 64);
       device::Region* region = *b.own.rnic.memory().allocate_region(99, b.own.pd, 64);
       region->valid = true;
       region->address = region->iova = b.own.buffer;
       region->length = 64;
       region->rights = testing::Consumer::all_rights;
       b.send({b.untagged(RdmapOperation::send_invalidate, 0, 1, 0, {}, true, region->key)});
       b.send({b.tagged(write, region->key, b.own.buffer, 8)});
     }},
    {"immediate-data-not-solicited",
     {},
     [](Bench& b) {
       b.own.receive(1, 0, 64);
       b.own.rnic.arm(b.own.cq, true);
       b.send({b.untagged(RdmapOperation::immediate_data_se, 0, 1, 0, Bytes(some).first(8))});
     }},
    {"fetch-add-ignores-mask-bit-31",
     {},
     [](Bench& b) {
       const std::uint64_t value = 0xffffffff;
       std::memcpy(b.own.at(0, 8).data(), &value, 8);
       const auto header = Value<RdmapAtomicRequest>()
                               .set<"operation">(machines::atomic_fetch_add)
                               .set<"request_id">(1)
                               .set<"stag">(b.own.stag)
                               .set<"to">(b.own.buffer)
                               .set<"add_swap_data">(1)
                               .set<"add_swap_mask">(1ULL << 31)
                               .set<"compare_data">(0)
                               .set<"compare_mask">(~0ULL);
       b.send({b.untagged(RdmapOperation::atomic_request, 1, 1, 0, header.bytes())});
       b.note_memory(0, 8);
     }},
    {"terminate-quotes-short-untagged-header",
     {},
     [](Bench& b) {
       b.own.receive(1, 0, 64);
       b.send({b.tagged(write, b.own.stag, b.own.buffer, 8)});
       b.send({b.untagged(send, 0, 7, 0, some)});
     }},
    {"terminate-length-without-header",
     {},
     [](Bench& b) {
       b.send({b.tagged(write, b.own.stag, b.own.buffer, 8)});
       b.send({b.tagged(write, 0x12345678, b.own.buffer, 8)});
     }},
    {"terminate-quotes-whole-read", {}, [](Bench& b) { b.end_region_in_response(b.read_request(1, 5000)); }},
    {"terminate-fails-only-single-read",
     {.initiates = true, .own = with_depth(4, 4), .peer = with_depth(4, 4)},
     [](Bench& b) {
       b.post(WorkOpcode::read, 8);
       b.post(WorkOpcode::read, 8);
       b.send({b.untagged(RdmapOperation::terminate, 2, 1, 0,
                          machines::terminate_message(machines::iwarp_error::protection_bounds, {}))});
     }},
    {"fin-drops-pending-responses", {}, [](Bench& b) { b.send({b.read_request(1, 4)}, true); }},
};

std::string play(const Trigger& trigger, const IwarpBlindFault* fault) {
  Bench bench(fault, trigger.setup);
  trigger.play(bench);
  return bench.finish();
}

class BlindFaultTriggers : public ::testing::TestWithParam<std::span<const Trigger>> {};

TEST_P(BlindFaultTriggers, TriggerShowsFault) {
  for (const Trigger& trigger : GetParam()) {
    const IwarpBlindFault* fault = find_blind_fault(trigger.fault);
    ASSERT_NE(fault, nullptr) << trigger.fault;
    const std::string conforming = play(trigger, nullptr);
    EXPECT_EQ(conforming, play(trigger, nullptr)) << trigger.fault;
    EXPECT_NE(conforming, play(trigger, fault)) << trigger.fault << "\n" << conforming;
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, BlindFaultTriggers,
                         ::testing::Values(std::span<const Trigger>(mpa_triggers),
                                           std::span<const Trigger>(ddp_triggers),
                                           std::span<const Trigger>(rdmap_triggers)));

TEST(BlindFaults, EachHasTrigger) {
  std::set<std::string_view> names;
  for (const std::span<const Trigger> part :
       {std::span<const Trigger>(mpa_triggers), std::span<const Trigger>(ddp_triggers),
        std::span<const Trigger>(rdmap_triggers)})
    for (const Trigger& trigger : part) names.insert(trigger.fault);
  for (const IwarpBlindFault* fault : blind_faults()) EXPECT_TRUE(names.contains(fault->name)) << fault->name;
}

TEST(BlindFaults, UnknownNameIsNotFound) { EXPECT_EQ(find_blind_fault("none-of-these"), nullptr); }

}  // namespace
}  // namespace rdmawire::endpoint
