#pragma once
/// The stretch of a capture that can be seen at once: a mapping, memory, or a buffer that slides over a stream.
/// Internal to the room.

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

  /// Makes `need` bytes visible in [at, limit), or as many as the input still has; both pointers may move. What lies
  /// before `at` is given up. Never asks for memory before the bytes that fill it have arrived.
  virtual void fill(const std::uint8_t*& at, const std::uint8_t*& limit, std::size_t need) = 0;
  /// Why the input ended early, if it did.
  [[nodiscard]] virtual std::optional<Stream::ReadError> trouble() const { return std::nullopt; }
  /// The file has become longer since it was opened.
  [[nodiscard]] virtual bool grown() const { return false; }
  /// Reads and discards the rest, at most `most` bytes: a checksum at a compressed stream's end may explain what
  /// looked wrong in the middle.
  virtual void drain(std::uint64_t most) { (void)most; }
  /// Bytes that were seen stay where they are as long as the window lives.
  [[nodiscard]] virtual bool stable() const { return true; }
};

/// The whole of `memory`, which must outlive the window.
std::unique_ptr<Window> memory_window(Bytes memory);

/// Slides a buffer over a stream.
std::unique_ptr<Window> stream_window(std::unique_ptr<Stream> stream);

/// Maps the regular file `descriptor` of `size` > 0 bytes, and closes the descriptor with the window (on failure
/// not: then the result is null and the caller reads it as a stream).
///
/// The address range is the whole file's, so bytes stay where they are; the pages behind the reader are given back, so
/// resident memory does not grow with the file. The file is read as long as it was when it was opened.
///
/// A file that is cut while it is mapped turns its lost pages into SIGBUS. A guard, installed once for the process
/// with the first mapped file, answers by putting zeros in their place, and trouble() then says so; a SIGBUS from
/// anywhere else goes on to the handler that was there before. A program that installs its own SIGBUS handler later and
/// does not pass it on should open its files with Reader::Options::map = false.
std::unique_ptr<Window> mapped_window(int descriptor, std::uint64_t size);

}  // namespace rdmawire::captures
