#include "conformance/report/ics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "conformance/files/json_file.hpp"
#include "conformance/report/package.hpp"
#include "dissectors/output/edit_distance.hpp"

namespace rdmawire::conformance {
namespace {

using Json = nlohmann::ordered_json;
using SortedJson = nlohmann::json;

constexpr Capability all_capabilities[] = {
    {"uc", Need::uc},
    {"ud", Need::ud},
    {"xrc", Need::xrc},
    {"atomics", Need::atomics, true, true},
    {"shared_receive_queues", Need::shared_receive_queues, true, true},
    {"memory_windows", Need::memory_windows, true, true},
    {"flush", Need::flush},
    {"atomic_write", Need::atomic_write},
    {"connection_manager", Need::connection_manager},
    {"multicast", Need::multicast},
    {"roce_v1", Need::roce_v1},
    {"ipv6"},
    {"vlan"},
    {"congestion_management"},
};

/// Limits of ibv_device_attr that a statement can contain.
constexpr std::array<std::string_view, 14> all_limits{"max_qp",
                                                      "max_qp_wr",
                                                      "max_sge",
                                                      "max_sge_rd",
                                                      "max_cq",
                                                      "max_cqe",
                                                      "max_mr",
                                                      "max_mw",
                                                      "max_srq",
                                                      "max_srq_wr",
                                                      "max_qp_rd_atomic",
                                                      "max_qp_init_rd_atomic",
                                                      "max_res_rd_atomic",
                                                      "max_multicast_groups"};

const Capability* find_capability(std::string_view name) {
  const auto* found = std::find_if(std::begin(all_capabilities), std::end(all_capabilities),
                                   [&](const Capability& one) { return one.name == name; });
  return found == std::end(all_capabilities) ? nullptr : found;
}

/// Returns whether a passed case shows that a device has the capability. Every device that never sends a CNP passes the
/// cases that expect silence.
bool shows(const Case& which, const Capability& capability) {
  if (capability.name != "congestion_management") return true;
  const std::string_view id = which.rule->id;
  return id == "congestion.notification-point.cnp.answers-mark" || id == "congestion.notification-point.cnp.format" ||
         id == "congestion.reaction-point.rate.falls";
}

/// Reads an ICS, and keeps the first error.
class Parser {
 public:
  Parser(const std::string& text, const std::string& name, const SortedJson& json)
      : text_(text), name_(name), json_(json) {}

  tl::expected<Ics, std::string> parse() {
    static constexpr std::array<std::string_view, 8> members{"format",       "note",   "implementation", "transport",
                                                             "capabilities", "limits", "ixit",           "unanswered"};
    check_names(json_, "", members);
    read_transport();
    section("implementation");
    for (const auto& [name, value] : section("capabilities").items()) read_capability(name, value);
    for (const auto& [name, value] : section("limits").items()) read_limit(name, value);
    read_ixit();
    if (error_.empty()) find_contradictions();
    if (!error_.empty()) return tl::unexpected(error_);
    return std::move(ics_);
  }

 private:
  void fail(std::string_view section, std::string_view member, const std::string& what) {
    if (!error_.empty()) return;
    error_ = section.empty()
                 ? fmt::format("{}: {}: {}: {}", name_, line_of(text_, {member}), member, what)
                 : fmt::format("{}: {}: {}.{}: {}", name_, line_of(text_, {section, member}), section, member, what);
  }
  void check_names(const SortedJson& object, std::string_view section, std::span<const std::string_view> known) {
    for (const auto& [name, value] : object.items())
      if (std::find(known.begin(), known.end(), name) == known.end())
        fail(section, name, "unknown member" + output::did_you_mean(name, known));
  }
  /// A member that is an object. Empty if it is missing.
  const SortedJson& section(const char* name) {
    static const SortedJson none = SortedJson::object();
    const auto found = json_.find(name);
    if (found == json_.end()) return none;
    if (found->is_object()) return *found;
    return fail("", name, "must be an object"), none;
  }

