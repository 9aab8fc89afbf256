#pragma once
/// Monitors of one iWARP connection. Negotiation frames and FPDUs arrive in stream order from the tracker's TCP
/// reassembly, without retransmissions, duplicates or reordering. Bytes that the capture lacks are reported as a gap,
/// and rules that depend on them are inconclusive.

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "conformance/monitors/connection_monitor.hpp"
#include "conformance/monitors/evaluator.hpp"
#include "dissectors/machines/ddp.hpp"
#include "dissectors/machines/mpa_setup.hpp"
#include "dissectors/machines/rdmap.hpp"
#include "dissectors/tracking/mpa_connections.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::conformance {

/// State of one direction of an iWARP connection.
struct IwarpDirection {
  /// The MPA negotiation frame.
  struct Setup {
    machines::MpaSetupFrame frame{};  ///< `enhanced`: S is set and the enhanced data is present
    bool request = false;             ///< true: the frame has the key of a request
    bool answers = false;             ///< true: the frame replies to the peer's request, even if it has the wrong key
    std::uint32_t private_data = 0;   ///< PD_Length
    std::uint64_t end = 0;            ///< stream offset after the frame
    std::uint64_t number = 0;         ///< number of its packet in the capture
  };
  /// The current or last message on an untagged queue.
  struct Queue {
    std::uint32_t next = 1;  ///< MSN of the open message, otherwise of the next one
    bool known = false;      ///< true: `next` is known
    bool open = false,
         ended = false;        ///< true: the last message is complete, and the members below still describe it
    bool unsure = false;       ///< true: bytes of the open message are missing
    std::uint8_t control = 0;  ///< RDMAP control byte
    std::uint32_t invalidate = 0;
    std::uint64_t bytes = 0;  ///< payload bytes so far
    std::uint32_t segments = 0;
    std::uint64_t frame = 0;    ///< frame of the last segment
    bool empty_before = false;  ///< true: the preceding message was a zero-length Send
  };
  /// The open tagged message.
  struct Tagged {
    bool open = false, unsure = false;
    bool constant_offset = false;  ///< true: all its segments have the same TO
    std::uint8_t control = 0;
    std::uint32_t stag = 0;
    std::uint64_t first = 0, next = 0;  ///< TO of the first segment, and expected TO of the next one
    std::uint64_t bytes = 0;
    std::uint32_t segments = 0, last_bytes = 0;
    std::uint64_t frame = 0;
  };
  /// A pending Read or atomic.
  struct PendingRequest {
    bool atomic = false;
    bool stale = false;                                 ///< true: the capture lacks later bytes, possibly the response
    std::uint32_t stag = 0, size = 0, msn = 0, id = 0;  ///< stag, size: of the data sink. id: identifier of an atomic
    std::uint64_t to = 0, received = 0;
    bool ended_early = false;        ///< true: the last flag was set before the response was complete
    bool reported_mismatch = false;  ///< true: a violation of its response was reported
    std::array<std::uint8_t, RdmapReadRequest::size> header{};
    std::uint64_t frame = 0;
  };
  /// A DDP header that a Terminate may quote.
  struct Quotable {
    std::array<std::uint8_t, 18> header{};
    std::uint32_t length = 0;  ///< length of its segment
    std::uint64_t frame = 0;
  };
  static constexpr std::size_t quotables = 64, most_asked = 1024;

  std::optional<Setup> setup{};
  bool parsed = false;
  std::uint64_t first = 0, parsed_to = 0;  ///< stream offsets of the first PDU, and after the last PDU
  std::uint64_t acknowledged = 0;          ///< highest stream offset that the peer acknowledged
  bool chained = false;                    ///< all FPDUs after the negotiation frame were captured and valid
  bool guessed = false;     ///< the negotiated first marker is missing, so the marker positions are uncertain
  bool framed = false;      ///< the last FPDU had a valid CRC, so the next one starts at its end
  bool contiguous = false;  ///< all FPDUs after the negotiation frame were captured. Some may be invalid
  bool data = false;        ///< the endpoint sent bytes
  bool fin = false, reset = false;
  std::uint64_t fpdus = 0, good_crcs = 0, bad_crcs = 0, bad_in_a_row = 0;
  bool markers_wrapped = false;           ///< markers were right after the sequence number wrapped
  std::optional<std::uint8_t> version{};  ///< DDP version of earlier segments
  bool old_rdmap = false;                 ///< a message of RFC 5040 had an RDMAP version other than 1
  std::uint32_t gaps = 0;
  std::array<Queue, 4> queues{};
  Tagged tagged{};
  std::deque<PendingRequest> pending{};
  bool responding = false;  ///< the open or last response belongs to the first of the peer's `pending`
  std::vector<Quotable> quotable{};
  std::uint64_t segments = 0;  ///< number of segments stored in `quotable` so far
  /// The Terminate that the endpoint sent.
  struct Terminated {
    std::uint64_t frame = 0, end = 0;
    bool checked = false;  ///< true: the close of TCP after it was checked
  };
  std::optional<Terminated> terminate{};
};

