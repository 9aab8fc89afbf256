#pragma once
/// The tester's endpoint of a stream. Sends FPDUs, or single bytes and TCP segments if they matter, and receives.
///
///     stream >> send(1, "hello");
///     stream << a_terminate(1, 2, 0x03) << stream_closed();

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conformance/cases/case_recorder.hpp"
#include "conformance/cases/iwarp/seen.hpp"
#include "conformance/cases/iwarp/segment.hpp"
#include "replay/streams/tcp.hpp"

namespace rdmawire::conformance::iwarp {

using ByteVector = std::vector<std::uint8_t>;

/// The framing of FPDUs in one direction.
struct Framing {
  bool markers = false;
  bool crc = true;
};

/// An MPA frame with literal flags and revision. `pd_length`: a PD_Length that differs from the data. RFC 5044, 7.1.1.
ByteVector mpa_frame(std::string_view key, std::uint8_t flags, std::uint8_t revision,
                     const std::string& private_data = {}, int pd_length = -1);
inline ByteVector mpa_request(std::uint8_t flags, std::uint8_t revision, const std::string& private_data = {},
                              int pd_length = -1) {
  return mpa_frame(mpa::request_key, flags, revision, private_data, pd_length);
}
inline ByteVector mpa_reply(std::uint8_t flags, std::uint8_t revision, const std::string& private_data = {},
                            int pd_length = -1) {
  return mpa_frame(mpa::reply_key, flags, revision, private_data, pd_length);
}
namespace mpa_flag {
inline constexpr std::uint8_t markers = 0x80, crc = 0x40, reject = 0x20, enhanced = 0x10;
}
/// The four bytes before the private data of an enhanced frame. RFC 6581, 9.
struct Enhanced {
  std::uint16_t ird = 4, ord = 4;
  bool a = false, b = false, c = false, d = false;  ///< control flags
};
std::string enhanced_data(const Enhanced& data);

/// Every FPDU and negotiation frame is checked, see fpdu_check.hpp and CaseRecorder::wire_violations().
class Stream {
 public:
  /// Both references must outlive this object. `device_initiates`: the device sends the MPA Request Frame.
  Stream(CaseRecorder& story, replay::TcpHost& host, bool device_initiates)
      : story_(story), host_(host), device_initiates_(device_initiates) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Takes the established TCP connection.
  void take(std::unique_ptr<replay::TcpConnection> connection) {
    connection_ = std::move(connection);
    tell_frames();
  }
  [[nodiscard]] replay::TcpConnection& connection() { return *connection_; }
  [[nodiscard]] bool connected() const { return connection_ != nullptr; }
  /// Enters Full Operation Phase with this framing of each direction.
  void operate(const Framing& to_device, const Framing& from_device);

  /// Changes the TCP segments of FPDUs that operator>> sends: how many bytes of an FPDU of this size each of them has.
  void set_segment_bytes(std::size_t (*each)(std::size_t fpdu_bytes)) { segment_bytes_ = each; }
  /// Sends an FPDU, by default as one TCP segment if it fits.
  Stream& operator>>(const Stimulus& segment);
  /// Returns the bytes of the next FPDU of the stream, for say().
  [[nodiscard]] ByteVector fpdu(const Stimulus& segment);
  /// Sends these FPDUs as one TCP segment if they fit.
  void together(const std::vector<Stimulus>& segments);
  /// Sends arbitrary bytes, as one TCP segment if they fit.
  void say(const ByteVector& bytes, const std::string& text);
  /// Sends bytes in TCP segments of this size.
  void send_in_segments(const ByteVector& bytes, std::size_t each, const std::string& text);
  /// Sends the tester's FIN.
  void finish();
  /// Sends an FPDU after the tester's FIN, or ends the case if the tester's TCP cannot.
  void send_after_close(const Stimulus& segment);
  void reset();

  /// Waits for the next event. An event other than expected ends the case.
  Stream& operator<<(const Expectation& expectation) {
    static_cast<void>(wait(expectation));
    return *this;
  }
  /// Checks that there is no FPDU, FIN or reset for a while.
  Stream& operator<<(const Silence& silence);
  /// Like <<, within this time (0: the default timeout). Returns the event.
  Seen wait(const Expectation& expectation, std::int64_t within_ns = 0);
  /// Like wait(), but accepts silence. Then returns nullopt.
  std::optional<Seen> wait_or_silence(const Expectation& expectation);
  /// Returns the next event, or nullopt at the deadline (0: the default timeout).
  std::optional<Seen> next(std::int64_t for_ns = 0);
  /// Returns events until there is silence, or until the end of the stream, which is included.
  std::vector<Seen> all_until_silence(std::size_t most = 4096);
  /// Receives the segments of a message of this opcode up to the last one, without other segments between them.
  std::vector<Seen> message(RdmapOperation operation);

  /// Receives bytes until an event is complete, but not after `until`. Keeps the event for later.
  void hear(std::int64_t until);
  /// Number of bytes of the complete FPDUs received so far, including markers.
  [[nodiscard]] std::uint64_t heard() const { return position_; }
  /// All bytes received in Full Operation Phase, unchanged.
  [[nodiscard]] const ByteVector& heard_bytes() const { return heard_; }
  /// The sizes of the received TCP segments.
  [[nodiscard]] const std::vector<std::uint32_t>& segments() const { return segments_; }
  [[nodiscard]] bool operating() const { return operating_; }
  /// Clears heard_bytes() and segments(), for long streams.
  void forget();

 private:
  /// Compares an event with the expectation. Ends the case if they differ.
  Seen judged(Seen seen, const Expectation& expectation);
  void tell_frames();
  void tell(Seen seen);
  void arrived(replay::TcpArrival arrival);
  /// Parses the bytes that have arrived.
  void read();
  bool read_setup();
  bool read_fpdu();
  void sent(const replay::WireResult<void>& result);

  CaseRecorder& story_;
  replay::TcpHost& host_;
  bool device_initiates_;
  std::unique_ptr<replay::TcpConnection> connection_;
  bool operating_ = false, over_ = false;
  std::optional<MpaSender> sender_;
  Framing from_device_;
  ByteVector pending_;          // received bytes that are not parsed yet
  std::uint64_t position_ = 0;  // offset of pending_'s first byte in Full Operation Phase
  ByteVector heard_;
  struct Arrived {
    std::uint64_t at = 0;  // offset in the whole stream
    std::uint32_t bytes = 0;
    std::int64_t time = 0;
  };
  std::vector<Arrived> arrivals_;
  std::vector<std::uint32_t> segments_;
  std::uint64_t arrived_bytes_ = 0, operates_from_ = 0;
  std::deque<Seen> seen_;
  std::size_t (*segment_bytes_)(std::size_t fpdu_bytes) = nullptr;
};

}  // namespace rdmawire::conformance::iwarp
