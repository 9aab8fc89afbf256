#include "captures/analysis/live_analysis.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <thread>

namespace rdmawire::captures::analysis {

LiveAnalysis::LiveAnalysis(std::string name, const RunOptions& options)
    : options_(within_memory(options)), pipeline_(options_), facts_{std::move(name), 0, 0, 0, std::nullopt, {}} {}

tl::expected<std::unique_ptr<LiveAnalysis>, std::string> LiveAnalysis::file(const std::string& name,
                                                                            const RunOptions& options) {
  struct stat status {};
  if (::stat(name.c_str(), &status) != 0) return tl::unexpected(fmt::format("{}: file not found", name));
  if (!S_ISREG(status.st_mode)) return tl::unexpected(fmt::format("{}: --follow requires a regular file", name));
  return std::unique_ptr<LiveAnalysis>(new LiveAnalysis(name, options));
}

tl::expected<std::unique_ptr<LiveAnalysis>, std::string> LiveAnalysis::device(const std::string& name,
                                                                              const LiveCapture::Options& live,
                                                                              const RunOptions& options) {
  auto capture = LiveCapture::open(name, live);
  if (!capture) return tl::unexpected(to_string(capture.error()));
  auto made = std::unique_ptr<LiveAnalysis>(new LiveAnalysis(name, options));
  made->live_.emplace(std::move(*capture));
  return made;
}

bool LiveAnalysis::take(Clock::time_point until, const std::atomic<bool>& stop) {
  return live_ ? take_of_device(until, stop) : take_of_file(until, stop);
}

void LiveAnalysis::take(const Record& record) {
  ++facts_.packets;
  facts_.first_frame = 1;
  facts_.bytes += record.bytes.size();
  pipeline_.add(record, facts_.packets);
}

bool LiveAnalysis::take_of_device(Clock::time_point until, const std::atomic<bool>& stop) {
  Record record;
  for (std::uint64_t looked = 1; !stop; ++looked) {
    const Next next = live_->next(record);
    if (next == Next::record) {
      take(record);
      if (looked % 256 != 0) continue;  // the clock is read only once per 256 packets
    } else if (next != Next::timeout) {
      if (next == Next::error) errors_.push_back(to_string(live_->error()));
      return false;
    }
    if (Clock::now() >= until) break;
  }
  return true;
}

// When the file has grown, opens it again and skips the records that were already read (a few nanoseconds each).
bool LiveAnalysis::take_of_file(Clock::time_point until, const std::atomic<bool>& stop) {
  while (!stop) {
    struct stat status {};
    if (::stat(facts_.name.c_str(), &status) != 0) {
      errors_.push_back(fmt::format("{}: the file was removed", facts_.name));
      return false;
    }
    if (!reader_ && status.st_size != size_ && status.st_size != 0) {
      size_ = status.st_size;
      auto opened = Reader::open(facts_.name);
      // If the file header is incomplete, wait until the rest is written.
      if (!opened && opened.error().kind != CaptureError::Kind::truncated) {
        errors_.push_back(to_string(opened.error()));
        return false;
      }
      if (opened) reader_.emplace(std::move(*opened));
    }
    Record record;
    while (reader_) {
      if (reader_->next(record) != Next::record) {
        reader_.reset();
        break;
      }
      if (reader_->records() > facts_.packets) take(record);
      if (reader_->records() % 4096 == 0 && (stop || Clock::now() >= until)) return true;
    }
    const auto now = Clock::now();
    if (now >= until) break;
    std::this_thread::sleep_for(std::min<Clock::duration>(until - now, std::chrono::milliseconds(100)));
  }
  return true;
}

Json LiveAnalysis::report(std::size_t rows) {
  Input input;
  input.files.push_back(facts_);
  input.memory = options_.memory;
  if (options_.filter) input.filter = options_.filter->text();
  return report_of(pipeline_.analysis(), input, {}, rows);
}

RunResult LiveAnalysis::finish() {
  pipeline_.finish();
  RunResult result{std::move(pipeline_.analysis()), {}, errors_, 0};
  if (live_)
    if (const auto statistics = live_->statistics()) facts_.lost_by_capture = statistics->drops();
  result.input.evicted_packets = pipeline_.evicted_packets();
  result.input.memory = options_.memory;
  if (options_.filter) result.input.filter = options_.filter->text();
  if (facts_.packets != 0 || errors_.empty()) result.input.files.push_back(facts_);
  return result;
}

}  // namespace rdmawire::captures::analysis
