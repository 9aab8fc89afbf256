#pragma once
/// Columns of packets: fields of the header tables, Wireshark's field names, and derived values.

#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "dissectors/output/filter_source.hpp"
#include "dissectors/tracking/packet.hpp"
#include "pysdk/src/columns.hpp"

namespace rdmawire::python {

/// The values read from each packet, one per column.
///
/// A name is a filter name (docs/reference/filters.md), or the name of an enumerated field followed by `_name`. The
/// latter returns the specification's name as `dissect --json` does. The name of a header returns whether the packet
/// contains it.
///
/// If a packet contains a header several times, the first one from the link layer is used, as in Frame. PDUs that end
/// in the packet follow, then options.
class PacketColumns {
 public:
  /// Returns an error with similar names if a name is unknown.
  static tl::expected<PacketColumns, std::string> of(const std::vector<std::string>& names);

  [[nodiscard]] const std::vector<ColumnInfo>& infos() const { return infos_; }
  /// Returns whether a column requires CRC verification.
  [[nodiscard]] bool uses_crcs() const { return uses_crcs_; }
  /// Adds one row.
  void add(Batch& batch, const tracking::Packet& packet) const;

 private:
  /// Conversion of a value for its column.
  enum class Form : std::uint8_t {
    number,   ///< unchanged
    time,     ///< a derived time. The sign bit is inverted
    there,    ///< whether the packet contains the header
    name,     ///< the name of the enumerated value
    text,     ///< formatted text
    bytes,    ///< bytes of a header field
    derived,  ///< bytes or text of a derived value
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
  static tl::expected<Plan, std::string> plan_of(const output::Derived& derived, bool by_name, ColumnInfo& info);
  static tl::expected<Plan, std::string> plan_of(const std::vector<FieldRef>& refs, bool by_name, ColumnInfo& info);
  static void add_field(Column& column, const Plan& plan, const tracking::Packet& packet);
  static void add_derived(Column& column, const Plan& plan, const tracking::Packet& packet);
  static void put(Column& column, const Plan& plan, const Field& field, const std::uint8_t* header);

  std::vector<ColumnInfo> infos_;
  std::vector<Plan> plans_;
  bool uses_crcs_ = false;
};

}  // namespace rdmawire::python
