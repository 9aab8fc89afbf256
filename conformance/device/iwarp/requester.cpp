/// Messages for the send requests of the application. RFC 5040, 5.1 to 5.3, RFC 7306, 5.2.1 and 6.3.

#include <algorithm>

#include "conformance/device/iwarp/stream.hpp"
#include "conformance/device/roce/local_memory.hpp"

namespace rdmawire::endpoint {

using device::WorkOpcode;

namespace {

void fail_work(Stream& stream, Work& work, device::Status status) {
  work.done = true;
  work.status = status;
  fail(stream, machines::iwarp_error::local_catastrophic);
}

device::Status execute_local(Stream& stream, const device::SendRequest& request) {
  device::Memory& memory = stream.rnic.memory();
  if (request.opcode == WorkOpcode::local_inv) return memory.invalidate_local(request.rkey, stream.accessor());
  if (request.opcode == WorkOpcode::bind_mw) return memory.bind(request, stream.options.pd, stream.number);
  return memory.fast_register(request, stream.options.pd);
}

/// Start a message whose payload is that of the request.
void begin_payload(Stream& stream, const Work& work, RdmapOperation operation) {
  Outgoing out{.operation = operation, .bytes = work.length};
  if (rdmap_opcode(operation).tagged) {
    out.stag = work.request.rkey;
    out.to = work.request.remote_address;
  } else {
    out.queue = stream.decisions().transmit.queue_of(operation);
    out.msn = stream.msn[out.queue]++;
    out.stag = rdmap_opcode(operation).invalidate ? work.request.immediate : 0;
  }
  out.request = work.request;
  out.work = work.number;
  stream.outgoing = std::move(out);
}

void begin_atomic(Stream& stream, const Work& work) {
  const RequesterDecisions& decisions = stream.decisions().requester;
  Requested requested{.work = work.number,
                      .atomic = true,
                      .counts = decisions.counts(work.request.opcode),
                      .id = stream.rnic.random().bits(32)};
  requested.sges = work.request.sges;
  if (requested.counts) ++stream.depth.outstanding;
  begin(stream, RdmapOperation::atomic_request, decisions.atomic_request(work.request, requested.id), work.number);
  stream.requested.push_back(std::move(requested));
}

/// Start the next message of the request. Return false if it cannot start now or the stream has failed.
bool begin_work(Stream& stream, Work& work) {
  const RequesterDecisions& decisions = stream.decisions().requester;
  const device::SendRequest& request = work.request;
  const bool read = request.opcode == WorkOpcode::read, atomic = is_atomic(request.opcode);
  const bool counts = decisions.counts(request.opcode);
  if (!decisions.may_begin(stream.depth, counts && work.begun == 0, request.fence && work.begun == 0)) {
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
  if (read)
    begin_read(stream, &work);
  else if (atomic)
    begin_atomic(stream, work);
  else if (decisions.sends_immediate(work))
    begin(stream, request.solicited ? RdmapOperation::immediate_data_se : RdmapOperation::immediate_data,
          decisions.immediate_data(request), work.number);
  else
    begin_payload(stream, work, decisions.operation_of(request));
  return true;
}

}  // namespace

bool choose_work(Stream& stream) {
  for (std::size_t i = 0; i < stream.work.size(); ++i) {
    if (stream.work[i].done || stream.work[i].begun == stream.work[i].parts) continue;
    i = stream.decisions().requester.next_work(stream.work, i);
    const std::uint64_t number = stream.work[i].number;
    const bool begun = begin_work(stream, stream.work[i]);
    if (stream.outgoing) return true;
    if (!begun || stream.state == machines::StreamState::closed) return stream.terminate ? choose_next(stream) : false;
    // A local operation was executed, which may also complete preceding requests. Continue with the next request.
    complete_sends(stream);
    i = 0;
    while (i < stream.work.size() && stream.work[i].number <= number) ++i;
    --i;
  }
  return false;
}

void begin_read(Stream& stream, const Work* work) {
  const device::SendRequest indication;
  const device::SendRequest& request = work ? work->request : indication;
  Requested requested;
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
  begin(stream, RdmapOperation::read_request, {header.bytes().begin(), header.bytes().end()}, requested.work);
  stream.requested.push_back(std::move(requested));
}

namespace conforming {

std::size_t next_work(const std::deque<Work>& /*work*/, std::size_t oldest) { return oldest; }

bool counts(WorkOpcode opcode) { return opcode == WorkOpcode::read || is_atomic(opcode); }

bool may_begin(machines::ReadDepth depth, bool counts, bool fenced) {
  return machines::may_begin(depth, counts, fenced);
}

RdmapOperation operation_of(const device::SendRequest& request) {
  switch (request.opcode) {
    case WorkOpcode::write:
    case WorkOpcode::write_imm: return RdmapOperation::rdma_write;
    case WorkOpcode::send_inv:
      return request.solicited ? RdmapOperation::send_se_invalidate : RdmapOperation::send_invalidate;
    default: return request.solicited ? RdmapOperation::send_se : RdmapOperation::send;
  }
}

bool sends_immediate(const Work& work) {
  return work.request.opcode == WorkOpcode::send_imm ||
         (work.request.opcode == WorkOpcode::write_imm && work.begun == work.parts);
}

std::vector<std::uint8_t> immediate_data(const device::SendRequest& request) {
  const auto header = Value<RdmapImmediateData>().set<"data">(request.immediate_data);
  return {header.bytes().begin(), header.bytes().end()};
}

std::vector<std::uint8_t> atomic_request(const device::SendRequest& request, std::uint32_t id) {
  const bool swaps = request.opcode == WorkOpcode::compare_swap;
  const auto header = Value<RdmapAtomicRequest>()
                          .set<"operation">(swaps ? machines::atomic_compare_swap : machines::atomic_fetch_add)
                          .set<"request_id">(id)
                          .set<"stag">(request.rkey)
                          .set<"to">(request.remote_address)
                          .set<"add_swap_data">(request.swap_add)
                          .set<"add_swap_mask">(request.swap_add_mask)
                          .set<"compare_data">(swaps ? request.compare : 0)
                          .set<"compare_mask">(swaps ? request.compare_mask : ~0ULL);
  return {header.bytes().begin(), header.bytes().end()};
}

bool completes_when_sent(RdmapOperation operation) {
  return operation != RdmapOperation::read_request && operation != RdmapOperation::atomic_request;
}

}  // namespace conforming

}  // namespace rdmawire::endpoint
