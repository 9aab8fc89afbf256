#pragma once
/// Decisions of the device that faults can override. The device calls them through Core::decisions. The functions in
/// `conforming` follow the specification. The files in faults/ contain the overrides.

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "conformance/device/common/overridable.hpp"
#include "conformance/device/roce/cm.hpp"
#include "conformance/device/roce/completion_queue.hpp"
#include "conformance/device/roce/counters.hpp"
#include "conformance/device/roce/faults.hpp"
#include "conformance/device/roce/packet.hpp"
#include "conformance/device/roce/port.hpp"
#include "conformance/device/roce/queue_pair.hpp"

namespace rdmawire::device {

struct CmRequest;
struct Core;

/// Decision about a request.
struct Decision {
  machines::RcDecision rc;
  std::uint8_t nak = 0;  ///< NAK code of a rejection
};

namespace conforming {

// Sending: transmit.cpp
/// Return the BTH and extension headers of a packet that is sent: those of the packet.
PacketFields sent_fields(const OutgoingPacket& packet);
/// Return the encoded frame as it is sent: unchanged.
std::vector<std::uint8_t> sent_frame(std::vector<std::uint8_t> frame);

// Requests: responder_decision.cpp
/// Return the settings of the state machine: the MTU and the rights of the queue pair.
machines::RcResponderSettings responder_settings(const QueuePair& qp);
/// Return the decision of the state machine about a request. 9.7.3 to 9.7.5.
Decision judge(Core& core, QueuePair& qp, const Packet& packet, const machines::RcRequest& request);
/// Return the rights that a request needs. A FLUSH needs a right for each requested placement: A19.
std::uint32_t rights_for(const machines::RcRequest& request);
/// True if the range of the request has to be in the region. A19.4.1.2: it is not checked for a FLUSH of a region.
bool checks_range(const machines::RcRequest& request);
/// True if the XRC queue pair may use the SRQ: both are in the same domain. Annex A14 (clause number not verified).
bool may_use(const QueuePair& qp, const SharedReceiveQueue& srq);

// Execution: responder.cpp
/// Execute, answer or reject a request as decided.
void react(Core& core, QueuePair& qp, const Packet& packet, const machines::RcRequest& request,
           const Decision& decision);
/// Execute an atomic and return the result: the original value. 9.4.5.
std::uint64_t operate(MutableBytes bytes, const machines::RcRequest& request);
/// Return the part of a SEND's payload that is placed in its receive: all.
Bytes placed_payload(const Responder& at, Bytes payload);
/// Return the completion of a finished receive. `bytes`: length of the message.
Completion receive_completion(const QueuePair& qp, const Packet& packet, std::uint64_t bytes);
/// True if the completion of the message causes a solicited event: the SE bit of its last packet.
bool is_solicited(const Packet& packet);
/// Update the state of the responder after the execution of a request. `original`: result of an atomic.
void advance(QueuePair& qp, const machines::RcRequest& request, std::uint64_t original);
/// Acknowledge an executed request if it has AckReq set.
void acknowledge(Core& core, QueuePair& qp, const machines::RcRequest& request);
/// Send an acknowledgement of an executed request once.
void send_acknowledgement(Core& core, QueuePair& qp, Response response);

// Duplicates: responder.cpp
/// Apply the effect of a duplicate, before it is answered: none. `kept`: the stored response. nullptr: the duplicate is
/// only acknowledged.
void apply_duplicate(Core& core, QueuePair& qp, const Packet& packet, const machines::RcRequest& request,
                     machines::RcAnswer* kept);
/// Return the part of a stored response that is retransmitted: the requested part.
machines::RcRequest replayed_part(const machines::RcRequest& request, const machines::RcAnswer& kept);
/// Return the PSN that acknowledges a duplicate: the newest acknowledged PSN.
Psn duplicate_psn(const Responder& at, const machines::RcRequest& request);

// Errors: responder.cpp
/// Report a gap in the PSNs with a NAK.
void report_gap(Core& core, QueuePair& qp, const Packet& packet, const machines::RcRequest& request);
/// Return the PSN of the NAK for a gap: the expected PSN.
Psn gap_psn(const Responder& at, const machines::RcRequest& request);
/// Send an RNR NAK. Following packets are silently dropped until the retry arrives.
void report_not_ready(Core& core, QueuePair& qp, const machines::RcRequest& request);
/// Return the timer code of an RNR NAK: the attribute of the queue pair.
unsigned rnr_timer(const QueuePair& qp);
/// Complete the receive of a rejected request in error. 9.9.3.1.3, 10.10.2.2.
void complete_rejected(Core& core, QueuePair& qp, const ReceiveRequest& request, Status status);
/// Raise the event for a rejected request that uses no receive. 10.10.2.3. `code`: of the NAK.
void raise_rejection(Core& core, const QueuePair& qp, std::uint8_t code);
/// Send the NAK of a rejected request.
void send_rejection(Core& core, QueuePair& qp, const Packet& packet, std::uint8_t code);
/// Return the NAK of a rejected request. The queue pair enters the Error state after it.
Response rejection(const Packet& packet, std::uint8_t code);

// Responses: responder_answers.cpp
/// Return the AETH credits: the number of posted receives, as far as the code can express it. Invalid for an SRQ.
/// 9.7.7.2.
std::uint8_t credits(const Core& core, QueuePair& qp);
/// Return the index of a response in the pending responses: PSN order. C9-110, o9-30.
std::size_t place_of(const std::deque<Response>& answers, const Response& response);
/// Return the kind of response to an operation whose response is stored.
Response::Kind kind_of_answer(Operation operation);
/// Return the MSN of READ responses: it includes the READ.
Msn read_response_msn(const Responder& at);
/// Return the maximum payload of the next packet of a READ response: the path MTU.
std::uint32_t read_response_mtu(const QueuePair& qp, const Response& response);
/// Return the next packet of a READ response. Each packet checks the key and reads memory again. Empty if access
/// failed.
std::optional<OutgoingPacket> next_of_read(Core& core, QueuePair& qp, Response& response);
/// Return the payload of a READ response packet. Empty if the key is no longer valid. 9.7.5.1.3.
std::optional<std::vector<std::uint8_t>> bytes_of_read(Core& core, const QueuePair& qp, const Response& response,
                                                       std::uint32_t count);
/// Return the PSN of the NAK that replaces a READ response packet: that packet's PSN.
Psn read_error_psn(const Response& response);

// Unreliable connections: unreliable_responder.cpp
/// Return the decision of the state machine about a packet. 9.8.2.
machines::UcDecision judge_unreliable(Core& core, QueuePair& qp, const machines::RcRequest& request);
/// True if a packet of a SEND takes the next receive: the first packet.
bool takes_next_receive(const Opcode& op);
/// Return the state after a dropped packet: the next message is accepted with any PSN.
machines::UcResponder after_drop(const machines::UcResponder& at, const machines::RcRequest& request);
/// Execute a packet. It has no response.
void execute_unreliable(Core& core, QueuePair& qp, const Packet& packet, const machines::RcRequest& request);

// Datagrams: datagram.cpp
/// Return the maximum payload of a datagram: the MTU of the port.
std::uint32_t largest_datagram(const Port& port);
/// True if the PSN of a datagram is acceptable: always, because it is not checked.
bool accepts_datagram_psn(QueuePair& qp, Psn psn);
/// Drop a datagram silently. `next`: the next receive, or nullptr.
void drop_datagram(Core& core, QueuePair& qp, const Packet& packet, const ReceiveRequest* next);
/// Return the offset of the network header in the 40 bytes before the payload. A17.4.5.2: an IPv4 header is in the
/// second half. The first half is undefined.
std::ptrdiff_t network_header_offset(const Packet& packet);
/// Return the completion of a datagram, apart from its status. Its length includes the 40 bytes of the header.
Completion datagram_completion(const QueuePair& qp, const Packet& packet);

// Congestion control: congestion.cpp
/// Return the CNP that answers a packet: CA17-45, figure 6.
OutgoingPacket cnp(const Core& core, const QueuePair& qp, const Packet& packet);
/// Send a CNP once.
void send_cnp(Core& core, OutgoingPacket cnp);
/// True if the device sends CNPs. CA17-44.
bool notices_marks(const Core& core);
/// Return the state that paces the CNPs: one for each queue pair.
machines::NotificationPoint& pacing(Core& core, QueuePair& qp);
/// True if a CNP concerns the queue pair. Its reserved bytes are ignored.
bool obeys(const Core& core, const QueuePair& qp, const Packet& packet);
/// Reduce the rate of the queue pair. CA17-46.
void handle_cnp(Core& core, QueuePair& qp, const Packet& packet);
/// Return the current rate: it increases with time.
machines::ReactionPoint rate_now(const Core& core, const QueuePair& qp);

// Completions: completions.cpp
/// Report a completion that exceeds the capacity of the queue. C9-218, 11.6.3.1.
void overflow(Core& core, CompletionQueue& queue);
/// True if the completion causes the requested notification.
bool notifies(const CompletionQueue& queue, const Completion& completion, bool solicited);
/// True if the send request has a completion. Unsignaled requests complete only on failure. 10.7.3.1.
bool reports(const QueuePair& qp, const SendRequest& request, Status status);

// States of queue pairs: queue_pair_states.cpp
/// Return the decision of the state machine about a modify_qp. 11.2.4.2.
machines::ModifyDecision judge_modify(const QueuePair& qp, QpState to, machines::QueuePairAttributes given);
/// True if the application may set the Q_Key. 10.2.5.
bool may_set_qkey(const QueuePair& qp, std::uint32_t qkey);
/// Return to the initial state.
void reset(QueuePair& qp);
/// Become ready to receive: the expected PSN is known.
void begin_receiving(QueuePair& qp);
/// Become ready to send with the PSN of the attributes.
void begin_sending(QueuePair& qp);
/// Complete pending send requests as flushed, in order. C9-220, C10-42.
void flush_sends(Core& core, QueuePair& qp, std::deque<SendWork> sends);
/// Complete pending receive requests as flushed, in order. C9-220, C10-42.
void flush_receives(Core& core, QueuePair& qp, const std::deque<ReceiveRequest>& receives);
/// True if the Error state raises the event that the queue pair completes no more requests of the SRQ: o11-5.2.5.
bool reports_last_wqe(const QueuePair& qp);
/// True if a drained send queue raises an event: if the application requested it.
bool reports_drained(const Requester& at);

// Verbs: device.cpp
/// Return the counters that the application sees.
Counters reported_counters(const Counters& counters);
/// Return EBUSY for a queue pair that is attached to a multicast group: o10-2.2.3. Bound windows do not prevent
/// destruction: o10-2.2.5.
Result<void> may_destroy(const Core& core, const QueuePair& qp);
/// Return whether a send request is executed, queued, flushed or refused in the state of the queue pair. C10-96.
machines::PostAnswer post_send(const QueuePair& qp);
/// Return whether a receive request is queued, flushed or refused in the state of the queue pair. C10-97.2.1.
machines::PostAnswer post_receive(const QueuePair& qp);
/// True if the queue pair prevents the destruction of a completion queue. C11-17.
bool uses_cq(const QueuePair& qp, std::uint32_t cq);

// Connection manager: cm.cpp
/// Return the first PSN that this device sends: the starting PSN of the peer's message. 12.7.
std::uint32_t sending_psn(const CmConnection& at);
/// Return the timeout code of the queue pair: from the REQ, or computed for it.
std::uint8_t ack_timeout(const CmConnection& at, const CmSettings& settings);
/// Stop the queue pair of a connection that ended.
void end_queue_pair(Core& core, QueuePair& qp);
/// Return the REP.
std::vector<std::uint8_t> reply(const CmConnection& at, const CmSettings& settings);
/// Return the Remote Communication ID of a REJ: the ID of the peer, as far as it is known.
std::uint32_t rejected_id(const CmConnection& at, std::uint16_t reason);
/// Change a retransmitted message: it is identical to the first.
void repeat(machines::CmMessage message, std::vector<std::uint8_t>& mad);
/// Return the reason for rejecting a REQ without notifying the application (12.6.7.2), or 0. LIDs are ignored: CA17-35.
std::uint8_t rejection_reason(const Core& core, const Packet& packet, const CmRequest& request,
                              const CmListener* listener);
/// True if a message of this type is processed.
bool processes(machines::CmMessage message);
/// Return the step of the state machine after a timeout.
machines::CmStep time_out(CmConnection& at, std::int64_t now);

}  // namespace conforming

/// Decisions about every packet that is sent.
struct SendingDecisions {
  Overridable<PacketFields(const OutgoingPacket&)> fields = conforming::sent_fields;
  Overridable<std::vector<std::uint8_t>(std::vector<std::uint8_t>)> frame = conforming::sent_frame;
};

/// Decisions of the responder of reliable connections.
struct ResponderDecisions {
  Overridable<machines::RcResponderSettings(const QueuePair&)> settings = conforming::responder_settings;
  Overridable<Decision(Core&, QueuePair&, const Packet&, const machines::RcRequest&)> judge = conforming::judge;
  Overridable<std::uint32_t(const machines::RcRequest&)> rights_for = conforming::rights_for;
  Overridable<bool(const machines::RcRequest&)> checks_range = conforming::checks_range;
  Overridable<bool(const QueuePair&, const SharedReceiveQueue&)> may_use = conforming::may_use;

