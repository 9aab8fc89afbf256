#pragma once
/// Changes bytes of a frame and recomputes the affected checksums.

#include "dissectors/protocol/stack.hpp"

namespace rdmawire::replay {

/// Sets the two ECN bits of the innermost IP header or GRH and updates the IPv4 checksum. The ICRC stays valid because
/// it does not cover these bits. Returns false if there is no such header. RFC 3168, 5, RFC 1624.
bool set_ecn(MutableBytes frame, const HeaderStack& stack, std::uint8_t ecn);

/// Recomputes the checksum from the current frame. Returns false if the frame has no such checksum.
bool mend_icrc(MutableBytes frame);
bool mend_ip_checksums(MutableBytes frame);
bool mend_transport_checksum(MutableBytes frame);
/// Same for a known layout: `stack` must be the result of decoding `frame`.
bool mend_icrc(MutableBytes frame, const HeaderStack& stack);
bool mend_vcrc(MutableBytes frame, const HeaderStack& stack);
bool mend_ip_checksums(MutableBytes frame, const HeaderStack& stack);
bool mend_transport_checksum(MutableBytes frame, const HeaderStack& stack);

}  // namespace rdmawire::replay
