#pragma once
/// An iWARP endpoint in software: one RDMAP stream over one TCP connection, initiator or responder. It does no input
/// and no output: bytes come in and go out by calls, with the boundaries of TCP segments that it chooses, and time is
/// an argument (nanoseconds of any clock). It is what the machines of dissectors/machines say, and the reference that
/// conformance cases are proven with.
///
/// RFC 5040, 5041, 5044, 6581, 7306. What it chose where these leave it open:
/// - untagged segments out of the order of their MO, and a second FPDU before a responder's reply, are refused;
/// - an RDMA Write without the right to write is told as an invalid STag of DDP (RFC 5041, 7.1 item 2);
/// - the ready-to-receive Send of the peer-to-peer model takes no receive of the consumer's;
/// - when the other end closes, it closes too, after what waits was sent (EndpointOptions::closes_with_peer).

#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <vector>

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
  std::uint32_t emss = 1460;                   ///< bytes of a TCP segment
  std::int64_t setup_timeout = 5'000'000'000;  ///< for the other end's set-up frame
  std::int64_t close_timeout = 1'000'000'000;  ///< from our FIN to the other's
  bool closes_with_peer = true;                ///< else a stream that the other end closed can still be sent to
  std::uint32_t most_work = 16'384;            ///< requests of each queue
};

/// What the connection tells its consumer.
struct ConnectionEvent {
  enum class Type : std::uint8_t {
    request,       ///< to be accepted or rejected; what follows is the initiator's
    established,   ///< what follows is the responder's
    rejected,      ///< likewise
    failed,        ///< before it was established
    peer_closed,   ///< the other end sends no more
    error,         ///< found here; `error` says which, and a Terminate tells the other end if it can be told
    terminated,    ///< the other end's Terminate: `error` is what it says
    disconnected,  ///< the last event
  };
  Type type = Type::request;
  std::vector<std::uint8_t> private_data{};
  std::uint16_t ird = 0, ord = 0;  ///< of an enhanced frame
  std::uint8_t revision = 0;
  machines::IwarpError error{};

  friend bool operator==(const ConnectionEvent&, const ConnectionEvent&) = default;
};

/// What is to be sent.
struct Output {
  std::vector<std::vector<std::uint8_t>> segments{};  ///< each at most EMSS bytes; FPDUs begin where segments do
  bool fin = false;                                   ///< close our half behind them
  bool reset = false;                                 ///< abort TCP instead

  [[nodiscard]] bool empty() const { return segments.empty() && !fin && !reset; }
};

class Endpoint {
 public:
  /// `rnic` must outlive it.
  Endpoint(Rnic& rnic, EndpointOptions options);
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // Connections. Errors: EINVAL where the call has no place, or private data is too long.
  /// Other options, before the connection begins.
  device::Result<void> prepare(EndpointOptions options);
  /// The connection of another endpoint, whose request waits for the consumer: it is this one's from now on, to be
  /// accepted with what was posted here and prepared. The other one has no connection any more.
  device::Result<void> adopt(Endpoint& asked);
  /// TCP is connected, and this is the initiator.
  device::Result<void> connect(Bytes private_data, std::int64_t now);
  /// TCP is connected, and this is the responder.
  device::Result<void> await(std::int64_t now);
  device::Result<void> accept(Bytes private_data);
  device::Result<void> reject(Bytes private_data);
  /// In order: what was posted is sent first.
  void disconnect();
  /// There will be no connection: what was posted is flushed, and so is what follows. Not once one was begun.
  void stop();
  /// Something here is lost that the stream cannot do without.
  void fail_locally();
  std::optional<ConnectionEvent> next_event();

  // Verbs. Errors: ENOMEM: the queue is full; EINVAL: the request is none of iWARP's.
  device::Result<void> post_send(device::SendRequest request);
  device::Result<void> post_receive(device::ReceiveRequest request);

