#include "replay/rewrite/rewriter.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "dissectors/protocol/arp.hpp"
#include "dissectors/protocol/cm.hpp"
#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/ddp.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/icmp.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/rdmap.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/address.hpp"
#include "dissectors/tracking/cm_message.hpp"
#include "replay/faults/recompute_checksums.hpp"

namespace rdmawire::replay {
namespace {

using tracking::FlowKey;

constexpr bool is_group(std::uint64_t mac) { return mac >> 40 & 1; }

/// Tags the number in a flow key, so that QP numbers and TCP ports are distinct.
namespace number {
constexpr std::uint64_t queue_pair(std::uint32_t qp) { return qp; }
constexpr std::uint64_t tcp(std::uint64_t from, std::uint64_t to) { return 1ULL << 56 | from << 16 | to; }
constexpr std::uint64_t communication(std::uint32_t id) { return 2ULL << 56 | id; }
constexpr std::uint64_t ports = 3ULL << 56;
}  // namespace number

/// A frame under modification, with the range of modified bytes.
class Patch {
 public:
  explicit Patch(MutableBytes frame) : frame_(frame) {}

  template <class H, FixedString Name>
  void store(const Layer& layer, std::uint64_t value) {
    constexpr Field f = detail::field_of<H>(Name.view());
    f.store(frame_.data() + layer.offset, value);
    touched(layer.offset + f.bit / 8, layer.offset + (f.bit + f.width + 7U) / 8);
  }
  template <class H, FixedString Name>
  void store(const Layer& layer, const PortAddress& address) {
    constexpr Field f = detail::field_of<H>(Name.view());
    if constexpr (f.width == 128) {
      std::uint8_t* at = frame_.data() + layer.offset + f.bit / 8;
      store_be(at, 8, address.high);
      store_be(at + 8, 8, address.low);
      touched(layer.offset + f.bit / 8, layer.offset + (f.bit + f.width) / 8);
    } else {
      store<H, Name>(layer, address.low);
    }
  }
  template <class H, FixedString Name>
  [[nodiscard]] auto get(const Layer& layer) const {
    return load_field<H, Name>(frame_.data() + layer.offset);
  }
  /// Stores the replacement of the field's value, if any.
  template <class H, FixedString Name, class T>
  void map(const Layer& layer, const Mapped<T>& map) {
    if (const auto live = map.of(static_cast<T>(get<H, Name>(layer)))) store<H, Name>(layer, *live);
  }
  template <class H, FixedString Name>
  void move(const Layer& layer, const MappedSequence& sequence) {
    if (sequence.moves()) store<H, Name>(layer, get<H, Name>(layer) + sequence.offset());
  }

  [[nodiscard]] std::uint32_t from() const { return from_; }  ///< first modified byte
  [[nodiscard]] std::uint32_t end() const { return end_; }    ///< end of the modified range. 0: unmodified
  [[nodiscard]] MutableBytes frame() const { return frame_; }

 private:
  void touched(std::uint32_t from, std::uint32_t end) {
    from_ = std::min(from_, from);
    end_ = std::max(end_, end);
  }
  MutableBytes frame_;
  std::uint32_t from_ = 0xffffffff, end_ = 0;
};

/// The accessed region: the region that contains the address, otherwise the first region with this key.
const MappedRegion* region_of(const MappedEnd& owner, std::uint32_t key, std::uint64_t address) {
  const MappedRegion* any = nullptr;
  for (const MappedRegion& region : owner.regions) {
    if (region.key.captured && *region.key.captured != key) continue;
    if (region.holds(address)) return &region;
    if (!any) any = &region;
  }
  return any;
}

/// Maps a key and an address in the memory of `owner`.
template <class H, FixedString Key, FixedString Address>
void map_access(Patch& patch, const Layer& layer, const MappedEnd& owner) {
  const auto key = static_cast<std::uint32_t>(patch.get<H, Key>(layer));
  const auto address = static_cast<std::uint64_t>(patch.get<H, Address>(layer));
  const MappedRegion* region = region_of(owner, key, address);
  if (!region) return;
  if (region->key.live) patch.store<H, Key>(layer, *region->key.live);
  if (region->base.captured && region->base.live)
    patch.store<H, Address>(layer, address - *region->base.captured + *region->base.live);
}
/// Maps a key without an address.
template <class H, FixedString Key>
void map_key(Patch& patch, const Layer& layer, const MappedEnd& owner) {
  const auto key = static_cast<std::uint32_t>(patch.get<H, Key>(layer));
  for (const MappedRegion& region : owner.regions)
    if (region.key.captured == key && region.key.live) return patch.store<H, Key>(layer, *region.key.live);
}

void map_extension(Patch& patch, const Layer& layer, const MappedConnection& c, Side from) {
  const MappedEnd &sender = c.at(from), &receiver = c.at(other(from));
  if (layer.header == &info<Reth>) {
    map_access<Reth, "rkey", "va">(patch, layer, receiver);
  } else if (layer.header == &info<AtomicEth>) {
    map_access<AtomicEth, "rkey", "va">(patch, layer, receiver);
  } else if (layer.header == &info<Ieth>) {
    map_key<Ieth, "rkey">(patch, layer, receiver);
  } else if (layer.header == &info<Aeth>) {
    patch.move<Aeth, "msn">(layer, sender.msn);
  } else if (layer.header == &info<Deth>) {
    patch.map<Deth, "qkey">(layer, receiver.qkey);
    patch.map<Deth, "src_qp">(layer, sender.qp);
  } else if (layer.header == &info<Xrceth>) {
    patch.map<Xrceth, "xrcsrq">(layer, receiver.xrc_srq);
  }
}

/// Maps the memory references of a DDP segment. Tagged segments and the sources of Read and Atomic Requests refer to
/// the receiver's memory. The sink of a Read Request is the sender's memory. RFC 5040, 4.4, RFC 5041, 4.2.
void map_ddp(Patch& patch, const Layer& layer, const MappedConnection& c, Side from) {
  const MappedEnd &sender = c.at(from), &receiver = c.at(other(from));
  if (layer.header == &info<DdpTagged>) {
    map_access<DdpTagged, "stag", "to">(patch, layer, receiver);
  } else if (layer.header == &info<DdpUntagged>) {
    map_key<DdpUntagged, "invalidate_stag">(patch, layer, receiver);
  } else if (layer.header == &info<RdmapReadRequest>) {
    map_access<RdmapReadRequest, "sink_stag", "sink_to">(patch, layer, sender);
    map_access<RdmapReadRequest, "src_stag", "src_to">(patch, layer, receiver);
  } else if (layer.header == &info<RdmapAtomicRequest>) {
    map_access<RdmapAtomicRequest, "stag", "to">(patch, layer, receiver);
  }
}

std::uint16_t sum_of(Bytes bytes) { return static_cast<std::uint16_t>(~internet_checksum(bytes)); }
constexpr std::uint16_t fold(std::uint32_t sum) {
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(sum);
}
/// Incremental update. An invalid checksum stays invalid. RFC 1624, 3.
constexpr std::uint16_t followed(std::uint16_t checksum, std::uint32_t before, std::uint32_t after) {
  return static_cast<std::uint16_t>(~fold((~checksum & 0xffffU) + (~fold(before) & 0xffffU) + fold(after)));
}

template <class H>
constexpr std::uint32_t checksum_at = detail::field_of<H>("checksum").bit / 8;
template <class H>
constexpr std::uint32_t addresses_at = detail::field_of<H>("src").bit / 8;
template <class H>
constexpr std::uint32_t addresses_bytes = detail::field_of<H>("dst").width / 4;

Bytes addresses_of(Bytes frame, const Layer& network) {
  return network.header == &info<Ipv4> ? frame.subspan(network.offset + addresses_at<Ipv4>, addresses_bytes<Ipv4>)
                                       : frame.subspan(network.offset + addresses_at<Ipv6>, addresses_bytes<Ipv6>);
}

bool has_pseudo_header(const Layer& network) { return network.header == &info<Ipv4> || network.header == &info<Ipv6>; }

}  // namespace

struct Rewriter::Index {
  struct Entry {
    std::uint32_t connection;
    Side from;
  };
  struct Host {
    std::uint32_t index;
    std::optional<Side> end;  ///< endpoint of connection `index`. nullopt: index into FlowMap::hosts
  };
  FlowMap map;
  Options options;
  std::unordered_map<FlowKey, std::vector<Entry>, HashFlow> flows;
  std::unordered_map<PortAddress, Host, HashFlow> hosts;

