#include "dissectors/protocol/ddp.hpp"

#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/rdmap.hpp"

namespace rdmawire {

Step decode_ddp(Cursor& c) {
  if (!c.need(info<Ddp>, Ddp::size)) return done;
  const std::uint32_t ddp_at = c.at;
  const View<Ddp> ddp(c.here());
  const bool tagged = ddp.get<"tagged">();
  if (ddp.get<"dv">() != 1)
    c.stack.report({ParseError::Kind::unknown, &info<Ddp>, ddp_at, 0, 0, "the DDP version is not 1"});
  if (!c.take(info<Ddp>, Ddp::size)) return done;
  if (!c.need(info<Rdmap>, Rdmap::size)) return done;
  const RdmapOpcode& op = rdmap_opcode(View<Rdmap>(c.here()).get<"opcode">());
  const std::uint32_t rdmap_at = c.at;
  if (!c.take(info<Rdmap>, Rdmap::size)) return done;
  const HeaderInfo& model = tagged ? info<DdpTagged> : info<DdpUntagged>;
  if (!c.need(model, model.size)) return done;
  const std::uint32_t offset = tagged ? 0 : View<DdpUntagged>(c.here()).get<"mo">();
  if (!c.take(model, model.size)) return done;
  if (!op.known) {
    c.stack.report({ParseError::Kind::unknown, &info<Rdmap>, rdmap_at, 0, 0, "undefined opcode"});
  } else if (op.tagged != tagged) {
    c.stack.report(
        {ParseError::Kind::malformed, &info<Rdmap>, rdmap_at, 0, 0, "the opcode belongs to the other buffer model"});
  } else if (op.header && offset == 0) {
    // Only the first segment of a message contains the RDMAP header.
    if (!c.need(*op.header, op.header->size)) return done;
    if (!c.take(*op.header, op.header->tail.empty() ? op.header->size : c.left())) return done;
    if (c.declared_end > c.at && !op.payload && op.header->tail.empty())
      c.stack.report({ParseError::Kind::malformed, op.header, c.at - op.header->size, op.header->size,
                      c.declared_end - c.at + op.header->size, "payload in a message type without payload"});
  }
  c.payload();
  return done;
}

void decode_ulpdu(HeaderStack& stack, Bytes bytes, std::uint32_t wire_length) {
  const auto captured = static_cast<std::uint32_t>(bytes.size());
  stack.reset(bytes, std::max(wire_length, captured));
  stack.wire = Wire::iwarp;
  const DecodeOptions options;
  Cursor c{stack, options, 0, captured, stack.wire_length};
  decode_ddp(c);
  stack.cut |= c.end < c.declared_end;
}

void Ddp::fill(FrameLayout& frame, std::size_t index) {
  HeaderValue& ddp = frame.at(index);
  const bool tagged = index + 2 < frame.layers.size() && &frame.at(index + 2).header() == &info<DdpTagged>;
  ddp.fill("tagged", tagged);
  ddp.fill("last", 1);
  ddp.fill("dv", 1);
}

void DdpUntagged::fill(FrameLayout& frame, std::size_t index) {
  HeaderValue& ddp = frame.at(index);
  if (index > 0 && &frame.at(index - 1).header() == &info<Rdmap>) {
    Rdmap::fill(frame, index - 1);
    const HeaderValue& rdmap = frame.at(index - 1);
    ddp.fill("qn", rdmap_opcode(static_cast<std::uint8_t>(rdmap.get(*info<Rdmap>.find("opcode")))).queue);
  }
  ddp.fill("msn", 1);  // the first message has MSN 1. RFC 5041, 4.3
}

std::vector<Frame> segment_ddp(const Frame& message, std::uint32_t mulpdu) {
  std::size_t model = message.layers.size();
  for (std::size_t i = 0; i < message.layers.size(); ++i)
    if (const HeaderInfo* h = &message.layers[i].header(); h == &info<DdpTagged> || h == &info<DdpUntagged>) model = i;
  if (model == message.layers.size() || model < 2 || &message.layers[model - 2].header() != &info<Ddp>) return {};
  const bool tagged = &message.layers[model].header() == &info<DdpTagged>;
  const std::uint32_t ddp_bytes = Ddp::size + Rdmap::size + message.layers[model].header().size;
  std::uint32_t first_bytes = 0;  // size of the RDMAP header, which is part of the message
  for (std::size_t i = model + 1; i < message.layers.size(); ++i)
    first_bytes += static_cast<std::uint32_t>(message.layers[i].bytes().size());
  if (mulpdu < ddp_bytes + first_bytes || (mulpdu <= ddp_bytes && !message.payload.empty())) return {};

  const Field& offset_field = *message.layers[model].header().find(tagged ? "to" : "mo");
  const Field& last_field = *info<Ddp>.find("last");
  const std::uint64_t start = message.layers[model].get(offset_field);
  Frame common = message;  // layers that all segments share
  common.payload = {};
  std::vector<Frame> segments;
  std::size_t at = 0;
  do {
    Frame segment = common;
    const std::size_t ahead = segments.empty() ? first_bytes : 0;
    if (!segments.empty()) segment.layers.resize(model + 1, HeaderValue(info<Ddp>));
    const std::size_t bytes = std::min<std::size_t>(message.payload.size() - at, mulpdu - ddp_bytes - ahead);
    segment.payload.assign(message.payload.begin() + static_cast<std::ptrdiff_t>(at),
                           message.payload.begin() + static_cast<std::ptrdiff_t>(at + bytes));
    segment.layers[model].set(offset_field, start + at + (segments.empty() ? 0 : first_bytes));
    at += bytes;
    if (!message.layers[model - 2].given(last_field) || at < message.payload.size())
      segment.layers[model - 2].set(last_field, at == message.payload.size());
    segments.push_back(std::move(segment));
  } while (at < message.payload.size());
  return segments;
}

}  // namespace rdmawire
