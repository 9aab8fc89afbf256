#pragma once
/// Evidence that two QPs are connected, which does not require responses: the CM's exchange, or applications that
/// exchange their QP numbers in plain text. Also reports the later states of these connections.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "dissectors/tracking/connection.hpp"

namespace rdmawire::tracking {

/// Two QPs of one connection. Index 0 is the initiator (the CM's active side, the text exchange's client).
struct PairEvidence {
  struct Side {
    PortAddress address;
    std::uint32_t qp = 0;                            ///< 0: unknown (no connection has QP 0)
    std::optional<std::uint32_t> first_psn;          ///< first PSN of the requests that this side sends
    std::optional<std::uint8_t> reads_as_responder;  ///< maximum number of READs and atomics that the side accepts at
                                                     ///< once (the CM's responder resources)
    std::optional<std::uint8_t>
        reads_as_requester;  ///< maximum number that the side will have outstanding (the CM's initiator depth)
    std::optional<std::uint8_t> retries,
        rnr_retries;  ///< number of retries after a timeout, and after RNR NAKs (7 RNR retries: unlimited)
    /// Minimum time that the side waits for an ACK, in nanoseconds (0: unknown).
    std::int64_t acknowledgement_timeout = 0;
  };
  JoinedBy by = JoinedBy::connection_manager;
  Service service = Service::rc;
  bool service_known = true;  ///< false: RC, UC or UD is unknown (ibv_*_pingpong's text)
  std::array<Side, 2> sides;
  std::uint32_t mtu = 0;                       ///< bytes (0: unknown)
  std::uint16_t pkey = 0;                      ///< 0: unknown
  std::uint64_t service_id = 0;                ///< of the CM
  std::uint16_t service_port = 0;              ///< of RDMA-CM's service ID (0: none)
  std::optional<std::uint32_t> qkey;           ///< UD: Q_Key of the service's QP
  std::uint64_t request_frame = 0, frame = 0;  ///< frames of the REQ, and of the packet that completed the evidence
  std::int64_t request_time = 0, time = 0;
  std::uint32_t requests = 0;  ///< number of REQs seen, including retransmissions
  bool crcs_good = false;      ///< the REP has a valid ICRC
  std::uint32_t receipts = 0;  ///< number of MRAs, with which a side requested more time

  /// Key of the packets to that side: ports and destination QP.
  [[nodiscard]] FlowKey to(std::size_t side) const {
    return {sides[1 - side].address, sides[side].address, sides[side].qp};
  }
};

/// Negotiated parameters of a connection's two QPs, by Connection::ends.
struct NegotiatedParameters {
  std::array<PairEvidence::Side, 2> ends;
  JoinedBy by = JoinedBy::connection_manager;
  std::uint64_t request_frame = 0, frame = 0;  ///< as in PairEvidence
};

/// Contents of a REJ or a rejecting SIDR_REP.
struct Rejection {
  std::size_t by = 1;     ///< rejecting side: index of PairEvidence::sides
  bool datagram = false;  ///< true: a SIDR_REP, whose status is `reason`
  std::uint16_t reason = 0;
  std::string_view reason_name;     ///< "Invalid Service ID" (empty: not a reason of the specification)
  std::string_view reason_meaning;  ///< a sentence (empty as `reason_name`)
  std::uint8_t message = 0;         ///< rejected message: 0 REQ, 1 REP, 2 none (a timeout)
  Bytes additional;                 ///< Additional Reject Information, the valid part (may be empty)
};

/// Receives the evidence in capture order.
///
/// For each CM connection: pair() with the REP (data can arrive before the RTU), opened() with the RTU,
/// path_changed() any number of times, closing() with the first DREQ, closed() with its DREP. A text exchange calls
/// only pair(). Each step can be missing.
///
/// The events are complete except for Event::connection, which the tracker sets. Event::end is Side::a for sides[0] and
/// Side::b for sides[1]. References are valid during the call.
class PairSink {
 public:
  /// Both QPs are known. Their earlier connections have ended.
  virtual void pair(const PairEvidence& evidence) = 0;
  /// A datagram service was resolved (SIDR): sides[1].qp and qkey are known, sides[0].qp is unknown.
  virtual void datagram_service(const PairEvidence& /*evidence*/) {}
  /// The RTU. Event opened: `frame` is the RTU, `origin_frame` the REQ, `cause_frame` the REP, `duration` from REQ
  /// to REP, `packets` the number of REQs sent.
  virtual void opened(const PairEvidence& /*evidence*/, const Event&) {}
  /// Event rejected: `frame` is the REJ, `origin_frame` the REQ, `duration` between them, `value` the reason (see
  /// cm_rej_reason_names, for a SIDR_REP cm_sidr_status_names). `end` is the sender of the rejected REQ or REP,
  /// `packets` the number of REQs sent. If the REJ precedes any REP, sides[1].qp is unknown and pair() was not called.
  virtual void rejected(const PairEvidence& /*evidence*/, const Event&, const Rejection&) {}
  /// A REQ or SIDR_REQ without REP or REJ. Reported by Conversations::finish. Event unanswered: `frame` is the
  /// request, `last_frame` its last transmission, `packets` the number of transmissions, `duration` from the
  /// first to the last. pair() was not called.
  virtual void unanswered(const PairEvidence& /*evidence*/, const Event&) {}
  /// An alternate path was negotiated (LAP and APR): `path` is from sides[0] to sides[1] (number 0). Event
  /// path_change: `frame` is the APR, `origin_frame` the LAP, `end` the proposer, `value` the APR's status. 0: the
  /// path is loaded. For other values, `path` is unused.
  virtual void path_changed(const PairEvidence& /*evidence*/, const Event&, const FlowKey& /*path*/) {}
  /// The first DREQ: the QPs can be reused from here on. If the start of the connection was not captured,
  /// sides[0] is the sender of the DREQ, its QP is unknown, and request_frame is 0.
  virtual void closing(const PairEvidence& evidence, std::uint64_t frame, std::int64_t time) = 0;
  /// Event closed: `frame` is the DREQ, `last_frame` the DREP, `duration` between them, `end` the sender of the
  /// DREQ, `packets` the number of DREQs sent. Conversations::finish reports a DREQ without DREP: cause unknown,
  /// `last_frame` its last transmission.
  virtual void closed(const PairEvidence& /*evidence*/, const Event&) {}

 protected:
  ~PairSink() = default;
};

}  // namespace rdmawire::tracking
