#include "captures/extract/anonymize.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "captures/extract/checksums.hpp"
#include "dissectors/protocol/icmp.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/ipoib.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::captures {
namespace {

constexpr int max_nesting = 4;  // maximum nesting of headers in variable parts

void blank(MutableBytes packet, Range range) {
  std::fill_n(packet.begin() + range.offset, range.length, std::uint8_t{0});
}

// Returns the bytes outside of all decoded layers: the rest of a truncated header, link padding and trailer.
std::vector<Range> unclaimed(const HeaderStack& stack) {
  std::vector<Range> claimed;
  for (const Layer& layer : stack.layers()) claimed.push_back({layer.offset, layer.length});
  for (const Range& range : {stack.payload, stack.pad, stack.icrc, stack.vcrc})
    if (range.length) claimed.push_back(range);
  std::sort(claimed.begin(), claimed.end(), [](Range a, Range b) { return a.offset < b.offset; });
  std::vector<Range> gaps;
  std::uint32_t at = 0;
  for (const Range& range : claimed) {
    if (range.offset > at) gaps.push_back({at, range.offset - at});
    at = std::max(at, range.end());
  }
  const auto size = static_cast<std::uint32_t>(stack.bytes.size());
  if (at < size) gaps.push_back({at, size - at});
  return gaps;
}

// Returns whether the packet ends with a valid frame check sequence of Ethernet (little endian).
bool ends_with_fcs(Bytes packet) {
  constexpr std::size_t size = 4;
  return packet.size() > 60 &&
         crc32(packet.first(packet.size() - size)) == load_le(packet.data() + packet.size() - size, size);
}

// True for a datagram to QP 0 or QP 1. The parts of management datagrams that are not parsed may contain addresses.
bool is_management(const HeaderStack& stack) {
  const auto bth = stack.get<Bth>();
  return bth && bth->get<"dest_qp">() <= 1;
}

// Returns the offset of an FPDU in the packet, if the packet contains its bytes contiguously.
std::optional<std::uint32_t> offset_in(const HeaderStack& stack, const tracking::Pdu& pdu) {
  if (pdu.reassembled || pdu.stack.bytes.data() < stack.bytes.data()) return std::nullopt;
  const auto offset = static_cast<std::size_t>(pdu.stack.bytes.data() - stack.bytes.data());
  if (offset > stack.bytes.size() || pdu.stack.bytes.size() > stack.bytes.size() - offset) return std::nullopt;
  return static_cast<std::uint32_t>(offset);
}

class Remark {
 public:
  explicit Remark(std::string& text) : text_(text) {}
  void add(std::string_view sentence) {
    if (!text_.empty()) text_ += "; ";
    text_ += sentence;
  }
  void original(std::string_view what, CrcCheck::Status status) {
    if (status != CrcCheck::Status::absent) add(fmt::format("original {}: {}", what, to_string(status)));
  }

 private:
  std::string& text_;
};

}  // namespace

void Anonymizer::replace_addresses(const HeaderInfo& header, Bytes original, MutableBytes copy, int nesting) {
  const std::uint8_t* from = original.data();
  for (const Field& field : header.fields) {
    if (!field.present_in(from)) continue;
    switch (field.display) {
      case Display::mac:
        if (field.width == 48) field.store(copy.data(), pseudonyms_.mac(field.load(from)));
        break;
      case Display::ipv4:
        if (field.width == 32) field.store(copy.data(), pseudonyms_.ipv4(static_cast<std::uint32_t>(field.load(from))));
        break;
      case Display::guid:
        if (field.width == 64) field.store(copy.data(), pseudonyms_.eui64(field.load(from)));
        break;
      case Display::ipv6:
        if (field.width == 128) {
          const auto pseudonym = pseudonyms_.ipv6(from + field.bit / 8);
          std::copy(pseudonym.begin(), pseudonym.end(), copy.begin() + field.bit / 8);
        }
        break;
      case Display::text:
        if (!field.is_constant && field.bit % 8 == 0 && field.width % 8 == 0)
          blank(copy, {field.bit / 8U, field.width / 8U});
        break;
      default: break;
    }
  }
  if (!header.parts || original.size() <= header.size || nesting == max_nesting) return;
  const Parts parts = header.parts(original);
  for (std::size_t i = 0; i < parts.count; ++i) {
    const Layer& part = parts.layers[i];
    if (part.offset > original.size() || part.length > original.size() - part.offset || part.length < part.header->size)
      continue;
    replace_addresses(*part.header, original.subspan(part.offset, part.length), copy.subspan(part.offset, part.length),
                      nesting + 1);
  }
}

