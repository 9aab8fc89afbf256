/// Faults of FPDUs.

#include <algorithm>

#include "conformance/device/iwarp/faults/overrides.hpp"
#include "conformance/device/iwarp/stream.hpp"

namespace rdmawire::endpoint {

namespace {

using machines::FpduArrival;
using machines::FpduModes;
using machines::MpaAgreement;

bool is_zero(Bytes bytes) {
  return std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; });
}

/// Replace the CRC by that of the bytes from `from` to the CRC.
void write_crc(const Stream& stream, std::vector<std::uint8_t>& fpdu, std::size_t from = 0) {
  if (!stream.agreement.crc || fpdu.empty()) return;
  const std::size_t crc_at = fpdu.size() - mpa::crc_bytes;
  store_be(fpdu.data() + crc_at, mpa::crc_bytes, compute_mpa_crc(Bytes(fpdu).first(crc_at).subspan(from)));
}

/// Return the FPDU with another FPDUPTR in each marker. `change` returns the new pointer. Its arguments: the right
/// pointer, and the number of earlier markers between the FPDU's length field and this marker.
template <class Change>
std::vector<std::uint8_t> with_changed_markers(const decltype(FpduDecisions::fpdu)::Next& next, Stream& stream,
                                               Bytes ulpdu, const Change& change) {
  const std::uint64_t position = stream.sender->position();
  std::vector<std::uint8_t> fpdu = next(stream, ulpdu);
  if (!stream.agreement.send_markers) return fpdu;
  std::uint32_t earlier = 0;
  for (std::size_t at = MarkerGrid::to_next(position); at < fpdu.size(); at += mpa::marker_interval) {
    std::uint8_t* pointer = fpdu.data() + at + 2;
    const auto value = static_cast<std::uint32_t>(load_be<2>(pointer));
    store_be(pointer, 2, change(value, earlier));
    if (value != 0) ++earlier;
  }
  write_crc(stream, fpdu);
  return fpdu;
}

