#pragma once
/// What following a requester supposes of time and number, in one place. Not part of the library's interface.

#include <cstddef>
#include <cstdint>

#include "dissectors/tracking/connection.hpp"

namespace rdmawire::tracking::requester_limits {

/// A copy that the network made comes this soon after the packet; no retransmission timer is so short.
inline constexpr std::int64_t copy_ns = 100'000;
/// A sender that gives each packet another IP identification sends none again with the one that it had: the interfaces
/// of a host, or a bridge's ports, show a packet so much later once more.
inline constexpr std::int64_t numbered_copy_ns = 1'000'000;
/// And of an acknowledgement: later, it was sent again.
inline constexpr std::int64_t acknowledgement_copy_ns = 20'000;
/// A missing response that implies a NAK has its READ sent again this soon after the response that shows it; later, a
/// timer did it.
inline constexpr std::int64_t implied_ns = 3'900'000;
/// The same where the capture lacks the response too, so that there is less doubt.
inline constexpr std::int64_t missing_ns = 20'000'000;
/// Less silence than this is no expired timer.
inline constexpr std::int64_t shortest_timeout_ns = 100'000;
/// A packet and its answer can be captured in the wrong order; not by more than this.
inline constexpr std::int64_t disorder_ns = 500'000;
/// A gap in what a service without acknowledgements sends counts as lost after so many packets.
inline constexpr std::size_t unacknowledged_patience = 16;
/// Missing responses that were not asked for again after this time, or this many messages, were not missing to the
/// requester.
inline constexpr std::int64_t response_patience_ns = 1'000'000'000;
inline constexpr std::size_t response_patience = 64;
/// A NAK is obeyed this soon.
inline constexpr std::int64_t obeyed_ns = 1'000'000;
/// Acknowledgements of what was sent again come this soon.
inline constexpr std::int64_t again_ns = 5'000'000;
/// New requests so long after a response that shows another one to be missing.
inline constexpr std::int64_t goes_on_ns = 100'000'000;
/// One direction alone: messages and packets that are kept.
inline constexpr std::size_t alone_messages = 32, alone_packets = 256;

/// Whether requests are acknowledged.
inline bool acknowledged_service(const Connection& connection) {
  return connection.service == Service::rc || connection.service == Service::xrc;
}

}  // namespace rdmawire::tracking::requester_limits
