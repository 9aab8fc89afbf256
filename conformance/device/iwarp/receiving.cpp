#include <algorithm>
#include <cerrno>

#include "conformance/device/iwarp/endpoint.hpp"
#include "conformance/device/roce/local_memory.hpp"
#include "dissectors/machines/mpa_framing.hpp"

namespace rdmawire::endpoint {

using machines::DdpSegment;
using machines::StreamEvent;
using machines::StreamState;
using machines::TerminateCause;
using enum Fault;
namespace errors = machines::iwarp_error;

device::Result<void> Endpoint::post_receive(device::ReceiveRequest request) {
  if (receives_.size() >= options_.most_work)
    return tl::unexpected(device::Error{ENOMEM, "post_receive: the queue is full"});
  if (end_reported_ || (stream_ != StreamState::operating && stream_ != StreamState::closing)) {
    complete(options_.receive_cq,
             {.id = request.id, .status = device::Status::flushed, .opcode = device::CompletionOpcode::receive}, false);
    return {};
  }
  receives_.push_back(std::move(request));
  return {};
}

void Endpoint::take_fpdus() {
  std::size_t at = 0;
  machines::FpduModes modes{.markers = agreement_.receive_markers, .crc = agreement_.crc};
  if (has(ignores_crc)) modes.crc = false;
  if (has(checks_crcs_unasked)) modes.crc = true;
  std::vector<std::uint8_t> buffer;
  const auto listens = [&] {
    return machines::takes_fpdus(phase_) &&
           (stream_ == StreamState::operating || stream_ == StreamState::closing ||
            (stream_ == StreamState::peer_closed && has(takes_data_after_fin)) ||
            (stream_ == StreamState::terminating && (has(places_after_error) || has(tells_last_error))));
  };
  while (at < pending_.size() && listens()) {
    const Bytes stream = Bytes(pending_).subspan(at);
    auto arrival = machines::judge_fpdu(stream, position_, modes);
    using State = machines::FpduArrival::State;
    if (arrival.state == State::more) {
      if (has(needs_whole_fpdus)) fail(errors::crc);
      break;
    }
    if (arrival.state == State::invalid && arrival.error == errors::marker && has(ignores_marker_values))
      arrival.state = State::whole;
    const Bytes fpdu = stream.first(arrival.bytes);
    buffer.resize(fpdu.size());
    const Bytes ulpdu = machines::take_ulpdu(fpdu, position_, arrival, modes.markers, buffer);
    if (arrival.state == State::invalid) {
      const auto segment = machines::read_segment(ulpdu);
      if (has(places_before_crc) && segment && segment->tagged)
        (void)place(*segment, ulpdu, ulpdu.subspan(machines::ddp_header_bytes(true)));
      fail(arrival.error);
      break;
    }
    const Bytes crc = fpdu.last(mpa::crc_bytes);
    const bool crc_zero = std::ranges::all_of(crc, [](std::uint8_t byte) { return byte == 0; });
    if (has(wants_zero_crc) && !agreement_.crc && !crc_zero) return fail(errors::crc);
    if (has(minds_pad) && !modes.markers) {
      const std::uint32_t pad = mpa::pad_bytes(arrival.ulpdu_length);
      const Bytes padding = fpdu.last(mpa::crc_bytes + pad).first(pad);
      if (std::ranges::any_of(padding, [](std::uint8_t byte) { return byte != 0; })) return fail(errors::crc);
    }
    at += arrival.bytes;
    position_ += arrival.bytes;
    if (phase_ == machines::MpaPhase::awaits_first_fpdu)
      phase_ = *machines::after(phase_, machines::MpaSetupEvent::first_fpdu);
    take_ulpdu(ulpdu);
    any_fpdu_ = true;
  }
  if (listens())
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(at));
  else
    pending_.clear();
}

