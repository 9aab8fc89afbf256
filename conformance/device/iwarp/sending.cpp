#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "conformance/device/iwarp/endpoint.hpp"
#include "conformance/device/roce/local_memory.hpp"
#include "dissectors/machines/mpa_framing.hpp"

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
  if (!is_of_iwarp(request.opcode, rnic_.options().extensions))
    return refuse(EINVAL, fmt::format("post_send: opcode {}: not supported by this endpoint",
                                      static_cast<unsigned>(request.opcode)));
  if (work_.size() >= options_.most_work)
    return refuse(ENOMEM, fmt::format("post_send: the send queue is full ({} requests)", work_.size()));
  if (!machines::takes_fpdus(phase_) && !end_reported_ && !machines::may_send_fpdus(phase_))
    return refuse(EINVAL, "post_send: no connection");
  Work work{.number = next_work_++, .request = std::move(request), .length = 0};
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
    const device::Window* window = rnic_.memory().window(posted.window);
    if (window != nullptr && window->type == 1 && posted.new_key == 0) posted.new_key = rnic_.memory().fresh_key();
  }
  if (stream_ != StreamState::operating && stream_ != StreamState::peer_closed) {
    work.done = true;
    work.status = device::Status::flushed;
  }
  work_.push_back(std::move(work));
  complete_sends();
  return {};
}

std::uint32_t Endpoint::mulpdu() const {
  if (has(long_ulpdus)) return std::min(options_.emss, 65535U - 3U);
  return machines::mulpdu(options_.emss, agreement_.send_markers) + (has(segments_beyond_mulpdu) ? 4 : 0);
}

std::uint32_t Endpoint::next_msn(std::uint32_t queue) { return msn_[queue]++; }

void Endpoint::pump(std::size_t most) {
  if (stream_ == StreamState::closed || !sender_) return;
  if (rnic_.is_dead()) fail(machines::iwarp_error::local_catastrophic);
  while (waiting_bytes_ < most && !reset_) {
    if (terminate_ && has(terminate_inside_message)) outgoing_.reset();
    if (!outgoing_ && !choose_next()) break;
    emit_piece();
  }
  const bool nothing_waits = !outgoing_ && !terminate_ && answers_.empty();
  if (closing_ && nothing_waits && (work_.empty() || phase_ == machines::MpaPhase::awaits_first_fpdu)) {
    closing_ = false;
    apply(machines::after(stream_, machines::StreamEvent::consumer_closes), ConnectionEvent::Type::error, {});
  }
}

bool Endpoint::choose_next() {
  if (terminate_) {
    const auto message = std::move(*terminate_);
    terminate_.reset();
    begin(RdmapOperation::terminate, has(terminate_on_queue_0) ? 0 : 2, message);
    return true;
  }
  if (stream_ != StreamState::operating && stream_ != StreamState::peer_closed) return false;
  if (!machines::may_send_fpdus(phase_) && !has(responder_sends_first)) return false;
  if (rtr_waits_) {
    rtr_waits_ = false;
    switch (agreement_.rtr) {
      case machines::Rtr::send: begin(RdmapOperation::send, 0, {}); return true;
      case machines::Rtr::write: outgoing_ = Outgoing{.operation = RdmapOperation::rdma_write}; return true;
      case machines::Rtr::read: return begin_read(nullptr);
      case machines::Rtr::none: break;
    }
  }
  return choose_answer() || choose_work();
}

bool Endpoint::choose_answer() {
  while (!answers_.empty()) {
    const bool newest = has(answers_newest_first);
    Answer answer = std::move(newest ? answers_.back() : answers_.front());
    newest ? answers_.pop_back() : answers_.pop_front();
    if (answer.atomic) return answer_atomic(answer);
    const View<RdmapReadRequest> posted(answer.header.data());
    Outgoing out{.operation = RdmapOperation::read_response,
                 .stag = has(response_to_source) ? posted.get<"src_stag">() : posted.get<"sink_stag">(),
                 .to = posted.get<"sink_to">(),
                 .bytes = posted.get<"size">()};
    out.answer = std::move(answer);
    outgoing_ = std::move(out);
    return true;
  }
  return false;
}

