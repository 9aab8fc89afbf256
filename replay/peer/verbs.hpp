#pragma once
/// Devices, protection domains, memory, completion queues and QPs in an agent, with the names of verbs. Access rights,
/// opcodes, flags, states and statuses use the agent's names, see docs/reference/agent-protocol.md.
///
///     #include "replay/peer/queue_pair.hpp"
///     auto peer = Peer::connect("unix:/run/agent").value();
///     auto device = Device::open(peer).value();
///     auto pd = device.protection_domain().value();
///     auto cq = device.completion_queue(16).value();
///     auto memory = pd.region(4096, {"local_write", "remote_write"}).value();
///     auto qp = pd.queue_pair({.send_cq = &cq}).value();
///     qp.connect({.qp_num = 0x11, .address = "10.0.0.1", .psn = 100, .own_psn = 200}).value();
///     …
///     memory.read(0, 5).value();

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dissectors/protocol/bits.hpp"
#include "replay/peer/handle.hpp"

// ProtectionDomain and QueuePair are in queue_pair.hpp.
namespace rdmawire::peer {

using ByteVector = std::vector<std::uint8_t>;
using Names = std::vector<std::string>;

/// One entry of a port's GID table.
struct Gid {
  std::uint32_t index = 0;
  std::string text = {};  ///< in IPv6 notation: "::ffff:10.0.0.2"
  std::string type = {};  ///< "roce_v2", "roce_v1", "ib"
  std::string netdev = {};
};

/// State of a port when the device was opened.
struct Port {
  std::uint8_t number = 1;
  std::string state = {};                     ///< "active"
  std::string link_layer = {};                ///< "ethernet", "infiniband"
  std::string netdev = {};                    ///< empty: none
  std::uint32_t active_mtu = 0, max_mtu = 0;  ///< bytes
  std::uint16_t lid = 0;
  std::vector<Gid> gids = {};
};

/// A work completion. IBTA vol 1, 11.4.2.1.
struct Completion {
  std::uint64_t wr_id = 0;
  std::string status = {};  ///< "success", "rem_access_err", …
  std::uint32_t status_number = 0, vendor_err = 0;
  std::uint32_t qp_num = 0;
  // Only for successful completions:
  std::string opcode = {};  ///< "send", "write", "recv", …
  std::uint32_t byte_len = 0;
  std::optional<std::uint32_t> imm = {}, invalidated_rkey = {}, src_qp = {};
  std::optional<std::uint64_t> imm64 = {};  ///< iWARP: 64 bits (RFC 7306, 6), if the agent reports them

  [[nodiscard]] bool good() const { return status == "success"; }
};

/// A scatter/gather element: a range of a region, or any address with any key.
struct Piece {
  std::uint64_t addr = 0;
  std::uint32_t length = 0, lkey = 0;
  std::uint64_t region = 0;  ///< handle of the region. Overrides address and key. 0: none
  std::uint64_t offset = 0;  ///< offset in the region
};

class ProtectionDomain;
class CompletionChannel;
class CompletionQueue;
class QueuePair;
class SharedReceiveQueue;
class Region;
class MemoryWindow;
class AddressHandle;
class XrcDomain;

class Device : public Handle {
 public:
  /// Opens the device with this name, or the agent's first device. Fails with the agent's reason if there is none.
  static PeerResult<Device> open(Peer& peer, const std::string& name = "");

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool iwarp() const { return transport_ == "iwarp"; }
  /// A limit in ibv_device_attr by its full name, for example "max_qp". 0: not reported.
  [[nodiscard]] std::uint64_t limit(const std::string& what) const;
  [[nodiscard]] const Port& port(std::size_t index = 0) const { return ports_.at(index); }
  [[nodiscard]] std::size_t ports() const { return ports_.size(); }
  /// The preferred source GID of RoCEv2 traffic: roce_v2 before other types, IPv4 before other addresses.
  [[nodiscard]] const Gid& gid() const { return gid_; }
  /// The address of gid() as text: "10.0.0.2" or an IPv6 address.
  [[nodiscard]] std::string address() const;
  /// The MAC address of the port's network interface, derived from the link-local GID (fe80::/64), or for iWARP from
  /// the only GID. All zeros: unknown.
  [[nodiscard]] std::array<std::uint8_t, 6> mac() const;

