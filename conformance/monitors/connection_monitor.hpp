#pragma once
/// One connection under watch: its packets in order, its monitors, and the last of its frames for ladders.

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
#include "dissectors/tracking/transport_packet.hpp"

namespace rdmawire::conformance {

using tracking::Connection;
using tracking::TransportPacket;

/// What is supposed of time, in one place, each with its reason.
namespace limits {
/// Two packets of one sender that were captured so far apart left in that order: no network holds a packet back longer.
inline constexpr std::int64_t reorder_ns = 10'000'000;
/// A copy that a network or a capture makes of a packet comes this soon.
inline constexpr std::int64_t copy_ns = 1'000'000;
/// What an end sends so long after a packet to it was seen, it sends knowing that packet.
inline constexpr std::int64_t in_flight_ns = 10'000'000;
/// How far the clocks of a capture and of a device may differ over a time: a thousandth, and a microsecond.
constexpr std::int64_t clock_error(std::int64_t ns) { return ns / 1000 + 1000; }
}  // namespace limits

/// What is taken for granted of a capture.
struct CaptureAssumptions {
  /// The capture was taken at the port of these addresses and lost nothing: of them everything sent and received is in
  /// it, in this order.
  std::vector<tracking::PortAddress> at;
  bool everywhere = false;  ///< of every address: nothing is lost or changes its order anywhere but before our eyes,
                            ///< and programs leave their buffers alone: a simulation, or a bench

  /// These alone are judged; empty: everybody. A tester breaks rules on purpose.
  std::vector<tracking::PortAddress> judged = {};

  [[nodiscard]] bool covers(const tracking::PortAddress& address) const;
  [[nodiscard]] bool judges(const tracking::PortAddress& address) const;
};

class ConnectionMonitor;

/// A packet of a connection, as its monitors judge it.
struct MonitoredPacket {
  Evaluator& judge;
  const Connection& connection;
  const TransportPacket& t;
  const tracking::NegotiatedParameters* agreement;
  ConnectionMonitor& monitor;
  Side from;      ///< its sender
  bool joined;    ///< both directions are known to belong together, certainly enough to blame somebody for it
  bool whole[2];  ///< by end: everything that it sent and received is seen
  bool copy;      ///< the packet was captured before
  bool bench;     ///< programs leave their buffers alone, and no time is lost but by the devices

  [[nodiscard]] bool sees_all_of(Side end) const { return whole[static_cast<std::size_t>(end)]; }
  [[nodiscard]] Place place(Side judged) const;
  void holds(RuleId rule) const { judge.judge(rule, RuleResult::holds()); }
  void open(RuleId rule, Reason why) const { judge.judge(rule, RuleResult::open(why)); }
  /// A ruling on `judged`, by this packet. `tell` gives a Statement.
  template <class Tell>
  void say(RuleId rule, RuleResult ruling, Side judged, const Tell& tell) const {
    draw(judge.judge(rule, ruling, place(judged), tell));
  }
  /// Of what needs both directions: inconclusive while it is not sure that they belong together.
  template <class Tell>
  void say_of_both(RuleId rule, RuleResult ruling, Side judged, const Tell& tell) const {
    say(rule, ruling.unless(!joined, Reason::paired_by_inference).unless(t.damaged, Reason::damaged), judged, tell);
  }

 private:
  void draw(Violation* violation) const;
};

class ConnectionMonitor {
 public:
  void packet(Evaluator& judge, const CaptureAssumptions& trust, const Connection& connection, Side from,
              const TransportPacket& t, const tracking::NegotiatedParameters* agreement, bool alternate_path);
  /// The CM's DREP, or whatever ended it; `by`: who sent the DREQ.
  void closed(Evaluator& judge, std::uint64_t reply_frame, std::int64_t reply_time, Side by);
  /// The other half, which had been followed by itself: its end a is this one's b.
  void adopt(ConnectionMonitor&& other);
  /// Nothing more will come.
  void finish(Evaluator& judge);

  /// Monitors::states_of, appended.
  void states(std::vector<std::uint64_t>& states) const;
  [[nodiscard]] bool is_new() const { return noted_ == 0; }
  /// Which ends' queue pairs were used before, by a connection that is over.
  void reuses(std::array<bool, 2> ends) { reused_ = ends; }
  [[nodiscard]] bool is_reused(Side end) const { return reused_[static_cast<std::size_t>(end)]; }

  /// The first frames around the violation, now and with the next packets.
  void draw(Violation* violation);
  [[nodiscard]] std::uint32_t relative_psn(Side from, const TransportPacket& t,
                                           const tracking::NegotiatedParameters* agreement) const;

 private:
  static constexpr std::size_t kept = 12, drawn_behind = 3;
  struct Drawing {
    Violation* violation;
    std::size_t left;
  };
  void note(Side from, const TransportPacket& t, const tracking::NegotiatedParameters* agreement, bool copy);
  [[nodiscard]] bool is_copy(Side from, const TransportPacket& t) const;
  void judge_migration(const MonitoredPacket& watch, bool alternate_path);
  void judge_ecn(const MonitoredPacket& watch);
  void judge_source_port(const MonitoredPacket& watch);
  void judge_life(const MonitoredPacket& watch);

  std::array<RcExchange, 2> exchanges_;     // by requester
  std::array<bool, 2> judged_{true, true};  // by end
  std::array<UnreliableSender, 2> senders_;
  std::array<SequenceEntry, kept> rungs_;
  struct Last {
    std::uint32_t icrc = 0;
    std::uint16_t identification = 0;
    std::uint32_t psn = 0;
    std::uint8_t opcode = 0;
    Side from = Side::a;
    std::int64_t time = 0;
  };
  std::array<Last, 8> last_{};  // to know copies
  std::uint32_t noted_ = 0;
  std::array<std::uint16_t, 2> port_{};  // UDP source port, by sender
  std::array<std::uint64_t, 2> port_frame_{};
  std::array<std::optional<bool>, 2> marked_{};    // the last packet had an ECN field of 11, by sender
  std::array<std::optional<bool>, 2> capable_{};   // the last packet had an ECN field that is not 00, by sender
  std::array<std::optional<bool>, 2> migrated_{};  // MigReq of the last packet, by sender
  struct Failed {
    std::uint64_t frame = 0;
    std::int64_t time = 0;
  };
  std::array<Failed, 2> failed_{};   // a NAK put this end's queue pair into the error state
  std::array<Failed, 2> refused_{};  // a NAK to this end did
  std::array<CongestionMonitor, 2> congestion_{};
  std::array<bool, 2> reused_{};
  std::vector<Drawing> drawings_;
  struct Closed {
    std::uint64_t frame = 0;
    std::int64_t time = 0;
    Side by = Side::a;
  };
  std::optional<Closed> closed_;
};

}  // namespace rdmawire::conformance
