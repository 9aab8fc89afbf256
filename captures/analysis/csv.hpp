#pragma once
/// The tables as CSV: connections, flows, messages, events, and packets when asked for.

#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "dissectors/tracking/connection.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::captures::analysis {

/// Writes rows as they become known; several threads may use it at once. Quoting as RFC 4180 has it, lines end in LF,
/// what is not known is empty.
class CsvTables final : public tracking::Sink {
 public:
  /// Makes the directory when it is not there, and begins the files. An error says what could not be made, and why.
  static tl::expected<std::unique_ptr<CsvTables>, std::string> create(const std::string& directory, bool packets);
  ~CsvTables();

  /// A packet as it was dissected: what packets.csv says of it stands ready until the sink hears whose it is.
  void add(const tracking::Packet& packet);
  void message(const tracking::Connection& connection, const tracking::Message& message) override;
  void event(const tracking::Connection* connection, const tracking::Event& event) override;
  void connection(const tracking::Connection& connection, tracking::CloseReason close_reason) override;
  void merged(const tracking::Connection& connection, std::uint64_t id) override;
  void packet(const tracking::Connection& connection, std::uint64_t frame, const tracking::PacketNote& note) override;
  /// Writes what is left. An error when anything could not be written.
  tl::expected<void, std::string> finish();

 private:
  struct State;
  explicit CsvTables(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rdmawire::captures::analysis
