#pragma once
/// Constants of pcap and pcapng for the reader and the writer: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng.

#include <bit>
#include <cstdint>
#include <cstring>

#include "dissectors/protocol/bits.hpp"

namespace rdmawire::captures {

namespace pcap {
inline constexpr std::uint32_t magic_microseconds = 0xa1b2c3d4;
inline constexpr std::uint32_t magic_nanoseconds = 0xa1b23c4d;
/// Kuznetzov's modified format, whose record headers have 8 additional bytes.
inline constexpr std::uint32_t magic_modified = 0xa1b2cd34;
inline constexpr std::uint32_t file_header = 24;
inline constexpr std::uint32_t record_header = 16;
inline constexpr std::uint32_t modified_record_header = 24;
}  // namespace pcap

namespace pcapng {
/// Block types. draft-ietf-opsawg-pcapng, 11.1.
enum Block : std::uint32_t {
  section_header = 0x0a0d0d0a,
  interface_description = 1,
  packet = 2,  ///< obsolete, but still in old files
  simple_packet = 3,
  name_resolution = 4,
  interface_statistics = 5,
  enhanced_packet = 6,
  decryption_secrets = 0x0a,
  custom_copied = 0x00000bad,
  custom_not_copied = 0x40000bad,
};
inline constexpr std::uint32_t byte_order_magic = 0x1a2b3c4d;
inline constexpr std::uint32_t block_frame =
    12;  ///< bytes of a block around its body: type, total length, and again the total length at the end

/// Option codes: first the common ones, then those of each block. draft-ietf-opsawg-pcapng, 3.5 and 4.
enum Option : std::uint16_t {
  opt_endofopt = 0,
  opt_comment = 1,
  shb_hardware = 2,
  shb_os = 3,
  shb_userappl = 4,
  if_name = 2,
  if_description = 3,
  if_tsresol = 9,
  if_filter = 11,
  if_os = 12,
  if_fcslen = 13,
  if_tsoffset = 14,
  if_hardware = 15,
  epb_flags = 2,
  epb_hash = 3,
  epb_dropcount = 4,
  epb_packetid = 5,
  epb_queue = 6,
  isb_starttime = 2,
  isb_endtime = 3,
  isb_ifrecv = 4,
  isb_ifdrop = 5,
  isb_filteraccept = 6,
  isb_osdrop = 7,
  isb_usrdeliv = 8,
};
constexpr std::uint32_t pad4(std::uint32_t length) { return (length + 3) & ~std::uint32_t{3}; }
}  // namespace pcapng

/// Loads an integer in the byte order of the file, which is native or swapped.
template <class T>
inline T load(const std::uint8_t* p, bool swapped) {
  T value;
  std::memcpy(&value, p, sizeof value);
  if constexpr (sizeof(T) == 2) return swapped ? static_cast<T>(__builtin_bswap16(value)) : value;
  if constexpr (sizeof(T) == 4) return swapped ? static_cast<T>(__builtin_bswap32(value)) : value;
  if constexpr (sizeof(T) == 8) return swapped ? static_cast<T>(__builtin_bswap64(value)) : value;
  return value;
}

/// Iterates over the options of a block. Stops at opt_endofopt, or at a length that exceeds the block.
class BlockOptions {
 public:
  struct Option {
    std::uint16_t code;
    Bytes value;
  };
  BlockOptions(Bytes bytes, bool swapped) : left_(bytes), swapped_(swapped) {}
  /// Reads the next option. Returns false after the last one.
  bool next(Option& option) {
    if (left_.size() < 4) return false;
    const auto code = load<std::uint16_t>(left_.data(), swapped_);
    const auto length = load<std::uint16_t>(left_.data() + 2, swapped_);
    if (code == pcapng::opt_endofopt || length > left_.size() - 4) return false;
    option = {code, left_.subspan(4, length)};
    left_ = left_.subspan(std::min<std::size_t>(left_.size(), 4 + pcapng::pad4(length)));
    return true;
  }

 private:
  Bytes left_;
  bool swapped_;
};

}  // namespace rdmawire::captures
