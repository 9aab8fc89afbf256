// Fuzz target: a mapping file or, after a zero byte, assignments, one per line. Parsing returns a map or a printable
// error, and a parsed map must round-trip.

#include <algorithm>
#include <cstdlib>

#include "replay/rewrite/map_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rdmawire::replay;
  const std::string_view whole(reinterpret_cast<const char*>(data), size);
  const std::size_t zero = std::min(whole.find('\0'), size);
  auto map = read_flow_map(whole.substr(0, zero));
  if (!map) {
    if (map.error().empty()) std::abort();
    map.emplace();
    MappedConnection c;
    c.name = "c";
    c.at(Side::a).address.captured = PortAddress::of_ipv4(0x0a000002);
    c.at(Side::b).address.captured = PortAddress::of_ipv4(0x0a000003);
    c.at(Side::a).qp.captured = 0x12;
    c.at(Side::a).psn.captured = 5;
    c.at(Side::b).qp.captured = 0x11;
    c.at(Side::b).regions = {{{1, {}}, {4096, {}}, 100}};
    map->connections = {c};
  }
  for (std::size_t at = zero; at < size;) {
    const std::size_t end = std::min(whole.find('\n', ++at), size);
    if (at > size) break;
    if (const auto done = assign(*map, whole.substr(at, end - at)); !done && done.error().empty()) std::abort();
    at = end;
  }
  const auto again = read_flow_map(write_flow_map(*map));
  if (!again || !(*again == *map)) std::abort();
  return 0;
}
