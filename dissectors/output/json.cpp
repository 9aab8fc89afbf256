#include "dissectors/output/json.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "dissectors/output/value.hpp"
#include "dissectors/protocol/icrc_cause.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/mpa.hpp"

namespace rdmawire::output {
namespace {

/// Returns the length of the UTF-8 character at `text`, or 0 if it is invalid.
std::size_t utf8_length(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  const std::size_t length = first < 0x80                    ? 1
                             : first >= 0xc2 && first < 0xe0 ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((at(i) & 0xc0) != 0x80) return 0;
  // Reject overlong forms, surrogates, and code points above U+10FFFF.
  if (first == 0xe0 && at(1) < 0xa0) return 0;
  if (first == 0xed && at(1) > 0x9f) return 0;
  if (first == 0xf0 && at(1) < 0x90) return 0;
  if (first == 0xf4 && at(1) > 0x8f) return 0;
  return length;
}

/// Output of a field, computed in advance.
struct FieldPlan {
  const Field* field;
  std::string key;                                           ///< "\"opcode\":"
  std::string name_key;                                      ///< ",\"opcode_name\":"
  bool is_text;                                              ///< the value is a quoted string
  std::vector<std::pair<std::uint64_t, std::string>> names;  ///< names in quotes, ascending by value

  explicit FieldPlan(const Field& f) : field(&f) {
    append_json_string(key, f.name);
    key += ':';
    switch (f.display) {
      case Display::decimal:
      case Display::hexadecimal:
      case Display::flag:
      case Display::time:
      case Display::reserved: is_text = !f.is_number(); break;
      default: is_text = true;
    }
    if (!f.names) return;
    name_key = ',';
    append_json_string(name_key, std::string(f.name) + "_name");
    name_key += ':';
    for (const Name& entry : f.names->entries) {
      names.emplace_back(entry.value, std::string());
      append_json_string(names.back().second, entry.name);
    }
    std::stable_sort(names.begin(), names.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  }

  [[nodiscard]] bool worth_writing(const std::uint8_t* header) const {
    if (!field->present_in(header)) return false;
    if (!field->is_reserved()) return true;
    if (field->is_number()) return field->load(header) != 0;
    const Bytes bytes = field->bytes(header);
    return std::any_of(bytes.begin(), bytes.end(), [](std::uint8_t b) { return b != 0; });
  }

  void write(std::string& out, const std::uint8_t* header) const {
    out += key;
    if (!is_text) {
      const std::uint64_t value = field->value(header);
      append_decimal(out, value);
      if (names.empty()) return;
      const auto found = std::lower_bound(names.begin(), names.end(), value,
                                          [](const auto& entry, std::uint64_t v) { return entry.first < v; });
      if (found == names.end() || found->first != value) return;
      out += name_key;
      out += found->second;
    } else if (field->display == Display::text) {
      std::uint8_t scratch[8];
      Bytes raw = field->bytes(header);
      if (field->bit % 8 != 0 || field->width % 8 != 0) {
        store_be(scratch, 8, field->load(header));
        raw = scratch;
      }
      const auto end = std::find(raw.begin(), raw.end(), std::uint8_t{0});
      append_json_string(out, {reinterpret_cast<const char*>(raw.data()), static_cast<std::size_t>(end - raw.begin())});
    } else {
      out += '"';
      append_value(out, *field, header);
      out += '"';
    }
  }
};

struct HeaderPlan {
  std::string begin;       ///< start of the layer: {"protocol":"bth","offset":
  std::string tail;        ///< key of the variable part: "\"options\":"
  std::string unverified;  ///< ,"unverified":["se"]: fields about which the sources disagree (empty: none)
  std::vector<FieldPlan> fields;

  explicit HeaderPlan(const HeaderInfo& header) {
    begin = "{\"protocol\":";
    append_json_string(begin, header.name);
    begin += ",\"offset\":";
    if (!header.tail.empty()) {
      append_json_string(tail, header.tail);
      tail += ':';
    }
    for (const Field& field : header.fields) {
      fields.emplace_back(field);
      if (field.section.find("unverified") == std::string_view::npos) continue;
      unverified += unverified.empty() ? ",\"unverified\":[" : ",";
      append_json_string(unverified, field.name);
    }
    if (!unverified.empty()) unverified += ']';
  }
};

}  // namespace

struct JsonWriter::Plans {
  std::unordered_map<const HeaderInfo*, HeaderPlan> by_header;

  const HeaderPlan& of(const HeaderInfo& header) {
    const auto found = by_header.find(&header);
    return found != by_header.end() ? found->second : by_header.emplace(&header, HeaderPlan(header)).first->second;
  }

