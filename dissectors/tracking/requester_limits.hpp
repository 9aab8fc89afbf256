#pragma once
/// Limits for tracking a requester: times in nanoseconds, and numbers. Internal: not part of the library's interface.

#include <cstddef>
#include <cstdint>

#include "dissectors/tracking/connection.hpp"

namespace rdmawire::tracking::requester_limits {

/// Maximum delay of a duplicate that the network creates. Retransmission timers are longer.
inline constexpr std::int64_t copy_ns = 100'000;
/// The same for a duplicate with the same IP identification, if the sender uses a different one for each packet.
/// Captures on several host interfaces or bridge ports contain such duplicates.
inline constexpr std::int64_t numbered_copy_ns = 1'000'000;
/// Maximum delay of a duplicate acknowledgement. If it is longer, the responder sent the acknowledgement again.
inline constexpr std::int64_t acknowledgement_copy_ns = 20'000;
/// Maximum time from a response that implies a NAK to the retransmission of the READ. A later retransmission is caused
/// by a timeout.
inline constexpr std::int64_t implied_ns = 3'900'000;
/// The same if the response is also missing in the capture, which makes the cause more certain.
inline constexpr std::int64_t missing_ns = 20'000'000;
/// Minimum silence before a retransmission is attributed to a timer.
inline constexpr std::int64_t shortest_timeout_ns = 100'000;
/// Usual and maximum time from the capture point to an endpoint. If a requester has not reacted to a response after the
/// maximum, it did not receive the response.
inline constexpr std::int64_t soon_ns = 200'000, in_flight_ns = 2'000'000;
/// If an acknowledgement was captured, minimum time after which a retransmission of its packet is attributed to a
/// timer.
inline constexpr std::int64_t shortest_timer_ns = 500'000;
/// Maximum time between a packet and its response if they are captured in the wrong order.
inline constexpr std::int64_t disorder_ns = 500'000;
/// Services without acknowledgements: number of later packets after which a gap counts as lost.
inline constexpr std::size_t unacknowledged_patience = 16;
/// If the requester does not retry within this time or this number of messages, it received the missing responses.
inline constexpr std::int64_t response_patience_ns = 1'000'000'000;
inline constexpr std::size_t response_patience = 64;
/// Maximum time that a requester needs to react to a NAK.
inline constexpr std::int64_t obeyed_ns = 1'000'000;
/// Maximum time from a request that is captured after a missing one to the NAK for the missing one.
inline constexpr std::int64_t expected_nak_ns = 10'000'000;
/// Maximum time from a retransmission to its acknowledgement.
inline constexpr std::int64_t again_ns = 5'000'000;
/// If a gap is filled by this number of consecutive packets, they are more likely retransmitted than late.
inline constexpr std::uint64_t burst_packets = 3;
/// Number of measured response times from which on the shortest one is used as a proof.
inline constexpr std::uint8_t enough_samples = 8;
/// Value of requested_acks_: the responder also acknowledges packets without AckReq.
inline constexpr std::uint8_t acks_unrequested = UINT8_MAX;
/// If the requester sends new requests for this time after a response that skipped another one, the skipped response
/// arrived.
inline constexpr std::int64_t goes_on_ns = 100'000'000;
/// Number of messages and packets that are kept for an unpaired direction.
inline constexpr std::size_t alone_messages = 32, alone_packets = 256;

/// True if the service acknowledges requests.
inline bool acknowledged_service(const Connection& connection) {
  return connection.service == Service::rc || connection.service == Service::xrc;
}

}  // namespace rdmawire::tracking::requester_limits
