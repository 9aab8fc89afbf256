#include "replay/rewrite/map_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "captures/analysis/findings.hpp"
#include "dissectors/machines/psn_window.hpp"
#include "dissectors/output/edit_distance.hpp"
#include "dissectors/output/filter_literal.hpp"
#include "dissectors/output/json.hpp"
#include "dissectors/output/value.hpp"

namespace rdmawire::replay {
namespace {

using nlohmann::json;
using tracking::Service;

constexpr std::string_view format_name = "flow map", version_text = "1";
constexpr std::pair<std::string_view, Service> services[] = {
    {"rc", Service::rc}, {"uc", Service::uc},       {"ud", Service::ud},         {"xrc", Service::xrc},
    {"rd", Service::rd}, {"iwarp", Service::iwarp}, {"vendor", Service::vendor},
};

/// An error and its position as a JSON pointer.
struct Wrong {
  std::string at, what;
};

// Limits and number base of one kind of value.
struct Number {
  std::uint64_t most;
  bool hexadecimal = false;
};
constexpr Number qp_number{0xffffff, true}, psn_number{0xffffffff}, msn_number{0xffffff}, word{0xffffffff, true},
    port{0xffff}, pkey_number{0xffff, true}, address_number{~std::uint64_t{0}, true}, bytes{~std::uint64_t{0}};

std::optional<PortAddress> parse_address(std::string_view text) {
  if (text.starts_with("LID ")) {
    const auto lid = output::parse_number(text.substr(4));
    if (!lid || *lid == 0 || *lid > 0xffff) return std::nullopt;
    return PortAddress::of_lid(static_cast<std::uint16_t>(*lid));
  }
  const auto sixteen =
      output::parse_ipv4(text) ? output::parse_ipv6("::ffff:" + std::string(text)) : output::parse_ipv6(text);
  if (!sixteen) return std::nullopt;
  return PortAddress::of_gid(sixteen->data());
}

constexpr unsigned v4_offset = 96;  // of an IPv4 address in an IPv6 address

/// "10.0.0.0/8": the address and the length of the prefix in an IPv6 address.
std::optional<std::pair<PortAddress, std::uint8_t>> parse_prefix(std::string_view text) {
  const std::size_t slash = text.find('/');
  const auto address = parse_address(text.substr(0, slash));
  if (!address || slash == std::string_view::npos || text.starts_with("LID")) return std::nullopt;
  const auto bits = output::parse_number(text.substr(slash + 1));
  const unsigned offset = is_ipv4(*address) ? v4_offset : 0;
  if (!bits || *bits > 128 - offset) return std::nullopt;
  return std::pair(*address, static_cast<std::uint8_t>(*bits + offset));
}

std::string prefix_text(const PortAddress& address, unsigned bits) {
  return fmt::format("{}/{}", captures::analysis::to_text(address), is_ipv4(address) ? bits - v4_offset : bits);
}

/// `single`: an address without a length is the prefix of one host.
tl::expected<MappedPrefix, std::string> parse_prefixes(std::string_view captured, std::string_view live,
                                                       bool single = false) {
  const auto with_length = [single](std::string_view text) {
    const std::string host = std::string(text) + "/" + (text.find(':') == std::string_view::npos ? "32" : "128");
    return parse_prefix(single && text.find('/') == std::string_view::npos ? host : text);
  };
  const auto from = with_length(captured), to = with_length(live);
  if (!from || !to)
    return tl::unexpected(std::string("expected networks such as 10.0.0.0/8 or fd00::/64 as captured and live values"));
  if (is_ipv4(from->first) != is_ipv4(to->first))
    return tl::unexpected(std::string("the networks must be both IPv4 or both IPv6"));
  return MappedPrefix{from->first, to->first, from->second, to->second};
}

/// "80" or "8000-8010", and the live port.
tl::expected<MappedPorts, std::string> parse_ports(std::string_view captured, std::string_view live) {
  const std::size_t dash = captured.find('-');
  const auto from = output::parse_number(captured.substr(0, dash)),
             to = dash == std::string_view::npos ? from : output::parse_number(captured.substr(dash + 1)),
             there = output::parse_number(live);
  if (!from || !to || !there || *to > 0xffff || *from > *to || *there > 0xffff)
    return tl::unexpected(std::string("expected a port or a range such as 8000-8010, and a live port up to 65535"));
  return MappedPorts{static_cast<std::uint16_t>(*from), static_cast<std::uint16_t>(*to),
                     static_cast<std::uint16_t>(*there)};
}

std::string mac_text(std::uint64_t mac) {
  std::uint8_t six[6];
  store_be(six, 6, mac);
  std::string out;
  output::append_mac(out, six);
  return out;
}

class MapReader {
 public:
  FlowMap read(const json& root) {
    members(
        root, "",
        {"rdmawire", "connections", "hosts", "prefixes", "source_prefixes", "destination_prefixes", "ports", "vlans"});
    const std::string expected = fmt::format("{} {}", format_name, version_text);
    if (!root.contains("rdmawire") || root["rdmawire"] != expected)
      throw Wrong{"/rdmawire", fmt::format("must be \"{}\", the format of the file", expected)};
    FlowMap map;
    each(root, "", "connections",
         [&](const json& c, const std::string& at) { map.connections.push_back(connection(c, at)); });
    each(root, "", "hosts", [&](const json& h, const std::string& at) {
      members(h, at, {"address", "mac"});
      MappedHost host;
      mapped(h, at, "address", host.address, [&](const json& v, const std::string& a) { return address(v, a); });
      mapped(h, at, "mac", host.mac, [&](const json& v, const std::string& a) { return mac(v, a); });
      same_kind(host.address, at + "/address");
      if (!host.address.captured) throw Wrong{at + "/address", "missing captured address of the host"};
      map.hosts.push_back(host);
    });
    const auto pair_text = [](const json& value, const std::string& at) {
      members(value, at, {"captured", "live"});
      for (const char* name : {"captured", "live"})
        if (!value.contains(name) || !(value[name].is_string() || value[name].is_number_unsigned()))
          throw Wrong{fmt::format("{}/{}", at, name), "expected a string"};
      const auto text = [&](const char* name) {
        return value[name].is_string() ? value[name].get<std::string>() : value[name].dump();
      };
      return std::pair(text("captured"), text("live"));
    };
    for (const auto& [name, list] :
         {std::pair("prefixes", &map.prefixes), std::pair("source_prefixes", &map.source_prefixes),
          std::pair("destination_prefixes", &map.destination_prefixes)})
      each(root, "", name, [&pair_text, list = list](const json& value, const std::string& at) {
        const auto [captured, live] = pair_text(value, at);
        const auto prefix = parse_prefixes(captured, live);
        if (!prefix) throw Wrong{at, prefix.error()};
        list->push_back(*prefix);
      });
    each(root, "", "ports", [&](const json& value, const std::string& at) {
      const auto [captured, live] = pair_text(value, at);
      const auto ports = parse_ports(captured, live);
      if (!ports) throw Wrong{at, ports.error()};
      map.ports.push_back(*ports);
    });
    each(root, "", "vlans", [&](const json& value, const std::string& at) {
      members(value, at, {"captured", "live"});
      MappedVlan change;
      if (value.contains("captured") && !value["captured"].is_null())
        change.id.captured = vlan(value["captured"], at + "/captured");
      if (!value.contains("live")) throw Wrong{at + "/live", "missing live VLAN"};
      change.id.live = vlan(value["live"], at + "/live");
      map.vlans.push_back(change);
    });
    return map;
  }

