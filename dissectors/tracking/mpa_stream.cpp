#include "dissectors/tracking/mpa_stream.hpp"

#include <algorithm>

#include "dissectors/protocol/ddp.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/rdmap.hpp"

namespace rdmawire::tracking {
namespace {

using Use = MpaModes::Use;

constexpr std::size_t shortest_fpdu = mpa::fpdu_bytes(Ddp::size + Rdmap::size + DdpTagged::size);
constexpr std::size_t kept_capacity = 8 << 10;  // a buffer that becomes empty keeps at most this capacity

bool is_key(Bytes bytes) {
  // Both keys start with these eight bytes. This check runs for every segment.
  constexpr std::uint64_t common = 0x4d50412049442052;
  return bytes.size() >= 16 && load_be<8>(bytes.data()) == common &&
         (MpaFrame::is_request(bytes.data()) || MpaFrame::is_reply(bytes.data()));
}
bool may_become_key(Bytes bytes) {
  const std::size_t n = std::min<std::size_t>(bytes.size(), 16);
  return std::memcmp(bytes.data(), mpa::request_key.data(), n) == 0 ||
         std::memcmp(bytes.data(), mpa::reply_key.data(), n) == 0;
}

// True if an FPDU can start with these bytes: ULPDU length and the control bytes of DDP and RDMAP are consistent. RFC
// 5041, 4, RFC 5040, 4.1.
bool plausible(const std::uint8_t* fpdu) {
  const auto length = load_be<2>(fpdu);
  const View<Ddp> ddp(fpdu + Fpdu::size);
  const View<Rdmap> rdmap(fpdu + Fpdu::size + Ddp::size);
  if (ddp.get<"dv">() != 1 || ddp.get<"reserved">() != 0 || rdmap.get<"rv">() > 1 || rdmap.get<"reserved">() != 0)
    return false;
  const RdmapOpcode& op = rdmap_opcode(rdmap.get<"opcode">());
  const std::size_t headers = Ddp::size + Rdmap::size + (op.tagged ? DdpTagged::size : DdpUntagged::size);
  return op.known && op.tagged == static_cast<bool>(ddp.get<"tagged">()) && length >= headers;
}
/// A cheap condition for an FPDU or its marker at `bytes`, for the search in streams of other protocols: a marker that
/// points to itself, or the constant bits of the control fields.
bool may_begin_fpdu(const std::uint8_t* bytes) {
  constexpr unsigned ddp_mask = 0x3f, ddp_bits = 1, rdmap_mask = 0xb0;  // reserved bits and versions
  const bool controls = (bytes[2] & ddp_mask) == ddp_bits && (bytes[3] & rdmap_mask) == 0;
  return controls || load_be<4>(bytes) == 0;
}
constexpr std::uint32_t plausible_bytes = Fpdu::size + Ddp::size + Rdmap::size;
// Like plausible(), but the fields of an untagged header must also be consistent. RFC 5040, figure 4.
constexpr std::uint32_t strict_bytes = plausible_bytes + 8;
bool strictly_plausible(const std::uint8_t* fpdu) {
  if (!plausible(fpdu)) return false;
  const RdmapOpcode& op = rdmap_opcode(View<Rdmap>(fpdu + Fpdu::size + Ddp::size).get<"opcode">());
  if (op.tagged) return true;
  const std::uint8_t* untagged = fpdu + plausible_bytes;
  return load_be<4>(untagged + 4) == op.queue && (op.invalidate || load_be<4>(untagged) == 0);
}

/// The next expected fields of a sender's FPDUs: offsets and MSNs of consecutive FPDUs continue each other.
class Continuation {
 public:
  static constexpr std::uint32_t header_bytes = plausible_bytes + DdpUntagged::size;

  /// Processes the first bytes of a plausible FPDU. Returns true if they continue an earlier FPDU.
  bool add(const std::uint8_t* fpdu) {
    const View<Ddp> ddp(fpdu + Fpdu::size);
    const bool tagged = ddp.get<"tagged">(), last = ddp.get<"last">();
    const std::size_t headers = Ddp::size + Rdmap::size + (tagged ? DdpTagged::size : DdpUntagged::size);
    const std::uint64_t payload = load_be<2>(fpdu) - headers;
    const std::uint8_t* at = fpdu + plausible_bytes;
    if (tagged) {
      const std::uint64_t stag = load_be<4>(at), offset = load_be<8>(at + 4);
      const bool continues = payload != 0 && tagged_.known && tagged_.number == stag && tagged_.offset == offset;
      tagged_ = {true, stag, offset + payload};
      return continues;
    }
    const std::uint64_t queue = load_be<4>(at + 4), msn = load_be<4>(at + 8), offset = load_be<4>(at + 12);
    if (queue >= queues_.size()) return false;
    Next& next = queues_[queue];
    const bool continues = next.known && next.number == msn && next.offset == offset;
    next = {true, last ? (msn + 1) & 0xffffffff : msn, last ? 0 : offset + payload};
    return continues;
  }

