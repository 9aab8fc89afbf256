#include "captures/analysis/counters.hpp"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "captures/analysis/analysis.hpp"

namespace rdmawire::captures::analysis {
namespace {

bool read_number(std::string_view text, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

bool is_name(std::string_view text) {
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return false;
  return text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.[]") ==
         std::string_view::npos;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  constexpr std::string_view space = " \t\r\n:";
  for (std::size_t at = text.find_first_not_of(space); at != std::string_view::npos;
       at = text.find_first_not_of(space, at)) {
    const std::size_t end = std::min(text.find_first_of(space, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

void take_json(const nlohmann::json& value, Counters& counters) {
  if (value.is_array()) {
    for (const nlohmann::json& item : value) take_json(item, counters);
  } else if (value.is_object()) {
    for (const auto& [key, item] : value.items()) {
      if (key == "ifindex" || key == "port") continue;
      if (item.is_number_unsigned())
        counters[key] += item.get<std::uint64_t>();
      else
        take_json(item, counters);
    }
  }
}

/// A counter, and the value of the analysis that corresponds to it.
struct Shown {
  std::string_view counter;
  std::uint64_t (*in_capture)(const Analysis&);
  std::string_view what;
};
constexpr auto kind = [](const Analysis& a, EventKind k) { return a.events[static_cast<std::size_t>(k)]; };
constexpr auto recoveries = [](const Analysis& a, Cause c) {
  return a.retransmissions[static_cast<std::size_t>(c)].recoveries;
};
constexpr auto sequence_naks = [](const Analysis& a) {
  return a.naks[static_cast<std::size_t>(Cause::psn_sequence_error)];
};
// Number of retransmissions that the responder receives as duplicates. Those after a NAK or a loss do not count,
// because the responder did not accept the original packets.
constexpr auto needless = [](const Analysis& a) {
  return a.retransmissions[static_cast<std::size_t>(Cause::spurious)].packets;
};
constexpr auto cnps = [](const Analysis& a) {
  std::uint64_t count = 0;
  for (const auto& by_ecn : a.classes)
    for (const auto& by_class : by_ecn) count += by_class[static_cast<std::size_t>(PacketClass::cnp)];
  return count;
};
constexpr auto marked = [](const Analysis& a) {
  std::uint64_t count = 0;
  for (const auto& by_ecn : a.classes)
    for (const std::uint64_t packets : by_ecn[3]) count += packets;
  return count;
};
constexpr auto refused = [](const Analysis& a) { return a.naks[static_cast<std::size_t>(Cause::remote_access_error)]; };
constexpr auto invalid = [](const Analysis& a) { return a.naks[static_cast<std::size_t>(Cause::invalid_request)]; };
constexpr auto stops = [](const Analysis& a) {
  std::uint64_t count = 0;
  for (const auto& [key, row] : a.pauses) count += row.frames;
  return count;
};

constexpr Shown shown[] = {
    {"out_of_sequence", +[](const Analysis& a) { return sequence_naks(a); }, "sequence-error NAKs"},
    {"packet_seq_err", +[](const Analysis& a) { return sequence_naks(a); }, "sequence-error NAKs"},
    {"local_ack_timeout_err", +[](const Analysis& a) { return recoveries(a, Cause::timeout); },
     "retransmissions after timeouts"},
    {"implied_nak_seq_err", +[](const Analysis& a) { return recoveries(a, Cause::implied_nak); },
     "retransmissions after implied NAKs"},
    {"out_of_buffer", +[](const Analysis& a) { return a.rnr_naks; }, "RNR NAKs"},
    {"rnr_nak_retry_err", +[](const Analysis& a) { return a.rnr_naks; }, "RNR NAKs"},
    {"duplicate_request", +[](const Analysis& a) { return needless(a); }, "spurious retransmissions"},
    {"np_cnp_sent", +[](const Analysis& a) { return cnps(a); }, "CNPs"},
    {"rp_cnp_handled", +[](const Analysis& a) { return cnps(a); }, "CNPs"},
    {"np_ecn_marked_roce_packets", +[](const Analysis& a) { return marked(a); }, "ECN-marked packets"},
    {"rx_icrc_encapsulated", +[](const Analysis& a) { return a.crcs_bad; }, "packets with a bad ICRC"},
    {"req_remote_access_errors", +[](const Analysis& a) { return refused(a); }, "remote access errors"},
    {"resp_remote_access_errors", +[](const Analysis& a) { return refused(a); }, "remote access errors"},
    {"req_remote_invalid_request", +[](const Analysis& a) { return invalid(a); }, "invalid-request NAKs"},
    // Counters of Soft-RoCE
    {"rcvd_pkts", +[](const Analysis& a) { return a.wires[static_cast<std::size_t>(Wire::roce_v2)]; },
     "RoCEv2 packets"},
    {"duplicate_req", +[](const Analysis& a) { return needless(a); }, "spurious retransmissions"},
    {"out_of_seq_request", +[](const Analysis& a) { return sequence_naks(a); }, "sequence-error NAKs"},
    {"rcvd_rnr_err", +[](const Analysis& a) { return a.rnr_naks; }, "RNR NAKs"},
    {"send_rnr_err", +[](const Analysis& a) { return a.rnr_naks; }, "RNR NAKs"},
    {"rcvd_seq_err", +[](const Analysis& a) { return sequence_naks(a); }, "sequence-error NAKs"},
    {"ack_deferred", +[](const Analysis& a) { return kind(a, EventKind::ghost_acknowledgement); },
     "repeated acknowledgements"},
    // Counters of ethtool -S
    {"rx_pause_ctrl_phy", +[](const Analysis& a) { return stops(a); }, "pause frames"},
    {"tx_pause_ctrl_phy", +[](const Analysis& a) { return stops(a); }, "pause frames"},
};

std::string sentence(std::int64_t host, std::uint64_t capture, std::string_view what, std::string_view name) {
  const auto text = [&](std::string_view verdict) {
    return fmt::format("the host counted {} {}, the capture has {} {}: {}", host, name, capture, what, verdict);
  };
  if (host < 0) return text("the counter decreased: the host restarted, or the before and after files are swapped");
  const auto counted = static_cast<std::uint64_t>(host);
  if (counted == capture) return text("they agree");
  if (counted > capture) return text("the capture missed some, or the host counted other traffic or another period");
  return text("the host missed some, or the packets belong to another host or another period");
}

}  // namespace

tl::expected<Counters, std::string> parse_counters(std::string_view text) {
  Counters counters;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && (text[first] == '[' || text[first] == '{')) {
    const nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
    if (!value.is_discarded()) {
      take_json(value, counters);
      if (counters.empty()) return tl::unexpected(std::string("the JSON contains no counter"));
      return counters;
    }
    return tl::unexpected(std::string("invalid JSON"));
  }
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::vector<std::string_view> words = words_of(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    // Accepts "link mlx5_0/1 name value name value …", "name: value" and "name value".
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {
      std::uint64_t value = 0;
      if (!is_name(words[i]) || !read_number(words[i + 1], value)) continue;
      counters[std::string(words[i])] += value;
      ++i;
    }
  }
  if (counters.empty())
    return tl::unexpected(
        std::string("contains no counter: expected the output of `rdma statistic show`, `rdma -j statistic` or "
                    "`ethtool -S`, or lines of a name and a value"));
  return counters;
}

std::vector<CounterDifference> differences_of(const Counters& before, const Counters& after, const Analysis& analysis) {
  std::vector<CounterDifference> differences;
  for (const auto& [name, value] : after) {
    CounterDifference difference{name, 0, value, 0, std::nullopt, {}};
    if (const auto old = before.find(name); old != before.end()) difference.before = old->second;
    difference.difference = static_cast<std::int64_t>(difference.after - difference.before);
    for (const Shown& row : shown) {
      if (row.counter != name) continue;
      difference.in_capture = row.in_capture(analysis);
      if (difference.difference != 0 || *difference.in_capture != 0)
        difference.says = sentence(difference.difference, *difference.in_capture, row.what, name);
    }
    if (difference.difference != 0 || difference.in_capture.value_or(0) != 0)
      differences.push_back(std::move(difference));
  }
  return differences;
}

}  // namespace rdmawire::captures::analysis
