#pragma once
/// Dissects packets with the state of their connection. This state contains whether a TCP connection is iWARP and uses
/// markers or CRCs, and the upper layer protocol of a QP or connection.

#include <cstdint>
#include <vector>

#include "dissectors/protocol/decode.hpp"
#include "dissectors/tracking/evidence.hpp"
#include "dissectors/tracking/mpa_connections.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::tracking {

struct DissectorOptions {
  DecodeOptions decode;
  bool verify_crcs = true;
  MpaConnections::Limits tcp = {};
  std::uint32_t evidence = Evidence::default_capacity;  ///< maximum number of entries of each kind
  std::vector<NumberRange> iwarp_ports = {};            ///< TCP ports of iWARP, known to the caller
  std::vector<AssumedUpper> upper_layers = {};          ///< known to the caller
};

class Dissector {
 public:
  explicit Dissector(const DissectorOptions& options = {});

  /// Dissects one packet into `packet`, whose buffers are reused. The caller must set packet.number, time_ns and link
  /// before. `bytes` must outlive the use of `packet`. Packets must be in capture order.
  void dissect(Packet& packet, Bytes bytes, std::uint32_t wire_length);

  /// The two steps of dissect(). read() does not use the state of connections, so calls can be concurrent and in any
  /// order. settle() adds the data from the connection. Calls of settle() must be in capture order.
  static void read(Packet& packet, Bytes bytes, std::uint32_t wire_length, const DissectorOptions& options);
  void settle(Packet& packet);
  /// Like read(), but uses the result of check_icrc() from an earlier call.
  static void read_again(Packet& packet, Bytes bytes, std::uint32_t wire_length, const DissectorOptions& options,
                         const CrcCheck& icrc);
  /// Returns whether settle() can change an intact RoCE packet to a QP other than 0 and 1.
  [[nodiscard]] bool knows_flows() const { return evidence_.knows_flows(); }

  /// The tracked TCP connections.
  [[nodiscard]] const MpaConnections& tcp() const { return tcp_; }
  /// Number of table entries that were evicted because a table was full.
  [[nodiscard]] std::uint64_t evicted() const { return tcp_.evicted() + evidence_.evicted(); }
  /// Appends the levels of the tables, always in the same order.
  void append_levels(std::vector<Level>& levels) const {
    levels.push_back({tcp_.most_connections(), tcp_.limits().connections});
    levels.push_back({tcp_.most_buffered(), tcp_.limits().bytes});
    evidence_.append_levels(levels);
  }

 private:
  DissectorOptions options_;
  MpaConnections tcp_;
  Evidence evidence_;
};

}  // namespace rdmawire::tracking
