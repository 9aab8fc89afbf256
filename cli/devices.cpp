/// rdmawire devices: the wires that are here, and what each can do.

#include "replay/wires/devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "cli/terminal.hpp"
#include "conformance/lab/run_directory.hpp"

namespace rdmawire::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* description =
    "Lists what frames can be sent from and received on here: network interfaces, RDMA devices, labs that are up; "
    "what\n"
    "each can do, and why not.";
constexpr const char* examples = R"(Examples:
  rdmawire devices
  rdmawire devices --json | jq -r '.verbs.ports[] | select(.raw_packets).wire'

Besides there are always null, file:PATH and unix:PATH. docs/wires.md tells of all options.

Exit status: 0 fine, 2 wrong usage, 3 the output could not be written.)";

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

// The wires of the labs that are up, as their own descriptions say.
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
  std::string out =
      fmt::format("interfaces of this network namespace{}\n", first.is_null() ? ""
                                                              : first == true ? ", the machine's first"
                                                                              : ", not the machine's first");
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
        out += fmt::format("    no: {}\n", (*wire)["why_not"].get<std::string>());
  }
  out += "RDMA devices\n";
  if (!all["verbs"]["why_not"].is_null())
    out += fmt::format("  none: {}\n", all["verbs"]["why_not"].get<std::string>());
  for (const Json& port : all["verbs"]["ports"]) {
    out += fmt::format("  {}  {}  {}  {}{}\n", port["wire"].get<std::string>(), port["state"].get<std::string>(),
                       port["link_layer"].get<std::string>(),
                       port["interface"].is_null() ? "-" : port["interface"].get<std::string>(),
                       port["raw_packets"] == true ? "  " + abilities(port) : "");
    if (!port["why_not"].is_null()) out += fmt::format("    no: {}\n", port["why_not"].get<std::string>());
  }
  if (all["verbs"]["why_not"].is_null() && all["verbs"]["ports"].empty()) out += "  none\n";
  out += "labs\n";
  for (const Json& lab : all["labs"]) {
    out += fmt::format("  {}", lab["name"].get<std::string>());
    for (const Json& wire : lab["wires"]) out += "  " + wire.get<std::string>();
    out += '\n';
  }
  if (all["labs"].empty()) out += "  none is up; rdmawire lab boot brings one\n";
  out += "always: null, file:PATH, unix:PATH\n";
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
  return output.finish() ? Exit::fine : Exit::trouble;
}

}  // namespace

void add_devices(CLI::App& app, Work& work) {
  const auto json = std::make_shared<bool>(false);
  CLI::App* sub = app.add_subcommand("devices", description);
  sub->footer(examples);
  sub->add_flag("--json", *json, "as one JSON object");
  sub->callback([=, &work] { work = [json] { return list(*json); }; });
}

}  // namespace rdmawire::cli
