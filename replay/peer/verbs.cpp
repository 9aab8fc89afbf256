#include "replay/peer/verbs.hpp"

#include <arpa/inet.h>

#include <algorithm>

#include "replay/peer/handle_state.hpp"
#include "replay/peer/queue_pair.hpp"

namespace rdmawire::peer {

using nlohmann::json;

namespace {

/// Maximum number of region bytes in one line of hexadecimal text.
constexpr std::uint64_t max_bytes = 1'900'000;

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

std::optional<std::string> read_port(const json& given, Port& port) {
  Reader reader(given);
  port.number = reader.number<std::uint8_t>("port");
  port.state = reader.text("state");
  port.link_layer = reader.text("link_layer");
  port.netdev = reader.text_or("netdev", "");
  port.active_mtu = reader.number<std::uint32_t>("active_mtu");
  port.max_mtu = reader.number<std::uint32_t>("max_mtu");
  port.lid = reader.number<std::uint16_t>("lid");
  for (const json& entry : reader.list("gids")) {
    Reader gid(entry);
    port.gids.push_back(
        {gid.number<std::uint32_t>("index"), gid.text("gid"), gid.text("type"), gid.text_or("netdev", "")});
    if (gid.wrong()) return gid.wrong();
  }
  return reader.wrong();
}

Completion read_completion(const json& given, std::optional<std::string>& wrong) {
  Reader reader(given);
  Completion completion;
  completion.wr_id = reader.number<std::uint64_t>("wr_id");
  completion.status = reader.text("status");
  completion.status_number = reader.number<std::uint32_t>("status_number");
  completion.vendor_err = reader.number<std::uint32_t>("vendor_err");
  completion.qp_num = reader.number<std::uint32_t>("qp_num");
  if (completion.good()) {
    completion.opcode = reader.text("opcode");
    completion.byte_len = reader.number<std::uint32_t>("byte_len");
    completion.imm = reader.maybe_number<std::uint32_t>("imm");
    completion.imm64 = reader.maybe_number<std::uint64_t>("imm64");
    completion.invalidated_rkey = reader.maybe_number<std::uint32_t>("invalidated_rkey");
    completion.src_qp = reader.maybe_number<std::uint32_t>("src_qp");
  }
  if (!wrong) wrong = reader.wrong();
  return completion;
}

}  // namespace

PeerResult<Device> Device::open(Peer& peer, const std::string& name) {
  const auto& session = peer.session();
  std::string chosen = name;
  if (chosen.empty()) {
    const auto listed = session->call("devices", nullptr);
    if (!listed) return tl::unexpected(listed.error());
    Reader reader(*listed);
    const json& devices = reader.list("devices");
    if (reader.wrong()) return unreadable("devices", *reader.wrong());
    if (devices.empty())
      return tl::unexpected(peer_error(PeerError::Kind::refused, ENODEV,
                                       "open: the agent has no RDMA device: " + reader.text_or("reason", "")));
    Reader first(devices[0]);
    chosen = first.text("name");
    if (first.wrong()) return unreadable("devices", *first.wrong());
  }
  const auto opened = session->call("open", {{"name", chosen}});
  if (!opened) return tl::unexpected(opened.error());
  auto object = take_in(session, "open", *opened, "device", {});
  if (!object) return tl::unexpected(object.error());
  Device device(std::move(*object));
  device.name_ = chosen;

  const auto described = device.ask("describe", "device");
  if (!described) return tl::unexpected(described.error());
  Reader reader(*described);
  device.transport_ = reader.text("transport");
  device.limits_ = described->value("limits", json::object());
  int best = -1;
  for (const json& given : reader.list("ports")) {
    Port& port = device.ports_.emplace_back();
    if (const auto wrong = read_port(given, port)) return unreadable("describe", *wrong);
    for (const Gid& gid : port.gids) {
      if (preference(gid) <= best) continue;
      best = preference(gid);
      device.gid_ = gid;
    }
  }
  if (reader.wrong()) return unreadable("describe", *reader.wrong());
  if (device.ports_.empty()) return unreadable("describe", "port");
  return device;
}

std::uint64_t Device::limit(const std::string& what) const {
  Reader reader(limits_);
  return reader.maybe_number<std::uint64_t>(what.c_str()).value_or(0);
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
  const auto result = ask("alloc_pd", "device");
  if (!result) return tl::unexpected(result.error());
  auto object = take_in(session(), "alloc_pd", *result, "pd", {object_of(*this)});
  if (!object) return tl::unexpected(object.error());
  ProtectionDomain pd(std::move(*object));
  pd.sgid_index_ = gid_.index;
  pd.port_ = ports_.front().number;
  return pd;
}

PeerResult<CompletionChannel> Device::completion_channel() const {
  const auto result = ask("create_channel", "device");
  if (!result) return tl::unexpected(result.error());
  auto object = take_in(session(), "create_channel", *result, "channel", {object_of(*this)});
  if (!object) return tl::unexpected(object.error());
  return CompletionChannel(std::move(*object));
}

PeerResult<CompletionQueue> Device::completion_queue(std::uint32_t entries, const CompletionChannel* channel) const {
  json wanted = {{"cqe", entries}};
  if (channel != nullptr) wanted["channel"] = channel->handle();
  const auto result = ask("create_cq", "device", std::move(wanted));
  if (!result) return tl::unexpected(result.error());
  std::vector<std::shared_ptr<Object>> uses{object_of(*this)};
  if (channel != nullptr) uses.push_back(object_of(*channel));
  auto object = take_in(session(), "create_cq", *result, "cq", std::move(uses));
  if (!object) return tl::unexpected(object.error());
  CompletionQueue cq(std::move(*object));
  Reader reader(*result);
  cq.entries_ = reader.number<std::uint32_t>("cqe");
  if (reader.wrong()) return unreadable("create_cq", *reader.wrong());
  return cq;
}

PeerResult<XrcDomain> Device::xrc_domain() const {
  const auto result = ask("open_xrcd", "device");
  if (!result) return tl::unexpected(result.error());
  auto object = take_in(session(), "open_xrcd", *result, "xrcd", {object_of(*this)});
  if (!object) return tl::unexpected(object.error());
  return XrcDomain(std::move(*object));
}

PeerResult<std::map<std::string, std::uint64_t>> Device::counters(std::uint8_t port) const {
  const auto result = ask("counters", "device", {{"port", port}});
  if (!result) return tl::unexpected(result.error());
  std::map<std::string, std::uint64_t> all;
  for (const char* group : {"counters", "hw_counters"}) {
    const auto found = result->find(group);
    if (found == result->end() || !found->is_object()) return unreadable("counters", group);
    for (const auto& [name, value] : found->items())
      if (value.is_number_integer()) all[name] = value.get<std::uint64_t>();
  }
  return all;
}

PeerResult<void> CompletionQueue::notify(bool solicited_only) const {
  const auto result = ask("notify", "cq", {{"solicited_only", solicited_only}});
  if (!result) return tl::unexpected(result.error());
  return {};
}

PeerResult<std::vector<Completion>> CompletionQueue::poll(std::size_t count, std::chrono::milliseconds timeout) const {
  const Deadline deadline = timeout + (session() ? session()->options().timeout : std::chrono::milliseconds(0));
  const auto result = ask("poll", "cq", {{"max", count}, {"min", count}, {"timeout_ms", timeout.count()}}, deadline);
  if (!result) return tl::unexpected(result.error());
  Reader reader(*result);
  std::vector<Completion> completions;
  std::optional<std::string> wrong;
  for (const json& given : reader.list("completions")) completions.push_back(read_completion(given, wrong));
  if (!wrong) wrong = reader.wrong();
  if (wrong) return unreadable("poll", *wrong);
  return completions;
}

PeerResult<Region> ProtectionDomain::region(std::uint64_t length, const Names& access) const {
  const auto result = ask("register", "pd", {{"length", length}, {"access", access}});
  if (!result) return tl::unexpected(result.error());
  auto object = take_in(session(), "register", *result, "mr", {object_of(*this)});
  if (!object) return tl::unexpected(object.error());
  Region region(std::move(*object));
  Reader reader(*result);
  region.addr_ = reader.number<std::uint64_t>("addr");
  region.size_ = reader.number<std::uint64_t>("length");
  region.lkey_ = reader.number<std::uint32_t>("lkey");
  region.rkey_ = reader.number<std::uint32_t>("rkey");
  if (reader.wrong()) return unreadable("register", *reader.wrong());
  return region;
}

PeerResult<ByteVector> Region::read(std::uint64_t offset, std::uint64_t length) const {
  ByteVector all;
  do {
    const std::uint64_t piece = std::min(length - all.size(), max_bytes);
    const auto result = ask("read", "mr", {{"offset", offset + all.size()}, {"length", piece}});
    if (!result) return tl::unexpected(result.error());
    Reader reader(*result);
    const ByteVector bytes = reader.bytes("bytes");
    if (reader.wrong() || bytes.size() != piece) return unreadable("read", "\"bytes\"");
    all.insert(all.end(), bytes.begin(), bytes.end());
  } while (all.size() < length);
  return all;
}

PeerResult<void> Region::write(std::uint64_t offset, Bytes bytes) const {
  do {
    const Bytes piece = bytes.first(std::min<std::size_t>(bytes.size(), max_bytes));
    const auto text = to_hex({reinterpret_cast<const char*>(piece.data()), piece.size()});
    const auto result = ask("write", "mr", {{"offset", offset}, {"bytes", text}});
    if (!result) return tl::unexpected(result.error());
    offset += piece.size();
    bytes = bytes.subspan(piece.size());
  } while (!bytes.empty());
  return {};
}

PeerResult<void> Region::fill(const std::string& pattern, std::uint64_t value) const {
  const auto result = ask("fill", "mr", {{"pattern", pattern}, {"value", value}});
  if (!result) return tl::unexpected(result.error());
  return {};
}

PeerResult<std::uint32_t> Region::checksum(std::uint64_t offset, std::uint64_t length) const {
  const auto result = ask("checksum", "mr", {{"offset", offset}, {"length", length}});
  if (!result) return tl::unexpected(result.error());
  Reader reader(*result);
  const auto crc = reader.number<std::uint32_t>("crc32");
  if (reader.wrong()) return unreadable("checksum", *reader.wrong());
  return crc;
}

PeerResult<MemoryWindow> ProtectionDomain::memory_window(int type) const {
  const auto result = ask("alloc_mw", "pd", {{"type", type}});
  if (!result) return tl::unexpected(result.error());
  auto object = take_in(session(), "alloc_mw", *result, "mw", {object_of(*this)});
  if (!object) return tl::unexpected(object.error());
  MemoryWindow window(std::move(*object));
  Reader reader(*result);
  window.rkey_ = reader.number<std::uint32_t>("rkey");
  if (reader.wrong()) return unreadable("alloc_mw", *reader.wrong());
  return window;
}

PeerResult<std::uint32_t> MemoryWindow::bind(const QueuePair& qp, const Region& region, std::uint64_t offset,
                                             std::uint64_t length, const Names& access, bool signaled) {
  const auto result = ask("bind_mw", "mw",
                          {{"qp", qp.handle()},
                           {"mr", region.handle()},
                           {"addr", region.addr() + offset},
                           {"length", length},
                           {"access", access},
                           {"flags", signaled ? Names{"signaled"} : Names{}}});
  if (!result) return tl::unexpected(result.error());
  Reader reader(*result);
  rkey_ = reader.number<std::uint32_t>("rkey");
  if (reader.wrong()) return unreadable("bind_mw", *reader.wrong());
  return rkey_;
}

}  // namespace rdmawire::peer
