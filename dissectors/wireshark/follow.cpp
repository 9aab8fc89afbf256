// SPDX-License-Identifier: GPL-2.0-or-later
/// Follow Stream: the data of both endpoints, in PSN order, each packet once. tshark: -z follow,rdmawire,hex,STREAM.

#include <algorithm>
#include <array>
#include <exception>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/rdmap.hpp"
#include "dissectors/protocol/syndrome.hpp"
#include "dissectors/wireshark/data_order.hpp"
#include "dissectors/wireshark/plugin.hpp"

namespace rdmawire::wireshark {
namespace {

int follow_tap = -1;

/// A frame of a connection, for the tap. Its bytes are valid while the frame is dissected.
struct FollowedFrame {
  std::uint64_t connection = 0;
  std::uint32_t frame = 0;
  Side sender = Side::a;
  bool finished = false;      ///< the whole capture was read before
  bool ordered = false;       ///< has a PSN
  bool is_response = false;   ///< a READ response
  bool is_reliable = false;   ///< missing packets can be retransmitted
  bool after_gap = false;     ///< packets before it are missing so far
  bool acknowledges = false;  ///< the peer's requests, up to `through`
  std::uint32_t psn = 0, psns = 1, through = 0;
  std::uint32_t mtu = 0;                                           ///< path MTU (0: unknown)
  std::uint64_t missing_packets = 0;                               ///< before its data
  std::uint64_t missing_bytes = 0;                                 ///< 0: unknown
  std::uint64_t peer_missing_packets = 0, peer_missing_bytes = 0;  ///< before it, from the peer
  const guint8* bytes = nullptr;
  std::uint32_t length = 0;
};

/// State of one follow window.
struct FollowState {
  struct Direction {
    ArrivalOrder arrivals;
    std::optional<KnownOrder> known;
  };
  std::uint64_t connection = 0;
  Side client = Side::a;
  std::array<std::array<Direction, 2>, 2> directions;  ///< by sender, requests and READ responses
  std::uint32_t longest = 0;                           ///< payload of a packet
  std::uint32_t frame = 0, mtu = 0;                    ///< of the newest packet
  nstime_t time = NSTIME_INIT_ZERO;
};

void append_record(follow_info_t* info, const nstime_t& time, bool from_server, std::uint32_t frame, Bytes bytes) {
  if (bytes.empty()) return;
  auto* record = g_new0(follow_record_t, 1);
  record->is_server = from_server;
  record->packet_num = frame;
  record->abs_ts = time;
  record->data = g_byte_array_append(g_byte_array_new(), bytes.data(), static_cast<guint>(bytes.size()));
  info->payload = g_list_prepend(info->payload, record);
  info->bytes_written[from_server ? 1 : 0] += record->data->len;
}

/// Writes the data of one sender to a follow window.
class WindowSink final : public DataSink {
 public:
  WindowSink(follow_info_t* info, const FollowState& state, Side sender)
      : info_(info), state_(state), from_server_(sender != state.client) {}
  void data(const FollowedData& data) override {
    append_record(info_, state_.time, from_server_, data.frame, data.bytes);
  }
  void missing(std::uint64_t packets) override { missing_bytes(packets * (state_.mtu ? state_.mtu : state_.longest)); }
  /// The text of Wireshark's Follow TCP Stream.
  void missing_bytes(std::uint64_t bytes) {
    if (bytes == 0) return;
    const std::string text = "[" + std::to_string(bytes) + " bytes missing in capture file]";
    append_record(info_, state_.time, from_server_, state_.frame,
                  {reinterpret_cast<const std::uint8_t*>(text.c_str()), text.size() + 1});
  }

