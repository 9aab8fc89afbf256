#pragma once
/// What the parts of the device share: its tables, its port, its memory, the time. The parts are functions on this.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "conformance/device/roce/cm.hpp"
#include "conformance/device/roce/completion_queue.hpp"
#include "conformance/device/roce/counters.hpp"
#include "conformance/device/roce/faults.hpp"
#include "conformance/device/roce/local_memory.hpp"
#include "conformance/device/roce/memory.hpp"
#include "conformance/device/roce/packet.hpp"
#include "conformance/device/roce/port.hpp"
#include "conformance/device/roce/queue_pair.hpp"
#include "conformance/device/roce/random.hpp"

namespace rdmawire::device {

/// What a device is.
struct DeviceOptions {
  std::uint64_t seed = 1;
  Port port;
  bool congestion_control =
      true;  ///< it answers marks with notifications, and heeds them; else its packets are not ECT
  std::int64_t cnp_interval = 50'000;  ///< nanoseconds between notifications to one queue pair
  machines::ReactionSettings reaction;
  CmSettings cm;
  std::uint32_t most_objects = 4096;
  std::uint32_t most_work = 16'384;  ///< requests of a queue, entries of a completion queue
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
  Random random;
  Memory memory{random, faults};
  Counters counters;
  std::int64_t now = 0;

  std::map<std::uint32_t, QueuePair> qps;  ///< by number
  std::map<std::uint32_t, CompletionQueue> cqs;
  std::map<std::uint32_t, CompletionChannel> channels;
  std::map<std::uint32_t, SharedReceiveQueue> srqs;
  std::map<std::uint32_t, AddressHandle> ahs;
  std::map<std::uint32_t, std::uint32_t> pds, xrcds;  ///< handle to number of users
  std::vector<Group> groups;
  std::deque<AsyncEvent> events;
  CmService cm;
  std::deque<OutgoingPacket> control;        ///< that leave before what queue pairs have: notifications, management
  std::int64_t port_free = 0;                ///< the line is busy until then
  std::uint32_t last_sender = 0;             ///< whose turn it was
  machines::NotificationPoint notification;  ///< of a port that paces all queue pairs together
  bool poked = false;                        ///< verbs gave something to do since it was woken

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
/// A completion goes into its queue; a full one overflows: C9-218, 11.6.3.1.
void complete(Core& core, std::uint32_t cq, const Completion& completion, bool solicited);
/// Of the send queue: unsignaled ones complete only when they fail. 10.7.3.1.
void complete_send(Core& core, QueuePair& qp, const SendRequest& request, Status status, std::uint32_t bytes);
void complete_receive(Core& core, QueuePair& qp, const ReceiveRequest& request, Completion completion, bool solicited);

// queue_pair_states.cpp
Result<void> modify(Core& core, QueuePair& qp, const QueuePairChange& change);
/// The error state: everything that waits completes flushed, in order. C9-220, C10-42.
void enter_error(Core& core, QueuePair& qp);
/// The send queue error state of UC and UD: what waits to be sent is flushed, receiving goes on.
void enter_send_error(Core& core, QueuePair& qp);
void check_drained(Core& core, QueuePair& qp);

// receives.cpp
/// Takes the next receive request; `srq`: of that shared queue instead of the queue pair's own. Nothing: none is there.
std::optional<ReceiveRequest> take_receive(Core& core, QueuePair& qp, std::uint32_t srq);
/// Without taking it.
const ReceiveRequest* next_receive(Core& core, QueuePair& qp, std::uint32_t srq);

// requester.cpp, unreliable_requester.cpp
/// The next packet of the send queue, if one may leave now.
std::optional<OutgoingPacket> next_request(Core& core, QueuePair& qp);
std::optional<OutgoingPacket> next_unreliable(Core& core, QueuePair& qp);
void receive_response(Core& core, QueuePair& qp, const Packet& packet);
void requester_timers(Core& core, QueuePair& qp);
std::int64_t next_timer(const Core& core, const QueuePair& qp);
/// What a packet of this queue pair has, whatever it carries.
OutgoingPacket packet_of(const Core& core, const QueuePair& qp, std::uint8_t opcode, Psn psn);
/// The work request's own part of its completion; local operations happen here.
Status execute_local(Core& core, QueuePair& qp, const SendRequest& request);
/// Of a send queue: the request at `index` fails, those behind it are flushed.
void fail(Core& core, QueuePair& qp, std::size_t index, Status status);

// responder.cpp, responder_answers.cpp, unreliable_responder.cpp, datagram.cpp
void receive_request(Core& core, QueuePair& qp, const Packet& packet);
std::optional<OutgoingPacket> next_answer(Core& core, QueuePair& qp);
void receive_unreliable(Core& core, QueuePair& qp, const Packet& packet);
void receive_datagram(Core& core, QueuePair& qp, const Packet& packet);

// validation.cpp
void receive_frame(Core& core, Bytes frame);

// management.cpp
/// A datagram to queue pair 1, which no consumer has.
void receive_management(Core& core, const Packet& packet);
/// To where a management datagram came from.
CmPath way_back(const Core& core, const Packet& packet);
void send_mad(Core& core, const CmPath& way, std::vector<std::uint8_t> mad);

// cm.cpp
/// A message of the communication manager, of 256 bytes.
void receive_cm(Core& core, const Packet& packet);
void cm_timers(Core& core);
std::int64_t next_cm(const Core& core);
/// The consumers' wishes. Handles are the caller's; a port of 0 is any, and given.
Result<std::uint16_t> cm_listen(Core& core, std::uint32_t handle, CmEndpoint at, std::uint32_t backlog);
/// `source`: zeros: whatever leads there. That nobody is there comes as an event.
Result<void> cm_connect(Core& core, std::uint32_t handle, const CmEndpoint& to, const Gid& source, CmParameters with);
Result<void> cm_accept(Core& core, CmConnection& at, CmParameters with);
Result<void> cm_establish(Core& core, CmConnection& at);
Result<void> cm_reject(Core& core, CmConnection& at, Bytes private_data);
Result<void> cm_disconnect(Core& core, CmConnection& at);
/// Its consumer lets go of it: it is rejected or ended, without a word to the consumer.
void cm_forget(Core& core, CmConnection& at);

// congestion.cpp
void notice_mark(Core& core, QueuePair& qp, const Packet& packet);
/// A CNP to the source of a packet, whatever was sent before.
void notify(Core& core, QueuePair& qp, const Packet& packet);
void receive_notification(Core& core, const Packet& packet);
void slow_down(Core& core, QueuePair& qp);

// transmit.cpp
/// Sends what can leave now: one frame after the other, each queue pair in its turn.
void transmit(Core& core, std::vector<std::vector<std::uint8_t>>& frames);
/// When something is to be done next.
std::int64_t next_wake(const Core& core);

}  // namespace rdmawire::device
