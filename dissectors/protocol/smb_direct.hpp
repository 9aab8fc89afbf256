#pragma once
/// SMB Direct: the transport of SMB over RDMA. MS-SMBD. All numbers are little endian.

#include "dissectors/protocol/header.hpp"

namespace rdmawire {

/// First message of the client.
struct SmbDirectNegotiateRequest {
  static constexpr std::string_view name = "smb_direct_negotiate_request", title = "SMB Direct negotiate request",
                                    section = "MS-SMBD 2.2.1";
  static constexpr std::size_t size = 20;
  static constexpr std::array fields{
      field("min_version", 0, 16, "lowest version that the client supports").le().hex().alias("smb_direct.version.min"),
      field("max_version", 16, 16, "highest version that the client supports")
          .le()
          .hex()
          .alias("smb_direct.version.max"),
      field("reserved", 32, 16, "reserved").le().as(Display::reserved),
      field("credits_requested", 48, 16, "SEND credits requested by the client")
          .le()
          .alias("smb_direct.credits.requested"),
      field("preferred_send_size", 64, 32, "preferred maximum message size of the client")
          .le()
          .alias("smb_direct.preferred_send_size"),
      field("max_receive_size", 96, 32, "maximum message size that the client accepts")
          .le()
          .alias("smb_direct.max_receive_size"),
      field("max_fragmented_size", 128, 32, "maximum fragmented message size that the client accepts")
          .le()
          .alias("smb_direct.max_fragmented_size"),
  };
};

/// The server's response to the negotiate request.
struct SmbDirectNegotiateResponse {
  static constexpr std::string_view name = "smb_direct_negotiate_response", title = "SMB Direct negotiate response",
                                    section = "MS-SMBD 2.2.2";
  static constexpr std::size_t size = 32;
  static constexpr std::array fields{
      field("min_version", 0, 16, "lowest version that the server supports").le().hex().alias("smb_direct.version.min"),
      field("max_version", 16, 16, "highest version that the server supports")
          .le()
          .hex()
          .alias("smb_direct.version.max"),
      field("version", 32, 16, "version that the server chose").le().hex().alias("smb_direct.version.negotiated"),
      field("reserved", 48, 16, "reserved").le().as(Display::reserved),
      field("credits_requested", 64, 16, "SEND credits requested by the server")
          .le()
          .alias("smb_direct.credits.requested"),
      field("credits_granted", 80, 16, "SEND credits granted to the client").le().alias("smb_direct.credits.granted"),
      field("status", 96, 32, "NT status (0: success)").le().hex().alias("smb_direct.status"),
      field("max_read_write_size", 128, 32, "maximum size of the server's RDMA READs and WRITEs")
          .le()
          .alias("smb_direct.max_read_write_size"),
      field("preferred_send_size", 160, 32, "preferred maximum message size of the server")
          .le()
          .alias("smb_direct.preferred_send_size"),
      field("max_receive_size", 192, 32, "maximum message size that the server accepts")
          .le()
          .alias("smb_direct.max_receive_size"),
      field("max_fragmented_size", 224, 32, "maximum fragmented message size that the server accepts")
          .le()
          .alias("smb_direct.max_fragmented_size"),
  };
};

/// Header of all later messages. The data starts at data_offset.
struct SmbDirectData {
  static constexpr std::string_view name = "smb_direct_data", title = "SMB Direct data transfer",
                                    section = "MS-SMBD 2.2.3";
  static constexpr std::size_t size = 20;
  static constexpr std::string_view tail = "padding";
  static constexpr std::array fields{
      field("credits_requested", 0, 16, "SEND credits requested by the sender")
          .le()
          .alias("smb_direct.credits.requested"),
      field("credits_granted", 16, 16, "SEND credits granted to the receiver").le().alias("smb_direct.credits.granted"),
      field("flags", 32, 16, "little endian").le().hex().alias("smb_direct.flags"),
      field("flags.response_requested", 39, 1, "keep-alive: the receiver shall respond immediately")
          .alias("smb_direct.flags.response_requested"),
      field("reserved", 48, 16, "reserved").le().as(Display::reserved),
      field("remaining_length", 64, 32, "number of bytes of the upper layer message that later messages contain")
          .le()
          .alias("smb_direct.remaining_length"),
      field("data_offset", 96, 32, "offset of the data from the start of this header (0: no data)")
          .le()
          .alias("smb_direct.data_offset"),
      field("data_length", 128, 32, "length of the data in bytes").le().alias("smb_direct.data_length"),
  };
};

}  // namespace rdmawire
