#pragma once
/// Tables in columns. They are filled row by row without the interpreter's lock, and exported as NumPy arrays or
/// through the Arrow C data interface. This component does not depend on Python.

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <unordered_map>
#include <vector>

#include "dissectors/protocol/bits.hpp"

namespace rdmawire::python {

enum class ColumnType : std::uint8_t {
  boolean,
  uint8,
  uint16,
  uint32,
  uint64,
  int64,
  time,      ///< nanoseconds since 1970, signed
  duration,  ///< nanoseconds, signed
  text,      ///< UTF-8
  bytes,
};

/// Hash for maps with std::string keys that are searched by std::string_view.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

/// The names of an enumeration, each once, in order. The code of a name is its position.
class Words {
 public:
  explicit Words(const std::vector<std::string_view>& words);

  [[nodiscard]] const std::vector<std::string>& texts() const { return texts_; }
  /// Returns the code of the name `word`. Throws std::logic_error for an unknown name.
  [[nodiscard]] std::int32_t code(std::string_view word) const;
  /// All names concatenated, and the offset of each name and of the end, as in Arrow.
  [[nodiscard]] const std::string& characters() const { return characters_; }
  [[nodiscard]] const std::vector<std::int32_t>& offsets() const { return offsets_; }

 private:
  std::vector<std::string> texts_;
  std::string characters_;
  std::vector<std::int32_t> offsets_{0};
  std::unordered_map<std::string, std::int32_t, TextHash, std::equal_to<>> codes_;
};

/// Description of a column.
struct ColumnInfo {
  std::string name;
  ColumnType type = ColumnType::uint64;
  bool optional = true;                  ///< values can be missing
  std::string meaning;                   ///< one sentence. May be empty
  std::shared_ptr<const Words> words{};  ///< all names, if the values are names of an enumeration. Null: any text
};

/// Returns the bytes per value in columns of fixed width, 0 for text and bytes.
unsigned width_of(ColumnType type);

/// One column.
///
/// Each distinct text is stored once. `codes` index the texts. Instead of a text, the caller can pass a key (an
/// address, a number), which is converted to text only when it is new. The codes of an enumeration's names are the same
/// in each batch.
class Column {
 public:
  explicit Column(const ColumnInfo& info)
      : type_(info.type), width_(width_of(info.type)), optional_(info.optional), words_(info.words) {}

  [[nodiscard]] ColumnType type() const { return type_; }
  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::size_t missing() const { return missing_count_; }

  void add_missing();
  /// Adds the low bits of `value` to a column of fixed width.
  void add(std::uint64_t value) {
    const std::size_t at = values_.size();
    values_.resize(at + width_);
    std::memcpy(values_.data() + at, &value, width_);  // little endian, see columns.cpp
    present();
  }
  void add_bytes(Bytes value) {
    values_.insert(values_.end(), value.begin(), value.end());
    ends_.push_back(static_cast<std::int64_t>(values_.size()));
    present();
  }
  void add_text(std::string_view value);
  /// Adds the text of `key`. `write(text)` appends the text of a new key. Equal keys with different values of `kind`
  /// are different keys.
  struct Key {
    std::uint64_t high = 0, low = 0;
    std::uint32_t kind = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  template <class Write>
  void add_text(Key key, Write write) {
    Recent& recent = recent_[(key.low ^ key.low >> 7 ^ key.high) % recent_.size()];
    if (recent.code < 0 || recent.key != key) recent = {key, code_of(key, write)};
    add_code(recent.code);
  }

  /// Fixed width: the values, zero if missing. Bytes: all values concatenated.
  [[nodiscard]] std::vector<std::uint8_t>& values() { return values_; }
  [[nodiscard]] const std::vector<std::uint8_t>& values() const { return values_; }
  /// Bytes: the end offset of each row.
  [[nodiscard]] const std::vector<std::int64_t>& ends() const { return ends_; }
  /// Text: the index into texts() of each row, -1 if missing.
  [[nodiscard]] std::vector<std::int32_t>& codes() { return codes_; }
  [[nodiscard]] const std::vector<std::int32_t>& codes() const { return codes_; }
  [[nodiscard]] const std::vector<std::string>& texts() const { return words_ ? words_->texts() : texts_; }
  /// One byte per row, 1 if the value is missing. Empty unless the column is optional.
  [[nodiscard]] std::vector<std::uint8_t>& mask() { return mask_; }
  [[nodiscard]] const std::vector<std::uint8_t>& mask() const { return mask_; }
  /// Approximate memory of the rows in bytes.
  [[nodiscard]] std::size_t memory() const;
  /// Removes all rows.
  void clear();

 private:
  struct Hash {
    std::size_t operator()(const Key& key) const {
      const std::uint64_t h = (key.high * 0x9e3779b97f4a7c15 ^ key.low ^ key.kind) * 0xbf58476d1ce4e5b9;
      return h ^ h >> 32;
    }
  };
  struct Recent {
    Key key;
    std::int32_t code = -1;
  };

  void present() {
    if (optional_) mask_.push_back(0);
    ++rows_;
  }
  void add_code(std::int32_t code) {
    codes_.push_back(code);
    present();
  }
  template <class Write>
  std::int32_t code_of(Key key, Write write) {
    if (words_) {
      if (const auto at = known_.find(key); at != known_.end()) return at->second;
      std::string word;
      write(word);
      return known_[key] = words_->code(word);
    }
    const auto [at, is_new] = known_.try_emplace(key, static_cast<std::int32_t>(texts_.size()));
    if (is_new) write(texts_.emplace_back());
    return at->second;
  }

  ColumnType type_;
  unsigned width_;
  bool optional_;
  std::shared_ptr<const Words> words_;
  std::size_t rows_ = 0, missing_count_ = 0;
  std::vector<std::uint8_t> values_;
  std::vector<std::int64_t> ends_;
  std::vector<std::int32_t> codes_;
  std::vector<std::string> texts_;
  std::vector<std::uint8_t> mask_;
  std::array<Recent, 64> recent_{};
  std::unordered_map<Key, std::int32_t, Hash> known_;
  std::unordered_map<std::string, std::int32_t, TextHash, std::equal_to<>> known_texts_;
};

/// Rows of a table, in columns.
struct Batch {
  explicit Batch(const std::vector<ColumnInfo>& infos) : columns(infos.begin(), infos.end()) {}
  std::vector<Column> columns;

  [[nodiscard]] std::size_t rows() const { return columns.empty() ? 0 : columns.front().rows(); }
  [[nodiscard]] std::size_t memory() const;
  void clear();
};

/// Reads the rows of a table in batches. Used by one thread at a time, without the interpreter's lock.
class Rows {
 public:
  Rows() = default;
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;
  virtual ~Rows() = default;

  /// Adds up to `most` rows to `batch`, fewer if they exceed `bytes` of memory. Adds none at the end. An error is
  /// returned after all rows before it, and ends the rows.
  virtual tl::expected<void, std::string> read(Batch& batch, std::size_t most, std::size_t bytes) = 0;

  /// If set, read() calls it regularly in its thread. False ends the rows.
  std::function<bool()> keep_going;
};

/// A table: its columns, and access to its rows.
class TableSource {
 public:
  TableSource() = default;
  TableSource(const TableSource&) = delete;
  TableSource& operator=(const TableSource&) = delete;
  virtual ~TableSource() = default;

  [[nodiscard]] virtual const std::vector<ColumnInfo>& columns() const = 0;
  /// Starts reading at the first row. An error states why this is impossible.
  virtual tl::expected<std::unique_ptr<Rows>, std::string> begin() = 0;
};

}  // namespace rdmawire::python
