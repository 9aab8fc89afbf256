#pragma once
/// A packet as a tree of its layers and fields, and as bytes with the fields marked.

#include <cstdint>
#include <string>

#include "dissectors/output/json.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::output {

struct TreeOptions {
  bool colors = false;
  bool meanings = true;  ///< what each field means, beside its value
};

/// Appends the packet, field by field: offset and length of every layer; value, name and meaning of every field; parts
/// indented below their whole; reserved bits only when they are not zero; payload, pad and CRCs; the PDUs of a byte
/// stream; upper layer and why; notes; findings; the capture's comments.
void append_tree(std::string& out, const tracking::Packet& packet, const PacketContext& context = {},
                 const TreeOptions& options = {});

/// Appends the packet's bytes, 16 a line: a bar where a layer begins, a dot where a field begins, and in the margin the
/// layers that begin in that line. Reassembled PDUs follow, each as a dump of its own.
void append_hexdump(std::string& out, const tracking::Packet& packet, bool colors = false);

/// The color of a header's family.
enum class TextStyle : std::uint8_t;
TextStyle ink_of(const HeaderInfo& header);

}  // namespace rdmawire::output