  Index(FlowMap flow_map, const Options& rewrite_options) : map(std::move(flow_map)), options(rewrite_options) {
    map.apply_prefixes();
    for (std::uint32_t i = 0; i < map.hosts.size(); ++i)
      if (map.hosts[i].address.captured) hosts.try_emplace(*map.hosts[i].address.captured, Host{i, std::nullopt});
    for (std::uint32_t i = 0; i < map.connections.size(); ++i) {
      const MappedConnection& c = map.connections[i];
      for (const Side from : {Side::a, Side::b}) {
        const MappedEnd &sender = c.at(from), &receiver = c.at(other(from));
        if (sender.address.captured && !c.unmapped) hosts.try_emplace(*sender.address.captured, Host{i, from});
        if (!sender.address.captured || !receiver.address.captured) continue;
        const FlowKey ports{*sender.address.captured, *receiver.address.captured, 0};
        auto add = [&](std::uint64_t key) { flows[ports.with(key)].push_back({i, from}); };
        add(number::ports);
        if (sender.comm_id.captured) add(number::communication(*sender.comm_id.captured));
        if (c.service == tracking::Service::iwarp) {
          if (sender.qp.captured && receiver.qp.captured) add(number::tcp(*sender.qp.captured, *receiver.qp.captured));
        } else if (receiver.qp.captured) {
          add(number::queue_pair(*receiver.qp.captured));
        }
      }
    }
  }

  /// The entry with this key for which `fits` returns true. If there are several, the one whose connection contains the
  /// frame.
  template <class Fits>
  [[nodiscard]] std::optional<Place> look_up(const FlowKey& key, std::uint64_t frame, Fits fits) const {
    const auto found = flows.find(key);
    if (found == flows.end()) return std::nullopt;
    // QP numbers may be reused: selects the latest connection that started before the frame. A connection's teardown
    // may follow its last data.
    const Entry* best = nullptr;
    for (const Entry& entry : found->second) {
      if (!fits(entry)) continue;
      const std::uint64_t begins = map.connections[entry.connection].first_frame;
      if (!best || (begins <= frame && begins >= map.connections[best->connection].first_frame)) best = &entry;
    }
    if (!best) return std::nullopt;
    return Place{best->connection, best->from};
  }
  [[nodiscard]] std::optional<Place> look_up(const FlowKey& key, std::uint64_t frame) const {
    return look_up(key, frame, [](const Entry&) { return true; });
  }

  /// The connection of a CM message.
  [[nodiscard]] std::optional<Place> find_managed(const FlowKey& ports, const tracking::CmMessage& cm,
                                                  std::uint64_t frame) const {
    const FlowKey back{ports.to, ports.from, 0};
    auto turned = [](std::optional<Place> place) {
      if (place) place->from = other(place->from);
      return place;
    };
    const bool sender_named = cm.kind == &info<CmReq> || cm.kind == &info<CmRep> || cm.kind == &info<CmSidrRep>;
    if (cm.qp != 0) {
      const auto by_qp = sender_named ? turned(look_up(back.with(number::queue_pair(cm.qp)), frame))
                                      : look_up(ports.with(number::queue_pair(cm.qp)), frame);
      if (by_qp) return by_qp;
    }
    if (const auto own = look_up(ports.with(number::communication(cm.local_id)), frame); own && cm.local_id) return own;
    if (!cm.remote_id) return std::nullopt;
    return turned(look_up(back.with(number::communication(cm.remote_id)), frame));
  }

