#pragma once
/// MPA negotiation: Request and Reply Frames, negotiated parameters, and phases of a connection. Pure functions of
/// small values. The caller handles the application's private data.
///
/// RFC 5044, 7.1 (revision 1) and appendix C (revision 0, RDMA Consortium), RFC 6581, 6 to 10 (revision 2).

#include <algorithm>
#include <cstdint>
#include <optional>

#include "dissectors/machines/iwarp_error.hpp"
#include "dissectors/protocol/mpa.hpp"

namespace rdmawire::machines {

enum class MpaRole : std::uint8_t { initiator, responder };

/// Kind of ready-to-receive indication, which is the initiator's first FPDU in the peer-to-peer model. RFC 6581, 9.2.
enum class Rtr : std::uint8_t { none, send, write, read };
struct RtrKinds {
  bool send = false, write = false, read = false;

  [[nodiscard]] constexpr bool any() const { return send || write || read; }
  friend constexpr RtrKinds operator&(RtrKinds a, RtrKinds b) {
    return {a.send && b.send, a.write && b.write, a.read && b.read};
  }
  friend constexpr bool operator==(const RtrKinds&, const RtrKinds&) = default;
};

/// Capabilities and settings of an endpoint.
struct MpaSettings {
  std::uint8_t revision = 2;       ///< maximum supported revision: 1 or 2
  bool markers = false;            ///< requests markers in the received stream
  bool crc = true;                 ///< false only if the administrator disabled CRCs. RFC 5044, 4.4
  bool enhanced = true;            ///< initiators: use revision 2 to request enhanced connection establishment
  bool peer_to_peer = false;       ///< initiators: set control flag A, peer-to-peer
  RtrKinds rtr{true, true, true};  ///< supported ready-to-receive indications
  bool rdmac = false;              ///< "permissive": supports revision 0. RFC 5044, C.1
  std::uint16_t ird = 1,
                ord = 1;  ///< depths that the application requested (mpa::no_negotiation: the ULP negotiates them)
  std::uint16_t most_ird = 128;  ///< maximum IRD that the endpoint's resources allow
};

/// The enhanced connection establishment data. RFC 6581, 9.
struct MpaEnhancedData {
  bool peer_to_peer = false;
  RtrKinds rtr{};
  std::uint16_t ird = 0, ord = 0;

  friend constexpr bool operator==(const MpaEnhancedData&, const MpaEnhancedData&) = default;
};

/// An MPA Request or Reply Frame without its private data.
struct MpaSetupFrame {
  MpaRole sender = MpaRole::initiator;
  bool markers = false, crc = false, reject = false;
  bool enhanced = false;  ///< flag S of revision 2: `data` precedes the application's private data
  std::uint8_t revision = 1;
  MpaEnhancedData data{};

