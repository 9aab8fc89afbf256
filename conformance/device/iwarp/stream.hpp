#pragma once
/// State of an endpoint: one RDMAP stream over one TCP connection. The parts of the endpoint are functions on this
/// state.

#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "conformance/device/iwarp/connection_event.hpp"
#include "conformance/device/iwarp/decisions.hpp"
#include "conformance/device/iwarp/rnic.hpp"
#include "conformance/device/roce/work_request.hpp"
#include "dissectors/machines/ddp.hpp"
#include "dissectors/machines/mpa_setup.hpp"
#include "dissectors/machines/rdmap.hpp"
#include "dissectors/machines/terminate.hpp"
#include "dissectors/protocol/mpa.hpp"

namespace rdmawire::endpoint {

inline constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

struct EndpointOptions {
  std::uint32_t pd = 0, send_cq = 0, receive_cq = 0;
  machines::MpaSettings mpa{};
  std::uint32_t emss = 1460;                   ///< TCP segment size in bytes
  std::int64_t setup_timeout = 5'000'000'000;  ///< maximum wait for the peer's MPA frame, nanoseconds
  std::int64_t close_timeout = 1'000'000'000;  ///< maximum wait for the peer's FIN after the local one, nanoseconds
  bool closes_with_peer = true;                ///< false: the endpoint can still send after the peer has closed
  std::uint32_t most_work = 16'384;            ///< limit of requests per queue
};

/// Data to send.
struct Output {
  std::vector<std::vector<std::uint8_t>>
      segments{};      ///< TCP segments of at most EMSS bytes. Each FPDU starts at the start of a segment
  bool fin = false;    ///< true: send a FIN after the segments
  bool reset = false;  ///< true: abort TCP

  [[nodiscard]] bool empty() const { return segments.empty() && !fin && !reset; }
};

/// A request in the send queue.
struct Work {
  std::uint64_t number = 0;
  device::SendRequest request{};
  std::uint64_t length = 0;
  std::uint32_t parts = 1;            ///< number of its messages
  std::uint32_t begun = 0, sent = 0;  ///< number of messages that are started, and completely sent
  bool done = false;
  device::Status status = device::Status::success;
  std::uint32_t bytes = 0;
};

/// An RDMA Read or atomic of the peer that has no complete response.
struct Answer {
  bool atomic = false;
  std::vector<std::uint8_t> segment{};  ///< the request's DDP segment
  std::vector<std::uint8_t> header{};   ///< the header of the Read Request or Atomic Request
};

/// The message that is being sent.
struct Outgoing {
  RdmapOperation operation = RdmapOperation::send;
  std::uint32_t stag = 0;  ///< tagged: STag of the data sink. Untagged: STag to invalidate
  std::uint64_t to = 0;
  std::uint32_t queue = 0, msn = 0;
  std::uint64_t bytes = 0, done = 0;
  std::vector<std::uint8_t> content{};           ///< content of a message that is not read from memory
  std::optional<device::SendRequest> request{};  ///< work request whose payload is sent
  std::optional<std::uint64_t> work{};           ///< number of the request that completes with the message
  std::optional<Answer> answer{};                ///< RDMA Read Response: its request
};

/// A local RDMA Read or atomic that has no complete response.
struct Requested {
  std::optional<std::uint64_t> work{};  ///< nullopt: RTR indication
  bool atomic = false;
  bool counts = true;  ///< true: counts toward the ORD
  std::uint32_t id = 0;
  machines::ReadSink sink{};
  std::vector<device::Sge> sges{};
};

/// State that only faults use.
struct StreamFaultState {
  std::uint32_t messages_sent = 0;
  bool terminated_twice = false;
  std::vector<std::uint8_t> ulpdu{};  ///< ULPDU that waits for another one in the same FPDU
  std::vector<std::pair<std::uint64_t, std::vector<std::uint8_t>>> writes{};  ///< delayed writes: address and bytes
};

struct Stream {
  Stream(Rnic& interface, EndpointOptions with);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Rnic& rnic;
  EndpointOptions options;
  std::uint32_t number;
  std::int64_t now = 0, deadline = never;

  // MPA negotiation
  machines::MpaPhase phase = machines::MpaPhase::ended;
  machines::MpaRole role = machines::MpaRole::responder;
  bool started = false;
  machines::MpaSetupFrame request;  ///< the MPA Request Frame that was sent or received
  machines::MpaAgreement agreement;

  // End of the stream
  machines::StreamState state = machines::StreamState::operating;
  bool closing = false;  ///< true: close after all data is sent
  bool end_reported = false;
  std::deque<ConnectionEvent> events;

  // Transmission
  std::vector<std::vector<std::uint8_t>> segments;  ///< TCP segments that wait to be sent
  std::size_t waiting_bytes = 0;                    ///< number of bytes in `segments`
  bool fin = false, reset = false, fin_sent = false;
  std::optional<MpaSender> sender;
  std::array<std::uint32_t, 4> msn{};  ///< by queue: MSN of the next message
  std::deque<Work> work;               ///< send queue
  std::uint64_t next_work = 1;
  std::optional<Outgoing> outgoing;                    ///< message in progress
  std::optional<std::vector<std::uint8_t>> terminate;  ///< Terminate that waits for the end of `outgoing`
  bool rtr_waits = false;                              ///< true: the next message is the RTR indication
  std::deque<Requested> requested;                     ///< oldest first
  std::deque<Answer> answers;                          ///< oldest first

