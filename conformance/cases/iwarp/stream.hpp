#pragma once
/// The tester's end of a stream: what it says, byte by byte and segment by segment where that matters, and what it
/// hears.
///
///     stream >> send(1, "hello");
///     stream << a_terminate(1, 2, 0x03) << the_end();

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

/// How FPDUs are framed in one direction.
struct Framing {
  bool markers = false;
  bool crc = true;
};

/// An MPA frame of literal flags and revision. `told`: its PD_Length, where that is not what follows. RFC 5044, 7.1.1.
ByteVector mpa_frame(std::string_view key, std::uint8_t flags, std::uint8_t revision,
                     const std::string& private_data = {}, int told = -1);
inline ByteVector mpa_request(std::uint8_t flags, std::uint8_t revision, const std::string& private_data = {},
                              int told = -1) {
  return mpa_frame(mpa::request_key, flags, revision, private_data, told);
}
inline ByteVector mpa_reply(std::uint8_t flags, std::uint8_t revision, const std::string& private_data = {},
                            int told = -1) {
  return mpa_frame(mpa::reply_key, flags, revision, private_data, told);
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

class Stream {
 public:
  /// Both must outlive it.
  Stream(CaseRecorder& story, replay::TcpHost& host) : story_(story), host_(host) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// TCP is there.
  void take(std::unique_ptr<replay::TcpConnection> connection) {
    connection_ = std::move(connection);
    tell_frames();
  }
  [[nodiscard]] replay::TcpConnection& connection() { return *connection_; }
  [[nodiscard]] bool connected() const { return connection_ != nullptr; }
  /// Full Operation Phase from here on: how each direction is framed.
  void operate(const Framing& to_device, const Framing& from_device);

  /// Says an FPDU, as one TCP segment where it fits one.
  Stream& operator>>(const Stimulus& segment);
  /// The FPDU's bytes, as the next of the stream; to be said by say().
  [[nodiscard]] ByteVector fpdu(const Stimulus& segment);
  /// Says these FPDUs as one TCP segment where they fit one.
  void together(const std::vector<Stimulus>& segments);
  /// Says these bytes, whatever they are, as one TCP segment where they fit one.
  void say(const ByteVector& bytes, const std::string& text);
  /// In TCP segments of so many bytes each.
  void send_in_segments(const ByteVector& bytes, std::size_t each, const std::string& text);
  /// Our FIN.
  void finish();
  /// Says an FPDU behind our FIN, where the tester's TCP can; else the case ends.
  void send_after_close(const Stimulus& segment);
  void reset();

  /// Waits for what comes next; another thing than expected ends the case.
  Stream& operator<<(const Expectation& expectation) {
    static_cast<void>(wait(expectation));
    return *this;
  }
  /// Nothing comes for a while: no FPDU, no FIN, no reset.
  Stream& operator<<(const Silence& silence);
  /// The same as <<, and what came, within that time (0: the usual patience).
  Seen wait(const Expectation& expectation, std::int64_t within_ns = 0);
  /// The same, where silence is right as well: then nothing.
  std::optional<Seen> wait_or_silence(const Expectation& expectation);
  /// What comes next, whatever it is; nothing until the deadline (0: the usual patience).
  std::optional<Seen> next(std::int64_t for_ns = 0);
  /// What comes until there is silence or the stream's end, which is the last.
  std::vector<Seen> all_until_silence(std::size_t most = 4096);
  /// Payload bytes of a message that comes in segments, each of that opcode, to its last one; all of them right behind
  /// each other.
  std::vector<Seen> message(RdmapOperation operation);

  /// What is there is read, and kept for later.
  void hear(std::int64_t until);
  /// Bytes of the device's stream in Full Operation Phase, markers counted, so far.
  [[nodiscard]] std::uint64_t heard() const { return position_; }
  /// Every byte that the device said in Full Operation Phase, as it stood.
  [[nodiscard]] const ByteVector& heard_bytes() const { return heard_; }
  /// Its TCP segments: bytes of each.
  [[nodiscard]] const std::vector<std::uint32_t>& segments() const { return segments_; }
  [[nodiscard]] bool operating() const { return operating_; }
  /// heard_bytes() and segments() begin anew: of a stream that goes on for long.
  void forget();

 private:
  /// What came is what was waited for, or the case ends.
  Seen judged(Seen seen, const Expectation& expectation);
  void tell_frames();
  void tell(Seen seen);
  void arrived(replay::TcpArrival arrival);
  /// Makes what can be made of what has arrived.
  void read();
  bool read_setup();
  bool read_fpdu();
  void sent(const replay::WireResult<void>& result);

  CaseRecorder& story_;
  replay::TcpHost& host_;
  std::unique_ptr<replay::TcpConnection> connection_;
  bool operating_ = false, over_ = false;
  std::optional<MpaSender> sender_;
  Framing from_device_;
  ByteVector pending_;          // of the device, not read yet
  std::uint64_t position_ = 0;  // of pending_'s first byte in Full Operation Phase
  ByteVector heard_;
  struct Arrived {
    std::uint64_t at = 0;  // in the whole stream
    std::uint32_t bytes = 0;
    std::int64_t time = 0;
  };
  std::vector<Arrived> arrivals_;
  std::vector<std::uint32_t> segments_;
  std::uint64_t arrived_bytes_ = 0, operates_from_ = 0;
  std::deque<Seen> seen_;
};

}  // namespace rdmawire::conformance::iwarp
