#pragma once
/// Replaces librdmacm in tests: ids of one process connect to each other over the device of fake_verbs. All results are
/// reported by channel events. It aborts on invalid use: use after destruction, unacknowledged events when an id is
/// destroyed, destroying a channel in use.

#include <cstddef>

namespace rdmawire::agent::fake_verbs {

/// Number of ids and channels.
std::size_t cm_alive();
/// Makes the nth librdmacm call from now on fail with this errno. 1: the next call. 0: no call.
void fail_cm_call(unsigned nth, int number);
/// Number of calls since fail_cm_call() that could fail.
unsigned cm_calls();
/// Emulates iWARP connections: the kernel changes the QP states, and there is no establish step.
void act_as_iwarp(bool iwarp);

}  // namespace rdmawire::agent::fake_verbs
