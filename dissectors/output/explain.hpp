#pragma once
/// What a header, a field, an enumeration or one of its values means, from the tables.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dissectors/protocol/registry.hpp"

namespace rdmawire::output {

/// One thing that can be explained. What is not part of it is nullptr.
struct Topic {
  enum class Kind : std::uint8_t {
    header,         ///< header
    field,          ///< header and field
    field_value,    ///< header, field and value: "syndrome 0x60"
    header_values,  ///< header and values of its first fields: "terminate 0 1 5" is layer, type and code
    enumeration,    ///< names
    entry,          ///< names and entry: one value of an enumeration
  };
  Kind kind = Kind::header;
  const HeaderInfo* header = nullptr;
  const Field* field = nullptr;
  std::uint64_t value = 0;
  const Names* names = nullptr;
  const Name* entry = nullptr;
  std::vector<std::uint64_t> values;
};

/// What `query` asks for, best first; several when it is ambiguous, none when nothing is called so. Understood are
/// names of headers ("bth"), of fields ("bth.psn", "psn", "infiniband.bth.psn"), of values ("RC RDMA WRITE Only",
/// "rnr nak", "nak.sequence-error"), of enumerations ("NAK code"), and a number after any of them ("opcode 10",
/// "syndrome 0x60", "rnr 14"); several numbers after a header are its first fields ("terminate 0 1 5"). A number alone
/// is a BTH opcode. Case and punctuation do not matter.
std::vector<Topic> find_topics(std::string_view query);
/// The identifiers most like `query`, by edit distance; at most `count`.
std::vector<std::string> nearest_topics(std::string_view query, std::size_t count = 5);

/// The text of an explanation; several lines.
std::string explain(const Topic& topic, bool colors = false);
/// The same as one JSON object, without line end.
std::string explain_json(const Topic& topic);
/// All that can be explained: headers by family, enumerations, and how to ask for fields and values.
std::string list_topics(bool colors = false);
std::string list_topics_json();

/// The header as the specifications draw it: 32 bits a row. Fields too narrow for their name show a letter, which a
/// legend below explains. Rows that one field fills are drawn as one, with the number of rows.
std::string draw_header(const HeaderInfo& header, const Field* highlighted = nullptr, bool colors = false);

/// The reference of all headers, fields, opcodes and codes, in Markdown: docs/reference.md.
std::string reference_page();

}  // namespace rdmawire::output
