#pragma once
/// Monitor of MRC: rules of single packets, and rules that need the WRITEs of a QP and their SACKs and NACKs.

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "conformance/monitors/evaluator.hpp"
#include "dissectors/protocol/modular.hpp"
#include "dissectors/tracking/level.hpp"
#include "dissectors/tracking/packet.hpp"
#include "dissectors/tracking/psn_window.hpp"

namespace rdmawire::conformance {

/// Memory is bounded: at most `flows` QPs, each with the latest `remembered` PSNs, and `most_entries` PSNs in total
/// (32 MiB). When a table is full, its contents are dropped.
class MrcMonitor {
 public:
  static constexpr std::size_t default_flows = 1U << 12, remembered = 1024, requests = 4096, most_entries = 1U << 19;

  /// `complete`: true if the capture contains all packets as sent.
  MrcMonitor(Evaluator& evaluator, bool complete, std::size_t flows = default_flows)
      : evaluator_(evaluator), complete_(complete), most_flows_(flows) {}

  /// Handles an MRC packet. Ignores others.
  void add(const tracking::Packet& packet);

  /// Appends the levels of the tables of QPs, PSNs and endpoint requests.
  void append_levels(std::vector<tracking::Level>& levels) const {
    levels.push_back({flows_.size() + dropped_, most_flows_});
    levels.push_back({entries_ + dropped_entries_, most_entries});
    levels.push_back({requests_.size() + dropped_requests_, requests});
  }

 private:
  /// A PSN of a WRITE, and its last transmissions.
  struct Sent {
    std::uint64_t frame = 0;
    std::uint64_t address = 0;
    std::uint32_t psn = 0, key = 0, payload = 0;
    std::array<std::uint32_t, 2> entropy{};    ///< of the last two transmissions, newest first: flow label, UDP port
    std::array<std::uint16_t, 2> timestamp{};  ///< of the last two transmissions, newest first
    std::uint16_t msn = 0, rqmsn = 0;
    std::uint8_t opcode = 0;
    bool known = false, stamped = false, rejected = false;
    bool flagged = false;      ///< true: a captured transmission has RTX 1
    bool unprotected = false;  ///< true: trimmed. Its fields are unreliable, because it has no ICRC
    std::uint32_t transmissions = 0;
    std::uint32_t rejected_entropy = 0;
  };
  /// The WRITEs to one QP.
  struct Flow {
    tracking::PsnWindow<Sent, remembered> sent{};
    Psn highest;
    bool started = false;
    std::uint32_t dest_qp = 0;
    std::uint32_t packets = 0, first_entropy = 0;  ///< number of packets and first entropy value of the current group
    bool sprayed = false;
    std::uint8_t dscp = 0;
    std::uint16_t immediate_rqmsn = 0, immediate_msn = 0;  ///< of the latest WRITE with Immediate
    bool immediate_seen = false;
    std::vector<std::uint16_t> probes{};  ///< identifiers of the latest probes
    bool probed = false;
    std::uint64_t frame = 0;  ///< frame of the latest WRITE
  };
  struct Seen;

  Flow* flow_of_feedback(const Seen& seen, std::uint32_t first_qp, std::uint32_t second_qp);
  Flow& flow_of_writes(const Seen& seen);
  void check_headers(const Seen& seen);
  void reset(Flow& flow, std::uint32_t qp);
  void drop_flows();
  void check_write(const Seen& seen);
  void check_retransmission(const Seen& seen, Flow& flow, Sent& before, const Sent& now);
  void check_neighbors(const Seen& seen, const Sent& before, const Sent& after);
  void check_spray(const Seen& seen, Flow& flow, std::uint32_t entropy);
  void check_sack(const Seen& seen);
  void check_nack(const Seen& seen);
  void check_probe(const Seen& seen);
  void check_endpoint(const Seen& seen);
  void check_class(const Seen& seen, const Flow& flow);

  Evaluator& evaluator_;
  const bool complete_;
  const std::size_t most_flows_;
  std::uint64_t entries_ = 0;  ///< number of allocated PSNs of all flows
  std::uint64_t dropped_ = 0, dropped_entries_ = 0, dropped_requests_ = 0;
  struct KeyHash {
    std::size_t operator()(const tracking::FlowKey& key) const { return key.hash(); }
  };
  std::unordered_map<tracking::FlowKey, Flow, KeyHash> flows_;  // FlowKey::number: low 16 bits of the QP
  /// Identifiers of the latest endpoint requests, by port pair.
  std::unordered_map<tracking::FlowKey, std::vector<std::uint16_t>, KeyHash> requests_;
};

}  // namespace rdmawire::conformance
