#include "dissectors/tracking/tcp_stream.hpp"

#include <algorithm>

namespace rdmawire::tracking {
namespace {
// Maximum window. RFC 7323, 2.2
constexpr std::int64_t widest_window = 1LL << 30;
// Maximum age of a delayed segment.
constexpr std::int64_t longest_delay = 1LL << 26;
}  // namespace

void TcpStream::start(std::uint32_t seq) {
  clear();
  started_ = true;
  // The start is far from zero, so that offsets before it are not negative.
  start_ = next_ = acknowledged_ = (1ULL << 32) + seq;
}

void TcpStream::clear() {
  ahead_.clear();
  buffered_ = 0;
}

std::uint64_t TcpStream::offset_of(std::uint32_t seq) const {
  const auto distance = static_cast<std::int32_t>(seq - static_cast<std::uint32_t>(next_));
  return next_ + static_cast<std::uint64_t>(static_cast<std::int64_t>(distance));
}

void TcpStream::acknowledged(std::uint32_t ack) {
  if (!started_) return;
  const std::uint64_t offset = offset_of(ack);
  if (static_cast<std::int64_t>(offset - next_) < widest_window) acknowledged_ = std::max(acknowledged_, offset);
}

bool TcpStream::in_window(std::uint32_t seq, std::uint32_t window) const {
  // The window is unknown as long as this side has sent no packets.
  if (!started_) return true;
  const std::uint64_t offset = offset_of(seq);
  return offset >= acknowledged_ && offset <= std::max(next_, acknowledged_ + window);
}

TcpStream::Arrival TcpStream::accept(std::uint32_t seq, std::uint32_t length, Bytes captured, bool plain, Sink& sink) {
  if (!started_) {
    if (length == 0) return Arrival::empty;
    start(seq);
  }
  std::uint64_t from = offset_of(seq);
  const std::uint64_t to = from + length;
  const auto distance = static_cast<std::int64_t>(from - next_);
  if (plain && length <= 1 && distance == -1) return Arrival::keep_alive;
  if (length == 0) return Arrival::empty;
  if (distance > widest_window || distance < -longest_delay) return Arrival::beyond;
  if (to <= next_) return Arrival::retransmission;
  bool ahead = false;
  while (from > next_) {
    ahead = true;
    const std::uint64_t first = ahead_.empty() ? from : std::min(from, ahead_.begin()->first);
    // If everything before the first buffered byte is acknowledged, it will not be retransmitted.
    if (acknowledged_ < first) break;
    skip_to(first, sink);
    drain(sink);
  }
  if (to <= next_) return Arrival::retransmission;
  if (from > next_) {
    keep(from, captured);
    while (buffered_ > max_buffered) {
      skip_to(ahead_.begin()->first, sink);
      drain(sink);
    }
    return Arrival::ahead;
  }
  const bool had_gap = !ahead_.empty();
  captured = captured.subspan(std::min<std::uint64_t>(next_ - from, captured.size()));
  from = next_;
  if (!captured.empty()) {
    next_ += captured.size();
    sink.bytes(from, captured, true);
  }
  // The bytes that a truncated packet lacks may already be buffered. If they are not, they are lost.
  if (next_ < to) {
    drain(sink);
    while (next_ < to) {
      skip_to(ahead_.empty() ? to : std::min(to, ahead_.begin()->first), sink);
      drain(sink);
    }
  }
  drain(sink);
  return ahead ? Arrival::ahead : had_gap ? Arrival::fills_gap : Arrival::in_order;
}

void TcpStream::keep(std::uint64_t from, Bytes bytes) {
  auto put = [&](std::uint64_t at, Bytes piece) {
    if (piece.empty()) return;
    ahead_.emplace(at, std::vector<std::uint8_t>(piece.begin(), piece.end()));
    buffered_ += piece.size() + chunk_overhead;
  };
  // If segments overlap, the bytes that arrived first are used, as in a receiver.
  auto after = ahead_.upper_bound(from);
  if (after != ahead_.begin()) {
    const auto& before = *std::prev(after);
    const std::uint64_t end = before.first + before.second.size();
    if (end > from) {
      const std::uint64_t had = std::min<std::uint64_t>(end - from, bytes.size());
      bytes = bytes.subspan(had);
      from += had;
    }
  }
  while (!bytes.empty()) {
    if (after == ahead_.end() || after->first >= from + bytes.size()) return put(from, bytes);
    const std::uint64_t room = after->first - from;
    put(from, bytes.first(room));
    const std::uint64_t covered = std::min<std::uint64_t>(bytes.size(), room + after->second.size());
    bytes = bytes.subspan(covered);
    from += covered;
    ++after;
  }
}

void TcpStream::skip_to(std::uint64_t offset, Sink& sink) {
  if (offset <= next_) return;
  const std::uint64_t from = next_;
  next_ = offset;
  sink.gap(from, offset);
}

void TcpStream::drain(Sink& sink) {
  while (!ahead_.empty() && ahead_.begin()->first <= next_) {
    auto node = ahead_.extract(ahead_.begin());
    buffered_ -= node.mapped().size() + chunk_overhead;
    const std::uint64_t end = node.key() + node.mapped().size();
    if (end <= next_) continue;
    const std::uint64_t at = next_;
    const Bytes fresh = Bytes(node.mapped()).subspan(next_ - node.key());
    next_ = end;
    sink.bytes(at, fresh, false);
  }
}

}  // namespace rdmawire::tracking
