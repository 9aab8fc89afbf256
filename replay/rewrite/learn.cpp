#include "replay/rewrite/learn.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "captures/analysis/findings.hpp"
#include "dissectors/protocol/arp.hpp"
#include "dissectors/protocol/cm.hpp"
#include "dissectors/protocol/ddp.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/rdmap.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/cm_message.hpp"
#include "dissectors/tracking/tracker.hpp"
#include "dissectors/tracking/transport_packet.hpp"

namespace rdmawire::replay {
namespace {

using tracking::FlowKey;

/// First and last number of a sequence.
struct Span {
  bool begun = false;
  Psn first, last;

  void add(Psn psn) {
    // Frames may be reordered at the start: the lower number is the first.
    constexpr std::int32_t near = 4096;
    if (!begun) {
      begun = true;
      first = last = psn;
    } else if (psn < first && first - psn < near) {
      first = psn;
    } else if (psn > last) {
      last = psn;
    }
  }
};

struct SeenRegion {
  std::uint64_t from = ~std::uint64_t{0}, end = 0;
  void add(std::uint64_t address, std::uint64_t bytes) {
    from = std::min(from, address);
    end = std::max(end, address + std::min<std::uint64_t>(bytes, ~std::uint64_t{0} - address));
  }
};

/// Values observed from one endpoint.
struct SeenEnd {
  Span psn;
  std::optional<std::uint32_t> negotiated_psn, msn, qkey, xrc_srq;
  std::uint32_t messages = 0;  // requested by this endpoint, without retransmissions
  std::optional<std::uint16_t> source_port;
  std::map<std::uint32_t, SeenRegion> regions;  // memory of this endpoint, by key

  static constexpr std::size_t most_regions = 65'536;
  void region(std::uint32_t key, std::uint64_t address, std::uint64_t bytes) {
    if (regions.size() < most_regions || regions.contains(key)) regions[key].add(address, bytes);
  }
};
struct Seen {
  std::array<SeenEnd, 2> ends;
  SeenEnd& at(Side end) { return ends[static_cast<std::size_t>(end)]; }
};

std::string end_text(const MappedEnd& end, bool iwarp) {
  const std::string address = end.address.captured ? captures::analysis::to_text(*end.address.captured) : "?";
  if (!end.qp.captured) return address + (iwarp ? " port ?" : " QP ?");
  return iwarp ? fmt::format("{} port {}", address, *end.qp.captured)
               : fmt::format("{} QP {:#x}", address, *end.qp.captured);
}

}  // namespace

std::string who(const MappedConnection& connection) {
  const bool iwarp = connection.service == tracking::Service::iwarp;
  return end_text(connection.at(Side::a), iwarp) + " ↔ " + end_text(connection.at(Side::b), iwarp);
}

struct FlowLearner::State final : tracking::Sink {
  static tracking::TrackerOptions tracker_options() {
    tracking::TrackerOptions options;
    options.transport = true;
    return options;
  }

  Learnt learnt;
  tracking::Tracker tracker{*this, tracker_options()};
  std::unordered_map<std::uint64_t, Seen> seen;  // by Connection::id
  std::unordered_map<PortAddress, std::uint64_t, HashFlow> macs;
  std::unordered_map<PortAddress, std::uint16_t, HashFlow> vlans;
  struct Found {
    tracking::Connection connection;
    Seen seen;
  };
  std::vector<Found> found;
  // CM communication IDs by {address, peer's address, QP}.
  std::unordered_map<FlowKey, std::uint32_t, HashFlow> comm_ids;
  std::unordered_map<FlowKey, std::uint32_t, HashFlow> first_seq;  // TCP: number contains both ports
  static constexpr std::size_t most = 1U << 18;                    // limit for the entries of each table

  void add(const tracking::Packet& packet) {
    ++learnt.frames;
    learnt.bytes += packet.stack.wire_length;
    learnt.snapped += packet.stack.cut;
    learnt.bad_icrcs += packet.icrc.status == CrcCheck::Status::bad;
    if (learnt.frames == 1) learnt.first_time = packet.time_ns;
    learnt.last_time = packet.time_ns;
    for (const tracking::Pdu& pdu : packet.pdus) learnt.divided_pdus += pdu.reassembled;
    note_values(packet.stack);
    note_hosts(packet.stack);
    note_management(packet.stack);
    tracker.add(packet);
  }

  void note_address(const PortAddress& address) {
    if (learnt.addresses.size() < most)
      learnt.addresses.insert(address);
    else
      learnt.all_addresses = false;
  }

