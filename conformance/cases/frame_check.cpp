#include "conformance/cases/frame_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/icmp.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::conformance {
namespace {

constexpr std::uint32_t icrc_bytes = 4;
constexpr std::uint16_t roce_port = 4791;  // CA17-20
constexpr std::uint32_t least_frame = 64;  // a shorter frame may be padded by the link
constexpr std::uint32_t management_qps = 1, multicast_qp = 0xffffff;

using Address = std::array<std::uint8_t, 16>;

std::string hex_of(const Address& address) {
  std::string text;
  for (const std::uint8_t byte : address) fmt::format_to(std::back_inserter(text), "{:02x}", byte);
  return text;
}

/// Source and destination of the network header. IPv4 is mapped, as in GIDs.
struct Addresses {
  Address source{}, destination{};
};

Addresses addresses_of(const HeaderStack& stack) {
  const Layer& network = stack.layers()[stack.network];
  const std::uint8_t* at = stack.bytes.data() + network.offset;
  Addresses found;
  if (network.header == &info<Ipv4>) {
    for (auto* mapped : {&found.source, &found.destination}) (*mapped)[10] = (*mapped)[11] = 0xff;
    std::copy_n(at + 12, 4, found.source.begin() + 12);
    std::copy_n(at + 16, 4, found.destination.begin() + 12);
  } else {
    std::copy_n(at + 8, 16, found.source.begin());
    std::copy_n(at + 24, 16, found.destination.begin());
  }
  return found;
}

bool is_ip(const HeaderStack& stack) {
  if (stack.network == HeaderStack::none) return false;
  const HeaderInfo* header = stack.layers()[stack.network].header;
  return header == &info<Ipv4> || header == &info<Ipv6>;
}

/// True if the bytes start with a BTH of a known opcode to a QP of the tester.
bool starts_with_bth(Bytes bytes, std::span<const TesterQueuePair> queue_pairs) {
  if (bytes.size() < Bth::size + icrc_bytes) return false;
  const View<Bth> bth(bytes.data());
  const std::uint32_t qpn = bth.get<"dest_qp">();
  return opcode(bth.get<"opcode">()).known && std::ranges::any_of(queue_pairs, [&](const TesterQueuePair& qp) {
           return qp.tester_qpn == qpn && qpn > management_qps;
         });
}

/// The packet under check.
class PacketCheck {
 public:
  PacketCheck(const HeaderStack& stack, FrameReport& report)
      : stack_(stack),
        report_(report),
        network_(stack.layers()[stack.network]),
        bth_at_(stack.layers()[stack.transport].offset),
        bth_(stack.bytes.data() + bth_at_),
        op_(opcode(bth_.get<"opcode">())),
        end_(static_cast<std::uint32_t>(stack.bytes.size())) {}

  void check(const TesterQueuePair* qp) {
    lengths();
    // Wrong lengths move the position of the ICRC.
    const bool sized = report_.violations.empty();
    if (network_.header == &info<Ipv4>) ipv4();
    if (sized) udp_checksum();
    if (sized) icrc();
    bth();
    extensions();
    if (qp) queue_pair(*qp);
  }

 private:
  template <class Expected>
  void require(bool holds, RuleId rule, const Expected& expected, std::string actual) {
    if (!holds) report_.violations.push_back({rule, std::string(expected), std::move(actual)});
  }
  [[nodiscard]] const std::uint8_t* at(std::uint32_t offset) const { return stack_.bytes.data() + offset; }
  [[nodiscard]] const Layer* udp_layer() const {
    if (stack_.transport == 0) return nullptr;
    const Layer& below = stack_.layers()[stack_.transport - 1U];
    return below.header == &info<Udp> ? &below : nullptr;
  }

