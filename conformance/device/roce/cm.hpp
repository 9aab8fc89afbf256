#pragma once
/// The communication manager of the device: who listens, who is connected, what its consumers are told. IBTA vol 1,
/// chapter 12, and annex A11 (connections by IP addresses). What it does, and when, is the machine's (machines/cm.hpp);
/// how its messages look is in cm_messages.hpp.

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "conformance/device/roce/addresses.hpp"
#include "dissectors/machines/cm.hpp"

namespace rdmawire::device {

/// What the device's CM announces and keeps to. Times are codes: 4.096 us times the power of two.
struct CmSettings {
  std::uint8_t response_timeout = 17;  ///< how long either CM may take: 537 ms
  std::uint8_t packet_lifetime = 12;   ///< 17 ms
  std::uint8_t ack_delay = 1;          ///< of this device: its Local CA Ack Delay
  std::uint8_t service_timeout = 19;   ///< in an MRA: how long the consumer may take, 2.1 s
  std::uint8_t retries = 7;            ///< Max CM Retries
};

/// The end of a connection as its consumer knows it.
struct CmEndpoint {
  Gid address;  ///< zeros: any
  std::uint16_t port = 0;
};

/// What a consumer gives when it asks for a connection, or accepts one.
struct CmParameters {
  std::vector<std::uint8_t> private_data{};
  std::optional<std::uint8_t> responder_resources{}, initiator_depth{};  ///< none: as much as both can
  bool flow_control = false, srq = false;
  std::uint8_t retry_count = 7, rnr_retry_count = 7;
  std::optional<std::uint8_t> ack_timeout{};  ///< code of the Local ACK Timeout that the REQ announces
  std::uint8_t traffic_class = 0;
  std::uint32_t qp = 0;      ///< handle of a queue pair whose states follow the connection; 0: none
  std::uint32_t qpn = 0;     ///< its number, or that of a queue pair which is somebody else's affair
  bool says_goodbye = true;  ///< a DREQ is answered at once
  bool establishes = true;   ///< a REP likewise
};

/// What a REQ or a REP says of its sender.
struct CmPeer {
  std::uint32_t qpn = 0;
  std::uint32_t starting_psn = 0;  ///< that the receiver begins to send with
  std::uint8_t responder_resources = 0, initiator_depth = 0;
  std::uint8_t retry_count = 0, rnr_retry_count = 0;
  bool flow_control = false, srq = false;
  std::uint8_t path_mtu = 0;     ///< code; REQ
  std::uint8_t ack_timeout = 0;  ///< code; REQ: the Local ACK Timeout
  std::uint8_t ack_delay = 0;    ///< code; REP: the Target ACK Delay
  std::uint64_t ca_guid = 0;
  std::vector<std::uint8_t> private_data;  ///< the whole field, without RDMA-CM's header
};

/// Where CM messages go, and how.
struct CmPath {
  AddressVector path;
  std::uint16_t pkey = 0xffff;
  std::uint32_t qpn = 1;
};

enum class CmEventType : std::uint8_t {
  addr_resolved,
  addr_error,
  route_resolved,
  connect_request,
  connect_response,
  unreachable,
  rejected,
  established,
  disconnected,
  timewait_exit,
  failed,  ///< what the device itself could not do on the way: `step`, `error` and `message` say what
  connect_error,
};

/// Why a stream of iWARP ended: what a Terminate says of it. RFC 5040, 4.8.
struct StreamError {
  std::uint8_t layer = 0, type = 0, code = 0;
  bool of_peer = false;  ///< the other end's Terminate told; else it was found here
};

/// What a consumer is told.
struct CmEvent {
  CmEventType type;
  std::uint32_t connection = 0;    ///< its Local Communication ID
  std::uint32_t listener = 0;      ///< connect_request: handle
  std::uint32_t cm_id = 0;         ///< handle of the connection
  int error = 0;                   ///< an error number of Linux, or 0
  std::uint16_t reason = 0;        ///< of a rejection: 12.6.7.2
  std::string message{};           ///< of a failure
  std::string step = "establish";  ///< likewise
  CmEndpoint local{}, remote{};
  CmPeer peer{};  ///< connect_request, connect_response, established, rejected (private data alone)
  std::optional<StreamError> stream_error{};  ///< disconnected
};

struct CmListener {
  std::uint32_t handle = 0;
  CmEndpoint at;
  std::uint32_t backlog = 16;
};

struct CmConnection {
  std::uint32_t id = 0;         ///< Local Communication ID
  std::uint32_t remote_id = 0;  ///< the other end's; 0: not known
  std::uint32_t handle = 0;     ///< of the consumer; 0: it has not been told yet
  std::uint32_t listener = 0;   ///< handle
  bool active = false;          ///< this end asked for it
  bool forgotten = false;       ///< its consumer let go of it: it ends without a word to anybody
  machines::Cm machine;
  CmPath way;
  CmEndpoint local, remote;
  AddressVector data_path;      ///< of the queue pair's packets
  std::uint16_t pkey = 0xffff;  ///< likewise
  std::uint64_t transaction = 0, last_transaction = 0;
  std::uint64_t guid = 0;          ///< of this device
  std::uint32_t starting_psn = 0;  ///< that the other end begins to send with
  bool extra = false;              ///< only a fault asks once more
  CmParameters own;
  CmPeer peer;
  std::array<std::vector<std::uint8_t>, 7> sent;  ///< by machines::CmMessage: to be said again
};

struct CmService {
  static constexpr std::size_t most_connections = 1024, most_events = 4096;

  std::map<std::uint32_t, CmListener> listeners;      ///< by handle
  std::map<std::uint32_t, CmConnection> connections;  ///< by Local Communication ID
  std::deque<CmEvent> events;
  std::uint32_t datagrams = 0;  ///< sent by queue pair 1: its PSNs
};

}  // namespace rdmawire::device
