#pragma once
/// Decisions of an endpoint that faults can override. The endpoint calls them through Stream::decisions(). The
/// functions in `conforming` follow the RFCs. The files in faults/ contain the overrides.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "conformance/device/common/overridable.hpp"
#include "conformance/device/iwarp/connection_event.hpp"
#include "conformance/device/iwarp/faults.hpp"
#include "conformance/device/roce/completion_queue.hpp"
#include "conformance/device/roce/memory.hpp"
#include "conformance/device/roce/work_request.hpp"
#include "dissectors/machines/ddp.hpp"
#include "dissectors/machines/iwarp_error.hpp"
#include "dissectors/machines/mpa_framing.hpp"
#include "dissectors/machines/mpa_setup.hpp"
#include "dissectors/machines/rdmap.hpp"
#include "dissectors/machines/terminate.hpp"
#include "dissectors/protocol/mpa.hpp"

namespace rdmawire::endpoint {

using device::Overridable;

class Rnic;
struct Answer;
struct Outgoing;
struct Output;
struct Stream;
struct Work;

namespace conforming {

// MPA negotiation: mpa_setup.cpp
/// Return the settings that the endpoint negotiates, which are those of its options.
machines::MpaSettings settings(const machines::MpaSettings& configured);
/// Return the time until which a responder waits for the request. RFC 5044, 7.1.2 rule 8: the timeout ends the wait if
/// both endpoints are responders.
std::int64_t request_deadline(const Stream& stream);
/// Return the time until which the rest of a partial frame must arrive. The timeout starts with the frame, and is not
/// extended. RFC 5044, 7.1.2 rule 10.
std::int64_t rest_deadline(const Stream& stream);
/// Return an MPA Request or Reply Frame. RFC 5044, 7.1.1, RFC 6581, 6 and 9.
std::vector<std::uint8_t> encode_setup(const machines::MpaSetupFrame& frame, Bytes private_data);
/// Return the state of the peer's frame after these bytes. RFC 5044, 7.1.1 and 7.1.2 rules 2, 3, 5, 8 and 9.
machines::MpaSetupArrival read_setup(const Stream& stream, Bytes bytes);
/// Return the responder's reaction to a complete request. `more_follows`: bytes follow it. PD_Length is then too small,
/// because the initiator must not send more before the reply. RFC 5044, 7.1.1, RFC 6581, 10.
machines::MpaRequestVerdict judge_request(const machines::MpaSettings& own, const machines::MpaSetupFrame& request,
                                          bool more_follows);
/// True if the application decides on the request. Required markers are no reason to reject it: RFC 5044, 7.1.1.
bool asks_application(const machines::MpaSetupFrame& request);
/// Return the reply of a responder whose application accepts, and its negotiated parameters. RFC 6581, 9.1 and 9.2.
machines::MpaAnswer accept_request(const machines::MpaSettings& own, const machines::MpaSetupFrame& request);
/// Return the reply of a responder whose application rejects. RFC 5044, 7.1.2 rule 2. nullopt: it sends no reply.
std::optional<machines::MpaSetupFrame> reject_request(const machines::MpaSettings& own,
                                                      const machines::MpaSetupFrame& request);
/// Return the initiator's reaction to a complete reply. RFC 5044, 7.1.2 rule 3, RFC 6581, 9 and 10.
machines::MpaReplyVerdict judge_reply(const machines::MpaSettings& own, const machines::MpaSetupFrame& request,
                                      const machines::MpaSetupFrame& reply);
/// Return the private data for the application, which is all that was received. RFC 5044, 7.1.1.
std::vector<std::uint8_t> private_data(Bytes received);
/// Return the bytes after the reply that are parsed as FPDUs, which are all of them. RFC 5044, 7.1.2 rule 3.
std::vector<std::uint8_t> bytes_after_reply(std::vector<std::uint8_t> following);
/// True if the first FPDU of the initiator is the RTR indication, because one was negotiated. RFC 6581, 9.2.
bool sends_rtr(const machines::MpaAgreement& agreement);

// FPDUs: fpdu.cpp
/// Return the negotiated use of CRCs and markers in received FPDUs. RFC 5044, 7.1.1.
machines::FpduModes fpdu_modes(const machines::MpaAgreement& agreement);
/// Return the state of the FPDU that starts with these bytes. Checks CRC and markers. RFC 5044, 4.1 to 4.4 and 8.
machines::FpduArrival judge_fpdu(Bytes bytes, std::uint64_t position, machines::FpduModes modes);
/// Report an invalid FPDU. Its ULPDU is not passed to DDP. RFC 5044, 8.
void reject_fpdu(Stream& stream, Bytes bytes, const machines::FpduArrival& arrival);
/// Return the object that creates FPDUs. RFC 5044, 7.1.2 rule 7: if the peer required markers, the first marker
/// precedes the first FPDU.
MpaSender fpdu_sender(const machines::MpaAgreement& agreement);
/// Send a ULPDU in an FPDU of its own. RFC 5044, 3. `last`: the ULPDU ends its message.
void send_ulpdu(Stream& stream, Bytes ulpdu, bool last);
/// Return the FPDU that contains a ULPDU. RFC 5044, 4.1 to 4.4. Empty: the ULPDU is too long.
std::vector<std::uint8_t> fpdu(Stream& stream, Bytes ulpdu);
/// Return the maximum ULPDU. RFC 5044, 4.5.
std::uint32_t mulpdu(std::uint32_t emss, const machines::MpaAgreement& agreement);
/// Return the EMSS for computing the MULPDU after TCP reported `emss`. RFC 5044, 4.5.
std::uint32_t new_emss(const Stream& stream, std::uint32_t emss);

// Received segments: validation.cpp
/// Return the header of a segment, or nullopt if the ULPDU is shorter. Reserved bits are ignored. RFC 5041, 4.1 to 4.3.
std::optional<machines::DdpSegment> read_segment(const Stream& stream, Bytes ulpdu);
/// Report a ULPDU that is shorter than its header. No error code exists for it.
void reject_unreadable(Stream& stream, Bytes ulpdu);
/// Return the error if the RDMAP version, the opcode, its buffer model or its queue is invalid. RFC 5040, 4.2 and 7.2,
/// RFC 7306, 8.2.
std::optional<machines::IwarpError> judge_segment(const Stream& stream, const machines::DdpSegment& segment);
/// Return the buffer of an untagged message. RFC 5040, 5.2.1 and 5.3, RFC 7306, 5.2 and 6.3. There is always one for a
/// Terminate: RFC 5040, 5.4.
machines::UntaggedBuffer buffer(const Stream& stream, const machines::DdpSegment& segment);
/// Return whether to place an untagged segment. RFC 5041, 7.1.
machines::DdpVerdict judge_untagged(const Stream& stream, const machines::DdpSegment& segment);
/// Return the part of an untagged segment's payload to place, which is all of it. RFC 5041, 5.2.
Bytes placed_payload(const Stream& stream, const machines::DdpSegment& segment, Bytes payload);
/// Return whether to place a tagged segment. STag and TO of an empty segment are not checked: RFC 5041, 5.2 and 7.1.
machines::DdpVerdict judge_tagged(const Stream& stream, const machines::DdpSegment& segment);
/// Report an invalid segment. A receive whose buffer is too short completes in error: RFC 5040, 5.3.
void reject_segment(Stream& stream, const machines::DdpSegment& segment, machines::IwarpError error, Bytes ulpdu);

// Messages of the peer: responder.cpp
/// Place a segment of an RDMA Write, without notifying the application: RFC 5040, 5.1. Return true if it is valid.
bool place(Stream& stream, const machines::DdpSegment& segment, Bytes ulpdu);
/// Write bytes to the memory of the application, before later messages are processed. RFC 5040, 5.5 rules 10 and 12.
void write(Stream& stream, std::uint64_t address, Bytes bytes);
/// Return the error if a complete untagged message has an invalid length. RFC 5040, figure 5, RFC 7306, 6.3.
std::optional<machines::IwarpError> judge_message(RdmapOperation operation, std::uint64_t bytes);
/// Report an invalid message.
void reject_message(Stream& stream, RdmapOperation operation, machines::IwarpError error, Bytes ulpdu);
/// Invalidate the STag of a Send with Invalidate. Return false if it cannot be invalidated: RFC 5040, 7.2.
bool invalidate(Stream& stream, std::uint32_t stag);
/// Deliver a Send or Immediate Data to the application. RFC 5040, 5.3, RFC 7306, 6.3.
void deliver(Stream& stream, const machines::DdpSegment& message);
/// Return the completion of a Send or Immediate Data, without the ID of the receive.
device::Completion receive_completion(Stream& stream, const machines::DdpSegment& message);
/// Consume the receive of a Send or Immediate Data. RFC 5040, 5.3, RFC 7306, 6.3. Return its ID.
std::uint64_t consume_receive(Stream& stream, RdmapOperation operation);
/// True if the completion causes a solicited event, because the opcode requests it. RFC 5040, 5.3.
bool is_solicited(RdmapOperation operation);
/// Return the error if the source of an RDMA Read is invalid. It is not checked for 0 bytes. RFC 5040, 5.2.1 and 7.2.
std::optional<machines::IwarpError> judge_read(const Stream& stream, Bytes header);
/// Return the error if the operation or the address of an atomic is invalid. RFC 7306, 5.2.1 item 4.
std::optional<machines::IwarpError> judge_atomic(std::uint8_t operation, std::uint64_t address);
/// Write the result of an atomic, before later messages are processed. RFC 7306, 5.4.
void write_atomic(Stream& stream, std::uint64_t address, Bytes value);

// Responses to the peer: responder_answers.cpp
/// Return the index of the request to respond to next, which is the oldest. RFC 5040, 5.5 rule 20, RFC 7306, 5.2.2
/// item 8.
std::size_t next_answer(const std::deque<Answer>& answers);
/// Return the RDMA Read Response to a request. RFC 5040, 4.5 and 5.2.2.
Outgoing read_response(Bytes header);
/// Return the result of an atomic. RFC 7306, 5.1.
std::uint64_t operate(Bytes header, std::uint64_t original);
/// Return the Atomic Response to a request. RFC 7306, 5.2.2.
std::vector<std::uint8_t> atomic_response(Bytes header, std::uint64_t original);

// Messages of the application: requester.cpp
/// Return the index of the send request to start next, which is the oldest that has not started. RFC 5040, 5.5 rule 13.
std::size_t next_work(const std::deque<Work>& work, std::size_t oldest);
/// True if a request counts toward the ORD, as RDMA Reads and atomics do. RFC 5040, 6.1, RFC 7306, 5.2.
bool counts(device::WorkOpcode opcode);
/// True if a request can start now. RFC 5040, 5.5 rule 12 and 6.1.
bool may_begin(machines::ReadDepth depth, bool counts, bool fenced);
/// Return the operation of an RDMA Write or a Send. RFC 5040, 4.2.
RdmapOperation operation_of(const device::SendRequest& request);
/// True if the next message of the request is its Immediate Data, which follows the RDMA Write: RFC 7306, 6.
bool sends_immediate(const Work& work);
/// Return the payload of Immediate Data. RFC 7306, 6.2.
std::vector<std::uint8_t> immediate_data(const device::SendRequest& request);
/// Return an Atomic Request. RFC 7306, 5.2.1.
std::vector<std::uint8_t> atomic_request(const device::SendRequest& request, std::uint32_t id);
/// True if the request is complete after its last message. RDMA Reads and atomics wait for their response: RFC
/// 5040, 5.5 rule 19, RFC 7306, 5.4 rule 7.
bool completes_when_sent(RdmapOperation operation);

// Responses of the peer: requester_answers.cpp
/// Return the error if an RDMA Read Response does not match the oldest RDMA Read. RFC 5040, 5.2.2.
std::optional<machines::IwarpError> judge_response(const Stream& stream, const machines::DdpSegment& segment);
/// Place an RDMA Read Response in the buffer of the oldest RDMA Read. Return false if the buffer is not accessible.
bool place_response(Stream& stream, const machines::DdpSegment& segment, Bytes payload);

// Transmission: transmit.cpp
/// Return the MSN of the first message to a queue. RFC 5041, 4.3.
std::uint32_t first_msn();
/// True if FPDUs may be sent in this phase. RFC 5044, 7.1.2 rule 4.
bool may_send(machines::MpaPhase phase);
/// Return the queue of an untagged message. RFC 5040, 4.2, RFC 7306, 4.2.
std::uint32_t queue_of(RdmapOperation operation);
/// Send the next segment of the message in progress. Other messages wait until it ends: RFC 5041, 5.3.
void send_segment(Stream& stream);
/// Send one segment of the message in progress. RFC 5041, 5.2.
void send_piece(Stream& stream, const machines::DdpPiece& piece, Bytes payload);
/// Return the header of a segment of the message in progress. RFC 5041, 4.1 to 4.3, RFC 5040, 4.1.
std::vector<std::uint8_t> segment_header(const Stream& stream, const machines::DdpPiece& piece);
/// End the message in progress after its last segment. A Send or an RDMA Write is then complete: RFC 5040, 5.5 rule 14.
void end_message(Stream& stream);

// Terminate messages: terminate.cpp
/// Return the Terminate for an error. RFC 5040, 4.8 and 7.1, RFC 5041, 7.2, RFC 5044, 8, RFC 7306, 8.
std::vector<std::uint8_t> terminate_message(machines::IwarpError error, const machines::TerminateCause& cause);
/// End the stream after the peer's Terminate, which uses no receive of the application: RFC 5040, 5.4.
void handle_terminate(Stream& stream, machines::IwarpError error);
/// Complete the RDMA Read that a Terminate quotes with the error of the Terminate. It is always the oldest RDMA Read,
/// because responses are in order. RFC 5040, 6.2.1.
void fail_quoted_read(Stream& stream, machines::IwarpError error);

// States of the stream: stream_states.cpp
/// Called before an event of TCP or of a timer is processed.
void begin_event(Stream& stream, std::int64_t now);
/// True if FPDUs are received in this state: until an error or a FIN. RFC 5041, 6.2.
bool receives(machines::StreamState state);
/// Return the step after an error. A responder may send a Terminate only after it has received an FPDU: RFC 5044, 7.1.2
/// rule 4.
machines::StreamStep step_after_error(const Stream& stream, machines::IwarpError error);
/// True if a Terminate must report the error, because it is the first one. RFC 5040, 7.1 rule 4.
bool reports_error(const Stream& stream, const machines::StreamStep& step);
/// Return the error to report to the application, which is that of the stream. RFC 5040, 5.4 and 7.1.
machines::IwarpError reported_error(ConnectionEvent::Type type, machines::IwarpError error);
/// Complete pending requests at the end of the stream. RFC 5040, 6.2.1, RFC 5041, 6.2.2.
void flush_at_end(Stream& stream);
/// True if the received data ends inside a message, so that a FIN of the peer is an error. RFC 5041, 6.2.
bool is_inside_message(const Stream& stream);
/// Process the peer's FIN. RFC 5041, 6.2.1.
void end_by_fin(Stream& stream);
/// Process the loss of the TCP connection. RFC 5041, 6.2.2.
void end_by_loss(Stream& stream);
/// Close the sending side of TCP gracefully after all data. RFC 5044, 7.2.
void close(Stream& stream, Output& output);

// Completion queues: rnic.cpp
/// Handle a completion that exceeds the capacity of the queue. Only the streams of the queue fail: RFC 5040, 8.1.1.
void overflow(Rnic& rnic, device::CompletionQueue& queue);

}  // namespace conforming

/// Decisions of the MPA negotiation.
struct SetupDecisions {
  Overridable<machines::MpaSettings(const machines::MpaSettings&)> settings = conforming::settings;
  Overridable<std::int64_t(const Stream&)> request_deadline = conforming::request_deadline;
  Overridable<std::int64_t(const Stream&)> rest_deadline = conforming::rest_deadline;
  Overridable<std::vector<std::uint8_t>(const machines::MpaSetupFrame&, Bytes)> encode = conforming::encode_setup;
  Overridable<machines::MpaSetupArrival(const Stream&, Bytes)> read = conforming::read_setup;
  Overridable<machines::MpaRequestVerdict(const machines::MpaSettings&, const machines::MpaSetupFrame&, bool)>
      judge_request = conforming::judge_request;
  Overridable<bool(const machines::MpaSetupFrame&)> asks_application = conforming::asks_application;
  Overridable<machines::MpaAnswer(const machines::MpaSettings&, const machines::MpaSetupFrame&)> accept_request =
      conforming::accept_request;
  Overridable<std::optional<machines::MpaSetupFrame>(const machines::MpaSettings&, const machines::MpaSetupFrame&)>
      reject_request = conforming::reject_request;
  Overridable<machines::MpaReplyVerdict(const machines::MpaSettings&, const machines::MpaSetupFrame&,
                                        const machines::MpaSetupFrame&)>
      judge_reply = conforming::judge_reply;
  Overridable<std::vector<std::uint8_t>(Bytes)> private_data = conforming::private_data;
  Overridable<std::vector<std::uint8_t>(std::vector<std::uint8_t>)> bytes_after_reply = conforming::bytes_after_reply;
  Overridable<bool(const machines::MpaAgreement&)> sends_rtr = conforming::sends_rtr;
};

/// Decisions about FPDUs.
struct FpduDecisions {
  Overridable<machines::FpduModes(const machines::MpaAgreement&)> modes = conforming::fpdu_modes;
  Overridable<machines::FpduArrival(Bytes, std::uint64_t, machines::FpduModes)> judge = conforming::judge_fpdu;
  Overridable<void(Stream&, Bytes, const machines::FpduArrival&)> reject = conforming::reject_fpdu;
  Overridable<MpaSender(const machines::MpaAgreement&)> sender = conforming::fpdu_sender;
  Overridable<void(Stream&, Bytes, bool)> send_ulpdu = conforming::send_ulpdu;
  Overridable<std::vector<std::uint8_t>(Stream&, Bytes)> fpdu = conforming::fpdu;
  Overridable<std::uint32_t(std::uint32_t, const machines::MpaAgreement&)> mulpdu = conforming::mulpdu;
  Overridable<std::uint32_t(const Stream&, std::uint32_t)> new_emss = conforming::new_emss;
};

/// Decisions about received segments.
struct SegmentDecisions {
  Overridable<std::optional<machines::DdpSegment>(const Stream&, Bytes)> read = conforming::read_segment;
  Overridable<void(Stream&, Bytes)> reject_unreadable = conforming::reject_unreadable;
  Overridable<std::optional<machines::IwarpError>(const Stream&, const machines::DdpSegment&)> judge =
      conforming::judge_segment;
  Overridable<machines::UntaggedBuffer(const Stream&, const machines::DdpSegment&)> buffer = conforming::buffer;
  Overridable<machines::DdpVerdict(const Stream&, const machines::DdpSegment&)> judge_untagged =
      conforming::judge_untagged;
  Overridable<Bytes(const Stream&, const machines::DdpSegment&, Bytes)> placed_payload = conforming::placed_payload;
  Overridable<machines::DdpVerdict(const Stream&, const machines::DdpSegment&)> judge_tagged = conforming::judge_tagged;
  Overridable<void(Stream&, const machines::DdpSegment&, machines::IwarpError, Bytes)> reject =
      conforming::reject_segment;
};

/// Decisions about the messages of the peer.
struct ResponderDecisions {
  Overridable<bool(Stream&, const machines::DdpSegment&, Bytes)> place = conforming::place;
  Overridable<void(Stream&, std::uint64_t, Bytes)> write = conforming::write;
  Overridable<std::optional<machines::IwarpError>(RdmapOperation, std::uint64_t)> judge_message =
      conforming::judge_message;
  Overridable<void(Stream&, RdmapOperation, machines::IwarpError, Bytes)> reject_message = conforming::reject_message;
  Overridable<bool(Stream&, std::uint32_t)> invalidate = conforming::invalidate;
  Overridable<void(Stream&, const machines::DdpSegment&)> deliver = conforming::deliver;
  Overridable<device::Completion(Stream&, const machines::DdpSegment&)> receive_completion =
      conforming::receive_completion;
  Overridable<std::uint64_t(Stream&, RdmapOperation)> consume_receive = conforming::consume_receive;
  Overridable<bool(RdmapOperation)> is_solicited = conforming::is_solicited;
  Overridable<std::optional<machines::IwarpError>(const Stream&, Bytes)> judge_read = conforming::judge_read;
  Overridable<std::optional<machines::IwarpError>(std::uint8_t, std::uint64_t)> judge_atomic = conforming::judge_atomic;
  Overridable<void(Stream&, std::uint64_t, Bytes)> write_atomic = conforming::write_atomic;
  Overridable<std::size_t(const std::deque<Answer>&)> next_answer = conforming::next_answer;
  Overridable<Outgoing(Bytes)> read_response = conforming::read_response;
  Overridable<std::uint64_t(Bytes, std::uint64_t)> operate = conforming::operate;
  Overridable<std::vector<std::uint8_t>(Bytes, std::uint64_t)> atomic_response = conforming::atomic_response;
};

/// Decisions about the messages of the application and the responses of the peer.
struct RequesterDecisions {
  Overridable<std::size_t(const std::deque<Work>&, std::size_t)> next_work = conforming::next_work;
  Overridable<bool(device::WorkOpcode)> counts = conforming::counts;
  Overridable<bool(machines::ReadDepth, bool, bool)> may_begin = conforming::may_begin;
  Overridable<RdmapOperation(const device::SendRequest&)> operation_of = conforming::operation_of;
  Overridable<bool(const Work&)> sends_immediate = conforming::sends_immediate;
  Overridable<std::vector<std::uint8_t>(const device::SendRequest&)> immediate_data = conforming::immediate_data;
  Overridable<std::vector<std::uint8_t>(const device::SendRequest&, std::uint32_t)> atomic_request =
      conforming::atomic_request;
  Overridable<bool(RdmapOperation)> completes_when_sent = conforming::completes_when_sent;
  Overridable<std::optional<machines::IwarpError>(const Stream&, const machines::DdpSegment&)> judge_response =
      conforming::judge_response;
  Overridable<bool(Stream&, const machines::DdpSegment&, Bytes)> place_response = conforming::place_response;
};

/// Decisions about transmission.
struct TransmitDecisions {
  Overridable<std::uint32_t()> first_msn = conforming::first_msn;
  Overridable<bool(machines::MpaPhase)> may_send = conforming::may_send;
  Overridable<std::uint32_t(RdmapOperation)> queue_of = conforming::queue_of;
  Overridable<void(Stream&)> send_segment = conforming::send_segment;
  Overridable<void(Stream&, const machines::DdpPiece&, Bytes)> send_piece = conforming::send_piece;
  Overridable<std::vector<std::uint8_t>(const Stream&, const machines::DdpPiece&)> header = conforming::segment_header;
  Overridable<void(Stream&)> end_message = conforming::end_message;
};

/// Decisions about Terminate messages.
struct TerminateDecisions {
  Overridable<std::vector<std::uint8_t>(machines::IwarpError, const machines::TerminateCause&)> message =
      conforming::terminate_message;
  Overridable<void(Stream&, machines::IwarpError)> handle = conforming::handle_terminate;
  Overridable<void(Stream&, machines::IwarpError)> fail_quoted_read = conforming::fail_quoted_read;
};

/// Decisions about the states of a stream.
struct StateDecisions {
  Overridable<void(Stream&, std::int64_t)> begin_event = conforming::begin_event;
  Overridable<bool(machines::StreamState)> receives = conforming::receives;
  Overridable<machines::StreamStep(const Stream&, machines::IwarpError)> step_after_error =
      conforming::step_after_error;
  Overridable<bool(const Stream&, const machines::StreamStep&)> reports_error = conforming::reports_error;
  Overridable<machines::IwarpError(ConnectionEvent::Type, machines::IwarpError)> reported_error =
      conforming::reported_error;
  Overridable<void(Stream&)> flush = conforming::flush_at_end;
  Overridable<bool(const Stream&)> is_inside_message = conforming::is_inside_message;
  Overridable<void(Stream&)> end_by_fin = conforming::end_by_fin;
  Overridable<void(Stream&)> end_by_loss = conforming::end_by_loss;
  Overridable<void(Stream&, Output&)> close = conforming::close;
};

/// Decisions about completion queues.
struct CompletionDecisions {
  Overridable<void(Rnic&, device::CompletionQueue&)> overflow = conforming::overflow;
};

/// All decisions.
struct Decisions {
  SetupDecisions setup;
  FpduDecisions fpdus;
  SegmentDecisions segments;
  ResponderDecisions responder;
  RequesterDecisions requester;
  TransmitDecisions transmit;
  TerminateDecisions terminate;
  StateDecisions states;
  CompletionDecisions completions;
};

/// Return the decisions of an endpoint with these faults.
Decisions decisions_with(const Faults& faults);
/// Return the decisions of the memory with these faults. The memory is shared with the RoCE device.
device::MemoryDecisions memory_decisions_with(const Faults& faults);

}  // namespace rdmawire::endpoint
