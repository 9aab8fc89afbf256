#pragma once
/// State shared by the components of the device: tables, port, memory and time. The components are functions on this
/// state.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "conformance/device/roce/cm.hpp"
#include "conformance/device/roce/completion_queue.hpp"
#include "conformance/device/roce/counters.hpp"
#include "conformance/device/roce/decisions.hpp"
#include "conformance/device/roce/faults.hpp"
#include "conformance/device/roce/local_memory.hpp"
#include "conformance/device/roce/memory.hpp"
#include "conformance/device/roce/packet.hpp"
#include "conformance/device/roce/port.hpp"
#include "conformance/device/roce/queue_pair.hpp"
#include "conformance/device/roce/random.hpp"

namespace rdmawire::device {

/// Configuration of a device.
struct DeviceOptions {
  std::uint64_t seed = 1;
  Port port;
  bool congestion_control = true;      ///< true: send and obey CNPs. false: packets are not ECN-capable
  bool xrc = true;                     ///< true: support XRC domains and queue pairs
  std::int64_t cnp_interval = 50'000;  ///< minimum time in nanoseconds between CNPs to one queue pair
  machines::ReactionSettings reaction;
  CmSettings cm;
  std::uint32_t most_objects = 4096;
  std::uint32_t most_work = 16'384;  ///< limit of requests per work queue and of entries per completion queue
  std::uint32_t most_rd_atomic = 16;
};

struct AddressHandle {
  std::uint32_t handle = 0, pd = 0;
  AddressVector path;
};

struct Group {
  Gid gid;
  std::vector<std::uint32_t> qpns;
};

struct Core {
  explicit Core(DeviceOptions with) : options(std::move(with)), port(options.port), random(options.seed) {}
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  DeviceOptions options;
  Port port;
  Faults faults;
  Decisions decisions;  ///< the device's decisions, with the overrides of `faults`
  Random random;
  Memory memory{random, decisions.memory};
  Counters counters;
  std::int64_t now = 0;

  std::map<std::uint32_t, QueuePair> qps;  ///< by number
  std::map<std::uint32_t, CompletionQueue> cqs;
  std::map<std::uint32_t, CompletionChannel> channels;
  std::map<std::uint32_t, SharedReceiveQueue> srqs;
  std::map<std::uint32_t, AddressHandle> ahs;
  std::map<std::uint32_t, std::uint32_t> pds, xrcds;  ///< number of references, by handle
  std::vector<Group> groups;
  std::deque<AsyncEvent> events;
  CmService cm;
  std::deque<OutgoingPacket>
      control;                    ///< control packets (CNPs, management datagrams), sent before packets of queue pairs
  std::int64_t port_free = 0;     ///< time when the port finishes its current frame
  std::uint32_t last_sender = 0;  ///< last queue pair that sent, for round-robin scheduling
  machines::NotificationPoint notification;  ///< used if CNPs are paced for the whole port
  bool has_work = false;                     ///< true: a verbs call created work since the last wake-up

  static constexpr std::size_t most_events = 4096, most_control = 4096;

