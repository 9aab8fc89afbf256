#pragma once
/// Scenarios of `rdmawire lab record`: RDMA programs in two guests.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/lab/error.hpp"

namespace rdmawire::lab {

/// How to detect that the server is ready.
enum class Readiness : std::uint8_t {
  tcp,    ///< the program listens on its TCP port
  cm,     ///< the program listens with the RDMA CM
  ended,  ///< the program exits after it has configured a server in the kernel
};

/// One scenario. The commands are shell commands with these placeholders:
///
///     {server} {client}            addresses
///     {exchange}                   the server's IPv4 address, for programs that exchange parameters over IPv4 only
///     {device} {gid}               the local RDMA device, and the GID index of the local address
///     {mtu}                        path MTU in bytes: 1024, or 4096 if the interface MTU permits
///     {iterations} {size} {port}   numbers
///     {IPV6:WORDS}                 WORDS with IPv6, empty with IPv4
struct Scenario {
  std::string_view name;
  std::string_view what;  ///< one sentence
  bool rxe = true;
  bool siw = true;
  Readiness ready = Readiness::cm;
  std::uint16_t port = 0;  ///< port on which the server listens
  unsigned iterations = 20;
  unsigned size = 4096;  ///< message length in bytes. 0: the program has no such option
  std::string_view server;
  std::string_view client;
  std::string_view clean = {};  ///< cleanup command for the server's guest
  /// Error message of a client that connected before its server listened for the second connection. Both programs are
  /// then run again.
  std::string_view race = {};
  bool ipv6 = true;  ///< false: the program supports only IPv4 addresses
};

std::span<const Scenario> scenarios();

/// A scenario and its options.
struct RecordingPlan {
  const Scenario* scenario = nullptr;
  bool siw = false;  ///< use siw instead of rxe
  bool ipv6 = false;
  std::optional<unsigned> vlan;
  unsigned mtu = 1500;
  unsigned iterations = 0;  ///< 0: default of the scenario
  unsigned size = 0;        ///< 0: default of the scenario
  std::string faults;       ///< fault program of the switch, in which the server is side a
  std::uint64_t seed = 1;   ///< seed of the fault program, unless the program specifies one
  std::string netem;  ///< tc-netem arguments for both guests: "loss 3%". The prefix "server: " or "client: " limits
                      ///< them to one guest
};

/// Parses NAME[,OPTION]…, with the command line options without dashes: "write,siw,ipv6",
/// "rping,vlan=7,mtu=9000,iterations=5". `plan` contains the defaults. The name "all" selects all scenarios with all
/// supported devices (or with the specified one). Kind::usage describes an error.
Result<std::vector<RecordingPlan>> parse_plan(std::string_view text, const RecordingPlan& plan,
                                              std::optional<bool> siw = {});
/// Returns the plan's file name without suffix: scenario, device, and the options that differ from the defaults, as in
/// "write-siw-ipv6".
std::string name_of(const RecordingPlan& plan);

/// Values of placeholders in a scenario's commands.
struct Places {
  std::string server, client, exchange, device, gid;
};
std::string command_for(std::string_view words, const RecordingPlan& plan, const Places& places);

}  // namespace rdmawire::lab
