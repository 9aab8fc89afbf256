#pragma once
/// Anonymizes packets: replaces addresses, and writes zeros to data that may contain other addresses. Preserves
/// everything else.

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "captures/extract/pseudonym.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::captures {

struct AnonymizeOptions {
  SipKey key;
  bool blank_payload = false;  ///< also replaces RDMA payload with zeros
};

/// Replaces all fields that contain a MAC, IPv4 or IPv6 address, a GID or a GUID: in all layers, in variable parts
/// (private data of connection management, records of subnet administration), in IP options and in routing headers.
/// Replaces texts that name hosts and services (node descriptions, NVMe qualified names) with zeros. Also zeros data
/// that no field describes and that may contain addresses: payload other than RDMA, management datagrams that cannot be
/// parsed, data after a truncated header, and link padding. Keeps QP numbers, PSNs, keys, LIDs, ports and times. Keeps
/// RDMA payload, except for addresses that were replaced before: GIDs, GUIDs, MAC addresses, and IPv4 addresses as
/// text.
///
/// Recomputes checksums, ICRC, VCRC, the frame check sequence, and the CRC of each FPDU that is completely in the
/// packet.
class Anonymizer {
 public:
  explicit Anonymizer(const AnonymizeOptions& options) : options_(options), pseudonyms_(options.key) {}

  /// Stores the anonymized packet, whose length is unchanged, in `bytes`. `packet` must have been dissected with CRC
  /// verification. Stores notes about the packet in `remark`: the result of the original CRC check, bad checksums,
  /// zeroed parts, and checksums that could not be recomputed.
  void anonymize(const tracking::Packet& packet, std::vector<std::uint8_t>& bytes, std::string& remark);

 private:
  void replace_addresses(const HeaderInfo& header, Bytes original, MutableBytes copy, int nesting);
  void replace_option_addresses(const HeaderStack& stack, std::size_t index, MutableBytes copy);
  bool is_stream(const tracking::Packet& packet);

  AnonymizeOptions options_;
  Pseudonyms pseudonyms_;
  std::unordered_set<std::uint64_t> streams_;  ///< hashes of the TCP connections that contain iWARP PDUs
};

}  // namespace rdmawire::captures
