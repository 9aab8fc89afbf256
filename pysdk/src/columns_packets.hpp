#pragma once
/// Columns of packets: any field of the header tables, Wireshark's names, and what a packet has beyond its headers.

#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "dissectors/output/filter_source.hpp"
#include "dissectors/tracking/packet.hpp"
#include "pysdk/src/columns.hpp"

namespace rdmawire::python {

/// What is read of each packet, by column.
///
/// A name is one that filters know (docs/reference/filters.md), or that of an enumerated field with `_name` behind it,
/// which gives the specification's word as `dissect --json` does. A header's name gives whether the packet has it.
///
/// Of a header that a packet has several times the first one counts, from the link up, as with Frame; then that of the
/// first PDU that ends in the packet; then what stands in options.
class PacketColumns {
 public:
  /// An error: there is no such name; the sentence has the nearest ones.
  static tl::expected<PacketColumns, std::string> of(const std::vector<std::string>& names);

  [[nodiscard]] const std::vector<ColumnInfo>& infos() const { return infos_; }
  /// Some column tells of CRCs, so that they must have been verified.
  [[nodiscard]] bool uses_crcs() const { return uses_crcs_; }
  /// Adds one row.
  void add(Batch& batch, const tracking::Packet& packet) const;

 private:
  /// How a value is put into its column.
  enum class Form : std::uint8_t {
    number,   ///< as it is
    time,     ///< a derived time, whose sign bit is turned over
    there,    ///< whether there is one at all
    name,     ///< the word of the enumeration
    text,     ///< as people read it
    bytes,    ///< of a header's field
    derived,  ///< bytes or text of something derived
  };
  struct Source {
    const HeaderInfo* header = nullptr;
    const Field* field = nullptr;
  };
  struct Plan {
    Form form = Form::number;
    const output::Derived* derived = nullptr;
    const Names* names = nullptr;
    std::vector<Source> sources;
  };
  static tl::expected<Plan, std::string> plan(const std::string& name, ColumnInfo& info);
  static void add_field(Column& column, const Plan& plan, const tracking::Packet& packet);
  static void add_derived(Column& column, const Plan& plan, const tracking::Packet& packet);
  static void put(Column& column, const Plan& plan, const Field& field, const std::uint8_t* header);

  std::vector<ColumnInfo> infos_;
  std::vector<Plan> plans_;
  bool uses_crcs_ = false;
};

}  // namespace rdmawire::python