 private:
  static void members(const json& object, const std::string& at, std::initializer_list<std::string_view> known) {
    if (!object.is_object()) throw Wrong{at, fmt::format("expected an object, not {}", shown(object))};
    for (const auto& [name, value] : object.items()) {
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      std::string list;
      for (const std::string_view candidate : known) {
        if (output::edit_distance(name, candidate, 2) <= 2)
          throw Wrong{at + "/" + escaped(name), fmt::format("unknown member; did you mean \"{}\"?", candidate)};
        list += fmt::format("{}{}", list.empty() ? "" : ", ", candidate);
      }
      throw Wrong{at + "/" + escaped(name), "unknown member; expected " + list};
    }
  }
  static std::string escaped(std::string_view name) {
    std::string out;
    for (const char c : name.substr(0, 60)) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    return out;
  }
  static std::string shown(const json& value) {
    std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
    if (text.size() > 40) text = text.substr(0, 40) + "…";
    return text;
  }
  template <class Take>
  static void each(const json& object, const std::string& at, const char* name, Take take) {
    if (!object.contains(name)) return;
    const json& list = object[name];
    const std::string here = at + "/" + name;
    if (!list.is_array()) throw Wrong{here, fmt::format("expected an array, not {}", shown(list))};
    for (std::size_t i = 0; i < list.size(); ++i) take(list[i], fmt::format("{}/{}", here, i));
  }

