#pragma once
/// Real programs that speak RDMA between two guests, as a table: what `rdmawire lab record` runs.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/lab/error.hpp"

namespace rdmawire::lab {

/// How it is known that a server can be asked.
enum class Readiness : std::uint8_t {
  tcp,    ///< it listens at its TCP port
  cm,     ///< it listens by the RDMA CM
  ended,  ///< it sets something up that stays, and ends
};

/// One row. The commands are for a shell; in them stand
///
///     {server} {client}            addresses
///     {exchange}                   the server's IPv4 address, for programs that exchange numbers over nothing else
///     {device} {gid}               its RDMA device, and the index there of its own address
///     {mtu}                        the path's MTU, bytes: 1024, or 4096 when the frames may be that long
///     {iterations} {size} {port}   numbers
///     {IPV6:WORDS}                 WORDS with IPv6, nothing with IPv4
struct Scenario {
  std::string_view name;
  std::string_view what;  ///< one sentence
  bool rxe = true;
  bool siw = true;
  Readiness ready = Readiness::cm;
  std::uint16_t port = 0;  ///< that the server listens at
  unsigned iterations = 20;
  unsigned size = 4096;  ///< bytes of a message; 0: the program does not ask
  std::string_view server;
  std::string_view client;
  std::string_view clean = {};  ///< for the server's guest, after both have ended
  /// What the client says when it was faster than its server, which listens a second time; then both run again.
  std::string_view race = {};
  bool ipv6 = true;  ///< false: its program connects to IPv4 addresses only
};

std::span<const Scenario> scenarios();

/// What is to be recorded: a scenario and its circumstances.
struct RecordingPlan {
  const Scenario* scenario = nullptr;
  bool siw = false;  ///< else rxe
  bool ipv6 = false;
  std::optional<unsigned> vlan;
  unsigned mtu = 1500;
  unsigned iterations = 0;  ///< 0: the scenario's
  unsigned size = 0;        ///< likewise
  std::string faults;       ///< a program of the fault language, done by the switch; the server is side a
  std::uint64_t seed = 1;   ///< where the program says none
  std::string netem;        ///< for tc in both guests: "loss 3%"; only in one with "server: " or "client: " before it
};

/// Understands NAME[,OPTION]…, each option as it is on the command line without its dashes: "write,siw,ipv6",
/// "rping,vlan=7,mtu=9000,iterations=5". `plan` has what holds where nothing is said. "all" as the name gives every
/// scenario over every device that it can (or over the one that stands there). Kind::usage says what was wrong.
Result<std::vector<RecordingPlan>> parse_plan(std::string_view text, const RecordingPlan& plan,
                                              std::optional<bool> siw = {});
/// "write-siw-ipv6": as its file is called, without what differs from the scenario's own numbers.
std::string name_of(const RecordingPlan& plan);

/// The addresses and devices that a command is written with.
struct Places {
  std::string server, client, exchange, device, gid;
};
std::string command_for(std::string_view words, const RecordingPlan& plan, const Places& places);

}  // namespace rdmawire::lab
