#pragma once
/// A software iWARP endpoint: one RDMAP stream over one TCP connection, as initiator or responder. It does no I/O:
/// calls pass and return the bytes, in TCP segments that it chooses, and the time in nanoseconds. It follows the state
/// machines of dissectors/machines and is the reference for conformance cases.
///
/// RFC 5040, 5041, 5044, 6581, 7306. Choices where the RFCs permit several:
/// - it rejects untagged segments out of MO order, and a second FPDU before the responder's reply;
/// - it reports an RDMA Write without the right to write as an invalid STag of DDP (RFC 5041, 7.1 item 2);
/// - the Send of the RTR indication (peer-to-peer model) uses no receive of the application;
/// - when the peer closes, it sends pending data and closes too (EndpointOptions::closes_with_peer).

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
  std::uint32_t emss = 1460;                   ///< TCP segment size in bytes
  std::int64_t setup_timeout = 5'000'000'000;  ///< for the peer's MPA frame
  std::int64_t close_timeout = 1'000'000'000;  ///< from the local FIN to the peer's FIN
  bool closes_with_peer = true;                ///< false: keep sending after the peer has closed
  std::uint32_t most_work = 16'384;            ///< requests per queue
};

/// Event for the application.
struct ConnectionEvent {
  enum class Type : std::uint8_t {
    request,       ///< accept or reject it. The fields are the initiator's
    established,   ///< the fields are the responder's
    rejected,      ///< the fields are the responder's
    failed,        ///< before the connection was established
    peer_closed,   ///< the peer sends no more data
    error,         ///< detected locally, described by `error`. Sent to the peer in a Terminate if possible
    terminated,    ///< the peer sent a Terminate with `error`
    disconnected,  ///< the last event
  };
  Type type = Type::request;
  std::vector<std::uint8_t> private_data{};
  std::uint16_t ird = 0, ord = 0;  ///< from an enhanced frame
  std::uint8_t revision = 0;
  machines::IwarpError error{};

  friend bool operator==(const ConnectionEvent&, const ConnectionEvent&) = default;
};

/// Data to send.
struct Output {
  std::vector<std::vector<std::uint8_t>>
      segments{};      ///< at most EMSS bytes each. An FPDU starts only at a segment's start
  bool fin = false;    ///< close this side after the segments
  bool reset = false;  ///< abort TCP instead

  [[nodiscard]] bool empty() const { return segments.empty() && !fin && !reset; }
};

class Endpoint {
 public:
  /// `rnic` must outlive this.
  Endpoint(Rnic& rnic, EndpointOptions options);
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // Connections. Errors: EINVAL if the call is invalid in this state, or private data is too long.
  /// Replace the options before the connection starts.
  device::Result<void> prepare(EndpointOptions options);
  /// Take over the connection of another endpoint with a pending request. Receives and options of this endpoint apply.
  /// The other endpoint then has no connection.
  device::Result<void> adopt(Endpoint& pending);
  /// Start as initiator on a connected TCP stream.
  device::Result<void> connect(Bytes private_data, std::int64_t now);
  /// Start as responder on a connected TCP stream.
  device::Result<void> await(std::int64_t now);
  device::Result<void> accept(Bytes private_data);
  device::Result<void> reject(Bytes private_data);
  /// Close gracefully after sending all posted requests.
  void disconnect();
  /// Flush all requests, current and future. Only before a connection is started.
  void stop();
  /// Report a local failure that ends the stream.
  void fail_locally();
  std::optional<ConnectionEvent> next_event();

  // Verbs. Errors: ENOMEM if the queue is full, EINVAL if iWARP does not support the request.
  device::Result<void> post_send(device::SendRequest request);
  device::Result<void> post_receive(device::ReceiveRequest request);

  // TCP
  void received(Bytes bytes, std::int64_t now);
  /// The peer sent FIN.
  void peer_closed(std::int64_t now);
  /// The connection was reset or lost.
  void lost(std::int64_t now);
  void woken(std::int64_t now);
  /// Time of the next required woken() call, or never.
  [[nodiscard]] std::int64_t wakes() const { return deadline_; }
  /// Return the data to send now, about `most` bytes.
  Output take(std::int64_t now, std::size_t most = 64 << 10);
  /// Change the TCP segment size. RFC 5044, 4.5.
  void set_emss(std::uint32_t emss);

  [[nodiscard]] machines::MpaPhase phase() const { return phase_; }
  [[nodiscard]] machines::StreamState stream() const { return stream_; }
  [[nodiscard]] const machines::MpaAgreement& agreement() const { return agreement_; }
  [[nodiscard]] std::uint32_t number() const { return number_; }
  [[nodiscard]] const EndpointOptions& options() const { return options_; }
  /// True if a connection was started. Endpoints cannot be reused.
  [[nodiscard]] bool started() const { return started_; }
  /// True if the application received the disconnected event.
  [[nodiscard]] bool ended() const { return end_reported_; }
  /// Expected untagged messages.
  [[nodiscard]] const machines::DdpReceiver& ddp() const { return ddp_; }
  /// Outstanding reads and atomics.
  [[nodiscard]] const machines::ReadDepth& depth() const { return depth_; }
  /// Number of posted receives.
  [[nodiscard]] std::size_t receives() const { return receives_.size(); }
  /// Number of bytes of an incomplete frame.
  [[nodiscard]] std::size_t buffered() const { return pending_.size(); }

