#include "conformance/cases/iwarp/stream.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "conformance/cases/iwarp/fpdu_check.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::conformance::iwarp {
namespace {

/// Describes a TCP frame.
std::string tcp_text(Bytes frame) {
  const HeaderStack stack = decode(frame);
  const auto tcp = stack.get<Tcp>();
  if (!tcp) return "a frame";
  std::string flags;
  const auto flag = [&](bool set, const char* name) {
    if (set) flags += fmt::format(" {}", name);
  };
  flag(tcp->get<"syn">() != 0, "SYN");
  flag(tcp->get<"fin">() != 0, "FIN");
  flag(tcp->get<"rst">() != 0, "RST");
  const std::size_t bytes = stack.bytes_of(stack.payload).size();
  if (bytes != 0) flags += fmt::format(", {} bytes", bytes);
  return "TCP" + (flags.empty() ? " ACK" : flags);
}

}  // namespace

ByteVector mpa_frame(std::string_view key, std::uint8_t flags, std::uint8_t revision, const std::string& private_data,
                     int pd_length) {
  ByteVector frame(key.begin(), key.end());
  const std::size_t length = pd_length < 0 ? private_data.size() : static_cast<std::size_t>(pd_length);
  frame.insert(frame.end(),
               {flags, revision, static_cast<std::uint8_t>(length >> 8), static_cast<std::uint8_t>(length)});
  frame.insert(frame.end(), private_data.begin(), private_data.end());
  return frame;
}

std::string enhanced_data(const Enhanced& data) {
  const auto word = [](bool high, bool low, std::uint16_t depth) {
    return static_cast<std::uint16_t>((high ? 0x8000U : 0U) | (low ? 0x4000U : 0U) | (depth & 0x3fffU));
  };
  const std::uint16_t ird = word(data.a, data.b, data.ird), ord = word(data.c, data.d, data.ord);
  return {static_cast<char>(ird >> 8), static_cast<char>(ird), static_cast<char>(ord >> 8), static_cast<char>(ord)};
}

void Stream::operate(const Framing& to_device, const Framing& from_device) {
  sender_.emplace(MpaSender::Modes{.markers = to_device.markers, .crc = to_device.crc});
  from_device_ = from_device;
  operating_ = true;
  operates_from_ = arrived_bytes_ - pending_.size();
  heard_ = pending_;
  read();
}

void Stream::tell_frames() {
  for (replay::PassedFrame& passed : host_.take_passed())
    story_.record_at(passed.time, Step::Kind::link,
                     (passed.sent ? "to the device: " : "from the device: ") + tcp_text(passed.frame), passed.frame);
}

void Stream::sent(const replay::WireResult<void>& result) {
  tell_frames();
  if (result) return;
  // The device has closed the connection, which the next event reports.
  if (result.error().kind == replay::WireError::Kind::down) return story_.note("not sent: the connection is over");
  const bool forbidden = result.error().kind == replay::WireError::Kind::forbidden;
  end_case(forbidden ? Verdict::unsupported : Verdict::error, "the tester could not send: " + result.error().message);
}

ByteVector Stream::fpdu(const Stimulus& segment) {
  ByteVector bytes;
  sender_->send(bytes, segment.frame());
  segment.damage(bytes);
  return bytes;
}

Stream& Stream::operator>>(const Stimulus& segment) {
  const ByteVector bytes = fpdu(segment);
  if (segment_bytes_)
    send_in_segments(bytes, segment_bytes_(bytes.size()), segment.text());
  else
    say(bytes, segment.text());
  return *this;
}

void Stream::together(const std::vector<Stimulus>& segments) {
  ByteVector all;
  std::string text;
  for (const Stimulus& segment : segments) {
    const ByteVector one = fpdu(segment);
    all.insert(all.end(), one.begin(), one.end());
    text += (text.empty() ? "" : "; ") + segment.text();
  }
  say(all, fmt::format("together: {}", text));
}

void Stream::say(const ByteVector& bytes, const std::string& text) {
  story_.record(Step::Kind::sent, text);
  sent(connection_->send(bytes));
}

