#include "dissectors/protocol/header.hpp"

#include <fmt/format.h>

#include "dissectors/protocol/field_overflow.hpp"

namespace rdmawire {

std::string_view to_string(ParseError::Kind kind) {
  switch (kind) {
    case ParseError::Kind::truncated: return "truncated";
    case ParseError::Kind::malformed: return "malformed";
    case ParseError::Kind::unknown: return "unknown";
    case ParseError::Kind::limit: return "limit";
  }
  return "?";
}

std::string to_string(const ParseError& error) {
  std::string text =
      fmt::format("{} at offset {}: {}", error.layer ? error.layer->name : "packet", error.offset, error.what);
  if (error.needed) text += fmt::format(" (needed {}, had {})", error.needed, error.had);
  return text;
}

tl::expected<HeaderValue, ParseError> HeaderValue::parse(const HeaderInfo& header, Bytes bytes) {
  if (bytes.size() < header.size)
    return tl::unexpected(ParseError::truncated(header, 0, header.size, static_cast<std::uint32_t>(bytes.size())));
  HeaderValue value(header);
  value.bytes_.assign(bytes.begin(), header.tail.empty() ? bytes.begin() + header.size : bytes.end());
  value.given_.set();
  return value;
}

void HeaderValue::set_tail(Bytes tail) {
  bytes_.resize(header_->size);
  bytes_.insert(bytes_.end(), tail.begin(), tail.end());
}

void HeaderValue::mark(const Field& f, bool given) {
  given_.set(index(f), given);
  // Setting a part counts as setting the whole field, and vice versa.
  for (const Field& other : header_->fields) {
    const bool related =
        other.name.size() > f.name.size()
            ? other.name.starts_with(f.name) && other.name[f.name.size()] == '.'
            : f.name.size() > other.name.size() && f.name.starts_with(other.name) && f.name[other.name.size()] == '.';
    if (related) given_.set(index(other), given);
  }
}

void HeaderValue::set(const Field& f, std::uint64_t value) {
  f.store(bytes_.data(), value);
  mark(f, true);
}

void HeaderValue::set(const Field& f, Bytes value) {
  const std::size_t size = f.width / 8U;
  auto at = bytes_.begin() + f.bit / 8;
  std::fill_n(at, size, std::uint8_t{0});
  std::copy_n(value.begin(), std::min(size, value.size()), at);
  mark(f, true);
}

bool HeaderValue::given(std::string_view field_name) const {
  const Field* f = header_->find(field_name);
  return f && given(*f);
}

void HeaderValue::forget(const Field& f) { mark(f, false); }
void HeaderValue::forget(std::string_view field_name) {
  if (const Field* f = header_->find(field_name)) forget(*f);
}

void HeaderValue::fill(std::string_view field_name, std::uint64_t value) {
  const Field* f = header_->find(field_name);
  if (!f || given(*f)) return;
  if (f->width < 64 && value >> f->width != 0) [[unlikely]]
    note_misfit({header_, f, value});
  f->store(bytes_.data(), value);
}

}  // namespace rdmawire
