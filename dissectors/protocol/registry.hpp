#pragma once
/// Every header there is: what filters, explain, the reference page and the bindings go through.

#include <span>
#include <string>
#include <string_view>

#include "dissectors/protocol/header.hpp"

namespace rdmawire {

/// All headers, family by family, from the link up.
std::span<const HeaderInfo* const> all_headers();
/// The header of that name ("bth"), or nullptr.
const HeaderInfo* find_header(std::string_view name);

/// What a header is called where it is a type, in the languages that bind to this library: "BTH", "IPv4", "PathRecord".
/// Unique; an identifier. Empty for a header that is not one of all_headers().
std::string_view type_name(const HeaderInfo& header);

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
/// What an enumeration is called where it is a type: "Opcode", "NAKCode". Unique; an identifier.
std::string type_name(const Names& names);
/// What an entry of `names` is called where it is a constant: "RC_RDMA_WRITE_ONLY". Unique among the entries of one
/// enumeration; an identifier.
std::string constant_name(const Names& names, const Name& entry);

}  // namespace rdmawire
