#pragma once
/// Commands about the session.

#include "replay/rpc/message.hpp"

namespace rdmawire::rpc {

/// Version of the protocol.
inline constexpr std::uint32_t protocol_version = 1;
/// Range of Hello::heartbeat_ms.
inline constexpr std::uint64_t least_heartbeat_ms = 10, most_heartbeat_ms = 86'400'000;

struct Hello {
  std::uint32_t protocol = protocol_version;
  std::string controller = {};
  std::optional<std::uint64_t> heartbeat_ms = {};
  struct Result {
    std::uint32_t protocol = protocol_version;
    std::string agent = {}, host = {}, kernel = {};
    bool privileged = false;
  };
  static const Command& command();
};

struct Ping {
  struct Result {
    std::uint64_t objects = 0, time_ns = 0;
  };
  static const Command& command();
};

struct ListObjects {
  struct Result {
    std::vector<Json> objects = {};
  };
  static const Command& command();
};

struct Destroy {
  AnyHandle object = {};
  using Result = Nothing;
  static const Command& command();
};

struct Reset {
  struct Result {
    std::uint64_t released = 0;
  };
  static const Command& command();
};

struct Bye {
  struct Result {
    std::uint64_t released = 0;
  };
  static const Command& command();
};

}  // namespace rdmawire::rpc
