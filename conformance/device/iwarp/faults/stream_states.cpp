/// Faults of the states of a stream.

#include "conformance/device/iwarp/faults/overrides.hpp"
#include "conformance/device/iwarp/stream.hpp"

namespace rdmawire::endpoint {

namespace {

using machines::IwarpError;
using machines::StreamState;
using machines::StreamStep;

constexpr FaultOverride state_rows[] = {
    // Errors
    {Fault::responder_sends_first,
     [](Decisions& d) {
       d.transmit.may_send.override_with([](const auto& /*next*/, machines::MpaPhase /*phase*/) { return true; });
       d.states.step_after_error.override_with([](const auto& /*next*/, const Stream& stream, IwarpError /*error*/) {
         return machines::after(stream.state, machines::StreamEvent::error);
       });
     }},
    {Fault::silent_setup_error,
     [](Decisions& d) {
       d.states.step_after_error.override_with([](const auto& next, const Stream& stream, IwarpError error) {
         if (error == machines::iwarp_error::setup_local)
           return StreamStep{StreamState::closed, {.reset = true, .flush = true}};
         return next(stream, error);
       });
     }},
    {Fault::resets_for_crc_error,
     [](Decisions& d) {
       d.states.step_after_error.override_with([](const auto& next, const Stream& stream, IwarpError error) {
         const StreamStep step = next(stream, error);
         return error.layer == terminate_layer::llp && step.actions.terminate ? aborted : step;
       });
     }},
    {Fault::tells_last_error,
     [](Decisions& d) {
       d.states.receives.override_with(
           [](const auto& next, StreamState state) { return state == StreamState::terminating || next(state); });
       d.states.reports_error.override_with([](const auto& next, const Stream& stream, const StreamStep& step) {
         return (stream.terminate && step.state == StreamState::terminating) || next(stream, step);
       });
     }},
    {Fault::places_after_error,
     [](Decisions& d) {
       d.states.receives.override_with(
           [](const auto& next, StreamState state) { return state == StreamState::terminating || next(state); });
     }},
    {Fault::forgets_to_flush,
     [](Decisions& d) {
       d.states.flush.override_with([](const auto& /*next*/, Stream& /*stream*/) {});
       d.terminate.fail_quoted_read.override_with(
           [](const auto& /*next*/, Stream& /*stream*/, IwarpError /*error*/) {});
     }},
    {Fault::terminate_untold,
     [](Decisions& d) {
       d.states.reported_error.override_with([](const auto& next, ConnectionEvent::Type type, IwarpError error) {
         return type == ConnectionEvent::Type::terminated ? IwarpError{} : next(type, error);
       });
     }},
    // Close
    {Fault::takes_fin_in_message,
     [](Decisions& d) {
       d.states.is_inside_message.override_with([](const auto& /*next*/, const Stream& /*stream*/) { return false; });
     }},
    {Fault::takes_data_after_fin,
     [](Decisions& d) {
       d.states.receives.override_with(
           [](const auto& next, StreamState state) { return state == StreamState::peer_closed || next(state); });
     }},
    {Fault::forgets_close_before_rtr,
     [](Decisions& d) {
       d.states.end_by_fin.override_with([](const auto& next, Stream& stream) {
         if (stream.any_fpdu) return next(stream);
         stream.phase = machines::MpaPhase::ended;
         stream.fin = stream.end_reported = true;
       });
       d.states.end_by_loss.override_with([](const auto& next, Stream& stream) {
         if (stream.any_fpdu) return next(stream);
         stream.phase = machines::MpaPhase::ended;
         stream.end_reported = true;
       });
     }},
    {Fault::resets_after_terminate,
     [](Decisions& d) {
       d.states.close.override_with([](const auto& next, Stream& stream, Output& output) {
         next(stream, output);
         if (stream.state != StreamState::terminating) return;
         output.fin = false;
         stream.reset = true;
       });
     }},
};

}  // namespace

std::span<const FaultOverride> state_overrides() { return state_rows; }

}  // namespace rdmawire::endpoint