  /// Compares the lengths of IP and UDP with the end of the frame. CA17-6, CA17-15, CA17-21
  void lengths() {
    const bool v4 = network_.header == &info<Ipv4>;
    const std::uint32_t header = v4 ? 0U : std::uint32_t{Ipv6::size};  // a GRH has the layout of IPv6
    const std::uint32_t length = v4 ? View<Ipv4>(at(network_.offset)).get<"total_length">()
                                    : View<Ipv6>(at(network_.offset)).get<"payload_length">();
    const std::uint32_t by_network = network_.offset + header + length;
    const Layer* udp = udp_layer();
    const std::uint32_t by_udp = udp ? udp->offset + View<Udp>(at(udp->offset)).get<"length">() : by_network;
    const std::uint32_t frame = end_;
    // The link may add bytes to a short frame.
    const bool padded = frame <= least_frame && by_network <= frame && by_network == by_udp;
    end_ = padded ? by_network : frame;
    if (v4)
      require(by_network == end_, "roce.sender.ipv4.total-length",
              fmt::format("Total Length {}", end_ - network_.offset), fmt::format("{}", length));
    else if (network_.header == &info<Ipv6>)
      require(by_network == end_, "roce.sender.ipv6.payload-length",
              fmt::format("Payload Length {}", end_ - network_.offset - header), fmt::format("{}", length));
    if (udp)
      require(by_udp == end_, "roce.sender.udp.length", fmt::format("UDP Length {}", end_ - udp->offset),
              fmt::format("{}", by_udp - udp->offset));
  }

  void ipv4() {
    const View<Ipv4> ip(at(network_.offset));
    const std::uint32_t words = ip.get<"header_length">();
    require(words == 5, "roce.sender.ipv4.no-options", "IHL 5", fmt::format("IHL {}", words));
    const bool df = ip.get<"df">(), mf = ip.get<"mf">();
    const std::uint32_t offset = ip.get<"fragment_offset">();
    require(df && !mf && offset == 0, "roce.sender.ipv4.never-a-fragment", "DF 1, MF 0, fragment offset 0",
            fmt::format("DF {:d}, MF {:d}, fragment offset {}", df, mf, offset));
    if (!report_.violations.empty() && (mf || offset != 0)) report_.violations.back().lost = true;
    const std::uint32_t bytes = words * 4;
    if (bytes >= Ipv4::size && network_.offset + bytes <= stack_.bytes.size())
      require(internet_checksum(stack_.bytes.subspan(network_.offset, bytes)) == 0, "roce.sender.ipv4.header-checksum",
              "a header checksum that matches the header", fmt::format("{:#06x}", ip.get<"checksum">()));
  }

  void udp_checksum() {
    const Layer* layer = udp_layer();
    if (!layer) return;
    const View<Udp> udp(at(layer->offset));
    const std::uint32_t checksum = udp.get<"checksum">();
    if (checksum == 0) return;
    const Bytes datagram = stack_.bytes.subspan(layer->offset, end_ - layer->offset);
    const bool v4 = network_.header == &info<Ipv4>;
    const std::uint32_t from = network_.offset + (v4 ? 12U : 8U), bytes = v4 ? 8U : 32U;
    std::uint32_t pseudo = ip_protocol::udp + static_cast<std::uint32_t>(datagram.size());
    for (std::uint32_t i = 0; i < bytes; i += 2) pseudo += static_cast<std::uint32_t>(load_be<2>(at(from + i)));
    require(internet_checksum(datagram, pseudo) == 0, "roce.sender.udp.checksum-right-if-set",
            "UDP checksum 0, or that of the datagram", fmt::format("{:#06x}", checksum));
  }

  void icrc() {
    const CrcCheck crc = check_icrc(stack_);
    if (crc.status != CrcCheck::Status::bad) return;
    const bool flush = op_.known && op_.operation == Operation::flush;
    const RuleId rule = flush                            ? RuleId("rc.endpoint.icrc.flush")
                        : network_.header == &info<Ipv6> ? RuleId("roce.sender.icrc.over-ipv6")
                                                         : RuleId("roce.sender.icrc.over-ipv4");
    require(false, rule, fmt::format("ICRC {:#010x}", crc.computed), fmt::format("{:#010x}", crc.value));
  }

