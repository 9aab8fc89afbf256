#include "replay/player/mapping.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "replay/player/frames.hpp"
#include "replay/rewrite/map_file.hpp"

namespace rdmawire::replay {
namespace {

using Kind = MappingError::Kind;

bool same_captured(const MappedEnd& x, const MappedEnd& y) {
  return x.address.captured == y.address.captured &&
         (!x.qp.captured || !y.qp.captured || x.qp.captured == y.qp.captured);
}

/// True if endpoint a of one entry is endpoint a of the other one.
bool same_sides(const MappedConnection& a, const MappedConnection& b) {
  return same_captured(a.at(Side::a), b.at(Side::a)) && same_captured(a.at(Side::b), b.at(Side::b));
}

/// True if two entries describe the same captured connection.
bool same_captured(const MappedConnection& a, const MappedConnection& b) {
  return same_sides(a, b) ||
         (same_captured(a.at(Side::a), b.at(Side::b)) && same_captured(a.at(Side::b), b.at(Side::a)));
}

bool knows(const FlowMap& map, const MappedConnection& connection) {
  return std::any_of(map.connections.begin(), map.connections.end(),
                     [&](const MappedConnection& known) { return same_captured(connection, known); });
}

/// Number of a connection in the captures, from 1. 0: not in the captures. If QP numbers were reused, the first frame
/// decides.
std::uint32_t number_of(const MappedConnection& connection, const FlowMap& learnt) {
  std::uint32_t number = 0;
  for (std::uint32_t i = 0; i < learnt.connections.size(); ++i) {
    const MappedConnection& known = learnt.connections[i];
    if (!same_captured(connection, known)) continue;
    if (known.first_frame == connection.first_frame) return i + 1;
    if (number == 0) number = i + 1;
  }
  return number;
}

/// True if a live value is set.
bool has_live_value(const MappedConnection& connection) {
  const auto in = [](const auto&... values) { return (values.live.has_value() || ...); };
  return in(connection.vlan.id, connection.pkey, connection.mtu) ||
         std::any_of(connection.ends.begin(), connection.ends.end(), [&](const MappedEnd& end) {
           return in(end.address, end.mac, end.qp, end.psn, end.msn, end.qkey, end.xrc_srq, end.source_port,
                     end.comm_id) ||
                  std::any_of(end.regions.begin(), end.regions.end(),
                              [&](const MappedRegion& region) { return in(region.key, region.base); });
         });
}

tl::expected<std::string, std::string> text_of_file(const std::string& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::string text;
  if (in) {
    text.resize(most_map_bytes + 1);
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(in.gcount()));
  }
  if (!in.is_open() || in.bad())
    return tl::unexpected(fmt::format("{}: cannot read the file: {}{}", path, std::strerror(errno),
                                      errno == ENOENT ? " (an assignment has the form KIND:CAPTURED=LIVE, for example "
                                                        "ip:10.0.0.2=192.168.1.2)"
                                                      : ""));
  if (text.size() > most_map_bytes)
    return tl::unexpected(fmt::format("{}: the file exceeds {} bytes", path, most_map_bytes));
  return text;
}

std::string what_there_is(const FlowMap& map) {
  std::string text;
  constexpr std::size_t most = 5;
  for (std::size_t i = 0; i < map.connections.size() && i < most; ++i)
    text += (i ? "; " : "") + who(map.connections[i]);
  if (map.connections.size() > most) text += fmt::format("; and {} more", map.connections.size() - most);
  return text.empty() ? "no RDMA connection" : text;
}

/// Message about connections of a mapping file that the captures do not contain. nullopt: the captures contain all.
struct Strangers {
  std::string text;
  bool all = false;
};
std::optional<Strangers> strangers(const std::string& file, const FlowMap& map, const FlowMap& learnt,
                                   const std::vector<std::string>& captures) {
  std::size_t missing = 0;
  const MappedConnection* first = nullptr;
  for (const MappedConnection& c : map.connections)
    if (!knows(learnt, c) && missing++ == 0) first = &c;
  if (missing == 0) return std::nullopt;
  return Strangers{fmt::format("{}: {} ({}) is not in {}; available: {}", file, first->name, who(*first),
                               fmt::join(captures, ", "), what_there_is(learnt)),
                   missing == map.connections.size()};
}

/// Numbers of entries that are not part of a connection.
struct Entries {
  std::size_t hosts, prefixes, source_prefixes, destination_prefixes, ports, vlans;
};
Entries entries_of(const FlowMap& map) {
  return {map.hosts.size(), map.prefixes.size(), map.source_prefixes.size(), map.destination_prefixes.size(),
          map.ports.size(), map.vlans.size()};
}

/// True if an assignment added an entry that applies to no frame.
bool matches_nothing(const Entries& before, const FlowMap& after, const Learnt& learnt) {
  if (after.vlans.size() > before.vlans) {
    const auto& id = after.vlans.back().id.captured;
    return id ? !learnt.vlans.test(*id) : learnt.vlans.none();
  }
  if (after.ports.size() > before.ports) {
    for (std::uint32_t port = after.ports.back().from; port <= after.ports.back().to; ++port)
      if (learnt.ports.test(port)) return false;
    return true;
  }
  if (!learnt.all_addresses) return false;
  if (after.hosts.size() > before.hosts) return !learnt.addresses.contains(*after.hosts.back().address.captured);
  const auto is_in_none = [&](const MappedPrefix& prefix) {
    return std::none_of(learnt.addresses.begin(), learnt.addresses.end(),
                        [&](const PortAddress& address) { return prefix.of(address).has_value(); });
  };
  if (after.prefixes.size() > before.prefixes) return is_in_none(after.prefixes.back());
  if (after.source_prefixes.size() > before.source_prefixes) return is_in_none(after.source_prefixes.back());
  if (after.destination_prefixes.size() > before.destination_prefixes)
    return is_in_none(after.destination_prefixes.back());
  return false;
}

}  // namespace

