// SPDX-License-Identifier: GPL-2.0-or-later
#include "dissectors/wireshark/tree.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "dissectors/output/json.hpp"
#include "dissectors/output/value.hpp"
#include "dissectors/protocol/icrc_cause.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/mac_control.hpp"
#include "dissectors/protocol/mrc.hpp"
#include "dissectors/protocol/opcode.hpp"
#include "dissectors/tracking/transport_packet.hpp"
#include "dissectors/wireshark/analysis_tree.hpp"
#include "dissectors/wireshark/fields.hpp"

namespace rdmawire::wireshark {
namespace {

bool is_zero(const Field& field, const std::uint8_t* header) {
  if (field.is_number()) return field.load(header) == 0;
  const Bytes bytes = field.bytes(header);
  return std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t b) { return b == 0; });
}

/// Maps offsets of the stack to the tvb, which starts at stack offset `origin`.
struct Shown {
  tvbuff_t* tvb;
  Bytes bytes;
  int origin;

  [[nodiscard]] int at(std::uint32_t offset) const { return origin + static_cast<int>(offset); }
};

proto_item* add_field(proto_tree* tree, int id, const Field& field, const Shown& shown, std::uint32_t header_offset) {
  const std::uint8_t* header = shown.bytes.data() + header_offset;
  const int at = shown.at(header_offset + field.bit / 8U);
  const int length = (field.bit % 8 + field.width + 7) / 8;
  tvbuff_t* tvb = shown.tvb;
  const bool aligned = field.bit % 8 == 0 && field.width % 8 == 0;
  if (!field.is_number()) {
    const unsigned encoding = field.display == Display::text ? ENC_UTF_8 | ENC_NA : ENC_NA;
    return proto_tree_add_item(tree, id, tvb, at, length, encoding);
  }
  const std::uint64_t value = field.value(header);
  switch (field.display) {
    case Display::flag:
      if (!field.names) return proto_tree_add_boolean(tree, id, tvb, at, length, static_cast<guint32>(value));
      break;
    case Display::time: {
      const nstime_t time = nstime_of(static_cast<std::int64_t>(value));
      return proto_tree_add_time(tree, id, tvb, at, length, &time);
    }
    case Display::mac: {
      std::uint8_t bytes[8];
      store_be(bytes, 8, value);
      return proto_tree_add_ether(tree, id, tvb, at, length, bytes + 2);
    }
    case Display::ipv4: return proto_tree_add_ipv4(tree, id, tvb, at, length, g_htonl(static_cast<guint32>(value)));
    case Display::guid: return proto_tree_add_eui64(tree, id, tvb, at, length, value);
    case Display::text:
      if (aligned) return proto_tree_add_item(tree, id, tvb, at, length, ENC_UTF_8 | ENC_NA);
      return nullptr;
    case Display::bytes:
      if (aligned) return proto_tree_add_item(tree, id, tvb, at, length, ENC_NA);
      return nullptr;
    default: break;
  }
  if (field.width > 32 || field.is_decoded()) return proto_tree_add_uint64(tree, id, tvb, at, length, value);
  return proto_tree_add_uint(tree, id, tvb, at, length, static_cast<guint32>(value));
}

