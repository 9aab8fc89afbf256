#pragma once
/// What the files of the responder share: how a request is judged, what memory it reaches, and where its answer waits.

#include "conformance/device/roce/core.hpp"

namespace rdmawire::device {

/// What is done with a request.
struct Decision {
  machines::RcDecision rc;
  /// Only faults: it counts as executed, and nothing is done.
  bool pretends = false;
  /// Only faults: a duplicate's effect on memory is repeated.
  bool repeats = false;
  std::uint8_t nak = 0;  ///< of a refusal: the NAK's code
};
Decision decide(Core& core, QueuePair& qp, const Packet& packet, const machines::RcRequest& request);
machines::RcRequest request_of(const Packet& packet);

/// The shared queue that the packet's receive comes from: its handle, 0 for the queue pair's own; nothing: XRC names
/// one that is not in the domain.
std::optional<std::uint32_t> receive_queue(Core& core, const QueuePair& qp, const Packet& packet);

/// Where the bytes that a request reaches lie in the consumer's memory; empty when there are none, or refused.
struct Reached {
  bool granted = false, exists = false;
  MutableBytes bytes;
};
Reached reach(Core& core, QueuePair& qp, const machines::RcRequest& request);

/// Before these bytes of the consumer's memory change: READs that were asked for earlier, and are not answered yet,
/// keep what they hold. Requests are executed in their order: 9.5 (number unverified).
void keep_for_reads(Core& core, QueuePair& qp, Bytes changing);

/// Puts an answer among those that wait, by PSN: C9-110, o9-30.
void answer(Core& core, QueuePair& qp, Response response);
/// The answer to a READ, an atomic, a FLUSH or an ATOMIC WRITE, or to a part of a READ, from what is kept.
void answer_kept(Core& core, QueuePair& qp, const machines::RcAnswer& kept, const machines::RcRequest& request);
/// The AETH's credits: the receives that are there, as far as the code can tell; none for shared ones. 9.7.7.2.
std::uint8_t credits(const Core& core, QueuePair& qp);

}  // namespace rdmawire::device
