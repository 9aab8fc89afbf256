#pragma once
/// CRCs of RDMA protocols: the ICRC and VCRC of InfiniBand and RoCE, and MPA's CRC32C.

#include <cstdint>

#include "dissectors/protocol/stack.hpp"

namespace rdmawire {

/// CRC-32 of IEEE 802.3 (as in zlib), continuing from `crc` (initially 0). Uses the fastest implementation for this
/// CPU.
std::uint32_t crc32(Bytes bytes, std::uint32_t crc = 0);
/// CRC32C (Castagnoli), continuing from `crc` (initially 0). RFC 3720, 12.1.
std::uint32_t crc32c(Bytes bytes, std::uint32_t crc = 0);
/// The CRC-16 of InfiniBand's VCRC: polynomial 0x100B, inverted at start and end. IBTA vol 1, 7.8.2.
std::uint16_t crc16_vcrc(Bytes bytes);

/// Reference implementations that follow the specifications, for tests of the fast ones.
namespace plain {
std::uint32_t crc32(Bytes bytes, std::uint32_t crc = 0);
std::uint32_t crc32c(Bytes bytes, std::uint32_t crc = 0);
std::uint16_t crc16_vcrc(Bytes bytes);
}  // namespace plain

/// Names of the CRC kernels that run on this processor, for display. Example: "ISA-L, VPCLMULQDQ, 512-bit registers".
struct CrcKernels {
  std::string_view crc32;      ///< kernel of crc32(), which computes most of the ICRC
  std::string_view crc32c;     ///< kernel of crc32c(), used for MPA
  std::string_view vcrc;       ///< kernel of crc16_vcrc()
  std::string_view icrc_mask;  ///< method of compute_icrc() for masking the variant fields
};
CrcKernels crc_kernels();

/// Result of checking a packet's CRC.
struct CrcCheck {
  enum class Status : std::uint8_t {
    absent,  ///< this packet has no such CRC
    good,
    bad,
    unverifiable,  ///< the capture truncated the packet, or the packet is a fragment
  };
  Status status = Status::absent;
  std::uint32_t value = 0;     ///< value in the packet, in the byte order of the specification
  std::uint32_t computed = 0;  ///< expected value
};
/// Returns "good", "bad", "unverifiable" or "absent".
std::string_view to_string(CrcCheck::Status status);

/// Computes the packet's ICRC: the CRC over all fields, with the variant fields masked as ones. IBTA vol 1, 7.8.1.
/// Annexes A16 (RoCE) and A17 (RoCEv2). Requires wire infiniband, roce_v1 or roce_v2, and all bytes before `end`, the
/// offset of the ICRC. If `end` is 0, it is stack.icrc.offset.
std::uint32_t compute_icrc(const HeaderStack& stack, std::uint32_t end = 0);
namespace plain {
/// Masks a copy of the headers, as the specification describes. Supports any stack.
std::uint32_t compute_icrc(const HeaderStack& stack, std::uint32_t end = 0);
}  // namespace plain
/// Returns the XOR of two ICRCs: that of `stack`, and the ICRC after `after` replaces the bytes from the network header
/// up to `end`. Does not read bytes after `end`, because a CRC is linear. The change must keep the layout. `end` is
/// rounded up to whole words from the network header. The rounded `end` must not exceed the offset of the ICRC, and
/// both packets must have that many bytes. Requires wire roce_v1 or roce_v2, and an ICRC.
std::uint32_t icrc_of_change(const HeaderStack& stack, Bytes after, std::uint32_t end);
namespace plain {
/// Computes both ICRCs from complete packets.
std::uint32_t icrc_of_change(const HeaderStack& stack, Bytes after, std::uint32_t end);
}  // namespace plain
CrcCheck check_icrc(const HeaderStack& stack);

/// Computes the VCRC of a native InfiniBand packet, which covers the bytes from the LRH to the ICRC without masking.
/// IBTA vol 1, 7.8.2.
std::uint16_t compute_vcrc(const HeaderStack& stack);
CrcCheck check_vcrc(const HeaderStack& stack);

/// Reads an ICRC in wire order, as Wireshark and the specification print it. On the wire, the low byte is first.
inline std::uint32_t load_icrc(const std::uint8_t* p) { return static_cast<std::uint32_t>(load_be<4>(p)); }
/// Stores an ICRC that compute_icrc() returned.
inline void store_icrc(std::uint8_t* p, std::uint32_t computed) { store_le(p, 4, computed); }

}  // namespace rdmawire
