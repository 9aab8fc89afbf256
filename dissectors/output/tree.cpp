#include "dissectors/output/tree.hpp"

#include <algorithm>
#include <vector>

#include "dissectors/output/printable.hpp"
#include "dissectors/output/text_style.hpp"
#include "dissectors/protocol/icrc_cause.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/mad.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/rdmap.hpp"
#include "dissectors/protocol/registry.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::output {
namespace {

// Columns of the tree, relative to the indentation of a layer. If names or values are too long, the columns to their
// right move.
constexpr std::size_t offset_width = 5, name_column = 9, value_column = 32, value_width = 22;
constexpr std::size_t shown_bytes =
    32;  // maximum number of bytes that are shown of an uninterpreted field, or of the payload

std::size_t depth_of(const Field& field) {
  return static_cast<std::size_t>(std::count(field.name.begin(), field.name.end(), '.'));
}
/// Returns the last component of a part's name.
std::string_view label_of(const Field& field) { return field.name.substr(field.name.rfind('.') + 1); }

std::size_t value_column_of(const HeaderInfo& header) {
  std::size_t column = value_column;
  for (const Field& field : header.fields)
    column = std::max(column, name_column + 2 * depth_of(field) + label_of(field).size() + 2);
  return column;
}

bool is_zero(const Field& field, const std::uint8_t* header) {
  if (field.is_number()) return field.load(header) == 0;
  const Bytes bytes = field.bytes(header);
  return std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t b) { return b == 0; });
}

void append_some_bytes(std::string& out, Bytes bytes) {
  append_bytes(out, bytes.first(std::min(bytes.size(), shown_bytes)));
  if (bytes.size() > shown_bytes) out += "…";
}

class Tree {
 public:
  Tree(std::string& out, const TreeOptions& options) : page_(out, options.colors), options_(options) {}

  void packet(const tracking::Packet& packet, const PacketContext& context) {
    const HeaderStack& stack = packet.stack;
    page_.base(TextStyle::strong).with([&](std::string& out) {
      out += "Frame ";
      append_decimal(out, packet.number);
    });
    page_.base(TextStyle::plain);
    page_.with([&](std::string& out) {
      if (!context.file.empty()) out.append(" of ").append(context.file);
      out += "  ";
      append_date(out, packet.time_ns);
      out += " UTC  ";
      append_decimal(out, stack.wire_length);
      out += " bytes";
      if (stack.wire_length != stack.bytes.size()) {
        out += " (";
        append_decimal(out, stack.bytes.size());
        out += " captured)";
      }
      out.append("  ").append(link_name(packet));
      if (wire_of(packet) != Wire::none) out.append("  ").append(wire_name(wire_of(packet)));
    });
    page_.line();
    for (std::string_view comment : context.comments) remark("comment", comment, TextStyle::notice);
    layers(stack);
    crc("icrc", stack.icrc.offset, packet.icrc, 8);
    if (packet.icrc.status == CrcCheck::Status::bad)
      if (const IcrcCause cause = explain_icrc(stack); cause.kind != IcrcCause::Kind::unknown)
        remark("note", describe(cause), TextStyle::notice);
    crc("vcrc", stack.vcrc.offset, packet.vcrc, 4);
    if (stack.mpa_crc.length) crc("crc", stack.mpa_crc.offset, check_mpa_crc(stack), 8);
    for (std::size_t i = 0; i < packet.pdus.size(); ++i) pdu(packet.pdus[i], i + 1, packet.pdus.size());
    if (packet.upper.protocol != tracking::Upper::unknown) {
      scratch_ = tracking::to_string(packet.upper.protocol);
      scratch_.append(": ").append(packet.upper.reason).append(" (frame ");
      append_decimal(scratch_, packet.upper.frame);
      scratch_ += ')';
      remark("upper", scratch_, TextStyle::upper);
    }
    for (std::string_view note : packet.notes) remark("note", note, TextStyle::notice);
    findings(stack);
  }

 private:
  Page& margin(std::uint32_t offset) {
    scratch_.clear();
    append_decimal(scratch_, offset);
    const std::size_t right = indent_ + offset_width;
    page_.to(right - std::min(right, scratch_.size())).put(TextStyle::dim, scratch_).put("  ");
    return page_;
  }

