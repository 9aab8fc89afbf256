#pragma once
/// Changes to the bytes of a frame, and what has to be computed again after them.

#include "dissectors/protocol/stack.hpp"

namespace rdmawire::replay {

/// Writes the two ECN bits of the innermost IP header or GRH and mends IPv4's checksum; the ICRC, which masks them,
/// stays right. False: there is no such header. RFC 3168, 5; RFC 1624.
bool set_ecn(MutableBytes frame, const HeaderStack& stack, std::uint8_t ecn);

/// What it has of these is computed from the frame as it is now; false: there was nothing to compute.
bool mend_icrc(MutableBytes frame);
bool mend_ip_checksums(MutableBytes frame);
bool mend_transport_checksum(MutableBytes frame);
/// The same where the layout is known: `stack` is that of `frame`, which stack.bytes are.
bool mend_icrc(MutableBytes frame, const HeaderStack& stack);
bool mend_vcrc(MutableBytes frame, const HeaderStack& stack);
bool mend_ip_checksums(MutableBytes frame, const HeaderStack& stack);
bool mend_transport_checksum(MutableBytes frame, const HeaderStack& stack);

}  // namespace rdmawire::replay
