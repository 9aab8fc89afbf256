#include "conformance/runner/certify.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "captures/analysis/workers.hpp"

namespace rdmawire::conformance {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// Interval at which a waiting worker checks for a stop.
constexpr auto glance = 50ms;
/// Time for an interrupted case to return.
constexpr auto grace = 3s;

/// Returns the number of objects that the device holds for this session. Excludes the CM channel, which the first case
/// that needs it creates for the whole session.
std::optional<std::uint64_t> held(peer::Peer& peer) {
  const auto answer = peer.call("objects");
  if (!answer) return std::nullopt;
  std::uint64_t count = 0;
  for (const auto& object : answer->value("objects", nlohmann::json::array()))
    if (object.value("kind", "") != "cm_channel") ++count;
  return count;
}

/// Returns an error if the device holds more objects than before the case. Waits for pending releases: those of CM
/// connections may take seconds.
std::string left_behind(DeviceUnderTest& device, std::uint64_t before) {
  std::uint64_t objects = 0;
  for (int tries = 0; tries < 500; ++tries) {
    const auto now = held(*device.peer);
    if (!now) return {};  // the device is lost, or the transfer after the case fails
    objects = *now;
    if (objects <= before) return {};
    if (!device.virtual_time()) std::this_thread::sleep_for(10ms);
  }
  return fmt::format("{} objects of the case could not be released", objects - before);
}

/// Returns whether the verdict is a failure of the device.
bool is_deviation(Verdict verdict) { return verdict == Verdict::fail || verdict == Verdict::fail_wrong_code; }

/// One run of one case in a thread of its own, which can be abandoned if the case hangs.
struct Run {
  const Case* which = nullptr;
  ParameterRow row;
  std::uint64_t seed_of_run = 0;
  std::shared_ptr<Target> target;
  std::uint64_t objects = 0;  ///< objects of the target between cases
  bool transfers = true;      ///< the transfer after the case is expected to work

  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
  CaseResult result;
  bool spoilt = false;  ///< the target is unusable for further cases
  std::optional<DeviceLost> gone;

  void operator()() {
    DeviceUnderTest& device = target->device();
    CaseResult made = run_case(*which, device, seed_of(*which, seed_of_run), row);
    std::optional<DeviceLost> lost = target->gone();
    bool broken = lost.has_value();
    if (!lost) {
      const auto trouble = [&](std::string what) {
        broken = true;
        if (is_deviation(made.judgment.verdict))
          made.judgment.actual += "; after the case " + what;
        else
          made.judgment = {Verdict::error, {}, "after the case " + what};
      };
      if (std::string left = left_behind(device, objects); !left.empty()) {
        trouble(std::move(left));
      } else if (Judgment works = transfers ? sanity(device, seed_of_run) : Judgment{};
                 works.verdict != Verdict::pass) {
        if (works = sanity(device, seed_of_run + 1); works.verdict == Verdict::pass) {
          // The device only needed time: report it, but do not reopen the device.
          trouble("one transfer failed, the next one succeeded");
          broken = false;
        } else {
          trouble(works.rule ? "every transfer violates " + text_of_violation(works) : works.actual);
        }
        lost = target->gone();
        broken |= lost.has_value();
      }
    }
    made.complaints = target->complaints();
    const std::lock_guard lock(mutex);
    result = std::move(made);
    spoilt = broken;
    gone = std::move(lost);
    done = true;
    ended.notify_all();
  }
};

/// The rows of a case.
struct Rows {
  std::mutex running;                 ///< held while a row runs
  std::vector<ParameterRow> planned;  ///< known completely after the first row
  std::size_t begun = 0, done = 0;
  bool kept = false;  ///< the result is final
  CaseResult result;
};

class Work {
 public:
  Work(std::span<const Case* const> which, const CertifyOptions& options)
      : which_(which), options_(options), results_(which.size()), rows_(which.size()) {
    if (options.timeout > 0ms) until_ = Clock::now() + options.timeout;
    if (options.budget > 0ms) budget_until_ = Clock::now() + options.budget;
    for (Rows& rows : rows_) rows.planned = {options.row.value_or(default_row())};
  }

  Certification go(std::unique_ptr<Target> first) {
    if (!opens(first)) return take();
    const std::size_t workers =
        std::clamp<std::size_t>(std::min(options_.jobs, most_jobs), 1, std::max<std::size_t>(1, which_.size()));
    std::mutex guard;
    captures::analysis::work_together(workers, [&] {
      std::shared_ptr<Target> own;
      {
        const std::lock_guard lock(guard);
        own = std::move(first);
      }
      work(std::move(own));
    });
    return take();
  }

