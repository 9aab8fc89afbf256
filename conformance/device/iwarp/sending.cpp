#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "conformance/device/iwarp/endpoint.hpp"
#include "conformance/device/roce/local_memory.hpp"

namespace rdmawire::endpoint {

using device::WorkOpcode;
using machines::StreamState;
using enum Fault;

namespace {

constexpr bool is_atomic(WorkOpcode opcode) {
  return opcode == WorkOpcode::compare_swap || opcode == WorkOpcode::fetch_add;
}
constexpr bool has_immediate(WorkOpcode opcode) {
  return opcode == WorkOpcode::write_imm || opcode == WorkOpcode::send_imm;
}
constexpr bool is_of_iwarp(WorkOpcode opcode, bool extensions) {
  switch (opcode) {
    case WorkOpcode::write:
    case WorkOpcode::send:
    case WorkOpcode::send_inv:
    case WorkOpcode::read:
    case WorkOpcode::local_inv:
    case WorkOpcode::bind_mw:
    case WorkOpcode::reg_mr: return true;
    default: return extensions && (is_atomic(opcode) || has_immediate(opcode));
  }
}
std::uint64_t bytes_of(const device::SendRequest& request) {
  if (request.is_inline) return request.bytes.size();
  std::uint64_t sum = 0;
  for (const device::Sge& sge : request.sges) sum += sge.length;
  return sum;
}

}  // namespace

device::Result<void> Endpoint::post_send(device::SendRequest request) {
  const auto refuse = [](int number, std::string message) {
    return tl::unexpected(device::Error{number, std::move(message)});
  };
  if (!is_of_iwarp(request.opcode, stream_.rnic.options().extensions))
    return refuse(EINVAL, fmt::format("post_send: opcode {}: not supported by this endpoint",
                                      static_cast<unsigned>(request.opcode)));
  if (stream_.work.size() >= stream_.options.most_work)
    return refuse(ENOMEM, fmt::format("post_send: the send queue is full ({} requests)", stream_.work.size()));
  if (!machines::takes_fpdus(stream_.phase) && !stream_.end_reported && !machines::may_send_fpdus(stream_.phase))
    return refuse(EINVAL, "post_send: no connection");
  Work work{.number = stream_.next_work++, .request = std::move(request), .length = 0};
  device::SendRequest& posted = work.request;
  if (posted.opcode == WorkOpcode::read && (posted.is_inline || posted.sges.size() > 1))
    return refuse(EINVAL, "post_send: an RDMA Read requires one response buffer");
  if (is_atomic(posted.opcode) && (posted.sges.size() != 1 || posted.sges[0].length != 8))
    return refuse(EINVAL, "post_send: an atomic requires one response buffer of eight bytes");
  work.length = posted.opcode == WorkOpcode::send_imm ? 0 : bytes_of(posted);
  if (work.length > UINT32_MAX)
    return refuse(EINVAL, fmt::format("post_send: {} bytes: a message must be shorter than 2^32 bytes", work.length));
  if (posted.opcode == WorkOpcode::write_imm) work.parts = 2;
  if (posted.opcode == WorkOpcode::bind_mw) {
    const device::Window* window = stream_.rnic.memory().window(posted.window);
    if (window != nullptr && window->type == 1 && posted.new_key == 0)
      posted.new_key = stream_.rnic.memory().fresh_key();
  }
  if (stream_.state != StreamState::operating && stream_.state != StreamState::peer_closed) {
    work.done = true;
    work.status = device::Status::flushed;
  }
  stream_.work.push_back(std::move(work));
  complete_sends(stream_);
  return {};
}

std::uint32_t next_msn(Stream& stream, std::uint32_t queue) { return stream.msn[queue]++; }

void pump(Stream& stream, std::size_t most) {
  if (stream.state == StreamState::closed || !stream.sender) return;
  if (stream.rnic.is_dead()) fail(stream, machines::iwarp_error::local_catastrophic);
  while (stream.waiting_bytes < most && !stream.reset) {
    if (stream.terminate && stream.has(terminate_inside_message)) stream.outgoing.reset();
    if (!stream.outgoing && !choose_next(stream)) break;
    emit_piece(stream);
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
    begin(stream, RdmapOperation::terminate, stream.has(terminate_on_queue_0) ? 0 : 2, message);
    return true;
  }
  if (stream.state != StreamState::operating && stream.state != StreamState::peer_closed) return false;
  if (!machines::may_send_fpdus(stream.phase) && !stream.has(responder_sends_first)) return false;
  if (stream.rtr_waits) {
    stream.rtr_waits = false;
    switch (stream.agreement.rtr) {
      case machines::Rtr::send: begin(stream, RdmapOperation::send, 0, {}); return true;
      case machines::Rtr::write: stream.outgoing = Outgoing{.operation = RdmapOperation::rdma_write}; return true;
      case machines::Rtr::read: return begin_read(stream, nullptr);
      case machines::Rtr::none: break;
    }
  }
  return choose_answer(stream) || choose_work(stream);
}

bool choose_answer(Stream& stream) {
  while (!stream.answers.empty()) {
    const bool newest = stream.has(answers_newest_first);
    Answer answer = std::move(newest ? stream.answers.back() : stream.answers.front());
    newest ? stream.answers.pop_back() : stream.answers.pop_front();
    if (answer.atomic) return answer_atomic(stream, answer);
    const View<RdmapReadRequest> posted(answer.header.data());
    Outgoing out{.operation = RdmapOperation::read_response,
                 .stag = stream.has(response_to_source) ? posted.get<"src_stag">() : posted.get<"sink_stag">(),
                 .to = posted.get<"sink_to">(),
                 .bytes = posted.get<"size">()};
    out.answer = std::move(answer);
    stream.outgoing = std::move(out);
    return true;
  }
  return false;
}

bool answer_atomic(Stream& stream, const Answer& answer) {
  if (stream.depth.serving != 0) --stream.depth.serving;
  const View<RdmapAtomicRequest> posted(answer.header.data());
  const auto opened = stream.rnic.memory().open(stream.accessor(), posted.get<"stag">(), posted.get<"to">(), 8,
                                                device::access::remote_atomic);
  const MutableBytes memory = opened.address ? stream.rnic.memory().at(*opened.address, 8) : MutableBytes();
  if (memory.empty()) {
    fail(stream, machines::protection_error(opened.decision.reason, posted.get<"to">(), 8),
         {.segment = answer.segment});
    return stream.outgoing || choose_next(stream);
  }
  // Operands use the host byte order: RFC 7306, 5.1.
  std::uint64_t original = 0;
  std::memcpy(&original, memory.data(), 8);
  std::uint64_t value = 0;
  const std::uint64_t data = posted.get<"add_swap_data">(), mask = posted.get<"add_swap_mask">();
  if (posted.get<"operation">() == machines::atomic_compare_swap)
    value = machines::compare_swap(original, posted.get<"compare_data">(),
                                   stream.has(ignores_compare_mask) ? ~0ULL : posted.get<"compare_mask">(), data, mask);
  else
    value = stream.has(adds_without_carry)
                ? original ^ data
                : machines::fetch_add(original, data, stream.has(ignores_add_mask) ? 0 : mask);
  std::vector<std::uint8_t> bytes(8);
  std::memcpy(bytes.data(), &value, 8);
  stream.decisions().responder.write_atomic(stream, *opened.address, bytes);
  const auto response = Value<RdmapAtomicResponse>()
                            .set<"request_id">(posted.get<"request_id">() ^ (stream.has(changes_request_id) ? 1 : 0))
                            .set<"original">(original);
  begin(stream, RdmapOperation::atomic_response, stream.has(atomic_response_on_request_queue) ? 1 : 3,
        {response.bytes().begin(), response.bytes().end()});
  return true;
}

bool choose_work(Stream& stream) {
  for (std::size_t i = 0; i < stream.work.size(); ++i) {
    if (stream.work[i].done || stream.work[i].begun == stream.work[i].parts) continue;
    if (stream.has(sends_newest_first) && stream.work[i].begun == 0) i = stream.work.size() - 1;
    const std::uint64_t number = stream.work[i].number;
    const bool begun = begin_work(stream, stream.work[i]);
    if (stream.outgoing) return true;
    if (!begun || stream.state == StreamState::closed) return stream.terminate ? choose_next(stream) : false;
    // A local operation may also complete the preceding requests. Continue with the request after it.
    complete_sends(stream);
    i = 0;
    while (i < stream.work.size() && stream.work[i].number <= number) ++i;
    --i;
  }
  return false;
}

void fail_work(Stream& stream, Work& work, device::Status status) {
  work.done = true;
  work.status = status;
  fail(stream, machines::iwarp_error::local_catastrophic);
}

/// Return false if the request cannot start now or the stream has failed.
bool begin_work(Stream& stream, Work& work) {
  const device::SendRequest& request = work.request;
  const bool atomic = is_atomic(request.opcode), read = request.opcode == WorkOpcode::read;
  const bool counts = read || (atomic && !stream.has(atomics_outside_ord));
  auto depth = stream.depth;
  if (stream.has(exceeds_ord)) ++depth.ord;
  if (!machines::may_begin(depth, counts && work.begun == 0, request.fence && work.begun == 0)) {
    if (counts && stream.depth.ord == 0) fail_work(stream, work, device::Status::local_qp_operation);
    return false;
  }
  if (is_local(request.opcode)) {
    work.begun = work.sent = work.parts;
    work.done = true;
    work.status = execute_local(stream, request);
    if (work.status != device::Status::success) return fail_work(stream, work, work.status), false;
    return true;
  }
  const bool payload = work.length != 0 && !request.is_inline;
  if (payload &&
      check_local(stream.rnic.memory(), stream.options.pd, request.sges, read || atomic) != device::Status::success)
    return fail_work(stream, work, device::Status::local_protection), false;
  ++work.begun;
  if (read) return begin_read(stream, &work);
  if (atomic) return begin_atomic(stream, work);
  const bool immediate_first = stream.has(immediate_before_write);
  if (request.opcode == WorkOpcode::send_imm ||
      (request.opcode == WorkOpcode::write_imm && (work.begun == (immediate_first ? 1U : 2U)))) {
    const auto header = Value<RdmapImmediateData>().set<"data">(request.immediate_data);
    std::vector<std::uint8_t> content(header.bytes().begin(), header.bytes().end());
    if (stream.has(immediate_of_four_bytes)) content.resize(4);
    begin(stream, request.solicited ? RdmapOperation::immediate_data_se : RdmapOperation::immediate_data, 0,
          std::move(content), work.number);
    return true;
  }
  if (request.opcode == WorkOpcode::write || request.opcode == WorkOpcode::write_imm) {
    begin_payload(stream, work, RdmapOperation::rdma_write);
    return true;
  }
  const bool solicited = request.solicited && !stream.has(solicited_as_plain);
  if (request.opcode == WorkOpcode::send_inv)
    begin_payload(stream, work, solicited ? RdmapOperation::send_se_invalidate : RdmapOperation::send_invalidate);
  else
    begin_payload(stream, work, solicited ? RdmapOperation::send_se : RdmapOperation::send);
  return true;
}

void begin(Stream& stream, RdmapOperation operation, std::uint32_t queue, std::vector<std::uint8_t> content,
           std::optional<std::uint64_t> work) {
  stream.outgoing =
      Outgoing{.operation = operation, .queue = queue, .msn = next_msn(stream, queue), .bytes = content.size()};
  stream.outgoing->content = std::move(content);
  stream.outgoing->work = work;
}

void begin_payload(Stream& stream, Work& work, RdmapOperation operation) {
  const bool tagged = rdmap_opcode(operation).tagged;
  stream.outgoing = Outgoing{.operation = operation, .bytes = work.length};
  if (tagged) {
    stream.outgoing->stag = work.request.rkey;
    stream.outgoing->to = work.request.remote_address;
  } else {
    stream.outgoing->msn = next_msn(stream, 0);
    stream.outgoing->stag = rdmap_opcode(operation).invalidate ? work.request.immediate : 0;
  }
  stream.outgoing->request = work.request;
  stream.outgoing->work = work.number;
}

bool begin_read(Stream& stream, Work* work) {
  Requested requested;
  device::SendRequest none;
  const device::SendRequest& request = work ? work->request : none;
  if (work) requested.work = work->number;
  if (!request.sges.empty()) {
    requested.sges = request.sges;
    requested.sink = {.stag = request.sges[0].lkey, .to = request.sges[0].address, .bytes = request.sges[0].length};
  }
  const auto header = Value<RdmapReadRequest>()
                          .set<"sink_stag">(requested.sink.stag)
                          .set<"sink_to">(requested.sink.to)
                          .set<"size">(requested.sink.bytes)
                          .set<"src_stag">(request.rkey)
                          .set<"src_to">(request.remote_address);
  ++stream.depth.outstanding;
  stream.requested.push_back(std::move(requested));
  begin(stream, RdmapOperation::read_request, 1, {header.bytes().begin(), header.bytes().end()},
        stream.requested.back().work);
  return true;
}

bool begin_atomic(Stream& stream, Work& work) {
  const device::SendRequest& request = work.request;
  const bool swaps = request.opcode == WorkOpcode::compare_swap;
  Requested requested{.work = work.number,
                      .atomic = true,
                      .counts = !stream.has(atomics_outside_ord),
                      .id = stream.rnic.random().bits(32)};
  requested.sges = request.sges;
  const auto header = Value<RdmapAtomicRequest>()
                          .set<"reserved">(stream.has(atomic_reserved_bits) ? 1 : 0)
                          .set<"operation">(swaps ? machines::atomic_compare_swap : machines::atomic_fetch_add)
                          .set<"request_id">(requested.id)
                          .set<"stag">(request.rkey)
                          .set<"to">(request.remote_address)
                          .set<"add_swap_data">(request.swap_add)
                          .set<"add_swap_mask">(request.swap_add_mask)
                          .set<"compare_data">(swaps ? request.compare : 0)
                          .set<"compare_mask">(swaps ? request.compare_mask : ~0ULL);
  if (requested.counts) ++stream.depth.outstanding;
  stream.requested.push_back(std::move(requested));
  begin(stream, RdmapOperation::atomic_request, 1, {header.bytes().begin(), header.bytes().end()}, work.number);
  return true;
}

device::Status execute_local(Stream& stream, const device::SendRequest& request) {
  device::Memory& memory = stream.rnic.memory();
  if (request.opcode == WorkOpcode::local_inv) return memory.invalidate_local(request.rkey, stream.accessor());
  if (request.opcode == WorkOpcode::bind_mw) return memory.bind(request, stream.options.pd, stream.number);
  return memory.fast_register(request, stream.options.pd);
}

void emit_piece(Stream& stream) {
  Outgoing& out = *stream.outgoing;
  const bool tagged = rdmap_opcode(out.operation).tagged;
  machines::DdpPiece piece = machines::next_piece(
      out.done, out.bytes, stream.decisions().fpdus.mulpdu(stream.options.emss, stream.agreement), tagged);
  std::vector<std::uint8_t> payload;
  if (out.answer && piece.bytes != 0) {
    const View<RdmapReadRequest> posted(out.answer->header.data());
    const std::uint64_t from = posted.get<"src_to">() + out.done;
    const auto opened = stream.rnic.memory().open(stream.accessor(), posted.get<"src_stag">(), from, piece.bytes,
                                                  device::access::remote_read);
    const Bytes memory = opened.address ? Bytes(stream.rnic.memory().at(*opened.address, piece.bytes)) : Bytes();
    if (memory.empty()) {
      const Answer answer = std::move(*out.answer);
      const auto done = static_cast<std::uint32_t>(out.done);
      stream.outgoing.reset();
      return fail(stream, machines::protection_error(opened.decision.reason, from, piece.bytes),
                  {.segment = answer.segment,
                   .answered = stream.has(terminated_read_stands) ? 0 : done,
                   .request = Bytes(answer.header)});
    }
    payload.assign(memory.begin(), memory.end());
  } else if (out.request && piece.bytes != 0) {
    if (gather(stream.rnic.memory(), stream.options.pd, *out.request, out.done, piece.bytes, payload) !=
        device::Status::success) {
      // The buffer was deregistered during transmission: the message cannot be finished.
      stream.outgoing.reset();
      return fail(stream, machines::iwarp_error::local_catastrophic);
    }
  } else if (piece.bytes != 0) {
    const Bytes content = Bytes(out.content).subspan(piece.offset, piece.bytes);
    payload.assign(content.begin(), content.end());
  }
  const bool empty_twice = stream.has(empty_message_twice) && out.bytes == 0;
  if (empty_twice) {
    machines::DdpPiece first = piece;
    first.last = false;
    send_fpdu(stream, ulpdu_of(stream, first, payload, tagged));
  }
  const auto ulpdu = ulpdu_of(stream, piece, payload, tagged);
  stream.decisions().fpdus.send_ulpdu(stream, ulpdu, piece.last);
  out.done += piece.bytes;
  if (piece.last) end_message(stream);
}

void end_message(Stream& stream) {
  const Outgoing out = std::move(*stream.outgoing);
  stream.outgoing.reset();
  ++stream.messages_sent;
  if (out.answer && stream.depth.serving != 0) --stream.depth.serving;
  if (out.operation == RdmapOperation::terminate) {
    if (stream.has(terminates_twice) && stream.fin && stream.messages_sent < 1U << 31) {
      stream.messages_sent |= 1U << 31;
      stream.terminate = out.content;
    }
    if (stream.has(sends_after_terminate)) begin(stream, RdmapOperation::send, 0, {1, 2, 3, 4});
    return;
  }
  if (!out.work) return;
  const auto work = std::ranges::find(stream.work, *out.work, &Work::number);
  if (work == stream.work.end() || work->done) return;
  ++work->sent;
  const bool waits = out.operation == RdmapOperation::read_request || out.operation == RdmapOperation::atomic_request;
  if (work->sent == work->parts && (!waits || stream.has(completes_reads_early))) work->done = true;
  complete_sends(stream);
}

std::vector<std::uint8_t> ulpdu_of(Stream& stream, const machines::DdpPiece& piece, Bytes payload, bool tagged) {
  const Outgoing& out = *stream.outgoing;
  bool last = piece.last || stream.has(last_flag_everywhere);
  if (stream.has(write_without_end) && out.operation == RdmapOperation::rdma_write) last = false;
  if (stream.has(read_request_goes_on) && out.operation == RdmapOperation::read_request) last = false;
  const bool old =
      stream.has(sends_version_0) || (stream.has(extensions_of_version_0) && machines::is_extension(out.operation));
  const auto ddp =
      Value<Ddp>()
          .set<"tagged">(tagged)
          .set<"last">(last)
          .set<"reserved">(stream.has(sends_reserved_ddp_bits) ? 5 : 0)
          .set<"dv">(stream.has(changes_version) && stream.messages_sent != 0 ? 0 : stream.agreement.version);
  const auto rdmap =
      Value<Rdmap>().set<"rv">(old ? 0 : stream.agreement.version).set<"opcode">(static_cast<unsigned>(out.operation));
  std::vector<std::uint8_t> ulpdu;
  const auto append = [&](Bytes bytes) { ulpdu.insert(ulpdu.end(), bytes.begin(), bytes.end()); };
  append(ddp.bytes());
  append(rdmap.bytes());
  if (tagged)
    append(Value<DdpTagged>()
               .set<"stag">(out.stag)
               .set<"to">(out.to + (stream.has(to_stands) ? 0 : piece.offset))
               .bytes());
  else
    append(Value<DdpUntagged>()
               .set<"invalidate_stag">(out.stag)
               .set<"qn">(out.queue)
               .set<"msn">(out.msn)
               .set<"mo">(stream.has(mo_stands) ? 0 : piece.offset)
               .bytes());
  append(payload);
  return ulpdu;
}

std::vector<std::uint8_t> terminate_of(const Stream& stream, machines::IwarpError error,
                                       const machines::TerminateCause& cause) {
  auto message = machines::terminate_message(error, cause);
  const std::uint8_t kind = message[0], layer = kind >> 4;
  const bool quotes = message.size() > Terminate::size;
  const auto with_read = [&] {
    message[2] |= 0x20;
    message.resize(message.size() + RdmapReadRequest::size);
  };
  if (stream.has(terminate_without_read) && (message[2] & 0x20) != 0) {
    message.resize(message.size() - RdmapReadRequest::size);
    message[2] &= 0xdf;
  }
  const std::uint8_t opcode = quotes ? message[7] & 0x0f : 0;
  if (stream.has(operation_quotes_read) && kind == 0x02 && quotes) with_read();
  if (stream.has(atomic_error_quotes) && kind == 0x01 && opcode == 10) {
    with_read();
    const Bytes header = cause.segment.subspan(machines::ddp_header_bytes(false));
    std::copy_n(header.begin(), RdmapReadRequest::size, message.end() - RdmapReadRequest::size);
  }
  if ((stream.has(protection_without_header) && kind == 0x01) ||
      (stream.has(ddp_error_without_header) && layer == terminate_layer::ddp)) {
    message.resize(Terminate::size);
    message[2] = 0;
  }
  if (stream.has(mpa_error_with_header) && layer == terminate_layer::llp) message[2] = 0x40;
  if (stream.has(catastrophe_quotes) && kind == 0x00) {
    message[2] = 0xc0;
    message.resize(Terminate::size + DdpSegmentLength::size + machines::ddp_header_bytes(false));
  }
  if (message.size() > 6) {
    if (stream.has(terminate_length_of_payload))
      store_be(message.data() + 4, 2,
               load_be<2>(message.data() + 4) - machines::ddp_header_bytes((message[6] & 0x80) != 0));
    if (stream.has(terminate_quotes_zeros)) std::fill(message.begin() + 6, message.end(), std::uint8_t{0});
  }
  if (stream.has(terminate_of_no_table)) message[1] = 0x7e;
  if (stream.has(wrap_is_catastrophic) && error == machines::iwarp_error::tagged_to_wrap)
    message[0] = 0x10, message[1] = 0;
  if (stream.has(unspecified_read_errors) && kind == 0x01) message[1] = 0xff;
  if (stream.has(terminate_as_little_endian)) {
    message[0] = static_cast<std::uint8_t>(kind << 4 | layer);
    const std::uint8_t bits = message[2];
    message[2] = static_cast<std::uint8_t>(bits >> 7 | (bits & 0x40) >> 5 | (bits & 0x20) >> 3);
  }
  return message;
}

}  // namespace rdmawire::endpoint
