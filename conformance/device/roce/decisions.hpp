#pragma once
/// Decisions of the device that faults can override. The device calls them through Core::decisions. The functions in
/// `conforming` follow the specification: IBTA vol 1, with the annexes A14 (XRC), A17 (RoCEv2) and A19 (FLUSH, ATOMIC
/// WRITE). conformance/rules states which clause numbers were verified. The files in faults/ contain the overrides.
///
/// Decisions about the headers of frames are in frame_decisions.hpp, about memory in memory_decisions.hpp.

#include <cstddef>
#include <deque>
#include <optional>
#include <string_view>
#include <vector>

#include "conformance/device/common/overridable.hpp"
#include "conformance/device/roce/cm.hpp"
#include "conformance/device/roce/completion_queue.hpp"
#include "conformance/device/roce/counters.hpp"
#include "conformance/device/roce/faults.hpp"
#include "conformance/device/roce/frame_decisions.hpp"
#include "conformance/device/roce/memory_decisions.hpp"
#include "conformance/device/roce/packet.hpp"
#include "conformance/device/roce/port.hpp"
#include "conformance/device/roce/queue_pair.hpp"

namespace rdmawire::device {

struct CmRequest;
struct Core;
struct Group;
struct WireOperation;

/// Decision about a received request.
struct Decision {
  machines::RcDecision rc;
  std::uint8_t nak = 0;  ///< NAK code, if the request is rejected
};

namespace conforming {

// Received packets: validation.cpp
/// Drop a frame that is not a valid packet, and count it. CA17-24.
void drop_frame(Core& core, const Packet& packet, Refusal refusal);
/// True if the destination is a group, or an address of the port with the version and VLAN of the packet. CA17-41.
bool is_own_address(const Core& core, const Packet& packet);
/// True if the version of the transport header is 0. 9.6.1 (clause number not verified).
bool accepts_header_version(const Packet& packet);
/// True if the packet has destination QP 0xFFFFFF and a group address, or neither. 9.6.1 (clause number not verified).
bool accepts_destination_qpn(const Packet& packet);
/// True if the headers are acceptable for any queue pair. Reserved bits, FECN and BECN are ignored: C9-6, CA17-29. Both
/// values of MigReq are accepted: 17.2.8.
bool accepts_headers(const Core& core, const Packet& packet);
/// Drop a packet to a queue pair that does not exist. CA17-33 (QP 0), 9.6.1.
void drop_unknown(Core& core, const Packet& packet);
/// Return the queue pairs that receive a multicast packet, which are all members of the group. 11.3.1, A17.5.6.
std::vector<std::uint32_t> receivers_of(const Group& group);
/// Receive a packet if the state, service, peer, P_Key and Q_Key of the queue pair permit it. 9.6.1.
void receive_for(Core& core, QueuePair& qp, const Packet& packet);
/// True if the state of the queue pair accepts requests (RTR, RTS, SQD, SQE) or responses (RTS, SQD). 10.3.1.
bool accepts_packets(const QueuePair& qp);
/// Drop a packet that the state of the queue pair does not accept.
void drop_in_state(Core& core, QueuePair& qp, const Packet& packet);
/// True if the source is the peer of a connected queue pair. A datagram may have any source. 9.6.1.2.3, A17.4.4.2.
bool accepts_source(const QueuePair& qp, const Packet& packet);
/// True if the RoCE version is that of a connected queue pair's GID. A datagram may have any version. CA17-40, CA17-43.
bool accepts_version(const Core& core, const QueuePair& qp, const Packet& packet);
/// True if the destination is the GID of a connected queue pair. A datagram may have any address of the
/// port. 9.6.1.2.3.
bool accepts_destination(const Core& core, const QueuePair& qp, const Packet& packet);
/// True if the P_Key matches that of the queue pair. QP 1 accepts any P_Key of the port's table. C9-42, C9-43.
bool accepts_pkey(const Core& core, const QueuePair& qp, std::uint16_t pkey);
/// True if a datagram has the Q_Key of the queue pair. 9.6.1.4.1.
bool accepts_qkey(const QueuePair& qp, std::uint32_t qkey);
/// Increment a 16-bit port counter, which stops at 0xffff. 16.1.3.5.
void count_violation(std::uint64_t& counter);

// QP 1: management.cpp
/// True if any entry of the port's table matches the P_Key. C9-42.
bool accepts_gsi_pkey(const Core& core, std::uint16_t pkey);
/// True for the Q_Key of QP 1. 9.6.1.4.1.
bool accepts_gsi_qkey(std::uint32_t qkey);
/// Return a datagram with the MAD, padded to 256 bytes: C13-3. It has the encapsulation of `way`: A17.6.1.
OutgoingPacket management_datagram(Core& core, const CmPath& way, std::vector<std::uint8_t> mad);

// Received requests: responder_decision.cpp
/// Return the settings of the responder's state machine, which are the MTU and the rights of the queue pair.
machines::RcResponderSettings responder_settings(const QueuePair& qp);
/// Return the decision of the state machine about a request. 9.7.3 to 9.7.5.
Decision judge(Core& core, QueuePair& qp, const Packet& packet, const machines::RcRequest& request);
/// Return the rights that a request needs. A FLUSH needs a right for each requested placement: A19.
std::uint32_t rights_for(const machines::RcRequest& request);
/// True if the range of the request must be in the region. It is not checked for a FLUSH of a whole region: A19.4.1.2.
bool checks_range(const machines::RcRequest& request);
/// True if the XRC queue pair may use the SRQ, because both are in the same domain. Annex A14 (clause number not
/// verified).
bool may_use(const QueuePair& qp, const SharedReceiveQueue& srq);

// Execution of received requests: responder.cpp
/// Execute, respond to or reject a request, according to the decision.
void react(Core& core, QueuePair& qp, const Packet& packet, const machines::RcRequest& request,
           const Decision& decision);
/// Execute an atomic, and return the original value. 9.4.5.
std::uint64_t operate(MutableBytes bytes, const machines::RcRequest& request);
/// Store the payload of a WRITE packet. `va`: address of its first byte. 9.4.3 (clause number not verified).
void place_write(MutableBytes to, Bytes payload, const machines::RcRequest& request, std::uint64_t va);
/// Return the part of a SEND's payload to place in its receive, which is all of it.
Bytes placed_payload(const Responder& at, Bytes payload);
/// Return the completion of a finished receive. `bytes`: length of the message.
Completion receive_completion(const QueuePair& qp, const Packet& packet, std::uint64_t bytes);
/// True if the completion of the message causes a solicited event, because its last packet has the SE bit.
bool is_solicited(const Packet& packet);
/// Update the state of the responder after the execution of a request. `original`: result of an atomic.
void advance(QueuePair& qp, const machines::RcRequest& request, std::uint64_t original);
/// Acknowledge an executed request if it has AckReq set.
void acknowledge(Core& core, QueuePair& qp, const machines::RcRequest& request);
/// Send the acknowledgement of an executed request, exactly once.
void send_acknowledgement(Core& core, QueuePair& qp, Response response);

// Duplicates: responder.cpp
/// Called before the response to a duplicate is sent. Does nothing: a duplicate has no effect. `kept`: the stored
/// response. nullptr: the duplicate is only acknowledged.
void apply_duplicate(Core& core, QueuePair& qp, const Packet& packet, const machines::RcRequest& request,
                     machines::RcAnswer* kept);
/// Return the part of a stored response to retransmit, which is the requested part.
machines::RcRequest replayed_part(const machines::RcRequest& request, const machines::RcAnswer& kept);
/// Return the PSN of the ACK for a duplicate, which is the newest acknowledged PSN.
Psn duplicate_psn(const Responder& at, const machines::RcRequest& request);

// Errors of received requests: responder.cpp
/// Report a gap in the PSNs with a NAK.
void report_gap(Core& core, QueuePair& qp, const Packet& packet, const machines::RcRequest& request);
/// Return the PSN of the NAK for a gap, which is the expected PSN.
Psn gap_psn(const Responder& at, const machines::RcRequest& request);
/// Send an RNR NAK. Following packets are silently dropped until the retry arrives.
void report_not_ready(Core& core, QueuePair& qp, const machines::RcRequest& request);
/// Return the timer code of an RNR NAK, which is an attribute of the queue pair.
unsigned rnr_timer(const QueuePair& qp);
/// Complete the receive of a rejected request in error. 9.9.3.1.3, 10.10.2.2.
void complete_rejected(Core& core, QueuePair& qp, const ReceiveRequest& request, Status status);
/// Raise the event for a rejected request that uses no receive. 10.10.2.3. `code`: code of the NAK.
void raise_rejection(Core& core, const QueuePair& qp, std::uint8_t code);
/// Send the NAK of a rejected request.
void send_rejection(Core& core, QueuePair& qp, const Packet& packet, std::uint8_t code);
/// Return the NAK of a rejected request. The queue pair enters the Error state after sending it.
Response rejection(const Packet& packet, std::uint8_t code);

// Sent responses: responder_answers.cpp
/// Return the credit code of an AETH for the number of posted receives, rounded down. SRQ: 31 (invalid). 9.7.7.2.
std::uint8_t credits(const Core& core, QueuePair& qp);
/// Return the index at which to insert a response in the pending responses, which are in PSN order. C9-110, o9-30.
std::size_t place_of(const std::deque<Response>& answers, const Response& response);
/// Return the kind of response to an operation with a stored response.
Response::Kind kind_of_answer(Operation operation);
/// Return the MSN of READ responses, which counts the READ.
Msn read_response_msn(const Responder& at);
/// Return the maximum payload of the next packet of a READ response, which is the path MTU.
std::uint32_t read_response_mtu(const QueuePair& qp, const Response& response);
/// Return the next packet of a READ response. The key is checked and memory is read for each packet. nullopt: the
/// access failed.
std::optional<OutgoingPacket> next_of_read(Core& core, QueuePair& qp, Response& response);
/// Return the payload of a READ response packet. nullopt: the key is no longer valid. 9.7.5.1.3.
std::optional<std::vector<std::uint8_t>> bytes_of_read(Core& core, const QueuePair& qp, const Response& response,
                                                       std::uint32_t count);
/// Return the PSN of the NAK that replaces a READ response packet, which is the PSN of that packet.
Psn read_error_psn(const Response& response);

// Sent requests: requester.cpp
/// Return which messages may be sent in the state of the queue pair. In SQD, only started messages are finished:
/// 10.3.1.5.
machines::Sending sending(const QueuePair& qp);
/// Start the oldest request that has not started. Return false if it must wait. 9.5.
bool start_request(Core& core, QueuePair& qp);
/// True if a message may have this length, which is at most 2^31 bytes. 9.7.7, C9-94.
bool allows_length(std::uint64_t bytes);
/// Return the payload length of each packet of a message except the last one, which is the path MTU. 9.4.
std::uint32_t payload_per_packet(const QueuePair& qp);
/// Return the number of PSNs of a message: one for each packet, or for each response packet of a READ. 9.7.2.
std::uint32_t psns_of(const Core& core, const QueuePair& qp, Operation operation, std::uint32_t bytes);
/// True if the responder's credits permit the message. One message that needs a receive may be sent without credits.
/// 9.7.7.2.
bool has_credit(const Requester& at, const WireOperation& operation);
/// True if a fenced request must wait. It waits for the responses to earlier READs and atomics (10.8.3.3). A local
/// invalidate waits for all earlier requests (10.6.5.1).
bool waits_at_fence(const Requester& at, const SendRequest& request);
/// Return the maximum number of outstanding READs and atomics. 9.4.4, 11.2.4.2.
std::uint32_t most_outstanding(const QueuePair& qp);
/// Return the index of the next packet of a started message. The received part of a READ is skipped: 9.4.4.
std::uint32_t next_packet(const Requester& at, const SendWork& work);
/// Return the opcode of a packet. nullptr: the service does not define it. Only the last packet has immediate data or
/// an IETH: 9.4.
const Opcode* request_opcode(const QueuePair& qp, const SendWork& work, std::uint32_t packet);
/// Set the fields of the extension headers of a packet. A retry of a READ requests the missing part: 9.4.4.
void fill_request(const QueuePair& qp, const SendWork& work, std::uint32_t packet, PacketFields& to);
/// True if the packet requests an acknowledgement. This is the last packet of each message of a reliable service.
bool requests_acknowledgement(const QueuePair& qp, const Opcode& op);
/// Append the payload of a packet, read from the application's memory, to `to`.
Status read_payload(Core& core, const QueuePair& qp, const SendWork& work, std::uint32_t packet,
                    std::vector<std::uint8_t>& to);
/// Move the cursor to the packet after the sent PSNs.
void move_cursor(Requester& at, const SendWork& work, std::uint32_t psns);
/// Remove the oldest request, which is complete.
SendWork remove_oldest(Requester& at);
/// Complete a request in error. The queue pair enters the Error state, or SQE if the service is unreliable. 10.10.2.2.
void complete_failed(Core& core, QueuePair& qp, const SendRequest& request, Status status);

// Sent requests of UC and UD: unreliable_requester.cpp
/// Return the PSN of a packet. Each packet has its own: 9.8.2.
Psn psn_of(const SendWork& work, std::uint32_t packet);
/// True if a request is complete when its last packet is sent, without an acknowledgement. 9.8.2.
bool completes_when_sent(const QueuePair& qp);
/// True if a datagram exceeds the MTU of the port. It is then discarded, and completes successfully. C10-93.1.1.
bool discards_datagram(const Port& port, std::uint64_t bytes);
/// Return the Q_Key to send in a datagram. It is that of the request, or of the queue pair if the high bit of the
/// request's Q_Key is set. 10.2.5.
std::uint32_t datagram_qkey(const QueuePair& qp, const SendRequest& request);

// Received responses: requester_answers.cpp
/// Return the decision of the state machine about a response. RcProgress::message is an index in the send queue. 9.7.5.
machines::RcProgress judge_response(QueuePair& qp, const machines::RcResponse& response);
/// Ignore a duplicate response, or a response to a PSN that is not outstanding. 9.7.5 (clause number not verified).
void ignore_response(Core& core, QueuePair& qp, const Packet& packet);
/// Store the data of a READ or an atomic.
Status take_payload(Core& core, QueuePair& qp, SendWork& work, const Packet& packet);
/// Fail the request that a NAK or an invalid response belongs to. 9.9.2.2, Table 59.
void fail_request(Core& core, QueuePair& qp, const Packet& packet, const machines::RcProgress& progress);
/// Return the completion status of a failed request. 9.9.2.4.2, 10.10.2.2.
Status failure_status(const Packet& packet, machines::RcFailure failure);

// Retries: requester_answers.cpp
/// Return the time until the transport timer expires, which is twice the timeout (1 to 4 times is permitted). 0: there
/// is no timer. 9.7.6.1.3.
std::int64_t transport_timeout(const QueuePair& qp);
/// Return the time before a retry after an RNR NAK. 9.7.5.2.8, Table 45.
std::int64_t rnr_wait(Syndrome syndrome);
/// Use one retry for a timeout or a sequence error. Return false if none is left. 9.7.6.
bool may_retry(Requester& at);
/// Use one retry for an RNR NAK. Return false if none is left. A retry count of 7 means no limit.
bool may_retry_after_rnr(Requester& at);
/// Reload the retry counters after progress. 9.7.6.
void reload_retries(Requester& at);
/// Retransmit after a sequence error NAK or an implied NAK. 9.7.5.2.
void recover(Core& core, QueuePair& qp, const machines::RcProgress& progress);
/// True if the requester already recovers from the loss at this PSN. Further NAKs of the loss are then ignored.
bool recovers_already(const Requester& at, Psn psn);
/// Return the first PSN of a recovery, which is that of the NAK or of the missing response.
Psn restart_psn(const machines::RcProgress& progress);
/// Continue to send at `psn` (go-back-N).
void go_back(Requester& at, Psn psn);

// Received requests of UC: unreliable_responder.cpp
/// Return the decision of the state machine about a packet. 9.8.2.
machines::UcDecision judge_unreliable(Core& core, QueuePair& qp, const machines::RcRequest& request);
/// True if a packet of a SEND uses the next receive, because it is the first packet.
bool takes_next_receive(const Opcode& op);
/// Return the state after a dropped packet, which accepts a next message with any PSN.
machines::UcResponder after_drop(const machines::UcResponder& at, const machines::RcRequest& request);
/// Execute a packet, without a response.
void execute_unreliable(Core& core, QueuePair& qp, const Packet& packet, const machines::RcRequest& request);

// Received datagrams: datagram.cpp
/// Return the maximum payload of a datagram, which is the MTU of the port.
std::uint32_t largest_datagram(const Port& port);
/// True if the PSN of a datagram is acceptable. Always true: any PSN is.
bool accepts_datagram_psn(QueuePair& qp, Psn psn);
/// Drop a datagram silently. `next`: the next receive, or nullptr.
void drop_datagram(Core& core, QueuePair& qp, const Packet& packet, const ReceiveRequest* next);
/// Return the offset of the network header in the 40 bytes before the payload. A17.4.5.2: an IPv4 header is in the
/// second half. The first half is undefined.
std::ptrdiff_t network_header_offset(const Packet& packet);
/// Return the completion of a datagram, without its status. Its length includes the 40 bytes of the header.
Completion datagram_completion(const QueuePair& qp, const Packet& packet);

// Congestion control: congestion.cpp
/// React to the congestion marks of a valid packet. A duplicate causes no CNP: CA17-44. FECN is ignored: CA17-29.
void observe_congestion(Core& core, QueuePair& qp, const Packet& packet);
/// Return the CNP for a packet: CA17-45, figure 6.
OutgoingPacket cnp(const Core& core, const QueuePair& qp, const Packet& packet);
/// Send a CNP, exactly once.
void send_cnp(Core& core, OutgoingPacket cnp);
/// True if the device sends CNPs for marked packets. CA17-44.
bool notices_marks(const Core& core);
/// Return the pacing state of CNPs. Each queue pair has its own.
machines::NotificationPoint& pacing(Core& core, QueuePair& qp);
/// True if the queue pair must obey a CNP. The reserved bytes of the CNP are ignored.
bool obeys(const Core& core, const QueuePair& qp, const Packet& packet);
/// Reduce the rate of the queue pair. CA17-46.
void handle_cnp(Core& core, QueuePair& qp, const Packet& packet);
/// Return the state with the current rate, which increases with time.
machines::ReactionPoint rate_now(const Core& core, const QueuePair& qp);

// Completions: completions.cpp
/// Handle a completion that exceeds the capacity of the queue. C9-218, 11.6.3.1.
void overflow(Core& core, CompletionQueue& queue);
/// True if the completion causes the requested notification.
bool notifies(const CompletionQueue& queue, const Completion& completion, bool solicited);
/// True if the send request causes a completion. An unsignaled one does so only if it failed. 10.7.3.1.
bool reports(const QueuePair& qp, const SendRequest& request, Status status);

// States of queue pairs: queue_pair_states.cpp
/// Return the decision of the state machine about a modify_qp. 11.2.4.2.
machines::ModifyDecision judge_modify(const QueuePair& qp, QpState to, machines::QueuePairAttributes given);
/// True if the application may set the Q_Key. 10.2.5.
bool may_set_qkey(const QueuePair& qp, std::uint32_t qkey);
/// Set the requester's and the responder's initial state.
void reset(QueuePair& qp);
/// Start to receive with the expected PSN of the attributes.
void begin_receiving(QueuePair& qp);
/// Start to send with the PSN of the attributes.
void begin_sending(QueuePair& qp);
/// Complete pending send requests as flushed, in order. C9-220, C10-42.
void flush_sends(Core& core, QueuePair& qp, std::deque<SendWork> sends);
/// Complete pending receive requests as flushed, in order. C9-220, C10-42.
void flush_receives(Core& core, QueuePair& qp, const std::deque<ReceiveRequest>& receives);
/// True if the queue pair raises the event Last WQE Reached when it enters the Error state: o11-5.2.5.
bool reports_last_wqe(const QueuePair& qp);
/// True if a drained send queue raises an event, because the application requested it.
bool reports_drained(const Requester& at);
/// True if an SRQ with a limit contains fewer receives than its limit, which raises an event. 10.2.9.1 (clause number
/// not verified).
bool is_below_limit(const SharedReceiveQueue& srq);

// Verbs: device.cpp
/// Return the counters that the application sees.
Counters reported_counters(const Counters& counters);
/// Return the name of the type of a GID. CA17-26.
std::string_view reported_gid_type(const GidEntry& entry);
/// Return the P_Key table. Entry 0 is the default partition: C10-2.
std::vector<std::uint16_t> reported_pkeys(const Port& port);
/// Fail with EBUSY if the queue pair is attached to a multicast group: o10-2.2.3. Bound windows do not prevent its
/// destruction: o10-2.2.5.
Result<void> may_destroy(const Core& core, const QueuePair& qp);
/// Return whether a send request is executed, queued, flushed or refused in the state of the queue pair. C10-96.
machines::PostAnswer post_send(const QueuePair& qp);
/// Return whether a receive request is queued, flushed or refused in the state of the queue pair. C10-97.2.1.
machines::PostAnswer post_receive(const QueuePair& qp);
/// True if the queue pair prevents the destruction of a completion queue. C11-17.
bool uses_cq(const QueuePair& qp, std::uint32_t cq);

// Connection manager: cm.cpp
/// Return the first PSN that this device sends, which is the starting PSN of the peer's message. 12.7.
std::uint32_t sending_psn(const CmConnection& at);
/// Return the ACK timeout code of the queue pair. The active side computes it from the packet lifetime and the peer's
/// ACK delay. The passive side uses that of the REQ.
std::uint8_t ack_timeout(const CmConnection& at, const CmSettings& settings);
/// Stop the queue pair of a connection that ended.
void end_queue_pair(Core& core, QueuePair& qp);
/// Return the REP.
std::vector<std::uint8_t> reply(const CmConnection& at, const CmSettings& settings);
/// Return the Remote Communication ID of a REJ, which is the peer's ID, or 0 if it is unknown.
std::uint32_t rejected_id(const CmConnection& at, std::uint16_t reason);
/// Prepare the retransmission of a message. Does not change it: a retransmission is identical to the first
/// transmission.
void repeat(machines::CmMessage message, std::vector<std::uint8_t>& mad);
/// Return the reason for rejecting a REQ without notifying the application (12.6.7.2), or 0. LIDs are ignored: CA17-35.
std::uint8_t rejection_reason(const Core& core, const Packet& packet, const CmRequest& request,
                              const CmListener* listener);
/// Return whether messages of this type are processed.
bool processes(machines::CmMessage message);
/// Return the step of the state machine after a timeout.
machines::CmStep time_out(CmConnection& at, std::int64_t now);

}  // namespace conforming

/// Decisions about received packets, before the service of the queue pair processes them.
struct ValidationDecisions {
  Overridable<void(Core&, const Packet&, Refusal)> drop_frame = conforming::drop_frame;
  Overridable<bool(const Core&, const Packet&)> is_own_address = conforming::is_own_address;
  Overridable<bool(const Packet&)> accepts_header_version = conforming::accepts_header_version;
  Overridable<bool(const Packet&)> accepts_destination_qpn = conforming::accepts_destination_qpn;
  Overridable<bool(const Core&, const Packet&)> accepts_headers = conforming::accepts_headers;
  Overridable<void(Core&, const Packet&)> drop_unknown = conforming::drop_unknown;
  Overridable<std::vector<std::uint32_t>(const Group&)> receivers_of = conforming::receivers_of;
  Overridable<void(Core&, QueuePair&, const Packet&)> receive_for = conforming::receive_for;
  Overridable<bool(const QueuePair&)> accepts_packets = conforming::accepts_packets;
  Overridable<void(Core&, QueuePair&, const Packet&)> drop_in_state = conforming::drop_in_state;
  Overridable<bool(const QueuePair&, const Packet&)> accepts_source = conforming::accepts_source;
  Overridable<bool(const Core&, const QueuePair&, const Packet&)> accepts_version = conforming::accepts_version;
  Overridable<bool(const Core&, const QueuePair&, const Packet&)> accepts_destination = conforming::accepts_destination;
  Overridable<bool(const Core&, const QueuePair&, std::uint16_t)> accepts_pkey = conforming::accepts_pkey;
  Overridable<bool(const QueuePair&, std::uint32_t)> accepts_qkey = conforming::accepts_qkey;
  Overridable<void(std::uint64_t&)> count_violation = conforming::count_violation;
};

/// Decisions of QP 1.
struct ManagementDecisions {
  Overridable<bool(const Core&, std::uint16_t)> accepts_pkey = conforming::accepts_gsi_pkey;
  Overridable<bool(std::uint32_t)> accepts_qkey = conforming::accepts_gsi_qkey;
  Overridable<OutgoingPacket(Core&, const CmPath&, std::vector<std::uint8_t>)> datagram =
      conforming::management_datagram;
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
  Overridable<void(MutableBytes, Bytes, const machines::RcRequest&, std::uint64_t)> place_write =
      conforming::place_write;
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

/// Decisions of the requester.
struct RequesterDecisions {
  Overridable<machines::Sending(const QueuePair&)> sending = conforming::sending;
  Overridable<bool(Core&, QueuePair&)> start = conforming::start_request;
  Overridable<bool(std::uint64_t)> allows_length = conforming::allows_length;
  Overridable<std::uint32_t(const QueuePair&)> payload_per_packet = conforming::payload_per_packet;
  Overridable<std::uint32_t(const Core&, const QueuePair&, Operation, std::uint32_t)> psns_of = conforming::psns_of;
  Overridable<bool(const Requester&, const WireOperation&)> has_credit = conforming::has_credit;
  Overridable<bool(const Requester&, const SendRequest&)> waits_at_fence = conforming::waits_at_fence;
  Overridable<std::uint32_t(const QueuePair&)> most_outstanding = conforming::most_outstanding;
  Overridable<std::uint32_t(const Requester&, const SendWork&)> next_packet = conforming::next_packet;
  Overridable<const Opcode*(const QueuePair&, const SendWork&, std::uint32_t)> opcode = conforming::request_opcode;
  Overridable<void(const QueuePair&, const SendWork&, std::uint32_t, PacketFields&)> fill = conforming::fill_request;
  Overridable<bool(const QueuePair&, const Opcode&)> requests_acknowledgement = conforming::requests_acknowledgement;
  Overridable<Status(Core&, const QueuePair&, const SendWork&, std::uint32_t, std::vector<std::uint8_t>&)>
      read_payload = conforming::read_payload;
  Overridable<void(Requester&, const SendWork&, std::uint32_t)> move_cursor = conforming::move_cursor;
  Overridable<SendWork(Requester&)> remove_oldest = conforming::remove_oldest;
  Overridable<void(Core&, QueuePair&, const SendRequest&, Status)> complete_failed = conforming::complete_failed;

