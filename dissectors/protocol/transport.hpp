#pragma once
/// UDP, and TCP with its options.

#include "dissectors/protocol/cursor.hpp"
#include "dissectors/protocol/header.hpp"

namespace rdmawire {

namespace udp_port {
inline constexpr std::uint16_t vxlan = 4789;  ///< the port of RoCEv2 is DecodeOptions::roce_v2_udp_port
}

struct Udp {
  static constexpr std::string_view name = "udp", title = "User Datagram Protocol", section = "RFC 768";
  static constexpr std::size_t size = 8;
  static constexpr std::array fields{
      field("src_port", 0, 16, "source port (RoCEv2 senders vary it so that flows take different paths)")
          .alias("udp.srcport")
          .alias("udp.port"),
      field("dst_port", 16, 16, "destination port (4791 is RoCEv2)").alias("udp.dstport").alias("udp.port").computed(),
      field("length", 32, 16, "length of header and data in bytes").alias("udp.length").computed(),
      field("checksum", 48, 16, "checksum (0: none, as in RoCEv2)").hex().alias("udp.checksum").computed(),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

struct Tcp {
  static constexpr std::string_view name = "tcp", title = "Transmission Control Protocol", section = "RFC 9293, 3.1";
  static constexpr std::size_t size = 20;
  static constexpr std::string_view tail = "options";
  static constexpr std::string_view counted_by = "data_offset";
  static constexpr std::uint32_t unit = 4;
  static constexpr std::array fields{
      field("src_port", 0, 16, "source port").alias("tcp.srcport").alias("tcp.port"),
      field("dst_port", 16, 16, "destination port").alias("tcp.dstport").alias("tcp.port"),
      field("seq", 32, 32, "sequence number of the first data byte (or of the SYN)").alias("tcp.seq_raw"),
      field("ack_number", 64, 32, "sequence number that the sender expects next").alias("tcp.ack_raw"),
      field("data_offset", 96, 4, "header length in units of 4 bytes").computed(),
      field("data_offset.bytes", 96, 4, "length of this header in bytes").means(&bytes_of_words).alias("tcp.hdr_len"),
      reserved("reserved", 100, 3).alias("tcp.flags.res"),
      field("ae", 103, 1, "accurate ECN").in("RFC 9768, 3").alias("tcp.flags.ae"),
      field("cwr", 104, 1, "congestion window reduced").alias("tcp.flags.cwr"),
      field("ece", 105, 1, "ECN echo").alias("tcp.flags.ece"),
      field("urg", 106, 1, "the urgent pointer is valid").alias("tcp.flags.urg"),
      field("ack", 107, 1, "the acknowledgement number is valid").alias("tcp.flags.ack"),
      field("psh", 108, 1, "push: deliver immediately").alias("tcp.flags.push"),
      field("rst", 109, 1, "reset").alias("tcp.flags.reset"),
      field("syn", 110, 1, "opens a connection").alias("tcp.flags.syn"),
      field("fin", 111, 1, "no more data from the sender").alias("tcp.flags.fin"),
      field("window", 112, 16, "receive window of the sender in bytes, before scaling").alias("tcp.window_size_value"),
      field("checksum", 128, 16, "checksum of pseudo header, header and data").hex().alias("tcp.checksum").computed(),
      field("urgent_pointer", 144, 16, "end of urgent data").alias("tcp.urgent_pointer"),
  };
  static Parts parts(Bytes header);
  static void fill(FrameLayout& frame, std::size_t index);
};

inline constexpr Name tcp_option_entries[] = {
    {0, "end of options", ""}, {1, "no operation", ""},   {2, "maximum segment size", ""},
    {3, "window scale", ""},   {4, "SACK permitted", ""}, {5, "SACK", ""},
    {8, "timestamps", ""},     {30, "multipath TCP", ""}, {34, "fast open", ""},
};
inline constexpr Names tcp_option_names{"TCP option", tcp_option_entries, "IANA TCP option kinds"};

/// A TCP option without a table of its own.
struct TcpOption {
  static constexpr std::string_view name = "tcp_option", title = "TCP option", section = "RFC 9293, 3.2";
  static constexpr std::size_t size = 2;
  static constexpr std::string_view tail = "data";
  static constexpr std::array fields{
      field("kind", 0, 8, "kind of option").of(tcp_option_names).alias("tcp.option_kind"),
      field("length", 8, 8, "bytes of the option").alias("tcp.option_len"),
  };
};
/// A TCP option that consists only of a kind: end of options, no operation.
struct TcpOptionByte {
  static constexpr std::string_view name = "tcp_option_byte", title = "TCP option of one byte",
                                    section = "RFC 9293, 3.2";
  static constexpr std::size_t size = 1;
  static constexpr std::array fields{
      field("kind", 0, 8, "kind of option").of(tcp_option_names).alias("tcp.option_kind"),
  };
};
struct TcpMss {
  static constexpr std::string_view name = "tcp_mss", title = "TCP maximum segment size", section = "RFC 9293, 3.7.1";
  static constexpr std::size_t size = 4;
  static constexpr std::array fields{
      field("kind", 0, 8, "2").of(tcp_option_names).alias("tcp.option_kind"),
      field("length", 8, 8, "4").alias("tcp.option_len"),
      field("mss", 16, 16, "maximum segment size that the sender accepts").alias("tcp.options.mss_val"),
  };
};
struct TcpWindowScale {
  static constexpr std::string_view name = "tcp_wscale", title = "TCP window scale", section = "RFC 7323, 2.2";
  static constexpr std::size_t size = 3;
  static constexpr std::array fields{
      field("kind", 0, 8, "3").of(tcp_option_names).alias("tcp.option_kind"),
      field("length", 8, 8, "3").alias("tcp.option_len"),
      field("shift", 16, 8, "window unit is 2^shift bytes").alias("tcp.options.wscale.shift"),
  };
};
struct TcpTimestamps {
  static constexpr std::string_view name = "tcp_timestamps", title = "TCP timestamps", section = "RFC 7323, 3.2";
  static constexpr std::size_t size = 10;
  static constexpr std::array fields{
      field("kind", 0, 8, "8").of(tcp_option_names).alias("tcp.option_kind"),
      field("length", 8, 8, "10").alias("tcp.option_len"),
      field("value", 16, 32, "clock value of the sender").alias("tcp.options.timestamp.tsval"),
      field("echo", 48, 32, "clock value of the peer, echoed").alias("tcp.options.timestamp.tsecr"),
  };
};
/// One block of a selective acknowledgement. The option contains up to four.
struct TcpSackBlock {
  static constexpr std::string_view name = "tcp_sack", title = "TCP SACK block", section = "RFC 2018, 3";
  static constexpr std::size_t size = 8;
  static constexpr std::array fields{
      field("left", 0, 32, "sequence number of the first received byte").alias("tcp.options.sack_le"),
      field("right", 32, 32, "sequence number after the last received byte").alias("tcp.options.sack_re"),
  };
};

Step decode_udp(Cursor& c);
Step decode_tcp(Cursor& c);

}  // namespace rdmawire
