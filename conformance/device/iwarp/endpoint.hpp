#pragma once
/// A software iWARP endpoint: one RDMAP stream over one TCP connection, as initiator or responder. It does no I/O: the
/// caller passes received bytes and the time in nanoseconds, and gets the TCP segments to send. It follows the state
/// machines of dissectors/machines and is the reference for conformance cases.
///
/// RFC 5040, 5041, 5044, 6581, 7306. Choices that the RFCs permit:
/// - It rejects untagged segments out of MO order, and a second FPDU before the responder's reply.
/// - It reports an RDMA Write without the right to write as an invalid STag of DDP (RFC 5041, 7.1 item 2).
/// - The Send of the RTR indication (peer-to-peer model) uses no receive of the application.
/// - When the peer closes, it sends pending data and closes too (EndpointOptions::closes_with_peer).

#include <cstdint>
#include <limits>
#include <optional>

#include "conformance/device/iwarp/stream.hpp"

namespace rdmawire::endpoint {

class Endpoint {
 public:
  /// `rnic` must outlive the endpoint.
  Endpoint(Rnic& rnic, EndpointOptions options) : stream_(rnic, std::move(options)) {}
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // Connections. Errors: EINVAL if the call is invalid in this state, or if the private data is too long.
  /// Replace the options before the connection starts.
  device::Result<void> prepare(EndpointOptions options);
  /// Take over the connection of another endpoint, which has a pending request. The receives and options of this
  /// endpoint apply to it. The other endpoint then has no connection.
  device::Result<void> adopt(Endpoint& pending);
  /// Start as initiator on a connected TCP stream.
  device::Result<void> connect(Bytes private_data, std::int64_t now);
  /// Start as responder on a connected TCP stream.
  device::Result<void> await(std::int64_t now);
  device::Result<void> accept(Bytes private_data);
  device::Result<void> reject(Bytes private_data);
  /// Close the stream gracefully after all posted requests are sent.
  void disconnect();
  /// Flush all current and future requests. Must be called before a connection is started.
  void stop();
  /// End the stream because of a local failure.
  void fail_locally();
  std::optional<ConnectionEvent> next_event();

  // Verbs. Errors: ENOMEM if the queue is full, EINVAL if iWARP does not support the request.
  device::Result<void> post_send(device::SendRequest request);
  device::Result<void> post_receive(device::ReceiveRequest request);

  // TCP
  void received(Bytes bytes, std::int64_t now);
  /// Must be called when the peer has sent a FIN.
  void peer_closed(std::int64_t now);
  /// Must be called when the TCP connection was reset or lost.
  void lost(std::int64_t now);
  void woken(std::int64_t now);
  /// Return the time at which woken() must be called, or `never`.
  [[nodiscard]] std::int64_t wakes() const { return stream_.deadline; }
  /// Return the data to send now, about `most` bytes.
  Output take(std::int64_t now, std::size_t most = 64 << 10);
  /// Change the TCP segment size. RFC 5044, 4.5.
  void set_emss(std::uint32_t emss);

  [[nodiscard]] machines::MpaPhase phase() const { return stream_.phase; }
  [[nodiscard]] machines::StreamState stream() const { return stream_.state; }
  [[nodiscard]] const machines::MpaAgreement& agreement() const { return stream_.agreement; }
  [[nodiscard]] std::uint32_t number() const { return stream_.number; }
  [[nodiscard]] const EndpointOptions& options() const { return stream_.options; }
  /// True if a connection was started. Endpoints cannot be reused.
  [[nodiscard]] bool started() const { return stream_.started; }
  /// True if the application received the disconnected event.
  [[nodiscard]] bool ended() const { return stream_.end_reported; }
  /// Expected MSN and MO of each untagged queue.
  [[nodiscard]] const machines::DdpReceiver& ddp() const { return stream_.ddp; }
  /// Numbers of outstanding RDMA Reads and atomics, and their limits.
  [[nodiscard]] const machines::ReadDepth& depth() const { return stream_.depth; }
  /// Number of posted receives.
  [[nodiscard]] std::size_t receives() const { return stream_.receives.size(); }
  /// Number of buffered bytes of an incomplete MPA frame or FPDU.
  [[nodiscard]] std::size_t buffered() const { return stream_.pending.size(); }

 private:
  Stream stream_;
};

}  // namespace rdmawire::endpoint