class IwarpMonitor {
 public:
  /// Handles a packet, and the PDUs that end in it.
  void packet(Evaluator& evaluator, const CaptureAssumptions& assumptions, const Connection& connection, Side from,
              const tracking::Packet& packet);
  /// Appends the values of Monitors::states_of().
  void states(std::vector<std::uint64_t>& states) const;
  /// Called after the last packet.
  void finish(Evaluator& evaluator);

 private:
  /// The PDU or packet under evaluation.
  struct IwarpPacketContext {
    Evaluator& evaluator;
    IwarpMonitor& monitor;
    const tracking::Packet& packet;
    Place place;
    std::vector<Violation*>* reported;  ///< violations to which a sequence must be attached
    bool sure = true;                   ///< true: the start of the FPDU is certain. Otherwise `doubt` is the reason
    Reason doubt = Reason::start_not_seen;

    void rule(RuleId which, RuleResult result) const { evaluator.record(which, result, place.end); }
    void pass(RuleId which) const { rule(which, RuleResult::pass()); }
    void inconclusive(RuleId which, Reason why) const { rule(which, RuleResult::inconclusive(why)); }
    /// Records a result. `describe` returns the Statement for a violation.
    template <class Describe>
    void report(RuleId which, RuleResult result, const Describe& describe) const {
      Violation* violation = evaluator.record(which, result.unless(!sure, doubt), place, describe);
      if (violation) reported->push_back(violation);
    }
    template <class Describe>
    void violation(RuleId which, const Describe& describe) const {
      report(which, RuleResult::violation(), describe);
    }
    template <class Describe>
    void check(RuleId which, bool condition, const Describe& describe) const {
      if (condition)
        pass(which);
      else
        violation(which, describe);
    }
  };
  /// A DDP segment.
  struct Segment {
    const tracking::Pdu& pdu;
    machines::DdpSegment ddp{};
    const RdmapOpcode* opcode = nullptr;
    RdmapOperation operation{};
    Bytes payload{};  ///< the captured part
    bool cut = false;
  };

  [[nodiscard]] IwarpDirection& direction(Side end) { return directions_[static_cast<std::size_t>(end)]; }
  void note(Side from, const tracking::Packet& packet, std::uint32_t at, std::uint32_t bytes, std::uint32_t msn,
            std::string_view label);
  void attach_sequence(std::vector<Violation*>& reported);
  [[nodiscard]] bool unseen_before(Side sender, const tracking::Packet& packet);
  void gap(IwarpDirection& mine, IwarpDirection& peer);

  // iwarp_setup.cpp
  void setup(const IwarpPacketContext& here, const tracking::Pdu& pdu);
  void check_reply(const IwarpPacketContext& here, const IwarpDirection::Setup& request,
                   const IwarpDirection::Setup& reply);
  void first_fpdu(const IwarpPacketContext& here, const tracking::Pdu& pdu, const Segment* segment);
  // iwarp_framing.cpp
  void framing(const IwarpPacketContext& here, const tracking::Pdu& pdu);
  void check_markers(const IwarpPacketContext& here, const tracking::Pdu& pdu);
  void check_crc(const IwarpPacketContext& here, const tracking::Pdu& pdu);
  void check_length(const IwarpPacketContext& here, const Segment& s);
  // iwarp_segments.cpp
  [[nodiscard]] std::optional<Segment> read(const tracking::Pdu& pdu) const;
  void segment(const IwarpPacketContext& here, const Segment& s);
  void check_control(const IwarpPacketContext& here, const Segment& s);
  [[nodiscard]] bool contains_second_segment(const IwarpPacketContext& here, const Segment& s);
  [[nodiscard]] bool untagged(const IwarpPacketContext& here, const Segment& s);
  [[nodiscard]] bool tagged(const IwarpPacketContext& here, const Segment& s);
  // iwarp_operations.cpp
  void check_message(const IwarpPacketContext& here, const Segment& s);
  void check_version(const IwarpPacketContext& here, const Segment& s);
  void requested(const IwarpPacketContext& here, const Segment& s);
  void check_depth(const IwarpPacketContext& here);
  void announced_short_length(const IwarpPacketContext& here, const IwarpDirection::PendingRequest& pending);
  void answered(const IwarpPacketContext& here, const Segment& s, bool begins);
  void atomic_answered(const IwarpPacketContext& here, const Segment& s);
  // iwarp_terminate.cpp
  void terminate(const IwarpPacketContext& here, const Segment& s);
  void check_quotation(const IwarpPacketContext& here, Bytes message, machines::IwarpError error);
  void closing(const IwarpPacketContext& here);

  std::array<IwarpDirection, 2> directions_{};
  bool everywhere_ = false;
  bool carried_ = false;  ///< the packet contains bytes of the PDU, so its acknowledgement was sent with the PDU
  Place last_{};
  static constexpr std::size_t kept = 12, entries_after = 3;
  std::array<SequenceEntry, kept> entries_{};
  std::uint64_t noted_ = 0;
  struct OpenSequence {
    Violation* violation;
    std::size_t left;
  };
  std::vector<OpenSequence> open_sequences_{};
};

}  // namespace rdmawire::conformance
