#include "conformance/agent/slow_calls.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <system_error>
#include <utility>

namespace rdmawire::agent {
namespace {

/// Signal that interrupts a blocked call with EINTR, and has no other effect.
constexpr int nudge = SIGUSR2;
constexpr int nudge_again_ms = 5;

void take_nudges() {
  static const bool once = [] {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    return ::sigaction(nudge, &action, nullptr) == 0;
  }();
  static_cast<void>(once);
}

}  // namespace

void SlowCalls::begin(Call call) {
  calls_.push_back(std::make_unique<Entry>());
  calls_.back()->call = std::move(call);
  if (woken_ < 0) {
    woken_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (woken_ >= 0) watch_ = loop_->add_descriptor(woken_, POLLIN, [this](short) { collect(); });
  }
  start_some();
}

void SlowCalls::start_some() {
  auto running =
      std::count_if(calls_.begin(), calls_.end(), [](const auto& entry) { return entry->thread.joinable(); });
  for (const auto& entry : calls_) {
    if (running >= static_cast<std::ptrdiff_t>(most_threads)) return;
    if (entry->thread.joinable() || entry->done || entry->unwanted) continue;
    start(*entry);
    ++running;
  }
}

void SlowCalls::start(Entry& entry) {
  take_nudges();
  // Block all other signals in the thread: the loop's thread handles them.
  sigset_t all, before;
  sigfillset(&all);
  sigdelset(&all, nudge);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const auto run = [&entry, wake = woken_] {
    entry.number = entry.call.make();
    entry.done = true;
    eventfd_write(wake, 1);
  };
  bool alone = woken_ >= 0;
  if (alone) {
    try {
      entry.thread = std::thread(run);
    } catch (const std::system_error&) {
      alone = false;
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  // If no thread can be created, the loop makes the call.
  if (!alone) {
    entry.number = entry.call.make();
    entry.done = true;
    if (woken_ >= 0) {
      eventfd_write(woken_, 1);
    } else {
      watch_ = loop_->add_timer_in(0, [this] { collect(); });
    }
  }
}

bool SlowCalls::finished(const Entry& entry) const {
  return entry.done || (entry.unwanted && !entry.thread.joinable());
}

void SlowCalls::collect() {
  eventfd_t count = 0;
  if (woken_ >= 0) eventfd_read(woken_, &count);
  bool some = false;
  for (;;) {
    const auto found = std::find_if(calls_.begin(), calls_.end(), [&](const auto& entry) { return finished(*entry); });
    if (found == calls_.end()) break;
    const auto entry = std::move(*found);
    calls_.erase(found);
    if (entry->thread.joinable()) entry->thread.join();
    const bool cut_short = !entry->done || (entry->unwanted && entry->number == EINTR);
    entry->call.then(cut_short ? ECANCELED : entry->number);
    some = true;
  }
  start_some();
  if (some && freed && !settling_) freed();
}

bool SlowCalls::uses(Handle handle) const {
  return std::any_of(calls_.begin(), calls_.end(), [&](const auto& entry) {
    const auto& used = entry->call.uses;
    return std::find(used.begin(), used.end(), handle) != used.end();
  });
}

bool SlowCalls::takes(Handle handle) const {
  return std::any_of(calls_.begin(), calls_.end(), [&](const auto& entry) { return entry->call.takes == handle; });
}

void SlowCalls::interrupt(Handle handle) {
  for (const auto& entry : calls_) {
    const auto& used = entry->call.uses;
    if (std::find(used.begin(), used.end(), handle) != used.end()) entry->unwanted = true;
  }
  press();
}

/// Sends the signal to all interrupted calls, and repeats this by a timer: a signal before the call blocks has no
/// effect.
void SlowCalls::press() {
  bool more = false, idle = false;
  for (const auto& entry : calls_) {
    if (!entry->unwanted) continue;
    if (entry->thread.joinable() && !entry->done) pthread_kill(entry->thread.native_handle(), nudge);
    more = true;
    idle = idle || finished(*entry);
  }
  if (idle && woken_ >= 0) eventfd_write(woken_, 1);
  if (more) pressing_ = loop_->add_timer_in(nudge_again_ms * Loop::millisecond, [this] { press(); });
}

void SlowCalls::settle() {
  settling_ = true;
  // Repeat until no call is left: a `then` may start another one.
  while (!calls_.empty()) {
    for (const auto& entry : calls_) entry->unwanted = true;
    press();
    pollfd woken{woken_, POLLIN, 0};
    ::poll(&woken, 1, nudge_again_ms);
    collect();
  }
  pressing_.stop();
  watch_.stop();
  if (woken_ >= 0) ::close(woken_);
  woken_ = -1;
  settling_ = false;
}

}  // namespace rdmawire::agent