  void layers(const HeaderStack& stack) {
    for (const Layer& one : stack.layers()) layer(stack.bytes, one, 0);
    piece("payload", stack, stack.payload);
    piece("pad", stack, stack.pad);
  }

  void layer(Bytes bytes, const Layer& layer, std::uint32_t base) {
    const HeaderInfo& header = *layer.header;
    const std::uint8_t* at = bytes.data() + layer.offset;
    const TextStyle ink = ink_of(header);
    margin(base + layer.offset);
    page_.put(ink, header.name).put("  ").put(header.title).put("  ");
    scratch_.clear();
    append_decimal(scratch_, layer.length);
    scratch_ += layer.length == 1 ? " byte" : " bytes";
    page_.put(TextStyle::dim, scratch_).line();
    const std::size_t values = indent_ + value_column_of(header);
    for (const Field& one : header.fields) field(one, at, values);
    const Bytes whole{at, layer.length};
    if (layer.length <= header.size) return;
    if (!header.tail.empty()) {
      page_.to(indent_ + name_column).put(header.tail).to(values);
      page_.with([&](std::string& out) { append_some_bytes(out, whole.subspan(header.size)); });
      page_.line();
    }
    if (!header.parts) return;
    const Parts parts = header.parts(whole);
    indent_ += 2;
    for (std::size_t i = 0; i < parts.count; ++i) this->layer(whole, parts.layers[i], base + layer.offset);
    indent_ -= 2;
    if (parts.error) {
      ParseError error = *parts.error;
      error.offset += base + layer.offset;
      finding(error);
    }
  }

  void field(const Field& field, const std::uint8_t* header, std::size_t column) {
    if (!field.present_in(header) || (field.is_reserved() && is_zero(field, header))) return;
    page_.to(indent_ + name_column + 2 * depth_of(field)).put(label_of(field)).to(column);
    const TextStyle ink = field.is_reserved() ? TextStyle::notice : TextStyle::strong;
    const Page::Mark before = page_.mark();
    page_.base(ink).with([&](std::string& out) {
      if (field.is_number() || field.display == Display::ipv6 || field.display == Display::text)
        append_value(out, field, header);
      else
        append_some_bytes(out, field.bytes(header));
    });
    const std::string_view value = page_.since(before);
    page_.base(TextStyle::plain);
    const Name* name = field.names && field.is_number() ? field.names->find(field.value(header)) : nullptr;
    if (name) {
      page_.to(column + value_width - 1).put(" ").put(name->name);
      if (options_.meanings && !name->meaning.empty())
        page_.put(TextStyle::dim, ": ").put(TextStyle::dim, name->meaning);
    } else if (options_.meanings && field.meaning != value) {
      page_.to(column + value_width - 1).put(" ").put(TextStyle::dim, field.meaning);
    }
    // If a protocol has no public specification, sources can disagree.
    if (field.section.find("unverified") != std::string_view::npos)
      page_.to(column + value_width - 1).put(" ").put(TextStyle::notice, "(unverified)");
    page_.line();
  }

  void piece(std::string_view name, const HeaderStack& stack, Range range) {
    if (range.length == 0) return;
    margin(range.offset).put(TextStyle::strong, name).put("  ");
    scratch_.clear();
    append_decimal(scratch_, range.length);
    scratch_ += range.length == 1 ? " byte" : " bytes";
    page_.put(TextStyle::dim, scratch_).to(indent_ + value_column - 1).put(" ");
    scratch_.clear();
    append_some_bytes(scratch_, stack.bytes_of(range));
    page_.put(TextStyle::dim, scratch_).line();
  }

