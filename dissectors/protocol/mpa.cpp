#include "dissectors/protocol/mpa.hpp"

#include "dissectors/protocol/ddp.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/rdmap.hpp"

namespace rdmawire {

std::uint32_t mpa::mulpdu(std::uint32_t emss, bool markers) {
  const std::uint32_t overhead =
      6 + emss % 4 + (markers ? marker_bytes * ((emss + marker_interval - 1) / marker_interval) : 0);
  return std::max(128U, emss > overhead ? emss - overhead : 0);
}

void decode_mpa_frame(HeaderStack& stack, Bytes bytes, std::uint32_t wire_length) {
  const auto captured = static_cast<std::uint32_t>(bytes.size());
  stack.reset(bytes, std::max(wire_length, captured));
  stack.wire = Wire::iwarp;
  const DecodeOptions options;
  Cursor c{stack, options, 0, captured, stack.wire_length};
  if (!c.need(info<MpaFrame>, MpaFrame::size)) return;
  const View<MpaFrame> frame(c.here());
  if (!MpaFrame::is_request(c.here()) && !MpaFrame::is_reply(c.here()))
    c.malformed(info<MpaFrame>, "the key is not that of a request or reply");
  const std::uint32_t private_data = frame.get<"private_data_length">();
  if (private_data > mpa::max_private_data)
    c.malformed(info<MpaFrame>, "more private data than MPA allows", mpa::max_private_data, private_data);
  c.limit(info<MpaFrame>, 0, MpaFrame::size + private_data);
  // The capture truncated the private data: its available bytes belong to the frame.
  c.take(info<MpaFrame>, c.left());
  c.payload();
  stack.cut |= c.end < c.declared_end;
}

void decode_fpdu(HeaderStack& stack, Bytes bytes, std::uint32_t wire_length) {
  const auto captured = static_cast<std::uint32_t>(bytes.size());
  stack.reset(bytes, std::max(wire_length, captured));
  stack.wire = Wire::iwarp;
  const DecodeOptions options;
  Cursor c{stack, options, 0, captured, stack.wire_length};
  if (!c.need(info<Fpdu>, Fpdu::size)) return;
  const std::uint32_t length = View<Fpdu>(c.here()).get<"ulpdu_length">();
  const std::uint32_t pad = mpa::pad_bytes(length), ulpdu_end = Fpdu::size + length, crc_at = ulpdu_end + pad;
  if (c.limit(info<Fpdu>, 0, crc_at + mpa::crc_bytes)) {
    if (crc_at + mpa::crc_bytes <= captured) stack.mpa_crc = {crc_at, mpa::crc_bytes};
    if (crc_at <= captured && pad) stack.pad = {ulpdu_end, pad};
    stack.cut |= c.end < c.declared_end;
    c.limit(info<Fpdu>, 0, ulpdu_end);
  }
  c.take(info<Fpdu>, Fpdu::size);
  decode_ddp(c);
  stack.cut |= c.end < c.declared_end;
}

CrcCheck check_mpa_crc(const HeaderStack& stack) {
  if (stack.wire != Wire::iwarp || !stack.find(info<Fpdu>)) return {};
  if (stack.mpa_crc.length == 0) return {CrcCheck::Status::unverifiable, 0, 0};
  const auto value = static_cast<std::uint32_t>(load_be<4>(stack.bytes.data() + stack.mpa_crc.offset));
  const std::uint32_t computed = compute_mpa_crc(stack.bytes.first(stack.mpa_crc.offset));
  return {value == computed ? CrcCheck::Status::good : CrcCheck::Status::bad, value, computed};
}

std::uint64_t MarkerGrid::span(std::uint64_t position, std::uint64_t byte_count) {
  if (byte_count == 0) return 0;
  // `before` and `last` count bytes without markers: 508 of them follow each marker.
  constexpr std::uint64_t space = mpa::marker_interval - mpa::marker_bytes;
  const std::uint64_t in_interval = position & (mpa::marker_interval - 1);
  const std::uint64_t before = in_interval < mpa::marker_bytes ? 0 : in_interval - mpa::marker_bytes;
  const std::uint64_t last = before + byte_count - 1;
  return (last / space) * mpa::marker_interval + mpa::marker_bytes + last % space + 1 - in_interval;
}

std::size_t remove_markers(Bytes bytes, std::uint64_t position, std::uint8_t* out) {
  std::size_t at = 0, left = 0;
  while (at < bytes.size()) {
    const std::uint64_t in_interval = (position + at) & (mpa::marker_interval - 1);
    if (in_interval < mpa::marker_bytes) {
      at += std::min<std::size_t>(mpa::marker_bytes - in_interval, bytes.size() - at);
      continue;
    }
    const std::size_t byte_count = std::min<std::size_t>(mpa::marker_interval - in_interval, bytes.size() - at);
    std::memmove(out + left, bytes.data() + at, byte_count);
    left += byte_count;
    at += byte_count;
  }
  return left;
}

void MpaSender::append(std::vector<std::uint8_t>& stream, Bytes covered, Check check, std::uint32_t value) {
  const std::size_t from = stream.size();
  const bool marker_first = modes_.markers && MarkerGrid::to_next(position_) == 0;
  const std::uint64_t fpdu_at = position_ + (marker_first ? mpa::marker_bytes : 0);
  auto marker = [&] {
    if (!modes_.markers || MarkerGrid::to_next(position_) != 0) return;
    const std::uint64_t back = position_ < fpdu_at ? 0 : position_ - fpdu_at;
    stream.insert(stream.end(), {0, 0, static_cast<std::uint8_t>(back >> 8), static_cast<std::uint8_t>(back)});
    position_ += mpa::marker_bytes;
  };
  auto put = [&](Bytes rest) {
    while (!rest.empty()) {
      marker();
      const std::size_t space = modes_.markers ? MarkerGrid::to_next(position_) : rest.size();
      const Bytes piece = rest.first(std::min(rest.size(), space));
      stream.insert(stream.end(), piece.begin(), piece.end());
      position_ += piece.size();
      rest = rest.subspan(piece.size());
    }
  };
  put(covered);
  if (check == Check::none) return;
  marker();  // the CRC also covers a marker between the padding and the CRC field. RFC 5044, 4.4
  std::array<std::uint8_t, mpa::crc_bytes> field;
  store_be(field.data(), 4, check == Check::computed ? compute_mpa_crc(Bytes(stream).subspan(from)) : value);
  put(field);
}

bool MpaSender::send(std::vector<std::uint8_t>& stream, Bytes ulpdu) {
  if (ulpdu.size() > 0xffff) return false;
  const auto length = static_cast<std::uint32_t>(ulpdu.size());
  std::vector<std::uint8_t> covered(Fpdu::size + length + mpa::pad_bytes(length));
  store_be(covered.data(), 2, length);
  std::copy(ulpdu.begin(), ulpdu.end(), covered.begin() + Fpdu::size);
  append(stream, covered, modes_.crc ? Check::computed : Check::given, 0);
  return true;
}

void MpaSender::send(std::vector<std::uint8_t>& stream, const Frame& fpdu) {
  Frame covered = fpdu;
  covered.with_mpa_crc = false;
  const Check check = !fpdu.with_mpa_crc ? Check::none : fpdu.mpa_crc || !modes_.crc ? Check::given : Check::computed;
  append(stream, covered.encode(), check, fpdu.mpa_crc.value_or(0));
}

Parts MpaFrame::parts(Bytes header) {
  Parts parts;
  const View<MpaFrame> frame(header.data());
  if (!frame.get<"enhanced">() || frame.get<"revision">() < 2) return parts;
  const auto had = static_cast<std::uint32_t>(header.size() - MpaFrame::size);
  if (had < MpaEnhanced::size)
    parts.error = ParseError{ParseError::Kind::malformed,
                             &info<MpaEnhanced>,
                             MpaFrame::size,
                             MpaEnhanced::size,
                             had,
                             "the private data is too short for the enhanced connection establishment data"};
  else
    parts.add(info<MpaEnhanced>, MpaFrame::size, MpaEnhanced::size);
  return parts;
}

void MpaFrame::fill(FrameLayout& frame, std::size_t index) {
  HeaderValue& mpa = frame.at(index);
  const Field& key = *info<MpaFrame>.find("key");
  if (!mpa.given(key)) std::copy(mpa::request_key.begin(), mpa::request_key.end(), mpa.mutable_bytes().begin());
  mpa.fill("revision", mpa.get(*info<MpaFrame>.find("enhanced")) ? 2 : 1);
  mpa.fill("private_data_length", mpa.tail().size());
}

void Fpdu::fill(FrameLayout& frame, std::size_t index) {
  const std::size_t last = frame.layers.size() - 1;
  const auto headers_end = frame.offsets[last] + static_cast<std::uint32_t>(frame.layers[last].bytes().size());
  frame.at(index).fill("ulpdu_length", headers_end - frame.offsets[index] - Fpdu::size + frame.payload_bytes);
}

}  // namespace rdmawire