  /// Writes a layer. layer.offset is relative to `bytes`. `base` is added to offsets in the output.
  void layer(std::string& out, Bytes bytes, const Layer& layer, std::uint32_t base = 0) {
    const HeaderInfo& header = *layer.header;
    const HeaderPlan& plan = of(header);
    const std::uint8_t* at = bytes.data() + layer.offset;
    out += plan.begin;
    append_decimal(out, base + layer.offset);
    out += ",\"length\":";
    append_decimal(out, layer.length);
    out += ",\"fields\":{";
    bool first = true;
    for (const FieldPlan& field : plan.fields) {
      if (!field.worth_writing(at)) continue;
      if (!first) out += ',';
      first = false;
      field.write(out, at);
    }
    if (!plan.tail.empty() && layer.length > header.size) {
      if (!first) out += ',';
      out += plan.tail;
      out += '"';
      append_bytes(out, {at + header.size, layer.length - header.size});
      out += '"';
    }
    out += '}';
    out += plan.unverified;
    if (header.parts && layer.length > header.size) {
      const Bytes whole{at, layer.length};
      const Parts parts = header.parts(whole);
      if (parts.count != 0) {
        out += ",\"parts\":[";
        for (std::size_t i = 0; i < parts.count; ++i) {
          if (i) out += ',';
          this->layer(out, whole, parts.layers[i], base + layer.offset);
        }
        out += ']';
      }
    }
    out += '}';
  }

  static void range(std::string& out, std::string_view key, Range range) {
    out += ",\"";
    out += key;
    out += "\":{\"offset\":";
    append_decimal(out, range.offset);
    out += ",\"length\":";
    append_decimal(out, range.length);
    out += '}';
  }

  /// Writes the result of a CRC check. `source_port` is the UDP source port that makes a bad ICRC valid.
  static void crc(std::string& out, std::string_view key, const CrcCheck& check, unsigned digits,
                  std::optional<std::uint16_t> source_port = {}) {
    using enum CrcCheck::Status;
    if (check.status == absent) return;
    out += ",\"";
    out += key;
    out += "\":{";
    if (check.status != unverifiable) {
      out += "\"value\":\"";
      append_hex(out, check.value, digits);
      out += "\",";
    }
    if (check.status == bad) {
      out += "\"computed\":\"";
      append_hex(out, check.computed, digits);
      out += "\",";
    }
    out += "\"status\":\"";
    out += to_string(check.status);
    out += '"';
    if (source_port) {
      out += ",\"source_port\":";
      append_decimal(out, *source_port);
    }
    out += '}';
  }

  /// Writes layers, payload and padding of a stack.
  void stack(std::string& out, const HeaderStack& stack) {
    out += ",\"layers\":[";
    bool first = true;
    for (const Layer& one : stack.layers()) {
      if (!first) out += ',';
      first = false;
      layer(out, stack.bytes, one);
    }
    out += ']';
    if (stack.payload.length) range(out, "payload", stack.payload);
    if (stack.pad.length) range(out, "pad", stack.pad);
  }

  static void finding(std::string& out, const ParseError& finding, std::uint32_t base = 0) {
    out += "{\"kind\":";
    append_json_string(out, to_string(finding.kind));
    if (finding.layer) {
      out += ",\"layer\":";
      append_json_string(out, finding.layer->name);
    }
    out += ",\"offset\":";
    append_decimal(out, base + finding.offset);
    if (finding.needed || finding.had) {
      out += ",\"needed\":";
      append_decimal(out, finding.needed);
      out += ",\"had\":";
      append_decimal(out, finding.had);
    }
    out += ",\"what\":";
    append_json_string(out, finding.what);
    out += '}';
  }

  /// Writes the findings of the stack and of headers in variable parts.
  static void findings(std::string& out, const HeaderStack& stack) {
    bool any = false;
    const auto begin = [&] {
      out += any ? "," : ",\"findings\":[";
      any = true;
    };
    for (const ParseError& one : stack.findings()) {
      begin();
      finding(out, one);
    }
    for (const Layer& layer : stack.layers()) {
      if (!layer.header->parts || layer.length == layer.header->size) continue;
      if (const Parts parts = layer.header->parts(stack.bytes_of(layer)); parts.error) {
        begin();
        finding(out, *parts.error, layer.offset);
      }
    }
    if (any) out += ']';
  }

