#pragma once
/// Messages of RDMAP, the upper protocol of iWARP. RFC 5040, and RFC 7306 for atomic operations and immediate data.

#include "dissectors/protocol/header.hpp"

namespace rdmawire {

enum class RdmapOperation : std::uint8_t {
  rdma_write = 0,
  read_request = 1,
  read_response = 2,
  send = 3,
  send_invalidate = 4,
  send_se = 5,
  send_se_invalidate = 6,
  terminate = 7,
  immediate_data = 8,
  immediate_data_se = 9,
  atomic_request = 10,
  atomic_response = 11,
};

/// One row of the table of RDMAP opcodes. RFC 5040, figures 4 and 5, RFC 7306, figures 2 and 3.
struct RdmapOpcode {
  std::uint8_t value = 0;
  bool known = false;
  bool tagged = false;                 ///< the message uses the tagged buffer model
  std::uint8_t queue = 0;              ///< queue number of an untagged message
  bool payload = false;                ///< the message contains ULP payload
  bool solicited_event = false;        ///< the message generates an event at the receiver
  bool invalidate = false;             ///< the invalidate STag is valid
  const HeaderInfo* header = nullptr;  ///< the RDMAP header after the DDP header, or nullptr
  std::string_view name;               ///< "Send with Invalidate"
};
/// The rows of values 0 to 15. `known` is false if no RFC defines the value.
extern const std::array<RdmapOpcode, 16> rdmap_opcodes;
inline const RdmapOpcode& rdmap_opcode(std::uint8_t value) { return rdmap_opcodes[value & 15]; }
inline const RdmapOpcode& rdmap_opcode(RdmapOperation operation) {
  return rdmap_opcodes[static_cast<std::uint8_t>(operation)];
}
/// Names of the known opcodes, in ascending order of value.
extern const Names rdmap_opcode_names;

/// RDMAP's control byte, which follows that of DDP.
struct Rdmap {
  static constexpr std::string_view name = "rdmap", title = "RDMAP control", section = "RFC 5040, 4.1";
  static constexpr std::string_view kind = "opcode";
  static constexpr std::size_t size = 1;
  static constexpr std::array fields{
      field("rv", 0, 2, "RDMAP version: 1 (0: version of the RDMA Consortium)").alias("iwarp_rdma.version"),
      field("reserved", 2, 2, "sent as zero").as(Display::reserved).alias("iwarp_rdma.rsv"),
      field("opcode", 4, 4, "type of the message").of(rdmap_opcode_names).alias("iwarp_rdma.opcode"),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

struct RdmapReadRequest {
  static constexpr std::string_view name = "rdmap_read", title = "RDMA Read Request", section = "RFC 5040, 4.4";
  static constexpr std::size_t size = 28;
  static constexpr std::array fields{
      field("sink_stag", 0, 32, "steering tag of the data sink buffer").hex().alias("iwarp_rdma.sinkstag"),
      field("sink_to", 32, 64, "tagged offset in that buffer").hex().alias("iwarp_rdma.sinkto"),
      field("size", 96, 32, "bytes to read").alias("iwarp_rdma.rdmardsz"),
      field("src_stag", 128, 32, "steering tag of the data source buffer").hex().alias("iwarp_rdma.srcstag"),
      field("src_to", 160, 64, "tagged offset in that buffer").hex().alias("iwarp_rdma.srcto"),
  };
};

// Codes of a Terminate message: the layer, the error type of the layer, and the error code of the type.
namespace terminate_layer {
inline constexpr std::uint8_t rdma = 0, ddp = 1, llp = 2;
}
inline constexpr Name terminate_layer_entries[] = {
    {terminate_layer::rdma, "RDMA", "RDMAP detected the error"},
    {terminate_layer::ddp, "DDP", "DDP detected the error"},
    {terminate_layer::llp, "LLP", "the layer below DDP (MPA) detected the error"},
};
inline constexpr Names terminate_layer_names{"Terminate layer", terminate_layer_entries, "RFC 5040, 4.8, figure 9"};

inline constexpr Name terminate_rdma_type_entries[] = {
    {0, "Local Catastrophic Error", "the sender cannot continue due to an internal error (no error codes)"},
    {1, "Remote Protection Error", "invalid STag, range or access rights"},
    {2, "Remote Operation Error", "unacceptable message"},
};
inline constexpr Names terminate_rdma_type_names{"Terminate RDMA error type", terminate_rdma_type_entries,
                                                 "RFC 5040, 4.8, figure 9"};
inline constexpr Name terminate_ddp_type_entries[] = {
    {0, "Local Catastrophic", "DDP cannot continue due to an internal error"},
    {1, "Tagged Buffer Error", "a tagged segment cannot be placed"},
    {2, "Untagged Buffer Error", "an untagged segment cannot be placed"},
    {3, "reserved for the LLP", "defined by the lower layer"},
};
inline constexpr Names terminate_ddp_type_names{"Terminate DDP error type", terminate_ddp_type_entries,
                                                "RFC 5041, 7.2"};
inline constexpr Name terminate_llp_type_entries[] = {
    {0, "MPA Error", "an error of MPA"},
};
inline constexpr Names terminate_llp_type_names{"Terminate LLP error type", terminate_llp_type_entries, "RFC 6581, 8"};

inline constexpr Name terminate_protection_entries[] = {
    {0x00, "Invalid STag", "no buffer has this STag"},
    {0x01, "Base or bounds violation", "the bytes are outside of the buffer"},
    {0x02, "Access rights violation", "the buffer does not grant this operation"},
    {0x03, "STag not associated with RDMAP Stream", "the buffer belongs to other connections"},
    {0x04, "TO wrap", "offset and length exceed 64 bits"},
    {0x09, "STag cannot be Invalidated", "the STag of a Send with Invalidate is in use or cannot be invalidated"},
    {0xff, "Unspecified Error", "any other error"},
};
inline constexpr Names terminate_protection_names{"Terminate remote protection error", terminate_protection_entries,
                                                  "RFC 5040, 4.8, figure 9"};
inline constexpr Name terminate_operation_entries[] = {
    {0x05, "Invalid RDMAP version", "the version differs from the connection's"},
    {0x06, "Unexpected OpCode", "the opcode does not exist, or is not allowed on this queue"},
    {0x07, "Catastrophic error, localized to RDMAP Stream",
     "this connection has failed; also an atomic operation on an address that is not a multiple of 8"},
    {0x08, "Catastrophic error, global", "the device has failed"},
    {0x09, "STag cannot be Invalidated", "the STag of a Send with Invalidate is in use or cannot be invalidated"},
    {0xff, "Unspecified Error", "any other error"},
};
inline constexpr Names terminate_operation_names{"Terminate remote operation error", terminate_operation_entries,
                                                 "RFC 5040, 4.8, figure 9"};
inline constexpr Name terminate_ddp_local_entries[] = {
    {0x00, "Local Catastrophic", "DDP cannot continue due to an internal error"},
};
inline constexpr Names terminate_ddp_local_names{"Terminate DDP local error", terminate_ddp_local_entries,
                                                 "RFC 5041, 7.2"};
inline constexpr Name terminate_tagged_entries[] = {
    {0x00, "Invalid STag", "no buffer has this STag"},
    {0x01, "Base or bounds violation", "the bytes are outside of the buffer"},
    {0x02, "STag not associated with DDP Stream", "the buffer belongs to other connections"},
    {0x03, "TO wrap", "offset and length exceed 64 bits"},
    {0x04, "Invalid DDP version", "the version differs from the connection's"},
};
inline constexpr Names terminate_tagged_names{"Terminate DDP tagged buffer error", terminate_tagged_entries,
                                              "RFC 5041, 7.2"};
inline constexpr Name terminate_untagged_entries[] = {
    {0x01, "Invalid QN", "the queue does not exist"},
    {0x02, "Invalid MSN - no buffer available", "no buffer was posted for this message"},
    {0x03, "Invalid MSN - MSN range is not valid", "no message with this number is expected"},
    {0x04, "Invalid MO", "the offset is outside of the buffer"},
    {0x05, "DDP Message too long for available buffer", "the buffer is shorter than the message"},
    {0x06, "Invalid DDP version", "the version differs from the connection's"},
};
inline constexpr Names terminate_untagged_names{"Terminate DDP untagged buffer error", terminate_untagged_entries,
                                                "RFC 5041, 7.2"};
inline constexpr Name terminate_mpa_entries[] = {
    {0x01, "TCP connection closed, terminated, or lost", "TCP closed, reset or lost"},
    {0x02, "MPA CRC error", "the CRC of an FPDU is wrong"},
    {0x03, "MPA Marker and ULPDU Length mismatch", "a marker and the lengths disagree about the start of an FPDU"},
    {0x04, "Invalid MPA Request or Reply Frame", "the frame that establishes the connection is invalid"},
    {0x05, "Local catastrophic", "connection establishment failed due to an internal error"},
    {0x06, "Insufficient IRD resources", "the requested number of simultaneous RDMA Reads is not supported"},
    {0x07, "No matching RTR option", "the sides share no ready-to-receive indication"},
};
inline constexpr Names terminate_mpa_names{"Terminate MPA error", terminate_mpa_entries,
                                           "RFC 5044, 8 (1 to 4); RFC 6581, 8 (5 to 7)"};

/// The Terminate header. Its tail contains the quoted headers of the message that caused the error.
struct Terminate {
  static constexpr std::string_view name = "rdmap_terminate", title = "Terminate", section = "RFC 5040, 4.8";
  static constexpr std::size_t size = 4;
  static constexpr std::string_view tail = "terminated";
  template <unsigned Layer>
  static constexpr bool in_layer(const std::uint8_t* h) {
    return h[0] >> 4 == Layer;
  }
  template <unsigned Layer, unsigned Type>
  static constexpr bool of_type(const std::uint8_t* h) {
    return h[0] == (Layer << 4 | Type);
  }
  static constexpr std::array fields{
      field("layer", 0, 4, "layer that detected the error").of(terminate_layer_names).alias("iwarp_rdma.term_layer"),
      field("etype", 4, 4, "error type of that layer"),
      field("etype.rdma", 4, 4, "kind of RDMAP error")
          .of(terminate_rdma_type_names)
          .when(&in_layer<0>)
          .alias("iwarp_rdma.term_etype_rdma"),
      field("etype.ddp", 4, 4, "kind of DDP error")
          .of(terminate_ddp_type_names)
          .when(&in_layer<1>)
          .in("RFC 5041, 7.2")
          .alias("iwarp_rdma.term_etype_ddp"),
      field("etype.llp", 4, 4, "kind of MPA error")
          .of(terminate_llp_type_names)
          .when(&in_layer<2>)
          .in("RFC 6581, 8")
          .alias("iwarp_rdma.term_etype_llp"),
      field("error_code", 8, 8, "error code of that type").hex(),
      field("error_code.protection", 8, 8, "remote protection error")
          .hex()
          .of(terminate_protection_names)
          .when(&of_type<0, 1>)
          .alias("iwarp_rdma.term_errcode_rdma"),
      field("error_code.operation", 8, 8, "remote operation error")
          .hex()
          .of(terminate_operation_names)
          .when(&of_type<0, 2>)
          .alias("iwarp_rdma.term_errcode_rdma"),
      field("error_code.ddp_local", 8, 8, "local error of DDP")
          .hex()
          .of(terminate_ddp_local_names)
          .when(&of_type<1, 0>)
          .in("RFC 5041, 7.2"),
      field("error_code.ddp_tagged", 8, 8, "tagged buffer error")
          .hex()
          .of(terminate_tagged_names)
          .when(&of_type<1, 1>)
          .in("RFC 5041, 7.2")
          .alias("iwarp_rdma.term_errcode_ddp_tagged"),
      field("error_code.ddp_untagged", 8, 8, "untagged buffer error")
          .hex()
          .of(terminate_untagged_names)
          .when(&of_type<1, 2>)
          .in("RFC 5041, 7.2")
          .alias("iwarp_rdma.term_errcode_ddp_untagged"),
      field("error_code.mpa", 8, 8, "error of MPA")
          .hex()
          .of(terminate_mpa_names)
          .when(&of_type<2, 0>)
          .in("RFC 5044, 8; RFC 6581, 8")
          .alias("iwarp_rdma.term_errcode_llp"),
      field("segment_length_valid", 16, 1, "M: the DDP segment length is valid").alias("iwarp_rdma.term_hdrct_m"),
      field("ddp_header_included", 17, 1, "D: the DDP header of the terminated message follows")
          .alias("iwarp_rdma.hdrct_d"),
      field("rdma_header_included", 18, 1, "R: the RDMA Read Request header of the terminated message follows")
          .alias("iwarp_rdma.hdrct_r"),
      reserved("reserved", 19, 13),
  };
  /// The quoted headers: DdpSegmentLength; Ddp, Rdmap and DdpTagged or DdpUntagged; RdmapReadRequest.
  static Parts parts(Bytes header);
};

/// Length of the DDP segment that caused the error.
struct DdpSegmentLength {
  static constexpr std::string_view name = "rdmap_terminated_length", title = "terminated DDP segment length",
                                    section = "RFC 5040, 4.8";
  static constexpr std::size_t size = 2;
  static constexpr std::array fields{
      field("length", 0, 16, "bytes of the DDP segment that was terminated"),
  };
};

inline constexpr Name atomic_operation_entries[] = {
    {0, "FetchAdd", "adds to the fields into which the mask divides the 64 bits"},
    {1, "Swap", "reserved by the registry (10.1), but mentioned in 5.2.1"},
    {2, "CmpSwap", "swaps masked bits if the compared bits are equal"},
};
inline constexpr Names atomic_operation_names{"RDMAP atomic operation", atomic_operation_entries,
                                              "RFC 7306, 5.2.1 and 10.1"};

struct RdmapAtomicRequest {
  static constexpr std::string_view name = "rdmap_atomic", title = "Atomic Request", section = "RFC 7306, 5.2.1";
  static constexpr std::size_t size = 52;
  static constexpr std::array fields{
      field("reserved", 0, 28, "sent as zero").as(Display::reserved).alias("iwarp_rdma.atomic.reserved"),
      field("operation", 28, 4, "operation on the 64 bits")
          .of(atomic_operation_names)
          .alias("iwarp_rdma.atomic.opcode"),
      field("request_id", 32, 32, "copied to the response").alias("iwarp_rdma.atomic.request_identifier"),
      field("stag", 64, 32, "steering tag of the remote buffer").hex().alias("iwarp_rdma.atomic.remote_stag"),
      field("to", 96, 64, "tagged offset in that buffer, of an address that is a multiple of 8")
          .hex()
          .alias("iwarp_rdma.atomic.remote_tagged_offset"),
      field("add_swap_data", 160, 64, "value to add or swap").hex(),
      field("add_swap_mask", 224, 64, "FetchAdd: the top bit of each field is set (CmpSwap: bits to swap)").hex(),
      field("compare_data", 288, 64, "CmpSwap: value compared with memory")
          .hex()
          .alias("iwarp_rdma.atomic.compare_data"),
      field("compare_mask", 352, 64, "CmpSwap: bits to compare").hex().alias("iwarp_rdma.atomic.compare_mask"),
  };
};

/// The response has twelve bytes, according to figure 6 and appendix A.2. The text of section 4 specifies 32.
struct RdmapAtomicResponse {
  static constexpr std::string_view name = "rdmap_atomic_response", title = "Atomic Response",
                                    section = "RFC 7306, 5.2.2";
  static constexpr std::size_t size = 12;
  static constexpr std::array fields{
      field("request_id", 0, 32, "identifier of the request").alias("iwarp_rdma.atomic.original_request_identifier"),
      field("original", 32, 64, "value in memory before the operation")
          .hex()
          .alias("iwarp_rdma.atomic.original_remote_data_value"),
  };
};

struct RdmapImmediateData {
  static constexpr std::string_view name = "rdmap_immediate", title = "RDMAP Immediate Data", section = "RFC 7306, 6.2";
  static constexpr std::size_t size = 8;
  static constexpr std::array fields{
      field("data", 0, 64, "delivered to the receiver").hex(),
  };
};

}  // namespace rdmawire