 private:
  /// Returns why no further case starts. Empty if cases continue.
  std::string over() {
    const std::lock_guard lock(mutex_);
    if (why_.empty()) {
      pollfd waiting{options_.stop, POLLIN, 0};
      if (options_.stop >= 0 && ::poll(&waiting, 1, 0) > 0)
        why_ = "interrupted";
      else if (until_ && Clock::now() >= *until_)
        why_ = fmt::format("the time limit of {:.0f} s was reached",
                           std::chrono::duration<double>(options_.timeout).count());
    }
    return why_;
  }
  void end(std::string why) {
    const std::lock_guard lock(mutex_);
    if (why_.empty()) why_ = std::move(why);
  }

  /// Runs the transfer that opens the run, for each family of the cases. Otherwise an error of the tester, or the
  /// violation of a rule that every transfer needs, would appear as an error of every case. Returns false if no device
  /// can be opened.
  bool opens(std::unique_ptr<Target>& first) {
    for (const Family family : {Family::infiniband, Family::iwarp}) {
      const auto is_of = [&](const Case* one) { return one->family() == family; };
      if (std::none_of(which_.begin(), which_.end(), is_of)) continue;
      if (!options_.fresh) {
        // A shared device whose transfer fails for a reason other than a rule counts as lost: work() detects that.
        if (!first || first->device().family() != family) continue;
        const Judgment works = sanity(first->device(), options_.seed);
        // A frame may be lost once.
        if (works.rule && sanity(first->device(), options_.seed + 1).rule == works.rule) block(family, works);
        continue;
      }
      std::string trouble;
      const std::shared_ptr<Target> tried = opened(family, trouble);
      if (!tried) {
        end(trouble);
        return false;
      }
      if (const Judgment works = sanity(tried->device(), options_.seed); works.verdict != Verdict::pass)
        block(family, works);
    }
    if (options_.fresh) first = nullptr;
    return true;
  }

  /// Ends the cases of a family whose transfer failed, except those of the violated rule.
  void block(Family family, const Judgment& works) {
    if (works.rule) basic_.push_back({family, works});
    for (std::size_t i = 0; i < which_.size(); ++i) {
      if (which_[i]->family() != family || &*which_[i]->rule == works.rule) continue;
      CaseResult result;
      result.of = which_[i];
      result.blocked = true;
      result.judgment = works;
      if (works.rule)
        result.judgment = {Verdict::inconclusive, {}, "every transfer violates " + text_of_violation(works)};
      rows_[i].begun = rows_[i].planned.size();
      keep(i, std::move(result));
      rows_[i].kept = true;
    }
  }
  /// Returns whether a transfer is expected to work on a device of the family.
  [[nodiscard]] bool transfers(Family family) const {
    return std::none_of(basic_.begin(), basic_.end(), [&](const BasicViolation& one) { return one.family == family; });
  }

  std::shared_ptr<Target> opened(Family family, std::string& trouble) {
    const std::lock_guard lock(opening_);
    try {
      auto target = options_.open(family);
      if (target) return std::move(*target);
      trouble = target.error().message;
    } catch (const std::system_error& error) {  // a device may need threads
      trouble = fmt::format("the device could not be opened: {}", error.what());
    }
    return nullptr;
  }

  /// Returns a working device, or nullptr if no device can be opened.
  std::shared_ptr<Target> ready(Family family) {
    while (over().empty()) {
      std::string trouble;
      std::shared_ptr<Target> target = opened(family, trouble);
      if (target && (options_.fresh || !transfers(family))) return target;
      if (target) {
        const Judgment works = sanity(target->device(), options_.seed);
        if (works.verdict == Verdict::pass) return target;
        trouble = works.actual;
      }
      lost(trouble);
      for (auto waited = 0ms; waited < 1s && over().empty(); waited += glance) std::this_thread::sleep_for(glance);
    }
    return nullptr;
  }

  void lost(const std::string& how) {
    const std::lock_guard lock(mutex_);
    if (++losses_ >= options_.most_losses && why_.empty())
      why_ = fmt::format("the device was lost {} times in a row, most recently: {}", losses_, how);
  }