tl::expected<Mapping, MappingError> make_mapping(const std::vector<std::string>& captures,
                                                 std::span<const std::string> entries,
                                                 std::optional<Unmapped> unmapped) {
  const auto failed = [](Kind kind, std::string message) {
    return tl::unexpected(MappingError{kind, std::move(message)});
  };
  FrameSource source(captures);
  if (!source.seekable())
    return failed(Kind::capture,
                  "mapping, sides and changes per loop require a capture file instead of standard input");
  auto learnt = survey(source);
  if (!learnt) return failed(Kind::trouble, std::move(learnt.error()));
  Mapping made;
  made.learnt = std::move(*learnt);
  std::vector<std::string> assignments;
  bool from_file = false;
  for (const std::string& entry : entries) {
    const bool assignment = entry.find(':') < entry.find('=') && entry.find('=') != std::string::npos;
    if (assignment && ::access(entry.c_str(), F_OK) != 0) {
      assignments.push_back(entry);
      continue;
    }
    const auto text = text_of_file(entry);
    if (!text) return failed(Kind::trouble, text.error());
    auto read = read_flow_map(*text);
    if (!read) return failed(Kind::trouble, fmt::format("{}: {}", entry, read.error()));
    if (auto others = strangers(entry, *read, made.learnt.map, captures)) {
      if (others->all) return failed(Kind::trouble, std::move(others->text));
      made.warnings.push_back(std::move(others->text));
    }
    from_file = true;
    std::move(read->connections.begin(), read->connections.end(), std::back_inserter(made.map.connections));
    std::move(read->hosts.begin(), read->hosts.end(), std::back_inserter(made.map.hosts));
    std::move(read->prefixes.begin(), read->prefixes.end(), std::back_inserter(made.map.prefixes));
    std::move(read->source_prefixes.begin(), read->source_prefixes.end(), std::back_inserter(made.map.source_prefixes));
    std::move(read->destination_prefixes.begin(), read->destination_prefixes.end(),
              std::back_inserter(made.map.destination_prefixes));
    std::move(read->ports.begin(), read->ports.end(), std::back_inserter(made.map.ports));
    std::move(read->vlans.begin(), read->vlans.end(), std::back_inserter(made.map.vlans));
  }
  if (!from_file) made.map = made.learnt.map;
  for (const std::string& text : assignments) {
    const Entries before = entries_of(made.map);
    if (const auto done = assign(made.map, text); !done) return failed(Kind::assignment, done.error());
    if (matches_nothing(before, made.map, made.learnt)) {
      const bool vlan = made.map.vlans.size() > before.vlans;
      return failed(Kind::assignment,
                    text + (vlan ? ": the capture contains no such frame" : ": matches no packet of the captures"));
    }
  }
  made.map.apply_prefixes();
  // Without a mapping file, the connections are those of the captures.
  for (std::uint32_t i = 0; i < made.map.connections.size(); ++i)
    made.numbers.push_back(from_file ? number_of(made.map.connections[i], made.learnt.map) : i + 1);
  if (from_file) {
    const FlowMap from_files = made.map;
    for (std::uint32_t i = 0; i < made.learnt.map.connections.size(); ++i) {
      MappedConnection known = made.learnt.map.connections[i];
      if (knows(from_files, known)) continue;
      known.unmapped = true;
      made.map.connections.push_back(std::move(known));
      made.numbers.push_back(i + 1);
    }
  } else if (unmapped && std::any_of(made.map.connections.begin(), made.map.connections.end(), has_live_value)) {
    for (MappedConnection& connection : made.map.connections) connection.unmapped = !has_live_value(connection);
  }
  // Checks all connections before the first frame is sent.
  if (unmapped.value_or(Unmapped::refuse) == Unmapped::refuse)
    for (const MappedConnection& connection : made.map.connections)
      if (connection.unmapped)
        return failed(Kind::incomplete, fmt::format("{} ({}) has no mapping", connection.name, who(connection)));
  return made;
}

std::vector<std::array<std::uint32_t, 2>> Mapping::by_index(
    const std::vector<std::array<std::uint32_t, 2>>& values) const {
  std::vector<std::array<std::uint32_t, 2>> all(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] == 0) continue;
    all[i] = values[numbers[i] - 1];
    if (!same_sides(map.connections[i], learnt.map.connections[numbers[i] - 1])) std::swap(all[i][0], all[i][1]);
  }
  return all;
}

}  // namespace rdmawire::replay