  friend constexpr bool operator==(const MpaSetupFrame&, const MpaSetupFrame&) = default;
};

/// State of a received frame.
struct MpaSetupArrival {
  enum class State : std::uint8_t {
    more,      ///< incomplete: `bytes` bytes are needed to continue
    whole,     ///< complete: the frame has `bytes` bytes
    improper,  ///< invalid: the receiver closes TCP and reports the error locally. RFC 5044, 7.1.2 rules 2, 3, 5, 9
  };
  State state = State::more;
  std::uint32_t bytes = MpaFrame::size;
  MpaSetupFrame frame{};
  std::uint32_t private_at = 0;  ///< complete frames: offset of the application's private data
};

/// Parses the start of the peer's stream. Detects an invalid key at its first wrong byte. A request in place of a reply
/// is invalid, because then both sides are initiators (rule 8). Ignores the Res bits, and the R bit of a request.
inline MpaSetupArrival read_setup(Bytes bytes, MpaRole sender) {
  using State = MpaSetupArrival::State;
  MpaSetupArrival arrival;
  const std::string_view key = sender == MpaRole::initiator ? mpa::request_key : mpa::reply_key;
  const std::size_t compared = std::min(bytes.size(), key.size());
  arrival.state = State::improper;
  if (!std::equal(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(compared), key.begin())) return arrival;
  arrival.state = State::more;
  if (bytes.size() < MpaFrame::size) return arrival;
  const View<MpaFrame> view(bytes.data());
  const std::uint32_t private_bytes = view.get<"private_data_length">();
  arrival.frame = {.sender = sender,
                   .markers = view.get<"markers">() != 0,
                   .crc = view.get<"crc">() != 0,
                   .reject = sender == MpaRole::responder && view.get<"reject">() != 0,
                   .enhanced = view.get<"enhanced">() != 0 && view.get<"revision">() >= 2,
                   .revision = view.get<"revision">(),
                   .data = {}};
  arrival.state = State::improper;
  if (private_bytes > mpa::max_private_data) return arrival;
  if (arrival.frame.enhanced && private_bytes < MpaEnhanced::size) return arrival;
  arrival.bytes = MpaFrame::size + private_bytes;
  arrival.state = State::more;
  if (bytes.size() < arrival.bytes) return arrival;
  arrival.state = State::whole;
  arrival.private_at = MpaFrame::size;
  if (!arrival.frame.enhanced) return arrival;
  const View<MpaEnhanced> data(bytes.data() + MpaFrame::size);
  arrival.private_at += MpaEnhanced::size;
  arrival.frame.data = {.peer_to_peer = data.get<"peer_to_peer">() != 0,
                        .rtr = {data.get<"rtr_send">() != 0, data.get<"rtr_write">() != 0, data.get<"rtr_read">() != 0},
                        .ird = data.get<"ird">(),
                        .ord = data.get<"ord">()};
  // Without flag A, the other flags are ignored. RFC 6581, 9.2
  if (!arrival.frame.data.peer_to_peer) arrival.frame.data.rtr = {};
  return arrival;
}

/// Returns the maximum length of the application's private data. Enhanced connection establishment uses four of the 512
/// bytes. RFC 6581, 9.
constexpr std::uint32_t most_private_data(bool enhanced) {
  return mpa::max_private_data - (enhanced ? static_cast<std::uint32_t>(MpaEnhanced::size) : 0);
}

/// Negotiated parameters from the view of one side.
struct MpaAgreement {
  bool send_markers = false, receive_markers = false;
  bool crc = true;           ///< CRCs are generated and checked in both directions
  std::uint8_t version = 1;  ///< version of DDP and RDMAP (0: RDMA Consortium). RFC 5044, C.1
  std::uint16_t ird = 0, ord = 0;
  bool peer_to_peer = false;
  Rtr rtr = Rtr::none;  ///< kind of the initiator's first FPDU

