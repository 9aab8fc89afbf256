#pragma once
/// Reactive replay of an iWARP stream.

#include "replay/reactive/session.hpp"

namespace rdmawire::replay::reactive {

/// Sets up TCP and MPA, then replays session.exchange. Requires a memory plan. Errors are returned in Report::failure.
Report play_stream(Session& session);

}  // namespace rdmawire::replay::reactive