  static std::uint64_t number(const json& value, const std::string& at, const Number& kind) {
    std::optional<std::uint64_t> n;
    if (value.is_number_unsigned()) n = value.get<std::uint64_t>();
    if (value.is_string()) n = output::parse_number(value.get_ref<const std::string&>());
    if (!n) throw Wrong{at, fmt::format("expected a number (77, or a string: \"0x4d\"), not {}", shown(value))};
    if (*n > kind.most) throw Wrong{at, fmt::format("{} is more than {}", *n, kind.most)};
    return *n;
  }
  static PortAddress address(const json& value, const std::string& at) {
    const auto parsed = value.is_string() ? parse_address(value.get_ref<const std::string&>()) : std::nullopt;
    if (!parsed)
      throw Wrong{at, fmt::format("expected an address (\"10.0.0.2\", \"fd00::2\", \"LID 5\"), not {}", shown(value))};
    return *parsed;
  }
  static std::uint64_t mac(const json& value, const std::string& at) {
    const auto parsed = value.is_string() ? output::parse_mac(value.get_ref<const std::string&>()) : std::nullopt;
    if (!parsed) throw Wrong{at, fmt::format("expected a MAC address (\"52:54:00:00:00:02\"), not {}", shown(value))};
    return *parsed;
  }
  static std::uint16_t vlan(const json& value, const std::string& at) {
    if (value == "none") return MappedVlan::untagged;
    return static_cast<std::uint16_t>(number(value, at, {0xfff}));
  }

  // {"captured": …, "live": …}. Each may be null or missing. A plain value is the live value.
  template <class Pair, class Read>
  static void mapped(const json& object, const std::string& at, const char* name, Pair& out, Read read) {
    if (!object.contains(name)) return;
    const json& value = object[name];
    const std::string here = at + "/" + name;
    if (value.is_null()) return;
    if (!value.is_object()) {
      out.live = read(value, here);
      return;
    }
    members(value, here, {"captured", "live"});
    if (value.contains("captured") && !value["captured"].is_null())
      out.captured = read(value["captured"], here + "/captured");
    if (value.contains("live") && !value["live"].is_null()) out.live = read(value["live"], here + "/live");
  }
  template <class T>
  static auto as(const Number& kind) {
    return [kind](const json& value, const std::string& at) { return static_cast<T>(number(value, at, kind)); };
  }
  static void same_kind(const Mapped<PortAddress>& a, const std::string& at) {
    if (a.captured && a.live && is_ipv4(*a.captured) != is_ipv4(*a.live))
      throw Wrong{at, "captured and live address must be both IPv4 or both IPv6"};
  }

  static MappedEnd end(const json& object, const std::string& at, bool iwarp) {
    members(object, at, {"address", "mac", "qp", "psn", "msn", "qkey", "xrc_srq", "source_port", "comm_id", "regions"});
    MappedEnd e;
    mapped(object, at, "address", e.address, &MapReader::address);
    mapped(object, at, "mac", e.mac, &MapReader::mac);
    mapped(object, at, "qp", e.qp, as<std::uint32_t>(iwarp ? port : qp_number));
    sequence(object, at, "psn", e.psn, iwarp ? psn_number : msn_number);
    sequence(object, at, "msn", e.msn, msn_number);
    mapped(object, at, "qkey", e.qkey, as<std::uint32_t>(word));
    mapped(object, at, "xrc_srq", e.xrc_srq, as<std::uint32_t>(qp_number));
    mapped(object, at, "source_port", e.source_port, as<std::uint16_t>(port));
    mapped(object, at, "comm_id", e.comm_id, as<std::uint32_t>(word));
    each(object, at, "regions", [&](const json& r, const std::string& here) {
      members(r, here, {"key", "base", "length"});
      MappedRegion region;
      mapped(r, here, "key", region.key, as<std::uint32_t>(word));
      mapped(r, here, "base", region.base, as<std::uint64_t>(address_number));
      if (r.contains("length")) region.length = number(r["length"], here + "/length", bytes);
      if (!region.key.captured) throw Wrong{here + "/key", "missing captured key of the region"};
      if (region.base.live && !region.base.captured)
        throw Wrong{here + "/base",
                    "a live base requires the captured base, because addresses are moved by the difference"};
      e.regions.push_back(region);
    });
    same_kind(e.address, at + "/address");
    if (!e.address.captured) throw Wrong{at + "/address", "missing captured address, which identifies the frames"};
    return e;
  }
  static void sequence(const json& object, const std::string& at, const char* name, MappedSequence& out,
                       const Number& kind) {
    mapped(object, at, name, out, as<std::uint32_t>(kind));
    if (out.live && !out.captured)
      throw Wrong{fmt::format("{}/{}", at, name),
                  "a live number requires the captured one, because numbers are moved by the difference"};
  }

