/// Faults of the states of a stream.

#include "conformance/device/iwarp/faults/overrides.hpp"
#include "conformance/device/iwarp/stream.hpp"

namespace rdmawire::endpoint {

namespace {

using machines::StreamState;

constexpr FaultOverride state_rows[] = {
    {Fault::responder_sends_first,
     [](Decisions& d) {
       d.transmit.may_send.override_with([](const auto& /*next*/, machines::MpaPhase /*phase*/) { return true; });
     }},
    {Fault::places_after_error,
     [](Decisions& d) {
       d.states.receives.override_with(
           [](const auto& next, StreamState state) { return state == StreamState::terminating || next(state); });
     }},
    {Fault::tells_last_error,
     [](Decisions& d) {
       d.states.receives.override_with(
           [](const auto& next, StreamState state) { return state == StreamState::terminating || next(state); });
     }},
    {Fault::takes_data_after_fin,
     [](Decisions& d) {
       d.states.receives.override_with(
           [](const auto& next, StreamState state) { return state == StreamState::peer_closed || next(state); });
     }},
};

}  // namespace

std::span<const FaultOverride> state_overrides() { return state_rows; }

}  // namespace rdmawire::endpoint
