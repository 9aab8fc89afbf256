#include "dissectors/tracking/dissector.hpp"

namespace rdmawire::tracking {

Dissector::Dissector(const DissectorOptions& options) : options_(options) {}

void Dissector::dissect(Packet& packet, Bytes bytes, std::uint32_t wire_length) {
  packet.pdus.clear();
  packet.notes.clear();
  packet.upper = {};
  decode(packet.stack, bytes, packet.link, wire_length, options_.decode);
  packet.icrc = options_.verify_crcs ? check_icrc(packet.stack) : CrcCheck{};
  packet.vcrc = options_.verify_crcs ? check_vcrc(packet.stack) : CrcCheck{};
  evidence_.apply(packet);
}

}  // namespace rdmawire::tracking
