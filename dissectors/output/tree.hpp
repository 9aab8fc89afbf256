#pragma once
/// Formats a packet as a tree of layers and fields, and as a hexdump in which the fields are marked.

#include <cstdint>
#include <string>

#include "dissectors/output/json.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::output {

struct TreeOptions {
  bool colors = false;
  bool meanings = true;  ///< also show the meaning of each field
};

/// Appends the packet as a tree. It shows offset and length of every layer, then value, name and meaning of every
/// field. Parts are indented, and reserved bits are only shown if they are not zero. After the layers follow payload,
/// padding, CRCs, the PDUs of a byte stream, upper layer and reason, notes, findings, and comments of the capture.
void append_tree(std::string& out, const tracking::Packet& packet, const PacketContext& context = {},
                 const TreeOptions& options = {});

/// Appends a hexdump with 16 bytes per line. A bar marks the start of a layer, and a dot the start of a field. The
/// margin lists the layers that start in the line. Hexdumps of reassembled PDUs follow.
void append_hexdump(std::string& out, const tracking::Packet& packet, bool colors = false);

/// Returns the color of a header's protocol.
enum class TextStyle : std::uint8_t;
TextStyle ink_of(const HeaderInfo& header);

}  // namespace rdmawire::output
