#pragma once
/// Headers and opcodes of MRC, Multipath Reliable Connection: RoCEv2 with opcodes of the manufacturer range.
///
/// The specification is OCP MRC 1.0, but its text was not available for these tables. They contain what public
/// implementations and descriptions of MRC show. The section of each header and field states its certainty.
/// docs/reference/mrc.md lists the sources.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "dissectors/protocol/cursor.hpp"
#include "dissectors/protocol/header.hpp"
#include "dissectors/protocol/infiniband.hpp"

namespace rdmawire {

/// Certainty of a header or field, used as its section.
namespace mrc {
/// Two or more independent sources agree.
inline constexpr std::string_view agreed = "OCP MRC 1.0 (two sources agree)";
inline constexpr std::string_view one_source = "OCP MRC 1.0 (unverified: one source)";
inline constexpr std::string_view conflicting = "OCP MRC 1.0 (unverified: the sources differ)";
/// QP number for endpoint requests and endpoint responses.
inline constexpr std::uint32_t endpoint_qp = 2;
/// Port 4791 of RoCEv2 with two digits exchanged. Two public implementations use it.
inline constexpr std::uint16_t transposed_port = 4971;
}  // namespace mrc

enum class MrcOperation : std::uint8_t {
  rdma_write,
  acknowledge,
  endpoint_request,
  endpoint_response,
  sack,
  nack,
  probe,
};
std::string_view to_string(MrcOperation operation);

struct MrcOpcode {
  std::uint8_t value = 0;
  bool known = false;
  MrcOperation operation = MrcOperation::rdma_write;
  Position position = Position::only;
  Direction direction = Direction::request;
  bool payload = false;    ///< the packet can contain payload. Only these packets can have a TSETH
  bool immediate = false;  ///< an ImmDt follows
  std::uint8_t header_count = 0;
  std::uint8_t header_bytes = 0;               ///< total size of the extension headers, without the TSETH
  std::array<const HeaderInfo*, 3> headers{};  ///< extension headers in order, without the TSETH
  std::string_view name;                       ///< "MRC RDMA WRITE First"
};

/// The rows of all opcodes, by value. `known` is false if MRC does not define the opcode.
extern const std::array<MrcOpcode, 256> mrc_opcodes;
inline const MrcOpcode& mrc_opcode(std::uint8_t value) { return mrc_opcodes[value]; }
/// Names of the known opcodes, in ascending order of value.
extern const Names mrc_opcode_names;

inline constexpr Name nack_reason_entries[] = {
    {0x01, "trimmed", "a switch removed the payload because of congestion"},
    {0x02, "trimmed at the last hop", "the last switch removed the payload: the receiver's link is congested"},
    {0x06, "no bitmap", "the responder has no resources to track the PSN"},
    {0x07, "no packet buffer", "the responder has no buffer for the packet"},
    {0x0a, "no resource", "the responder lacks another resource"},
    {0x0b, "PSN out of window", "the PSN is outside the responder's window"},
    {0x19, "unexpected event", "an error at the responder: the connection fails"},
};
inline constexpr Names nack_reason_names{"MRC NACK reason", nack_reason_entries, mrc::agreed};
namespace nack_reason {
inline constexpr std::uint8_t trimmed = 0x01, trimmed_last_hop = 0x02, no_bitmap = 0x06, no_packet_buffer = 0x07,
                              no_resource = 0x0a, psn_out_of_window = 0x0b, unexpected_event = 0x19;
}

inline constexpr Name path_mark_entries[] = {
    {0, "none", "the path is good"},
    {1, "skip once", "a switch marked the packet: the path is congested"},
    {2, "always skip", "the responder considers the path bad"},
};
inline constexpr Names path_mark_names{"MRC path state", path_mark_entries, mrc::agreed};

inline constexpr Name endpoint_operation_entries[] = {
    {0, "port status update", "reports which ports of the sender work"},
    {1, "EV probe", "tests the path that an entropy value selects"},
};
inline constexpr Names endpoint_operation_names{"MRC endpoint operation", endpoint_operation_entries, mrc::agreed};

/// Base Transport Header of MRC: that of IBTA, with flags in the reserved bits of byte 8.
struct MrcBth {
  static constexpr std::string_view name = "mrc", title = "Base Transport Header of MRC", section = mrc::agreed;
  static constexpr std::string_view kind = "opcode";
  static constexpr std::size_t size = 12;
  static constexpr std::array fields{
      field("opcode", 0, 8, "operation, and position in its message")
          .of(mrc_opcode_names)
          .alias("infiniband.bth.opcode"),
      // The order of IBTA. Public implementations of MRC write M before SE.
      field("se", 8, 1, "solicited event, at its position in IBTA's BTH")
          .in(mrc::conflicting)
          .alias("infiniband.bth.se"),
      field("migreq", 9, 1, "path migration state, at its position in IBTA's BTH")
          .in(mrc::conflicting)
          .alias("infiniband.bth.m"),
      field("pad", 10, 2, "bytes of padding after the payload").alias("infiniband.bth.padcnt").computed(),
      field("tver", 12, 4, "transport header version: 0").alias("infiniband.bth.tver"),
      field("pkey", 16, 16, "partition key").hex().alias("infiniband.bth.p_key"),
      field("variant", 32, 8, "bits that the ICRC does not cover").hex().in(mrc::agreed),
      field("dest_qp", 40, 24, "destination queue pair (2: the endpoint itself)").hex().alias("infiniband.bth.destqp"),
      field("ack_request", 64, 1, "A: the sender requests an acknowledgement").alias("infiniband.bth.a"),
      field("r", 65, 1, "R: two sources place it here, but no source explains it").in(mrc::conflicting),
      field("rtx", 66, 1, "RTX: the packet is a retransmission").in(mrc::conflicting),
      field("ts", 67, 1, "TS: a TSETH follows the METH").computed(),
      reserved("reserved", 68, 4),
      field("psn", 72, 24, "packet sequence number, modulo 2^24. Endpoint operations: identifier of the request")
          .alias("infiniband.bth.psn"),
  };
  static void fill(FrameLayout& frame, std::size_t index);
  /// True if the BTH at the cursor and the bytes after it have the form of an MRC packet. The lengths must match too,
  /// because other manufacturers can use the same opcodes. Requires that the bytes of the BTH are available.
  static bool recognizes(const Cursor& c);
};

/// True for a header that starts an InfiniBand transport packet (which ends with an ICRC).
inline bool is_base_transport(const HeaderInfo& header) { return &header == &info<Bth> || &header == &info<MrcBth>; }

/// The extension headers of a packet in order, including the TSETH.
struct MrcExtensions {
  std::array<const HeaderInfo*, 4> headers{};
  std::uint8_t count = 0;
  [[nodiscard]] std::span<const HeaderInfo* const> list() const { return {headers.data(), count}; }
};
MrcExtensions extensions_of(View<MrcBth> bth);

/// Message Extended Transport Header.
struct Meth {
  static constexpr std::string_view name = "meth", title = "Message ETH", section = mrc::agreed;
  static constexpr std::size_t size = 4;
  static constexpr std::array fields{
      field("rqmsn", 0, 16, "receive queue message sequence number: counts the WRITEs with Immediate"),
      field("msn", 16, 16, "message sequence number: counts the messages of the requester"),
  };
};

/// Requester Timestamp Extended Transport Header.
struct Tseth {
  static constexpr std::string_view name = "tseth", title = "Requester Timestamp ETH", section = mrc::agreed;
  static constexpr std::size_t size = 4;
  static constexpr std::array fields{
      field("timestamp", 0, 16, "time of transmission, which the SACK returns"),
      field("tsr", 16, 1, "the unit of the timestamp is implementation-defined"),
      reserved("reserved", 17, 11),
      field("format", 28, 4, "format of this header: 1"),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

/// Header of a selective acknowledgement (SACK). The congestion state follows.
struct Seth {
  static constexpr std::string_view name = "seth", title = "Selective Acknowledgement ETH", section = mrc::agreed;
  static constexpr std::size_t size = 28;
  static constexpr std::array fields{
      reserved("type", 0, 4),
      reserved("next_header", 4, 5),
      field("path_state", 9, 2, "M: state of the path with this entropy value").of(path_mark_names),
      reserved("reserved", 11, 3),
      field("probe_response", 14, 1, "PR: the SACK is the response to a reliability probe"),
      reserved("reserved2", 15, 1),
      field("ack_psn_offset", 16, 16,
            "acknowledged PSN minus cack_psn, signed (probe response: identifier of the probe)"),
      field("entropy", 32, 32,
            "entropy value of the packet that caused this SACK (sources disagree about the order of its halves)")
          .hex()
          .in(mrc::conflicting),
      field("spdcid", 64, 16, "low 16 bits of the QP number of one side (sources do not confirm which)")
          .hex()
          .in(mrc::conflicting),
      field("dpdcid", 80, 16, "low 16 bits of the QP number of the other side").hex().in(mrc::conflicting),
      reserved("reserved3", 96, 8),
      field("cack_psn", 104, 24, "cumulative acknowledgement: all packets up to this PSN were received"),
      field("cc_type", 128, 4, "type of the congestion state"),
      field("cc_flags", 132, 4, "flags of the congestion state").hex(),
      field("mpr", 136, 8, "maximum PSN range: size of the responder's window in units of 128 packets"),
      field("sack_offset", 144, 16, "PSN of the bitmap's lowest bit minus cack_psn, signed"),
      field("bitmap", 160, 64, "bits: received packets (lowest bit: lowest PSN)").hex(),
  };
};

/// Congestion state, which follows a SETH.
struct CcState {
  static constexpr std::string_view name = "ccstate", title = "Congestion State", section = mrc::agreed;
  static constexpr std::size_t size = 8;
  static constexpr std::array fields{
      field("timestamp", 0, 16, "timestamp of the packet that caused the SACK"),
      reserved("reserved", 16, 1),
      field("ooo_count", 17, 15, "number of packets that were received out of order"),
      field("restore_cwnd", 32, 1, "the requester restores its congestion window"),
      field("cwnd_penalty", 33, 7, "reduction of the congestion window that the responder requests, 0 to 127"),
      field("received", 40, 24, "bytes received, in units of 256 bytes, modulo 2^24"),
  };
};

/// Header of a negative acknowledgement (NACK).
struct Neth {
  static constexpr std::string_view name = "neth", title = "Negative Acknowledgement ETH", section = mrc::agreed;
  static constexpr std::size_t size = 20;
  static constexpr std::array fields{
      reserved("type", 0, 4),
      reserved("next_header", 4, 5),
      reserved("reserved", 9, 7),
      field("reason", 16, 8, "why the packet was rejected").hex().of(nack_reason_names),
      field("vendor_info", 24, 8, "defined by the manufacturer").hex(),
      field("entropy", 32, 32, "entropy value of the rejected packet (sources disagree about the order of its halves)")
          .hex()
          .in(mrc::conflicting),
      field("spdcid", 64, 16, "low 16 bits of the QP number of one side (sources do not confirm which)")
          .hex()
          .in(mrc::conflicting),
      field("dpdcid", 80, 16, "low 16 bits of the QP number of the other side").hex().in(mrc::conflicting),
      reserved("reserved2", 96, 8),
      field("nack_psn", 104, 24, "PSN of the rejected packet"),
      field("cc_type", 128, 4, "type of the congestion state: 2"),
      field("cc_flags", 132, 4, "flags of the congestion state").hex(),
      reserved("reserved3", 136, 8),
      field("timestamp", 144, 16, "timestamp of the rejected packet"),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

/// Header of a reliability probe request.
struct Peth {
  static constexpr std::string_view name = "peth", title = "Reliability Probe ETH", section = mrc::agreed;
  static constexpr std::size_t size = 16;
  static constexpr std::array fields{
      reserved("type", 0, 4),
      reserved("next_header", 4, 5),
      reserved("reserved", 9, 7),
      reserved("reserved2", 16, 8),
      field("vendor_info", 24, 8, "defined by the manufacturer").hex(),
      field("probe_id", 32, 16, "identifier, which the SACK returns in ack_psn_offset"),
      reserved("reserved3", 48, 16),
      field("spdcid", 64, 16, "low 16 bits of the sender's QP number").hex(),
      field("dpdcid", 80, 16, "low 16 bits of the receiver's QP number").hex(),
      field("timestamp", 96, 16, "time of transmission"),
      field("tsr", 112, 1, "the unit of the timestamp is implementation-defined"),
      reserved("reserved4", 113, 11),
      field("format", 124, 4, "format of the timestamp: 1"),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

/// Endpoint request header.
struct Erth {
  static constexpr std::string_view name = "erth", title = "Endpoint Request ETH", section = mrc::agreed;
  static constexpr std::size_t size = 16;
  static constexpr std::array fields{
      reserved("type", 0, 4),
      reserved("next_header", 4, 5),
      reserved("reserved", 9, 5),
      field("operation", 14, 2, "requested operation").of(endpoint_operation_names),
      reserved("reserved2", 16, 8),
      field("vendor_info", 24, 8, "defined by the manufacturer").hex(),
      field("port_status", 32, 32, "bits: one per port of the sender (1: the port works)").hex(),
      reserved("reserved3", 64, 32),
      field("timestamp", 96, 16, "time of transmission"),
      field("tsr", 112, 1, "the unit of the timestamp is implementation-defined"),
      reserved("reserved4", 113, 11),
      field("format", 124, 4, "format of the timestamp: 1"),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

/// Endpoint response header. Two sources disagree about the position of the operation.
struct Eeth {
  static constexpr std::string_view name = "eeth", title = "Endpoint Response ETH", section = mrc::agreed;
  static constexpr std::size_t size = 36;
  static constexpr std::array fields{
      reserved("type", 0, 4),
      reserved("next_header", 4, 5),
      field("operation_bits", 9, 7, "bits that contain the operation (two sources disagree about its position)")
          .hex()
          .in(mrc::conflicting),
      field("operation_bits.first", 10, 2, "operation according to one source")
          .of(endpoint_operation_names)
          .in(mrc::conflicting),
      field("operation_bits.second", 12, 2, "operation according to another source")
          .of(endpoint_operation_names)
          .in(mrc::conflicting),
      reserved("reserved", 16, 16),
      reserved("reserved2", 32, 64),
      reserved("reserved3", 96, 64),
      reserved("reserved4", 160, 64),
      field("timestamp", 224, 16, "timestamp of the request"),
      reserved("reserved5", 240, 16),
      reserved("reserved6", 256, 32),
  };
};

}  // namespace rdmawire
