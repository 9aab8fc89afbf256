#pragma once
/// The communication manager of a device behind an agent: its consumer's part by commands and events, the tester's by
/// what it reads from the device's messages. Ids, queue pairs and times are the kernel's; what follows from them for
/// the tester's messages stands in KnownConnection.

#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "conformance/fuzzer/frames.hpp"
#include "conformance/fuzzer/known_objects.hpp"
#include "replay/peer/peer.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::fuzzer {

class RemoteConnections {
 public:
  using Ask = std::function<nlohmann::json(const char* command, const nlohmann::json& arguments)>;
  /// What is needed to reach the device; all of it must outlive this.
  struct Reach {
    peer::Peer& peer;
    replay::Wire& wire;
    const FrameMaker& maker;
    std::array<std::uint8_t, 16> tester_address;
    Ask ask;
  };

  /// Lets the device listen, on cm_port.
  RemoteConnections(Reach reach, KnownObjects& objects);
  /// Whether it does: there are devices, and kernels, without a CM.
  [[nodiscard]] bool offered() const { return listener_ != 0; }

  /// A life is over: its connections end.
  void finish();
  /// Whether the last queue pair in that place is a connection's.
  [[nodiscard]] bool has(std::size_t at) const { return handles_[at] != 0; }
  /// What the tester said; `known` is its connection's.
  static void said(const Step& step, KnownConnection& known);
  /// The device's consumer speaks: cm_connect, cm_accept with that queue pair; cm_reject, cm_disconnect.
  void speak(const Step& step, std::uint32_t qp, KnownConnection& known);
  /// Learns from the device's messages what it calls its connections.
  void hear(std::span<const std::vector<std::uint8_t>> frames, KnownObjects& objects) const;
  /// Whether it hears the tester still: a good REQ comes to the listener. Frames that came meanwhile are added.
  [[nodiscard]] bool answers(const KnownObjects& objects, std::vector<std::vector<std::uint8_t>>& frames);

 private:
  /// Takes events for so long, or until there is the request of that connection, or of that queue pair of the tester's.
  bool take_events(std::chrono::milliseconds within, const std::function<bool()>& enough);
  [[nodiscard]] std::uint32_t request_of(std::size_t at);
  void end(std::uint32_t& handle);

  Reach reach_;
  std::uint32_t listener_ = 0;
  std::array<std::uint32_t, 2> handles_{};  ///< of the last connection in each place
  std::vector<std::uint32_t> older_;        ///< that others took the place of
  std::uint32_t probe_id_ = 0;              ///< of answers(): the tester's id
  std::uint32_t probe_ = 0;                 ///< handle of its request, when that has come
};

}  // namespace rdmawire::fuzzer