bool Endpoint::answer_atomic(const Answer& answer) {
  if (depth_.serving != 0) --depth_.serving;
  const View<RdmapAtomicRequest> posted(answer.header.data());
  const auto opened =
      rnic_.memory().open(accessor(), posted.get<"stag">(), posted.get<"to">(), 8, device::access::remote_atomic);
  const MutableBytes memory = opened.address ? rnic_.memory().at(*opened.address, 8) : MutableBytes();
  if (memory.empty()) {
    fail(machines::protection_error(opened.decision.reason, posted.get<"to">(), 8), {.segment = answer.segment});
    return outgoing_ || choose_next();
  }
  // Operands use the host byte order: RFC 7306, 5.1.
  std::uint64_t original = 0;
  std::memcpy(&original, memory.data(), 8);
  std::uint64_t value = 0;
  const std::uint64_t data = posted.get<"add_swap_data">(), mask = posted.get<"add_swap_mask">();
  if (posted.get<"operation">() == machines::atomic_compare_swap)
    value = machines::compare_swap(original, posted.get<"compare_data">(),
                                   has(ignores_compare_mask) ? ~0ULL : posted.get<"compare_mask">(), data, mask);
  else
    value = has(adds_without_carry) ? original ^ data
                                    : machines::fetch_add(original, data, has(ignores_add_mask) ? 0 : mask);
  std::vector<std::uint8_t> bytes(8);
  std::memcpy(bytes.data(), &value, 8);
  if (has(atomics_write_back_late))
    deferred_.emplace_back(*opened.address, bytes);
  else
    std::ranges::copy(bytes, memory.begin());
  const auto response = Value<RdmapAtomicResponse>()
                            .set<"request_id">(posted.get<"request_id">() ^ (has(changes_request_id) ? 1 : 0))
                            .set<"original">(original);
  begin(RdmapOperation::atomic_response, has(atomic_response_on_request_queue) ? 1 : 3,
        {response.bytes().begin(), response.bytes().end()});
  return true;
}

bool Endpoint::choose_work() {
  for (std::size_t i = 0; i < work_.size(); ++i) {
    if (work_[i].done || work_[i].begun == work_[i].parts) continue;
    if (has(sends_newest_first) && work_[i].begun == 0) i = work_.size() - 1;
    const std::uint64_t number = work_[i].number;
    const bool begun = begin_work(work_[i]);
    if (outgoing_) return true;
    if (!begun || stream_ == StreamState::closed) return terminate_ ? choose_next() : false;
    // A local operation may also complete the preceding requests. Continue with the request after it.
    complete_sends();
    i = 0;
    while (i < work_.size() && work_[i].number <= number) ++i;
    --i;
  }
  return false;
}

void Endpoint::fail_work(Work& work, device::Status status) {
  work.done = true;
  work.status = status;
  fail(machines::iwarp_error::local_catastrophic);
}

/// Return false if the request cannot start now or the stream has failed.
bool Endpoint::begin_work(Work& work) {
  const device::SendRequest& request = work.request;
  const bool atomic = is_atomic(request.opcode), read = request.opcode == WorkOpcode::read;
  const bool counts = read || (atomic && !has(atomics_outside_ord));
  auto depth = depth_;
  if (has(exceeds_ord)) ++depth.ord;
  if (!machines::may_begin(depth, counts && work.begun == 0, request.fence && work.begun == 0)) {
    if (counts && depth_.ord == 0) fail_work(work, device::Status::local_qp_operation);
    return false;
  }
  if (is_local(request.opcode)) {
    work.begun = work.sent = work.parts;
    work.done = true;
    work.status = execute_local(request);
    if (work.status != device::Status::success) return fail_work(work, work.status), false;
    return true;
  }
  const bool payload = work.length != 0 && !request.is_inline;
  if (payload && check_local(rnic_.memory(), options_.pd, request.sges, read || atomic) != device::Status::success)
    return fail_work(work, device::Status::local_protection), false;
  ++work.begun;
  if (read) return begin_read(&work);
  if (atomic) return begin_atomic(work);
  const bool immediate_first = has(immediate_before_write);
  if (request.opcode == WorkOpcode::send_imm ||
      (request.opcode == WorkOpcode::write_imm && (work.begun == (immediate_first ? 1U : 2U)))) {
    const auto header = Value<RdmapImmediateData>().set<"data">(request.immediate_data);
    std::vector<std::uint8_t> content(header.bytes().begin(), header.bytes().end());
    if (has(immediate_of_four_bytes)) content.resize(4);
    begin(request.solicited ? RdmapOperation::immediate_data_se : RdmapOperation::immediate_data, 0, std::move(content),
          work.number);
    return true;
  }
  if (request.opcode == WorkOpcode::write || request.opcode == WorkOpcode::write_imm) {
    begin_payload(work, RdmapOperation::rdma_write);
    return true;
  }
  const bool solicited = request.solicited && !has(solicited_as_plain);
  if (request.opcode == WorkOpcode::send_inv)
    begin_payload(work, solicited ? RdmapOperation::send_se_invalidate : RdmapOperation::send_invalidate);
  else
    begin_payload(work, solicited ? RdmapOperation::send_se : RdmapOperation::send);
  return true;
}

