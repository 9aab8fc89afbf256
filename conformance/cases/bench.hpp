#pragma once
/// What a case works with: a conversation over the wire, and queue pairs, memory and completions at the device.

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

namespace rdmawire::conformance {

class Bench;

/// Which of the device's GIDs a queue pair speaks over. A device that lacks it makes the case "unsupported".
enum class Over : std::uint8_t { ipv4, ipv6, vlan, roce_v1 };

/// How a queue pair of the device is made and connected to the tester.
struct ConnectOptions {
  Transport transport = Transport::rc;
  std::uint32_t mtu = 1024;
  std::uint32_t receives = 0;          ///< receive requests that are posted
  std::uint32_t receive_bytes = 1024;  ///< each of them holds
  std::uint64_t region_bytes = 8192;
  peer::Names region_access = {"local_write", "remote_write", "remote_read", "remote_atomic"};
  peer::Names access = {"remote_write", "remote_read", "remote_atomic"};  ///< the queue pair's
  std::uint8_t reads_at_once = 4;  ///< that the device answers: max_dest_rd_atomic
  std::uint8_t own_reads = 4;      ///< that the device may have outstanding: max_rd_atomic
  std::uint8_t timeout = 14, retry_cnt = 7, rnr_retry = 7;
  std::uint8_t min_rnr_timer = 12;
  std::uint32_t send_wr = 32;
  std::uint32_t inline_bytes = 0;
  peer::Names send_ops{};
  std::uint32_t send_sge = 1;
  std::uint32_t completions = 256;  ///< that its queue holds
  /// In place of one of its own.
  const peer::CompletionQueue* shared_cq = nullptr;
  bool shared_receives = false;     ///< a shared receive queue takes the receive requests
  bool xrc_target = false;          ///< of XRC: it receives, by a shared receive queue of its own; else it sends
  std::size_t xrc_domain = 0;       ///< of a target; by number
  std::uint32_t qkey = 0x11111111;  ///< of UD
  std::string state = "rts";        ///< where it is left: "reset", "init", "rtr" or "rts"
  std::uint8_t hop_limit = 64, traffic_class = 0, service_level = 0;
  Over over = Over::ipv4;
  bool notifies = false;         ///< the completion queue can be asked for notifications
  std::int64_t first_psn = -1;   ///< of the tester; -1: by chance
  std::int64_t device_psn = -1;  ///< of the device; likewise
};

/// A message of the device: bytes of the region from `offset` on.
struct Message {
  std::uint32_t length = 8;
  std::uint64_t offset = 0;
  peer::Names flags = {"signaled"};
};
/// What the device's requests say of the tester's memory. Nothing looks at it but the tester.
inline constexpr std::uint64_t tester_memory = 0x10000;
inline constexpr std::uint32_t tester_rkey = 0x4321;
/// The tester's shared receive queue that the device's requests of XRC name.
inline constexpr std::uint32_t tester_srq = 0x5a1c3;

/// A queue pair of the device, in RTS unless its options say otherwise, and the tester's end of it.
struct Connected : TesterQueuePair, DeviceQueuePair {
  Connected(Bench& at, const ConnectOptions& how);

  ConnectOptions options;

  /// Of a request into the region.
  [[nodiscard]] Operands at(std::uint64_t offset, std::uint32_t length = 0, std::string payload = {}) const {
    return {.payload = std::move(payload), .va = region.addr() + offset, .rkey = region.rkey(), .length = length};
  }
  /// Posts a send request at the device, or ends the case; one of XRC goes to the tester's shared receive queue.
  void post(peer::SendRequest request);

  /// What the device is to send: its requests to the tester, which is the responder.
  void device_sends(std::uint64_t wr_id, Message message = {});
  void device_writes(std::uint64_t wr_id, Message message = {});
  /// READs into the region.
  void device_reads(std::uint64_t wr_id, Message message = {});
  /// Fetches and adds 5; what was there comes to the region.
  void device_adds(std::uint64_t wr_id, Message message = {});

  /// For a request of UD to the tester.
  [[nodiscard]] peer::AddressHandle address_handle_of_tester() const;

  /// Attributes for modify_qp with which it goes to that state in the usual order: RESET, INIT, RTR, RTS.
  [[nodiscard]] nlohmann::json attributes_to(const std::string& state) const;
  /// Modifies exactly these.
  [[nodiscard]] peer::PeerResult<void> try_to_modify(const nlohmann::json& attributes) const;
  /// The same, or the case ends.
  void modify(const nlohmann::json& attributes);
  /// In the usual order from RESET up to that state.
  void bring_to(const std::string& state);

  /// It may fail, or be asked for again on the wire, and that it must within some time; but it does not succeed.
  void fails_or_is_asked_again(std::uint64_t wr_id);
  /// Sends a frame that must be dropped, on a fresh queue pair: silence. Then a SEND Only with PSN +0 is executed as if
  /// nothing had come before.
  void drops(const Stimulus& bad);
  /// Sends a SEND Only with PSN +0 that must be accepted, on a fresh queue pair: it is executed.
  void accepts(const Stimulus& good, const std::string& payload);
  /// What a class C error makes of a queue pair: that NAK, then the error state.
  void refuses(const Expectation& nak);

 private:
  /// By the attributes with which it goes to RTR; those of RTS as the options have them.
  [[nodiscard]] Pairing pairing(const nlohmann::json& attributes) const;

  Bench* bench_;
};

class Bench : public Conversation, public DeviceBench {
 public:
  Bench(DeviceUnderTest& device, std::uint64_t seed)
      : Conversation(*device.wire, device.patience), DeviceBench(*this, device, seed) {}
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
  /// XRC: the device's end receives, or sends.
  Connected& xrc_target(ConnectOptions options = {}) {
    options.transport = Transport::xrc;
    options.xrc_target = true;
    return connect(options);
  }
  Connected& xrc_initiator(ConnectOptions options = {}) {
    options.transport = Transport::xrc;
    return connect(options);
  }
  /// An XRC domain, by number; or the case ends "unsupported".
  const peer::XrcDomain& xrc_domain(std::size_t number = 0);
  /// For a request into any region.
  static Operands of(const peer::Region& region, std::uint64_t offset, std::uint32_t length = 0,
                     std::string payload = {}) {
    return {.payload = std::move(payload), .va = region.addr() + offset, .rkey = region.rkey(), .length = length};
  }
  /// A window of type 2 onto a piece of the queue pair's region, bound through the queue pair; gives its R_Key.
  std::uint32_t bound_window(Connected& through, std::uint64_t offset, std::uint64_t length, const peer::Names& access);
  /// The way to the device, or the case ends "unsupported".
  [[nodiscard]] Way way(Over over);

  /// The device's congestion management is on, or off, as is asked: switched where the tester can, else as somebody
  /// said. The case ends "unsupported" where it is known to be the other way. False: nobody knows.
  bool congestion_management(bool on);

 private:
  void make_receive_queue(Connected& of);
  void make_queue_pair(Connected& made);

  std::deque<peer::XrcDomain> xrc_domains_;
  std::deque<peer::CompletionChannel> channels_;
  std::deque<Connected> connected_;
  bool switched_ = false;            // congestion management, to what it usually is not
  std::deque<BoundWindow> windows_;  // go first: before the queue pairs and regions that they are bound to
};

}  // namespace rdmawire::conformance