  void note_values(const HeaderStack& stack) {
    if (const auto ports = tracking::ports_of(stack)) {
      note_address(ports->from);
      note_address(ports->to);
    }
    if (const auto arp = stack.get<ArpEthernet>()) {
      note_address(PortAddress::of_ipv4(arp->get<"sender_protocol">()));
      note_address(PortAddress::of_ipv4(arp->get<"target_protocol">()));
    }
    const auto note_ports = [&](std::uint64_t from, std::uint64_t to) {
      learnt.ports.set(from);
      learnt.ports.set(to);
    };
    if (const auto udp = stack.get<Udp>()) note_ports(udp->get<"src_port">(), udp->get<"dst_port">());
    if (const auto tcp = stack.get<Tcp>()) note_ports(tcp->get<"src_port">(), tcp->get<"dst_port">());
    const auto layers = stack.layers();
    if (layers.empty() || layers[0].header != &info<Ethernet>) return;
    const bool tagged = layers.size() > 1 && layers[1].header == &info<Vlan>;
    learnt.vlans.set(tagged ? View<Vlan>(stack.bytes.data() + layers[1].offset).get<"id">() : MappedVlan::untagged);
  }

  void note_hosts(const HeaderStack& stack) {
    const auto ports = tracking::ports_of(stack);
    const auto ethernet = stack.get<Ethernet>();
    if (!ports || !ethernet) return;
    const std::uint64_t src = ethernet->get<"src">(), dst = ethernet->get<"dst">();
    if (macs.size() < most) {
      macs.try_emplace(ports->from, src);
      if (!(dst >> 40 & 1)) macs.try_emplace(ports->to, dst);
    }
    if (vlans.size() < most) {
      const auto layers = stack.layers();
      const bool tagged = layers.size() > 1 && layers[1].header == &info<Vlan>;
      vlans.try_emplace(ports->from,
                        tagged ? View<Vlan>(stack.bytes.data() + layers[1].offset).get<"id">() : MappedVlan::untagged);
    }
    if (const auto tcp = stack.get<Tcp>(); tcp && first_seq.size() < most) {
      const std::uint64_t number = std::uint64_t{tcp->get<"src_port">()} << 16 | tcp->get<"dst_port">();
      const FlowKey key = ports->with(number);
      if (tcp->get<"syn">())
        first_seq[key] = tcp->get<"seq">();
      else
        first_seq.try_emplace(key, tcp->get<"seq">());
    }
  }

  void note_management(const HeaderStack& stack) {
    const auto bth = stack.get<Bth>();
    if (!bth || bth->get<"dest_qp">() != 1) return;
    const auto ports = tracking::ports_of(stack);
    const tracking::CmMessage cm = tracking::read_cm_message(stack);
    if (!ports || comm_ids.size() >= most) return;
    if (cm.kind == &info<CmReq> || cm.kind == &info<CmRep>) comm_ids[ports->with(cm.qp)] = cm.local_id;
  }

  void transport(const tracking::Connection& c, Side from, const tracking::TransportPacket& t,
                 const tracking::NegotiatedParameters* agreement) override {
    Seen& s = seen[c.id];
    SeenEnd &sender = s.at(from), &receiver = s.at(tracking::other(from));
    if (agreement)
      for (const Side end : {Side::a, Side::b})
        if (const auto& psn = agreement->ends[static_cast<std::size_t>(end)].first_psn) s.at(end).negotiated_psn = psn;
    if (t.op->operation == Operation::congestion_notification) return;
    if (!sender.source_port && t.source_port) sender.source_port = t.source_port;
    if (!t.is_response()) {
      sender.messages += t.op->ends_message() && (!sender.psn.begun || t.psn > sender.psn.last);
      sender.psn.add(t.psn);
    } else if (t.op->operation == Operation::rdma_read_response && receiver.psn.begun && t.psn > receiver.psn.last) {
      // A READ request reserves one PSN for each response packet.
      receiver.psn.last = t.psn;
    }
    if (t.has_aeth && !sender.msn) sender.msn = t.msn.value();
    if (t.op->transport == Transport::ud && !receiver.qkey) receiver.qkey = t.qkey;
    if (t.has_reth) receiver.region(t.key, t.address, t.length);
    if (t.has_atomic) receiver.region(t.key, t.address, 8);
  }

  void stream(const tracking::Connection& c, Side from, const tracking::Packet& packet) override {
    Seen& s = seen[c.id];
    for (const tracking::Pdu& pdu : packet.pdus) {
      if (const auto tagged = pdu.stack.get<DdpTagged>())
        s.at(tracking::other(from)).region(tagged->get<"stag">(), tagged->get<"to">(), pdu.stack.payload.length);
      if (const auto read = pdu.stack.get<RdmapReadRequest>()) {
        s.at(from).region(read->get<"sink_stag">(), read->get<"sink_to">(), read->get<"size">());
        s.at(tracking::other(from)).region(read->get<"src_stag">(), read->get<"src_to">(), read->get<"size">());
      }
      if (const auto atomic = pdu.stack.get<RdmapAtomicRequest>())
        s.at(tracking::other(from)).region(atomic->get<"stag">(), atomic->get<"to">(), 8);
    }
  }

