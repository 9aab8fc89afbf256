#include "dissectors/protocol/encode.hpp"

#include <algorithm>

#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/icmp.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/layer_bytes.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/mrc.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire {

std::uint16_t internet_checksum(Bytes bytes, std::uint32_t sum) {
  std::uint64_t total = sum;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) total += load_be<2>(bytes.data() + i);
  if (bytes.size() % 2) total += static_cast<std::uint64_t>(bytes.back()) << 8;
  while (total >> 16) total = (total & 0xffff) + (total >> 16);
  return static_cast<std::uint16_t>(~total);
}

std::size_t bytes_in_packet(const HeaderValue& layer) {
  const HeaderInfo& header = layer.header();
  const std::size_t bytes = layer.bytes().size(), beyond = header.unit ? bytes % header.unit : 0;
  return beyond == 0 || layer.given(*header.counted_by) ? bytes : bytes + header.unit - beyond;
}

namespace {

std::size_t last_index(const std::vector<HeaderValue>& layers, const HeaderInfo& header) {
  for (std::size_t i = layers.size(); i-- > 0;)
    if (&layers[i].header() == &header) return i;
  return layers.size();
}

// Returns the index of the outermost BTH, which is the packet's transport. Another BTH after it belongs to the payload.
std::size_t transport_index(const std::vector<HeaderValue>& layers) {
  std::size_t i = 0;
  while (i < layers.size() && !is_base_transport(layers[i].header())) ++i;
  return i;
}

// Returns the sum over the pseudo header of the IP layer before `index`. RFC 9293, 3.1, RFC 8200, 8.1
std::uint32_t pseudo_header_sum(const FrameLayout& frame, std::size_t index, std::uint8_t protocol) {
  std::uint32_t sum = frame.bytes_from(index) + protocol;
  for (std::size_t i = index; i-- > 0;) {
    const HeaderValue& ip = frame.layers[i];
    const bool v4 = &ip.header() == &info<Ipv4>;
    if (!v4 && &ip.header() != &info<Ipv6>) continue;
    const Bytes addresses = v4 ? ip.bytes().subspan(12, 8) : ip.bytes().subspan(8, 32);
    for (std::size_t k = 0; k < addresses.size(); k += 2)
      sum += static_cast<std::uint32_t>(load_be<2>(addresses.data() + k));
    break;
  }
  return sum;
}

// Computes the checksums of the layers from `first` up to but excluding `last`, starting with the innermost.
void transport_checksums(const FrameLayout& frame, std::size_t first, std::size_t last, MutableBytes packet) {
  for (std::size_t i = last; i-- > first;) {
    const HeaderInfo& header = frame.layers[i].header();
    const bool udp = &header == &info<Udp>, icmp = &header == &info<Icmp>, icmpv6 = &header == &info<Icmpv6>;
    if (!udp && !icmp && !icmpv6 && &header != &info<Tcp>) continue;
    const Field& checksum = *header.find("checksum");
    if (frame.layers[i].given(checksum)) continue;
    if (udp && frame.next(i) && is_base_transport(*frame.next(i))) continue;  // RoCEv2 sends no UDP checksum
    std::uint8_t* at = packet.data() + frame.offsets[i];
    checksum.store(at, 0);
    const std::uint8_t protocol = udp ? ip_protocol::udp : icmpv6 ? ip_protocol::icmpv6 : ip_protocol::tcp;
    std::uint16_t sum = internet_checksum(packet.subspan(frame.offsets[i], frame.bytes_from(i)),
                                          icmp ? 0 : pseudo_header_sum(frame, i, protocol));
    if (udp && sum == 0) sum = 0xffff;  // 0 would mean that there is no checksum
    checksum.store(at, sum);
  }
}

}  // namespace

Frame Frame::of(const HeaderStack& stack) {
  Frame frame;
  for (const Layer& layer : stack.layers())
    frame.layers.push_back(*HeaderValue::parse(*layer.header, stack.bytes_of(layer)));
  auto copy = [&](Range range) {
    const Bytes bytes = stack.bytes_of(range);
    return std::vector<std::uint8_t>(bytes.begin(), bytes.end());
  };
  const std::uint32_t headers_end =
      stack.layers().empty() ? 0 : stack.layers().back().offset + stack.layers().back().length;
  // If decoding stopped inside a header, all bytes between the last decoded header and the trailing parts are payload.
  const bool stopped = stack.payload.offset == 0;
  std::uint32_t end = stack.pad.length       ? stack.pad.offset
                      : stack.icrc.length    ? stack.icrc.offset
                      : stack.vcrc.length    ? stack.vcrc.offset
                      : stack.mpa_crc.length ? stack.mpa_crc.offset
                      : stopped              ? static_cast<std::uint32_t>(stack.bytes.size())
                                             : std::max(stack.payload.end(), headers_end);
  frame.payload = copy({headers_end, end - headers_end});
  frame.pad = copy(stack.pad);
  if (stack.pad.length) end = stack.pad.end();
  frame.with_icrc = stack.icrc.length != 0;
  if (frame.with_icrc) {
    frame.icrc = load_icrc(stack.bytes.data() + stack.icrc.offset);
    end = stack.icrc.end();
  }
  frame.with_mpa_crc = stack.mpa_crc.length != 0;
  if (frame.with_mpa_crc) {
    frame.mpa_crc = load_icrc(stack.bytes.data() + stack.mpa_crc.offset);
    end = stack.mpa_crc.end();
  }
  frame.with_vcrc = stack.vcrc.length != 0;
  if (frame.with_vcrc) {
    frame.vcrc = static_cast<std::uint16_t>(load_be<2>(stack.bytes.data() + stack.vcrc.offset));
    end = stack.vcrc.end();
  }
  frame.trailer = copy({end, static_cast<std::uint32_t>(stack.bytes.size()) - end});
  return frame;
}

