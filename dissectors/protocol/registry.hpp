#pragma once
/// List of all headers, for filters, explain, the reference page and the bindings.

#include <span>
#include <string>
#include <string_view>

#include "dissectors/protocol/header.hpp"

namespace rdmawire {

/// All headers, grouped by protocol. Most protocols are in the order from the link layer up.
std::span<const HeaderInfo* const> all_headers();
/// Returns the header of that name ("bth"), or nullptr.
const HeaderInfo* find_header(std::string_view name);

/// Returns the header's type name in language bindings, for example "BTH", "IPv4", "PathRecord". It is unique and a
/// valid identifier. It is empty if the header is not in all_headers().
std::string_view type_name(const HeaderInfo& header);

/// A field of a header.
struct FieldRef {
  const HeaderInfo* header = nullptr;
  const Field* field = nullptr;
  explicit operator bool() const { return field != nullptr; }
};
/// Returns the field with that name, such as "bth.psn", or an empty FieldRef.
FieldRef find_field(std::string_view name);
/// Returns all fields with that Wireshark name, such as "infiniband.bth.psn". One name can refer to fields of several
/// headers.
std::span<const FieldRef> find_wireshark(std::string_view alias);

/// All enumerations of fields, each once. Excludes those of headers defined at run time.
std::span<const Names* const> all_names();
/// Returns the enumeration's type name in language bindings, for example "Opcode", "NAKCode". It is unique and a valid
/// identifier.
std::string type_name(const Names& names);
/// Returns the name of an entry's constant in language bindings, for example "RC_RDMA_WRITE_ONLY". It is unique in its
/// enumeration and a valid identifier.
std::string constant_name(const Names& names, const Name& entry);

}  // namespace rdmawire
