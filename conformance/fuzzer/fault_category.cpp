#include "conformance/fuzzer/fault_category.hpp"

#include <algorithm>
#include <array>

#include "conformance/rules/rules.hpp"

namespace rdmawire::fuzzer {

namespace {

struct About {
  Concern concern;
  std::string_view pattern;  ///< of rules; the first that matches counts
};

constexpr About about[] = {
    {Concern::memory_safety, "rc.responder.access.out-of-bounds"},
    {Concern::memory_safety, "rc.responder.length.*"},
    {Concern::memory_safety, "rc.responder.duplicate.not-executed-again"},
    {Concern::memory_safety, "rc.responder.duplicate.atomic-*"},
    {Concern::memory_safety, "rc.responder.duplicate.read-within-first"},
    {Concern::memory_safety, "rc.responder.atomic*.misaligned"},
    {Concern::memory_safety, "rc.responder.atomic-write.length"},
    {Concern::memory_safety, "rc.responder.atomic-write.duplicate"},
    {Concern::memory_safety, "rc.responder.read.no-stale-data"},
    {Concern::memory_safety, "rc.requester.read.response-*"},
    {Concern::memory_safety, "rc.requester.read.duplicate-ignored"},
    {Concern::memory_safety, "rc.requester.read.gap-asked-again"},
    {Concern::memory_safety, "uc.responder.length.*"},
    {Concern::memory_safety, "uc.responder.psn.gap-in-message"},
    {Concern::memory_safety, "ud.receiver.length.*"},
    {Concern::memory_safety, "bth.receiver.pad.*"},
    {Concern::memory_safety, "roce.receiver.length.*"},
    {Concern::memory_safety, "roce.receiver.icrc.*"},
    {Concern::authorisation, "rc.responder.access.*"},
    {Concern::authorisation, "uc.responder.access.*"},
    {Concern::authorisation, "rc.responder.invalidate.*"},
    {Concern::authorisation, "rc.responder.atomic.none-allowed"},
    {Concern::authorisation, "rc.responder.flush.placement-not-granted"},
    {Concern::authorisation, "xrc.responder.receive.other-domain"},
    {Concern::authorisation, "memory.*"},
    {Concern::authorisation, "bth.receiver.pkey.*"},
    {Concern::authorisation, "bth.receiver.qpn.*"},
    {Concern::authorisation, "bth.receiver.opcode.other-service-dropped"},
    {Concern::authorisation, "roce.receiver.ip.foreign-*"},
    {Concern::authorisation, "roce.receiver.version.other-to-connected-dropped"},
    {Concern::authorisation, "ud.*.qkey.*"},
    {Concern::state, "*.responder.opcode.*"},
    {Concern::state, "ud.receiver.opcode.*"},
    {Concern::state, "*.responder.state.*"},
    {Concern::state, "*.responder.psn.*"},
    {Concern::state, "rc.responder.rnr.then-executed-once"},
    {Concern::state, "rc.responder.receive.kept-on-nak-and-duplicate"},
    {Concern::state, "rc.responder.duplicate.open-message-undisturbed"},
    {Concern::state, "rc.responder.duplicate.too-old-dropped"},
    {Concern::state, "rc.requester.read.begins-in-the-middle"},
    {Concern::state, "rc.requester.read.not-completed-by-ack"},
    {Concern::state, "rc.requester.read.error-between-responses"},
    {Concern::state, "rc.requester.response.*"},
    {Concern::state, "rc.requester.ack.*"},
    {Concern::state, "rc.requester.nak.*"},
    {Concern::state, "ud.verbs.multicast.attached-not-destroyed"},
    {Concern::state, "qp.*"},
    {Concern::state, "cm.endpoint.disconnect.*"},
    // iWARP
    {Concern::memory_safety, "ddp.data-sink.access.bounds"},
    {Concern::memory_safety, "ddp.data-sink.access.to-wrap"},
    {Concern::memory_safety, "ddp.data-sink.offset.*"},
    {Concern::memory_safety, "ddp.data-sink.length.*"},
    {Concern::memory_safety, "ddp.data-sink.error.later-dropped"},
    {Concern::memory_safety, "ddp.data-sink.close.data-behind"},
    {Concern::memory_safety, "fpdu.receiver.crc.wrong"},
    {Concern::memory_safety, "fpdu.receiver.crc.checked-before-placement"},
    {Concern::memory_safety, "fpdu.receiver.length.*"},
    {Concern::memory_safety, "fpdu.receiver.markers.mismatch"},
    {Concern::memory_safety, "mpa.receiver.private-data.too-long"},
    {Concern::memory_safety, "mpa.receiver.private-data.length-mismatch"},
    {Concern::memory_safety, "mpa.receiver.enhanced.too-short"},
    {Concern::memory_safety, "rdmap.requester.response.*"},
    {Concern::memory_safety, "rdmap.responder.read.offset"},
    {Concern::memory_safety, "rdmap.responder.read.trailing-bytes"},
    {Concern::memory_safety, "rdmap.receiver.immediate.length"},
    {Concern::memory_safety, "rdmap.responder.atomic.misaligned"},
    {Concern::authorisation, "ddp.data-sink.access.*"},
    {Concern::authorisation, "rdmap.responder.read.access"},
    {Concern::authorisation, "rdmap.responder.access.*"},
    {Concern::authorisation, "rdmap.receiver.invalidate.*"},
    {Concern::authorisation, "rdmap.responder.atomic.access"},
    {Concern::authorisation, "rdmap.verbs.stag.unpredictable"},
    {Concern::authorisation, "terminate.sender.write-rights.refused"},
    {Concern::state, "ddp.data-sink.version.*"},
    {Concern::state, "ddp.data-sink.queue.*"},
    {Concern::state, "ddp.data-sink.msn.*"},
    {Concern::state, "ddp.data-sink.message.*"},
    {Concern::state, "ddp.data-sink.close.*"},
    {Concern::state, "mpa.receiver.key.wrong"},
    {Concern::state, "mpa.receiver.revision.unknown"},
    {Concern::state, "mpa.receiver.frame.never-ends"},
    {Concern::state, "mpa.responder.request.never-comes"},
    {Concern::state, "mpa.responder.fpdu.waits-for-initiator"},
    {Concern::state, "mpa.responder.close.before-rtr"},
    {Concern::state, "mpa.initiator.reply.*"},
    {Concern::state, "mpa.initiator.reject.no-fpdu"},
    {Concern::state, "mpa.initiator.depth.insufficient"},
    {Concern::state, "mpa.initiator.rtr.no-common-option"},
    {Concern::state, "rdmap.receiver.version.invalid"},
    {Concern::state, "rdmap.receiver.opcode.*"},
    {Concern::state, "rdmap.receiver.extension.unsupported"},
    {Concern::state, "rdmap.receiver.order.*"},
    {Concern::state, "rdmap.receiver.immediate.takes-buffer"},
    {Concern::state, "rdmap.receiver.terminate.flushed"},
    {Concern::state, "rdmap.sender.terminate.then-silence"},
    {Concern::state, "rdmap.responder.order.*"},
    {Concern::state, "rdmap.responder.read.wrong-queue"},
    {Concern::state, "rdmap.responder.read.beyond-depth"},
    {Concern::state, "rdmap.responder.read.zero-length"},
    {Concern::state, "rdmap.responder.atomic.unknown-operation"},
    {Concern::state, "rdmap.responder.atomic.beyond-depth"},
    {Concern::state, "rdmap.responder.atomic.atomicity"},
    {Concern::state, "rdmap.verbs.completion.in-order"},
    {Concern::state, "rdmap.verbs.cq.overflow-isolated"},
    {Concern::state, "terminate.receiver.message.*"},
};

constexpr std::array<OutOfReach, 0> beyond{};

}  // namespace

std::string_view to_string(Concern concern) {
  switch (concern) {
    case Concern::memory_safety: return "memory safety";
    case Concern::authorisation: return "authorisation";
    case Concern::state: return "state";
  }
  return {};
}

namespace {

std::optional<Concern> concern_of_rule(std::string_view id_or_alias) {
  const conformance::Rule* rule = conformance::find_rule(id_or_alias);
  if (!rule) return std::nullopt;
  for (const About& one : about)
    if (conformance::matches(*rule, one.pattern)) return one.concern;
  return std::nullopt;
}

}  // namespace

std::optional<Concern> concern_of(const device::FaultRow& fault) {
  for (const std::string_view id : fault.broken())
    if (const auto concern = concern_of_rule(id)) return concern;
  return std::nullopt;
}

std::optional<Concern> concern_of(const endpoint::FaultRow& fault) { return concern_of_rule(fault.check); }

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
