#pragma once
/// The tester's communication manager: messages at queue pair 1, made by hand, and the device's verbs of connections.
/// IBTA vol 1, chapter 12; annex A11 (service ids of IP); CA17-34 to CA17-38.

#include <optional>
#include <string>

#include "conformance/cases/bench.hpp"
#include "dissectors/protocol/cm.hpp"
#include "replay/peer/connection_manager.hpp"

namespace rdmawire::conformance {

/// A time of the CM: 4.096 µs times two to the power of `code`, in nanoseconds. 12.7 (number unverified).
constexpr std::int64_t cm_time(std::uint64_t code) { return std::int64_t{4096} << code; }

/// Makes one connection of one queue pair of the device, as its active or as its passive side. The queue pair begins in
/// RESET; the device's CM moves it.
class TesterCm {
 public:
  explicit TesterCm(Bench& bench, Over over = Over::ipv4);

  Connected& qp;  ///< the connection's; what the messages say of it is taken over

  // The device's verbs.
  /// The device asks for a connection to the tester.
  [[nodiscard]] peer::CmConnection device_connects(const peer::CmParameters& parameters = {});
  /// The device waits for the tester's REQ.
  [[nodiscard]] peer::Listener device_listens();
  [[nodiscard]] peer::CmConnection requested(const peer::Listener& listener) { return bench_.requested(listener); }
  peer::CmEvent expect_event(const peer::CmConnection& connection, const std::string& type,
                             std::int64_t within_ns = 0) {
    return bench_.expect_event(connection, type, within_ns);
  }

  // What the tester says. Whatever a case wants otherwise it changes: req().with<CmReq, "primary_local_lid">(7, "LID
  // 7")
  [[nodiscard]] Stimulus req(std::uint16_t port) const;
  [[nodiscard]] Stimulus rep() const;
  [[nodiscard]] Stimulus rtu() const;
  /// "REQ" 0, "REP" 1: which message it acknowledges, and the time from then, as a code.
  [[nodiscard]] Stimulus mra(std::uint8_t message, std::uint8_t code) const;
  [[nodiscard]] Stimulus dreq() const;
  [[nodiscard]] Stimulus drep() const;
  [[nodiscard]] Stimulus lap() const;

  /// Waits for that message of the device's; what it says of the connection is taken over. MRAs before it are free.
  template <class H>
  Seen hears(const std::string& where = {}, const std::function<bool(const View<H>&)>& holds = {}) {
    return hears(info<H>, where, [&](const Seen& seen) { return !holds || holds(*seen.stack.get<H>()); });
  }
  /// None of the connection's messages comes for so long; but MRAs.
  void expect_silence(std::int64_t for_ns);

  // The whole of it.
  /// The device asks, and the tester agrees.
  [[nodiscard]] peer::CmConnection connected_by_device();
  /// The tester asks, and the device agrees.
  [[nodiscard]] peer::CmConnection connected_by_tester();
  /// Ends it in the usual way, so that nothing of it is sent later.
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
  TesterQueuePair general_;  ///< queue pair 1 of both
  std::uint32_t local_id_, remote_id_ = 0;
  std::uint64_t transaction_;
  std::uint16_t port_;  ///< of the tester's service, and that it asks from
  peer::Listener listener_;
};

}  // namespace rdmawire::conformance
