#pragma once
/// The tester's communication manager: constructed messages at QP 1, and the device's verbs for connections.
/// IBTA vol 1, chapter 12. Annex A11 (service ids of IP), CA17-34 to CA17-38.

#include <optional>
#include <string>

#include "conformance/cases/bench.hpp"
#include "dissectors/protocol/cm.hpp"
#include "replay/peer/connection_manager.hpp"

namespace rdmawire::conformance {

/// Converts a CM time code to nanoseconds: 4.096 µs * 2^code. 12.7 (clause number not verified).
constexpr std::int64_t cm_time(std::uint64_t code) { return std::int64_t{4096} << code; }

/// Establishes a connection of one QP of the device, as its active or passive side. The QP starts in RESET and is moved
/// by the device's CM.
class TesterCm {
 public:
  explicit TesterCm(Bench& bench, Over over = Over::ipv4);

  Connected& qp;  ///< the QP of the connection. Updated from the received messages

  // Verbs of the device
  /// The device requests a connection to the tester.
  [[nodiscard]] peer::CmConnection device_connects(const peer::CmParameters& parameters = {});
  /// The device listens for the tester's REQ.
  [[nodiscard]] peer::Listener device_listens();
  [[nodiscard]] peer::CmConnection requested(const peer::Listener& listener) { return bench_.requested(listener); }
  peer::CmEvent expect_event(const peer::CmConnection& connection, const std::string& type,
                             std::int64_t within_ns = 0) {
    return bench_.expect_event(connection, type, within_ns);
  }

  // Messages of the tester. A case changes fields as needed:
  //     req().with<CmReq, "primary_local_lid">(7, "LID 7")
  [[nodiscard]] Stimulus req(std::uint16_t port) const;
  [[nodiscard]] Stimulus rep() const;
  [[nodiscard]] Stimulus rtu() const;
  /// `message`: the acknowledged message, 0 for REQ and 1 for REP. `code`: the time as a code.
  [[nodiscard]] Stimulus mra(std::uint8_t message, std::uint8_t code) const;
  [[nodiscard]] Stimulus dreq() const;
  [[nodiscard]] Stimulus drep() const;
  [[nodiscard]] Stimulus lap() const;

  /// Waits for this message from the device and applies its fields to the connection. Ignores MRAs before it.
  template <class H>
  Seen hears(const std::string& where = {}, const std::function<bool(const View<H>&)>& holds = {}) {
    return hears(info<H>, where, [&](const Seen& seen) { return !holds || holds(*seen.stack.get<H>()); });
  }
  /// Checks that no message of the connection except MRAs arrives for this time.
  void expect_silence(std::int64_t for_ns);

  // Complete exchanges
  /// The device requests the connection, and the tester accepts.
  [[nodiscard]] peer::CmConnection connected_by_device();
  /// The tester requests the connection, and the device accepts.
  [[nodiscard]] peer::CmConnection connected_by_tester();
  /// Closes the connection in the usual way, so that no message is sent later.
  void ends(peer::CmConnection& connection);

  [[nodiscard]] std::uint32_t local_id() const { return local_id_; }
  [[nodiscard]] std::uint32_t remote_id() const { return remote_id_; }
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  Seen hears(const HeaderInfo& kind, const std::string& where, const std::function<bool(const Seen&)>& holds);
  [[nodiscard]] bool is_ours(const Seen& seen) const;
  void take_over(const Seen& seen);
  void learn(std::uint32_t starting_psn, std::uint32_t device_qpn);
  [[nodiscard]] Stimulus message(HeaderValue header, const std::string& text) const;
  Bench& bench_;
  TesterQueuePair general_;  ///< QP 1 of both sides
  std::uint32_t local_id_, remote_id_ = 0;
  std::uint64_t transaction_;
  std::uint16_t port_;  ///< port of the tester's service, and source port of its requests
  peer::Listener listener_;
};

}  // namespace rdmawire::conformance
