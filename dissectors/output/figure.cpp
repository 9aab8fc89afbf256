/// Draws headers like the figures in the specifications.

#include <algorithm>
#include <vector>

#include "dissectors/output/explain.hpp"
#include "dissectors/output/text_style.hpp"

namespace rdmawire::output {
namespace {

constexpr unsigned row_bits = 32;

struct Cell {
  const Field* field;
  unsigned from, to;  ///< first bit, and bit after the last, within the row
};
struct Row {
  std::vector<Cell> cells;
  unsigned repeated = 1;  ///< number of identical rows that this row represents, in the middle of one wide field
};

std::vector<Row> rows_of(const HeaderInfo& header) {
  std::vector<Row> rows((header.size * 8 + row_bits - 1) / row_bits);
  for (const Field& field : header.fields) {
    if (field.is_part()) continue;
    for (unsigned bit = field.bit; bit < field.bit + field.width;) {
      const unsigned row = bit / row_bits;
      const unsigned end = std::min<unsigned>((row + 1) * row_bits, field.bit + field.width);
      rows[row].cells.push_back({&field, bit % row_bits, bit % row_bits + (end - bit)});
      bit = end;
    }
  }
  // One row represents the whole rows of a wide field.
  std::vector<Row> merged;
  for (Row& row : rows) {
    const bool filled = row.cells.size() == 1 && row.cells[0].to - row.cells[0].from == row_bits;
    if (filled && !merged.empty() && merged.back().cells.size() == 1 &&
        merged.back().cells[0].field == row.cells[0].field && merged.back().cells[0].from == 0)
      ++merged.back().repeated;
    else
      merged.push_back(std::move(row));
  }
  return merged;
}

std::string centerd(std::string_view text, std::size_t width) {
  const std::size_t left = (width - text.size()) / 2;
  return std::string(left, ' ') + std::string(text) + std::string(width - text.size() - left, ' ');
}

/// Returns the box-drawing character at which lines in these directions meet.
std::string_view corner(bool up, bool down, bool left, bool right) {
  static constexpr std::string_view corners[] = {" ", "╶", "╴", "─", "╷", "┌", "┐", "┬",
                                                 "╵", "└", "┘", "┴", "│", "├", "┤", "┼"};
  return corners[up * 8 + down * 4 + left * 2 + right];
}

/// Returns for each bit position whether `row` has a vertical line there. Position 0 and the end of the row have one.
std::vector<bool> edges(const Row* row) {
  std::vector<bool> at(row_bits + 1, false);
  if (row)
    for (const Cell& cell : row->cells) at[cell.from] = at[cell.to] = true;
  return at;
}

std::string border(const Row* above, const Row* below) {
  const std::vector<bool> up = edges(above), down = edges(below);
  const auto reach = [](const Row* row) { return row && !row->cells.empty() ? row->cells.back().to : 0U; };
  const unsigned end = std::max(reach(above), reach(below));
  std::string line;
  for (unsigned bit = 0; bit <= end; ++bit) {
    line += corner(up[bit], down[bit], bit > 0, bit < end);
    if (bit < end) line += "─";
  }
  return line;
}

}  // namespace

std::string draw_header(const HeaderInfo& header, const Field* highlighted, bool colors) {
  std::string out;
  Page page(out, colors);
  const std::vector<Row> rows = rows_of(header);
  // If a part is selected, the whole field is highlighted.
  std::string_view lit = highlighted ? highlighted->name.substr(0, highlighted->name.find('.')) : std::string_view();

  std::string tens = "    ", ones = "    ";
  const unsigned width = std::min<unsigned>(row_bits, header.size * 8);
  for (unsigned bit = 0; bit < width; ++bit) {
    tens += bit % 10 == 0 ? std::string(1, static_cast<char>('0' + bit / 10)) + " " : std::string("  ");
    ones += std::string(1, static_cast<char>('0' + bit % 10)) + " ";
  }
  page.put(TextStyle::dim, tens).line().put(TextStyle::dim, ones).line();

  std::vector<std::pair<char, const Field*>> legend;
  unsigned byte = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    page.to(3).put(TextStyle::dim, border(r ? &rows[r - 1] : nullptr, &rows[r])).line();
    std::string number = std::to_string(byte);
    page.to(3 - std::min<std::size_t>(3, number.size())).put(TextStyle::dim, number);
    for (const Cell& cell : rows[r].cells) {
      const std::size_t space = (cell.to - cell.from) * 2 - 1;
      const bool continued = cell.field->bit < byte * 8 + cell.from;
      std::string text(cell.field->name);
      if (cell.field->is_reserved()) text = space >= 8 ? "reserved" : "";
      if (continued) text.insert(0, "… ");
      if (continued && columns(text) > space) text = "…";
      if (rows[r].repeated > 1) text.append(" (").append(std::to_string(rows[r].repeated * 4)).append(" bytes)");
      if (columns(text) > space) {
        // Choose a letter that the legend does not use yet, if possible from the field's name.
        char letter = 0;
        for (const auto& [used, field] : legend)
          if (field == cell.field) letter = used;
        const auto is_free = [&](char c) {
          return std::none_of(legend.begin(), legend.end(), [&](const auto& entry) { return entry.first == c; });
        };
        if (!letter) {
          for (char c : std::string(cell.field->name) + "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
            if (((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) && is_free(c)) {
              letter = c;
              break;
            }
          legend.emplace_back(letter, cell.field);
        }
        text = std::string(1, letter);
      }
      page.put(TextStyle::dim, "│");
      // `text` is UTF-8, so it can have more bytes than columns.
      const std::string padded = centerd(text, space + (text.size() - columns(text)));
      page.put(cell.field->name == lit ? TextStyle::request : TextStyle::plain, padded);
    }
    page.put(TextStyle::dim, "│").line();
    byte += 4 * rows[r].repeated;
  }
  if (!rows.empty()) page.to(3).put(TextStyle::dim, border(&rows.back(), nullptr)).line();
  if (!legend.empty()) {
    page.to(4);
    for (std::size_t i = 0; i < legend.size(); ++i)
      page.put(i ? ", " : "")
          .put(std::string(1, legend[i].first))
          .put(TextStyle::dim, " " + std::string(legend[i].second->name));
    page.line();
  }
  return out;
}

}  // namespace rdmawire::output