void Endpoint::begin(RdmapOperation operation, std::uint32_t queue, std::vector<std::uint8_t> content,
                     std::optional<std::uint64_t> work) {
  outgoing_ = Outgoing{.operation = operation, .queue = queue, .msn = next_msn(queue), .bytes = content.size()};
  outgoing_->content = std::move(content);
  outgoing_->work = work;
}

void Endpoint::begin_payload(Work& work, RdmapOperation operation) {
  const bool tagged = rdmap_opcode(operation).tagged;
  outgoing_ = Outgoing{.operation = operation, .bytes = work.length};
  if (tagged) {
    outgoing_->stag = work.request.rkey;
    outgoing_->to = work.request.remote_address;
  } else {
    outgoing_->msn = next_msn(0);
    outgoing_->stag = rdmap_opcode(operation).invalidate ? work.request.immediate : 0;
  }
  outgoing_->request = work.request;
  outgoing_->work = work.number;
}

bool Endpoint::begin_read(Work* work) {
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
  ++depth_.outstanding;
  requested_.push_back(std::move(requested));
  begin(RdmapOperation::read_request, 1, {header.bytes().begin(), header.bytes().end()}, requested_.back().work);
  return true;
}

bool Endpoint::begin_atomic(Work& work) {
  const device::SendRequest& request = work.request;
  const bool swaps = request.opcode == WorkOpcode::compare_swap;
  Requested requested{
      .work = work.number, .atomic = true, .counts = !has(atomics_outside_ord), .id = rnic_.random().bits(32)};
  requested.sges = request.sges;
  const auto header = Value<RdmapAtomicRequest>()
                          .set<"reserved">(has(atomic_reserved_bits) ? 1 : 0)
                          .set<"operation">(swaps ? machines::atomic_compare_swap : machines::atomic_fetch_add)
                          .set<"request_id">(requested.id)
                          .set<"stag">(request.rkey)
                          .set<"to">(request.remote_address)
                          .set<"add_swap_data">(request.swap_add)
                          .set<"add_swap_mask">(request.swap_add_mask)
                          .set<"compare_data">(swaps ? request.compare : 0)
                          .set<"compare_mask">(swaps ? request.compare_mask : ~0ULL);
  if (requested.counts) ++depth_.outstanding;
  requested_.push_back(std::move(requested));
  begin(RdmapOperation::atomic_request, 1, {header.bytes().begin(), header.bytes().end()}, work.number);
  return true;
}

device::Status Endpoint::execute_local(const device::SendRequest& request) {
  device::Memory& memory = rnic_.memory();
  if (request.opcode == WorkOpcode::local_inv) return memory.invalidate_local(request.rkey, accessor());
  if (request.opcode == WorkOpcode::bind_mw) return memory.bind(request, options_.pd, number_);
  return memory.fast_register(request, options_.pd);
}

