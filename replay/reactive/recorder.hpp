#pragma once
/// Records sent and received frames in one capture file, and analyzes them.

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
  /// An empty `path` creates no file.
  static tl::expected<std::unique_ptr<Recorder>, std::string> create(const std::string& path,
                                                                     const std::string& comment);

  /// Adds a sent or received frame and returns its number, from 1. A time before the last one is replaced by the last
  /// one.
  std::uint64_t add(Bytes frame, std::int64_t time, const std::string& comment);
  /// Returns the findings of the analysis, one line each. Call once, after the last frame.
  std::vector<std::string> finish();
  /// Why the file cannot be written. Empty if there is no error.
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
