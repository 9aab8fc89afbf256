#include "dissectors/tracking/dissector.hpp"

#include "dissectors/protocol/transport.hpp"

namespace rdmawire::tracking {

Dissector::Dissector(const DissectorOptions& options)
    : options_(options), tcp_(options.tcp), evidence_(options.evidence) {
  tcp_.assume_iwarp(options.iwarp_ports);
  evidence_.assume(options.upper_layers);
}

void Dissector::dissect(Packet& packet, Bytes bytes, std::uint32_t wire_length) {
  read(packet, bytes, wire_length, options_);
  settle(packet);
}

void Dissector::read(Packet& packet, Bytes bytes, std::uint32_t wire_length, const DissectorOptions& options) {
  read_again(packet, bytes, wire_length, options, {});
  if (options.verify_crcs) packet.icrc = check_icrc(packet.stack);
}

void Dissector::read_again(Packet& packet, Bytes bytes, std::uint32_t wire_length, const DissectorOptions& options,
                           const CrcCheck& icrc) {
  packet.pdus.clear();
  packet.notes.clear();
  packet.upper = {};
  packet.tcp = {};
  decode(packet.stack, bytes, packet.link, wire_length, options.decode);
  packet.icrc = icrc;
  packet.vcrc = options.verify_crcs ? check_vcrc(packet.stack) : CrcCheck{};
}

void Dissector::settle(Packet& packet) {
  const HeaderStack& stack = packet.stack;
  if (stack.transport != HeaderStack::none && stack.layers()[stack.transport].header == &info<Tcp>)
    tcp_.follow(packet, options_.verify_crcs);
  evidence_.apply(packet);
}

}  // namespace rdmawire::tracking
