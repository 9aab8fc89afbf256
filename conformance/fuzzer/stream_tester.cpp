#include "conformance/fuzzer/stream_tester.hpp"

#include <algorithm>

#include "dissectors/machines/mpa_framing.hpp"
#include "dissectors/machines/rdmap.hpp"
#include "dissectors/protocol/ddp.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/rdmap.hpp"

namespace rdmawire::fuzzer {

namespace {

using ByteVector = std::vector<std::uint8_t>;
using Kind = Mutation::Kind;

/// Sink address of the tester's READs. The tester does not store the data.
constexpr std::uint32_t sink_stag = 0x5157;
constexpr std::uint64_t sink_to = 0x1000;
constexpr std::size_t most_pending = 128 << 10, most_requests = 64;

void append(ByteVector& to, Bytes bytes) {
  const std::size_t before = to.size();
  to.resize(before + bytes.size());
  std::ranges::copy(bytes, to.begin() + static_cast<std::ptrdiff_t>(before));
}
std::uint32_t lower_half(std::int64_t value) { return static_cast<std::uint32_t>(static_cast<std::uint64_t>(value)); }

const Mutation* find(const Step& step, Kind kind) {
  const auto found = std::ranges::find(step.mutations, kind, &Mutation::kind);
  return found == step.mutations.end() ? nullptr : &*found;
}

void change_fields(std::span<const Mutation> mutations, ByteVector& bytes) {
  HeaderStack stack;
  decode_stream(stack, bytes);
  for (const Mutation& mutation : mutations) {
    if (mutation.kind != Kind::set && mutation.kind != Kind::add) continue;
    const Layer* layer = mutation.header ? stack.find(*mutation.header) : nullptr;
    if (!layer || layer->offset + mutation.header->size > bytes.size()) continue;
    std::uint8_t* at = bytes.data() + layer->offset;
    const auto value = static_cast<std::uint64_t>(mutation.value);
    mutation.field->store(at, mutation.kind == Kind::set ? value : mutation.field->load(at) + value);
  }
}

/// Return an FPDU without markers: length, ULPDU, pad, and a CRC of zeros.
ByteVector fpdu_of(Bytes ulpdu) {
  ByteVector fpdu;
  MpaSender({.markers = false, .crc = false}).send(fpdu, ulpdu);
  return fpdu;
}

/// Apply mutations that change the end of a frame.
void change_end(std::span<const Mutation> mutations, ByteVector& bytes, Bytes before) {
  for (const Mutation& mutation : mutations) {
    const std::size_t count = static_cast<std::uint64_t>(mutation.value) % 4096;
    switch (mutation.kind) {
      case Kind::truncate: bytes.resize(bytes.size() - std::min(count, bytes.size())); break;
      case Kind::extend: bytes.resize(bytes.size() + count, 0xa5); break;
      case Kind::splice: {
        const Bytes tail = before.last(std::min(count, before.size()));
        bytes.resize(bytes.size() - std::min(count, bytes.size()));
        append(bytes, tail);
        break;
      }
      default: break;
    }
  }
}

}  // namespace

bool is_sent_by_tester(StepKind kind) {
  return kind == StepKind::connect || kind == StepKind::setup || kind == StepKind::segment;
}

void decode_stream(HeaderStack& stack, Bytes bytes) {
  const bool frame = bytes.size() >= MpaFrame::size && bytes[0] == 'M' && bytes[1] == 'P';
  if (frame)
    decode_mpa_frame(stack, bytes);
  else
    decode_fpdu(stack, bytes);
}

void StreamTester::begin() { *this = {}; }

ByteVector StreamTester::setup_frame(const Step& step, bool reply) const {
  const auto has = [&](std::int64_t flag) { return (step.flags & flag) != 0; };
  const bool other = has(setup_flags::other_key);
  const std::string_view key = has(setup_flags::no_key) ? std::string_view("MPA ID Xxx Frame")
                               : reply != other         ? mpa::reply_key
                                                        : mpa::request_key;
  const bool enhanced = has(setup_flags::enhanced);
  ByteVector tail;
  if (enhanced && !has(setup_flags::short_data))
    append(tail, Value<MpaEnhanced>()
                     .set<"peer_to_peer">(has(setup_flags::peer_to_peer))
                     .set<"rtr_send">(has(setup_flags::rtr_send))
                     .set<"rtr_write">(has(setup_flags::rtr_write))
                     .set<"rtr_read">(has(setup_flags::rtr_read))
                     .set<"ird">(lower_half(step.ird) & 0x3fffU)
                     .set<"ord">(lower_half(step.ord) & 0x3fffU)
                     .bytes());
  for (std::int64_t i = 0; i < step.payload; ++i) tail.push_back(static_cast<std::uint8_t>(i * 3 + 1));
  const auto frame = Value<MpaFrame>()
                         .set<"key">(Bytes(reinterpret_cast<const std::uint8_t*>(key.data()), key.size()))
                         .set<"markers">(has(setup_flags::markers))
                         .set<"crc">(!has(setup_flags::no_crc))
                         .set<"reject">(has(setup_flags::reject))
                         .set<"enhanced">(enhanced)
                         .set<"revision">(enhanced ? 2 : 1)
                         .set<"private_data_length">(tail.size() & 0xffff);
  ByteVector bytes;
  bytes.reserve(MpaFrame::size + tail.size());
  append(bytes, frame.bytes());
  append(bytes, tail);
  return bytes;
}

ByteVector StreamTester::ulpdu(const Step& step, const KnownObjects& objects, const StreamBases& bases) const {
  const auto has = [&](std::int64_t flag) { return (step.flags & flag) != 0; };
  const RdmapOpcode& op = rdmap_opcode(static_cast<std::uint8_t>(step.opcode & 15));
  const auto operation = static_cast<RdmapOperation>(step.opcode & 15);
  const bool tagged = op.tagged != has(segment_flags::other_model);
  const KnownObjects::Memory& memory = objects.memory[static_cast<std::size_t>(step.key)];
  const std::uint32_t stag = memory.key ^ (has(segment_flags::other_stag) ? 0x100U : 0U);
  const std::uint64_t to = memory.address + static_cast<std::uint64_t>(step.offset);
  const std::uint32_t queue = op.queue + lower_half(step.queue);
  ByteVector bytes;
  bytes.reserve(128 + static_cast<std::size_t>(step.payload));
  append(bytes,
         Value<Ddp>().set<"tagged">(tagged).set<"last">(!has(segment_flags::more)).set<"dv">(bases.version).bytes());
  append(bytes, Value<Rdmap>().set<"rv">(bases.version).set<"opcode">(static_cast<unsigned>(step.opcode & 15)).bytes());
  const Request none{}, &oldest = requests_.empty() ? none : requests_.front();
  if (tagged) {
    const bool response = operation == RdmapOperation::read_response;
    append(bytes, Value<DdpTagged>()
                      .set<"stag">(response ? oldest.stag ^ (has(segment_flags::other_stag) ? 0x100U : 0U) : stag)
                      .set<"to">(response ? oldest.to + oldest.received + static_cast<std::uint64_t>(step.offset) : to)
                      .bytes());
  } else {
    append(bytes, Value<DdpUntagged>()
                      .set<"invalidate_stag">(op.invalidate ? stag : 0)
                      .set<"qn">(queue)
                      .set<"msn">(bases.msn[queue & 3] + lower_half(step.msn))
                      .set<"mo">(bases.mo[queue & 3] + lower_half(step.mo))
                      .bytes());
  }
  switch (operation) {
    case RdmapOperation::read_request:
      append(bytes, Value<RdmapReadRequest>()
                        .set<"sink_stag">(sink_stag)
                        .set<"sink_to">(sink_to)
                        .set<"size">(lower_half(step.length))
                        .set<"src_stag">(stag)
                        .set<"src_to">(to)
                        .bytes());
      break;
    case RdmapOperation::atomic_request:
      append(bytes, Value<RdmapAtomicRequest>()
                        .set<"operation">(lower_half(step.number) & 15U)
                        .set<"request_id">(0x77 + bases.msn[1])
                        .set<"stag">(stag)
                        .set<"to">(to)
                        .set<"add_swap_data">(static_cast<std::uint64_t>(step.value))
                        .set<"add_swap_mask">(static_cast<std::uint64_t>(step.mask))
                        .set<"compare_data">(static_cast<std::uint64_t>(step.compare))
                        .set<"compare_mask">(static_cast<std::uint64_t>(step.compare_mask))
                        .bytes());
      break;
    case RdmapOperation::atomic_response:
      append(bytes, Value<RdmapAtomicResponse>()
                        .set<"request_id">(oldest.id ^ (has(segment_flags::other_id) ? 1U : 0U))
                        .set<"original">(static_cast<std::uint64_t>(step.value))
                        .bytes());
      break;
    case RdmapOperation::terminate:
      append(bytes, Value<Terminate>()
                        .set<"layer">(lower_half(step.value) >> 12 & 15U)
                        .set<"etype">(lower_half(step.value) >> 8 & 15U)
                        .set<"error_code">(lower_half(step.value) & 255U)
                        .bytes());
      break;
    case RdmapOperation::immediate_data:
    case RdmapOperation::immediate_data_se:
      append(bytes, Value<RdmapImmediateData>().set<"data">(static_cast<std::uint64_t>(step.immediate)).bytes());
      break;
    default: break;
  }
  const auto first = static_cast<std::uint8_t>(step.opcode * 31 + static_cast<std::int64_t>(bases.msn[0]) * 3 + 1);
  const std::size_t header = bytes.size();
  bytes.resize(header + static_cast<std::size_t>(step.payload));
  for (std::size_t i = header; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(first + (i - header) * 5);
  return bytes;
}

ByteVector StreamTester::plain(const Step& step, const KnownObjects& objects, const StreamBases& bases) const {
  if (step.kind == StepKind::segment) return fpdu_of(ulpdu(step, objects, bases));
  return setup_frame(step, step.kind == StepKind::connect ? step.number == 1 : bases.device_initiated);
}

void StreamTester::answered(const Step& step) {
  const auto operation = static_cast<RdmapOperation>(step.opcode & 15);
  if (requests_.empty()) return;
  Request& oldest = requests_.front();
  if (oldest.atomic != (operation == RdmapOperation::atomic_response)) return;
  if (!oldest.atomic && operation != RdmapOperation::read_response) return;
  oldest.received += static_cast<std::uint32_t>(step.payload);
  if ((step.flags & segment_flags::more) == 0) requests_.pop_front();
}

void StreamTester::make(const Step& step, const KnownObjects& objects, const StreamBases& bases,
                        std::vector<ByteVector>& segments) {
  segments.clear();
  if (step.kind == StepKind::connect) begin();
  if (!is_sent_by_tester(step.kind) || (step.kind == StepKind::connect && (step.flags & setup_flags::silent) != 0))
    return;
  ByteVector fpdu;
  if (step.kind == StepKind::segment) {
    ByteVector content = ulpdu(step, objects, bases);
    ByteVector unchanged;
    if (find(step, Kind::stale_crc)) {
      MpaSender sender({.markers = bases.markers, .crc = bases.crc}, position_);
      sender.send(unchanged, content);
    }
    std::uint64_t length = content.size();
    if (!step.mutations.empty()) {
      change_end(step.mutations, content, before_);
      ByteVector changed_fpdu = fpdu_of(content);
      const std::size_t bytes = content.size();
      change_fields(step.mutations, changed_fpdu);
      length = View<Fpdu>(changed_fpdu.data()).get<"ulpdu_length">();
      content.assign(changed_fpdu.begin() + Fpdu::size,
                     changed_fpdu.begin() + static_cast<std::ptrdiff_t>(Fpdu::size + bytes));
    }
    MpaSender sender({.markers = bases.markers, .crc = bases.crc}, position_);
    if (!sender.send(fpdu, content)) return;
    const std::uint32_t padding = mpa::pad_bytes(static_cast<std::uint32_t>(content.size()));
    const std::size_t crc_at = fpdu.size() - mpa::crc_bytes;
    bool changed = false;
    if (length != content.size()) {
      const std::size_t at = bases.markers && MarkerGrid::inside(position_) ? mpa::marker_bytes : 0;
      store_be(fpdu.data() + at, Fpdu::size, length);
      changed = true;
    }
    if (const Mutation* pad = find(step, Kind::pad); pad && padding != 0 && !bases.markers) {
      std::fill_n(fpdu.data() + crc_at - padding, padding, static_cast<std::uint8_t>(pad->value));
      changed = true;
    }
    if (const Mutation* marker = find(step, Kind::marker); marker && bases.markers) {
      std::uint8_t* last = nullptr;
      for (std::size_t at = MarkerGrid::to_next(position_); at < crc_at; at += mpa::marker_interval)
        last = fpdu.data() + at + 2;
      if (last) store_be(last, 2, load_be<2>(last) + static_cast<std::uint64_t>(marker->value));
      changed = true;
    }
    if (changed && bases.crc) store_be(fpdu.data() + crc_at, 4, compute_mpa_crc(Bytes(fpdu).first(crc_at)));
    if (!unchanged.empty()) std::copy_n(unchanged.end() - mpa::crc_bytes, mpa::crc_bytes, fpdu.end() - mpa::crc_bytes);
    if (const Mutation* bad = find(step, Kind::bad_crc))
      store_be(fpdu.data() + crc_at, 4,
               load_be<4>(fpdu.data() + crc_at) ^ (bad->value == 0 ? 1 : lower_half(bad->value)));
    before_ = std::move(content);
  } else {
    fpdu = plain(step, objects, bases);
    change_end(step.mutations, fpdu, before_);
    change_fields(step.mutations, fpdu);
  }
  if (const Mutation* cut = find(step, Kind::cut))
    fpdu.resize(fpdu.size() - std::min<std::size_t>(static_cast<std::uint64_t>(cut->value) % 4096, fpdu.size()));
  if (find(step, Kind::drop)) return;
  if (step.kind == StepKind::segment) answered(step);
  if (find(step, Kind::hold) && delayed_.empty()) {
    delayed_ = std::move(fpdu);
    return;
  }
  const bool counts = step.kind == StepKind::segment;
  if (counts) position_ += fpdu.size();
  if (!joined_.empty()) {
    fpdu.insert(fpdu.begin(), joined_.begin(), joined_.end());
    joined_.clear();
  }
  if (find(step, Kind::join)) {
    joined_ = std::move(fpdu);
    return;
  }
  const std::size_t bytes = fpdu.size();
  if (const Mutation* split = find(step, Kind::split); split && bytes > 1) {
    const std::size_t first = 1 + static_cast<std::uint64_t>(split->value) % (bytes - 1);
    segments.emplace_back(fpdu.begin(), fpdu.begin() + static_cast<std::ptrdiff_t>(first));
    segments.emplace_back(fpdu.begin() + static_cast<std::ptrdiff_t>(first), fpdu.end());
  } else if (bytes != 0) {
    if (find(step, Kind::duplicate)) {
      segments.push_back(fpdu);
      if (counts) position_ += bytes;
    }
    segments.push_back(std::move(fpdu));
  }
  if (delayed_.empty()) return;
  position_ += delayed_.size();
  segments.push_back(std::move(delayed_));
  delayed_.clear();
}

void StreamTester::receive(Bytes bytes, bool markers) {
  if (pending_.size() + bytes.size() > most_pending) return;
  append(pending_, bytes);
  if (!operating_) {
    if (pending_.size() < MpaFrame::size) return;
    const std::size_t frame = MpaFrame::size + View<MpaFrame>(pending_.data()).get<"private_data_length">();
    if (pending_.size() < frame) return;
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(frame));
    operating_ = true;
  }
  std::size_t at = 0;
  ByteVector room;
  while (at < pending_.size()) {
    const Bytes stream = Bytes(pending_).subspan(at);
    const auto arrival = machines::judge_fpdu(stream, stream_start_, {.markers = markers, .crc = false});
    if (arrival.state == machines::FpduArrival::State::more) break;
    const Bytes fpdu = stream.first(arrival.bytes);
    room.resize(fpdu.size());
    receive_ulpdu(machines::take_ulpdu(fpdu, stream_start_, arrival, markers, room));
    at += arrival.bytes;
    stream_start_ += arrival.bytes;
  }
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(at));
}

void StreamTester::receive_ulpdu(Bytes ulpdu) {
  const auto segment = machines::read_segment(ulpdu);
  if (!segment || segment->tagged || requests_.size() >= most_requests) return;
  const Bytes payload = ulpdu.subspan(machines::ddp_header_bytes(false));
  const auto operation = machines::operation_of(segment->control);
  if (operation == RdmapOperation::read_request && payload.size() >= RdmapReadRequest::size) {
    const View<RdmapReadRequest> request(payload.data());
    requests_.push_back(
        {.stag = request.get<"sink_stag">(), .to = request.get<"sink_to">(), .bytes = request.get<"size">()});
  } else if (operation == RdmapOperation::atomic_request && payload.size() >= RdmapAtomicRequest::size) {
    requests_.push_back({.atomic = true, .id = View<RdmapAtomicRequest>(payload.data()).get<"request_id">()});
  }
}

}  // namespace rdmawire::fuzzer
