#pragma once
/// Connections by the RDMA CM, over RoCE and iWARP alike, which an agent makes for us.
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

namespace rdmawire::peer {

/// What a connection is asked for with, or accepted. IBTA vol 1, 12.7; "as much as both can" where nothing is given.
struct CmParameters {
  ByteVector private_data = {};
  std::optional<std::uint8_t> responder_resources = {}, initiator_depth = {};
  std::uint8_t retry_count = 7, rnr_retry_count = 7;
  bool flow_control = false;
};

/// What the CM tells: an event of type "established", "rejected", "failed", …
struct CmEvent {
  std::string type = {};
  ByteVector private_data = {};  ///< padded with zeros to the length of its field
  int number = 0;                ///< errno, when something failed on this side or on the way
  std::string name = {};         ///< its symbol
  int reason = 0;                ///< of "rejected", of the other end; IBTA vol 1, 12.6.7.2
  std::optional<std::uint32_t> qp_num = {};
  nlohmann::json body = {};  ///< all of it, as docs/agent.md has it
};

struct CmAddress {
  std::string address = {};  ///< IPv4 or IPv6
  std::uint16_t port = 0;
  std::string source = {};         ///< empty: as the routes say
  std::string port_space = "tcp";  ///< "udp" and "ipoib" for datagrams
};

class CmConnection : public Handle {
 public:
  /// Asks for a connection of the queue pair. What follows comes as events.
  static PeerResult<CmConnection> connect(Peer& peer, const QueuePair& qp, const CmAddress& to,
                                          const CmParameters& parameters = {});

  /// The next event of this connection.
  PeerResult<CmEvent> next_event(Deadline deadline) const;
  /// The next event of that type; others are passed over. One that can only come when it does not ("rejected",
  /// "failed", "unreachable", "addr_error", "route_error", "connect_error") is an error, which says why.
  PeerResult<CmEvent> wait_for(const std::string& type, Deadline deadline) const;
  PeerResult<CmEvent> wait_established(Deadline deadline) const { return wait_for("established", deadline); }

  /// Of a connection that a peer asked for: what it came with.
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
  /// `to.address` empty: any. Port 0: any, see port().
  static PeerResult<Listener> listen(Peer& peer, const CmAddress& to, std::uint32_t backlog = 16);

  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// The next request, which is to be accepted or rejected; released, it is rejected, too.
  PeerResult<CmConnection> request(Deadline deadline) const;

 private:
  using Handle::Handle;
  std::uint16_t port_ = 0;
};

}  // namespace rdmawire::peer