  void crc(std::string_view name, std::uint32_t offset, const CrcCheck& check, unsigned digits) {
    using enum CrcCheck::Status;
    if (check.status == absent) return;
    if (check.status == unverifiable) {
      page_.to(indent_ + offset_width + 2);
    } else {
      margin(offset);
    }
    page_.put(TextStyle::strong, name).to(indent_ + value_column);
    if (check.status != unverifiable) {
      page_.with([&](std::string& out) { append_hex(out, check.value, digits); });
      page_.to(indent_ + value_column + value_width);
    }
    page_.put(check.status == good  ? TextStyle::good
              : check.status == bad ? TextStyle::bad
                                    : TextStyle::dim,
              to_string(check.status));
    if (check.status == bad) {
      page_.put(": computed value is ").with([&](std::string& out) { append_hex(out, check.computed, digits); });
    } else if (check.status == unverifiable) {
      page_.put(TextStyle::dim, ": not all covered bytes were captured");
    }
    page_.line();
  }

  void pdu(const tracking::Pdu& pdu, std::size_t number, std::size_t count) {
    margin(pdu.in_frame.offset);
    scratch_ = "PDU ";
    append_decimal(scratch_, number);
    scratch_ += " of ";
    append_decimal(scratch_, count);
    page_.put(TextStyle::strong, scratch_);
    scratch_ = "  ";
    append_decimal(scratch_, pdu.in_frame.length);
    scratch_ += " bytes of this frame";
    if (pdu.reassembled) {
      scratch_ += "; reassembled, ";
      append_decimal(scratch_, pdu.stack.bytes.size());
      scratch_ += " bytes in all";
    }
    page_.put(TextStyle::dim, scratch_).line();
    indent_ += 2;
    layers(pdu.stack);
    crc("crc", static_cast<std::uint32_t>(pdu.stack.bytes.size()) - 4, pdu.crc, 8);
    findings(pdu.stack);
    indent_ -= 2;
  }

  void remark(std::string_view what, std::string_view text, TextStyle ink) {
    page_.to(indent_ + offset_width + 2).put(ink, what).put("  ");
    page_.put(printable(text)).line();
  }

  void finding(const ParseError& finding) {
    page_.to(indent_ + offset_width).put("! ");
    scratch_ = to_string(finding.kind);
    scratch_ += ": ";
    scratch_ += to_string(finding);
    page_.put(finding.kind == ParseError::Kind::truncated ? TextStyle::notice : TextStyle::bad, scratch_).line();
  }
  void findings(const HeaderStack& stack) {
    for (const ParseError& one : stack.findings()) finding(one);
  }

  Page page_;
  TreeOptions options_;
  std::size_t indent_ = 0;
  std::string scratch_;
};

/// Properties of one byte in a hexdump.
struct Marked {
  enum Boundary : std::uint8_t { none, field, layer };
  struct Begin {
    std::uint32_t offset;
    std::string_view name;
  };
  std::vector<Boundary> boundary;
  std::vector<TextStyle> ink;
  std::vector<Begin> begins;

  explicit Marked(std::size_t size) : boundary(size, none), ink(size, TextStyle::payload) {}

  void piece(std::uint32_t offset, std::uint32_t length, std::string_view name, TextStyle color) {
    if (length == 0 || offset >= ink.size()) return;
    boundary[offset] = layer;
    begins.push_back({offset, name});
    const std::size_t end = std::min<std::size_t>(ink.size(), std::size_t{offset} + length);
    std::fill(ink.begin() + offset, ink.begin() + static_cast<std::ptrdiff_t>(end), color);
  }

  void stack(const HeaderStack& stack, std::uint32_t base) {
    for (const Layer& one : stack.layers()) {
      piece(base + one.offset, one.length, one.header->name, ink_of(*one.header));
      const std::uint8_t* header = stack.bytes.data() + one.offset;
      for (const Field& f : one.header->fields)
        if (f.bit % 8 == 0 && !f.is_part() && f.present_in(header)) begin_field(base + one.offset + f.bit / 8U);
      if (one.length > one.header->size) begin_field(base + one.offset + one.header->size);
    }
    piece(base + stack.payload.offset, stack.payload.length, "payload", TextStyle::payload);
    piece(base + stack.pad.offset, stack.pad.length, "pad", TextStyle::payload);
    piece(base + stack.mpa_crc.offset, stack.mpa_crc.length, "crc", TextStyle::notice);
  }

  void begin_field(std::uint32_t offset) {
    if (offset < boundary.size() && boundary[offset] == none) boundary[offset] = field;
  }
};

