#pragma once
/// Encodes errors as Terminate messages and decodes them. RFC 5040, 4.8 and 7.1, RFC 7306, 8.

#include <cstdint>
#include <optional>
#include <vector>

#include "dissectors/machines/ddp.hpp"
#include "dissectors/machines/rdmap.hpp"
#include "dissectors/protocol/encode.hpp"

namespace rdmawire::machines {

/// Which headers follow the control field of a Terminate.
struct TerminateIncludes {
  bool ddp_header = false;   ///< bits D and M: the segment length and the DDP header
  bool rdma_header = false;  ///< bit R: the header of the Read Request

  friend constexpr bool operator==(const TerminateIncludes&, const TerminateIncludes&) = default;
};

/// RFC 5040, figure 10. `cause` is the operation of the received message. If it is nullopt (because the header is
/// unreadable, for example), no headers follow.
constexpr TerminateIncludes includes(IwarpError error, std::optional<RdmapOperation> cause) {
  if (!cause || error.layer == terminate_layer::llp || error == iwarp_error::local_catastrophic) return {};
  const bool protection = error.layer == terminate_layer::rdma && error.type == iwarp_error::protection_rights.type;
  return {.ddp_header = true, .rdma_header = protection && *cause == RdmapOperation::read_request};
}

/// The segment that caused an error.
struct TerminateCause {
  Bytes segment{};                 ///< the ULPDU, from which the DDP header and the length are quoted
  std::uint32_t answered = 0;      ///< Read Requests: bytes of the response that were already sent
  std::optional<Bytes> request{};  ///< the Read Request header, if it is not in `segment`
};

/// Returns the bytes of a Terminate message after its DDP header. The quoted segment length includes the DDP header
/// (RFC 5041, 1.1). If a part of the response to a Read Request was already sent, its quoted header has the current
/// offsets.
inline std::vector<std::uint8_t> terminate_message(IwarpError error, const TerminateCause& cause) {
  const auto segment = read_segment(cause.segment);
  const TerminateIncludes quoted =
      includes(error, segment ? std::optional(operation_of(segment->control)) : std::optional<RdmapOperation>());
  const std::uint32_t header = segment ? ddp_header_bytes(segment->tagged) : 0;
  Bytes request =
      cause.request ? *cause.request : cause.segment.subspan(std::min<std::size_t>(header, cause.segment.size()));
  const bool with_request = quoted.rdma_header && request.size() >= RdmapReadRequest::size;
  const HeaderValue control = Value<Terminate>()
                                  .set<"layer">(error.layer)
                                  .set<"etype">(error.type)
                                  .set<"error_code">(error.code)
                                  .set<"segment_length_valid">(quoted.ddp_header)
                                  .set<"ddp_header_included">(quoted.ddp_header)
                                  .set<"rdma_header_included">(with_request);
  std::vector<std::uint8_t> message(control.bytes().begin(), control.bytes().end());
  const auto append = [&](Bytes bytes) { message.insert(message.end(), bytes.begin(), bytes.end()); };
  if (quoted.ddp_header) {
    append(Value<DdpSegmentLength>().set<"length">(cause.segment.size()).bytes());
    append(cause.segment.first(header));
  }
  if (with_request) {
    request = request.first(RdmapReadRequest::size);
    const View<RdmapReadRequest> asked(request.data());
    append(Value<RdmapReadRequest>()
               .set<"sink_stag">(asked.get<"sink_stag">())
               .set<"sink_to">(asked.get<"sink_to">() + cause.answered)
               .set<"size">(asked.get<"size">() - cause.answered)
               .set<"src_stag">(asked.get<"src_stag">())
               .set<"src_to">(asked.get<"src_to">() + cause.answered)
               .bytes());
  }
  return message;
}

/// Contents of a Terminate.
struct TerminateContents {
  IwarpError error{};
  bool length_valid = false, ddp_header = false, rdma_header = false;
};
/// Decodes a Terminate message. Returns nullopt if it is too short for its control field, or for the headers that this
/// field indicates.
inline std::optional<TerminateContents> read_terminate(Bytes message) {
  if (message.size() < Terminate::size) return std::nullopt;
  const View<Terminate> view(message.data());
  if (Terminate::parts(message).error) return std::nullopt;
  return TerminateContents{.error = {view.get<"layer">(), view.get<"etype">(), view.get<"error_code">()},
                           .length_valid = view.get<"segment_length_valid">() != 0,
                           .ddp_header = view.get<"ddp_header_included">() != 0,
                           .rdma_header = view.get<"rdma_header_included">() != 0};
}

}  // namespace rdmawire::machines
