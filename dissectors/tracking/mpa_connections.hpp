#pragma once
/// Tracks TCP connections that are iWARP, or may be. A connection is recognized as iWARP by its MPA Request and Reply
/// Frames. If they were not captured, it is recognized by FPDUs with valid CRCs. Port numbers are not used. RFC 5044,
/// 7.

#include <list>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dissectors/tracking/assumed.hpp"
#include "dissectors/tracking/mpa_stream.hpp"
#include "dissectors/tracking/tcp_stream.hpp"

namespace rdmawire::tracking {

/// One endpoint of a TCP connection. IPv4 addresses are mapped into IPv6 (RFC 4291, 2.5.5.2). An address is stored as
/// two 64-bit numbers, which makes look-ups fast.
struct Endpoint {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::uint16_t port = 0;

  static constexpr Endpoint of_ipv4(std::uint32_t address) { return {0, std::uint64_t{0xffff00000000} | address, 0}; }
  /// `address` contains 16 bytes.
  static Endpoint of_ipv6(const std::uint8_t* address) { return {load_be<8>(address), load_be<8>(address + 8), 0}; }

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
  friend auto operator<=>(const Endpoint&, const Endpoint&) = default;
};

/// State of an iWARP connection.
struct MpaConnection {
  std::uint64_t id = 0;     ///< number of the connection in the capture, from 1
  std::uint64_t frame = 0;  ///< frame in which it was recognized
  Endpoint initiator;  ///< sender of the MPA request. If it was not captured: sender of the SYN, or either endpoint
  Endpoint responder;  ///< the peer of `initiator`
  Endpoint listener;   ///< destination of the SYN (if no SYN was captured: the responder)
  bool roles_known = false;  ///< a request, a reply or a SYN shows which endpoint is `initiator`
  bool request_seen = false, reply_seen = false;
  bool rejected = false;
  std::uint8_t revision = 0;  ///< revision in the last MPA frame (0: none was captured)
  std::vector<std::uint8_t>
      request_private_data;  ///< at most 512 bytes, including the enhanced connection establishment data
  std::vector<std::uint8_t> reply_private_data;
  MpaModes::Use crc = MpaModes::Use::unknown;
  MpaModes::Use markers_to_responder = MpaModes::Use::unknown, markers_to_initiator = MpaModes::Use::unknown;
};

class MpaConnections {
 public:
  struct Limits {
    std::size_t connections = 32768;  ///< maximum number of TCP connections, including those that are not iWARP
    std::size_t bytes = 64U << 20;    ///< maximum size of all buffers together
  };
  MpaConnections();
  explicit MpaConnections(Limits limits) : limits_(limits) {}

  /// Treats the connections of these TCP ports as iWARP from their first data, without evidence.
  void assume_iwarp(std::vector<NumberRange> ports) { assumed_ports_ = std::move(ports); }

  /// Adds the PDUs and notes of the packet's TCP segment to packet.pdus and packet.notes. Requires that the transport
  /// layer of the stack is TCP.
  void follow(Packet& packet, bool verify_crcs);

  /// Number of tracked TCP connections, including those that are not iWARP.
  [[nodiscard]] std::size_t size() const { return connections_.size(); }
  /// Number of connections that were evicted because the table was full.
  [[nodiscard]] std::uint64_t evicted() const { return evicted_; }
  /// Maximum values of size() and buffered() so far.
  [[nodiscard]] std::size_t most_connections() const { return most_connections_; }
  [[nodiscard]] std::size_t most_buffered() const { return most_buffered_; }
  [[nodiscard]] const Limits& limits() const { return limits_; }
  /// Memory of the buffers of all connections, in bytes.
  [[nodiscard]] std::size_t buffered() const { return buffered_; }

 private:
  struct Key {
    Endpoint low, high;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  struct Direction {
    TcpStream tcp;
    MpaStream mpa;
    std::uint32_t window =
        65535;               // last window that the receiver of this direction advertised, scaled if the scale is known
    std::uint8_t shift = 0;  // window scale that the sender of this direction announced. RFC 7323, 2.2
    bool scales = false;     // the SYN of this direction has the window scale option
    bool timestamps = false;  // the SYN of this direction has the timestamps option. RFC 7323, 3.2
    std::uint16_t mss =
        0;  // maximum segment size that the sender of this direction accepts (0: its SYN was not captured)
  };
  struct Connection {
    Key key;
    Direction directions[2];              // from the lower endpoint, and from the higher endpoint
    std::unique_ptr<MpaConnection> info;  // nullptr until the connection is recognized as iWARP
    bool syn_seen = false;
    bool syn_from_high = false;
    [[nodiscard]] std::size_t buffered() const;
  };
  using Order = std::list<Connection>;  // the most recently used connection is the first

  class LiveAnalysis;
  Connection* known(const Key& key);
  Connection& begin(const Key& key);
  void evict(Order::iterator victim);
  [[nodiscard]] bool is_assumed(const Key& key) const;

  Limits limits_;
  std::vector<NumberRange> assumed_ports_;
  Order order_;
  std::unordered_map<Key, Order::iterator, KeyHash> connections_;
  Scratch scratch_;
  std::uint64_t evicted_ = 0;
  std::uint64_t recognized_ = 0;
  std::size_t buffered_ = 0;
  std::size_t most_connections_ = 0, most_buffered_ = 0;
};

}  // namespace rdmawire::tracking
