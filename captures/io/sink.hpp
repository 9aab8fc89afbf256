#pragma once
/// Where the bytes of a written capture go: a descriptor, gzip or zstd on top of it. Internal to the room.

#include <cstdint>
#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "captures/io/compression.hpp"

namespace rdmawire::captures {

class Sink {
 public:
  /// Says in words what failed; the sink takes nothing more afterwards.
  using Result = tl::expected<void, std::string>;
  Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  virtual ~Sink() = default;

  virtual Result write(Bytes bytes) = 0;
  /// Hands everything that is held back to the operating system; a reader can then see it.
  virtual Result flush() = 0;
  /// Ends the stream and closes the descriptor when it is owned.
  virtual Result close() = 0;
  /// Bytes that have reached the descriptor.
  [[nodiscard]] virtual std::uint64_t written() const = 0;
};

/// `level` 0: the compression's own default.
std::unique_ptr<Sink> make_sink(int descriptor, bool owned, Compression compression, int level);

}  // namespace rdmawire::captures
