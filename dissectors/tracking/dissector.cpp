#include "dissectors/tracking/dissector.hpp"

#include "dissectors/protocol/transport.hpp"

namespace rdmawire::tracking {

Dissector::Dissector(const DissectorOptions& options)
    : options_(options), tcp_(options.tcp), evidence_(options.evidence) {}

void Dissector::dissect(Packet& packet, Bytes bytes, std::uint32_t wire_length) {
  packet.pdus.clear();
  packet.notes.clear();
  packet.upper = {};
  packet.tcp = {};
  decode(packet.stack, bytes, packet.link, wire_length, options_.decode);
  packet.icrc = options_.verify_crcs ? check_icrc(packet.stack) : CrcCheck{};
  packet.vcrc = options_.verify_crcs ? check_vcrc(packet.stack) : CrcCheck{};
  const HeaderStack& stack = packet.stack;
  if (stack.transport != HeaderStack::none && stack.layers()[stack.transport].header == &info<Tcp>)
    tcp_.follow(packet, options_.verify_crcs);
  evidence_.apply(packet);
}

}  // namespace rdmawire::tracking
