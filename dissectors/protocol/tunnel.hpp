#pragma once
/// Tunnels that carry mirrored traffic: VXLAN, GRE, ERSPAN.

#include "dissectors/protocol/ethernet.hpp"

namespace rdmawire {

struct Vxlan {
  static constexpr std::string_view name = "vxlan", title = "VXLAN", section = "RFC 7348, 5";
  static constexpr std::size_t size = 8;
  static constexpr std::array fields{
      field("flags", 0, 8, "0x08: the network identifier is valid").hex(),
      field("flags.vni_valid", 4, 1, "the network identifier is valid"),
      reserved("reserved", 8, 24),
      field("vni", 32, 24, "network identifier").alias("vxlan.vni"),
      reserved("reserved2", 56, 8),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

struct Gre {
  static constexpr std::string_view name = "gre", title = "Generic Routing Encapsulation",
                                    section = "RFC 2784, 2; RFC 2890";
  static constexpr std::size_t size = 4;
  static constexpr std::string_view tail = "optional";
  static constexpr std::array fields{
      field("checksum_present", 0, 1, "a checksum and offset follow").alias("gre.flags.checksum"),
      field("routing_present", 1, 1, "RFC 1701 only").alias("gre.flags.routing"),
      field("key_present", 2, 1, "a key follows").alias("gre.flags.key"),
      field("sequence_present", 3, 1, "a sequence number follows").alias("gre.flags.sequence_number"),
      reserved("reserved", 4, 9),
      field("version", 13, 3, "0").alias("gre.flags.version"),
      field("protocol", 16, 16, "next header").hex().of(ethertype_names).alias("gre.proto"),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

struct Erspan2 {
  static constexpr std::string_view name = "erspan2", title = "ERSPAN type II", section = "draft-foschiano-erspan, 4.2";
  static constexpr std::size_t size = 8;
  static constexpr std::array fields{
      field("version", 0, 4, "1").alias("erspan.version"),
      field("vlan", 4, 12, "VLAN of the mirrored frame").alias("erspan.vlan"),
      field("cos", 16, 3, "class of service of the mirrored frame").alias("erspan.cos"),
      field("encapsulation", 19, 2, "how the mirrored frame was VLAN-tagged").alias("erspan.encap"),
      field("truncated", 21, 1, "the mirrored frame was truncated").alias("erspan.truncated"),
      field("session", 22, 10, "mirror session").alias("erspan.spanid"),
      reserved("reserved", 32, 12),
      field("index", 44, 20, "port and direction, in the switch's numbering"),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

struct Erspan3 {
  static constexpr std::string_view name = "erspan3", title = "ERSPAN type III",
                                    section = "draft-foschiano-erspan, 4.3";
  static constexpr std::size_t size = 12;
  static constexpr std::string_view tail = "platform";
  static constexpr std::array fields{
      field("version", 0, 4, "2").alias("erspan.version"),
      field("vlan", 4, 12, "VLAN of the mirrored frame").alias("erspan.vlan"),
      field("cos", 16, 3, "class of service of the mirrored frame").alias("erspan.cos"),
      field("bso", 19, 2, "whether the mirrored frame was bad, short or oversized").alias("erspan.bso"),
      field("truncated", 21, 1, "the mirrored frame was truncated").alias("erspan.truncated"),
      field("session", 22, 10, "mirror session").alias("erspan.spanid"),
      field("timestamp", 32, 32, "time of mirroring, in units of `granularity`").alias("erspan.timestamp"),
      field("sgt", 64, 16, "security group tag").alias("erspan.sgt"),
      field("p", 80, 1, "the frame is an Ethernet frame").alias("erspan.p"),
      field("frame_type", 81, 5, "0: Ethernet, 2: IP").alias("erspan.ft"),
      field("hardware", 86, 6, "hardware ID").alias("erspan.hw"),
      field("direction", 92, 1, "1: egress").alias("erspan.direction"),
      field("granularity", 93, 2, "unit of the time stamp").alias("erspan.gra"),
      field("platform_present", 95, 1, "8 bytes of platform data follow").alias("erspan.o"),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

Step decode_vxlan(Cursor& c);
Step decode_gre(Cursor& c);

}  // namespace rdmawire