  static MappedConnection connection(const json& object, const std::string& at) {
    members(object, at, {"name", "service", "a", "b", "vlan", "pkey", "mtu", "frames"});
    MappedConnection c;
    c.name = at;
    if (object.contains("name")) {
      if (!object["name"].is_string())
        throw Wrong{at + "/name", fmt::format("expected a string, not {}", shown(object["name"]))};
      c.name = object["name"].get<std::string>();
    }
    if (object.contains("service")) {
      const auto found = std::find_if(std::begin(services), std::end(services),
                                      [&](const auto& s) { return object["service"] == s.first; });
      if (found == std::end(services))
        throw Wrong{at + "/service",
                    fmt::format("expected rc, uc, ud, xrc, rd or iwarp, not {}", shown(object["service"]))};
      c.service = found->second;
    }
    for (const auto& [name, which] : {std::pair("a", Side::a), std::pair("b", Side::b)}) {
      if (!object.contains(name)) throw Wrong{fmt::format("{}/{}", at, name), "missing endpoint of the connection"};
      c.at(which) = end(object[name], fmt::format("{}/{}", at, name), c.service == Service::iwarp);
    }
    if (!c.at(Side::a).qp.captured && !c.at(Side::b).qp.captured)
      throw Wrong{at, "at least one endpoint requires a captured QP number (iWARP: port), which identifies the frames"};
    mapped(object, at, "vlan", c.vlan.id, &MapReader::vlan);
    mapped(object, at, "pkey", c.pkey, as<std::uint16_t>(pkey_number));
    mapped(object, at, "mtu", c.mtu, [](const json& value, const std::string& here) {
      const auto mtu = static_cast<std::uint32_t>(number(value, here, {4096}));
      if (mtu < 256 || (mtu & (mtu - 1)))
        throw Wrong{here, fmt::format("{} is not a valid path MTU (256, 512, 1024, 2048, 4096)", mtu)};
      return mtu;
    });
    if (object.contains("frames")) {
      const json& frames = object["frames"];
      const std::string here = at + "/frames";
      if (!frames.is_array() || frames.size() != 2)
        throw Wrong{here, fmt::format("expected two numbers, not {}", shown(frames))};
      c.first_frame = number(frames[0], here + "/0", bytes);
      c.last_frame = number(frames[1], here + "/1", bytes);
    }
    return c;
  }
};

// The text of a value in the file.
std::string text_of(const Number& kind, std::uint64_t value) {
  return kind.hexadecimal ? fmt::format("\"{:#x}\"", value) : fmt::format("{}", value);
}

class MapWriter {
 public:
  std::string write(const FlowMap& map) {
    out_ = fmt::format("{{\n  \"rdmawire\": \"{} {}\",\n  \"connections\": [", format_name, version_text);
    bool any = false;
    for (const MappedConnection& c : map.connections) {
      if (c.unmapped) continue;
      out_ += any ? ",\n    {" : "\n    {";
      connection(c);
      out_ += "\n    }";
      any = true;
    }
    out_ += any ? "\n  ],\n" : "],\n";
    out_ += "  \"hosts\": [";
    for (std::size_t i = 0; i < map.hosts.size(); ++i) {
      out_ += i ? ",\n    {" : "\n    {";
      begin("");
      pair("address", map.hosts[i].address, &MapWriter::address_text);
      pair("mac", map.hosts[i].mac, [](std::uint64_t mac) { return "\"" + mac_text(mac) + "\""; });
      out_ += "}";
    }
    out_ += map.hosts.empty() ? "]" : "\n  ]";
    const auto list = [&](std::string_view name, const auto& entries, auto text) {
      if (entries.empty()) return;
      out_ += fmt::format(",\n  \"{}\": [", name);
      for (std::size_t i = 0; i < entries.size(); ++i) out_ += (i ? ",\n    " : "\n    ") + text(entries[i]);
      out_ += "\n  ]";
    };
    const auto text_of_prefix = [](const MappedPrefix& prefix) {
      return fmt::format("{{\"captured\": \"{}\", \"live\": \"{}\"}}",
                         prefix_text(prefix.captured, prefix.captured_bits),
                         prefix_text(prefix.live, prefix.live_bits));
    };
    list("prefixes", map.prefixes, text_of_prefix);
    list("source_prefixes", map.source_prefixes, text_of_prefix);
    list("destination_prefixes", map.destination_prefixes, text_of_prefix);
    list("ports", map.ports, [](const MappedPorts& ports) {
      const std::string captured =
          ports.from == ports.to ? fmt::format("{}", ports.from) : fmt::format("{}-{}", ports.from, ports.to);
      return fmt::format("{{\"captured\": \"{}\", \"live\": \"{}\"}}", captured, ports.live);
    });
    list("vlans", map.vlans, [](const MappedVlan& change) {
      return fmt::format("{{\"captured\": {}, \"live\": {}}}",
                         change.id.captured ? vlan_text(*change.id.captured) : "null",
                         vlan_text(change.id.live.value_or(MappedVlan::untagged)));
    });
    out_ += "\n}\n";
    return std::move(out_);
  }

