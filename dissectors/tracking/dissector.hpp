#pragma once
/// Dissects packets with the state of their connection. The state contains whether a TCP connection is iWARP, with
/// markers or CRCs, and the upper layer protocol of a QP or connection.

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

  /// Dissects one packet into `packet`, whose buffers are reused. The caller sets packet.number, time_ns and link
  /// before. `bytes` must outlive the use of `packet`. Calls must be in capture order.
  void dissect(Packet& packet, Bytes bytes, std::uint32_t wire_length);

  /// The tracked TCP connections.
  [[nodiscard]] const MpaConnections& tcp() const { return tcp_; }

 private:
  DissectorOptions options_;
  MpaConnections tcp_;
  Evidence evidence_;
};

}  // namespace rdmawire::tracking
