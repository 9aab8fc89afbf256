#pragma once
/// A packet as one line of JSON. The keys are documented in docs/json.md; those of fields are the tables' names.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "dissectors/tracking/packet.hpp"

namespace rdmawire::output {

/// What the capture knows of a packet beside the packet itself.
struct PacketContext {
  std::string_view file;                       ///< named when several files are read; else empty
  std::span<const std::string_view> comments;  ///< of the capture file
};

/// Writes packets as NDJSON: one object and a line end each. Valid JSON whatever the bytes are: text that is not UTF-8
/// comes out with replacement characters.
class JsonWriter {
 public:
  JsonWriter();
  JsonWriter(JsonWriter&&) noexcept;
  JsonWriter& operator=(JsonWriter&&) noexcept;
  ~JsonWriter();

  void append(std::string& out, const tracking::Packet& packet, const PacketContext& context = {});

 private:
  struct Plans;
  std::unique_ptr<Plans> plans_;
};

/// Appends `text` as a JSON string, with its quotes.
void append_json_string(std::string& out, std::string_view text);

/// "ethernet", "infiniband": the link type's word; its number in text when it is not one of ours.
std::string link_name(LinkType link);
/// Of a packet: the outermost header's name where that is none that a capture's packets begin with (an FPDU, a BTH).
std::string link_name(const tracking::Packet& packet);
/// Which RDMA wire the packet belongs to, by itself or by its connection.
Wire wire_of(const tracking::Packet& packet);
/// "infiniband", "roce_v1", "roce_v2", "iwarp"; empty for none.
std::string_view wire_name(Wire wire);

}  // namespace rdmawire::output
