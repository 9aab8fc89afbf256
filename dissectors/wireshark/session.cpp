// SPDX-License-Identifier: GPL-2.0-or-later
#include "dissectors/wireshark/session.hpp"

#include <algorithm>

#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/mad.hpp"
#include "dissectors/protocol/rdmap.hpp"

namespace rdmawire::wireshark {
namespace {

constexpr End other_if(End end, bool swap) { return swap ? tracking::other(end) : end; }

tracking::TrackerOptions tracker_options(const SessionOptions& options) {
  tracking::TrackerOptions result;
  result.packets = true;
  result.transport = options.monitors;
  return result;
}

}  // namespace

Range message_octets(const HeaderStack& stack) {
  const auto layers = stack.layers();
  const std::uint32_t end = stack.payload.end();
  std::uint32_t begin = 0;
  if (stack.transport != HeaderStack::none && layers[stack.transport].header == &info<Bth>) {
    const Opcode& op = opcode(View<Bth>(stack.bytes.data() + layers[stack.transport].offset).get<"opcode">());
    if (!op.known || !op.payload) return {};
    begin = layers[stack.transport].offset + Bth::size + op.header_octets;
  } else {
    for (const Layer& layer : layers)
      if (layer.header == &info<DdpTagged> || layer.header == &info<DdpUntagged>) begin = layer.offset + layer.length;
  }
  if (begin == 0 || end <= begin || end > stack.bytes.size()) return {};
  return {begin, end - begin};
}

/// A header stack without what was not used of it.
struct Session::SavedStack {
  std::vector<Layer> layers;
  std::vector<ParseError> findings;
  Range payload, pad, mpa_crc;
  Wire wire = Wire::none;
  std::uint8_t network = HeaderStack::none, transport = HeaderStack::none;
  bool cut = false;

  explicit SavedStack(const HeaderStack& stack)
      : layers(stack.layers().begin(), stack.layers().end()),
        findings(stack.findings().begin(), stack.findings().end()),
        payload(stack.payload),
        pad(stack.pad),
        mpa_crc(stack.mpa_crc),
        wire(stack.wire),
        network(stack.network),
        transport(stack.transport),
        cut(stack.cut) {}
  void into(HeaderStack& stack, Bytes bytes, std::uint32_t wire_length) const {
    stack.reset(bytes, wire_length);
    for (const Layer& layer : layers) stack.push(*layer.header, layer.offset, layer.length);
    for (const ParseError& finding : findings) stack.report(finding);
    stack.payload = payload;
    stack.pad = pad;
    stack.mpa_crc = mpa_crc;
    stack.wire = wire;
    stack.network = network;
    stack.transport = transport;
    stack.cut = cut;
  }
};

/// A PDU of a byte stream; of one that lies in several frames the octets, too.
struct Session::SavedPdu {
  SavedStack stack;
  std::vector<std::uint8_t> octets;  ///< reassembled ones
  std::uint32_t offset = 0;          ///< in the frame, others
  std::uint32_t length = 0, wire_length = 0;
  tracking::Pdu pdu;  ///< its stack is not used

