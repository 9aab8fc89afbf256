/// Faults in every packet that is sent.

#include "conformance/device/roce/core.hpp"
#include "conformance/device/roce/faults/overrides.hpp"
#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"

namespace rdmawire::device {

namespace {

using FrameBytes = std::vector<std::uint8_t>;

/// Change a field of each header `H` in the frame, and compute the ICRC again.
template <class H, FixedString Name>
FrameBytes with_field(FrameBytes frame, std::uint64_t value) {
  constexpr const Field& field = *info<H>.find(Name.view());
  HeaderStack stack = decode(frame);
  const Layer* layer = stack.find(info<H>);
  if (!layer || stack.icrc.length == 0) return frame;
  field.store(frame.data() + layer->offset, value);
  store_icrc(frame.data() + stack.icrc.offset, compute_icrc(stack));
  return frame;
}

bool is_connected(const OutgoingPacket& packet) { return opcode(packet.fields.opcode).transport != Transport::ud; }

constexpr FaultOverride sending_rows[] = {
    {Fault::wrong_ip_checksum,
     [](Decisions& d) {
       d.sending.frame.override_with([](const auto& next, FrameBytes frame) {
         frame = next(std::move(frame));
         const HeaderStack stack = decode(frame);
         if (const Layer* ip = stack.find(info<Ipv4>)) frame[ip->offset + 10] ^= 1;
         return frame;
       });
     }},
    {Fault::sends_header_version_1,
     [](Decisions& d) {
       d.sending.frame.override_with(
           [](const auto& next, FrameBytes frame) { return with_field<Bth, "tver">(next(std::move(frame)), 1); });
     }},
    {Fault::sends_reserved_extension_bits,
     [](Decisions& d) {
       d.sending.frame.override_with([](const auto& next, FrameBytes frame) {
         return with_field<Deth, "reserved">(with_field<Aeth, "syndrome.reserved">(next(std::move(frame)), 1), 1);
       });
     }},
    {Fault::addresses_next_queue_pair,
     [](Decisions& d) {
       d.sending.fields.override_with([](const auto& next, const OutgoingPacket& packet) {
         PacketFields fields = next(packet);
         if (is_connected(packet)) ++fields.dest_qpn;
         return fields;
       });
     }},
    {Fault::sends_other_pkey,
     [](Decisions& d) {
       d.sending.fields.override_with([](const auto& next, const OutgoingPacket& packet) {
         PacketFields fields = next(packet);
         if (is_connected(packet)) fields.pkey ^= 1;
         return fields;
       });
     }},
};

}  // namespace

std::span<const FaultOverride> sending_overrides() { return sending_rows; }

}  // namespace rdmawire::device
