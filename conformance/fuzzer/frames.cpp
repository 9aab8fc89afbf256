#include "conformance/fuzzer/frames.hpp"

#include <algorithm>

#include "conformance/fuzzer/device_fixture.hpp"
#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ip.hpp"

namespace rdmawire::fuzzer {

namespace {

using device::Gid;
using device::GidType;

// Indices of the tester's GIDs.
constexpr std::uint8_t over_ipv4 = 0, over_ipv6 = 1, over_v1 = 2, foreign = 3;
constexpr std::uint32_t group_ipv4 = 0xe0000101;

}  // namespace

device::Port tester_port(const device::Port& device) {
  device::Port port;
  port.mac = {2, 0, 0, 0, 0, 9};
  Gid global = device.gids[5].gid;
  global.bytes[15] = 9;
  port.gids = {{Gid::ipv4(0x0a000009), GidType::roce_v2},
               {global, GidType::roce_v2},
               {Gid::ipv4(0x0a000009), GidType::roce_v1},
               {Gid::ipv4(0x0a000008), GidType::roce_v2}};
  for (const device::GidEntry& entry : device.gids) port.learn(entry.gid, device.mac);
  port.learn(DeviceAddresses{}.other_ipv4, device.mac);
  return port;
}

std::vector<std::uint8_t> FrameMaker::plain(const Step& step, const KnownObjects& objects, const Bases& bases) const {
  const Opcode& op = opcode(static_cast<std::uint8_t>(step.opcode));
  const auto at = static_cast<std::size_t>(step.at);
  const bool answers = step.kind == StepKind::answer;
  device::OutgoingPacket out;
  const Way way = static_cast<Way>(step.way);
  Gid to = addresses_.ipv4;
  std::uint8_t from = over_ipv4;
  if (bases.ipv6 || way == Way::ipv6) {
    to = port_.gids[over_ipv6].gid;
    to.bytes[15] = 1;
    from = over_ipv6;
  } else if (bases.roce_v1 != (way == Way::other_version)) {
    from = over_v1;
  }
  if (way == Way::foreign_source) from = foreign;
  if (way == Way::foreign_target) to = addresses_.other_ipv4, from = over_ipv4;
  if (way == Way::group) to = Gid::ipv4(group_ipv4), from = over_ipv4;
  if (from == foreign) to = addresses_.ipv4;
  out.path.dgid = to;
  out.path.sgid_index = from;
  const KnownObjects::Memory& memory = objects.memory[static_cast<std::size_t>(step.key)];
  device::PacketFields& f = out.fields;
  const std::int64_t flags = step.flags;
  f.opcode = static_cast<std::uint8_t>(step.opcode);
  f.dest_qpn = objects.qpns[at];
  if ((flags & step_flags::no_such_qp) != 0) f.dest_qpn ^= 0x5a5a5a;
  if ((flags & step_flags::qp_zero) != 0) f.dest_qpn = 0;
  if ((flags & step_flags::multicast_qp) != 0) f.dest_qpn = 0xffffff;
  f.psn = (answers ? bases.answer : bases.request) + step.psn;
  f.ack_request = (flags & step_flags::ack_request) != 0;
  f.solicited = (flags & step_flags::solicited) != 0;
  f.migrated = (flags & step_flags::not_migrated) == 0;
  if ((flags & step_flags::other_pkey) != 0) f.pkey = 0x8001;
  if ((flags & step_flags::limited_pkey) != 0) f.pkey = 0x7fff;
  if ((flags & step_flags::second_pkey) != 0) f.pkey = 0x8005;
  f.va = memory.address + static_cast<std::uint64_t>(step.offset);
  f.rkey = memory.key;
  f.length = static_cast<std::uint32_t>(step.length);
  f.swap_add = static_cast<std::uint64_t>(step.value);
  f.compare = static_cast<std::uint64_t>(step.compare);
  f.original = static_cast<std::uint64_t>(step.value);
  f.placement = static_cast<std::uint8_t>(step.value & 15);
  f.selectivity = static_cast<std::uint8_t>(step.compare & 3);
  f.immediate = op.invalidate ? memory.key : static_cast<std::uint32_t>(step.immediate);
  f.xrc_srq = objects.srqs[static_cast<std::size_t>(std::clamp<std::int64_t>(step.number, 0, 2))];
  f.qkey = (f.dest_qpn == 1) != ((flags & step_flags::other_qkey) != 0) ? gsi_qkey : usual_qkey;
  f.source_qpn = tester_qpn;
  f.syndrome = static_cast<std::uint8_t>(step.syndrome);
  f.msn = static_cast<std::uint32_t>(step.msn) & 0xffffffU;
  if ((flags & step_flags::congested) != 0) out.ecn = 3;
  if (step.kind == StepKind::cm) {
    constexpr std::uint8_t ud_send_only = 0x64;
    f.opcode = ud_send_only;
    f.dest_qpn = f.source_qpn = 1;
    f.psn = Psn(static_cast<std::uint32_t>(step.psn) & 0xffffffU);
    f.qkey = (flags & step_flags::other_qkey) != 0 ? usual_qkey : gsi_qkey;
    out.payload = cm_datagram(step, objects.connections[at], port_.gids[from].gid, to);
    auto frame = device::make_frame(out, port_);
    return frame ? std::move(*frame) : std::vector<std::uint8_t>();
  }
  out.payload.resize(static_cast<std::size_t>(step.payload));
  const auto first = static_cast<std::uint8_t>(f.psn.value() * 3 + 1);
  if (!answers) f.psn = f.psn + static_cast<std::int64_t>(bases.drawn);
  for (std::size_t i = 0; i < out.payload.size(); ++i) out.payload[i] = static_cast<std::uint8_t>(first + i * 5);
  auto frame = device::make_frame(out, port_);
  return frame ? std::move(*frame) : std::vector<std::uint8_t>();
}

void FrameMaker::make(const Step& step, const KnownObjects& objects, const Bases& bases,
                      std::vector<std::vector<std::uint8_t>>& frames) {
  frames.clear();
  std::vector<std::uint8_t> frame = plain(step, objects, bases);
  if (frame.empty()) return;
  const auto has = [&](Mutation::Kind kind) {
    return std::ranges::find(step.mutations, kind, &Mutation::kind) != step.mutations.end();
  };
  const bool sent = step.mutations.empty() || apply(step.mutations, frame, before_);
  if (sent && has(Mutation::Kind::hold) && delayed_.empty()) {
    delayed_ = std::move(frame);
    return;
  }
  if (sent) {
    before_ = frame;
    if (has(Mutation::Kind::duplicate)) frames.push_back(frame);
    frames.push_back(std::move(frame));
  }
  if (!delayed_.empty()) frames.push_back(std::move(delayed_));
  delayed_.clear();
}

bool apply(std::span<const Mutation> mutations, std::vector<std::uint8_t>& frame, Bytes before) {
  constexpr std::size_t icrc_bytes = 4, link_bytes = 14;
  HeaderStack stack;
  decode(stack, frame, LinkType::ethernet, static_cast<std::uint32_t>(frame.size()));
  bool updates_icrc = true, updates_sum = true, changed = false;
  std::uint32_t icrc_xor = 0;
  std::size_t cut = 0;
  for (const Mutation& mutation : mutations) {
    using Kind = Mutation::Kind;
    const auto value = static_cast<std::uint64_t>(mutation.value);
    switch (mutation.kind) {
      case Kind::drop: return false;
      case Kind::bad_crc:
      case Kind::stale_crc:
      case Kind::pad:
      case Kind::marker:
      case Kind::split:
      case Kind::join:  // iWARP only
      case Kind::duplicate:
      case Kind::hold: break;
      case Kind::bad_icrc: icrc_xor = value == 0 ? 1 : static_cast<std::uint32_t>(value); break;
      case Kind::bad_sum: updates_sum = false; break;
      case Kind::stale_icrc: updates_icrc = false; break;
      case Kind::cut: cut = static_cast<std::size_t>(value % 4096); break;
      case Kind::set:
      case Kind::add: {
        const Layer* layer = mutation.header ? stack.find(*mutation.header) : nullptr;
        if (!layer) break;
        std::uint8_t* at = frame.data() + layer->offset;
        const std::uint64_t was = mutation.field->load(at);
        mutation.field->store(at, mutation.kind == Kind::set ? value : was + value);
        if (mutation.field->is_computed && mutation.field->display == Display::hexadecimal &&
            mutation.header == &info<Ipv4>)
          updates_sum = false;  // the mutation sets the checksum itself
        changed = true;
        break;
      }
      case Kind::truncate:
      case Kind::extend:
      case Kind::splice: {
        if (frame.size() < link_bytes + icrc_bytes) break;
        const std::size_t end = frame.size() - icrc_bytes;
        if (mutation.kind == Kind::extend) {
          frame.insert(frame.begin() + static_cast<std::ptrdiff_t>(end), static_cast<std::size_t>(value % 4096), 0xa5);
        } else if (mutation.kind == Kind::truncate) {
          const std::size_t gone = std::min<std::size_t>(value % 4096, end - link_bytes);
          frame.erase(frame.begin() + static_cast<std::ptrdiff_t>(end - gone),
                      frame.begin() + static_cast<std::ptrdiff_t>(end));
        } else if (before.size() > link_bytes + icrc_bytes) {
          const Bytes tail = before.first(before.size() - icrc_bytes);
          const std::size_t count = std::min<std::size_t>(value % 4096, tail.size() - link_bytes);
          frame.resize(end);
          frame.insert(frame.end(), tail.end() - static_cast<std::ptrdiff_t>(count), tail.end());
          frame.resize(frame.size() + icrc_bytes);
        }
        changed = true;
        break;
      }
    }
  }
  if (updates_sum)
    if (const Layer* ip = stack.find(info<Ipv4>); ip && ip->offset + Ipv4::size <= frame.size()) {
      const std::size_t bytes = std::min<std::size_t>((frame[ip->offset] & 15U) * 4U, frame.size() - ip->offset);
      store_be(frame.data() + ip->offset + 10, 2, 0);
      store_be(frame.data() + ip->offset + 10, 2,
               internet_checksum(Bytes(frame).subspan(ip->offset, std::max<std::size_t>(bytes, Ipv4::size))));
    }
  const bool roce = stack.wire == Wire::roce_v1 || stack.wire == Wire::roce_v2;
  const std::size_t icrc_earliest = roce ? stack.layers()[stack.transport].offset + 12U : 0;
  if (roce && frame.size() >= icrc_earliest + icrc_bytes) {
    const auto end = static_cast<std::uint32_t>(frame.size() - icrc_bytes);
    stack.bytes = frame;
    if (changed && updates_icrc) store_icrc(frame.data() + end, compute_icrc(stack, end));
    store_be(frame.data() + end, 4, static_cast<std::uint32_t>(load_be(frame.data() + end, 4)) ^ icrc_xor);
  }
  if (cut > 0)
    frame.resize(frame.size() - std::min(cut, frame.size() - std::min<std::size_t>(frame.size(), link_bytes)));
  return true;
}

}  // namespace rdmawire::fuzzer
