/// FPDUs: ULPDUs in the TCP stream, with CRC and markers. RFC 5044, 4.

#include <algorithm>

#include "conformance/device/iwarp/stream.hpp"

namespace rdmawire::endpoint {

void receive_fpdus(Stream& stream) {
  const FpduDecisions& decisions = stream.decisions().fpdus;
  const machines::FpduModes modes = decisions.modes(stream.agreement);
  const auto receives = [&] {
    return machines::takes_fpdus(stream.phase) && stream.decisions().states.receives(stream.state);
  };
  std::size_t at = 0;
  std::vector<std::uint8_t> buffer;
  while (at < stream.pending.size() && receives()) {
    using State = machines::FpduArrival::State;
    const Bytes bytes = Bytes(stream.pending).subspan(at);
    const auto arrival = decisions.judge(bytes, stream.position, modes);
    if (arrival.state == State::more) break;
    if (arrival.state == State::invalid) {
      decisions.reject(stream, bytes, arrival);
      break;
    }
    const Bytes fpdu = bytes.first(arrival.bytes);
    buffer.resize(fpdu.size());
    const Bytes ulpdu = machines::take_ulpdu(fpdu, stream.position, arrival, modes.markers, buffer);
    at += arrival.bytes;
    stream.position += arrival.bytes;
    if (stream.phase == machines::MpaPhase::awaits_first_fpdu)
      stream.phase = *machines::after(stream.phase, machines::MpaSetupEvent::first_fpdu);
    receive_ulpdu(stream, ulpdu);
    stream.any_fpdu = true;
  }
  if (receives())
    stream.pending.erase(stream.pending.begin(), stream.pending.begin() + static_cast<std::ptrdiff_t>(at));
  else
    stream.pending.clear();
}

void send_fpdu(Stream& stream, Bytes ulpdu) {
  const std::vector<std::uint8_t> fpdu = stream.decisions().fpdus.fpdu(stream, ulpdu);
  stream.waiting_bytes += fpdu.size();
  for (Bytes rest = fpdu; !rest.empty();) {
    const Bytes segment = rest.first(std::min<std::size_t>(rest.size(), std::max(stream.options.emss, 1U)));
    stream.segments.emplace_back(segment.begin(), segment.end());
    rest = rest.subspan(segment.size());
  }
}

namespace conforming {

machines::FpduModes fpdu_modes(const machines::MpaAgreement& agreement) {
  return {.markers = agreement.receive_markers, .crc = agreement.crc};
}

machines::FpduArrival judge_fpdu(Bytes bytes, std::uint64_t position, machines::FpduModes modes) {
  return machines::judge_fpdu(bytes, position, modes);
}

void reject_fpdu(Stream& stream, Bytes /*bytes*/, const machines::FpduArrival& arrival) { fail(stream, arrival.error); }

MpaSender fpdu_sender(const machines::MpaAgreement& agreement) {
  return MpaSender({.markers = agreement.send_markers, .crc = agreement.crc});
}

std::vector<std::uint8_t> fpdu(Stream& stream, Bytes ulpdu) {
  std::vector<std::uint8_t> fpdu;
  (void)stream.sender->send(fpdu, ulpdu);
  return fpdu;
}

std::uint32_t mulpdu(std::uint32_t emss, const machines::MpaAgreement& agreement) {
  return machines::mulpdu(emss, agreement.send_markers);
}

std::uint32_t new_emss(const Stream& /*stream*/, std::uint32_t emss) { return emss; }

void send_ulpdu(Stream& stream, Bytes ulpdu, bool /*last*/) { send_fpdu(stream, ulpdu); }

}  // namespace conforming

}  // namespace rdmawire::endpoint
