#include "dissectors/tracking/dissector.hpp"

namespace rdmawire::tracking {

std::string_view to_string(Upper upper) {
  switch (upper) {
    case Upper::unknown: return "unknown";
    case Upper::ipoib: return "IPoIB";
    case Upper::nvme: return "NVMe over Fabrics";
    case Upper::rpc_rdma: return "RPC-over-RDMA";
    case Upper::iser: return "iSER";
    case Upper::srp: return "SRP";
    case Upper::smb_direct: return "SMB Direct";
  }
  return "?";
}

Dissector::Dissector(const DissectorOptions& options) : options_(options) {}

void Dissector::dissect(Packet& packet, Bytes bytes, std::uint32_t wire_length) {
  packet.pdus.clear();
  packet.notes.clear();
  packet.upper = {};
  decode(packet.stack, bytes, packet.link, wire_length, options_.decode);
  packet.icrc = options_.verify_crcs ? check_icrc(packet.stack) : CrcCheck{};
  packet.vcrc = options_.verify_crcs ? check_vcrc(packet.stack) : CrcCheck{};
}

}  // namespace rdmawire::tracking