  void read_transport() {
    const auto found = json_.find("transport");
    if (found == json_.end() || !found->is_string() || (*found != "roce" && *found != "iwarp"))
      return fail("", "transport", "must be \"roce\" or \"iwarp\"");
    ics_.family = *found == "iwarp" ? Family::iwarp : Family::infiniband;
  }
  void read_capability(const std::string& name, const SortedJson& value) {
    const Capability* which = find_capability(name);
    if (!which) {
      std::vector<std::string> names;
      for (const Capability& one : all_capabilities) names.emplace_back(one.name);
      return fail("capabilities", name, "unknown capability" + output::did_you_mean(name, names));
    }
    if (value.is_null()) return;
    if (!value.is_boolean()) return fail("capabilities", name, "must be true, false or null (no statement)");
    const bool has = value.get<bool>();
    if (has && !(ics_.family == Family::iwarp ? which->iwarp : which->roce))
      return fail("capabilities", name, fmt::format("is true, but {} does not have it", to_string(ics_.family)));
    ics_.capabilities.emplace(name, has);
  }
  void read_limit(const std::string& name, const SortedJson& value) {
    if (std::find(all_limits.begin(), all_limits.end(), name) == all_limits.end())
      return fail("limits", name, "unknown limit" + output::did_you_mean(name, all_limits));
    if (value.is_null()) return;
    if (!value.is_number_unsigned()) return fail("limits", name, "must be a whole number or null (no statement)");
    ics_.limits.emplace(name, value.get<std::uint64_t>());
  }

  void read_ixit() {
    const SortedJson& ixit = section("ixit");
    static constexpr std::array<std::string_view, 11> members{
        "device",           "wire", "credentials", "allow",          "congestion_management",
        "multicast",        "slow", "dangerous",   "case_timeout_s", "frames_per_second",
        "max_device_losses"};
    check_names(ixit, "ixit", members);
    Ixit& to = ics_.ixit;
    text(ixit, "device", to.device);
    text(ixit, "wire", to.wire);
    text(ixit, "credentials", to.credentials);
    flag(ixit, "congestion_management", to.congestion_management);
    flag(ixit, "multicast", to.multicast);
    flag(ixit, "slow", to.slow);
    flag(ixit, "dangerous", to.dangerous);
    number(ixit, "frames_per_second", 0, to.frames_per_second);
    number(ixit, "max_device_losses", 1, to.max_device_losses);
    if (const SortedJson* value = member(ixit, "case_timeout_s")) {
      constexpr double most = 1e6;
      if (value->is_number() && value->get<double>() > 0 && value->get<double>() <= most)
        to.case_timeout = value->get<double>();
      else
        fail("ixit", "case_timeout_s", "must be a number of seconds from 0 to 1000000");
    }
    if (const SortedJson* value = member(ixit, "allow")) {
      if (!value->is_array() ||
          !std::all_of(value->begin(), value->end(), [](const SortedJson& one) { return one.is_string(); }))
        return fail("ixit", "allow", "must be a list of addresses");
      to.allow = value->get<std::vector<std::string>>();
    }
  }
  static const SortedJson* member(const SortedJson& object, const char* name) {
    const auto found = object.find(name);
    return found == object.end() || found->is_null() ? nullptr : &*found;
  }
  void text(const SortedJson& object, const char* name, std::optional<std::string>& to) {
    const SortedJson* value = member(object, name);
    if (!value) return;
    if (!value->is_string() || value->get_ref<const std::string&>().empty())
      return fail("ixit", name, "must be a text");
    to = value->get<std::string>();
  }
  void flag(const SortedJson& object, const char* name, std::optional<bool>& to) {
    const SortedJson* value = member(object, name);
    if (!value) return;
    if (!value->is_boolean()) return fail("ixit", name, "must be true or false");
    to = value->get<bool>();
  }
  void number(const SortedJson& object, const char* name, std::uint32_t least, std::optional<std::uint32_t>& to) {
    constexpr std::uint32_t most = 1'000'000'000;
    const SortedJson* value = member(object, name);
    if (!value) return;
    if (!value->is_number_unsigned() || value->get<std::uint64_t>() < least || value->get<std::uint64_t>() > most)
      return fail("ixit", name, fmt::format("must be a whole number from {} to {}", least, most));
    to = static_cast<std::uint32_t>(value->get<std::uint64_t>());
  }

