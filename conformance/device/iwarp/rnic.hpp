#pragma once
/// State shared by the endpoints of one RNIC: protection domains, memory, completion queues, events.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "conformance/device/iwarp/blind/blind_faults.hpp"
#include "conformance/device/iwarp/decisions.hpp"
#include "conformance/device/iwarp/faults.hpp"
#include "conformance/device/roce/completion_queue.hpp"
#include "conformance/device/roce/memory.hpp"

namespace rdmawire::endpoint {

struct RnicOptions {
  std::uint64_t seed = 1;  ///< seed of the random keys and request identifiers
  bool extensions = true;  ///< RFC 7306: immediate data and atomics
};

class Rnic {
 public:
  explicit Rnic(RnicOptions options = {}) : options_(options), random_(options.seed) {}
  Rnic(const Rnic&) = delete;
  Rnic& operator=(const Rnic&) = delete;

  [[nodiscard]] const RnicOptions& options() const { return options_; }
  /// Enable or disable RFC 7306 for new endpoints.
  void set_extensions(bool on) { options_.extensions = on; }
  [[nodiscard]] device::Memory& memory() { return memory_; }
  [[nodiscard]] const Faults& faults() const { return faults_; }
  /// Return the decisions, with the overrides of the enabled faults.
  [[nodiscard]] const Decisions& decisions() const { return decisions_; }
  /// Enable a fault for all following operations.
  void set_fault(Fault fault);
  /// Inject exactly these blind faults, in addition to set_fault(). Pointers into blind_faults().
  void set_blind_faults(std::vector<const IwarpBlindFault*> faults);
  [[nodiscard]] const std::vector<const IwarpBlindFault*>& blind_faults() const { return blind_faults_; }
  /// Disable all faults.
  void clear_faults();

  std::uint32_t alloc_pd() { return next_handle_++; }
  std::uint32_t new_handle() { return next_handle_++; }
  /// Register application memory with the rights of device::access. Its key is both lkey and STag. Errors: as in
  /// Memory.
  device::Result<device::Region*> register_region(std::uint32_t pd, std::uint64_t address, std::uint64_t bytes,
                                                  std::uint32_t rights);

  std::uint32_t create_cq(std::uint32_t capacity);
  /// Destroy the queue with its entries. Later completions for it are lost.
  void destroy_cq(std::uint32_t cq) { cqs_.erase(cq); }
  /// Destroy memory, completion queues and events. Faults and the sequence of handles are kept.
  void forget_everything();
  [[nodiscard]] std::vector<device::Completion> poll(std::uint32_t cq, std::size_t most = SIZE_MAX);
  /// Request a notification of the next completion, or of the next solicited or failed completion.
  void arm(std::uint32_t cq, bool solicited_only);
  /// Return and remove the next completion queue with a notification. There is one notification for each arm().
  std::optional<std::uint32_t> next_notification();
  std::optional<device::AsyncEvent> next_event();

  // For endpoints
  /// Add a completion. Return false if the completion is lost, because the queue is full or has overflowed.
  bool complete(std::uint32_t cq, const device::Completion& completion, bool solicited);
  void raise_event(device::EventType type, std::uint32_t object);
  /// Make all streams of the RNIC fail.
  void fail_streams() { failed_ = true; }
  [[nodiscard]] bool has_failed() const { return failed_; }
  device::Random& random() { return random_; }

  static constexpr std::size_t most_events = 4096;

 private:
  void update_decisions();

  RnicOptions options_;
  device::Random random_;
  Faults faults_;
  std::vector<const IwarpBlindFault*> blind_faults_;
  Decisions decisions_;
  device::MemoryDecisions memory_decisions_;
  device::Memory memory_{random_, memory_decisions_};
  std::map<std::uint32_t, device::CompletionQueue> cqs_;
  std::deque<std::uint32_t> notifications_;
  std::deque<device::AsyncEvent> events_;
  std::uint32_t next_handle_ = 1;
  bool failed_ = false;
};

}  // namespace rdmawire::endpoint