void Stream::send_in_segments(const ByteVector& bytes, std::size_t each, const std::string& text) {
  story_.record(Step::Kind::sent, fmt::format("{}, in TCP segments of {} bytes", text, each));
  for (Bytes left = bytes; !left.empty(); left = left.subspan(std::min(left.size(), each)))
    sent(connection_->send(left.first(std::min(left.size(), each))));
}

void Stream::finish() {
  story_.record(Step::Kind::sent, "FIN");
  sent(connection_->close_half());
}

void Stream::send_after_close(const Stimulus& segment) {
  const ByteVector bytes = fpdu(segment);
  story_.record(Step::Kind::sent, segment.text() + ", after the FIN");
  sent(connection_->send_behind_fin(bytes));
}

void Stream::reset() {
  story_.record(Step::Kind::sent, "a reset of TCP");
  connection_->reset();
  tell_frames();
  over_ = true;
}

void Stream::hear(std::int64_t until) {
  while (!over_) {
    auto arrival = connection_->receive(until);
    tell_frames();
    if (!arrival) end_case(Verdict::error, "the tester's TCP failed: " + arrival.error().message);
    if (!*arrival) return;
    arrived(std::move(**arrival));
    if (!seen_.empty()) return;
  }
}

void Stream::arrived(replay::TcpArrival arrival) {
  if (arrival.kind == replay::TcpArrival::Kind::bytes) {
    arrivals_.push_back({arrived_bytes_, static_cast<std::uint32_t>(arrival.bytes.size()), arrival.time});
    arrived_bytes_ += arrival.bytes.size();
    pending_.insert(pending_.end(), arrival.bytes.begin(), arrival.bytes.end());
    if (operating_) {
      heard_.insert(heard_.end(), arrival.bytes.begin(), arrival.bytes.end());
      segments_.push_back(arrivals_.back().bytes);
    }
    return read();
  }
  if (!pending_.empty()) tell({.kind = Seen::Kind::torn, .time = arrival.time, .bytes = std::move(pending_)});
  pending_.clear();
  const bool reset = arrival.kind == replay::TcpArrival::Kind::reset;
  tell({.kind = reset ? Seen::Kind::reset : Seen::Kind::fin, .time = arrival.time});
  over_ = over_ || reset;
}

void Stream::tell(Seen seen) {
  story_.record_at(seen.time, Step::Kind::received, seen.text());
  seen_.push_back(std::move(seen));
}

void Stream::read() {
  while (operating_ ? read_fpdu() : read_setup()) {
  }
}

bool Stream::read_setup() {
  if (pending_.size() < MpaFrame::size || !seen_.empty()) return false;
  const std::size_t whole = MpaFrame::size + View<MpaFrame>(pending_.data()).get<"private_data_length">();
  if (pending_.size() < whole) return false;
  Seen seen{.kind = Seen::Kind::setup, .time = arrivals_.back().time};
  seen.bytes.assign(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(whole));
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(whole));
  for (WireViolation& violation : check_setup(seen, device_initiates_)) story_.violates(std::move(violation));
  tell(std::move(seen));
  // The case sets the framing of the following bytes after it has read this frame.
  return false;
}