  void bth() {
    require(bth_.get<"tver">() == 0, "bth.sender.version.zero", "TVer 0", fmt::format("TVer {}", bth_.get<"tver">()));
    const bool notification = op_.known && op_.operation == Operation::congestion_notification;
    const std::uint32_t six = bth_.get<"reserved">(), seven = bth_.get<"reserved2">();
    const bool fecn = bth_.get<"fecn">(), becn = bth_.get<"becn">();
    require(six == 0 && seven == 0 && !fecn && (!becn || notification), "bth.sender.reserved.zero", "reserved bits 0",
            fmt::format("FECN {:d}, BECN {:d}, reserved6 {:#x}, reserved7 {:#x}", fecn, becn, six, seven));
    if (!op_.known) {
      require(false, "bth.sender.headers.as-opcode-says", "a defined opcode", fmt::format("{:#04x}", op_.value));
      return;
    }
    const std::uint32_t pad = bth_.get<"pad">(), payload_at = bth_at_ + Bth::size + op_.header_bytes;
    const bool room = payload_at + pad + icrc_bytes <= end_;
    require(room && (op_.payload || end_ == payload_at + icrc_bytes), "bth.sender.headers.as-opcode-says",
            fmt::format("{} bytes of extension headers{} and an ICRC after the BTH of {}", op_.header_bytes,
                        op_.payload ? ", payload" : "", op_.name),
            fmt::format("{} bytes", end_ - std::min(end_, bth_at_ + static_cast<std::uint32_t>(Bth::size))));
    if (!room) return;
    const std::uint32_t bytes = end_ - icrc_bytes - payload_at;
    require(bytes % 4 == 0 && (op_.payload || pad == 0) && (bytes != pad || pad == 0),
            "bth.sender.pad.to-multiple-of-four", "a multiple of 4 bytes, and no pad without payload",
            fmt::format("{} bytes of payload and {} of pad", bytes - pad, pad));
  }

  /// Reserved bits of the extension headers.
  void extensions() {
    if (!op_.known) return;
    const auto expected = op_.extension_headers();
    for (const Layer& layer : stack_.layers()) {
      if (layer.header == &info<Cnp> || std::ranges::find(expected, layer.header) == expected.end()) continue;
      for (const Field& field : layer.header->fields)
        if (field.is_reserved())
          require(field.load(at(layer.offset)) == 0, "bth.sender.headers.reserved-zero",
                  fmt::format("reserved bits 0 in the {}", layer.header->title),
                  fmt::format("{:#x}", field.load(at(layer.offset))));
    }
  }

  void queue_pair(const TesterQueuePair& qp) {
    if (qp.tester_qpn <= management_qps) return;
    const bool grh = network_.header == &info<Grh>;
    require(grh == qp.path.roce_v1, "roce.sender.version.as-gid-type", qp.path.roce_v1 ? "RoCEv1" : "RoCEv2",
            grh ? "RoCEv1" : "RoCEv2");
    constexpr std::uint32_t partition = 0x7fff;
    const std::uint32_t pkey = bth_.get<"pkey">();
    require((pkey & partition) == (qp.path.pkey & partition), "bth.sender.pkey.of-queue-pair",
            fmt::format("P_Key {:#06x}", qp.path.pkey), fmt::format("{:#06x}", pkey));
    const Addresses found = addresses_of(stack_);
    const auto compare = [&](const Address& is, const Address& of, const char* name) {
      require(is == of, "roce.sender.ip.addresses-from-gids", fmt::format("{} GID {}", name, hex_of(of)), hex_of(is));
    };
    compare(found.source, qp.path.device_address, "source");
    compare(found.destination, qp.path.tester_address, "destination");
  }

  const HeaderStack& stack_;
  FrameReport& report_;
  const Layer& network_;
  std::uint32_t bth_at_;
  View<Bth> bth_;
  const Opcode& op_;
  std::uint32_t end_;  ///< after the ICRC
};

/// Returns the text of an ICMP error that quotes a RoCE packet, or nullopt.
std::optional<std::string> icmp_error_of(const HeaderStack& stack) {
  constexpr std::uint32_t header_bytes = 8;
  const Layer* v4 = stack.find(info<Icmp>);
  const Layer* layer = v4 ? v4 : stack.find(info<Icmpv6>);
  if (!layer || layer->offset + header_bytes > stack.bytes.size()) return std::nullopt;
  const std::uint8_t type = stack.bytes[layer->offset], code = stack.bytes[layer->offset + 1];
  constexpr std::uint8_t source_quench = 4, parameter_problem = 12;
  const bool error = v4 ? type == icmp_type::unreachable || type == source_quench || type == icmp_type::redirect ||
                              type == icmp_type::time_exceeded || type == parameter_problem
                        : type < icmpv6_type::echo_request;
  const Bytes quoted = stack.bytes.subspan(layer->offset + header_bytes);
  const std::size_t ip_bytes = v4 ? quoted.empty() ? 0U : (quoted[0] & 15U) * 4U : Ipv6::size;
  if (!error || quoted.size() < ip_bytes + Udp::size || ip_bytes < Ipv4::size) return std::nullopt;
  const std::uint8_t protocol = quoted[v4 ? 9 : 6];
  if (protocol != ip_protocol::udp || load_be<2>(quoted.data() + ip_bytes + 2) != roce_port) return std::nullopt;
  const Names& names = v4 ? icmp_type_names : icmpv6_type_names;
  const Name* name = names.find(type);
  return fmt::format("{} {}, code {}, for a packet of the tester", v4 ? "ICMP" : "ICMPv6",
                     name ? std::string(name->name) : fmt::format("type {}", type), code);
}

}  // namespace

