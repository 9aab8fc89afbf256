#include "dissectors/output/summary_format.hpp"

#include <charconv>

namespace rdmawire::output {

SummaryPlan::SummaryPlan(const SummaryFormat& summary_format) {
  const std::string_view s = summary_format.sentence;
  std::size_t group = 0;
  for (std::size_t i = 0; i < s.size();) {
    if (s[i] == '[') {
      group = pieces_.size();
      Piece& begin = pieces_.emplace_back();
      ++i;
      if (s[i] == '?' || s[i] == '!') {
        const std::size_t colon = s.find(':', i);
        begin.asks = s[i];
        begin.field = summary_format.header->find(s.substr(i + 1, colon - i - 1));
        i = colon + 1;
      }
    } else if (s[i] == ']') {
      pieces_[group].group_end = static_cast<std::uint16_t>(pieces_.size());
      ++i;
    } else if (s[i] == '{') {
      const std::size_t end = s.find('}', i);
      const std::string_view inside = s.substr(i + 1, end - i - 1);
      const std::size_t name_end = std::min(inside.find_first_of(":?="), inside.size());
      Piece piece;
      piece.field = summary_format.header->find(inside.substr(0, name_end));
      const std::string_view rest = inside.substr(name_end);
      if (const std::size_t question = rest.find('?'); question != std::string_view::npos) {
        piece.conditional = true;
        piece.any_nonzero = question == 0;
        piece.text = rest.substr(question + 1);
      }
      if (rest.starts_with(':')) std::from_chars(rest.data() + 1, rest.data() + rest.size(), piece.width);
      if (rest.starts_with('=')) std::from_chars(rest.data() + 1, rest.data() + rest.size(), piece.value);
      pieces_.push_back(piece);
      i = end + 1;
    } else {
      const std::size_t end = std::min(s.find_first_of("[]{", i), s.size());
      pieces_.emplace_back().text = s.substr(i, end - i);
      i = end;
    }
  }
}

SummaryPlan::SummaryPlan(const HeaderInfo& header) { pieces_.emplace_back().text = header.title; }

bool SummaryPlan::group_present(std::size_t begin, const std::uint8_t* bytes) const {
  if (const Field* field = pieces_[begin].field) {
    const bool there = field->present_in(bytes);
    if (pieces_[begin].asks == '!') return !there;
    if (!there || field->load(bytes) == 0) return false;
  }
  for (std::size_t i = begin + 1; i < pieces_[begin].group_end; ++i) {
    const Piece& piece = pieces_[i];
    if (piece.field && !piece.field->present_in(bytes)) return false;
  }
  return true;
}

void SummaryPlan::write(Page& page, const std::uint8_t* bytes) const {
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    if (piece.group_end) {
      if (!group_present(i, bytes)) i = piece.group_end - 1U;
      continue;
    }
    if (!piece.field) {
      page.put(piece.text);
      continue;
    }
    if (!piece.field->present_in(bytes)) continue;
    if (piece.conditional) {
      const std::uint64_t value = piece.field->value(bytes);
      if (piece.any_nonzero ? value != 0 : value == piece.value) page.put(piece.text);
      continue;
    }
    const std::size_t column = page.column();
    page.with([&](std::string& out) {
      if (piece.field->names && piece.field->is_number())
        append_named(out, *piece.field, piece.field->value(bytes));
      else
        append_value(out, *piece.field, bytes, Hex::shortest);
    });
    page.to(column + piece.width);
  }
}

void append_named(std::string& out, const Field& field, std::uint64_t value) {
  if (const Name* entry = field.names->find(value)) {
    out += entry->name;
    return;
  }
  out += field.names->title;
  out += ' ';
  append_number(out, field, value);
}

}  // namespace rdmawire::output
