#pragma once
/// Messages of the agent protocol as data. A message is a struct. Its table of fields names each member of the struct
/// with its meaning and limits. The agent and the reference devices check and read requests with it, clients write
/// requests and read results, and the reference page and the JSON schema are generated from it. The tables are never
/// destroyed, because destructors of static objects send messages.
///
///     struct ResizeCq {
///       CqHandle cq;
///       std::uint32_t cqe = 0;
///       struct Result {
///         std::uint32_t cqe = 0;
///       };
///       static const Command& command();
///     };
///     const Command& ResizeCq::command() {
///       static const Command& it = *new Command{
///           .name = "resize_cq",
///           .does = "Changes the capacity of a completion queue.",
///           .arguments = {required<&ResizeCq::cq>("cq"), required<&ResizeCq::cqe>("cqe", "minimum capacity")},
///           .result = {required<&Result::cqe>("cqe", "capacity")},
///           .example = R"({"cq":6,"cqe":100})",
///           .answers = R"({"cqe":127})"};
///       return it;
///     }

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "replay/rpc/names.hpp"

namespace rdmawire::rpc {

/// JSON that is written. Members keep their order.
using Json = nlohmann::ordered_json;
/// JSON that was received. Sorted for fast lookup.
using Received = nlohmann::json;
using ByteVector = std::vector<std::uint8_t>;

/// An errno of Linux and a sentence: operation, argument and cause.
struct Error {
  int number = 0;
  std::string message;
};
template <class T>
using Result = tl::expected<T, Error>;

/// Kinds of objects in a session.
enum class Kind : std::uint8_t {
  any,
  device,
  pd,
  xrcd,
  mr,
  mw,
  channel,
  cq,
  srq,
  ah,
  qp,
  cm_id,
  cm_channel,
  process,
};
/// The name of a kind in the protocol: "mr".
std::string_view name_of(Kind kind);
/// Returns the words for an object of this kind: "a memory region".
std::string_view description_of(Kind kind);

/// The number of an object. 0: none.
template <Kind of>
struct Handle {
  static constexpr Kind kind = of;
  std::uint64_t number = 0;
};
using AnyHandle = Handle<Kind::any>;
using DeviceHandle = Handle<Kind::device>;
using PdHandle = Handle<Kind::pd>;
using XrcdHandle = Handle<Kind::xrcd>;
using MrHandle = Handle<Kind::mr>;
using MwHandle = Handle<Kind::mw>;
using ChannelHandle = Handle<Kind::channel>;
using CqHandle = Handle<Kind::cq>;
using SrqHandle = Handle<Kind::srq>;
using AhHandle = Handle<Kind::ah>;
using QpHandle = Handle<Kind::qp>;
using CmHandle = Handle<Kind::cm_id>;
using ProcessHandle = Handle<Kind::process>;

/// One name of a table. Requests with another name are rejected. Results may contain any text, because an agent may
/// know more names.
template <const Names& table>
struct Choice {
  std::string name;
  Choice() = default;
  Choice(std::string chosen) : name(std::move(chosen)) {}  // NOLINT(google-explicit-constructor)
  Choice(const char* chosen) : name(chosen) {}             // NOLINT(google-explicit-constructor)
  /// The name of a number.
  static Choice of(std::uint64_t value) { return Choice(name_of(table, value)); }
  /// The number of a checked name.
  [[nodiscard]] std::uint64_t value() const { return number_of(table, name).value_or(0); }
};

/// Several names of a table.
template <const Names& table>
struct Flags {
  std::vector<std::string> names;
  Flags() = default;
  Flags(std::vector<std::string> set) : names(std::move(set)) {}  // NOLINT(google-explicit-constructor)
  Flags(std::initializer_list<std::string> set) : names(set) {}
  static Flags of(std::uint64_t bits) { return Flags(names_of_bits(table, bits)); }
  /// The union of the bits of checked names.
  [[nodiscard]] std::uint64_t bits() const {
    std::uint64_t all = 0;
    for (const std::string& name : names) all |= number_of(table, name).value_or(0);
    return all;
  }
};

/// Hexadecimal text, two digits per byte.
std::string to_hex(const std::uint8_t* bytes, std::size_t length);
inline std::string to_hex(const ByteVector& bytes) { return to_hex(bytes.data(), bytes.size()); }
/// nullopt for invalid text. Accepts upper-case digits.
std::optional<ByteVector> from_hex(std::string_view text);

struct Field;
using Fields = std::vector<Field>;

/// A named object within messages.
struct Structure {
  std::string_view name;     ///< its heading in the reference page: "AddressVector"
  std::string_view meaning;  ///< one sentence
  Fields fields;
};

/// Type of a member.
struct Type {
  enum class Form : std::uint8_t { number, boolean, text, bytes, handle, choice, flags, list, structure, numbers, any };
  Form form = Form::any;
  std::uint64_t most = 0;                     ///< number: the highest of the C++ type
  Kind kind = Kind::any;                      ///< handle
  const Names* names = nullptr;               ///< choice, flags
  const Type* element = nullptr;              ///< list
  const Structure& (*structure)() = nullptr;  ///< structure
};

/// When a member is permitted, and mandatory unless it is optional.
struct Condition {
  std::string_view text = {};                      ///< "not with `xrc_recv`". Empty: always
  bool (*applies)(const void* message) = nullptr;  ///< may use the preceding members
};

struct Limits {
  std::uint64_t least = 0;
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();  ///< of bytes, texts and lists: their length
  Condition condition = {};
  bool null = false;       ///< a missing value is written as null
  bool extension = false;  ///< only reference devices support it
};

/// The meaning of a field that has the meaning of the preceding one.
inline constexpr std::string_view same = "\"";

/// Which members of a message are written. Those whose condition does not apply never are.
enum class Style : std::uint8_t {
  complete,  ///< results and events
  brief,     ///< requests: no optional members with their default. An older agent may not know a new member
};

class Reader;

/// A member of a message.
struct Field {
  std::string_view name = {};
  std::string_view meaning = {};  ///< `same`: that of the preceding field
  bool required = false;
  Limits limits = {};
  const Type* type = nullptr;
  void (*read)(void* message, const Received& value, const Field& field, Reader& reader) = nullptr;
  /// nullopt: the member is absent.
  std::optional<Json> (*write)(const void* message, Style style) = nullptr;
  /// The value in a new message. nullopt: absent.
  std::optional<Json> (*initial)() = nullptr;