  // TCP.
  void received(Bytes bytes, std::int64_t now);
  /// The other end's FIN.
  void peer_closed(std::int64_t now);
  /// Reset, or lost.
  void lost(std::int64_t now);
  void woken(std::int64_t now);
  /// When woken() must be called at the latest; never: by nothing but events.
  [[nodiscard]] std::int64_t wakes() const { return deadline_; }
  /// What can be sent now, about `most` bytes of it.
  Output take(std::int64_t now, std::size_t most = 64 << 10);
  /// TCP's segments have another size from now on. RFC 5044, 4.5.
  void set_emss(std::uint32_t emss);

  [[nodiscard]] machines::MpaPhase phase() const { return phase_; }
  [[nodiscard]] machines::StreamState stream() const { return stream_; }
  [[nodiscard]] const machines::MpaAgreement& agreement() const { return agreement_; }
  [[nodiscard]] std::uint32_t number() const { return number_; }
  [[nodiscard]] const EndpointOptions& options() const { return options_; }
  /// A connection was begun with it; another one cannot be.
  [[nodiscard]] bool started() const { return started_; }
  /// The consumer was told of the end.
  [[nodiscard]] bool ended() const { return told_end_; }
  /// Which untagged messages are expected.
  [[nodiscard]] const machines::DdpReceiver& ddp() const { return ddp_; }
  /// Reads and atomics under way.
  [[nodiscard]] const machines::ReadDepth& depth() const { return depth_; }
  /// Receive requests that wait.
  [[nodiscard]] std::size_t receives() const { return receives_.size(); }
  /// Bytes that wait for the rest of their frame.
  [[nodiscard]] std::size_t buffered() const { return pending_.size(); }

 private:
  /// A request of the send queue.
  struct Work {
    std::uint64_t number = 0;
    device::SendRequest request{};
    std::uint64_t length = 0;
    std::uint32_t parts = 1;  ///< messages that it consists of
    std::uint32_t begun = 0, sent = 0;
    bool done = false;
    device::Status status = device::Status::success;
    std::uint32_t bytes = 0;
  };
  /// A request of the other end, to be answered in its turn.
  struct Answer {
    bool atomic = false;
    std::vector<std::uint8_t> segment{};  ///< that it came in
    std::vector<std::uint8_t> header{};
    std::uint32_t answered = 0;
  };

  /// A message that is being sent.
  struct Outgoing {
    RdmapOperation operation = RdmapOperation::send;
    std::uint32_t stag = 0;  ///< tagged; untagged: the one to invalidate
    std::uint64_t to = 0;
    std::uint32_t queue = 0, msn = 0;
    std::uint64_t bytes = 0, done = 0;
    std::vector<std::uint8_t> content{};           ///< of a message that is a header
    std::optional<device::SendRequest> request{};  ///< whose elements have the payload
    std::optional<std::uint64_t> work{};           ///< which the message's end completes
    std::optional<Answer> answer{};                ///< of an RDMA Read Response
  };
  /// A read or an atomic that waits for its response.
  struct Requested {
    std::optional<std::uint64_t> work{};  ///< nothing: the ready-to-receive indication
    bool atomic = false;
    bool counts = true;  ///< to the depth
    std::uint32_t id = 0;
    machines::ReadSink sink{};
    std::vector<device::Sge> sges{};
  };
  [[nodiscard]] bool has(Fault fault) const { return rnic_.has(fault); }
  [[nodiscard]] device::Accessor accessor() const { return {options_.pd, number_}; }
  [[nodiscard]] std::uint32_t mulpdu() const;

  // endpoint.cpp
  void send_setup(const machines::MpaSetupFrame& frame, Bytes private_data);
  void take_setup();
  void take_request(const machines::MpaSetupArrival& arrival);
  void take_reply(const machines::MpaSetupArrival& arrival);
  void operate(const machines::MpaAgreement& agreement);
  void end_setup(bool reset, std::optional<ConnectionEvent::Type> told = ConnectionEvent::Type::failed);
  void tell(ConnectionEvent::Type type, machines::IwarpError error = {});
  void fail(machines::IwarpError error, const machines::TerminateCause& cause = {});
  void apply(const machines::StreamStep& step, ConnectionEvent::Type told, machines::IwarpError error);
  void flush();
  void flush_sends();
  void complete_sends();
  void complete(std::uint32_t cq, device::Completion completion, bool solicited);
  void write_deferred();

