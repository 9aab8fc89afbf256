#include "replay/reactive/recorder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "captures/analysis/findings.hpp"

namespace rdmawire::replay::reactive {

Recorder::Recorder() : pipeline_(options_) {}

tl::expected<std::unique_ptr<Recorder>, std::string> Recorder::create(const std::string& path,
                                                                      const std::string& comment) {
  std::unique_ptr<Recorder> recorder(new Recorder());
  recorder->path_ = path;
  if (path.empty()) return recorder;
  captures::Writer::Options options;
  options.section.application = "rdmawire replay --reactive";
  options.section.comments = {comment};
  auto writer = captures::Writer::create(path, options);
  if (!writer) return tl::unexpected(to_string(writer.error()));
  recorder->writer_.emplace(std::move(*writer));
  captures::Interface interface;
  interface.name = "replay";
  if (auto added = recorder->writer_->add_interface(interface); !added) return tl::unexpected(to_string(added.error()));
  return recorder;
}

std::uint64_t Recorder::add(Bytes frame, std::int64_t time, const std::string& comment) {
  last_ = std::max(last_, time);
  captures::Record record;
  record.bytes = frame;
  record.time = last_;
  record.number = ++frames_;
  record.wire_length = static_cast<std::uint32_t>(frame.size());
  pipeline_.add(record, frames_);
  if (writer_ && trouble_.empty()) {
    const std::string_view comments[] = {comment};
    if (auto written = writer_->write(record, comments); !written) trouble_ = to_string(written.error());
  }
  return frames_;
}

std::vector<std::string> Recorder::finish() {
  pipeline_.finish();
  if (writer_ && trouble_.empty())
    if (auto closed = writer_->close(); !closed) trouble_ = to_string(closed.error());
  std::vector<std::string> lines;
  for (const captures::analysis::Finding& one : findings_of(pipeline_.analysis()))
    lines.push_back(fmt::format("{}{}{}", one.flow, one.flow.empty() ? "" : "  ", one.title));
  return lines;
}

}  // namespace rdmawire::replay::reactive