  void event(EventType type, std::uint32_t object) {
    if (events.size() < most_events) events.push_back({type, object});
  }
  QueuePair* qp(std::uint32_t qpn) {
    const auto found = qps.find(qpn);
    return found == qps.end() ? nullptr : &found->second;
  }
  SharedReceiveQueue* srq(std::uint32_t handle) {
    const auto found = srqs.find(handle);
    return found == srqs.end() ? nullptr : &found->second;
  }
  [[nodiscard]] std::uint16_t pkey_of(const QueuePair& qp) const {
    return qp.attributes.pkey_index < port.pkeys.size() ? port.pkeys[qp.attributes.pkey_index] : std::uint16_t{0};
  }
};

// completions.cpp
/// Add a completion to a queue, which overflows if it is full: C9-218, 11.6.3.1.
void complete(Core& core, std::uint32_t cq, const Completion& completion, bool solicited);
/// Complete a send request. An unsignaled one causes a completion only if it failed. 10.7.3.1.
void complete_send(Core& core, QueuePair& qp, const SendRequest& request, Status status, std::uint32_t bytes);
void complete_receive(Core& core, QueuePair& qp, const ReceiveRequest& request, Completion completion, bool solicited);

// queue_pair_states.cpp
Result<void> modify(Core& core, QueuePair& qp, const QueuePairChange& change);
/// Enter the Error state and flush all pending requests in order. C9-220, C10-42.
void enter_error(Core& core, QueuePair& qp);
/// Enter the send queue error state of UC and UD. Flushes pending send requests. The queue pair can still receive.
void enter_send_error(Core& core, QueuePair& qp);
void check_drained(Core& core, QueuePair& qp);

// receives.cpp
/// Remove and return the next receive request of the SRQ `srq`, or of the queue pair if `srq` is 0. nullopt: none is
/// posted.
std::optional<ReceiveRequest> take_receive(Core& core, QueuePair& qp, std::uint32_t srq);
/// Return the next receive request without removing it, or nullptr.
const ReceiveRequest* next_receive(Core& core, QueuePair& qp, std::uint32_t srq);

// requester.cpp, unreliable_requester.cpp
/// Return the next packet of the send queue that may be sent now.
std::optional<OutgoingPacket> next_request(Core& core, QueuePair& qp);
std::optional<OutgoingPacket> next_unreliable(Core& core, QueuePair& qp);
void receive_response(Core& core, QueuePair& qp, const Packet& packet);
void requester_timers(Core& core, QueuePair& qp);
std::int64_t next_timer(const Core& core, const QueuePair& qp);
/// Return a packet whose address, P_Key and other attributes are those of the queue pair.
OutgoingPacket packet_of(const Core& core, const QueuePair& qp, std::uint8_t opcode, Psn psn);
/// Execute a local operation and return its completion status.
Status execute_local(Core& core, QueuePair& qp, const SendRequest& request);
/// Fail the send request at `index` and flush the following requests.
void fail(Core& core, QueuePair& qp, std::size_t index, Status status);

// responder.cpp, responder_answers.cpp, unreliable_responder.cpp, datagram.cpp
void receive_request(Core& core, QueuePair& qp, const Packet& packet);
std::optional<OutgoingPacket> next_answer(Core& core, QueuePair& qp);
void receive_unreliable(Core& core, QueuePair& qp, const Packet& packet);
void receive_datagram(Core& core, QueuePair& qp, const Packet& packet);

// validation.cpp
void receive_frame(Core& core, Bytes frame);

// management.cpp
/// Process a datagram to QP 1 if no application owns QP 1.
void receive_management(Core& core, const Packet& packet);
/// Return the path for a response to a management datagram.
CmPath way_back(const Core& core, const Packet& packet);
void send_mad(Core& core, const CmPath& way, std::vector<std::uint8_t> mad);

// cm.cpp
/// Process a CM message of 256 bytes.
void receive_cm(Core& core, const Packet& packet);
void cm_timers(Core& core);
std::int64_t next_cm(const Core& core);
/// Listen. The caller chooses the handle. Port 0 selects a free port. Returns the port.
Result<std::uint16_t> cm_listen(Core& core, std::uint32_t handle, CmEndpoint at, std::uint32_t backlog);
/// Connect. `source` zero: any address. If the destination is unreachable, an event reports that.
Result<void> cm_connect(Core& core, std::uint32_t handle, const CmEndpoint& to, const Gid& source, CmParameters with);
Result<void> cm_accept(Core& core, CmConnection& at, CmParameters with);
Result<void> cm_establish(Core& core, CmConnection& at);
Result<void> cm_reject(Core& core, CmConnection& at, Bytes private_data);
Result<void> cm_disconnect(Core& core, CmConnection& at);
/// Release a connection: reject or disconnect it. The application gets no more events.
void cm_forget(Core& core, CmConnection& at);

// congestion.cpp
void notice_mark(Core& core, QueuePair& qp, const Packet& packet);
/// Send a CNP to the source of a packet, regardless of pacing.
void notify(Core& core, QueuePair& qp, const Packet& packet);
void receive_notification(Core& core, const Packet& packet);
void slow_down(Core& core, QueuePair& qp);

// transmit.cpp
/// Send all frames that can be sent now. Queue pairs take turns.
void transmit(Core& core, std::vector<std::vector<std::uint8_t>>& frames);
/// Return the time at which the device must act next.
std::int64_t next_wake(const Core& core);

}  // namespace rdmawire::device