constexpr FaultOverride fpdu_rows[] = {
    // Received FPDUs
    {Fault::checks_crcs_unasked,
     [](Decisions& d) {
       d.fpdus.modes.override_with([](const auto& next, const MpaAgreement& agreement) {
         FpduModes modes = next(agreement);
         modes.crc = true;
         return modes;
       });
     }},
    {Fault::ignores_crc,
     [](Decisions& d) {
       d.fpdus.modes.override_with([](const auto& next, const MpaAgreement& agreement) {
         FpduModes modes = next(agreement);
         modes.crc = false;
         return modes;
       });
     }},
    {Fault::places_before_crc,
     [](Decisions& d) {
       d.fpdus.reject.override_with([](const auto& next, Stream& stream, Bytes bytes, const FpduArrival& arrival) {
         std::vector<std::uint8_t> buffer(arrival.bytes);
         const Bytes ulpdu = machines::take_ulpdu(bytes.first(arrival.bytes), stream.position, arrival,
                                                  stream.agreement.receive_markers, buffer);
         const auto segment = machines::read_segment(ulpdu);
         if (segment && segment->tagged) (void)stream.decisions().responder.place(stream, *segment, ulpdu);
         next(stream, bytes, arrival);
       });
     }},
    {Fault::wants_zero_crc,
     [](Decisions& d) {
       d.fpdus.judge.override_with([](const auto& next, Bytes bytes, std::uint64_t position, FpduModes modes) {
         FpduArrival arrival = next(bytes, position, modes);
         if (arrival.state != FpduArrival::State::whole || modes.crc) return arrival;
         if (!is_zero(bytes.first(arrival.bytes).last(mpa::crc_bytes))) {
           arrival.state = FpduArrival::State::invalid;
           arrival.error = machines::iwarp_error::crc;
         }
         return arrival;
       });
     }},
    {Fault::minds_pad,
     [](Decisions& d) {
       d.fpdus.judge.override_with([](const auto& next, Bytes bytes, std::uint64_t position, FpduModes modes) {
         FpduArrival arrival = next(bytes, position, modes);
         if (arrival.state != FpduArrival::State::whole || modes.markers) return arrival;
         const std::uint32_t pad = mpa::pad_bytes(arrival.ulpdu_length);
         if (!is_zero(bytes.first(arrival.bytes).last(mpa::crc_bytes + pad).first(pad))) {
           arrival.state = FpduArrival::State::invalid;
           arrival.error = machines::iwarp_error::crc;
         }
         return arrival;
       });
     }},
    {Fault::needs_whole_fpdus,
     [](Decisions& d) {
       d.fpdus.judge.override_with([](const auto& next, Bytes bytes, std::uint64_t position, FpduModes modes) {
         FpduArrival arrival = next(bytes, position, modes);
         if (arrival.state == FpduArrival::State::more) {
           arrival.state = FpduArrival::State::invalid;
           arrival.error = machines::iwarp_error::crc;
         }
         return arrival;
       });
     }},
    {Fault::ignores_marker_values,
     [](Decisions& d) {
       d.fpdus.judge.override_with([](const auto& next, Bytes bytes, std::uint64_t position, FpduModes modes) {
         FpduArrival arrival = next(bytes, position, modes);
         if (arrival.state == FpduArrival::State::invalid && arrival.error == machines::iwarp_error::marker)
           arrival.state = FpduArrival::State::whole;
         return arrival;
       });
     }},
    // Sent FPDUs
    {Fault::nonzero_pad,
     [](Decisions& d) {
       d.fpdus.fpdu.override_with([](const auto& next, Stream& stream, Bytes ulpdu) {
         std::vector<std::uint8_t> fpdu = next(stream, ulpdu);
         const std::uint32_t pad = mpa::pad_bytes(static_cast<std::uint32_t>(ulpdu.size()));
         if (fpdu.empty() || stream.agreement.send_markers || pad == 0) return fpdu;
         std::fill_n(fpdu.end() - mpa::crc_bytes - pad, pad, std::uint8_t{1});
         write_crc(stream, fpdu);
         return fpdu;
       });
     }},
    {Fault::wrong_crc,
     [](Decisions& d) {
       d.fpdus.fpdu.override_with([](const auto& next, Stream& stream, Bytes ulpdu) {
         std::vector<std::uint8_t> fpdu = next(stream, ulpdu);
         if (fpdu.empty() || !stream.agreement.crc) return fpdu;
         const std::size_t crc_at = fpdu.size() - mpa::crc_bytes;
         store_be(fpdu.data() + crc_at, mpa::crc_bytes, __builtin_bswap32(crc32(Bytes(fpdu).first(crc_at))));
         return fpdu;
       });
     }},
    {Fault::two_ulpdus_an_fpdu,
     [](Decisions& d) {
       d.fpdus.send_ulpdu.override_with([](const auto& next, Stream& stream, Bytes ulpdu, bool last) {
         std::vector<std::uint8_t>& waiting = stream.faults.ulpdu;
         const bool waits = !last && waiting.empty();
         waiting.insert(waiting.end(), ulpdu.begin(), ulpdu.end());
         if (waits) return;
         next(stream, waiting, last);
         waiting.clear();
       });
     }},
    // Size
    {Fault::long_ulpdus,
     [](Decisions& d) {
       d.fpdus.mulpdu.override_with([](const auto& /*next*/, std::uint32_t emss, const MpaAgreement& /*agreement*/) {
         return std::min<std::uint32_t>(emss, UINT16_MAX - 3);
       });
     }},
    {Fault::segments_beyond_mulpdu,
     [](Decisions& d) {
       d.fpdus.mulpdu.override_with([](const auto& next, std::uint32_t emss, const MpaAgreement& agreement) {
         return next(emss, agreement) + 4;
       });
     }},
    {Fault::ignores_new_emss,
     [](Decisions& d) {
       d.fpdus.new_emss.override_with(
           [](const auto& /*next*/, const Stream& stream, std::uint32_t /*emss*/) { return stream.options.emss; });
     }},
    // Markers
    {Fault::sends_markers_unasked,
     [](Decisions& d) {
       d.fpdus.sender.override_with([](const auto& next, const MpaAgreement& agreement) {
         MpaAgreement with_markers = agreement;
         with_markers.send_markers = true;
         return next(with_markers);
       });
     }},
    {Fault::no_first_marker,
     [](Decisions& d) {
       d.fpdus.sender.override_with([](const auto& /*next*/, const MpaAgreement& agreement) {
         return MpaSender({.markers = agreement.send_markers, .crc = agreement.crc}, mpa::marker_bytes);
       });
     }},
    {Fault::marker_points_wrong,
     [](Decisions& d) {
       d.fpdus.fpdu.override_with([](const auto& next, Stream& stream, Bytes ulpdu) {
         return with_changed_markers(next, stream, ulpdu,
                                     [](std::uint32_t pointer, std::uint32_t /*earlier*/) { return pointer + 4; });
       });
     }},
    {Fault::markers_point_to_markers,
     [](Decisions& d) {
       d.fpdus.fpdu.override_with([](const auto& next, Stream& stream, Bytes ulpdu) {
         return with_changed_markers(next, stream, ulpdu, [](std::uint32_t pointer, std::uint32_t earlier) {
           return earlier != 0 ? mpa::marker_interval : pointer;
         });
       });
     }},
    {Fault::first_marker_uncovered,
     [](Decisions& d) {
       d.fpdus.fpdu.override_with([](const auto& next, Stream& stream, Bytes ulpdu) {
         const bool starts_with_marker = stream.agreement.send_markers && MarkerGrid::inside(stream.sender->position());
         std::vector<std::uint8_t> fpdu = next(stream, ulpdu);
         if (starts_with_marker) write_crc(stream, fpdu, mpa::marker_bytes);
         return fpdu;
       });
     }},
};

}  // namespace

std::span<const FaultOverride> fpdu_overrides() { return fpdu_rows; }

}  // namespace rdmawire::endpoint
