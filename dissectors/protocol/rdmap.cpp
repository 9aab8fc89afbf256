#include "dissectors/protocol/rdmap.hpp"

#include "dissectors/protocol/ddp.hpp"
#include "dissectors/protocol/encode.hpp"

namespace rdmawire {
namespace {

constexpr bool tagged = true, untagged = false, payload = true, no_payload = false;

// Columns: value, known, tagged, queue, payload, solicited event, invalidate, header, name.
constexpr std::array<RdmapOpcode, 16> rdmap_opcode_table{{
    {0, true, tagged, 0, payload, false, false, nullptr, "RDMA Write"},
    {1, true, untagged, 1, no_payload, false, false, &info<RdmapReadRequest>, "RDMA Read Request"},
    {2, true, tagged, 0, payload, false, false, nullptr, "RDMA Read Response"},
    {3, true, untagged, 0, payload, false, false, nullptr, "Send"},
    {4, true, untagged, 0, payload, false, true, nullptr, "Send with Invalidate"},
    {5, true, untagged, 0, payload, true, false, nullptr, "Send with SE"},
    {6, true, untagged, 0, payload, true, true, nullptr, "Send with SE and Invalidate"},
    {7, true, untagged, 2, no_payload, false, false, &info<Terminate>, "Terminate"},
    {8, true, untagged, 0, no_payload, false, false, &info<RdmapImmediateData>, "Immediate Data"},
    {9, true, untagged, 0, no_payload, true, false, &info<RdmapImmediateData>, "Immediate Data with SE"},
    {10, true, untagged, 1, no_payload, false, false, &info<RdmapAtomicRequest>, "Atomic Request"},
    {11, true, untagged, 3, no_payload, false, false, &info<RdmapAtomicResponse>, "Atomic Response"},
    {12, false, untagged, 0, no_payload, false, false, nullptr, {}},
    {13, false, untagged, 0, no_payload, false, false, nullptr, {}},
    {14, false, untagged, 0, no_payload, false, false, nullptr, {}},
    {15, false, untagged, 0, no_payload, false, false, nullptr, {}},
}};
constexpr std::size_t known_rdmap_opcodes = [] {
  std::size_t n = 0;
  for (const RdmapOpcode& o : rdmap_opcode_table) n += o.known;
  return n;
}();
constexpr auto rdmap_opcode_name_entries = [] {
  std::array<Name, known_rdmap_opcodes> entries{};
  std::size_t n = 0;
  for (const RdmapOpcode& o : rdmap_opcode_table)
    if (o.known) entries[n++] = {o.value, o.name, {}};
  return entries;
}();

}  // namespace

constinit const std::array<RdmapOpcode, 16> rdmap_opcodes = rdmap_opcode_table;
constinit const Names rdmap_opcode_names{"RDMAP opcode", rdmap_opcode_name_entries,
                                         "RFC 5040, 4.1, figure 4; RFC 7306, 4.1"};

Parts Terminate::parts(Bytes header) {
  Parts parts;
  std::uint32_t at = Terminate::size;
  const auto end = static_cast<std::uint32_t>(header.size());
  auto add = [&](const HeaderInfo& h) {
    if (parts.error) return false;
    if (end - at < h.size) {
      parts.error = ParseError::truncated(h, at, h.size, end - at);
      return false;
    }
    parts.add(h, at, h.size);
    at += h.size;
    return true;
  };
  const View<Terminate> terminate(header.data());
  // The length field always precedes the DDP header, even if the length is not valid.
  if (terminate.get<"segment_length_valid">() || terminate.get<"ddp_header_included">()) add(info<DdpSegmentLength>);
  if (terminate.get<"ddp_header_included">() && add(info<Ddp>)) {
    const bool is_tagged = View<Ddp>(header.data() + at - Ddp::size).get<"tagged">();
    if (add(info<Rdmap>)) add(is_tagged ? info<DdpTagged> : info<DdpUntagged>);
  }
  if (terminate.get<"rdma_header_included">()) add(info<RdmapReadRequest>);
  return parts;
}

void Rdmap::fill(FrameLayout& frame, std::size_t index) {
  HeaderValue& rdmap = frame.at(index);
  rdmap.fill("rv", 1);
  const HeaderInfo* model = frame.next(index);
  const HeaderInfo* header = model ? frame.next(index + 1) : nullptr;
  if (model == &info<DdpTagged>) {
    rdmap.fill("opcode", static_cast<std::uint8_t>(RdmapOperation::rdma_write));
    return;
  }
  for (const RdmapOpcode& op : rdmap_opcodes)
    if (op.known && !op.tagged && op.header == header) {
      rdmap.fill("opcode", op.value);
      return;
    }
  rdmap.fill("opcode", static_cast<std::uint8_t>(RdmapOperation::send));
}

}  // namespace rdmawire