 private:
  /// Request of the send queue.
  struct Work {
    std::uint64_t number = 0;
    device::SendRequest request{};
    std::uint64_t length = 0;
    std::uint32_t parts = 1;  ///< number of messages
    std::uint32_t begun = 0, sent = 0;
    bool done = false;
    device::Status status = device::Status::success;
    std::uint32_t bytes = 0;
  };
  /// Pending request of the peer.
  struct Answer {
    bool atomic = false;
    std::vector<std::uint8_t> segment{};  ///< the segment of the request
    std::vector<std::uint8_t> header{};
    std::uint32_t answered = 0;
  };

  /// Message in progress.
  struct Outgoing {
    RdmapOperation operation = RdmapOperation::send;
    std::uint32_t stag = 0;  ///< tagged; untagged: STag to invalidate
    std::uint64_t to = 0;
    std::uint32_t queue = 0, msn = 0;
    std::uint64_t bytes = 0, done = 0;
    std::vector<std::uint8_t> content{};           ///< message that consists of a header
    std::optional<device::SendRequest> request{};  ///< provides the payload
    std::optional<std::uint64_t> work{};           ///< request to complete at the end of the message
    std::optional<Answer> answer{};                ///< RDMA Read Response
  };
  /// Read or atomic without a complete response.
  struct Requested {
    std::optional<std::uint64_t> work{};  ///< nullopt: RTR indication
    bool atomic = false;
    bool counts = true;  ///< counts toward the depth
    std::uint32_t id = 0;
    machines::ReadSink sink{};
    std::vector<device::Sge> sges{};
  };
  [[nodiscard]] bool has(Fault fault) const { return rnic_.has(fault); }
  [[nodiscard]] device::Accessor accessor() const { return {options_.pd, number_}; }
  [[nodiscard]] std::uint32_t mulpdu() const;

  // endpoint.cpp
  void send_setup(const machines::MpaSetupFrame& frame, Bytes private_data);
  void process_setup();
  void take_request(const machines::MpaSetupArrival& arrival);
  void take_reply(const machines::MpaSetupArrival& arrival);
  void operate(const machines::MpaAgreement& agreement);
  void end_setup(bool reset, std::optional<ConnectionEvent::Type> reported = ConnectionEvent::Type::failed);
  void report(ConnectionEvent::Type type, machines::IwarpError error = {});
  void fail(machines::IwarpError error, const machines::TerminateCause& cause = {});
  void apply(const machines::StreamStep& step, ConnectionEvent::Type reported, machines::IwarpError error);
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

  // MPA negotiation
  machines::MpaPhase phase_ = machines::MpaPhase::ended;
  machines::MpaRole role_ = machines::MpaRole::responder;
  bool started_ = false;
  machines::MpaSetupFrame request_;  ///< sent or received
  machines::MpaAgreement agreement_;
  bool end_reported_ = false;

  // Stream
  machines::StreamState stream_ = machines::StreamState::operating;
  bool closing_ = false;  ///< the application requested the close after all data is sent
  std::deque<ConnectionEvent> events_;

  // Transmission
  std::vector<std::vector<std::uint8_t>> segments_;
  std::size_t waiting_bytes_ = 0;
  bool fin_ = false, reset_ = false, fin_sent_ = false;
  std::optional<MpaSender> sender_;
  std::vector<std::uint8_t> pending_ulpdu_;
  std::array<std::uint32_t, 4> msn_{};
  std::deque<Work> work_;
  std::uint64_t next_work_ = 1;
  std::uint32_t messages_sent_ = 0;
  std::optional<Outgoing> outgoing_;
  std::optional<std::vector<std::uint8_t>> terminate_;
  bool rtr_waits_ = false;
  std::deque<Requested> requested_;
  std::deque<Answer> answers_;

  // Reception
  std::vector<std::uint8_t> pending_;
  std::uint64_t position_ = 0;  ///< of the first byte of pending_ in the Full Operation Phase
  bool any_fpdu_ = false;
  bool tagged_open_ = false;  ///< a tagged message without its last segment
  bool terminate_came_ = false;
  machines::DdpReceiver ddp_;
  std::array<std::vector<std::uint8_t>, 4> fixed_;  ///< messages in progress that need no receive of the application
  machines::ReadDepth depth_;
  std::deque<device::ReceiveRequest> receives_;
  std::vector<std::pair<std::uint64_t, std::vector<std::uint8_t>>> deferred_;  ///< set only by faults: delayed writes
};

}  // namespace rdmawire::endpoint
