#pragma once
/// Captures as Python opens them: from a path, from bytes in memory, or as a stream that can be read once.

#include <pybind11/pybind11.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "captures/io/reader.hpp"
#include "dissectors/output/filter.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "pysdk/src/columns.hpp"

namespace rdmawire::python {

namespace py = pybind11;

/// Where the records of a capture come from. Readers that it gave keep it alive.
class CaptureSource : public std::enable_shared_from_this<CaptureSource> {
 public:
  /// Raises CaptureError when there is no capture. `bytes`: the file as a whole, else None and `path` counts.
  static std::shared_ptr<CaptureSource> open(const std::string& path, const py::object& bytes);
  CaptureSource(std::string path, std::shared_ptr<void> memory, Bytes bytes);

  /// A reader that stands at the beginning. A stream has one only: then the error says so.
  tl::expected<captures::Reader, std::string> begin();
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Whether it can be read more than once.
  [[nodiscard]] bool rereadable() const { return rereadable_; }
  [[nodiscard]] bool in_memory() const { return memory_ != nullptr; }

  void close() { closed_ = true; }
  [[nodiscard]] bool closed() const { return closed_; }
  /// "x.pcap was closed".
  [[nodiscard]] std::string closed_sentence() const { return name_ + " was closed"; }

 private:
  std::string path_, name_;
  std::shared_ptr<void> memory_;  ///< holds bytes_; gone with the interpreter's lock
  Bytes bytes_;
  bool rereadable_ = true;
  std::atomic<bool> closed_{false};
  std::mutex mutex_;
  std::optional<captures::Reader> first_;  ///< of a stream, until somebody reads it
  bool opened_ = false;                    ///< likewise: there is no second reader
};

/// How packets are read beside their bytes.
struct ReadOptions {
  std::shared_ptr<const output::Filter> filter;  ///< null: all packets
  tracking::DissectorOptions dissector;
};

/// Compiles `expression`; raises UsageError with the place of the fault. Empty: null.
std::shared_ptr<const output::Filter> compile_filter(const std::string& expression);

/// The table of the packets of `source`, with these columns. Raises UsageError for a name that does not exist.
std::shared_ptr<TableSource> packet_table(std::shared_ptr<CaptureSource> source, const std::vector<std::string>& names,
                                          const ReadOptions& options);

}  // namespace rdmawire::python
