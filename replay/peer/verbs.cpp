#include "replay/peer/verbs.hpp"

#include <arpa/inet.h>

#include <algorithm>

#include "replay/peer/handle_state.hpp"
#include "replay/peer/queue_pair.hpp"
#include "replay/rpc/completion_commands.hpp"
#include "replay/rpc/device_commands.hpp"
#include "replay/rpc/memory_commands.hpp"

namespace rdmawire::peer {

namespace {

std::optional<std::array<std::uint8_t, 16>> read_gid(const std::string& text) {
  std::array<std::uint8_t, 16> gid{};
  return inet_pton(AF_INET6, text.c_str(), gid.data()) == 1 ? std::optional(gid) : std::nullopt;
}
bool link_local(const Gid& gid) {
  const auto bytes = read_gid(gid.text);
  return bytes && (*bytes)[0] == 0xfe && (*bytes)[1] == 0x80;
}
constexpr std::string_view mapped = "::ffff:";

/// Higher values are preferred as the source of traffic.
int preference(const Gid& gid) {
  return (gid.type == "roce_v2" ? 4 : 0) + (link_local(gid) ? 0 : 2) + (gid.text.starts_with(mapped) ? 1 : 0);
}

Port port_of(const rpc::PortAttributes& report) {
  Port port{.number = report.port,
            .state = report.state.name,
            .link_layer = report.link_layer.name,
            .netdev = report.netdev.value_or(""),
            .active_mtu = report.active_mtu,
            .max_mtu = report.max_mtu,
            .lid = report.lid};
  for (const rpc::GidEntry& entry : report.gids)
    port.gids.push_back({entry.index, entry.gid, entry.type.name, entry.netdev.value_or("")});
  return port;
}

Completion completion_of(const rpc::Completion& report) {
  Completion completion{.wr_id = report.wr_id,
                        .status = report.status.name,
                        .status_number = report.status_number,
                        .vendor_err = report.vendor_err,
                        .qp_num = report.qp_num};
  if (!completion.good()) return completion;
  if (report.opcode) completion.opcode = report.opcode->name;
  completion.byte_len = report.byte_len.value_or(0);
  completion.imm = report.imm;
  completion.imm64 = report.imm64;
  completion.invalidated_rkey = report.invalidated_rkey;
  completion.src_qp = report.src_qp;
  return completion;
}

}  // namespace

PeerResult<Device> Device::open(Peer& peer, const std::string& name) {
  const auto& session = peer.session();
  std::string chosen = name;
  if (chosen.empty()) {
    const auto listed = peer::request(*session, rpc::Devices{});
    if (!listed) return tl::unexpected(listed.error());
    if (listed->devices.empty())
      return tl::unexpected(peer_error(PeerError::Kind::refused, ENODEV,
                                       "open: the agent has no RDMA device: " + listed->reason.value_or("")));
    chosen = listed->devices[0].name;
  }
  const auto opened = peer::request(*session, rpc::Open{.name = chosen});
  if (!opened) return tl::unexpected(opened.error());
  Device device(adopt(session, opened->device.number, {}));
  device.name_ = chosen;

  const auto described = device.request(rpc::Describe{.device = opened->device});
  if (!described) return tl::unexpected(described.error());
  device.transport_ = described->transport.name;
  device.limits_ = described->limits;
  int best = -1;
  for (const rpc::PortAttributes& report : described->ports) {
    const Port& port = device.ports_.emplace_back(port_of(report));
    for (const Gid& gid : port.gids) {
      if (preference(gid) <= best) continue;
      best = preference(gid);
      device.gid_ = gid;
    }
  }
  if (device.ports_.empty()) return unreadable("describe", "port");
  return device;
}

std::uint64_t Device::limit(const std::string& what) const {
  const auto found = limits_.find(what);
  return found == limits_.end() ? 0 : found->second;
}

std::string Device::address() const {
  return gid_.text.starts_with(mapped) ? gid_.text.substr(mapped.size()) : gid_.text;
}

std::array<std::uint8_t, 6> Device::mac() const {
  if (iwarp() && !ports_.at(0).gids.empty()) {
    // The only GID of an iWARP device contains its MAC address, padded with zeros.
    const auto bytes = read_gid(ports_[0].gids[0].text);
    if (bytes) return {(*bytes)[0], (*bytes)[1], (*bytes)[2], (*bytes)[3], (*bytes)[4], (*bytes)[5]};
  }
  for (const Gid& gid : ports_.at(0).gids) {
    const auto bytes = read_gid(gid.text);
    if (!bytes || !link_local(gid) || (*bytes)[11] != 0xff || (*bytes)[12] != 0xfe) continue;
    // EUI-64 with the universal bit inverted. RFC 4291, appendix A.
    const auto& o = *bytes;
    return {static_cast<std::uint8_t>(o[8] ^ 2), o[9], o[10], o[13], o[14], o[15]};
  }
  return {};
}

PeerResult<ProtectionDomain> Device::protection_domain() const {
  const auto made = request(rpc::AllocPd{.device = {handle()}});
  if (!made) return tl::unexpected(made.error());
  ProtectionDomain pd(adopt(session(), made->pd.number, {object_of(*this)}));
  pd.sgid_index_ = gid_.index;
  pd.port_ = ports_.front().number;
  return pd;
}

PeerResult<CompletionChannel> Device::completion_channel() const {
  const auto made = request(rpc::CreateChannel{.device = {handle()}});
  if (!made) return tl::unexpected(made.error());
  return CompletionChannel(adopt(session(), made->channel.number, {object_of(*this)}));
}

PeerResult<CompletionQueue> Device::completion_queue(std::uint32_t entries, const CompletionChannel* channel) const {
  rpc::CreateCq wanted{.device = {handle()}, .cqe = entries};
  std::vector<std::shared_ptr<Object>> uses{object_of(*this)};
  if (channel != nullptr) {
    wanted.channel = {channel->handle()};
    uses.push_back(object_of(*channel));
  }
  const auto made = request(wanted);
  if (!made) return tl::unexpected(made.error());
  CompletionQueue cq(adopt(session(), made->cq.number, std::move(uses)));
  cq.entries_ = made->cqe;
  return cq;
}

PeerResult<XrcDomain> Device::xrc_domain() const {
  const auto made = request(rpc::OpenXrcd{.device = {handle()}});
  if (!made) return tl::unexpected(made.error());
  return XrcDomain(adopt(session(), made->xrcd.number, {object_of(*this)}));
}

PeerResult<std::map<std::string, std::uint64_t>> Device::counters(std::uint8_t port) const {
  auto result = request(rpc::Counters{.device = {handle()}, .port = port});
  if (!result) return tl::unexpected(result.error());
  for (const auto& [name, value] : result->hw_counters) result->counters[name] = value;
  return std::move(result->counters);
}

PeerResult<void> CompletionQueue::notify(bool solicited_only) const {
  return done(request(rpc::Notify{.cq = {handle()}, .solicited_only = solicited_only}));
}

PeerResult<std::vector<Completion>> CompletionQueue::poll(std::size_t count, std::chrono::milliseconds timeout) const {
  const Deadline deadline = timeout + (session() ? session()->options().timeout : std::chrono::milliseconds(0));
  const auto number = static_cast<std::uint32_t>(std::min<std::size_t>(count, UINT32_MAX));
  const auto milliseconds = static_cast<std::uint32_t>(std::clamp<std::int64_t>(timeout.count(), 0, UINT32_MAX));
  const auto result =
      request(rpc::Poll{.cq = {handle()}, .max = number, .min = number, .timeout_ms = milliseconds}, deadline);
  if (!result) return tl::unexpected(result.error());
  std::vector<Completion> completions;
  for (const rpc::Completion& report : result->completions) completions.push_back(completion_of(report));
  return completions;
}

PeerResult<Region> ProtectionDomain::region(std::uint64_t length, const Names& access) const {
  const auto made = request(rpc::Register{.pd = {handle()}, .length = length, .access = access});
  if (!made) return tl::unexpected(made.error());
  Region region(adopt(session(), made->mr.number, {object_of(*this)}));
  region.addr_ = made->addr;
  region.size_ = made->length;
  region.lkey_ = made->lkey;
  region.rkey_ = made->rkey;
  return region;
}

PeerResult<ByteVector> Region::read(std::uint64_t offset, std::uint64_t length) const {
  ByteVector all;
  do {
    const std::uint64_t piece = std::min(length - all.size(), rpc::most_bytes);
    const auto result = request(rpc::Read{.mr = {handle()}, .offset = offset + all.size(), .length = piece});
    if (!result) return tl::unexpected(result.error());
    if (result->bytes.size() != piece) return unreadable("read", "\"bytes\"");
    all.insert(all.end(), result->bytes.begin(), result->bytes.end());
  } while (all.size() < length);
  return all;
}

PeerResult<void> Region::write(std::uint64_t offset, Bytes bytes) const {
  do {
    const Bytes piece = bytes.first(std::min<std::size_t>(bytes.size(), rpc::most_bytes));
    const auto result = request(rpc::Write{.mr = {handle()}, .offset = offset, .bytes = {piece.begin(), piece.end()}});
    if (!result) return tl::unexpected(result.error());
    offset += piece.size();
    bytes = bytes.subspan(piece.size());
  } while (!bytes.empty());
  return {};
}

PeerResult<void> Region::fill(const std::string& pattern, std::uint64_t value) const {
  return done(request(rpc::Fill{.mr = {handle()}, .pattern = pattern, .value = value}));
}

PeerResult<std::uint32_t> Region::checksum(std::uint64_t offset, std::uint64_t length) const {
  const auto result = request(rpc::Checksum{.mr = {handle()}, .offset = offset, .length = length});
  if (!result) return tl::unexpected(result.error());
  return result->crc32;
}

PeerResult<MemoryWindow> ProtectionDomain::memory_window(int type) const {
  const auto made = request(rpc::AllocMw{.pd = {handle()}, .type = static_cast<std::uint8_t>(type)});
  if (!made) return tl::unexpected(made.error());
  MemoryWindow window(adopt(session(), made->mw.number, {object_of(*this)}));
  window.rkey_ = made->rkey;
  return window;
}

PeerResult<std::uint32_t> MemoryWindow::bind(const QueuePair& qp, const Region& region, std::uint64_t offset,
                                             std::uint64_t length, const Names& access, bool signaled) {
  const auto result = request(rpc::BindMw{.qp = {qp.handle()},
                                          .mw = {handle()},
                                          .mr = {{region.handle()}},
                                          .addr = region.addr() + offset,
                                          .length = length,
                                          .access = access,
                                          .flags = signaled ? Names{"signaled"} : Names{}});
  if (!result) return tl::unexpected(result.error());
  rkey_ = result->rkey;
  return rkey_;
}

}  // namespace rdmawire::peer