  SavedPdu(const tracking::Pdu& from, Bytes frame, bool keep_payload) : stack(from.stack) {
    length = static_cast<std::uint32_t>(from.stack.bytes.size());
    wire_length = from.stack.wire_length;
    const bool inside =
        from.stack.bytes.data() >= frame.data() && from.stack.bytes.data() + length <= frame.data() + frame.size();
    if (inside) {
      offset = static_cast<std::uint32_t>(from.stack.bytes.data() - frame.data());
    } else {
      octets.assign(from.stack.bytes.begin(), from.stack.bytes.end());
      // The headers are always kept. Where the payload was let go, zeros would lie.
      if (!keep_payload) octets.resize(std::min<std::size_t>(octets.size(), from.stack.payload.offset));
    }
    pdu.in_frame = from.in_frame;
    pdu.reassembled = from.reassembled;
    pdu.crc = from.crc;
    pdu.markers = from.markers;
    pdu.wrong_marker = from.wrong_marker;
    pdu.from_initiator = from.from_initiator;
    pdu.stream_offset = from.stream_offset;
    pdu.stream_end = from.stream_end;
  }
};

/// What of a packet its own octets do not tell.
struct Session::Saved {
  std::optional<SavedStack> stack;  ///< its own, where its connection told of more headers
  std::vector<SavedPdu> pdus;
  tracking::UpperEvidence upper;
  std::vector<std::string_view> notes;
};

Session::Session(const SessionOptions& options)
    : options_(options),
      dissector_(options.dissector),
      monitors_(options.monitors ? std::make_unique<conformance::Monitors>() : nullptr),
      tracker_(std::make_unique<tracking::Tracker>(*this, tracker_options(options))) {}

Session::~Session() = default;

Session::Row& Session::row_of(std::uint64_t frame) {
  if (frame >= rows_.size()) rows_.resize(frame + 1);
  return rows_[frame];
}

const Session::Row* Session::find_row(std::uint64_t frame) const {
  return frame < rows_.size() ? &rows_[frame] : nullptr;
}

void Session::link(std::uint64_t frame, What what, std::size_t index) {
  if (frame == 0 || frame > last_frame_) return;
  Row& row = row_of(frame);
  links_.push_back({static_cast<std::uint32_t>(index), row.links, what});
  row.links = static_cast<std::uint32_t>(links_.size() - 1);
}

const Packet& Session::add(const Frame& frame) {
  last_frame_ = frame.number;
  packet_.number = frame.number;
  packet_.time_ns = frame.time_ns;
  packet_.link = frame.link;
  dissector_.dissect(packet_, frame.bytes, frame.wire_length);
  Row& row = row_of(frame.number);
  row.iwarp = packet_.tcp.connection != nullptr;
  save(row);
  keep_segment(row);
  if (!packet_.pdus.empty()) keep_stream_segments();
  if (monitors_) monitors_->take(packet_);
  tracker_->add(packet_);
  link_violations();
  return packet_;
}

void Session::save(Row& row) {
  // Upper layer headers come behind what decode() gives by itself: where a connection says whose they are.
  const bool upper = packet_.upper.protocol != Upper::unknown || packet_.stack.find(info<Mad>) != nullptr;
  if (!upper && packet_.pdus.empty() && packet_.notes.empty()) return;
  Saved& saved = saved_.emplace_back();
  if (upper) saved.stack.emplace(packet_.stack);
  saved.upper = packet_.upper;
  saved.notes = packet_.notes;
  saved.pdus.reserve(packet_.pdus.size());
  for (const tracking::Pdu& pdu : packet_.pdus) {
    const std::size_t octets = pdu.reassembled ? pdu.stack.bytes.size() : 0;
    const bool keep = kept_ + octets <= options_.kept_octets;
    (keep ? kept_ : dropped_) += octets;
    saved.pdus.emplace_back(pdu, packet_.stack.bytes, keep);
  }
  row.saved = static_cast<std::uint32_t>(saved_.size() - 1);
}

void Session::keep_segment(Row& row) {
  const HeaderStack& stack = packet_.stack;
  const auto bth = stack.get<Bth>();
  const Range range = message_octets(stack);
  if (!bth || range.length == 0 || stack.cut) return;
  const Opcode& op = opcode(bth->get<"opcode">());
  if (op.position == Position::only) return;
  // What was damaged is no part of a message, and comes again.
  if (packet_.icrc.status == CrcCheck::Status::bad) return;
  Segment& segment = segments_.emplace_back();
  row.segment = static_cast<std::uint32_t>(segments_.size() - 1);
  segment.position = op.position;
  segment.length = range.length;
  if (kept_ + range.length > options_.kept_octets) {
    dropped_ += range.length;
    return;
  }
  kept_ += range.length;
  constexpr std::size_t piece = std::size_t{1} << 20;
  if (octets_.empty() || octets_.back().capacity() - octets_.back().size() < range.length)
    octets_.emplace_back().reserve(std::max<std::size_t>(piece, range.length));
  std::vector<std::uint8_t>& into = octets_.back();
  const Bytes octets = stack.bytes_of(range);
  into.insert(into.end(), octets.begin(), octets.end());
  segment.octets = into.data() + into.size() - octets.size();
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
      kept_ -= message.octets.size();
      message = {};
      // Most messages are one segment.
      if (last) continue;
      message.tagged = tagged.has_value();
      message.opcode = rdmap->get<"opcode">();
      if (untagged) message.msn = untagged->get<"msn">();
      if (tagged) open.stag = tagged->get<"stag">();
      open.whole = tagged || offset == 0;
    }
    const Bytes octets = pdu.stack.bytes_of(message_octets(pdu.stack));
    open.next = offset + octets.size();
    message.frames.push_back(static_cast<std::uint32_t>(packet_.number));
    if (open.whole && kept_ + octets.size() > options_.kept_octets) {
      dropped_ += octets.size();
      kept_ -= message.octets.size();
      message.octets = {};
      open.whole = false;
    }
    if (open.whole) {
      kept_ += octets.size();
      message.octets.insert(message.octets.end(), octets.begin(), octets.end());
    }
    if (!last) continue;
    if (open.whole) {
      const std::size_t index = stream_messages_.size();
      stream_messages_.push_back(std::move(message));
      const StreamMessage& done = stream_messages_.back();
      for (std::size_t i = 0; i + 1 < done.frames.size(); ++i)
        if (i == 0 || done.frames[i] != done.frames[i - 1]) link(done.frames[i], What::part, index);
      link(packet_.number, What::whole, index);
    }
    message = {};
  }
}

