#pragma once
/// Errors of reading and writing captures: file, record, byte offset, and cause.

#include <cstdint>
#include <string>
#include <string_view>

namespace rdmawire::captures {

/// An error of a capture file or capture device. The library returns errors. It does not print or throw them.
struct CaptureError {
  enum class Kind : std::uint8_t {
    unreadable,      ///< the file cannot be opened or read: missing, a directory, access denied, I/O error
    empty,           ///< the file has no bytes
    unknown_format,  ///< a format other than pcap and pcapng
    truncated,       ///< the file ends within a record or block
    malformed,       ///< there is an invalid length, index or magic number, or an unsupported version
    compression,     ///< the gzip or zstd stream is corrupt or truncated
    limit,           ///< a limit of the implementation is exceeded
    changed,         ///< the file became shorter while it was read
    write,           ///< a record cannot be written: the disk is full, or the format does not support its link type
    device,          ///< live capture: unknown device, access denied, device removed
    filter,          ///< live capture: invalid filter expression
  };
  Kind kind = Kind::unreadable;
  std::string file;  ///< path, "standard input", name of the device, or a name that the caller set. May be empty
  std::string
      place;  ///< part of the file, such as "record 812" or "Interface Description Block" (empty: the whole file)
  std::uint64_t record = 0;  ///< number of the record with the error, from 1 (0: none)
  std::uint64_t offset = 0;  ///< offset of `place` in the (decompressed) file in bytes
  std::string what;          ///< the cause
  std::string follows;       ///< the consequence ("stopped after 811 packets"), a hint, or empty
};

/// Returns one line (see output::printable). If `follows` is set, it is appended after a semicolon. Example without
/// `follows`: "x.pcap: record 812 at byte 90112: length 70000 exceeds the file's snap length 65535".
std::string to_string(const CaptureError& error);
std::string_view to_string(CaptureError::Kind kind);

}  // namespace rdmawire::captures
