#pragma once
/// Errors of reading and writing captures: file, record, byte offset, and cause.

#include <cstdint>
#include <string>
#include <string_view>

namespace rdmawire::captures {

/// Error of a capture file or capture device. The library returns errors and never prints or throws them.
struct CaptureError {
  enum class Kind : std::uint8_t {
    unreadable,      ///< the file cannot be opened or read: missing, a directory, access denied, I/O error
    empty,           ///< zero bytes
    unknown_format,  ///< a format other than pcap and pcapng
    truncated,       ///< the file ends within a record or block
    malformed,       ///< an invalid length, index or magic number, or an unsupported version
    compression,     ///< the gzip or zstd stream is corrupt or truncated
    limit,           ///< larger than the implementation limit
    changed,         ///< the file became shorter while it was read
    write,           ///< a record cannot be written: disk full, wrong link type for the format
    device,          ///< live capture: unknown device, access denied, device removed
    filter,          ///< live capture: invalid filter expression
  };
  Kind kind = Kind::unreadable;
  std::string file;          ///< path, "standard input", the name from the caller, or the device name. May be empty
  std::string place;         ///< "record 812", "Interface Description Block" (empty: the whole file)
  std::uint64_t record = 0;  ///< number of the failed record, from 1 (0: none)
  std::uint64_t offset = 0;  ///< of `place` in the (decompressed) file, bytes
  std::string what;          ///< the cause
  std::string follows;       ///< the consequence, "stopped after 811 packets", or a hint, or empty
};

/// One line, see output::printable, with `follows` after a semicolon. Without `follows`: "x.pcap: record 812 at byte
/// 90112: length 70000 exceeds the file's snap length 65535".
std::string to_string(const CaptureError& error);
std::string_view to_string(CaptureError::Kind kind);

}  // namespace rdmawire::captures
