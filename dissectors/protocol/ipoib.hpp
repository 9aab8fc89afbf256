#pragma once
/// IP over InfiniBand: RFC 4391 (datagram mode), RFC 4755 (connected mode).

#include "dissectors/protocol/cursor.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/header.hpp"

namespace rdmawire {

/// Encapsulation header of an IPoIB packet.
struct Ipoib {
  static constexpr std::string_view name = "ipoib", title = "IP over InfiniBand", section = "RFC 4391, 6";
  static constexpr std::size_t size = 4;
  static constexpr std::array fields{
      field("type", 0, 16, "EtherType of the payload").hex().of(ethertype_names).alias("ipoib.type").computed(),
      reserved("reserved", 16, 16),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

/// Private data of REQ and REP in connected mode.
struct IpoibCm {
  static constexpr std::string_view name = "ipoib_cm", title = "IPoIB connected mode private data",
                                    section = "RFC 4755, 6";
  static constexpr std::size_t size = 8;
  static constexpr std::array fields{
      reserved("reserved", 0, 8),
      field("ud_qp", 8, 24, "the sender's UD queue pair, part of its hardware address").hex(),
      field("receive_mtu", 32, 32, "maximum packet size that the sender accepts, including the encapsulation header"),
  };
};

/// Signature in the third and fourth byte of IPoIB multicast GIDs. RFC 4391, 4.
namespace ipoib_signature {
inline constexpr std::uint16_t ipv4 = 0x401b, ipv6 = 0x601b;
}
/// True if `gid` (16 bytes) is the GID of an IPoIB multicast group.
constexpr bool is_ipoib_group(const std::uint8_t* gid) {
  const std::uint64_t signature = load_be(gid + 2, 2);
  return gid[0] == 0xff && (gid[1] & 0xf0) == 0x10 &&
         (signature == ipoib_signature::ipv4 || signature == ipoib_signature::ipv6);
}

/// Service IDs of connected mode: 0x10, zeros, and the UD QP of the interface that accepts the connection. RFC 4755,
/// 3.5.
namespace ipoib_service {
inline constexpr std::uint64_t prefix = 0x1000000000000000, qp_mask = 0xffffff;
}

Step decode_ipoib(Cursor& c);

}  // namespace rdmawire