 private:
  static std::string address_text(const PortAddress& address) {
    return "\"" + captures::analysis::to_text(address) + "\"";
  }
  static auto number(const Number& kind) {
    return [kind](std::uint64_t value) { return text_of(kind, value); };
  }
  static std::string vlan_text(std::uint16_t id) {
    return id == MappedVlan::untagged ? "\"none\"" : std::to_string(id);
  }

  void begin(std::string_view indent) {
    indent_ = indent;
    first_ = true;
  }
  void member(std::string_view name) {
    if (!first_) out_ += indent_.empty() ? ", " : ",";
    if (!indent_.empty()) out_ += indent_;
    first_ = false;
    out_ += fmt::format("\"{}\": ", name);
  }
  template <class Pair, class Text>
  void pair(std::string_view name, const Pair& value, Text text) {
    member(name);
    out_ += fmt::format("{{\"captured\": {}, \"live\": {}}}", value.captured ? text(*value.captured) : "null",
                        value.live ? text(*value.live) : "null");
  }
  /// Omits the pair if both sides are unknown, because most connections do not use it.
  template <class Pair, class Text>
  void pair_if_any(std::string_view name, const Pair& value, Text text) {
    if (value.captured || value.live) pair(name, value, text);
  }

  void connection(const MappedConnection& c) {
    const bool iwarp = c.service == Service::iwarp;
    begin("\n      ");
    member("name");
    output::append_json_string(out_, c.name);
    member("service");
    for (const auto& [name, service] : services)
      if (service == c.service) out_ += fmt::format("\"{}\"", name);
    if (c.first_frame || c.last_frame) {
      member("frames");
      out_ += fmt::format("[{}, {}]", c.first_frame, c.last_frame);
    }
    for (const auto& [name, which] : {std::pair("a", Side::a), std::pair("b", Side::b)}) {
      member(name);
      out_ += "{";
      end(c.at(which), iwarp);
      out_ += "}";
      begin("\n      ");
      first_ = false;
    }
    pair("vlan", c.vlan.id, &MapWriter::vlan_text);
    if (!iwarp)
      pair("pkey", c.pkey, number(pkey_number));
    else
      pair_if_any("pkey", c.pkey, number(pkey_number));
    // Without a valid captured path MTU, messages cannot be resegmented.
    if (c.mtu.captured && machines::is_path_mtu(*c.mtu.captured)) pair("mtu", c.mtu, number(port));
  }
  void end(const MappedEnd& e, bool iwarp) {
    begin("\n        ");
    pair("address", e.address, &MapWriter::address_text);
    pair("mac", e.mac, [](std::uint64_t mac) { return "\"" + mac_text(mac) + "\""; });
    pair("qp", e.qp, number(iwarp ? port : qp_number));
    // A live sequence number requires the captured one.
    if (e.psn.captured) pair("psn", e.psn, number(psn_number));
    pair_if_any("msn", e.msn, number(msn_number));
    pair_if_any("qkey", e.qkey, number(word));
    pair_if_any("xrc_srq", e.xrc_srq, number(qp_number));
    pair_if_any("source_port", e.source_port, number(port));
    pair_if_any("comm_id", e.comm_id, number(word));
    if (e.regions.empty()) return;
    member("regions");
    out_ += "[";
    for (std::size_t i = 0; i < e.regions.size(); ++i) {
      const MappedRegion& region = e.regions[i];
      out_ += i ? ",\n          {" : "\n          {";
      begin("");
      pair("key", region.key, number(word));
      pair("base", region.base, number(address_number));
      member("length");
      out_ += fmt::format("{}}}", region.length);
    }
    out_ += "]";
  }

