#pragma once
/// Each header is one table. Three classes use it: HeaderInfo for run-time access, View (zero copy) and Value (parse
/// and emit) for headers known at compile time.

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "dissectors/protocol/error.hpp"
#include "dissectors/protocol/field.hpp"

namespace rdmawire {

struct HeaderInfo;
struct FrameLayout;

/// One header in a frame, or in the variable part of another header.
struct Layer {
  const HeaderInfo* header;
  std::uint32_t offset;  ///< offset of its first byte in the decoded bytes
  std::uint32_t length;  ///< number of bytes, including the variable part
};

/// Headers in a variable part (IPv4 and TCP options, MPA private data). Parsed when needed.
struct Parts {
  /// The options of IPv4 and TCP have at most 40 bytes, and each option has at least one byte.
  static constexpr std::size_t capacity = 40;
  std::array<Layer, capacity> layers;  ///< offsets are relative to the header's first byte
  std::size_t count = 0;
  std::optional<ParseError> error;  ///< where parsing stopped

  /// Appends a part. Returns false if full.
  bool add(const HeaderInfo& header, std::uint32_t offset, std::uint32_t bytes) {
    if (count == capacity) return false;
    layers[count++] = {&header, offset, bytes};
    return true;
  }
};

/// The table of a header for run-time access.
struct HeaderInfo {
  std::string_view name;     ///< name in filters and JSON: "bth"
  std::string_view title;    ///< long name: "Base Transport Header"
  std::string_view section;  ///< "IBTA vol 1, 9.2"
  std::uint32_t size;        ///< bytes of the fixed part
  std::span<const Field> fields;
  std::string_view tail;         ///< name of the variable part (empty: the header has none)
  Parts (*parts)(Bytes header);  ///< returns the headers in the variable part. nullptr: not used
  const Field* kind;  ///< the enumerated field that distinguishes kinds of this header, such as the opcode, or nullptr
  void (*fill)(FrameLayout& frame, std::size_t);  ///< computes unset fields, or nullptr (see encode.hpp)
  std::uint32_t whole;  ///< fixed number of bytes from this header to the end of the payload (0: variable). Encoding
                        ///< pads with zeros
  /// The field with this header's length in units of `unit` bytes, or nullptr. If it is unset, encoding pads the
  /// variable part with zeros to a whole unit.
  const Field* counted_by;
  std::uint32_t unit;

  /// Returns the field of that name, or nullptr.
  [[nodiscard]] constexpr const Field* find(std::string_view field_name) const {
    for (const Field& f : fields)
      if (f.name == field_name) return &f;
    return nullptr;
  }
};

template <class H>
class View;
template <class H>
class Value;

namespace detail {
template <class H>
constexpr HeaderInfo make_info() {
  HeaderInfo info{H::name, H::title, H::section, H::size, H::fields, {}, nullptr, nullptr, nullptr, 0, nullptr, 0};
  if constexpr (requires { H::tail; }) info.tail = H::tail;
  if constexpr (requires(Bytes b) { H::parts(b); }) info.parts = &H::parts;
  if constexpr (requires { H::kind; }) info.kind = info.find(H::kind);
  if constexpr (requires { H::whole; }) info.whole = H::whole;
  if constexpr (requires { H::unit; }) {
    info.counted_by = info.find(H::counted_by);
    info.unit = H::unit;
  }
  if constexpr (requires(FrameLayout & f) { H::fill(f, std::size_t{}); }) info.fill = &H::fill;
  return info;
}
template <class H>
consteval Field field_of(std::string_view name) {
  for (const Field& f : H::fields)
    if (f.name == name) return f;
  throw "this header has no field of that name";
}
template <class H>
consteval std::size_t index_of(std::string_view name) {
  for (std::size_t i = 0; i < H::fields.size(); ++i)
    if (H::fields[i].name == name) return i;
  throw "this header has no field of that name";
}
}  // namespace detail

/// The run-time description of header `H`. Its address identifies the header.
template <class H>
inline constexpr HeaderInfo info = [] {
  static_assert(tiles(H::fields, H::size), "the fields must cover the header exactly, in order");
  return detail::make_info<H>();
}();

/// Loads one field of a header type known at compile time: one load, one shift, one mask. Does not check bounds.
template <class H, FixedString Name>
[[nodiscard]] inline auto load_field(const std::uint8_t* header) {
  constexpr Field f = detail::field_of<H>(Name.view());
  if constexpr (f.width > 64) {
    std::array<std::uint8_t, f.width / 8> out;
    std::memcpy(out.data(), header + f.bit / 8, out.size());
    return out;
  } else if constexpr (f.little_endian || f.is_decoded()) {
    return static_cast<uint_for<f.is_decoded() ? 64 : f.width>>(f.value(header));
  } else {
    constexpr unsigned first = f.bit / 8, last = (f.bit + f.width - 1) / 8;
    constexpr unsigned exact = last - first + 1;
    // Uses one wider load for three, five, six or seven bytes if the header is large enough.
    constexpr unsigned wide = std::bit_ceil(exact);
    constexpr bool fits = first + wide <= H::size;
    constexpr unsigned count = fits ? wide : exact;
    constexpr unsigned right = (first + count) * 8 - (f.bit + f.width);
    return static_cast<uint_for<f.width>>(load_be<count>(header + first) >> right & low_mask(f.width));
  }
}

/// A header in bytes that the caller owns. Its length is checked once, when the view is created, so accessors cannot
/// fail.
template <class H>
class View {
 public:
  /// Checks that `bytes` contains the fixed part.
  static tl::expected<View, ParseError> of(Bytes bytes) {
    if (bytes.size() < H::size)
      return tl::unexpected(ParseError::truncated(info<H>, 0, H::size, static_cast<std::uint32_t>(bytes.size())));
    return View(bytes.data());
  }
  /// `header` must point at H::size readable bytes.
  explicit constexpr View(const std::uint8_t* header) : header_(header) {}

