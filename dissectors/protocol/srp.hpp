#pragma once
/// The SCSI RDMA Protocol: information units in SENDs and in the private data of CM messages. INCITS 365 (SRP). CM
/// messages: IBTA vol 1, I/O annex. The layouts match include/scsi/srp.h of Linux.

#include "dissectors/protocol/header.hpp"

namespace rdmawire {

namespace srp_type {
inline constexpr std::uint8_t login_request = 0x00, task_management = 0x01, command = 0x02, initiator_logout = 0x03,
                              credit_response = 0x41, event_response = 0x42, target_logout = 0x80,
                              credit_request = 0x81, event_request = 0x82, login_response = 0xc0, response = 0xc1,
                              login_reject = 0xc2;
}
inline constexpr Name srp_type_entries[] = {
    {srp_type::login_request, "SRP_LOGIN_REQ", "an initiator requests a channel"},
    {srp_type::task_management, "SRP_TSK_MGMT", "aborts, resets"},
    {srp_type::command, "SRP_CMD", "a SCSI command"},
    {srp_type::initiator_logout, "SRP_I_LOGOUT", "the initiator closes the channel"},
    {srp_type::credit_response, "SRP_CRED_RSP", "answers SRP_CRED_REQ"},
    {srp_type::event_response, "SRP_AER_RSP", "answers SRP_AER_REQ"},
    {srp_type::target_logout, "SRP_T_LOGOUT", "the target closes the channel"},
    {srp_type::credit_request, "SRP_CRED_REQ", "the target changes the request limit"},
    {srp_type::event_request, "SRP_AER_REQ", "the target reports an event"},
    {srp_type::login_response, "SRP_LOGIN_RSP", "the target accepts the channel"},
    {srp_type::response, "SRP_RSP", "result of a command or of task management"},
    {srp_type::login_reject, "SRP_LOGIN_REJ", "the target rejects the channel"},
};
inline constexpr Names srp_type_names{"SRP information unit type", srp_type_entries,
                                      "INCITS 365 (clause number not verified)"};

namespace detail {
constexpr Field srp_type_field(unsigned bit = 0) {
  return field("type", bit, 8, "kind of information unit").hex().of(srp_type_names);
}
constexpr Field srp_tag_field(unsigned bit) {
  return field("tag", bit, 64, "identifies the request in the response").hex();
}
constexpr Field srp_notification_field(unsigned bit) {
  return field("solicited_notification", bit, 8, "bits: solicited notification requested or sent").hex();
}
constexpr Field srp_delta_field(unsigned bit) {
  return field("request_limit_delta", bit, 32, "number of additional requests that the initiator may send");
}
constexpr Field srp_formats_field(unsigned bit, std::string_view name) {
  return field(name, bit, 16, "bits: data buffer descriptor formats: 0x2 direct, 0x4 indirect").hex();
}
}  // namespace detail

struct SrpLoginRequest {
  static constexpr std::string_view name = "srp_login_req", title = "SRP_LOGIN_REQ",
                                    section = "INCITS 365 (clause number not verified)";
  static constexpr std::size_t size = 64;
  static constexpr std::array fields{
      detail::srp_type_field(),
      reserved("reserved", 8, 56),
      detail::srp_tag_field(64),
      field("max_length", 128, 32, "maximum information unit size of the initiator"),
      reserved("reserved2", 160, 32),
      detail::srp_formats_field(192, "buffer_formats"),
      field("flags", 208, 8,
            "what the target does with other channels between the same ports (0x80: immediate data requested)")
          .hex(),
      reserved("reserved3", 216, 8),
      field("immediate_data_offset", 224, 16, "offset of immediate data in bytes").in("SRP2"),
      reserved("reserved4", 240, 16),
      field("initiator_port", 256, 128, "initiator port identifier").as(Display::bytes),
      field("target_port", 384, 128, "target port identifier").as(Display::bytes),
  };
};

/// Shorter login request for the private data after the RDMA-CM header. It has no reserved bytes, and the order of
/// fields differs. Defined by Linux.
struct SrpLoginRequestRdma {
  static constexpr std::string_view name = "srp_login_req_rdma", title = "SRP_LOGIN_REQ after RDMA-CM's header",
                                    section = "Linux, SRP over RDMA-CM";
  static constexpr std::size_t size = 56;
  static constexpr std::array fields{
      detail::srp_tag_field(0),
      detail::srp_formats_field(64, "buffer_formats"),
      field("flags", 80, 8,
            "what the target does with other channels between the same ports (0x80: immediate data requested)")
          .hex(),
      detail::srp_type_field(88),
      field("max_length", 96, 32, "maximum information unit size of the initiator"),
      field("initiator_port", 128, 128, "initiator port identifier").as(Display::bytes),
      field("target_port", 256, 128, "target port identifier").as(Display::bytes),
      field("immediate_data_offset", 384, 16, "offset of immediate data in bytes").in("SRP2"),
      reserved("reserved", 400, 48),
  };
};

struct SrpLoginResponse {
  static constexpr std::string_view name = "srp_login_rsp", title = "SRP_LOGIN_RSP",
                                    section = "INCITS 365 (clause number not verified)";
  static constexpr std::size_t size = 52;
  static constexpr std::array fields{
      detail::srp_type_field(),
      reserved("reserved", 8, 24),
      detail::srp_delta_field(32),
      detail::srp_tag_field(64),
      field("max_to_target", 128, 32, "maximum information unit size that the target accepts"),
      field("max_to_initiator", 160, 32, "maximum information unit size that the target sends"),
      detail::srp_formats_field(192, "buffer_formats"),
      field("flags", 208, 8,
            "what the target did with other channels between the same ports (0x80: immediate data supported)")
          .hex(),
      field("reserved2", 216, 200, "reserved").as(Display::reserved),
  };
};

inline constexpr Name srp_login_reject_entries[] = {
    {0x00010000, "unable to establish a channel", ""},
    {0x00010001, "insufficient resources", ""},
    {0x00010002, "requested length too large", ""},
    {0x00010003, "unable to associate the channel", ""},
    {0x00010004, "unsupported data buffer descriptor format", ""},
    {0x00010005, "no multiple channels", ""},
    {0x00010006, "channel limit reached", ""},
};
inline constexpr Names srp_login_reject_names{"SRP_LOGIN_REJ reason", srp_login_reject_entries,
                                              "INCITS 365 (clause number not verified)"};

struct SrpLoginReject {
  static constexpr std::string_view name = "srp_login_rej", title = "SRP_LOGIN_REJ",
                                    section = "INCITS 365 (clause number not verified)";
  static constexpr std::size_t size = 32;
  static constexpr std::array fields{
      detail::srp_type_field(),
      reserved("reserved", 8, 24),
      field("reason", 32, 32, "reason").hex().of(srp_login_reject_names),
      detail::srp_tag_field(64),
      reserved("reserved2", 128, 64),
      detail::srp_formats_field(192, "buffer_formats"),
      reserved("reserved3", 208, 48),
  };
};

/// Common layout of SRP_I_LOGOUT, SRP_CRED_RSP and SRP_AER_RSP: a type and a tag.
struct SrpShort {
  static constexpr std::string_view name = "srp", title = "SRP_I_LOGOUT, SRP_CRED_RSP or SRP_AER_RSP",
                                    section = "INCITS 365 (clause number not verified)";
  static constexpr std::size_t size = 16;
  static constexpr std::array fields{
      detail::srp_type_field(),
      reserved("reserved", 8, 56),
      detail::srp_tag_field(64),
  };
};

struct SrpTargetLogout {
  static constexpr std::string_view name = "srp_t_logout", title = "SRP_T_LOGOUT",
                                    section = "INCITS 365 (clause number not verified)";
  static constexpr std::size_t size = 16;
  static constexpr std::array fields{
      detail::srp_type_field(),     detail::srp_notification_field(8),
      reserved("reserved", 16, 16), field("reason", 32, 32, "reason").hex(),
      detail::srp_tag_field(64),
  };
};

inline constexpr Name srp_function_entries[] = {
    {0x01, "ABORT TASK", ""},         {0x02, "ABORT TASK SET", ""}, {0x04, "CLEAR TASK SET", ""},
    {0x08, "LOGICAL UNIT RESET", ""}, {0x40, "CLEAR ACA", ""},
};
inline constexpr Names srp_function_names{"SRP task management function", srp_function_entries,
                                          "INCITS 365 (clause number not verified)"};

struct SrpTaskManagement {
  static constexpr std::string_view name = "srp_tsk_mgmt", title = "SRP_TSK_MGMT",
                                    section = "INCITS 365 (clause number not verified)";
  static constexpr std::size_t size = 48;
  static constexpr std::array fields{
      detail::srp_type_field(),       detail::srp_notification_field(8),
      reserved("reserved", 16, 48),   detail::srp_tag_field(64),
      reserved("reserved2", 128, 32), field("lun", 160, 64, "logical unit number").hex(),
      reserved("reserved3", 224, 16), field("function", 240, 8, "requested function").hex().of(srp_function_names),
      reserved("reserved4", 248, 8),  field("task_tag", 256, 64, "tag of the affected task").hex(),
      reserved("reserved5", 320, 64),
  };
};

struct SrpCommand {
  static constexpr std::string_view name = "srp_cmd", title = "SRP_CMD",
                                    section = "INCITS 365 (clause number not verified)";
  static constexpr std::size_t size = 48;
  static constexpr std::array fields{
      detail::srp_type_field(),
      detail::srp_notification_field(8),
      reserved("reserved", 16, 24),
      field("data_out_format", 40, 4, "descriptors of data to the target: 0 none, 1 direct, 2 indirect, 3 immediate"),
      field("data_in_format", 44, 4, "descriptors of data from the target: 0 none, 1 direct, 2 indirect"),
      field("data_out_count", 48, 8, "indirect: memory descriptors of data to the target"),
      field("data_in_count", 56, 8, "indirect: memory descriptors of data from the target"),
      detail::srp_tag_field(64),
      reserved("reserved2", 128, 32),
      field("lun", 160, 64, "logical unit number").hex(),
      reserved("reserved3", 224, 8),
      reserved("reserved4", 232, 5),
      field("task_attribute", 237, 3, "0 simple, 1 head of queue, 2 ordered, 4 ACA"),
      reserved("reserved5", 240, 8),
      field("additional_cdb_length", 248, 6, "length of the additional CDB in units of 4 bytes"),
      reserved("reserved6", 254, 2),
      field("cdb", 256, 128, "SCSI command descriptor block").as(Display::bytes),
  };
};

struct SrpResponse {
  static constexpr std::string_view name = "srp_rsp", title = "SRP_RSP",
                                    section = "INCITS 365 (clause number not verified)";
  static constexpr std::size_t size = 36;
  static constexpr std::array fields{
      detail::srp_type_field(),
      detail::srp_notification_field(8),
      reserved("reserved", 16, 16),
      detail::srp_delta_field(32),
      detail::srp_tag_field(64),
      reserved("reserved2", 128, 16),
      field("flags", 144, 8, "bits: valid fields").hex(),
      field("flags.data_in_under", 146, 1, "less data was read than requested"),
      field("flags.data_in_over", 147, 1, "more data was available than could be read"),
      field("flags.data_out_under", 148, 1, "less data was written than was offered"),
      field("flags.data_out_over", 149, 1, "more data was requested than was offered"),
      field("flags.sense_valid", 150, 1, "sense data follows"),
      field("flags.response_valid", 151, 1, "response data follows"),
      field("status", 152, 8, "SCSI status").hex(),
      field("data_out_residual", 160, 32, "residual count of data to the target, in bytes"),
      field("data_in_residual", 192, 32, "residual count of data from the target, in bytes"),
      field("sense_length", 224, 32, "bytes of sense data"),
      field("response_length", 256, 32, "bytes of response data"),
  };
};

struct SrpCreditRequest {
  static constexpr std::string_view name = "srp_cred_req", title = "SRP_CRED_REQ",
                                    section = "INCITS 365 (clause number not verified)";
  static constexpr std::size_t size = 16;
  static constexpr std::array fields{
      detail::srp_type_field(),    detail::srp_notification_field(8), reserved("reserved", 16, 16),
      detail::srp_delta_field(32), detail::srp_tag_field(64),
  };
};

struct SrpEventRequest {
  static constexpr std::string_view name = "srp_aer_req", title = "SRP_AER_REQ",
                                    section = "INCITS 365 (clause number not verified)";
  static constexpr std::size_t size = 36;
  static constexpr std::array fields{
      detail::srp_type_field(),
      detail::srp_notification_field(8),
      reserved("reserved", 16, 16),
      detail::srp_delta_field(32),
      detail::srp_tag_field(64),
      reserved("reserved2", 128, 32),
      field("lun", 160, 64, "logical unit number").hex(),
      field("sense_length", 224, 32, "bytes of sense data"),
      reserved("reserved3", 256, 32),
  };
};

}  // namespace rdmawire
