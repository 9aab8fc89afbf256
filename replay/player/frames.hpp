#pragma once
/// Captures as a source of frames: several files merged by time, read once or again and again.

#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "captures/io/reader.hpp"
#include "replay/rewrite/learn.hpp"

namespace rdmawire::replay {

/// The frames of some captures in the order of their times (of one: in its own order), numbered from 1 over all.
class FrameSource {
 public:
  explicit FrameSource(std::vector<std::string> files) : files_(std::move(files)) {}

  /// Opens all files, from their beginnings. An error is one sentence. Standard input ("-") can be begun once.
  tl::expected<void, std::string> begin();
  /// The next frame; its bytes hold until the next call. False: there are no more, or error() says why.
  bool next(captures::Record& record);
  [[nodiscard]] std::size_t file() const { return current_; }        ///< index of the file that the frame came from
  [[nodiscard]] std::uint64_t number() const { return number_; }     ///< of the frame
  [[nodiscard]] const std::string& error() const { return error_; }  ///< empty: none
  [[nodiscard]] bool seekable() const;
  [[nodiscard]] const std::vector<std::string>& files() const { return files_; }
  /// Bytes read and to be read in all, for progress; in all 0: not known.
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

/// Reads all frames once and learns what they hold. `source` is begun here.
tl::expected<Learnt, std::string> survey(FrameSource& source);

}  // namespace rdmawire::replay