  Overridable<void(Core&, QueuePair&, const Packet&, const machines::RcRequest&, const Decision&)> react =
      conforming::react;
  Overridable<std::uint64_t(MutableBytes, const machines::RcRequest&)> operate = conforming::operate;
  Overridable<Bytes(const Responder&, Bytes)> placed_payload = conforming::placed_payload;
  Overridable<Completion(const QueuePair&, const Packet&, std::uint64_t)> receive_completion =
      conforming::receive_completion;
  Overridable<bool(const Packet&)> is_solicited = conforming::is_solicited;
  Overridable<void(QueuePair&, const machines::RcRequest&, std::uint64_t)> advance = conforming::advance;
  Overridable<void(Core&, QueuePair&, const machines::RcRequest&)> acknowledge = conforming::acknowledge;
  Overridable<void(Core&, QueuePair&, Response)> send_acknowledgement = conforming::send_acknowledgement;

  Overridable<void(Core&, QueuePair&, const Packet&, const machines::RcRequest&, machines::RcAnswer*)> apply_duplicate =
      conforming::apply_duplicate;
  Overridable<machines::RcRequest(const machines::RcRequest&, const machines::RcAnswer&)> replayed_part =
      conforming::replayed_part;
  Overridable<Psn(const Responder&, const machines::RcRequest&)> duplicate_psn = conforming::duplicate_psn;

