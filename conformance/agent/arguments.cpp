#include "conformance/agent/arguments.hpp"

#include <algorithm>

namespace rdmawire::agent {
namespace {

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// A short representation of a value for messages.
std::string shown(const Asked& value) {
  std::string text = value.dump(-1, ' ', true, Asked::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

}  // namespace

std::optional<std::vector<std::uint8_t>> from_hex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::vector<std::uint8_t> bytes(text.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const int high = digit(text[2 * i]);
    const int low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return bytes;
}

std::string to_hex(const std::uint8_t* bytes, std::size_t length) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text(2 * length, '0');
  for (std::size_t i = 0; i < length; ++i) {
    text[2 * i] = digits[bytes[i] >> 4];
    text[2 * i + 1] = digits[bytes[i] & 15];
  }
  return text;
}

Arguments::Arguments(const Asked& given, const Objects& objects)
    : Arguments(given, objects, std::make_shared<State>(), "") {
  part_->asked = {"id", "do"};
}

Arguments::Arguments(const Asked& given, const Objects& objects, std::shared_ptr<State> state, std::string path)
    : given_(&given), objects_(&objects), state_(std::move(state)) {
  state_->parts.push_back(std::make_unique<State::Part>(State::Part{&given, std::move(path), {}}));
  part_ = state_->parts.back().get();
}

void Arguments::report_error(const std::string& name, int number, std::string_view what) {
  if (state_->first) return;
  state_->first = Error{number, fmt::format("{}{}: {}", part_->path, name, what)};
}

const Asked* Arguments::take(const std::string& name, bool needed) {
  part_->asked.insert(name);
  const auto found = given_->find(name);
  if (found != given_->end()) return &*found;
  if (needed) report_error(name, EINVAL, "missing required argument");
  return nullptr;
}

bool Arguments::has(const std::string& name) { return take(name, false) != nullptr; }

std::optional<std::uint64_t> Arguments::read_number(const std::string& name, Range range, bool needed) {
  const Asked* value = take(name, needed);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer()) {
    report_error(name, EINVAL, fmt::format("must be an integer, not {}", shown(*value)));
    return std::nullopt;
  }
  const bool negative = !value->is_number_unsigned() && value->get<std::int64_t>() < 0;
  if (negative || value->get<std::uint64_t>() < range.least || value->get<std::uint64_t>() > range.most) {
    report_error(name, ERANGE, fmt::format("must be from {} to {}, not {}", range.least, range.most, shown(*value)));
    return std::nullopt;
  }
  return value->get<std::uint64_t>();
}

bool Arguments::boolean_or(const std::string& name, bool fallback) {
  const Asked* value = take(name, false);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  report_error(name, EINVAL, fmt::format("must be true or false, not {}", shown(*value)));
  return fallback;
}

std::string Arguments::text(const std::string& name) {
  const Asked* value = take(name, true);
  if (value == nullptr) return {};
  if (value->is_string()) return value->get<std::string>();
  report_error(name, EINVAL, fmt::format("must be a string, not {}", shown(*value)));
  return {};
}

std::string Arguments::text_or(const std::string& name, std::string fallback) {
  return has(name) ? text(name) : std::move(fallback);
}

std::vector<std::string> Arguments::texts(const std::string& name, std::size_t most) {
  const Asked* value = take(name, false);
  if (value == nullptr) return {};
  std::vector<std::string> all;
  if (!value->is_array() || !std::all_of(value->begin(), value->end(), [](const Asked& e) { return e.is_string(); })) {
    report_error(name, EINVAL, fmt::format("must be an array of strings, not {}", shown(*value)));
  } else if (value->size() > most) {
    report_error(name, ERANGE, fmt::format("must have at most {} entries, not {}", most, value->size()));
  } else {
    for (const Asked& element : *value) all.push_back(element.get<std::string>());
  }
  return all;
}

std::vector<std::uint8_t> Arguments::bytes(const std::string& name, std::size_t most) {
  auto read = from_hex(text(name));
  if (!read) {
    report_error(name, EINVAL, "must be bytes in hexadecimal, two digits per byte");
    return {};
  }
  if (read->size() > most) {
    report_error(name, ERANGE, fmt::format("must have at most {} bytes, not {}", most, read->size()));
    return {};
  }
  return std::move(*read);
}

std::optional<std::uint64_t> Arguments::maybe_choice(const std::string& name, Names names) {
  if (!has(name)) return std::nullopt;
  return choice(name, names);
}

std::uint64_t Arguments::choice(const std::string& name, Names names) {
  const Asked* value = take(name, true);
  if (value == nullptr) return 0;
  const auto number = value->is_string() ? number_of(names, value->get<std::string>()) : std::nullopt;
  if (number) return *number;
  report_error(name, EINVAL, fmt::format("must be one of {}, not {}", listed(names), shown(*value)));
  return 0;
}

std::uint64_t Arguments::bits(const std::string& name, Names names) {
  const Asked* value = take(name, false);
  if (value == nullptr) return 0;
  if (!value->is_array()) {
    report_error(name, EINVAL, fmt::format("must be an array of names, not {}", shown(*value)));
    return 0;
  }
  std::uint64_t all = 0;
  for (const Asked& element : *value) {
    const auto bit = element.is_string() ? number_of(names, element.get<std::string>()) : std::nullopt;
    if (!bit) {
      report_error(name, EINVAL, fmt::format("unknown name {}; expected {}", shown(element), listed(names)));
      return 0;
    }
    all |= *bit;
  }
  return all;
}

std::optional<std::uint64_t> Arguments::maybe_bits(const std::string& name, Names names) {
  if (!has(name)) return std::nullopt;
  return bits(name, names);
}

std::optional<Arguments> Arguments::inner(const std::string& name) {
  const Asked* value = take(name, false);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) {
    report_error(name, EINVAL, fmt::format("must be an object, not {}", shown(*value)));
    return std::nullopt;
  }
  return Arguments(*value, *objects_, state_, fmt::format("{}{}: ", part_->path, name));
}

std::vector<Arguments> Arguments::inner_list(const std::string& name, std::size_t most) {
  const Asked* value = take(name, false);
  std::vector<Arguments> all;
  if (value == nullptr) return all;
  if (!value->is_array()) {
    report_error(name, EINVAL, fmt::format("must be an array of objects, not {}", shown(*value)));
    return all;
  }
  if (value->size() > most) {
    report_error(name, ERANGE, fmt::format("must have at most {} entries, not {}", most, value->size()));
    return all;
  }
  all.reserve(value->size());
  for (std::size_t i = 0; i < value->size(); ++i) {
    const Asked& element = (*value)[i];
    if (!element.is_object()) {
      report_error(fmt::format("{}[{}]", name, i), EINVAL, fmt::format("must be an object, not {}", shown(element)));
      return {};
    }
    all.push_back(Arguments(element, *objects_, state_, fmt::format("{}{}[{}]: ", part_->path, name, i)));
  }
  return all;
}

std::optional<Error> Arguments::wrong() {
  if (state_->first) return state_->first;
  for (const auto& part : state_->parts) {
    for (const auto& [key, value] : part->given->items()) {
      if (part->asked.contains(key)) continue;
      state_->first = Error{EINVAL, fmt::format("{}{}: unknown argument", part->path, shown(Asked(key)))};
      return state_->first;
    }
  }
  return std::nullopt;
}

}  // namespace rdmawire::agent
