#pragma once
/// What says, before any answer is seen, that two queue pairs talk to each other: the CM's exchange, or programs that
/// tell each other their queue pairs in plain text.

#include <array>
#include <cstdint>
#include <optional>

#include "dissectors/tracking/connection.hpp"

namespace rdmawire::tracking {

/// Two queue pairs of one connection. Index 0 is who asked for the connection (the CM's active side, the text's
/// client).
struct PairEvidence {
  struct Side {
    PortAddress address;
    std::uint32_t qp = 0;
    std::optional<std::uint32_t> first_psn;  ///< of the requests that this side will send
    std::optional<std::uint8_t>
        reads_as_responder;  ///< reads and atomics it takes at once; the CM's responder resources
  };
  JoinedBy by = JoinedBy::connection_manager;
  Service service = Service::rc;
  std::array<Side, 2> sides;
  std::uint32_t mtu = 0;                       ///< octets; 0: not said
  std::uint16_t pkey = 0;                      ///< 0: not said
  std::uint16_t service_port = 0;              ///< of RDMA-CM's service id; 0: none
  std::uint64_t request_frame = 0, frame = 0;  ///< the REQ, and the packet that completed the evidence
  std::int64_t request_time = 0, time = 0;
};

/// Takes the evidence, as it comes.
class PairSink {
 public:
  virtual void pair(const PairEvidence& evidence) = 0;
  /// The connection whose packets to one end have this key (Connection::ends' address and queue pair) was closed, or
  /// begins to be: the CM's DREQ.
  virtual void closed(const FlowKey& to_end, std::uint64_t frame, std::int64_t time) = 0;

 protected:
  ~PairSink() = default;
};

}  // namespace rdmawire::tracking
