#pragma once
/// What comes from the device on a stream of iWARP, and what a case waits for, stated literally from the clause.
/// Nothing here asks a machine.

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

/// One thing that came, in the stream's order.
struct Seen {
  enum class Kind : std::uint8_t {
    setup,  ///< an MPA Request or Reply Frame, with its private data
    fpdu,   ///< a whole FPDU
    torn,   ///< bytes that are no whole FPDU, before the stream's end
    fin,
    reset,
  };
  Kind kind = Kind::fpdu;
  std::int64_t time = 0;
  /// The frame; of an FPDU from its length field to its CRC, without markers.
  std::vector<std::uint8_t> bytes{};

  // Of an FPDU:
  std::uint64_t position = 0;  ///< of its first byte, in the stream of Full Operation Phase, markers counted
  std::uint64_t end = 0;       ///< behind its last
  /// As they stood: a marker's position, and its four bytes. The one that stands before the FPDU belongs to it.
  struct MarkerSeen {
    std::uint64_t position = 0;
    std::uint32_t value = 0;
  };
  std::vector<MarkerSeen> markers{};
  bool crc_good = true;             ///< its CRC is that of its bytes, markers counted
  std::uint64_t segment_at = 0;     ///< of the stream, where the TCP segment began that brought its first byte
  std::uint32_t segment_bytes = 0;  ///< of that segment

  /// Decoded anew, of bytes: as long as this stands where it is.
  [[nodiscard]] HeaderStack stack() const;
  [[nodiscard]] bool is(RdmapOperation operation) const;
  /// A field of a header that is there; nothing where it is not.
  template <class H, FixedString Name>
  [[nodiscard]] std::optional<std::uint64_t> get() const {
    const HeaderStack decoded = stack();
    const auto header = decoded.get<H>();
    if (!header) return std::nullopt;
    return header->template get<Name>();
  }
  [[nodiscard]] std::string payload() const;
  /// Bytes of the DDP segment, header included.
  [[nodiscard]] std::uint32_t ulpdu_bytes() const;
  /// A Terminate whose control bytes have their bits in the order of a little-endian compiler, with these put right;
  /// nothing where it is none. RFC 5040, 4.8, figure 7.
  [[nodiscard]] std::optional<Seen> with_bits_in_order() const;
  /// "Send, MSN 2, 16 bytes", "Terminate, layer 1, type 2, code 0x03", "FIN"
  [[nodiscard]] std::string text() const;
};

/// Of what comes on a stream.
class Expectation : public ExpectationOf<Expectation, Seen> {
 public:
  using ExpectationOf::ExpectationOf;

  /// And the payload.
  [[nodiscard]] Expectation carrying(const std::string& payload) const;
};

/// An FPDU with a good CRC, or a bad one where none are in use, of that opcode.
Expectation an(RdmapOperation operation);
/// Untagged, with that MSN on its queue.
Expectation an(RdmapOperation operation, std::uint32_t msn);
inline Expectation a_send(std::uint32_t msn) { return an(RdmapOperation::send, msn); }
/// To that STag and TO.
Expectation a_write(std::uint32_t stag, std::uint64_t to);
Expectation a_read_request(std::uint32_t msn, std::uint32_t size);
/// To that STag and TO: a whole response, or a segment of one.
Expectation a_read_response(std::uint32_t stag, std::uint64_t to);
Expectation an_atomic_response(std::uint32_t msn, std::uint32_t id, std::uint64_t original);
/// A Terminate of exactly this layer, error type and code; another one is the wrong code. One whose bytes read so in
/// another order of bits is wrong, and says so.
Expectation a_terminate(std::uint8_t layer, std::uint8_t type, std::uint8_t code);
/// Whatever it says.
Expectation any_terminate();
/// An MPA Reply Frame of the device, or a Request Frame.
Expectation a_reply();
Expectation a_request();
/// The device's FIN.
Expectation a_fin();
Expectation a_reset();
/// A FIN or a reset.
Expectation the_end();
/// A Terminate, whatever it says, or TCP ends without one: where no clause asks for the Terminate.
Expectation a_refusal();

}  // namespace rdmawire::conformance::iwarp
