#pragma once
/// A packet as it can be given away: without the addresses it was sent from and to, whole in every other respect.

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "captures/extract/pseudonym.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::captures {

struct AnonymizeOptions {
  SipKey key;
  bool blank_payload = false;  ///< payload of RDMA becomes zeros, too
};

/// Replaces, by the tables: every field that holds a MAC, IPv4 or IPv6 address, a GID or a GUID, in all layers, in what
/// variable parts hold (private data of connection management, records of subnet administration), and in the addresses
/// of IP options and routing headers. Texts that name hosts and services (node descriptions, NVMe qualified names)
/// become zeros. What no table describes becomes zeros where it can hold addresses: payload that is not RDMA's,
/// management datagrams that could not be read, what follows a header that the capture cut, padding of the link. Queue
/// pairs, PSNs, keys, LIDs, ports and times stay. Payload of RDMA stays, but for addresses that were met before: GIDs,
/// GUIDs, MAC addresses, and IPv4 addresses as text.
///
/// Checksums, ICRC, VCRC, the CRC of each FPDU that lies whole in the packet, and a frame check sequence are computed
/// anew.
class Anonymizer {
 public:
  explicit Anonymizer(const AnonymizeOptions& options) : options_(options), pseudonyms_(options.key) {}

  /// Replaces `bytes` (and keeps its memory) with the packet's bytes, as many as before. `packet` must have been
  /// dissected with CRCs verified. `remark` gets what is to be known of the packet: the status its CRCs had, checksums
  /// that were bad, what was blanked, what could not be made good.
  void anonymize(const tracking::Packet& packet, std::vector<std::uint8_t>& bytes, std::string& remark);

 private:
  void replace_addresses(const HeaderInfo& header, Bytes original, MutableBytes copy, int nesting);
  void replace_option_addresses(const HeaderStack& stack, std::size_t index, MutableBytes copy);
  bool is_stream(const tracking::Packet& packet);

  AnonymizeOptions options_;
  Pseudonyms pseudonyms_;
  std::unordered_set<std::uint64_t> streams_;  ///< TCP connections that carried units of MPA
};

}  // namespace rdmawire::captures
