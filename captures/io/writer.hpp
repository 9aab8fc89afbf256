#pragma once
/// Writer of capture files: pcap and pcapng with nanoseconds, plain or compressed. libpcap does not write pcapng,
/// comments or Interface Statistics Blocks.

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
/// A record that cannot be represented (time, length, undefined interface) is rejected completely, and writing can
/// continue. After an I/O error (disk full), every later call returns the same error, and a plain file is truncated
/// after its last complete record, so that it remains readable. With Options::complete_only, it is discarded instead.
class Writer {
 public:
  using Result = tl::expected<void, CaptureError>;

  struct Options {
    std::optional<Format> format = {};  ///< nullopt: pcap if the name (without .gz, .zst) ends in .pcap or .cap
    std::optional<Compression> compression = {};  ///< nullopt: by the extension .gz or .zst
    int level = 0;                                ///< compression level (0: default)
    bool nanoseconds = true;                      ///< false: times are truncated to microseconds
    Section section = {};                         ///< pcapng: hardware, os, application, comments
    bool complete_only = false;  ///< the file gets its name in close(), and only without an error (see OutputFile)
  };

  /// Creates or overwrites the file, or writes to standard output for "-" (pcapng by default).
  static tl::expected<Writer, CaptureError> create(const std::string& path, const Options& options);
  static tl::expected<Writer, CaptureError> create(const std::string& path) { return create(path, Options{}); }

  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) noexcept;
  /// Closes the file and ignores errors. Use close() to get errors.
  ~Writer();

  /// Adds an interface and returns its index for Record::interface. Ignores statistics, resolution, offset and section
  /// of `interface`. All interfaces of a pcap file must have the same link type.
  tl::expected<std::uint32_t, CaptureError> add_interface(const Interface& interface);

  /// Writes a packet: bytes, time, wire_length, interface, options (comments, flags, drop count as read), followed by
  /// `comments`. pcap omits options and comments. Rejects undefined interfaces, times before 1970, and packets longer
  /// than 8 MiB. For pcap, also rejects times after 2106, and packets longer than the maximum of the file's snap length
  /// and 262144 bytes.
  Result write(const Record& record, std::span<const std::string_view> comments = {});

  /// Writes an Interface Statistics Block. Ignored for pcap.
  Result write(std::uint32_t interface, const InterfaceStatistics& statistics);

  /// Writes all buffered data, so that a reader of the file or pipe can see it.
  Result flush();
  /// Flushes, ends the compression, closes the file. Further calls have no effect.
  Result close();

  [[nodiscard]] Format format() const;
  /// Records written so far.
  [[nodiscard]] std::uint64_t records() const;
  /// Bytes of the file before compression.
  [[nodiscard]] std::uint64_t bytes() const;
  /// Bytes on disk plus buffered bytes. For compressed files, without the bytes in the compressor's buffers.
  [[nodiscard]] std::uint64_t size() const;

 private:
  struct State;
  explicit Writer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rdmawire::captures
