#pragma once
/// Connections through the communication manager of a device behind an agent. Agent commands replace application calls.
/// IDs and QP numbers are read from the device's messages, and stored in KnownConnection for the tester's messages.

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
  using RunCommand = std::function<nlohmann::json(const char* command, const nlohmann::json& arguments)>;
  /// Access to the device. All members must outlive the object that uses them.
  struct Reach {
    peer::Peer& peer;
    replay::Wire& wire;
    const FrameMaker& maker;
    std::array<std::uint8_t, 16> tester_address;
    RunCommand run_command;
  };

  /// Start a listener of the device on cm_port.
  RemoteConnections(Reach reach, KnownObjects& objects);
  /// True if the listener exists. Some devices and kernels have no CM.
  [[nodiscard]] bool offered() const { return listener_ != 0; }

  /// Disconnect the connections of a script.
  void finish();
  /// True if the last queue pair of the slot has a connection.
  [[nodiscard]] bool has(std::size_t at) const { return handles_[at] != 0; }
  /// Update `known` after a message of the tester.
  static void count_message(const Step& step, KnownConnection& known);
  /// Perform cm_connect or cm_accept with this queue pair, or cm_reject or cm_disconnect.
  void perform(const Step& step, std::uint32_t qp, KnownConnection& known);
  /// Learn the device's connection IDs from its messages.
  void receive_frames(std::span<const std::vector<std::uint8_t>> frames, KnownObjects& objects) const;
  /// Send a valid REQ. Returns true if it causes a connection request event. Frames that arrive during the wait are
  /// added to `frames`.
  [[nodiscard]] bool answers(const KnownObjects& objects, std::vector<std::vector<std::uint8_t>>& frames);

 private:
  /// Process events until `enough` returns true or the time is over.
  bool process_events(std::chrono::milliseconds within, const std::function<bool()>& enough);
  [[nodiscard]] std::uint32_t request_of(std::size_t at);
  void end(std::uint32_t& handle);

  Reach reach_;
  std::uint32_t listener_ = 0;
  std::array<std::uint32_t, 2> handles_{};  ///< handle of the newest connection in each slot
  std::vector<std::uint32_t> older_;        ///< handles of earlier connections
  std::uint32_t probe_id_ = 0;              ///< tester ID of the next probe in answers()
  std::uint32_t probe_ = 0;                 ///< handle of the probe's connection request
};

}  // namespace rdmawire::fuzzer