void add_layer(proto_tree* tree, const Shown& shown, const Layer& layer) {
  const HeaderInfo& header = *layer.header;
  const HeaderFields& ids = fields_of(header);
  proto_item* item =
      proto_tree_add_item(tree, ids.header, shown.tvb, shown.at(layer.offset), static_cast<int>(layer.length), ENC_NA);
  proto_tree* inside = proto_item_add_subtree(item, ids.tree);
  const std::uint8_t* at = shown.bytes.data() + layer.offset;
  std::array<proto_item*, HeaderValue::max_fields> items{};
  for (std::size_t i = 0; i < header.fields.size(); ++i) {
    const Field& field = header.fields[i];
    if (!field.present_in(at) || (field.is_reserved() && is_zero(field, at))) continue;
    proto_tree* where = inside;
    if (ids.whole[i] >= 0)
      if (proto_item* whole = items[static_cast<std::size_t>(ids.whole[i])])
        where = proto_item_add_subtree(whole, ids.tree);
    proto_item* one = add_field(where, ids.fields[i], field, shown, layer.offset);
    items[i] = one;
    const Name* name = field.names && field.is_number() ? field.names->find(field.value(at)) : nullptr;
    if (!name || name->meaning.empty() || !one || !PTREE_DATA(tree)->visible) continue;
    proto_item_append_text(one, ": %.*s", static_cast<int>(name->meaning.size()), name->meaning.data());
  }
  if (layer.length <= header.size) return;
  if (!header.tail.empty())
    proto_tree_add_item(inside, ids.tail, shown.tvb, shown.at(layer.offset + header.size),
                        static_cast<int>(layer.length - header.size), ENC_NA);
  if (!header.parts) return;
  const Bytes whole{at, layer.length};
  const Parts parts = header.parts(whole);
  for (std::size_t i = 0; i < parts.count; ++i) {
    Layer part = parts.layers[i];
    part.offset += layer.offset;
    add_layer(inside, shown, part);
  }
}

void add_range(proto_tree* tree, Own field, const Shown& shown, Range range) {
  if (range.length == 0 || range.end() > shown.bytes.size()) return;
  proto_tree_add_item(tree, field_id(field), shown.tvb, shown.at(range.offset), static_cast<int>(range.length), ENC_NA);
}

struct CrcFields {
  Own value, status, computed;
};

void add_crc(proto_tree* tree, const Shown& shown, Range range, const CrcCheck& check, const CrcFields& fields,
             std::optional<std::uint16_t> source_port = {}) {
  using enum CrcCheck::Status;
  if (check.status == absent) return;
  const bool there = range.length != 0 && range.end() <= shown.bytes.size();
  const int at = there ? shown.at(range.offset) : 0, length = there ? static_cast<int>(range.length) : 0;
  proto_tree* inside = tree;
  if (check.status != unverifiable) {
    proto_item* item = proto_tree_add_uint(tree, field_id(fields.value), shown.tvb, at, length, check.value);
    proto_item_append_text(item, check.status == good ? " [good]" : " [bad]");
    inside = proto_item_add_subtree(item, subtree_id(Subtree::crc));
  }
  proto_item_set_generated(
      proto_tree_add_uint(inside, field_id(fields.status), shown.tvb, at, length, static_cast<guint32>(check.status)));
  if (check.status == bad)
    proto_item_set_generated(
        proto_tree_add_uint(inside, field_id(fields.computed), shown.tvb, at, length, check.computed));
  if (source_port)
    proto_item_set_generated(
        proto_tree_add_uint(inside, field_id(Own::icrc_source_port), shown.tvb, at, length, *source_port));
}

/// True if Wireshark's own dissectors already show the header, which is below the RDMA transport.
bool is_lower(const HeaderStack& stack, std::size_t layer) {
  if (stack.transport == HeaderStack::none) return stack.wire == Wire::none;
  const HeaderInfo* transport = stack.layers()[stack.transport].header;
  // Our tree shows the PDUs of TCP.
  return is_base_transport(*transport) ? layer < stack.transport && stack.layers()[layer].header != &info<Lrh> &&
                                             stack.layers()[layer].header != &info<Grh>
                                       : layer <= stack.transport;
}

