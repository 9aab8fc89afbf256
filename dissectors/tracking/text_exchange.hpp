#pragma once
/// QP numbers that applications exchange in plain text over TCP, without the CM: ibv_*_pingpong and perftest
/// (ib_write_bw and so on).

#include <array>
#include <cstdint>
#include <vector>

#include "dissectors/tracking/lru.hpp"
#include "dissectors/tracking/packet.hpp"
#include "dissectors/tracking/pair_evidence.hpp"

namespace rdmawire::tracking {

/// One side's description of one of its QPs.
///
/// ibv_*_pingpong:  lid:qpn:psn[:gid]              19 or 52 bytes
/// perftest:        lid:reads:qpn:psn:rkey:address[:gid][:srqn]  50, 59, 98 or 108 bytes, the last with ':'
///
/// All in lower-case hexadecimal digits of fixed number, terminated by a zero byte. Pingpong's GID has 32 digits,
/// perftest's sixteen pairs of digits.
struct TextRecord {
  std::uint16_t lid = 0;
  std::uint32_t qp = 0;
  std::uint32_t psn = 0;   ///< first PSN of the requests that the side will send
  PortAddress gid;         ///< GID of the side (zero: not specified)
  std::uint8_t reads = 0;  ///< perftest: maximum number of RDMA READs and atomics that the side processes at once
  bool perftest = false;
  std::uint32_t length = 0;  ///< length of the record in bytes, including the terminating zero (0: not a record)
};

/// Parses the record at the start of `text`. If the text does not match a form exactly, the result has length 0.
TextRecord read_text_record(Bytes text);

/// Produces evidence with JoinedBy::text: the k-th QP of one side is connected to the k-th QP of the other side. The
/// service (RC, UC or UD) is unknown. The address of a side is its LID, else its GID, else its address in the TCP
/// connection.
///
/// A TCP connection is parsed from the first segment that starts with a complete record. A record may be split
/// between segments. If a segment is missing or out of order, parsing stops, because wrong evidence is worse than
/// none. Other TCP packets cost a few comparisons.
///
/// Bounded: at most `capacity` TCP connections, each with `max_queue_pairs` per side. Evicts the least recently
/// used connection. Counts evictions and QPs beyond the limit.
class TextExchange {
 public:
  static constexpr std::uint32_t default_capacity = 256;
  static constexpr std::size_t max_queue_pairs = 1024;
  explicit TextExchange(PairSink& sink, std::uint32_t capacity = default_capacity);

  /// Processes a packet. Packets must be in capture order.
  void add(const Packet& packet);

  /// Number of TCP connections that contain such records.
  [[nodiscard]] std::uint32_t known() const { return exchanges_.size(); }
  [[nodiscard]] std::uint64_t evicted() const { return exchanges_.evicted() + beyond_; }
  /// Memory in use, approximately, in bytes.
  [[nodiscard]] std::size_t memory() const;

 private:
  struct Named {
    TextRecord record;
    std::uint64_t frame = 0;
    std::int64_t time = 0;
  };
  struct Direction {
    std::vector<Named> named;           ///< records in order, each once
    std::vector<std::uint8_t> partial;  ///< start of a record whose rest starts at `next`
    std::uint32_t next = 0;             ///< TCP sequence number after the last parsed segment
    bool started = false;               ///< `next` is known
    bool broken = false;                ///< a segment is missing, so parsing has stopped
    std::uint8_t mtu = 0;               ///< path MTU code that perftest sent (0: none)
  };
  struct Exchange {
    std::array<Direction, 2> directions;  ///< index 0: the side that sent the first QP number, the client
    std::size_t reported = 0;
  };

  void segment(const Packet& packet, const FlowKey& key, std::uint32_t seq, Bytes payload);
  void take(const Packet& packet, const FlowKey& client, Exchange& exchange, std::size_t side,
            const TextRecord& record);

  PairSink& sink_;
  LruTable<FlowKey, Exchange>
      exchanges_;  ///< the key is from the client. Its number combines the ports of the client and the server
  LruTable<FlowKey, std::uint8_t> mtu_codes_;  ///< by direction, because perftest sends the MTU code first
  std::uint64_t beyond_ = 0;
  /// Number of directions with an incomplete record. If there are any, every segment must be checked.
  std::size_t partials_ = 0;
};

}  // namespace rdmawire::tracking
