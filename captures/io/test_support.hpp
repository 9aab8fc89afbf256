#pragma once
/// Helpers that several tests use: bytes from hexadecimal text, temporary files, complete captures.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "captures/io/reader.hpp"

namespace rdmawire::captures::testing_support {

using ByteVector = std::vector<std::uint8_t>;

/// Converts text such as "d4 c3 b2 a1" to bytes. Ignores white space.
inline ByteVector hex(std::string_view text) {
  ByteVector out;
  int high = -1;
  for (const char c : text) {
    if (!std::isxdigit(static_cast<unsigned char>(c))) continue;
    const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    if (high < 0) {
      high = digit;
    } else {
      out.push_back(static_cast<std::uint8_t>(high << 4 | digit));
      high = -1;
    }
  }
  return out;
}
inline ByteVector operator+(ByteVector a, const ByteVector& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A directory that the destructor removes.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "rdmawire-io-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::string file(std::string_view name) const { return (path_ / name).string(); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline void write_file(const std::string& path, const ByteVector& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}
inline ByteVector read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// A record that owns its data.
struct Packet {
  ByteVector bytes;
  std::int64_t time;
  std::uint32_t wire_length;
  std::uint32_t interface;
  LinkType link;
  std::uint64_t number;
  std::uint64_t position;
  std::vector<std::string> comments;
  friend bool operator==(const Packet&, const Packet&) = default;
};
inline Packet copy(const Record& record) {
  Packet packet{{record.bytes.begin(), record.bytes.end()},
                record.time,
                record.wire_length,
                record.interface,
                record.link,
                record.number,
                record.position,
                {}};
  for (const std::string_view comment : record.comments()) packet.comments.emplace_back(comment);
  return packet;
}

struct Whole {
  std::vector<Packet> packets;
  std::string error;  // empty if the capture is complete
  CaptureError::Kind kind{};
};
inline Whole read_all(Reader& reader) {
  Whole whole;
  Record record;
  Next next{};
  while ((next = reader.next(record)) == Next::record) whole.packets.push_back(copy(record));
  if (next == Next::error) {
    whole.error = to_string(reader.error());
    whole.kind = reader.error().kind;
  }
  return whole;
}
inline Whole read_all(tl::expected<Reader, CaptureError> reader) {
  if (!reader) return {{}, to_string(reader.error()), reader.error().kind};
  return read_all(*reader);
}

inline bool installed(const std::string& tool) {
  return std::system(("command -v " + tool + " >/dev/null 2>&1").c_str()) == 0;
}
/// Returns the standard output of a shell command.
inline std::string output_of(const std::string& command) {
  std::string out;
  FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return out;
  char buffer[4096];
  std::size_t count = 0;
  while ((count = std::fread(buffer, 1, sizeof buffer, pipe)) > 0) out.append(buffer, count);
  ::pclose(pipe);
  return out;
}
inline std::string quoted(const std::string& path) { return "'" + path + "'"; }

}  // namespace rdmawire::captures::testing_support