  /// Returns a case with a row that has not begun, or nullopt. Cases take turns.
  std::optional<std::size_t> next() {
    if (!over().empty()) return std::nullopt;
    const std::lock_guard lock(mutex_);
    const bool spent = budget_until_ && Clock::now() >= *budget_until_;
    for (std::size_t tried = 0; tried < which_.size(); ++tried) {
      const std::size_t index = next_;
      next_ = (next_ + 1) % which_.size();
      Rows& rows = rows_[index];
      if (rows.begun == rows.planned.size()) continue;
      if (!budget_until_ && rows.begun > 0) continue;  // another worker runs all rows of the case
      if (spent) {
        const double budget = std::chrono::duration<double>(options_.budget).count();
        if (rows.begun == 0) why_ = fmt::format("the budget of {:.0f} s was spent before each case ran once", budget);
        if (rows.begun == 0) return std::nullopt;
        continue;
      }
      ++rows.begun;
      return index;
    }
    return std::nullopt;
  }
  /// Plans the further rows of a case after its first one.
  void plan(Rows& rows, const EnvironmentLimits& limits) {
    const Verdict verdict = rows.result.judgment.verdict;
    const bool runs = verdict != Verdict::unsupported && verdict != Verdict::inconclusive;
    if (options_.row || options_.strength == 0 || !runs) return;
    auto planned = environment_rows(rows.result.free, limits, options_.strength, options_.seed);
    const std::lock_guard lock(mutex_);
    rows.planned = std::move(planned);
  }
  /// Returns whether the caller continues with the next row of the case.
  bool continues(Rows& rows) {
    const std::lock_guard lock(mutex_);
    if (budget_until_ || rows.begun == rows.planned.size()) return false;
    ++rows.begun;
    return true;
  }
  /// Cancels the further rows of a case.
  void cancel(Rows& rows) {
    const std::lock_guard lock(mutex_);
    rows.planned.resize(rows.begun);
  }

  void work(std::shared_ptr<Target> target) {
    if (target && !options_.fresh && transfers(target->device().family()) &&
        sanity(target->device(), options_.seed).verdict != Verdict::pass) {
      lost("the first transfer failed");
      target = nullptr;
    }
    while (const auto index = next()) {
      Rows& rows = rows_[*index];
      const std::lock_guard lock(rows.running);
      do {
        if (!run_row(*which_[*index], rows, target)) return;
      } while (continues(rows));
      if (!budget_until_) {
        keep(*index, std::move(rows.result));
        rows.kept = true;
      }
    }
  }

  /// Runs the next row of a case, with its repetitions. Returns false if it was interrupted.
  bool run_row(const Case& which, Rows& rows, std::shared_ptr<Target>& target) {
    CaseResult worst;
    EnvironmentLimits limits;
    bool lost_target = false;
    for (unsigned attempt = 0; attempt < options_.repeat; ++attempt) {
      if (options_.fresh) target = nullptr;
      if (!target && !(target = ready(which.family()))) return false;
      limits = EnvironmentLimits(target->device());
      std::optional<CaseResult> result = once(which, rows.planned[rows.done], options_.seed + attempt, target);
      if (!result) return false;  // interrupted
      lost_target |= !target && !options_.fresh;
      std::vector<Attempt> attempts = std::move(worst.attempts);
      if (options_.repeat > 1) attempts.push_back({result->judgment.verdict, options_.seed + attempt});
      if (attempt == 0 || is_worse(result->judgment.verdict, worst.judgment.verdict)) worst = std::move(*result);
      worst.attempts = std::move(attempts);
    }
    // A device that does not survive a case, or a tester that fails, would do so in each row.
    const bool is_last = lost_target || worst.judgment.verdict == Verdict::error;
    const bool failed_before = rows.done > 0 && is_failure(rows.result.judgment.verdict);
    if (rows.done++ == 0) {
      rows.result = std::move(worst);
      plan(rows, limits);
      if (options_.strength == 0 && !options_.row) {
        // Only the report of a run with rows contains parameters.
        rows.result.free = 0;
        rows.result.fixed.clear();
      }
      const CaseResult& first = rows.result;
      if (rows.planned.size() > 1)
        rows.result.rows = {{first.row, first.judgment.verdict, first.judgment.rule, first.flaky()}};
    } else {
      add_row(rows.result, std::move(worst));
    }
    if (is_last) cancel(rows);
    if (budget_until_ && options_.on_checkpoint &&
        (rows.done == 1 || (!failed_before && is_failure(rows.result.judgment.verdict)))) {
      const std::lock_guard lock(telling_);
      options_.on_checkpoint(rows.result);
    }
    return true;
  }

  /// Runs the case on the target, and resets the target if it is unusable afterwards. Returns nullopt if interrupted.
  std::optional<CaseResult> once(const Case& which, const ParameterRow& row, std::uint64_t seed,
                                 std::shared_ptr<Target>& target) {
    auto run = std::make_shared<Run>();
    run->which = &which;
    run->row = row;
    run->seed_of_run = seed;
    run->target = target;
    run->transfers = transfers(which.family());
    run->objects = held(*target->device().peer).value_or(0);
    std::thread thread;
    try {
      thread = begun(run);
    } catch (const std::system_error& error) {
      CaseResult result;
      result.of = &which;
      result.row = row;
      result.seed = seed_of(which, seed);
      result.judgment = {Verdict::error, {}, fmt::format("cannot create a thread for the case: {}", error.what())};
      return result;
    }
    const auto until = Clock::now() + options_.case_timeout;
    bool ended = false, late = false;
    {
      std::unique_lock lock(run->mutex);
      const auto is_done = [&] { return run->done; };
      while (!run->ended.wait_for(lock, glance, is_done)) {
        lock.unlock();
        ended = !over().empty();
        late = Clock::now() >= until;
        lock.lock();
        if (ended || late) break;
      }
      if (!run->done) {
        lock.unlock();
        target->interrupt();
        lock.lock();
        run->ended.wait_for(lock, grace, is_done);
        target = nullptr;
      }
      if (run->done) late = late && !target;  // it may have ended just before the timeout check
    }
    return ended && !target ? left(*run, thread, {}) : judged(*run, thread, late, target);
  }