bool FrameCheck::is_from_device(const HeaderStack& stack) const {
  if (stack.bytes.size() < Ethernet::size) return false;
  const std::uint64_t source = View<Ethernet>(stack.bytes.data()).get<"src">();
  return std::ranges::any_of(paths_, [&](const Path& path) { return load_be<6>(path.device_mac.data()) == source; });
}

FrameReport FrameCheck::check(const HeaderStack& stack, std::span<const TesterQueuePair> queue_pairs,
                              const std::set<std::uint32_t>& earlier) const {
  FrameReport report;
  const bool from_device = is_from_device(stack);
  const auto lost = [&](RuleId rule, std::string expected, std::string actual) {
    if (from_device) report.violations.push_back({rule, std::move(expected), std::move(actual), true});
  };
  const auto bth = stack.get<Bth>();
  if (bth && stack.network != HeaderStack::none && stack.layers()[stack.transport].header == &info<Bth>) {
    report.kind = FrameReport::Kind::packet;
    if (!from_device) return report;
    const std::uint32_t qpn = bth->get<"dest_qp">();
    const auto qp = std::ranges::find(queue_pairs, qpn, &TesterQueuePair::tester_qpn);
    const bool known = qp != queue_pairs.end();
    PacketCheck(stack, report).check(known ? &*qp : nullptr);
    if (!known && qpn > management_qps && qpn != multicast_qp && !earlier.contains(qpn))
      lost("bth.sender.qpn.of-connection", "a queue pair of the tester", fmt::format("destination QP {:#x}", qpn));
    return report;
  }
  if (!is_ip(stack)) return report;
  if (auto error = icmp_error_of(stack)) {
    report.kind = FrameReport::Kind::icmp_error;
    report.text = std::move(*error);
    return report;
  }
  const Addresses addresses = addresses_of(stack);
  const bool ours =
      std::ranges::any_of(paths_, [&](const Path& path) { return path.tester_address == addresses.destination; });
  if (!ours) return report;
  const Layer& network = stack.layers()[stack.network];
  const bool v4 = network.header == &info<Ipv4>;
  const std::uint8_t protocol = stack.bytes[network.offset + (v4 ? 9U : 6U)];
  const Bytes behind = stack.bytes.subspan(std::min<std::size_t>(network.offset + network.length, stack.bytes.size()));
  if (stack.fragment) {
    if (protocol == ip_protocol::udp)
      lost("roce.sender.ipv4.never-a-fragment", "DF 1, MF 0, fragment offset 0", "a fragment of a UDP datagram");
  } else if (protocol == ip_protocol::udp && behind.size() >= Udp::size) {
    const std::uint32_t port = View<Udp>(behind.data()).get<"dst_port">();
    if (port == roce_port)
      lost("bth.sender.headers.as-opcode-says", "a BTH and an ICRC",
           fmt::format("{} bytes after the UDP header", behind.size() - Udp::size));
    else if (starts_with_bth(behind.subspan(Udp::size), queue_pairs))
      lost("roce.sender.udp.destination-port", "UDP destination port 4791", fmt::format("port {}", port));
  } else if (starts_with_bth(behind, queue_pairs) ||
             (behind.size() >= Udp::size && starts_with_bth(behind.subspan(Udp::size), queue_pairs))) {
    lost("roce.sender.ip.protocol-is-udp", "protocol 0x11 (UDP)", fmt::format("protocol {:#04x}", protocol));
  }
  return report;
}

}  // namespace rdmawire::conformance
