#pragma once
/// Packets in, dissected packets out, each with what earlier packets of its connection taught: that a TCP connection is
/// iWARP and whether it has markers and CRCs, and which upper layer protocol a queue pair or a connection carries.

#include <cstdint>

#include "dissectors/protocol/decode.hpp"
#include "dissectors/tracking/evidence.hpp"
#include "dissectors/tracking/mpa_connections.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::tracking {

struct DissectorOptions {
  DecodeOptions decode;
  bool verify_crcs = true;
};

class Dissector {
 public:
  explicit Dissector(const DissectorOptions& options = {});

  /// Dissects one packet into `packet`, whose buffers are reused; packet.number, time_ns and link are the caller's to
  /// set before. `bytes` must outlive the use of `packet`. Packets must come in the capture's order.
  void dissect(Packet& packet, Bytes bytes, std::uint32_t wire_length);

  /// The TCP connections that are followed.
  [[nodiscard]] const MpaConnections& tcp() const { return tcp_; }

 private:
  DissectorOptions options_;
  MpaConnections tcp_;
  Evidence evidence_;
};

}  // namespace rdmawire::tracking