  std::string out_;
  std::string_view indent_;
  bool first_ = true;
};

std::string place_of(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte ? byte - 1 : 0, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t begin = before.rfind('\n');
  return fmt::format("line {}, column {}", line, before.size() - (begin == std::string_view::npos ? 0 : begin + 1) + 1);
}

}  // namespace

tl::expected<FlowMap, std::string> read_flow_map(std::string_view text) {
  if (text.size() > most_map_bytes)
    return tl::unexpected(fmt::format("{} bytes exceed the limit of {}", text.size(), most_map_bytes));
  // Limits the nesting depth, because the parser recurses once per level.
  constexpr int deepest = 16;
  bool deep = false;
  try {
    const json root =
        json::parse(text, [&](int depth, json::parse_event_t, json&) { return !(deep |= depth > deepest); });
    if (deep) return tl::unexpected(fmt::format("nested more than {} levels deep", deepest));
    return MapReader().read(root);
  } catch (const json::parse_error& error) {
    std::string what = error.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 2: …"
    if (const std::size_t at = what.rfind(": "); at != std::string::npos) what = what.substr(at + 2);
    return tl::unexpected(fmt::format("{}: invalid JSON: {}", place_of(text, error.byte), what));
  } catch (const json::exception& error) {
    return tl::unexpected(std::string("invalid JSON: ") + error.what());
  } catch (const Wrong& wrong) {
    return tl::unexpected(fmt::format("{}: {}", wrong.at.empty() ? "/" : wrong.at, wrong.what));
  }
}

std::string write_flow_map(const FlowMap& map) { return MapWriter().write(map); }

namespace {

// Endpoint on the left side of an assignment.
struct EndName {
  std::optional<PortAddress> address;
  std::optional<std::uint64_t> qp;
  [[nodiscard]] bool is(const MappedEnd& end) const {
    return (!address || end.address.captured == *address) && (!qp || end.qp.captured == *qp);
  }
};

struct Assignment {
  FlowMap& map;
  std::string_view kind, left, right;

  [[nodiscard]] std::string wrong(std::string_view what) const {
    return fmt::format("{}:{}={}: {}", kind, left, right, what);
  }
  using Result = tl::expected<void, std::string>;
  [[nodiscard]] Result fail(std::string_view what) const { return tl::unexpected(wrong(what)); }
  [[nodiscard]] Result done(std::size_t changed, std::string_view what) const {
    if (changed) return {};
    return fail(fmt::format("the capture contains no such {}", what));
  }

  // ADDRESS/QP, QP or ADDRESS.
  [[nodiscard]] static std::optional<EndName> end_name(std::string_view text) {
    EndName name;
    const std::size_t slash = text.rfind('/');
    const std::string_view first = text.substr(0, slash);
    if (slash != std::string_view::npos) {
      name.qp = output::parse_number(text.substr(slash + 1));
      name.address = parse_address(first);
      return name.qp && name.address ? std::optional(name) : std::nullopt;
    }
    name.qp = output::parse_number(first);
    if (!name.qp) name.address = parse_address(first);
    return name.qp || name.address ? std::optional(name) : std::nullopt;
  }

  template <class Set>
  [[nodiscard]] std::size_t for_ends(const EndName& name, Set set) const {
    std::size_t changed = 0;
    for (MappedConnection& c : map.connections)
      for (MappedEnd& end : c.ends)
        if (name.is(end)) {
          set(end, c);
          ++changed;
        }
    return changed;
  }