void add_finding(packet_info* pinfo, proto_tree* tree, const Shown& shown, const ParseError& finding,
                 std::uint32_t base) {
  const std::uint32_t offset =
      std::min<std::uint32_t>(base + finding.offset, static_cast<std::uint32_t>(shown.bytes.size()));
  proto_item* item = proto_tree_add_string_format(
      tree, field_id(Own::finding), shown.tvb, shown.at(offset), 0, finding.what.data(), "Finding: %s%s%.*s",
      finding.layer ? finding.layer->title.data() : "", finding.layer ? ": " : "",
      static_cast<int>(finding.what.size()), finding.what.data());
  proto_tree* inside = proto_item_add_subtree(item, subtree_id(Subtree::finding));
  proto_item_set_generated(proto_tree_add_uint(inside, field_id(Own::finding_kind), shown.tvb, shown.at(offset), 0,
                                               static_cast<guint32>(finding.kind)));
  proto_item_set_generated(proto_tree_add_uint(inside, field_id(Own::finding_offset), shown.tvb, shown.at(offset), 0,
                                               base + finding.offset));
  expert_add_info_format(pinfo, item, &expert_of(finding.kind), "%.*s", static_cast<int>(finding.what.size()),
                         finding.what.data());
}

void add_findings(packet_info* pinfo, proto_tree* tree, const Shown& shown, const HeaderStack& stack) {
  for (const ParseError& finding : stack.findings()) add_finding(pinfo, tree, shown, finding, 0);
  for (const Layer& layer : stack.layers()) {
    if (!layer.header->parts || layer.length == layer.header->size) continue;
    if (const Parts parts = layer.header->parts(stack.bytes_of(layer)); parts.error)
      add_finding(pinfo, tree, shown, *parts.error, layer.offset);
  }
}

void add_pdu(packet_info* pinfo, proto_tree* tree, tvbuff_t* frame, const Packet& packet, const tracking::Pdu& pdu) {
  const Bytes frame_bytes = packet.stack.bytes, bytes = pdu.stack.bytes;
  proto_item* item = proto_tree_add_item(tree, field_id(Own::pdu), frame, static_cast<int>(pdu.in_frame.offset),
                                         static_cast<int>(pdu.in_frame.length), ENC_NA);
  proto_tree* inside = proto_item_add_subtree(item, subtree_id(Subtree::pdu));
  const auto number = [&](Own field, std::uint32_t value) {
    proto_item_set_generated(proto_tree_add_uint(inside, field_id(field), frame, 0, 0, value));
  };
  number(Own::pdu_offset, pdu.in_frame.offset);
  number(Own::pdu_length, pdu.in_frame.length);
  proto_item_set_generated(
      proto_tree_add_boolean(inside, field_id(Own::pdu_reassembled), frame, 0, 0, pdu.reassembled));
  if (pdu.markers) number(Own::pdu_markers, pdu.markers);
  if (pdu.wrong_marker)
    proto_item_set_generated(proto_tree_add_boolean(inside, field_id(Own::pdu_wrong_marker), frame, 0, 0, 1));
  Shown shown{frame, bytes, 0};
  const bool in_frame =
      bytes.data() >= frame_bytes.data() && bytes.data() + bytes.size() <= frame_bytes.data() + frame_bytes.size();
  if (in_frame) {
    shown.origin = static_cast<int>(bytes.data() - frame_bytes.data());
  } else {
    auto* copy = static_cast<guint8*>(wmem_memdup(pinfo->pool, bytes.data(), bytes.size()));
    shown.tvb = tvb_new_child_real_data(frame, copy, static_cast<guint>(bytes.size()), static_cast<gint>(bytes.size()));
    add_new_data_source(pinfo, shown.tvb, "Reassembled PDU");
  }
  // If the payload of a PDU was not kept, only its headers are available.
  for (const Layer& layer : pdu.stack.layers())
    if (std::size_t{layer.offset} + layer.length <= bytes.size()) add_layer(inside, shown, layer);
  add_range(inside, Own::payload, shown, pdu.stack.payload);
  if (pdu.stack.get<Rdmap>()) number(Own::payload_length, message_bytes(pdu.stack).length);
  add_range(inside, Own::pad, shown, pdu.stack.pad);
  add_crc(inside, shown, pdu.stack.mpa_crc, pdu.crc, {Own::crc, Own::crc_status, Own::crc_computed});
  add_findings(pinfo, inside, shown, pdu.stack);
}

}  // namespace

