#pragma once
/// Declarations shared by the files of the responder: decisions about requests, memory access and pending responses.

#include "conformance/device/roce/core.hpp"

namespace rdmawire::device {

/// Decision about a request.
struct Decision {
  machines::RcDecision rc;
  /// Set only by faults: the request counts as executed but has no effect.
  bool pretends = false;
  /// Set only by faults: a duplicate changes memory again.
  bool repeats = false;
  std::uint8_t nak = 0;  ///< NAK code of a rejection
};
Decision decide(Core& core, QueuePair& qp, const Packet& packet, const machines::RcRequest& request);
machines::RcRequest request_of(const Packet& packet);

/// Return the handle of the packet's SRQ, or 0 for the queue pair's own receive queue. Empty if XRC specifies an SRQ of
/// another domain.
std::optional<std::uint32_t> receive_queue(Core& core, const QueuePair& qp, const Packet& packet);

/// Memory that a request accesses. Empty if no bytes exist or access is rejected.
struct Reached {
  bool granted = false, exists = false;
  MutableBytes bytes;
};
Reached reach(Core& core, QueuePair& qp, const machines::RcRequest& request);

/// Save data of pending earlier READs before these bytes of application memory change. Requests are executed in order:
/// 9.5 (clause number not verified).
void keep_for_reads(Core& core, QueuePair& qp, Bytes changing);

/// Add a response to the pending responses, in PSN order: C9-110, o9-30.
void answer(Core& core, QueuePair& qp, Response response);
/// Add a stored response to a READ, a part of a READ, an atomic, a FLUSH or an ATOMIC WRITE.
void answer_kept(Core& core, QueuePair& qp, const machines::RcAnswer& kept, const machines::RcRequest& request);
/// Return the AETH credits: the number of posted receives, as far as the code can express it. Invalid for an SRQ.
/// 9.7.7.2.
std::uint8_t credits(const Core& core, QueuePair& qp);

}  // namespace rdmawire::device
