#include <algorithm>
#include <cerrno>

#include "conformance/device/iwarp/endpoint.hpp"
#include "conformance/device/roce/local_memory.hpp"

namespace rdmawire::endpoint {

using machines::DdpSegment;
using machines::StreamEvent;
using machines::StreamState;
using machines::TerminateCause;
using enum Fault;
namespace errors = machines::iwarp_error;

device::Result<void> Endpoint::post_receive(device::ReceiveRequest request) {
  if (stream_.receives.size() >= stream_.options.most_work)
    return tl::unexpected(device::Error{ENOMEM, "post_receive: the queue is full"});
  if (stream_.end_reported || (stream_.state != StreamState::operating && stream_.state != StreamState::closing)) {
    complete(stream_, stream_.options.receive_cq,
             {.id = request.id, .status = device::Status::flushed, .opcode = device::CompletionOpcode::receive}, false);
    return {};
  }
  stream_.receives.push_back(std::move(request));
  return {};
}

void receive_ulpdu(Stream& stream, Bytes ulpdu) {
  if ((ulpdu.empty() && stream.has(skips_empty_ulpdus)) ||
      (!ulpdu.empty() && stream.has(skips_short_segments) && !machines::read_segment(ulpdu)))
    return;
  auto read = machines::read_segment(ulpdu);
  if (!read) return fail(stream, errors::ddp_local_catastrophic);  // no error code exists for an incomplete header
  DdpSegment& segment = *read;
  const TerminateCause cause{.segment = ulpdu};
  if (stream.has(minds_reserved_ddp_bits) && (ulpdu[0] & 0x3c) != 0) ++segment.version;
  if (stream.has(ignores_tagged_version) && segment.tagged) segment.version = stream.ddp.version;
  if (stream.has(ignores_untagged_version) && !segment.tagged) segment.version = stream.ddp.version;
  if (segment.version != stream.ddp.version) return fail(stream, machines::version_error(segment.tagged), cause);
  if (stream.has(minds_reserved_rdmap_bits) && (segment.control & 0x30) != 0)
    return fail(stream, errors::rdmap_version, cause);
  if (stream.has(ignores_rdmap_version))
    segment.control = static_cast<std::uint8_t>((segment.control & 0x3f) | stream.ddp.version << 6);
  const auto operation = machines::operation_of(segment.control);
  if (operation == RdmapOperation::read_request && !segment.tagged) {
    if (stream.has(reads_on_any_queue) && segment.qn != 1) {
      segment.qn = 1;
      segment.msn = stream.ddp.queues[1].expected.value();
    }
    if (stream.has(reads_at_any_mo)) segment.mo = 0;
  }
  const machines::RdmapAbilities abilities{.version = stream.ddp.version,
                                           .extensions = stream.rnic.options().extensions};
  if (const auto error = machines::judge_control(segment, abilities)) {
    const RdmapOpcode& op = rdmap_opcode(operation);
    const bool extension = op.known && machines::is_extension(operation) && !abilities.extensions;
    const bool silent = (stream.has(silent_unknown_opcode) && !op.known) ||
                        (stream.has(silent_extensions) && extension) ||
                        (stream.has(silent_wrong_model) && op.known && op.tagged != segment.tagged) ||
                        (stream.has(silent_invalid_queue) && *error == errors::untagged_invalid_qn);
    if (!silent) fail(stream, *error, cause);
    return;
  }
  const Bytes payload = ulpdu.subspan(machines::ddp_header_bytes(segment.tagged));
  if (segment.tagged)
    take_tagged(stream, segment, ulpdu, payload);
  else
    take_untagged(stream, segment, ulpdu, payload);
}

// Untagged messages

machines::UntaggedBuffer buffer_of(const Stream& stream, const DdpSegment& segment) {
  const auto size = [](std::size_t bytes) { return machines::UntaggedBuffer{true, bytes}; };
  constexpr machines::UntaggedBuffer none;
  switch (segment.qn) {
    case 0:
      if (machines::is_immediate(machines::operation_of(segment.control))) {
        if (stream.has(immediate_without_receive)) return size(RdmapImmediateData::size);
        return stream.receives.empty() ? none : size(stream.has(takes_any_immediate) ? 256 : RdmapImmediateData::size);
      }
      return stream.receives.empty() ? none : size(stream.receives.front().bytes());
    case 1:
      if (!stream.depth.has_buffer()) return none;
      return size(stream.has(reads_of_any_length)    ? 256
                  : stream.rnic.options().extensions ? RdmapAtomicRequest::size
                                                     : RdmapReadRequest::size);
    case 2: return stream.terminate_came ? none : size(256);  // RFC 5040, 5.4: a buffer is always available
    default:
      return stream.requested.empty() || !stream.requested.front().atomic ? none : size(RdmapAtomicResponse::size);
  }
}

void take_untagged(Stream& stream, const DdpSegment& given, Bytes ulpdu, Bytes payload) {
  DdpSegment segment = given;
  const TerminateCause cause{.segment = ulpdu};
  const auto operation = machines::operation_of(segment.control);
  // RFC 6581, 9.2: the RTR indication is consumed by the endpoint.
  const bool indication = !stream.any_fpdu && stream.role == machines::MpaRole::responder &&
                          stream.agreement.peer_to_peer && operation == RdmapOperation::send && segment.bytes == 0 &&
                          segment.last;
  const machines::UntaggedQueue before = stream.ddp.queues[segment.qn];
  if (stream.has(accepts_any_msn)) segment.msn = before.expected.value();
  if (stream.has(ignores_mo)) segment.mo = before.placed;
  if (const auto error = machines::judge_continuation(before, segment)) return fail(stream, *error, cause);
  auto verdict = machines::judge_untagged(stream.ddp, segment, [&](std::uint32_t) {
    return indication ? machines::UntaggedBuffer{true, 0} : buffer_of(stream, segment);
  });
  if (verdict.valid && stream.has(checks_empty_mo) && segment.bytes == 0 && segment.mo != before.placed)
    verdict = machines::ddp_refused(errors::untagged_invalid_mo);
  if (!verdict.valid) {
    const bool reads = operation == RdmapOperation::read_request, atomics = operation == RdmapOperation::atomic_request;
    const bool no_buffer = verdict.error == errors::untagged_no_buffer;
    if ((no_buffer &&
         ((reads && stream.has(drops_reads_beyond_ird)) || (atomics && stream.has(drops_atomics_beyond_ird)))) ||
        (no_buffer && segment.qn == 0 && stream.has(silent_missing_buffer))) {
      stream.ddp = machines::placed(stream.ddp, segment);
      return;
    }
    if (verdict.error == errors::untagged_too_long && segment.qn == 0 && !stream.receives.empty()) {
      if (stream.has(truncates_long_messages)) {
        const std::uint64_t most =
            stream.receives.front().bytes() - std::min<std::uint64_t>(before.placed, stream.receives.front().bytes());
        payload = payload.first(std::min<std::size_t>(payload.size(), most));
        segment.bytes = static_cast<std::uint32_t>(payload.size());
        verdict = {.delivers = segment.last};
      } else {
        const std::uint64_t id = stream.receives.front().id;
        stream.receives.pop_front();
        complete(stream, stream.options.receive_cq,
                 {.id = id, .status = device::Status::local_length, .opcode = device::CompletionOpcode::receive},
                 false);
      }
    }
    if (verdict.error == errors::untagged_invalid_mo && stream.has(delivers_at_last_flag))
      verdict = {.delivers = segment.last};
    if (!verdict.valid) return fail(stream, verdict.error, cause);
  }
  if (segment.qn == 0 && machines::is_send(operation)) {
    if (!indication && segment.bytes != 0 &&
        scatter(stream.rnic.memory(), stream.options.pd, stream.receives.front().sges, segment.mo, payload) !=
            device::Status::success) {
      const std::uint64_t id = stream.receives.front().id;
      stream.receives.pop_front();
      complete(stream, stream.options.receive_cq,
               {.id = id, .status = device::Status::local_protection, .opcode = device::CompletionOpcode::receive},
               false);
      return fail(stream, errors::local_catastrophic);
    }
  } else {
    stream.fixed[segment.qn].insert(stream.fixed[segment.qn].end(), payload.begin(), payload.end());
  }
  stream.ddp = machines::placed(stream.ddp, segment);
  if (!verdict.delivers || indication) return;
  segment.bytes += before.placed;
  take_message(stream, segment, ulpdu);
  stream.fixed[segment.qn].clear();
}

void take_message(Stream& stream, const DdpSegment& segment, Bytes ulpdu) {
  const auto operation = machines::operation_of(segment.control);
  if (const auto error = machines::judge_length(operation, segment.bytes)) {
    const bool read = operation == RdmapOperation::read_request && stream.has(reads_of_any_length) &&
                      *error == errors::untagged_too_long;
    const bool immediate = machines::is_immediate(operation) && stream.has(takes_any_immediate);
    const bool terminate = operation == RdmapOperation::terminate && stream.has(silent_malformed_terminate);
    if (terminate) return;
    if (!read && !immediate) return fail(stream, *error, {.segment = ulpdu});
  }
  switch (operation) {
    case RdmapOperation::read_request: return take_read_request(stream, ulpdu);
    case RdmapOperation::atomic_request: return take_atomic_request(stream, ulpdu);
    case RdmapOperation::atomic_response: return take_atomic_response(stream, ulpdu);
    case RdmapOperation::terminate: return take_terminate(stream, ulpdu);
    default: return take_send(stream, segment, ulpdu);
  }
}

void take_send(Stream& stream, const DdpSegment& segment, Bytes ulpdu) {
  const auto operation = machines::operation_of(segment.control);
  const RdmapOpcode& op = rdmap_opcode(operation);
  if (op.invalidate && !stream.rnic.memory().invalidate_remote(segment.invalidate_stag, stream.accessor()) &&
      !stream.has(silent_invalidate_error))
    return fail(stream, errors::cannot_invalidate, {.segment = ulpdu});
  if (segment.bytes == 0 && machines::is_send(operation) && stream.has(drops_empty_sends)) return;
  device::Completion completion{.opcode = device::CompletionOpcode::receive, .bytes = segment.bytes};
  if (op.invalidate) {
    completion.has_invalidated = true;
    completion.immediate = segment.invalidate_stag;
  }
  if (machines::is_immediate(operation)) {
    completion.has_immediate = true;
    auto& data = stream.fixed[0];
    data.resize(RdmapImmediateData::size);
    completion.immediate_data = View<RdmapImmediateData>(data.data()).get<"data">();
    completion.immediate = static_cast<std::uint32_t>(completion.immediate_data);
  }
  if (!(machines::is_immediate(operation) && stream.has(immediate_without_receive))) {
    completion.id = stream.receives.front().id;
    stream.receives.pop_front();
  }
  complete(stream, stream.options.receive_cq, completion, op.solicited_event && !stream.has(ignores_solicited));
}

void take_read_request(Stream& stream, Bytes ulpdu) {
  const Bytes header = Bytes(stream.fixed[1]).first(RdmapReadRequest::size);
  const View<RdmapReadRequest> request(header.data());
  const std::uint32_t bytes = request.get<"size">();
  const TerminateCause cause{.segment = ulpdu, .request = header};
  if (bytes != 0 || stream.has(checks_empty_reads)) {
    const auto opened = stream.rnic.memory().open(stream.accessor(), request.get<"src_stag">(), request.get<"src_to">(),
                                                  std::max(bytes, stream.has(checks_empty_reads) ? 1U : 0U),
                                                  device::access::remote_read);
    if (!opened.address)
      return fail(stream, machines::protection_error(opened.decision.reason, request.get<"src_to">(), bytes), cause);
  }
  ++stream.depth.serving;
  stream.answers.push_back(
      {.atomic = false, .segment = {ulpdu.begin(), ulpdu.end()}, .header = {header.begin(), header.end()}});
}

void take_atomic_request(Stream& stream, Bytes ulpdu) {
  std::vector<std::uint8_t> header(stream.fixed[1].begin(), stream.fixed[1].begin() + RdmapAtomicRequest::size);
  const TerminateCause cause{.segment = ulpdu};
  const View<RdmapAtomicRequest> request(header.data());
  const std::uint8_t operation = request.get<"operation">();
  if (stream.has(no_compare_swap) && operation == machines::atomic_compare_swap)
    return fail(stream, errors::unexpected_opcode, cause);
  const auto opened = stream.rnic.memory().open(stream.accessor(), request.get<"stag">(), request.get<"to">(), 8,
                                                device::access::remote_atomic);
  // The alignment of the address is relevant. It is the TO unless the buffer is zero-based.
  const std::uint64_t address = opened.address ? *opened.address : request.get<"to">();
  if (const auto error = machines::judge_atomic(operation, address)) {
    const bool unknown = stream.has(executes_unknown_atomics) && *error == errors::unexpected_opcode;
    const bool misaligned = stream.has(executes_misaligned_atomics) && *error == errors::stream_catastrophic;
    if (!unknown && !misaligned) return fail(stream, *error, cause);
  }
  if (!opened.address)
    return fail(stream, machines::protection_error(opened.decision.reason, request.get<"to">(), 8), cause);
  ++stream.depth.serving;
  stream.answers.push_back({.atomic = true, .segment = {ulpdu.begin(), ulpdu.end()}, .header = std::move(header)});
}

void end_request(Stream& stream) {
  const Requested requested = std::move(stream.requested.front());
  stream.requested.pop_front();
  if (requested.counts && stream.depth.outstanding != 0) --stream.depth.outstanding;
  if (!requested.work) return;
  const auto work = std::ranges::find(stream.work, *requested.work, &Work::number);
  if (work == stream.work.end() || work->done) return;
  work->done = true;
  work->bytes = requested.atomic ? 8 : requested.sink.bytes;
  complete_sends(stream);
}

void take_atomic_response(Stream& stream, Bytes ulpdu) {
  const View<RdmapAtomicResponse> response(stream.fixed[3].data());
  const Requested& oldest = stream.requested.front();
  if (response.get<"request_id">() != oldest.id) return fail(stream, errors::operation_unspecified, {.segment = ulpdu});
  const std::uint64_t original = response.get<"original">();
  std::array<std::uint8_t, 8> bytes;
  std::memcpy(bytes.data(), &original, 8);
  if (scatter(stream.rnic.memory(), stream.options.pd, oldest.sges, 0, bytes) != device::Status::success)
    return fail(stream, errors::local_catastrophic);
  end_request(stream);
}

void take_terminate(Stream& stream, Bytes ulpdu) {
  stream.terminate_came = true;
  const auto reported = machines::read_terminate(stream.fixed[2]);
  if (!reported) {
    if (!stream.has(silent_malformed_terminate)) fail(stream, errors::operation_unspecified, {.segment = ulpdu});
    return;
  }
  if (stream.has(terminate_needs_receive) && stream.receives.empty()) return;
  // A quoted read is the oldest read because responses are in order.
  const bool protection =
      reported->error.layer == terminate_layer::rdma && reported->error.type == errors::protection_rights.type;
  if (protection && !stream.requested.empty() && stream.requested.front().work &&
      stream.state == StreamState::operating && !stream.has(forgets_to_flush)) {
    const auto work = std::ranges::find(stream.work, *stream.requested.front().work, &Work::number);
    if (work != stream.work.end() && !work->done) {
      work->done = true;
      work->status = device::Status::remote_access;
    }
  }
  apply(stream, machines::after(stream.state, StreamEvent::terminate), ConnectionEvent::Type::terminated,
        reported->error);
}

// Tagged messages

bool place(Stream& stream, const DdpSegment& segment, Bytes ulpdu, Bytes payload) {
  const auto opened = [&] {
    return stream.rnic.memory().open(stream.accessor(), segment.stag, segment.to, segment.bytes,
                                     device::access::remote_write);
  };
  auto verdict = machines::judge_tagged(stream.ddp.version, segment, [&] { return opened().decision; });
  if (verdict.valid && segment.bytes == 0 && stream.has(checks_empty_stags) &&
      !stream.rnic.memory().open(stream.accessor(), segment.stag, segment.to, 1, device::access::remote_write).address)
    verdict = machines::ddp_refused(errors::tagged_invalid_stag);
  if (!verdict.valid) {
    if (!(stream.has(silent_invalid_stag) && verdict.error == errors::tagged_invalid_stag))
      fail(stream, verdict.error, {.segment = ulpdu});
    return false;
  }
  if (segment.bytes == 0) return true;
  const std::uint64_t address = *opened().address;
  if (stream.has(reads_before_writes) || stream.has(sends_before_writes)) {
    stream.deferred.emplace_back(address, std::vector<std::uint8_t>(payload.begin(), payload.end()));
    return true;
  }
  const MutableBytes memory = stream.rnic.memory().at(address, payload.size());
  std::copy_n(payload.begin(), std::min(memory.size(), payload.size()), memory.begin());
  return true;
}

void take_tagged(Stream& stream, const DdpSegment& segment, Bytes ulpdu, Bytes payload) {
  if (stream.has(refuses_interleaving) && stream.ddp.queues[0].open)
    return fail(stream, errors::unexpected_opcode, {.segment = ulpdu});
  stream.tagged_open = !segment.last;
  if (machines::operation_of(segment.control) == RdmapOperation::read_response)
    return take_response(stream, segment, ulpdu, payload);
  if (!place(stream, segment, ulpdu, payload) || !segment.last || !stream.has(delivers_writes) ||
      stream.receives.empty())
    return;
  const std::uint64_t id = stream.receives.front().id;
  stream.receives.pop_front();
  complete(stream, stream.options.receive_cq,
           {.id = id, .opcode = device::CompletionOpcode::receive, .bytes = segment.bytes}, false);
}

void take_response(Stream& stream, const DdpSegment& segment, Bytes ulpdu, Bytes payload) {
  Requested* oldest = stream.requested.empty() || stream.requested.front().atomic ? nullptr : &stream.requested.front();
  if (!oldest && stream.has(silent_unasked_response)) return;
  if (const auto error = machines::judge_response(oldest ? &oldest->sink : nullptr, segment)) {
    const bool length = oldest && *error == errors::tagged_bounds && segment.stag == oldest->sink.stag &&
                        segment.to == oldest->sink.to + oldest->sink.received;
    if (!(oldest && (stream.has(trusts_responses) || (length && stream.has(takes_long_responses)))))
      return fail(stream, *error, {.segment = ulpdu});
    // Fault: write to any address in the header if its memory exists.
    const device::Sge whole{segment.to, segment.bytes, segment.stag};
    if (const auto address = stream.rnic.memory().local(stream.options.pd, whole, true)) {
      const MutableBytes memory = stream.rnic.memory().at(*address, payload.size());
      std::copy_n(payload.begin(), std::min(memory.size(), payload.size()), memory.begin());
    }
  } else if (segment.bytes != 0 && scatter(stream.rnic.memory(), stream.options.pd, oldest->sges, oldest->sink.received,
                                           payload) != device::Status::success) {
    return fail(stream, errors::local_catastrophic);
  }
  oldest->sink.received += segment.bytes;
  if (segment.last) end_request(stream);
}

}  // namespace rdmawire::endpoint
