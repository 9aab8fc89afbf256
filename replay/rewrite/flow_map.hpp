#pragma once
/// What takes the place of what: connections as a capture has them, and the live values that frames are to carry
/// instead. A plain value: learnt, read from a file, or filled by a program.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dissectors/protocol/modular.hpp"
#include "dissectors/tracking/connection.hpp"

namespace rdmawire::replay {

using tracking::PortAddress;
using tracking::Side;

/// An IPv4 address, which stands in a PortAddress mapped into IPv6. RFC 4291, 2.5.5.2.
constexpr bool is_ipv4(const PortAddress& address) { return address.high == 0 && address.low >> 32 == 0xffff; }

/// For tables by address, or by flow.
struct HashFlow {
  std::size_t operator()(const tracking::FlowKey& key) const { return key.hash(); }
  std::size_t operator()(const PortAddress& address) const { return tracking::FlowKey{address, {}, 0}.hash(); }
};

/// A value in the capture, and what stands in its place.
template <class T>
struct Mapped {
  std::optional<T> captured{};  ///< nothing: whatever stands there
  std::optional<T> live{};      ///< nothing: not known, and what stands there stays

  /// What replaces `value`; nothing: it stays.
  [[nodiscard]] std::optional<T> of(const T& value) const {
    return captured && !(*captured == value) ? std::nullopt : live;
  }
  friend bool operator==(const Mapped&, const Mapped&) = default;
};

/// Where two sequences of numbers begin: numbers of the one become those of the other, modulo 2^bits. Live needs
/// captured: a number is only ever moved by their difference.
struct MappedSequence {
  std::optional<std::uint32_t> captured{}, live{};

  [[nodiscard]] bool moves() const { return captured && live && *captured != *live; }
  /// What is added; modulo 2^32, so modulo any smaller power of two as well.
  [[nodiscard]] std::uint32_t offset() const { return captured && live ? *live - *captured : 0; }
  friend bool operator==(const MappedSequence&, const MappedSequence&) = default;
};

/// Memory of one end that the other reaches: R_Key and virtual address, or STag and tagged offset.
struct MappedRegion {
  Mapped<std::uint32_t> key;
  Mapped<std::uint64_t> base;
  std::uint64_t length = 0;  ///< bytes from the base; 0: not known, all addresses under this key belong to it

  [[nodiscard]] bool holds(std::uint64_t address) const {
    return length == 0 || !base.captured || address - *base.captured < length;
  }
  friend bool operator==(const MappedRegion&, const MappedRegion&) = default;
};

/// One end of a connection. What it sends has its values as the source's, what it receives as the destination's.
struct MappedEnd {
  Mapped<PortAddress> address;  ///< IPv4 (mapped into IPv6), IPv6, GID, LID; live is of the same kind as captured
  Mapped<std::uint64_t> mac;    ///< 48 bits
  Mapped<std::uint32_t> qp;     ///< queue pair number; iWARP: TCP port
  /// The first PSN of the requests that this end sends; answers to them move along. iWARP: its initial TCP sequence
  /// number, modulo 2^32.
  MappedSequence psn;
  MappedSequence msn;                 ///< the first MSN in the AETHs that this end sends
  Mapped<std::uint32_t> qkey;         ///< of its queue pair: what reaches it carries it (UD)
  Mapped<std::uint32_t> xrc_srq;      ///< its shared receive queue (XRC)
  Mapped<std::uint16_t> source_port;  ///< UDP source port of what it sends
  Mapped<std::uint32_t> comm_id;      ///< its name for the communication in the CM's messages
  std::vector<MappedRegion> regions;  ///< its memory

  friend bool operator==(const MappedEnd&, const MappedEnd&) = default;
};

/// What is done about the VLAN tag.
struct MappedVlan {
  static constexpr std::uint16_t untagged = 0x1000;  ///< no VLAN has this number
  /// Live `untagged`: the outermost tag is taken away. Live a VLAN: its tag is changed or, where there is none and
  /// captured allows it, put in.
  Mapped<std::uint16_t> id;
  friend bool operator==(const MappedVlan&, const MappedVlan&) = default;
};

/// Two queue pairs that talk to each other, a pair of UD, or a TCP connection of iWARP.
struct MappedConnection {
  std::string name;  ///< for people: "connection 1"
  tracking::Service service = tracking::Service::rc;
  std::array<MappedEnd, 2> ends;  ///< by tracking::End; a sent first, or asked for the connection
  MappedVlan vlan;
  Mapped<std::uint16_t> pkey;
  Mapped<std::uint32_t> mtu;  ///< path MTU, bytes of payload; where the two differ, messages are cut anew
  /// Its first and its last frame in the capture; 0: not known. Of connections that had the same captured queue pair
  /// numbers one after the other, the one that began last before a frame is meant.
  std::uint64_t first_frame = 0, last_frame = 0;

  [[nodiscard]] const MappedEnd& at(Side end) const { return ends[static_cast<std::size_t>(end)]; }
  [[nodiscard]] MappedEnd& at(Side end) { return ends[static_cast<std::size_t>(end)]; }
  friend bool operator==(const MappedConnection&, const MappedConnection&) = default;
};

/// A host by itself: for what is in no connection (ARP, ping, the CM's own addresses). The ends of connections count as
/// hosts, too, those named here come first.
struct MappedHost {
  Mapped<PortAddress> address;
  Mapped<std::uint64_t> mac;
  friend bool operator==(const MappedHost&, const MappedHost&) = default;
};

struct FlowMap {
  std::vector<MappedConnection> connections;
  std::vector<MappedHost> hosts;

  [[nodiscard]] bool empty() const { return connections.empty() && hosts.empty(); }
  friend bool operator==(const FlowMap&, const FlowMap&) = default;
};

}  // namespace rdmawire::replay
