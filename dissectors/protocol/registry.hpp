#pragma once
/// Every header there is: what filters, explain, the reference page and the bindings go through.

#include <span>
#include <string_view>

#include "dissectors/protocol/header.hpp"

namespace rdmawire {

/// All headers, family by family, from the link up.
std::span<const HeaderInfo* const> all_headers();
/// The header of that name ("bth"), or nullptr.
const HeaderInfo* find_header(std::string_view name);

/// A field of some header.
struct FieldRef {
  const HeaderInfo* header = nullptr;
  const Field* field = nullptr;
  explicit operator bool() const { return field != nullptr; }
};
/// The field called "bth.psn". Null when there is none.
FieldRef find_field(std::string_view name);
/// All fields that Wireshark calls by that name ("infiniband.bth.psn"); some names cover several of our headers.
std::span<const FieldRef> find_wireshark(std::string_view alias);

/// Every enumeration that a field refers to, once.
std::span<const Names* const> all_names();

}  // namespace rdmawire
