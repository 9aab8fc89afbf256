#include "pysdk/src/columns.hpp"

#include <bit>
#include <numeric>
#include <stdexcept>

namespace rdmawire::python {

static_assert(std::endian::native == std::endian::little);

unsigned width_of(ColumnType type) {
  switch (type) {
    case ColumnType::boolean:
    case ColumnType::uint8: return 1;
    case ColumnType::uint16: return 2;
    case ColumnType::uint32: return 4;
    case ColumnType::uint64:
    case ColumnType::int64:
    case ColumnType::time:
    case ColumnType::duration: return 8;
    case ColumnType::text:
    case ColumnType::bytes: break;
  }
  return 0;
}

Words::Words(const std::vector<std::string_view>& words) {
  for (const std::string_view word : words) {
    if (!codes_.emplace(word, static_cast<std::int32_t>(texts_.size())).second) continue;
    texts_.emplace_back(word);
    characters_ += word;
    offsets_.push_back(static_cast<std::int32_t>(characters_.size()));
  }
}

std::int32_t Words::code(std::string_view word) const {
  const auto at = codes_.find(word);
  if (at == codes_.end())
    throw std::logic_error("\"" + std::string(word) + "\" is not a value of the column's enumeration");
  return at->second;
}

void Column::add_missing() {
  if (type_ == ColumnType::text)
    codes_.push_back(-1);
  else if (type_ == ColumnType::bytes)
    ends_.push_back(static_cast<std::int64_t>(values_.size()));
  else
    values_.resize(values_.size() + width_);
  if (optional_) mask_.push_back(1);
  ++missing_count_;
  ++rows_;
}

void Column::add_text(std::string_view value) {
  if (words_) return add_code(words_->code(value));
  auto at = known_texts_.find(value);
  if (at == known_texts_.end()) {
    at = known_texts_.emplace(value, static_cast<std::int32_t>(texts_.size())).first;
    texts_.emplace_back(value);
  }
  add_code(at->second);
}

std::size_t Column::memory() const {
  return values_.size() + ends_.size() * sizeof ends_[0] + codes_.size() * sizeof codes_[0] + mask_.size() +
         texts_.size() * (sizeof texts_[0] + 64);
}

void Column::clear() {
  rows_ = missing_count_ = 0;
  values_.clear();
  ends_.clear();
  codes_.clear();
  mask_.clear();
  texts_.clear();
  recent_.fill({});
  known_.clear();
  known_texts_.clear();
}

std::size_t Batch::memory() const {
  return std::accumulate(columns.begin(), columns.end(), std::size_t{0},
                         [](std::size_t sum, const Column& column) { return sum + column.memory(); });
}

void Batch::clear() {
  for (Column& column : columns) column.clear();
}

}  // namespace rdmawire::python
