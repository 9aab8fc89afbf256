#include "pysdk/src/columns_packets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "dissectors/output/filter.hpp"
#include "dissectors/output/occurrences.hpp"
#include "dissectors/output/value.hpp"

namespace rdmawire::python {
namespace {

using output::FilterType;

constexpr std::string_view name_suffix = "_name";

ColumnType type_of_bits(unsigned bits) {
  return bits <= 8    ? ColumnType::uint8
         : bits <= 16 ? ColumnType::uint16
         : bits <= 32 ? ColumnType::uint32
                      : ColumnType::uint64;
}

/// Returns the number of bits of the largest value of an enumeration.
unsigned bits_of(const Names& names) {
  unsigned bits = 1;
  for (const Name& entry : names.entries) bits = std::max(bits, static_cast<unsigned>(std::bit_width(entry.value)));
  return bits;
}

bool is_number(FilterType type) { return type == FilterType::number || type == FilterType::flag; }

/// Returns the names of all values of the enumerations.
std::shared_ptr<const Words> words_of(const std::vector<const Names*>& enumerations) {
  std::vector<std::string_view> words;
  for (const Names* const names : enumerations)
    for (const Name& entry : names->entries) words.push_back(entry.name);
  return std::make_shared<Words>(words);
}

/// Returns whether all packets have the value. The column then has no missing values.
bool is_always_there(const output::Derived& derived) {
  return derived.name == "frame" || derived.name.starts_with("frame.") || derived.name == "payload.length";
}

/// Returns the first header that contains `field`, or the first such header if `field` is null. nullptr: none.
const std::uint8_t* find(const tracking::Packet& packet, const HeaderInfo* header, const Field* field) {
  const std::uint8_t* found = nullptr;
  output::each_occurrence(packet, header, [&](const std::uint8_t* bytes) {
    if (field && !field->present_in(bytes)) return false;
    found = bytes;
    return true;
  });
  return found;
}

}  // namespace

namespace {

std::string unnamed(const std::string& name) {
  return fmt::format("{}: the values of {} have no names", name,
                     std::string_view(name).substr(0, name.size() - name_suffix.size()));
}

}  // namespace

tl::expected<PacketColumns::Plan, std::string> PacketColumns::plan(const std::string& name, ColumnInfo& info) {
  output::Resolved found = output::resolve(name);
  bool by_name = false;
  if (!found && name.size() > name_suffix.size() && name.ends_with(name_suffix)) {
    found = output::resolve(std::string_view(name).substr(0, name.size() - name_suffix.size()));
    by_name = static_cast<bool>(found);
  }
  if (!found) {
    std::vector<std::string> near = output::nearest_names(name);
    constexpr std::size_t most_shown = 4;
    if (name.find('.') == std::string::npos) {  // a field name without its header
      std::vector<std::string> with_header;
      for (const HeaderInfo* header : all_headers())
        if (header->find(name)) with_header.push_back(fmt::format("{}.{}", header->name, name));
      if (!with_header.empty()) near = std::move(with_header);
      if (near.size() > most_shown) near.resize(most_shown);
    }
    return tl::unexpected(fmt::format("unknown field {}{}", name,
                                      near.empty() ? std::string("; see docs/reference/headers.md")
                                                   : fmt::format("; did you mean: {}?", fmt::join(near, ", "))));
  }
  info.name = name;
  return found.derived ? plan_of(*found.derived, by_name, info) : plan_of(found.refs, by_name, info);
}

tl::expected<PacketColumns::Plan, std::string> PacketColumns::plan_of(const output::Derived& derived, bool by_name,
                                                                      ColumnInfo& info) {
  Plan made;
  made.derived = &derived;
  made.names = derived.names;
  info.meaning = derived.meaning;
  info.optional = !is_always_there(derived);
  if (by_name) {
    if (!derived.names) return tl::unexpected(unnamed(info.name));
    made.form = Form::name;
    info.type = ColumnType::text;
    info.words = words_of({derived.names});
    return made;
  }
  switch (derived.type) {
    case FilterType::header:
      made.form = Form::there;
      info.type = ColumnType::boolean;
      info.optional = false;
      break;
    case FilterType::time:
      made.form = Form::time;
      info.type = ColumnType::time;
      break;
    case FilterType::flag: info.type = ColumnType::boolean; break;
    case FilterType::bytes:
      made.form = Form::derived;
      info.type = ColumnType::bytes;
      break;
    case FilterType::text:
      made.form = Form::derived;
      info.type = ColumnType::text;
      break;
    default: info.type = derived.names ? type_of_bits(bits_of(*derived.names)) : ColumnType::uint64;
  }
  // Lengths and CRCs have 32 bits. Frame numbers have 64 bits.
  if (info.type == ColumnType::uint64 && !derived.names && derived.name != "frame.number")
    info.type = ColumnType::uint32;
  return made;
}

tl::expected<PacketColumns::Plan, std::string> PacketColumns::plan_of(const std::vector<FieldRef>& refs, bool by_name,
                                                                      ColumnInfo& info) {
  Plan made;
  for (const FieldRef& ref : refs) made.sources.push_back({ref.header, ref.field});
  const Field* const first = refs.front().field;
  if (!first) {
    if (by_name) return tl::unexpected(unnamed(info.name));
    made.form = Form::there;
    info.type = ColumnType::boolean;
    info.optional = false;
    info.meaning = fmt::format("the packet has a {}", refs.front().header->title);
    return made;
  }
  info.meaning = first->meaning;
  if (by_name) {
    made.form = Form::name;
    info.type = ColumnType::text;
    std::vector<const Names*> enumerations;
    for (const FieldRef& ref : refs) {
      if (!ref.field->names || !ref.field->is_number()) return tl::unexpected(unnamed(info.name));
      enumerations.push_back(ref.field->names);
    }
    info.words = words_of(enumerations);
    return made;
  }
  // If fields with the same name have different types, flags and numbers become numbers. All other combinations become
  // text.
  FilterType type = output::type_of(*first);
  unsigned bits = 0;
  for (const FieldRef& ref : refs) {
    const FilterType other = output::type_of(*ref.field);
    bits = std::max(bits, ref.field->decoded ? 64U : ref.field->width);
    if (other == type) continue;
    type = is_number(type) && is_number(other) ? FilterType::number : FilterType::text;
  }
  switch (type) {
    case FilterType::flag: info.type = ColumnType::boolean; break;
    case FilterType::number: info.type = type_of_bits(bits); break;
    case FilterType::duration: info.type = ColumnType::duration; break;
    case FilterType::bytes:
      made.form = Form::bytes;
      info.type = ColumnType::bytes;
      break;
    default: made.form = Form::text; info.type = ColumnType::text;
  }
  return made;
}

tl::expected<PacketColumns, std::string> PacketColumns::of(const std::vector<std::string>& names) {
  PacketColumns made;
  for (const std::string& name : names) {
    ColumnInfo info;
    auto one = plan(name, info);
    if (!one) return tl::unexpected(one.error());
    if (std::any_of(made.infos_.begin(), made.infos_.end(), [&](const ColumnInfo& i) { return i.name == name; }))
      return tl::unexpected(fmt::format("the field {} is requested twice", name));
    // The filter compiler knows whether the field requires CRC verification.
    if (one->derived)
      if (const auto filter = output::Filter::compile(one->derived->name)) made.uses_crcs_ |= filter->uses_crcs();
    made.infos_.push_back(std::move(info));
    made.plans_.push_back(std::move(*one));
  }
  return made;
}

void PacketColumns::add(Batch& batch, const tracking::Packet& packet) const {
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    if (plans_[i].derived)
      add_derived(batch.columns[i], plans_[i], packet);
    else
      add_field(batch.columns[i], plans_[i], packet);
  }
}

