#pragma once
/// RDMA CM connections over RoCE and iWARP, created by an agent.
///
///     auto listener = Listener::listen(peer, {.port = 7471}).value();
///     auto caller = CmConnection::connect(peer, client_qp, {.address = "10.0.0.2", .port = 7471}).value();
///     auto request = listener.request(5s).value();
///     request.accept(server_qp).value();
///     caller.wait_established(5s).value();

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "replay/peer/queue_pair.hpp"
#include "replay/rpc/events.hpp"

namespace rdmawire::peer {

/// Parameters of a connection request or reply. IBTA vol 1, 12.7. Unset values default to the maximum that both sides
/// support.
struct CmParameters {
  ByteVector private_data = {};
  std::optional<std::uint8_t> responder_resources = {}, initiator_depth = {};
  std::uint8_t retry_count = 7, rnr_retry_count = 7;
  bool flow_control = false;
};

/// A CM event: "established", "rejected", "failed", …
struct CmEvent {
  std::string type = {};
  ByteVector private_data = {};  ///< padded with zeros to the length of its field
  int number = 0;                ///< errno of a local or network error
  std::string name = {};         ///< symbolic name of `number`
  int reason = 0;                ///< rejection reason of the peer, IBTA vol 1, 12.6.7.2
  std::uint64_t cm_id = 0;       ///< handle of the connection
  std::optional<std::uint32_t> qp_num = {};
  std::string message = {};                   ///< of `failed`: the cause
  std::optional<rpc::AddressVector> ah = {};  ///< of datagrams, for ProtectionDomain::address_handle_of()
  nlohmann::json body = {};                   ///< the complete event, see docs/reference/agent-protocol.md
};

struct CmAddress {
  std::string address = {};  ///< IPv4 or IPv6
  std::uint16_t port = 0;
  std::string source = {};         ///< empty: selected by the routing table
  std::string port_space = "tcp";  ///< "udp" and "ipoib" for datagrams
};

class CmConnection : public Handle {
 public:
  /// Requests a connection for the QP. The outcome is reported by events.
  static PeerResult<CmConnection> connect(Peer& peer, const QueuePair& qp, const CmAddress& to,
                                          const CmParameters& parameters = {});

  /// Returns the next event of this connection.
  PeerResult<CmEvent> next_event(Deadline deadline) const;
  /// Waits for an event of this type and skips other events. An event that excludes it ("rejected", "failed",
  /// "unreachable", "addr_error", "route_error", "connect_error") is returned as an error.
  PeerResult<CmEvent> wait_for(const std::string& type, Deadline deadline) const;
  PeerResult<CmEvent> wait_established(Deadline deadline) const { return wait_for("established", deadline); }

  /// For an incoming connection: the request event.
  [[nodiscard]] const CmEvent& request() const { return request_; }
  [[nodiscard]] PeerResult<void> accept(const QueuePair& qp, const CmParameters& parameters = {});
  [[nodiscard]] PeerResult<void> reject(Bytes private_data = {}) const;
  [[nodiscard]] PeerResult<void> disconnect() const;

 private:
  friend class Listener;
  using Handle::Handle;
  CmEvent request_;
};

class Listener : public Handle {
 public:
  /// Empty `to.address`: any address. Port 0: any port, see port().
  static PeerResult<Listener> listen(Peer& peer, const CmAddress& to, std::uint32_t backlog = 16);

  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// Returns the next connection request. The caller must accept or reject it. Destruction rejects it.
  PeerResult<CmConnection> request(Deadline deadline) const;

 private:
  using Handle::Handle;
  std::uint16_t port_ = 0;
};

}  // namespace rdmawire::peer