bool Stream::read_fpdu() {
  const auto span = [&](std::uint64_t bytes) {
    return from_device_.markers ? MarkerGrid::span(position_, bytes) : bytes;
  };
  if (pending_.size() < span(Fpdu::size)) return false;
  const bool marker_first = from_device_.markers && MarkerGrid::to_next(position_) == 0;
  const std::uint8_t* length_at = pending_.data() + (marker_first ? mpa::marker_bytes : 0);
  const auto length = static_cast<std::uint32_t>(load_be<2>(length_at));
  const std::uint64_t whole = span(mpa::fpdu_bytes(length));
  if (pending_.size() < whole) return false;
  const Bytes raw = Bytes(pending_).first(whole);
  Seen seen;
  seen.position = position_;
  seen.end = position_ + whole;
  for (std::size_t at = 0; at < raw.size();) {
    if (from_device_.markers && MarkerGrid::to_next(position_ + at) == 0) {
      seen.markers.push_back({position_ + at, static_cast<std::uint32_t>(load_be<4>(raw.data() + at))});
      at += mpa::marker_bytes;
    } else {
      seen.bytes.push_back(raw[at++]);
    }
  }
  const Bytes covered = raw.first(raw.size() - mpa::crc_bytes);
  seen.crc_good = !from_device_.crc || compute_mpa_crc(covered) == load_be<4>(raw.data() + covered.size());
  const std::uint64_t last = operates_from_ + seen.end - 1, first = operates_from_ + seen.position;
  for (const Arrived& one : arrivals_) {
    if (one.at <= first) {
      seen.segment_at = one.at - std::min(one.at, operates_from_);
      seen.segment_bytes = one.bytes;
    }
    if (one.at <= last) seen.time = one.time;
  }
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(whole));
  position_ += whole;
  for (WireViolation& violation : check_fpdu(seen)) story_.violates(std::move(violation));
  tell(std::move(seen));
  return true;
}

void Stream::forget() {
  heard_.clear();
  segments_.clear();
  // Segments with unparsed bytes are kept for the timestamps of their FPDUs.
  const std::uint64_t read = arrived_bytes_ - pending_.size();
  std::erase_if(arrivals_, [&](const Arrived& one) { return one.at + one.bytes <= read; });
}

std::optional<Seen> Stream::next(std::int64_t for_ns) {
  if (seen_.empty()) hear(host_.now() + (for_ns ? for_ns : story_.patience().answer));
  if (seen_.empty()) return std::nullopt;
  Seen seen = std::move(seen_.front());
  seen_.pop_front();
  if (seen_.empty() && !operating_) read();
  return seen;
}

Seen Stream::wait(const Expectation& expectation, std::int64_t within_ns) {
  std::optional<Seen> seen = next(within_ns);
  if (!seen) story_.deviate(Verdict::fail, expectation.text(), "nothing");
  return judged(std::move(*seen), expectation);
}

std::optional<Seen> Stream::wait_or_silence(const Expectation& expectation) {
  std::optional<Seen> seen = next(story_.patience().silence);
  if (seen) return judged(std::move(*seen), expectation);
  story_.record(Step::Kind::expected, "silence, in place of: " + expectation.text());
  return std::nullopt;
}

Seen Stream::judged(Seen seen, const Expectation& expectation) {
  const Match match = expectation.judge(seen);
  if (match != Match::yes) {
    if (auto right = seen.with_bits_in_order(); right && expectation.judge(*right) == Match::yes) {
      // A wrong bit order does not hide other failures.
      story_.deviates(Verdict::fail_wrong_code, expectation.text(),
                      seen.text() + ": the same, with the bits ordered differently from figure 7 (TRM-001)");
      return std::move(*right);
    }
  }
  switch (match) {
    case Match::yes: story_.record(Step::Kind::expected, expectation.text()); return seen;
    case Match::wrong_code: story_.deviate(Verdict::fail_wrong_code, expectation.text(), seen.text());
    default: story_.deviate(Verdict::fail, expectation.text(), seen.text());
  }
}

Stream& Stream::operator<<(const Silence& silence) {
  if (const auto seen = next(silence.nanoseconds ? silence.nanoseconds : story_.patience().silence))
    story_.deviate(Verdict::fail, "silence", seen->text());
  story_.record(Step::Kind::expected, "silence");
  return *this;
}

std::vector<Seen> Stream::all_until_silence(std::size_t most) {
  std::vector<Seen> all;
  while (all.size() < most) {
    auto seen = next(story_.patience().silence);
    if (!seen) break;
    all.push_back(std::move(*seen));
  }
  return all;
}

std::vector<Seen> Stream::message(RdmapOperation operation) {
  std::vector<Seen> all;
  do {
    all.push_back(wait(an(operation)));
  } while (all.back().get<Ddp, "last">() == 0);
  return all;
}

}  // namespace rdmawire::conformance::iwarp
