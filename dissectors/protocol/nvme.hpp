#pragma once
/// NVMe over Fabrics, RDMA transport: capsules, and the private data of their connections. All numbers are little
/// endian. NVM Express Base Specification 2.0. NVMe over RDMA Transport Specification 1.0.
///
/// A command capsule contains a submission queue entry of 64 bytes, which is decoded as two headers. The first 40
/// bytes, up to the SGL descriptor, are common to all commands. The last 24 bytes (dwords 10 to 15) depend on the
/// opcode.

#include "dissectors/protocol/header.hpp"

namespace rdmawire {

namespace nvme {
inline constexpr std::uint8_t fabrics_opcode = 0x7f;
inline constexpr std::uint32_t command_bytes = 64;
inline constexpr std::uint8_t keyed_data_block = 4;  ///< SGL descriptor type

namespace fabrics_type {
inline constexpr std::uint8_t property_set = 0x00, connect = 0x01, property_get = 0x04, authentication_send = 0x05,
                              authentication_receive = 0x06, disconnect = 0x08;
}
namespace io_opcode {
inline constexpr std::uint8_t write = 0x01, read = 0x02, compare = 0x05, write_zeroes = 0x08, verify = 0x0c;
}
}  // namespace nvme

inline constexpr Name nvme_admin_opcode_entries[] = {
    {0x00, "Delete I/O Submission Queue", ""},
    {0x01, "Create I/O Submission Queue", ""},
    {0x02, "Get Log Page", ""},
    {0x04, "Delete I/O Completion Queue", ""},
    {0x05, "Create I/O Completion Queue", ""},
    {0x06, "Identify", "requests a data structure of the controller or a namespace"},
    {0x08, "Abort", ""},
    {0x09, "Set Features", ""},
    {0x0a, "Get Features", ""},
    {0x0c, "Asynchronous Event Request", "completes when an event occurs"},
    {0x0d, "Namespace Management", ""},
    {0x10, "Firmware Commit", ""},
    {0x11, "Firmware Image Download", ""},
    {0x14, "Device Self-test", ""},
    {0x15, "Namespace Attachment", ""},
    {0x18, "Keep Alive", "shows that the host is still active"},
    {0x19, "Directive Send", ""},
    {0x1a, "Directive Receive", ""},
    {0x1c, "Virtualization Management", ""},
    {0x1d, "NVMe-MI Send", ""},
    {0x1e, "NVMe-MI Receive", ""},
    {0x20, "Capacity Management", ""},
    {0x24, "Lockdown", ""},
    {0x7c, "Doorbell Buffer Config", ""},
    {0x7f, "Fabrics", "specified by the Fabrics command type"},
    {0x80, "Format NVM", ""},
    {0x81, "Security Send", ""},
    {0x82, "Security Receive", ""},
    {0x84, "Sanitize", ""},
    {0x86, "Get LBA Status", ""},
};
inline constexpr Names nvme_admin_opcode_names{"NVMe admin opcode", nvme_admin_opcode_entries, "NVMe Base 2.0, 5"};

inline constexpr Name nvme_io_opcode_entries[] = {
    {0x00, "Flush", "makes written data durable"},
    {0x01, "Write", ""},
    {0x02, "Read", ""},
    {0x04, "Write Uncorrectable", ""},
    {0x05, "Compare", ""},
    {0x08, "Write Zeroes", ""},
    {0x09, "Dataset Management", ""},
    {0x0c, "Verify", ""},
    {0x0d, "Reservation Register", ""},
    {0x0e, "Reservation Report", ""},
    {0x11, "Reservation Acquire", ""},
    {0x15, "Reservation Release", ""},
    {0x19, "Copy", ""},
    {0x79, "Zone Management Send", ""},
    {0x7a, "Zone Management Receive", ""},
    {0x7d, "Zone Append", ""},
    {0x7f, "Fabrics", "specified by the Fabrics command type"},
};
inline constexpr Names nvme_io_opcode_names{"NVMe I/O opcode", nvme_io_opcode_entries, "NVMe NVM Command Set 1.0, 3"};

inline constexpr Name nvme_fabrics_type_entries[] = {
    {nvme::fabrics_type::property_set, "Property Set", "writes a controller property"},
    {nvme::fabrics_type::connect, "Connect", "associates the connection with a controller's queue"},
    {nvme::fabrics_type::property_get, "Property Get", "reads a controller property"},
    {nvme::fabrics_type::authentication_send, "Authentication Send", ""},
    {nvme::fabrics_type::authentication_receive, "Authentication Receive", ""},
    {nvme::fabrics_type::disconnect, "Disconnect", "deletes an I/O queue"},
};
inline constexpr Names nvme_fabrics_type_names{"NVMe Fabrics command type", nvme_fabrics_type_entries,
                                               "NVMe Base 2.0, 6"};

inline constexpr Name nvme_sgl_type_entries[] = {
    {0, "Data Block", "address and length (subtype Offset: position of the data in the capsule)"},
    {1, "Bit Bucket", "data to discard"},
    {2, "Segment", "a list of descriptors"},
    {3, "Last Segment", "the end of a list of descriptors"},
    {nvme::keyed_data_block, "Keyed Data Block", "address, length and R_Key of host memory for RDMA by the controller"},
    {5, "Transport Data Block", ""},
    {15, "Vendor Specific", ""},
};
inline constexpr Names nvme_sgl_type_names{"NVMe SGL descriptor type", nvme_sgl_type_entries, "NVMe Base 2.0, 4.1.2"};

inline constexpr Name nvme_sgl_subtype_entries[] = {
    {0, "Address", ""},
    {1, "Offset", "relative to the start of the capsule's data"},
    {15, "Transport specific", "RDMA: the controller invalidates the R_Key with the response"},
};
inline constexpr Names nvme_sgl_subtype_names{
    "NVMe SGL descriptor subtype", nvme_sgl_subtype_entries,
    "NVMe Base 2.0, 4.1.2; NVMe RDMA Transport 1.0 (clause number not verified)"};

namespace detail {
constexpr bool nvme_sgl_is_keyed(const std::uint8_t* h) { return h[39] >> 4 == nvme::keyed_data_block; }
constexpr bool nvme_sgl_is_plain(const std::uint8_t* h) { return !nvme_sgl_is_keyed(h); }
// True for Connect and the two Authentication commands. The bytes of the SGL descriptor are reserved in the other
// commands.
constexpr bool nvme_fabrics_has_data(const std::uint8_t* h) {
  return h[4] == nvme::fabrics_type::connect || h[4] == nvme::fabrics_type::authentication_send ||
         h[4] == nvme::fabrics_type::authentication_receive;
}
}  // namespace detail

/// Bytes 0 to 39 of an admin command.
struct NvmeAdmin {
  static constexpr std::string_view name = "nvme_admin", title = "NVMe admin command", section = "NVMe Base 2.0, 3.3.3";
  static constexpr std::size_t size = 40;
  static constexpr std::array fields{
      field("opcode", 0, 8, "command").hex().of(nvme_admin_opcode_names).alias("nvme.cmd.opc"),
      field("flags", 8, 8, "fused operation, and type of data descriptor").hex(),
      field("flags.psdt", 8, 2, "1: an SGL describes the data, as Fabrics requires").alias("nvme.cmd.psdt"),
      field("flags.fuse", 14, 2, "0: single command (1: first, 2: second of two fused commands)")
          .alias("nvme.cmd.fuse_op"),
      field("command_id", 16, 16, "identifies the command in the response").le().hex().alias("nvme.cmd.cid"),
      field("namespace_id", 32, 32, "namespace of the command (0xffffffff: all)").le().alias("nvme.cmd.nsid"),
      field("dword2", 64, 32, "meaning depends on the command").le().hex(),
      field("dword3", 96, 32, "meaning depends on the command").le().hex(),
      field("metadata_pointer", 128, 64, "reserved in Fabrics").le().hex().alias("nvme.cmd.mptr"),
      field("sgl1", 192, 128, "location of the command's data").as(Display::bytes).in("NVMe Base 2.0, 4.1.2"),
      field("sgl1.address", 192, 64, "host address (subtype Offset: offset in the capsule's data)")
          .le()
          .hex()
          .alias("nvme.cmd.sgl1.addr"),
      field("sgl1.length", 256, 32, "length of the data in bytes").le().when(&detail::nvme_sgl_is_plain),
      field("sgl1.keyed_length", 256, 24, "length of the data in bytes").le().when(&detail::nvme_sgl_is_keyed),
      field("sgl1.key", 280, 32, "remote key").le().hex().when(&detail::nvme_sgl_is_keyed).alias("nvme.cmd.sgl1.key"),
      field("sgl1.type", 312, 4, "kind of descriptor").of(nvme_sgl_type_names).alias("nvme.cmd.sgl.type"),
      field("sgl1.subtype", 316, 4, "kind of address").of(nvme_sgl_subtype_names).alias("nvme.cmd.sgl.subtype"),
  };
};

/// Bytes 0 to 39 of an I/O command: like an admin command, with other opcodes.
struct NvmeIo {
  static constexpr std::string_view name = "nvme_io", title = "NVMe I/O command", section = "NVMe Base 2.0, 3.3.3";
  static constexpr std::size_t size = NvmeAdmin::size;
  static constexpr std::array fields = [] {
    std::array table = NvmeAdmin::fields;
    table[0] = table[0].of(nvme_io_opcode_names);
    return table;
  }();
};

/// Bytes 0 to 39 of a Fabrics command.
struct NvmeFabrics {
  static constexpr std::string_view name = "nvme_fabrics", title = "NVMe Fabrics command", section = "NVMe Base 2.0, 6";
  static constexpr std::size_t size = 40;
  static constexpr std::array fields{
      field("opcode", 0, 8, "0x7f").hex().of(nvme_io_opcode_names),
      field("flags", 8, 8, "type of data descriptor").hex().alias("nvme.fabrics.cmd.rsvd"),
      field("flags.psdt", 8, 2, "1: an SGL describes the data, as Fabrics requires"),
      field("command_id", 16, 16, "identifies the command in the response").le().hex().alias("nvme.fabrics.cmd.cid"),
      field("type", 32, 8, "Fabrics command").hex().of(nvme_fabrics_type_names).alias("nvme.fabrics.cmd.fctype"),
      field("reserved", 40, 152, "reserved").as(Display::reserved),
      field("sgl1", 192, 128, "location of the command's data (reserved if it has none)")
          .as(Display::bytes)
          .in("NVMe Base 2.0, 4.1.2"),
      field("sgl1.address", 192, 64, "host address (subtype Offset: offset in the capsule's data)")
          .le()
          .hex()
          .when(&detail::nvme_fabrics_has_data)
          .alias("nvme.cmd.sgl1.addr"),
      field("sgl1.length", 256, 32, "length of the data in bytes").le().when([](const std::uint8_t* h) {
        return detail::nvme_fabrics_has_data(h) && detail::nvme_sgl_is_plain(h);
      }),
      field("sgl1.keyed_length", 256, 24, "length of the data in bytes").le().when([](const std::uint8_t* h) {
        return detail::nvme_fabrics_has_data(h) && detail::nvme_sgl_is_keyed(h);
      }),
      field("sgl1.key", 280, 32, "remote key")
          .le()
          .hex()
          .when([](const std::uint8_t* h) { return detail::nvme_fabrics_has_data(h) && detail::nvme_sgl_is_keyed(h); })
          .alias("nvme.cmd.sgl1.key"),
      field("sgl1.type", 312, 4, "kind of descriptor")
          .of(nvme_sgl_type_names)
          .when(&detail::nvme_fabrics_has_data)
          .alias("nvme.cmd.sgl.type"),
      field("sgl1.subtype", 316, 4, "kind of address")
          .of(nvme_sgl_subtype_names)
          .when(&detail::nvme_fabrics_has_data)
          .alias("nvme.cmd.sgl.subtype"),
  };
};

/// Dwords 10 to 15 of commands that have no table of their own.
struct NvmeDwords {
  static constexpr std::string_view name = "nvme_dwords", title = "NVMe command dwords 10 to 15",
                                    section = "NVMe Base 2.0, 3.3.3";
  static constexpr std::size_t size = 24;
  static constexpr std::array fields{
      field("dword10", 0, 32, "meaning depends on the command").le().hex(),
      field("dword11", 32, 32, "meaning depends on the command").le().hex(),
      field("dword12", 64, 32, "meaning depends on the command").le().hex(),
      field("dword13", 96, 32, "meaning depends on the command").le().hex(),
      field("dword14", 128, 32, "meaning depends on the command").le().hex(),
      field("dword15", 160, 32, "meaning depends on the command").le().hex(),
  };
};

/// Dwords 10 to 15 of Write, Read, Compare, Write Zeroes and Verify.
struct NvmeRange {
  static constexpr std::string_view name = "nvme_range", title = "NVMe logical block range",
                                    section = "NVMe NVM Command Set 1.0, 3.2";
  static constexpr std::size_t size = 24;
  static constexpr std::array fields{
      field("start", 0, 64, "first logical block").le().alias("nvme.cmd.slba"),
      field("blocks", 64, 16, "number of logical blocks, minus 1").le(),
      field("blocks.count", 64, 16, "number of logical blocks")
          .le()
          .means([](std::uint64_t raw) { return raw + 1; })
          .alias("nvme.cmd.nlb"),
      field("control", 80, 16, "little endian: retries, force unit access, protection").le().hex(),
      field("control.limited_retry", 88, 1, "limited effort to recover data is sufficient").alias("nvme.cmd.lr"),
      field("control.fua", 89, 1, "force unit access: the data is durable before the command completes")
          .alias("nvme.cmd.fua"),
      field("control.protection_action", 90, 1, "protection information is stripped or inserted")
          .alias("nvme.cmd.prinfo.action"),
      field("control.protection_check", 91, 3, "protection information to check"),
      field("dataset", 96, 32, "hints about the use of the data").le().hex(),
      field("reference_tag", 128, 32, "initial logical block reference tag").le().hex().alias("nvme.cmd.eilbrt"),
      field("application_tag", 160, 16, "logical block application tag").le().hex().alias("nvme.cmd.elbat"),
      field("application_mask", 176, 16, "bits of the application tag to check").le().hex().alias("nvme.cmd.elbatm"),
  };
};

/// Bytes 40 to 63 of Connect.
struct NvmeConnect {
  static constexpr std::string_view name = "nvme_connect", title = "NVMe Connect", section = "NVMe Base 2.0, 6.3";
  static constexpr std::size_t size = 24;
  static constexpr std::array fields{
      field("record_format", 0, 16, "0").le().alias("nvme.fabrics.cmd.connect.recfmt"),
      field("queue_id", 16, 16, "0: the admin queue").le().alias("nvme.fabrics.cmd.connect.qid"),
      field("queue_size", 32, 16, "entries of the submission queue, minus 1")
          .le()
          .alias("nvme.fabrics.cmd.connect.sqsize"),
      field("attributes", 48, 8, "priority class and options").hex().alias("nvme.fabrics.cmd.connect.cattr"),
      field("attributes.queue_deletion", 52, 1, "the host may delete individual I/O queues")
          .alias("nvme.fabrics.cmd.connect.cattr.dioq"),
      field("attributes.no_flow_control", 53, 1, "submission queue flow control is off")
          .alias("nvme.fabrics.cmd.connect.cattr.dfc"),
      field("attributes.priority", 54, 2, "priority class of an I/O queue").alias("nvme.fabrics.cmd.connect.cattr.pc"),
      reserved("reserved", 56, 8),
      field("keep_alive", 64, 32, "keep alive timeout in milliseconds (0: none)")
          .le()
          .alias("nvme.fabrics.cmd.connect.kato"),
      field("reserved2", 96, 96, "reserved").as(Display::reserved),
  };
};

/// Data of the Connect command.
struct NvmeConnectData {
  static constexpr std::string_view name = "nvme_connect_data", title = "NVMe Connect data",
                                    section = "NVMe Base 2.0, 6.3";
  static constexpr std::size_t size = 1024;
  static constexpr std::array fields{
      field("host_id", 0, 128, "host identifier").as(Display::bytes).alias("nvme.fabrics.cmd.connect.data.hostid"),
      field("controller_id", 128, 16, "0xffff: any").le().hex().alias("nvme.fabrics.cmd.connect.data.cntrlid"),
      field("reserved", 144, 1904, "reserved").as(Display::reserved),
      field("subsystem_nqn", 2048, 2048, "NVMe qualified name of the subsystem")
          .as(Display::text)
          .alias("nvme.fabrics.cmd.connect.data.subnqn"),
      field("host_nqn", 4096, 2048, "NVMe qualified name of the host")
          .as(Display::text)
          .alias("nvme.fabrics.cmd.connect.data.hostnqn"),
      field("reserved2", 6144, 2048, "reserved").as(Display::reserved),
  };
};

inline constexpr Name nvme_property_entries[] = {
    {0x00, "CAP", "controller capabilities"}, {0x08, "VS", "version"},
    {0x14, "CC", "controller configuration"}, {0x1c, "CSTS", "controller status"},
    {0x20, "NSSR", "NVM subsystem reset"},
};
inline constexpr Names nvme_property_names{"NVMe property", nvme_property_entries, "NVMe Base 2.0, 3.1.3"};

/// Bytes 40 to 63 of Property Set.
struct NvmePropertySet {
  static constexpr std::string_view name = "nvme_property_set", title = "NVMe Property Set",
                                    section = "NVMe Base 2.0, 6.6";
  static constexpr std::size_t size = 24;
  static constexpr std::array fields{
      field("attributes", 0, 8, "size of the property").hex(),
      field("attributes.size", 5, 3, "0: 4 bytes, 1: 8 bytes").alias("nvme.fabrics.cmd.prop_get_set.attrib.size"),
      reserved("reserved", 8, 24),
      field("offset", 32, 32, "property")
          .le()
          .hex()
          .of(nvme_property_names)
          .alias("nvme.fabrics.cmd.prop_get_set.offset"),
      field("value", 64, 64, "new value").le().hex(),
      reserved("reserved2", 128, 64),
  };
};

/// Bytes 40 to 63 of Property Get.
struct NvmePropertyGet {
  static constexpr std::string_view name = "nvme_property_get", title = "NVMe Property Get",
                                    section = "NVMe Base 2.0, 6.5";
  static constexpr std::size_t size = 24;
  static constexpr std::array fields{
      field("attributes", 0, 8, "size of the property").hex(),
      field("attributes.size", 5, 3, "0: 4 bytes, 1: 8 bytes").alias("nvme.fabrics.cmd.prop_get_set.attrib.size"),
      reserved("reserved", 8, 24),
      field("offset", 32, 32, "property")
          .le()
          .hex()
          .of(nvme_property_names)
          .alias("nvme.fabrics.cmd.prop_get_set.offset"),
      field("reserved2", 64, 128, "reserved").as(Display::reserved),
  };
};

/// Bytes 40 to 63 of Disconnect.
struct NvmeDisconnect {
  static constexpr std::string_view name = "nvme_disconnect", title = "NVMe Disconnect", section = "NVMe Base 2.0, 6.4";
  static constexpr std::size_t size = 24;
  static constexpr std::array fields{
      field("record_format", 0, 16, "0").le().alias("nvme.fabrics.cmd.disconnect.recfmt"),
      field("reserved", 16, 176, "reserved").as(Display::reserved),
  };
};

/// Bytes 40 to 63 of Authentication Send and Authentication Receive.
struct NvmeAuthentication {
  static constexpr std::string_view name = "nvme_authentication", title = "NVMe Authentication Send or Receive",
                                    section = "NVMe Base 2.0, 6.1 and 6.2";
  static constexpr std::size_t size = 24;
  static constexpr std::array fields{
      reserved("reserved", 0, 8),
      field("spsp0", 8, 8, "first byte specific to the security protocol").hex().alias("nvme.fabrics.cmd.auth.spsp0"),
      field("spsp1", 16, 8, "second byte specific to the security protocol").hex().alias("nvme.fabrics.cmd.auth.spsp1"),
      field("security_protocol", 24, 8, "security protocol").hex().alias("nvme.fabrics.cmd.auth.secp"),
      field("length", 32, 32, "number of bytes to send, or size of the receive buffer")
          .le()
          .alias("nvme.fabrics.cmd.auth.al"),
      field("reserved2", 64, 128, "reserved").as(Display::reserved),
  };
};

inline constexpr Name nvme_status_type_entries[] = {
    {0, "Generic", ""},      {1, "Command Specific", ""}, {2, "Media and Data Integrity", ""},
    {3, "Path Related", ""}, {7, "Vendor Specific", ""},
};
inline constexpr Names nvme_status_type_names{"NVMe status code type", nvme_status_type_entries,
                                              "NVMe Base 2.0, 3.3.3.2.1"};

inline constexpr Name nvme_generic_status_entries[] = {
    {0x00, "Successful Completion", ""},
    {0x01, "Invalid Command Opcode", ""},
    {0x02, "Invalid Field in Command", ""},
    {0x03, "Command ID Conflict", ""},
    {0x04, "Data Transfer Error", ""},
    {0x05, "Aborted due to Power Loss", ""},
    {0x06, "Internal Error", ""},
    {0x07, "Abort Requested", ""},
    {0x08, "Aborted due to SQ Deletion", ""},
    {0x09, "Aborted due to Failed Fused Command", ""},
    {0x0a, "Aborted due to Missing Fused Command", ""},
    {0x0b, "Invalid Namespace or Format", ""},
    {0x0c, "Command Sequence Error", ""},
    {0x0d, "Invalid SGL Segment Descriptor", ""},
    {0x0e, "Invalid Number of SGL Descriptors", ""},
    {0x0f, "Data SGL Length Invalid", ""},
    {0x10, "Metadata SGL Length Invalid", ""},
    {0x11, "SGL Descriptor Type Invalid", ""},
    {0x12, "Invalid Use of Controller Memory Buffer", ""},
    {0x13, "PRP Offset Invalid", ""},
    {0x14, "Atomic Write Unit Exceeded", ""},
    {0x15, "Operation Denied", ""},
    {0x16, "SGL Offset Invalid", ""},
    {0x18, "Host Identifier Inconsistent Format", ""},
    {0x19, "Keep Alive Timer Expired", ""},
    {0x1a, "Keep Alive Timeout Invalid", ""},
    {0x1b, "Aborted due to Preempt and Abort", ""},
    {0x1c, "Sanitize Failed", ""},
    {0x1d, "Sanitize In Progress", ""},
    {0x1e, "SGL Data Block Granularity Invalid", ""},
    {0x1f, "Command Not Supported for Queue in CMB", ""},
    {0x20, "Namespace is Write Protected", ""},
    {0x21, "Command Interrupted", ""},
    {0x22, "Transient Transport Error", ""},
    {0x80, "LBA Out of Range", ""},
    {0x81, "Capacity Exceeded", ""},
    {0x82, "Namespace Not Ready", ""},
    {0x83, "Reservation Conflict", ""},
    {0x84, "Format In Progress", ""},
};
inline constexpr Names nvme_generic_status_names{"NVMe generic status", nvme_generic_status_entries,
                                                 "NVMe Base 2.0, 3.3.3.2.1"};

inline constexpr Name nvme_specific_status_entries[] = {
    {0x00, "Completion Queue Invalid", ""},
    {0x01, "Invalid Queue Identifier", ""},
    {0x02, "Invalid Queue Size", ""},
    {0x03, "Abort Command Limit Exceeded", ""},
    {0x05, "Asynchronous Event Request Limit Exceeded", ""},
    {0x06, "Invalid Firmware Slot", ""},
    {0x07, "Invalid Firmware Image", ""},
    {0x08, "Invalid Interrupt Vector", ""},
    {0x09, "Invalid Log Page", ""},
    {0x0a, "Invalid Format", ""},
    {0x0c, "Invalid Queue Deletion", ""},
    {0x0d, "Feature Identifier Not Saveable", ""},
    {0x0e, "Feature Not Changeable", ""},
    {0x0f, "Feature Not Namespace Specific", ""},
    {0x80, "Connect Incompatible Format", "in I/O commands: conflicting attributes"},
    {0x81, "Connect Controller Busy", "in I/O commands: invalid protection information"},
    {0x82, "Connect Invalid Parameters", "in I/O commands: attempted write to a read only range"},
    {0x83, "Connect Restart Discovery", ""},
    {0x84, "Connect Invalid Host", ""},
    {0x90, "Discovery Restart", ""},
    {0x91, "Authentication Required", ""},
};
inline constexpr Names nvme_specific_status_names{"NVMe command specific status", nvme_specific_status_entries,
                                                  "NVMe Base 2.0, 3.3.3.2.1"};

namespace detail {
constexpr std::uint64_t nvme_status_code(std::uint64_t status) { return status >> 1 & 0xff; }
constexpr std::uint8_t nvme_status_type(const std::uint8_t* cqe) { return cqe[15] >> 1 & 7; }
}  // namespace detail

/// A response capsule: a completion queue entry.
struct NvmeCqe {
  static constexpr std::string_view name = "nvme_cqe", title = "NVMe response", section = "NVMe Base 2.0, 3.3.3.2";
  static constexpr std::size_t size = 16;
  static constexpr std::array fields{
      field("result", 0, 64, "meaning depends on the command (Connect: controller ID, Property Get: value)").le().hex(),
      field("sq_head", 64, 16, "head pointer of the submission queue").le().alias("nvme.cqe.sqhd"),
      field("sq_id", 80, 16, "submission queue identifier (reserved in Fabrics)").le().alias("nvme.cqe.sqid"),
      field("command_id", 96, 16, "identifier of the completed command").le().hex().alias("nvme.cqe.cid"),
      field("status", 112, 16, "success or error").le().hex().alias("nvme.cqe.status"),
      field("status.code", 112, 16, "status code")
          .le()
          .hex()
          .means(&detail::nvme_status_code)
          .alias("nvme.cqe.status.sc"),
      field("status.generic", 112, 16, "status code of type Generic")
          .le()
          .hex()
          .means(&detail::nvme_status_code)
          .of(nvme_generic_status_names)
          .when([](const std::uint8_t* h) { return detail::nvme_status_type(h) == 0; }),
      field("status.specific", 112, 16, "status code of type Command Specific")
          .le()
          .hex()
          .means(&detail::nvme_status_code)
          .of(nvme_specific_status_names)
          .when([](const std::uint8_t* h) { return detail::nvme_status_type(h) == 1; }),
      field("status.do_not_retry", 120, 1, "a retry of the command would fail").alias("nvme.cqe.status.dnr"),
      field("status.more", 121, 1, "more details in the error log").alias("nvme.cqe.status.m"),
      field("status.retry_delay", 122, 2, "index of the retry delay in the controller's list")
          .alias("nvme.cqe.status.crd"),
      field("status.type", 124, 3, "status code type").of(nvme_status_type_names).alias("nvme.cqe.status.sct"),
  };
};

/// Private data of a connection request.
struct NvmeCmRequest {
  static constexpr std::string_view name = "nvme_cm_request", title = "NVMe RDMA connection request",
                                    section = "NVMe RDMA Transport 1.0 (clause number not verified)";
  static constexpr std::size_t size = 32;
  static constexpr std::array fields{
      field("record_format", 0, 16, "0").le().alias("nvme-rdma.cm.req.recfmt"),
      field("queue_id", 16, 16, "0: the admin queue").le().alias("nvme-rdma.cm.req.qid"),
      field("host_receive_size", 32, 16, "entries of the host's RDMA receive queue")
          .le()
          .alias("nvme-rdma.cm.req.hrqsize"),
      field("host_send_size", 48, 16, "entries of the host's RDMA send queue, minus 1")
          .le()
          .alias("nvme-rdma.cm.req.hsqsize"),
      field("controller_id", 64, 16, "controller of an I/O queue").le().hex().alias("nvme-rdma.cm.req.cntlid"),
      field("reserved", 80, 176, "reserved").as(Display::reserved),
  };
};

/// Private data of a reply that accepts the connection.
struct NvmeCmReply {
  static constexpr std::string_view name = "nvme_cm_reply", title = "NVMe RDMA connection reply",
                                    section = "NVMe RDMA Transport 1.0 (clause number not verified)";
  static constexpr std::size_t size = 32;
  static constexpr std::array fields{
      field("record_format", 0, 16, "0").le().alias("nvme-rdma.cm.rsp.recfmt"),
      field("controller_receive_size", 16, 16, "entries of the controller's RDMA receive queue")
          .le()
          .alias("nvme-rdma.cm.rsp.crqsize"),
      field("reserved", 32, 224, "reserved").as(Display::reserved),
  };
};

inline constexpr Name nvme_cm_status_entries[] = {
    {1, "Invalid Private Data Length", ""},
    {2, "Invalid RECFMT", ""},
    {3, "Invalid QID", ""},
    {4, "Invalid HSQSIZE", ""},
    {5, "Invalid HRQSIZE", ""},
    {6, "No Resources", ""},
    {7, "Invalid IRD", "the host can process too few RDMA READs as a responder"},
    {8, "Invalid ORD", "the host can have too few RDMA READs outstanding"},
};
inline constexpr Names nvme_cm_status_names{"NVMe RDMA reject status", nvme_cm_status_entries,
                                            "NVMe RDMA Transport 1.0 (clause number not verified)"};

/// Private data of a reply that rejects the connection.
struct NvmeCmReject {
  static constexpr std::string_view name = "nvme_cm_reject", title = "NVMe RDMA connection reject",
                                    section = "NVMe RDMA Transport 1.0 (clause number not verified)";
  static constexpr std::size_t size = 4;
  static constexpr std::array fields{
      field("record_format", 0, 16, "0").le().alias("nvme-rdma.cm.rej.recfmt"),
      field("status", 16, 16, "reason").le().of(nvme_cm_status_names).alias("nvme-rdma.cm.rej.status"),
  };
};

}  // namespace rdmawire
