#pragma once
/// The RoCE reference device, which runs in the process of its caller. The caller makes verbs calls, and passes frames
/// and the time. Random numbers come from a seed, so that runs are reproducible.
///
///     Device device(options);
///     const auto pd = device.alloc_pd();
///     ...
///     replay::EmbeddedWire wire(device);   // frames in and out, in virtual time

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conformance/device/roce/blind/blind_faults.hpp"
#include "conformance/device/roce/core.hpp"
#include "conformance/device/roce/verbs.hpp"
#include "replay/wires/simulated_host.hpp"

namespace rdmawire::device {

/// All handles are unique. Common errors: ENOENT for an unknown handle, EINVAL for an invalid call, ENOMEM if a limit
/// of the device is reached, EBUSY for an object in use.
class Device final : public replay::SimulatedHost, public Verbs {
 public:
  explicit Device(DeviceOptions options = {});

  // Network side.
  void arrived(Bytes frame, std::int64_t time, replay::SimulatedHostOutput& output) override;
  [[nodiscard]] std::int64_t wakes() const override;
  void woken(std::int64_t time, replay::SimulatedHostOutput& output) override;

  [[nodiscard]] const Faults& faults() const { return core_.faults; }
  /// Replace the injected faults. They have an effect from the next event.
  void set_faults(const Faults& faults);
  /// Inject exactly these blind faults, in addition to set_faults(). Pointers into blind_faults().
  void set_blind_faults(std::vector<const RoceBlindFault*> faults);
  [[nodiscard]] const std::vector<const RoceBlindFault*>& blind_faults() const { return blind_faults_; }
  [[nodiscard]] Counters counters() const;
  /// Return the name of the type of a GID, as it is reported to the application.
  [[nodiscard]] std::string_view gid_type(const GidEntry& entry) const;
  [[nodiscard]] std::vector<std::uint16_t> pkeys() const;
  /// Enable or disable XRC (A14) or congestion management (A17.9), which are optional.
  void set_xrc(bool on) { core_.options.xrc = on; }
  void set_congestion_control(bool on) { core_.options.congestion_control = on; }
  /// Set the start values of the counters.
  void set_counters(const Counters& counters) { core_.counters = counters; }
  [[nodiscard]] Port& port() { return core_.port; }
  [[nodiscard]] const DeviceOptions& options() const { return core_.options; }
  [[nodiscard]] std::int64_t now() const override { return core_.now; }

  // Application memory.
  Result<std::uint64_t> alloc(std::uint64_t bytes) override { return core_.memory.allocate(bytes); }
  Result<void> free(std::uint64_t address) override;
  /// Return the bytes. Empty: some of them do not exist.
  [[nodiscard]] MutableBytes memory(std::uint64_t address, std::uint64_t bytes) override {
    return core_.memory.at(address, bytes);
  }

  // Protection domains, regions, windows.
  Result<std::uint32_t> alloc_pd() override;
  Result<void> dealloc_pd(std::uint32_t pd) override;
  Result<const Region*> reg_mr(std::uint32_t pd, std::uint64_t address, std::uint64_t bytes, std::uint32_t rights,
                               std::optional<std::uint64_t> iova = {}) override;
  /// Allocate a region for fast registration by a work request.
  Result<const Region*> alloc_mr(std::uint32_t pd, std::uint64_t max_bytes) override;
  Result<void> dereg_mr(std::uint32_t mr) override;
  Result<const Window*> alloc_mw(std::uint32_t pd, std::uint8_t type) override;
  Result<void> dealloc_mw(std::uint32_t mw) override;
  [[nodiscard]] const Region* region(std::uint32_t mr) override { return core_.memory.region(mr); }
  [[nodiscard]] const Window* window(std::uint32_t mw) override { return core_.memory.window(mw); }

