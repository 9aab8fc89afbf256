#include "captures/analysis/capture_scan.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <new>

#include "captures/analysis/workers.hpp"
#include "captures/io/contents_size.hpp"
#include "dissectors/protocol/time.hpp"

namespace rdmawire::captures::analysis {
namespace {

bool is_regular(const std::string& name) {
  struct stat status {};
  return name != "-" && ::stat(name.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

bool read_number(std::string_view text, std::int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

/// Converts a text such as "12.5" to nanoseconds.
std::optional<std::int64_t> read_seconds(std::string_view text) {
  const std::size_t dot = text.find('.');
  std::int64_t whole = 0, fraction = 0;
  if (!read_number(text.substr(0, dot), whole) || whole < 0 || whole > INT64_MAX / 1'000'000'000 - 1) return {};
  if (dot != std::string_view::npos) {
    std::string digits(text.substr(dot + 1));
    if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) return {};
    digits.resize(9, '0');
    if (!read_number(digits, fraction)) return {};
  }
  return whole * 1'000'000'000 + fraction;
}

}  // namespace

bool Window::has(std::int64_t time, std::uint64_t frame) const {
  const auto value = [&](const Boundary& b) {
    return b.kind == Boundary::Kind::frame ? static_cast<std::int64_t>(frame) : time;
  };
  return (from_.kind == Boundary::Kind::none || value(from_) >= from_.value) &&
         (to_.kind == Boundary::Kind::none || value(to_) <= to_.value);
}

bool Overlaps::end_of_file() {
  if (first_ > last_) return false;  // the file has no packets
  bool overlaps = false;
  if (latest_first_ <= latest_last_) {
    const std::int64_t shared = difference(std::min(latest_last_, last_), std::max(latest_first_, first_));
    const std::int64_t shorter = std::min(difference(latest_last_, latest_first_), difference(last_, first_));
    overlaps = shared > 0 && shared >= shorter / 2;
  }
  if (latest_first_ > latest_last_ || last_ > latest_last_) {
    latest_first_ = first_;
    latest_last_ = last_;
  }
  first_ = INT64_MAX;
  last_ = INT64_MIN;
  return overlaps;
}

void note_end(const Reader& reader, Next next, Input::File& facts) {
  for (const Interface& interface : reader.interfaces())
    if (const auto drops = interface.statistics ? interface.statistics->drops() : std::nullopt)
      facts.lost_by_capture = facts.lost_by_capture.value_or(0) + *drops;
  if (next == Next::error) facts.error = to_string(reader.error());
}

Boundary Boundary::from_origin(std::int64_t origin) const {
  if (kind != Kind::relative) return *this;
  return {Kind::absolute, std::max<std::int64_t>(origin, 0) > INT64_MAX - value ? INT64_MAX : value + origin};
}

std::optional<Boundary> Boundary::parse(std::string_view text) {
  constexpr std::string_view frame = "frame:";
  Boundary boundary;
  if (text.starts_with(frame)) {
    boundary.kind = Kind::frame;
    if (!read_number(text.substr(frame.size()), boundary.value) || boundary.value < 1) return {};
    return boundary;
  }
  if (text.size() > 10 && text[4] == '-' && text[7] == '-') {
    // Parses 2026-11-21T07:53:37.1, with a T or a blank as separator.
    std::int64_t year = 0, month = 0, day = 0, hour = 0, minute = 0;
    if (text.back() == 'Z') text.remove_suffix(1);
    if (text.size() < 19 || text[13] != ':' || text[16] != ':' || (text[10] != 'T' && text[10] != ' ')) return {};
    const auto seconds = read_seconds(text.substr(17));
    if (!read_number(text.substr(0, 4), year) || !read_number(text.substr(5, 2), month) ||
        !read_number(text.substr(8, 2), day) || !read_number(text.substr(11, 2), hour) ||
        !read_number(text.substr(14, 2), minute) || !seconds)
      return {};
    const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(year)),
                                           std::chrono::month(static_cast<unsigned>(month)),
                                           std::chrono::day(static_cast<unsigned>(day))};
    if (!date.ok() || hour > 23 || minute > 59 || year > 2200) return {};
    const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
    boundary.kind = Kind::absolute;
    boundary.value = (days * 86400 + hour * 3600 + minute * 60) * 1'000'000'000 + *seconds;
    return boundary;
  }
  const auto ns = read_seconds(text);
  if (!ns) return {};
  constexpr std::int64_t epoch_from = 100'000'000LL * 1'000'000'000;  // year 1973
  boundary.kind = *ns >= epoch_from ? Kind::absolute : Kind::relative;
  boundary.value = *ns;
  return boundary;
}

CaptureScan::CaptureScan(const ScanOptions& options, std::vector<std::string>& errors)
    : options_(options), from_(options.from), to_(options.to) {
  for (const std::string& name : options.files) {
    auto reader = Reader::open(name);
    if (!reader) {
      errors.push_back(to_string(reader.error()));
      continue;
    }
    OpenFile file;
    file.name = name;
    file.seekable = is_regular(name);
    file.reader = std::move(*reader);
    if (file.seekable) file.bytes = file.reader->file_size();
    file.first_next = file.reader->next(file.first);
    if (file.first_next == Next::record) file.first_time = file.first.time;
    files_.push_back(std::move(file));
    if (files_.back().seekable) files_.back().reader.reset();  // limits the number of open files
  }
  std::stable_sort(files_.begin(), files_.end(),
                   [](const OpenFile& a, const OpenFile& b) { return a.first_time < b.first_time; });
  const std::int64_t origin = files_.empty() ? 0 : files_.front().first_time;
  from_ = from_.from_origin(origin);
  to_ = to_.from_origin(origin);
}

unsigned CaptureScan::shards(unsigned threads) {
  return static_cast<unsigned>(std::clamp<std::size_t>(threads, 1, most_workers));
}

bool CaptureScan::seekable() const {
  return std::all_of(files_.begin(), files_.end(), [](const OpenFile& file) { return file.seekable; });
}

bool CaptureScan::large() const {
  std::uint64_t bytes = 0;
  for (const OpenFile& file : files_) bytes += file.bytes;
  return seekable() && bytes >= options_.parallel_from;
}

void CaptureScan::divide(unsigned shards, const std::function<void(unsigned)>& work) {
  std::atomic<unsigned> next = 0;
  work_together(shards, [&] {
    for (unsigned shard = next++; shard < shards; shard = next++) work(shard);
  });
}

void CaptureScan::through(FrameConsumer& taker, bool first, Input& input, std::vector<std::string>& errors) {
  const Window window(from_, to_);
  std::uint64_t frame = 0;
  Overlaps overlaps;
  for (OpenFile& file : files_) {
    Input::File facts{file.name, 0, 0, frame + 1, std::nullopt, {}};
    std::optional<Reader> own;
    Record record;
    Next next = Next::end;
    Reader* reader = nullptr;
    if (file.seekable) {
      auto opened = Reader::open(file.name);
      if (!opened) {
        if (first) errors.push_back(to_string(opened.error()));
        continue;
      }
      own = std::move(*opened);
      reader = &*own;
      next = reader->next(record);
    } else {
      reader = &*file.reader;
      record = file.first;
      next = file.first_next;
    }
    const bool stays = reader->stable();
    bool exhausted = false;
    try {
      while (next == Next::record) {
        ++frame;
        ++facts.packets;
        facts.bytes += record.bytes.size();
        overlaps.packet(record.time);
        if (window.has(record.time, frame)) taker.add(record, frame, stays);
        if ((frame & 0xfff) == 0) {
          if (taker.gives_up()) return taker.abandon();
          if (options_.stop && options_.stop->load(std::memory_order_relaxed)) return taker.drain();
          if (first && options_.progress)
            options_.progress(frame, reader->position(), captures::contents_size(*reader), reader->name());
        }
        next = reader->next(record);
      }
      taker.drain();
    } catch (const std::bad_alloc&) {
      taker.out_of_memory();
      exhausted = true;
    } catch (...) {
      taker.abandon();
      throw;
    }
    if (!first) {
      if (exhausted) return;
      continue;
    }
    if (facts.packets == 0) facts.first_frame = 0;
    input.overlapping_files += overlaps.end_of_file();
    note_end(*reader, exhausted ? Next::end : next, facts);
    facts.out_of_memory = exhausted;
    if (exhausted) facts.error = fmt::format("{}: out of memory at frame {}", file.name, frame);
    if (!facts.error.empty()) errors.push_back(facts.error);
    input.files.push_back(std::move(facts));
    if (exhausted) return;
  }
}

}  // namespace rdmawire::captures::analysis
