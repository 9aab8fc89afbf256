// Tracks QPs that are built from arbitrary bytes and that send, lose, retransmit and reject packets. Requirements:
// tracking terminates, refers only to frames that were passed, reports consistent sums, reports the end of each
// connection exactly once, and stays within its memory limits.
//
// The first byte selects the form of the input. It is either descriptions of packets, three bytes or more each, from
// which valid frames are built to reach deep states, or raw frame bytes.

#include <cstdio>
#include <cstdlib>
#include <unordered_map>

#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/mad.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/frames_for_test.hpp"
#include "dissectors/tracking/tracker.hpp"

using namespace rdmawire;
using namespace rdmawire::tracking;
using testing::RdmaFrame;
namespace rc = testing::rc;

namespace {

#define REQUIRE(condition) require((condition), #condition, __LINE__)
void require(bool condition, const char* what, int line) {
  if (condition) return;
  std::fprintf(stderr, "line %d: check failed: %s\n", line, what);
  std::abort();
}

struct Judge final : Sink {
  enum class Life : std::uint8_t { alive, silent };
  std::uint64_t now = 0;  // number of the current frame
  std::uint64_t connections = 0, packets = 0, evicted = 0;
  std::unordered_map<std::uint64_t, Life> lives;
  std::unordered_map<std::uint64_t, std::uint64_t> noted;  // connection by frame

  void known(std::uint64_t frame) const { REQUIRE(frame <= now); }
  void speaks(const Connection& c) {
    const auto [life, first] = lives.try_emplace(c.id, Life::alive);
    REQUIRE(life->second == Life::alive);
    REQUIRE(c.id != 0 && c.first_frame != 0);
    known(c.id);
  }
  void message(const Connection& c, const Message& m) override {
    speaks(c);
    REQUIRE(m.connection == c.id && m.number != 0);
    REQUIRE(m.first_frame != 0 && m.first_frame <= m.last_frame);
    for (const std::uint64_t frame : {m.first_frame, m.last_frame, m.first_response_frame, m.answer_frame})
      known(frame);
    REQUIRE(m.packets != 0);
    if (m.outcome == Outcome::unanswered) REQUIRE(m.answer_frame == 0);
    // If a READ or atomic response is missing in the capture, but the requester continues, the tracker infers the
    // response.
    const bool has_response = m.kind == MessageKind::read || m.kind == MessageKind::compare_swap ||
                              m.kind == MessageKind::fetch_add || m.kind == MessageKind::flush ||
                              m.kind == MessageKind::atomic_write;
    if (m.outcome == Outcome::completed && !has_response) REQUIRE(m.answer_frame != 0);
    if (m.outcome == Outcome::refused) REQUIRE(m.answer_frame != 0);
    if (m.outcome == Outcome::refused) REQUIRE(m.nak_code != 0);
  }
  void event(const Connection* c, const Event& e) override {
    if (c) {
      speaks(*c);
      REQUIRE(e.connection == c->id);
    } else {
      REQUIRE(e.connection == 0);
    }
    REQUIRE(e.frame != 0 && e.frame <= e.last_frame);
    for (const std::uint64_t frame : {e.frame, e.last_frame, e.origin_frame, e.cause_frame}) known(frame);
    REQUIRE(static_cast<std::size_t>(e.kind) < event_kinds && static_cast<std::size_t>(e.cause) < causes);
    REQUIRE(e.packets != 0 && e.packets <= 1U << 24);
    REQUIRE(e.duration >= 0);
    bool listed = e.cause == Cause::none;
    for (const Cause cause : event_rows[static_cast<std::size_t>(e.kind)].causes) listed |= cause == e.cause;
    REQUIRE(listed);
  }
  void connection(const Connection& c, CloseReason why) override {
    speaks(c);
    lives[c.id] = Life::silent;
    ++connections;
    evicted += why == CloseReason::evicted;
    REQUIRE(c.first_frame <= c.last_frame);
    known(c.last_frame);
    for (const Sent& s : c.sent) {
      packets += s.packets;
      if (c.service == Service::vendor || c.service == Service::iwarp) continue;
      REQUIRE(s.requests + s.responses + s.cnps == s.packets);
      REQUIRE(s.crc_bad <= s.packets && s.truncated <= s.packets && s.ecn_marked <= s.ecn_capable);
      REQUIRE(s.acks + s.rnr_naks <= s.responses);
      REQUIRE(s.retransmitted_packets <= s.requests);
      REQUIRE(s.messages_completed + s.messages_refused <= s.requests + 1);
      REQUIRE(s.latency_max <= s.latency_sum || s.latency_count == 0);
    }
  }
  void merged(const Connection& c, std::uint64_t id) override {
    speaks(c);
    REQUIRE(id != c.id);
    const auto [life, first] = lives.try_emplace(id, Life::silent);
    REQUIRE(first || life->second == Life::alive);
    life->second = Life::silent;
  }
  void packet(const Connection& c, std::uint64_t frame, const PacketNote& note) override {
    speaks(c);
    known(frame);
    REQUIRE(frame >= c.first_frame && note.connection == c.id);
    REQUIRE(note.related_frame <= now);
    REQUIRE(noted.emplace(frame, c.id).second);  // each packet is reported at most once
  }
};

struct Source {
  const std::uint8_t* at;
  std::size_t left;
  std::uint8_t byte() { return left ? (--left, *at++) : 0; }
};

// The limit is small, so that connections are evicted. There are few QPs and hosts, so that they are reused.
constexpr std::uint32_t connections = 6;

class Run {
 public:
  explicit Run(TrackerOptions options) : tracker_(judge_, options), options_(options) {
    packet_.link = LinkType::raw_ip;
  }

