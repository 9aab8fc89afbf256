#pragma once
/// MRC reference endpoints in virtual time: a requester, a responder, and a network with several paths between them.
///
/// The requester sprays the packets of its WRITEs over entropy values and retransmits lost and trimmed packets. The
/// responder sends SACKs, NACKs and Acknowledges. The network delays, marks, trims and loses packets. Everything
/// follows from the seed. See docs/reference/mrc.md for the sources.

#include <cstdint>
#include <string_view>
#include <vector>

#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/mrc.hpp"

namespace rdmawire::conformance::mrc {

/// Entropy value: the two fields of a packet that select its path.
struct Entropy {
  std::uint16_t label = 0, port = 0;
  friend bool operator==(const Entropy&, const Entropy&) = default;
  /// Returns the value as SACK and NACK contain it: flow label, then UDP source port.
  [[nodiscard]] std::uint32_t value() const { return std::uint32_t{label} << 16 | port; }
};

/// A packet that an endpoint is about to send.
struct Outgoing {
  Frame frame;
  MrcOperation operation = MrcOperation::rdma_write;
  std::uint32_t number = 0;     ///< number among the packets of this operation, from 0
  std::uint32_t psn = 0;        ///< PSN of a WRITE packet
  bool retransmission = false;  ///< true: a retransmission of a WRITE packet
  Entropy previous;             ///< entropy value of the previous transmission, if this is a retransmission

  /// Sets a field of the innermost header `H`. Ignored if the packet has no such header.
  template <class H>
  void set(std::string_view name, std::uint64_t value) {
    if (HeaderValue* header = frame.find(info<H>)) header->set(*info<H>.find(name), value);
  }
  template <class H>
  [[nodiscard]] std::uint64_t get(std::string_view name) {
    HeaderValue* header = frame.find(info<H>);
    return header ? header->get(*info<H>.find(name)) : 0;
  }
  void send_on(const Entropy& entropy);
};

/// A fault that makes an endpoint violate a rule.
struct Fault {
  std::string_view name;
  std::string_view rule;         ///< id of the violated rule
  std::string_view description;  ///< one sentence
  void (*change)(Outgoing&);     ///< changes a packet before it is sent
};
/// All faults, at least one for each rule of MRC.
extern const std::vector<Fault> faults;

struct ExchangeOptions {
  std::uint64_t seed = 1;
  std::uint32_t messages = 24;
  const Fault* fault = nullptr;
  bool disturbed = true;   ///< true: the network marks and trims packets
  bool path_fails = true;  ///< true: if `disturbed`, a path loses all packets for some time
};

/// A frame at the capture point, which is the responder's port.
struct CapturedFrame {
  std::int64_t time = 0;  ///< nanoseconds since the start
  std::vector<std::uint8_t> bytes;
};

/// Runs the exchange until every message is complete. Returns the captured frames in order.
std::vector<CapturedFrame> run(const ExchangeOptions& options);

}  // namespace rdmawire::conformance::mrc
