/// Transmission: one message after the other, each in DDP segments. RFC 5041, 5.2 and 5.3.

#include <algorithm>

#include "conformance/device/iwarp/stream.hpp"
#include "conformance/device/roce/local_memory.hpp"

namespace rdmawire::endpoint {

using machines::DdpPiece;
using machines::StreamState;

namespace {

/// Start the RTR indication. RFC 6581, 9.2.
bool begin_rtr(Stream& stream) {
  switch (stream.agreement.rtr) {
    case machines::Rtr::send: begin(stream, RdmapOperation::send, {}); return true;
    case machines::Rtr::write: stream.outgoing = Outgoing{.operation = RdmapOperation::rdma_write}; return true;
    case machines::Rtr::read: begin_read(stream, nullptr); return true;
    case machines::Rtr::none: break;
  }
  return false;
}

/// Read the bytes of an RDMA Read Response. Return false if the access is rejected and the stream has failed.
bool read_source(Stream& stream, const DdpPiece& piece, std::vector<std::uint8_t>& payload) {
  const Outgoing& out = *stream.outgoing;
  const View<RdmapReadRequest> request(out.answer->header.data());
  const std::uint64_t from = request.get<"src_to">() + out.done;
  const auto opened = stream.rnic.memory().open(stream.accessor(), request.get<"src_stag">(), from, piece.bytes,
                                                device::access::remote_read);
  const Bytes memory = opened.address ? Bytes(stream.rnic.memory().at(*opened.address, piece.bytes)) : Bytes();
  payload.assign(memory.begin(), memory.end());
  if (!memory.empty()) return true;
  const Outgoing ended = std::move(*stream.outgoing);
  stream.outgoing.reset();
  fail(stream, machines::protection_error(opened.decision.reason, from, piece.bytes),
       {.segment = ended.answer->segment,
        .answered = static_cast<std::uint32_t>(ended.done),
        .request = Bytes(ended.answer->header)});
  return false;
}

/// Return the payload of a segment, or nullopt if the stream has failed.
std::optional<std::vector<std::uint8_t>> payload_of(Stream& stream, const DdpPiece& piece) {
  const Outgoing& out = *stream.outgoing;
  std::vector<std::uint8_t> payload;
  if (piece.bytes == 0) return payload;
  if (out.answer) {
    if (!read_source(stream, piece, payload)) return std::nullopt;
  } else if (out.request) {
    if (gather(stream.rnic.memory(), stream.options.pd, *out.request, out.done, piece.bytes, payload) !=
        device::Status::success) {
      // The buffer was deregistered during the transmission, so the message cannot be finished.
      stream.outgoing.reset();
      fail(stream, machines::iwarp_error::local_catastrophic);
      return std::nullopt;
    }
  } else {
    const Bytes content = Bytes(out.content).subspan(piece.offset, piece.bytes);
    payload.assign(content.begin(), content.end());
  }
  return payload;
}

}  // namespace

void transmit(Stream& stream, std::size_t most) {
  if (stream.state == StreamState::closed || !stream.sender) return;
  if (stream.rnic.has_failed()) fail(stream, machines::iwarp_error::local_catastrophic);
  while (stream.waiting_bytes < most && !stream.reset) {
    if (!stream.outgoing && !choose_next(stream)) break;
    stream.decisions().transmit.send_segment(stream);
  }
  const bool nothing_waits = !stream.outgoing && !stream.terminate && stream.answers.empty();
  if (stream.closing && nothing_waits &&
      (stream.work.empty() || stream.phase == machines::MpaPhase::awaits_first_fpdu)) {
    stream.closing = false;
    apply(stream, machines::after(stream.state, machines::StreamEvent::consumer_closes), ConnectionEvent::Type::error,
          {});
  }
}

bool choose_next(Stream& stream) {
  if (stream.terminate) {
    const auto message = std::move(*stream.terminate);
    stream.terminate.reset();
    begin(stream, RdmapOperation::terminate, message);
    return true;
  }
  if (stream.state != StreamState::operating && stream.state != StreamState::peer_closed) return false;
  if (!stream.decisions().transmit.may_send(stream.phase)) return false;
  if (stream.rtr_waits) {
    stream.rtr_waits = false;
    if (begin_rtr(stream)) return true;
  }
  return choose_answer(stream) || choose_work(stream);
}

void begin(Stream& stream, RdmapOperation operation, std::vector<std::uint8_t> content,
           std::optional<std::uint64_t> work) {
  const std::uint32_t queue = stream.decisions().transmit.queue_of(operation);
  stream.outgoing =
      Outgoing{.operation = operation, .queue = queue, .msn = stream.msn[queue]++, .bytes = content.size()};
  stream.outgoing->content = std::move(content);
  stream.outgoing->work = work;
}

namespace conforming {

std::uint32_t first_msn() { return 1; }

bool may_send(machines::MpaPhase phase) { return machines::may_send_fpdus(phase); }

std::uint32_t queue_of(RdmapOperation operation) { return rdmap_opcode(operation).queue; }

void send_segment(Stream& stream) {
  const TransmitDecisions& decisions = stream.decisions().transmit;
  const Outgoing& out = *stream.outgoing;
  const std::uint32_t mulpdu = stream.decisions().fpdus.mulpdu(stream.options.emss, stream.agreement);
  const DdpPiece piece = machines::next_piece(out.done, out.bytes, mulpdu, rdmap_opcode(out.operation).tagged);
  const auto payload = payload_of(stream, piece);
  if (!payload) return;
  decisions.send_piece(stream, piece, *payload);
  stream.outgoing->done += piece.bytes;
  if (piece.last) decisions.end_message(stream);
}

void send_piece(Stream& stream, const DdpPiece& piece, Bytes payload) {
  std::vector<std::uint8_t> ulpdu = stream.decisions().transmit.header(stream, piece);
  ulpdu.insert(ulpdu.end(), payload.begin(), payload.end());
  stream.decisions().fpdus.send_ulpdu(stream, ulpdu, piece.last);
}

std::vector<std::uint8_t> segment_header(const Stream& stream, const DdpPiece& piece) {
  const Outgoing& out = *stream.outgoing;
  const bool tagged = rdmap_opcode(out.operation).tagged;
  std::vector<std::uint8_t> header;
  const auto append = [&](Bytes bytes) { header.insert(header.end(), bytes.begin(), bytes.end()); };
  append(Value<Ddp>().set<"tagged">(tagged).set<"last">(piece.last).set<"dv">(stream.agreement.version).bytes());
  append(
      Value<Rdmap>().set<"rv">(stream.agreement.version).set<"opcode">(static_cast<unsigned>(out.operation)).bytes());
  if (tagged)
    append(Value<DdpTagged>().set<"stag">(out.stag).set<"to">(out.to + piece.offset).bytes());
  else
    append(Value<DdpUntagged>()
               .set<"invalidate_stag">(out.stag)
               .set<"qn">(out.queue)
               .set<"msn">(out.msn)
               .set<"mo">(piece.offset)
               .bytes());
  return header;
}

void end_message(Stream& stream) {
  const Outgoing out = std::move(*stream.outgoing);
  stream.outgoing.reset();
  if (out.answer && stream.depth.serving != 0) --stream.depth.serving;
  if (!out.work) return;
  const auto work = std::ranges::find(stream.work, *out.work, &Work::number);
  if (work == stream.work.end() || work->done) return;
  ++work->sent;
  if (work->sent == work->parts && stream.decisions().requester.completes_when_sent(out.operation)) work->done = true;
  complete_sends(stream);
}

}  // namespace conforming

}  // namespace rdmawire::endpoint
