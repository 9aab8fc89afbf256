#include "replay/reactive/encoder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"

namespace rdmawire::replay::reactive {
namespace {

template <class H>
void set(Frame& frame, std::string_view field, std::uint64_t value) {
  if (HeaderValue* header = frame.find(info<H>)) header->set(*info<H>.find(field), value);
}

template <class H>
std::uint64_t get(Frame& frame, std::string_view field) {
  const HeaderValue* header = frame.find(info<H>);
  return header ? header->get(*info<H>.find(field)) : 0;
}

Frame frame_of(const CapturedPacket& packet) {
  Frame frame = Frame::of(decode(packet.bytes));
  frame.forget_computed();
  frame.trailer.clear();
  return frame;
}

/// Removes all layers after the BTH.
void cut_behind_bth(Frame& frame) {
  while (!frame.layers.empty() && &frame.layers.back().header() != &info<Bth>) frame.layers.pop_back();
  frame.payload.clear();
  frame.pad.reset();
}

/// Sets the IPv4 identification. RFC 791, 3.1.
void number(ByteVector& bytes, std::uint16_t identification) {
  const HeaderStack stack = decode(bytes);
  const Layer* ip = stack.find(info<Ipv4>);
  if (!ip) return;
  std::uint8_t* const header = bytes.data() + ip->offset;
  info<Ipv4>.find("identification")->store(header, identification);
  const Field& checksum = *info<Ipv4>.find("checksum");
  checksum.store(header, 0);
  checksum.store(header, internet_checksum(Bytes(header, ip->length)));
}

HeaderValue aeth(std::uint8_t syndrome, std::uint32_t msn) {
  return Value<Aeth>().set<"syndrome">(syndrome).set<"msn">(msn);
}

}  // namespace

Encoder::Encoder(const Exchange& exchange, FlowMap map)
    : exchange_(exchange), rewriter_(std::move(map), {.crc = CrcPolicy::recompute}) {
  std::optional<std::uint16_t> first;
  for (const Message& message : exchange.ours.messages)
    for (const CapturedPacket& packet : message.packets) {
      const HeaderStack stack = decode(packet.bytes);
      const auto ip = stack.get<Ipv4>();
      if (!ip) return;
      const auto identification = static_cast<std::uint16_t>(ip->get<"identification">());
      if (!first) first = identification;
      if (identification != *first) {
        next_identification_ = first;
        return;
      }
    }
}

ByteVector Encoder::captured_form(const OutgoingPacket& next_packet) const {
  const Requests &ours = exchange_.ours, &theirs = exchange_.theirs;
  if (next_packet.kind == OutgoingPacket::Kind::request) {
    const Message& message = ours.messages[next_packet.message];
    const CapturedPacket& packet = message.packets[next_packet.packet];
    if (next_packet.skip == 0 && !packet.t.op->invalidate) return packet.bytes;
    if (packet.t.op->invalidate) {
      // Only memory windows and fast-registered regions can be invalidated remotely, and the device's region is
      // neither.
      Frame frame = frame_of(packet);
      const Bytes payload = packet.payload();
      cut_behind_bth(frame);
      set<Bth>(frame, "opcode", find_opcode(Transport::rc, Operation::send, packet.t.op->position)->value);
      frame.payload.assign(payload.begin(), payload.end());
      return frame.encode();
    }
    // The rest of a READ is a separate request. IBTA vol 1, 9.7.5.1.
    Frame frame = frame_of(packet);
    const std::uint32_t bytes = next_packet.skip * exchange_.mtu;
    set<Bth>(frame, "psn", (ours.first + next_packet.psn).value());
    set<Reth>(frame, "va", message.remote_address + bytes);
    set<Reth>(frame, "length", message.length - bytes);
    return frame.encode();
  }
  const std::uint32_t psn = (theirs.first + next_packet.psn).value();
  if (next_packet.kind == OutgoingPacket::Kind::acknowledge) {
    Frame frame = frame_of(*exchange_.model);
    cut_behind_bth(frame);
    set<Bth>(frame, "opcode", find_opcode(Transport::rc, Operation::acknowledge)->value);
    for (const char* flag : {"se", "ack_request"}) set<Bth>(frame, flag, 0);
    set<Bth>(frame, "psn", psn);
    frame /= aeth(next_packet.syndrome, next_packet.msn);
    return frame.encode();
  }
  const Message& message = theirs.messages[next_packet.message];
  Frame frame = frame_of(message.answers[next_packet.packet]);
  if (next_packet.kind == OutgoingPacket::Kind::read_response && next_packet.skip != 0) {
    const bool begins = next_packet.packet == next_packet.skip, ends = next_packet.packet + 1 == message.answers.size();
    const Position position = begins ? ends ? Position::only : Position::first
                              : ends ? Position::last
                                     : Position::middle;
    std::vector<std::uint8_t> payload(message.answers[next_packet.packet].payload().begin(),
                                      message.answers[next_packet.packet].payload().end());
    cut_behind_bth(frame);
    set<Bth>(frame, "opcode", find_opcode(Transport::rc, Operation::rdma_read_response, position)->value);
    constexpr std::uint8_t plain_ack = 0x1f;
    if (position != Position::middle) frame /= aeth(plain_ack, next_packet.msn);
    frame.payload = std::move(payload);
  }
  set<Aeth>(frame, "msn", next_packet.msn);
  return frame.encode();
}

tl::expected<ByteVector, std::string> Encoder::encode(const OutgoingPacket& next_packet) {
  ByteVector captured = captured_form(next_packet);
  if (next_identification_) number(captured, (*next_identification_)++);
  ByteVector room(captured.size() + Rewriter::growth);
  const Rewritten rewritten = rewriter_.rewrite(decode(captured), room, exchange_.connection.first_frame);
  if (rewritten.outcome != Rewritten::Outcome::rewritten)
    return tl::unexpected(fmt::format("frame {} of the capture cannot be rewritten: {}", next_packet.captured_frame,
                                      rewritten.why.empty() ? "no mapping" : rewritten.why));
  ByteVector frame(rewritten.frame.begin(), rewritten.frame.end());
  // The rewriter keeps group addresses. A damaged captured address may be one.
  const MappedConnection& connection = rewriter_.map().connections.front();
  const Side us = exchange_.side;
  constexpr std::size_t address_bytes = 6;
  if (connection.at(other(us)).mac.live) store_be(frame.data(), address_bytes, *connection.at(other(us)).mac.live);
  if (connection.at(us).mac.live) store_be(frame.data() + address_bytes, address_bytes, *connection.at(us).mac.live);
  return frame;
}

}  // namespace rdmawire::replay::reactive
