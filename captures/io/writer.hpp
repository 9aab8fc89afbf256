#pragma once
/// Capture files, written: pcap and pcapng with nanoseconds, plain or compressed. The formats are written here and not
/// by libpcap because it writes neither pcapng, comments, nor Interface Statistics Blocks.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "captures/io/compression.hpp"
#include "captures/io/error.hpp"
#include "captures/io/reader.hpp"
#include "captures/io/record.hpp"

namespace rdmawire::captures {

/// Writes one capture. Files are little endian on every machine.
///
/// What cannot be written (a time, a length, an interface that the format or the file does not have) is refused:
/// nothing of it is written, and the writing can go on. That the file cannot be written further (disk full) ends it:
/// the error is returned again by every later call, and a plain file is cut after its last whole record, so that what
/// was written can be read.
class Writer {
 public:
  using Result = tl::expected<void, CaptureError>;

  struct Options {
    std::optional<Format> format = {};  ///< not given: pcap when the name (less .gz, .zst) ends in .pcap or .cap
    std::optional<Compression> compression = {};  ///< not given: by the name's ending, .gz or .zst
    int level = 0;                                ///< of the compression; 0: its default
    bool nanoseconds = true;                      ///< false: microseconds; finer digits are cut off
    Section section = {};                         ///< pcapng: hardware, os, application, comments
  };

  /// Creates or overwrites the file, or writes to standard output for "-" (pcapng, unless said otherwise).
  static tl::expected<Writer, CaptureError> create(const std::string& path, const Options& options);
  static tl::expected<Writer, CaptureError> create(const std::string& path) { return create(path, Options{}); }

  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) noexcept;
  /// Closes; an error then goes unnoticed, so call close().
  ~Writer();

  /// Describes a further interface and gives its index, which Record::interface of write() means. Statistics,
  /// resolution, offset and section of `interface` are not taken over. A pcap file holds one link type: a further
  /// interface of another one is an error, of the same one gets index and shares the file.
  tl::expected<std::uint32_t, CaptureError> add_interface(const Interface& interface);

  /// Writes a packet: bytes, time, wire_length, interface, options (comments, flags, drop count as they were read) and
  /// then `comments`. pcap keeps neither options nor comments. Refused are a time before 1970, in pcap one after
  /// 2106, an interface that was not added, and more bytes than readers take: in pcap the file's snap length, or
  /// 262144 where that is less.
  Result write(const Record& record, std::span<const std::string_view> comments = {});

  /// Writes an Interface Statistics Block; pcap has none and ignores it.
  Result write(std::uint32_t interface, const InterfaceStatistics& statistics);

  /// Hands over what is buffered, so that a reader of the file or pipe sees it.
  Result flush();
  /// Flushes, ends the compression, closes the file. A second call does nothing.
  Result close();

  [[nodiscard]] Format format() const;
  /// Records written so far.
  [[nodiscard]] std::uint64_t records() const;
  /// Bytes of the file before compression.
  [[nodiscard]] std::uint64_t bytes() const;
  /// Bytes that the file has on disk by now and what is still buffered; under compression only what has reached it.
  [[nodiscard]] std::uint64_t size() const;

 private:
  struct State;
  explicit Writer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rdmawire::captures