  [[nodiscard]] bool applies(const void* message) const {
    return limits.condition.applies == nullptr || limits.condition.applies(message);
  }
};

/// A command of the protocol.
struct Command {
  std::string_view name = {};
  std::string_view does = {};  ///< one sentence
  Fields arguments = {};
  Fields result = {};
  std::string_view example = {}, answers = {};  ///< arguments and result as JSON objects
  bool extension = false;                       ///< only reference devices support it
};
/// Result of a command without members.
struct Nothing {};

/// An unsolicited message.
struct EventType {
  std::string_view name;
  std::string_view meaning;
  Fields fields;
};

/// Reads and checks messages. Keeps the first error.
class Reader {
 public:
  /// Checks the handle of an object of this kind. nullopt: valid.
  using CheckHandle = std::function<std::optional<Error>(Kind, std::uint64_t)>;

  /// Reads requests: checks everything. Unknown members are errors.
  explicit Reader(CheckHandle check, bool extensions = false)
      : check_(std::move(check)), strict_(true), extensions_(extensions) {}
  /// Reads results and events: accepts unknown members and names, because the other side may be newer.
  Reader() = default;

  void read(void* message, const Received& object, const Fields& fields);

  /// The first error. nullopt: none.
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }
  /// The member that it concerns, with the path: "ports[0]: gids[1]: index".
  [[nodiscard]] const std::string& wrong_member() const { return wrong_member_; }

  // For the codecs below.
  void report_error(std::string_view name, int number, std::string_view what);
  void read_number(std::uint64_t& into, const Received& value, const Field& field, std::string_view name);
  void read_boolean(bool& into, const Received& value, std::string_view name);
  void read_text(std::string& into, const Received& value, const Field& field, std::string_view name);
  void read_bytes(ByteVector& into, const Received& value, const Field& field, std::string_view name);
  void read_handle(std::uint64_t& into, Kind kind, const Received& value, std::string_view name);
  void read_choice(std::string& into, Names names, const Received& value, std::string_view name);
  void read_flags(std::vector<std::string>& into, Names names, const Received& value, std::string_view name);
  void read_numbers(std::map<std::string, std::uint64_t>& into, const Received& value, std::string_view name);
  void read_structure(void* into, const Fields& fields, const Received& value, std::string_view name);
  /// True if the value is a list of a permitted length.
  bool check_list(const Received& value, const Field& field, std::string_view name);