  Overridable<void(Core&, QueuePair&, const Packet&, const machines::RcRequest&)> report_gap = conforming::report_gap;
  Overridable<Psn(const Responder&, const machines::RcRequest&)> gap_psn = conforming::gap_psn;
  Overridable<void(Core&, QueuePair&, const machines::RcRequest&)> report_not_ready = conforming::report_not_ready;
  Overridable<unsigned(const QueuePair&)> rnr_timer = conforming::rnr_timer;
  Overridable<void(Core&, QueuePair&, const ReceiveRequest&, Status)> complete_rejected = conforming::complete_rejected;
  Overridable<void(Core&, const QueuePair&, std::uint8_t)> raise_rejection = conforming::raise_rejection;
  Overridable<void(Core&, QueuePair&, const Packet&, std::uint8_t)> send_rejection = conforming::send_rejection;
  Overridable<Response(const Packet&, std::uint8_t)> rejection = conforming::rejection;

  Overridable<std::uint8_t(const Core&, QueuePair&)> credits = conforming::credits;
  Overridable<std::size_t(const std::deque<Response>&, const Response&)> place_of = conforming::place_of;
  Overridable<Response::Kind(Operation)> kind_of_answer = conforming::kind_of_answer;
  Overridable<Msn(const Responder&)> read_response_msn = conforming::read_response_msn;
  Overridable<std::uint32_t(const QueuePair&, const Response&)> read_response_mtu = conforming::read_response_mtu;
  Overridable<std::optional<OutgoingPacket>(Core&, QueuePair&, Response&)> next_of_read = conforming::next_of_read;
  Overridable<std::optional<std::vector<std::uint8_t>>(Core&, const QueuePair&, const Response&, std::uint32_t)>
      bytes_of_read = conforming::bytes_of_read;
  Overridable<Psn(const Response&)> read_error_psn = conforming::read_error_psn;
};

/// Decisions of the responder of unreliable connections.
struct UnreliableDecisions {
  Overridable<machines::UcDecision(Core&, QueuePair&, const machines::RcRequest&)> judge = conforming::judge_unreliable;
  Overridable<bool(const Opcode&)> takes_next_receive = conforming::takes_next_receive;
  Overridable<machines::UcResponder(const machines::UcResponder&, const machines::RcRequest&)> after_drop =
      conforming::after_drop;
  Overridable<void(Core&, QueuePair&, const Packet&, const machines::RcRequest&)> execute =
      conforming::execute_unreliable;
};

/// Decisions of the receiver of datagrams.
struct DatagramDecisions {
  Overridable<std::uint32_t(const Port&)> largest_datagram = conforming::largest_datagram;
  Overridable<bool(QueuePair&, Psn)> accepts_psn = conforming::accepts_datagram_psn;
  Overridable<void(Core&, QueuePair&, const Packet&, const ReceiveRequest*)> drop = conforming::drop_datagram;
  Overridable<std::ptrdiff_t(const Packet&)> network_header_offset = conforming::network_header_offset;
  Overridable<Completion(const QueuePair&, const Packet&)> completion = conforming::datagram_completion;
};

/// Decisions of the notification point and the reaction point.
struct CongestionDecisions {
  Overridable<OutgoingPacket(const Core&, const QueuePair&, const Packet&)> cnp = conforming::cnp;
  Overridable<void(Core&, OutgoingPacket)> send_cnp = conforming::send_cnp;
  Overridable<bool(const Core&)> notices_marks = conforming::notices_marks;
  Overridable<machines::NotificationPoint&(Core&, QueuePair&)> pacing = conforming::pacing;
  Overridable<bool(const Core&, const QueuePair&, const Packet&)> obeys = conforming::obeys;
  Overridable<void(Core&, QueuePair&, const Packet&)> handle_cnp = conforming::handle_cnp;
  Overridable<machines::ReactionPoint(const Core&, const QueuePair&)> rate_now = conforming::rate_now;
};

/// Decisions about completions.
struct CompletionDecisions {
  Overridable<void(Core&, CompletionQueue&)> overflow = conforming::overflow;
  Overridable<bool(const CompletionQueue&, const Completion&, bool)> notifies = conforming::notifies;
  Overridable<bool(const QueuePair&, const SendRequest&, Status)> reports = conforming::reports;
};

/// Decisions about the states of queue pairs.
struct QueuePairDecisions {
  Overridable<machines::ModifyDecision(const QueuePair&, QpState, machines::QueuePairAttributes)> judge_modify =
      conforming::judge_modify;
  Overridable<bool(const QueuePair&, std::uint32_t)> may_set_qkey = conforming::may_set_qkey;
  Overridable<void(QueuePair&)> reset = conforming::reset;
  Overridable<void(QueuePair&)> begin_receiving = conforming::begin_receiving;
  Overridable<void(QueuePair&)> begin_sending = conforming::begin_sending;
  Overridable<void(Core&, QueuePair&, std::deque<SendWork>)> flush_sends = conforming::flush_sends;
  Overridable<void(Core&, QueuePair&, const std::deque<ReceiveRequest>&)> flush_receives = conforming::flush_receives;
  Overridable<bool(const QueuePair&)> reports_last_wqe = conforming::reports_last_wqe;
  Overridable<bool(const Requester&)> reports_drained = conforming::reports_drained;
};

/// Decisions about verbs calls.
struct VerbsDecisions {
  Overridable<Counters(const Counters&)> reported_counters = conforming::reported_counters;
  Overridable<Result<void>(const Core&, const QueuePair&)> may_destroy = conforming::may_destroy;
  Overridable<machines::PostAnswer(const QueuePair&)> post_send = conforming::post_send;
  Overridable<machines::PostAnswer(const QueuePair&)> post_receive = conforming::post_receive;
  Overridable<bool(const QueuePair&, std::uint32_t)> uses_cq = conforming::uses_cq;
};

/// Decisions of the connection manager.
struct CmDecisions {
  Overridable<std::uint32_t(const CmConnection&)> sending_psn = conforming::sending_psn;
  Overridable<std::uint8_t(const CmConnection&, const CmSettings&)> ack_timeout = conforming::ack_timeout;
  Overridable<void(Core&, QueuePair&)> end_queue_pair = conforming::end_queue_pair;
  Overridable<std::vector<std::uint8_t>(const CmConnection&, const CmSettings&)> reply = conforming::reply;
  Overridable<std::uint32_t(const CmConnection&, std::uint16_t)> rejected_id = conforming::rejected_id;
  Overridable<void(machines::CmMessage, std::vector<std::uint8_t>&)> repeat = conforming::repeat;
  Overridable<std::uint8_t(const Core&, const Packet&, const CmRequest&, const CmListener*)> rejection_reason =
      conforming::rejection_reason;
  Overridable<bool(machines::CmMessage)> processes = conforming::processes;
  Overridable<machines::CmStep(CmConnection&, std::int64_t)> time_out = conforming::time_out;
};

/// All decisions.
struct Decisions {
  SendingDecisions sending;
  ResponderDecisions responder;
  UnreliableDecisions unreliable;
  DatagramDecisions datagrams;
  CongestionDecisions congestion;
  CompletionDecisions completions;
  QueuePairDecisions queue_pairs;
  VerbsDecisions verbs;
  CmDecisions cm;
};

/// Return the decisions of a device with these faults.
Decisions decisions_with(const Faults& faults);

}  // namespace rdmawire::device
