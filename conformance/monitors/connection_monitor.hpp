#pragma once
/// Monitors of one connection. Stores its most recent frames for sequence diagrams.

#include <array>
#include <cstdint>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "conformance/monitors/congestion_monitor.hpp"
#include "conformance/monitors/evaluator.hpp"
#include "conformance/monitors/rc_exchange.hpp"
#include "conformance/monitors/unreliable_monitor.hpp"
#include "dissectors/tracking/connection.hpp"
#include "dissectors/tracking/pair_evidence.hpp"
#include "dissectors/tracking/send_order.hpp"
#include "dissectors/tracking/transport_packet.hpp"

namespace rdmawire::conformance {

using tracking::Connection;
using tracking::TransportPacket;

/// Timing assumptions of the monitors.
namespace limits {
/// If two packets of one sender are captured further apart than this, they were sent in capture order. Used if their IP
/// identifications do not show the order.
inline constexpr std::int64_t reorder_ns = 10'000'000;
/// Maximum difference between the recording delays of the two directions.
inline constexpr std::int64_t skew_ns = 200'000;
/// Maximum delay of a duplicate made by the network or the capture.
inline constexpr std::int64_t duplicate_ns = 1'000'000;
/// If a packet to an endpoint is captured at least this long before a packet from it, the endpoint had received it.
inline constexpr std::int64_t in_flight_ns = 10'000'000;
/// Returns the tolerance for a time span that the clocks of capture and device measure differently: 0.1 % plus 1 µs.
constexpr std::int64_t clock_error(std::int64_t ns) { return ns / 1000 + 1000; }
}  // namespace limits

/// Assumptions about a capture.
struct CaptureAssumptions {
  /// Addresses at whose ports the capture was taken without loss. It contains all packets to and from them, in order.
  std::vector<tracking::PortAddress> at;
  bool everywhere = false;  ///< true: the capture is complete for all addresses (simulation or back-to-back link), and
                            ///< applications do not change posted buffers

  /// Addresses of the endpoints to check. Empty: all. Used to exclude a tester that violates rules intentionally.
  std::vector<tracking::PortAddress> checked = {};

  [[nodiscard]] bool covers(const tracking::PortAddress& address) const;
  [[nodiscard]] bool checks(const tracking::PortAddress& address) const;
};

class ConnectionMonitor;

/// A packet of a connection, with the context that monitors need.
struct MonitoredPacket {
  Evaluator& evaluator;
  const Connection& connection;
  const TransportPacket& t;
  const tracking::NegotiatedParameters* negotiated;
  ConnectionMonitor& monitor;
  Side from;         ///< the packet's sender
  bool paired;       ///< both directions are paired with enough confidence to report violations
  bool complete[2];  ///< by endpoint: all packets that it sent and received are in the capture
  bool duplicate;    ///< the network or the capture duplicated the packet
  bool identical;    ///< an identical packet was captured before. This one is a duplicate or a retransmission
  bool numbered;     ///< the IP identifications show the order in which `from` sent its requests (or its responses, if
                     ///< this is a response)
  bool bench;        ///< see CaptureAssumptions::everywhere. Also, only the devices cause delays

  [[nodiscard]] bool sees_all_of(Side end) const { return complete[static_cast<std::size_t>(end)]; }
  [[nodiscard]] Place place(Side checked) const;
  /// Returns whether the sender certainly sent this packet after `earlier`, which was captured before. Both must be
  /// requests or both responses.
  [[nodiscard]] bool sent_after(const SentMoment& earlier) const;
  void pass(RuleId rule) const { evaluator.record(rule, RuleResult::pass()); }
  void inconclusive(RuleId rule, Reason why) const { evaluator.record(rule, RuleResult::inconclusive(why)); }
  /// Records a result of this packet for the endpoint `checked`. `describe` returns the Statement for a violation.
  template <class Describe>
  void report(RuleId rule, RuleResult result, Side checked, const Describe& describe) const {
    attach_sequence(evaluator.record(rule, result, place(checked), describe));
  }
  /// Like report(), for rules that need both directions: inconclusive if the pairing is uncertain.
  template <class Describe>
  void report_paired(RuleId rule, RuleResult result, Side checked, const Describe& describe) const {
    report(rule, result.unless(!paired, Reason::paired_by_inference).unless(t.damaged, Reason::damaged), checked,
           describe);
  }

