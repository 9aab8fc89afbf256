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
  /// An error describes what failed. After an error, the sink must not be used.
  using Result = tl::expected<void, std::string>;
  Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  virtual ~Sink() = default;

  virtual Result write(Bytes bytes) = 0;
  /// Passes all buffered bytes to the operating system.
  virtual Result flush() = 0;
  /// Ends the stream. Closes the descriptor if the sink owns it.
  virtual Result close() = 0;
  /// Number of bytes that were written to the descriptor.
  [[nodiscard]] virtual std::uint64_t written() const = 0;
};

/// Creates a sink. `level` 0 is the default compression level.
std::unique_ptr<Sink> make_sink(int descriptor, bool owned, Compression compression, int level);

}  // namespace rdmawire::captures