 private:
  follow_info_t* info_;
  const FollowState& state_;
  bool from_server_;
};

void follow_frame(follow_info_t* info, const packet_info* pinfo, FollowState& state, const FollowedFrame& f) {
  const auto direction = [&](Side sender, bool responses) -> FollowState::Direction& {
    return state.directions[static_cast<std::size_t>(sender)][responses ? 1 : 0];
  };
  const Side peer = tracking::other(f.sender);
  WindowSink own(info, state, f.sender), others(info, state, peer);
  state.frame = f.frame;
  state.mtu = f.mtu;
  state.time = pinfo->abs_ts;
  state.longest = std::max(state.longest, f.length);
  if (f.acknowledges) direction(peer, false).arrivals.acknowledged(f.through, others);
  if (f.peer_missing_bytes != 0)
    others.missing_bytes(f.peer_missing_bytes);
  else if (f.peer_missing_packets != 0)
    others.missing(f.peer_missing_packets);
  FollowedData data{f.frame, {f.bytes, f.bytes + f.length}};
  if (!f.ordered) {
    own.missing_bytes(f.missing_bytes);
    own.data(data);
    return;
  }
  FollowState::Direction& to = direction(f.sender, f.is_response);
  if (!f.finished)
    return to.arrivals.add(f.psn, f.psns, std::move(data), f.after_gap, f.is_reliable && !f.is_response, own);
  if (!to.known) to.known.emplace(session()->frames_in_order(f.connection, f.sender, f.is_response));
  to.known->add(std::move(data), f.missing_packets, own);
}

// Several windows follow connections at the same time. Valid from the reset of the taps until they are drawn, because a
// window can be closed later.
std::map<follow_info_t*, FollowState> states;

void forget_windows(void*) { states.clear(); }

// Passes the held data at the end of the capture.
void finish_windows(void*) {
  try {
    for (auto& [info, state] : states)
      for (const Side sender : {state.client, tracking::other(state.client)}) {
        WindowSink sink(info, state, sender);
        for (FollowState::Direction& one : state.directions[static_cast<std::size_t>(sender)]) {
          one.arrivals.finish(sink);
          if (one.known) one.known->finish(sink);
        }
      }
  } catch (const std::exception&) {  // memory is exhausted
  }
  states.clear();
}

// Registers a listener for the end of the capture. The latest listener is drawn first, so it is drawn before the
// windows. The main window draws at other times, when its follow windows may be closed.
void watch_end() {
  static bool watched = false;
  ws_info_t* main_window = nullptr;
  if (std::exchange(watched, true)) return;
  plugin_if_get_ws_info(&main_window);
  if (main_window && main_window->ws_info_supported) return;
  if (GString* error =
          register_tap_listener("frame", &states, nullptr, 0, forget_windows, nullptr, finish_windows, nullptr))
    g_string_free(error, TRUE);
}

tap_packet_status follow_data(void* tap_data, packet_info* pinfo, epan_dissect_t*, const void* given, tap_flags_t) {
  constexpr std::size_t most = 64;
  auto* info = static_cast<follow_info_t*>(tap_data);
  const auto& frame = *static_cast<const FollowedFrame*>(given);
  try {
    watch_end();
    if (states.size() >= most && !states.contains(info)) states.erase(states.begin());
    FollowState& state = states[info];
    // A new window has no client yet.
    if (info->client_ip.type == AT_NONE || state.connection != frame.connection) {
      state = {};
      state.connection = frame.connection;
      state.client = frame.sender;
      info->client_port = pinfo->srcport;
      copy_address(&info->client_ip, &pinfo->src);
      info->server_port = pinfo->destport;
      copy_address(&info->server_ip, &pinfo->dst);
    }
    follow_frame(info, pinfo, state, frame);
  } catch (const std::exception&) {  // memory is exhausted
    states.erase(info);
  }
  return TAP_PACKET_DONT_REDRAW;
}

/// Adds the packets that are missing before this frame according to its events.
void add_missing(const FrameFacts& facts, FollowedFrame& f) {
  using enum tracking::EventKind;
  for (const Event* event : facts.events) {
    if (event->kind != lost_in_capture && event->kind != psn_gap) continue;
    // The event belongs to a packet after the gap, or to an acknowledgement by the peer.
    const bool own = f.is_response || event->end == f.sender;
    (own ? f.missing_packets : f.peer_missing_packets) += event->packets;
    (own ? f.missing_bytes : f.peer_missing_bytes) += event->bytes;
  }
  for (const EarlyResult& result : facts.early) f.after_gap |= result.kind == psn_gap;
}

/// Adds PSNs and acknowledgements of InfiniBand's transport.
void add_order(const Packet& packet, const FrameFacts& facts, FollowedFrame& f) {
  const PacketNote& note = *facts.note;
  const auto bth = packet.stack.get<Bth>();
  if (!bth) return;
  const Opcode& op = opcode(bth->get<"opcode">());
  f.is_response = op.operation == Operation::rdma_read_response;
  f.is_reliable =
      facts.connection->service == tracking::Service::rc || facts.connection->service == tracking::Service::xrc;
  f.ordered = op.operation != Operation::congestion_notification && (f.is_response || note.requester == note.end);
  f.psn = note.relative_psn;
  if (const auto reth = packet.stack.get<Reth>(); reth && op.operation == Operation::rdma_read_request && f.mtu != 0)
    f.psns = std::max(1U, (static_cast<std::uint32_t>(reth->get<"length">()) + f.mtu - 1) / f.mtu);
  if (note.requester == note.end || note.answered == tracking::Answered::nothing) return;
  f.acknowledges = true;
  f.through = note.relative_psn;
  if (const auto aeth = packet.stack.get<Aeth>())
    if (const Syndrome syndrome(aeth->get<"syndrome">()); syndrome.is_nak() || syndrome.is_rnr_nak())
      f.through = (f.through - 1) & Psn::mask;
}

template <class Visit>
void for_each_payload(const Packet& packet, const Visit& visit) {
  if (packet.stack.get<Bth>()) visit(packet.stack.bytes_of(message_bytes(packet.stack)));
  for (const tracking::Pdu& pdu : packet.pdus)
    if (pdu.stack.get<Rdmap>()) visit(pdu.stack.bytes_of(message_bytes(pdu.stack)));
}

gchar* filter_of(guint stream) { return g_strdup_printf("rdmawire.stream == %u", stream); }
gchar* follow_index(guint stream, guint) { return filter_of(stream); }

gchar* follow_addresses(address* from, address* to, int from_qp, int to_qp) {
  const char* family = from->type == AT_IPv6 ? "ipv6" : "ip";
  gchar* one = address_to_str(nullptr, from);
  gchar* other = address_to_str(nullptr, to);
  gchar* filter = g_strdup_printf(
      "((%s.src == %s and %s.dst == %s and rdmawire.analysis.qp == %d and rdmawire.analysis.peer_qp == %d) or "
      "(%s.src == %s and %s.dst == %s and rdmawire.analysis.qp == %d and rdmawire.analysis.peer_qp == %d))",
      family, one, family, other, from_qp, to_qp, family, other, family, one, to_qp, from_qp);
  wmem_free(nullptr, one);
  wmem_free(nullptr, other);
  return filter;
}

gchar* queue_pair_text(wmem_allocator_t* allocator, guint qp) { return wmem_strdup_printf(allocator, "%u", qp); }

}  // namespace

gchar* connection_filter(packet_info* pinfo, guint& stream) {
  if (!session()) return nullptr;
  static FrameFacts facts;
  session()->facts_of(pinfo->num, facts);
  if (!facts.connection || facts.connection->stream == ConnectionFacts::no_stream) return nullptr;
  stream = facts.connection->stream;
  return filter_of(stream);
}

void forget_follow_windows() { states.clear(); }

void register_follow_taps(int proto) {
  follow_tap = register_tap("rdmawire_follow");
  register_follow(
      proto, "rdmawire_follow",
      [](epan_dissect_t*, packet_info* pinfo, guint* stream, guint* sub_stream) {
        *sub_stream = 0;
        return connection_filter(pinfo, *stream);
      },
      follow_index, follow_addresses, queue_pair_text, follow_data);
}

void tap_payload(packet_info* pinfo, const Current& current) {
  if (!have_tap_listener(follow_tap)) return;
  const FrameFacts& facts = current.known();
  const Packet& packet = *current.packet;
  if (!facts.note || !facts.connection || session()->is_damaged(pinfo->num)) return;
  auto* f = new (wmem_alloc(pinfo->pool, sizeof(FollowedFrame))) FollowedFrame;
  f->connection = facts.connection->id;
  f->frame = pinfo->num;
  f->sender = facts.note->end;
  f->finished = session()->finished();
  f->mtu = facts.connection->mtu;
  for_each_payload(packet, [&](Bytes bytes) { f->length += static_cast<std::uint32_t>(bytes.size()); });
  auto* to = static_cast<guint8*>(wmem_alloc(pinfo->pool, std::max<std::size_t>(f->length, 1)));
  f->bytes = to;
  for_each_payload(packet, [&](Bytes bytes) { to = std::copy(bytes.begin(), bytes.end(), to); });
  add_order(packet, facts, *f);
  add_missing(facts, *f);
  // "Follow" shows QPs as ports.
  const auto qp = [&](Side side) { return facts.connection->ends[static_cast<std::size_t>(side)].qp; };
  pinfo->srcport = qp(f->sender);
  pinfo->destport = qp(tracking::other(f->sender));
  tap_queue_packet(follow_tap, pinfo, f);
}

}  // namespace rdmawire::wireshark
