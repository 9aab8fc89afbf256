#pragma once
/// Queue pairs of an agent, what they need, and their work.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "replay/peer/verbs.hpp"

namespace rdmawire::peer {

/// A request of the send queue. Members that its opcode does not have are not sent.
struct SendRequest {
  std::string opcode = "send";  ///< "write", "write_imm", "send", "send_imm", "send_inv", "read", "compare_swap", …
  std::uint64_t wr_id = 0;
  std::vector<Piece> sges = {};
  std::uint64_t remote_addr = 0;  ///< of writes, reads and atomics
  std::uint32_t rkey = 0;         ///< likewise
  std::uint32_t imm = 0;
  std::uint32_t invalidate_rkey = 0;
  std::uint64_t compare = 0, swap = 0, add = 0;
  Names flags = {"signaled"};  ///< "signaled", "solicited", "fence", "inline"
  // With UD:
  const AddressHandle* ah = nullptr;
  std::uint32_t remote_qpn = 0, remote_qkey = 0;
  std::optional<std::uint32_t> remote_srqn = {};  ///< with XRC
  nlohmann::json more = {};  ///< an object: members as docs/agent.md has them, which go before these
};

struct ReceiveRequest {
  std::uint64_t wr_id = 0;
  std::vector<Piece> sges = {};
};

struct QueuePairOptions {
  std::string type = "rc";  ///< "rc", "uc", "ud", "xrc_send"; for "xrc_recv" see receiving_xrc()
  const CompletionQueue* send_cq = nullptr;
  const CompletionQueue* recv_cq = nullptr;  ///< nullptr: send_cq
  const SharedReceiveQueue* srq = nullptr;
  std::uint32_t max_send_wr = 16, max_recv_wr = 16, max_send_sge = 1, max_recv_sge = 1, max_inline_data = 0;
  bool sq_sig_all = false;
  Names send_ops = {};  ///< opcodes that need the ibv_wr_ calls: "flush", "atomic_write"
};

/// Where a queue pair of RC, UC or XRC is to be connected to, and how it behaves.
struct Connection {
  std::uint32_t qp_num = 0;   ///< of the other end
  std::string address = {};   ///< of the other end, IPv4 or IPv6; or a GID as text
  std::uint32_t psn = 0;      ///< with which the other end begins: the first that we expect
  std::uint32_t own_psn = 0;  ///< with which we begin
  std::uint32_t mtu = 1024;   ///< bytes
  std::uint8_t timeout = 14;  ///< 4.096 µs times two to the power of it; 0: never. IBTA vol 1, 9.7.6.1.3
  std::uint8_t retry_cnt = 7, rnr_retry = 7;
  std::uint8_t min_rnr_timer = 12;                         ///< code of 0.64 ms; IBTA vol 1, 9.7.5.2.8
  std::uint8_t max_rd_atomic = 1, max_dest_rd_atomic = 1;  ///< READs and atomics at a time: our own, the other's
  Names access = {"remote_write", "remote_read", "remote_atomic"};
  std::optional<std::uint32_t> sgid_index = {};  ///< else that of Device::gid()
  std::uint8_t hop_limit = 64, traffic_class = 0;
  std::uint32_t flow_label = 0;
  std::uint16_t dlid = 0;  ///< on InfiniBand
  std::uint8_t sl = 0;
};

struct SharedReceiveQueueOptions {
  std::uint32_t max_wr = 16, max_sge = 1, limit = 0;
  const XrcDomain* xrcd = nullptr;  ///< with it, a queue for XRC; then cq is needed, too
  const CompletionQueue* cq = nullptr;
};

class AddressHandle : public Handle {
  friend class ProtectionDomain;
  using Handle::Handle;
};

class SharedReceiveQueue : public Handle {
 public:
  /// For senders of XRC; 0: it is none of XRC's.
  [[nodiscard]] std::uint32_t number() const { return number_; }
  [[nodiscard]] PeerResult<void> post_recv(const std::vector<ReceiveRequest>& requests) const;

 private:
  friend class ProtectionDomain;
  using Handle::Handle;
  std::uint32_t number_ = 0;
};

class QueuePair : public Handle {
 public:
  [[nodiscard]] std::uint32_t qp_num() const { return qp_num_; }
  [[nodiscard]] const std::string& type() const { return type_; }

  /// From RESET over INIT and RTR to RTS. Receive requests can be posted before, after to_init().
  [[nodiscard]] PeerResult<void> connect(const Connection& connection) const;
  /// RESET to INIT.
  [[nodiscard]] PeerResult<void> to_init(const Names& access = {"remote_write", "remote_read", "remote_atomic"}) const;
  /// A queue pair of UD from RESET to RTS.
  [[nodiscard]] PeerResult<void> ready(std::uint32_t qkey, std::uint32_t own_psn = 0) const;
  /// Exactly these attributes, as `modify_qp` has them: {"state", "err"}.
  [[nodiscard]] PeerResult<void> modify(nlohmann::json attributes) const;
  /// "reset", "init", "rtr", "rts", "sqd", "sqe", "err": as the device says.
  [[nodiscard]] PeerResult<std::string> state() const;
  /// Every attribute, as `query_qp` gives them.
  [[nodiscard]] PeerResult<nlohmann::json> query() const;

  /// When one is refused, those before it were posted; the message says which.
  [[nodiscard]] PeerResult<void> post_send(const std::vector<SendRequest>& requests) const;
  [[nodiscard]] PeerResult<void> post_recv(const std::vector<ReceiveRequest>& requests) const;

 private:
  friend class ProtectionDomain;
  using Handle::Handle;
  std::uint32_t qp_num_ = 0;
  std::string type_;
  std::uint32_t sgid_index_ = 0;
  std::uint8_t port_ = 1;
};

class ProtectionDomain : public Handle {
 public:
  /// All zeros. `access`: "local_write", "remote_write", "remote_read", "remote_atomic", "mw_bind", …
  [[nodiscard]] PeerResult<Region> region(std::uint64_t length, const Names& access = {"local_write"}) const;
  [[nodiscard]] PeerResult<MemoryWindow> memory_window(int type = 1) const;
  [[nodiscard]] PeerResult<QueuePair> queue_pair(const QueuePairOptions& options) const;
  /// The receiving end of XRC. It has no completion queues and no protection domain of its own: those of the SRQs.
  [[nodiscard]] PeerResult<QueuePair> receiving_xrc(const XrcDomain& domain) const;
  [[nodiscard]] PeerResult<SharedReceiveQueue> shared_receive_queue(
      const SharedReceiveQueueOptions& options = {}) const;
  /// `address`: IPv4, IPv6, or a GID as text.
  [[nodiscard]] PeerResult<AddressHandle> address_handle(const std::string& address,
                                                         std::optional<std::uint32_t> sgid_index = {}) const;
  /// From what the CM tells of a datagram's way: `ah` of an event.
  [[nodiscard]] PeerResult<AddressHandle> address_handle_of(const nlohmann::json& attributes) const;

 private:
  friend class Device;
  using Handle::Handle;
  std::uint32_t sgid_index_ = 0;
  std::uint8_t port_ = 1;
};

}  // namespace rdmawire::peer
