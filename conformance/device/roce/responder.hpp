#pragma once
/// Declarations shared by the files of the responder: memory access and pending responses.

#include "conformance/device/roce/core.hpp"

namespace rdmawire::device {

machines::RcRequest request_of(const Packet& packet);

/// Return the handle of the packet's SRQ, or 0 for the queue pair's own receive queue. nullopt: the packet specifies an
/// SRQ of another XRC domain.
std::optional<std::uint32_t> receive_queue(Core& core, const QueuePair& qp, const Packet& packet);

/// Memory that a request accesses. Its bytes are empty if they do not exist or if the access is rejected.
struct Reached {
  bool granted = false, exists = false;
  MutableBytes bytes;
};
Reached reach(Core& core, QueuePair& qp, const machines::RcRequest& request);

/// Save the data of earlier READs with pending responses, before these bytes of application memory change. Requests are
/// executed in order: 9.5 (clause number not verified).
void keep_for_reads(Core& core, QueuePair& qp, Bytes changing);

/// Execute the memory access of a WRITE, ATOMIC WRITE or atomic. Returns the result of an atomic.
std::uint64_t change_memory(Core& core, QueuePair& qp, const Packet& packet, const machines::RcRequest& request);
/// Update the state of the responder after a request was executed, and respond to it. `original`: result of an atomic.
void conclude(Core& core, QueuePair& qp, const machines::RcRequest& request, std::uint64_t original);

/// Add a response to the pending responses, in PSN order: C9-110, o9-30.
void answer(Core& core, QueuePair& qp, Response response);
/// Add a stored response to a READ, a part of a READ, an atomic, a FLUSH or an ATOMIC WRITE.
void answer_kept(Core& core, QueuePair& qp, const machines::RcAnswer& kept, const machines::RcRequest& request);

}  // namespace rdmawire::device
