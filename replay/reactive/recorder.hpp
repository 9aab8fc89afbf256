#pragma once
/// What was sent and what came, joined: as a capture file, and for the tracker.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "captures/analysis/run.hpp"
#include "captures/io/writer.hpp"

namespace rdmawire::replay::reactive {

class Recorder {
 public:
  /// `path` empty: no file.
  static tl::expected<std::unique_ptr<Recorder>, std::string> create(const std::string& path,
                                                                     const std::string& comment);

  /// A frame that was handed over, or came. Gives its number, from 1. Times that go back are set to the last one.
  std::uint64_t add(Bytes frame, std::int64_t time, const std::string& comment);
  /// The tracker's findings, one line each. Once, and last.
  std::vector<std::string> finish();
  /// Why the file cannot be written any more; empty: it can.
  [[nodiscard]] const std::string& trouble() const { return trouble_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  Recorder();
  std::string path_, trouble_;
  std::optional<captures::Writer> writer_;
  captures::analysis::RunOptions options_;
  captures::analysis::Pipeline pipeline_;
  std::uint64_t frames_ = 0;
  std::int64_t last_ = 0;
};

}  // namespace rdmawire::replay::reactive