  void merged(const tracking::Connection& c, std::uint64_t id) override {
    // The tracker merged two connections, each with one direction. Adds the values of the merged one to those of the
    // same sender.
    const auto half = seen.find(id);
    if (half == seen.end()) return;
    const Seen old = std::move(half->second);
    seen.erase(half);
    Seen& now = seen[c.id];
    for (const Side end : {Side::a, Side::b}) {
      const auto i = static_cast<std::size_t>(end);
      if (!now.ends[i].psn.begun) {
        now.ends[i].psn = old.ends[i].psn;
        now.ends[i].messages = old.ends[i].messages;
      }
      for (const auto& [key, region] : old.ends[i].regions)
        now.ends[i].region(key, region.from, region.end - region.from);
    }
  }

  void connection(const tracking::Connection& c, tracking::CloseReason farewell) override {
    learnt.forgotten += farewell == tracking::CloseReason::evicted;
    Found f{c, {}};
    if (const auto s = seen.find(c.id); s != seen.end()) {
      f.seen = std::move(s->second);
      seen.erase(s);
    }
    found.push_back(std::move(f));
  }

  [[nodiscard]] MappedConnection mapped(const Found& f) const {
    const tracking::Connection& c = f.connection;
    MappedConnection m;
    m.service = c.service;
    m.first_frame = c.opened_frame && c.opened_frame < c.first_frame ? c.opened_frame : c.first_frame;
    m.last_frame = c.last_frame;
    if (c.mtu) m.mtu.captured = c.mtu;
    if (c.service != tracking::Service::iwarp) m.pkey.captured = c.pkey;
    for (const Side end : {Side::a, Side::b}) {
      const tracking::ConnectionEnd &own = c.at(end), &peer = c.at(tracking::other(end));
      const SeenEnd& s = f.seen.ends[static_cast<std::size_t>(end)];
      MappedEnd& to = m.at(end);
      to.address.captured = own.address;
      if (own.qp_known) to.qp.captured = own.qp;
      if (const auto mac = macs.find(own.address); mac != macs.end()) to.mac.captured = mac->second;
      if (c.service == tracking::Service::iwarp) {
        if (const auto seq = first_seq.find({own.address, peer.address, std::uint64_t{own.qp} << 16 | peer.qp});
            seq != first_seq.end())
          to.psn.captured = seq->second;
      } else {
        to.psn.captured = s.negotiated_psn ? s.negotiated_psn
                          : s.psn.begun    ? std::optional(s.psn.first.value())
                                           : std::nullopt;
      }
      to.msn.captured = s.msn;
      to.qkey.captured = s.qkey;
      to.source_port.captured = s.source_port;
      if (const auto id = comm_ids.find({own.address, peer.address, own.qp}); id != comm_ids.end())
        to.comm_id.captured = id->second;
      for (const auto& [key, region] : s.regions)
        to.regions.push_back({{key, {}}, {region.from, {}}, region.end - region.from});
    }
    if (const auto vlan = vlans.find(c.at(Side::a).address); vlan != vlans.end()) m.vlan.id.captured = vlan->second;
    return m;
  }

  Learnt finish() {
    tracker.finish();
    std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
      return std::pair(a.connection.first_frame, a.connection.id) <
             std::pair(b.connection.first_frame, b.connection.id);
    });
    for (const Found& f : found) {
      MappedConnection m = mapped(f);
      m.name = fmt::format("connection {}", learnt.map.connections.size() + 1);
      learnt.map.connections.push_back(std::move(m));
      std::array<std::uint32_t, 2> psns{};
      for (std::size_t i = 0; i < 2; ++i)
        if (const Span& span = f.seen.ends[i].psn; span.begun)
          psns[i] = static_cast<std::uint32_t>(span.last - span.first) + 1;
      learnt.psns.push_back(psns);
      learnt.msns.push_back({f.seen.ends[1].messages, f.seen.ends[0].messages});
    }
    return std::move(learnt);
  }
};

FlowLearner::FlowLearner() : state_(std::make_unique<State>()) {}
FlowLearner::FlowLearner(FlowLearner&&) noexcept = default;
FlowLearner& FlowLearner::operator=(FlowLearner&&) noexcept = default;
FlowLearner::~FlowLearner() = default;
void FlowLearner::add(const tracking::Packet& packet) { state_->add(packet); }
Learnt FlowLearner::finish() { return state_->finish(); }

}  // namespace rdmawire::replay
