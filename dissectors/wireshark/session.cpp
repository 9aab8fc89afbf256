// SPDX-License-Identifier: GPL-2.0-or-later
#include "dissectors/wireshark/session.hpp"

#include <algorithm>
#include <utility>

#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/icrc_cause.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/mad.hpp"
#include "dissectors/protocol/rdmap.hpp"
#include "dissectors/protocol/syndrome.hpp"
#include "dissectors/tracking/crc_cause.hpp"
#include "dissectors/tracking/transport_packet.hpp"

namespace rdmawire::wireshark {
namespace {

/// Number of messages of one requester that are kept, if old frames are discarded.
constexpr std::size_t remembered_messages = std::size_t{1} << 16;

/// Removes many at once, because the others are moved.
void forget_messages(auto& messages) {
  if (messages.end() - messages.begin() > 2 * remembered_messages)
    messages.forget_before(messages.end() - remembered_messages);
}

constexpr std::uint64_t key_of(std::uint64_t connection, Side requester) {
  return connection * 2 + static_cast<unsigned>(requester);
}

constexpr Side other_if(Side end, bool swap) { return swap ? tracking::other(end) : end; }

tracking::TrackerOptions tracker_options(const SessionOptions& options, const conformance::Monitors* monitors) {
  tracking::TrackerOptions result;
  result.memory = options.tracked_bytes;
  if (monitors) result.sink_bytes = &monitors->bytes();
  result.packets = true;
  result.transport = options.monitors;
  return result;
}

}  // namespace

Range message_bytes(const HeaderStack& stack) {
  const auto layers = stack.layers();
  const std::uint32_t end = stack.payload.end();
  std::uint32_t begin = 0;
  if (stack.transport != HeaderStack::none && layers[stack.transport].header == &info<Bth>) {
    const Opcode& op = opcode(View<Bth>(stack.bytes.data() + layers[stack.transport].offset).get<"opcode">());
    if (!op.known || !op.payload) return {};
    begin = layers[stack.transport].offset + Bth::size + op.header_bytes;
  } else {
    for (const Layer& layer : layers)
      if (layer.header == &info<DdpTagged> || layer.header == &info<DdpUntagged>) begin = layer.offset + layer.length;
  }
  if (begin == 0 || end <= begin || end > stack.bytes.size()) return {};
  return {begin, end - begin};
}

MessageFacts::MessageFacts(const Message& m)
    : start(m.start),
      end_time(m.end_time),
      first_response_time(m.first_response_time),
      answer_time(m.answer_time),
      size(m.size),
      remote_address(m.remote_address),
      connection(static_cast<std::uint32_t>(m.connection)),
      number(static_cast<std::uint32_t>(m.number)),
      key(m.key),
      first_psn(m.first_psn),
      last_psn(m.last_psn),
      packets(m.packets),
      repeated_packets(m.repeated_packets),
      first_frame(static_cast<std::uint32_t>(m.first_frame)),
      last_frame(static_cast<std::uint32_t>(m.last_frame)),
      first_response_frame(static_cast<std::uint32_t>(m.first_response_frame)),
      answer_frame(static_cast<std::uint32_t>(m.answer_frame)),
      end(m.end),
      kind(m.kind),
      outcome(m.outcome),
      has_remote(m.has_remote) {}

Session::SavedStack Session::saved_stack(const HeaderStack& stack) {
  SavedStack saved;
  saved.layers = static_cast<std::uint32_t>(layers_.end());
  saved.layer_count = static_cast<std::uint8_t>(stack.layers().size());
  for (const Layer& layer : stack.layers()) layers_.add(layer);
  saved.findings = static_cast<std::uint32_t>(findings_.end());
  saved.finding_count = static_cast<std::uint8_t>(stack.findings().size());
  for (const ParseError& finding : stack.findings()) findings_.add(finding);
  saved.payload = stack.payload;
  saved.pad = stack.pad;
  saved.mpa_crc = stack.mpa_crc;
  saved.wire = stack.wire;
  saved.network = stack.network;
  saved.transport = stack.transport;
  saved.cut = stack.cut;
  return saved;
}

void Session::restore(const SavedStack& saved, HeaderStack& stack, Bytes bytes, std::uint32_t wire_length) const {
  stack.reset(bytes, wire_length);
  for (std::size_t i = saved.layers; i < std::size_t{saved.layers} + saved.layer_count; ++i)
    stack.push(*layers_[i].header, layers_[i].offset, layers_[i].length);
  for (std::size_t i = saved.findings; i < std::size_t{saved.findings} + saved.finding_count; ++i)
    stack.report(findings_[i]);
  stack.payload = saved.payload;
  stack.pad = saved.pad;
  stack.mpa_crc = saved.mpa_crc;
  stack.wire = saved.wire;
  stack.network = saved.network;
  stack.transport = saved.transport;
  stack.cut = saved.cut;
}

Session::Session(const SessionOptions& options)
    : options_(options),
      dissector_(options.dissector),
      monitors_(options.monitors ? std::make_unique<conformance::Monitors>() : nullptr),
      tracker_(std::make_unique<tracking::Tracker>(*this, tracker_options(options, monitors_.get()))) {}

Session::~Session() = default;

Session::Row& Session::row_of(std::uint64_t frame) {
  rows_.grow(frame + 1);
  return rows_[frame];
}

std::uint32_t Session::first_link(std::uint64_t frame) const { return heads_.has(frame) ? heads_[frame].index : none; }

const Session::Row* Session::find_row(std::uint64_t frame) const { return rows_.has(frame) ? &rows_[frame] : nullptr; }

void Session::link(std::uint64_t frame, What what, std::size_t index) {
  if (frame == 0 || frame > last_frame_ || frame < rows_.begin()) return;
  heads_.grow(frame + 1);
  LinkHead& head = heads_[frame];
  links_.add(Link{static_cast<std::uint32_t>(index), head.index, what});
  head.index = static_cast<std::uint32_t>(links_.end() - 1);
  if (what == What::event || what == What::violation || what == What::early) row_of(frame).happened = true;
}

const Packet& Session::add(const Frame& frame) {
  last_frame_ = frame.number;
  if (once_) forget();
  packet_.number = frame.number;
  packet_.time_ns = frame.time_ns;
  packet_.link = frame.link;
  dissector_.dissect(packet_, frame.bytes, frame.wire_length);
  Row& row = row_of(frame.number);
  row.iwarp = packet_.tcp.connection != nullptr;
  row.happened = !packet_.stack.findings().empty() ||
                 std::any_of(packet_.pdus.begin(), packet_.pdus.end(),
                             [](const tracking::Pdu& pdu) { return !pdu.stack.findings().empty(); });
  if (const auto bth = packet_.stack.get<Bth>()) {
    const Operation operation = opcode(bth->get<"opcode">()).operation;
    row.notifies = operation == Operation::congestion_notification;
    row.read_response = operation == Operation::rdma_read_response;
    row.cut = packet_.stack.cut;
  }
  const bool bad_crc = packet_.icrc.status == CrcCheck::Status::bad;
  row.damaged = bad_crc && tracking::is_damage(explain_icrc(packet_.stack).kind);
  row.sound_crc = packet_.icrc.status == CrcCheck::Status::good || (bad_crc && !row.damaged);
  if (row.notifies) notified_at_[frame.number] = frame.time_ns;
  row.time = frame.time_ns;
  save(row);
  keep_segment(row);
  note_rpc(row);
  note_cm(row);
  if (!packet_.pdus.empty()) keep_stream_segments();
  if (monitors_) {
    note_stack();
    monitors_->take(packet_);
  }
  note_early_of_packet();
  tracker_->add(packet_);
  mrc_.add(packet_);
  if (mrc_.note().connection != 0) mrc_notes_.emplace(frame.number, mrc_.note());
  link_violations();
  return packet_;
}

void Session::save(Row& row) {
  // If the connection determines the protocol, upper layer headers follow the headers that decode() found.
  const bool upper = packet_.upper.protocol != Upper::unknown || packet_.stack.find(info<Mad>) != nullptr;
  if (!upper && packet_.pdus.empty() && packet_.notes.empty()) return;
  Saved& saved = saved_.add();
  row.saved = static_cast<std::uint32_t>(saved_.end() - 1);
  saved.has_stack = upper;
  if (upper) saved.stack = saved_stack(packet_.stack);
  saved.upper = packet_.upper;
  saved.notes = static_cast<std::uint32_t>(notes_.end());
  saved.note_count = static_cast<std::uint8_t>(std::min<std::size_t>(packet_.notes.size(), UINT8_MAX));
  for (std::size_t i = 0; i < saved.note_count; ++i) notes_.add(packet_.notes[i]);
  saved.pdus = static_cast<std::uint32_t>(pdus_.end());
  saved.pdu_count = static_cast<std::uint16_t>(std::min<std::size_t>(packet_.pdus.size(), UINT16_MAX));
  const Bytes frame = packet_.stack.bytes;
  for (std::size_t i = 0; i < saved.pdu_count; ++i) {
    const tracking::Pdu& from = packet_.pdus[i];
    const Bytes bytes = from.stack.bytes;
    SavedPdu& pdu = pdus_.add();
    pdu.stack = saved_stack(from.stack);
    pdu.length = static_cast<std::uint32_t>(bytes.size());
    pdu.wire_length = from.stack.wire_length;
    pdu.in_frame = from.in_frame;
    pdu.crc = from.crc;
    pdu.markers = from.markers;
    pdu.reassembled = from.reassembled;
    pdu.wrong_marker = from.wrong_marker;
    if (bytes.data() >= frame.data() && bytes.data() + bytes.size() <= frame.data() + frame.size()) {
      pdu.offset = static_cast<std::uint32_t>(bytes.data() - frame.data());
      continue;
    }
    if (kept_ + bytes.size() > options_.kept_bytes) {
      // Headers are always kept. A dropped payload would read as zeros.
      pdu.length = std::min(pdu.length, from.stack.payload.offset);
    }
    pdu.bytes = keep_bytes(bytes.first(pdu.length));
  }
}

const std::uint8_t* Session::keep_bytes(Bytes bytes) {
  constexpr std::size_t piece = std::size_t{1} << 20;
  if (bytes_.end() == bytes_.begin() || bytes_.back().capacity() - bytes_.back().size() < bytes.size())
    bytes_.add().reserve(std::max<std::size_t>(piece, bytes.size()));
  std::vector<std::uint8_t>& into = bytes_.back();
  into.insert(into.end(), bytes.begin(), bytes.end());
  kept_ += bytes.size();
  return into.data() + into.size() - bytes.size();
}

// Discards data that no later frame needs. Messages and retransmission bursts are shorter than the kept distance, and
// other references contain only frame numbers.
void Session::forget() {
  constexpr std::uint64_t remembered = 1 << 16, step = 1 << 12;
  if (last_frame_ % step != 0) return;
  milestones_.push_back({last_frame_, links_.end(), events_.end(), messages_.end(), saved_.end(), pdus_.end(),
                         layers_.end(), findings_.end(), notes_.end(), segments_.end(), stream_messages_.end(),
                         bytes_.end() - (bytes_.end() == bytes_.begin() ? 0 : 1), early_.end()});
  const Milestone& old = milestones_.front();
  if (old.frame + remembered > last_frame_) return;
  for (std::size_t i = bytes_.begin(); i < old.bytes; ++i) kept_ -= bytes_[i].size();
  for (std::size_t i = stream_messages_.begin(); i < old.stream_messages; ++i)
    kept_ -= stream_messages_[i].bytes.size();
  rows_.forget_before(old.frame);
  heads_.forget_before(old.frame);
  links_.forget_before(old.links);
  events_.forget_before(old.events);
  messages_.forget_before(old.messages);
  saved_.forget_before(old.saved);
  pdus_.forget_before(old.pdus);
  layers_.forget_before(old.layers);
  findings_.forget_before(old.findings);
  notes_.forget_before(old.notes);
  segments_.forget_before(old.segments);
  stream_messages_.forget_before(old.stream_messages);
  bytes_.forget_before(old.bytes);
  early_.forget_before(old.early);
  std::erase_if(mrc_notes_, [&](const auto& note) { return note.first < old.frame; });
  milestones_.pop_front();
}

void Session::keep_segment(Row& row) {
  const HeaderStack& stack = packet_.stack;
  const auto bth = stack.get<Bth>();
  const Range range = message_bytes(stack);
  if (!bth || range.length == 0 || stack.cut) return;
  const Opcode& op = opcode(bth->get<"opcode">());
  if (op.position == Position::only) return;
  // A damaged packet is not used for reassembly and will be retransmitted.
  if (packet_.icrc.status == CrcCheck::Status::bad) return;
  if (kept_ + range.length > options_.kept_bytes) return;
  Segment& segment = segments_.add();
  row.segment = static_cast<std::uint32_t>(segments_.end() - 1);
  segment.position = op.position;
  segment.length = range.length;
  segment.bytes = keep_bytes(stack.bytes_of(range));
}

void Session::keep_stream_segments() {
  for (const tracking::Pdu& pdu : packet_.pdus) {
    const auto ddp = pdu.stack.get<Ddp>();
    const auto rdmap = pdu.stack.get<Rdmap>();
    if (!ddp || !rdmap || !pdu.connection || pdu.stack.cut) continue;
    const auto tagged = pdu.stack.get<DdpTagged>();
    const auto untagged = pdu.stack.get<DdpUntagged>();
    if (!tagged && (!untagged || untagged->get<"qn">() != 0)) continue;
    const std::uint64_t offset = tagged ? tagged->get<"to">() : untagged->get<"mo">();
    const bool last = ddp->get<"last">();
    OpenMessage& open = open_messages_[pdu.connection->id * 4 + (tagged ? 2 : 0) + (pdu.from_initiator ? 1 : 0)];
    StreamMessage& message = open.message;
    const bool goes_on = !message.frames.empty() && message.tagged == tagged.has_value() && open.next == offset &&
                         message.opcode == rdmap->get<"opcode">() &&
                         (tagged ? open.stag == tagged->get<"stag">() : message.msn == untagged->get<"msn">());
    if (!goes_on) {
      kept_ -= message.bytes.size();
      message = {};
      // Most messages have one segment.
      if (last) continue;
      message.tagged = tagged.has_value();
      message.opcode = rdmap->get<"opcode">();
      if (untagged) message.msn = untagged->get<"msn">();
      if (tagged) open.stag = tagged->get<"stag">();
      open.whole = tagged || offset == 0;
    }
    const Bytes bytes = pdu.stack.bytes_of(message_bytes(pdu.stack));
    open.next = offset + bytes.size();
    message.frames.push_back(static_cast<std::uint32_t>(packet_.number));
    if (open.whole && kept_ + bytes.size() > options_.kept_bytes) {
      kept_ -= message.bytes.size();
      message.bytes = {};
      open.whole = false;
    }
    if (open.whole) {
      kept_ += bytes.size();
      message.bytes.insert(message.bytes.end(), bytes.begin(), bytes.end());
    }
    if (!last) continue;
    if (open.whole) {
      const std::size_t index = stream_messages_.end();
      const StreamMessage& done = stream_messages_.add(std::move(message));
      for (std::size_t i = 0; i + 1 < done.frames.size(); ++i)
        if (i == 0 || done.frames[i] != done.frames[i - 1]) link(done.frames[i], What::part, index);
      link(packet_.number, What::whole, index);
    }
    message = {};
  }
}

Session::Requests& Session::requests_of(std::uint64_t connection, Side requester) {
  const std::uint64_t key = key_of(connection, requester);
  if (!last_requests_ || last_requests_key_ != key) {
    last_requests_ = &requests_[key];
    last_requests_key_ = key;
  }
  return *last_requests_;
}

const Session::Requests* Session::find_requests(std::uint64_t connection, Side requester) const {
  const auto found = requests_.find(key_of(connection, requester));
  return found == requests_.end() ? nullptr : &found->second;
}

const Session::Arrangement* Session::arranged(std::uint64_t frame) const {
  const Row* row = find_row(frame);
  if (!row || row->segment == none || !row->has_note || row->message == 0) return nullptr;
  const Requests* requests = find_requests(row->connection, row->requester);
  if (!requests || !requests->segments.has(row->message - 1)) return nullptr;
  const std::uint32_t newest = requests->segments[row->message - 1];
  Arrangement& found = arrangement_;
  if (found.connection == row->connection && found.message == row->message && found.requester == row->requester &&
      found.newest == newest)
    return &found;
  found.connection = row->connection;
  found.message = row->message;
  found.requester = row->requester;
  found.newest = newest;
  found.whole_in = 0;
  found.order.clear();
  const auto segment_of = [this](std::uint32_t one) -> const Segment& { return segments_[rows_[one].segment]; };
  for (std::uint32_t one = newest; one != 0 && rows_.has(one); one = segment_of(one).previous)
    found.order.push_back(one);
  const auto psn = [this](std::uint32_t one) { return rows_[one].relative_psn; };
  // The first transmission counts.
  std::sort(found.order.begin(), found.order.end(),
            [&](std::uint32_t x, std::uint32_t y) { return std::pair(psn(x), x) < std::pair(psn(y), y); });
  found.order.erase(std::unique(found.order.begin(), found.order.end(),
                                [&](std::uint32_t x, std::uint32_t y) { return psn(x) == psn(y); }),
                    found.order.end());
  std::uint32_t latest = 0;
  for (std::size_t i = 0; i < found.order.size(); ++i) {
    const std::uint32_t one = found.order[i];
    const Segment& segment = segment_of(one);
    const bool first = i == 0, last = i + 1 == found.order.size();
    const bool fits = (segment.position == Position::first) == first && (segment.position == Position::last) == last &&
                      (first || psn(one) == psn(found.order[i - 1]) + 1);
    if (!fits) return &found;
    latest = std::max(latest, one);
  }
  if (found.order.size() > 1) found.whole_in = latest;
  return &found;
}

std::uint64_t Session::reassembled_in(std::uint64_t frame) const {
  const Arrangement* arrangement = arranged(frame);
  return arrangement ? arrangement->whole_in : 0;
}

bool Session::reassemble(std::uint64_t frame, Reassembly& whole) const {
  whole.frames.clear();
  whole.bytes.clear();
  const Arrangement* arrangement = arranged(frame);
  if (!arrangement || arrangement->whole_in != frame) return false;
  whole.frames.assign(arrangement->order.begin(), arrangement->order.end());
  for (const std::uint32_t one : arrangement->order) {
    const Segment& segment = segments_[rows_[one].segment];
    whole.bytes.insert(whole.bytes.end(), segment.bytes, segment.bytes + segment.length);
  }
  return true;
}

void Session::clear_packet(Packet& packet, const Frame& frame) const {
  packet.number = frame.number;
  packet.time_ns = frame.time_ns;
  packet.link = frame.link;
  packet.pdus.clear();
  packet.notes.clear();
  packet.upper = {};
  packet.tcp = {};
}

const Packet& Session::again(const Frame& frame) {
  Packet& packet = shown_again_;
  clear_packet(packet, frame);
  const Row* row = find_row(frame.number);
  const Saved* saved = row && row->saved != none ? &saved_[row->saved] : nullptr;
  decode(packet.stack, frame.bytes, frame.link, frame.wire_length, options_.dissector.decode);
  const bool verify = options_.dissector.verify_crcs;
  packet.icrc = verify ? check_icrc(packet.stack) : CrcCheck{};
  packet.vcrc = verify ? check_vcrc(packet.stack) : CrcCheck{};
  if (!saved) return packet;
  if (saved->has_stack) {
    const Range icrc = packet.stack.icrc, vcrc = packet.stack.vcrc;
    const bool fragment = packet.stack.fragment;
    restore(saved->stack, packet.stack, frame.bytes, frame.wire_length);
    packet.stack.icrc = icrc;
    packet.stack.vcrc = vcrc;
    packet.stack.fragment = fragment;
  }
  packet.upper = saved->upper;
  for (std::size_t i = 0; i < saved->note_count; ++i) packet.notes.push_back(notes_[saved->notes + i]);
  for (std::size_t i = 0; i < saved->pdu_count; ++i) {
    const SavedPdu& from = pdus_[saved->pdus + i];
    Bytes bytes(from.bytes, from.length);
    if (!from.bytes) {
      if (std::size_t{from.offset} + from.length > frame.bytes.size()) continue;  // the bytes of the frame have changed
      bytes = frame.bytes.subspan(from.offset, from.length);
    }
    tracking::Pdu& pdu = packet.pdus.emplace_back();
    pdu.in_frame = from.in_frame;
    pdu.crc = from.crc;
    pdu.markers = from.markers;
    pdu.reassembled = from.reassembled;
    pdu.wrong_marker = from.wrong_marker;
    restore(from.stack, pdu.stack, bytes, from.wire_length);
  }
  return packet;
}

void Session::finish() {
  if (finished_) return;
  finished_ = true;
  tracker_->finish();
  tracker_.reset();  // no frame is added any more
  link_violations();
  number_streams();
}

// Numbers the connections by their first frames. Directions that were paired late now belong to their connection.
void Session::number_streams() {
  if (once_) return;
  for (auto& [id, facts] : connections_) {
    facts.stream = ConnectionFacts::no_stream;
    facts.last_time = facts.first_time;
  }
  streams_ = 0;
  std::unordered_map<std::uint64_t, std::int64_t> merged;  // times of the last packets of merged directions
  std::uint64_t last_id = 0;
  ConnectionFacts *own = nullptr, *whole = nullptr;
  for (std::size_t frame = rows_.begin(); frame < rows_.end(); ++frame) {
    const Row& row = std::as_const(rows_)[frame];
    const std::uint64_t id = connection_in(row);
    if (id == 0) continue;
    if (!own || id != last_id) {
      bool swapped = false;
      last_id = id;
      own = &connections_[last_id];
      whole = &connections_[now_called(last_id, swapped)];
    }
    if (own == whole && renamed_.empty() && !assigned_late_) {
      if (whole->stream == ConnectionFacts::no_stream) whole->stream = streams_++;
      continue;
    }
    std::int64_t& last = merged.try_emplace(last_id, own->first_time).first->second;
    const std::int64_t time = row.own_time ? row.time : last += row.time;
    if (whole->stream == ConnectionFacts::no_stream) {
      whole->stream = streams_++;
      whole->first_time = whole->last_time = time;
    }
    Row& changed = rows_[frame];
    changed.time = time - whole->last_time;
    changed.own_time = false;
    whole->last_time = time;
  }
}

// Assigns a CM packet to its connection, whose ID is known since the REQ.
void Session::note_cm(Row& row) {
  const std::uint32_t exchange = exchanges_.add(packet_);
  if (exchange == 0) return;
  row.cm = true;
  row.message = exchange;
  const std::uint64_t id = exchanges_.connection_of(exchange);
  if (id == 0) {
    row.own_time = true;
    return;
  }
  ConnectionFacts& facts = connections_[id];
  facts.id = id;
  if (facts.stream == ConnectionFacts::no_stream) facts.stream = streams_++;
  if (facts.last_time == 0) facts.first_time = facts.last_time = row.time;
  row.time -= std::exchange(facts.last_time, row.time);
}

// Assigns the CM packets of an exchange whose REQ was not captured, by the frames of its event.
void Session::assign_cm(const Event& event) {
  if (event.connection == 0) return;
  for (const std::uint64_t frame : {event.frame, event.last_frame})
    if (const Row* row = find_row(frame); row && row->cm && exchanges_.assign(row->message, event.connection))
      assigned_late_ = true;
  const auto known = connections_.find(event.connection);
  if (known == connections_.end() || known->second.last_time == 0) return;
  // The last packet follows the others. finish() computes the times of earlier CM packets.
  if (Row& row = row_of(last_frame_);
      row.cm && row.own_time && exchanges_.connection_of(row.message) == event.connection) {
    row.own_time = false;
    row.time -= std::exchange(known->second.last_time, row.time);
  }
}

// Returns the ID of the row's connection, before merging. 0: none.
std::uint64_t Session::connection_in(const Row& row) const {
  if (row.cm) return exchanges_.connection_of(row.message);
  return row.has_note ? row.connection : 0;
}

// Evaluates the sender of a datagram of QP 1. transport() evaluates the other packets.
void Session::note_stack() {
  if (!packet_.stack.find(info<Mad>)) return;
  tracking::TransportPacket t;
  if (tracking::read_transport_packet(packet_, t))
    stacks_.learn(t.from, {.source_port = t.source_port, .sender_qp = t.source_qp, .migrated = t.migrated});
}

// A message of RPC-over-RDMA starts with XID, version, credits and message type. RFC 8166, 4.1
void Session::note_rpc(Row& row) {
  constexpr std::uint32_t shortest = 28, version = 1, last_type = 4;
  const auto is_rpc = [](Bytes bytes) {
    return bytes.size() >= shortest && load_be<4>(bytes.data() + 4) == version &&
           load_be<4>(bytes.data() + 12) <= last_type;
  };
  if (const auto bth = packet_.stack.get<Bth>()) {
    const Opcode& op = opcode(bth->get<"opcode">());
    if (!op.known || op.operation != Operation::send) return;
    const auto ports = tracking::ports_of(packet_.stack);
    if (!ports) return;
    // Without its first packet, a message cannot be dissected.
    bool& not_rpc = not_rpc_.try_emplace(ports->with(bth->get<"dest_qp">()).hash(), true).first->second;
    if (op.begins_message()) not_rpc = !is_rpc(packet_.stack.bytes_of(message_bytes(packet_.stack)));
    row.not_rpc = not_rpc;
    return;
  }
  // Messages of several segments are passed to upper layers as a whole: their first segment decides.
  for (const tracking::Pdu& pdu : packet_.pdus) {
    const auto untagged = pdu.stack.get<DdpUntagged>();
    if (!untagged || untagged->get<"qn">() != 0 || !pdu.connection) continue;
    bool& not_rpc = not_rpc_.try_emplace(pdu.connection->id * 2 + (pdu.from_initiator ? 1 : 0), true).first->second;
    if (untagged->get<"mo">() == 0) not_rpc = !is_rpc(pdu.stack.bytes_of(message_bytes(pdu.stack)));
    row.not_rpc = not_rpc;
  }
}

bool Session::is_not_rpc(std::uint64_t frame) const {
  const Row* row = find_row(frame);
  return row && row->not_rpc;
}

bool Session::eventful(std::uint64_t frame) const {
  const Row* row = find_row(frame);
  return row && (row->happened || row->again || row->repeated_response ||
                 row->answered == tracking::Answered::acknowledged || row->answered == tracking::Answered::unseen);
}

void Session::add_early(std::uint64_t frame, const EarlyResult& result) {
  if (finished_) return;
  early_.add(result);
  link(frame, What::early, early_.end() - 1);
}

// Results that the packet itself contains. Their events can wait for later packets.
void Session::note_early_of_packet() {
  using enum tracking::EventKind;
  const auto bad = [](const CrcCheck& check) { return check.status == CrcCheck::Status::bad; };
  if (bad(packet_.icrc) || bad(packet_.vcrc) ||
      std::any_of(packet_.pdus.begin(), packet_.pdus.end(), [&](const tracking::Pdu& pdu) { return bad(pdu.crc); }))
    add_early(packet_.number, {.kind = crc_bad});
  const auto bth = packet_.stack.get<Bth>();
  if (!bth) return;
  if (const Opcode& op = opcode(bth->get<"opcode">()); op.operation == Operation::congestion_notification)
    add_early(packet_.number, {.kind = cnp});
  if (const auto aeth = packet_.stack.get<Aeth>(); aeth && Syndrome(aeth->get<"syndrome">()).is_rnr_nak())
    add_early(packet_.number, {.kind = rnr_nak});
}

void Session::note_early(const Connection& connection, std::uint64_t frame, const PacketNote& note) {
  using enum tracking::Arrival;
  EarlyResult result{.cause = note.cause, .cause_frame = static_cast<std::uint32_t>(note.cause_frame)};
  switch (note.arrival) {
    case in_order: return;
    case after_gap: result.kind = tracking::EventKind::psn_gap; break;
    case out_of_order: result.kind = tracking::EventKind::out_of_order; break;
    case duplicate: result.kind = tracking::EventKind::duplicate; break;
    case retransmission: {
      result.kind = connection.service == tracking::Service::iwarp ? tracking::EventKind::tcp_retransmission
                                                                   : tracking::EventKind::retransmission;
      if (note.burst_frame != 0) note_open_burst(requests_of(note.connection, note.end), note);
      break;
    }
  }
  add_early(frame, result);
}

// Removes results that events contain, and adds the burst of a retransmission.
void Session::early_of(std::uint64_t frame, FrameFacts& facts) const {
  using enum tracking::EventKind;
  const auto has = [&](auto... kinds) {
    return std::any_of(facts.events.begin(), facts.events.end(),
                       [&](const Event* event) { return ((event->kind == kinds) || ...); });
  };
  const auto is_known = [&](const EarlyResult& result) {
    switch (result.kind) {
      case psn_gap: return has(psn_gap, lost_in_network, lost_in_capture);
      case retransmission:
      case tcp_retransmission: return facts.retransmission != nullptr || has(duplicate, out_of_order);
      case out_of_order:
      case duplicate: return facts.retransmission != nullptr || has(result.kind);
      default: return has(result.kind);
    }
  };
  std::erase_if(facts.early, is_known);
  if (!facts.note) return;
  const bool again = std::any_of(facts.early.begin(), facts.early.end(),
                                 [](const EarlyResult& result) { return result.kind == retransmission; });
  const Requests* requests = again ? find_requests(facts.note->connection, facts.note->end) : nullptr;
  if (!requests) return;
  const auto& open = requests->open_bursts;
  const auto next = std::upper_bound(open.begin(), open.end(), frame,
                                     [](std::uint64_t one, const OpenBurst& burst) { return one < burst.event.frame; });
  if (next == open.begin()) return;
  const OpenBurst& burst = *(next - 1);
  facts.early_round = burst.event;
  facts.round = burst.number;
  facts.reaction = reaction_of(burst.event);
}

void Session::note_open_burst(Requests& requests, const PacketNote& note) const {
  constexpr std::size_t most = 64;  // A burst that turns out to consist of duplicates is never reported.
  auto& open = requests.open_bursts;
  if (open.empty() || open.back().event.frame < note.burst_frame) {
    if (open.size() >= most) open.erase(open.begin());
    OpenBurst& burst = open.emplace_back();
    burst.number = ++requests.bursts;
    burst.event.kind = tracking::EventKind::retransmission;
    burst.event.frame = note.burst_frame;
    burst.event.origin_frame = note.related_frame;
    burst.event.duration = note.related_delay;
    burst.event.time = packet_.time_ns;
    burst.event.packets = 0;
  }
  if (open.back().event.frame != note.burst_frame) return;
  open.back().event.cause = note.cause;
  open.back().event.cause_frame = note.cause_frame;
}

std::vector<std::uint32_t> Session::frames_in_order(std::uint64_t connection, Side sender, bool responses) const {
  std::vector<std::pair<std::int64_t, std::uint32_t>> found;  // PSN without the modulus, and frame
  std::int64_t last = 0;
  for (std::size_t frame = rows_.begin(); frame < rows_.end(); ++frame) {
    const Row& row = rows_[frame];
    if (!row.has_note || row.notifies || row.read_response != responses || is_damaged(frame)) continue;
    bool swapped = false;
    if (now_called(row.connection, swapped) != connection || other_if(row.end, swapped) != sender ||
        (row.requester == row.end) == responses)
      continue;
    last = found.empty() ? row.relative_psn : last + (Psn(row.relative_psn) - Psn(static_cast<std::uint32_t>(last)));
    found.emplace_back(last, static_cast<std::uint32_t>(frame));
  }
  std::sort(found.begin(), found.end());
  std::vector<std::uint32_t> frames;
  for (std::size_t i = 0; i < found.size(); ++i)
    if (i == 0 || found[i].first != found[i - 1].first) frames.push_back(found[i].second);
  return frames;
}

bool Session::is_damaged(std::uint64_t frame) const {
  const Row* row = find_row(frame);
  if (!row || !row->damaged) return false;
  const ConnectionFacts* connection = row->has_note ? connection_of(row->connection) : nullptr;
  return !connection || connection->sound_crcs;
}

bool Session::is_iwarp(std::uint64_t frame) const {
  const Row* row = find_row(frame);
  return row && row->iwarp;
}

std::uint64_t Session::now_called(std::uint64_t id, bool& swapped) const {
  swapped = false;
  // A connection is usually merged once. The limit prevents an endless loop.
  for (int steps = 0; steps < 8; ++steps) {
    const auto found = renamed_.find(id);
    if (found == renamed_.end()) break;
    id = found->second.now;
    swapped ^= found->second.swapped;
  }
  return id;
}

const ConnectionFacts* Session::connection_of(std::uint64_t id) const {
  bool swapped = false;
  const auto found = connections_.find(now_called(id, swapped));
  return found == connections_.end() ? nullptr : &found->second;
}

void Session::facts_of(std::uint64_t frame, FrameFacts& facts) const {
  facts.note.reset();
  facts.connection = nullptr;
  facts.message = nullptr;
  facts.retransmission = nullptr;
  facts.round = 0;
  facts.reaction = 0;
  facts.retransmitted_in = facts.notified_in = 0;
  facts.notification.reset();
  facts.since_previous = 0;
  facts.repeated_response = false;
  facts.duplicate_number = 0;
  facts.early.clear();
  facts.early_round.reset();
  facts.events.clear();
  facts.messages.clear();
  facts.message_parts.clear();
  facts.violations.clear();
  facts.whole.clear();
  facts.parts.clear();
  facts.mrc.reset();
  const Row* row = find_row(frame);
  if (!row) return;
  if (const auto mrc = mrc_notes_.find(frame); mrc != mrc_notes_.end()) facts.mrc = mrc->second;
  for (std::uint32_t at = first_link(frame); at != none;) {
    const Link one = links_[at];
    at = one.next;
    switch (one.what) {
      case What::event: facts.events.push_back(&events_[one.index]); break;
      case What::begins: facts.message_parts.emplace_back(Part::begins, one.index); break;
      case What::ends: facts.message_parts.emplace_back(Part::ends, one.index); break;
      case What::first_response: facts.message_parts.emplace_back(Part::first_response, one.index); break;
      case What::answer: facts.message_parts.emplace_back(Part::answer, one.index); break;
      case What::violation: facts.violations.push_back(violations_[one.index]); break;
      case What::whole: facts.whole.push_back(&stream_messages_[one.index]); break;
      case What::part: facts.parts.push_back(&stream_messages_[one.index]); break;
      case What::early:
        if (!finished_) facts.early.push_back(early_[one.index]);
        break;
    }
  }
  // The list of a frame's events is in reverse order.
  std::reverse(facts.events.begin(), facts.events.end());
  std::reverse(facts.message_parts.begin(), facts.message_parts.end());
  std::reverse(facts.violations.begin(), facts.violations.end());
  std::reverse(facts.whole.begin(), facts.whole.end());
  std::reverse(facts.parts.begin(), facts.parts.end());
  std::reverse(facts.early.begin(), facts.early.end());
  if (!row->has_note) {
    if (const std::uint64_t id = connection_in(*row); id != 0) facts.connection = connection_of(id);
    if (facts.connection) facts.since_previous = row->own_time ? 0 : row->time;
    store_messages(facts, none);
    return early_of(frame, facts);
  }
  facts.since_previous = row->time;
  facts.repeated_response = row->repeated_response;
  bool swapped = false;
  PacketNote& note = facts.note.emplace();
  note.connection = now_called(row->connection, swapped);
  note.end = other_if(row->end, swapped);
  note.requester = other_if(row->requester, swapped);
  note.relative_psn = row->relative_psn;
  note.message = row->message;
  note.related_frame = row->related_frame;
  note.related_delay = row->related_delay;
  note.outstanding = row->outstanding;
  note.again = row->again;
  note.answered = row->answered;
  const bool duplicate = row->answered == tracking::Answered::acknowledged;
  (duplicate ? facts.duplicate_number : note.acknowledged) = row->acknowledged;
  note.outstanding_bytes = row->outstanding_bytes;
  note.reads = row->reads;
  note.read_limit = row->read_limit;
  if (row->has_credits) note.credits = row->credits;
  facts.retransmitted_in = row->retransmitted_in;
  facts.connection = connection_of(note.connection);
  std::uint32_t own = none;
  if (note.message != 0) {
    // Events before pairing contain the earlier ID of the direction.
    for (const auto& [id, requester] :
         {std::pair(note.connection, note.requester), std::pair(std::uint64_t{row->connection}, row->requester)}) {
      const Requests* requests = find_requests(id, requester);
      if (own != none || !requests || !requests->messages.has(note.message - 1)) continue;
      const std::uint32_t index = requests->messages[note.message - 1];
      if (index != none && messages_.has(index)) own = index;
    }
  }
  store_messages(facts, own);
  if (note.again) round_of(frame, *row, facts);
  if (row->notifies || row->marked) congestion_of(frame, *row, facts);
  if (!finished_) early_of(frame, facts);
}

// Copies the messages, because rows of messages_ are compressed. `own`: the message of the frame.
void Session::store_messages(FrameFacts& facts, std::uint32_t own) const {
  auto& stored = facts.stored_messages;
  stored.clear();
  stored.reserve(facts.message_parts.size() + 1);
  std::uint32_t last = none;
  for (const auto& [part, index] : facts.message_parts) {
    // The parts of a message follow each other.
    if (index != last) stored.push_back(messages_[index]);
    last = index;
    facts.messages.emplace_back(part, &stored.back());
    if (index == own) facts.message = &stored.back();
  }
  if (own != none && !facts.message) facts.message = &stored.emplace_back(messages_[own]);
}

// Returns the time from the NAK or RNR NAK to the burst. 0: unknown.
std::int64_t Session::reaction_of(const Event& burst) const {
  if (burst.cause_frame == 0) return 0;
  for (std::uint32_t at = first_link(burst.cause_frame); at != none; at = links_[at].next)
    if (const Link& link = links_[at]; link.what == What::event)
      if (const Event& one = events_[link.index];
          one.kind == tracking::EventKind::nak || one.kind == tracking::EventKind::rnr_nak)
        return burst.time - one.time;
  return 0;
}

void Session::round_of(std::uint64_t frame, const Row& row, FrameFacts& facts) const {
  for (const auto& [id, end] :
       {std::pair(facts.note->connection, facts.note->end), std::pair(std::uint64_t{row.connection}, row.end)}) {
    const Requests* requests = find_requests(id, end);
    if (!requests) continue;
    const auto& rounds = requests->rounds;
    const auto behind = std::upper_bound(rounds.begin(), rounds.end(), frame,
                                         [](std::uint64_t one, const RoundPlace& round) { return one < round.frame; });
    if (behind == rounds.begin()) continue;
    const RoundPlace& round = *(behind - 1);
    if (frame > round.last_frame || !events_.has(round.index)) continue;
    const Event& event = events_[round.index];
    facts.retransmission = &event;
    facts.round = static_cast<std::uint32_t>(behind - rounds.begin());
    facts.reaction = reaction_of(event);
    return;
  }
}

void Session::congestion_of(std::uint64_t frame, const Row& row, FrameFacts& facts) const {
  const auto before = [](const auto& one, std::uint64_t other) { return one.first < other; };
  // A CNP is sent to the sender of the marked packets.
  const Side sender = row.notifies ? tracking::other(facts.note->end) : facts.note->end;
  const Requests* requests = find_requests(facts.note->connection, sender);
  if (!requests) return;
  const auto &marks = requests->marks, &notifications = requests->notifications;
  if (row.marked) {
    const auto next = std::lower_bound(notifications.begin(), notifications.end(), frame, before);
    if (next != notifications.end()) facts.notified_in = next->first;
  }
  if (!row.notifies) return;
  const auto own = std::lower_bound(notifications.begin(), notifications.end(), frame, before);
  if (own == notifications.end() || own->first != frame) return;
  NotificationFacts& found = facts.notification.emplace();
  auto from = marks.begin();
  if (own != notifications.begin()) {
    found.before_frame = (own - 1)->first;
    found.interval = own->second - (own - 1)->second;
    from = std::lower_bound(marks.begin(), marks.end(), found.before_frame, before);
  }
  const auto to = std::lower_bound(from, marks.end(), frame, before);
  found.marked = static_cast<std::uint32_t>(to - from);
  if (to == marks.begin()) return;
  found.marked_frame = (to - 1)->first;
  found.after = own->second - (to - 1)->second;
}

void Session::message(const Connection& connection, const Message& message) {
  note_connection(connection);
  const std::size_t index = messages_.end();
  messages_.add(MessageFacts(message));
  // Numbers increase by one. The limit bounds the memory for unexpected numbers.
  constexpr std::uint64_t most_numbers = std::uint64_t{1} << 26;
  if (message.number != 0 && message.number < most_numbers) {
    auto& known = requests_of(message.connection, message.end).messages;
    while (known.end() < message.number) known.add(none);
    if (once_) forget_messages(known);
    if (known.has(message.number - 1)) known[message.number - 1] = static_cast<std::uint32_t>(index);
  }
  link(message.first_frame, What::begins, index);
  if (message.last_frame != message.first_frame) link(message.last_frame, What::ends, index);
  if (message.first_response_frame != message.answer_frame)
    link(message.first_response_frame, What::first_response, index);
  link(message.answer_frame, What::answer, index);
}

void Session::event(const Connection* connection, const Event& event) {
  if (monitors_) monitors_->event(connection, event);
  if (connection) note_connection(*connection);
  const std::size_t index = events_.end();
  events_.add(event);
  link(event.frame, What::event, index);
  if (event.kind == tracking::EventKind::retransmission || event.kind == tracking::EventKind::tcp_retransmission) {
    auto& rounds = requests_of(event.connection, event.end).rounds;
    // A recovery that waited for evidence is reported after later ones.
    const auto place = std::upper_bound(rounds.begin(), rounds.end(), event.frame,
                                        [](std::uint64_t one, const RoundPlace& round) { return one < round.frame; });
    rounds.insert(place, {static_cast<std::uint32_t>(event.frame), static_cast<std::uint32_t>(event.last_frame),
                          static_cast<std::uint32_t>(index)});
  }
  if (event.kind == tracking::EventKind::retransmission)
    std::erase_if(requests_of(event.connection, event.end).open_bursts,
                  [&](const OpenBurst& burst) { return burst.event.frame == event.frame; });
  using enum tracking::EventKind;
  if (event.kind == opened || event.kind == closed || event.kind == rejected) assign_cm(event);
  if (event.kind == rejected || event.kind == tcp_reset || event.kind == terminate)
    if (const auto found = connections_.find(event.connection); found != connections_.end())
      found->second.aborted = true;
  if (event.kind == tracking::EventKind::ecn_marked && event.connection != 0 && rows_.has(event.frame)) {
    rows_[event.frame].marked = true;
    requests_of(event.connection, event.end).marks.emplace_back(event.frame, event.time);
  }
}

void Session::connection(const Connection& connection, tracking::CloseReason close_reason) {
  if (monitors_) monitors_->connection(connection, close_reason);
  note_connection(connection);
}

void Session::merged(const Connection& connection, std::uint64_t id) {
  if (monitors_) monitors_->merged(connection, id);
  note_connection(connection);
  // The merged direction becomes the second direction of the connection, so its endpoints are reversed.
  renamed_[id] = {connection.id, true};
  if (const auto half = connections_.find(id); half != connections_.end())
    last_connection_->sound_crcs |= half->second.sound_crcs;
  for (const Side end : {Side::a, Side::b}) {
    const auto half = requests_.find(key_of(id, end));
    if (half == requests_.end()) continue;
    Requests &from = half->second, &into = requests_of(connection.id, tracking::other(end));
    for (const auto list : {&Requests::marks, &Requests::notifications}) {
      (into.*list).insert((into.*list).end(), (from.*list).begin(), (from.*list).end());
      std::sort((into.*list).begin(), (into.*list).end());
    }
  }
}

void Session::packet(const Connection& connection, std::uint64_t frame, const PacketNote& note) {
  note_connection(connection);
  if (frame == 0 || frame > last_frame_ || frame < rows_.begin()) return;
  Row& row = row_of(frame);
  ConnectionFacts& facts = *last_connection_;
  if (facts.stream == ConnectionFacts::no_stream) facts.stream = streams_++;
  (note.requester == note.end && note.answered == tracking::Answered::nothing ? facts.requests : facts.responses) =
      true;
  const bool is_new = !row.has_note;
  if (is_new) {
    if (facts.last_time == 0) facts.first_time = facts.last_time = row.time;
    row.time -= std::exchange(facts.last_time, row.time);
    if (row.read_response && !row.cut && !row.damaged && note.requester != note.end &&
        note.answered != tracking::Answered::nothing)
      row.repeated_response = requests_of(note.connection, note.requester).read_responses.add(note.relative_psn);
  }
  facts.sound_crcs |= row.sound_crc;
  const bool was_other = !is_new && row.answered != tracking::Answered::acknowledged;
  row.has_note = true;
  row.connection = static_cast<std::uint32_t>(note.connection);
  row.message = static_cast<std::uint32_t>(note.message);
  row.related_frame = static_cast<std::uint32_t>(note.related_frame);
  row.related_delay = note.related_delay;
  row.relative_psn = note.relative_psn;
  row.outstanding = note.outstanding;
  row.again = note.again;
  row.end = note.end;
  row.requester = note.requester;
  row.answered = note.answered;
  if (is_new || note.answered != tracking::Answered::acknowledged) row.acknowledged = note.acknowledged;
  row.outstanding_bytes = note.outstanding_bytes;
  row.reads = static_cast<std::uint16_t>(std::min<std::uint32_t>(note.reads, UINT16_MAX));
  row.read_limit = note.read_limit;
  row.has_credits = note.credits.has_value();
  row.credits = static_cast<std::uint16_t>(std::min<std::uint32_t>(note.credits.value_or(0), UINT16_MAX));
  if (is_new && note.answered == tracking::Answered::acknowledged)
    row.acknowledged = ++requests_of(note.connection, note.requester).duplicates;
  else if (note.acknowledged != 0)
    requests_of(note.connection, note.requester).duplicates = 0;
  if (was_other && note.answered == tracking::Answered::acknowledged) row.acknowledged = 0;  // it has no number
  if (note.again && note.related_frame != frame && rows_.has(note.related_frame))
    if (Row& first = rows_[note.related_frame]; first.retransmitted_in == 0)
      first.retransmitted_in = static_cast<std::uint32_t>(frame);
  if (row.notifies) {
    requests_of(note.connection, tracking::other(note.end)).notifications.emplace_back(frame, notified_at_[frame]);
    notified_at_.erase(frame);
  }
  note_early(connection, frame, note);
  if (row.segment == none || note.message == 0 || note.message >= std::uint64_t{1} << 26) return;
  auto& newest = requests_of(note.connection, note.requester).segments;
  newest.grow(note.message);
  if (once_) forget_messages(newest);
  if (!newest.has(note.message - 1)) return;
  segments_[row.segment].previous = newest[note.message - 1];
  newest[note.message - 1] = static_cast<std::uint32_t>(frame);
}

void Session::transport(const Connection& connection, Side from, const tracking::TransportPacket& t,
                        const tracking::NegotiatedParameters* agreement) {
  if (!monitors_) return;
  if (const tracking::ConnectionEnd& end = connection.at(from); end.qp_known && !t.migrated)
    stacks_.learn(t.from, {.source_port = t.source_port, .sender_qp = end.qp, .migrated = t.migrated});
  monitors_->transport(connection, from, t, agreement);
}

void Session::stream(const Connection& connection, Side from, const Packet& packet) {
  if (monitors_) monitors_->stream(connection, from, packet);
}

void Session::note_connection(const Connection& connection) {
  if (!last_connection_ || last_connection_->id != connection.id) last_connection_ = &connections_[connection.id];
  ConnectionFacts& facts = *last_connection_;
  facts.id = connection.id;
  facts.service = connection.service;
  facts.wire = connection.wire;
  facts.ends = connection.ends;
  facts.paired_by = connection.paired_by;
  facts.mtu = connection.mtu;
  facts.opened_frame = connection.opened_frame;
  facts.closed_frame = connection.closed_frame;
  facts.open_duration = connection.open_duration;
}

void Session::link_violations() {
  if (!monitors_) return;
  const auto& all = monitors_->evaluator().violations();
  for (; violations_seen_ < all.size(); ++violations_seen_) {
    const conformance::Violation& violation = all[violations_seen_];
    const conformance::Place& place = violation.place;
    ViolationFacts& facts = violations_.emplace_back(ViolationFacts{&violation});
    if (place.by_flow) {
      facts.stack = stacks_.of(place.flow.from);
    } else if (const ConnectionFacts* connection = connection_of(place.connection)) {
      bool swapped = false;
      static_cast<void>(now_called(place.connection, swapped));
      facts.stack = stacks_.of(connection->ends[static_cast<std::size_t>(other_if(place.end, swapped))].address);
    }
    if (conformance::harmless_deviation(facts.stack, violation.of()).empty()) facts.stack = conformance::Stack::unknown;
    link(violation.place.frame, What::violation, violations_.size() - 1);
  }
}

}  // namespace rdmawire::wireshark
