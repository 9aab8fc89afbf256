/// Faults of Terminate messages.

#include "conformance/device/iwarp/faults/overrides.hpp"
#include "conformance/device/iwarp/stream.hpp"

namespace rdmawire::endpoint {

namespace {

using machines::IwarpError;
using Message = std::vector<std::uint8_t>;

constexpr FaultOverride terminate_rows[] = {
    // Transmission
    {Fault::terminate_on_queue_0,
     [](Decisions& d) {
       d.transmit.queue_of.override_with([](const auto& next, RdmapOperation operation) {
         return operation == RdmapOperation::terminate ? 0 : next(operation);
       });
     }},
    {Fault::terminate_inside_message,
     [](Decisions& d) {
       d.transmit.send_segment.override_with([](const auto& next, Stream& stream) {
         if (stream.terminate) {
           stream.outgoing.reset();
           (void)choose_next(stream);
         }
         next(stream);
       });
     }},
    {Fault::terminates_twice,
     [](Decisions& d) {
       d.transmit.end_message.override_with([](const auto& next, Stream& stream) {
         const bool terminate = stream.outgoing->operation == RdmapOperation::terminate;
         Message message = stream.outgoing->content;
         next(stream);
         if (!terminate || !stream.fin || stream.faults.terminated_twice) return;
         stream.faults.terminated_twice = true;
         stream.terminate = std::move(message);
       });
     }},
    {Fault::sends_after_terminate,
     [](Decisions& d) {
       d.transmit.end_message.override_with([](const auto& next, Stream& stream) {
         const bool terminate = stream.outgoing->operation == RdmapOperation::terminate;
         next(stream);
         if (terminate) begin(stream, RdmapOperation::send, {1, 2, 3, 4});
       });
     }},
    // Received messages
    {Fault::silent_malformed_terminate,
     [](Decisions& d) {
       d.responder.reject_message.override_with(
           [](const auto& next, Stream& stream, RdmapOperation operation, IwarpError error, Bytes ulpdu) {
             if (operation != RdmapOperation::terminate) next(stream, operation, error, ulpdu);
           });
     }},
    {Fault::terminate_needs_receive,
     [](Decisions& d) {
       d.terminate.handle.override_with([](const auto& next, Stream& stream, IwarpError error) {
         if (!stream.receives.empty()) next(stream, error);
       });
     }},
};

}  // namespace

std::span<const FaultOverride> terminate_overrides() { return terminate_rows; }

}  // namespace rdmawire::endpoint