  template <class Texts>
  static void texts(std::string& out, std::string_view key, const Texts& texts) {
    if (texts.empty()) return;
    out += ",\"";
    out += key;
    out += "\":[";
    bool first = true;
    for (std::string_view text : texts) {
      if (!first) out += ',';
      first = false;
      append_json_string(out, text);
    }
    out += ']';
  }
};

JsonWriter::JsonWriter() : plans_(std::make_unique<Plans>()) {}
JsonWriter::JsonWriter(JsonWriter&&) noexcept = default;
JsonWriter& JsonWriter::operator=(JsonWriter&&) noexcept = default;
JsonWriter::~JsonWriter() = default;

void JsonWriter::append(std::string& out, const tracking::Packet& packet, const PacketContext& context) {
  out += "{\"frame\":";
  append_decimal(out, packet.number);
  if (!context.file.empty()) {
    out += ",\"file\":";
    append_json_string(out, context.file);
  }
  out += ",\"time\":\"";
  append_seconds(out, packet.time_ns);
  out += "\",\"length\":";
  append_decimal(out, packet.stack.wire_length);
  out += ",\"captured\":";
  append_decimal(out, packet.stack.bytes.size());
  out += ",\"link\":\"";
  out += link_name(packet);
  out += '"';
  if (const std::string_view wire = wire_name(wire_of(packet)); !wire.empty()) {
    out += ",\"wire\":\"";
    out += wire;
    out += '"';
  }
  plans_->stack(out, packet.stack);
  const bool bad_icrc = packet.icrc.status == CrcCheck::Status::bad;
  Plans::crc(out, "icrc", packet.icrc, 8, bad_icrc ? source_port_for_icrc(packet.stack) : std::nullopt);
  Plans::crc(out, "vcrc", packet.vcrc, 4);
  if (!packet.pdus.empty()) {
    out += ",\"pdus\":[";
    for (const tracking::Pdu& pdu : packet.pdus) {
      out += out.back() == '[' ? "{\"offset\":" : ",{\"offset\":";
      append_decimal(out, pdu.in_frame.offset);
      out += ",\"length\":";
      append_decimal(out, pdu.in_frame.length);
      out += pdu.reassembled ? ",\"reassembled\":true" : ",\"reassembled\":false";
      if (pdu.markers) {
        out += ",\"markers\":";
        append_decimal(out, pdu.markers);
      }
      if (pdu.wrong_marker) out += ",\"wrong_marker\":true";
      plans_->stack(out, pdu.stack);
      Plans::crc(out, "crc", pdu.crc, 8);
      Plans::findings(out, pdu.stack);
      out += '}';
    }
    out += ']';
  }
  if (packet.upper.protocol != tracking::Upper::unknown) {
    out += ",\"upper\":{\"protocol\":";
    append_json_string(out, tracking::to_string(packet.upper.protocol));
    out += ",\"reason\":";
    append_json_string(out, packet.upper.reason);
    out += ",\"frame\":";
    append_decimal(out, packet.upper.frame);
    out += '}';
  }
  Plans::texts(out, "notes", packet.notes);
  Plans::findings(out, packet.stack);
  Plans::texts(out, "comments", context.comments);
  out += "}\n";
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const char c = text.front();
    std::size_t length = 1;
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      constexpr char digits[] = "0123456789abcdef";
      out += "\\u00";
      out += digits[c >> 4];
      out += digits[c & 15];
    } else if (static_cast<unsigned char>(c) < 0x80) {
      out += c;
    } else if (const std::size_t raw = utf8_length(text); raw != 0) {
      length = raw;
      out += text.substr(0, length);
    } else {
      out += "\\ufffd";
    }
    text.remove_prefix(length);
  }
  out += '"';
}

std::string link_name(LinkType link) {
  switch (link) {
    case LinkType::null_loopback: return "null_loopback";
    case LinkType::ethernet: return "ethernet";
    case LinkType::raw_ip: return "raw_ip";
    case LinkType::linux_sll: return "linux_sll";
    case LinkType::erf: return "erf";
    case LinkType::ipv4: return "ipv4";
    case LinkType::ipv6: return "ipv6";
    case LinkType::infiniband: return "infiniband";
    case LinkType::linux_sll2: return "linux_sll2";
  }
  return std::to_string(static_cast<unsigned>(link));
}

std::string link_name(const tracking::Packet& packet) {
  const auto layers = packet.stack.layers();
  const HeaderInfo* first = layers.empty() ? nullptr : layers.front().header;
  const bool inner = first == &info<Fpdu> || first == &info<MpaFrame> || first == &info<Bth>;
  return inner ? std::string(first->name) : link_name(packet.link);
}

Wire wire_of(const tracking::Packet& packet) {
  // The headers of a TCP segment do not indicate iWARP, but its PDUs do.
  return packet.stack.wire == Wire::none && !packet.pdus.empty() ? Wire::iwarp : packet.stack.wire;
}

std::string_view wire_name(Wire wire) {
  switch (wire) {
    case Wire::none: return {};
    case Wire::infiniband: return "infiniband";
    case Wire::roce_v1: return "roce_v1";
    case Wire::roce_v2: return "roce_v2";
    case Wire::iwarp: return "iwarp";
  }
  return {};
}

}  // namespace rdmawire::output