HeaderValue* Frame::find(const HeaderInfo& header) {
  const std::size_t i = last_index(layers, header);
  return i < layers.size() ? &layers[i] : nullptr;
}

void Frame::forget_computed() {
  for (HeaderValue& layer : layers)
    for (const Field& f : layer.header().fields)
      if (f.is_computed) layer.forget(f);
  pad.reset();
  icrc.reset();
  vcrc.reset();
  mpa_crc.reset();
}

std::vector<std::uint8_t> Frame::encode() const {
  FrameLayout layout;
  layout.layers = layers;
  for (HeaderValue& layer : layout.layers) {
    const std::size_t missing = bytes_in_packet(layer) - layer.bytes().size();
    if (missing == 0) continue;
    std::vector<std::uint8_t> tail(layer.tail().begin(), layer.tail().end());
    tail.resize(tail.size() + missing, 0);
    layer.set_tail(tail);
  }
  const std::size_t bth = transport_index(layers), lrh = last_index(layers, info<Lrh>);
  const bool has_bth = bth < layers.size(), native = lrh < layers.size();
  const bool write_icrc = has_bth && with_icrc, write_vcrc = native && with_vcrc;
  const std::size_t fpdu = last_index(layers, info<Fpdu>);
  const bool has_fpdu = fpdu < layers.size(), write_mpa_crc = has_fpdu && with_mpa_crc;

  std::uint32_t at = 0;
  for (const HeaderValue& layer : layout.layers) {
    layout.offsets.push_back(at);
    at += static_cast<std::uint32_t>(layer.bytes().size());
  }
  layout.payload_bytes = static_cast<std::uint32_t>(payload.size());
  // Unless `pad` is set, zeros fill the payload up to the size that a header requires (256 bytes for a MAD).
  if (!pad)
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const std::uint32_t headers = at - layout.offsets[i], demanded = layers[i].header().whole;
      if (demanded > headers) layout.payload_bytes = std::max(layout.payload_bytes, demanded - headers);
    }
  // Transport packets are padded to multiples of four bytes. Headers of upper layers count as payload.
  const std::size_t padded_from = has_bth ? bth : fpdu;
  layout.pad_bytes = pad                   ? static_cast<std::uint32_t>(pad->size())
                     : has_bth || has_fpdu ? -(at - layout.offsets[padded_from] + layout.payload_bytes) & 3U
                                           : 0;
  const std::uint32_t icrc_at = at + layout.payload_bytes + layout.pad_bytes;
  layout.end = icrc_at + (write_icrc || write_mpa_crc ? 4 : 0);
  layout.transport = bth;
  layout.payload_end = at + layout.payload_bytes;
  for (std::size_t i = layers.size(); i-- > 0;)
    if (layers[i].header().fill) layers[i].header().fill(layout, i);

  std::vector<std::uint8_t> packet;
  packet.reserve(layout.end + 2 + trailer.size());
  for (const HeaderValue& layer : layout.layers)
    packet.insert(packet.end(), layer.bytes().begin(), layer.bytes().end());
  packet.insert(packet.end(), payload.begin(), payload.end());
  packet.resize(at + layout.payload_bytes, 0);
  if (pad) packet.insert(packet.end(), pad->begin(), pad->end());
  packet.resize(layout.end + (write_vcrc ? 2 : 0), 0);
  if (write_mpa_crc) {
    const Bytes covered = Bytes(packet).subspan(layout.offsets[fpdu], icrc_at - layout.offsets[fpdu]);
    store_be(packet.data() + icrc_at, 4, mpa_crc ? *mpa_crc : compute_mpa_crc(covered));
  }
  transport_checksums(layout, bth, layers.size(), packet);

  HeaderStack stack;
  stack.reset(packet, static_cast<std::uint32_t>(packet.size()));
  bool fits = true;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const HeaderInfo& header = layers[i].header();
    fits = fits && stack.push(header, layout.offsets[i], static_cast<std::uint32_t>(layout.layers[i].bytes().size()));
    const bool network = &header == &info<Ipv4> || &header == &info<Ipv6> || &header == &info<Grh>;
    if (network && i < bth) stack.network = stack.last_layer();
    if (i == bth) stack.transport = stack.last_layer();
  }
  const bool over_udp = has_bth && bth > 0 && &layers[bth - 1].header() == &info<Udp>;
  const bool over_grh = has_bth && bth > 0 && &layers[bth - 1].header() == &info<Grh>;
  const std::size_t local = over_grh ? bth - 1 : bth;
  const bool over_lrh = local > 0 && &layers[local - 1].header() == &info<Lrh>;
  stack.wire = over_udp ? Wire::roce_v2 : over_lrh ? Wire::infiniband : Wire::roce_v1;
  stack.icrc = {icrc_at, 4};
  stack.vcrc = {layout.end, 2};
  if (write_icrc) {
    const bool computable = fits && (stack.wire != Wire::roce_v2 || stack.network != HeaderStack::none);
    const std::uint32_t value = icrc ? *icrc : computable ? __builtin_bswap32(compute_icrc(stack)) : 0;
    store_be(packet.data() + icrc_at, 4, value);
  }
  // The ICRC covers the checksums after the BTH, so these are already computed. The checksums before the BTH belong to
  // a tunnel and cover the ICRC.
  transport_checksums(layout, 0, bth, packet);
  if (write_vcrc) store_be(packet.data() + layout.end, 2, vcrc ? *vcrc : __builtin_bswap16(compute_vcrc(stack)));
  packet.insert(packet.end(), trailer.begin(), trailer.end());
  return packet;
}

