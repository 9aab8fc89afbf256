#include "conformance/rules/clause_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <vector>

#include "conformance/files/json_file.hpp"
#include "dissectors/output/edit_distance.hpp"

namespace rdmawire::conformance {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr std::string_view digits = "0123456789";

/// Removes all leading characters that are in `characters`. Returns whether there were any.
bool skip(std::string_view& text, std::string_view characters) {
  const std::size_t end = std::min(text.find_first_not_of(characters), text.size());
  text.remove_prefix(end);
  return end > 0;
}
bool skip_one(std::string_view& text, std::string_view characters) {
  const bool present = !text.empty() && characters.find(text.front()) != std::string_view::npos;
  if (present) text.remove_prefix(1);
  return present;
}
/// Removes leading parts such as ".1.2", if any. Returns false if a number is missing after a dot.
bool skip_parts(std::string_view& text) {
  while (skip_one(text, "."))
    if (!skip(text, digits)) return false;
  return true;
}

/// "9.7.5.2.8", "A17.4.5.2", "A17"
bool is_section(std::string_view text) {
  skip_one(text, "A");
  return skip(text, digits) && skip_parts(text) && text.empty();
}
/// Returns whether the text is a compliance statement: "C9-110", "o10-37.2.30", "oA19-1", "CA17-33".
bool is_statement(std::string_view text) {
  if (!skip_one(text, "Co")) return false;
  skip_one(text, "A");
  return skip(text, digits) && skip_one(text, "-") && skip(text, digits) && skip_parts(text) && text.empty();
}
/// "45", "A17-1"
bool is_table(std::string_view text) {
  if (skip_one(text, "A")) return skip(text, digits) && skip_one(text, "-") && skip(text, digits) && text.empty();
  return skip(text, digits) && text.empty();
}
/// "1.7", "1.3.1"
bool is_release(std::string_view text) { return skip(text, digits) && skip_parts(text) && text.empty(); }

struct Member {
  const char* name;
  std::string ClauseNumber::*value;
  bool (*is_valid)(std::string_view);
  const char* form;
};
constexpr std::array members{
    Member{"release", &ClauseNumber::release, is_release, "a release such as 1.7"},
    Member{"section", &ClauseNumber::section, is_section, "a section such as 9.7.5.2.8 or A17.4.5"},
    Member{"statement", &ClauseNumber::statement, is_statement, "a compliance statement such as C9-110 or oA19-1"},
    Member{"table", &ClauseNumber::table, is_table, "the number of a table such as 45"},
};
constexpr std::array<std::string_view, 4> members_of_file{"format", "note", "release", "rules"};
constexpr std::array<std::string_view, 3> members_of_rule{"id", "requirement", "clauses"};
constexpr std::array<std::string_view, 5> members_of_clause{"near", "release", "section", "statement", "table"};

/// Parses a file, and stores the first error.
class Parser {
 public:
  Parser(const std::string& text, const std::string& name) : text_(text), name_(name) {}

  tl::expected<ClauseNumbers, std::string> parse() {
    const auto json = parse_json(text_);
    if (!json) return tl::unexpected(fmt::format("{}: {}", name_, json.error()));
    if (const std::string why = wrong_format(*json, text_); !why.empty())
      return tl::unexpected(fmt::format("{}: {}", name_, why));
    check_names(*json, {}, members_of_file);
    if (const std::string release = text_member(*json, "release", {}); !release.empty()) {
      if (!is_release(release)) fail({"release"}, fmt::format("\"{}\" is not {}", release, members[0].form));
      release_ = release;
    }
    const auto rules = json->find("rules");
    if (rules == json->end() || !rules->is_object()) fail({"rules"}, "must be an object with the rules");
    if (error_.empty())
      for (const auto& [rule, entry] : rules->items()) read_rule(rule, entry);
    if (!error_.empty()) return tl::unexpected(error_);
    return std::move(numbers_);
  }

 private:
  using Path = std::vector<std::string_view>;

  /// Stores an error. `path`: the member with the error, as {member} or {rule, title of a clause, member}.
  void fail(const Path& path, const std::string& what) {
    if (!error_.empty()) return;
    std::string line;
    switch (path.size()) {
      case 1: line = line_of(text_, {path[0]}); break;
      case 2: line = line_of(text_, {"rules", path[0], path[1]}); break;
      default: line = line_of(text_, {"rules", path[0], "clauses", path[1], path[2]}); break;
    }
    error_ = fmt::format("{}: {}: {}: {}", name_, line, fmt::join(path, ": "), what);
  }
  void check_names(const Json& object, const Path& path, std::span<const std::string_view> known) {
    for (const auto& [name, value] : object.items())
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        Path of = path;
        of.push_back(name);
        fail(of, "unknown member" + output::did_you_mean(name, known));
      }
  }
  std::string text_member(const Json& object, const char* name, const Path& path) {
    const auto found = object.find(name);
    if (found == object.end() || found->is_null()) return {};
    if (found->is_string()) return found->get<std::string>();
    Path of = path;
    of.push_back(name);
    fail(of, "must be a string");
    return {};
  }