  // Reception
  std::vector<std::uint8_t> pending;  ///< bytes of an incomplete MPA frame or FPDU
  std::uint64_t position = 0;         ///< position of `pending` in the Full Operation Phase
  bool any_fpdu = false;              ///< true: an FPDU was received
  bool tagged_open = false;           ///< true: the last segment of a tagged message is missing
  bool terminate_came = false;        ///< true: a Terminate was received, so its buffer is used
  machines::DdpReceiver ddp;
  std::array<std::vector<std::uint8_t>, 4> fixed;  ///< by queue: incomplete message that uses no receive
  machines::ReadDepth depth;
  std::deque<device::ReceiveRequest> receives;

  StreamFaultState faults;

  [[nodiscard]] const Decisions& decisions() const { return rnic.decisions(); }
  [[nodiscard]] device::Accessor accessor() const { return {options.pd, number}; }
};

// mpa_setup.cpp
void send_setup(Stream& stream, const machines::MpaSetupFrame& frame, Bytes private_data);
/// Process the bytes of the peer's MPA frame.
void receive_setup(Stream& stream);
/// Reject the pending request. The negotiation ends.
void reject_setup(Stream& stream, Bytes private_data);
/// Enter the Full Operation Phase.
void operate(Stream& stream, const machines::MpaAgreement& agreement);
/// End the negotiation without a connection. `reported`: event to report to the application.
void end_setup(Stream& stream, bool reset,
               std::optional<ConnectionEvent::Type> reported = ConnectionEvent::Type::failed);

// fpdu.cpp
/// Process the complete FPDUs in Stream::pending.
void receive_fpdus(Stream& stream);
/// Send a ULPDU as an FPDU, in one or more TCP segments. The FPDU starts at the start of a segment.
void send_fpdu(Stream& stream, Bytes ulpdu);

// completions.cpp
void complete(Stream& stream, std::uint32_t cq, device::Completion completion, bool solicited);
/// Complete the oldest send requests that are done. Unsignaled ones cause a completion only if they failed.
void complete_sends(Stream& stream);
/// Complete the oldest receive.
void complete_receive(Stream& stream, device::Completion completion);

// stream_states.cpp
/// Report an event to the application.
void report(Stream& stream, ConnectionEvent::Type type, machines::IwarpError error = {});
/// End the stream because of a local error or an error in received data. `cause`: the received segment.
void fail(Stream& stream, machines::IwarpError error, const machines::TerminateCause& cause = {});
/// Enter the state of a step and execute its actions. `reported`: event that reports its error to the application.
void apply(Stream& stream, const machines::StreamStep& step, ConnectionEvent::Type reported,
           machines::IwarpError error);
/// Complete pending send requests as flushed, in order.
void flush_sends(Stream& stream);
/// Complete all pending requests as flushed, in order.
void flush(Stream& stream);
/// Step that aborts TCP after an error.
inline constexpr machines::StreamStep aborted{machines::StreamState::closed,
                                              {.reset = true, .flush = true, .tell_error = true}};

// validation.cpp
/// Process a received ULPDU, which is a DDP segment.
void receive_ulpdu(Stream& stream, Bytes ulpdu);

// responder.cpp
/// Process a complete untagged message. `message`: header of its last segment, with the length of the whole message.
void receive_message(Stream& stream, const machines::DdpSegment& message, Bytes ulpdu);

// responder_answers.cpp
/// Start the next response to the peer. Return false if none waits.
bool choose_answer(Stream& stream);

// requester.cpp
/// Start the next message of the application. Return false if none can start now.
bool choose_work(Stream& stream);
/// Start an RDMA Read. `work` nullptr: an RDMA Read of 0 bytes, as RTR indication.
void begin_read(Stream& stream, const Work* work);
constexpr bool is_atomic(device::WorkOpcode opcode) {
  return opcode == device::WorkOpcode::compare_swap || opcode == device::WorkOpcode::fetch_add;
}

// requester_answers.cpp
void receive_read_response(Stream& stream, const machines::DdpSegment& segment, Bytes ulpdu);
void receive_atomic_response(Stream& stream, Bytes ulpdu);
/// Return the oldest request if it is an RDMA Read, otherwise nullptr.
const Requested* oldest_read(const Stream& stream);

// transmit.cpp
/// Send messages until about `most` bytes wait for TCP.
void transmit(Stream& stream, std::size_t most);
/// Start the next message: a Terminate, the RTR indication, a response or a request. Return false if none can start
/// now.
bool choose_next(Stream& stream);
/// Start an untagged message. `work`: number of the send request that it belongs to.
void begin(Stream& stream, RdmapOperation operation, std::vector<std::uint8_t> content,
           std::optional<std::uint64_t> work = std::nullopt);

// terminate.cpp
void receive_terminate(Stream& stream, Bytes ulpdu);

}  // namespace rdmawire::endpoint
