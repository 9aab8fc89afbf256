#include "replay/reactive/ddp_segment.hpp"

#include <fmt/format.h>

#include "dissectors/protocol/ddp.hpp"

namespace rdmawire::replay::reactive {
namespace {

constexpr std::size_t control_bytes = Ddp::size + Rdmap::size;

}  // namespace

std::optional<DdpSegment> DdpSegment::of(Bytes ulpdu) {
  if (ulpdu.size() < control_bytes) return std::nullopt;
  DdpSegment segment;
  const View<Ddp> ddp(ulpdu.data());
  const RdmapOpcode& row = rdmap_opcode(View<Rdmap>(ulpdu.data() + Ddp::size).get<"opcode">());
  if (!row.known) return std::nullopt;
  segment.operation = static_cast<RdmapOperation>(row.value);
  segment.tagged = ddp.get<"tagged">() != 0;
  segment.last = ddp.get<"last">() != 0;
  std::size_t headers = control_bytes + (segment.tagged ? DdpTagged::size : DdpUntagged::size);
  if (ulpdu.size() < headers) return std::nullopt;
  if (segment.tagged) {
    const View<DdpTagged> view(ulpdu.data() + control_bytes);
    segment.stag = view.get<"stag">();
    segment.to = view.get<"to">();
  } else {
    const View<DdpUntagged> view(ulpdu.data() + control_bytes);
    segment.stag = view.get<"invalidate_stag">();
    segment.queue = view.get<"qn">();
    segment.msn = view.get<"msn">();
    segment.offset = view.get<"mo">();
  }
  const std::uint8_t* behind = ulpdu.data() + headers;
  if (segment.operation == RdmapOperation::read_request) {
    headers += RdmapReadRequest::size;
    if (ulpdu.size() < headers) return std::nullopt;
    const View<RdmapReadRequest> view(behind);
    segment.sink_stag = view.get<"sink_stag">();
    segment.sink_to = view.get<"sink_to">();
    segment.size = view.get<"size">();
    segment.source_stag = view.get<"src_stag">();
    segment.source_to = view.get<"src_to">();
  } else if (segment.operation == RdmapOperation::terminate) {
    headers += Terminate::size;
    if (ulpdu.size() < headers) return std::nullopt;
    const View<Terminate> view(behind);
    segment.layer = view.get<"layer">();
    segment.type = view.get<"etype">();
    segment.code = view.get<"error_code">();
  }
  segment.payload = ulpdu.subspan(headers);
  return segment;
}

std::string words_of(const DdpSegment& segment) {
  const std::string_view name = rdmap_opcode(segment.operation).name;
  if (segment.operation == RdmapOperation::terminate)
    return fmt::format("{}, layer {}, type {}, code {:#x}", name, segment.layer, segment.type, segment.code);
  if (segment.operation == RdmapOperation::read_request)
    return fmt::format("{} of {} bytes at STag {:#x}, TO {:#x}", name, segment.size, segment.source_stag,
                       segment.source_to);
  if (segment.tagged)
    return fmt::format("{}, {} bytes to STag {:#x}, TO {:#x}", name, segment.payload.size(), segment.stag, segment.to);
  return fmt::format("{}, MSN {}, MO {}, {} bytes", name, segment.msn, segment.offset, segment.payload.size());
}

void aim(MutableBytes ulpdu, std::uint32_t stag, std::uint64_t to) {
  if (ulpdu.size() < control_bytes + DdpTagged::size) return;
  store_be(ulpdu.data() + control_bytes, 4, stag);
  store_be(ulpdu.data() + control_bytes + 4, 8, to);
}

std::optional<tracking::MessageKind> kind_of(const DdpSegment& segment) {
  using tracking::MessageKind;
  switch (segment.operation) {
    case RdmapOperation::rdma_write: return MessageKind::write;
    case RdmapOperation::read_request: return MessageKind::read;
    case RdmapOperation::terminate: return MessageKind::terminate;
    case RdmapOperation::read_response:
    case RdmapOperation::atomic_response: return std::nullopt;
    case RdmapOperation::atomic_request:
    case RdmapOperation::immediate_data:
    case RdmapOperation::immediate_data_se: return MessageKind::other;
    default: return MessageKind::send;
  }
}

}  // namespace rdmawire::replay::reactive
