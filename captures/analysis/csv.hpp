#pragma once
/// CSV tables: connections, flows, messages, events, connections and paths of MRC, and optionally packets.

#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "dissectors/tracking/connection.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::captures::analysis {

/// Writes rows as soon as they are known. Thread-safe. Cells are quoted as in RFC 4180, lines end with LF, and unknown
/// values are empty.
class CsvTables final : public tracking::Sink {
 public:
  /// Creates the directory if necessary, and the files, which get their names in finish(). An error contains the path
  /// and the reason.
  static tl::expected<std::unique_ptr<CsvTables>, std::string> create(const std::string& directory, bool packets);
  ~CsvTables();

  /// Stores the columns of a dissected packet, until packet() is called with its connection.
  void add(const tracking::Packet& packet);
  void message(const tracking::Connection& connection, const tracking::Message& message) override;
  void event(const tracking::Connection* connection, const tracking::Event& event) override;
  void connection(const tracking::Connection& connection, tracking::CloseReason close_reason) override;
  void merged(const tracking::Connection& connection, std::uint64_t id) override;
  void mrc_flow(const tracking::MrcFlow& flow, tracking::CloseReason close_reason) override;
  void packet(const tracking::Connection& connection, std::uint64_t frame, const tracking::PacketNote& note) override;
  /// Discards all rows. Must be called if the captures are read again from the start.
  void restart();
  /// Writes buffered rows, and replaces the files of an earlier run. If any write failed, replaces no file and returns
  /// an error. If finish() is not called, the files are discarded.
  tl::expected<void, std::string> finish();

 private:
  struct State;
  explicit CsvTables(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rdmawire::captures::analysis
