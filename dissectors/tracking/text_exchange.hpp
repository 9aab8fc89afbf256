#pragma once
/// Queue pairs that programs tell each other in plain text over TCP, where no CM is used: ibv_rc_pingpong and its
/// sisters, and perftest (ib_write_bw and so on).

#include <array>
#include <cstdint>
#include <vector>

#include "dissectors/tracking/lru.hpp"
#include "dissectors/tracking/packet.hpp"
#include "dissectors/tracking/pair_evidence.hpp"

namespace rdmawire::tracking {

/// What one side says of one of its queue pairs.
///
/// ibv_*_pingpong:  lid:qpn:psn[:gid]              19 or 52 bytes
/// perftest:        lid:reads:qpn:psn:rkey:address[:gid][:srqn]  50, 59, 98 or 108 bytes, the last with a colon behind
///
/// all in small hexadecimal digits of fixed number, ended by a zero byte; pingpong's GID is 32 digits, perftest's
/// sixteen pairs.
struct TextRecord {
  std::uint16_t lid = 0;
  std::uint32_t qp = 0;
  std::uint32_t psn = 0;   ///< of the requests that the side will send
  PortAddress gid;         ///< zero: not said
  std::uint8_t reads = 0;  ///< perftest: RDMA READs and atomics that it takes at once
  bool perftest = false;
  std::uint32_t length = 0;  ///< bytes, the zero at the end included; 0: there is no record here
};

/// The record at the beginning of `text`; length 0 when it is not exactly of one of the forms.
TextRecord read_text_record(Bytes text);

/// Gives evidence `by` text: the k-th queue pair that one side names belongs to the k-th of the other. Whether they are
/// RC, UC or UD is not said. The address is the LID, else the GID, else that of the TCP connection.
///
/// A TCP connection is looked at from the first segment on that begins with a whole record; a record may be cut between
/// segments. Where a segment is missing, or comes out of order, no more is taken: better no evidence than a wrong one.
/// All other TCP packets cost a few comparisons.
///
/// Bounded: at most `capacity` TCP connections, each with `max_queue_pairs` a side. Connections that were quiet longest
/// go first; they, and queue pairs beyond the limit, are counted.
class TextExchange {
 public:
  static constexpr std::uint32_t default_capacity = 256;
  static constexpr std::size_t max_queue_pairs = 1024;
  explicit TextExchange(PairSink& sink, std::uint32_t capacity = default_capacity);

  /// Packets come in the capture's order.
  void add(const Packet& packet);

  /// TCP connections that carry such text.
  [[nodiscard]] std::uint32_t known() const { return exchanges_.size(); }
  [[nodiscard]] std::uint64_t evicted() const { return exchanges_.evicted() + beyond_; }
  /// Bytes of memory that are held, about.
  [[nodiscard]] std::size_t memory() const;

 private:
  struct Named {
    TextRecord record;
    std::uint64_t frame = 0;
    std::int64_t time = 0;
  };
  struct Direction {
    std::vector<Named> named;           ///< in order, each once
    std::vector<std::uint8_t> partial;  ///< a record's beginning; its rest comes with `next`
    std::uint32_t next = 0;             ///< TCP sequence number behind the last segment that was read
    bool started = false;               ///< `next` is known
    bool broken = false;                ///< a segment is missing: nothing more is taken
    std::uint8_t mtu = 0;               ///< perftest's code of the path MTU; 0: not said
  };
  struct Exchange {
    std::array<Direction, 2> directions;  ///< 0: who named a queue pair first, the client
    std::size_t told = 0;
  };

  void segment(const Packet& packet, const FlowKey& key, std::uint32_t seq, Bytes payload);
  void take(const Packet& packet, const FlowKey& client, Exchange& exchange, std::size_t side,
            const TextRecord& record);

  PairSink& sink_;
  LruTable<FlowKey, Exchange> exchanges_;      ///< from the client; number: its port, the server's port
  LruTable<FlowKey, std::uint8_t> mtu_codes_;  ///< by direction: perftest says it before anything else
  std::uint64_t beyond_ = 0;
  std::size_t partials_ = 0;  ///< directions that may have a record's beginning: only then other segments matter
};

}  // namespace rdmawire::tracking
