#include "conformance/device/fault_notes.hpp"

#include <algorithm>

namespace rdmawire::device {

namespace {

using enum Fault;

constexpr std::string_view silence = "an answer that is missing a lost or refused request may explain";
constexpr std::string_view memory = "what memory holds no packet says";
constexpr std::string_view keys = "which keys are good the device alone knows";
constexpr std::string_view no_roce = "such a packet is none of RoCE to the dissector";

constexpr FaultNotes rows[] = {
    {sends_ecn_unasked, "whether the device manages congestion no packet says"},
    {wrong_ip_protocol, no_roce},
    {wrong_udp_port, no_roce},
    {extension_headers_reversed, "each order fills the same octets"},
    {low_source_port, "another port is as good where the range is taken"},
    {flush_icrc_twice, silence},
    {never_acknowledges, silence},
    {acknowledges_only_asked, "an ACK of fewer packets is right by itself"},
    {naks_first_gap_alone, silence},
    {psn_does_not_wrap, "it shows as a NAK where nothing is missing, RSP-009"},
    {executes_duplicates, memory},
    {ignores_duplicate_reads, silence},
    {unknown_key_invalid_request, keys},
    {atomic_returns_new_value, memory},
    {no_rnr_nak, silence},
    {rnr_timer_zero, "every timer is right by itself"},
    {credits_come_and_go, "every count of credits is right by itself"},
    {executes_duplicate_atomic_write, memory},
    {read_takes_one_psn, "a READ inside another one's PSNs counts as its rest, REQ-035"},
    {newest_request_first, "which request was posted first no packet says"},
    {never_asks_acknowledge, "some requesters ask once for several messages"},
    {skips_missing_reads, silence},
    {slow_timer, "a requester that is late may have waited for its turn"},
    {selective_repeat, "what a round left out may come later: the next new request tells"},
    {retries_for_every_nak, "which loss a NAK is of its sender knows"},
    {ignores_response_gap, silence},
    {xrceth_without_number, "which queue was meant the initiator's program knows"},
    {xrc_without_atomics, "a refusal the queue pair's rights may explain"},
    {one_read_too_many, "how many READs were agreed on the CM alone tells"},
    {reset_keeps_psns, "what verbs did to the queue pair no packet says"},
    {never_notifies, "a device without congestion management sends no CNP either"},
    {cnp_for_loss, "the rule leaves it to the device"},
    {sends_after_error, "what verbs did to the queue pair no packet says"},
};

}  // namespace

const FaultNotes& notes_of(Fault fault) {
  static constexpr FaultNotes nothing{};
  const auto* const found =
      std::find_if(std::begin(rows), std::end(rows), [&](const FaultNotes& row) { return row.fault == fault; });
  return found == std::end(rows) ? nothing : *found;
}

}  // namespace rdmawire::device