  [[nodiscard]] Result ip() const {
    if (left.find('/') != std::string_view::npos || right.find('/') != std::string_view::npos) {
      const auto prefix = parse_prefixes(left, right);
      if (!prefix) return fail(prefix.error());
      map.prefixes.push_back(*prefix);
      return {};
    }
    const auto from = parse_address(left), to = parse_address(right);
    if (!from || !to) return fail("expected an address on both sides");
    if (is_ipv4(*from) != is_ipv4(*to)) return fail("the addresses must be both IPv4 or both IPv6");
    (void)for_ends({from, {}}, [&](MappedEnd& end, MappedConnection&) { end.address.live = to; });
    for (MappedHost& host : map.hosts)
      if (host.address.captured == *from) {
        host.address.live = to;
        return {};
      }
    map.hosts.push_back({{from, to}, {}});
    return {};
  }
  [[nodiscard]] Result one_way_ip(std::vector<MappedPrefix>& list) const {
    const auto prefix = parse_prefixes(left, right, true);
    if (!prefix) return fail(prefix.error());
    list.push_back(*prefix);
    return {};
  }
  [[nodiscard]] Result mac() const {
    const auto to = output::parse_mac(right);
    if (!to) return fail("expected a MAC address on the right");
    if (const auto from = output::parse_mac(left)) {
      std::size_t changed = 0;
      for (MappedConnection& c : map.connections)
        for (MappedEnd& end : c.ends)
          if (end.mac.captured == *from) {
            end.mac.live = to;
            ++changed;
          }
      return done(changed, "MAC address in a connection");
    }
    const auto host = parse_address(left);
    if (!host) return fail("expected a MAC or host address on the left");
    (void)for_ends({host, {}}, [&](MappedEnd& end, MappedConnection&) { end.mac = {std::nullopt, to}; });
    for (MappedHost& known : map.hosts)
      if (known.address.captured == *host) {
        known.mac.live = to;
        return {};
      }
    map.hosts.push_back({{host, {}}, {std::nullopt, to}});
    return {};
  }
  [[nodiscard]] Result port_range() const {
    const auto ports = parse_ports(left, right);
    if (!ports) return fail(ports.error());
    map.ports.push_back(*ports);
    return {};
  }
  template <class Set>
  [[nodiscard]] Result of_end(std::uint64_t most, Set set) const {
    const auto name = end_name(left);
    if (!name) return fail("expected an endpoint on the left: QP, ADDRESS/QP or ADDRESS");
    const auto value = output::parse_number(right);
    if (!value || *value > most) return fail(fmt::format("expected a number up to {} on the right", most));
    std::size_t unknown = 0;
    const std::size_t changed =
        for_ends(*name, [&](MappedEnd& end, MappedConnection&) { unknown += !set(end, *value); });
    if (changed && unknown == changed)
      return fail("the captured value is unknown, so the difference cannot be computed");
    return done(changed, "endpoint of a connection");
  }
  // A VLAN ID or "none".
  [[nodiscard]] static std::optional<std::uint16_t> vlan_id(std::string_view text) {
    if (text == "none") return MappedVlan::untagged;
    const auto id = output::parse_number(text);
    return id && *id <= 0xfff ? std::optional(static_cast<std::uint16_t>(*id)) : std::nullopt;
  }
  [[nodiscard]] Result vlan() const {
    MappedVlan change;
    change.id.live = vlan_id(right);
    if (!change.id.live) return fail("expected a number up to 4095 or none on the right");
    if (left != "*" && !(change.id.captured = vlan_id(left)))
      return fail("expected a number up to 4095, none or * on the left");
    if (std::any_of(map.vlans.begin(), map.vlans.end(),
                    [&](const MappedVlan& other) { return other.id.captured == change.id.captured; }))
      return fail("another assignment changes the same VLAN");
    map.vlans.push_back(change);
    return {};
  }
  template <class T, class Member>
  [[nodiscard]] Result of_connections(std::uint64_t most, Member member) const {
    const auto to = output::parse_number(right);
    if (!to || *to > most) return fail(fmt::format("expected a number up to {} on the right", most));
    std::optional<std::uint64_t> from;
    if (left != "*") {
      from = output::parse_number(left);
      if (!from) return fail("expected a number or * on the left");
    }
    std::size_t changed = 0;
    for (MappedConnection& c : map.connections) {
      Mapped<T>& pair = member(c);
      if (from && (!pair.captured || *pair.captured != *from)) continue;
      pair.live = static_cast<T>(*to);
      ++changed;
    }
    return done(changed, "connection");
  }
  [[nodiscard]] Result rkey() const {
    const std::size_t at_left = left.find('@'), at_right = right.find('@');
    const auto key = output::parse_number(left.substr(0, at_left)),
               live = output::parse_number(right.substr(0, at_right));
    if (!key || !live || *key > 0xffffffff || *live > 0xffffffff) return fail("expected KEY or KEY@BASE on both sides");
    std::optional<std::uint64_t> base, live_base;
    if (at_left != std::string_view::npos && !(base = output::parse_number(left.substr(at_left + 1))))
      return fail("expected the captured base after @");
    if (at_right != std::string_view::npos && !(live_base = output::parse_number(right.substr(at_right + 1))))
      return fail("expected the live base after @");
    std::size_t changed = 0;
    for (MappedConnection& c : map.connections)
      for (MappedEnd& end : c.ends)
        for (MappedRegion& region : end.regions) {
          if (region.key.captured != *key) continue;
          region.key.live = static_cast<std::uint32_t>(*live);
          if (base) {
            if (region.base.captured && *base <= *region.base.captured && region.length)
              region.length += *region.base.captured - *base;
            region.base.captured = base;
          }
          if (live_base) region.base.live = live_base;
          ++changed;
        }
    return done(changed, "key");
  }
};

constexpr std::string_view kinds[] = {"ip",          "mac",  "port", "qp",   "psn", "msn",     "qkey",   "srq",
                                      "source-port", "rkey", "pkey", "vlan", "mtu", "comm-id", "src-ip", "dst-ip"};

}  // namespace

std::string assignments_help() {
  return "ip:10.0.0.2=192.168.1.2          address of a host\n"
         "ip:10.0.0.0/8=172.16.0.0/12      addresses of all other hosts of a network\n"
         "src-ip:10.0.0.0/8=172.16.0.0/12  source addresses of a network (dst-ip: destination addresses)\n"
         "mac:10.0.0.2=52:54:00:12:34:56   MAC address of a host\n"
         "port:8000-8010=80                UDP and TCP ports in all frames\n"
         "qp:0x11=0x777                    QP number; iWARP: TCP port\n"
         "psn:10.0.0.2/0x12=77             first PSN of requests sent by this endpoint\n"
         "msn:0x12=1                       first MSN in acknowledgements of this endpoint\n"
         "qkey:0x11=0x11111111             Q_Key of this endpoint\n"
         "srq:0x11=5                       shared receive queue of this endpoint (XRC)\n"
         "source-port:10.0.0.2=50000       UDP source port of this endpoint\n"
         "comm-id:0x11=0x1234              communication ID in CM messages\n"
         "rkey:0x4bc@0x7f0000=0x777@0x1000 key and base of a region (@… is optional)\n"
         "pkey:0xffff=0x8001               partition key (* on the left: all connections)\n"
         "vlan:none=7                      VLAN of all frames; none: no tag\n"
         "mtu:1024=4096                    path MTU\n";
}

tl::expected<void, std::string> assign(FlowMap& map, std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::size_t equals = text.find('=');
  if (colon == std::string_view::npos || equals == std::string_view::npos || equals < colon)
    return tl::unexpected(
        fmt::format("{}: expected KIND:CAPTURED=LIVE, for example qp:0x11=0x777", text.substr(0, 80)));
  const Assignment a{map, text.substr(0, colon), text.substr(colon + 1, equals - colon - 1), text.substr(equals + 1)};
  auto number = [](auto member) {
    return [member](MappedEnd& end, std::uint64_t value) {
      using T = typename std::remove_reference_t<decltype(end.*member)>;
      if constexpr (std::is_same_v<T, MappedSequence>) {
        if (!(end.*member).captured) return false;
        (end.*member).live = static_cast<std::uint32_t>(value);
      } else {
        using V = typename std::remove_reference_t<decltype((end.*member).live)>::value_type;
        (end.*member).live = static_cast<V>(value);
      }
      return true;
    };
  };
  if (a.kind == "ip") return a.ip();
  if (a.kind == "src-ip") return a.one_way_ip(map.source_prefixes);
  if (a.kind == "dst-ip") return a.one_way_ip(map.destination_prefixes);
  if (a.kind == "mac") return a.mac();
  if (a.kind == "port") return a.port_range();
  if (a.kind == "qp") return a.of_end(qp_number.most, number(&MappedEnd::qp));
  if (a.kind == "psn") return a.of_end(psn_number.most, number(&MappedEnd::psn));
  if (a.kind == "msn") return a.of_end(msn_number.most, number(&MappedEnd::msn));
  if (a.kind == "qkey") return a.of_end(word.most, number(&MappedEnd::qkey));
  if (a.kind == "srq") return a.of_end(qp_number.most, number(&MappedEnd::xrc_srq));
  if (a.kind == "source-port") return a.of_end(port.most, number(&MappedEnd::source_port));
  if (a.kind == "comm-id") return a.of_end(word.most, number(&MappedEnd::comm_id));
  if (a.kind == "rkey") return a.rkey();
  if (a.kind == "pkey")
    return a.of_connections<std::uint16_t>(
        0xffff, [](MappedConnection & c) -> auto& { return c.pkey; });
  if (a.kind == "vlan") return a.vlan();
  if (a.kind == "mtu") {
    const auto mtu = output::parse_number(a.right);
    if (!mtu || *mtu < 256 || *mtu > 4096 || (*mtu & (*mtu - 1)))
      return a.fail("expected a path MTU on the right (256, 512, 1024, 2048, 4096)");
    return a.of_connections<std::uint32_t>(
        4096, [](MappedConnection & c) -> auto& { return c.mtu; });
  }
  std::string list;
  for (const std::string_view kind : kinds) list += fmt::format("{}{}", list.empty() ? "" : ", ", kind);
  const std::string near = output::did_you_mean(a.kind, kinds);
  return a.fail("unknown kind of assignment" + (near.empty() ? "; expected " + list : near));
}

}  // namespace rdmawire::replay
