#include "dissectors/output/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "dissectors/output/edit_distance.hpp"
#include "dissectors/output/summary_format.hpp"
#include "dissectors/output/text_style.hpp"
#include "dissectors/output/value.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/mrc.hpp"
#include "dissectors/protocol/opcode.hpp"

namespace rdmawire::output {
namespace {

using Kind = Topic::Kind;
using Words = std::vector<std::string>;

Words words_of(std::string_view text) {
  Words words;
  bool inside = false;
  for (char c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || static_cast<unsigned char>(c) >= 0x80) {
      if (!inside) words.emplace_back();
      words.back() += c;
      inside = true;
    } else {
      inside = false;
    }
  }
  return words;
}

std::string joined(const Words& words, char between = '-') {
  std::string out;
  for (const std::string& word : words) {
    if (!out.empty()) out += between;
    out += word;
  }
  return out;
}

std::string slug(std::string_view text) { return joined(words_of(text)); }

std::optional<std::uint64_t> number_of(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x")) {
    text.remove_prefix(2);
    base = 16;
  }
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string path_of(const HeaderInfo& header, const Field& field) {
  return std::string(header.name) + "." + std::string(field.name);
}

/// Returns the fields that use an enumeration.
std::vector<FieldRef> users_of(const Names& names) {
  std::vector<FieldRef> users;
  for (const HeaderInfo* header : all_headers())
    for (const Field& field : header->fields)
      if (field.names == &names) users.push_back({header, &field});
  return users;
}

const Field* whole_of(const HeaderInfo& header, const Field& part) {
  const std::size_t dot = part.name.rfind('.');
  return dot == std::string_view::npos ? nullptr : header.find(part.name.substr(0, dot));
}

/// Returns the bytes of a header in which `field` has a value and all other fields are zero.
std::vector<std::uint8_t> header_with(const HeaderInfo& header, const Field& field, std::uint64_t value) {
  std::vector<std::uint8_t> bytes(header.size, 0);
  if (field.is_number()) field.store(bytes.data(), value);
  return bytes;
}

/// Returns the header's numeric fields, except parts and reserved fields. Numbers after the header's name in a query
/// are values of these fields.
std::vector<const Field*> wholes_of(const HeaderInfo& header) {
  std::vector<const Field*> fields;
  for (const Field& field : header.fields)
    if (!field.is_part() && !field.is_reserved() && field.is_number()) fields.push_back(&field);
  return fields;
}
std::vector<std::uint8_t> header_with_values(const Topic& topic) {
  std::vector<std::uint8_t> bytes(topic.header->size, 0);
  const auto fields = wholes_of(*topic.header);
  for (std::size_t i = 0; i < topic.values.size(); ++i) fields[i]->store(bytes.data(), topic.values[i]);
  return bytes;
}

Topic header_topic(const HeaderInfo& header) { return {Kind::header, &header, nullptr, 0, nullptr, nullptr, {}}; }
Topic field_topic(const HeaderInfo& header, const Field& field) {
  return {Kind::field, &header, &field, 0, field.names, nullptr, {}};
}
Topic names_topic(const Names& names) { return {Kind::enumeration, nullptr, nullptr, 0, &names, nullptr, {}}; }
Topic entry_topic(const Names& names, const Name& entry) {
  return {Kind::entry, nullptr, nullptr, entry.value, &names, &entry, {}};
}
Topic value_topic(const HeaderInfo& header, const Field& field, std::uint64_t value) {
  return {Kind::field_value, &header, &field, value, field.names, field.names ? field.names->find(value) : nullptr, {}};
}

/// Returns the identifier of a topic. find_topics() accepts it.
std::string id_of(const Topic& topic) {
  switch (topic.kind) {
    case Kind::header: return std::string(topic.header->name);
    case Kind::field: return path_of(*topic.header, *topic.field);
    case Kind::field_value: return fmt::format("{} {}", path_of(*topic.header, *topic.field), topic.value);
    case Kind::header_values: return fmt::format("{} {}", topic.header->name, fmt::join(topic.values, " "));
    case Kind::enumeration: return slug(topic.names->title);
    case Kind::entry: return slug(topic.names->title) + "." + slug(topic.entry->name);
  }
  return {};
}

bool contains(const Words& words, const std::string& word) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& w) {
    // Prefixes of at least three letters match: "seq" matches "sequence", and "reject" matches "rej".
    return w == word || (word.size() >= 3 && w.starts_with(word)) || (w.size() >= 3 && word.starts_with(w));
  });
}

