#pragma once
/// An iWARP device: verbs and connections, by handles, for the endpoints of one Rnic. A TcpUser implementation provides
/// TCP. The class does no I/O: the caller passes the time and reads events.
///
/// As on Linux, queue pairs have type RC and the state of their connection. The CM negotiates MPA. A closed queue pair
/// is in ERR.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "conformance/device/iwarp/endpoint.hpp"
#include "conformance/device/iwarp/rnic.hpp"
#include "conformance/device/iwarp/virtual_tcp.hpp"
#include "conformance/device/roce/queue_pair.hpp"
#include "conformance/device/roce/verbs.hpp"

namespace rdmawire::endpoint {

struct AdapterOptions {
  RnicOptions rnic{};
  replay::IpAddress address = replay::IpAddress::v4(0x0a000001);  ///< 10.0.0.1
  std::size_t most_objects = 4096;
  std::uint32_t most_work = 16'384;  ///< limit of requests per work queue and of completions per completion queue
  std::uint32_t most_sges = 32;
  std::uint16_t most_depth = 128;  ///< limit of outstanding RDMA Reads and atomics
};

class Adapter final : public device::Verbs, public TcpUser {
 public:
  explicit Adapter(AdapterOptions options = {});

  [[nodiscard]] const AdapterOptions& options() const { return options_; }
  [[nodiscard]] Rnic& rnic() { return rnic_; }
  /// Set the MPA settings for new queue pairs and for new incoming connections.
  void wish(const machines::MpaSettings& mpa) { mpa_ = mpa; }
  [[nodiscard]] const machines::MpaSettings& wished() const { return mpa_; }
  /// Change the TCP segment size of all connections.
  void set_emss(std::uint32_t emss);

  struct Counters {
    std::uint64_t connections = 0, terminates_received = 0, errors = 0, bytes_received = 0, bytes_sent = 0;
  };
  [[nodiscard]] const Counters& counters() const { return counters_; }

  // Verbs.
  [[nodiscard]] std::int64_t now() const override { return now_; }
  std::uint32_t reserve_handle() override { return rnic_.new_handle(); }
  void forget_everything() override;
  device::Result<std::uint64_t> alloc(std::uint64_t bytes) override { return rnic_.memory().allocate(bytes); }
  device::Result<void> free(std::uint64_t address) override;
  [[nodiscard]] MutableBytes memory(std::uint64_t address, std::uint64_t bytes) override {
    return rnic_.memory().at(address, bytes);
  }
  device::Result<std::uint32_t> alloc_pd() override;
  device::Result<void> dealloc_pd(std::uint32_t pd) override;
  device::Result<const device::Region*> reg_mr(std::uint32_t pd, std::uint64_t address, std::uint64_t bytes,
                                               std::uint32_t rights, std::optional<std::uint64_t> iova) override;
  device::Result<const device::Region*> alloc_mr(std::uint32_t pd, std::uint64_t max_bytes) override;
  device::Result<void> dereg_mr(std::uint32_t mr) override;
  device::Result<const device::Window*> alloc_mw(std::uint32_t pd, std::uint8_t type) override;
  device::Result<void> dealloc_mw(std::uint32_t mw) override;
  [[nodiscard]] const device::Region* region(std::uint32_t mr) override { return rnic_.memory().region(mr); }
  [[nodiscard]] const device::Window* window(std::uint32_t mw) override { return rnic_.memory().window(mw); }
  device::Result<std::uint32_t> create_channel() override;
  device::Result<void> destroy_channel(std::uint32_t channel) override;
  device::Result<std::uint32_t> create_cq(std::uint32_t capacity, std::uint32_t channel) override;
  device::Result<void> destroy_cq(std::uint32_t cq) override;
  device::Result<std::vector<device::Completion>> poll_cq(std::uint32_t cq, std::size_t most) override;
  device::Result<void> req_notify_cq(std::uint32_t cq, bool solicited_only) override;
  device::Result<std::optional<std::uint32_t>> get_cq_event(std::uint32_t channel) override;
  std::optional<device::AsyncEvent> get_async_event() override { return rnic_.next_event(); }

  /// Fail with EINVAL if the service is not RC.
  device::Result<std::uint32_t> create_qp(const device::QueuePairOptions& options);
  /// ERR and SQE end the stream with a Terminate and flush outstanding requests. SQD closes the stream gracefully.
  device::Result<void> modify_qp(std::uint32_t qp, device::QpState state);
  device::Result<void> set_rights(std::uint32_t qp, std::uint32_t rights);
  device::Result<void> destroy_qp(std::uint32_t qp) override;
  device::Result<void> post_send(std::uint32_t qp, device::SendRequest request) override;
  device::Result<void> post_recv(std::uint32_t qp, device::ReceiveRequest request) override;
  device::Result<std::uint32_t> bind_mw(std::uint32_t qp, device::SendRequest request) override;

  struct QueuePair {
    device::QueuePairOptions options;
    machines::MpaSettings mpa{};  ///< MPA settings when it was created
    std::unique_ptr<Endpoint> endpoint{};
    std::uint32_t rights = 0;
    bool init = false;        ///< true: the application moved it to INIT
    std::uint32_t cm_id = 0;  ///< handle of its connection. 0: none