void dump(Page& page, Bytes bytes, Marked marked) {
  constexpr std::size_t byte_count = 16;
  std::stable_sort(marked.begins.begin(), marked.begins.end(),
                   [](const auto& a, const auto& b) { return a.offset < b.offset; });
  std::string scratch;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < bytes.size(); at += byte_count) {
    scratch.clear();
    append_hex(scratch, at, 4);
    page.put(TextStyle::dim, std::string_view(scratch).substr(2)).put(" ");
    const std::size_t count = std::min(byte_count, bytes.size() - at);
    for (std::size_t i = 0; i < byte_count; ++i) {
      if (i == byte_count / 2) page.put(" ");
      if (i >= count) {
        page.put("   ");
        continue;
      }
      static constexpr std::string_view marks[] = {" ", "·", "│"};
      const auto boundary = marked.boundary[at + i];
      page.put(boundary == Marked::none ? marked.ink[at + i] : TextStyle::dim, marks[boundary]);
      scratch.clear();
      append_bytes(scratch, bytes.subspan(at + i, 1));
      page.put(marked.ink[at + i], scratch);
    }
    page.put("  ");
    for (std::size_t i = 0; i < count; ++i) {
      const char c = static_cast<char>(bytes[at + i]);
      page.put(marked.ink[at + i], c >= 0x20 && c < 0x7f ? std::string_view(&c, 1) : std::string_view("."));
    }
    bool first = true;
    while (begin < marked.begins.size() && marked.begins[begin].offset < at + byte_count) {
      const Marked::Begin& one = marked.begins[begin++];
      if (first) page.to(5 + 1 + byte_count * 3 + 2 + byte_count + 2);
      if (!first) page.put(" ");
      first = false;
      page.put(marked.ink[one.offset], one.name);
    }
    page.line();
  }
}

}  // namespace

void append_tree(std::string& out, const tracking::Packet& packet, const PacketContext& context,
                 const TreeOptions& options) {
  Tree(out, options).packet(packet, context);
}

void append_hexdump(std::string& out, const tracking::Packet& packet, bool colors) {
  Page page(out, colors);
  const HeaderStack& stack = packet.stack;
  Marked marked(stack.bytes.size());
  marked.stack(stack, 0);
  marked.piece(stack.icrc.offset, stack.icrc.length, "icrc", TextStyle::notice);
  marked.piece(stack.vcrc.offset, stack.vcrc.length, "vcrc", TextStyle::notice);
  for (const tracking::Pdu& pdu : packet.pdus) {
    if (pdu.reassembled)
      marked.piece(pdu.in_frame.offset, pdu.in_frame.length, "pdu", TextStyle::rdma);
    else
      marked.stack(pdu.stack, pdu.in_frame.offset);
  }
  dump(page, stack.bytes, std::move(marked));
  for (const tracking::Pdu& pdu : packet.pdus) {
    if (!pdu.reassembled) continue;
    page.put(TextStyle::dim, "reassembled:").line();
    Marked own(pdu.stack.bytes.size());
    own.stack(pdu.stack, 0);
    dump(page, pdu.stack.bytes, std::move(own));
  }
}

TextStyle ink_of(const HeaderInfo& header) {
  // The registry lists most headers from the link layer up, so the position determines the style. Exceptions are LRH,
  // GRH and the headers of iWARP.
  const auto all = all_headers();
  const auto place = [&](const HeaderInfo& h) { return std::find(all.begin(), all.end(), &h) - all.begin(); };
  const auto here = place(header);
  if (here < place(info<Ipv4>)) return TextStyle::link;
  if (here < place(info<Udp>)) return TextStyle::network;
  if (here < place(info<Lrh>)) return TextStyle::transport;
  if (&header == &info<Lrh> || &header == &info<Grh>) return TextStyle::network;
  if (here < place(info<Mad>)) return TextStyle::rdma;
  if (here >= place(info<MpaFrame>) && here <= place(info<RdmapImmediateData>)) return TextStyle::rdma;
  return TextStyle::upper;
}

}  // namespace rdmawire::output
