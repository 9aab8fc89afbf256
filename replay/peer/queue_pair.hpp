#pragma once
/// QPs of an agent, related objects, and work requests.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "replay/peer/verbs.hpp"

namespace rdmawire::rpc {
struct AddressVector;
struct CreateQp;
struct ModifyQp;
}  // namespace rdmawire::rpc

namespace rdmawire::peer {

/// A send work request. Only the members that its opcode uses are sent.
struct SendRequest {
  std::string opcode = "send";  ///< "write", "write_imm", "send", "send_imm", "send_inv", "read", "compare_swap", …
  std::uint64_t wr_id = 0;
  std::vector<Piece> sges = {};
  std::uint64_t remote_addr = 0;  ///< for WRITE, READ and atomics
  std::uint32_t rkey = 0;         ///< for WRITE, READ and atomics
  std::uint32_t imm = 0;
  std::uint32_t invalidate_rkey = 0;
  std::uint64_t compare = 0, swap = 0, add = 0;
  Names flags = {"signaled"};  ///< "signaled", "solicited", "fence", "inline"
  // UD only:
  const AddressHandle* ah = nullptr;
  std::uint32_t remote_qpn = 0, remote_qkey = 0;
  std::optional<std::uint32_t> remote_srqn = {};  ///< XRC only
  nlohmann::json more =
      {};  ///< an object with further members as in docs/reference/agent-protocol.md. Overrides the members above
};

struct ReceiveRequest {
  std::uint64_t wr_id = 0;
  std::vector<Piece> sges = {};
};

struct QueuePairOptions {
  std::string type = "rc";  ///< "rc", "uc", "ud", "xrc_send". For "xrc_recv" see receiving_xrc()
  const CompletionQueue* send_cq = nullptr;
  const CompletionQueue* recv_cq = nullptr;  ///< nullptr: same as send_cq
  const SharedReceiveQueue* srq = nullptr;
  std::uint32_t max_send_wr = 16, max_recv_wr = 16, max_send_sge = 1, max_recv_sge = 1, max_inline_data = 0;
  bool sq_sig_all = false;
  Names send_ops = {};  ///< opcodes that require the ibv_wr_ calls: "flush", "atomic_write"
};

/// Peer and attributes of an RC, UC or XRC connection.
struct Connection {
  std::uint32_t qp_num = 0;   ///< of the peer
  std::string address = {};   ///< of the peer: IPv4, IPv6 or a GID as text
  std::uint32_t psn = 0;      ///< first PSN of the peer
  std::uint32_t own_psn = 0;  ///< first local PSN
  std::uint32_t mtu = 1024;   ///< bytes
  std::uint8_t timeout = 14;  ///< 4.096 µs * 2^timeout. 0: infinite. IBTA vol 1, 9.7.6.1.3
  std::uint8_t retry_cnt = 7, rnr_retry = 7;
  std::uint8_t min_rnr_timer = 12;                         ///< code for 0.64 ms, IBTA vol 1, 9.7.5.2.8
  std::uint8_t max_rd_atomic = 1, max_dest_rd_atomic = 1;  ///< outstanding READs and atomics: outgoing, incoming
  Names access = {"remote_write", "remote_read", "remote_atomic"};
  std::optional<std::uint32_t> sgid_index = {};  ///< default: index of Device::gid()
  std::uint8_t hop_limit = 64, traffic_class = 0;
  std::uint32_t flow_label = 0;
  std::uint16_t dlid = 0;  ///< InfiniBand only
  std::uint8_t sl = 0;
};

struct SharedReceiveQueueOptions {
  std::uint32_t max_wr = 16, max_sge = 1, limit = 0;
  const XrcDomain* xrcd = nullptr;  ///< if set, the SRQ is an XRC SRQ, which also requires `cq`
  const CompletionQueue* cq = nullptr;
};

class AddressHandle : public Handle {
  friend class ProtectionDomain;
  using Handle::Handle;
};

class SharedReceiveQueue : public Handle {
 public:
  /// SRQ number for XRC senders. 0: not an XRC SRQ.
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

  /// Changes the state from RESET through INIT and RTR to RTS. Call to_init() first to post receives earlier.
  [[nodiscard]] PeerResult<void> connect(const Connection& connection) const;
  /// RESET to INIT.
  [[nodiscard]] PeerResult<void> to_init(const Names& access = {"remote_write", "remote_read", "remote_atomic"}) const;
  /// Changes a UD QP from RESET to RTS.
  [[nodiscard]] PeerResult<void> ready(std::uint32_t qkey, std::uint32_t own_psn = 0) const;
  /// Changes exactly these attributes, in the form of `modify_qp`: {"state", "err"}.
  [[nodiscard]] PeerResult<void> modify(nlohmann::json attributes) const;
  /// "reset", "init", "rtr", "rts", "sqd", "sqe", "err", as reported by the device.
  [[nodiscard]] PeerResult<std::string> state() const;
  /// All attributes, in the form of `query_qp`.
  [[nodiscard]] PeerResult<nlohmann::json> query() const;

  /// If a request is rejected, the preceding ones are posted. The error message contains the position of the rejected
  /// request.
  [[nodiscard]] PeerResult<void> post_send(const std::vector<SendRequest>& requests) const;
  [[nodiscard]] PeerResult<void> post_recv(const std::vector<ReceiveRequest>& requests) const;

 private:
  friend class ProtectionDomain;
  using Handle::Handle;
  PeerResult<void> change(rpc::ModifyQp attributes) const;
  std::uint32_t qp_num_ = 0;
  std::string type_;
  std::uint32_t sgid_index_ = 0;
  std::uint8_t port_ = 1;
};

class ProtectionDomain : public Handle {
 public:
  /// Memory is initialized with zeros. `access`: "local_write", "remote_write", "remote_read", "remote_atomic",
  /// "mw_bind", …
  [[nodiscard]] PeerResult<Region> region(std::uint64_t length, const Names& access = {"local_write"}) const;
  [[nodiscard]] PeerResult<MemoryWindow> memory_window(int type = 1) const;
  [[nodiscard]] PeerResult<QueuePair> queue_pair(const QueuePairOptions& options) const;
  /// The XRC target QP. It uses the completion queues and protection domains of the SRQs.
  [[nodiscard]] PeerResult<QueuePair> receiving_xrc(const XrcDomain& domain) const;
  [[nodiscard]] PeerResult<SharedReceiveQueue> shared_receive_queue(
      const SharedReceiveQueueOptions& options = {}) const;
  /// `address`: IPv4, IPv6 or a GID as text.
  [[nodiscard]] PeerResult<AddressHandle> address_handle(const std::string& address,
                                                         std::optional<std::uint32_t> sgid_index = {}) const;
  /// Uses the address attributes of a CM event: CmEvent::ah.
  [[nodiscard]] PeerResult<AddressHandle> address_handle_of(const rpc::AddressVector& address) const;

 private:
  friend class Device;
  using Handle::Handle;
  PeerResult<QueuePair> create_queue_pair(const rpc::CreateQp& message,
                                          std::vector<std::shared_ptr<Object>> uses) const;
  std::uint32_t sgid_index_ = 0;
  std::uint8_t port_ = 1;
};

}  // namespace rdmawire::peer
