// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once
/// Exchanges of the CM: which packets of QP 1 establish and close the same connection.

#include <cstdint>
#include <vector>

#include "dissectors/tracking/address.hpp"
#include "dissectors/tracking/cm_message.hpp"
#include "dissectors/tracking/lru.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::wireshark {

/// Groups CM messages by their communication IDs, like tracking::Conversations, and returns an exchange for each
/// message. Independent of the tracker, which reports only the messages that change a connection.
class CmExchanges {
 public:
  static constexpr std::uint32_t default_capacity = 1U << 16;
  /// `capacity`: maximum number of open exchanges. The least recently used one is evicted. Its later messages start a
  /// new exchange.
  explicit CmExchanges(std::uint32_t capacity = default_capacity) : by_id_(capacity) {}

  /// Returns the number of the packet's exchange, from 1, or 0 if the packet is damaged or no CM message of a
  /// connection.
  std::uint32_t add(const tracking::Packet& packet);
  /// Returns the ID of the exchange's connection: the number of the frame with its REQ, as in tracking::Connection.
  /// 0: unknown, because the REQ is missing in the capture.
  [[nodiscard]] std::uint64_t connection_of(std::uint32_t exchange) const {
    return exchange == 0 || exchange > connections_.size() ? 0 : connections_[exchange - 1];
  }
  /// Sets the connection of an exchange whose REQ was not captured. Returns false for other exchanges.
  bool assign(std::uint32_t exchange, std::uint64_t connection);

 private:
  struct Entry {
    std::uint32_t exchange = 0;
    std::uint32_t responder_id = 0;          ///< 0: unknown
    std::uint32_t qp = 0, starting_psn = 0;  ///< of the REQ
    std::uint64_t service_id = 0;
  };
  [[nodiscard]] Entry* find(const tracking::FlowKey& ports, const tracking::CmMessage& cm);
  std::uint32_t create(const tracking::FlowKey& key, Entry entry, std::uint64_t connection);

  /// The key contains the ports of the requester's packets and the requester's communication ID.
  tracking::LruTable<tracking::FlowKey, Entry> by_id_;
  std::vector<std::uint32_t> connections_;  ///< by number of the exchange - 1
};

}  // namespace rdmawire::wireshark
