#pragma once
/// Sequential input: a file descriptor, memory, and decompressors. Internal to the component.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "captures/io/error.hpp"
#include "dissectors/protocol/bits.hpp"

namespace rdmawire::captures {

class Stream {
 public:
  /// An error that ended the stream early.
  struct ReadError {
    CaptureError::Kind kind;
    std::string what;
  };
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;

  /// Reads at most `max_bytes` (> 0) bytes. Returns as soon as one byte is available. Returns 0 at the end, or on an
  /// error.
  virtual std::size_t read(std::uint8_t* to, std::size_t max_bytes) = 0;
  [[nodiscard]] const std::optional<ReadError>& error() const { return error_; }

 protected:
  std::optional<ReadError> error_;
};

/// Reads a descriptor, and closes it if `owned`.
std::unique_ptr<Stream> descriptor_stream(int descriptor, bool owned);
/// Reads memory, which must outlive the stream.
std::unique_ptr<Stream> memory_stream(Bytes memory);
/// Reads all members of a gzip file (RFC 1952) in sequence.
std::unique_ptr<Stream> gzip_stream(std::unique_ptr<Stream> compressed);
/// Reads all frames of a zstd file (RFC 8878) in sequence. Rejects frames whose window exceeds 128 MiB, which is also
/// the default limit of the zstd tool.
std::unique_ptr<Stream> zstd_stream(std::unique_ptr<Stream> compressed);

/// A stream whose first bytes can be inspected before reading.
class PeekedStream final : public Stream {
 public:
  static constexpr std::size_t capacity = 16;
  explicit PeekedStream(std::unique_ptr<Stream> from);
  /// Returns the first min(16, length) bytes, without those that were already read.
  [[nodiscard]] Bytes beginning() const { return {first_ + taken_, count_ - taken_}; }
  std::size_t read(std::uint8_t* to, std::size_t max_bytes) override;

 private:
  std::unique_ptr<Stream> from_;
  std::uint8_t first_[capacity] = {};
  std::size_t count_ = 0;
  std::size_t taken_ = 0;
};

}  // namespace rdmawire::captures