  // sending.cpp
  void pump(std::size_t most);
  bool choose_next();
  bool choose_answer();
  bool answer_atomic(const Answer& answer);
  bool choose_work();
  bool begin_work(Work& work);
  void begin(RdmapOperation operation, std::uint32_t queue, std::vector<std::uint8_t> content,
             std::optional<std::uint64_t> work = std::nullopt);
  void begin_payload(Work& work, RdmapOperation operation);
  void fail_work(Work& work, device::Status status);
  bool begin_read(Work* work);
  bool begin_atomic(Work& work);
  device::Status execute_local(const device::SendRequest& request);
  void emit_piece();
  std::vector<std::uint8_t> ulpdu_of(const machines::DdpPiece& piece, Bytes payload, bool tagged);
  void frame_and_send(Bytes ulpdu);
  void end_message();
  [[nodiscard]] std::vector<std::uint8_t> terminate_of(machines::IwarpError error,
                                                       const machines::TerminateCause& cause) const;
  [[nodiscard]] std::uint32_t next_msn(std::uint32_t queue);

  // receiving.cpp
  void take_fpdus();
  void take_ulpdu(Bytes ulpdu);
  void take_untagged(const machines::DdpSegment& segment, Bytes ulpdu, Bytes payload);
  void take_tagged(const machines::DdpSegment& segment, Bytes ulpdu, Bytes payload);
  void take_message(const machines::DdpSegment& segment, Bytes ulpdu);
  void take_send(const machines::DdpSegment& segment, Bytes ulpdu);
  void take_read_request(Bytes ulpdu);
  void take_atomic_request(Bytes ulpdu);
  void take_atomic_response(Bytes ulpdu);
  void take_terminate(Bytes ulpdu);
  void take_response(const machines::DdpSegment& segment, Bytes ulpdu, Bytes payload);
  void end_request();
  bool place(const machines::DdpSegment& segment, Bytes ulpdu, Bytes payload);
  [[nodiscard]] machines::UntaggedBuffer buffer_of(const machines::DdpSegment& segment) const;

  Rnic& rnic_;
  EndpointOptions options_;
  std::uint32_t number_;
  std::int64_t now_ = 0, deadline_ = never;

  // Set-up
  machines::MpaPhase phase_ = machines::MpaPhase::ended;
  machines::MpaRole role_ = machines::MpaRole::responder;
  bool started_ = false;
  machines::MpaSetupFrame request_;  ///< that was sent or received
  machines::MpaAgreement agreement_;
  bool told_end_ = false;

  // The stream
  machines::StreamState stream_ = machines::StreamState::operating;
  bool closing_ = false;  ///< the consumer wants the end, when all is sent
  std::deque<ConnectionEvent> events_;

  // Sending
  std::vector<std::vector<std::uint8_t>> segments_;
  std::size_t waiting_bytes_ = 0;
  bool fin_ = false, reset_ = false, fin_sent_ = false;
  std::optional<MpaSender> sender_;
  std::vector<std::uint8_t> held_ulpdu_;
  std::array<std::uint32_t, 4> msn_{};
  std::deque<Work> work_;
  std::uint64_t next_work_ = 1;
  std::uint32_t messages_sent_ = 0;
  std::optional<Outgoing> outgoing_;
  std::optional<std::vector<std::uint8_t>> terminate_;
  bool rtr_waits_ = false;
  std::deque<Requested> requested_;
  std::deque<Answer> answers_;

  // Receiving
  std::vector<std::uint8_t> pending_;
  std::uint64_t position_ = 0;  ///< of pending_'s first byte in the Full Operation Phase
  bool any_fpdu_ = false;
  bool tagged_open_ = false;  ///< a tagged message without its last segment
  bool terminate_came_ = false;
  machines::DdpReceiver ddp_;
  std::array<std::vector<std::uint8_t>, 4> fixed_;  ///< of the message that is open: what is not the consumer's
  machines::ReadDepth depth_;
  std::deque<device::ReceiveRequest> receives_;
  std::vector<std::pair<std::uint64_t, std::vector<std::uint8_t>>> deferred_;  ///< of faults: writes that come late
};

}  // namespace rdmawire::endpoint
