#pragma once
/// InfiniBand's link and network headers, and the transport headers that RoCEv1, RoCEv2 and native InfiniBand share.
/// IBTA Architecture Specification, volume 1.

#include "dissectors/protocol/cursor.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/header.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/opcode.hpp"
#include "dissectors/protocol/syndrome.hpp"

namespace rdmawire {

inline constexpr Name lnh_entries[] = {
    {0, "raw", "a raw packet: an RWH with an EtherType, then the payload"},
    {1, "IPv6 raw", "a raw packet: an IPv6 datagram"},
    {2, "BTH", "InfiniBand local: the BTH follows"},
    {3, "GRH", "InfiniBand global: a GRH follows"},
};
inline constexpr Names lnh_names{"LRH LNH", lnh_entries, "IBTA vol 1, 7.7 (clause number not verified)"};

/// Local Route Header.
struct Lrh {
  static constexpr std::string_view name = "lrh", title = "Local Route Header", section = "IBTA vol 1, 7.7";
  static constexpr std::size_t size = 8;
  static constexpr std::array fields{
      field("vl", 0, 4, "virtual lane (variant field)").alias("infiniband.lrh.vl"),
      field("lver", 4, 4, "link version: 0").alias("infiniband.lrh.lver"),
      field("sl", 8, 4, "service level").alias("infiniband.lrh.sl"),
      reserved("reserved", 12, 2).alias("infiniband.lrh.reserved2"),
      field("lnh", 14, 2, "next header").of(lnh_names).alias("infiniband.lrh.lnh").computed(),
      field("dlid", 16, 16, "destination LID").alias("infiniband.lrh.dlid"),
      reserved("reserved2", 32, 5).alias("infiniband.lrh.reserved5"),
      field("length", 37, 11, "length of the packet from the LRH through the ICRC, in units of 4 bytes")
          .alias("infiniband.lrh.pktlen")
          .computed(),
      field("slid", 48, 16, "source LID").alias("infiniband.lrh.slid"),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

/// Global Route Header: the network header of RoCEv1. Native InfiniBand uses it between subnets and for multicast.
struct Grh {
  static constexpr std::string_view name = "grh", title = "Global Route Header", section = "IBTA vol 1, 8.3";
  static constexpr std::size_t size = 40;
  static constexpr std::array fields{
      field("version", 0, 4, "6").alias("infiniband.grh.ipver"),
      field("traffic_class", 4, 8, "DSCP and ECN").hex().alias("infiniband.grh.tclass"),
      field("traffic_class.dscp", 4, 6, "differentiated services code point"),
      field("traffic_class.ecn", 10, 2, "explicit congestion notification").of(ecn_names),
      field("flow_label", 12, 20, "sender-defined flow identifier").hex().alias("infiniband.grh.flowlabel"),
      field("payload_length", 32, 16, "length of the packet after this header, through the ICRC, in bytes")
          .alias("infiniband.grh.paylen")
          .computed(),
      field("next_header", 48, 8, "27: a BTH follows").of(ip_protocol_names).alias("infiniband.grh.nxthdr").computed(),
      field("hop_limit", 56, 8, "hops left").alias("infiniband.grh.hoplmt"),
      field("sgid", 64, 128, "source GID").as(Display::ipv6).alias("infiniband.grh.sgid"),
      field("dgid", 192, 128, "destination GID").as(Display::ipv6).alias("infiniband.grh.dgid"),
  };
  static void fill(FrameLayout& frame, std::size_t index);
  static constexpr std::uint8_t next_is_bth = 0x1b;
};

/// Raw Header: encapsulates the payload of an EtherType.
struct Rwh {
  static constexpr std::string_view name = "rwh", title = "Raw Header",
                                    section = "IBTA vol 1, 5.3 (clause number not verified)";
  static constexpr std::size_t size = 4;
  static constexpr std::array fields{
      reserved("reserved", 0, 16),
      field("type", 16, 16, "EtherType of the payload")
          .hex()
          .of(ethertype_names)
          .alias("infiniband.rwh.etype")
          .computed(),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

/// Base Transport Header.
struct Bth {
  static constexpr std::string_view name = "bth", title = "Base Transport Header", section = "IBTA vol 1, 9.2";
  static constexpr std::string_view kind = "opcode";
  static constexpr std::size_t size = 12;
  static constexpr std::array fields{
      field("opcode", 0, 8, "operation, and position in its message").of(opcode_names).alias("infiniband.bth.opcode"),
      field("se", 8, 1, "solicited event: generated at the receiver when the message completes")
          .alias("infiniband.bth.se"),
      field("migreq", 9, 1, "path migration state (1: migrated)").alias("infiniband.bth.m"),
      field("pad", 10, 2, "bytes of padding after the payload").alias("infiniband.bth.padcnt").computed(),
      field("tver", 12, 4, "transport header version: 0").alias("infiniband.bth.tver"),
      field("pkey", 16, 16, "partition key").hex().alias("infiniband.bth.p_key"),
      field("pkey.full", 16, 1, "full member of the partition"),
      field("fecn", 32, 1, "forward congestion notification: a switch detected congestion"),
      field("becn", 33, 1, "backward congestion notification: the receiver saw FECN"),
      reserved("reserved", 34, 6),
      field("dest_qp", 40, 24, "destination queue pair").hex().alias("infiniband.bth.destqp"),
      field("ack_request", 64, 1, "the sender requests an acknowledgement").alias("infiniband.bth.a"),
      reserved("reserved2", 65, 7).alias("infiniband.bth.reserved7"),
      field("psn", 72, 24, "packet sequence number, modulo 2^24").alias("infiniband.bth.psn"),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

/// Reliable Datagram Extended Transport Header.
struct Rdeth {
  static constexpr std::string_view name = "rdeth", title = "Reliable Datagram ETH",
                                    section = "IBTA vol 1, 9.3.1 (clause number not verified)";
  static constexpr std::size_t size = 4;
  static constexpr std::array fields{
      reserved("reserved", 0, 8),
      field("ee_context", 8, 24, "end-to-end context").hex().alias("infiniband.rdeth.eecnxt"),
  };
};

/// Datagram Extended Transport Header.
struct Deth {
  static constexpr std::string_view name = "deth", title = "Datagram ETH", section = "IBTA vol 1, 9.3.2";
  static constexpr std::size_t size = 8;
  static constexpr std::array fields{
      field("qkey", 0, 32, "key that authorizes access to the receive queue").hex().alias("infiniband.deth.q_key"),
      reserved("reserved", 32, 8),
      field("src_qp", 40, 24, "source queue pair").hex().alias("infiniband.deth.srcqp"),
  };
};

/// XRC Extended Transport Header.
struct Xrceth {
  static constexpr std::string_view name = "xrceth", title = "XRC ETH", section = "IBTA vol 1, annex A14";
  static constexpr std::size_t size = 4;
  static constexpr std::array fields{
      reserved("reserved", 0, 8),
      field("xrcsrq", 8, 24, "shared receive queue of the target").hex(),
  };
};

/// RDMA Extended Transport Header.
struct Reth {
  static constexpr std::string_view name = "reth", title = "RDMA ETH", section = "IBTA vol 1, 9.3.3";
  static constexpr std::size_t size = 16;
  static constexpr std::array fields{
      field("va", 0, 64, "remote virtual address").hex().alias("infiniband.reth.va"),
      field("rkey", 64, 32, "remote key").hex().alias("infiniband.reth.r_key"),
      field("length", 96, 32, "length of the whole message in bytes").alias("infiniband.reth.dmalen"),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

/// Atomic Extended Transport Header.
struct AtomicEth {
  static constexpr std::string_view name = "atomiceth", title = "Atomic ETH",
                                    section = "IBTA vol 1, 9.3.4 (clause number not verified)";
  static constexpr std::size_t size = 28;
  static constexpr std::array fields{
      // Wireshark uses the name of the RETH's field for this field, too.
      field("va", 0, 64, "remote virtual address, a multiple of 8").hex().alias("infiniband.reth.va"),
      field("rkey", 64, 32, "remote key").hex().alias("infiniband.reth.r_key"),
      field("swap_add", 96, 64, "CmpSwap: value to write (FetchAdd: value to add)")
          .hex()
          .alias("infiniband.atomiceth.swapdt"),
      field("compare", 160, 64, "value that CmpSwap compares with memory").hex().alias("infiniband.atomiceth.cmpdt"),
  };
};

/// Acknowledge Extended Transport Header.
struct Aeth {
  static constexpr std::string_view name = "aeth", title = "ACK ETH", section = "IBTA vol 1, 9.3.5";
  static constexpr std::size_t size = 4;
  static constexpr Syndrome syndrome_of(const std::uint8_t* header) { return Syndrome(header[0]); }
  static constexpr std::array fields{
      field("syndrome", 0, 8, "ACK, RNR NAK or NAK, with its code").hex().alias("infiniband.aeth.syndrome"),
      reserved("syndrome.reserved", 0, 1).alias("infiniband.aeth.syndrome.reserved"),
      field("syndrome.kind", 1, 2, "kind of acknowledgement")
          .of(syndrome_kind_names)
          .alias("infiniband.aeth.syndrome.opcode"),
      field("syndrome.credit_count", 3, 5, "ACK: end-to-end credits, encoded (31: unused)")
          .when([](const std::uint8_t* h) { return syndrome_of(h).is_ack(); })
          .alias("infiniband.aeth.syndrome.credit_count"),
      field("syndrome.credits", 3, 5, "ACK: number of posted receive work requests")
          .in("IBTA vol 1, 9.7.7.2")
          .when([](const std::uint8_t* h) { return syndrome_of(h).has_credits(); })
          .means(&credits_of_code),
      field("syndrome.timer", 3, 5, "RNR NAK: timer code")
          .when([](const std::uint8_t* h) { return syndrome_of(h).is_rnr_nak(); })
          .alias("infiniband.aeth.syndrome.timer"),
      field("syndrome.wait", 3, 5, "RNR NAK: minimum time before the retry")
          .as(Display::time)
          .in("IBTA vol 1, 9.7.5.2.8")
          .when([](const std::uint8_t* h) { return syndrome_of(h).is_rnr_nak(); })
          .means(&rnr_timer_ns),
      field("syndrome.nak_code", 3, 5, "NAK: error code")
          .of(nak_code_names)
          .when([](const std::uint8_t* h) { return syndrome_of(h).is_nak(); })
          .alias("infiniband.aeth.syndrome.error_code"),
      field("msn", 8, 24, "message sequence number: number of messages that the responder has completed")
          .alias("infiniband.aeth.msn"),
  };
};

/// Atomic Acknowledge Extended Transport Header.
struct AtomicAckEth {
  static constexpr std::string_view name = "atomicacketh", title = "Atomic ACK ETH",
                                    section = "IBTA vol 1, 9.5.3 (clause number not verified)";
  static constexpr std::size_t size = 8;
  static constexpr std::array fields{
      field("original", 0, 64, "value in memory before the operation").hex().alias("infiniband.atomicacketh.origremdt"),
  };
};

struct ImmDt {
  static constexpr std::string_view name = "immdt", title = "Immediate Data",
                                    section = "IBTA vol 1, 9.3.6 (clause number not verified)";
  static constexpr std::size_t size = 4;
  static constexpr std::array fields{
      field("data", 0, 32, "value that the receiver's completion contains").hex().alias("infiniband.immdt"),
  };
};

/// Invalidate Extended Transport Header.
struct Ieth {
  static constexpr std::string_view name = "ieth", title = "Invalidate ETH",
                                    section = "IBTA vol 1, 9.3.7 (clause number not verified)";
  static constexpr std::size_t size = 4;
  static constexpr std::array fields{
      field("rkey", 0, 32, "remote key that the receiver invalidates").hex().alias("infiniband.ieth"),
  };
};

inline constexpr Name flush_selectivity_entries[] = {
    {0, "region range", "the range specified by the RETH"},
    {1, "memory region", "the whole memory region"},
};
inline constexpr Names flush_selectivity_names{"FLUSH selectivity", flush_selectivity_entries, "IBTA vol 1, A19.4.1"};

/// Flush Extended Transport Header.
struct Feth {
  static constexpr std::string_view name = "feth", title = "Flush ETH", section = "IBTA vol 1, A19.4.1";
  static constexpr std::size_t size = 4;
  static constexpr std::array fields{
      reserved("reserved", 0, 26),
      field("selectivity", 26, 2, "memory to flush").of(flush_selectivity_names),
      field("placement", 28, 4, "bits: required placement of the data").hex(),
      field("placement.persistent", 30, 1, "the data must be persistent"),
      field("placement.global", 31, 1, "the data must be globally visible"),
  };
};

/// A CNP has 16 reserved bytes after the BTH.
struct Cnp {
  static constexpr std::string_view name = "cnp", title = "CNP padding", section = "IBTA vol 1, A17.9.3";
  static constexpr std::size_t size = 16;
  static constexpr std::array fields{
      reserved("reserved", 0, 64),
      reserved("reserved2", 64, 64),
  };
};

/// Header of Mellanox's Dynamically Connected transport after the BTH, with opcodes of RD. The layout is not public, so
/// only the fields that captures show have names.
struct DcEth {
  static constexpr std::string_view name = "dceth", title = "DC header (vendor transport)",
                                    section = "not published; observed in captures of Mellanox devices";
  static constexpr std::size_t size = 20;
  static constexpr std::array fields{
      field("kind", 0, 8, "0x11 in requests, 0x10 in responses, as observed").hex(),
      field("src_qp", 8, 24, "the sender's queue pair, as observed").hex(),
      field("opaque", 32, 128, "not published").as(Display::bytes),
  };
  /// In RD, the first byte after the BTH is the reserved byte of the RDETH, which is zero. In DC, it is the kind of the
  /// header.
  static constexpr bool recognizes(const std::uint8_t* after_bth) { return (after_bth[0] & 0xfe) == 0x10; }
};

Step decode_lrh(Cursor& c);
Step decode_grh(Cursor& c);
/// Requires that `wire` is set, because it determines which lower layers the ICRC covers.
Step decode_bth(Cursor& c);

}  // namespace rdmawire