void Endpoint::take_ulpdu(Bytes ulpdu) {
  if ((ulpdu.empty() && has(skips_empty_ulpdus)) ||
      (!ulpdu.empty() && has(skips_short_segments) && !machines::read_segment(ulpdu)))
    return;
  auto read = machines::read_segment(ulpdu);
  if (!read) return fail(errors::ddp_local_catastrophic);  // no error code exists for an incomplete header
  DdpSegment& segment = *read;
  const TerminateCause cause{.segment = ulpdu};
  if (has(minds_reserved_ddp_bits) && (ulpdu[0] & 0x3c) != 0) ++segment.version;
  if (has(ignores_tagged_version) && segment.tagged) segment.version = ddp_.version;
  if (has(ignores_untagged_version) && !segment.tagged) segment.version = ddp_.version;
  if (segment.version != ddp_.version) return fail(machines::version_error(segment.tagged), cause);
  if (has(minds_reserved_rdmap_bits) && (segment.control & 0x30) != 0) return fail(errors::rdmap_version, cause);
  if (has(ignores_rdmap_version))
    segment.control = static_cast<std::uint8_t>((segment.control & 0x3f) | ddp_.version << 6);
  const auto operation = machines::operation_of(segment.control);
  if (operation == RdmapOperation::read_request && !segment.tagged) {
    if (has(reads_on_any_queue) && segment.qn != 1) {
      segment.qn = 1;
      segment.msn = ddp_.queues[1].expected.value();
    }
    if (has(reads_at_any_mo)) segment.mo = 0;
  }
  const machines::RdmapAbilities abilities{.version = ddp_.version, .extensions = rnic_.options().extensions};
  if (const auto error = machines::judge_control(segment, abilities)) {
    const RdmapOpcode& op = rdmap_opcode(operation);
    const bool extension = op.known && machines::is_extension(operation) && !abilities.extensions;
    const bool silent = (has(silent_unknown_opcode) && !op.known) || (has(silent_extensions) && extension) ||
                        (has(silent_wrong_model) && op.known && op.tagged != segment.tagged) ||
                        (has(silent_invalid_queue) && *error == errors::untagged_invalid_qn);
    if (!silent) fail(*error, cause);
    return;
  }
  const Bytes payload = ulpdu.subspan(machines::ddp_header_bytes(segment.tagged));
  if (segment.tagged)
    take_tagged(segment, ulpdu, payload);
  else
    take_untagged(segment, ulpdu, payload);
}

// Untagged messages

machines::UntaggedBuffer Endpoint::buffer_of(const DdpSegment& segment) const {
  const auto size = [](std::size_t bytes) { return machines::UntaggedBuffer{true, bytes}; };
  constexpr machines::UntaggedBuffer none;
  switch (segment.qn) {
    case 0:
      if (machines::is_immediate(machines::operation_of(segment.control))) {
        if (has(immediate_without_receive)) return size(RdmapImmediateData::size);
        return receives_.empty() ? none : size(has(takes_any_immediate) ? 256 : RdmapImmediateData::size);
      }
      return receives_.empty() ? none : size(receives_.front().bytes());
    case 1:
      if (!depth_.has_buffer()) return none;
      return size(has(reads_of_any_length)     ? 256
                  : rnic_.options().extensions ? RdmapAtomicRequest::size
                                               : RdmapReadRequest::size);
    case 2: return terminate_came_ ? none : size(256);  // RFC 5040, 5.4: a buffer is always available
    default: return requested_.empty() || !requested_.front().atomic ? none : size(RdmapAtomicResponse::size);
  }
}

