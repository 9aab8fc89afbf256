#pragma once
/// The tester's end of a stream of iWARP: from steps to bytes, lies and all, with CRCs that are right for them unless
/// they are part of the lie; and what it has to know of what it hears.

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "conformance/fuzzer/known_objects.hpp"
#include "conformance/fuzzer/script.hpp"
#include "dissectors/protocol/stack.hpp"

namespace rdmawire::fuzzer {

/// Where a stream stands, and what a segment's numbers count from.
struct StreamBases {
  bool operating = false;              ///< the device takes FPDUs; else what the tester says is a set-up frame
  bool device_asked = false;           ///< the device is the initiator
  std::array<std::uint32_t, 4> msn{};  ///< expected of each queue
  std::array<std::uint32_t, 4> mo{};   ///< likewise
  std::uint8_t version = 1;            ///< of DDP and RDMAP
  bool markers = false, crc = true;    ///< in what the tester says
  bool device_markers = false;         ///< in what the device says
};

class StreamTester {
 public:
  /// A READ or an atomic of the device that was not answered yet.
  struct Request {
    bool atomic = false;
    std::uint32_t stag = 0, id = 0;
    std::uint64_t to = 0;
    std::uint32_t bytes = 0, received = 0;
  };

  /// The TCP segments that a step says; of connect those of its set-up frame.
  void make(const Step& step, const KnownObjects& objects, const StreamBases& bases,
            std::vector<std::vector<std::uint8_t>>& segments);
  /// What it says before it is changed: the FPDU or the frame, without markers.
  [[nodiscard]] std::vector<std::uint8_t> plain(const Step& step, const KnownObjects& objects,
                                                const StreamBases& bases) const;
  /// A TCP segment of the device.
  void heard(Bytes bytes, bool markers);
  /// The oldest comes first.
  [[nodiscard]] const std::deque<Request>& requests() const { return requests_; }

 private:
  void begin();
  [[nodiscard]] std::vector<std::uint8_t> setup_frame(const Step& step, bool reply) const;
  [[nodiscard]] std::vector<std::uint8_t> ulpdu(const Step& step, const KnownObjects& objects,
                                                const StreamBases& bases) const;
  void heard_ulpdu(Bytes ulpdu);
  void answered(const Step& step);

  std::uint64_t position_ = 0;        ///< of the next byte in Full Operation Phase
  std::vector<std::uint8_t> before_;  ///< the ULPDU that was said last
  std::vector<std::uint8_t> held_;    ///< goes behind the next one
  std::vector<std::uint8_t> joined_;  ///< goes in front of the next one, in its TCP segment
  std::deque<Request> requests_;
  std::vector<std::uint8_t> pending_;  ///< of the device, not read yet
  std::uint64_t heard_ = 0;            ///< position of its first byte in Full Operation Phase
  bool operating_ = false;             ///< the device's set-up frame was heard
};

/// Whether a step's bytes are made by a tester.
bool is_said(StepKind kind);

/// The layers of a set-up frame or of an FPDU without markers.
void decode_stream(HeaderStack& stack, Bytes bytes);

}  // namespace rdmawire::fuzzer
