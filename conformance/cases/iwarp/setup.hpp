#pragma once
/// Helpers for cases about the MPA negotiation.

#include <optional>
#include <string>

#include "conformance/cases/iwarp/bench.hpp"

namespace rdmawire::conformance::iwarp {

/// The fixed part of a received negotiation frame.
inline View<MpaFrame> frame_in(const Seen& setup) { return View<MpaFrame>(setup.bytes.data()); }
/// The enhanced data of a received frame. Ends the case if it is missing. RFC 6581, 9.
View<MpaEnhanced> enhanced_in(IwarpBench& bench, const Seen& setup);
/// The private data of a received frame, including enhanced data.
std::string private_data_in(const Seen& setup);

/// Returns a listening QP with an established TCP connection, before any frame.
Connected& dialled(IwarpBench& bench, const ConnectOptions& options = {});
/// Sends the request according to the options, lets the application accept, and receives the accepting reply.
void agree(IwarpBench& bench, Connected& qp);
/// Returns a QP that requests a stream, with an established TCP connection, before any frame is received.
Connected& asking(IwarpBench& bench, const ConnectOptions& options = {});

/// Checks that the device's application is not notified of a request.
void expect_no_connect_request(IwarpBench& bench, const Connected& qp);
/// Returns the outcome of the stream requested by the device, as reported to its application.
peer::CmEvent outcome_of(IwarpBench& bench, const Connected& qp);
/// Checks that the request of the device's application fails.
peer::CmEvent attempt_fails(IwarpBench& bench, const Connected& qp);
/// Checks that the stream works: a Send with this MSN, the tester's next, completes this receive request.
void arrives(Connected& qp, std::uint32_t msn, std::uint64_t receive);

/// Sets these negotiation parameters if the device supports it. Otherwise the case depends on the device's own frames.
void wish_if_possible(IwarpBench& bench, const MpaWishes& wishes);
/// Requires that the device's frame requests no CRCs. Otherwise the case is unsupported.
void without_crc(const Seen& setup);
/// Requires that the device's frame requests markers. Otherwise the case is unsupported.
void with_markers(const Seen& setup);
/// Sends the request according to the options and lets the application accept. A device without marker support rejects
/// the request without notifying its application: returns this reply, or nullopt if the reply is still pending.
std::optional<Seen> markers_refused(IwarpBench& bench, Connected& qp);
/// Like connect(), with markers requested. The case is unsupported if the device rejects them. Rule
/// mpa.sender.markers.inserted-if-asked tests marker support.
Connected& connect_with_markers(IwarpBench& bench, ConnectOptions options = {});

/// Checks that the stream ends: with or without a Terminate, then the end of TCP, without another FPDU.
void ends_with_an_error(Connected& qp);
/// Checks that no receive completes with success.
void delivers_nothing(IwarpBench& bench, Connected& qp);

}  // namespace rdmawire::conformance::iwarp
