#pragma once
/// Captures as a source of frames: files merged by time, read once or repeatedly.

#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "captures/io/reader.hpp"
#include "replay/player/link_conversion.hpp"
#include "replay/rewrite/learn.hpp"

namespace rdmawire::replay {

/// The frames of several captures in timestamp order (of one capture: in file order), numbered from 1 over all files.
class FrameSource {
 public:
  explicit FrameSource(std::vector<std::string> files) : files_(std::move(files)) {}

  /// Opens all files at their start. Standard input ("-") can be opened once.
  tl::expected<void, std::string> begin();
  /// Reads the next frame. Its bytes are valid until the next call. Returns false at the end or if error() is set.
  bool next(captures::Record& record);
  [[nodiscard]] std::size_t file() const { return current_; }        ///< index of the file with the current frame
  [[nodiscard]] std::uint64_t number() const { return number_; }     ///< of the current frame
  [[nodiscard]] const std::string& error() const { return error_; }  ///< empty: no error
  [[nodiscard]] bool seekable() const;
  /// True if all files are regular files, which can be read repeatedly. False for pipes.
  [[nodiscard]] bool repeatable() const;
  [[nodiscard]] const std::vector<std::string>& files() const { return files_; }
  /// Bytes read so far and total bytes, for progress. Total 0: unknown.
  [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> position() const;

 private:
  struct Open {
    captures::Reader reader;
    captures::Record record;
    captures::Next state = captures::Next::end;
  };
  void advance(std::size_t file);

  std::vector<std::string> files_;
  std::vector<Open> open_;
  std::size_t current_ = 0;
  std::uint64_t number_ = 0;
  bool begun_ = false, given_ = false;
  std::string error_;
};

/// Replaces each directory by its captures, sorted by name: regular files *.pcap, *.pcapng and *.cap, also with .gz or
/// .zst. A directory without captures is an error.
tl::expected<std::vector<std::string>, std::string> expand_directories(const std::vector<std::string>& names);

/// Reads all frames and collects MAC addresses, if the files can be read repeatedly and the first frame is of a cooked
/// capture. Calls `source.begin()` before, and after a read.
tl::expected<LinkConversion, std::string> learn_links(FrameSource& source);

/// Reads all frames once and collects the connections and hosts, after the conversion to Ethernet. Calls
/// `source.begin()`.
tl::expected<Learnt, std::string> survey(FrameSource& source);

}  // namespace rdmawire::replay
