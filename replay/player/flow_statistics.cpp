#include "replay/player/flow_statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "captures/analysis/findings.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/address.hpp"

namespace rdmawire::replay {
namespace {

using tracking::PortAddress;

enum class Protocol : std::uint8_t { other, tcp, udp, roce };

struct Key {
  PortAddress from, to;
  std::uint32_t qp = 0;
  std::uint16_t source_port = 0, target_port = 0;
  std::uint8_t number = 0;  ///< IP protocol
  Protocol protocol = Protocol::other;
  friend bool operator==(const Key&, const Key&) = default;
};

struct HashKey {
  std::size_t operator()(const Key& key) const {
    std::uint64_t hash = 0;
    const auto mix = [&hash](std::uint64_t value) {
      hash = (hash ^ value) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 32;
    };
    for (const std::uint64_t value : {key.from.high, key.from.low, key.to.high, key.to.low, std::uint64_t{key.qp}})
      mix(value);
    mix(std::uint64_t{key.source_port} << 32 | std::uint64_t{key.target_port} << 16 | key.number);
    return hash;
  }
};

struct Counters {
  std::uint64_t frames = 0, bytes = 0;
  std::int64_t first = 0, last = 0;
};

std::optional<Key> key_of(const HeaderStack& stack) {
  const auto ports = tracking::ports_of(stack);
  if (!ports || stack.network == HeaderStack::none) return std::nullopt;
  Key key;
  key.from = ports->from;
  key.to = ports->to;
  const Layer& network = stack.layers()[stack.network];
  if (network.header == &info<Ipv4>)
    key.number = static_cast<std::uint8_t>(load_field<Ipv4, "protocol">(stack.bytes.data() + network.offset));
  else if (network.header == &info<Ipv6>)
    key.number = static_cast<std::uint8_t>(load_field<Ipv6, "next_header">(stack.bytes.data() + network.offset));
  if (stack.fragment) return key;
  if (const auto udp = stack.get<Udp>()) {
    key.protocol = Protocol::udp;
    key.source_port = udp->get<"src_port">();
    key.target_port = udp->get<"dst_port">();
  } else if (const auto tcp = stack.get<Tcp>()) {
    key.protocol = Protocol::tcp;
    key.source_port = tcp->get<"src_port">();
    key.target_port = tcp->get<"dst_port">();
  }
  if (const auto bth = stack.get<Bth>()) {
    key.protocol = Protocol::roce;
    key.qp = bth->get<"dest_qp">();
  }
  return key;
}

std::string text_of(const Key& key) {
  const auto end = [&](const PortAddress& address, std::uint16_t port) {
    const std::string text = captures::analysis::to_text(address);
    if (port == 0) return text;
    return text.find(':') == std::string::npos ? fmt::format("{}:{}", text, port) : fmt::format("[{}]:{}", text, port);
  };
  const std::string ends = end(key.from, key.source_port) + " → " + end(key.to, key.target_port);
  switch (key.protocol) {
    case Protocol::tcp: return ends + " TCP";
    case Protocol::udp: return ends + " UDP";
    case Protocol::roce: return ends + fmt::format(" RoCE QP {:#x}", key.qp);
    case Protocol::other: break;
  }
  return ends + fmt::format(" protocol {}", key.number);
}

}  // namespace

struct FlowStatistics::Table {
  std::unordered_map<Key, Counters, HashKey> flows;
  HeaderStack stack;
  std::uint64_t others = 0, beyond = 0;
};

FlowStatistics::FlowStatistics() : table_(std::make_unique<Table>()) {}
FlowStatistics::FlowStatistics(FlowStatistics&&) noexcept = default;
FlowStatistics& FlowStatistics::operator=(FlowStatistics&&) noexcept = default;
FlowStatistics::~FlowStatistics() = default;

void FlowStatistics::add(Bytes frame, LinkType link, std::int64_t time) {
  decode(table_->stack, frame, link, static_cast<std::uint32_t>(frame.size()));
  const auto key = key_of(table_->stack);
  if (!key) {
    ++table_->others;
    return;
  }
  auto found = table_->flows.find(*key);
  if (found == table_->flows.end()) {
    if (table_->flows.size() >= most_flows) {
      ++table_->beyond;
      return;
    }
    found = table_->flows.emplace(*key, Counters{0, 0, time, time}).first;
  }
  Counters& counters = found->second;
  ++counters.frames;
  counters.bytes += frame.size();
  counters.last = std::max(counters.last, time);
}

FlowReport FlowStatistics::report() const {
  using Entry = std::pair<const Key, Counters>;
  FlowReport report;
  report.flows = table_->flows.size();
  report.other_frames = table_->others;
  report.beyond_frames = table_->beyond;
  std::vector<const Entry*> order;
  order.reserve(table_->flows.size());
  for (const Entry& entry : table_->flows) order.push_back(&entry);
  if (order.empty()) return report;
  // The first frame decides between flows with equally many frames.
  const auto larger = [](const Entry* a, const Entry* b) {
    if (a->second.frames != b->second.frames) return a->second.frames > b->second.frames;
    if (a->second.first != b->second.first) return a->second.first < b->second.first;
    return std::tie(a->first.from, a->first.to, a->first.source_port, a->first.target_port, a->first.qp) <
           std::tie(b->first.from, b->first.to, b->first.source_port, b->first.target_port, b->first.qp);
  };
  std::sort(order.begin(), order.end(), larger);
  std::int64_t first = order.front()->second.first, last = order.front()->second.last;
  for (const Entry* entry : order) {
    first = std::min(first, entry->second.first);
    last = std::max(last, entry->second.last);
  }
  report.nanoseconds = last - first;
  order.resize(std::min(order.size(), FlowReport::most_listed));
  for (const Entry* entry : order)
    report.largest.push_back(
        {text_of(entry->first), entry->second.frames, entry->second.bytes, entry->second.last - entry->second.first});
  return report;
}

}  // namespace rdmawire::replay
