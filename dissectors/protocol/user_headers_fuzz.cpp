// Decodes packets with headers that are defined at run time. Requirements: layers and payload are inside the packet,
// and the decoded packet encodes to the same bytes.

#include <cstdlib>

#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/protocol/user_headers.hpp"

namespace rdmawire {
namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

bool define() {
  const Field* const opcode = info<Bth>.find("opcode");
  const Field* const port = info<Udp>.find("dst_port");
  UserHeader key{.name = "key",
                 .type_name = "Key",
                 .fields = {{.name = "op", .width = 3},
                            {.name = "length", .width = 13, .counts = UserField::Counts::tail},
                            {.name = "size", .width = 16, .little_endian = true}},
                 .tail = "text",
                 .after = {}};
  for (std::uint64_t value = 0; value < 256; value += 4) key.after.push_back({&info<Bth>, {{opcode, value}}});
  key.after.push_back({&info<Udp>, {{port, 1}}});
  const auto made = define_header(std::move(key));
  require(made.has_value());
  UserHeader item{.name = "item",
                  .type_name = "Item",
                  .fields = {{.name = "next", .width = 8}, {.name = "address", .width = 32, .display = Display::ipv4}},
                  .after = {{*made, {{(*made)->find("op"), 1}}}}};
  const auto next = define_header(std::move(item));
  require(next.has_value());
  // A 64-bit counter, whose value can exceed the length of any packet.
  UserHeader wide{
      .name = "wide",
      .type_name = "Wide",
      .fields = {{.name = "length", .width = 64, .counts = UserField::Counts::tail},
                 {.name = "rest", .width = 64, .little_endian = true, .counts = UserField::Counts::payload}},
      .tail = "bytes",
      .after = {{&info<Bth>, {{opcode, 1}}}, {&info<Udp>, {{port, 2}}}, {*next, {{(*next)->find("next"), 2}}}}};
  require(define_header(std::move(wide)).has_value());
  return true;
}

}  // namespace
}  // namespace rdmawire

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rdmawire;
  static const bool defined = define();
  require(defined);
  if (size < 2) return 0;
  const Bytes bytes{data + 2, size - 2};
  HeaderStack stack;
  decode(stack, bytes, LinkType::ethernet, static_cast<std::uint32_t>(bytes.size()) + data[0]);
  if (data[1] & 1) stack = decode_transport(bytes, (data[1] & 2) != 0);
  const std::uint32_t end = stack.payload.end();
  decode_user_headers(stack);
  require(stack.payload.end() == end || stack.payload.length == 0);
  require(stack.payload.end() <= bytes.size());
  for (const Layer& layer : stack.layers()) require(layer.offset + layer.length <= bytes.size());
  const std::vector<std::uint8_t> again = Frame::of(stack).encode();
  require(again.size() == bytes.size() && std::equal(again.begin(), again.end(), bytes.begin()));
  return 0;
}
