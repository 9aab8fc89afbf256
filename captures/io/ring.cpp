#include "captures/io/ring.hpp"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <ctime>
#include <utility>

namespace rdmawire::captures {

namespace {
/// Returns the difference of two counters. If either is missing, returns `after`.
std::optional<std::uint64_t> between(const std::optional<std::uint64_t>& before,
                                     const std::optional<std::uint64_t>& after) {
  if (!after || !before) return after;
  return *after >= *before ? *after - *before : 0;
}
}  // namespace

RingWriter::RingWriter(std::string path, Options options, Counters counters)
    : path_(std::move(path)), options_(std::move(options)), counters_(std::move(counters)) {}

std::uint32_t RingWriter::add_interface(const Interface& interface) {
  interfaces_.push_back(interface);
  counted_.emplace_back();
  return static_cast<std::uint32_t>(interfaces_.size() - 1);
}

std::string RingWriter::name_of(std::uint64_t number, std::int64_t now) const {
  if (options_.max_bytes == 0 && options_.max_nanoseconds == 0) return path_;
  const std::time_t seconds = now / 1'000'000'000;
  std::tm local{};
  ::localtime_r(&seconds, &local);
  std::array<char, 64> middle{};
  const int count = std::snprintf(middle.data(), middle.size(), "_%05llu_", static_cast<unsigned long long>(number));
  std::strftime(middle.data() + count, middle.size() - static_cast<std::size_t>(count), "%Y%m%d%H%M%S", &local);
  // Insert the text before the extension, which has two parts in compressed files: x.pcapng.gz.
  const std::size_t slash = path_.rfind('/');
  std::size_t name_end = path_.size();
  if (compression_of_name(path_) != Compression::none) name_end = path_.rfind('.');
  std::size_t dot = path_.rfind('.', name_end == 0 ? 0 : name_end - 1);
  if (dot == std::string::npos || (slash != std::string::npos && dot < slash) || name_end == 0) dot = name_end;
  return path_.substr(0, dot) + middle.data() + path_.substr(dot);
}

RingWriter::Result RingWriter::begin(std::int64_t now) {
  const std::string name = name_of(++begun_, now);
  auto writer = Writer::create(name, options_.writer);
  if (!writer) return tl::unexpected(std::move(writer.error()));
  writer_ = std::move(*writer);
  files_.push_back(name);
  file_begun_ = now;
  file_records_ = 0;
  for (const Interface& interface : interfaces_)
    if (auto index = writer_->add_interface(interface); !index) return tl::unexpected(std::move(index.error()));
  while (options_.keep != 0 && files_.size() > options_.keep) {
    // Errors are ignored, because another process may have moved the file.
    (void)::unlink(files_.front().c_str());
    files_.pop_front();
  }
  return {};
}

RingWriter::Result RingWriter::end(std::int64_t now) {
  if (counters_) {
    const auto counts = counters_();
    for (std::size_t i = 0; i < counts.size() && i < interfaces_.size(); ++i) {
      if (!counts[i]) continue;
      const InterfaceStatistics& total = *counts[i];
      InterfaceStatistics& before = counted_[i];
      InterfaceStatistics here = total;
      here.time = now;
      here.start_time = file_begun_;
      here.end_time = now;
      here.received = between(before.received, total.received);
      here.interface_drops = between(before.interface_drops, total.interface_drops);
      here.filter_accepted = between(before.filter_accepted, total.filter_accepted);
      here.system_drops = between(before.system_drops, total.system_drops);
      here.delivered = between(before.delivered, total.delivered);
      before = total;
      if (Result r = writer_->write(static_cast<std::uint32_t>(i), here); !r) return r;
    }
  }
  Result result = writer_->close();
  writer_.reset();
  return result;
}

RingWriter::Result RingWriter::rotate_when_due(std::int64_t now, std::uint64_t coming) {
  if (writer_) {
    const bool large = options_.max_bytes != 0 && file_records_ > 0 && writer_->size() + coming > options_.max_bytes;
    const bool old = options_.max_nanoseconds != 0 && now - file_begun_ >= options_.max_nanoseconds;
    if (!large && !old) return {};
    if (Result r = end(now); !r) return r;
  }
  return begin(now);
}

RingWriter::Result RingWriter::write(const Record& record, std::int64_t now,
                                     std::span<const std::string_view> comments) {
  constexpr std::uint64_t block =
      40;  // bytes of a packet's block around its data, slightly more than pcap's record header
  if (Result r = rotate_when_due(now, record.bytes.size() + block); !r) return r;
  if (Result r = writer_->write(record, comments); !r) return r;
  ++records_;
  ++file_records_;
  return {};
}

RingWriter::Result RingWriter::tick(std::int64_t now) { return rotate_when_due(now, 0); }
RingWriter::Result RingWriter::flush() { return writer_ ? writer_->flush() : Result{}; }
RingWriter::Result RingWriter::close(std::int64_t now) {
  if (!writer_ && begun_ > 0) return {};
  if (!writer_)
    if (Result r = begin(now); !r) return r;
  return end(now);
}

}  // namespace rdmawire::captures
