#include "conformance/fuzzer/script.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dissectors/protocol/mad.hpp"
#include "dissectors/protocol/opcode.hpp"
#include "dissectors/protocol/rdmap.hpp"
#include "dissectors/protocol/registry.hpp"

namespace rdmawire::fuzzer {

namespace {

constexpr std::array<std::string_view, step_kinds> kind_names = {
    "connect", "request",       "answer",     "receive",    "post",          "wait",   "modify",  "notify",
    "bind",    "fast_register", "invalidate", "deregister", "attach",        "detach", "destroy", "destroy_cq",
    "cm",      "cm_connect",    "cm_accept",  "cm_reject",  "cm_disconnect", "setup",  "accept",  "reject",
    "segment", "fin",           "abort",      "disconnect"};
constexpr std::array<std::string_view, keys> key_names = {"everything", "read_only", "write_only", "closed",
                                                          "foreign",    "fast",      "window",     "window_elsewhere",
                                                          "window_1",   "unknown"};
constexpr std::array<std::string_view, ways> way_names = {"usual",         "foreign_source", "foreign_target",
                                                          "other_version", "ipv6",           "group"};
constexpr std::array<std::string_view, Mutation::kinds> mutation_names = {
    "set",  "add",  "bad_icrc", "bad_sum", "stale_icrc", "truncate", "extend", "cut",   "duplicate",
    "drop", "hold", "splice",   "bad_crc", "stale_crc",  "pad",      "marker", "split", "join"};
constexpr std::array<std::string_view, 2> family_names = {"roce", "iwarp"};

template <class Enum, std::size_t Count>
bool find_name(const std::array<std::string_view, Count>& names, std::string_view text, Enum& value) {
  const auto found = std::ranges::find(names, text);
  if (found == names.end()) return false;
  value = static_cast<Enum>(found - names.begin());
  return true;
}

constexpr bool names_a_field(Mutation::Kind kind) { return kind == Mutation::Kind::set || kind == Mutation::Kind::add; }

nlohmann::ordered_json to_json(const Mutation& mutation) {
  nlohmann::ordered_json json;
  json["do"] = to_string(mutation.kind);
  if (names_a_field(mutation.kind)) json["field"] = fmt::format("{}.{}", mutation.header->name, mutation.field->name);
  if (mutation.value != 0) json["value"] = mutation.value;
  return json;
}

std::string text_of(const Mutation& mutation) {
  if (mutation.kind == Mutation::Kind::set)
    return fmt::format("{}.{} = {}", mutation.header->name, mutation.field->name,
                       static_cast<std::uint64_t>(mutation.value));
  if (mutation.kind == Mutation::Kind::add)
    return fmt::format("{}.{} {:+}", mutation.header->name, mutation.field->name, mutation.value);
  return mutation.value != 0 ? fmt::format("{} {}", to_string(mutation.kind), mutation.value)
                             : std::string(to_string(mutation.kind));
}

struct Wrong {
  std::string what;
};

Mutation read_mutation(const nlohmann::json& json) {
  if (!json.is_object()) throw Wrong{"a mutation must be an object"};
  Mutation mutation;
  bool named = false;
  for (const auto& [name, value] : json.items()) {
    if (name == "do") {
      if (!value.is_string() || !find_name(mutation_names, value.get<std::string>(), mutation.kind))
        throw Wrong{fmt::format("unknown mutation {}", value.dump())};
      named = true;
    } else if (name == "field") {
      const FieldRef found = value.is_string() ? find_field(value.get<std::string>()) : FieldRef{};
      if (!found || !found.field->is_number()) throw Wrong{fmt::format("unknown field {}", value.dump())};
      mutation.header = found.header;
      mutation.field = found.field;
    } else if (name == "value") {
      if (!value.is_number_integer()) throw Wrong{"value must be an integer"};
      mutation.value = value.is_number_unsigned() ? static_cast<std::int64_t>(value.get<std::uint64_t>())
                                                  : value.get<std::int64_t>();
    } else {
      throw Wrong{fmt::format("unknown member {} of a mutation; expected do, field, value", name)};
    }
  }
  if (!named) throw Wrong{"a mutation requires the member \"do\""};
  if (names_a_field(mutation.kind) != (mutation.field != nullptr))
    throw Wrong{
        fmt::format("{} {} a field", to_string(mutation.kind), mutation.field ? "does not accept" : "requires")};
  return mutation;
}

Step read_step(const nlohmann::json& json, Family family) {
  if (!json.is_object()) throw Wrong{"a step must be an object"};
  Step step;
  bool named = false;
  for (const auto& [name, value] : json.items()) {
    if (name == "do") {
      if (!value.is_string() || !find_name(kind_names, value.get<std::string>(), step.kind))
        throw Wrong{fmt::format("unknown step {}", value.dump())};
      named = true;
    } else if (name == "mutations") {
      if (!value.is_array() || value.size() > 64) throw Wrong{"mutations must be a list of at most 64 elements"};
      for (const auto& one : value) step.mutations.push_back(read_mutation(one));
    } else if (name == "mutated") {
      if (!value.is_boolean()) throw Wrong{"\"mutated\" must be a boolean"};
      step.mutated = value.get<bool>();
    } else {
      const auto member = std::ranges::find(step_members, name, &StepMember::name);
      if (member == step_members.end()) throw Wrong{fmt::format("unknown member {} of a step", name)};
      Key key{};
      Way way{};
      if (name == "key" && value.is_string() && find_name(key_names, value.get<std::string>(), key)) {
        step.key = static_cast<std::int64_t>(key);
      } else if (name == "way" && value.is_string() && find_name(way_names, value.get<std::string>(), way)) {
        step.way = static_cast<std::int64_t>(way);
      } else {
        if (!value.is_number_integer()) throw Wrong{fmt::format("{} must be an integer", name)};
        step.*(member->member) = value.is_number_unsigned() ? static_cast<std::int64_t>(value.get<std::uint64_t>())
                                                            : value.get<std::int64_t>();
      }
    }
  }
  if (!named) throw Wrong{"a step requires do"};
  if (!belongs_to(step.kind, family))
    throw Wrong{fmt::format("{1} is not a step of {0}", to_string(family), to_string(step.kind))};
  if (step.at < 0 || step.at > 1) throw Wrong{"at must be 0 or 1"};
  if (step.key < 0 || step.key >= static_cast<std::int64_t>(keys)) throw Wrong{"unknown key"};
  if (step.way < 0 || step.way >= static_cast<std::int64_t>(ways)) throw Wrong{"unknown way"};
  if (step.payload < 0 || step.payload > 8192) throw Wrong{"payload must be 0 to 8192 bytes"};
  if (step.count < 0 || step.count > 64) throw Wrong{"count must be 0 to 64"};
  if (step.nanoseconds < 0 || step.nanoseconds > 10'000'000'000) throw Wrong{"nanoseconds must be at most 10 seconds"};
  return step;
}

}  // namespace

const std::array<StepMember, 32> step_members = {{
    {"at", &Step::at},
    {"opcode", &Step::opcode},
    {"psn", &Step::psn},
    {"own_psn", &Step::own_psn},
    {"payload", &Step::payload},
    {"length", &Step::length},
    {"key", &Step::key},
    {"offset", &Step::offset},
    {"flags", &Step::flags},
    {"syndrome", &Step::syndrome},
    {"msn", &Step::msn},
    {"immediate", &Step::immediate},
    {"value", &Step::value},
    {"compare", &Step::compare},
    {"way", &Step::way},
    {"number", &Step::number},
    {"nanoseconds", &Step::nanoseconds},
    {"service", &Step::service},
    {"state", &Step::state},
    {"rights", &Step::rights},
    {"depth", &Step::depth},
    {"count", &Step::count},
    {"timeout", &Step::timeout},
    {"retries", &Step::retries},
    {"queues", &Step::queues},
    {"mask", &Step::mask},
    {"mo", &Step::mo},
    {"queue", &Step::queue},
    {"ird", &Step::ird},
    {"ord", &Step::ord},
    {"own_depth", &Step::own_depth},
    {"compare_mask", &Step::compare_mask},
}};

std::string_view to_string(Family family) { return family_names[static_cast<std::size_t>(family)]; }
bool belongs_to(StepKind kind, Family family) {
  if (kind >= StepKind::setup) return family == Family::iwarp;
  constexpr StepKind of_roce[] = {StepKind::modify, StepKind::attach, StepKind::detach, StepKind::destroy_cq};
  return family == Family::roce ||
         !(is_packet(kind) || is_of_connections(kind) || std::ranges::find(of_roce, kind) != std::end(of_roce));
}
std::string_view to_string(StepKind kind) { return kind_names[static_cast<std::size_t>(kind)]; }
std::string_view to_string(Key key) { return key_names[static_cast<std::size_t>(key)]; }
std::string_view to_string(Way way) { return way_names[static_cast<std::size_t>(way)]; }
std::string_view to_string(Mutation::Kind kind) { return mutation_names[static_cast<std::size_t>(kind)]; }

nlohmann::ordered_json to_json(const Step& step) {
  nlohmann::ordered_json json;
  json["do"] = to_string(step.kind);
  for (const StepMember& member : step_members)
    if (const std::int64_t value = step.*(member.member); value != 0) {
      if (member.member == &Step::key)
        json["key"] = to_string(static_cast<Key>(value));
      else if (member.member == &Step::way)
        json["way"] = to_string(static_cast<Way>(value));
      else
        json[std::string(member.name)] = value;
    }
  if (!step.mutations.empty())
    for (const Mutation& mutation : step.mutations) json["mutations"].push_back(to_json(mutation));
  if (step.mutated) json["mutated"] = true;
  return json;
}

nlohmann::ordered_json to_json(const Script& script) {
  nlohmann::ordered_json json;
  if (script.family != Family::roce) json["family"] = to_string(script.family);
  json["seed"] = script.seed;
  json["steps"] = nlohmann::ordered_json::array();
  for (const Step& step : script.steps) json["steps"].push_back(to_json(step));
  return json;
}

tl::expected<Script, std::string> parse_script(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) return tl::unexpected(std::string("a script: invalid JSON"));
  if (!json.is_object() || !json.contains("steps") || !json["steps"].is_array())
    return tl::unexpected(std::string("a script: not an object with a list of steps"));
  Script script;
  if (json.contains("family"))
    if (!json["family"].is_string() || !find_name(family_names, json["family"].get<std::string>(), script.family))
      return tl::unexpected(fmt::format("a script: unknown family {}", json["family"].dump()));
  if (json.contains("seed")) {
    if (!json["seed"].is_number_unsigned())
      return tl::unexpected(std::string("a script: seed must be an unsigned integer"));
    script.seed = json["seed"].get<std::uint64_t>();
  }
  for (const auto& one : json["steps"]) try {
      script.steps.push_back(read_step(one, script.family));
    } catch (const Wrong& wrong) {
      return tl::unexpected(fmt::format("a script: step {}: {}", script.steps.size(), wrong.what));
    }
  return script;
}

tl::expected<Step, std::string> parse_step(const std::string& text, Family family) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) return tl::unexpected(std::string("a step: invalid JSON"));
  try {
    return read_step(json, family);
  } catch (const Wrong& wrong) {
    return tl::unexpected("a step: " + wrong.what);
  }
}