 private:
  void attach_sequence(Violation* violation) const;
};

/// Contents of a captured packet, to recognize an identical one.
struct TransportPacketTrace {
  std::uint32_t icrc = 0;
  std::uint16_t identification = 0;
  std::uint32_t psn = 0;
  std::uint8_t opcode = 0;
  Side from = Side::a;
  std::int64_t time = 0;
};

class ConnectionMonitor {
 public:
  void packet(Evaluator& evaluator, const CaptureAssumptions& assumptions, const Connection& connection, Side from,
              const TransportPacket& t, const tracking::NegotiatedParameters* negotiated, bool alternate_path);
  /// Called when the connection is closed. `reply_frame`, `reply_time`: those of the DREP. `by`: sender of the DREQ.
  void closed(Evaluator& evaluator, std::uint64_t reply_frame, std::int64_t reply_time, Side by);
  /// Adds the state of the other direction's monitor, whose endpoint a is this connection's endpoint b.
  void adopt(ConnectionMonitor&& other);
  /// Called after the last packet.
  void finish(Evaluator& evaluator);

  /// Memory including the object, in bytes.
  [[nodiscard]] std::size_t memory() const {
    return sizeof(*this) + exchanges_[0].memory() + exchanges_[1].memory() +
           open_sequences_.capacity() * sizeof(OpenSequence);
  }
  /// Appends numbers that represent the state, for Monitors::states_of().
  void states(std::vector<std::uint64_t>& states) const;
  [[nodiscard]] bool is_new() const { return noted_ == 0; }
  /// Marks the endpoints whose QPs were used by an earlier connection.
  void reuses(std::array<bool, 2> ends) { reused_ = ends; }
  [[nodiscard]] bool is_reused(Side end) const { return reused_[static_cast<std::size_t>(end)]; }

  /// Attaches the recent frames to the violation, and the next ones when they arrive.
  void attach_sequence(Violation* violation);
  [[nodiscard]] std::uint32_t relative_psn(Side from, const TransportPacket& t,
                                           const tracking::NegotiatedParameters* negotiated) const;

 private:
  static constexpr std::size_t kept = 12, entries_after = 3;
  struct OpenSequence {
    Violation* violation;
    std::size_t left;
  };
  void note(Side from, const TransportPacket& t, const tracking::NegotiatedParameters* negotiated, bool duplicate);
  [[nodiscard]] const TransportPacketTrace* find_identical(Side from, const TransportPacket& t) const;
  void check_migration(const MonitoredPacket& watch, bool alternate_path);
  void check_ecn(const MonitoredPacket& watch);
  void check_source_port(const MonitoredPacket& watch);
  void check_state_after_error(const MonitoredPacket& watch);

  std::array<RcExchange, 2> exchanges_;      // by requester
  std::array<bool, 2> checked_{true, true};  // by endpoint
  std::array<UnreliableSender, 2> senders_;
  std::array<SequenceEntry, kept> entries_;
  std::array<TransportPacketTrace, 64> last_{};               // to detect duplicates, by hash of the ICRC
  std::array<std::array<tracking::SendOrder, 2>, 2> orders_;  // by sender: of requests, of responses
  std::uint32_t noted_ = 0;
  std::array<std::array<std::uint8_t, 2>, 2> packets_{};  // count by sender and by requests and responses, saturating
  std::array<std::uint16_t, 2> port_{};                   // UDP source port, by sender
  std::array<std::uint64_t, 2> port_frame_{};
  std::array<std::optional<bool>, 2> marked_{};    // by sender: the ECN field of the last packet was 11
  std::array<std::optional<bool>, 2> capable_{};   // by sender: the ECN field of the last packet was not 00
  std::array<std::optional<bool>, 2> migrated_{};  // by sender: MigReq of the last packet
  struct Failed {
    std::uint64_t frame = 0;
    std::int64_t time = 0;
  };
  std::array<Failed, 2> failed_{};   // by endpoint: the NAK that it sent and that moved its QP to the Error state
  std::array<Failed, 2> refused_{};  // by endpoint: the NAK that it received and that moved its QP to the Error state
  std::array<CongestionMonitor, 2> congestion_{};
  std::array<bool, 2> reused_{};
  std::vector<OpenSequence> open_sequences_;
  struct Closed {
    std::uint64_t frame = 0;
    std::int64_t time = 0;
    Side by = Side::a;
  };
  std::optional<Closed> closed_;
};

}  // namespace rdmawire::conformance
