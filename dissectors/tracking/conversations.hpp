#pragma once
/// Follows the CM: from its messages, which connections are asked for, made, refused, moved and ended. IBTA vol 1,
/// chapter 12.

#include <cstdint>

#include "dissectors/tracking/cm_message.hpp"
#include "dissectors/tracking/lru.hpp"
#include "dissectors/tracking/packet.hpp"
#include "dissectors/tracking/pair_evidence.hpp"

namespace rdmawire::tracking {

/// Over RoCEv2, RoCEv1 and native InfiniBand. Queue pairs are placed at the addresses of the REQ's primary path, which
/// need not be those that the CM's own packets have.
///
/// Bounded: at most `capacity` conversations are kept; those that were quiet longest go first and are counted. What
/// comes later for such a one is told as for one whose beginning was not captured.
class Conversations {
 public:
  static constexpr std::uint32_t default_capacity = 1U << 15;
  explicit Conversations(PairSink& sink, std::uint32_t capacity = default_capacity);

  /// Packets come in the capture's order; those that are not of the CM cost a few comparisons.
  void add(const Packet& packet);
  /// No more packets: tells of the REQs and DREQs that were never answered.
  void finish();

  [[nodiscard]] std::uint32_t known() const { return conversations_.size(); }
  /// Conversations dropped for want of room.
  [[nodiscard]] std::uint64_t evicted() const { return conversations_.evicted(); }
  /// Bytes of memory that are held, about.
  [[nodiscard]] std::size_t memory() const { return conversations_.memory(); }

 private:
  enum class State : std::uint8_t { requested, replied, ready, closing, over };
  struct Conversation {
    PairEvidence evidence;
    State state = State::requested;
    bool datagram = false;            ///< SIDR
    std::uint32_t responder_id = 0;   ///< 0: not known yet
    std::uint32_t responder_psn = 0;  ///< the REQ's starting PSN
    std::uint64_t last_request_frame = 0;
    std::int64_t last_request_time = 0;
    std::uint64_t proposal_frame = 0;  ///< LAP without its APR; 0: there is none
    std::int64_t proposal_time = 0;
    std::uint8_t proposed_by = 0;  ///< side
    FlowKey proposal;              ///< from sides[0] to sides[1]
    Event end;                     ///< state closing: the event closed, as far as known
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
  /// By the ports of the CM's packets from requester to responder, and the requester's communication id; those of SIDR
  /// with a bit of their own.
  LruTable<FlowKey, Conversation> conversations_;
};

}  // namespace rdmawire::tracking
