#include "dissectors/output/filter_source.hpp"

#include <algorithm>
#include <bit>

#include "dissectors/output/edit_distance.hpp"
#include "dissectors/output/json.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/opcode.hpp"

namespace rdmawire::output {
namespace {

using tracking::Packet;
using tracking::Pdu;
using tracking::Upper;

template <class T>
constexpr std::uint64_t number_of(T value) {
  return static_cast<std::uint64_t>(value);
}

constexpr Name status_entries[] = {
    {number_of(CrcCheck::Status::good), "good", ""},
    {number_of(CrcCheck::Status::bad), "bad", ""},
    {number_of(CrcCheck::Status::unverifiable), "unverifiable",
     "the capture truncated the packet, or the packet is a fragment"},
};
constexpr Names status_names{"CRC status", status_entries, ""};

constexpr Name wire_entries[] = {
    {number_of(Wire::infiniband), "infiniband", ""},
    {number_of(Wire::roce_v1), "roce_v1", ""},
    {number_of(Wire::roce_v2), "roce_v2", ""},
    {number_of(Wire::iwarp), "iwarp", ""},
};
constexpr Names wire_names{"wire", wire_entries, ""};

// Each protocol has a short and a full name.
constexpr Name upper_entries[] = {
    {number_of(Upper::ipoib), "ipoib", ""},
    {number_of(Upper::nvme), "nvme", ""},
    {number_of(Upper::nvme), "NVMe over Fabrics", ""},
    {number_of(Upper::rpc_rdma), "rpc_rdma", ""},
    {number_of(Upper::rpc_rdma), "RPC-over-RDMA", ""},
    {number_of(Upper::iser), "iser", ""},
    {number_of(Upper::srp), "srp", ""},
    {number_of(Upper::smb_direct), "smb_direct", ""},
};
constexpr Names upper_names{"upper layer protocol", upper_entries, ""};

constexpr Name finding_entries[] = {
    {number_of(ParseError::Kind::truncated), "truncated", "the capture ends before the packet"},
    {number_of(ParseError::Kind::malformed), "malformed", "the packet contradicts itself"},
    {number_of(ParseError::Kind::unknown), "unknown", "a value that is not in the tables"},
    {number_of(ParseError::Kind::limit), "limit", "exceeds a limit of nesting or length"},
};
constexpr Names finding_names{"finding", finding_entries, ""};

constexpr Name direction_entries[] = {
    {number_of(Direction::request), "request", ""},
    {number_of(Direction::response), "response", ""},
};
constexpr Names direction_names{"opcode direction", direction_entries, ""};

// The names of transports, operations and positions come from the opcode table.
template <class Enum, std::size_t N>
struct NamesOf {
  std::array<Name, N> entries;
  Names names;
  NamesOf(std::string_view title, const std::array<Enum, N>& values)
      : entries{}, names{title, {}, "IBTA vol 1, 9.2.2"} {
    for (std::size_t i = 0; i < N; ++i) entries[i] = {number_of(values[i]), to_string(values[i]), {}};
    names.entries = entries;
  }
  NamesOf(const NamesOf&) = delete;
  NamesOf& operator=(const NamesOf&) = delete;
};
const Names& transport_names() {
  using enum Transport;
  static const NamesOf<Transport, 6> table("transport", {rc, uc, rd, ud, cnp, xrc});
  return table.names;
}
const Names& operation_names() {
  using enum Operation;
  static const NamesOf<Operation, 12> table(
      "operation", {send, rdma_write, rdma_read_request, rdma_read_response, acknowledge, atomic_acknowledge,
                    compare_swap, fetch_add, resync, flush, atomic_write, congestion_notification});
  return table.names;
}
const Names& position_names() {
  using enum Position;
  static const NamesOf<Position, 4> table("position", {first, middle, last, only});
  return table.names;
}

// Calls `take` for each BTH. A packet with a mirrored packet in a tunnel can contain several.
template <class Take>
bool each_opcode(const Packet& packet, Take take) {
  for (const Layer& layer : packet.stack.layers())
    if (layer.header == &info<Bth> && take(opcode(packet.stack.bytes[layer.offset]))) return true;
  return false;
}
template <class Take>
bool each_finding(const Packet& packet, Take take) {
  for (const ParseError& finding : packet.stack.findings())
    if (take(finding)) return true;
  for (const Pdu& pdu : packet.pdus)
    for (const ParseError& finding : pdu.stack.findings())
      if (take(finding)) return true;
  return false;
}
// Calls `take` for each payload. If the packet contains PDUs of a byte stream, these have the payload.
template <class Take>
bool each_payload(const Packet& packet, Take take) {
  if (packet.pdus.empty()) return packet.stack.payload.length && take(packet.stack.bytes_of(packet.stack.payload));
  for (const Pdu& pdu : packet.pdus)
    if (pdu.stack.payload.length && take(pdu.stack.bytes_of(pdu.stack.payload))) return true;
  return false;
}
bool exists(const CrcCheck& crc) { return crc.status != CrcCheck::Status::absent; }
bool readable(const CrcCheck& crc) {
  return crc.status == CrcCheck::Status::good || crc.status == CrcCheck::Status::bad;
}
template <class Take>
bool each_mpa_crc(const Packet& packet, Take take) {
  for (const Pdu& pdu : packet.pdus)
    if (exists(pdu.crc) && take(pdu.crc)) return true;
  return false;
}

using enum FilterType;
// The derived fields. A visitor of type `header` reports presence, and its number has no meaning.
const Derived derived[] = {
    {"frame", bytes, nullptr, "", "all captured bytes",
     [](const Packet& p, Occurrences to) { return to.bytes(p.stack.bytes); }},
    {"frame.number", number, nullptr, "frame.number", "number of the packet in the capture, from 1",
     [](const Packet& p, Occurrences to) { return to.number(p.number); }},
    {"frame.time", time, nullptr, "frame.time_epoch", "capture time: seconds since 1970, or a date in UTC",
     [](const Packet& p, Occurrences to) { return to.number(number_of(p.time_ns) ^ 1ULL << 63); }},
    {"frame.len", number, nullptr, "frame.len", "length on the wire in bytes",
     [](const Packet& p, Occurrences to) { return to.number(p.stack.wire_length); }},
    {"frame.cap_len", number, nullptr, "frame.cap_len", "captured bytes",
     [](const Packet& p, Occurrences to) { return to.number(p.stack.bytes.size()); }},
    {"frame.truncated", flag, nullptr, "", "the capture truncated the packet",
     [](const Packet& p, Occurrences to) { return to.number(p.stack.cut); }},
    {"frame.fragment", flag, nullptr, "", "the packet is a fragment of an IP datagram",
     [](const Packet& p, Occurrences to) { return to.number(p.stack.fragment); }},
    {"wire", number, &wire_names, "", "RDMA wire format of the packet",
     [](const Packet& p, Occurrences to) { return wire_of(p) != Wire::none && to.number(number_of(wire_of(p))); }},
    {"upper", number, &upper_names, "", "the upper layer protocol, if detected from the connection",
     [](const Packet& p, Occurrences to) {
       return p.upper.protocol != Upper::unknown && to.number(number_of(p.upper.protocol));
     }},
    {"opcode.transport", number, &transport_names(), "", "the transport of the BTH's opcode",
     [](const Packet& p, Occurrences to) {
       return each_opcode(p, [&](const Opcode& o) { return o.known && to.number(number_of(o.transport)); });
     }},
    {"opcode.operation", number, &operation_names(), "", "operation of the BTH's opcode",
     [](const Packet& p, Occurrences to) {
       return each_opcode(p, [&](const Opcode& o) { return o.known && to.number(number_of(o.operation)); });
     }},
    {"opcode.position", number, &position_names(), "", "position of the packet in its message",
     [](const Packet& p, Occurrences to) {
       return each_opcode(p, [&](const Opcode& o) { return o.known && to.number(number_of(o.position)); });
     }},
    {"opcode.direction", number, &direction_names, "", "request or response",
     [](const Packet& p, Occurrences to) {
       return each_opcode(p, [&](const Opcode& o) { return o.known && to.number(number_of(o.direction)); });
     }},
    {"payload", bytes, nullptr, "", "bytes after all headers (iWARP: in each PDU)",
     [](const Packet& p, Occurrences to) { return each_payload(p, [&](Bytes b) { return to.bytes(b); }); }},
    {"payload.length", number, nullptr, "", "length of the payload in bytes (0 if there is none)",
     [](const Packet& p, Occurrences to) {
       if (p.pdus.empty()) return to.number(p.stack.payload.length);
       for (const Pdu& pdu : p.pdus)
         if (to.number(pdu.stack.payload.length)) return true;
       return false;
     }},
    {"icrc", header, nullptr, "", "the packet has an ICRC, or should have one",
     [](const Packet& p, Occurrences to) { return exists(p.icrc) && to.number(1); }},
    {"icrc.status", number, &status_names, "", "result of the ICRC check",
     [](const Packet& p, Occurrences to) { return exists(p.icrc) && to.number(number_of(p.icrc.status)); }},
    {"icrc.value", number, nullptr, "infiniband.invariant.crc", "the ICRC in the packet",
     [](const Packet& p, Occurrences to) { return readable(p.icrc) && to.number(p.icrc.value); }},
    {"icrc.computed", number, nullptr, "", "the expected ICRC",
     [](const Packet& p, Occurrences to) { return readable(p.icrc) && to.number(p.icrc.computed); }},
    {"vcrc", header, nullptr, "", "the packet has a VCRC, or should have one",
     [](const Packet& p, Occurrences to) { return exists(p.vcrc) && to.number(1); }},
    {"vcrc.status", number, &status_names, "", "result of the VCRC check",
     [](const Packet& p, Occurrences to) { return exists(p.vcrc) && to.number(number_of(p.vcrc.status)); }},
    {"vcrc.value", number, nullptr, "infiniband.variant.crc", "the VCRC in the packet",
     [](const Packet& p, Occurrences to) { return readable(p.vcrc) && to.number(p.vcrc.value); }},
    {"vcrc.computed", number, nullptr, "", "the expected VCRC",
     [](const Packet& p, Occurrences to) { return readable(p.vcrc) && to.number(p.vcrc.computed); }},
    {"fpdu.crc", header, nullptr, "", "an FPDU with a CRC ends in the packet",
     [](const Packet& p, Occurrences to) { return each_mpa_crc(p, [&](const CrcCheck&) { return to.number(1); }); }},
    {"fpdu.crc.status", number, &status_names, "", "result of an FPDU's CRC check",
     [](const Packet& p, Occurrences to) {
       return each_mpa_crc(p, [&](const CrcCheck& c) { return to.number(number_of(c.status)); });
     }},
    {"fpdu.crc.value", number, nullptr, "iwarp_mpa.crc", "the CRC in the FPDU",
     [](const Packet& p, Occurrences to) {
       return each_mpa_crc(p, [&](const CrcCheck& c) { return readable(c) && to.number(c.value); });
     }},
    {"fpdu.crc.computed", number, nullptr, "", "the expected CRC",
     [](const Packet& p, Occurrences to) {
       return each_mpa_crc(p, [&](const CrcCheck& c) { return readable(c) && to.number(c.computed); });
     }},
    {"finding", header, nullptr, "", "a part of the packet could not be decoded, or contradicts itself",
     [](const Packet& p, Occurrences to) { return each_finding(p, [&](const ParseError&) { return to.number(1); }); }},
    {"finding.kind", number, &finding_names, "", "kind of the finding",
     [](const Packet& p, Occurrences to) {
       return each_finding(p, [&](const ParseError& f) { return to.number(number_of(f.kind)); });
     }},
    {"note", text, nullptr, "", "note about the packet's role in its connection, such as \"TCP retransmission\"",
     [](const Packet& p, Occurrences to) {
       for (std::string_view note : p.notes)
         if (to.bytes({reinterpret_cast<const std::uint8_t*>(note.data()), note.size()})) return true;
       return false;
     }},
};

constexpr std::size_t longest_name = 96;  // maximum length of names that are compared

// Returns the set of characters in `text` as a bit mask.
std::uint64_t characters(std::string_view text) {
  std::uint64_t bits = 0;
  for (char c : text) bits |= 1ULL << (static_cast<unsigned char>(c) & 63);
  return bits;
}

// Returns a lower bound of the edit distance between texts with these sets of characters.
std::size_t steps_between(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::size_t>(std::max(std::popcount(a & ~b), std::popcount(b & ~a)));
}

// Returns edit_distance(), but compares the sets of characters first, which rules out most names.
std::size_t distance(std::string_view a, std::string_view b, std::size_t limit) {
  if (steps_between(characters(a), characters(b)) > limit) return limit + 1;
  return edit_distance(a, b, limit);
}

std::string_view after_first_dot(std::string_view name) {
  const std::size_t dot = name.find('.');
  return dot == std::string_view::npos ? std::string_view{} : name.substr(dot + 1);
}

/// Collects the names that are closest to a given name.
class Nearest {
 public:
  explicit Nearest(std::size_t limit) : limit_(limit) {}
  void offer(std::string_view candidate, std::size_t score) {
    if (score > limit_) return;
    for (const auto& [s, name] : found_)
      if (name == candidate) return;
    found_.emplace_back(score, std::string(candidate));
  }
  /// Returns at most three candidates, best first. Omits candidates that need at least two edits more than the best
  /// one.
  [[nodiscard]] std::vector<std::string> best() {
    std::stable_sort(found_.begin(), found_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::string> names;
    for (const auto& [score, name] : found_) {
      if (names.size() == 3 || score > found_.front().first + 1) break;
      names.push_back(name);
    }
    return names;
  }

 private:
  std::size_t limit_;
  std::vector<std::pair<std::size_t, std::string>> found_;
};

}  // namespace

std::span<const Derived> derived_fields() { return derived; }

std::string_view describe(FilterType type) {
  switch (type) {
    case FilterType::header: return "no value, only presence";
    case FilterType::number: return "a number, decimal or with 0x";
    case FilterType::flag: return "true or false";
    case FilterType::duration: return "a time with its unit, such as 1.5ms (ns, us, ms, s)";
    case FilterType::time: return "seconds since 1970 or a date such as \"2026-11-21 07:53:37.5\" (UTC)";
    case FilterType::mac: return "a MAC address such as 52:54:00:00:00:02";
    case FilterType::ipv4: return "an IPv4 address or prefix";
    case FilterType::ipv6: return "an IPv6 address, a GID or a prefix";
    case FilterType::guid: return "a GUID such as 0002:c903:000e:0b72";
    case FilterType::bytes: return "bytes such as 0a:ff:10 or a \"text\"";
    case FilterType::text: return "a \"text\"";
  }
  return "?";
}

FilterType type_of(const Field& field) {
  const bool on_bytes = field.bit % 8 == 0 && field.width % 8 == 0;
  switch (field.display) {
    case Display::flag: return FilterType::flag;
    case Display::time: return FilterType::duration;
    case Display::mac:
      if (field.width == 48) return FilterType::mac;
      break;
    case Display::ipv4:
      if (field.width == 32) return FilterType::ipv4;
      break;
    case Display::guid:
      if (field.width == 64) return FilterType::guid;
      break;
    case Display::ipv6:
      if (field.width == 128) return FilterType::ipv6;
      break;
    case Display::text:
      if (on_bytes) return FilterType::text;
      break;
    case Display::bytes:
      if (on_bytes) return FilterType::bytes;
      break;
    case Display::decimal:
    case Display::hexadecimal:
    case Display::reserved: break;
  }
  return field.is_number() ? FilterType::number : FilterType::bytes;
}

Resolved resolve(std::string_view name) {
  Resolved found;
  if (FieldRef ref = find_field(name)) {
    found.refs.push_back(ref);
    // Wireshark can use one name in several headers: ip.version is a field of IPv4 and of IPv6.
    const auto aliases = ref.field->aliases();
    if (std::find(aliases.begin(), aliases.end(), name) != aliases.end())
      for (FieldRef other : find_wireshark(name))
        if (other.field != ref.field) found.refs.push_back(other);
    return found;
  }
  if (const HeaderInfo* header = find_header(name)) {
    found.refs.push_back({header, nullptr});
    return found;
  }
  for (const Derived& d : derived)
    if (d.name == name) {
      found.derived = &d;
      return found;
    }
  for (FieldRef ref : find_wireshark(name)) found.refs.push_back(ref);
  found.by_wireshark = true;
  if (found) return found;
  for (const Derived& d : derived)
    if (!d.wireshark.empty() && d.wireshark == name) {
      found.derived = &d;
      return found;
    }
  // A prefix of Wireshark's field names, such as "infiniband.aeth", matches every header that has a field with this
  // prefix.
  for (const HeaderInfo* header : all_headers())
    for (const Field& field : header->fields)
      if (const auto aliases = field.aliases();
          std::any_of(aliases.begin(), aliases.end(), [&](std::string_view alias) {
            return alias.size() > name.size() && alias.starts_with(name) && alias[name.size()] == '.';
          })) {
        found.refs.push_back({header, nullptr});
        break;
      }
  return found;
}

std::vector<std::string> nearest_names(std::string_view name) {
  if (name.size() > longest_name) return {};
  struct Candidate {
    std::string name;
    std::string plain;
    std::string_view field;    // the name after its first dot
    std::uint64_t characters;  // set of characters in the plain name
    bool wireshark;
  };
  static const auto candidates = [] {
    std::vector<Candidate> all;
    auto add = [&](std::string text, bool wireshark = false) {
      if (text.size() > longest_name) return;
      std::string plain = plain_name(text);
      const std::uint64_t set = characters(plain);
      all.push_back({std::move(text), std::move(plain), {}, set, wireshark});
    };
    for (const HeaderInfo* header : all_headers()) {
      add(std::string(header->name));
      for (const Field& field : header->fields) {
        add(std::string(header->name) + "." + std::string(field.name));
        for (const std::string_view alias : field.aliases()) add(std::string(alias), true);
      }
    }
    for (const Derived& d : derived) add(std::string(d.name));
    for (Candidate& candidate : all) candidate.field = after_first_dot(candidate.name);
    return all;
  }();

  const std::size_t limit = std::clamp<std::size_t>(name.size() / 3, 1, 3);
  Nearest nearest(limit);
  const std::string wanted = plain_name(name);
  const std::uint64_t wanted_characters = characters(wanted);
  const std::string_view wanted_field = after_first_dot(name);
  for (const Candidate& candidate : candidates) {
    if (candidate.wireshark && wanted_field.empty()) continue;
    // A correct field name after a wrong header name is a likely mistake, even if the header names differ much.
    const bool same_field = !wanted_field.empty() && wanted_field == candidate.field;
    if (!same_field && steps_between(wanted_characters, candidate.characters) > limit) continue;
    const std::size_t steps = distance(wanted, candidate.plain, limit);
    nearest.offer(candidate.name, same_field ? std::min<std::size_t>(steps, 1) : steps);
  }
  return nearest.best();
}

std::vector<std::string> nearest_entries(std::string_view name, const Names& names) {
  if (name.size() > longest_name) return {};
  const std::size_t limit = std::clamp<std::size_t>(name.size() / 3, 2, 4);
  Nearest nearest(limit);
  const std::string wanted = plain_name(name);
  for (const Name& entry : names.entries) {
    const std::string candidate = plain_name(entry.name);
    if (candidate.size() > longest_name) continue;
    // A candidate that contains the given text is also a good guess: "Access Error".
    const bool part = !wanted.empty() && candidate.find(wanted) != std::string::npos;
    nearest.offer(entry.name, part ? 1 : distance(wanted, candidate, limit));
  }
  return nearest.best();
}

std::string plain_name(std::string_view name) {
  std::string plain;
  for (char c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c != ' ' && c != '_' && c != '-') plain += c;
  }
  return plain;
}

}  // namespace rdmawire::output