/// Returns how well a value of an enumeration matches `query`: 0 means that it does not match.
int score(const Words& query, const Names& names, const Words& context, const Name& entry) {
  const Words own = words_of(entry.name);
  if (own == query) return 1000;
  int in_name = 0;
  for (const std::string& word : query) {
    const bool here = contains(own, word);
    if (!here && !contains(context, word)) return 0;
    in_name += here;
  }
  if (in_name == 0) return 0;
  const Words title = words_of(names.title);
  Words titled = title;
  titled.insert(titled.end(), own.begin(), own.end());
  if (titled == query) return 900;
  return 100 + 100 * in_name / static_cast<int>(own.size());
}

std::vector<Topic> find_entries(const Words& query) {
  std::vector<std::pair<int, Topic>> found;
  for (const Names* names : all_names()) {
    Words context = words_of(names->title);
    for (const FieldRef& user : users_of(*names)) {
      for (std::string& word : words_of(user.header->name)) context.push_back(std::move(word));
      for (std::string& word : words_of(user.field->name)) context.push_back(std::move(word));
    }
    for (const Name& entry : names->entries)
      if (const int points = score(query, *names, context, entry))
        found.emplace_back(points, entry_topic(*names, entry));
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Topic> best;
  for (const auto& [points, topic] : found)
    if (points == found.front().first) best.push_back(topic);
  return best;
}

/// Returns the parts of the same field that are present because part `of` has that value. Omits parts with a
/// conversion, because a raw part has the same bits.
std::vector<const Field*> parts_that_follow(const FieldRef& of, std::uint64_t value) {
  const Field* whole = whole_of(*of.header, *of.field);
  if (!whole || !of.field->is_number()) return {};
  const auto with = header_with(*of.header, *of.field, value);
  const auto without = header_with(*of.header, *of.field, value ^ 1);
  std::vector<const Field*> parts;
  for (const Field& part : of.header->fields)
    if (part.present && part.is_number() && !part.decoded && &part != of.field && whole_of(*of.header, part) == whole &&
        part.present(with.data()) && !part.present(without.data()))
      parts.push_back(&part);
  return parts;
}

/// Finds values such as "rnr 14": "rnr" is a named value of a part, and selects another part of the same field, which
/// has the value 14.
void find_sibling_values(const Words& query, std::uint64_t number, std::vector<Topic>& found) {
  for (const Topic& kind : find_entries(query))
    for (const FieldRef& user : users_of(*kind.names))
      for (const Field* part : parts_that_follow(user, kind.entry->value)) {
        if (number > low_mask(part->width)) continue;
        auto bytes = header_with(*user.header, *user.field, kind.entry->value);
        part->store(bytes.data(), number);
        const Field* whole = whole_of(*user.header, *user.field);
        found.push_back(value_topic(*user.header, *whole, whole->load(bytes.data())));
        return;
      }
}

std::vector<Topic> find_names(const Words& query) {
  std::vector<Topic> found;
  for (const Names* names : all_names())
    if (words_of(names->title) == query) found.push_back(names_topic(*names));
  return found;
}

/// Finds values such as "terminate 0 1 5": the numbers are the values of the header's first fields.
std::vector<Topic> find_header_values(const Words& words) {
  std::vector<std::uint64_t> values;
  // Keep only the numbers at the end of the query.
  for (const std::string& word : words) {
    if (const auto number = number_of(word))
      values.push_back(*number);
    else
      values.clear();
  }
  if (values.empty() || values.size() == words.size()) return {};
  const Words name(words.begin(), words.end() - static_cast<std::ptrdiff_t>(values.size()));
  for (const HeaderInfo* header : all_headers()) {
    if (words_of(header->name) != name && words_of(header->title) != name) continue;
    const auto fields = wholes_of(*header);
    if (values.size() > fields.size()) continue;
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] > low_mask(fields[i]->width)) return {};
    Topic topic = header_topic(*header);
    topic.kind = Kind::header_values;
    topic.values = std::move(values);
    return {topic};
  }
  return {};
}

