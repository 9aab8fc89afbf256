/// Faults of Terminate messages.

#include "conformance/device/iwarp/faults/overrides.hpp"
#include "conformance/device/iwarp/stream.hpp"

namespace rdmawire::endpoint {

namespace {

using machines::IwarpError;

constexpr FaultOverride terminate_rows[] = {
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
