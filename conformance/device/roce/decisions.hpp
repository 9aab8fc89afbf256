#pragma once
/// Decisions of the device that faults can override. The device calls them through Core::decisions. The functions in
/// `conforming` are what the specification states. The files in faults/ contain the overrides.

#include <deque>
#include <optional>
#include <vector>

#include "conformance/device/common/overridable.hpp"
#include "conformance/device/roce/faults.hpp"
#include "conformance/device/roce/packet.hpp"
#include "conformance/device/roce/queue_pair.hpp"

namespace rdmawire::device {

struct Core;
struct SharedReceiveQueue;

/// Decision about a request.
struct Decision {
  machines::RcDecision rc;
  std::uint8_t nak = 0;  ///< NAK code of a rejection
};

namespace conforming {

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
/// Return the part of a stored response that is sent again: the requested part.
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
/// Return the payload of a READ response packet, or nothing if the key is no longer valid. 9.7.5.1.3.
std::optional<std::vector<std::uint8_t>> bytes_of_read(Core& core, const QueuePair& qp, const Response& response,
                                                       std::uint32_t count);
/// Return the PSN of the NAK that replaces a READ response packet: the PSN of that packet.
Psn read_error_psn(const Response& response);

}  // namespace conforming

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

/// All decisions.
struct Decisions {
  ResponderDecisions responder;
};

/// Return the decisions of a device with these faults.
Decisions decisions_with(const Faults& faults);

}  // namespace rdmawire::device