  [[nodiscard]] std::optional<std::uint64_t> limit(std::string_view name) const {
    const auto found = ics_.limits.find(name);
    return found == ics_.limits.end() ? std::nullopt : std::optional(found->second);
  }

  void find_contradictions() {
    if (ics_.claims("multicast") == true && ics_.claims("ud") == false)
      fail("capabilities", "multicast", "is true, but capabilities.ud is false: multicast requires UD");
    for (const auto& [capability, of] : {std::pair("shared_receive_queues", "max_srq"),
                                         {"memory_windows", "max_mw"},
                                         {"multicast", "max_multicast_groups"}}) {
      const auto claim = ics_.claims(capability);
      const auto most = limit(of);
      if (claim == true && most == 0U) fail("limits", of, fmt::format("is 0, but capabilities.{} is true", capability));
      // A device may have memory windows of type 1 only.
      if (claim == false && most.value_or(0) > 0 && std::string_view(of) != "max_mw")
        fail("limits", of, fmt::format("is {}, but capabilities.{} is false", *most, capability));
    }
    for (const auto& [of, total] : {std::pair("max_qp_rd_atomic", "max_res_rd_atomic"), {"max_sge_rd", "max_sge"}})
      if (limit(of) && limit(total) && *limit(of) > *limit(total))
        fail("limits", of, fmt::format("is {}, but limits.{} is only {}", *limit(of), total, *limit(total)));
    const Ixit& ixit = ics_.ixit;
    if (ixit.congestion_management == true && ics_.claims("congestion_management") == false)
      fail("ixit", "congestion_management", "is true, but capabilities.congestion_management is false");
    if (ixit.multicast == true && ics_.claims("multicast") == false)
      fail("ixit", "multicast", "is true, but capabilities.multicast is false");
    if (ixit.wire && ixit.device && !ixit.device->starts_with("agent:"))
      fail("ixit", "wire", fmt::format("has no effect on the device {}; expected agent:ADDRESS", *ixit.device));
  }

