#pragma once
/// Writes capture files: pcap and pcapng with nanoseconds, plain or compressed. libpcap does not write pcapng, comments
/// or Interface Statistics Blocks.

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

/// Writes one capture, in little endian on all hosts.
///
/// A record that the format cannot represent (time, length, undefined interface) is rejected completely, and the caller
/// can continue to write. After an I/O error (disk full), every later call returns the same error, and a plain file is
/// truncated after its last complete record, so that it can still be read. With Options::complete_only, the file is
/// discarded instead.
class Writer {
 public:
  using Result = tl::expected<void, CaptureError>;

  struct Options {
    std::optional<Format> format =
        {};  ///< nullopt: pcap if the name (without .gz, .zst) ends in .pcap or .cap, otherwise pcapng
    std::optional<Compression> compression = {};  ///< nullopt: according to the extension .gz or .zst
    int level = 0;                                ///< compression level (0: default)
    bool nanoseconds = true;                      ///< false: truncates times to microseconds
    Section section = {};                         ///< pcapng: hardware, operating system, application, comments
    bool complete_only = false;  ///< the file gets its name in close(), but only if there was no error (see OutputFile)
  };

  /// Creates or overwrites the file. For "-", writes to standard output, by default in pcapng.
  static tl::expected<Writer, CaptureError> create(const std::string& path, const Options& options);
  static tl::expected<Writer, CaptureError> create(const std::string& path) { return create(path, Options{}); }

  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) noexcept;
  /// Closes the file and ignores errors. Call close() to get them.
  ~Writer();

  /// Adds an interface. Returns its index, for Record::interface. Ignores statistics, resolution, offset and section of
  /// `interface`. All interfaces of a pcap file must have the same link type.
  tl::expected<std::uint32_t, CaptureError> add_interface(const Interface& interface);

  /// Writes a packet: bytes, time, wire_length, interface, options (comments, flags and drop count as read), then
  /// `comments`. pcap omits options and comments. Rejects undefined interfaces, times before 1970, and packets longer
  /// than 8 MiB. pcap also rejects times after 2106, and packets longer than both the file's snap length and 262144
  /// bytes.
  Result write(const Record& record, std::span<const std::string_view> comments = {});

  /// Writes an Interface Statistics Block. pcap omits it.
  Result write(std::uint32_t interface, const InterfaceStatistics& statistics);

  /// Writes all buffered data, so that a reader of the file or pipe gets it.
  Result flush();
  /// Flushes, ends the compression, and closes the file. Further calls have no effect.
  Result close();

  [[nodiscard]] Format format() const;
  /// Number of records that were written.
  [[nodiscard]] std::uint64_t records() const;
  /// Number of bytes in the file before compression.
  [[nodiscard]] std::uint64_t bytes() const;
  /// Number of bytes on disk and in the buffer. For a compressed file, bytes in the compressor's own buffers do not
  /// count.
  [[nodiscard]] std::uint64_t size() const;

 private:
  struct State;
  explicit Writer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rdmawire::captures