void Endpoint::emit_piece() {
  Outgoing& out = *outgoing_;
  const bool tagged = rdmap_opcode(out.operation).tagged;
  machines::DdpPiece piece = machines::next_piece(out.done, out.bytes, mulpdu(), tagged);
  std::vector<std::uint8_t> payload;
  if (out.answer && piece.bytes != 0) {
    const View<RdmapReadRequest> posted(out.answer->header.data());
    const std::uint64_t from = posted.get<"src_to">() + out.done;
    const auto opened =
        rnic_.memory().open(accessor(), posted.get<"src_stag">(), from, piece.bytes, device::access::remote_read);
    const Bytes memory = opened.address ? Bytes(rnic_.memory().at(*opened.address, piece.bytes)) : Bytes();
    if (memory.empty()) {
      const Answer answer = std::move(*out.answer);
      const auto done = static_cast<std::uint32_t>(out.done);
      outgoing_.reset();
      return fail(machines::protection_error(opened.decision.reason, from, piece.bytes),
                  {.segment = answer.segment,
                   .answered = has(terminated_read_stands) ? 0 : done,
                   .request = Bytes(answer.header)});
    }
    payload.assign(memory.begin(), memory.end());
  } else if (out.request && piece.bytes != 0) {
    if (gather(rnic_.memory(), options_.pd, *out.request, out.done, piece.bytes, payload) != device::Status::success) {
      // The buffer was deregistered during transmission: the message cannot be finished.
      outgoing_.reset();
      return fail(machines::iwarp_error::local_catastrophic);
    }
  } else if (piece.bytes != 0) {
    const Bytes content = Bytes(out.content).subspan(piece.offset, piece.bytes);
    payload.assign(content.begin(), content.end());
  }
  const bool empty_twice = has(empty_message_twice) && out.bytes == 0;
  if (empty_twice) {
    machines::DdpPiece first = piece;
    first.last = false;
    frame_and_send(ulpdu_of(first, payload, tagged));
  }
  const auto ulpdu = ulpdu_of(piece, payload, tagged);
  if (has(two_ulpdus_an_fpdu) && !piece.last && pending_ulpdu_.empty()) {
    pending_ulpdu_ = ulpdu;
  } else {
    pending_ulpdu_.insert(pending_ulpdu_.end(), ulpdu.begin(), ulpdu.end());
    frame_and_send(pending_ulpdu_);
    pending_ulpdu_.clear();
  }
  out.done += piece.bytes;
  if (piece.last) end_message();
}

void Endpoint::end_message() {
  const Outgoing out = std::move(*outgoing_);
  outgoing_.reset();
  ++messages_sent_;
  if (out.answer && depth_.serving != 0) --depth_.serving;
  if (out.operation == RdmapOperation::terminate) {
    if (has(terminates_twice) && fin_ && messages_sent_ < 1U << 31) {
      messages_sent_ |= 1U << 31;
      terminate_ = out.content;
    }
    if (has(sends_after_terminate)) begin(RdmapOperation::send, 0, {1, 2, 3, 4});
    return;
  }
  if (!out.work) return;
  const auto work = std::ranges::find(work_, *out.work, &Work::number);
  if (work == work_.end() || work->done) return;
  ++work->sent;
  const bool waits = out.operation == RdmapOperation::read_request || out.operation == RdmapOperation::atomic_request;
  if (work->sent == work->parts && (!waits || has(completes_reads_early))) work->done = true;
  complete_sends();
}

std::vector<std::uint8_t> Endpoint::ulpdu_of(const machines::DdpPiece& piece, Bytes payload, bool tagged) {
  const Outgoing& out = *outgoing_;
  bool last = piece.last || has(last_flag_everywhere);
  if (has(write_without_end) && out.operation == RdmapOperation::rdma_write) last = false;
  if (has(read_request_goes_on) && out.operation == RdmapOperation::read_request) last = false;
  const bool old = has(sends_version_0) || (has(extensions_of_version_0) && machines::is_extension(out.operation));
  const auto ddp = Value<Ddp>()
                       .set<"tagged">(tagged)
                       .set<"last">(last)
                       .set<"reserved">(has(sends_reserved_ddp_bits) ? 5 : 0)
                       .set<"dv">(has(changes_version) && messages_sent_ != 0 ? 0 : agreement_.version);
  const auto rdmap =
      Value<Rdmap>().set<"rv">(old ? 0 : agreement_.version).set<"opcode">(static_cast<unsigned>(out.operation));
  std::vector<std::uint8_t> ulpdu;
  const auto append = [&](Bytes bytes) { ulpdu.insert(ulpdu.end(), bytes.begin(), bytes.end()); };
  append(ddp.bytes());
  append(rdmap.bytes());
  if (tagged)
    append(Value<DdpTagged>().set<"stag">(out.stag).set<"to">(out.to + (has(to_stands) ? 0 : piece.offset)).bytes());
  else
    append(Value<DdpUntagged>()
               .set<"invalidate_stag">(out.stag)
               .set<"qn">(out.queue)
               .set<"msn">(out.msn)
               .set<"mo">(has(mo_stands) ? 0 : piece.offset)
               .bytes());
  append(payload);
  return ulpdu;
}

