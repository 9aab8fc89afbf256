#pragma once
/// For tests: sample captures, and damaged copies of them.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "captures/io/reader.hpp"
#include "captures/io/writer.hpp"
#include "source_directory.hpp"

namespace rdmawire::captures::analysis::testing {

inline std::vector<std::string> samples() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(RDMAWIRE_SOURCE_DIR "/captures/samples"))
    if (entry.path().string().find(".pcap") != std::string::npos) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

/// Returns the first line that differs, or "" if there is none. A complete comparison of large texts would need much
/// memory.
inline std::string difference_of(const std::string& a, const std::string& b) {
  std::istringstream x(a), y(b);
  std::string line, other;
  for (std::size_t number = 1;; ++number) {
    const bool more = static_cast<bool>(std::getline(x, line)), others = static_cast<bool>(std::getline(y, other));
    if (!more && !others) return {};
    if (more != others || line != other) return std::to_string(number) + ": " + line + " / " + other;
  }
}

/// A directory that the destructor removes.
class Scratch {
 public:
  Scratch() : path_(std::filesystem::temp_directory_path() / ("rdmawire-parallel-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

/// Writes a copy of all samples to one capture, with damaged, truncated, repeated and missing packets.
inline std::string damaged(const std::string& path, std::uint32_t seed) {
  std::mt19937 random(seed);
  auto writer = Writer::create(path);
  EXPECT_TRUE(writer);
  std::vector<std::uint8_t> bytes;
  std::int64_t time = 1'732'163'000'000'000'000;
  std::vector<LinkType> links;
  for (const std::string& file : samples()) {
    auto reader = Reader::open(file);
    EXPECT_TRUE(reader);
    Record record;
    while (reader->next(record) == Next::record) {
      bytes.assign(record.bytes.begin(), record.bytes.end());
      const std::uint32_t dice = random() % 40;
      if (dice == 0) continue;  // the packet is missing
      if (dice < 4 && !bytes.empty()) bytes[random() % bytes.size()] ^= static_cast<std::uint8_t>(1 << random() % 8);
      if (dice == 4) bytes.resize(bytes.size() - random() % (bytes.size() + 1));
      const auto link = std::find(links.begin(), links.end(), record.link);
      Record written;
      written.interface = static_cast<std::uint32_t>(link - links.begin());
      if (link == links.end()) {
        Interface interface;
        interface.link = record.link;
        EXPECT_TRUE(writer->add_interface(interface));
        links.push_back(record.link);
      }
      written.bytes = bytes;
      written.wire_length = record.wire_length;
      written.link = record.link;
      time += random() % 3000;
      written.time = time;
      for (std::uint32_t copies = dice == 5 ? 2 : 1; copies-- != 0;) EXPECT_TRUE(writer->write(written));
    }
  }
  EXPECT_TRUE(writer->close());
  return path;
}

}  // namespace rdmawire::captures::analysis::testing
