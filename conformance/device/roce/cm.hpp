#pragma once
/// State of the device's communication manager: listeners, connections and application events. IBTA vol 1, chapter 12,
/// and annex A11 (connections by IP addresses). The state machine is in machines/cm.hpp, and the message formats are in
/// cm_messages.hpp.

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

/// Parameters of the device's CM. Times are codes: 4.096 us * 2^code.
struct CmSettings {
  std::uint8_t response_timeout = 17;  ///< maximum response time of this CM and of the peer's: 537 ms
  std::uint8_t packet_lifetime = 12;   ///< maximum lifetime of a packet in the network: 17 ms
  std::uint8_t ack_delay = 1;          ///< Local CA Ack Delay of this device
  std::uint8_t service_timeout = 19;   ///< time that an MRA requests for the application: 2.1 s
  std::uint8_t retries = 7;            ///< Max CM Retries
};

/// Address and port of one endpoint of a connection.
struct CmEndpoint {
  Gid address;  ///< zeros: any
  std::uint16_t port = 0;
};

/// Parameters that the application specifies in a connect or accept call.
struct CmParameters {
  std::vector<std::uint8_t> private_data{};
  std::optional<std::uint8_t> responder_resources{}, initiator_depth{};  ///< nullopt: the largest permitted
  bool flow_control = false, srq = false;
  std::uint8_t retry_count = 7, rnr_retry_count = 7;
  std::optional<std::uint8_t> ack_timeout{};  ///< code of the Local ACK Timeout that the REQ announces
  std::uint8_t traffic_class = 0;
  std::uint32_t qp = 0;            ///< handle of a queue pair whose state follows the connection. 0: none
  std::uint32_t qpn = 0;           ///< number of that queue pair, or of one whose state the caller changes
  bool answers_disconnect = true;  ///< true: respond to a DREQ immediately with a DREP
  bool establishes = true;         ///< true: respond to a REP immediately with an RTU
};

/// Contents of a REQ or a REP.
struct CmPeer {
  std::uint32_t qpn = 0;
  std::uint32_t starting_psn = 0;  ///< first PSN that the receiver of the message sends
  std::uint8_t responder_resources = 0, initiator_depth = 0;
  std::uint8_t retry_count = 0, rnr_retry_count = 0;
  bool flow_control = false, srq = false;
  std::uint8_t path_mtu = 0;     ///< REQ: code of the path MTU
  std::uint8_t ack_timeout = 0;  ///< REQ: code of the Local ACK Timeout
  std::uint8_t ack_delay = 0;    ///< REP: code of the Target ACK Delay
  std::uint64_t ca_guid = 0;
  std::vector<std::uint8_t> private_data;  ///< the complete field, except for RDMA-CM's header
};

/// Destination of CM messages.
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
  failed,  ///< local failure, described by `step`, `error` and `message`
  connect_error,
};

/// Error that ended an iWARP stream, encoded as in a Terminate. RFC 5040, 4.8.
struct StreamError {
  std::uint8_t layer = 0, type = 0, code = 0;
  bool of_peer = false;  ///< true: received in the peer's Terminate. false: detected locally
};

/// An event for the application.
struct CmEvent {
  CmEventType type;
  std::uint32_t connection = 0;    ///< Local Communication ID
  std::uint32_t listener = 0;      ///< connect_request: handle of the listener
  std::uint32_t cm_id = 0;         ///< handle of the connection
  int error = 0;                   ///< Linux error number, or 0
  std::uint16_t reason = 0;        ///< rejection reason: 12.6.7.2
  std::string message{};           ///< failed: description
  std::string step = "establish";  ///< failed: name of the step
  CmEndpoint local{}, remote{};
  CmPeer peer{};  ///< for connect_request, connect_response, established, and rejected (only private data)
  std::optional<StreamError> stream_error{};  ///< disconnected: error of the iWARP stream
};

struct CmListener {
  std::uint32_t handle = 0;
  CmEndpoint at;
  std::uint32_t backlog = 16;
};

struct CmConnection {
  std::uint32_t id = 0;         ///< Local Communication ID
  std::uint32_t remote_id = 0;  ///< 0: unknown
  std::uint32_t handle = 0;     ///< handle for the application. 0: not reported yet
  std::uint32_t listener = 0;   ///< handle of the listener
  bool active = false;          ///< true: this device initiated the connection
  bool forgotten = false;       ///< true: the application has destroyed it, and gets no more events
  machines::Cm machine;
  CmPath way;
  CmEndpoint local, remote;
  AddressVector data_path;      ///< path of the queue pair's packets
  std::uint16_t pkey = 0xffff;  ///< P_Key of the queue pair's packets
  std::uint64_t transaction = 0, last_transaction = 0;
  std::uint64_t guid = 0;          ///< GUID of this device
  std::uint32_t starting_psn = 0;  ///< first PSN that the peer sends
  bool extra = false;              ///< only set by a fault: one additional retry was made
  CmParameters own;
  CmPeer peer;
  std::array<std::vector<std::uint8_t>, 7> sent;  ///< last message of each machines::CmMessage, for retransmission
};

struct CmService {
  static constexpr std::size_t most_connections = 1024, most_events = 4096;

  std::map<std::uint32_t, CmListener> listeners;      ///< by handle
  std::map<std::uint32_t, CmConnection> connections;  ///< by Local Communication ID
  std::deque<CmEvent> events;
  std::uint32_t datagrams = 0;  ///< PSN of the next datagram from QP 1
};

}  // namespace rdmawire::device