  // Completion queues.
  Result<std::uint32_t> create_channel() override;
  Result<void> destroy_channel(std::uint32_t channel) override;
  Result<std::uint32_t> create_cq(std::uint32_t capacity, std::uint32_t channel = 0) override;
  Result<void> destroy_cq(std::uint32_t cq) override;
  Result<std::vector<Completion>> poll_cq(std::uint32_t cq, std::size_t most) override;
  Result<void> req_notify_cq(std::uint32_t cq, bool solicited_only) override;
  /// Return and remove the next notified completion queue, if any.
  Result<std::optional<std::uint32_t>> get_cq_event(std::uint32_t channel) override;
  std::optional<AsyncEvent> get_async_event() override;

  // Shared receive queues, XRC domains, address handles, groups.
  Result<std::uint32_t> open_xrcd();
  Result<void> close_xrcd(std::uint32_t xrcd);
  /// Create an SRQ. `xrcd` not 0: an XRC SRQ, whose completions are added to `cq`.
  Result<std::uint32_t> create_srq(std::uint32_t pd, std::uint32_t capacity, std::uint32_t most_sges,
                                   std::uint32_t limit = 0, std::uint32_t xrcd = 0, std::uint32_t cq = 0);
  Result<void> modify_srq(std::uint32_t srq, std::uint32_t limit);
  Result<void> destroy_srq(std::uint32_t srq);
  Result<void> post_srq_recv(std::uint32_t srq, ReceiveRequest request);
  [[nodiscard]] const SharedReceiveQueue* srq(std::uint32_t srq) { return core_.srq(srq); }
  Result<std::uint32_t> create_ah(std::uint32_t pd, const AddressVector& path);
  Result<void> destroy_ah(std::uint32_t ah);

  // Queue pairs.
  Result<std::uint32_t> create_qp(const QueuePairOptions& options);
  Result<void> modify_qp(std::uint32_t qp, const QueuePairChange& change);
  Result<void> destroy_qp(std::uint32_t qp) override;
  Result<void> post_send(std::uint32_t qp, SendRequest request) override;
  Result<void> post_recv(std::uint32_t qp, ReceiveRequest request) override;
  /// Post a bind of a type 1 window. Returns the new key.
  Result<std::uint32_t> bind_mw(std::uint32_t qp, SendRequest request) override;
  Result<void> attach_mcast(std::uint32_t qp, const Gid& group);
  Result<void> detach_mcast(std::uint32_t qp, const Gid& group);

  // Connections through the communication manager. Each listener and connection has a handle.
  Result<Listening> cm_listen(const CmEndpoint& at, std::uint32_t backlog) override;
  Result<std::uint32_t> cm_connect(const CmEndpoint& to, const Gid& source, CmParameters with) override;
  Result<void> cm_accept(std::uint32_t cm_id, CmParameters with) override;
  Result<void> cm_establish(std::uint32_t cm_id) override;
  Result<void> cm_reject(std::uint32_t cm_id, Bytes private_data) override;
  Result<void> cm_disconnect(std::uint32_t cm_id) override;
  Result<void> cm_destroy(std::uint32_t cm_id) override;
  /// Return and remove the next CM event. Connection requests beyond the object limit are rejected and not reported.
  std::optional<CmEvent> get_cm_event() override;
  [[nodiscard]] const CmService& connections() const { return core_.cm; }

  /// Return a handle that no object has or will have.
  std::uint32_t reserve_handle() override { return ++last_handle_; }
  /// Destroy all objects, including objects in use. Addresses, counters and faults are kept.
  void forget_everything() override;
  /// Return a queue pair by handle. nullptr: it does not exist.
  [[nodiscard]] const QueuePair* qp(std::uint32_t qp) const;

 private:
  void update_decisions();
  Result<std::uint32_t> new_object(const char* call);
  Result<CmConnection*> find_cm(std::uint32_t cm_id, const char* call);
  Result<CmParameters> with_queue_pair(CmParameters with, const char* call);
  Result<QueuePair*> find_qp(std::uint32_t qp, const char* call);
  std::uint32_t new_qpn();
  void send_out(replay::SimulatedHostOutput& output);

  Core core_;
  std::vector<const RoceBlindFault*> blind_faults_;
  std::map<std::uint32_t, std::uint32_t> qpns_;  ///< QP numbers by handle
  std::uint32_t last_handle_ = 0;
  std::size_t objects_ = 0;
};

}  // namespace rdmawire::device