void Endpoint::take_untagged(const DdpSegment& given, Bytes ulpdu, Bytes payload) {
  DdpSegment segment = given;
  const TerminateCause cause{.segment = ulpdu};
  const auto operation = machines::operation_of(segment.control);
  // RFC 6581, 9.2: the RTR indication is consumed by the endpoint.
  const bool indication = !any_fpdu_ && role_ == machines::MpaRole::responder && agreement_.peer_to_peer &&
                          operation == RdmapOperation::send && segment.bytes == 0 && segment.last;
  const machines::UntaggedQueue before = ddp_.queues[segment.qn];
  if (has(accepts_any_msn)) segment.msn = before.expected.value();
  if (has(ignores_mo)) segment.mo = before.placed;
  if (const auto error = machines::judge_continuation(before, segment)) return fail(*error, cause);
  auto verdict = machines::judge_untagged(ddp_, segment, [&](std::uint32_t) {
    return indication ? machines::UntaggedBuffer{true, 0} : buffer_of(segment);
  });
  if (verdict.valid && has(checks_empty_mo) && segment.bytes == 0 && segment.mo != before.placed)
    verdict = machines::ddp_refused(errors::untagged_invalid_mo);
  if (!verdict.valid) {
    const bool reads = operation == RdmapOperation::read_request, atomics = operation == RdmapOperation::atomic_request;
    const bool no_buffer = verdict.error == errors::untagged_no_buffer;
    if ((no_buffer && ((reads && has(drops_reads_beyond_ird)) || (atomics && has(drops_atomics_beyond_ird)))) ||
        (no_buffer && segment.qn == 0 && has(silent_missing_buffer))) {
      ddp_ = machines::placed(ddp_, segment);
      return;
    }
    if (verdict.error == errors::untagged_too_long && segment.qn == 0 && !receives_.empty()) {
      if (has(truncates_long_messages)) {
        const std::uint64_t most =
            receives_.front().bytes() - std::min<std::uint64_t>(before.placed, receives_.front().bytes());
        payload = payload.first(std::min<std::size_t>(payload.size(), most));
        segment.bytes = static_cast<std::uint32_t>(payload.size());
        verdict = {.delivers = segment.last};
      } else {
        const std::uint64_t id = receives_.front().id;
        receives_.pop_front();
        complete(options_.receive_cq,
                 {.id = id, .status = device::Status::local_length, .opcode = device::CompletionOpcode::receive},
                 false);
      }
    }
    if (verdict.error == errors::untagged_invalid_mo && has(delivers_at_last_flag))
      verdict = {.delivers = segment.last};
    if (!verdict.valid) return fail(verdict.error, cause);
  }
  if (segment.qn == 0 && machines::is_send(operation)) {
    if (!indication && segment.bytes != 0 &&
        scatter(rnic_.memory(), options_.pd, receives_.front().sges, segment.mo, payload) != device::Status::success) {
      const std::uint64_t id = receives_.front().id;
      receives_.pop_front();
      complete(options_.receive_cq,
               {.id = id, .status = device::Status::local_protection, .opcode = device::CompletionOpcode::receive},
               false);
      return fail(errors::local_catastrophic);
    }
  } else {
    fixed_[segment.qn].insert(fixed_[segment.qn].end(), payload.begin(), payload.end());
  }
  ddp_ = machines::placed(ddp_, segment);
  if (!verdict.delivers || indication) return;
  segment.bytes += before.placed;
  take_message(segment, ulpdu);
  fixed_[segment.qn].clear();
}

void Endpoint::take_message(const DdpSegment& segment, Bytes ulpdu) {
  const auto operation = machines::operation_of(segment.control);
  if (const auto error = machines::judge_length(operation, segment.bytes)) {
    const bool read =
        operation == RdmapOperation::read_request && has(reads_of_any_length) && *error == errors::untagged_too_long;
    const bool immediate = machines::is_immediate(operation) && has(takes_any_immediate);
    const bool terminate = operation == RdmapOperation::terminate && has(silent_malformed_terminate);
    if (terminate) return;
    if (!read && !immediate) return fail(*error, {.segment = ulpdu});
  }
  switch (operation) {
    case RdmapOperation::read_request: return take_read_request(ulpdu);
    case RdmapOperation::atomic_request: return take_atomic_request(ulpdu);
    case RdmapOperation::atomic_response: return take_atomic_response(ulpdu);
    case RdmapOperation::terminate: return take_terminate(ulpdu);
    default: return take_send(segment, ulpdu);
  }
}

void Endpoint::take_send(const DdpSegment& segment, Bytes ulpdu) {
  const auto operation = machines::operation_of(segment.control);
  const RdmapOpcode& op = rdmap_opcode(operation);
  if (op.invalidate && !rnic_.memory().invalidate_remote(segment.invalidate_stag, accessor()) &&
      !has(silent_invalidate_error))
    return fail(errors::cannot_invalidate, {.segment = ulpdu});
  if (segment.bytes == 0 && machines::is_send(operation) && has(drops_empty_sends)) return;
  device::Completion completion{.opcode = device::CompletionOpcode::receive, .bytes = segment.bytes};
  if (op.invalidate) {
    completion.has_invalidated = true;
    completion.immediate = segment.invalidate_stag;
  }
  if (machines::is_immediate(operation)) {
    completion.has_immediate = true;
    auto& data = fixed_[0];
    data.resize(RdmapImmediateData::size);
    completion.immediate_data = View<RdmapImmediateData>(data.data()).get<"data">();
    completion.immediate = static_cast<std::uint32_t>(completion.immediate_data);
  }
  if (!(machines::is_immediate(operation) && has(immediate_without_receive))) {
    completion.id = receives_.front().id;
    receives_.pop_front();
  }
  complete(options_.receive_cq, completion, op.solicited_event && !has(ignores_solicited));
}

