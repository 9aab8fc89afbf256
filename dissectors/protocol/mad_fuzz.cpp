// Decodes arbitrary bytes as a management datagram. Requirements: decoding terminates, layers are consecutive inside
// the packet, and re-encoding returns the same bytes. The first byte can select a prefix with a valid class header.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/mad.hpp"

using namespace rdmawire;

namespace {
void require(bool condition) {
  if (!condition) std::abort();
}
constexpr std::array<std::array<std::uint8_t, 4>, 8> beginnings{{
    {1, management_class::subnet_lid, 1, mad_method::get_response},
    {1, management_class::subnet_directed, 1, mad_method::set},
    {1, management_class::subnet_lid, 1, mad_method::trap},
    {1, management_class::subnet_administration, 2, mad_method::get_response},
    {1, management_class::subnet_administration, 2, mad_method::get_table_response},
    {1, management_class::performance, 1, mad_method::get_response},
    {1, management_class::communication, 2, mad_method::send},
    {1, management_class::vendor_first, 1, mad_method::get},
}};
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  std::vector<std::uint8_t> packet = Frame(Value<Bth>().set<"opcode">(0x64).set<"dest_qp">(1) / Value<Deth>()).encode();
  packet.resize(Bth::size + Deth::size);  // without its ICRC
  const std::size_t choice = data[0] % (beginnings.size() + 1);
  if (choice < beginnings.size()) packet.insert(packet.end(), beginnings[choice].begin(), beginnings[choice].end());
  packet.insert(packet.end(), data + 1, data + size);
  if (data[0] & 0x80) packet.resize(Bth::size + Deth::size + Mad::whole);

  const HeaderStack stack = decode_transport(packet);
  std::size_t end = 0;
  for (const Layer& layer : stack.layers()) {
    require(layer.offset == end);
    require(layer.length >= layer.header->size);
    end = layer.offset + layer.length;
    require(end <= packet.size());
    const std::uint8_t* header = packet.data() + layer.offset;
    for (const Field& field : layer.header->fields)
      if (field.present_in(header) && field.is_number()) (void)field.value(header);
  }
  require(stack.payload.end() <= packet.size());
  require(stack.payload.offset == 0 || stack.payload.offset == end);
  for (const ParseError& finding : stack.findings()) require(!to_string(finding).empty());

  Frame frame = Frame::of(stack);
  require(frame.encode() == packet);
  frame.forget_computed();
  (void)frame.encode();
  return 0;
}
