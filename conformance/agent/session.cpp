#include "conformance/agent/session.hpp"

#include <algorithm>
#include <utility>

namespace rdmawire::agent {

std::string line_of(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string error_line(std::string_view id, const Error& error) {
  const Json json = {{"errno", error.number}, {"name", errno_name(error.number)}, {"message", error.message}};
  return fmt::format(R"({{"id":{},"error":{}}})", id, line_of(json));
}

void Answer::operator()(const Result<Json>& result) const {
  const auto session = session_.lock();
  if (!session) return;
  if (result) {
    session->say(fmt::format(R"({{"id":{},"result":{}}})", id_, line_of(*result)));
  } else {
    session->say(error_line(id_, {result.error().number, fmt::format("{}: {}", command_, result.error().message)}));
  }
}

Session::Session(Loop& loop, const Settings& settings, Say say)
    : loop_(&loop), settings_(&settings), say_(std::move(say)), slow_calls_(loop) {
  slow_calls_.freed = [this] {
    releases_wait = false;
    for (const auto& doing : std::exchange(put_off_, {})) doing();
  };
}

void Session::make_slow_call(SlowCalls::Call call) {
  if (settings_->threads) {
    slow_calls_.begin(std::move(call));
  } else {
    const int number = call.make();
    call.then(number);
  }
}

bool Session::put_off(std::function<void()> doing) {
  if (put_off_.size() >= most_waits) return false;
  put_off_.push_back(std::move(doing));
  return true;
}

void Session::say(std::string line) {
  if (!ended_ && !quiet_) say_(std::move(line));
}

void Session::wait(Loop::Time timeout, std::function<bool(bool)> look) {
  if (look(timeout <= 0)) return;
  waits_.push_back({loop_->now() + timeout, Loop::millisecond / 10, std::move(look), {}});
  look_again(std::prev(waits_.end()));
}

void Session::look_again(std::list<Wait>::iterator wait) {
  const Loop::Time now = loop_->now();
  const Loop::Time next = std::min(now + wait->pause, std::max(wait->deadline, now));
  wait->timer = loop_->add_timer(next, [this, wait] {
    wait->pause = std::min(wait->pause * 2, 2 * Loop::millisecond);
    const bool last = loop_->now() >= wait->deadline;
    if (wait->look(last) || last) {
      waits_.erase(wait);
    } else {
      look_again(wait);
    }
  });
}

std::size_t Session::reset() {
  waits_.clear();
  put_off_.clear();
  releases_wait = false;
  quiet_ = true;
  slow_calls_.settle();
  quiet_ = false;
  const std::size_t had = objects_.size();
  const std::size_t left = objects_.release_all();
  return had - left;
}

void Session::end() {
  if (ended_) return;
  ended_ = true;
  reset();
}

}  // namespace rdmawire::agent
