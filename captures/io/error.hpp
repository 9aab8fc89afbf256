#pragma once
/// What went wrong with a capture, as a value: which file, which record, at which byte, what was found, what follows.

#include <cstdint>
#include <string>
#include <string_view>

namespace rdmawire::captures {

/// Trouble with a capture file or a capture device. Nothing here is ever printed or thrown by the library.
struct CaptureError {
  enum class Kind : std::uint8_t {
    unreadable,      ///< the file could not be opened or read: missing, a directory, no permission, an I/O error
    empty,           ///< no byte at all
    unknown_format,  ///< neither pcap nor pcapng, plain or compressed
    truncated,       ///< the file ends inside a record or block
    malformed,       ///< a length or index that contradicts the file
    compression,     ///< the gzip or zstd stream is broken or cut
    limit,           ///< larger than we follow
    changed,         ///< the file became shorter while it was read
    write,           ///< a record could not be written: disk full, wrong link type for the format
    device,          ///< live capture: no such device, no permission, the device went away
    filter,          ///< live capture: the filter expression is wrong
  };
  Kind kind = Kind::unreadable;
  std::string file;          ///< path, "standard input", or what the caller named it; a device's name
  std::string place;         ///< "record 812", "Interface Description Block"; empty: the file as a whole
  std::uint64_t record = 0;  ///< 1-based number of the record that could not be read or written; 0: none
  std::uint64_t offset = 0;  ///< of `place`, bytes into the (decompressed) file
  std::string what;          ///< what was found
  std::string follows;       ///< what follows from it: "stopped after 811 packets"; a hint what to do; may be empty
};

/// "x.pcap: record 812 at byte 90112: length 70000 exceeds the file's snap length 65535; stopped after 811 packets"
std::string to_string(const CaptureError& error);
std::string_view to_string(CaptureError::Kind kind);

}  // namespace rdmawire::captures
