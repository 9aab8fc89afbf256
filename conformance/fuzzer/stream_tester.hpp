#pragma once
/// The tester's side of an iWARP stream. Creates the bytes of steps with their mutations, and derives the state from
/// received bytes. CRCs are valid unless they are mutated.

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "conformance/fuzzer/known_objects.hpp"
#include "conformance/fuzzer/script.hpp"
#include "dissectors/protocol/stack.hpp"

namespace rdmawire::fuzzer {

/// State of a stream, and values of the device's state that relative fields of a segment are added to.
struct StreamBases {
  bool operating = false;              ///< true: the device accepts FPDUs. false: MPA negotiation
  bool device_initiated = false;       ///< true: the device is the initiator
  std::array<std::uint32_t, 4> msn{};  ///< expected MSN of each queue
  std::array<std::uint32_t, 4> mo{};   ///< expected MO of each queue
  std::uint8_t version = 1;            ///< version of DDP and RDMAP
  bool markers = false, crc = true;    ///< of the FPDUs that the tester sends
  bool device_markers = false;         ///< of the FPDUs that the device sends
};

class StreamTester {
 public:
  /// A READ or an atomic of the device that the tester has not completely responded to.
  struct Request {
    bool atomic = false;
    std::uint32_t stag = 0, id = 0;
    std::uint64_t to = 0;
    std::uint32_t bytes = 0, received = 0;
  };

  /// Return the TCP segments of a step. For a connect step, those of the MPA frame.
  void make(const Step& step, const KnownObjects& objects, const StreamBases& bases,
            std::vector<std::vector<std::uint8_t>>& segments);
  /// Return the FPDU or MPA frame before mutation, without markers.
  [[nodiscard]] std::vector<std::uint8_t> plain(const Step& step, const KnownObjects& objects,
                                                const StreamBases& bases) const;
  /// Process a TCP segment of the device.
  void receive(Bytes bytes, bool markers);
  /// Pending requests, oldest first.
  [[nodiscard]] const std::deque<Request>& requests() const { return requests_; }

 private:
  void begin();
  [[nodiscard]] std::vector<std::uint8_t> setup_frame(const Step& step, bool reply) const;
  [[nodiscard]] std::vector<std::uint8_t> ulpdu(const Step& step, const KnownObjects& objects,
                                                const StreamBases& bases) const;
  void receive_ulpdu(Bytes ulpdu);
  void answered(const Step& step);

  std::uint64_t position_ = 0;         ///< position of the next byte in Full Operation Phase
  std::vector<std::uint8_t> before_;   ///< previous ULPDU
  std::vector<std::uint8_t> delayed_;  ///< to send after the next segment
  std::vector<std::uint8_t> joined_;   ///< to send before the next segment, in the same TCP segment
  std::deque<Request> requests_;
  std::vector<std::uint8_t> pending_;  ///< received bytes that are not processed
  std::uint64_t stream_start_ = 0;     ///< position of the first byte in Full Operation Phase
  bool operating_ = false;             ///< true: the device's MPA frame was received
};

/// True if a tester creates the step's bytes.
bool is_sent_by_tester(StepKind kind);

/// Decode the layers of an MPA frame, or of an FPDU without markers.
void decode_stream(HeaderStack& stack, Bytes bytes);

}  // namespace rdmawire::fuzzer
