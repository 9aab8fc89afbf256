#pragma once
/// Evidence that two QPs are connected, apart from their responses: the CM's exchange, or applications that exchange
/// their QP numbers in plain text. The later states of these connections are reported, too.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "dissectors/tracking/connection.hpp"

namespace rdmawire::tracking {

/// Two QPs of one connection. Index 0 is the initiator: the active side of the CM, or the client of the text exchange.
struct PairEvidence {
  struct Side {
    PortAddress address;
    std::uint32_t qp = 0;                            ///< 0: unknown (no connection has QP 0)
    std::optional<std::uint32_t> first_psn;          ///< first PSN of the requests that this side sends
    std::optional<std::uint8_t> reads_as_responder;  ///< maximum number of READs and atomics that the side can process
                                                     ///< at once (responder resources of the CM)
    std::optional<std::uint8_t> reads_as_requester;  ///< maximum number of READs and atomics that the side can have
                                                     ///< outstanding (initiator depth of the CM)
    std::optional<std::uint8_t> retries,
        rnr_retries;  ///< maximum number of retries after a timeout, and after RNR NAKs (rnr_retries 7: unlimited)
    /// Minimum time for which the side waits for an ACK, in nanoseconds (0: unknown).
    std::int64_t acknowledgement_timeout = 0;
  };
  JoinedBy by = JoinedBy::connection_manager;
  Service service = Service::rc;
  bool service_known = true;  ///< false: the service may be RC, UC or UD (text of ibv_*_pingpong)
  std::array<Side, 2> sides;
  std::uint32_t mtu = 0;              ///< path MTU in bytes (0: unknown)
  std::uint16_t pkey = 0;             ///< 0: unknown
  std::uint64_t service_id = 0;       ///< service ID in the CM's REQ
  std::uint16_t service_port = 0;     ///< port in RDMA-CM's service ID (0: none)
  std::optional<std::uint32_t> qkey;  ///< UD: Q_Key of the QP that offers the service
  std::uint64_t request_frame = 0,
                frame = 0;  ///< frame of the REQ, and frame of the packet that completed the evidence
  std::int64_t request_time = 0, time = 0;
  std::uint32_t requests = 0;  ///< number of captured REQs, including retransmissions
  bool crcs_good = false;      ///< the REP has a valid ICRC
  std::uint32_t receipts = 0;  ///< number of captured MRAs, with which a side requests more time

  /// Returns the key of the packets to that side: ports and destination QP.
  [[nodiscard]] FlowKey to(std::size_t side) const {
    return {sides[1 - side].address, sides[side].address, sides[side].qp};
  }
};

/// Negotiated parameters of the two QPs of a connection, in the order of Connection::ends.
struct NegotiatedParameters {
  std::array<PairEvidence::Side, 2> ends;
  JoinedBy by = JoinedBy::connection_manager;
  std::uint64_t request_frame = 0, frame = 0;  ///< as in PairEvidence
};

/// Contents of a REJ, or of a SIDR_REP that rejects.
struct Rejection {
  std::size_t by = 1;     ///< side that rejects: index of PairEvidence::sides
  bool datagram = false;  ///< true: the message is a SIDR_REP, and `reason` is its status
  std::uint16_t reason = 0;
  std::string_view
      reason_name;  ///< name of the reason, such as "Invalid Service ID" (empty: the specification does not define it)
  std::string_view reason_meaning;  ///< meaning of the reason, one sentence (empty if `reason_name` is)
  std::uint8_t message = 0;         ///< which message is rejected: 0 REQ, 1 REP, 2 none (a timeout)
  Bytes additional;                 ///< valid part of the Additional Reject Information (may be empty)
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
  /// A datagram service was resolved (SIDR). sides[1].qp and qkey are known, sides[0].qp is unknown.
  virtual void datagram_service(const PairEvidence& /*evidence*/) {}
  /// The RTU was captured. Event opened: `frame` is the RTU, `origin_frame` the REQ, `cause_frame` the REP, `duration`
  /// the time from REQ to REP, `packets` the number of REQs.
  virtual void opened(const PairEvidence& /*evidence*/, const Event&) {}
  /// The connection was rejected. Event rejected: `frame` is the REJ, `origin_frame` the REQ, `duration` the time
  /// between them, `value` the reason (see cm_rej_reason_names, for a SIDR_REP cm_sidr_status_names), `end` the sender
  /// of the rejected REQ or REP, `packets` the number of REQs. If no REP preceded the REJ, sides[1].qp is unknown and
  /// pair() was not called.
  virtual void rejected(const PairEvidence& /*evidence*/, const Event&, const Rejection&) {}
  /// A REQ or SIDR_REQ has no REP or REJ. Reported by Conversations::finish. Event unanswered: `frame` is the request,
  /// `last_frame` its last transmission, `packets` the number of transmissions, `duration` the time from the first to
  /// the last. pair() was not called.
  virtual void unanswered(const PairEvidence& /*evidence*/, const Event&) {}
  /// An alternate path was negotiated (LAP and APR). `path` leads from sides[0] to sides[1] (number 0). Event
  /// path_change: `frame` is the APR, `origin_frame` the LAP, `end` the side that proposed the path, `value` the status
  /// in the APR. If it is 0, the path is loaded. Otherwise, `path` is unused.
  virtual void path_changed(const PairEvidence& /*evidence*/, const Event&, const FlowKey& /*path*/) {}
  /// The first DREQ was captured. The QPs can be reused after it. If the start of the connection was not captured,
  /// sides[0] is the sender of the DREQ, its QP is unknown, and request_frame is 0.
  virtual void closing(const PairEvidence& evidence, std::uint64_t frame, std::int64_t time) = 0;
  /// The connection was closed. Event closed: `frame` is the DREQ, `last_frame` the DREP, `duration` the time between
  /// them, `end` the sender of the DREQ, `packets` the number of DREQs. If a DREQ has no DREP, Conversations::finish
  /// reports it with an unknown cause, and `last_frame` is its last transmission.
  virtual void closed(const PairEvidence& /*evidence*/, const Event&) {}

 protected:
  ~PairSink() = default;
};

}  // namespace rdmawire::tracking
