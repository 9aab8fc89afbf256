#pragma once
/// Explains headers, fields, enumerations and values, with the texts of the tables.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dissectors/protocol/registry.hpp"

namespace rdmawire::output {

/// A topic to explain. Unused members are nullptr, 0 or empty.
struct Topic {
  enum class Kind : std::uint8_t {
    header,         ///< a header
    field,          ///< a header and one of its fields
    field_value,    ///< header, field and value: "syndrome 0x60"
    header_values,  ///< a header and the values of its first fields: "terminate 0 1 5" is layer, type and code
    enumeration,    ///< an enumeration
    entry,          ///< one value of an enumeration
  };
  Kind kind = Kind::header;
  const HeaderInfo* header = nullptr;
  const Field* field = nullptr;
  std::uint64_t value = 0;
  const Names* names = nullptr;
  const Name* entry = nullptr;
  std::vector<std::uint64_t> values;
};

/// Returns the topics that match `query`, best first: none, or several if it is ambiguous. Accepts names of headers
/// ("bth"), of fields ("bth.psn", "psn", "infiniband.bth.psn"), of values ("RC RDMA WRITE Only", "rnr nak",
/// "nak.sequence-error") and of enumerations ("NAK code"). A number can follow a name ("opcode 10", "syndrome 0x60",
/// "rnr 14"). Several numbers after a header are the values of its first fields ("terminate 0 1 5"). A number without a
/// name is an opcode of IBTA or MRC. Case and punctuation are ignored.
std::vector<Topic> find_topics(std::string_view query);
/// Returns the names of topics that are most similar to `query` by edit distance, at most `count`.
std::vector<std::string> nearest_topics(std::string_view query, std::size_t count = 5);

/// Returns an explanation of the topic, which has several lines.
std::string explain(const Topic& topic, bool colors = false);
/// Returns the explanation as one JSON object, without a newline.
std::string explain_json(const Topic& topic);
/// Lists all headers and enumerations, and shows the syntax for fields and values.
std::string list_topics(bool colors = false);
std::string list_topics_json();

/// Draws the header as in the specifications, with 32 bits per row. A field that is too narrow for its name shows a
/// letter, which a legend explains. If a field has several whole rows, one row is drawn, with the number of bytes.
std::string draw_header(const HeaderInfo& header, const Field* highlighted = nullptr, bool colors = false);

/// Returns docs/reference/headers.md: the reference of all headers, fields, opcodes and codes in Markdown.
std::string reference_page();

}  // namespace rdmawire::output
