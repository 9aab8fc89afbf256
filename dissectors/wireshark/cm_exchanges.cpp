// SPDX-License-Identifier: GPL-2.0-or-later
#include "dissectors/wireshark/cm_exchanges.hpp"

#include "dissectors/protocol/mad.hpp"
#include "dissectors/tracking/crc_cause.hpp"

namespace rdmawire::wireshark {

using tracking::CmMessage;
using tracking::FlowKey;

std::uint32_t CmExchanges::add(const tracking::Packet& packet) {
  const auto mad = packet.stack.get<Mad>();
  if (!mad || mad->get<"class">() != management_class::communication) return 0;
  const auto ports = tracking::ports_of(packet.stack);
  const CmMessage cm = tracking::read_cm_message(packet.stack);
  if (!ports || !cm.kind || cm.kind == &info<CmSidrReq> || cm.kind == &info<CmSidrRep>) return 0;
  if (packet.icrc.status == CrcCheck::Status::bad && tracking::is_damage(explain_icrc(packet.stack).kind)) return 0;

  if (cm.kind == &info<CmReq>) {
    const FlowKey key = ports->with(cm.local_id);
    if (const Entry* known = by_id_.find(key); known && connection_of(known->exchange) != 0 && known->qp == cm.qp &&
                                               known->starting_psn == cm.starting_psn &&
                                               known->service_id == cm.service_id)
      return known->exchange;  // retransmission
    return create(key, {0, 0, cm.qp, cm.starting_psn, cm.service_id}, packet.number);
  }
  if (Entry* known = find(*ports, cm)) {
    if (cm.kind == &info<CmRep>) known->responder_id = cm.local_id;
    return known->exchange;
  }
  // The REQ was not captured. Only the responder sends a REP.
  if (cm.kind == &info<CmRep>) return create(ports->reversed(cm.remote_id), {.responder_id = cm.local_id}, 0);
  if (cm.local_id == 0) return create(ports->reversed(cm.remote_id), {}, 0);
  return create(ports->with(cm.local_id), {.responder_id = cm.remote_id}, 0);
}

bool CmExchanges::assign(std::uint32_t exchange, std::uint64_t connection) {
  if (exchange == 0 || exchange > connections_.size() || connections_[exchange - 1] != 0) return false;
  connections_[exchange - 1] = static_cast<std::uint32_t>(connection);
  return true;
}

// Each CA chooses its own IDs, so both IDs can be equal. The known responder ID then decides.
CmExchanges::Entry* CmExchanges::find(const FlowKey& ports, const CmMessage& cm) {
  const auto agrees = [](const Entry& entry, std::uint32_t responder_id) {
    return entry.responder_id == 0 || responder_id == 0 || entry.responder_id == responder_id;
  };
  if (cm.local_id != 0)
    if (Entry* entry = by_id_.find(ports.with(cm.local_id)); entry && agrees(*entry, cm.remote_id)) return entry;
  if (cm.remote_id != 0)
    if (Entry* entry = by_id_.find(ports.reversed(cm.remote_id)); entry && agrees(*entry, cm.local_id)) return entry;
  return nullptr;
}

std::uint32_t CmExchanges::create(const FlowKey& key, Entry entry, std::uint64_t connection) {
  connections_.push_back(static_cast<std::uint32_t>(connection));
  entry.exchange = static_cast<std::uint32_t>(connections_.size());
  by_id_.put(key, entry);
  return entry.exchange;
}

}  // namespace rdmawire::wireshark
