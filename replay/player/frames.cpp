#include "replay/player/frames.hpp"

#include <algorithm>
#include <filesystem>

#include "captures/io/contents_size.hpp"
#include "dissectors/tracking/dissector.hpp"

namespace rdmawire::replay {

bool FrameSource::seekable() const { return std::find(files_.begin(), files_.end(), "-") == files_.end(); }

bool FrameSource::repeatable() const {
  return std::all_of(files_.begin(), files_.end(), [](const std::string& file) {
    std::error_code error;
    return std::filesystem::is_regular_file(file, error);
  });
}

tl::expected<void, std::string> FrameSource::begin() {
  if (begun_ && !seekable()) return tl::unexpected(std::string("standard input can be read only once"));
  begun_ = true;
  given_ = false;
  number_ = 0;
  error_.clear();
  open_.clear();
  open_.reserve(files_.size());
  for (const std::string& file : files_) {
    auto reader = captures::Reader::open(file);
    if (!reader) return tl::unexpected(captures::to_string(reader.error()));
    open_.push_back({std::move(*reader), {}, {}});
  }
  for (std::size_t i = 0; i < open_.size(); ++i) advance(i);
  return {};
}

void FrameSource::advance(std::size_t file) {
  Open& open = open_[file];
  open.state = open.reader.next(open.record);
  if (open.state == captures::Next::error && error_.empty()) error_ = captures::to_string(open.reader.error());
}

bool FrameSource::next(captures::Record& record) {
  if (given_) advance(current_);
  given_ = false;
  Open* first = nullptr;
  for (Open& open : open_)
    if (open.state == captures::Next::record && (!first || open.record.time < first->record.time)) first = &open;
  if (!first) return false;
  current_ = static_cast<std::size_t>(first - open_.data());
  given_ = true;
  ++number_;
  record = first->record;
  return true;
}

std::pair<std::uint64_t, std::uint64_t> FrameSource::position() const {
  std::uint64_t done = 0, all = 0;
  bool known = true;
  for (const Open& open : open_) {
    done += open.reader.position();
    all += captures::contents_size(open.reader);
    known &= captures::contents_size(open.reader) != 0;
  }
  return {done, known ? all : 0};
}

tl::expected<std::vector<std::string>, std::string> expand_directories(const std::vector<std::string>& names) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (const std::string& name : names) {
    std::error_code error;
    if (!fs::is_directory(name, error)) {
      files.push_back(name);
      continue;
    }
    std::vector<std::string> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(name, error)) {
      fs::path plain = entry.path().filename();
      if (plain.extension() == ".gz" || plain.extension() == ".zst") plain = plain.stem();
      const std::string kind = plain.extension().string();
      std::error_code unknown;
      if ((kind == ".pcap" || kind == ".pcapng" || kind == ".cap") && entry.is_regular_file(unknown))
        found.push_back(entry.path().string());
    }
    if (error) return tl::unexpected(name + ": " + error.message());
    if (found.empty())
      return tl::unexpected(name + ": the directory contains no capture (*.pcap, *.pcapng, *.cap, also .gz and .zst)");
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

tl::expected<LinkConversion, std::string> learn_links(FrameSource& source) {
  LinkConversion conversion;
  if (auto begun = source.begin(); !begun) return tl::unexpected(begun.error());
  if (!source.repeatable()) return conversion;
  captures::Record record;
  while (source.next(record)) {
    if (source.number() == 1 && !LinkConversion::has_addresses(record.link)) break;
    conversion.learn(record);
  }
  // Read errors are not reported here: the caller reads the captures again.
  if (auto begun = source.begin(); !begun) return tl::unexpected(begun.error());
  return conversion;
}

tl::expected<Learnt, std::string> survey(FrameSource& source) {
  auto conversion = learn_links(source);
  if (!conversion) return tl::unexpected(conversion.error());
  tracking::Dissector dissector;
  tracking::Packet packet;
  captures::Record record;
  FlowLearner learner;
  while (source.next(record)) {
    if (LinkConversion::supports(record.link)) conversion->convert(record);
    packet.number = source.number();
    packet.time_ns = record.time;
    packet.link = record.link;
    dissector.dissect(packet, record.bytes, record.wire_length);
    learner.add(packet);
  }
  if (!source.error().empty()) return tl::unexpected(source.error());
  return learner.finish();
}

}  // namespace rdmawire::replay
