#include "replay/rpc/message.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

namespace rdmawire::rpc {
namespace {

struct KindName {
  std::string_view name, description;
};
/// Ordered like Kind.
constexpr KindName kinds[] = {
    {"object", "an object"},
    {"device", "an opened device"},
    {"pd", "a protection domain"},
    {"xrcd", "an XRC domain"},
    {"mr", "a memory region"},
    {"mw", "a memory window"},
    {"channel", "a completion channel"},
    {"cq", "a completion queue"},
    {"srq", "a shared receive queue"},
    {"ah", "an address handle"},
    {"qp", "a queue pair"},
    {"cm_id", "a connection or listener"},
    {"cm_channel", "an event channel"},
    {"process", "a process"},
};

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// A short representation of a value for error messages.
std::string shown(const Received& value) {
  std::string text = value.dump(-1, ' ', true, Received::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

}  // namespace

std::string_view name_of(Kind kind) { return kinds[static_cast<std::size_t>(kind)].name; }
std::string_view description_of(Kind kind) { return kinds[static_cast<std::size_t>(kind)].description; }

std::string to_hex(const std::uint8_t* bytes, std::size_t length) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text(2 * length, '0');
  for (std::size_t i = 0; i < length; ++i) {
    text[2 * i] = digits[bytes[i] >> 4];
    text[2 * i + 1] = digits[bytes[i] & 15];
  }
  return text;
}

std::optional<ByteVector> from_hex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  ByteVector bytes(text.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const int high = digit(text[2 * i]);
    const int low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return bytes;
}

void Reader::report_error(std::string_view name, int number, std::string_view what) {
  if (error_) return;
  wrong_member_ = fmt::format("{}{}", path_, name);
  error_ = Error{number, fmt::format("{}: {}", wrong_member_, what)};
}

void Reader::read(void* message, const Received& object, const Fields& fields) {
  if (strict_) {
    const bool top = path_.empty();
    for (const auto& [key, value] : object.items()) {
      const bool known = (top && (key == "id" || key == "do")) ||
                         std::any_of(fields.begin(), fields.end(), [&name = key, this](const Field& field) {
                           return field.name == name && (extensions_ || !field.limits.extension);
                         });
      if (known) continue;
      std::string names;
      for (const Field& field : fields) {
        if (field.limits.extension && !extensions_) continue;
        if (!names.empty()) names += ", ";
        names += field.name;
      }
      report_error(shown(Received(key)), EINVAL,
                   fmt::format("unknown argument; expected {}", names.empty() ? "none" : names));
    }
  }
  for (const Field& field : fields) {
    if (error_) return;
    const auto found = object.find(field.name);
    const bool present = found != object.end() && (strict_ || field.limits.null || !found->is_null());
    if (strict_ && !field.applies(message)) {
      if (present) report_error(field.name, EINVAL, field.limits.condition.text);
    } else if (present && !(field.limits.null && found->is_null())) {
      field.read(message, *found, field, *this);
    } else if (!present && field.required) {
      report_error(field.name, EINVAL, "missing required argument");
    }
  }
}

void Reader::read_number(std::uint64_t& into, const Received& value, const Field& field, std::string_view name) {
  const std::uint64_t least = field.limits.least;
  const std::uint64_t most = field.type == nullptr ? field.limits.most : std::min(field.limits.most, field.type->most);
  if (!value.is_number_integer())
    return report_error(name, EINVAL, fmt::format("must be an integer, not {}", shown(value)));
  const bool negative = !value.is_number_unsigned() && value.get<std::int64_t>() < 0;
  if (negative || value.get<std::uint64_t>() < least || value.get<std::uint64_t>() > most)
    return report_error(name, ERANGE, fmt::format("must be from {} to {}, not {}", least, most, shown(value)));
  into = value.get<std::uint64_t>();
}

void Reader::read_boolean(bool& into, const Received& value, std::string_view name) {
  if (!value.is_boolean())
    return report_error(name, EINVAL, fmt::format("must be true or false, not {}", shown(value)));
  into = value.get<bool>();
}

void Reader::read_text(std::string& into, const Received& value, const Field& field, std::string_view name) {
  if (!value.is_string()) return report_error(name, EINVAL, fmt::format("must be a string, not {}", shown(value)));
  into = value.get<std::string>();
  if (into.size() > field.limits.most)
    report_error(name, ERANGE, fmt::format("must have at most {} bytes, not {}", field.limits.most, into.size()));
}

void Reader::read_bytes(ByteVector& into, const Received& value, const Field& field, std::string_view name) {
  if (!value.is_string()) return report_error(name, EINVAL, fmt::format("must be a string, not {}", shown(value)));
  auto bytes = from_hex(value.get_ref<const std::string&>());
  if (!bytes) return report_error(name, EINVAL, "must be bytes in hexadecimal, two digits per byte");
  if (bytes->size() > field.limits.most)
    return report_error(name, ERANGE,
                        fmt::format("must have at most {} bytes, not {}", field.limits.most, bytes->size()));
  if (bytes->size() < field.limits.least)
    return report_error(name, EINVAL,
                        fmt::format("must have at least {} bytes, not {}", field.limits.least, bytes->size()));
  into = std::move(*bytes);
}

void Reader::read_handle(std::uint64_t& into, Kind kind, const Received& value, std::string_view name) {
  static const Field& unlimited = *new Field{};
  read_number(into, value, unlimited, name);
  if (error_ || !check_) return;
  if (const auto wrong = check_(kind, into)) report_error(name, wrong->number, wrong->message);
}

void Reader::read_choice(std::string& into, Names names, const Received& value, std::string_view name) {
  const bool known = value.is_string() && (!strict_ || number_of(names, value.get_ref<const std::string&>()));
  if (!known) return report_error(name, EINVAL, fmt::format("must be one of {}, not {}", listed(names), shown(value)));
  into = value.get<std::string>();
}

void Reader::read_flags(std::vector<std::string>& into, Names names, const Received& value, std::string_view name) {
  if (!value.is_array())
    return report_error(name, EINVAL, fmt::format("must be an array of names, not {}", shown(value)));
  into.clear();
  for (const Received& element : value) {
    const bool known = element.is_string() && (!strict_ || number_of(names, element.get_ref<const std::string&>()));
    if (!known)
      return report_error(name, EINVAL, fmt::format("unknown name {}; expected {}", shown(element), listed(names)));
    into.push_back(element.get<std::string>());
  }
}

void Reader::read_numbers(std::map<std::string, std::uint64_t>& into, const Received& value, std::string_view name) {
  if (!value.is_object()) return report_error(name, EINVAL, fmt::format("must be an object, not {}", shown(value)));
  for (const auto& [key, number] : value.items())
    if (number.is_number_integer()) into[key] = number.get<std::uint64_t>();
}

void Reader::read_structure(void* into, const Fields& fields, const Received& value, std::string_view name) {
  if (!value.is_object()) return report_error(name, EINVAL, fmt::format("must be an object, not {}", shown(value)));
  const std::size_t length = path_.size();
  path_ += fmt::format("{}: ", name);
  read(into, value, fields);
  path_.resize(length);
}

bool Reader::check_list(const Received& value, const Field& field, std::string_view name) {
  if (!value.is_array()) {
    report_error(name, EINVAL, fmt::format("must be an array, not {}", shown(value)));
  } else if (value.size() > field.limits.most) {
    report_error(name, ERANGE, fmt::format("must have at most {} entries, not {}", field.limits.most, value.size()));
  } else if (value.size() < field.limits.least) {
    report_error(name, EINVAL, fmt::format("requires at least {} entry", field.limits.least));
  } else {
    return true;
  }
  return false;
}

Json write(const void* message, const Fields& fields, Style style) {
  Json object = Json::object();
  for (const Field& field : fields) {
    if (!field.applies(message)) continue;
    auto value = field.write(message, style);
    if (style == Style::brief && !field.required && value == field.initial()) continue;
    // An absent object.
    if (style == Style::brief && field.type->form == Type::Form::handle && value == Json(0)) continue;
    if (value) {
      object[std::string(field.name)] = std::move(*value);
    } else if (field.limits.null) {
      object[std::string(field.name)] = nullptr;
    }
  }
  return object;
}

}  // namespace rdmawire::rpc
