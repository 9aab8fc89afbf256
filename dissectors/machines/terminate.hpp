#pragma once
/// From an error to the Terminate that tells it, bit by bit, and back. RFC 5040, 4.8 and 7.1; RFC 7306, 8.

#include <cstdint>
#include <optional>
#include <vector>

#include "dissectors/machines/ddp.hpp"
#include "dissectors/machines/rdmap.hpp"
#include "dissectors/protocol/encode.hpp"

namespace rdmawire::machines {

/// The headers that follow a Terminate's control.
struct TerminateIncludes {
  bool ddp_header = false;   ///< D and M: the segment's length, and its DDP header
  bool rdma_header = false;  ///< R: the Read Request's

  friend constexpr bool operator==(const TerminateIncludes&, const TerminateIncludes&) = default;
};

/// Figure 10. `cause`: the operation of the incoming message; nothing: the error has none, or its header could not be
/// read, and nothing follows.
constexpr TerminateIncludes includes(IwarpError error, std::optional<RdmapOperation> cause) {
  if (!cause || error.layer == terminate_layer::llp || error == iwarp_error::local_catastrophic) return {};
  const bool protection = error.layer == terminate_layer::rdma && error.type == iwarp_error::protection_rights.type;
  return {.ddp_header = true, .rdma_header = protection && *cause == RdmapOperation::read_request};
}

/// The segment that an error was found in.
struct TerminateCause {
  Bytes segment{};                 ///< the ULPDU: its DDP header is quoted, its length told
  std::uint32_t answered = 0;      ///< of a Read Request: bytes of the response that were sent
  std::optional<Bytes> request{};  ///< of an error found later than its segment came: the Read Request Header
};

/// The bytes of the Terminate message behind its DDP header. The segment's length counts its DDP header: it is a
/// segment's, and a segment has both (RFC 5041, 1.1). A Read Request that was answered in part is quoted with where it
/// stands.
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

/// What a Terminate says.
struct TerminateContents {
  IwarpError error{};
  bool length_valid = false, ddp_header = false, rdma_header = false;
};
/// Nothing: the message is too short for its control, or for the headers that it announces.
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
