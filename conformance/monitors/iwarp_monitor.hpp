#pragma once
/// One iWARP connection under watch: its set-up frames and FPDUs in the order of the stream, as the tracker's TCP
/// reassembly gives them. Retransmissions, copies and segments out of order are gone then; what was lost to the capture
/// shows as a gap, and what depends on it is not judged.

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

/// What one end of an iWARP connection has sent so far, as far as rules ask for it.
struct IwarpHalf {
  /// Its MPA frame.
  struct Setup {
    machines::MpaSetupFrame frame{};  ///< `enhanced` where S is set and the data is there
    bool request = false;             ///< by its key
    bool answers = false;             ///< the other end's frame came first
    std::uint32_t private_data = 0;   ///< PD_Length
    std::uint64_t end = 0;            ///< offset behind it
    std::uint64_t number = 0;         ///< of its packet in the capture
  };
  /// A message on an untagged queue.
  struct Queue {
    std::uint32_t next = 1;            ///< MSN
    bool known = false;                ///< `next` is
    bool open = false, ended = false;  ///< `ended`: the segments below were the last message's
    bool unsure = false;               ///< of an open one: bytes of it were not seen
    std::uint8_t control = 0;          ///< RDMAP's byte
    std::uint32_t invalidate = 0;
    std::uint64_t bytes = 0;  ///< so far
    std::uint32_t segments = 0;
    std::uint64_t frame = 0;    ///< of the last one
    bool empty_before = false;  ///< the message before was a Send of no bytes
  };
  /// The tagged message that is open.
  struct Tagged {
    bool open = false, unsure = false;
    bool stands = false;  ///< its TO does not rise
    std::uint8_t control = 0;
    std::uint32_t stag = 0;
    std::uint64_t first = 0, next = 0;  ///< TO
    std::uint64_t bytes = 0;
    std::uint32_t segments = 0, last_bytes = 0;
    std::uint64_t frame = 0;
  };
  /// A read or an atomic that it asked for.
  struct Asked {
    bool atomic = false;
    bool stale = false;  ///< bytes were lost since: its response may have been among them
    std::uint32_t stag = 0, size = 0, msn = 0, id = 0;  ///< of the sink; id: the atomic's identifier
    std::uint64_t to = 0, received = 0;
    bool cut_short = false;    ///< its response has ended before it was whole
    bool misanswered = false;  ///< told already
    std::array<std::uint8_t, RdmapReadRequest::size> header{};
    std::uint64_t frame = 0;
  };
  /// A DDP header that a Terminate may quote.
  struct Quotable {
    std::array<std::uint8_t, 18> header{};
    std::uint32_t length = 0;  ///< of its segment
    std::uint64_t frame = 0;
  };
  static constexpr std::size_t quotables = 64, most_asked = 1024;

  std::optional<Setup> setup{};
  bool parsed = false;
  std::uint64_t first = 0, parsed_to = 0;  ///< offsets: of the first PDU, behind the last
  std::uint64_t acknowledged = 0;          ///< offset, by the other end's packets so far
  bool chained = false;                    ///< every FPDU from the set-up frame on was seen, and none was bad
  bool guessed = false;                    ///< where its markers are is no longer what was agreed on
  bool framed = false;                     ///< an FPDU ended where this one begins: its CRC was good
  bool contiguous = false;                 ///< FPDUs follow each other from the set-up frame on, good or bad
  bool data = false;                       ///< it sent bytes
  bool fin = false, reset = false;
  std::uint64_t fpdus = 0, good_crcs = 0, bad_crcs = 0, bad_in_a_row = 0;
  bool markers_wrapped = false;           ///< its markers were right behind a wrap of the sequence numbers
  std::optional<std::uint8_t> version{};  ///< of DDP
  bool old_rdmap = false;                 ///< a message of RFC 5040 had another version than 1
  std::uint32_t gaps = 0;
  std::array<Queue, 4> queues{};
  Tagged tagged{};
  std::deque<Asked> asked{};
  bool answering = false;  ///< the response that is open, or ended last, is to the first of the other end's `asked`
  std::vector<Quotable> quotable{};
  std::uint64_t segments = 0;  ///< that `quotable` has had
  /// Its Terminate.
  struct Terminated {
    std::uint64_t frame = 0, end = 0;
    bool judged = false;  ///< how TCP was closed behind it
  };
  std::optional<Terminated> terminate{};
};

class IwarpMonitor {
 public:
  /// A packet, with the PDUs that end in it.
  void packet(Evaluator& judge, const CaptureAssumptions& trust, const Connection& connection, Side from,
              const tracking::Packet& packet);
  /// Monitors::states_of, appended.
  void states(std::vector<std::uint64_t>& states) const;
  /// Nothing more will come.
  void finish(Evaluator& judge);

