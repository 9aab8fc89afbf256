#include "conformance/fuzzer/concern.hpp"

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
};

constexpr OutOfReach beyond[] = {
    {"stays-connected", "connections by the CM are not among the fuzzer's steps"},
};

}  // namespace

std::string_view to_string(Concern concern) {
  switch (concern) {
    case Concern::memory_safety: return "memory safety";
    case Concern::authorisation: return "authorisation";
    case Concern::state: return "state";
  }
  return {};
}

std::optional<Concern> concern_of(const device::FaultRow& fault) {
  for (const std::string_view id : fault.broken()) {
    const conformance::Rule* rule = conformance::find_rule(id);
    if (!rule) continue;
    for (const About& one : about)
      if (conformance::matches(*rule, one.pattern)) return one.concern;
  }
  return std::nullopt;
}

std::span<const OutOfReach> out_of_reach() { return beyond; }

std::vector<const device::FaultRow*> faults_of_concern() {
  std::vector<const device::FaultRow*> all;
  for (const device::FaultRow& row : device::fault_rows)
    if (concern_of(row) && std::ranges::find(beyond, row.name, &OutOfReach::fault) == std::end(beyond))
      all.push_back(&row);
  return all;
}

}  // namespace rdmawire::fuzzer
