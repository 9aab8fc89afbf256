#include "conformance/fuzzer/fault_category.hpp"

#include <algorithm>
#include <array>

#include "conformance/rules/rules.hpp"

namespace rdmawire::fuzzer {

namespace {

struct About {
  FaultCategory concern;
  std::string_view pattern;  ///< pattern of rules. The first match counts
};

constexpr About about[] = {
    {FaultCategory::memory_safety, "rc.responder.access.out-of-bounds"},
    {FaultCategory::memory_safety, "rc.responder.length.*"},
    {FaultCategory::memory_safety, "rc.responder.duplicate.not-executed-again"},
    {FaultCategory::memory_safety, "rc.responder.duplicate.atomic-*"},
    {FaultCategory::memory_safety, "rc.responder.duplicate.read-within-first"},
    {FaultCategory::memory_safety, "rc.responder.atomic*.misaligned"},
    {FaultCategory::memory_safety, "rc.responder.atomic-write.length"},
    {FaultCategory::memory_safety, "rc.responder.atomic-write.duplicate"},
    {FaultCategory::memory_safety, "rc.responder.read.no-stale-data"},
    {FaultCategory::memory_safety, "rc.requester.read.response-*"},
    {FaultCategory::memory_safety, "rc.requester.read.duplicate-ignored"},
    {FaultCategory::memory_safety, "rc.requester.read.gap-asked-again"},
    {FaultCategory::memory_safety, "uc.responder.length.*"},
    {FaultCategory::memory_safety, "uc.responder.psn.gap-in-message"},
    {FaultCategory::memory_safety, "ud.receiver.length.*"},
    {FaultCategory::memory_safety, "bth.receiver.pad.*"},
    {FaultCategory::memory_safety, "roce.receiver.length.*"},
    {FaultCategory::memory_safety, "roce.receiver.icrc.*"},
    {FaultCategory::authorization, "rc.responder.access.*"},
    {FaultCategory::authorization, "uc.responder.access.*"},
    {FaultCategory::authorization, "rc.responder.invalidate.*"},
    {FaultCategory::authorization, "rc.responder.atomic.none-allowed"},
    {FaultCategory::authorization, "rc.responder.flush.placement-not-granted"},
    {FaultCategory::authorization, "xrc.responder.receive.other-domain"},
    {FaultCategory::authorization, "memory.*"},
    {FaultCategory::authorization, "bth.receiver.pkey.*"},
    {FaultCategory::authorization, "bth.receiver.qpn.*"},
    {FaultCategory::authorization, "bth.receiver.opcode.other-service-dropped"},
    {FaultCategory::authorization, "roce.receiver.ip.foreign-*"},
    {FaultCategory::authorization, "roce.receiver.version.other-to-connected-dropped"},
    {FaultCategory::authorization, "ud.*.qkey.*"},
    {FaultCategory::state, "*.responder.opcode.*"},
    {FaultCategory::state, "ud.receiver.opcode.*"},
    {FaultCategory::state, "*.responder.state.*"},
    {FaultCategory::state, "*.responder.psn.*"},
    {FaultCategory::state, "rc.responder.rnr.then-executed-once"},
    {FaultCategory::state, "rc.responder.receive.kept-on-nak-and-duplicate"},
    {FaultCategory::state, "rc.responder.duplicate.open-message-undisturbed"},
    {FaultCategory::state, "rc.responder.duplicate.too-old-dropped"},
    {FaultCategory::state, "rc.requester.read.begins-in-the-middle"},
    {FaultCategory::state, "rc.requester.read.not-completed-by-ack"},
    {FaultCategory::state, "rc.requester.read.error-between-responses"},
    {FaultCategory::state, "rc.requester.response.*"},
    {FaultCategory::state, "rc.requester.ack.*"},
    {FaultCategory::state, "rc.requester.nak.*"},
    {FaultCategory::state, "ud.verbs.multicast.attached-not-destroyed"},
    {FaultCategory::state, "qp.*"},
    {FaultCategory::state, "cm.endpoint.disconnect.*"},
    // iWARP
    {FaultCategory::memory_safety, "ddp.data-sink.access.bounds"},
    {FaultCategory::memory_safety, "ddp.data-sink.access.to-wrap"},
    {FaultCategory::memory_safety, "ddp.data-sink.offset.*"},
    {FaultCategory::memory_safety, "ddp.data-sink.length.*"},
    {FaultCategory::memory_safety, "ddp.data-sink.error.later-dropped"},
    {FaultCategory::memory_safety, "ddp.data-sink.close.data-behind"},
    {FaultCategory::memory_safety, "fpdu.receiver.crc.wrong"},
    {FaultCategory::memory_safety, "fpdu.receiver.crc.checked-before-placement"},
    {FaultCategory::memory_safety, "fpdu.receiver.length.*"},
    {FaultCategory::memory_safety, "fpdu.receiver.markers.mismatch"},
    {FaultCategory::memory_safety, "mpa.receiver.private-data.too-long"},
    {FaultCategory::memory_safety, "mpa.receiver.private-data.length-mismatch"},
    {FaultCategory::memory_safety, "mpa.receiver.enhanced.too-short"},
    {FaultCategory::memory_safety, "rdmap.requester.response.*"},
    {FaultCategory::memory_safety, "rdmap.responder.read.offset"},
    {FaultCategory::memory_safety, "rdmap.responder.read.trailing-bytes"},
    {FaultCategory::memory_safety, "rdmap.receiver.immediate.length"},
    {FaultCategory::memory_safety, "rdmap.responder.atomic.misaligned"},
    {FaultCategory::authorization, "ddp.data-sink.access.*"},
    {FaultCategory::authorization, "rdmap.responder.read.access"},
    {FaultCategory::authorization, "rdmap.responder.access.*"},
    {FaultCategory::authorization, "rdmap.receiver.invalidate.*"},
    {FaultCategory::authorization, "rdmap.responder.atomic.access"},
    {FaultCategory::authorization, "rdmap.verbs.stag.unpredictable"},
    {FaultCategory::authorization, "terminate.sender.write-rights.refused"},
    {FaultCategory::state, "ddp.data-sink.version.*"},
    {FaultCategory::state, "ddp.data-sink.queue.*"},
    {FaultCategory::state, "ddp.data-sink.msn.*"},
    {FaultCategory::state, "ddp.data-sink.message.*"},
    {FaultCategory::state, "ddp.data-sink.close.*"},
    {FaultCategory::state, "mpa.receiver.key.wrong"},
    {FaultCategory::state, "mpa.receiver.revision.unknown"},
    {FaultCategory::state, "mpa.receiver.frame.never-ends"},
    {FaultCategory::state, "mpa.responder.request.never-comes"},
    {FaultCategory::state, "mpa.responder.fpdu.waits-for-initiator"},
    {FaultCategory::state, "mpa.responder.close.before-rtr"},
    {FaultCategory::state, "mpa.initiator.reply.*"},
    {FaultCategory::state, "mpa.initiator.reject.no-fpdu"},
    {FaultCategory::state, "mpa.initiator.depth.insufficient"},
    {FaultCategory::state, "mpa.initiator.rtr.no-common-option"},
    {FaultCategory::state, "rdmap.receiver.version.invalid"},
    {FaultCategory::state, "rdmap.receiver.opcode.*"},
    {FaultCategory::state, "rdmap.receiver.extension.unsupported"},
    {FaultCategory::state, "rdmap.receiver.order.*"},
    {FaultCategory::state, "rdmap.receiver.immediate.takes-buffer"},
    {FaultCategory::state, "rdmap.receiver.terminate.flushed"},
    {FaultCategory::state, "rdmap.sender.terminate.then-silence"},
    {FaultCategory::state, "rdmap.responder.order.*"},
    {FaultCategory::state, "rdmap.responder.read.wrong-queue"},
    {FaultCategory::state, "rdmap.responder.read.beyond-depth"},
    {FaultCategory::state, "rdmap.responder.read.zero-length"},
    {FaultCategory::state, "rdmap.responder.atomic.unknown-operation"},
    {FaultCategory::state, "rdmap.responder.atomic.beyond-depth"},
    {FaultCategory::state, "rdmap.responder.atomic.atomicity"},
    {FaultCategory::state, "rdmap.verbs.completion.in-order"},
    {FaultCategory::state, "rdmap.verbs.cq.overflow-isolated"},
    {FaultCategory::state, "terminate.receiver.message.*"},
};

constexpr std::array<OutOfReach, 0> beyond{};

}  // namespace

std::string_view to_string(FaultCategory concern) {
  switch (concern) {
    case FaultCategory::memory_safety: return "memory safety";
    case FaultCategory::authorization: return "authorization";
    case FaultCategory::state: return "state";
  }
  return {};
}

namespace {

std::optional<FaultCategory> concern_of_rule(std::string_view id_or_alias) {
  const conformance::Rule* rule = conformance::find_rule(id_or_alias);
  if (!rule) return std::nullopt;
  for (const About& one : about)
    if (conformance::matches(*rule, one.pattern)) return one.concern;
  return std::nullopt;
}

}  // namespace

std::optional<FaultCategory> concern_of(const device::FaultRow& fault) {
  for (const std::string_view id : fault.broken())
    if (const auto concern = concern_of_rule(id)) return concern;
  return std::nullopt;
}

std::optional<FaultCategory> concern_of(const endpoint::FaultRow& fault) { return concern_of_rule(fault.check); }

std::vector<const endpoint::FaultRow*> endpoint_faults_of_concern() {
  std::vector<const endpoint::FaultRow*> all;
  for (const endpoint::FaultRow& row : endpoint::fault_rows)
    if (concern_of(row)) all.push_back(&row);
  return all;
}

std::span<const OutOfReach> out_of_reach() { return beyond; }

std::vector<const device::FaultRow*> faults_of_concern() {
  std::vector<const device::FaultRow*> all;
  for (const device::FaultRow& row : device::fault_rows)
    if (concern_of(row) && std::ranges::find(beyond, row.name, &OutOfReach::fault) == beyond.end()) all.push_back(&row);
  return all;
}

}  // namespace rdmawire::fuzzer
