#include <fmt/format.h>

#include "dissectors/output/value.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "replay/rewrite/rewriter.hpp"

namespace rdmawire::replay {
namespace {

std::string value_of(const Field& field, const std::uint8_t* header) {
  std::string text;
  output::append_value(text, field, header, output::Hex::shortest);
  return text;
}
std::string bytes_of(Bytes bytes) {
  std::string text;
  if (!bytes.empty()) {
    text = "0x";
    output::append_bytes(text, bytes);
  }
  return text;
}

/// True if the parts of the field are reported instead of the field.
bool told_by_parts(const HeaderInfo& header, const Field& whole, const std::uint8_t* before,
                   const std::uint8_t* after) {
  for (const Field& part : header.fields)
    if (part.name.size() > whole.name.size() && part.name.starts_with(whole.name) &&
        part.name[whole.name.size()] == '.' && part.present_in(before) && part.present_in(after) &&
        value_of(part, before) != value_of(part, after))
      return true;
  return false;
}

void compare(std::vector<FieldChange>& out, const HeaderInfo& header, const std::uint8_t* before,
             const std::uint8_t* after) {
  for (const Field& field : header.fields) {
    if (!field.present_in(before) || !field.present_in(after)) continue;
    if (!field.is_part() && told_by_parts(header, field, before, after)) continue;
    std::string a = value_of(field, before), b = value_of(field, after);
    if (a != b) out.push_back({std::string(header.name) + "." + std::string(field.name), std::move(a), std::move(b)});
  }
}

void tell_layer(std::vector<FieldChange>& out, const HeaderStack& stack, const Layer& layer, bool gone) {
  std::string bytes = bytes_of(stack.bytes_of(layer));
  if (layer.header == &info<Vlan>) {
    const View<Vlan> tag(stack.bytes.data() + layer.offset);
    bytes = fmt::format("{}, priority {}", tag.get<"id">(), tag.get<"priority">());
  }
  out.push_back({std::string(layer.header->name), gone ? bytes : "", gone ? "" : bytes});
}

void compare_range(std::vector<FieldChange>& out, std::string_view name, Bytes before, Bytes after) {
  if (!std::equal(before.begin(), before.end(), after.begin(), after.end()))
    out.push_back({std::string(name), bytes_of(before), bytes_of(after)});
}

void compare_payload(std::vector<FieldChange>& out, Bytes before, Bytes after) {
  if (before.size() != after.size()) {
    out.push_back({"payload", std::to_string(before.size()) + " bytes", std::to_string(after.size()) + " bytes"});
    return;
  }
  std::size_t different = 0;
  for (std::size_t i = 0; i < before.size(); ++i) different += before[i] != after[i];
  if (different)
    out.push_back({"payload", std::to_string(before.size()) + " bytes", std::to_string(different) + " different"});
}

}  // namespace

std::vector<FieldChange> differences(const HeaderStack& before, const HeaderStack& after) {
  std::vector<FieldChange> out;
  const auto a = before.layers(), b = after.layers();
  std::size_t j = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t match = j;
    while (match < b.size() && b[match].header != a[i].header) ++match;
    if (match == b.size()) {
      tell_layer(out, before, a[i], true);
      continue;
    }
    for (; j < match; ++j) tell_layer(out, after, b[j], false);
    compare(out, *a[i].header, before.bytes.data() + a[i].offset, after.bytes.data() + b[j].offset);
    const auto tail = [&](const HeaderStack& stack, const Layer& layer) {
      return stack.bytes_of(layer).subspan(layer.header->size);
    };
    const std::string_view tail_name = a[i].header->tail;
    compare_range(out, std::string(a[i].header->name) + "." + std::string(tail_name.empty() ? "tail" : tail_name),
                  tail(before, a[i]), tail(after, b[j]));
    ++j;
  }
  for (; j < b.size(); ++j) tell_layer(out, after, b[j], false);
  compare_payload(out, before.bytes_of(before.payload), after.bytes_of(after.payload));
  compare_range(out, "pad", before.bytes_of(before.pad), after.bytes_of(after.pad));
  compare_range(out, "icrc", before.bytes_of(before.icrc), after.bytes_of(after.icrc));
  compare_range(out, "vcrc", before.bytes_of(before.vcrc), after.bytes_of(after.vcrc));
  return out;
}

std::string to_string(const FieldChange& change) {
  return change.field + " " + (change.before.empty() ? "none" : change.before) + " → " +
         (change.after.empty() ? "none" : change.after);
}

}  // namespace rdmawire::replay