 private:
  CheckHandle check_;
  bool strict_ = false;
  bool extensions_ = false;
  std::string path_;
  std::optional<Error> error_;
  std::string wrong_member_;
};

Json write(const void* message, const Fields& fields, Style style = Style::complete);

// How a C++ type is read and written.
template <class T>
struct Codec;

template <std::unsigned_integral T>
struct Codec<T> {
  static const Type& type() {
    static constexpr Type it{.form = Type::Form::number, .most = std::numeric_limits<T>::max()};
    return it;
  }
  static void read(T& into, const Received& value, const Field& field, Reader& reader, std::string_view name) {
    std::uint64_t number = into;
    reader.read_number(number, value, field, name);
    into = static_cast<T>(number);
  }
  static Json write(T value, Style) { return value; }
};

template <>
struct Codec<bool> {
  static const Type& type() {
    static constexpr Type it{.form = Type::Form::boolean};
    return it;
  }
  static void read(bool& into, const Received& value, const Field&, Reader& reader, std::string_view name) {
    reader.read_boolean(into, value, name);
  }
  static Json write(bool value, Style) { return value; }
};

template <>
struct Codec<std::string> {
  static const Type& type() {
    static constexpr Type it{.form = Type::Form::text};
    return it;
  }
  static void read(std::string& into, const Received& value, const Field& field, Reader& reader,
                   std::string_view name) {
    reader.read_text(into, value, field, name);
  }
  static Json write(const std::string& value, Style) { return value; }
};

template <>
struct Codec<ByteVector> {
  static const Type& type() {
    static constexpr Type it{.form = Type::Form::bytes};
    return it;
  }
  static void read(ByteVector& into, const Received& value, const Field& field, Reader& reader, std::string_view name) {
    reader.read_bytes(into, value, field, name);
  }
  static Json write(const ByteVector& value, Style) { return to_hex(value); }
};

template <Kind kind>
struct Codec<Handle<kind>> {
  static const Type& type() {
    static constexpr Type it{.form = Type::Form::handle, .kind = kind};
    return it;
  }
  static void read(Handle<kind>& into, const Received& value, const Field&, Reader& reader, std::string_view name) {
    reader.read_handle(into.number, kind, value, name);
  }
  static Json write(Handle<kind> value, Style) { return value.number; }
};

template <const Names& table>
struct Codec<Choice<table>> {
  static const Type& type() {
    static constexpr Type it{.form = Type::Form::choice, .names = &table};
    return it;
  }
  static void read(Choice<table>& into, const Received& value, const Field&, Reader& reader, std::string_view name) {
    reader.read_choice(into.name, table, value, name);
  }
  static Json write(const Choice<table>& value, Style) { return value.name; }
};

template <const Names& table>
struct Codec<Flags<table>> {
  static const Type& type() {
    static constexpr Type it{.form = Type::Form::flags, .names = &table};
    return it;
  }
  static void read(Flags<table>& into, const Received& value, const Field&, Reader& reader, std::string_view name) {
    reader.read_flags(into.names, table, value, name);
  }
  static Json write(const Flags<table>& value, Style) { return value.names; }
};

template <class T>
struct Codec<std::vector<T>> {
  static const Type& type() {
    static const Type it{.form = Type::Form::list, .element = &Codec<T>::type()};
    return it;
  }
  static void read(std::vector<T>& into, const Received& value, const Field& field, Reader& reader,
                   std::string_view name) {
    into.clear();
    if (!reader.check_list(value, field, name)) return;
    // The limits are those of the list.
    const Field element{.name = field.name, .type = &Codec<T>::type()};
    into.resize(value.size());
    for (std::size_t i = 0; i < value.size(); ++i)
      Codec<T>::read(into[i], value[i], element, reader, std::string(name) + '[' + std::to_string(i) + ']');
  }
  static Json write(const std::vector<T>& value, Style style) {
    Json list = Json::array();
    for (const T& element : value) list.push_back(Codec<T>::write(element, style));
    return list;
  }
};