  void read_rule(const std::string& name, const Json& entry) {
    const Rule* rule = find_rule(name);
    if (!rule) {
      const auto near = nearest_rules(name, 1);
      return fail({name}, "unknown rule" + (near.empty() ? "" : fmt::format("; did you mean {}?", near.front())));
    }
    if (!seen_.insert(rule).second)
      return fail({name}, fmt::format("the file contains the rule twice: it is {} and {}", rule->alias, rule->id));
    if (!entry.is_object()) return fail({name}, "must be an object");
    check_names(entry, {name}, members_of_rule);
    const auto clauses = entry.find("clauses");
    if (clauses == entry.end() || !clauses->is_object())
      return fail({name}, "must have an object \"clauses\" with the clauses by title");
    for (const auto& [title, values] : clauses->items()) read_clause(*rule, name, title, values);
  }
  void read_clause(const Rule& rule, const std::string& name, const std::string& title, const Json& values) {
    std::vector<std::string_view> titles;
    std::size_t index = rule.clause_count();
    for (std::size_t i = 0; i < rule.clause_count(); ++i)
      if (lacks_number(rule.clauses[i])) {
        titles.push_back(rule.clauses[i].title);
        if (titles.back() == title) index = i;
      }
    if (titles.empty())
      return fail({name}, "every clause of this rule has a number, or is not one of the InfiniBand specification");
    if (index == rule.clause_count())
      return fail({name, title}, fmt::format("unknown clause; expected \"{}\"", fmt::join(titles, "\" or \"")));
    if (!values.is_object()) return fail({name, title}, "must be an object");
    check_names(values, {name, title}, members_of_clause);
    ClauseNumber number;
    for (const Member& member : members) {
      std::string& value = number.*member.value = text_member(values, member.name, {name, title});
      if (!value.empty() && !member.is_valid(value))
        fail({name, title, member.name}, fmt::format("\"{}\" is not {}", value, member.form));
    }
    if (!number.is_known()) return;
    if (number.release.empty()) number.release = release_;
    if (number.release.empty()) return fail({name, title}, "needs a \"release\", here or for the whole file");
    numbers_.emplace(std::pair(static_cast<std::size_t>(&rule - rules.data()), index), std::move(number));
  }

  const std::string& text_;
  const std::string& name_;
  std::string error_, release_;
  std::set<const Rule*> seen_;
  ClauseNumbers numbers_;
};

}  // namespace

tl::expected<ClauseNumbers, std::string> parse_clause_file(const std::string& text, const std::string& name) {
  return Parser(text, name).parse();
}

tl::expected<ClauseNumbers, std::string> read_clause_file(const std::filesystem::path& path) {
  const auto text = text_of_file(path);
  if (!text) return tl::unexpected(text.error());
  return parse_clause_file(*text, path.string());
}

OrderedJson clause_file_template(const ClauseNumbers& known) {
  OrderedJson list = OrderedJson::object();
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const Rule& rule = rules[i];
    OrderedJson clauses = OrderedJson::object();
    for (std::size_t j = 0; j < rule.clause_count(); ++j) {
      const Clause& clause = rule.clauses[j];
      if (!lacks_number(clause)) continue;
      const auto number = known.find({i, j});
      OrderedJson& values = clauses[std::string(clause.title)] = OrderedJson::object();
      if (!clause.number.empty()) values["near"] = clause.number;
      for (const Member& member : members)
        values[member.name] = number == known.end() ? std::string() : number->second.*member.value;
    }
    if (clauses.empty()) continue;
    list[std::string(rule.alias.empty() ? rule.id : rule.alias)] = {
        {"id", rule.id}, {"requirement", rule.sentence}, {"clauses", std::move(clauses)}};
  }
  return {{"format", 1},
          {"note",
           "Clauses of the InfiniBand Architecture Specification, Volume 1, whose numbers rdmawire does not know. Fill "
           "in section, statement (C9-110) or table. \"release\" applies to clauses without one."},
          {"release", ""},
          {"rules", std::move(list)}};
}

}  // namespace rdmawire::conformance