 private:
  struct Next {
    bool known = false;
    std::uint64_t number = 0, offset = 0;  // STag or MSN, and the offset
  };
  Next tagged_;
  std::array<Next, 4> queues_;
};

}  // namespace

std::uint8_t* Scratch::take(std::size_t byte_count) {
  while (used_block_ < blocks_.size() && blocks_[used_block_].size - used_bytes_ < byte_count) {
    ++used_block_;
    used_bytes_ = 0;
  }
  if (used_block_ == blocks_.size()) {
    const std::size_t size = std::max(byte_count, block_bytes);
    blocks_.push_back({std::make_unique_for_overwrite<std::uint8_t[]>(size), size});
  }
  std::uint8_t* bytes = blocks_[used_block_].bytes.get() + used_bytes_;
  used_bytes_ += byte_count;
  return bytes;
}

void Scratch::reset() {
  used_block_ = used_bytes_ = 0;
  if (blocks_.size() > kept_blocks) blocks_.resize(kept_blocks);
}

struct MpaStream::Context {
  bool verify;
  Scratch& scratch;
  Events& events;
};

// Copies the first `byte_count` bytes of the FPDU in `bytes`, without markers, to `out`. Returns false if `bytes` is
// too short.
bool MpaStream::Layout::head(std::uint64_t at, Bytes bytes, std::uint32_t byte_count, std::uint8_t* out) const {
  const std::uint64_t raw = span(at, byte_count);
  if (bytes.size() < raw) return false;
  if (!markers) {
    std::memcpy(out, bytes.data(), byte_count);
    return true;
  }
  std::array<std::uint8_t, Continuation::header_bytes + 2 * mpa::marker_bytes> gathered;
  remove_markers(bytes.first(raw), at - origin, gathered.data());
  std::memcpy(out, gathered.data(), byte_count);
  return true;
}

std::uint64_t MpaStream::Layout::span(std::uint64_t at, std::uint32_t byte_count) const {
  return markers ? MarkerGrid::span(at - origin, byte_count) : byte_count;
}

void MpaStream::start(bool known_start) {
  *this = MpaStream();
  state_ = State::beginning;
  known_start_ = known_start;
}

void MpaStream::expect() {
  known_ = true;
  if (state_ == State::other) lose_framing();
}

void MpaStream::end() {
  drop_pending();
  state_ = State::other;
}

void MpaStream::drop_pending() {
  if (pending_.capacity() > kept_capacity)
    std::vector<std::uint8_t>().swap(pending_);
  else
    pending_.clear();
}

void MpaStream::lose_framing() {
  state_ = State::search;
  doubt_ = false;
  held_count_ = 0;
}

void MpaStream::bytes(std::uint64_t offset, Bytes bytes, bool in_packet, bool verify, Scratch& scratch,
                      Events& events) {
  Context c{verify, scratch, events};
  // A connection may use another protocol before it becomes iWARP (RFC 5044, 7.1). Also, a new connection can replace
  // an earlier one whose end was not captured.
  if (state_ != State::beginning && pending_.empty() && offset >= skip_until_ && is_key(bytes)) {
    const bool known = known_;
    start(true);
    known_ = known;
  }
  if (state_ == State::other) return;
  segment_from_ = offset;
  segment_to_ = offset + bytes.size();
  if (pending_.empty()) {
    const std::size_t used = consume(c, offset, bytes, in_packet);
    bytes = bytes.subspan(used);
    offset += used;
    if (bytes.empty()) return;
    pending_.assign(bytes.begin(), bytes.end());
    pending_at_ = offset;
    return;
  }
  while (!bytes.empty()) {
    // Copy only the bytes of this unit, because later bytes need not be buffered.
    const std::uint64_t have = pending_at_ + pending_.size();
    const std::size_t n =
        state_ == State::search || want_ <= have ? bytes.size() : std::min<std::uint64_t>(bytes.size(), want_ - have);
    pending_.insert(pending_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
    bytes = bytes.subspan(n);
    offset += n;
    if (pending_at_ + pending_.size() < want_) return;
    const std::size_t used = consume(c, pending_at_, pending_, false);
    if (used < pending_.size()) {
      pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(used));
      pending_at_ += used;
      continue;
    }
    drop_pending();
    if (bytes.empty()) return;
    const std::size_t directly = consume(c, offset, bytes, in_packet);
    bytes = bytes.subspan(directly);
    offset += directly;
    pending_.assign(bytes.begin(), bytes.end());
    pending_at_ = offset;
    return;
  }
}

std::size_t MpaStream::consume(Context& c, std::uint64_t at, Bytes bytes, bool stable) {
  std::size_t used = 0;
  while (used < bytes.size()) {
    const Bytes rest = bytes.subspan(used);
    const std::uint64_t here = at + used;
    if (here < skip_until_) {
      used += std::min<std::uint64_t>(rest.size(), skip_until_ - here);
      continue;
    }
    want_ = 0;
    std::size_t taken = 0;
    switch (state_) {
      case State::beginning: taken = begin(c, here, rest, stable); break;
      case State::search: taken = search(c, here, rest); break;
      case State::fpdus: taken = fpdu(c, here, rest, stable); break;
      case State::other: return bytes.size();
    }
    used += taken;
    if (taken == 0 && want_ != 0) break;
  }
  return used;
}

std::size_t MpaStream::begin(Context& c, std::uint64_t at, Bytes bytes, bool stable) {
  if (!may_become_key(bytes)) {
    state_ = State::other;
    if (!known_start_ || known_) lose_framing();
    return 0;
  }
  if (bytes.size() < MpaFrame::size) {
    want_ = at + MpaFrame::size;
    return 0;
  }
  const std::uint32_t private_data = View<MpaFrame>(bytes.data()).get<"private_data_length">();
  const bool whole = private_data <= mpa::max_private_data;
  const std::uint32_t byte_count = MpaFrame::size + (whole ? private_data : 0);
  if (bytes.size() < byte_count) {
    want_ = at + byte_count;
    return 0;
  }
  begin_fpdus(c, at, bytes.first(byte_count), at + byte_count, stable);
  if (!whole) end();
  return byte_count;
}

void MpaStream::begin_fpdus(Context& c, std::uint64_t at, Bytes frame, std::uint64_t end_at, bool stable) {
  if (!stable)
    frame = {std::copy(frame.begin(), frame.end(), c.scratch.take(frame.size())) - frame.size(), frame.size()};
  Pdu& pdu = c.events.pdu(at, at + frame.size());
  pdu.stream_end = std::max(pdu.stream_end, end_at);
  pdu.reassembled = !stable;
  pdu.crc = {};
  decode_mpa_frame(pdu.stack, frame, static_cast<std::uint32_t>(end_at - at));
  state_ = State::fpdus;
  known_ = true;
  doubt_ = false;
  alignment_ = static_cast<std::uint8_t>(end_at & 3);
  first_at_ = end_at;
  first_faults_ = {};
  c.events.mpa_frame(pdu.stack, end_at);
}

MpaStream::FramingResult MpaStream::one(std::uint64_t at, Bytes bytes, const Layout& layout) {
  FramingResult verdict;
  verdict.layout = layout;
  const auto more = [&](std::uint64_t byte_count) {
    verdict.kind = FramingResult::Kind::more;
    verdict.end = at + byte_count;
    return verdict;
  };
  std::uint8_t header[strict_bytes];
  if (!layout.head(at, bytes, strict_bytes, header)) {
    // Even these few bytes can rule out an FPDU.
    if (!layout.markers && bytes.size() >= plausible_bytes && !plausible(bytes.data())) return verdict;
    return more(layout.span(at, strict_bytes));
  }
  if (!strictly_plausible(header)) return verdict;
  const std::uint64_t raw = layout.span(at, mpa::fpdu_bytes(static_cast<std::uint32_t>(load_be<2>(header))));
  if (bytes.size() < raw) return more(raw);
  verdict.end = at + raw;
  if (layout.markers) {
    const bool leads = MarkerGrid::to_next(at - layout.origin) == 0;
    const std::uint64_t begins = leads ? mpa::marker_bytes : 0;
    for (std::uint64_t k = MarkerGrid::to_next(at - layout.origin); k + mpa::marker_bytes <= raw;
         k += mpa::marker_interval)
      if (load_be<4>(bytes.data() + k) != (k < begins ? 0 : k - begins)) return verdict;
  }
  if (modes.crc != Use::off) {
    // Limits the cost of a search in crafted data.
    if (crc_bytes_ > 16 * searched_ + (1U << 20)) return verdict;
    crc_bytes_ += raw;
    const std::uint64_t crc_at = raw - mpa::crc_bytes;
    verdict.proven = load_be<4>(bytes.data() + crc_at) == compute_mpa_crc(bytes.first(crc_at));
  }
  verdict.plausible = true;
  if (verdict.proven || (known_ && modes.crc != Use::on)) verdict.kind = FramingResult::Kind::yes;
  return verdict;
}

MpaStream::FramingResult MpaStream::one(std::uint64_t at, Bytes bytes, bool marker_use_known,
                                        const Layout& known_layout) {
  if (marker_use_known) return one(at, bytes, known_layout);
  FramingResult best = one(at, bytes, Layout{});
  if (best.kind == FramingResult::Kind::yes && best.proven) return best;
  const auto consider = [&](std::uint64_t marker_at) {
    const FramingResult verdict = one(at, bytes, Layout{true, marker_at});
    using enum FramingResult::Kind;
    if (verdict.kind == yes && verdict.proven && best.kind == yes && best.proven) {
      // The CRC covers the markers, so it does not show whether bytes are a marker, or data that looks like one.
      best.ambiguous = true;
      return;
    }
    if (verdict.kind == no && best.kind == no && verdict.plausible) best = verdict;
    const bool closer = verdict.kind == more && (best.kind == no || (best.kind == more && verdict.end < best.end));
    if (closer || (verdict.kind == yes && (verdict.proven || best.kind != yes))) best = verdict;
  };
  // A marker contains its distance from the start of the FPDU, so try that start.
  if (bytes.size() < mpa::marker_bytes) return best;
  if (load_be<4>(bytes.data()) == 0) consider(at);
  if (bytes.size() < plausible_bytes || !plausible(bytes.data())) return best;
  for (std::uint32_t k = mpa::marker_bytes; k < mpa::marker_interval && k + mpa::marker_bytes <= bytes.size();
       k += mpa::marker_bytes)
    if (load_be<4>(bytes.data() + k) == k) consider(at + k);
  return best;
}

// Returns whether framing can resume at `at`.
MpaStream::FramingResult MpaStream::acceptable(std::uint64_t at, Bytes bytes) {
  const bool known_use = modes.markers != Use::unknown;
  const Layout layout{modes.markers == Use::on, modes.marker_origin};
  FramingResult first = one(at, bytes, known_use, layout);
  if (first.kind == FramingResult::Kind::no && first.plausible && !known_) return without_crcs(at, bytes, first);
  if (first.kind != FramingResult::Kind::yes) return first;
  if (first.ambiguous) return {};
  // If the connection is known to be iWARP, one valid CRC is sufficient.
  if (known_ && first.proven) return first;
  // The segment contains exactly this FPDU.
  if (at == segment_from_ && first.end == segment_to_) return first;
  const Bytes behind = bytes.subspan(first.end - at);
  if (!first.proven) {
    // If CRCs are not in use, the next header must also be plausible.
    const std::uint64_t byte_count = first.layout.span(first.end, strict_bytes);
    FramingResult second = one(first.end, behind, first.layout);
    if (behind.size() < byte_count && second.kind == FramingResult::Kind::more) return second;
    return second.kind == FramingResult::Kind::no ? second : first;
  }
  const FramingResult second = one(first.end, behind, known_use || first.layout.markers, first.layout);
  return second.kind == FramingResult::Kind::yes ? first : second;
}

// Detects a stream without CRCs in the middle of the connection: consecutive FPDUs, of which one continues the offset
// or the MSN of an earlier one.
MpaStream::FramingResult MpaStream::without_crcs(std::uint64_t at, Bytes bytes, const FramingResult& first) {
  constexpr int most = 8;
  Continuation continuation;
  FramingResult next = first;
  std::uint64_t here = at;
  for (int fpdus = 0; fpdus < most; ++fpdus) {
    std::uint8_t header[Continuation::header_bytes];
    const Bytes rest = bytes.subspan(here - at);
    if (!first.layout.head(here, rest, Continuation::header_bytes, header)) {
      next.kind = FramingResult::Kind::more;
      next.end = here + first.layout.span(here, Continuation::header_bytes);
      return next;
    }
    if (continuation.add(header)) {
      FramingResult found = first;
      found.kind = FramingResult::Kind::yes;
      return found;
    }
    here = next.end;
    next = one(here, bytes.subspan(here - at), first.layout);
    if (next.kind == FramingResult::Kind::more) return next;
    // The stream has CRCs, so the FPDU before this one is damaged. The search continues at the valid FPDU.
    if (next.proven || !next.plausible) return {};
  }
  return {};
}

void MpaStream::adopt(Context& c, std::uint64_t at, const FramingResult& verdict) {
  state_ = State::fpdus;
  alignment_ = static_cast<std::uint8_t>(at & 3);
  doubt_ = false;
  unmarked_ = 0;
  held_count_ = 0;
  searched_ = crc_bytes_ = 0;
  if (verdict.layout.markers) {
    modes.markers = Use::on;
    modes.marker_origin = verdict.layout.origin;
  }
  if (verdict.proven) modes.crc = Use::on;
  c.events.note(known_ ? "MPA framing found again" : "MPA framing found without the start of the stream");
  const bool was_known = known_;
  known_ = true;
  if (!was_known) c.events.found();
}

std::size_t MpaStream::search(Context& c, std::uint64_t at, Bytes bytes) {
  const std::uint64_t end = at + bytes.size();
  searched_to_ = std::max(searched_to_, at);
  searched_ += end - std::min(end, std::max(searched_end_, at));
  searched_end_ = end;
  const auto from = [&](std::uint64_t offset) { return bytes.subspan(offset - at); };

  for (std::size_t i = 0; i < held_count_;) {
    BufferedSegment& held = held_[i];
    FramingResult verdict;
    verdict.kind = FramingResult::Kind::more;
    verdict.end = held.ready_at;
    if (held.offset < at)
      verdict.kind = FramingResult::Kind::no;
    else if (held.ready_at <= end)
      verdict = acceptable(held.offset, from(held.offset));
    if (verdict.kind == FramingResult::Kind::yes) {
      const std::uint64_t found = held.offset;
      adopt(c, found, verdict);
      return found - at;
    }
    if (verdict.kind == FramingResult::Kind::more) {
      held.ready_at = verdict.end;
      ++i;
      continue;
    }
    std::move(held_.begin() + static_cast<std::ptrdiff_t>(i) + 1,
              held_.begin() + static_cast<std::ptrdiff_t>(held_count_), held_.begin() + static_cast<std::ptrdiff_t>(i));
    --held_count_;
  }
  const bool quick = modes.markers != Use::on;
  while (held_count_ < held_.size() && searched_to_ + shortest_fpdu <= end) {
    const std::uint64_t place = searched_to_++;
    if (quick && !may_begin_fpdu(bytes.data() + (place - at))) continue;
    if (alignment_ != unaligned && (place & 3) != alignment_) continue;
    const FramingResult verdict = acceptable(place, from(place));
    if (verdict.kind == FramingResult::Kind::yes) {
      adopt(c, place, verdict);
      return place - at;
    }
    if (verdict.kind == FramingResult::Kind::more) held_[held_count_++] = {place, verdict.end};
  }
  if (!known_ && searched_ > searched_bytes) {
    state_ = State::other;
    return bytes.size();
  }
  // Drop the oldest position if too many bytes would have to be kept for it.
  std::uint64_t keep = held_count_ ? held_[0].offset : searched_to_;
  while (end - keep > max_pending && held_count_) {
    std::move(held_.begin() + 1, held_.begin() + static_cast<std::ptrdiff_t>(held_count_), held_.begin());
    keep = --held_count_ ? held_[0].offset : searched_to_;
  }
  want_ = end + 1;
  return keep - at;
}

// Examines the first bytes of the Full Operation Phase. If the sender violates the negotiated use of markers, adopts
// its actual use. Returns false if more bytes are needed.
bool MpaStream::look_at_first(Context& c, std::uint64_t at, Bytes bytes) {
  constexpr std::size_t needed = mpa::marker_bytes + plausible_bytes;
  if (modes.markers == Use::unknown || at != first_at_) return true;
  if (bytes.size() < needed) {
    want_ = at + needed;
    return false;
  }
  const bool marker = load_be<4>(bytes.data()) == 0, behind = plausible(bytes.data() + mpa::marker_bytes);
  if (modes.markers == Use::off && marker && behind) {
    first_faults_.unasked = true;
    modes.markers = Use::on;
    modes.marker_origin = at;
    c.events.note("MPA markers that the receiver did not request");
  } else if (modes.markers == Use::on && !marker && !behind && plausible(bytes.data())) {
    first_faults_.no_first = true;
    modes.markers = Use::unknown;
    unmarked_ = 0;
    c.events.note("no MPA marker before the first FPDU");
  }
  return true;
}

std::size_t MpaStream::fpdu(Context& c, std::uint64_t at, Bytes bytes, bool stable) {
  if (first_at_ != 0) {
    if (!look_at_first(c, at, bytes)) return 0;
    first_at_ = 0;
  }
  Layout layout{modes.markers == Use::on, modes.marker_origin};
  if (modes.markers == Use::unknown) {
    const FramingResult verdict = one(at, bytes, false, layout);
    if (verdict.kind == FramingResult::Kind::more) {
      want_ = verdict.end;
      return 0;
    }
    if (verdict.kind == FramingResult::Kind::yes && verdict.layout.markers) {
      layout = verdict.layout;
      if (!verdict.ambiguous) {
        modes.markers = Use::on;
        modes.marker_origin = layout.origin;
      }
    }
    // A marker starts at every 512th byte. If none appeared in that distance, the stream has no markers.
    if (verdict.kind == FramingResult::Kind::yes && !layout.markers) {
      unmarked_ += verdict.end - at;
      if (unmarked_ >= mpa::marker_interval) modes.markers = Use::off;
    }
  }
  std::uint8_t header[plausible_bytes];
  if (!layout.head(at, bytes, plausible_bytes, header)) {
    want_ = at + layout.span(at, plausible_bytes);
    return 0;
  }
  const bool fits = plausible(header);
  if (doubt_ && !fits) {
    c.events.note("MPA framing lost: no FPDU at the expected offset");
    lose_framing();
    return 0;
  }
  const std::uint32_t whole = mpa::fpdu_bytes(static_cast<std::uint32_t>(load_be<2>(header)));
  const std::uint64_t raw = layout.span(at, whole);
  if (bytes.size() < raw) {
    want_ = at + raw;
    return 0;
  }
  const Bytes byte_count = bytes.first(raw);
  const bool judge = c.verify && modes.crc != Use::off;
  const std::uint32_t computed = judge ? compute_mpa_crc(byte_count.first(raw - mpa::crc_bytes)) : 0;
  const bool bad = judge && modes.crc == Use::on && load_be<4>(byte_count.data() + raw - mpa::crc_bytes) != computed;
  const std::uint64_t next_head = at + raw + layout.span(at + raw, plausible_bytes);
  const bool next_here = layout.head(at + raw, bytes.subspan(raw), plausible_bytes, header);
  if (bad && !next_here && next_head <= segment_to_) {
    want_ = next_head;  // the bytes have arrived, but are not in `bytes` yet
    return 0;
  }
  emit(c, at, byte_count, whole, layout, stable, computed);
  // If the length field is corrupted, other FPDUs can start within the length that it contains.
  if (bad && next_here && !plausible(header)) {
    c.events.note("MPA framing lost: no FPDU at the expected offset");
    lose_framing();
    return mpa::marker_bytes;
  }
  return raw;
}

void MpaStream::emit(Context& c, std::uint64_t at, Bytes raw, std::uint32_t whole, const Layout& layout, bool stable,
                     std::uint32_t computed) {
  Pdu& pdu = c.events.pdu(at, at + raw.size());
  pdu.stream_end = std::max(pdu.stream_end, at + layout.span(at, whole));
  const bool has_marker = layout.markers && MarkerGrid::to_next(at - layout.origin) < raw.size();
  Bytes bytes = raw;
  if (has_marker) {
    std::uint8_t* out = c.scratch.take(raw.size());
    bytes = {out, remove_markers(raw, at - layout.origin, out)};
    const std::uint64_t first = MarkerGrid::to_next(at - layout.origin);
    const std::uint64_t begins = first == 0 ? mpa::marker_bytes : 0;
    MarkerFaults& faults = pdu.marker_faults;
    faults.leads = first == 0;
    std::uint64_t start = 0;  // start of the FPDU, according to the first marker inside it
    bool inside = false;
    for (std::uint64_t k = first; k + mpa::marker_bytes <= raw.size(); k += mpa::marker_interval) {
      ++pdu.markers;
      // The two lowest bits count as zero. RFC 5044, 4.2
      const std::uint64_t due = k < begins ? 0 : k - begins;
      const auto marker = static_cast<std::uint32_t>(load_be<4>(raw.data() + k));
      const std::uint64_t says = marker & 0xfffcU;
      faults.reserved |= (marker & 0xffff0003U) != 0;
      if (says != due && !faults.pointer) {
        faults.pointer = pdu.wrong_marker = true;
        faults.says = static_cast<std::uint16_t>(marker);
        faults.due = static_cast<std::uint16_t>(due);
      }
      if (due == 0) continue;
      faults.divided |= inside && k - says != start;
      start = k - says;
      inside = true;
    }
  } else if (!stable) {
    bytes = {std::copy(raw.begin(), raw.end(), c.scratch.take(raw.size())) - raw.size(), raw.size()};
  }
  pdu.marker_faults.unasked = first_faults_.unasked;
  pdu.marker_faults.no_first = first_faults_.no_first;
  first_faults_ = {};
  pdu.reassembled = has_marker || !stable;
  decode_fpdu(pdu.stack, bytes, whole);
  if (pdu.wrong_marker) c.events.note("an MPA marker does not point to the start of its FPDU");

  const bool fits = bytes.size() >= plausible_bytes && plausible(bytes.data());
  pdu.crc = {};
  if (pdu.stack.mpa_crc.length == 0) {
    if (modes.crc != Use::off && c.verify) pdu.crc.status = CrcCheck::Status::unverifiable;
    doubt_ = false;
    return;
  }
  pdu.crc.value = static_cast<std::uint32_t>(load_be<4>(bytes.data() + pdu.stack.mpa_crc.offset));
  if (!c.verify || modes.crc == Use::off) {
    doubt_ = !fits;
    return;
  }
  pdu.crc.computed = computed;
  const bool good = pdu.crc.value == pdu.crc.computed;
  if (good) {
    pdu.crc.status = CrcCheck::Status::good;
  } else if (modes.crc == Use::on) {
    pdu.crc.status = CrcCheck::Status::bad;
    pdu.marker_faults.uncovered =
        has_marker && MarkerGrid::to_next(at - layout.origin) == 0 &&
        pdu.crc.value == compute_mpa_crc(raw.first(raw.size() - mpa::crc_bytes).subspan(mpa::marker_bytes));
  } else {
    pdu.crc.computed = 0;  // unknown, because the stream may not use CRCs
  }
  doubt_ = modes.crc == Use::on ? !good : !fits;
}

void MpaStream::gap(std::uint64_t to, bool verify, Scratch& scratch, Events& events) {
  if (state_ == State::other || to <= skip_until_) return;
  Context c{verify, scratch, events};
  if (state_ == State::fpdus && !pending_.empty() && modes.markers != Use::unknown) {
    const Layout layout{modes.markers == Use::on, modes.marker_origin};
    const std::uint64_t lead = layout.span(pending_at_, Fpdu::size) - Fpdu::size;
    if (pending_.size() >= lead + Fpdu::size) {
      const std::uint32_t whole = mpa::fpdu_bytes(static_cast<std::uint32_t>(load_be<2>(pending_.data() + lead)));
      const std::uint64_t end = pending_at_ + layout.span(pending_at_, whole);
      emit(c, pending_at_, pending_, whole, layout, false, 0);
      drop_pending();
      if (to <= end) {
        skip_until_ = end;
        return;
      }
    }
  }
  if (state_ == State::beginning && pending_.size() >= MpaFrame::size) {
    // The private data is truncated, but the fixed header is valid.
    const std::uint64_t end =
        pending_at_ + MpaFrame::size + View<MpaFrame>(pending_.data()).get<"private_data_length">();
    begin_fpdus(c, pending_at_, pending_, end, false);
    drop_pending();
    if (to <= end) {
      skip_until_ = end;
      return;
    }
  }
  drop_pending();
  lose_framing();
}

}  // namespace rdmawire::tracking
