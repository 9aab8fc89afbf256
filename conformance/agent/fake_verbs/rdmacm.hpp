#pragma once
/// Stands in for librdmacm in tests: ids of one process reach each other over the fake verbs library's device. Like the
/// library it tells of everything by its channels; what no caller may do (use after destruction, an event that was
/// never acknowledged when its id goes, a channel that is still used) aborts.

#include <cstddef>

namespace rdmawire::agent::fake_verbs {

/// How many ids and channels there are.
std::size_t cm_alive();
/// The nth call of librdmacm from now on (1: the next) fails with that errno, and no other. 0: none.
void fail_cm_call(unsigned nth, int number);
/// Calls that could have failed, since fail_cm_call().
unsigned cm_calls();
/// From now on connections are as those of iWARP: the kernel moves queue pairs, nobody establishes.
void act_as_iwarp(bool iwarp);

}  // namespace rdmawire::agent::fake_verbs
