#pragma once
/// Internal: a port of an RDMA device as a wire.

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "replay/wires/departures.hpp"
#include "replay/wires/error.hpp"
#include "replay/wires/verbs.hpp"
#include "replay/wires/verbs_device.hpp"
#include "replay/wires/verbs_queues.hpp"

namespace rdmawire::replay::rdma {

class VerbsWire final : public Wire, public DepartureTimes, public SendRoom {
 public:
  static WireResult<std::unique_ptr<Wire>> open(const VerbsWireOptions& options);
  ~VerbsWire() override { close(); }

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] const WireCapabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] int descriptor() const override { return channel_ ? channel_->fd : -1; }
  [[nodiscard]] WireCounters counters() const override { return counters_; }

  using Wire::send;
  WireResult<std::size_t> send(std::span<const Outgoing> frames) override;
  WireResult<bool> writable(std::int64_t deadline) override;
  WireResult<bool> flush(std::int64_t deadline) override;
  WireResult<std::optional<Received>> receive(std::int64_t deadline) override;
  [[nodiscard]] std::size_t send_room() override;
  [[nodiscard]] const char* departure_source() const override { return stamped_sends_ ? "device" : nullptr; }
  void read_departures(std::vector<Departure>& departures) override;
  void close() override;

 private:
  VerbsWire() = default;
  static constexpr std::size_t batch = 64;
  // Source of receive timestamps.
  enum class Stamp : std::uint8_t { none, ticks, wallclock };

  // verbs.cpp: opening, device events.
  WireResult<void> find(const VerbsWireOptions& options);
  WireResult<void> make_queues(const VerbsWireOptions& options);
  WireResult<void> make_receive_queue(bool hardware_time);
  WireResult<void> make_send_queue(bool stamps);
  /// Creates a CQ with the best available device timestamps. nullptr: there are none.
  ibv_cq_ex* make_stamped_queue(std::uint32_t depth, ibv_comp_channel* channel, Stamp& stamp);
  WireResult<void> start(const VerbsWireOptions& options);
  WireResult<void> limit_rate(const VerbsWireOptions& options);
  WireResult<void> check_events();
  [[nodiscard]] WireError down(ibv_port_state state) const;
  // verbs_flow.cpp
  WireResult<void> take_flow(const VerbsWireOptions& options);
  // verbs_sending.cpp
  WireResult<std::size_t> hand_over(std::span<const Outgoing> frames);
  int post_requests(std::size_t count, std::size_t& taken);
  int post_list(std::size_t count, std::size_t& taken);
  void reap();
  int poll_sent(std::span<ibv_wc> completions);
  template <class Ready>
  WireResult<bool> wait_until(std::int64_t deadline, Ready ready);
  // verbs_receiving.cpp
  WireResult<void> give_buffers();
  int poll_received();
  void arrived(std::uint64_t slot, std::uint32_t bytes, std::int64_t time);
  [[nodiscard]] std::int64_t time_of(Stamp source, std::uint64_t stamp, std::int64_t now);
  static std::uint64_t stamp_in(ibv_cq_ex* queue, Stamp source);

  std::string name_;
  WireCapabilities capabilities_;
  WireCounters counters_;
  Device device_;
  std::uint8_t port_ = 1;

  // Destroyed from the last to the first.
  Slots send_slots_, receive_slots_;
  Domain domain_;
  Region send_region_, receive_region_;
  Channel channel_;
  Queue send_queue_, receive_queue_;
  QueuePair pair_;
  Flow flow_;
  ibv_qp_ex* requests_ = nullptr;
  ibv_cq_ex* stamped_ = nullptr;
  ibv_cq_ex* stamped_sends_ = nullptr;

  // Sending. The work request ID is the number of preceding requests.
  std::uint32_t send_depth_ = 0, signal_every_ = 0, inline_bytes_ = 0, unsignaled_ = 0;
  std::uint64_t posted_ = 0, done_ = 0;
  std::vector<std::uint32_t> lengths_;  // length of the frame in each slot
  std::array<ibv_send_wr, batch> posts_{};
  std::array<ibv_sge, batch> pieces_{};
  std::optional<WireError> failed_;
  std::int64_t events_checked_ = 0;
  Stamp send_stamp_ = Stamp::none;
  std::vector<Departure> departures_;
  bool port_down_ = false;

  // Receiving.
  struct Arrived {
    std::uint64_t slot = 0;
    std::uint32_t bytes = 0;
    std::int64_t time = 0;
  };
  std::array<Arrived, batch> arrived_;
  std::size_t next_ = 0, count_ = 0;
  std::vector<std::uint64_t> free_;  // slots to post
  std::optional<WireError> receive_failed_;
  Stamp stamp_ = Stamp::none;
  std::optional<std::int64_t> device_clock_;  // offset to add to device timestamps
  std::int64_t last_time_ = 0;
};

}  // namespace rdmawire::replay::rdma
