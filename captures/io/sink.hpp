#pragma once
/// Output of a capture writer: a file descriptor, optionally with gzip or zstd. Internal to the component.

#include <cstdint>
#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "captures/io/compression.hpp"

namespace rdmawire::captures {

class Sink {
 public:
  /// The error describes the failure. After an error, the sink must not be used.
  using Result = tl::expected<void, std::string>;
  Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  virtual ~Sink() = default;

  virtual Result write(Bytes bytes) = 0;
  /// Passes all buffered bytes to the operating system.
  virtual Result flush() = 0;
  /// Ends the stream, and closes the descriptor if owned.
  virtual Result close() = 0;
  /// Number of bytes written to the descriptor.
  [[nodiscard]] virtual std::uint64_t written() const = 0;
};

/// `level` 0 selects the default compression level.
std::unique_ptr<Sink> make_sink(int descriptor, bool owned, Compression compression, int level);

}  // namespace rdmawire::captures