    [[nodiscard]] device::QpState state() const;
  };
  /// Return nullptr if the queue pair does not exist. The handle is also the QP number.
  [[nodiscard]] const QueuePair* qp(std::uint32_t handle) const;

  device::Result<device::Listening> cm_listen(const device::CmEndpoint& at, std::uint32_t backlog) override;
  device::Result<std::uint32_t> cm_connect(const device::CmEndpoint& to, const device::Gid& source,
                                           device::CmParameters with) override;
  device::Result<void> cm_accept(std::uint32_t cm_id, device::CmParameters with) override;
  device::Result<void> cm_establish(std::uint32_t cm_id) override;
  device::Result<void> cm_reject(std::uint32_t cm_id, Bytes private_data) override;
  device::Result<void> cm_disconnect(std::uint32_t cm_id) override;
  device::Result<void> cm_destroy(std::uint32_t cm_id) override;
  std::optional<device::CmEvent> get_cm_event() override;

  // TCP
  void passed(std::int64_t now) override { now_ = std::max(now_, now); }
  [[nodiscard]] bool listens(std::uint16_t port) const override { return listener_at(port) != 0; }
  std::uint32_t connected(std::uint16_t port, const replay::TcpAddress& from, std::uint32_t emss) override;
  std::optional<PendingRequest> next_connect_request() override;
  void answered(std::uint32_t stream, int error, std::uint32_t emss) override;
  void received(std::uint32_t stream, Bytes bytes) override;
  void peer_closed(std::uint32_t stream) override;
  void lost(std::uint32_t stream) override;
  Output take(std::uint32_t stream, std::size_t most) override;
  void forgotten(std::uint32_t stream) override;
  [[nodiscard]] std::int64_t wakes() const override;
  void woken() override;

  static constexpr std::size_t most_events = 4096;

 private:
  /// A TCP connection. It uses its own endpoint until the request is accepted, and then that of a queue pair. It has
  /// none after that is destroyed.
  struct Stream {
    std::unique_ptr<Endpoint> own{};
    std::uint32_t qp = 0;
    std::uint32_t cm_id = 0, listener = 0;
    std::uint32_t emss = 0;
    bool fin_sent = false, reset_due = false;
    replay::TcpAddress local{}, remote{};
  };
  enum class Role : std::uint8_t { listener, active, passive };
  struct CmId {
    Role role = Role::listener;
    std::uint16_t port = 0;     ///< port of a listener
    std::uint32_t backlog = 0;  ///< limit of a listener's pending requests
    std::uint32_t stream = 0;   ///< number of the TCP connection. 0: closed
    device::CmParameters with{};
    std::uint16_t ird = 0, ord = 0;  ///< the peer's values
    bool answered = false;           ///< true: the request was accepted or rejected
    bool established = false, end_reported = false;
  };

  device::Result<std::uint32_t> new_object(const char* call);
  QueuePair* find_qp(std::uint32_t handle);
  Stream* find_stream(std::uint32_t stream);
  Endpoint* endpoint_of(const Stream& stream);
  device::Result<CmId*> find_cm(std::uint32_t cm_id, const char* call);
  /// Return the queue pair for a new connection. Fail if it does not exist, or if it has or had a connection.
  device::Result<QueuePair*> free_qp(const device::CmParameters& with, const char* call);
  [[nodiscard]] std::uint32_t listener_at(std::uint16_t port) const;
  [[nodiscard]] EndpointOptions endpoint_options(const QueuePair& qp, const CmId& cm, std::uint32_t emss) const;
  /// Report the events of an endpoint to the application. `cause`: error number to report if the negotiation fails.
  void drain(std::uint32_t stream, int cause = EPROTO);
  void on_event(std::uint32_t stream, const ConnectionEvent& event, int cause);
  void request(std::uint32_t stream, const ConnectionEvent& event);
  void report(device::CmEvent event);
  void report_disconnect(std::uint32_t cm_id, const std::optional<device::StreamError>& why);
  [[nodiscard]] device::CmPeer peer_of(const ConnectionEvent& event) const;
  /// Abort TCP, unless this side has sent FIN, and remove the endpoint.
  void abandon(std::uint32_t stream);

  AdapterOptions options_;
  Rnic rnic_;
  machines::MpaSettings mpa_;
  std::int64_t now_ = 0;
  Counters counters_;
  std::size_t objects_ = 0;
  std::set<std::uint32_t> pds_;
  std::map<std::uint32_t, std::deque<std::uint32_t>> channels_;  ///< by channel: CQs with an event for get_cq_event()
  std::map<std::uint32_t, std::uint32_t> cqs_;                   ///< by CQ: its completion channel, or 0
  std::map<std::uint32_t, QueuePair> qps_;
  std::map<std::uint32_t, CmId> cm_ids_;
  std::map<std::uint32_t, Stream> streams_;
  std::map<std::uint32_t, device::StreamError> why_;  ///< by stream: error to report in the disconnected event
  std::uint32_t last_stream_ = 0;
  std::uint16_t next_port_ = 49'152;
  std::deque<PendingRequest> pending_requests_;
  std::deque<device::CmEvent> events_;
};

}  // namespace rdmawire::endpoint
