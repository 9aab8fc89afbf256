#pragma once
/// What says, before any answer is seen, that two queue pairs talk to each other: the CM's exchange, or programs that
/// tell each other their queue pairs in plain text; and what becomes of the connections that are known so.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "dissectors/tracking/connection.hpp"

namespace rdmawire::tracking {

/// Two queue pairs of one connection. Index 0 is who asked for the connection (the CM's active side, the text's
/// client).
struct PairEvidence {
  struct Side {
    PortAddress address;
    std::uint32_t qp = 0;                    ///< 0: not known (no connection has queue pair 0)
    std::optional<std::uint32_t> first_psn;  ///< of the requests that this side will send
    std::optional<std::uint8_t>
        reads_as_responder;  ///< reads and atomics it takes at once; the CM's responder resources
    std::optional<std::uint8_t> reads_as_requester;    ///< that it will have outstanding; the CM's initiator depth
    std::optional<std::uint8_t> retries, rnr_retries;  ///< that it is to make after a timeout, and after RNR NAKs; 7
                                                       ///< RNR retries: without end
    std::int64_t acknowledgement_timeout = 0;          ///< nanoseconds that it waits for an ACK, at least; 0: not said
  };
  JoinedBy by = JoinedBy::connection_manager;
  Service service = Service::rc;
  bool service_known = true;  ///< false: nothing says whether it is RC, UC or UD (ibv_*_pingpong's text)
  std::array<Side, 2> sides;
  std::uint32_t mtu = 0;                       ///< bytes; 0: not said
  std::uint16_t pkey = 0;                      ///< 0: not said
  std::uint64_t service_id = 0;                ///< of the CM
  std::uint16_t service_port = 0;              ///< of RDMA-CM's service id; 0: none
  std::optional<std::uint32_t> qkey;           ///< UD: what the service's queue pair takes
  std::uint64_t request_frame = 0, frame = 0;  ///< the REQ, and the packet that completed the evidence
  std::int64_t request_time = 0, time = 0;
  std::uint32_t requests = 0;  ///< how often the REQ was seen: once, and each time it was sent again
  std::uint32_t receipts = 0;  ///< MRAs: a side asked for more time

  /// Ports and queue pair as packets to that side have them.
  [[nodiscard]] FlowKey to(std::size_t side) const {
    return {sides[1 - side].address, sides[side].address, sides[side].qp};
  }
};

/// What was said of a connection's two queue pairs before they were used, by Connection::ends.
struct NegotiatedParameters {
  std::array<PairEvidence::Side, 2> ends;
  JoinedBy by = JoinedBy::connection_manager;
  std::uint64_t request_frame = 0, frame = 0;  ///< as PairEvidence has them
};

/// What a REJ or a SIDR_REP says that refuses.
struct Rejection {
  std::size_t by = 1;     ///< which side refuses: index of PairEvidence::sides
  bool datagram = false;  ///< a SIDR_REP: `reason` is its status
  std::uint16_t reason = 0;
  std::string_view reason_name;     ///< "Invalid Service ID"; empty: the specification has no such reason
  std::string_view reason_meaning;  ///< a sentence, likewise
  std::uint8_t message = 0;         ///< what is refused: 0 REQ, 1 REP, 2 no message (a timeout)
  Bytes additional;                 ///< Additional Reject Information, as much as is valid; may be empty
};

/// Takes the evidence, as it comes.
///
/// Of each connection that the CM makes: pair() with the REP (data can come before the RTU), opened() with the RTU,
/// then path_changed() any number of times, closing() with the first DREQ, closed() with its DREP. Text gives pair()
/// alone. Each step can be missing: it was not captured, or never was.
///
/// The events are filled but for Event::connection, which the tracker knows; Event::end is meant by side: a is
/// sides[0]. References are valid during the call.
class PairSink {
 public:
  /// Both queue pairs are known. Whatever used them before is over.
  virtual void pair(const PairEvidence& evidence) = 0;
  /// A service of datagrams was found (SIDR): sides[1].qp and qkey are known, sides[0].qp is not.
  virtual void datagram_service(const PairEvidence& /*evidence*/) {}
  /// The RTU. Event opened: `frame` the RTU, `origin_frame` the REQ, `cause_frame` the REP, `duration` from REQ to REP,
  /// `packets` how often the REQ was sent.
  virtual void opened(const PairEvidence& /*evidence*/, const Event&) {}
  /// Event rejected: `frame` the REJ, `origin_frame` the REQ, `duration` between them, `value` the reason
  /// (cm_rej_reason_names has its name; of a SIDR_REP cm_sidr_status_names), `end` who wanted the connection or, where
  /// a REP is refused, gave it, `packets` how often the REQ was sent. Where the REJ came before any REP, sides[1].qp is
  /// not known, and pair() was never called.
  virtual void rejected(const PairEvidence& /*evidence*/, const Event&, const Rejection&) {}
  /// A REQ or SIDR_REQ that drew no REP and no REJ; told when no more packets come (Conversations::finish). Event
  /// unanswered: `frame` the request, `last_frame` its last sending, `packets` how often it was sent, `duration` from
  /// the first to the last. pair() was never called.
  virtual void unanswered(const PairEvidence& /*evidence*/, const Event&) {}
  /// An alternate path was agreed on (LAP and APR): `path` goes from sides[0] to sides[1] (number 0). Event
  /// path_change: `frame` the APR, `origin_frame` the LAP, `value` APR's status, 0: the path is loaded; on other values
  /// `path` is not used. `end` who proposed it.
  virtual void path_changed(const PairEvidence& /*evidence*/, const Event&, const FlowKey& /*path*/) {}
  /// The first DREQ: from here on the queue pairs can be used for another connection. Where the connection's beginning
  /// was not captured, sides[0] is who sends the DREQ, its queue pair is not known, and request_frame is 0.
  virtual void closing(const PairEvidence& evidence, std::uint64_t frame, std::int64_t time) = 0;
  /// Event closed: `frame` the DREQ, `last_frame` the DREP, `duration` between them, `end` who sent the DREQ, `packets`
  /// how often it was sent. A DREQ that is never answered is told when no more packets come (Conversations::finish):
  /// cause unknown, `last_frame` its last sending.
  virtual void closed(const PairEvidence& /*evidence*/, const Event&) {}

 protected:
  ~PairSink() = default;
};

}  // namespace rdmawire::tracking
