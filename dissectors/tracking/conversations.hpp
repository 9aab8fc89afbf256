#pragma once
/// Follows the CM: which connections are requested, established, rejected, migrated and closed. IBTA vol 1, chapter
/// 12.

#include <cstdint>

#include "dissectors/tracking/cm_message.hpp"
#include "dissectors/tracking/lru.hpp"
#include "dissectors/tracking/packet.hpp"
#include "dissectors/tracking/pair_evidence.hpp"

namespace rdmawire::tracking {

/// Works on RoCEv2, RoCEv1 and native InfiniBand. QPs are located at the addresses of the REQ's primary path, which
/// can differ from those of the CM's own packets.
///
/// Bounded: keeps at most `capacity` conversations, evicts the least recently used and counts evictions. Later messages
/// of an evicted conversation are reported as if its start was not captured.
class Conversations {
 public:
  static constexpr std::uint32_t default_capacity = 1U << 15;
  explicit Conversations(PairSink& sink, std::uint32_t capacity = default_capacity);

  /// Processes a packet. Calls must be in capture order. Packets of other protocols cost a few comparisons.
  void add(const Packet& packet);
  /// Reports the REQs and DREQs without a reply. Call after the last packet.
  void finish();

  [[nodiscard]] std::uint32_t known() const { return conversations_.size(); }
  /// Conversations evicted because the table was full.
  [[nodiscard]] std::uint64_t evicted() const { return conversations_.evicted(); }
  /// Maximum number of conversations so far.
  [[nodiscard]] std::uint32_t most() const { return conversations_.most(); }
  /// Memory in use, approximately, in bytes.
  [[nodiscard]] std::size_t memory() const { return conversations_.memory(); }

 private:
  enum class State : std::uint8_t { requested, replied, ready, closing, over };
  struct Conversation {
    PairEvidence evidence;
    State state = State::requested;
    bool datagram = false;            ///< SIDR
    std::uint32_t responder_id = 0;   ///< 0: unknown
    std::uint32_t responder_psn = 0;  ///< the REQ's starting PSN
    std::uint64_t last_request_frame = 0;
    std::int64_t last_request_time = 0;
    std::uint64_t proposal_frame = 0;  ///< frame of a LAP without an APR (0: none)
    std::int64_t proposal_time = 0;
    std::uint8_t proposed_by = 0;  ///< side
    FlowKey proposal;              ///< from sides[0] to sides[1]
    Event end;                     ///< in state closing: the event `closed`, as far as known
  };
  struct Found {
    Conversation* conversation = nullptr;
    std::uint8_t sender = 0;  ///< side
  };

  Found find(const FlowKey& ports, const CmMessage& cm);
  void request(const Packet& packet, const FlowKey& ports, const CmMessage& cm);
  void reply(const Packet& packet, const FlowKey& ports, const CmMessage& cm);
  void ready(const Packet& packet, const FlowKey& ports, const CmMessage& cm);
  void reject(const Packet& packet, const FlowKey& ports, const CmMessage& cm);
  void propose(const Packet& packet, const FlowKey& ports, const CmMessage& cm);
  void answer_proposal(const Packet& packet, const FlowKey& ports, const CmMessage& cm);
  void disconnect(const Packet& packet, const FlowKey& ports, const CmMessage& cm);
  void disconnected(const Packet& packet, const FlowKey& ports, const CmMessage& cm);
  void datagram_reply(const Packet& packet, const FlowKey& ports, const CmMessage& cm);

  PairSink& sink_;
  /// The key consists of the ports of the CM's packets, from requester to responder, and the requester's communication
  /// ID. Keys of SIDR have an extra bit.
  LruTable<FlowKey, Conversation> conversations_;
};

}  // namespace rdmawire::tracking