  /// Creates a thread for one run. Retries for some time before it throws std::system_error, because other workers
  /// release their threads soon.
  std::thread begun(const std::shared_ptr<Run>& run) {
    for (auto waited = 0ms; waited < grace && over().empty(); waited += glance) {
      try {
        return std::thread([run] { (*run)(); });
      } catch (const std::system_error&) {
        std::this_thread::sleep_for(glance);
      }
    }
    return std::thread([run] { (*run)(); });
  }

  /// Joins the thread, or abandons it if it hangs.
  std::optional<CaseResult> left(Run& run, std::thread& thread, std::optional<CaseResult> with) {
    bool done = false;
    {
      const std::lock_guard lock(run.mutex);
      done = run.done;
    }
    if (done) {
      thread.join();
    } else {
      thread.detach();
      const std::lock_guard lock(mutex_);
      ++abandoned_;
    }
    return with;
  }

  std::optional<CaseResult> judged(Run& run, std::thread& thread, bool late, std::shared_ptr<Target>& target) {
    CaseResult result;
    std::optional<DeviceLost> gone;
    bool done = false;
    {
      const std::lock_guard lock(run.mutex);
      if ((done = run.done)) {
        result = std::move(run.result);
        gone = std::move(run.gone);
        if (run.spoilt) target = nullptr;
      }
    }
    result.of = run.which;
    if (!done) result.row = run.row;
    result.seed = seed_of(*run.which, run.seed_of_run);
    if (late) {
      result.judgment = {Verdict::error,
                         {},
                         fmt::format("the case took longer than {:.1f} s{}",
                                     std::chrono::duration<double>(options_.case_timeout).count(),
                                     done ? "" : ", and could not be interrupted")};
    } else if (gone) {
      std::string how = "the device was lost: " + gone->why;
      lost(how);
      if (is_deviation(result.judgment.verdict))
        result.judgment.actual += "; after the case " + how;
      else
        result.judgment = {gone->device ? Verdict::fail : Verdict::error,
                           gone->device ? "the device keeps running" : "", how};
    } else {
      const std::lock_guard lock(mutex_);
      losses_ = 0;
    }
    return left(run, thread, std::move(result));
  }

  void keep(std::size_t index, CaseResult result) {
    const std::lock_guard lock(telling_);
    results_[index] = std::move(result);
    if (options_.on_end) options_.on_end(*results_[index]);
  }

  Certification take() {
    Certification all;
    std::size_t incomplete = 0;
    for (std::size_t i = 0; i < which_.size(); ++i) {
      Rows& rows = rows_[i];
      if (rows.kept || rows.done == 0) continue;
      // A spent budget is no interruption.
      if (rows.done == rows.planned.size() || why_.empty()) {
        keep(i, std::move(rows.result));
        continue;
      }
      ++incomplete;
      results_[i] = std::move(rows.result);
      if (options_.on_interrupted) options_.on_interrupted(*results_[i]);
    }
    std::size_t ran = 0;
    for (std::optional<CaseResult>& result : results_)
      if (result) {
        ++ran;
        all.results.push_back(std::move(*result));
      }
    if (ran < results_.size())
      all.partial = fmt::format("{} of {} cases ran: {}", ran, results_.size(), over());
    else if (incomplete > 0)
      all.partial = fmt::format("some rows of {} of {} cases did not run: {}", incomplete, results_.size(), why_);
    all.abandoned = abandoned_;
    all.basic = basic_;
    return all;
  }

  const std::span<const Case* const> which_;
  const CertifyOptions& options_;
  std::optional<Clock::time_point> until_, budget_until_;
  std::mutex mutex_, opening_, telling_;
  std::vector<std::optional<CaseResult>> results_;
  std::deque<Rows> rows_;              // by case
  std::vector<BasicViolation> basic_;  // written before the workers start
  std::size_t next_ = 0, abandoned_ = 0;
  unsigned losses_ = 0;
  std::string why_;
};

}  // namespace

Certification certify(std::span<const Case* const> which, const CertifyOptions& options,
                      std::unique_ptr<Target> first) {
  return Work(which, options).go(std::move(first));
}

}  // namespace rdmawire::conformance