bool concerns(const Packet& packet, bool is_iwarp) {
  return packet.stack.wire != Wire::none || is_iwarp || !packet.pdus.empty() ||
         packet.stack.find(info<MacControl>) != nullptr;
}

void show(tvbuff_t* tvb, packet_info* pinfo, proto_item* item, const Session& session, const Packet& packet,
          const FrameFacts& facts, const TreeOptions& options) {
  const HeaderStack& stack = packet.stack;
  const Shown shown{tvb, stack.bytes, 0};
  const bool is_iwarp = session.is_iwarp(packet.number) || !packet.pdus.empty();
  const Wire wire = is_iwarp ? Wire::iwarp : stack.wire;
  proto_tree* root = nullptr;
  if (item) {
    root = proto_item_add_subtree(item, subtree_id(Subtree::root));
    const auto bth = stack.get<Bth>();
    if (bth && PTREE_DATA(root)->visible) {
      const Opcode& op = opcode(bth->get<"opcode">());
      if (op.known) proto_item_append_text(item, ", %.*s", static_cast<int>(op.name.size()), op.name.data());
    }
    append_summary(item, facts);
    if (wire != Wire::none)
      proto_item_set_generated(proto_tree_add_uint(root, field_id(Own::wire), tvb, 0, 0, static_cast<guint32>(wire)));
  }
  // The analysis precedes the headers.
  show_analysis(tvb, pinfo, root, session, packet.number, facts);
  if (root) {
    for (std::size_t i = 0; i < stack.layers().size(); ++i)
      if (options.lower_layers || !is_lower(stack, i)) add_layer(root, shown, stack.layers()[i]);
    add_range(root, Own::payload, shown, packet.pdus.empty() && !is_iwarp ? stack.payload : Range{});
    if (tracking::TransportPacket transport; tracking::read_transport_packet(packet, transport))
      proto_item_set_generated(proto_tree_add_uint(root, field_id(Own::payload_length), tvb, 0, 0, transport.payload));
    add_range(root, Own::pad, shown, stack.pad);
    const bool bad = packet.icrc.status == CrcCheck::Status::bad;
    add_crc(root, shown, stack.icrc, packet.icrc, {Own::icrc, Own::icrc_status, Own::icrc_computed},
            bad ? source_port_for_icrc(stack) : std::nullopt);
    add_crc(root, shown, stack.vcrc, packet.vcrc, {Own::vcrc, Own::vcrc_status, Own::vcrc_computed});
    for (const tracking::Pdu& pdu : packet.pdus) add_pdu(pinfo, root, tvb, packet, pdu);
    if (packet.upper.protocol != Upper::unknown) {
      proto_item* upper =
          proto_tree_add_uint(root, field_id(Own::upper), tvb, 0, 0, static_cast<guint32>(packet.upper.protocol));
      proto_item_set_generated(upper);
      proto_tree* inside = proto_item_add_subtree(upper, subtree_id(Subtree::analysis));
      // Constant, zero-terminated sentences.
      proto_item_set_generated(
          proto_tree_add_string(inside, field_id(Own::upper_reason), tvb, 0, 0, packet.upper.reason.data()));
      if (packet.upper.frame != 0)
        proto_item_set_generated(proto_tree_add_uint(inside, field_id(Own::upper_frame), tvb, 0, 0,
                                                     static_cast<guint32>(packet.upper.frame)));
    }
    for (std::string_view note : packet.notes)
      proto_item_set_generated(proto_tree_add_string(root, field_id(Own::note), tvb, 0, 0, note.data()));
  }
  add_findings(pinfo, root, shown, stack);
}

}  // namespace rdmawire::wireshark
