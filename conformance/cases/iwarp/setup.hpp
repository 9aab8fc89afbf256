#pragma once
/// What cases about the set-up of streams share.

#include <optional>
#include <string>

#include "conformance/cases/iwarp/bench.hpp"

namespace rdmawire::conformance::iwarp {

/// The fixed part of a set-up frame that came.
inline View<MpaFrame> frame_in(const Seen& setup) { return View<MpaFrame>(setup.bytes.data()); }
/// The enhanced data of one that has it, else the case ends. RFC 6581, 9.
View<MpaEnhanced> enhanced_in(IwarpBench& bench, const Seen& setup);
/// The private data of one, enhanced data included.
std::string private_data_in(const Seen& setup);

/// A queue pair that waits for a stream, TCP connected to it, and nothing said.
Connected& dialled(IwarpBench& bench, const ConnectOptions& options = {});
/// Says the options' request, lets the consumer accept, and takes the reply, which accepts: Full Operation Phase.
void agree(IwarpBench& bench, Connected& qp);
/// One that asks for a stream, TCP connected, nothing heard yet.
Connected& asking(IwarpBench& bench, const ConnectOptions& options = {});

/// The device's consumer hears of no request.
void expect_no_connect_request(IwarpBench& bench, const Connected& qp);
/// What the device's consumer is told of the stream that it asked for.
peer::CmEvent outcome_of(IwarpBench& bench, const Connected& qp);
/// It is told that it came to nothing.
peer::CmEvent attempt_fails(IwarpBench& bench, const Connected& qp);
/// The stream works: a Send with that MSN, which is the tester's next, arrives in the receive request of that number.
void arrives(Connected& qp, std::uint32_t msn, std::uint64_t receive);

/// Wishes that of the device's set-up where that can be chosen; else what its frames say has to do.
void wish_if_possible(IwarpBench& bench, const MpaWishes& wishes);
/// The device asks for no CRCs in its frame, or the case is unsupported.
void without_crc(const Seen& setup);
/// The device's frame asks for markers, or the case is unsupported.
void with_markers(const Seen& setup);
/// Says the options' request, and lets the consumer accept. A device that refuses markers does so without asking its
/// consumer: that reply, else nothing, and the reply is still to come.
std::optional<Seen> markers_refused(IwarpBench& bench, Connected& qp);
/// As connect(); a device that refuses markers, which mpa.sender.markers.inserted-if-asked judges, is unsupported.
Connected& connect_with_markers(IwarpBench& bench, ConnectOptions options = {});

/// The stream ends: a Terminate of any kind, or none, then the end of TCP; no other FPDU.
void ends_with_an_error(Connected& qp);
/// What was received completes with no success.
void delivers_nothing(IwarpBench& bench, Connected& qp);

}  // namespace rdmawire::conformance::iwarp
