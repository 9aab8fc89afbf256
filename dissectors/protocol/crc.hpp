#pragma once
/// The CRCs of RDMA: the invariant and the variant CRC of InfiniBand and RoCE, and MPA's CRC32C.

#include <cstdint>

#include "dissectors/protocol/stack.hpp"

namespace rdmawire {

/// CRC-32 of IEEE 802.3 (as in zlib), continuing from `crc` (0 to begin). The fastest kernel of this machine.
std::uint32_t crc32(Bytes bytes, std::uint32_t crc = 0);
/// CRC32C (Castagnoli), continuing from `crc` (0 to begin). RFC 3720, 12.1.
std::uint32_t crc32c(Bytes bytes, std::uint32_t crc = 0);
/// The CRC-16 of InfiniBand's VCRC: polynomial 0x100B, initially and finally inverted. IBTA vol 1, 7.8.2.
std::uint16_t crc16_vcrc(Bytes bytes);

/// The same, byte by byte and bit by bit, as the specifications define them: what the fast ones are tested against.
namespace plain {
std::uint32_t crc32(Bytes bytes, std::uint32_t crc = 0);
std::uint32_t crc32c(Bytes bytes, std::uint32_t crc = 0);
std::uint16_t crc16_vcrc(Bytes bytes);
}  // namespace plain

/// The kernels that this processor runs, in words for people: "ISA-L, VPCLMULQDQ, 512-bit registers".
struct CrcKernels {
  std::string_view crc32;      ///< of crc32(), most of the ICRC
  std::string_view crc32c;     ///< of crc32c(), MPA
  std::string_view vcrc;       ///< of crc16_vcrc()
  std::string_view icrc_mask;  ///< how compute_icrc() masks the fields that change on the way
};
CrcKernels crc_kernels();

/// A packet's CRC, judged.
struct CrcCheck {
  enum class Status : std::uint8_t {
    absent,  ///< this packet has no such CRC
    good,
    bad,
    unverifiable,  ///< the capture is cut, or the packet is a fragment
  };
  Status status = Status::absent;
  std::uint32_t value = 0;     ///< as the packet holds it, its bytes read as the specification writes them
  std::uint32_t computed = 0;  ///< what it should be
};
/// "good", "bad", "unverifiable", "absent"
std::string_view to_string(CrcCheck::Status status);

/// The ICRC that the packet should have: over everything that does not change on the way, changing fields masked as
/// ones. IBTA vol 1, 7.8.1; annexes A16 (RoCE) and A17 (RoCEv2). Requires a stack with wire infiniband, roce_v1 or
/// roce_v2 whose bytes reach to `end` (where the ICRC stands or will stand). `end` 0: stack.icrc.offset.
std::uint32_t compute_icrc(const HeaderStack& stack, std::uint32_t end = 0);
namespace plain {
/// The same by masking a copy of the headers, as the specification tells it; for any stack.
std::uint32_t compute_icrc(const HeaderStack& stack, std::uint32_t end = 0);
}  // namespace plain
/// What compute_icrc() gives for `stack` xor what it gives when its bytes up to `end` are those of `after` instead,
/// from the network header on: a CRC is linear, so the payload need not be read. The layout stays, `end` is not behind
/// the ICRC's beginning, and both hold that many bytes. Requires wire roce_v1 or roce_v2, and an ICRC.
std::uint32_t icrc_of_change(const HeaderStack& stack, Bytes after, std::uint32_t end);
namespace plain {
/// The same by computing twice; bytes are copied.
std::uint32_t icrc_of_change(const HeaderStack& stack, Bytes after, std::uint32_t end);
}  // namespace plain
CrcCheck check_icrc(const HeaderStack& stack);

/// The VCRC of a native InfiniBand packet: from the LRH to the ICRC, nothing masked. IBTA vol 1, 7.8.2.
std::uint16_t compute_vcrc(const HeaderStack& stack);
CrcCheck check_vcrc(const HeaderStack& stack);

/// ICRC and VCRC are sent low byte first; printed, as Wireshark and the specification do, in the order of the wire.
inline std::uint32_t load_icrc(const std::uint8_t* p) { return static_cast<std::uint32_t>(load_be<4>(p)); }
/// Writes what compute_icrc() gave.
inline void store_icrc(std::uint8_t* p, std::uint32_t computed) { store_le(p, 4, computed); }

}  // namespace rdmawire
