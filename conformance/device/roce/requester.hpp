#pragma once
/// What the files of the reliable requester share.

#include <optional>

#include "conformance/device/roce/core.hpp"

namespace rdmawire::device {

/// How an operation of the wire is asked for.
struct WireOperation {
  Operation operation = Operation::send;
  bool immediate = false, invalidate = false;
};
/// Nothing: a local operation, or none that there is.
std::optional<WireOperation> wording(WorkOpcode opcode);

machines::RcOutstanding outstanding_of(const SendWork& work);
/// Whether it waits for more than an acknowledgement.
bool waits_for_answer(const SendWork& work);

void restart_timer(Core& core, QueuePair& qp);
/// Sending begins again at `psn`.
void go_back(const Core& core, Requester& at, Psn psn);
/// Completes what is done, from the oldest on.
void retire(Core& core, QueuePair& qp);

}  // namespace rdmawire::device
