#include "dissectors/protocol/user_headers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/opcode.hpp"
#include "dissectors/protocol/registry.hpp"

namespace rdmawire {
namespace {

/// A defined header. Its tables refer to the strings of `definition`.
struct Defined {
  UserHeader definition;
  std::vector<std::vector<Name>> entries;
  std::vector<Names> names;
  std::vector<Field> fields;
  HeaderInfo info{};
  const Field* counts_tail = nullptr;
  const Field* counts_payload = nullptr;
  mutable std::atomic<bool> decoded{true};
};

/// All defined headers. Exists until the process ends. Readers need no lock.
struct Registry {
  std::mutex mutex;
  std::array<const Defined*, max_user_headers> headers{};
  std::atomic<std::size_t> count{0};
};
Registry& registry() {
  static auto* const all = new Registry;
  return *all;
}

std::span<const Defined* const> defined() {
  const Registry& all = registry();
  return {all.headers.data(), all.count.load(std::memory_order_acquire)};
}

const Defined* definition_of(const HeaderInfo& header) {
  for (const Defined* one : defined())
    if (&one->info == &header) return one;
  return nullptr;
}

bool is_identifier(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  return !text.empty() && is_letter(text[0]) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

bool is_bytes(Display display) { return display == Display::bytes || display == Display::text; }

/// Returns the width in bits that a display format requires, or 0 if any width is allowed.
unsigned width_of(Display display) {
  switch (display) {
    case Display::mac: return 48;
    case Display::ipv4: return 32;
    case Display::ipv6: return 128;
    case Display::guid: return 64;
    case Display::flag: return 1;
    default: return 0;
  }
}

std::string wrong_field(const UserField& field, unsigned bit) {
  constexpr unsigned most_number_bits = 64;
  if (!is_identifier(field.name))
    return fmt::format("field '{}': expected a name of lower-case letters, digits and _", field.name);
  const bool aligned = bit % 8 == 0 && field.width % 8 == 0;
  if (field.width == 0) return fmt::format("field {}: expected a width of 1 bit or more", field.name);
  if (const unsigned width = width_of(field.display); width != 0 && field.width != width)
    return fmt::format("field {}: its kind has {} bits, not {}", field.name, width, field.width);
  const bool long_field = is_bytes(field.display) || width_of(field.display) > 1;
  if (long_field && !aligned)
    return fmt::format("field {}: its kind requires whole bytes at a byte boundary", field.name);
  if (!long_field && bit % 8 + field.width > most_number_bits)
    return fmt::format("field {}: a number has at most 64 bits, in 8 consecutive bytes; use the kind bytes",
                       field.name);
  if (field.little_endian && (!aligned || long_field))
    return fmt::format("field {}: only a number of whole bytes can be little endian", field.name);
  const std::uint64_t most =
      field.width >= most_number_bits ? ~std::uint64_t{0} : (std::uint64_t{1} << field.width) - 1;
  for (const auto& [value, name] : field.names)
    if (value > most || name.empty())
      return fmt::format("field {}: expected names of values from 0 to {}, got {}", field.name, most, value);
  if ((long_field || is_bytes(field.display)) && (!field.names.empty() || field.counts != UserField::Counts::nothing))
    return fmt::format("field {}: only numbers have named values and count bytes", field.name);
  return {};
}

std::string wrong_definition(const UserHeader& header) {
  constexpr std::uint32_t most_bits = 8 * 1024;
  if (!is_identifier(header.name))
    return fmt::format("header '{}': expected a name of lower-case letters, digits and _", header.name);
  if (find_header(header.name)) return fmt::format("header {}: the name is in use", header.name);
  if (header.after.empty()) return fmt::format("header {}: expected a header that it follows", header.name);
  std::uint32_t bit = 0;
  std::size_t tails = 0, payloads = 0;
  for (const UserField& field : header.fields) {
    if (std::string wrong = wrong_field(field, bit); !wrong.empty()) return wrong;
    bit += field.width;
    if (bit > most_bits) return fmt::format("header {}: expected at most 1024 bytes", header.name);
    tails += field.counts == UserField::Counts::tail;
    payloads += field.counts == UserField::Counts::payload;
  }
  if (bit == 0 || bit % 8 != 0)
    return fmt::format("header {}: expected fields of a whole number of bytes, got {} bits", header.name, bit);
  if (header.fields.size() > HeaderValue::max_fields)
    return fmt::format("header {}: expected at most {} fields", header.name, HeaderValue::max_fields);
  std::vector<std::string_view> names;
  for (const UserField& field : header.fields) names.push_back(field.name);
  if (!header.tail.empty()) names.push_back(header.tail);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    return fmt::format("header {}: the name {} occurs twice", header.name, *twice);
  if (!header.tail.empty() && !is_identifier(header.tail))
    return fmt::format("'{}': expected a name of lower-case letters, digits and _", header.tail);
  if (tails != (header.tail.empty() ? 0U : 1U) || payloads > 1)
    return fmt::format(
        "header {}: expected one field that counts the variable part, if there is one, and at most one that "
        "counts the bytes after the header",
        header.name);
  return {};
}

/// Computes the unset fields that count bytes, and the fields of the predecessor that select this header.
void fill(FrameLayout& frame, std::size_t index) {
  HeaderValue& value = frame.at(index);
  const Defined& header = *definition_of(value.header());
  if (header.counts_tail) value.fill(header.counts_tail->name, value.tail().size());
  if (header.counts_payload) value.fill(header.counts_payload->name, frame.bytes_after(index));
  if (header.definition.after.size() != 1) return;
  const UserHeader::Predecessor& before = header.definition.after.front();
  const std::size_t at = before.header == &info<Bth> ? frame.transport : index - 1;
  if (at >= index || &frame.at(at).header() != before.header) return;
  for (const auto& [field, number] : before.values) frame.at(at).fill(field->name, number);
}

/// Returns whether the payload follows layer `at`. Only extension headers of the BTH may be between them.
bool is_last(const HeaderStack& stack, std::size_t at) {
  const auto layers = stack.layers();
  if (at + 1 == layers.size()) return true;
  if (layers[at].header != &info<Bth>) return false;
  const Opcode& op = opcode(View<Bth>(stack.bytes.data() + layers[at].offset).get<"opcode">());
  return at + 1 + op.extension_headers().size() == layers.size();
}

bool follows(const HeaderStack& stack, const UserHeader::Predecessor& before) {
  const auto layers = stack.layers();
  for (std::size_t at = layers.size(); at-- > 0;) {
    if (!is_last(stack, at)) continue;
    if (layers[at].header != before.header) continue;
    const std::uint8_t* const bytes = stack.bytes.data() + layers[at].offset;
    return std::all_of(before.values.begin(), before.values.end(), [&](const auto& value) {
      return value.first->present_in(bytes) && value.first->load(bytes) == value.second;
    });
  }
  return false;
}

/// Appends one header. Returns false if no defined header follows, or it is truncated.
bool decode_one(HeaderStack& stack) {
  Range& payload = stack.payload;
  const auto layers = stack.layers();
  if (payload.length == 0 || layers.empty()) return false;
  if (payload.offset != layers.back().offset + layers.back().length) return false;
  for (const Defined* one : defined()) {
    if (!one->decoded.load(std::memory_order_acquire)) continue;
    const auto& after = one->definition.after;
    if (std::none_of(after.begin(), after.end(), [&](const auto& before) { return follows(stack, before); })) continue;
    std::uint64_t length = one->info.size;
    if (length <= payload.length && one->counts_tail)  // the field can have 64 bits
      length += std::min<std::uint64_t>(one->counts_tail->load(stack.bytes.data() + payload.offset), UINT32_MAX);
    if (length > payload.length) {
      stack.report({stack.cut ? ParseError::Kind::truncated : ParseError::Kind::malformed, &one->info, payload.offset,
                    static_cast<std::uint32_t>(std::min<std::uint64_t>(length, UINT32_MAX)), payload.length,
                    "the bytes end inside the header"});
      return false;
    }
    const auto bytes = static_cast<std::uint32_t>(length);
    if (!stack.push(one->info, payload.offset, bytes)) return false;
    payload = {payload.offset + bytes, payload.length - bytes};
    return true;
  }
  return false;
}

}  // namespace

tl::expected<const HeaderInfo*, std::string> define_header(UserHeader header) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (std::string wrong = wrong_definition(header); !wrong.empty()) return tl::unexpected(std::move(wrong));
  const std::size_t count = all.count.load(std::memory_order_relaxed);
  if (count == max_user_headers)
    return tl::unexpected(fmt::format("at most {} headers can be defined", max_user_headers));
  auto made = std::make_unique<Defined>();
  made->definition = std::move(header);
  const UserHeader& of = made->definition;
  made->entries.reserve(of.fields.size());
  made->names.reserve(of.fields.size());
  made->fields.reserve(of.fields.size());
  unsigned bit = 0;
  for (const UserField& one : of.fields) {
    Field& field = made->fields.emplace_back();
    field.name = one.name;
    field.bit = static_cast<std::uint16_t>(bit);
    field.width = static_cast<std::uint16_t>(one.width);
    field.meaning = one.meaning;
    field.display = one.display;
    field.little_endian = one.little_endian;
    field.is_computed = one.counts != UserField::Counts::nothing;
    if (one.counts == UserField::Counts::tail) made->counts_tail = &field;
    if (one.counts == UserField::Counts::payload) made->counts_payload = &field;
    bit += one.width;
    if (one.names.empty()) continue;
    std::vector<Name>& entries = made->entries.emplace_back();
    for (const auto& [value, name] : one.names) entries.push_back({value, name, {}});
    field.names = &made->names.emplace_back(Names{one.name, entries, {}});
  }
  made->info.name = of.name;
  made->info.title = of.title;
  made->info.section = "defined by the program";
  made->info.size = bit / 8;
  made->info.fields = made->fields;
  made->info.tail = of.tail;
  made->info.fill = &fill;
  made->decoded.store(of.decoded, std::memory_order_relaxed);
  const HeaderInfo* const info = &made->info;
  all.headers[count] = made.release();
  all.count.store(count + 1, std::memory_order_release);
  detail::register_header(*info);
  return info;
}

void set_decoded(const HeaderInfo& header, bool decoded) {
  if (const Defined* const found = definition_of(header)) found->decoded.store(decoded, std::memory_order_release);
}

void decode_user_headers(HeaderStack& stack) {
  if (defined().empty()) return;
  while (decode_one(stack)) {
  }
}

std::string_view user_type_name(const HeaderInfo& header) {
  const Defined* const found = definition_of(header);
  return found ? std::string_view(found->definition.type_name) : std::string_view();
}

}  // namespace rdmawire
