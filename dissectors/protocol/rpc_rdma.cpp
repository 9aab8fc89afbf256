#include "dissectors/protocol/rpc_rdma.hpp"

namespace rdmawire {
namespace {

/// Parses the variable part and calls `found(header, offset)` for each of its parts. Offsets are relative to the
/// start of the fixed header. Each step consumes bytes, so parsing ends even if a count is too large.
template <class Found>
RpcRdmaChunks walk(Bytes header, Found found) {
  using Status = RpcRdmaChunks::Status;
  std::uint32_t at = RpcRdma::size;
  const auto end = static_cast<std::uint32_t>(header.size());
  const auto stopped = [&](Status status) { return RpcRdmaChunks{status, at - std::uint32_t{RpcRdma::size}}; };
  const auto word = [&](std::uint32_t offset) {
    return static_cast<std::uint32_t>(load_be<4>(header.data() + offset));
  };
  // Reports a part of the size of `piece`. Returns false if the bytes end inside it.
  const auto take = [&](const HeaderInfo& piece) {
    if (end - at < piece.size) return false;
    found(piece, at);
    at += piece.size;
    return true;
  };
  // Result of reading the next "present" word.
  enum class More : std::uint8_t { no, yes, cut, malformed };
  const auto more = [&] {
    if (end - at < RpcRdmaEnd::size) return More::cut;
    const std::uint32_t present = word(at);
    return present == 0 ? More::no : present == 1 ? More::yes : More::malformed;
  };
  const auto status_of = [](More m) { return m == More::cut ? Status::cut : Status::malformed; };
  // Reports a chunk and its segments. Returns false if the bytes end inside it.
  const auto chunk = [&] {
    if (end - at < RpcRdmaChunk::size) return false;
    std::uint32_t segments = word(at + 4);
    take(info<RpcRdmaChunk>);
    for (; segments > 0; --segments)
      if (!take(info<RpcRdmaSegment>)) return false;
    return true;
  };

  switch (word(12)) {
    case rpc_rdma_procedure::msgp:
      if (!take(info<RpcRdmaPadding>)) return stopped(Status::cut);
      break;
    case rpc_rdma_procedure::msg:
    case rpc_rdma_procedure::nomsg: break;
    case rpc_rdma_procedure::error: {
      if (!take(info<RpcRdmaError>)) return stopped(Status::cut);
      constexpr std::uint32_t err_vers = 1;
      if (word(RpcRdma::size) == err_vers && !take(info<RpcRdmaVersions>)) return stopped(Status::cut);
      return stopped(Status::whole);
    }
    default: return stopped(Status::whole);
  }

  More next;
  while ((next = more()) == More::yes)
    if (!take(info<RpcRdmaRead>)) return stopped(Status::cut);
  if (next != More::no) return stopped(status_of(next));
  take(info<RpcRdmaEnd>);
  while ((next = more()) == More::yes)
    if (!chunk()) return stopped(Status::cut);
  if (next != More::no) return stopped(status_of(next));
  take(info<RpcRdmaEnd>);
  if ((next = more()) == More::yes) {
    if (!chunk()) return stopped(Status::cut);
  } else if (next == More::no) {
    take(info<RpcRdmaEnd>);
  } else {
    return stopped(status_of(next));
  }
  return stopped(Status::whole);
}

}  // namespace

RpcRdmaChunks read_chunks(Bytes header) {
  return walk(header, [](const HeaderInfo&, std::uint32_t) {});
}

Parts RpcRdma::parts(Bytes header) {
  Parts parts;
  if (header.size() <= RpcRdma::size) return parts;
  const RpcRdmaChunks chunks = walk(header, [&](const HeaderInfo& piece, std::uint32_t at) {
    if (!parts.add(piece, at, piece.size) && !parts.error)
      parts.error = ParseError{ParseError::Kind::limit, &piece, at, 0, 0, "too many chunks and segments"};
  });
  if (chunks.status != RpcRdmaChunks::Status::whole)
    parts.error =
        ParseError{ParseError::Kind::malformed, &info<RpcRdma>, std::uint32_t{RpcRdma::size} + chunks.bytes, 0, 0,
                   "the chunk lists do not end"};
  return parts;
}

}  // namespace rdmawire
