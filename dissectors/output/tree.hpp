#pragma once
/// Formats a packet as a tree of layers and fields, and as a hexdump with the fields marked.

#include <cstdint>
#include <string>

#include "dissectors/output/json.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::output {

struct TreeOptions {
  bool colors = false;
  bool meanings = true;  ///< also show the meaning of each field
};

/// Appends the packet as a tree: offset and length of every layer. Value, name and meaning of every field, with
/// parts indented and reserved bits only if not zero, payload, padding and CRCs. The PDUs of a byte stream, upper
/// layer and reason, notes, findings, and comments of the capture.
void append_tree(std::string& out, const tracking::Packet& packet, const PacketContext& context = {},
                 const TreeOptions& options = {});

/// Appends a hexdump, 16 bytes per line: a bar marks the start of a layer, a dot the start of a field, and the
/// margin lists the layers that start in the line. Dumps of reassembled PDUs follow.
void append_hexdump(std::string& out, const tracking::Packet& packet, bool colors = false);

/// The color of a header's protocol.
enum class TextStyle : std::uint8_t;
TextStyle ink_of(const HeaderInfo& header);

}  // namespace rdmawire::output