// Replaces addresses in IPv4 route options, IPv6 routing headers and neighbor discovery options, which no field
// describes.
void Anonymizer::replace_option_addresses(const HeaderStack& stack, std::size_t index, MutableBytes copy) {
  const Layer& layer = stack.layers()[index];
  const Bytes original = stack.bytes_of(layer);
  const MutableBytes target = copy.subspan(layer.offset, layer.length);
  if (layer.header == &info<Ipv4>) {
    constexpr std::uint8_t record_route = 7, timestamp = 68, loose_route = 131, strict_route = 137;
    const Parts parts = Ipv4::parts(original);
    for (std::size_t i = 0; i < parts.count; ++i) {
      const Layer& option = parts.layers[i];
      const std::uint8_t type = original[option.offset];
      if (type == timestamp && option.length > 4) blank(target, {option.offset + 4, option.length - 4});
      if (type != record_route && type != loose_route && type != strict_route) continue;
      for (std::uint32_t at = option.offset + 3; at + 4 <= option.offset + option.length; at += 4)
        store_be(target.data() + at, 4, pseudonyms_.ipv4(static_cast<std::uint32_t>(load_be<4>(original.data() + at))));
    }
  } else if (layer.header == &info<NdOption>) {
    // These options may contain prefixes, name servers, or the packet that is redirected.
    blank(target, {NdOption::size, layer.length - static_cast<std::uint32_t>(NdOption::size)});
  } else if (layer.header == &info<Ipv6Extension>) {
    const Layer* before = index ? &stack.layers()[index - 1] : nullptr;
    const std::uint8_t announced =
        !before ? 0 : stack.bytes[before->offset + (before->header == &info<Ipv6> ? 6U : 0U)];
    if (announced != ip_protocol::routing) return;
    for (std::uint32_t at = 8; at + 16 <= layer.length; at += 16) {
      const auto pseudonym = pseudonyms_.ipv6(original.data() + at);
      std::copy(pseudonym.begin(), pseudonym.end(), target.begin() + at);
    }
  }
}

// Returns whether the payload is part of an iWARP byte stream, even if it contains no complete FPDU.
bool Anonymizer::is_stream(const tracking::Packet& packet) {
  const HeaderStack& stack = packet.stack;
  if (stack.wire == Wire::iwarp) return true;
  if (stack.network == HeaderStack::none || stack.transport == HeaderStack::none) return false;
  const Layer& tcp = stack.layers()[stack.transport];
  const Layer& ip = stack.layers()[stack.network];
  if (tcp.header != &info<Tcp>) return false;
  // Add the hashes of both endpoints, so that the result is the same in both directions.
  const bool v4 = ip.header == &info<Ipv4>;
  const std::uint32_t length = v4 ? 4 : 16, at = ip.offset + (v4 ? 12U : 8U);
  std::uint64_t connection = 0;
  for (std::uint32_t end = 0; end < 2; ++end) {
    std::uint8_t message[18];
    std::copy_n(stack.bytes.data() + at + end * length, length, message);
    std::copy_n(stack.bytes.data() + tcp.offset + end * 2, 2, message + length);
    connection += siphash({1, 2}, Bytes(message, length + 2));
  }
  constexpr std::size_t most = 1 << 16;
  if (packet.pdus.empty()) return streams_.contains(connection);
  if (streams_.size() >= most) streams_.clear();
  streams_.insert(connection);
  return true;
}