void Endpoint::frame_and_send(Bytes ulpdu) {
  std::vector<std::uint8_t> fpdu;
  const std::uint64_t position = sender_->position();
  if (!sender_->send(fpdu, ulpdu)) return;
  const bool markers = agreement_.send_markers || has(sends_markers_unasked);
  const std::uint32_t pad = mpa::pad_bytes(static_cast<std::uint32_t>(ulpdu.size()));
  bool changed = false;
  if (has(nonzero_pad) && !markers && pad != 0) {
    std::fill_n(fpdu.end() - mpa::crc_bytes - pad, pad, std::uint8_t{1});
    changed = true;
  }
  if (markers) {
    std::uint32_t earlier = 0;
    for (std::size_t at = MarkerGrid::to_next(position); at < fpdu.size(); at += mpa::marker_interval) {
      std::uint8_t* pointer = fpdu.data() + at + 2;
      const auto value = load_be<2>(pointer);
      if (has(marker_points_wrong)) store_be(pointer, 2, value + 4);
      if (has(markers_point_to_markers) && earlier != 0) store_be(pointer, 2, mpa::marker_interval);
      if (value != 0) ++earlier;
      changed = changed || has(marker_points_wrong) || has(markers_point_to_markers);
    }
  }
  const std::size_t crc_at = fpdu.size() - mpa::crc_bytes;
  if (agreement_.crc) {
    const std::size_t from =
        has(first_marker_uncovered) && markers && MarkerGrid::inside(position) ? mpa::marker_bytes : 0;
    const Bytes covered = Bytes(fpdu).first(crc_at).subspan(from);
    if (has(wrong_crc))
      store_be(fpdu.data() + crc_at, 4, __builtin_bswap32(crc32(covered)));
    else if (changed || from != 0)
      store_be(fpdu.data() + crc_at, 4, compute_mpa_crc(covered));
  }
  waiting_bytes_ += fpdu.size();
  for (Bytes rest = fpdu; !rest.empty();) {
    const Bytes segment = rest.first(std::min<std::size_t>(rest.size(), std::max(options_.emss, 1U)));
    segments_.emplace_back(segment.begin(), segment.end());
    rest = rest.subspan(segment.size());
  }
}

std::vector<std::uint8_t> Endpoint::terminate_of(machines::IwarpError error,
                                                 const machines::TerminateCause& cause) const {
  auto message = machines::terminate_message(error, cause);
  const std::uint8_t kind = message[0], layer = kind >> 4;
  const bool quotes = message.size() > Terminate::size;
  const auto with_read = [&] {
    message[2] |= 0x20;
    message.resize(message.size() + RdmapReadRequest::size);
  };
  if (has(terminate_without_read) && (message[2] & 0x20) != 0) {
    message.resize(message.size() - RdmapReadRequest::size);
    message[2] &= 0xdf;
  }
  const std::uint8_t opcode = quotes ? message[7] & 0x0f : 0;
  if (has(operation_quotes_read) && kind == 0x02 && quotes) with_read();
  if (has(atomic_error_quotes) && kind == 0x01 && opcode == 10) {
    with_read();
    const Bytes header = cause.segment.subspan(machines::ddp_header_bytes(false));
    std::copy_n(header.begin(), RdmapReadRequest::size, message.end() - RdmapReadRequest::size);
  }
  if ((has(protection_without_header) && kind == 0x01) ||
      (has(ddp_error_without_header) && layer == terminate_layer::ddp)) {
    message.resize(Terminate::size);
    message[2] = 0;
  }
  if (has(mpa_error_with_header) && layer == terminate_layer::llp) message[2] = 0x40;
  if (has(catastrophe_quotes) && kind == 0x00) {
    message[2] = 0xc0;
    message.resize(Terminate::size + DdpSegmentLength::size + machines::ddp_header_bytes(false));
  }
  if (message.size() > 6) {
    if (has(terminate_length_of_payload))
      store_be(message.data() + 4, 2,
               load_be<2>(message.data() + 4) - machines::ddp_header_bytes((message[6] & 0x80) != 0));
    if (has(terminate_quotes_zeros)) std::fill(message.begin() + 6, message.end(), std::uint8_t{0});
  }
  if (has(terminate_of_no_table)) message[1] = 0x7e;
  if (has(wrap_is_catastrophic) && error == machines::iwarp_error::tagged_to_wrap) message[0] = 0x10, message[1] = 0;
  if (has(unspecified_read_errors) && kind == 0x01) message[1] = 0xff;
  if (has(terminate_as_little_endian)) {
    message[0] = static_cast<std::uint8_t>(kind << 4 | layer);
    const std::uint8_t bits = message[2];
    message[2] = static_cast<std::uint8_t>(bits >> 7 | (bits & 0x40) >> 5 | (bits & 0x20) >> 3);
  }
  return message;
}

}  // namespace rdmawire::endpoint
