#pragma once
/// Helpers shared by the RoCE and the iWARP reader of exchanges.

#include <string>
#include <utility>

#include "captures/io/reader.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "replay/reactive/exchange.hpp"

namespace rdmawire::replay::reactive::detail {

template <class T>
using Result = tl::expected<T, ExchangeError>;

inline tl::unexpected<ExchangeError> wrong(std::string message) {
  return tl::unexpected(ExchangeError{false, std::move(message)});
}

/// Calls `see(packet)` for each packet of the capture until it returns an error.
template <class See>
Result<void> dissect_file(const std::string& file, See see) {
  auto reader = captures::Reader::open(file);
  if (!reader) return wrong(to_string(reader.error()));
  tracking::Dissector dissector;
  tracking::Packet packet;
  captures::Record record;
  captures::Next next{};
  while ((next = reader->next(record)) == captures::Next::record) {
    packet.number = record.number;
    packet.time_ns = record.time;
    packet.link = record.link;
    dissector.dissect(packet, record.bytes, record.wire_length);
    if (auto seen = see(std::as_const(packet)); !seen) return seen;
  }
  // The readable part of a truncated capture can be replayed.
  if (next == captures::Next::error && reader->records() == 0) return wrong(to_string(reader->error()));
  return {};
}

/// Reads the messages of an iWARP connection. Requires `exchange.connection` and `exchange.side`.
Result<void> read_streams(const std::string& file, std::size_t max_bytes, Exchange& exchange);

}  // namespace rdmawire::replay::reactive::detail
