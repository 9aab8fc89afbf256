#pragma once
/// Headers that a program defines at run time. They follow a header with given field values, in the payload of a
/// packet. all_headers(), filters, columns and output formats include them. decode() does not: call
/// decode_user_headers() after it. Analysis and checks do not use them.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "dissectors/protocol/header.hpp"
#include "dissectors/protocol/stack.hpp"

namespace rdmawire {

/// A field of a header defined at run time. Fields are consecutive.
struct UserField {
  std::string name;
  unsigned width = 0;  ///< bits
  std::string meaning = {};
  Display display = Display::decimal;
  bool little_endian = false;
  std::vector<std::pair<std::uint64_t, std::string>> names = {};  ///< values with names, in ascending order
  /// If the field is unset, encoding sets it to a number of bytes: of the variable part, or after the header. Decoding
  /// reads the length of the variable part from the field.
  enum class Counts : std::uint8_t { nothing, tail, payload } counts = Counts::nothing;
};

struct UserHeader {
  std::string name;       ///< in filters and JSON: "storage"
  std::string type_name;  ///< in language bindings: "Storage"
  std::string title = {};
  std::vector<UserField> fields;
  std::string tail = {};  ///< name of the variable part (empty: none), which a field counts
  bool decoded = true;    ///< initial value of set_decoded()

  /// The header before it, and the values of its fields. A header defined after the BTH also follows the BTH's
  /// extension headers.
  struct Predecessor {
    const HeaderInfo* header = nullptr;
    std::vector<std::pair<const Field*, std::uint64_t>> values = {};
  };
  std::vector<Predecessor> after;  ///< alternatives
};

inline constexpr std::size_t max_user_headers = 64;

/// Adds a header, which exists until the process ends. Returns an error for an invalid definition or a known name. Any
/// thread may call it. Threads that decode use the header from then on.
tl::expected<const HeaderInfo*, std::string> define_header(UserHeader header);

/// Sets whether decode_user_headers() uses a defined header. Any thread may call it.
void set_decoded(const HeaderInfo& header, bool decoded);

/// Appends the defined headers at the start of the payload to the layers. Reports a header that is truncated.
void decode_user_headers(HeaderStack& stack);

/// Returns the name in language bindings, or an empty text for other headers.
std::string_view user_type_name(const HeaderInfo& header);

namespace detail {
/// Appends a header to all_headers().
void register_header(const HeaderInfo& header);
}  // namespace detail

}  // namespace rdmawire
