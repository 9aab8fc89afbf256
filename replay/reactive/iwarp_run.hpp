#pragma once
/// A stream of iWARP, played: TCP and MPA are set up, then the FPDUs of the captured side are said.

#include "replay/reactive/session.hpp"

namespace rdmawire::replay::reactive {

/// Plays session.exchange, whose memory is planned; whatever goes wrong is the report's failure.
Report play_stream(Session& session);

}  // namespace rdmawire::replay::reactive
