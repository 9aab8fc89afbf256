#include "replay/reactive/session.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "replay/reactive/wording.hpp"

namespace rdmawire::replay::reactive {

Session::Session(const Exchange& of, const LiveDevice& with, const RunOptions& how)
    : exchange(of), device(with), options(how) {
  report.connection = describe(of.connection, of.number);
  report.device = with.name;
  report.side = of.side == tracking::Side::a ? "a" : "b";
  report.notes = of.notes;
  report.ours.all = of.ours.messages.size();
  report.theirs.all = of.theirs.messages.size();
  const std::uint32_t again = of.ours.retransmitted_packets + of.theirs.retransmitted_packets;
  if (again != 0) report.notes.push_back(fmt::format("{} captured retransmissions are not replayed", again));
}

Report Session::failed(const std::string& why) {
  fail(why);
  return std::move(report);
}

void Session::note(std::string text) {
  constexpr std::size_t most_notes = 100;
  if (report.notes.size() < most_notes) report.notes.push_back(std::move(text));
}

bool Session::stopped() {
  if (options.stop && *options.stop) report.interrupted = true;
  return report.interrupted;
}

void Session::read_counters(bool after) {
  auto counters = device.verbs->counters();
  if (!counters) return note("cannot read the device's counters: " + counters.error().message);
  if (counters->empty() && !after) return note("the device has no counters");
  if (!after) {
    counters_ = std::move(*counters);
    counted_ = true;
    return;
  }
  if (!counted_) return;
  for (const auto& [name, value] : *counters) {
    const auto change = static_cast<std::int64_t>(value - counters_[name]);
    if (change != 0) report.counters.emplace(name, change);
  }
}

tl::expected<void, std::string> Session::record() {
  auto recorder = Recorder::create(options.output, report.connection);
  if (!recorder) return tl::unexpected(recorder.error());
  recorder_ = std::move(*recorder);
  report.recorded = options.output;
  return {};
}

void Session::sent(Bytes frame, std::int64_t time, const std::string& comment) {
  ++report.sent_frames;
  report.sent_bytes += frame.size();
  if (recorder_) recorder_->add(frame, time, comment);
}

std::uint64_t Session::received(Bytes frame, std::int64_t time) {
  ++report.received_frames;
  return recorder_ ? recorder_->add(frame, time, "received") : 0;
}

void Session::take_faults(const FaultEngine& faults) {
  for (const FaultLogEntry& entry : faults.log()) report.faults.push_back(to_string(entry, faults.program()));
  const auto rules = faults.program().rules();
  for (std::size_t i = 0; i < rules.size(); ++i)
    if (faults.counts()[i].done == 0 && rules[i].probability == 1)
      report.unused_faults.push_back(fmt::format("{}: {}", rules[i].text, faults.why_not(i)));
}

void Session::take(const RoceMachine::Counts& counts, const std::vector<Divergence>& divergences) {
  report.counts = counts;
  report.ours.begun = report.counts.ours_begun;
  report.ours.done = report.counts.ours_done;
  report.theirs.begun = report.counts.theirs_asked;
  report.theirs.done = report.counts.theirs_done;
  report.divergences.insert(report.divergences.end(), divergences.begin(), divergences.end());
  // Without an injected fault, the device or the path caused the loss.
  if (report.faults.empty())
    for (Divergence& one : report.divergences) one.note = false;
}

bool Session::all_completed(const LiveEnd& end, std::size_t theirs) {
  const auto bad = [&](const peer::Completion& one, const Message& message, const char* what) {
    if (one.good() || message.refused) return;
    report.divergences.push_back({false, message.first_frame, 0, fmt::format("{} ({})", what, words_of(message)),
                                  "completed with " + one.status});
  };
  const bool all = end.sent().size() >= theirs && end.received().size() >= plan.inbox.size();
  const bool failed =
      std::any_of(end.sent().begin(), end.sent().end(), [](const auto& one) { return !one.second.good(); });
  if ((!all && !failed) || judged_) return all || failed;
  judged_ = true;
  for (const auto& [index, one] : end.sent()) bad(one, exchange.theirs.messages[index], "the peer's message");
  for (const auto& [index, one] : end.received()) {
    const Message& message = exchange.ours.messages[index];
    bad(one, message, "the receive of");
    if (!one.good()) continue;
    const auto immediate = static_cast<std::uint32_t>(message.immediate);
    if (one.byte_len != message.length || (message.has_immediate && one.imm.value_or(immediate) != immediate))
      report.divergences.push_back(
          {false, message.first_frame, 0, words_of(message),
           fmt::format("received {} bytes{}", one.byte_len, message.has_immediate ? " or other immediate data" : "")});
  }
  return true;
}

void Session::settle_memory(const LiveEnd& end) {
  compared_ = true;
  if (device.peer->lost()) return;
  constexpr int tries = 50;
  constexpr std::int64_t a_while = 20'000'000;
  for (int left = device.tcp ? tries : 1; left > 0; --left) {
    auto memory = end.compare(report.ours.done, report.theirs.done);
    if (!memory) return fail(memory.error());
    report.memory = std::move(*memory);
    const bool good = std::all_of(report.memory.begin(), report.memory.end(), [](const auto& one) { return one.good; });
    if (good || !device.tcp || !device.tcp->pass(device.tcp->now() + a_while)) return;
  }
}

Report Session::finish(const LiveEnd& end) {
  if (device.peer->lost()) {
    fail(fmt::format("lost the connection to the device's agent: {}", device.peer->lost()->message));
  } else {
    if (!compared_) settle_memory(end);
    read_counters(true);
  }
  if (recorder_) {
    report.findings = recorder_->finish();
    if (!recorder_->trouble().empty()) fail("record: " + recorder_->trouble());
  }
  return std::move(report);
}

void add_regions(const MemoryPlan& plan, const LiveEnd& end, MappedEnd& theirs) {
  for (std::size_t i = 0; i < plan.regions.size(); ++i)
    theirs.regions.push_back({.key = {plan.regions[i].key, end.region(i).rkey()},
                              .base = {plan.regions[i].base, end.region(i).addr()},
                              .length = plan.regions[i].expected.size()});
}

}  // namespace rdmawire::replay::reactive
