#pragma once
/// Declarations shared by the files of the reliable requester.

#include <optional>

#include "conformance/device/roce/core.hpp"

namespace rdmawire::device {

/// Wire operation of a work request.
struct WireOperation {
  Operation operation = Operation::send;
  bool immediate = false, invalidate = false;
};
/// Return the wire operation of a work request. nullopt: a local or unknown operation.
std::optional<WireOperation> wire_operation(WorkOpcode opcode);

machines::RcOutstanding outstanding_of(const SendWork& work);
/// True if the request completes with a response, not with an acknowledgement.
bool waits_for_answer(const SendWork& work);
/// Return the position of packet number `packet` in a message.
Position position_of(std::uint32_t packet, std::uint32_t packets);
/// True if the packet of the message was sent before.
bool is_retransmission(const Requester& at, const SendWork& work, std::uint32_t packet);
/// Return the index in the queue of the request that uses a PSN, or the queue size if there is none.
std::size_t index_of(const Requester& at, Psn psn);

void restart_timer(Core& core, QueuePair& qp);
/// Complete finished requests, oldest first.
void retire(Core& core, QueuePair& qp);

}  // namespace rdmawire::device