void Endpoint::take_read_request(Bytes ulpdu) {
  const Bytes header = Bytes(fixed_[1]).first(RdmapReadRequest::size);
  const View<RdmapReadRequest> request(header.data());
  const std::uint32_t bytes = request.get<"size">();
  const TerminateCause cause{.segment = ulpdu, .request = header};
  if (bytes != 0 || has(checks_empty_reads)) {
    const auto opened =
        rnic_.memory().open(accessor(), request.get<"src_stag">(), request.get<"src_to">(),
                            std::max(bytes, has(checks_empty_reads) ? 1U : 0U), device::access::remote_read);
    if (!opened.address)
      return fail(machines::protection_error(opened.decision.reason, request.get<"src_to">(), bytes), cause);
  }
  ++depth_.serving;
  answers_.push_back(
      {.atomic = false, .segment = {ulpdu.begin(), ulpdu.end()}, .header = {header.begin(), header.end()}});
}

void Endpoint::take_atomic_request(Bytes ulpdu) {
  std::vector<std::uint8_t> header(fixed_[1].begin(), fixed_[1].begin() + RdmapAtomicRequest::size);
  const TerminateCause cause{.segment = ulpdu};
  const View<RdmapAtomicRequest> request(header.data());
  const std::uint8_t operation = request.get<"operation">();
  if (has(no_compare_swap) && operation == machines::atomic_compare_swap) return fail(errors::unexpected_opcode, cause);
  const auto opened =
      rnic_.memory().open(accessor(), request.get<"stag">(), request.get<"to">(), 8, device::access::remote_atomic);
  // The alignment of the address is relevant. It is the TO unless the buffer is zero-based.
  const std::uint64_t address = opened.address ? *opened.address : request.get<"to">();
  if (const auto error = machines::judge_atomic(operation, address)) {
    const bool unknown = has(executes_unknown_atomics) && *error == errors::unexpected_opcode;
    const bool misaligned = has(executes_misaligned_atomics) && *error == errors::stream_catastrophic;
    if (!unknown && !misaligned) return fail(*error, cause);
  }
  if (!opened.address) return fail(machines::protection_error(opened.decision.reason, request.get<"to">(), 8), cause);
  ++depth_.serving;
  answers_.push_back({.atomic = true, .segment = {ulpdu.begin(), ulpdu.end()}, .header = std::move(header)});
}

void Endpoint::end_request() {
  const Requested requested = std::move(requested_.front());
  requested_.pop_front();
  if (requested.counts && depth_.outstanding != 0) --depth_.outstanding;
  if (!requested.work) return;
  const auto work = std::ranges::find(work_, *requested.work, &Work::number);
  if (work == work_.end() || work->done) return;
  work->done = true;
  work->bytes = requested.atomic ? 8 : requested.sink.bytes;
  complete_sends();
}

void Endpoint::take_atomic_response(Bytes ulpdu) {
  const View<RdmapAtomicResponse> response(fixed_[3].data());
  const Requested& oldest = requested_.front();
  if (response.get<"request_id">() != oldest.id) return fail(errors::operation_unspecified, {.segment = ulpdu});
  const std::uint64_t original = response.get<"original">();
  std::array<std::uint8_t, 8> bytes;
  std::memcpy(bytes.data(), &original, 8);
  if (scatter(rnic_.memory(), options_.pd, oldest.sges, 0, bytes) != device::Status::success)
    return fail(errors::local_catastrophic);
  end_request();
}

