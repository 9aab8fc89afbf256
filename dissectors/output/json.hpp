#pragma once
/// Writes a packet as one line of JSON. docs/reference/dissect-json.md documents the keys. The keys of fields are their
/// names in the tables.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "dissectors/tracking/packet.hpp"

namespace rdmawire::output {

/// Information about a packet that the capture contains.
struct PacketContext {
  std::string_view file;                       ///< name of the file, if several files are read
  std::span<const std::string_view> comments;  ///< comments in the capture file
};

/// Writes packets as NDJSON: one object per line. The output is always valid JSON, because invalid UTF-8 is replaced.
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

/// Appends `text` as a quoted JSON string.
void append_json_string(std::string& out, std::string_view text);

/// Returns the name of a link type, such as "ethernet", or its number as text if it is unsupported.
std::string link_name(LinkType link);
/// Returns the name of a packet's link type. If the packet starts with an FPDU, an MPA frame or a BTH, returns the name
/// of that header, because there is no link type for it.
std::string link_name(const tracking::Packet& packet);
/// Returns the RDMA wire format of the packet, according to its headers or the PDUs of its byte stream.
Wire wire_of(const tracking::Packet& packet);
/// Returns "infiniband", "roce_v1", "roce_v2", "iwarp", or an empty string for a packet without RDMA.
std::string_view wire_name(Wire wire);

}  // namespace rdmawire::output
