#pragma once
/// Follows CM exchanges: which connections are requested, established, rejected, migrated and closed. IBTA vol 1,
/// chapter 12.

#include <cstdint>

#include "dissectors/tracking/cm_message.hpp"
#include "dissectors/tracking/lru.hpp"
#include "dissectors/tracking/packet.hpp"
#include "dissectors/tracking/pair_evidence.hpp"

namespace rdmawire::tracking {

/// Supports RoCEv2, RoCEv1 and native InfiniBand. The addresses of QPs are those of the REQ's primary path, which can
/// differ from those of the CM's own packets.
///
/// Keeps at most `capacity` conversations, evicts the least recently used ones, and counts evictions. Later messages of
/// an evicted conversation are reported as if its start was not captured.
class Conversations {
 public:
  static constexpr std::uint32_t default_capacity = 1U << 15;
  explicit Conversations(PairSink& sink, std::uint32_t capacity = default_capacity);

  /// Processes a packet. Packets must be in capture order. A packet of another protocol costs a few comparisons.
  void add(const Packet& packet);
  /// Reports REQs and DREQs that have no reply. Must be called after the last packet.
  void finish();

  [[nodiscard]] std::uint32_t known() const { return conversations_.size(); }
  /// Number of conversations that were evicted because the table was full.
  [[nodiscard]] std::uint64_t evicted() const { return conversations_.evicted(); }
  /// Maximum number of conversations that were in the table at once.
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
    std::uint32_t responder_psn = 0;  ///< starting PSN in the REQ
    std::uint64_t last_request_frame = 0;
    std::int64_t last_request_time = 0;
    std::uint64_t proposal_frame = 0;  ///< frame of a LAP that has no APR yet (0: none)
    std::int64_t proposal_time = 0;
    std::uint8_t proposed_by = 0;  ///< side that sent the LAP
    FlowKey proposal;              ///< proposed path from sides[0] to sides[1]
    Event end;                     ///< in state closing: the event `closed`, as far as it is known
  };
  struct Found {
    Conversation* conversation = nullptr;
    std::uint8_t sender = 0;  ///< side that sent the message
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
  /// The key consists of the ports of the CM's packets, from requester to responder, and the communication ID of the
  /// requester. Keys of SIDR have an extra bit.
  LruTable<FlowKey, Conversation> conversations_;
};

}  // namespace rdmawire::tracking