std::string text_of(const Step& step) {
  std::string text(to_string(step.kind));
  const bool cm = step.kind == StepKind::cm, packet = is_packet(step.kind) && !cm;
  if (cm) {
    const Name* message = cm_attribute_names.find(static_cast<std::uint64_t>(step.opcode));
    text += message ? fmt::format(" {}", message->name) : fmt::format(" attribute {:#06x}", step.opcode & 0xffff);
  }
  if (packet) {
    const Opcode& op = opcode(static_cast<std::uint8_t>(step.opcode));
    text += op.known ? fmt::format(" {}", op.name) : fmt::format(" opcode {:#04x}", step.opcode & 0xff);
    text += fmt::format(" psn {:+}", step.psn);
  }
  if (step.kind == StepKind::segment) {
    const RdmapOpcode& op = rdmap_opcode(static_cast<unsigned>(step.opcode) & 15U);
    text += op.known ? fmt::format(" {}", op.name) : fmt::format(" opcode {}", step.opcode & 15);
  }
  for (const StepMember& member : step_members) {
    const std::int64_t value = step.*(member.member);
    if (value == 0 || (packet && member.member == &Step::psn) ||
        ((is_packet(step.kind) || step.kind == StepKind::segment) && member.member == &Step::opcode))
      continue;
    if (member.member == &Step::key)
      text += fmt::format(" key {}", to_string(static_cast<Key>(value)));
    else if (member.member == &Step::way)
      text += fmt::format(" way {}", to_string(static_cast<Way>(value)));
    else
      text += fmt::format(" {} {}", member.name, value);
  }
  for (const Mutation& mutation : step.mutations) text += "; " + text_of(mutation);
  return text;
}

}  // namespace rdmawire::fuzzer