void PacketColumns::add_field(Column& column, const Plan& plan, const tracking::Packet& packet) {
  for (const Source& source : plan.sources) {
    const std::uint8_t* const header = find(packet, source.header, source.field);
    if (!header) continue;
    if (plan.form == Form::there) return column.add(1);
    return put(column, plan, *source.field, header);
  }
  if (plan.form == Form::there)
    column.add(0);
  else
    column.add_missing();
}

void PacketColumns::put(Column& column, const Plan& plan, const Field& field, const std::uint8_t* header) {
  switch (plan.form) {
    case Form::bytes: return column.add_bytes(field.bytes(header));
    case Form::name: {
      const std::uint64_t value = field.value(header);
      const Name* const name = field.names->find(value);
      if (!name) return column.add_missing();
      // Enumerations of one column can have different names for one number.
      const auto enumeration = reinterpret_cast<std::uintptr_t>(field.names);
      return column.add_text({enumeration, value, 0}, [&](std::string& text) { text = name->name; });
    }
    case Form::text: {
      Column::Key key;
      key.kind = 1 + static_cast<std::uint32_t>(field.display);
      const auto write = [&](std::string& text) { output::append_value(text, field, header); };
      if (field.is_number() && field.display != Display::text) {
        key.low = field.value(header);
        return column.add_text(key, write);
      }
      if (field.width == 128) {
        key.high = load_be<8>(header + field.bit / 8);
        key.low = load_be<8>(header + field.bit / 8 + 8);
        return column.add_text(key, write);
      }
      std::string text;
      write(text);
      return column.add_text(text);
    }
    default: return column.add(field.value(header));
  }
}

void PacketColumns::add_derived(Column& column, const Plan& plan, const tracking::Packet& packet) {
  struct State {
    Column& column;
    const Plan& plan;
  } state{column, plan};
  const bool there = plan.derived->visit(
      packet, {[](void* to, std::uint64_t number, Bytes bytes) {
                 State& s = *static_cast<State*>(to);
                 switch (s.plan.form) {
                   case Form::there: s.column.add(1); break;
                   case Form::time: s.column.add(number ^ 1ULL << 63); break;
                   case Form::name:
                     if (const Name* const name = s.plan.names->find(number))
                       s.column.add_text({0, number, 0}, [&](std::string& text) { text = name->name; });
                     else
                       s.column.add_missing();
                     break;
                   case Form::derived:
                     if (s.column.type() == ColumnType::text)
                       s.column.add_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
                     else
                       s.column.add_bytes(bytes);
                     break;
                   default: s.column.add(number);
                 }
                 return true;
               },
               &state});
  if (there) return;
  if (plan.form == Form::there)
    column.add(0);
  else
    column.add_missing();
}

}  // namespace rdmawire::python
