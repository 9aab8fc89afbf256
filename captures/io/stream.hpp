#pragma once
/// Bytes that arrive one after the other: a file descriptor, memory, and the decompressors on top of them.
/// Internal to the room.

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
  /// Why a stream ended before its end.
  struct ReadError {
    CaptureError::Kind kind;
    std::string what;
  };
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;

  /// Up to `room` (> 0) bytes into `to`; returns as soon as there is one. 0: the end, or trouble.
  virtual std::size_t read(std::uint8_t* to, std::size_t room) = 0;
  [[nodiscard]] const std::optional<ReadError>& trouble() const { return trouble_; }

 protected:
  std::optional<ReadError> trouble_;
};

/// Reads a descriptor and closes it when `owned`.
std::unique_ptr<Stream> descriptor_stream(int descriptor, bool owned);
/// Reads memory that must outlive the stream.
std::unique_ptr<Stream> memory_stream(Bytes memory);
/// All members of a gzip file (RFC 1952), one after the other.
std::unique_ptr<Stream> gzip_stream(std::unique_ptr<Stream> compressed);
/// All frames of a zstd file (RFC 8878), one after the other. A frame that asks for a window of more than 128 MiB, the
/// zstd tool's own default limit, is refused.
std::unique_ptr<Stream> zstd_stream(std::unique_ptr<Stream> compressed);

/// A stream whose first bytes can be looked at before they are read.
class PeekedStream final : public Stream {
 public:
  static constexpr std::size_t capacity = 16;
  explicit PeekedStream(std::unique_ptr<Stream> from);
  /// The first min(16, length) bytes, unless they were read already.
  [[nodiscard]] Bytes beginning() const { return {first_ + taken_, count_ - taken_}; }
  std::size_t read(std::uint8_t* to, std::size_t room) override;

 private:
  std::unique_ptr<Stream> from_;
  std::uint8_t first_[capacity] = {};
  std::size_t count_ = 0;
  std::size_t taken_ = 0;
};

}  // namespace rdmawire::captures
