#pragma once
/// Headers that a program defines at run time. They are in the payload of a packet, after a header with given field
/// values. all_headers(), filters, columns and output formats include them. decode() does not decode them: call
/// decode_user_headers() after it. Analysis and checks do not use them.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "dissectors/protocol/header.hpp"
#include "dissectors/protocol/stack.hpp"

namespace rdmawire {

/// A field of a header defined at run time. Each field starts where the preceding one ends.
struct UserField {
  std::string name;
  unsigned width = 0;  ///< width in bits
  std::string meaning = {};
  Display display = Display::decimal;
  bool little_endian = false;
  std::vector<std::pair<std::uint64_t, std::string>> names = {};  ///< values with names, in ascending order
  /// Bytes that the field counts: those of the variable part, or those after the header. Encoding computes the field if
  /// it is unset. Decoding reads the length of the variable part from it.
  enum class Counts : std::uint8_t { nothing, tail, payload } counts = Counts::nothing;
};

struct UserHeader {
  std::string name;       ///< name in filters and JSON: "storage"
  std::string type_name;  ///< name in language bindings: "Storage"
  std::string title = {};
  std::vector<UserField> fields;
  std::string tail = {};  ///< name of the variable part, whose length a field contains (empty: none)
  bool decoded = true;    ///< initial state, see set_decoded()

  /// The header before this one, and the values that its fields must have. If it is the BTH, the BTH's extension
  /// headers may be in between.
  struct Predecessor {
    const HeaderInfo* header = nullptr;
    std::vector<std::pair<const Field*, std::uint64_t>> values = {};
  };
  std::vector<Predecessor> after;  ///< alternatives: one of them must match
};

inline constexpr std::size_t max_user_headers = 64;

/// Adds a header, which then exists until the process ends. Returns an error if the definition is invalid or the name
/// is in use. Any thread may call this function. Threads that decode use the header from then on.
tl::expected<const HeaderInfo*, std::string> define_header(UserHeader header);

/// Sets whether decode_user_headers() uses a defined header. Any thread may call it.
void set_decoded(const HeaderInfo& header, bool decoded);

/// Decodes defined headers at the start of the payload and appends them to the layers. Adds a finding for a truncated
/// header.
void decode_user_headers(HeaderStack& stack);

/// Returns the header's name in language bindings, or an empty text if the header is not defined at run time.
std::string_view user_type_name(const HeaderInfo& header);

namespace detail {
/// Appends a header to all_headers().
void register_header(const HeaderInfo& header);
}  // namespace detail

}  // namespace rdmawire
