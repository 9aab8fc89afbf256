#pragma once
/// Devices, protection domains, memory, completion queues and queue pairs that an agent holds for us, named as in
/// verbs. Access rights, opcodes, flags, states and statuses are the agent's names; docs/agent.md lists them.
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

/// One entry of a port's table.
struct Gid {
  std::uint32_t index = 0;
  std::string text = {};  ///< as IPv6 addresses are written: "::ffff:10.0.0.2"
  std::string type = {};  ///< "roce_v2", "roce_v1", "ib"
  std::string netdev = {};
};

/// A port as it was when the device was opened.
struct Port {
  std::uint8_t number = 1;
  std::string state = {};                     ///< "active"
  std::string link_layer = {};                ///< "ethernet", "infiniband"
  std::string netdev = {};                    ///< empty: none
  std::uint32_t active_mtu = 0, max_mtu = 0;  ///< bytes
  std::uint16_t lid = 0;
  std::vector<Gid> gids = {};
};

/// What was asked for and is done. IBTA vol 1, 11.4.2.1.
struct Completion {
  std::uint64_t wr_id = 0;
  std::string status = {};  ///< "success", "rem_access_err", …
  std::uint32_t status_number = 0, vendor_err = 0;
  std::uint32_t qp_num = 0;
  // Of successful ones only:
  std::string opcode = {};  ///< "send", "write", "recv", …
  std::uint32_t byte_len = 0;
  std::optional<std::uint32_t> imm = {}, invalidated_rkey = {}, src_qp = {};
  std::optional<std::uint64_t> imm64 = {};  ///< all of it over iWARP (RFC 7306, 6), where the agent tells

  [[nodiscard]] bool good() const { return status == "success"; }
};

/// A piece of memory for a work request: of a region, or any address with any key.
struct Piece {
  std::uint64_t addr = 0;
  std::uint32_t length = 0, lkey = 0;
  std::uint64_t region = 0;  ///< the region's handle, which goes before address and key; 0: none
  std::uint64_t offset = 0;  ///< in it
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
  /// The device of that name, or the agent's first. Fails with what the agent says when there is none.
  static PeerResult<Device> open(Peer& peer, const std::string& name = "");

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool iwarp() const { return transport_ == "iwarp"; }
  /// Limits of ibv_device_attr in full words, "max_qp"; 0: the agent did not say.
  [[nodiscard]] std::uint64_t limit(const std::string& what) const;
  [[nodiscard]] const Port& port(std::size_t index = 0) const { return ports_.at(index); }
  [[nodiscard]] std::size_t ports() const { return ports_.size(); }
  /// The GID that RoCEv2 traffic comes from: of an IPv4 address before others, of type roce_v2 before others.
  [[nodiscard]] const Gid& gid() const { return gid_; }
  /// The address of gid() as text, "10.0.0.2"; an IPv6 address as it stands.
  [[nodiscard]] std::string address() const;
  /// The MAC address of the port's network interface, as its default GID (fe80::/64; of iWARP the only one)
  /// tells. All zeros: it does not.
  [[nodiscard]] std::array<std::uint8_t, 6> mac() const;

  [[nodiscard]] PeerResult<ProtectionDomain> protection_domain() const;
  [[nodiscard]] PeerResult<CompletionChannel> completion_channel() const;
  /// Holds at least so many completions. With a channel, notify() can ask for an event.
  [[nodiscard]] PeerResult<CompletionQueue> completion_queue(std::uint32_t entries,
                                                             const CompletionChannel* channel = nullptr) const;
  [[nodiscard]] PeerResult<XrcDomain> xrc_domain() const;
  /// The driver's own counters of the port, with those of the specification: "rcvd_pkts".
  [[nodiscard]] PeerResult<std::map<std::string, std::uint64_t>> counters(std::uint8_t port = 1) const;

 private:
  using Handle::Handle;
  std::string name_, transport_;
  nlohmann::json limits_;
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
  /// Waits until `count` completions are there or `timeout` is over: fewer, or none, are a result, too.
  PeerResult<std::vector<Completion>> poll(std::size_t count, std::chrono::milliseconds timeout) const;
  /// Asks the channel for one event at the next completion, or at the next solicited one or error.
  [[nodiscard]] PeerResult<void> notify(bool solicited_only) const;

 private:
  friend class Device;
  using Handle::Handle;
  std::uint32_t entries_ = 0;
};

/// What tells of completions without anybody asking: events "completion", see docs/agent.md.
class CompletionChannel : public Handle {
  friend class Device;
  using Handle::Handle;
};

/// Memory registered for the test, all zeros at first.
class Region : public Handle {
 public:
  [[nodiscard]] std::uint64_t addr() const { return addr_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] std::uint32_t lkey() const { return lkey_; }
  [[nodiscard]] std::uint32_t rkey() const { return rkey_; }
  /// For a work request: `length` bytes from `offset` on.
  [[nodiscard]] Piece piece(std::uint64_t offset, std::uint32_t length) const {
    return {addr_ + offset, length, lkey_, handle(), offset};
  }

  /// Any number of bytes: what is more than a line can carry goes in several.
  [[nodiscard]] PeerResult<ByteVector> read(std::uint64_t offset, std::uint64_t length) const;
  [[nodiscard]] PeerResult<void> write(std::uint64_t offset, Bytes bytes) const;
  /// `pattern`: "byte" (each is `value`), "counter" (they count up from it), "random" (it is the seed).
  [[nodiscard]] PeerResult<void> fill(const std::string& pattern, std::uint64_t value) const;
  /// CRC-32 as of zlib.
  [[nodiscard]] PeerResult<std::uint32_t> checksum(std::uint64_t offset, std::uint64_t length) const;

 private:
  friend class ProtectionDomain;
  using Handle::Handle;
  std::uint64_t addr_ = 0, size_ = 0;
  std::uint32_t lkey_ = 0, rkey_ = 0;
};

/// A right to a part of a region that comes and goes with a bind.
class MemoryWindow : public Handle {
 public:
  /// Changes with bind().
  [[nodiscard]] std::uint32_t rkey() const { return rkey_; }
  /// Binds a window of type 1 to `length` bytes of the region: work of the queue pair's, with a completion when
  /// `signaled`. Gives the new rkey.
  PeerResult<std::uint32_t> bind(const QueuePair& qp, const Region& region, std::uint64_t offset, std::uint64_t length,
                                 const Names& access, bool signaled = false);

 private:
  friend class ProtectionDomain;
  using Handle::Handle;
  std::uint32_t rkey_ = 0;
};

}  // namespace rdmawire::peer
