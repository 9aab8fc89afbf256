#pragma once
/// Events on an iWARP stream from the device, and expectations of a case, stated literally from the clause, without the
/// protocol state machines.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "conformance/cases/expectation.hpp"
#include "dissectors/protocol/ddp.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/rdmap.hpp"

namespace rdmawire::conformance::iwarp {

/// One event, in stream order.
struct Seen {
  enum class Kind : std::uint8_t {
    setup,  ///< an MPA Request or Reply Frame, with its private data
    fpdu,   ///< a complete FPDU
    torn,   ///< bytes before the end of the stream that are not a complete FPDU
    fin,
    reset,
  };
  Kind kind = Kind::fpdu;
  std::int64_t time = 0;
  /// The frame. For an FPDU, from its length field to its CRC, without markers.
  std::vector<std::uint8_t> bytes{};

  // For an FPDU:
  std::uint64_t position = 0;  ///< offset of its first byte in the stream of Full Operation Phase, including markers
  std::uint64_t end = 0;       ///< offset after its last byte
  /// The markers: position and four bytes of each, including the marker before the FPDU.
  struct MarkerSeen {
    std::uint64_t position = 0;
    std::uint32_t value = 0;
  };
  std::vector<MarkerSeen> markers{};
  bool crc_good = true;             ///< the CRC is valid, including markers
  std::uint64_t segment_at = 0;     ///< stream offset of the TCP segment with its first byte
  std::uint32_t segment_bytes = 0;  ///< length of this segment

  /// Decodes the bytes. Valid until this object is moved or destroyed.
  [[nodiscard]] HeaderStack stack() const;
  [[nodiscard]] bool is(RdmapOperation operation) const;
  /// Returns a field of a header, or nullopt if the header is missing.
  template <class H, FixedString Name>
  [[nodiscard]] std::optional<std::uint64_t> get() const {
    const HeaderStack decoded = stack();
    const auto header = decoded.get<H>();
    if (!header) return std::nullopt;
    return header->template get<Name>();
  }
  [[nodiscard]] std::string payload() const;
  /// Length of the DDP segment including its header.
  [[nodiscard]] std::uint32_t ulpdu_bytes() const;
  /// For a Terminate whose control bytes have the bit order of a little-endian compiler: a copy with the right order.
  /// nullopt for other events. RFC 5040, 4.8, figure 7.
  [[nodiscard]] std::optional<Seen> with_bits_in_order() const;
  /// "Send, MSN 2, 16 bytes", "Terminate, layer 1, type 2, code 0x03", "FIN"
  [[nodiscard]] std::string text() const;
};

/// An expectation of an event on a stream.
class Expectation : public ExpectationOf<Expectation, Seen> {
 public:
  using ExpectationOf::ExpectationOf;

  /// Adds the payload.
  [[nodiscard]] Expectation carrying(const std::string& payload) const;
};

/// An FPDU of this opcode with a valid CRC, or any CRC if CRCs are not used.
Expectation an(RdmapOperation operation);
/// An untagged FPDU with this MSN.
Expectation an(RdmapOperation operation, std::uint32_t msn);
inline Expectation a_send(std::uint32_t msn) { return an(RdmapOperation::send, msn); }
/// A Write to this STag and TO.
Expectation a_write(std::uint32_t stag, std::uint64_t to);
Expectation a_read_request(std::uint32_t msn, std::uint32_t size);
/// A Read Response to this STag and TO, or a segment of one.
Expectation a_read_response(std::uint32_t stag, std::uint64_t to);
Expectation an_atomic_response(std::uint32_t msn, std::uint32_t id, std::uint64_t original);
/// A Terminate with exactly this layer, error type and code. Another combination is the wrong code. The right
/// combination with another bit order is a failure that reports the bit order.
Expectation a_terminate(std::uint8_t layer, std::uint8_t type, std::uint8_t code);
/// Any Terminate.
Expectation any_terminate();
/// An MPA Reply Frame or Request Frame from the device.
Expectation a_reply();
Expectation a_request();
/// The device's FIN.
Expectation a_fin();
Expectation a_reset();
/// A FIN or a reset.
Expectation stream_closed();
/// Any Terminate, or only the end of TCP: for errors with an optional Terminate.
Expectation a_refusal();

}  // namespace rdmawire::conformance::iwarp