  Overridable<Psn(const SendWork&, std::uint32_t)> psn_of = conforming::psn_of;
  Overridable<bool(const QueuePair&)> completes_when_sent = conforming::completes_when_sent;
  Overridable<bool(const Port&, std::uint64_t)> discards_datagram = conforming::discards_datagram;
  Overridable<std::uint32_t(const QueuePair&, const SendRequest&)> datagram_qkey = conforming::datagram_qkey;

  Overridable<machines::RcProgress(QueuePair&, const machines::RcResponse&)> judge_response =
      conforming::judge_response;
  Overridable<void(Core&, QueuePair&, const Packet&)> ignore_response = conforming::ignore_response;
  Overridable<Status(Core&, QueuePair&, SendWork&, const Packet&)> take_payload = conforming::take_payload;
  Overridable<void(Core&, QueuePair&, const Packet&, const machines::RcProgress&)> fail_request =
      conforming::fail_request;
  Overridable<Status(const Packet&, machines::RcFailure)> failure_status = conforming::failure_status;

  Overridable<std::int64_t(const QueuePair&)> transport_timeout = conforming::transport_timeout;
  Overridable<std::int64_t(Syndrome)> rnr_wait = conforming::rnr_wait;
  Overridable<bool(Requester&)> may_retry = conforming::may_retry;
  Overridable<bool(Requester&)> may_retry_after_rnr = conforming::may_retry_after_rnr;
  Overridable<void(Requester&)> reload_retries = conforming::reload_retries;
  Overridable<void(Core&, QueuePair&, const machines::RcProgress&)> recover = conforming::recover;
  Overridable<bool(const Requester&, Psn)> recovers_already = conforming::recovers_already;
  Overridable<Psn(const machines::RcProgress&)> restart_psn = conforming::restart_psn;
  Overridable<void(Requester&, Psn)> go_back = conforming::go_back;
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
  Overridable<void(Core&, QueuePair&, const Packet&)> observe = conforming::observe_congestion;
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
  Overridable<bool(const SharedReceiveQueue&)> is_below_limit = conforming::is_below_limit;
};

/// Decisions about verbs calls.
struct VerbsDecisions {
  Overridable<Counters(const Counters&)> reported_counters = conforming::reported_counters;
  Overridable<std::string_view(const GidEntry&)> reported_gid_type = conforming::reported_gid_type;
  Overridable<std::vector<std::uint16_t>(const Port&)> reported_pkeys = conforming::reported_pkeys;
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
  EncodingDecisions encoding;
  DecodingDecisions decoding;
  ValidationDecisions validation;
  ManagementDecisions management;
  ResponderDecisions responder;
  RequesterDecisions requester;
  UnreliableDecisions unreliable;
  DatagramDecisions datagrams;
  CongestionDecisions congestion;
  CompletionDecisions completions;
  QueuePairDecisions queue_pairs;
  VerbsDecisions verbs;
  CmDecisions cm;
  MemoryDecisions memory;
};

/// Return the decisions of a device with these faults.
Decisions decisions_with(const Faults& faults);

}  // namespace rdmawire::device
