#include "conformance/cases/iwarp/segment.hpp"

#include <fmt/format.h>

namespace rdmawire::conformance::iwarp {
namespace {

constexpr std::uint8_t version = 1;  // version of DDP and RDMAP

Frame control(RdmapOperation operation, bool tagged_buffer, bool last) {
  return Value<Fpdu>() / Value<Ddp>().set<"tagged">(tagged_buffer).set<"last">(last).set<"dv">(version) /
         Value<Rdmap>().set<"rv">(version).set<"opcode">(static_cast<std::uint8_t>(operation));
}

std::string name_of(RdmapOperation operation) {
  const RdmapOpcode& row = rdmap_opcode(operation);
  return row.known ? std::string(row.name) : fmt::format("opcode {}", static_cast<std::uint8_t>(operation));
}

Stimulus with_header(const Stimulus& plain, HeaderValue header, const std::string& words) {
  return plain.changed([&](Frame& frame) { frame /= std::move(header); }, words);
}

}  // namespace

Stimulus untagged(RdmapOperation operation, std::uint32_t qn, std::uint32_t msn, std::uint32_t mo,
                  const std::string& payload, bool last) {
  Frame frame = control(operation, false, last) / Value<DdpUntagged>().set<"qn">(qn).set<"msn">(msn).set<"mo">(mo);
  frame.payload.assign(payload.begin(), payload.end());
  std::string text = fmt::format("{}, MSN {}", name_of(operation), msn);
  if (mo != 0) text += fmt::format(", MO {}", mo);
  if (!payload.empty()) text += fmt::format(", {} bytes", payload.size());
  if (!last) text += ", not the last";
  return {std::move(frame), std::move(text)};
}

Stimulus tagged(RdmapOperation operation, std::uint32_t stag, std::uint64_t to, const std::string& payload, bool last) {
  Frame frame = control(operation, true, last) / Value<DdpTagged>().set<"stag">(stag).set<"to">(to);
  frame.payload.assign(payload.begin(), payload.end());
  return {std::move(frame), fmt::format("{}, {} bytes to STag {:#x}, TO {:#x}{}", name_of(operation), payload.size(),
                                        stag, to, last ? "" : ", not the last")};
}

Stimulus send(std::uint32_t msn, const std::string& payload) {
  return untagged(RdmapOperation::send, 0, msn, 0, payload);
}
Stimulus send_part(std::uint32_t msn, std::uint32_t mo, const std::string& payload, bool last) {
  return untagged(RdmapOperation::send, 0, msn, mo, payload, last);
}
Stimulus send_nowhere(std::uint32_t msn) { return send(msn).with<DdpUntagged, "qn">(7, "on QN 7"); }
Stimulus send_solicited(std::uint32_t msn, const std::string& payload) {
  return untagged(RdmapOperation::send_se, 0, msn, 0, payload);
}
Stimulus send_invalidate(std::uint32_t msn, std::uint32_t stag, const std::string& payload) {
  return untagged(RdmapOperation::send_invalidate, 0, msn, 0, payload)
      .with<DdpUntagged, "invalidate_stag">(stag, fmt::format("of STag {:#x}", stag));
}
Stimulus send_solicited_invalidate(std::uint32_t msn, std::uint32_t stag, const std::string& payload) {
  return untagged(RdmapOperation::send_se_invalidate, 0, msn, 0, payload)
      .with<DdpUntagged, "invalidate_stag">(stag, fmt::format("of STag {:#x}", stag));
}
Stimulus write(std::uint32_t stag, std::uint64_t to, const std::string& payload) {
  return tagged(RdmapOperation::rdma_write, stag, to, payload);
}
Stimulus write_part(std::uint32_t stag, std::uint64_t to, const std::string& payload, bool last) {
  return tagged(RdmapOperation::rdma_write, stag, to, payload, last);
}

Stimulus read_request(std::uint32_t msn, const Read& read) {
  return with_header(untagged(RdmapOperation::read_request, 1, msn, 0, {}),
                     Value<RdmapReadRequest>()
                         .set<"sink_stag">(read.sink_stag)
                         .set<"sink_to">(read.sink_to)
                         .set<"size">(read.size)
                         .set<"src_stag">(read.source_stag)
                         .set<"src_to">(read.source_to),
                     fmt::format("of {} bytes at STag {:#x}, TO {:#x}", read.size, read.source_stag, read.source_to));
}
Stimulus read_response(std::uint32_t stag, std::uint64_t to, const std::string& payload, bool last) {
  return tagged(RdmapOperation::read_response, stag, to, payload, last);
}

Stimulus immediate(std::uint32_t msn, std::uint64_t data, bool solicited) {
  return with_header(
      untagged(solicited ? RdmapOperation::immediate_data_se : RdmapOperation::immediate_data, 0, msn, 0, {}),
      Value<RdmapImmediateData>().set<"data">(data), fmt::format("{:#x}", data));
}
Stimulus atomic_request(std::uint32_t msn, const Atomic& atomic) {
  return with_header(untagged(RdmapOperation::atomic_request, 1, msn, 0, {}),
                     Value<RdmapAtomicRequest>()
                         .set<"operation">(atomic.operation)
                         .set<"request_id">(atomic.id)
                         .set<"stag">(atomic.stag)
                         .set<"to">(atomic.to)
                         .set<"add_swap_data">(atomic.data)
                         .set<"add_swap_mask">(atomic.mask)
                         .set<"compare_data">(atomic.compare)
                         .set<"compare_mask">(atomic.compare_mask),
                     fmt::format("operation {} at STag {:#x}, TO {:#x}", atomic.operation, atomic.stag, atomic.to));
}
Stimulus atomic_response(std::uint32_t msn, std::uint32_t id, std::uint64_t original) {
  return with_header(untagged(RdmapOperation::atomic_response, 3, msn, 0, {}),
                     Value<RdmapAtomicResponse>().set<"request_id">(id).set<"original">(original),
                     fmt::format("of request {:#x}", id));
}

Stimulus terminate(std::uint8_t layer, std::uint8_t type, std::uint8_t code) {
  return with_header(untagged(RdmapOperation::terminate, 2, 1, 0, {}),
                     Value<Terminate>().set<"layer">(layer).set<"etype">(type).set<"error_code">(code),
                     fmt::format("layer {}, type {}, code {:#x}", layer, type, code));
}

}  // namespace rdmawire::conformance::iwarp
