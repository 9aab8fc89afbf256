#pragma once
/// The environment of a RoCE case: an exchange of frames over the wire, and QPs, memory and completions at the device.

#include <chrono>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "conformance/cases/conversation.hpp"
#include "conformance/cases/device_bench.hpp"
#include "conformance/cases/device_under_test.hpp"
#include "conformance/cases/environment.hpp"

namespace rdmawire::conformance {

class Bench;

/// The GID that a queue pair uses. If the device lacks it, the case is "unsupported".
enum class Over : std::uint8_t { ipv4, ipv6, vlan, roce_v1 };

/// Options for creating a QP of the device and connecting it to the tester. Those of type Option, and PSNs of -1, have
/// the values of the environment unless the case sets them.
struct ConnectOptions {
  Transport transport = Transport::rc;
  Option<std::uint32_t> mtu = Option<std::uint32_t>::usual(1024);
  std::uint32_t receives = 0;          ///< number of posted receive requests
  std::uint32_t receive_bytes = 1024;  ///< size of each
  std::uint64_t region_bytes = 8192;
  peer::Names region_access = {"local_write", "remote_write", "remote_read", "remote_atomic"};
  peer::Names access = {"remote_write", "remote_read", "remote_atomic"};  ///< access rights of the QP
  Option<std::uint8_t> reads_at_once = Option<std::uint8_t>::usual(4);    ///< max_dest_rd_atomic of the device
  Option<std::uint8_t> own_reads = Option<std::uint8_t>::usual(4);        ///< max_rd_atomic of the device
  std::uint8_t timeout = 14, retry_cnt = 7, rnr_retry = 7;
  std::uint8_t min_rnr_timer = 12;
  Option<std::uint32_t> send_wr = Option<std::uint32_t>::usual(32);
  std::uint32_t inline_bytes = 0;
  peer::Names send_ops{};
  Option<std::uint32_t> send_sge = Option<std::uint32_t>::usual(1);
  std::uint32_t completions = 256;  ///< size of the completion queue
  /// Replaces the QP's own completion queue.
  const peer::CompletionQueue* shared_cq = nullptr;
  bool shared_receives = false;     ///< post receive requests to a shared receive queue
  bool xrc_target = false;          ///< XRC: a target with a shared receive queue of its own. Otherwise an initiator
  std::size_t xrc_domain = 0;       ///< number of the XRC domain of a target
  std::uint32_t qkey = 0x11111111;  ///< UD only
  std::string state = "rts";        ///< final state: "reset", "init", "rtr" or "rts"
  std::uint8_t hop_limit = 64;
  Option<std::uint8_t> traffic_class = Option<std::uint8_t>::usual(0);
  std::uint8_t service_level = 0;
  Option<Over> over = Option<Over>::usual(Over::ipv4);
  bool notifies = false;         ///< enable notifications of the completion queue
  std::int64_t first_psn = -1;   ///< first PSN of the tester (-1: random)
  std::int64_t device_psn = -1;  ///< first PSN of the device (-1: random)
};

/// A message of the device: bytes of the region from `offset`.
struct Message {
  std::uint32_t length = 8;
  std::uint64_t offset = 0;
  peer::Names flags = {"signaled"};
};
/// Address of the tester's memory in requests of the device.
inline constexpr std::uint64_t tester_memory = 0x10000;
inline constexpr std::uint32_t tester_rkey = 0x4321;
/// Number of the tester's shared receive queue in XRC requests of the device.
inline constexpr std::uint32_t tester_srq = 0x5a1c3;

/// A QP of the device, in RTS unless its options specify another state, and the tester's endpoint.
struct Connected : TesterQueuePair, DeviceQueuePair {
  Connected(Bench& at, const ConnectOptions& how);

  ConnectOptions options;

  /// Operands of a request into the region.
  [[nodiscard]] Operands at(std::uint64_t offset, std::uint32_t length = 0, std::string payload = {}) const {
    return {.payload = std::move(payload), .va = region.addr() + offset, .rkey = region.rkey(), .length = length};
  }
  /// Posts a send request at the device, or ends the case. An XRC request goes to the tester's shared receive queue.
  void post(peer::SendRequest request);

  /// Posts a request of the device. The tester is the responder.
  void device_sends(std::uint64_t wr_id, Message message = {});
  void device_writes(std::uint64_t wr_id, Message message = {});
  /// Posts a READ into the region.
  void device_reads(std::uint64_t wr_id, Message message = {});
  /// Posts a FetchAdd of 5. The original value is written to the region.
  void device_adds(std::uint64_t wr_id, Message message = {});

  /// Address handle for UD requests to the tester.
  [[nodiscard]] peer::AddressHandle address_handle_of_tester() const;