 private:
  /// What is being judged: something of `from`.
  struct IwarpPacketContext {
    Evaluator& judge;
    IwarpMonitor& monitor;
    const tracking::Packet& packet;
    Place place;
    std::vector<Violation*>* made;  ///< whose ladders are to be drawn
    bool sure = true;               ///< an FPDU begins where we say
    Reason doubt = Reason::start_not_seen;

    void rule(RuleId which, RuleResult ruling) const { judge.judge(which, ruling, place.end); }
    void holds(RuleId which) const { rule(which, RuleResult::holds()); }
    void open(RuleId which, Reason why) const { rule(which, RuleResult::open(why)); }
    /// `tell` gives a Statement.
    template <class Tell>
    void say(RuleId which, RuleResult ruling, const Tell& tell) const {
      Violation* violation = judge.judge(which, ruling.unless(!sure, doubt), place, tell);
      if (violation) made->push_back(violation);
    }
    template <class Tell>
    void broken(RuleId which, const Tell& tell) const {
      say(which, RuleResult::violated(), tell);
    }
    template <class Tell>
    void keeps(RuleId which, bool holds_it, const Tell& tell) const {
      if (holds_it)
        holds(which);
      else
        broken(which, tell);
    }
  };
  /// A DDP segment.
  struct Segment {
    const tracking::Pdu& pdu;
    machines::DdpSegment ddp{};
    const RdmapOpcode* opcode = nullptr;
    RdmapOperation operation{};
    Bytes payload{};  ///< as far as it was captured
    bool cut = false;
  };

  [[nodiscard]] IwarpHalf& half(Side end) { return halves_[static_cast<std::size_t>(end)]; }
  void note(Side from, const tracking::Packet& packet, std::uint32_t at, std::uint32_t bytes, std::uint32_t msn,
            std::string_view label);
  void draw(std::vector<Violation*>& made);
  [[nodiscard]] bool unseen_before(Side sender, const tracking::Packet& packet);
  void gap(IwarpHalf& mine, IwarpHalf& peer);

  // iwarp_setup.cpp
  void setup(const IwarpPacketContext& here, const tracking::Pdu& pdu);
  void judge_reply(const IwarpPacketContext& here, const IwarpHalf::Setup& request, const IwarpHalf::Setup& reply);
  void first_fpdu(const IwarpPacketContext& here, const tracking::Pdu& pdu, const Segment* segment);
  // iwarp_framing.cpp
  void framing(const IwarpPacketContext& here, const tracking::Pdu& pdu);
  void judge_markers(const IwarpPacketContext& here, const tracking::Pdu& pdu);
  void judge_crc(const IwarpPacketContext& here, const tracking::Pdu& pdu);
  void judge_length(const IwarpPacketContext& here, const Segment& s);
  // iwarp_segments.cpp
  [[nodiscard]] std::optional<Segment> read(const tracking::Pdu& pdu) const;
  void segment(const IwarpPacketContext& here, const Segment& s);
  void judge_control(const IwarpPacketContext& here, const Segment& s);
  [[nodiscard]] bool holds_another(const IwarpPacketContext& here, const Segment& s);
  [[nodiscard]] bool untagged(const IwarpPacketContext& here, const Segment& s);
  [[nodiscard]] bool tagged(const IwarpPacketContext& here, const Segment& s);
  // iwarp_operations.cpp
  void judge_message(const IwarpPacketContext& here, const Segment& s);
  void judge_version(const IwarpPacketContext& here, const Segment& s);
  void requested(const IwarpPacketContext& here, const Segment& s);
  void judge_depth(const IwarpPacketContext& here);
  void announced_short_length(const IwarpPacketContext& here, const IwarpHalf::Asked& asked);
  void answered(const IwarpPacketContext& here, const Segment& s, bool begins);
  void atomic_answered(const IwarpPacketContext& here, const Segment& s);
  // iwarp_terminate.cpp
  void terminate(const IwarpPacketContext& here, const Segment& s);
  void judge_quotation(const IwarpPacketContext& here, Bytes message, machines::IwarpError error);
  void closing(const IwarpPacketContext& here);

  std::array<IwarpHalf, 2> halves_{};
  bool everywhere_ = false;
  bool carried_ = false;  ///< the packet has bytes of the PDU that is judged: its acknowledgement came with them
  Place last_{};
  static constexpr std::size_t kept = 12, drawn_behind = 3;
  std::array<SequenceEntry, kept> rungs_{};
  std::uint64_t noted_ = 0;
  struct Drawing {
    Violation* violation;
    std::size_t left;
  };
  std::vector<Drawing> drawings_{};
};

}  // namespace rdmawire::conformance
