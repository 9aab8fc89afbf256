#pragma once
/// Visits the occurrences of a header in a packet, for filters and columns.

#include <cstdint>

#include "dissectors/tracking/packet.hpp"

namespace rdmawire::output {

inline constexpr int max_nesting = 4;  // maximum nesting of headers in variable parts

/// Calls visit(header) for each `header` in the variable part of `outer`, whose bytes are `bytes`. Stops when visit()
/// returns true, and then returns true.
template <class Visit>
bool each_part(const HeaderInfo& outer, Bytes bytes, const HeaderInfo* header, Visit visit, int nesting = 0) {
  const Parts parts = outer.parts(bytes);
  for (std::size_t i = 0; i < parts.count; ++i) {
    const Layer& part = parts.layers[i];
    if (part.offset > bytes.size() || part.length > bytes.size() - part.offset || part.length < part.header->size)
      continue;
    const Bytes inside = bytes.subspan(part.offset, part.length);
    if (part.header == header && visit(inside.data())) return true;
    if (part.header->parts && nesting < max_nesting && each_part(*part.header, inside, header, visit, nesting + 1))
      return true;
  }
  return false;
}

/// Like each_part(), for the layers of the stack from the link layer up.
template <class Visit>
bool each_layer(const HeaderStack& stack, const HeaderInfo* header, Visit visit) {
  for (const Layer& layer : stack.layers())
    if (layer.header == header && visit(stack.bytes.data() + layer.offset)) return true;
  return false;
}

/// Like each_part(), for the variable parts of all layers of the stack.
template <class Visit>
bool each_layer_of_parts(const HeaderStack& stack, const HeaderInfo* header, Visit visit) {
  for (const Layer& layer : stack.layers())
    if (layer.length > layer.header->size && layer.header->parts &&
        each_part(*layer.header, stack.bytes_of(layer), header, visit))
      return true;
  return false;
}

/// Like each_part(), for all occurrences: in the packet's stack, in the PDUs of a byte stream, and in their variable
/// parts.
template <class Visit>
bool each_occurrence(const tracking::Packet& packet, const HeaderInfo* header, Visit visit) {
  if (each_layer(packet.stack, header, visit)) return true;
  for (const tracking::Pdu& pdu : packet.pdus)
    if (each_layer(pdu.stack, header, visit)) return true;
  if (each_layer_of_parts(packet.stack, header, visit)) return true;
  for (const tracking::Pdu& pdu : packet.pdus)
    if (each_layer_of_parts(pdu.stack, header, visit)) return true;
  return false;
}

}  // namespace rdmawire::output