  /// Returns the field's value: the smallest sufficient unsigned integer, or std::array of bytes if wider than 64
  /// bits.
  template <FixedString Name>
  [[nodiscard]] auto get() const {
    return load_field<H, Name>(header_);
  }
  [[nodiscard]] const std::uint8_t* data() const { return header_; }
  [[nodiscard]] Bytes bytes() const { return {header_, H::size}; }

 private:
  const std::uint8_t* header_;
};

/// A header whose type is known at run time: its bytes (fixed and variable part), and which fields are set. Encoding
/// computes unset fields and keeps set ones, even if they are invalid.
class HeaderValue {
 public:
  static constexpr std::size_t max_fields = 128;

  explicit HeaderValue(const HeaderInfo& header) : header_(&header), bytes_(header.size, 0) {}
  /// Parses a captured header. All its fields count as set. Returns an error if `bytes` is shorter than the fixed part.
  static tl::expected<HeaderValue, ParseError> parse(const HeaderInfo& header, Bytes bytes);

  [[nodiscard]] const HeaderInfo& header() const { return *header_; }
  [[nodiscard]] Bytes bytes() const { return bytes_; }
  [[nodiscard]] MutableBytes mutable_bytes() { return bytes_; }
  [[nodiscard]] Bytes tail() const { return Bytes(bytes_).subspan(header_->size); }
  void set_tail(Bytes tail);

  [[nodiscard]] std::size_t index(const Field& f) const {
    return static_cast<std::size_t>(&f - header_->fields.data());
  }
  /// Returns the number in field `f` of header().
  [[nodiscard]] std::uint64_t get(const Field& f) const { return f.load(bytes_.data()); }
  /// Sets field `f` of header() and marks it, and the field that contains it, as set.
  void set(const Field& f, std::uint64_t value);
  void set(const Field& f, Bytes value);
  [[nodiscard]] bool given(const Field& f) const { return given_[index(f)]; }
  [[nodiscard]] bool given(std::string_view field_name) const;
  /// Unsets the field, so that encoding computes it.
  void forget(const Field& f);
  void forget(std::string_view field_name);
  /// Sets a field only if it is unset.
  void fill(std::string_view field_name, std::uint64_t value);

  friend bool operator==(const HeaderValue& a, const HeaderValue& b) {
    return a.header_ == b.header_ && a.bytes_ == b.bytes_;
  }

 private:
  template <class H>
  friend class Value;
  void mark(const Field& f, bool given);
  const HeaderInfo* header_;
  std::vector<std::uint8_t> bytes_;
  std::bitset<max_fields> given_;
};

/// Like HeaderValue, for a header type known at compile time, without a variable part. Does not allocate memory.
template <class H>
class Value {
 public:
  static_assert(H::fields.size() <= HeaderValue::max_fields);

  constexpr Value() = default;
  /// Parses the fixed part at the start of `bytes`. Every field counts as set.
  static tl::expected<Value, ParseError> parse(Bytes bytes) {
    auto view = View<H>::of(bytes);
    if (!view) return tl::unexpected(view.error());
    Value value;
    std::memcpy(value.bytes_.data(), view->data(), H::size);
    value.given_.set();
    return value;
  }
  /// Writes all bits of H::size bytes.
  void emit(std::span<std::uint8_t, H::size> out) const { std::memcpy(out.data(), bytes_.data(), H::size); }

  template <FixedString Name>
  [[nodiscard]] auto get() const {
    return load_field<H, Name>(bytes_.data());
  }
  /// Sets a field. Returns *this: Value<Bth>().set<"psn">(5).set<"dest_qp">(17)
  template <FixedString Name>
  Value& set(std::uint64_t value) {
    constexpr Field f = detail::field_of<H>(Name.view());
    static_assert(f.is_number(), "a field wider than 64 bits requires bytes");
    f.store(bytes_.data(), value);
    given_.set(detail::index_of<H>(Name.view()));
    return *this;
  }
  template <FixedString Name>
  Value& set(Bytes value) {
    constexpr Field f = detail::field_of<H>(Name.view());
    static_assert(f.bit % 8 == 0 && f.width % 8 == 0);
    const std::size_t n = std::min<std::size_t>(value.size(), f.width / 8);
    std::fill_n(bytes_.begin() + f.bit / 8, f.width / 8, std::uint8_t{0});
    std::copy_n(value.begin(), n, bytes_.begin() + f.bit / 8);
    given_.set(detail::index_of<H>(Name.view()));
    return *this;
  }
  [[nodiscard]] View<H> view() const { return View<H>(bytes_.data()); }
  [[nodiscard]] const std::array<std::uint8_t, H::size>& bytes() const { return bytes_; }

  // NOLINTNEXTLINE(google-explicit-constructor): a typed header is a header
  operator HeaderValue() const {
    HeaderValue value(info<H>);
    std::copy(bytes_.begin(), bytes_.end(), value.bytes_.begin());
    for (std::size_t i = 0; i < H::fields.size(); ++i)
      if (given_[i]) value.mark(H::fields[i], true);
    return value;
  }
  friend bool operator==(const Value& a, const Value& b) { return a.bytes_ == b.bytes_; }

 private:
  std::array<std::uint8_t, H::size> bytes_{};
  std::bitset<H::fields.size()> given_;
};

}  // namespace rdmawire