  void feed(Bytes bytes) {
    judge_.now = ++packet_.number;
    dissector_.dissect(packet_, bytes, static_cast<std::uint32_t>(bytes.size()));
    const HeaderStack& stack = packet_.stack;
    if (const Layer* bth = stack.find(info<Bth>); bth && bth == &stack.layers()[stack.transport]) {
      const View<Bth> view(stack.bytes.data() + bth->offset);
      const Opcode& op = opcode(view.get<"opcode">());
      belonging_ += !(op.transport == Transport::ud && view.get<"dest_qp">() <= 1);
    }
    tracker_.add(packet_);
    REQUIRE(tracker_.memory() < (4U << 20));
  }
  void described(Source& source);
  void management(Source& source);
  void raw(Source& source);
  void finish() {
    tracker_.finish();
    REQUIRE(judge_.packets <= belonging_);
    REQUIRE(judge_.noted.size() <= belonging_ + packet_.number);
    REQUIRE(tracker_.evicted() >= judge_.evicted);
    for (const auto& [id, life] : judge_.lives) REQUIRE(life == Judge::Life::silent);
  }

 private:
  struct Direction {
    std::uint32_t next = 0, oldest = 0;
    std::uint32_t last_length = 0;
  };
  Judge judge_;
  Dissector dissector_{{{}, false}};
  Tracker tracker_;
  TrackerOptions options_;
  Packet packet_;
  std::uint64_t belonging_ = 0;
  Direction directions_[4][2] = {};
  std::uint8_t frame_[RdmaFrame::most];
};

void Run::described(Source& source) {
  for (auto& pair : directions_) pair[0].next = pair[0].oldest = 0xfffff8, pair[1].next = pair[1].oldest = 0x100;
  while (source.left) {
    const std::uint8_t control = source.byte(), what = source.byte(), how = source.byte();
    const unsigned pair = control & 3, sender = control >> 2 & 1;
    packet_.time_ns += control & 0x40 ? std::int64_t{source.byte()} << 20 : 2000;
    if ((control & 0xb8) == 0xb8) {
      management(source);
      continue;
    }
    RdmaFrame f;
    // Pair 3 is a loopback connection of one host.
    const std::uint32_t hosts[] = {testing::host_a, pair == 3 ? testing::host_a : testing::host_b + (pair == 2)};
    f.from = hosts[sender];
    f.to = hosts[1 - sender];
    f.qp = pair == 1 ? 0x20 : 0x10 + pair * 2 + (1 - sender);  // pair 1 has equal QP numbers at both endpoints
    f.source_port = static_cast<std::uint16_t>(0xc000 + pair);
    if (control & 0x80) f.qp += control >> 3 & 3;
    Direction& mine = directions_[pair][sender];
    Direction& others = directions_[pair][1 - sender];
    static constexpr std::uint8_t opcodes[] = {rc::send,
                                               rc::send_first,
                                               rc::send_middle,
                                               rc::send_last,
                                               rc::write,
                                               rc::write_first,
                                               rc::write_middle,
                                               rc::write_last,
                                               rc::read,
                                               rc::compare_swap,
                                               rc::fetch_add,
                                               rc::send_immediate,
                                               rc::acknowledge,
                                               rc::acknowledge,
                                               rc::acknowledge,
                                               rc::response_only,
                                               rc::response_first,
                                               rc::response_middle,
                                               rc::response_last,
                                               rc::atomic_acknowledge,
                                               0x81,
                                               rc::send_invalidate,
                                               0x20,
                                               0x24,
                                               0x64,
                                               0xa4,
                                               0xac,
                                               0xb1,
                                               0x44,
                                               0x1c,
                                               0x1d,
                                               0xff};
    f.opcode = opcodes[what & 31];
    const Opcode& op = opcode(f.opcode);
    f.vendor = f.opcode == 0x44 && (how & 1);
    f.source_qp = 0x10 + pair;
    f.qkey = what >> 7;
    static constexpr std::uint32_t lengths[] = {0, 1, 256, 1024, 1025, 4096, 70000, 0xffffffff};
    f.length = lengths[what >> 5];
    static constexpr std::uint32_t payloads[] = {0, 3, 256, 256, 1024, 8, 512, 255};
    f.payload = op.payload ? payloads[what >> 5] : 0;
    static constexpr std::uint8_t syndromes[] = {testing::ack,    testing::nak(0), testing::rnr(1),  0,
                                                 testing::nak(1), testing::nak(2), testing::rnr(20), 0x40};
    f.syndrome = syndromes[what >> 5];
    f.msn = control & 0x20 ? how : 0;
    f.icrc = control & 0x10 ? 1 : static_cast<std::uint32_t>(packet_.number);
    f.identification = static_cast<std::uint16_t>(f.icrc);
    f.traffic_class = control & 0x08 ? 3 : 0;
    const auto step = static_cast<std::uint32_t>(how >> 3);
    const std::uint32_t psns = f.opcode == rc::read ? (f.length >> 10) + 1 : 1;
    if (op.direction == rdmawire::Direction::response) {
      switch (how & 7) {
        case 0: f.psn = others.next - 1; break;
        case 1: f.psn = others.oldest++; break;
        case 2: f.psn = others.next - 1 - step; break;
        case 3: f.psn = others.next + step; break;
        case 4: f.psn = others.oldest + step; break;
        case 5: f.psn = others.oldest - 1 - step; break;
        case 6: f.psn = others.oldest = others.next - 1; break;
        default: f.psn = others.next + (step << 18); break;
      }
    } else {
      switch (how & 7) {
        case 0:
        case 1: f.psn = mine.next, mine.next += psns; break;
        case 2: f.psn = mine.next + step, mine.next += step + psns; break;
        case 3: f.psn = mine.next - 1 - step; break;
        case 4: f.psn = mine.next -= step, mine.next += psns; break;
        case 5: f.psn = mine.next += step << 12, mine.next += psns; break;
        case 6: f.psn = mine.next + (step << 19); break;
        default: f.psn = mine.next += step << 19, mine.next += psns; break;
      }
    }
    f.psn &= 0xffffff;
    feed(Bytes(frame_, f.write(frame_)));
  }
}

// Sends CM messages of a connection between the QPs that described() uses.
void Run::management(Source& source) {
  const std::uint8_t what = source.byte();
  const unsigned pair = what & 3;
  const std::uint32_t a = testing::host_a, b = pair == 3 ? a : testing::host_b + (pair == 2);
  bool back = what >> 6 & 1;
  Frame frame;
  const auto to = [&](HeaderValue message, bool reversed) {
    frame = Value<Ipv4>().set<"src">(reversed ? b : a).set<"dst">(reversed ? a : b) / Value<Udp>() /
            Value<Bth>().set<"opcode">(0x64).set<"dest_qp">(1) /
            Value<Deth>().set<"src_qp">(1).set<"qkey">(0x80010000) / Value<Mad>();
    const std::size_t bytes = Mad::size + message.bytes().size();
    frame /= std::move(message);
    frame.payload.resize(Mad::whole - bytes);
  };
  const std::uint32_t id = 1 + pair + (what >> 7) * 8;
  const auto gid = [](std::uint32_t v4) {
    std::array<std::uint8_t, 16> bytes{};
    bytes[10] = bytes[11] = 0xff;
    store_be(bytes.data() + 12, 4, v4);
    return bytes;
  };
  switch (what >> 2 & 7) {
    case 0:
    case 1: {
      Value<CmReq> req;
      req.set<"local_comm_id">(id).set<"service_id">(0x0000000001061144).set<"path_mtu">(1 + pair);
      req.set<"local_qpn">(pair == 1 ? 0x20 : 0x10 + pair * 2)
          .set<"starting_psn">(directions_[pair][0].next & 0xffffff);
      req.set<"primary_local_lid">(0xffff).set<"primary_remote_lid">(0xffff);
      req.set<"primary_local_gid">(gid(a)).set<"primary_remote_gid">(gid(b));
      to(req, false);
      break;
    }
    case 2:
    case 3:
      to(Value<CmRep>()
             .set<"local_comm_id">(0x100 + id)
             .set<"remote_comm_id">(id)
             .set<"local_qpn">(pair == 1 ? 0x20 : 0x11 + pair * 2)
             .set<"starting_psn">(directions_[pair][1].next & 0xffffff),
         true);
      break;
    case 4: to(Value<CmRtu>().set<"local_comm_id">(id).set<"remote_comm_id">(0x100 + id), false); break;
    case 5:
      to(Value<CmRej>().set<"local_comm_id">(back ? 0x100 + id : id).set<"remote_comm_id">(back ? id : 0x100 + id),
         back);
      break;
    case 6:
      to(Value<CmDreq>().set<"local_comm_id">(back ? 0x100 + id : id).set<"remote_comm_id">(back ? id : 0x100 + id),
         back);
      break;
    default:
      to(Value<CmDrep>().set<"local_comm_id">(back ? 0x100 + id : id).set<"remote_comm_id">(back ? id : 0x100 + id),
         back);
  }
  const std::vector<std::uint8_t> bytes = frame.encode();
  feed(bytes);
}

void Run::raw(Source& source) {
  const std::uint8_t link = source.byte();
  packet_.link = link & 1 ? LinkType::ethernet : link & 2 ? LinkType::infiniband : LinkType::raw_ip;
  while (source.left) {
    const std::size_t size = std::min<std::size_t>(source.byte() | std::size_t{source.byte() & 1U} << 8, source.left);
    packet_.time_ns += 1000000;
    feed(Bytes(source.at, size));
    source.at += size;
    source.left -= size;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Source source{data, size};
  const std::uint8_t mode = source.byte();
  TrackerOptions options;
  options.connections = mode & 1 ? connections : 3;
  options.waiting_packets = mode & 2 ? 12 : 1U << 20;
  options.use_source_port = mode & 4;
  options.use_connection_manager = !(mode & 8);
  if (mode & 16) options.memory = 20000;
  options.packets = true;
  Run run(options);
  if (mode & 0x80)
    run.raw(source);
  else
    run.described(source);
  run.finish();
  return 0;
}