/// Finds fields of all headers by name. If no field has the name, finds parts by the last component of their name.
std::vector<Topic> find_fields(const Words& query) {
  std::vector<Topic> found;
  for (const HeaderInfo* header : all_headers())
    for (const Field& field : header->fields)
      if (!field.is_reserved() && words_of(field.name) == query) found.push_back(field_topic(*header, field));
  if (!found.empty()) return found;
  for (const HeaderInfo* header : all_headers())
    for (const Field& field : header->fields)
      if (field.is_part() && !field.is_reserved() && words_of(field.name.substr(field.name.rfind('.') + 1)) == query)
        found.push_back(field_topic(*header, field));
  return found;
}

std::vector<Topic> find_plain(std::string_view text) {
  const Words query = words_of(text);
  if (query.empty()) return {};
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (const FieldRef exact = find_field(lower)) return {field_topic(*exact.header, *exact.field)};
  for (const HeaderInfo* header : all_headers())
    if (words_of(header->name) == query) return {header_topic(*header)};
  for (const HeaderInfo* header : all_headers())
    for (const Field& field : header->fields)
      if (words_of(path_of(*header, field)) == query) return {field_topic(*header, field)};
  std::vector<Topic> found;
  for (const FieldRef& ref : find_wireshark(lower)) found.push_back(field_topic(*ref.header, *ref.field));
  if (!found.empty()) return found;
  for (const HeaderInfo* header : all_headers())
    if (words_of(header->title) == query) found.push_back(header_topic(*header));
  if (!found.empty()) return found;
  if (found = find_names(query); !found.empty()) return found;
  if (found = find_fields(query); !found.empty()) {
    // An enumeration's value with exactly this name is an equally likely meaning.
    for (const Topic& entry : find_entries(query)) {
      const Words own = words_of(entry.entry->name);
      Words titled = words_of(entry.names->title);
      titled.insert(titled.end(), own.begin(), own.end());
      if (own == query || titled == query) found.push_back(entry);
    }
    return found;
  }
  return find_entries(query);
}

}  // namespace

std::vector<Topic> find_topics(std::string_view query) {
  const Words words = words_of(query);
  if (words.empty()) return {};
  const std::optional<std::uint64_t> number = number_of(words.back());
  if (number && words.size() == 1) {
    if (*number > 0xff) return {};
    // Look up opcodes that IBTA does not define in MRC.
    const HeaderInfo& base = mrc_opcode(static_cast<std::uint8_t>(*number)).known ? info<MrcBth> : info<Bth>;
    return {value_topic(base, *base.find("opcode"), *number)};
  }
  std::vector<Topic> found = find_plain(query);
  if (!number || !found.empty()) return found;

  // "opcode 10": the number is a value of the preceding field or enumeration.
  Words before(words.begin(), words.end() - 1);
  const std::string text = joined(before, '.');
  std::vector<Topic> base = find_plain(text);
  for (const Topic& topic : base) {
    if (topic.kind == Kind::field && topic.field->is_number()) {
      if (*number <= low_mask(topic.field->width)) found.push_back(value_topic(*topic.header, *topic.field, *number));
    } else if (topic.kind == Kind::enumeration) {
      if (const Name* entry = topic.names->find(*number)) found.push_back(entry_topic(*topic.names, *entry));
    }
  }
  // If the value has a name in some of these fields, omit the other fields.
  if (std::any_of(found.begin(), found.end(), [](const Topic& t) { return t.entry != nullptr; }))
    std::erase_if(found, [](const Topic& t) { return t.entry == nullptr; });
  if (found.empty()) found = find_header_values(words);
  if (found.empty()) find_sibling_values(before, *number, found);
  if (!found.empty()) return found;
  // "reject reason 28": the words are in the title of an enumeration, or in the names of a field and its header.
  for (const Names* names : all_names()) {
    const Name* entry = names->find(*number);
    if (!entry) continue;
    for (const FieldRef& user : users_of(*names)) {
      Words context = words_of(names->title);
      for (std::string_view more : {user.header->name, user.header->title, user.field->name})
        for (std::string& word : words_of(more)) context.push_back(std::move(word));
      if (!std::all_of(before.begin(), before.end(), [&](const std::string& w) { return contains(context, w); }))
        continue;
      found.push_back(value_topic(*user.header, *user.field, *number));
      break;
    }
  }
  return found;
}

