#pragma once
/// Captures opened by Python: from a path, from bytes in memory, or from a stream that can be read once.

#include <pybind11/pybind11.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "captures/io/interrupt.hpp"
#include "captures/io/reader.hpp"
#include "dissectors/output/filter.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "pysdk/src/columns.hpp"

namespace rdmawire::python {

namespace py = pybind11;

/// Source of the records of a capture. Its readers keep it alive.
class CaptureSource : public std::enable_shared_from_this<CaptureSource> {
 public:
  /// Opens `bytes`, the contents of a file, or `path` if `bytes` is None. Raises CaptureError for invalid captures.
  static std::shared_ptr<CaptureSource> open(const std::string& path, const py::object& bytes);
  CaptureSource(std::string path, std::shared_ptr<void> memory, Bytes bytes);
  ~CaptureSource();
  CaptureSource(const CaptureSource&) = delete;
  CaptureSource& operator=(const CaptureSource&) = delete;
  /// Returns the paths of all open captures that are files.
  static std::vector<std::string> open_files();

  /// Returns a reader at the first record. A stream provides only one reader. Further calls return an error.
  tl::expected<captures::Reader, std::string> begin();
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Returns whether the capture can be read more than once.
  [[nodiscard]] bool rereadable() const { return rereadable_; }
  [[nodiscard]] bool in_memory() const { return memory_ != nullptr; }

  void close() { closed_ = true; }
  [[nodiscard]] bool closed() const { return closed_; }
  /// Returns "x.pcap was closed".
  [[nodiscard]] std::string closed_sentence() const { return name_ + " was closed"; }

 private:
  std::string path_, name_, absolute_path_;
  std::shared_ptr<void> memory_;  ///< owner of bytes_. Released while the interpreter's lock is held
  Bytes bytes_;
  bool rereadable_ = true;
  std::atomic<bool> closed_{false};
  std::mutex mutex_;
  std::optional<captures::Reader> first_;  ///< reader of a stream, until begin()
  bool opened_ = false;                    ///< whether begin() returned the reader of a stream
};

/// While an object exists, Ctrl-C and close() of the source interrupt this thread while it waits or reads. The thread
/// need not hold the interpreter's lock.
class ReadingScope {
 public:
  explicit ReadingScope(const CaptureSource& source);
  /// Throws the exception of a signal handler. Requires the interpreter's lock.
  void rethrow() const {
    if (interrupted_) throw py::error_already_set();
  }
  [[nodiscard]] bool interrupted() const { return interrupted_; }

 private:
  bool interrupted_ = false;
  captures::InterruptScope scope_;
};

/// Options for reading packets.
struct ReadOptions {
  std::shared_ptr<const output::Filter> filter;  ///< null: all packets
  tracking::DissectorOptions dissector;
};

/// Returns the message for an invalid filter.
std::string filter_error(const output::FilterError& error, const std::string& expression);

/// Compiles `expression`. Returns null if it is empty. Raises UsageError with the position of the error.
std::shared_ptr<const output::Filter> compile_filter(const std::string& expression);

/// Returns the table of the packets of `source` with these columns. Raises UsageError for unknown names.
std::shared_ptr<TableSource> packet_table(std::shared_ptr<CaptureSource> source, const std::vector<std::string>& names,
                                          const ReadOptions& options);

}  // namespace rdmawire::python