void Endpoint::take_terminate(Bytes ulpdu) {
  terminate_came_ = true;
  const auto reported = machines::read_terminate(fixed_[2]);
  if (!reported) {
    if (!has(silent_malformed_terminate)) fail(errors::operation_unspecified, {.segment = ulpdu});
    return;
  }
  if (has(terminate_needs_receive) && receives_.empty()) return;
  // A quoted read is the oldest read because responses are in order.
  const bool protection =
      reported->error.layer == terminate_layer::rdma && reported->error.type == errors::protection_rights.type;
  if (protection && !requested_.empty() && requested_.front().work && stream_ == StreamState::operating &&
      !has(forgets_to_flush)) {
    const auto work = std::ranges::find(work_, *requested_.front().work, &Work::number);
    if (work != work_.end() && !work->done) {
      work->done = true;
      work->status = device::Status::remote_access;
    }
  }
  apply(machines::after(stream_, StreamEvent::terminate), ConnectionEvent::Type::terminated, reported->error);
}

// Tagged messages

bool Endpoint::place(const DdpSegment& segment, Bytes ulpdu, Bytes payload) {
  const auto opened = [&] {
    return rnic_.memory().open(accessor(), segment.stag, segment.to, segment.bytes, device::access::remote_write);
  };
  auto verdict = machines::judge_tagged(ddp_.version, segment, [&] { return opened().decision; });
  if (verdict.valid && segment.bytes == 0 && has(checks_empty_stags) &&
      !rnic_.memory().open(accessor(), segment.stag, segment.to, 1, device::access::remote_write).address)
    verdict = machines::ddp_refused(errors::tagged_invalid_stag);
  if (!verdict.valid) {
    if (!(has(silent_invalid_stag) && verdict.error == errors::tagged_invalid_stag))
      fail(verdict.error, {.segment = ulpdu});
    return false;
  }
  if (segment.bytes == 0) return true;
  const std::uint64_t address = *opened().address;
  if (has(reads_before_writes) || has(sends_before_writes)) {
    deferred_.emplace_back(address, std::vector<std::uint8_t>(payload.begin(), payload.end()));
    return true;
  }
  const MutableBytes memory = rnic_.memory().at(address, payload.size());
  std::copy_n(payload.begin(), std::min(memory.size(), payload.size()), memory.begin());
  return true;
}

void Endpoint::take_tagged(const DdpSegment& segment, Bytes ulpdu, Bytes payload) {
  if (has(refuses_interleaving) && ddp_.queues[0].open) return fail(errors::unexpected_opcode, {.segment = ulpdu});
  tagged_open_ = !segment.last;
  if (machines::operation_of(segment.control) == RdmapOperation::read_response)
    return take_response(segment, ulpdu, payload);
  if (!place(segment, ulpdu, payload) || !segment.last || !has(delivers_writes) || receives_.empty()) return;
  const std::uint64_t id = receives_.front().id;
  receives_.pop_front();
  complete(options_.receive_cq, {.id = id, .opcode = device::CompletionOpcode::receive, .bytes = segment.bytes}, false);
}

void Endpoint::take_response(const DdpSegment& segment, Bytes ulpdu, Bytes payload) {
  Requested* oldest = requested_.empty() || requested_.front().atomic ? nullptr : &requested_.front();
  if (!oldest && has(silent_unasked_response)) return;
  if (const auto error = machines::judge_response(oldest ? &oldest->sink : nullptr, segment)) {
    const bool length = oldest && *error == errors::tagged_bounds && segment.stag == oldest->sink.stag &&
                        segment.to == oldest->sink.to + oldest->sink.received;
    if (!(oldest && (has(trusts_responses) || (length && has(takes_long_responses)))))
      return fail(*error, {.segment = ulpdu});
    // Fault: write to any address in the header if its memory exists.
    const device::Sge whole{segment.to, segment.bytes, segment.stag};
    if (const auto address = rnic_.memory().local(options_.pd, whole, true)) {
      const MutableBytes memory = rnic_.memory().at(*address, payload.size());
      std::copy_n(payload.begin(), std::min(memory.size(), payload.size()), memory.begin());
    }
  } else if (segment.bytes != 0 && scatter(rnic_.memory(), options_.pd, oldest->sges, oldest->sink.received, payload) !=
                                       device::Status::success) {
    return fail(errors::local_catastrophic);
  }
  oldest->sink.received += segment.bytes;
  if (segment.last) end_request();
}

}  // namespace rdmawire::endpoint