std::vector<Frame> segment(const Frame& frame, std::uint32_t mtu) {
  if (mtu < 256 || mtu > 4096 || !std::has_single_bit(mtu)) return {};
  const std::size_t bth_at = transport_index(frame.layers);
  if (bth_at == frame.layers.size() || &frame.layers[bth_at].header() != &info<Bth>) return {};
  const HeaderValue& bth = frame.layers[bth_at];
  const Field& opcode_field = *info<Bth>.find("opcode");
  const Field& psn_field = *info<Bth>.find("psn");
  const Field& reth_length = *info<Reth>.find("length");
  const Opcode& whole = opcode(static_cast<std::uint8_t>(bth.get(opcode_field)));
  if (!whole.known || !whole.begins_message() || !whole.payload || whole.operation == Operation::atomic_write)
    return {};

  // Each packet has the extension headers after the BTH. The layers after these are the start of the message.
  const auto is_extension = [](const HeaderInfo& header) {
    for (const Opcode& op : opcodes)
      for (const HeaderInfo* extension : op.extension_headers())
        if (extension == &header) return true;
    return false;
  };
  std::vector<const HeaderValue*> extensions;
  Frame upper;
  upper.payload = frame.payload;
  for (std::size_t i = bth_at + 1; i < frame.layers.size(); ++i)
    if (upper.layers.empty() && is_extension(frame.layers[i].header()))
      extensions.push_back(&frame.layers[i]);
    else
      upper /= frame.layers[i];
  const std::vector<std::uint8_t> message = upper.encode();

  const std::size_t count = std::max<std::size_t>(1, (message.size() + mtu - 1) / mtu);
  const auto psn = static_cast<std::uint32_t>(bth.get(psn_field));
  Frame common = frame;  // layers that all packets share
  common.layers.resize(bth_at + 1, HeaderValue(info<Bth>));
  common.payload = {};
  std::vector<Frame> packets;
  for (std::size_t i = 0; i < count; ++i) {
    const bool ends = i + 1 == count;
    const Position position = count == 1 ? Position::only
                              : i == 0   ? Position::first
                              : ends     ? Position::last
                                         : Position::middle;
    const Opcode* op =
        find_opcode(whole.transport, whole.operation, position, ends && whole.immediate, ends && whole.invalidate);
    if (!op) return {};
    Frame packet = common;
    packet.layers[bth_at].set(opcode_field, op->value);
    packet.layers[bth_at].set(psn_field, psn + i);
    if (!ends)
      for (const std::string_view at_the_end : {"se", "ack_request"})
        packet.layers[bth_at].set(*info<Bth>.find(at_the_end), 0);
    for (const HeaderInfo* header : op->extension_headers()) {
      const auto given = std::find_if(extensions.begin(), extensions.end(),
                                      [&](const HeaderValue* value) { return &value->header() == header; });
      packet /= given != extensions.end() ? **given : HeaderValue(*header);
      // The RETH of the first packet contains the length of the whole message.
      if (header == &info<Reth> && !packet.layers.back().given(reth_length))
        packet.layers.back().set(reth_length, message.size());
    }
    const std::size_t from = i * mtu, to = std::min(message.size(), from + mtu);
    packet.payload.assign(message.begin() + static_cast<std::ptrdiff_t>(from),
                          message.begin() + static_cast<std::ptrdiff_t>(to));
    packets.push_back(std::move(packet));
  }
  return packets;
}

}  // namespace rdmawire
