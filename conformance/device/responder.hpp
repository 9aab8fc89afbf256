#pragma once
/// What the two files of the responder share: answers wait their turn here.

#include "conformance/device/core.hpp"

namespace rdmawire::device {

/// Puts an answer among those that wait, by PSN: C9-110, o9-30.
void answer(Core& core, QueuePair& qp, Response response);
/// The answer to a READ, an atomic, a FLUSH or an ATOMIC WRITE, or to a part of a READ, from what is kept.
void answer_kept(Core& core, QueuePair& qp, const machines::RcAnswer& kept, const machines::RcRequest& request);
/// The AETH's credits: the receives that are there, as far as the code can tell; none for shared ones. 9.7.7.2.
std::uint8_t credits(const Core& core, const QueuePair& qp);

}  // namespace rdmawire::device
