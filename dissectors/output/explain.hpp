#pragma once
/// Explains headers, fields, enumerations and values from the tables.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dissectors/protocol/registry.hpp"

namespace rdmawire::output {

/// A topic to explain. Unused members are nullptr, 0 or empty.
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

/// Returns the topics that match `query`, best first: several if it is ambiguous, none if there is no match.
/// Accepts names of headers ("bth"), of fields ("bth.psn", "psn", "infiniband.bth.psn"), of values ("RC RDMA WRITE
/// Only", "rnr nak", "nak.sequence-error") and of enumerations ("NAK code"), each optionally with a number ("opcode
/// 10", "syndrome 0x60", "rnr 14"). Several numbers after a header are its first fields ("terminate 0 1 5"). A
/// number without a name is an opcode of IBTA or MRC. Case and punctuation are ignored.
std::vector<Topic> find_topics(std::string_view query);
/// Returns at most `count` names of topics that are most similar to `query`, by edit distance.
std::vector<std::string> nearest_topics(std::string_view query, std::size_t count = 5);

/// Returns an explanation of the topic in several lines.
std::string explain(const Topic& topic, bool colors = false);
/// Returns the same as one JSON object, without newline.
std::string explain_json(const Topic& topic);
/// Lists all headers and enumerations, and shows the syntax for fields and values (not in JSON).
std::string list_topics(bool colors = false);
std::string list_topics_json();

/// Draws the header as in the specifications: 32 bits per row. Fields too narrow for their name show a letter,
/// explained in a legend. Consecutive whole rows of one field are drawn once, with their number of bytes.
std::string draw_header(const HeaderInfo& header, const Field* highlighted = nullptr, bool colors = false);

/// Returns the reference of all headers, fields, opcodes and codes, in Markdown: docs/reference/headers.md.
std::string reference_page();

}  // namespace rdmawire::output