  /// Attributes of modify_qp for the transition to this state in the order RESET, INIT, RTR, RTS.
  [[nodiscard]] nlohmann::json attributes_to(const std::string& state) const;
  /// Modifies exactly these attributes.
  [[nodiscard]] peer::PeerResult<void> try_to_modify(const nlohmann::json& attributes);
  /// Modifies exactly these attributes, or ends the case.
  void modify(const nlohmann::json& attributes);
  /// Moves the QP from RESET to this state in the usual order.
  void bring_to(const std::string& state);

  /// The request must fail or be retried within some time, and must not succeed.
  void fails_or_is_asked_again(std::uint64_t wr_id);
  /// Sends a frame that must be dropped, on a new QP, and checks that there is no response and that a SEND Only with
  /// PSN +0 is then executed.
  void drops(const Stimulus& bad);
  /// Sends `good`, a SEND Only with PSN +0, on a new QP, and checks that it is executed.
  void accepts(const Stimulus& good, const std::string& payload);
  /// Checks the reaction to a class C error: this NAK, then the Error state.
  void refuses(const Expectation& nak);

 private:
  /// Derived from the attributes for RTR. Those for RTS are taken from the options.
  [[nodiscard]] Pairing pairing(const nlohmann::json& attributes) const;

  Bench* bench_;
};

class Bench : public Conversation, public DeviceBench {
 public:
  /// `environment`: must outlive this object.
  Bench(DeviceUnderTest& device, std::uint64_t seed, Environment& environment)
      : Conversation(*device.wire, device.patience, FrameCheck(device.paths()), device.tester_qpns),
        DeviceBench(*this, device, seed, environment) {}
  /// Uses the default environment.
  Bench(DeviceUnderTest& device, std::uint64_t seed)
      : Conversation(*device.wire, device.patience, FrameCheck(device.paths()), device.tester_qpns),
        DeviceBench(*this, device, seed) {}
  ~Bench();
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  Connected& connect(const ConnectOptions& options);
  Connected& rc(ConnectOptions options = {}) { return connect(options); }
  Connected& uc(ConnectOptions options = {}) {
    options.transport = Transport::uc;
    return connect(options);
  }

  Connected& ud(ConnectOptions options = {}) {
    options.transport = Transport::ud;
    return connect(options);
  }
  /// XRC: the device has the target, or the initiator.
  Connected& xrc_target(ConnectOptions options = {}) {
    options.transport = Transport::xrc;
    options.xrc_target = true;
    return connect(options);
  }
  Connected& xrc_initiator(ConnectOptions options = {}) {
    options.transport = Transport::xrc;
    return connect(options);
  }
  /// Returns an XRC domain by number, or ends the case as "unsupported".
  const peer::XrcDomain& xrc_domain(std::size_t number = 0);
  /// Operands of a request into any region.
  static Operands of(const peer::Region& region, std::uint64_t offset, std::uint32_t length = 0,
                     std::string payload = {}) {
    return {.payload = std::move(payload), .va = region.addr() + offset, .rkey = region.rkey(), .length = length};
  }
  /// Binds a type 2 window to a part of the QP's region through the QP. Returns its R_Key.
  std::uint32_t bound_window(Connected& through, std::uint64_t offset, std::uint64_t length, const peer::Names& access);
  /// Returns the path to the device, or ends the case as "unsupported".
  [[nodiscard]] Way way(Over over);

  /// Checks after the steps of a case that the busy other connections of the environment still transfer messages.
  void finish();
  /// The device resets the queue pair: its MSNs start at zero again.
  void restart(Connected& qp);

  /// Requires congestion management to be on or off. Switches it if the tester can. Otherwise compares with the user's
  /// option. Ends the case as "unsupported" on a mismatch. Returns false if the state is unknown.
  bool congestion_management(bool on);
  /// Requires that the device refuses to create an XRC domain. Switches XRC off first if the device supports it. Ends
  /// the case as "unsupported" if XRC cannot be switched off.
  void without_xrc();

 private:
  friend class HistoryTraffic;

  /// Sets the options that the case leaves to the environment.
  void resolve(ConnectOptions& options);
  Connected& make(const ConnectOptions& options);
  /// Determines the first PSNs, so that after `history` the case begins at the PSNs of the environment.
  void set_first_psns(Connected& made, std::size_t history);
  void make_receive_queue(Connected& of);
  void make_queue_pair(Connected& made);
  /// Creates the other connections of the environment before the first connection of the case.
  void make_others();
  /// Each busy other connection transfers one message in each direction.
  void others_transfer();

  std::deque<peer::XrcDomain> xrc_domains_;
  std::deque<peer::CompletionChannel> channels_;
  std::deque<peer::Region> history_memory_;  // of work requests before the case
  std::deque<Connected> connected_;
  std::vector<Connected*> others_;
  std::int32_t transferred_ = 0;  // messages of each of the others in each direction
  bool others_made_ = false, others_busy_ = false;
  bool switched_ = false;  // congestion management differs from its default
  bool xrc_off_ = false;
  std::deque<BoundWindow> windows_;  // released before the QPs and regions that they are bound to
};

}  // namespace rdmawire::conformance
