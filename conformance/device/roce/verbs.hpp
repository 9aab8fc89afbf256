#pragma once
/// Verbs interface of the reference devices, independent of their transport.

#include <cstdint>
#include <optional>
#include <vector>

#include "conformance/device/roce/cm.hpp"
#include "conformance/device/roce/memory.hpp"
#include "conformance/device/roce/work_request.hpp"

namespace rdmawire::device {

/// A listener of the CM.
struct Listening {
  std::uint32_t cm_id;
  std::uint16_t port;
};

/// All handles are unique. Common errors: ENOENT for an unknown handle, EINVAL for an invalid call, ENOMEM if a limit
/// of the device is reached, EBUSY for an object in use.
class Verbs {
 public:
  Verbs() = default;
  Verbs(const Verbs&) = delete;
  Verbs& operator=(const Verbs&) = delete;
  virtual ~Verbs() = default;

  /// Return the virtual time in nanoseconds.
  [[nodiscard]] virtual std::int64_t now() const = 0;
  /// Return a handle that no object has or will have.
  virtual std::uint32_t reserve_handle() = 0;
  /// Destroy all objects, including objects in use.
  virtual void forget_everything() = 0;

  // Application memory, protection domains, regions, windows.
  virtual Result<std::uint64_t> alloc(std::uint64_t bytes) = 0;
  virtual Result<void> free(std::uint64_t address) = 0;
  /// Return the bytes. Empty: some of them do not exist.
  [[nodiscard]] virtual MutableBytes memory(std::uint64_t address, std::uint64_t bytes) = 0;
  virtual Result<std::uint32_t> alloc_pd() = 0;
  virtual Result<void> dealloc_pd(std::uint32_t pd) = 0;
  virtual Result<const Region*> reg_mr(std::uint32_t pd, std::uint64_t address, std::uint64_t bytes,
                                       std::uint32_t rights, std::optional<std::uint64_t> iova) = 0;
  /// Allocate a region for fast registration by a work request.
  virtual Result<const Region*> alloc_mr(std::uint32_t pd, std::uint64_t max_bytes) = 0;
  virtual Result<void> dereg_mr(std::uint32_t mr) = 0;
  virtual Result<const Window*> alloc_mw(std::uint32_t pd, std::uint8_t type) = 0;
  virtual Result<void> dealloc_mw(std::uint32_t mw) = 0;
  /// Return a region by handle. nullptr: it does not exist.
  [[nodiscard]] virtual const Region* region(std::uint32_t mr) = 0;
  [[nodiscard]] virtual const Window* window(std::uint32_t mw) = 0;

  // Completion queues and events.
  virtual Result<std::uint32_t> create_channel() = 0;
  virtual Result<void> destroy_channel(std::uint32_t channel) = 0;
  /// `channel` 0: none.
  virtual Result<std::uint32_t> create_cq(std::uint32_t capacity, std::uint32_t channel) = 0;
  virtual Result<void> destroy_cq(std::uint32_t cq) = 0;
  virtual Result<std::vector<Completion>> poll_cq(std::uint32_t cq, std::size_t most) = 0;
  virtual Result<void> req_notify_cq(std::uint32_t cq, bool solicited_only) = 0;
  /// Return and remove the next notified completion queue, if any.
  virtual Result<std::optional<std::uint32_t>> get_cq_event(std::uint32_t channel) = 0;
  virtual std::optional<AsyncEvent> get_async_event() = 0;

  // Queue pairs.
  virtual Result<void> destroy_qp(std::uint32_t qp) = 0;
  virtual Result<void> post_send(std::uint32_t qp, SendRequest request) = 0;
  virtual Result<void> post_recv(std::uint32_t qp, ReceiveRequest request) = 0;
  /// Post a bind of a type 1 window. Returns the new key.
  virtual Result<std::uint32_t> bind_mw(std::uint32_t qp, SendRequest request) = 0;

  // Connections through the communication manager. Each listener and connection has a handle.
  virtual Result<Listening> cm_listen(const CmEndpoint& at, std::uint32_t backlog) = 0;
  virtual Result<std::uint32_t> cm_connect(const CmEndpoint& to, const Gid& source, CmParameters with) = 0;
  virtual Result<void> cm_accept(std::uint32_t cm_id, CmParameters with) = 0;
  virtual Result<void> cm_establish(std::uint32_t cm_id) = 0;
  virtual Result<void> cm_reject(std::uint32_t cm_id, Bytes private_data) = 0;
  virtual Result<void> cm_disconnect(std::uint32_t cm_id) = 0;
  virtual Result<void> cm_destroy(std::uint32_t cm_id) = 0;
  /// Return and remove the next event. Connection requests beyond the object limit are rejected and not reported.
  virtual std::optional<CmEvent> get_cm_event() = 0;
};

}  // namespace rdmawire::device