  [[nodiscard]] std::optional<MappedHost> host(const PortAddress& address) const {
    const auto found = hosts.find(address);
    if (found == hosts.end() || !found->second.end) {
      MappedHost known{{address, map.in_prefix(address)}, {}};
      if (found != hosts.end()) known = map.hosts[found->second.index];
      if (map.address_step != 0 && is_unicast_ip(address))
        known.address.live = stepped(known.address.live.value_or(address), map.address_step);
      return found != hosts.end() || known.address.live ? std::optional(known) : std::nullopt;
    }
    const MappedEnd& end = map.connections[found->second.index].at(*found->second.end);
    return MappedHost{end.address, end.mac};
  }
  /// True if the map has the address, without FlowMap::address_step. A map without other entries has all addresses.
  [[nodiscard]] bool mapped(const PortAddress& address) const {
    return map.only_steps() || hosts.contains(address) || map.in_prefix(address);
  }
  [[nodiscard]] PortAddress live(const PortAddress& address) const {
    const auto known = host(address);
    return known && known->address.live ? *known->address.live : address;
  }

  [[nodiscard]] std::optional<Place> place(const HeaderStack& stack, std::uint64_t frame) const;
  const char* rewrite_link_and_network(Patch& patch, const HeaderStack& stack, const MappedHost& from,
                                       const MappedHost& to) const;
  void rewrite_management(Patch& patch, const HeaderStack& stack, std::optional<Place> place) const;
  /// Returns true if a host is mapped.
  [[nodiscard]] bool rewrite_arp(Patch& patch, const HeaderStack& stack) const;
  /// Applies FlowMap::source_prefixes and FlowMap::destination_prefixes. Returns true if an address is in one of them.
  [[nodiscard]] bool rewrite_one_way(Patch& patch, const HeaderStack& stack) const;
  void rewrite_options(Patch& patch, const HeaderStack& stack) const;
  /// Returns true if the target is mapped.
  [[nodiscard]] bool rewrite_neighbors(Patch& patch, const HeaderStack& stack, const MappedHost& sender) const;
  /// Maps UDP and TCP ports that the connection's live values did not change. Returns true if a port was mapped.
  [[nodiscard]] bool rewrite_ports(Patch& patch, const HeaderStack& stack) const;
  template <class H, FixedString Name>
  [[nodiscard]] bool rewrite_port(Patch& patch, const HeaderStack& stack, const Layer& layer) const;
  void rewrite_tag(Bytes frame, MutableBytes buffer) const;
  void finish(Patch& patch, const HeaderStack& stack, bool stream_changed) const;
  void retag(Rewritten& result, const HeaderStack& stack, MutableBytes buffer, const MappedVlan& vlan) const;
  [[nodiscard]] const MappedVlan* vlan_of_all(const HeaderStack& stack) const;
  Rewritten rewrite(const HeaderStack& stack, MutableBytes buffer, std::uint64_t number,
                    std::span<const tracking::Pdu> pdus) const;
};

std::optional<Rewriter::Place> Rewriter::Index::place(const HeaderStack& stack, std::uint64_t frame) const {
  const auto ports = tracking::ports_of(stack);
  if (!ports || stack.fragment) return std::nullopt;
  if (const auto bth = stack.get<Bth>()) {
    const std::uint32_t dest_qp = bth->get<"dest_qp">();
    if (dest_qp == 1) {
      const tracking::CmMessage cm = tracking::read_cm_message(stack);
      return cm.kind ? find_managed(*ports, cm, frame) : std::nullopt;
    }
    const auto deth = stack.get<Deth>();
    if (!deth) return look_up(ports->with(number::queue_pair(dest_qp)), frame);
    // A UD QP may receive datagrams from several QPs.
    const std::uint32_t source = deth->get<"src_qp">();
    return look_up(ports->with(number::queue_pair(dest_qp)), frame, [&](const Entry& entry) {
      return map.connections[entry.connection].at(entry.from).qp.captured == source;
    });
  }
  if (const auto tcp = stack.get<Tcp>())
    return look_up(ports->with(number::tcp(tcp->get<"src_port">(), tcp->get<"dst_port">())), frame);
  return std::nullopt;
}

const char* Rewriter::Index::rewrite_link_and_network(Patch& patch, const HeaderStack& stack, const MappedHost& from,
                                                      const MappedHost& to) const {
  if (const Layer* ethernet = stack.find(info<Ethernet>)) {
    patch.map<Ethernet, "src">(*ethernet, from.mac);
    if (!is_group(patch.get<Ethernet, "dst">(*ethernet))) patch.map<Ethernet, "dst">(*ethernet, to.mac);
  }
  if (!from.address.live && !to.address.live) return nullptr;
  const auto ports = *tracking::ports_of(stack);
  const PortAddress src = from.address.of(ports.from).value_or(ports.from),
                    dst = to.address.of(ports.to).value_or(ports.to);
  if (stack.wire == Wire::infiniband) {
    const Layer& lrh = *stack.find(info<Lrh>);
    patch.store<Lrh, "slid">(lrh, src.low);
    patch.store<Lrh, "dlid">(lrh, dst.low);
    return nullptr;
  }
  const Layer& network = stack.layers()[stack.network];
  if (network.header == &info<Ipv4>) {
    if (!is_ipv4(src) || !is_ipv4(dst)) return "the packet is IPv4, but the live address is not";
    patch.store<Ipv4, "src">(network, src);
    patch.store<Ipv4, "dst">(network, dst);
  } else if (network.header == &info<Ipv6>) {
    if (is_ipv4(src) || is_ipv4(dst)) return "the packet is IPv6, but the live address is IPv4";
    patch.store<Ipv6, "src">(network, src);
    patch.store<Ipv6, "dst">(network, dst);
  } else {
    patch.store<Grh, "sgid">(network, src);
    patch.store<Grh, "dgid">(network, dst);
  }
  return nullptr;
}

void Rewriter::Index::rewrite_management(Patch& patch, const HeaderStack& stack, std::optional<Place> place) const {
  static const MappedEnd unknown;
  static const Mapped<std::uint16_t> no_pkey;
  const MappedConnection* c = place ? &map.connections[place->connection] : nullptr;
  const MappedEnd& sender = c ? c->at(place->from) : unknown;
  const MappedEnd& receiver = c ? c->at(other(place->from)) : unknown;
  const Mapped<std::uint16_t>& pkey = c ? c->pkey : no_pkey;

  auto gid = [&]<class H, FixedString Name>(const Layer& layer) {
    constexpr Field f = detail::field_of<H>(Name.view());
    const PortAddress now = PortAddress::of_gid(patch.frame().data() + layer.offset + f.bit / 8);
    if (const PortAddress then = live(now); then != now) patch.store<H, Name>(layer, then);
  };
  auto path_mtu = [&]<class H, FixedString Name>(const Layer& layer) {
    if (!c || !c->mtu.live) return;
    constexpr unsigned smallest = 256;  // code 1. Each further code doubles it. IBTA vol 1, 14.2.5.6
    patch.store<H, Name>(layer, std::bit_width(*c->mtu.live / smallest));
  };
  auto comm_ids = [&]<class H>(const Layer& layer) {
    patch.map<H, "local_comm_id">(layer, sender.comm_id);
    patch.map<H, "remote_comm_id">(layer, receiver.comm_id);
  };

  for (const Layer& layer : stack.layers()) {
    if (layer.header == &info<CmReq>) {
      patch.map<CmReq, "local_comm_id">(layer, sender.comm_id);
      patch.map<CmReq, "local_qpn">(layer, sender.qp);
      patch.move<CmReq, "starting_psn">(layer, receiver.psn);
      patch.map<CmReq, "pkey">(layer, pkey);
      path_mtu.template operator()<CmReq, "path_mtu">(layer);
      gid.template operator()<CmReq, "primary_local_gid">(layer);
      gid.template operator()<CmReq, "primary_remote_gid">(layer);
      gid.template operator()<CmReq, "alternate_local_gid">(layer);
      gid.template operator()<CmReq, "alternate_remote_gid">(layer);
    } else if (layer.header == &info<CmRep>) {
      comm_ids.template operator()<CmRep>(layer);
      patch.map<CmRep, "local_qpn">(layer, sender.qp);
      patch.move<CmRep, "starting_psn">(layer, receiver.psn);
    } else if (layer.header == &info<CmRtu>) {
      comm_ids.template operator()<CmRtu>(layer);
    } else if (layer.header == &info<CmMra>) {
      comm_ids.template operator()<CmMra>(layer);
    } else if (layer.header == &info<CmRej>) {
      comm_ids.template operator()<CmRej>(layer);
    } else if (layer.header == &info<CmDreq>) {
      comm_ids.template operator()<CmDreq>(layer);
      patch.map<CmDreq, "remote_qpn">(layer, receiver.qp);
    } else if (layer.header == &info<CmDrep>) {
      comm_ids.template operator()<CmDrep>(layer);
    } else if (layer.header == &info<CmLap>) {
      comm_ids.template operator()<CmLap>(layer);
      patch.map<CmLap, "remote_qpn">(layer, receiver.qp);
      gid.template operator()<CmLap, "alternate_local_gid">(layer);
      gid.template operator()<CmLap, "alternate_remote_gid">(layer);
    } else if (layer.header == &info<CmApr>) {
      comm_ids.template operator()<CmApr>(layer);
    } else if (layer.header == &info<CmSidrReq>) {
      patch.map<CmSidrReq, "pkey">(layer, pkey);
    } else if (layer.header == &info<CmSidrRep>) {
      patch.map<CmSidrRep, "qpn">(layer, sender.qp);
      patch.map<CmSidrRep, "qkey">(layer, sender.qkey);
    } else if (layer.header == &info<RdmaCm>) {
      if (RdmaCm::v4(patch.frame().data() + layer.offset)) {
        patch.store<RdmaCm, "src.ipv4">(layer, live(PortAddress::of_ipv4(patch.get<RdmaCm, "src.ipv4">(layer))));
        patch.store<RdmaCm, "dst.ipv4">(layer, live(PortAddress::of_ipv4(patch.get<RdmaCm, "dst.ipv4">(layer))));
      } else {
        gid.template operator()<RdmaCm, "src.ipv6">(layer);
        gid.template operator()<RdmaCm, "dst.ipv6">(layer);
      }
    }
  }
}

bool Rewriter::Index::rewrite_arp(Patch& patch, const HeaderStack& stack) const {
  const Layer* arp = stack.find(info<ArpEthernet>);
  if (!arp) return false;
  const auto from = PortAddress::of_ipv4(patch.get<ArpEthernet, "sender_protocol">(*arp)),
             to = PortAddress::of_ipv4(patch.get<ArpEthernet, "target_protocol">(*arp));
  const auto sender = host(from), target = host(to);
  const Layer* ethernet = stack.find(info<Ethernet>);
  if (sender) {
    if (ethernet) patch.map<Ethernet, "src">(*ethernet, sender->mac);
    patch.map<ArpEthernet, "sender_hardware">(*arp, sender->mac);
    if (sender->address.live) patch.store<ArpEthernet, "sender_protocol">(*arp, *sender->address.live);
  }
  if (target) {
    if (ethernet && !is_group(patch.get<Ethernet, "dst">(*ethernet)))
      patch.map<Ethernet, "dst">(*ethernet, target->mac);
    if (patch.get<ArpEthernet, "target_hardware">(*arp) != 0)
      patch.map<ArpEthernet, "target_hardware">(*arp, target->mac);
    if (target->address.live) patch.store<ArpEthernet, "target_protocol">(*arp, *target->address.live);
  }
  return (sender && mapped(from)) || (target && mapped(to));
}

bool Rewriter::Index::rewrite_one_way(Patch& patch, const HeaderStack& stack) const {
  if (map.source_prefixes.empty() && map.destination_prefixes.empty()) return false;
  const auto source = [&](const PortAddress& address) { return FlowMap::in_prefix(map.source_prefixes, address); };
  const auto target = [&](const PortAddress& address) { return FlowMap::in_prefix(map.destination_prefixes, address); };
  if (const Layer* arp = stack.find(info<ArpEthernet>)) {
    const std::uint8_t* const at = stack.bytes.data() + arp->offset;
    const auto from = source(PortAddress::of_ipv4(load_field<ArpEthernet, "sender_protocol">(at))),
               to = target(PortAddress::of_ipv4(load_field<ArpEthernet, "target_protocol">(at)));
    if (from) patch.store<ArpEthernet, "sender_protocol">(*arp, *from);
    if (to) patch.store<ArpEthernet, "target_protocol">(*arp, *to);
    return from || to;
  }
  const auto ports = tracking::ports_of(stack);
  if (!ports || stack.network == HeaderStack::none) return false;
  // A captured and a live prefix have the same version of IP.
  const auto from = source(ports->from), to = target(ports->to);
  const Layer& network = stack.layers()[stack.network];
  if (network.header == &info<Ipv4>) {
    if (from) patch.store<Ipv4, "src">(network, *from);
    if (to) patch.store<Ipv4, "dst">(network, *to);
  } else if (network.header == &info<Ipv6>) {
    if (from) patch.store<Ipv6, "src">(network, *from);
    if (to) patch.store<Ipv6, "dst">(network, *to);
  } else {
    if (from) patch.store<Grh, "sgid">(network, *from);
    if (to) patch.store<Grh, "dgid">(network, *to);
  }
  return from || to;
}

// Moves a frame to the multicast group of a solicited node: the group and its MAC address have the low 24 bits of the
// node's address. RFC 4291, 2.7.1, and RFC 2464, 7.
void follow_solicited_node(Patch& patch, const HeaderStack& stack, const PortAddress& live) {
  constexpr std::uint64_t group_high = 0xff02'0000'0000'0000, group_low = 0x1ff, mac = 0x3333'ff00'0000, bits = 24;
  const std::uint64_t node = live.low & 0xff'ffff;
  const Layer* ipv6 = stack.find(info<Ipv6>);
  if (!ipv6) return;
  PortAddress group = PortAddress::of_gid(stack.bytes.data() + ipv6->offset + detail::field_of<Ipv6>("dst").bit / 8);
  if (group.high != group_high || group.low >> bits != group_low) return;
  group.low = group_low << bits | node;
  patch.store<Ipv6, "dst">(*ipv6, group);
  const Layer* ethernet = stack.find(info<Ethernet>);
  if (ethernet && patch.get<Ethernet, "dst">(*ethernet) >> bits == mac >> bits)
    patch.store<Ethernet, "dst">(*ethernet, mac | node);
}

// RFC 4861, 4.3 to 4.6.1. The target of a redirect is unknown to the map, and is kept.
bool Rewriter::Index::rewrite_neighbors(Patch& patch, const HeaderStack& stack, const MappedHost& sender) const {
  std::optional<MappedHost> target;
  bool known = false;
  const auto map_target = [&]<class H>(const Layer& layer) {
    constexpr std::size_t at = detail::field_of<H>("target").bit / 8;
    const PortAddress address = PortAddress::of_gid(stack.bytes.data() + layer.offset + at);
    target = host(address);
    known |= target && mapped(address);
    if (target && target->address.live) patch.store<H, "target">(layer, *target->address.live);
  };
  for (const Layer& layer : stack.layers()) {
    if (layer.header == &info<NeighborSolicitation>) {
      map_target.template operator()<NeighborSolicitation>(layer);
      if (target && target->address.live) follow_solicited_node(patch, stack, *target->address.live);
    } else if (layer.header == &info<NeighborAdvertisement>) {
      map_target.template operator()<NeighborAdvertisement>(layer);
    } else if (layer.header == &info<NdLinkAddress>) {
      const bool of_target = patch.get<NdLinkAddress, "type">(layer) == nd_option::target;
      if (!of_target || target) patch.map<NdLinkAddress, "address">(layer, of_target ? target->mac : sender.mac);
    }
  }
  return known;
}

template <class H, FixedString Name>
bool Rewriter::Index::rewrite_port(Patch& patch, const HeaderStack& stack, const Layer& layer) const {
  const auto port = static_cast<std::uint16_t>(load_field<H, Name>(stack.bytes.data() + layer.offset));
  if (patch.get<H, Name>(layer) != port) return false;
  for (const MappedPorts& ports : map.ports)
    if (port >= ports.from && port <= ports.to) {
      patch.store<H, Name>(layer, ports.live);
      return true;
    }
  return false;
}

bool Rewriter::Index::rewrite_ports(Patch& patch, const HeaderStack& stack) const {
  if (map.ports.empty() || stack.fragment) return false;
  bool any = false;
  if (const Layer* udp = stack.find(info<Udp>)) {
    any |= rewrite_port<Udp, "src_port">(patch, stack, *udp);
    any |= rewrite_port<Udp, "dst_port">(patch, stack, *udp);
  } else if (const Layer* tcp = stack.find(info<Tcp>)) {
    any |= rewrite_port<Tcp, "src_port">(patch, stack, *tcp);
    any |= rewrite_port<Tcp, "dst_port">(patch, stack, *tcp);
  }
  return any;
}

// IEEE 802.1Q, 9.6: priority, drop eligible, VLAN ID.
void Rewriter::Index::rewrite_tag(Bytes frame, MutableBytes buffer) const {
  constexpr std::size_t at = detail::field_of<Ethernet>("type").bit / 8;
  if (!options.vlan_priority && !options.vlan_dei && !options.vlan_type) return;
  if (frame.size() < at + Vlan::size) return;
  const std::uint64_t type = load_be<2>(frame.data() + at);
  if (type != ethertype::vlan && type != ethertype::provider_vlan) return;
  if (options.vlan_type) store_be(buffer.data() + at, 2, *options.vlan_type);
  std::uint8_t& control = buffer[at + 2];
  if (options.vlan_dei) {
    constexpr unsigned bit = 1U << 4;
    control = static_cast<std::uint8_t>((control & ~bit) | (*options.vlan_dei != 0 ? bit : 0U));
  }
  if (options.vlan_priority) {
    constexpr unsigned shift = 5;
    control = static_cast<std::uint8_t>((control & low_mask(shift)) | *options.vlan_priority << shift);
  }
}

void Rewriter::Index::rewrite_options(Patch& patch, const HeaderStack& stack) const {
  if (stack.network == HeaderStack::none) return;
  const Layer& network = stack.layers()[stack.network];
  const auto stepped = [&](std::uint64_t limit) {
    return static_cast<std::uint64_t>(std::clamp(static_cast<int>(limit) + options.hop_limit_step, 1, 255));
  };
  if (options.hop_limit_step != 0) {
    if (network.header == &info<Ipv4>)
      patch.store<Ipv4, "ttl">(network, stepped(patch.get<Ipv4, "ttl">(network)));
    else if (network.header == &info<Ipv6>)
      patch.store<Ipv6, "hop_limit">(network, stepped(patch.get<Ipv6, "hop_limit">(network)));
    else
      patch.store<Grh, "hop_limit">(network, stepped(patch.get<Grh, "hop_limit">(network)));
  }
  if (network.header == &info<Ipv4>) {
    if (options.hop_limit) patch.store<Ipv4, "ttl">(network, *options.hop_limit);
    if (options.dscp) patch.store<Ipv4, "tos.dscp">(network, *options.dscp);
  } else if (network.header == &info<Ipv6>) {
    if (options.hop_limit) patch.store<Ipv6, "hop_limit">(network, *options.hop_limit);
    if (options.dscp) patch.store<Ipv6, "traffic_class.dscp">(network, *options.dscp);
    if (options.flow_label) patch.store<Ipv6, "flow_label">(network, *options.flow_label);
  } else {
    if (options.hop_limit) patch.store<Grh, "hop_limit">(network, *options.hop_limit);
    if (options.dscp) patch.store<Grh, "traffic_class.dscp">(network, *options.dscp);
    if (options.flow_label) patch.store<Grh, "flow_label">(network, *options.flow_label);
  }
}

namespace {

/// Updates the ICRC incrementally for the changes from stack.bytes to `frame`.
void follow_icrc(MutableBytes frame, const HeaderStack& stack, std::uint32_t end) {
  std::uint8_t* const at = frame.data() + stack.icrc.offset;
  const auto before = static_cast<std::uint32_t>(load_le(at, 4));
  const bool roce = stack.wire == Wire::roce_v1 || stack.wire == Wire::roce_v2;
  if (roce && end <= stack.icrc.offset) return store_icrc(at, before ^ icrc_of_change(stack, frame, end));
  HeaderStack after = stack;
  after.bytes = frame;
  store_icrc(at, before ^ compute_icrc(stack) ^ compute_icrc(after));
}

void follow_vcrc(MutableBytes frame, const HeaderStack& stack) {
  HeaderStack after = stack;
  after.bytes = frame;
  std::uint8_t* const at = frame.data() + stack.vcrc.offset;
  store_le(at, 2, load_le(at, 2) ^ compute_vcrc(stack) ^ compute_vcrc(after));
}

template <class H>
void follow_checksum(MutableBytes frame, std::uint32_t header, std::uint32_t before, std::uint32_t after) {
  std::uint8_t* const at = frame.data() + header + checksum_at<H>;
  store_be(at, 2, followed(static_cast<std::uint16_t>(load_be<2>(at)), before, after));
}

/// Checksum difference of the modified bytes from `from` (the transport header) to `end`, and of the ICRC.
std::uint32_t transport_sum(Bytes frame, const HeaderStack& stack, const Layer& network, std::uint32_t from,
                            std::uint32_t end) {
  std::uint32_t sum = sum_of(addresses_of(frame, network));
  const std::uint32_t bytes =
      std::min<std::uint32_t>((end - from + 1) & ~1U, static_cast<std::uint32_t>(frame.size()) - from);
  sum += sum_of(frame.subspan(from, bytes));
  if (stack.icrc.length == 4 && stack.icrc.offset >= from + bytes) {
    const std::uint16_t icrc = sum_of(frame.subspan(stack.icrc.offset, 4));
    sum += (stack.icrc.offset - from) & 1 ? __builtin_bswap16(icrc) : icrc;
  }
  return sum;
}

/// Updates the transport checksum incrementally. A first fragment contains it, later fragments do not.
void follow_transport(const Patch& patch, const HeaderStack& stack, bool stream_changed) {
  if (stack.network == HeaderStack::none || !has_pseudo_header(stack.layers()[stack.network])) return;
  const MutableBytes frame = patch.frame();
  const Layer& network = stack.layers()[stack.network];
  for (const Layer& layer : stack.layers()) {
    if (layer.offset < network.offset + network.length) continue;
    const bool udp = layer.header == &info<Udp>;
    if (!udp && layer.header != &info<Tcp> && layer.header != &info<Icmpv6>) continue;
    const std::uint32_t end = stream_changed ? static_cast<std::uint32_t>(frame.size())
                                             : std::max(patch.end(), layer.offset + layer.header->size);
    const std::uint32_t before = transport_sum(stack.bytes, stack, network, layer.offset, end);
    const std::uint32_t after = transport_sum(frame, stack, network, layer.offset, end);
    if (!udp) {
      layer.header == &info<Tcp> ? follow_checksum<Tcp>(frame, layer.offset, before, after)
                                 : follow_checksum<Icmpv6>(frame, layer.offset, before, after);
    } else if (std::uint8_t* at = frame.data() + layer.offset + checksum_at<Udp>; load_be<2>(at) != 0) {
      follow_checksum<Udp>(frame, layer.offset, before, after);
      if (load_be<2>(at) == 0) store_be(at, 2, 0xffff);
    }
    return;
  }
}

}  // namespace

void Rewriter::Index::finish(Patch& patch, const HeaderStack& stack, bool stream_changed) const {
  const MutableBytes frame = patch.frame();
  const auto layers = stack.layers();
  if (options.crc == CrcPolicy::recompute) {
    HeaderStack after = stack;
    after.bytes = frame;
    mend_icrc(frame, after);
    mend_ip_checksums(frame, after);
    // The checksum covers the other fragments, too.
    if (stack.fragment && patch.end() != 0)
      follow_transport(patch, stack, stream_changed);
    else
      mend_transport_checksum(frame, after);
    mend_vcrc(frame, after);
  } else if (options.crc == CrcPolicy::follow && patch.end() != 0) {
    if (stack.icrc.length == 4) follow_icrc(frame, stack, patch.end());
    if (stack.network != HeaderStack::none && has_pseudo_header(layers[stack.network])) {
      const Layer& network = layers[stack.network];
      if (network.header == &info<Ipv4>)
        follow_checksum<Ipv4>(frame, network.offset, sum_of(stack.bytes_of(network)),
                              sum_of(frame.subspan(network.offset, network.length)));
      follow_transport(patch, stack, stream_changed);
    }
    if (stack.vcrc.length == 2) follow_vcrc(frame, stack);
  }
  if (options.icrc_mask != 0 && stack.icrc.length == 4) {
    std::uint8_t* const at = frame.data() + stack.icrc.offset;
    store_be(at, 4, load_be<4>(at) ^ options.icrc_mask);
  }
}

void Rewriter::Index::retag(Rewritten& result, const HeaderStack& stack, MutableBytes buffer,
                            const MappedVlan& vlan) const {
  if (!vlan.id.live || stack.layers().empty() || stack.layers()[0].header != &info<Ethernet>) return;
  const std::uint16_t id = *vlan.id.live;
  const Layer* tag = nullptr;
  for (const Layer& layer : stack.layers())
    if (layer.header == &info<Vlan>) {
      tag = &layer;
      break;
    }
  constexpr std::uint32_t at = detail::field_of<Ethernet>("type").bit / 8;
  const std::size_t bytes = result.frame.size();
  if (tag) {
    const std::uint16_t now = View<Vlan>(buffer.data() + tag->offset).get<"id">();
    if (!vlan.id.of(now)) return;
    if (id != MappedVlan::untagged) return detail::field_of<Vlan>("id").store(buffer.data() + tag->offset, id);
    if (tag != &stack.layers()[1]) return;
    std::memmove(buffer.data() + at, buffer.data() + at + Vlan::size, bytes - at - Vlan::size);
    result.frame = buffer.first(bytes - Vlan::size);
  } else if (id != MappedVlan::untagged && vlan.id.captured.value_or(MappedVlan::untagged) == MappedVlan::untagged) {
    std::memmove(buffer.data() + at + Vlan::size, buffer.data() + at, bytes - at);
    store_be(buffer.data() + at, 2, ethertype::vlan);
    store_be(buffer.data() + at + 2, 2, id);
    result.frame = buffer.first(bytes + Vlan::size);
  }
}

/// The change of FlowMap::vlans that applies to the frame. nullptr: none.
const MappedVlan* Rewriter::Index::vlan_of_all(const HeaderStack& stack) const {
  const auto layers = stack.layers();
  if (map.vlans.empty() || layers.empty() || layers[0].header != &info<Ethernet>) return nullptr;
  std::uint16_t now = MappedVlan::untagged;
  if (layers.size() > 1 && layers[1].header == &info<Vlan>)
    now = View<Vlan>(stack.bytes.data() + layers[1].offset).get<"id">();
  for (const MappedVlan& change : map.vlans)
    if (change.id.of(now)) return &change;
  return nullptr;
}

Rewritten Rewriter::Index::rewrite(const HeaderStack& stack, MutableBytes buffer, std::uint64_t number,
                                   std::span<const tracking::Pdu> pdus) const {
  Rewritten result;
  const std::size_t bytes = stack.bytes.size();
  std::memcpy(buffer.data(), stack.bytes.data(), bytes);
  const MutableBytes frame = buffer.first(bytes);
  result.frame = frame;
  Patch patch(frame);

  const auto ports = tracking::ports_of(stack);
  const Layer* bth = stack.find(info<Bth>);
  const auto found = place(stack, number);
  const MappedConnection* c = nullptr;
  bool known = map.empty(), stream_changed = false;
  if (found) {
    c = &map.connections[found->connection];
    result.connection = found->connection;
    result.from = found->from;
  }
  const bool managed = bth && patch.get<Bth, "dest_qp">(*bth) <= 1, unmapped = c && c->unmapped;
  if (unmapped) {
    known = false;
  } else if (c && !managed) {
    known = true;
    const MappedEnd &sender = c->at(found->from), &receiver = c->at(other(found->from));
    if (const char* why =
            rewrite_link_and_network(patch, stack, {sender.address, sender.mac}, {receiver.address, receiver.mac})) {
      result.outcome = Rewritten::Outcome::refused;
      result.why = why;
      return result;
    }
    if (bth) {
      const Opcode& op = opcode(patch.get<Bth, "opcode">(*bth));
      if (const Layer* udp = stack.find(info<Udp>)) patch.map<Udp, "src_port">(*udp, sender.source_port);
      patch.map<Bth, "pkey">(*bth, c->pkey);
      patch.map<Bth, "dest_qp">(*bth, receiver.qp);
      if (op.operation != Operation::congestion_notification)
        patch.move<Bth, "psn">(*bth, op.direction == Direction::response ? receiver.psn : sender.psn);
      for (const Layer& layer : stack.layers())
        if (layer.offset > bth->offset) map_extension(patch, layer, *c, found->from);
    } else if (const Layer* tcp = stack.find(info<Tcp>)) {
      patch.map<Tcp, "src_port">(*tcp, Mapped<std::uint32_t>(sender.qp));
      patch.map<Tcp, "dst_port">(*tcp, Mapped<std::uint32_t>(receiver.qp));
      patch.move<Tcp, "seq">(*tcp, sender.psn);
      if (patch.get<Tcp, "ack">(*tcp)) patch.move<Tcp, "ack_number">(*tcp, receiver.psn);
      for (const tracking::Pdu& pdu : pdus) {
        if (pdu.reassembled || pdu.stack.bytes.data() < stack.bytes.data() ||
            pdu.stack.bytes.data() + pdu.stack.bytes.size() > stack.bytes.data() + bytes)
          continue;
        // Offsets of the layers are relative to the PDU.
        const auto at = static_cast<std::size_t>(pdu.stack.bytes.data() - stack.bytes.data());
        Patch unit(frame.subspan(at, pdu.stack.bytes.size()));
        for (const Layer& layer : pdu.stack.layers()) map_ddp(unit, layer, *c, found->from);
        if (pdu.stack.mpa_crc.length == 4 && pdu.crc.status != CrcCheck::Status::absent) {
          HeaderStack after = pdu.stack;
          after.bytes = unit.frame();
          const CrcCheck then = check_mpa_crc(after);
          std::uint8_t* const crc = unit.frame().data() + pdu.stack.mpa_crc.offset;
          std::uint32_t value = pdu.crc.value;
          if (options.crc == CrcPolicy::recompute) value = then.computed;
          if (options.crc == CrcPolicy::follow) value ^= pdu.crc.computed ^ then.computed;
          store_be(crc, 4, value ^ options.icrc_mask);
        }
        stream_changed = true;
      }
    }
  } else if (ports && (managed || !bth || map.connections.empty())) {
    const auto from = host(ports->from), to = host(ports->to);
    known |= (from && mapped(ports->from)) || (to && mapped(ports->to));
    if (const char* why =
            rewrite_link_and_network(patch, stack, from.value_or(MappedHost{}), to.value_or(MappedHost{}))) {
      result.outcome = Rewritten::Outcome::refused;
      result.why = why;
      return result;
    }
    if (managed) rewrite_management(patch, stack, found);
    if (stack.find(info<Icmpv6>)) known |= rewrite_neighbors(patch, stack, from.value_or(MappedHost{}));
  } else if (stack.find(info<ArpEthernet>)) {
    known |= rewrite_arp(patch, stack);
  }

  known |= rewrite_ports(patch, stack) && !unmapped;
  known |= rewrite_one_way(patch, stack) && !unmapped;
  const MappedVlan* vlan = vlan_of_all(stack);
  known |= vlan && !unmapped && (!bth || map.connections.empty());

  if (!known) {
    const Unmapped choice = bth || unmapped ? options.unmapped : options.others;
    if (choice != Unmapped::keep) {
      result.outcome = choice == Unmapped::drop ? Rewritten::Outcome::dropped : Rewritten::Outcome::refused;
      result.why = bth || unmapped ? "the connection has no mapping" : "the hosts have no mapping";
      return result;
    }
    result.outcome = Rewritten::Outcome::kept;
  }
  rewrite_options(patch, stack);
  finish(patch, stack, stream_changed);
  if (c && c->vlan.id.live) vlan = &c->vlan;
  if (vlan) retag(result, stack, buffer, *vlan);
  if (stack.wire != Wire::infiniband) rewrite_tag(result.frame, buffer);
  return result;
}

Rewriter::Rewriter(FlowMap map, const Options& options) : index_(std::make_unique<Index>(std::move(map), options)) {}
Rewriter::Rewriter(Rewriter&&) noexcept = default;
Rewriter& Rewriter::operator=(Rewriter&&) noexcept = default;
Rewriter::~Rewriter() = default;

Rewritten Rewriter::rewrite(const HeaderStack& stack, MutableBytes buffer, std::uint64_t number) const {
  return index_->rewrite(stack, buffer, number, {});
}
Rewritten Rewriter::rewrite(const tracking::Packet& packet, MutableBytes buffer) const {
  return index_->rewrite(packet.stack, buffer, packet.number, packet.pdus);
}

void Rewriter::rewrite_ulpdu(MutableBytes ulpdu, std::uint32_t connection, Side from) const {
  HeaderStack stack;
  decode_ulpdu(stack, ulpdu, static_cast<std::uint32_t>(ulpdu.size()));
  Patch patch(ulpdu);
  for (const Layer& layer : stack.layers()) map_ddp(patch, layer, index_->map.connections[connection], from);
}

std::optional<Rewriter::Place> Rewriter::find(const HeaderStack& stack, std::uint64_t number) const {
  return index_->place(stack, number);
}
const FlowMap& Rewriter::map() const { return index_->map; }
FlowMap& Rewriter::map() { return index_->map; }
const RewriteOptions& Rewriter::options() const { return index_->options; }

}  // namespace rdmawire::replay