  [[nodiscard]] PeerResult<ProtectionDomain> protection_domain() const;
  [[nodiscard]] PeerResult<CompletionChannel> completion_channel() const;
  /// Creates a CQ with at least this many entries. notify() requires a channel.
  [[nodiscard]] PeerResult<CompletionQueue> completion_queue(std::uint32_t entries,
                                                             const CompletionChannel* channel = nullptr) const;
  [[nodiscard]] PeerResult<XrcDomain> xrc_domain() const;
  /// Counters of the port from the driver and the specification, for example "rcvd_pkts".
  [[nodiscard]] PeerResult<std::map<std::string, std::uint64_t>> counters(std::uint8_t port = 1) const;

 private:
  using Handle::Handle;
  std::string name_, transport_;
  std::map<std::string, std::uint64_t> limits_;
  std::vector<Port> ports_;
  Gid gid_;
};

class XrcDomain : public Handle {
  friend class Device;
  using Handle::Handle;
};

class CompletionQueue : public Handle {
 public:
  [[nodiscard]] std::uint32_t entries() const { return entries_; }
  /// Waits for up to `count` completions until `timeout`. Fewer completions are not an error.
  PeerResult<std::vector<Completion>> poll(std::size_t count, std::chrono::milliseconds timeout) const;
  /// Requests one event for the next completion, or for the next solicited completion or error.
  [[nodiscard]] PeerResult<void> notify(bool solicited_only) const;

 private:
  friend class Device;
  using Handle::Handle;
  std::uint32_t entries_ = 0;
};

/// Reports completions by "completion" events, see docs/reference/agent-protocol.md.
class CompletionChannel : public Handle {
  friend class Device;
  using Handle::Handle;
};

/// Registered memory, initialized with zeros.
class Region : public Handle {
 public:
  [[nodiscard]] std::uint64_t addr() const { return addr_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] std::uint32_t lkey() const { return lkey_; }
  [[nodiscard]] std::uint32_t rkey() const { return rkey_; }
  /// An SGE with `length` bytes from `offset`.
  [[nodiscard]] Piece piece(std::uint64_t offset, std::uint32_t length) const {
    return {addr_ + offset, length, lkey_, handle(), offset};
  }

  /// Any length: a long transfer uses several commands of the agent.
  [[nodiscard]] PeerResult<ByteVector> read(std::uint64_t offset, std::uint64_t length) const;
  [[nodiscard]] PeerResult<void> write(std::uint64_t offset, Bytes bytes) const;
  /// `pattern`: "byte" (all bytes are `value`), "counter" (starts at `value`), "random" (seed `value`).
  [[nodiscard]] PeerResult<void> fill(const std::string& pattern, std::uint64_t value) const;
  /// CRC-32 as in zlib.
  [[nodiscard]] PeerResult<std::uint32_t> checksum(std::uint64_t offset, std::uint64_t length) const;

 private:
  friend class ProtectionDomain;
  using Handle::Handle;
  std::uint64_t addr_ = 0, size_ = 0;
  std::uint32_t lkey_ = 0, rkey_ = 0;
};

/// Access to a part of a region, created and removed by bind.
class MemoryWindow : public Handle {
 public:
  /// Changed by bind().
  [[nodiscard]] std::uint32_t rkey() const { return rkey_; }
  /// Binds a type 1 window to `length` bytes of the region, with a work request of the QP that creates a completion if
  /// `signaled`. Returns the new rkey.
  PeerResult<std::uint32_t> bind(const QueuePair& qp, const Region& region, std::uint64_t offset, std::uint64_t length,
                                 const Names& access, bool signaled = false);

 private:
  friend class ProtectionDomain;
  using Handle::Handle;
  std::uint32_t rkey_ = 0;
};

}  // namespace rdmawire::peer
