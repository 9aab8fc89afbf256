/// rdmawire devices: available wires and their capabilities.

#include "replay/wires/devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "cli/device_options.hpp"
#include "cli/terminal.hpp"
#include "conformance/lab/run_directory.hpp"

namespace rdmawire::cli {
namespace devices {

using Json = nlohmann::ordered_json;

// "10 Gbit/s"
std::string rate(std::uint64_t bits_per_second) {
  double value = static_cast<double>(bits_per_second);
  const char* unit = "";
  for (const char* larger : {"k", "M", "G", "T"}) {
    if (value < 1000) break;
    value /= 1000;
    unit = larger;
  }
  return fmt::format("{:g} {}bit/s", value, unit);
}

Json able(const std::string& wire, const std::string& why_not) {
  return {{"wire", wire}, {"able", why_not.empty()}, {"why_not", why_not.empty() ? Json(nullptr) : Json(why_not)}};
}

Json interfaces() {
  Json list = Json::array();
  for (const replay::InterfaceDevice& device : replay::interface_devices())
    list.push_back({{"name", device.name},
                    {"state", device.state},
                    {"mtu", device.mtu},
                    {"bits_per_second", device.bits_per_second ? Json(device.bits_per_second) : Json(nullptr)},
                    {"driver", device.driver.empty() ? Json(nullptr) : Json(device.driver)},
                    {"packet", able("packet:" + device.name, device.packet_why_not)},
                    {"xdp", able("xdp:" + device.name, device.xdp_why_not)}});
  return list;
}

Json verbs() {
  const auto ports = replay::verbs_ports();
  if (!ports) return {{"why_not", ports.error().message}, {"ports", Json::array()}};
  Json list = Json::array();
  for (const replay::VerbsPort& port : *ports) {
    Json entry = able(fmt::format("verbs:{}/{}", port.device, port.port), port.why_not);
    entry["state"] = port.state;
    entry["link_layer"] = port.link_layer;
    entry["interface"] = port.interface.empty() ? Json(nullptr) : Json(port.interface);
    entry["raw_packets"] = port.raw_packets;
    entry["ibv_wr"] = port.requests;
    entry["hardware_times"] = port.hardware_times;
    entry["pacing"] = port.most_rate
                          ? Json{{"least_bits_per_second", port.least_rate}, {"most_bits_per_second", port.most_rate}}
                          : Json(nullptr);
    list.push_back(std::move(entry));
  }
  return {{"why_not", nullptr}, {"ports", list}};
}

// Wires of the running labs, from their lab.json files.
Json labs() {
  Json list = Json::array();
  const auto living = lab::RunDirectory::living();
  if (!living) return list;
  for (const auto& found : *living) {
    std::ifstream in(found.path / "lab.json");
    const Json described = Json::parse(in, nullptr, false);
    Json wires = Json::array();
    if (described.is_object()) {
      const auto add = [&wires](const Json& wire) {
        if (wire.is_string()) wires.push_back(wire);
      };
      add(described.value("wire", Json()));
      for (const Json& guest : described.value("guests", Json::array()))
        for (const Json& port : guest.value("ports", Json::array())) add(port.value("wire", Json()));
    }
    list.push_back({{"name", found.name}, {"wires", wires}});
  }
  return list;
}

std::string abilities(const Json& port) {
  std::string text = "raw packets";
  if (port["ibv_wr"] == true) text += ", ibv_wr_*";
  if (port["hardware_times"] == true) text += ", hardware times";
  if (const Json& pacing = port["pacing"]; !pacing.is_null())
    text +=
        fmt::format(", pacing {} to {}", rate(pacing["least_bits_per_second"]), rate(pacing["most_bits_per_second"]));
  return text;
}

std::string text_of(const Json& all) {
  const Json& first = all["first_namespace"];
  std::string out = fmt::format("interfaces{}\n", first.is_null() ? ""
                                                  : first == true ? " (initial network namespace)"
                                                                  : " (not the initial network namespace)");
  std::size_t width = 4;
  for (const Json& device : all["interfaces"])
    width = std::max(width, device["name"].get_ref<const std::string&>().size());
  for (const Json& device : all["interfaces"]) {
    const auto text = [&](const char* field) {
      return device[field].is_null() ? "-" : device[field].get<std::string>();
    };
    out += fmt::format("  {:<{}}  {:<10}  MTU {:<5}  {:>10}  {:<12}", text("name"), width, text("state"),
                       device["mtu"].get<unsigned>(),
                       device["bits_per_second"].is_null() ? "-" : rate(device["bits_per_second"]), text("driver"));
    const Json &packet = device["packet"], &xdp = device["xdp"];
    if (packet["able"] == true) out += "  " + packet["wire"].get<std::string>();
    if (xdp["able"] == true) out += "  " + xdp["wire"].get<std::string>();
    out += '\n';
    for (const Json* wire : {&packet, &xdp})
      if ((*wire)["able"] == false && (wire == &packet || packet["able"] == true))
        out += fmt::format("    unavailable: {}\n", (*wire)["why_not"].get<std::string>());
  }
  out += "RDMA devices\n";
  if (!all["verbs"]["why_not"].is_null())
    out += fmt::format("  none: {}\n", all["verbs"]["why_not"].get<std::string>());
  for (const Json& port : all["verbs"]["ports"]) {
    out += fmt::format("  {}  {}  {}  {}{}\n", port["wire"].get<std::string>(), port["state"].get<std::string>(),
                       port["link_layer"].get<std::string>(),
                       port["interface"].is_null() ? "-" : port["interface"].get<std::string>(),
                       port["raw_packets"] == true ? "  " + abilities(port) : "");
    if (!port["why_not"].is_null()) out += fmt::format("    unavailable: {}\n", port["why_not"].get<std::string>());
  }
  if (all["verbs"]["why_not"].is_null() && all["verbs"]["ports"].empty()) out += "  none\n";
  out += "labs\n";
  for (const Json& lab : all["labs"]) {
    out += fmt::format("  {}", lab["name"].get<std::string>());
    for (const Json& wire : lab["wires"]) out += "  " + wire.get<std::string>();
    out += '\n';
  }
  if (all["labs"].empty()) out += "  none; start one with rdmawire lab boot\n";
  out += "always available: null, file:PATH, unix:PATH\n";
  return out;
}

Exit list(bool json) {
  const auto first = replay::in_first_namespace();
  const Json all{{"first_namespace", first ? Json(*first) : Json(nullptr)},
                 {"interfaces", interfaces()},
                 {"verbs", verbs()},
                 {"labs", labs()}};
  Output output;
  output.text() = json ? all.dump(2) + "\n" : text_of(all);
  return output.finish() ? Exit::success : Exit::error;
}

}  // namespace devices

std::vector<std::string> wire_names() {
  std::vector<std::string> names{"null", "file:", "unix:"};
  for (const replay::InterfaceDevice& device : replay::interface_devices()) {
    if (device.packet_why_not.empty()) names.push_back("packet:" + device.name);
    if (device.xdp_why_not.empty()) names.push_back("xdp:" + device.name);
  }
  if (const auto ports = replay::verbs_ports())
    for (const replay::VerbsPort& port : *ports)
      if (port.why_not.empty()) names.push_back(fmt::format("verbs:{}/{}", port.device, port.port));
  return names;
}

Command devices_command() {
  const auto json = std::make_shared<bool>(false);
  Command command;
  command.name = "devices";
  command.summary = "List network interfaces, RDMA devices and running labs that can send and receive frames.";
  command.description =
      "Shows the wire name of each, its capabilities, and why it is unavailable. The wires null, file:PATH and "
      "unix:PATH are always available (see docs/reference/wires.md).";
  command.flag("--json", *json, "Print one JSON object.");
  command.examples = {{"rdmawire devices", "List the wires of this host."},
                      {"rdmawire devices --json", "Print the list for a script."},
                      {"rdmawire devices --json | jq -r '.verbs.ports[] | select(.raw_packets).wire'",
                       "Print the wires of RDMA ports that support raw packets."}};
  command.statuses = {{"0", "success"}, {"2", "usage error"}, {"3", "the output could not be written"}};
  command.run = [json](const Given&) { return devices::list(*json); };
  return command;
}

}  // namespace rdmawire::cli
