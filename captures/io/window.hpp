#pragma once
/// The visible part of a capture: a mapping, memory, or a buffer that slides over a stream. Internal to the component.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "captures/io/stream.hpp"

namespace rdmawire::captures {

class Window {
 public:
  Window() = default;
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  virtual ~Window() = default;

  /// Makes `need` bytes visible in [at, limit), or the rest of the input if it is shorter. Both pointers may change.
  /// Discards the bytes before `at`. Allocates memory only for bytes that arrived.
  virtual void fill(const std::uint8_t*& at, const std::uint8_t*& limit, std::size_t need) = 0;
  /// Returns the error that ended the input early, if there was one.
  [[nodiscard]] virtual std::optional<Stream::ReadError> error() const { return std::nullopt; }
  /// Returns whether the file has grown since it was opened.
  [[nodiscard]] virtual bool grown() const { return false; }
  /// Reads and discards the rest, at most `most` bytes. The checksum at the end of a compressed stream may explain an
  /// earlier format error.
  virtual void drain(std::uint64_t most) { (void)most; }
  /// Returns whether visible bytes keep their addresses as long as the window exists.
  [[nodiscard]] virtual bool stable() const { return true; }
};

/// Makes all of `memory` visible. `memory` must outlive the window.
std::unique_ptr<Window> memory_window(Bytes memory);

/// Slides a buffer over a stream.
std::unique_ptr<Window> stream_window(std::unique_ptr<Stream> stream);

/// Maps the regular file `descriptor` of `size` > 0 bytes. The window then owns the descriptor. On failure, returns
/// nullptr: the caller still owns the descriptor, and must read it as a stream.
///
/// The address range covers the whole file, so bytes keep their addresses. Pages that were read are released, so the
/// resident memory does not grow with the file. The window contains the bytes that the file had when it was opened.
///
/// If a mapped file is truncated, access to the lost pages raises SIGBUS. A handler for the whole process, which the
/// first mapped file installs, replaces the pages with zeros, and error() then reports the truncation. The handler
/// passes other SIGBUS signals to the previous handler. A program that later installs its own SIGBUS handler must call
/// this one from it, or open files with Reader::Options::map = false.
std::unique_ptr<Window> mapped_window(int descriptor, std::uint64_t size);

}  // namespace rdmawire::captures