void Anonymizer::anonymize(const tracking::Packet& packet, std::vector<std::uint8_t>& bytes, std::string& remark) {
  const HeaderStack& stack = packet.stack;
  bytes.assign(stack.bytes.begin(), stack.bytes.end());
  remark.clear();
  Remark remarks(remark);
  const std::vector<Checksum> checksums = checksums_of(stack);
  const bool has_fcs = packet.link == LinkType::ethernet && ends_with_fcs(stack.bytes);

  remarks.original("ICRC", packet.icrc.status);
  remarks.original("VCRC", packet.vcrc.status);
  for (const tracking::Pdu& pdu : packet.pdus) remarks.original("MPA CRC", pdu.crc.status);
  for (const Checksum& checksum : checksums)
    if (checksum.status == CrcCheck::Status::bad) remarks.original(checksum.name, checksum.status);

  for (std::size_t i = 0; i < stack.layers().size(); ++i) {
    const Layer& layer = stack.layers()[i];
    replace_addresses(*layer.header, stack.bytes_of(layer), MutableBytes(bytes).subspan(layer.offset, layer.length), 0);
    replace_option_addresses(stack, i, bytes);
  }
  for (const Range& gap : unclaimed(stack)) blank(bytes, gap);

  // FPDUs of a byte stream have their own layers and payload, inside the packet's payload.
  const bool stream = is_stream(packet);
  // The payload of IPoIB is application data, as on any other link.
  const bool rdma = stream || (stack.wire != Wire::none && !stack.find(info<Ipoib>));
  if (!rdma && stack.payload.length) {
    blank(bytes, stack.payload);
    remarks.add("payload blanked: not RDMA");
  } else if (!stream && stack.payload.length && is_management(stack)) {
    blank(bytes, stack.payload);
    remarks.add("payload blanked: unparsed management datagram");
  } else if (!stream && stack.payload.length && options_.blank_payload) {
    blank(bytes, stack.payload);
    remarks.add("payload blanked");
  } else if (!stream && stack.payload.length && !stack.findings().empty() && !stack.cut) {
    blank(bytes, stack.payload);
    remarks.add("payload blanked: malformed packet");
  } else if (stack.payload.length && !options_.blank_payload) {
    // Programs exchange their GIDs in payload.
    const Range at = stack.payload;
    if (pseudonyms_.replace_known(stack.bytes_of(at), MutableBytes(bytes).subspan(at.offset, at.length)) != 0) {
      remarks.add("addresses in the payload replaced");
      for (const tracking::Pdu& pdu : packet.pdus)
        if (pdu.crc.status != CrcCheck::Status::absent && !offset_in(stack, pdu))
          remarks.add("MPA CRC not recomputed: the FPDU spans packets or contains markers");
    }
  }

  if (stream) {
    // The payload of complete FPDUs is blanked separately. The other bytes are parts of FPDUs that continue in other
    // packets.
    std::vector<Range> units;
    for (const tracking::Pdu& pdu : packet.pdus) {
      const auto offset = offset_in(stack, pdu);
      if (!offset) {
        if (options_.blank_payload) remarks.add("MPA CRC not recomputed: the FPDU spans packets or contains markers");
        continue;
      }
      units.push_back(pdu.in_frame);
      for (const Layer& layer : pdu.stack.layers())
        replace_addresses(*layer.header, pdu.stack.bytes_of(layer),
                          MutableBytes(bytes).subspan(*offset + layer.offset, layer.length), 0);
      if (options_.blank_payload) blank(bytes, {*offset + pdu.stack.payload.offset, pdu.stack.payload.length});
    }
    if (options_.blank_payload && stack.payload.length) {
      std::sort(units.begin(), units.end(), [](Range a, Range b) { return a.offset < b.offset; });
      std::uint32_t at = stack.payload.offset;
      bool pieces = false;
      auto blank_until = [&](std::uint32_t end) {
        if (end <= at) return;
        pieces = true;
        blank(bytes, {at, end - at});
      };
      for (const Range& unit : units) {
        blank_until(std::min(unit.offset, stack.payload.end()));
        at = std::max(at, unit.end());
      }
      blank_until(stack.payload.end());
      remarks.add(pieces ? "payload blanked, including headers of partial FPDUs" : "payload blanked");
    }
  }

  // Recompute inner checksums first, because the outer ones cover them. The ICRC covers the checksums inside IPoIB, so
  // these are recomputed before the ICRC.
  const std::uint32_t transport_at = stack.icrc.length && stack.transport != HeaderStack::none
                                         ? stack.layers()[stack.transport].offset
                                         : static_cast<std::uint32_t>(bytes.size());
  auto recompute_checksums = [&](bool inside) {
    for (const Checksum& checksum : checksums)
      if ((checksum.at > transport_at) == inside) recompute(checksum, stack.bytes, bytes);
  };
  recompute_checksums(true);
  HeaderStack rewritten = stack;
  rewritten.bytes = bytes;
  for (const tracking::Pdu& pdu : packet.pdus) {
    const auto offset = offset_in(stack, pdu);
    const Range crc = pdu.stack.mpa_crc;
    if (!offset || crc.length == 0 || pdu.crc.status == CrcCheck::Status::absent) continue;
    store_be(bytes.data() + *offset + crc.offset, 4, compute_mpa_crc(Bytes(bytes).subspan(*offset, crc.offset)));
  }
  if (stack.icrc.length) {
    const CrcCheck icrc = check_icrc(rewritten);
    if (icrc.status == CrcCheck::Status::bad) store_be(bytes.data() + stack.icrc.offset, 4, icrc.computed);
    if (icrc.status == CrcCheck::Status::unverifiable)
      remarks.add("ICRC not recomputed: the packet is a fragment or truncated");
  }
  if (stack.vcrc.length) {
    const CrcCheck vcrc = check_vcrc(rewritten);
    if (vcrc.status == CrcCheck::Status::bad) store_be(bytes.data() + stack.vcrc.offset, 2, vcrc.computed);
  }
  recompute_checksums(false);
  if (has_fcs) {
    const std::size_t covered = bytes.size() - 4;
    store_be(bytes.data() + covered, 4, __builtin_bswap32(crc32(Bytes(bytes).first(covered))));
  }
}

}  // namespace rdmawire::captures