  const std::string& text_;
  const std::string& name_;
  const SortedJson& json_;
  Ics ics_;
  std::string error_;
};

std::string text_of_flag(bool value) { return value ? "true" : "false"; }

}  // namespace

std::span<const Capability> capabilities() { return all_capabilities; }

bool tests(const Case& which, const Capability& capability) {
  if (capability.need != Need::nothing && needs(which.needs, capability.need)) return true;
  const std::string_view id = which.rule->id, variant = which.variant;
  if (capability.name == "ipv6")
    return id == "roce.sender.ipv6.payload-length" || id == "roce.sender.icrc.over-ipv6" || variant == "IPv6" ||
           variant.starts_with("IPv6 as ") || variant.starts_with("IPv6, ");
  if (capability.name == "vlan") return id.starts_with("roce.sender.vlan.") || variant == "VLAN";
  if (capability.name == "roce_v1") return variant == "RoCEv1";
  return capability.name == "congestion_management" &&
         (id.starts_with("congestion.notification-point.") || id.starts_with("congestion.reaction-point."));
}

tl::expected<Ics, std::string> Ics::parse(const std::string& text, const std::string& name) {
  const auto json = parse_json(text);
  if (!json) return tl::unexpected(fmt::format("{}: {}", name, json.error()));
  if (const std::string why = wrong_format(*json, text); !why.empty())
    return tl::unexpected(fmt::format("{}: {}", name, why));
  return Parser(text, name, *json).parse();
}

tl::expected<Ics, std::string> Ics::read(const std::filesystem::path& path) {
  const auto text = text_of_file(path);
  if (!text) return tl::unexpected(text.error());
  return parse(*text, path.string());
}

std::optional<bool> Ics::claims(std::string_view capability) const {
  const auto found = capabilities.find(capability);
  return found == capabilities.end() ? std::nullopt : std::optional(found->second);
}

ReportedCapabilities query_capabilities(Target& target) {
  const DeviceUnderTest& device = target.device();
  ReportedCapabilities reported;
  reported.family = device.family();
  const auto described = device.peer->call("describe", {{"device", device.device->handle()}});
  if (described && described->contains("limits") && (*described)["limits"].is_object())
    for (const auto& [name, value] : (*described)["limits"].items())
      if (value.is_number_unsigned()) reported.limits.emplace(name, value.get<std::uint64_t>());
  for (const Need need :
       {Need::xrc, Need::atomics, Need::shared_receive_queues, Need::memory_windows, Need::flush, Need::atomic_write}) {
    const auto* which = std::find_if(std::begin(all_capabilities), std::end(all_capabilities),
                                     [&](const Capability& one) { return one.need == need; });
    if (described && (reported.family == Family::iwarp ? which->iwarp : which->roce))
      reported.capabilities.emplace(which->name, lacking(device, need).empty());
  }
  if (reported.family == Family::iwarp) return reported;
  if (const auto found = reported.limits.find("max_multicast_groups"); found != reported.limits.end())
    reported.capabilities.emplace("multicast", found->second > 0);
  // A device on which it is disabled may still support it.
  if (device.congestion_management == true) reported.capabilities.emplace("congestion_management", true);
  // Without an address of the kind, the device may still support it.
  for (const auto& [name, way] :
       {std::pair("ipv6", &device.ipv6), {"vlan", &device.vlan}, {"roce_v1", &device.roce_v1}})
    if (*way) reported.capabilities.emplace(name, true);
  return reported;
}

Json ics_template(Target& target, const TargetOptions& options) {
  const ReportedCapabilities reported = query_capabilities(target);
  const Json device = description_of(target);
  const bool iwarp = reported.family == Family::iwarp;
  const auto known = [&](const char* member) { return device.contains(member) ? device[member] : Json(nullptr); };
  Json all = Json::object(), most = Json::object();
  std::vector<std::string> unanswered{"implementation.vendor", "implementation.model"};
  for (const Capability& one : all_capabilities) {
    if (!(iwarp ? one.iwarp : one.roce)) continue;
    const auto found = reported.capabilities.find(one.name);
    all[std::string(one.name)] = found == reported.capabilities.end() ? Json(nullptr) : Json(found->second);
    if (found == reported.capabilities.end()) unanswered.push_back(fmt::format("capabilities.{}", one.name));
  }
  for (const std::string_view name : all_limits)
    if (const auto found = reported.limits.find(name); found != reported.limits.end())
      most[std::string(name)] = found->second;
  Json ixit{{"device", options.device}};
  if (!options.wire.empty()) ixit["wire"] = options.wire;
  if (!options.allowed.empty()) ixit["allow"] = options.allowed;
  if (!options.credentials.empty()) ixit["credentials"] = options.credentials;
  if (!iwarp)
    ixit["congestion_management"] =
        options.congestion_management ? Json(*options.congestion_management) : Json(nullptr);
  if (!iwarp) ixit["multicast"] = options.multicast;
  ixit["slow"] = options.slow;
  ixit["dangerous"] = options.dangerous;
  return {{"format", 1},
          {"note",
           "Correct each value that differs from the device's documentation. Replace null, or keep it: no statement."},
          {"implementation",
           {{"vendor", nullptr},
            {"model", nullptr},
            {"firmware", known("firmware")},
            {"vendor_id", known("vendor_id")},
            {"vendor_part_id", known("vendor_part_id")},
            {"hw_ver", known("hw_ver")}}},
          {"transport", iwarp ? "iwarp" : "roce"},
          {"capabilities", std::move(all)},
          {"limits", std::move(most)},
          {"ixit", std::move(ixit)},
          {"unanswered", unanswered}};
}

std::string_view to_string(IcsFinding::Status status) {
  switch (status) {
    case IcsFinding::Status::pass: return "pass";
    case IcsFinding::Status::fail: return "fail";
    case IcsFinding::Status::unclaimed: return "unclaimed";
    case IcsFinding::Status::absent: return "absent";
    case IcsFinding::Status::not_tested: break;
  }
  return "not tested";
}

void apply(const Ics& ics, const ReportedCapabilities& reported, CaseResult& result) {
  if (result.judgment.verdict != Verdict::unsupported) return;
  for (const Capability& one : all_capabilities) {
    if (one.need == Need::nothing || !needs(result.of->needs, one.need) || ics.claims(one.name) != true) continue;
    const auto found = reported.capabilities.find(one.name);
    if (found == reported.capabilities.end() || found->second) continue;
    result.judgment = {Verdict::fail, fmt::format("{}, which the ICS declares", one.name), result.judgment.actual};
    return;
  }
}

std::vector<IcsFinding> check_ics(const Ics& ics, const ReportedCapabilities& reported,
                                  std::span<const CaseResult> results) {
  using Status = IcsFinding::Status;
  std::vector<IcsFinding> findings;
  for (const Capability& one : all_capabilities) {
    const auto claimed = ics.claims(one.name);
    if (!claimed) continue;
    IcsFinding& finding = findings.emplace_back();
    finding.member = fmt::format("capabilities.{}", one.name);
    finding.claimed = text_of_flag(*claimed);
    const auto found = reported.capabilities.find(one.name);
    std::optional<bool> has;
    if (found != reported.capabilities.end()) has = found->second;
    if (has) finding.reported = text_of_flag(*has);
    bool shown = false;
    for (const CaseResult& result : results) {
      if (!tests(*result.of, one)) continue;
      switch (result.judgment.verdict) {
        case Verdict::pass:
          ++finding.passed;
          shown |= shows(*result.of, one);
          break;
        case Verdict::fail:
        case Verdict::fail_wrong_code: ++finding.failed; break;
        case Verdict::unsupported: ++finding.unsupported; break;
        default: ++finding.other; break;
      }
    }
    if (*claimed)
      finding.status = has == false || finding.failed > 0 ? Status::fail
                       : shown || has == true             ? Status::pass
                                                          : Status::not_tested;
    else
      // A passed case shows a capability only if verbs cannot query it: other cases test that it is rejected.
      finding.status = has == true || (!has && shown) ? Status::unclaimed : Status::absent;
  }
  for (const auto& [name, claimed] : ics.limits) {
    IcsFinding& finding = findings.emplace_back();
    finding.member = fmt::format("limits.{}", name);
    finding.claimed = std::to_string(claimed);
    const auto found = reported.limits.find(name);
    if (found == reported.limits.end()) {
      finding.status = Status::not_tested;
      continue;
    }
    finding.reported = std::to_string(found->second);
    finding.status = found->second < claimed   ? Status::fail
                     : found->second > claimed ? Status::unclaimed
                                               : Status::pass;
  }
  return findings;
}

std::string text_of(std::span<const IcsFinding> findings) {
  std::string text;
  std::map<IcsFinding::Status, std::size_t> counts;
  for (const IcsFinding& one : findings) {
    ++counts[one.status];
    if (one.status == IcsFinding::Status::pass || one.status == IcsFinding::Status::absent) continue;
    text += fmt::format("ICS {:<10} {}: declared {}, reported by the device: {}", to_string(one.status), one.member,
                        one.claimed, one.reported.empty() ? "unknown" : one.reported);
    if (one.passed + one.failed + one.unsupported + one.other > 0)
      text += fmt::format("; cases: {} pass, {} fail, {} unsupported, {} other", one.passed, one.failed,
                          one.unsupported, one.other);
    text += "\n";
  }
  text += "ICS:";
  const char* separator = " ";
  for (const auto& [status, count] : counts) {
    text += fmt::format("{}{} {}", separator, count, to_string(status));
    separator = ", ";
  }
  return text + (counts.empty() ? " no statements\n" : "\n");
}

Json to_json(std::span<const IcsFinding> findings) {
  Json list = Json::array();
  for (const IcsFinding& one : findings) {
    list.push_back({{"status", to_string(one.status)}, {"member", one.member}, {"claimed", one.claimed}});
    if (!one.reported.empty()) list.back()["reported"] = one.reported;
    list.back()["cases"] = {
        {"pass", one.passed}, {"fail", one.failed}, {"unsupported", one.unsupported}, {"other", one.other}};
  }
  return list;
}

}  // namespace rdmawire::conformance