  friend constexpr bool operator==(const MpaAgreement&, const MpaAgreement&) = default;
};

constexpr MpaSetupFrame request_of(const MpaSettings& own) {
  MpaSetupFrame request{.sender = MpaRole::initiator, .markers = own.markers, .crc = own.crc};
  request.enhanced = own.enhanced && own.revision >= 2;
  // Revision 2 is only needed for enhanced connection establishment. RFC 6581, 6 and 10
  request.revision = request.enhanced ? 2 : 1;
  if (request.enhanced)
    request.data = {.peer_to_peer = own.peer_to_peer,
                    .rtr = own.peer_to_peer ? own.rtr : RtrKinds{},
                    .ird = own.ird,
                    .ord = own.ord};
  return request;
}

/// Reaction of a responder to a complete request.
enum class MpaRequestVerdict : std::uint8_t {
  ask_consumer,      ///< the application must accept or reject the request
  close,             ///< close the connection: unsupported revision. RFC 5044, 7.1.1, RFC 6581, 10
  answer_and_close,  ///< revision 0, but not permissive: reply with revision 1, then close gracefully. C.2.1
};
constexpr MpaRequestVerdict judge_request(const MpaSettings& own, const MpaSetupFrame& request) {
  if (request.revision == 0) return own.rdmac ? MpaRequestVerdict::ask_consumer : MpaRequestVerdict::answer_and_close;
  return request.revision <= own.revision ? MpaRequestVerdict::ask_consumer : MpaRequestVerdict::close;
}

struct MpaAnswer {
  MpaSetupFrame reply{};
  MpaAgreement agreement{};
};

/// Returns the reply of a responder whose application accepts, and the negotiated parameters of the responder.
constexpr MpaAnswer accept_request(const MpaSettings& own, const MpaSetupFrame& request) {
  MpaAnswer answer;
  MpaSetupFrame& reply = answer.reply;
  MpaAgreement& agreed = answer.agreement;
  const bool rdmac = request.revision == 0;
  reply = {.sender = MpaRole::responder, .markers = own.markers || rdmac, .crc = own.crc || rdmac};
  reply.revision = std::min(request.revision, own.revision);
  agreed = {.send_markers = request.markers || rdmac,
            .receive_markers = reply.markers,
            .crc = reply.crc || request.crc,
            .version = static_cast<std::uint8_t>(rdmac ? 0 : 1),
            .ird = own.ird,
            .ord = own.ord};
  if (!request.enhanced) return answer;
  reply.enhanced = true;
  MpaEnhancedData& data = reply.data;
  // Depths: RFC 6581, 9.1
  if (request.data.ord == mpa::no_negotiation) {
    data.ird = mpa::no_negotiation;
  } else {
    agreed.ird = std::max(own.ird, std::min(request.data.ord, own.most_ird));
    data.ird = agreed.ird;
  }
  if (request.data.ird == mpa::no_negotiation)
    data.ord = mpa::no_negotiation;
  else
    data.ord = agreed.ord = std::min(own.ord, request.data.ird);
  // Ready-to-receive indication: RFC 6581, 9.2
  data.peer_to_peer = agreed.peer_to_peer = request.data.peer_to_peer;
  if (!data.peer_to_peer) return answer;
  const RtrKinds common = request.data.rtr & own.rtr;
  data.rtr = common.any() ? common : own.rtr;
  // An RTR by RDMA Read requires an IRD of at least 1.
  if (data.rtr.read && agreed.ird == 0) data.ird = agreed.ird = 1;
  return answer;
}

/// Returns the reply of a responder whose application rejects. It contains the ORD that the responder requires. RFC
/// 6581, 9.1.
constexpr MpaSetupFrame reject_request(const MpaSettings& own, const MpaSetupFrame& request) {
  MpaSetupFrame reply = accept_request(own, request).reply;
  reply.reject = true;
  if (reply.enhanced && reply.data.ord != mpa::no_negotiation) reply.data.ord = own.ord;
  return reply;
}

/// Reaction of an initiator to a complete reply.
struct MpaReplyVerdict {
  enum class Kind : std::uint8_t {
    operate,    ///< the Full Operation Phase starts with `agreement`
    rejected,   ///< MPA ends, and the application owns the TCP connection. RFC 5044, 7.1.2 rule 3
    close,      ///< close the connection: no common revision, or an invalid reply
    terminate,  ///< the Full Operation Phase starts with a Terminate that contains `error`, then the connection is
                ///< closed. RFC 6581, 9.1 and 9.2
  };
  Kind kind = Kind::close;
  MpaAgreement agreement{};
  IwarpError error{};
};
constexpr MpaReplyVerdict judge_reply(const MpaSettings& own, const MpaSetupFrame& request,
                                      const MpaSetupFrame& reply) {
  using Kind = MpaReplyVerdict::Kind;
  MpaReplyVerdict verdict;
  const bool rdmac = reply.revision == 0;
  if (reply.revision > own.revision || (rdmac && !own.rdmac)) return verdict;
  if (reply.reject) {
    verdict.kind = Kind::rejected;
    return verdict;
  }
  // The reply to an enhanced request must be enhanced. RFC 6581, 10
  if (reply.enhanced != request.enhanced && !rdmac) return verdict;
  verdict.kind = Kind::operate;
  MpaAgreement& agreed = verdict.agreement;
  agreed = {.send_markers = reply.markers || rdmac,
            .receive_markers = request.markers || rdmac,
            .crc = request.crc || reply.crc || rdmac,
            .version = static_cast<std::uint8_t>(rdmac ? 0 : 1),
            .ird = own.ird,
            .ord = own.ord};
  if (!reply.enhanced) return verdict;
  const auto fails = [&](IwarpError error) {
    verdict.kind = Kind::terminate;
    verdict.error = error;
    return verdict;
  };
  if (reply.data.ird != mpa::no_negotiation) agreed.ord = std::min(own.ord, reply.data.ird);
  if (reply.data.ord != mpa::no_negotiation) {
    if (reply.data.ord > std::max(own.most_ird, own.ird)) return fails(iwarp_error::insufficient_ird);
    agreed.ird = std::max(own.ird, reply.data.ord);
  }
  if (!request.data.peer_to_peer) return verdict;
  if (!reply.data.peer_to_peer) return fails(iwarp_error::no_rtr_option);
  agreed.peer_to_peer = true;
  const RtrKinds common = reply.data.rtr & own.rtr;
  // A READ of zero bytes, like any READ, requires an IRD of at least 1 at the responder.
  const bool may_read = common.read && reply.data.ird > 0;
  agreed.rtr = common.write ? Rtr::write : may_read ? Rtr::read : common.send ? Rtr::send : Rtr::none;
  return agreed.rtr == Rtr::none ? fails(iwarp_error::no_rtr_option) : verdict;
}

/// Phases of the MPA negotiation.
enum class MpaPhase : std::uint8_t {
  awaits_request,     ///< initial phase of a responder
  awaits_consumer,    ///< a responder that received a complete request
  awaits_reply,       ///< initial phase of an initiator
  awaits_first_fpdu,  ///< a responder that sent its reply: receives FPDUs, but must not send any. RFC 5044, 7.1.2 rule
                      ///< 4
  full_operation,
  ended,  ///< closed, rejected or aborted
};
enum class MpaSetupEvent : std::uint8_t { request, accepted, reply, first_fpdu, ended };

constexpr MpaPhase begins(MpaRole role) {
  return role == MpaRole::initiator ? MpaPhase::awaits_reply : MpaPhase::awaits_request;
}
/// Returns the phase after an event, or nullopt if this phase does not allow the event.
constexpr std::optional<MpaPhase> after(MpaPhase phase, MpaSetupEvent event) {
  using enum MpaPhase;
  if (event == MpaSetupEvent::ended) return ended;
  if (phase == awaits_request && event == MpaSetupEvent::request) return awaits_consumer;
  if (phase == awaits_consumer && event == MpaSetupEvent::accepted) return awaits_first_fpdu;
  if (phase == awaits_reply && event == MpaSetupEvent::reply) return full_operation;
  if (phase == awaits_first_fpdu && event == MpaSetupEvent::first_fpdu) return full_operation;
  return std::nullopt;
}
constexpr bool may_send_fpdus(MpaPhase phase) { return phase == MpaPhase::full_operation; }
constexpr bool takes_fpdus(MpaPhase phase) {
  return phase == MpaPhase::full_operation || phase == MpaPhase::awaits_first_fpdu;
}
/// True if a timer limits the wait for the peer's frame. RFC 5044, 7.1.2 rules 8 and 10.
constexpr bool is_timed(MpaPhase phase) { return phase == MpaPhase::awaits_request || phase == MpaPhase::awaits_reply; }

}  // namespace rdmawire::machines