std::vector<std::string> nearest_topics(std::string_view query, std::size_t count) {
  const std::string wanted = joined(words_of(query));
  std::vector<std::pair<double, std::string>> candidates;
  std::set<std::string> seen;
  const auto consider = [&](const std::string& name) {
    const std::string key = slug(name);
    if (key.empty() || !seen.insert(key).second) return;
    const std::size_t longer = std::max(key.size(), wanted.size());
    const std::size_t limit = longer * 3 / 5;
    const std::size_t distance = edit_distance(wanted, key, limit);
    if (distance <= limit) candidates.emplace_back(static_cast<double>(distance) / static_cast<double>(longer), name);
  };
  for (const HeaderInfo* header : all_headers()) {
    consider(std::string(header->name));
    consider(std::string(header->title));
    for (const Field& field : header->fields) {
      if (field.is_reserved()) continue;
      consider(path_of(*header, field));
      consider(std::string(field.name));
    }
  }
  for (const Names* names : all_names()) {
    consider(std::string(names->title));
    for (const Name& entry : names->entries) consider(std::string(entry.name));
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> nearest;
  for (const auto& [distance, name] : candidates) {
    if (nearest.size() == count) break;
    nearest.push_back(name);
  }
  return nearest;
}

namespace {

constexpr std::size_t label_width = 15;

std::string bits_of(const Field& field) {
  if (field.width == 1) return fmt::format("bit {}", field.bit);
  return fmt::format("bits {} to {}", field.bit, field.bit + field.width - 1);
}

std::string_view display_name(Display display) {
  switch (display) {
    case Display::decimal: return "decimal";
    case Display::hexadecimal: return "hexadecimal";
    case Display::flag: return "flag";
    case Display::time: return "time";
    case Display::mac: return "MAC address";
    case Display::ipv4: return "IPv4 address";
    case Display::ipv6: return "IPv6 address or GID";
    case Display::guid: return "GUID";
    case Display::text: return "text";
    case Display::bytes: return "bytes";
    case Display::reserved: return "reserved";
  }
  return {};
}

class Writer {
 public:
  explicit Writer(std::string& out, bool colors) : page_(out, colors), colors_(colors) {}

  void topic(const Topic& topic) {
    switch (topic.kind) {
      case Kind::header: return header(*topic.header);
      case Kind::field: return field(*topic.header, *topic.field);
      case Kind::field_value: return value(topic);
      case Kind::header_values: return header_values(topic);
      case Kind::enumeration: return enumeration(*topic.names);
      case Kind::entry: return entry(topic);
    }
  }

 private:
  void heading(std::string_view what, std::string_view more) {
    page_.put(TextStyle::strong, what);
    if (!more.empty()) page_.put("  ").put(more);
    page_.line();
  }
  void row(std::string_view label, std::string_view text) {
    if (text.empty()) return;
    page_.to(2).put(TextStyle::dim, label).to(2 + label_width - 1).put(" ").put(text).line();
  }
  void figure(const HeaderInfo& header, const Field* field = nullptr) {
    page_.line();
    page_.raw(draw_header(header, field, colors_));
  }

  /// Prints the opcodes whose packets contain `header`.
  void carriers(const HeaderInfo& header) {
    std::string list;
    std::size_t more = 0;
    for (const Opcode& op : opcodes) {
      const auto headers = op.extension_headers();
      if (!op.known || std::find(headers.begin(), headers.end(), &header) == headers.end()) continue;
      if (list.size() > 300) {
        ++more;
        continue;
      }
      if (!list.empty()) list += ", ";
      list += op.name;
    }
    for (const MrcOpcode& op : mrc_opcodes)
      if (std::find(op.headers.begin(), op.headers.end(), &header) != op.headers.end())
        list.append(list.empty() ? "" : ", ").append(op.name);
    if (more) list += fmt::format(" and {} more", more);
    row("in packets", list);
  }

  void header(const HeaderInfo& header) {
    heading(header.name, header.title);
    row("specified", header.section);
    row("length", header.tail.empty() ? fmt::format("{} bytes", header.size)
                                      : fmt::format("{} bytes, then {} of variable length", header.size, header.tail));
    carriers(header);
    figure(header);
    page_.line();
    std::size_t width = 0;
    for (const Field& field : header.fields) width = std::max(width, field.name.size());
    for (const Field& field : header.fields) {
      if (field.is_reserved()) continue;
      const auto depth = static_cast<std::size_t>(std::count(field.name.begin(), field.name.end(), '.'));
      page_.to(2 + 2 * depth).put(TextStyle::strong, field.name.substr(depth ? field.name.rfind('.') + 1 : 0));
      page_.to(2 + width + 2)
          .put(TextStyle::dim, fmt::format("{:>3} bit{}", field.width, field.width == 1 ? " " : "s"));
      page_.to(2 + width + 12).put(field.meaning).line();
    }
  }

  void field(const HeaderInfo& header, const Field& field) {
    heading(path_of(header, field), field.meaning);
    row("in", fmt::format("{}, {}", header.name, header.title));
    row("where", fmt::format("{} of the header ({} wide)", bits_of(field),
                             field.width == 1 ? "1 bit" : fmt::format("{} bits", field.width)));
    row("specified", field.section.empty() ? header.section : field.section);
    row("shown as", display_name(field.display));
    if (field.present) row("present", "depends on other fields of the header");
    if (field.is_computed) row("encoding", "computed if not set");
    row("Wireshark", fmt::format("{}", fmt::join(field.aliases(), ", ")));
    figure(header, &field);
    if (!field.names) return;
    page_.line();
    values(*field.names, &field);
  }

  void values(const Names& names, const Field* field) {
    std::size_t width = 0;
    for (const Name& entry : names.entries) width = std::max(width, columns(entry.name));
    const bool hexadecimal = field && field->display == Display::hexadecimal;
    for (const Name& entry : names.entries) {
      const std::string number = hexadecimal ? fmt::format("{:#06x}", entry.value) : fmt::format("{:>6}", entry.value);
      page_.to(2).put(TextStyle::strong, number).put("  ").put(entry.name);
      if (!entry.meaning.empty()) page_.to(10 + width + 2).put(TextStyle::dim, entry.meaning);
      page_.line();
    }
  }

  void enumeration(const Names& names) {
    heading(names.title, {});
    row("specified", names.section);
    users(names);
    page_.line();
    const auto fields = users_of(names);
    values(names, fields.empty() ? nullptr : fields.front().field);
  }

  void users(const Names& names) {
    std::string list;
    for (const FieldRef& user : users_of(names)) {
      if (!list.empty()) list += ", ";
      list += path_of(*user.header, *user.field);
    }
    row("used in", list);
  }

  void entry(const Topic& topic) {
    heading(topic.entry->name, topic.entry->meaning);
    const auto fields = users_of(*topic.names);
    const std::string number = fmt::format("{} ({:#x})", topic.entry->value, topic.entry->value);
    if (fields.size() == 1)
      row("value", fmt::format("{} in {}", number, path_of(*fields[0].header, *fields[0].field)));
    else
      row("value", fmt::format("{} {}", topic.names->title, number));
    row("specified", topic.names->section);
    if (fields.size() > 1) users(*topic.names);
    for (const FieldRef& user : fields) {
      wholes(user, topic.entry->value);
      for (const Field* part : parts_that_follow(user, topic.entry->value))
        row("also defined", fmt::format("{}, {}{}", path_of(*user.header, *part), part->meaning,
                                        part->names ? fmt::format(" (explain {})", slug(part->names->title)) : ""));
    }
    if (topic.names == &opcode_names) operation(opcode(static_cast<std::uint8_t>(topic.entry->value)));
  }

  /// Prints the smallest value of the enclosing field for which the part has this value: "aeth.syndrome 0x60".
  void wholes(const FieldRef& part, std::uint64_t value) {
    const Field* whole = whole_of(*part.header, *part.field);
    if (!whole || whole->width > 16) return;
    for (std::uint64_t candidate = 0; candidate <= low_mask(whole->width); ++candidate) {
      const auto bytes = header_with(*part.header, *whole, candidate);
      if (!part.field->present_in(bytes.data()) || part.field->value(bytes.data()) != value) continue;
      std::string text = path_of(*part.header, *whole) + " ";
      append_number(text, *whole, candidate);
      if (part.field->width < whole->width) text += " and other values with the same bits";
      return row("for example", text);
    }
  }

  void value(const Topic& topic) {
    const Field& field = *topic.field;
    std::string number;
    append_number(number, field, field.decoded ? field.decoded(topic.value) : topic.value);
    const std::string what = path_of(*topic.header, field) + " " + number;
    if (topic.entry)
      heading(what, std::string(topic.entry->name) +
                        (topic.entry->meaning.empty() ? "" : ": " + std::string(topic.entry->meaning)));
    else if (field.names)
      heading(what, "a value without a name in the specification");
    else
      heading(what, field.meaning);
    row("specified", !field.section.empty() ? field.section
                     : field.names          ? field.names->section
                                            : topic.header->section);
    const auto bytes = header_with(*topic.header, field, topic.value);
    bool any = false;
    for (const Field& part : topic.header->fields) {
      if (!part.name.starts_with(std::string(field.name) + ".")) continue;
      if (!any) page_.line();
      any = true;
      field_of(part, part.name.substr(field.name.size() + 1), bytes.data());
    }
    if (field.names == &opcode_names) operation(opcode(static_cast<std::uint8_t>(topic.value)));
  }

  /// Prints one line about a field of an example header.
  void field_of(const Field& field, std::string_view name, const std::uint8_t* bytes) {
    if (!field.present_in(bytes) || (field.is_reserved() && field.load(bytes) == 0)) return;
    std::string text;
    append_value(text, field, bytes);
    page_.to(2).put(TextStyle::strong, name).to(27).put(" ").put(text).to(37).put("  ");
    const Name* entry = field.names && field.is_number() ? field.names->find(field.value(bytes)) : nullptr;
    if (entry)
      page_.put(entry->name)
          .put(TextStyle::dim, entry->meaning.empty() ? "" : ": ")
          .put(TextStyle::dim, entry->meaning);
    else
      page_.put(TextStyle::dim, field.meaning);
    page_.line();
  }

  void header_values(const Topic& topic) {
    heading(id_of(topic), topic.header->title);
    row("specified", topic.header->section);
    page_.line();
    const auto bytes = header_with_values(topic);
    const Field* last = wholes_of(*topic.header)[topic.values.size() - 1];
    for (const Field& field : topic.header->fields) {
      if (field.bit > last->bit) break;
      field_of(field, field.name, bytes.data());
    }
  }

  void operation(const Opcode& op) {
    if (!op.known) {
      row("transport", to_string(op.transport));
      return;
    }
    row("transport", to_string(op.transport));
    row("operation", to_string(op.operation));
    row("position",
        fmt::format("{}: {}{}", to_string(op.position), op.begins_message() ? "begins" : "continues",
                    op.ends_message() ? (op.begins_message() ? " and ends its message" : ", and ends its message")
                                      : " its message"));
    row("direction",
        op.direction == Direction::request ? "from requester to responder" : "from responder to requester");
    std::string list;
    for (const HeaderInfo* header : op.extension_headers()) {
      if (!list.empty()) list += ", ";
      list += fmt::format("{} ({} bytes)", header->name, header->size);
    }
    row("after the BTH", list.empty() ? std::string_view("no further header") : std::string_view(list));
    row("payload", op.payload ? "may contain payload" : "none");
  }

  Page page_;
  bool colors_;
};

nlohmann::ordered_json field_json(const HeaderInfo& header, const Field& field) {
  nlohmann::ordered_json json{
      {"name", field.name},       {"bit", field.bit},
      {"width", field.width},     {"display", display_name(field.display)},
      {"meaning", field.meaning}, {"section", field.section.empty() ? header.section : field.section}};
  if (!field.aliases().empty()) json["wireshark"] = field.aliases();
  if (field.names) json["enumeration"] = field.names->title;
  if (field.present) json["conditional"] = true;
  if (field.is_computed) json["computed"] = true;
  return json;
}

nlohmann::ordered_json entry_json(const Name& entry) {
  nlohmann::ordered_json json{{"value", entry.value}, {"name", entry.name}};
  if (!entry.meaning.empty()) json["meaning"] = entry.meaning;
  return json;
}

nlohmann::ordered_json opcode_json(const Opcode& op) {
  nlohmann::ordered_json headers = nlohmann::ordered_json::array();
  for (const HeaderInfo* header : op.extension_headers()) headers.push_back(header->name);
  return {{"transport", to_string(op.transport)},
          {"operation", to_string(op.operation)},
          {"position", to_string(op.position)},
          {"direction", op.direction == Direction::request ? "request" : "response"},
          {"headers", headers},
          {"payload", op.payload}};
}

}  // namespace

std::string explain(const Topic& topic, bool colors) {
  std::string out;
  Writer(out, colors).topic(topic);
  return out;
}

std::string explain_json(const Topic& topic) {
  static constexpr std::string_view kinds[] = {"header",        "field",       "field value",
                                               "header values", "enumeration", "enumeration value"};
  nlohmann::ordered_json json{{"kind", kinds[static_cast<std::size_t>(topic.kind)]}, {"id", id_of(topic)}};
  switch (topic.kind) {
    case Kind::header: {
      json["title"] = topic.header->title;
      json["section"] = topic.header->section;
      json["bytes"] = topic.header->size;
      if (!topic.header->tail.empty()) json["tail"] = topic.header->tail;
      for (const Field& field : topic.header->fields) json["fields"].push_back(field_json(*topic.header, field));
      break;
    }
    case Kind::field:
      json["header"] = topic.header->name;
      json.update(field_json(*topic.header, *topic.field));
      break;
    case Kind::field_value: {
      json["header"] = topic.header->name;
      json["field"] = topic.field->name;
      json["value"] = topic.value;
      if (topic.entry) json.update(entry_json(*topic.entry));
      const auto bytes = header_with(*topic.header, *topic.field, topic.value);
      for (const Field& part : topic.header->fields) {
        if (!part.name.starts_with(std::string(topic.field->name) + ".") || !part.present_in(bytes.data())) continue;
        const std::uint64_t value = part.value(bytes.data());
        json["parts"][std::string(part.name)] = value;
        if (const Name* name = part.names ? part.names->find(value) : nullptr)
          json["parts"][std::string(part.name) + "_name"] = name->name;
      }
      break;
    }
    case Kind::header_values: {
      json["title"] = topic.header->title;
      json["section"] = topic.header->section;
      const auto bytes = header_with_values(topic);
      const Field* last = wholes_of(*topic.header)[topic.values.size() - 1];
      for (const Field& field : topic.header->fields) {
        if (field.bit > last->bit) break;
        if (!field.is_number() || !field.present_in(bytes.data())) continue;
        const std::uint64_t value = field.value(bytes.data());
        json["fields"][std::string(field.name)] = value;
        if (const Name* name = field.names ? field.names->find(value) : nullptr)
          json["fields"][std::string(field.name) + "_name"] = name->name;
      }
      break;
    }
    case Kind::enumeration:
      json["title"] = topic.names->title;
      json["section"] = topic.names->section;
      for (const Name& entry : topic.names->entries) json["values"].push_back(entry_json(entry));
      break;
    case Kind::entry:
      json["enumeration"] = topic.names->title;
      json["section"] = topic.names->section;
      json.update(entry_json(*topic.entry));
      break;
  }
  if (topic.names == &opcode_names && (topic.kind == Kind::entry || topic.kind == Kind::field_value))
    if (const Opcode& op = opcode(static_cast<std::uint8_t>(topic.value)); op.known) json.update(opcode_json(op));
  if (topic.names && topic.kind != Kind::field_value)
    for (const FieldRef& user : users_of(*topic.names)) json["used_in"].push_back(path_of(*user.header, *user.field));
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string list_topics(bool colors) {
  std::string out;
  Page page(out, colors);
  page.put(TextStyle::strong, "Headers").put(": rdmawire explain bth; a field: rdmawire explain bth.psn").line();
  std::size_t width = 0;
  for (const HeaderInfo* header : all_headers()) width = std::max(width, header->name.size());
  for (const HeaderInfo* header : all_headers())
    page.to(2).put(header->name).to(2 + width + 2).put(TextStyle::dim, header->title).line();
  page.line();
  page.put(TextStyle::strong, "Enumerations").put(": rdmawire explain nak-code; a value: rdmawire explain nak-code 2,");
  page.put(" or by its name: rdmawire explain rnr nak").line();
  width = 0;
  for (const Names* names : all_names()) width = std::max(width, slug(names->title).size());
  for (const Names* names : all_names()) {
    std::string some;
    for (const Name& entry : names->entries) {
      if (some.size() > 60) {
        some += ", …";
        break;
      }
      if (!some.empty()) some += ", ";
      some += entry.name;
    }
    page.to(2).put(slug(names->title)).to(2 + width + 2).put(TextStyle::dim, some).line();
  }
  return out;
}

std::string list_topics_json() {
  nlohmann::ordered_json json;
  for (const HeaderInfo* header : all_headers())
    json["headers"].push_back({{"id", header->name}, {"title", header->title}});
  for (const Names* names : all_names())
    json["enumerations"].push_back({{"id", slug(names->title)}, {"title", names->title}});
  return json.dump();
}

}  // namespace rdmawire::output