/// An object of numbers with any names.
template <>
struct Codec<std::map<std::string, std::uint64_t>> {
  using Map = std::map<std::string, std::uint64_t>;
  static const Type& type() {
    static constexpr Type it{.form = Type::Form::numbers};
    return it;
  }
  static void read(Map& into, const Received& value, const Field&, Reader& reader, std::string_view name) {
    reader.read_numbers(into, value, name);
  }
  static Json write(const Map& value, Style) { return value; }
};

/// Any JSON value.
template <>
struct Codec<Json> {
  static const Type& type() {
    static constexpr Type it{.form = Type::Form::any};
    return it;
  }
  static void read(Json& into, const Received& value, const Field&, Reader&, std::string_view) { into = value; }
  static Json write(const Json& value, Style) { return value; }
};

template <class T>
requires requires { T::structure(); }
struct Codec<T> {
  static const Type& type() {
    static constexpr Type it{.form = Type::Form::structure, .structure = &T::structure};
    return it;
  }
  static void read(T& into, const Received& value, const Field&, Reader& reader, std::string_view name) {
    reader.read_structure(&into, T::structure().fields, value, name);
  }
  static Json write(const T& value, Style style) { return rpc::write(&value, T::structure().fields, style); }
};

namespace detail {

template <class T>
struct Member;
template <class M, class T>
struct Member<T M::*> {
  using Message = M;
  using Value = T;
};
template <class T>
struct Inner {
  using Value = T;
  static constexpr bool optional = false;
};
template <class T>
struct Inner<std::optional<T>> {
  using Value = T;
  static constexpr bool optional = true;
};

template <auto member, class M>
struct Access {
  using Value = typename Member<decltype(member)>::Value;
  using Inner = detail::Inner<Value>;
  using Codec = rpc::Codec<typename Inner::Value>;

  static void read(void* message, const Received& value, const Field& field, Reader& reader) {
    Value& into = static_cast<M*>(message)->*member;
    if constexpr (Inner::optional) {
      Codec::read(into.emplace(), value, field, reader, field.name);
    } else {
      Codec::read(into, value, field, reader, field.name);
    }
  }
  static std::optional<Json> write(const void* message, Style style) {
    const Value& value = static_cast<const M*>(message)->*member;
    if constexpr (Inner::optional) {
      if (!value) return std::nullopt;
      return Codec::write(*value, style);
    } else {
      return Codec::write(value, style);
    }
  }
  static std::optional<Json> initial() {
    const M message{};
    return write(&message, Style::complete);
  }
  static Field field(std::string_view name, std::string_view meaning, bool is_required, const Limits& limits) {
    return {name, meaning, is_required, limits, &Codec::type(), &read, &write, &initial};
  }
};

}  // namespace detail

/// Declares a member. Messages without it are invalid. `M`: the message, for members of its base.
template <auto member, class M = typename detail::Member<decltype(member)>::Message>
Field required(std::string_view name, std::string_view meaning = {}, const Limits& limits = {}) {
  return detail::Access<member, M>::field(name, meaning, true, limits);
}
/// Declares a member that may be absent. Its default is that of the struct.
template <auto member, class M = typename detail::Member<decltype(member)>::Message>
Field optional(std::string_view name, std::string_view meaning = {}, const Limits& limits = {}) {
  return detail::Access<member, M>::field(name, meaning, false, limits);
}
/// A condition: a member function of the message, and its text.
template <auto predicate>
Condition when(std::string_view text) {
  using Class = decltype([]<class M>(bool (M::*)() const) -> M { return M(); }(predicate));
  return {text, [](const void* message) { return (static_cast<const Class*>(message)->*predicate)(); }};
}

/// Reads and checks a request.
template <class Message>
Result<Message> read_request(const Received& object, Reader reader) {
  Message message{};
  reader.read(&message, object, Message::command().arguments);
  if (reader.error()) return tl::unexpected(*reader.error());
  return message;
}
/// Reads a result. The error is the name of the invalid member.
template <class Message>
tl::expected<typename Message::Result, std::string> read_result(const Received& object) {
  typename Message::Result result{};
  Reader reader;
  reader.read(&result, object, Message::command().result);
  if (reader.error()) return tl::unexpected(reader.wrong_member());
  return result;
}
template <class Message>
Json arguments_of(const Message& message) {
  return write(&message, Message::command().arguments, Style::brief);
}
template <class Message>
Json result_of(const typename Message::Result& result) {
  return write(&result, Message::command().result);
}

}  // namespace rdmawire::rpc
