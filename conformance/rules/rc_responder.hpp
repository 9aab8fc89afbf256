#pragma once
/// What the responder of a reliable connection must answer.

#include "conformance/rules/rule.hpp"

namespace rdmawire::conformance {

inline constexpr auto rc_responder_rules = std::to_array<Rule>({
    {.id = "rc.responder.ack.in-order",
     .alias = "RSP-001",
     .clauses = {ib("9.7.5"), ib("C9-148")},
     .sentence = "An expected request that asks for it draws an ACK with its PSN, and MSN counts one up."},
    {.id = "rc.responder.psn.sequence-error",
     .alias = "RSP-009",
     .clauses = {ib("9.7.5.2.2", "NAK codes"), ib_unverified("one NAK for a gap")},
     .sentence = "A gap in the PSNs draws exactly one NAK, with the expected PSN; then silence until that arrives."},
});

}  // namespace rdmawire::conformance