Session::Requests& Session::requests_of(std::uint64_t connection, End requester) {
  const std::uint64_t key = connection * 2 + static_cast<unsigned>(requester);
  if (!last_requests_ || last_requests_key_ != key) {
    last_requests_ = &requests_[key];
    last_requests_key_ = key;
  }
  return *last_requests_;
}

const Session::Requests* Session::find_requests(std::uint64_t connection, End requester) const {
  const auto found = requests_.find(connection * 2 + static_cast<unsigned>(requester));
  return found == requests_.end() ? nullptr : &found->second;
}

const Session::Arrangement* Session::arranged(std::uint64_t frame) const {
  const Row* row = find_row(frame);
  if (!row || row->segment == none || !row->has_note || row->message == 0) return nullptr;
  const Requests* requests = find_requests(row->connection, row->requester);
  if (!requests || row->message > requests->segments.size()) return nullptr;
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
  for (std::uint32_t one = newest; one != 0; one = segment_of(one).previous) found.order.push_back(one);
  const auto psn = [this](std::uint32_t one) { return rows_[one].relative_psn; };
  // Of one that was sent again the first counts.
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
    if (!fits || !segment.octets) return &found;
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
  whole.octets.clear();
  const Arrangement* arrangement = arranged(frame);
  if (!arrangement || arrangement->whole_in != frame) return false;
  whole.frames.assign(arrangement->order.begin(), arrangement->order.end());
  for (const std::uint32_t one : arrangement->order) {
    const Segment& segment = segments_[rows_[one].segment];
    whole.octets.insert(whole.octets.end(), segment.octets, segment.octets + segment.length);
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
  if (saved->stack) {
    const Range icrc = packet.stack.icrc, vcrc = packet.stack.vcrc;
    const bool fragment = packet.stack.fragment;
    saved->stack->into(packet.stack, frame.bytes, frame.wire_length);
    packet.stack.icrc = icrc;
    packet.stack.vcrc = vcrc;
    packet.stack.fragment = fragment;
  }
  packet.upper = saved->upper;
  packet.notes = saved->notes;
  for (const SavedPdu& from : saved->pdus) {
    tracking::Pdu& pdu = packet.pdus.emplace_back(from.pdu);
    Bytes bytes = from.octets;
    if (from.octets.empty()) {
      if (std::size_t{from.offset} + from.length > frame.bytes.size()) {
        packet.pdus.pop_back();  // not the frame that it was
        continue;
      }
      bytes = frame.bytes.subspan(from.offset, from.length);
    }
    from.stack.into(pdu.stack, bytes, from.wire_length);
  }
  return packet;
}

void Session::finish() {
  if (finished_) return;
  finished_ = true;
  tracker_->finish();
  link_violations();
}

bool Session::eventful(std::uint64_t frame) const {
  const Row* row = find_row(frame);
  return row && (row->links != none || row->again);
}

bool Session::is_iwarp(std::uint64_t frame) const {
  const Row* row = find_row(frame);
  return row && row->iwarp;
}

std::uint64_t Session::now_called(std::uint64_t id, bool& swapped) const {
  swapped = false;
  // A connection is joined once; a longer chain would be a loop.
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
  facts.events.clear();
  facts.messages.clear();
  facts.violations.clear();
  facts.whole.clear();
  facts.parts.clear();
  const Row* row = find_row(frame);
  if (!row) return;
  for (std::uint32_t at = row->links; at != none; at = links_[at].next) {
    const Link& one = links_[at];
    switch (one.what) {
      case What::event: facts.events.push_back(&events_[one.index]); break;
      case What::begins: facts.messages.emplace_back(Part::begins, &messages_[one.index]); break;
      case What::ends: facts.messages.emplace_back(Part::ends, &messages_[one.index]); break;
      case What::first_response: facts.messages.emplace_back(Part::first_response, &messages_[one.index]); break;
      case What::answer: facts.messages.emplace_back(Part::answer, &messages_[one.index]); break;
      case What::violation: facts.violations.push_back(violations_[one.index]); break;
      case What::whole: facts.whole.push_back(&stream_messages_[one.index]); break;
      case What::part: facts.parts.push_back(&stream_messages_[one.index]); break;
    }
  }
  // The last one was linked first.
  std::reverse(facts.events.begin(), facts.events.end());
  std::reverse(facts.messages.begin(), facts.messages.end());
  std::reverse(facts.violations.begin(), facts.violations.end());
  std::reverse(facts.whole.begin(), facts.whole.end());
  std::reverse(facts.parts.begin(), facts.parts.end());
  if (!row->has_note) return;
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
  facts.connection = connection_of(note.connection);
  if (note.message != 0) {
    // What was told of a half is called as it was then.
    for (const auto& [id, requester] :
         {std::pair(note.connection, note.requester), std::pair(std::uint64_t{row->connection}, row->requester)}) {
      const Requests* requests = find_requests(id, requester);
      if (facts.message || !requests || note.message > requests->messages.size()) continue;
      const std::uint32_t index = requests->messages[note.message - 1];
      if (index != none) facts.message = &messages_[index];
    }
  }
  if (note.again)
    for (const std::uint64_t id : {note.connection, std::uint64_t{row->connection}}) {
      const auto rounds = rounds_.find(id);
      if (rounds == rounds_.end() || facts.retransmission) continue;
      for (const std::uint32_t index : rounds->second)
        if (events_[index].frame <= frame && frame <= events_[index].last_frame) facts.retransmission = &events_[index];
    }
}

void Session::message(const Connection& connection, const Message& message) {
  note_connection(connection);
  const std::size_t index = messages_.size();
  messages_.push_back(message);
  // Numbers rise by one; a bound all the same, where they would not.
  constexpr std::uint64_t most_numbers = std::uint64_t{1} << 26;
  if (message.number != 0 && message.number < most_numbers) {
    std::vector<std::uint32_t>& known = requests_of(message.connection, message.end).messages;
    if (known.size() < message.number) known.resize(message.number, none);
    known[message.number - 1] = static_cast<std::uint32_t>(index);
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
  const std::size_t index = events_.size();
  events_.push_back(event);
  link(event.frame, What::event, index);
  if (event.kind == tracking::EventKind::retransmission || event.kind == tracking::EventKind::tcp_retransmission)
    rounds_[event.connection].push_back(static_cast<std::uint32_t>(index));
}

void Session::connection(const Connection& connection, tracking::Farewell farewell) {
  if (monitors_) monitors_->connection(connection, farewell);
  note_connection(connection);
}

void Session::merged(const Connection& connection, std::uint64_t id) {
  if (monitors_) monitors_->merged(connection, id);
  note_connection(connection);
  // The half that had given up is the connection's second one: tracking joins it to the first.
  renamed_[id] = {connection.id, true};
}

void Session::packet(const Connection& connection, std::uint64_t frame, const PacketNote& note) {
  note_connection(connection);
  if (frame == 0 || frame > last_frame_) return;
  Row& row = row_of(frame);
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
  if (row.segment == none || note.message == 0 || note.message >= std::uint64_t{1} << 26) return;
  std::vector<std::uint32_t>& newest = requests_of(note.connection, note.requester).segments;
  if (newest.size() < note.message) newest.resize(note.message, 0);
  segments_[row.segment].previous = newest[note.message - 1];
  newest[note.message - 1] = static_cast<std::uint32_t>(frame);
}

void Session::transport(const Connection& connection, End from, const tracking::TransportPacket& t,
                        const tracking::Agreement* agreement) {
  if (monitors_) monitors_->transport(connection, from, t, agreement);
}

void Session::stream(const Connection& connection, End from, const Packet& packet) {
  if (monitors_) monitors_->stream(connection, from, packet);
}

void Session::note_connection(const Connection& connection) {
  if (!last_connection_ || last_connection_->id != connection.id) last_connection_ = &connections_[connection.id];
  ConnectionFacts& facts = *last_connection_;
  facts.id = connection.id;
  facts.service = connection.service;
  facts.wire = connection.wire;
  facts.ends = connection.ends;
  facts.joined_by = connection.joined_by;
  facts.mtu = connection.mtu;
}

void Session::link_violations() {
  if (!monitors_) return;
  const auto& all = monitors_->judge().violations();
  for (; violations_seen_ < all.size(); ++violations_seen_) {
    const conformance::Violation& violation = all[violations_seen_];
    violations_.push_back(&violation);
    link(violation.place.frame, What::violation, violations_.size() - 1);
  }
}

}  // namespace rdmawire::wireshark
