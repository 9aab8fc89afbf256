#pragma once
/// iSER, which is iSCSI over RDMA: RFC 7145. Over InfiniBand: IBTA vol 1, annex A12. iSCSI's own header: RFC 7143.

#include "dissectors/protocol/header.hpp"

namespace rdmawire {

namespace iser_opcode {
inline constexpr std::uint8_t control = 1, hello = 2, hello_reply = 3;
}
inline constexpr Name iser_opcode_entries[] = {
    {iser_opcode::control, "iSCSI control-type PDU", "an iSCSI PDU follows"},
    {iser_opcode::hello, "Hello", "the initiator's iSER parameters"},
    {iser_opcode::hello_reply, "HelloReply", "the target's"},
};
inline constexpr Names iser_opcode_names{"iSER opcode", iser_opcode_entries, "RFC 7145, 9.1"};

/// The iSER header of an iSCSI control-type PDU.
struct Iser {
  static constexpr std::string_view name = "iser", title = "iSER", section = "RFC 7145, 9.2";
  static constexpr std::size_t size = 28;
  static constexpr std::array fields{
      field("opcode", 0, 4, "message type").of(iser_opcode_names).alias("iser.flags.opcode"),
      field("write_stag_valid", 4, 1, "the write STag and base offset are advertised").alias("iser.flags.wsv"),
      field("read_stag_valid", 5, 1, "the read STag and base offset are advertised").alias("iser.flags.rsv"),
      reserved("reserved", 6, 26),
      field("write_stag", 32, 32, "STag or R_Key of the memory that the target reads").hex().alias("iser.write_stag"),
      field("write_offset", 64, 64, "base offset of the write STag").hex().alias("iser.write_base_offset"),
      field("read_stag", 128, 32, "STag or R_Key of the memory that the target writes").hex().alias("iser.read_stag"),
      field("read_offset", 160, 64, "base offset of the read STag").hex().alias("iser.read_base_offset"),
  };
};

/// The iSER Hello and HelloReply messages.
struct IserHello {
  static constexpr std::string_view name = "iser_hello", title = "iSER Hello or HelloReply",
                                    section = "RFC 7145, 9.3 and 9.4";
  static constexpr std::size_t size = 28;
  static constexpr std::array fields{
      field("opcode", 0, 4, "2 Hello, 3 HelloReply").of(iser_opcode_names).alias("iser.flags.opcode"),
      reserved("reserved", 4, 3),
      field("reject", 7, 1, "HelloReply: the target rejects the connection").alias("iser.flags.rej"),
      field("max_version", 8, 4, "highest supported iSER version"),
      field("version", 12, 4, "Hello: lowest supported version (HelloReply: the chosen version)"),
      field("depth", 16, 16,
            "Hello: RDMA READs the initiator can process simultaneously (HelloReply: RDMA READs the target can "
            "have outstanding)"),
      field("reserved2", 32, 192, "reserved").as(Display::reserved),
  };
};

inline constexpr Name iscsi_opcode_entries[] = {
    {0x00, "NOP-Out", ""},
    {0x01, "SCSI Command", ""},
    {0x02, "Task Management Request", ""},
    {0x03, "Login Request", ""},
    {0x04, "Text Request", ""},
    {0x05, "SCSI Data-Out", ""},
    {0x06, "Logout Request", ""},
    {0x10, "SNACK Request", ""},
    {0x20, "NOP-In", ""},
    {0x21, "SCSI Response", ""},
    {0x22, "Task Management Response", ""},
    {0x23, "Login Response", ""},
    {0x24, "Text Response", ""},
    {0x25, "SCSI Data-In", ""},
    {0x26, "Logout Response", ""},
    {0x31, "Ready To Transfer", ""},
    {0x32, "Asynchronous Message", ""},
    {0x3f, "Reject", ""},
};
inline constexpr Names iscsi_opcode_names{"iSCSI opcode", iscsi_opcode_entries, "RFC 7143, 11.2.1.2"};

/// iSCSI's basic header segment: the fields shared by all PDUs.
struct Iscsi {
  static constexpr std::string_view name = "iscsi", title = "iSCSI basic header segment", section = "RFC 7143, 11.2.1";
  static constexpr std::size_t size = 48;
  static constexpr std::array fields{
      reserved("reserved", 0, 1),
      field("immediate", 1, 1, "immediate delivery, before queued commands").alias("iscsi.I"),
      field("opcode", 2, 6, "type of the PDU").hex().of(iscsi_opcode_names).alias("iscsi.opcode"),
      field("final", 8, 1, "the last PDU of a sequence"),
      field("specific", 9, 23, "meaning depends on the opcode").hex(),
      field("ahs_length", 32, 8, "length of the additional header segments, in units of 4 bytes")
          .alias("iscsi.totalahslength"),
      field("data_length", 40, 24, "length of the data segment in bytes").alias("iscsi.datasegmentlength"),
      field("lun", 64, 64, "logical unit number, or an opcode-specific field").hex(),
      field("task_tag", 128, 32, "initiator task tag").hex().alias("iscsi.initiatortasktag"),
      field("specific2", 160, 224, "meaning depends on the opcode").as(Display::bytes),
  };
};

/// Private data of both directions during connection establishment over InfiniBand.
struct IserCm {
  static constexpr std::string_view name = "iser_cm", title = "iSER private data", section = "IBTA vol 1, annex A12";
  static constexpr std::size_t size = 4;
  static constexpr std::array fields{
      field("no_zbva", 0, 1, "the sender does not support zero-based virtual addresses"),
      field("no_send_with_invalidate", 1, 1, "the sender does not support SEND with Invalidate"),
      reserved("reserved", 2, 30),
  };
};

}  // namespace rdmawire
