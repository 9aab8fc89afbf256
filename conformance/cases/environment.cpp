#include "conformance/cases/environment.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <tuple>

namespace rdmawire::conformance {
namespace {

std::size_t index_of(Parameter parameter) { return static_cast<std::size_t>(parameter); }

std::uint64_t number_in(std::string_view text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// The parameters of `free` in their order.
std::vector<std::size_t> members_of(ParameterSet free) {
  std::vector<std::size_t> members;
  for (std::size_t i = 0; i < parameter_count; ++i)
    if ((free >> i & 1U) != 0) members.push_back(i);
  return members;
}

/// The order of the values of a parameter in the rows of a seed. The default value stays first.
std::vector<std::size_t> shuffled(std::size_t parameter, std::uint64_t seed) {
  std::vector<std::size_t> order(all_parameters()[parameter].values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // The standard's distributions differ between libraries, the engine does not.
  std::mt19937_64 random(seed * 64 + parameter);
  for (std::size_t i = order.size() - 1; i > 1; --i) std::swap(order[i], order[1 + random() % i]);
  return order;
}

CoveringOptions covering_options(const std::vector<std::size_t>& members, const EnvironmentLimits& limits,
                                 unsigned strength, const std::vector<std::vector<std::size_t>>& orders) {
  CoveringOptions options{.values = {}, .strength = strength};
  for (const std::size_t member : members) options.values.push_back(all_parameters()[member].values.size());
  // The limits apply to single values, so a partial row is possible if each of its values is.
  std::vector<std::vector<bool>> possible;
  for (std::size_t i = 0; i < members.size(); ++i) {
    possible.emplace_back();
    for (const std::size_t value : orders[i])
      possible.back().push_back(limits.allows(static_cast<Parameter>(members[i]), value));
  }
  options.allowed = [possible = std::move(possible)](const ParameterRow& row) {
    for (std::size_t i = 0; i < row.size(); ++i)
      if (row[i] != unset_parameter && !possible[i][row[i]]) return false;
    return true;
  };
  options.given = {ParameterRow(members.size(), 0)};
  return options;
}

}  // namespace

EnvironmentLimits::EnvironmentLimits(const DeviceUnderTest& device) : iwarp_(device.is_iwarp()) {
  const peer::Device& verbs = *device.device;
  if (!iwarp_) mtu_ = verbs.port().active_mtu;
  // The tester sends packets of one path MTU, too.
  constexpr std::uint32_t most_headers = 106;  // Ethernet with VLAN, IPv6, UDP, BTH, RETH, immediate data, XRC and ICRC
  if (const std::uint32_t frame = device.wire ? device.wire->capabilities().max_bytes : 0; !iwarp_ && frame != 0)
    mtu_ = std::min(mtu_, std::max(256U, frame - std::min(frame, most_headers)));
  ipv6_ = device.ipv6.has_value();
  vlan_ = device.vlan.has_value();
  const auto limit = [&](const char* name, std::uint64_t& of) {
    if (const std::uint64_t reported = verbs.limit(name); reported != 0) of = std::min(of, reported);
  };
  limit("max_qp_rd_atomic", reads_at_once_);
  limit("max_qp_init_rd_atomic", own_reads_);
  limit("max_sge", sges_);
}

bool EnvironmentLimits::allows(Parameter parameter, std::size_t value) const {
  if (value == 0) return true;
  const ParameterInfo& info = info_of(parameter);
  if (!(iwarp_ ? info.iwarp : info.roce)) return false;
  const std::string_view text = info.values[value];
  switch (parameter) {
    case Parameter::path_mtu: return number_in(text) <= mtu_;
    case Parameter::network: return text == "IPv6" ? ipv6_ : vlan_;
    case Parameter::reads_at_once: return number_in(text) <= reads_at_once_;
    case Parameter::own_reads: return number_in(text) <= own_reads_;
    case Parameter::receive_sges:
    case Parameter::send_sges: return number_in(text) <= sges_;
    default: return true;
  }
}

bool EnvironmentLimits::allows(const ParameterRow& row) const {
  for (std::size_t i = 0; i < row.size(); ++i)
    if (!allows(static_cast<Parameter>(i), row[i])) return false;
  return true;
}

std::size_t Environment::take(Parameter parameter) {
  const std::size_t i = index_of(parameter);
  if (declared_[i]) {
    uses_[i] = ParameterUse::fixed;
    return 0;
  }
  uses_[i] = ParameterUse::free;
  return row_[i];
}

void Environment::fix(Parameter parameter, std::string_view reason) {
  const std::size_t i = index_of(parameter);
  declared_[i] = true;
  uses_[i] = ParameterUse::fixed;
  reasons_[i] = reason;
}

void Environment::set_by_case(Parameter parameter) {
  const std::size_t i = index_of(parameter);
  if (uses_[i] != ParameterUse::none) return;
  uses_[i] = ParameterUse::fixed;
  reasons_[i] = "the steps of the case require their own value";
}

ParameterSet free_parameters(const Environment& environment) {
  ParameterSet free = 0;
  for (std::size_t i = 0; i < parameter_count; ++i)
    if (environment.use(static_cast<Parameter>(i)) == ParameterUse::free) free |= 1U << i;
  return free;
}

std::vector<ParameterRow> environment_rows(ParameterSet free, const EnvironmentLimits& limits, unsigned strength,
                                           std::uint64_t seed) {
  if (strength == 0 || free == 0) return {default_row()};
  static std::mutex mutex;
  static std::map<std::tuple<ParameterSet, EnvironmentLimits, unsigned, std::uint64_t>, std::vector<ParameterRow>> made;
  const std::tuple key(free, limits, strength, seed);
  {
    const std::lock_guard lock(mutex);
    if (const auto found = made.find(key); found != made.end()) return found->second;
  }
  // Other workers continue during the computation.
  std::vector<ParameterRow> rows;
  const std::vector<std::size_t> members = members_of(free);
  std::vector<std::vector<std::size_t>> orders;
  for (const std::size_t member : members) orders.push_back(shuffled(member, seed));
  for (const ParameterRow& chosen : covering_rows(covering_options(members, limits, strength, orders))) {
    ParameterRow& row = rows.emplace_back(default_row());
    for (std::size_t i = 0; i < members.size(); ++i) row[members[i]] = orders[i][chosen[i]];
  }
  const std::lock_guard lock(mutex);
  return made.try_emplace(key, std::move(rows)).first->second;
}

CombinationCounts environment_combinations(ParameterSet free, const EnvironmentLimits& limits, unsigned strength,
                                           const std::vector<ParameterRow>& rows) {
  const std::vector<std::size_t> members = members_of(free);
  if (strength == 0 || members.empty()) return {};
  std::vector<std::vector<std::size_t>> orders;
  for (const std::size_t member : members) {
    orders.emplace_back(all_parameters()[member].values.size());
    std::iota(orders.back().begin(), orders.back().end(), std::size_t{0});
  }
  std::vector<ParameterRow> chosen;
  for (const ParameterRow& row : rows) {
    ParameterRow& some = chosen.emplace_back();
    for (const std::size_t member : members) some.push_back(row[member]);
  }
  return count_combinations(covering_options(members, limits, strength, orders), chosen);
}

std::string text_of_row(const ParameterRow& row) {
  std::string text;
  for (std::size_t i = 0; i < row.size(); ++i)
    if (row[i] != 0)
      text +=
          fmt::format("{}{}={}", text.empty() ? "" : ",", all_parameters()[i].name, all_parameters()[i].values[row[i]]);
  return text;
}

tl::expected<ParameterRow, std::string> parse_row(std::string_view text) {
  ParameterRow row = default_row();
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    const std::size_t equals = one.find('=');
    const std::string_view name = one.substr(0, equals);
    const auto infos = all_parameters();
    const auto info = std::ranges::find(infos, name, &ParameterInfo::name);
    if (info == infos.end()) {
      std::vector<std::string_view> names;
      for (const ParameterInfo& each : infos) names.push_back(each.name);
      return tl::unexpected(fmt::format("unknown parameter \"{}\", allowed: {}", name, fmt::join(names, ", ")));
    }
    const std::string_view value = equals == std::string_view::npos ? "" : one.substr(equals + 1);
    const auto found = std::ranges::find(info->values, value);
    if (found == info->values.end())
      return tl::unexpected(
          fmt::format("\"{}\" is no value of {}, allowed: {}", value, name, fmt::join(info->values, ", ")));
    row[index_of(info->parameter)] = static_cast<std::size_t>(found - info->values.begin());
  }
  return row;
}

std::span<const ParameterInfo> all_parameters() {
  static const std::vector<ParameterInfo> all = [] {
    using enum Parameter;
    const std::vector<std::string_view> psns{"random",       "0", "1", "2^23 - 1", "wraps after 1", "wraps after 2",
                                             "wraps after 3"};
    const std::vector<std::string_view> reads{"4", "1", "2", "3", "5", "7", "16"};
    std::vector<ParameterInfo> list{
        {path_mtu,
         "path MTU",
         {"usual", "256", "512", "1024", "2048", "4096"},
         true,
         false,
         "bytes. Usual: 1024, or 256 in cases with several packets"},
        {tester_psn, "tester PSN", psns, true, false, "the PSN of the tester's first request in the case"},
        {device_psn, "device PSN", psns, true, false, "the PSN of the device's first request in the case"},
        {history,
         "history",
         {"fresh", "messages", "70 messages", "duplicate", "NAK", "RNR NAK", "retransmission", "error and RESET"},
         true,
         false,
         "the traffic of the connection before the case"},
        {network, "network", {"IPv4", "IPv6", "VLAN"}, true, false, "the GID of the connection"},
        {udp_source_port, "UDP source port", {"49443", "49152", "65535"}, true, false, "of the tester's packets"},
        {traffic_class, "traffic class", {"0", "184", "2"}, true, false, "of both directions"},
        {reads_at_once, "max_dest_rd_atomic", reads, true, false, "READs and atomics that the device accepts at once"},
        {own_reads, "max_rd_atomic", reads, true, false, "READs and atomics that the device has outstanding"},
        {receive_sges, "receive SGEs", {"1", "3"}, true, true, "scatter elements of each receive request"},
        {send_sges, "send SGEs", {"1", "3"}, true, false, "gather elements of each request of the device"},
        {markers, "markers", {"off", "on"}, false, true, "markers in the device's stream"},
        {segments,
         "segments",
         {"one for each FPDU", "two", "of 7 bytes"},
         false,
         true,
         "TCP segments of the tester's FPDUs"},
        {mss, "MSS", {"1460", "536", "1200"}, false, true, "maximum bytes of the device's TCP segments"},
        {private_data, "private data", {"0", "1", "64"}, false, true, "bytes in the tester's MPA frame"},
        {stream_history,
         "stream history",
         {"fresh", "3 Writes", "70 Writes"},
         false,
         true,
         "RDMA Writes of length zero in the stream before the case"},
        {other_qps,
         "other QPs",
         {"none", "1 idle", "1 busy", "3 idle", "3 busy"},
         true,
         false,
         "other connections. Busy ones transfer messages before and after the steps of the case"},
        {region,
         "memory region",
         {"first", "second", "after a deregistration"},
         true,
         true,
         "the position of the case's first memory region"},
        {send_queue, "send queue", {"32", "33", "128"}, true, true, "entries of the device's send queue"},
    };
    return list;
  }();
  return all;
}

}  // namespace rdmawire::conformance
