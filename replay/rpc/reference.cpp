/// The reference page and the JSON schema of the protocol.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "replay/rpc/protocol.hpp"

namespace rdmawire::rpc {
namespace {

using Form = Type::Form;

std::string names_text(Names names) {
  std::string text;
  for (const Name& entry : names) text += fmt::format("{}`{}`", text.empty() ? "" : ", ", entry.name);
  return text;
}

/// The type and the range: "number, 1 to 255", "list of [Sge](#sge)".
std::string type_text(const Type& type, const Limits& limits) {
  switch (type.form) {
    case Form::number: {
      const std::uint64_t most = std::min(limits.most, type.most);
      const bool whole_range = limits.least == 0 && most == type.most;
      if (whole_range && type.most > 0xffff) return "number";
      return fmt::format("number, {} to {}", limits.least, most);
    }
    case Form::boolean: return "boolean";
    case Form::text: return "text";
    case Form::bytes:
      if (limits.least == limits.most) return fmt::format("{} bytes", limits.most);
      return limits.most == Limits{}.most ? "bytes" : fmt::format("bytes, at most {}", limits.most);
    case Form::handle: return fmt::format("handle of {}", description_of(type.kind));
    case Form::choice: return "one of " + names_text(*type.names);
    case Form::flags: return "list of " + names_text(*type.names);
    case Form::list: {
      std::string text = "list of " + (type.element->form == Form::any ? "objects" : type_text(*type.element, {}));
      if (type.element->form == Form::number) text = "list of numbers";
      if (type.element->form == Form::text) text = "list of texts";
      if (limits.least > 0)
        text += fmt::format(", {} to {}", limits.least, limits.most);
      else if (limits.most != Limits{}.most)
        text += fmt::format(", at most {}", limits.most);
      return text;
    }
    case Form::structure: {
      const std::string_view name = type.structure().name;
      std::string anchor;
      for (const char c : name) anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      return fmt::format("[{}](#{})", name, anchor);
    }
    case Form::numbers: return "object of numbers";
    case Form::any: return "object";
  }
  return {};
}

/// "optional number, 1 to 4096: completions to return (default 16)"
std::string field_text(const Field& field, std::string_view meaning) {
  std::string text = field.required || field.limits.null ? "" : "optional ";
  text += type_text(*field.type, field.limits);
  if (!meaning.empty()) text += fmt::format("{}{}", meaning.front() == '(' ? " " : ": ", meaning);
  if (!field.required) {
    const auto initial = field.initial();
    if (initial && !initial->is_structured() && *initial != "" && !field.limits.null)
      text += fmt::format(" (default {})",
                          initial->is_string() ? '`' + initial->get<std::string>() + '`' : initial->dump());
  }
  if (!field.limits.condition.text.empty()) text += ", " + std::string(field.limits.condition.text);
  if (field.limits.extension) text += ". Only reference devices";
  return text;
}

/// The members of a result or an event are not marked as optional: whether they are present depends on the device.
std::string result_text(const Field& field, std::string_view meaning) {
  std::string text = type_text(*field.type, {});
  if (field.type->form == Form::number && field.type->most <= 0xffff) text = "number";
  if (!meaning.empty()) text += fmt::format("{}{}", meaning.front() == '(' ? " " : ": ", meaning);
  if (field.limits.extension) text += ". Only reference devices";
  return text;
}

/// A table. Fields whose texts are equal share a row.
void add_rows(std::string& text, std::string_view head, const Fields& fields, bool is_result) {
  if (fields.empty()) return;
  text += fmt::format("\n| {} | |\n|---|---|\n", head);
  std::string names, row, meaning;
  const auto finish = [&] {
    if (!names.empty()) text += fmt::format("| {} | {} |\n", names, row);
  };
  for (const Field& field : fields) {
    const bool shares = field.meaning == same;
    if (!shares) meaning = field.meaning;
    std::string own = is_result ? result_text(field, meaning) : field_text(field, meaning);
    if (!names.empty() && own == row) {
      names += fmt::format(", `{}`", field.name);
      continue;
    }
    finish();
    names = fmt::format("`{}`", field.name);
    row = std::move(own);
  }
  finish();
}

/// Structures within the fields, in order of appearance.
void collect(const Fields& fields, std::vector<const Structure*>& into) {
  for (const Field& field : fields) {
    const Type* type = field.type;
    while (type->element != nullptr) type = type->element;
    if (type->form != Form::structure) continue;
    const Structure& found = type->structure();
    if (std::find(into.begin(), into.end(), &found) != into.end()) continue;
    into.push_back(&found);
    collect(found.fields, into);
  }
}

std::vector<const Structure*> structures() {
  std::vector<const Structure*> all;
  for (const Family& family : families()) {
    for (const Command* command : family.commands) {
      collect(command->arguments, all);
      collect(command->result, all);
    }
  }
  for (const EventType* event : events()) collect(event->fields, all);
  return all;
}

Json schema_of(const Type& type, const Limits& limits) {
  switch (type.form) {
    case Form::number:
      return {{"type", "integer"}, {"minimum", limits.least}, {"maximum", std::min(limits.most, type.most)}};
    case Form::boolean: return {{"type", "boolean"}};
    case Form::text: return {{"type", "string"}};
    case Form::bytes: {
      Json schema = {{"type", "string"}, {"pattern", "^([0-9A-Fa-f]{2})*$"}};
      if (limits.least > 0) schema["minLength"] = 2 * limits.least;
      if (limits.most != Limits{}.most) schema["maxLength"] = 2 * limits.most;
      return schema;
    }
    case Form::handle: return {{"type", "integer"}, {"minimum", 1}};
    case Form::choice:
    case Form::flags: {
      Json names = Json::array();
      for (const Name& entry : *type.names) names.push_back(entry.name);
      const Json one = {{"enum", std::move(names)}};
      return type.form == Form::choice ? one : Json{{"type", "array"}, {"items", one}};
    }
    case Form::list: {
      Json schema = {{"type", "array"}, {"items", schema_of(*type.element, {})}};
      if (limits.least > 0) schema["minItems"] = limits.least;
      if (limits.most != Limits{}.most) schema["maxItems"] = limits.most;
      return schema;
    }
    case Form::structure: return {{"$ref", fmt::format("#/$defs/{}", type.structure().name)}};
    case Form::numbers: return {{"type", "object"}, {"additionalProperties", {{"type", "integer"}}}};
    case Form::any: return {{"type", "object"}};
  }
  return {};
}

/// `closed`: other members are errors.
Json schema_of(const Fields& fields, bool closed) {
  Json properties = Json::object(), mandatory = Json::array();
  std::string_view meaning;
  for (const Field& field : fields) {
    Json schema = schema_of(*field.type, field.limits);
    if (field.limits.null) schema = {{"anyOf", Json::array({std::move(schema), {{"type", "null"}}})}};
    if (field.meaning != same) meaning = field.meaning;
    std::string description(meaning);
    if (!field.limits.condition.text.empty())
      description += fmt::format("{}{}", description.empty() ? "" : ". ", field.limits.condition.text);
    if (!description.empty()) schema["description"] = std::move(description);
    properties[std::string(field.name)] = std::move(schema);
    if (field.required && field.limits.condition.applies == nullptr) mandatory.push_back(field.name);
  }
  Json schema = {{"type", "object"}, {"properties", std::move(properties)}};
  if (!mandatory.empty()) schema["required"] = std::move(mandatory);
  if (closed) schema["additionalProperties"] = false;
  return schema;
}

}  // namespace

std::string reference() {
  std::string text =
      "## Events\n\nEvents have the member `event` and no `id`. They are sent in the order in which they occurred, "
      "before or "
      "after the\nresponse to the command that caused them.\n";
  for (const EventType* event : events()) {
    text += fmt::format("\n### Event `{}`\n\n{}\n", event->name, event->meaning);
    add_rows(text, "member", event->fields, true);
  }
  text +=
      "\n## Errors\n\nErrors of verbs are returned unchanged: `ibv_modify_qp: EINVAL: Invalid argument`. The agent "
      "itself "
      "returns:\n\n| name | cause |\n|---|---|\n";
  for (const ErrorCause& error : error_causes()) text += fmt::format("| {} | {} |\n", error.name, error.cause);
  text += "\n## Commands\n\n";
  for (const Family& family : families()) {
    text += fmt::format("### {}\n", family.title);
    for (const Command* command : family.commands) {
      text += fmt::format("\n#### `{}`\n\n{}{}\n", command->name, command->does,
                          command->extension ? " Only reference devices have this command." : "");
      add_rows(text, "argument", command->arguments, false);
      add_rows(text, "result", command->result, true);
      std::string_view arguments = command->example;
      arguments.remove_prefix(1);
      text += fmt::format("\n```\n→ {{\"id\":1,\"do\":\"{}\"{}{}\n← {{\"id\":1,\"result\":{}}}\n```\n", command->name,
                          arguments == "}" ? "" : ",", arguments, command->answers);
    }
    text += "\n";
  }
  text += "## Structures\n";
  for (const Structure* structure : structures()) {
    text += fmt::format("\n### {}\n\n{}\n", structure->name, structure->meaning);
    add_rows(text, "member", structure->fields, false);
  }
  return text;
}

std::string json_schema() {
  Json definitions = Json::object(), lines = Json::array();
  for (const Structure* structure : structures())
    definitions[std::string(structure->name)] = schema_of(structure->fields, false);
  const auto add = [&](const std::string& name, Json schema) {
    lines.push_back({{"$ref", fmt::format("#/$defs/{}", name)}});
    definitions[name] = std::move(schema);
  };
  const Json id = {{"type", Json::array({"number", "string"})}};
  for (const Family& family : families()) {
    for (const Command* command : family.commands) {
      Json request = schema_of(command->arguments, true);
      Json properties = {{"id", id}, {"do", {{"const", command->name}}}};
      properties.update(request["properties"]);
      Json mandatory = Json::array({"id", "do"});
      if (request.contains("required"))
        for (const Json& name : request["required"]) mandatory.push_back(name);
      add(fmt::format("{}.request", command->name), {{"description", command->does},
                                                     {"type", "object"},
                                                     {"properties", std::move(properties)},
                                                     {"required", std::move(mandatory)},
                                                     {"additionalProperties", false}});
      definitions[fmt::format("{}.result", command->name)] = schema_of(command->result, false);
    }
  }
  for (const EventType* event : events()) {
    Json schema = schema_of(event->fields, false);
    Json properties = {{"event", {{"const", event->name}}}};
    properties.update(schema["properties"]);
    schema["properties"] = std::move(properties);
    schema["description"] = event->meaning;
    add(fmt::format("{}.event", event->name), std::move(schema));
  }
  const Json result = {{"type", "object"},
                       {"properties", {{"id", id}, {"result", {{"type", "object"}}}}},
                       {"required", Json::array({"id", "result"})},
                       {"additionalProperties", false}};
  add("result", result);
  add("error",
      {{"type", "object"},
       {"properties",
        {{"id", {{"type", Json::array({"number", "string", "null"})}}},
         {"error",
          {{"type", "object"},
           {"properties",
            {{"errno", {{"type", "integer"}}}, {"name", {{"type", "string"}}}, {"message", {{"type", "string"}}}}},
           {"required", Json::array({"errno", "name", "message"})}}}}},
       {"required", Json::array({"id", "error"})},
       {"additionalProperties", false}});
  const Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                       {"$id", "https://rdmawire/agent-protocol.schema.json"},
                       {"title", "A line of the agent protocol"},
                       {"description",
                        "$defs contains the request (NAME.request) and the result (NAME.result) of each command, the "
                        "events (NAME.event), and the structures in them."},
                       {"anyOf", std::move(lines)},
                       {"$defs", std::move(definitions)}};
  return schema.dump(1) + '\n';
}

}  // namespace rdmawire::rpc
