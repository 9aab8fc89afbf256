/// Evaluates compiled filters. filter.cpp compiles them.
#include <algorithm>

#include "dissectors/output/filter.hpp"
#include "dissectors/output/filter_source.hpp"
#include "dissectors/output/occurrences.hpp"

namespace rdmawire::output {
namespace {

using tracking::Packet;

template <class Take>
bool each_derived(const Derived& derived, const Packet& packet, Take take) {
  const Occurrences to{
      [](void* state, std::uint64_t number, Bytes bytes) { return (*static_cast<Take*>(state))(number, bytes); },
      &take};
  return derived.visit(packet, to);
}

std::string_view as_text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

}  // namespace

// Calls take(number, bytes) for each occurrence of the source's value, until it returns true.
template <class Visit>
bool Filter::visit(const Source& source, const Packet& packet, Visit take) {
  if (source.derived) return each_derived(*source.derived, packet, take);
  const Field* field = source.field;
  return each_occurrence(packet, source.header, [&](const std::uint8_t* header) {
    if (!field) return take(0, {});
    if (!field->present_in(header)) return false;
    return field->is_number() ? take(field->value(header), {}) : take(0, field->bytes(header));
  });
}

bool Filter::holds(const Test& test, const Packet& packet) const {
  const std::span<const Source> sources(sources_.data() + test.sources.begin, test.sources.count);
  bool some = false;
  // True if any occurrence of any source matches.
  auto any = [&](auto passes) {
    for (const Source& source : sources)
      if (visit(source, packet, passes)) return true;
    return false;
  };
  auto within = [&](const auto& table, auto value) {
    const auto* range = table.data() + test.values.begin;
    for (std::uint16_t i = 0; i < test.values.count; ++i)
      if (value - range[i].from <= range[i].width) return true;
    return false;
  };
  // A text ends before its padding of zeros. Even fields of up to 64 bits can contain text.
  auto bytes_of = [&](const Source& source, auto take) {
    if (source.derived)
      return each_derived(*source.derived, packet, [&](std::uint64_t, Bytes bytes) { return take(as_text(bytes)); });
    return each_occurrence(packet, source.header, [&](const std::uint8_t* header) {
      if (!source.field->present_in(header)) return false;
      std::string_view bytes = as_text(source.field->bytes(header));
      if (source.field->display == Display::text) bytes = bytes.substr(0, bytes.find('\0'));
      return take(bytes);
    });
  };
  auto any_bytes = [&](auto passes) {
    const std::span<const std::string> strings(strings_.data() + test.values.begin, test.values.count);
    for (const Source& source : sources)
      if (bytes_of(source, [&](std::string_view bytes) {
            some = true;
            return std::any_of(strings.begin(), strings.end(),
                               [&](const std::string& wanted) { return passes(bytes, std::string_view(wanted)); });
          }))
        return true;
    return false;
  };

  bool result = false;
  switch (test.kind) {
    case Kind::header:
    case Kind::present: result = any([](std::uint64_t, Bytes) { return true; }); break;
    case Kind::set: result = any([](std::uint64_t value, Bytes) { return value != 0; }); break;
    case Kind::number:
      result = any([&](std::uint64_t value, Bytes) {
        some = true;
        return within(ranges_, value);
      });
      break;
    case Kind::wide:
      result = any([&](std::uint64_t, Bytes bytes) {
        some = true;
        return within(wide_ranges_, static_cast<Wide>(load_be<8>(bytes.data())) << 64 | load_be<8>(bytes.data() + 8));
      });
      break;
    case Kind::equals: result = any_bytes([](std::string_view a, std::string_view b) { return a == b; }); break;
    case Kind::contains:
      result = any_bytes([](std::string_view a, std::string_view b) { return a.find(b) != std::string_view::npos; });
      break;
  }
  return test.none ? some && !result : result;
}

bool Filter::matches(const Packet& packet) const {
  std::uint16_t at = 0;
  while (at < reject) {
    const Test& test = tests_[at];
    at = holds(test, packet) ? test.if_true : test.if_false;
  }
  return at == accept;
}

}  // namespace rdmawire::output
