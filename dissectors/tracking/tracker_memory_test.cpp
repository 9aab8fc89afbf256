// Tests with floods of packets: memory must stay within its limits for any traffic, and every packet must have about
// the same cost. The floods are small by default, and have ten million packets with RDMAWIRE_FULL=1. The tests print
// times, which depend on the host, and fail only for extreme growth.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <ctime>

#include "dissectors/protocol/bits.hpp"
#include "dissectors/protocol/sanitized_for_test.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/frames_for_test.hpp"
#include "dissectors/tracking/tracker.hpp"

namespace rdmawire::tracking {
namespace {

using namespace testing;

bool full() {
  const char* wish = std::getenv("RDMAWIRE_FULL");
  return wish && std::string_view(wish) == "1" && !sanitized;
}

/// Returns the peak memory of the process in bytes.
std::size_t peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}
/// Returns the growth of the peak memory. Returns 0 with a sanitizer, whose own memory dominates.
std::size_t growth_since(std::size_t before) { return sanitized ? 0 : peak_bytes() - before; }

struct Counter final : Sink {
  void message(const Connection&, const Message&) override { ++messages; }
  void event(const Connection*, const Event&) override { ++events; }
  void connection(const Connection& c, CloseReason why) override {
    ++connections;
    evicted += why == CloseReason::evicted;
    packets += c.sent[0].packets + c.sent[1].packets;
  }
  std::uint64_t messages = 0, events = 0, connections = 0, evicted = 0, packets = 0;
};

class Flood {
 public:
  explicit Flood(const TrackerOptions& options = {}) : tracker(counter, options) { packet_.link = LinkType::raw_ip; }
  void send(const RdmaFrame& frame, std::int64_t after = 1000) { give(frame.write(bytes_), after); }
  /// Passes the frame in bytes() to the tracker.
  void give(std::size_t size, std::int64_t after = 1000) {
    ++packet_.number;
    packet_.time_ns += after;
    dissector_.dissect(packet_, Bytes(bytes_, size), static_cast<std::uint32_t>(size));
    tracker.add(packet_);
    if (packet_.number % 65536 == 0) most = std::max(most, tracker.memory());
  }
  std::uint8_t* bytes() { return bytes_; }
  void finish() {
    most = std::max(most, tracker.memory());
    tracker.finish();
  }

  Counter counter;
  Tracker tracker;
  std::size_t most = 0;  ///< maximum memory in bytes that the tracker reported

 private:
  Dissector dissector_{{{}, false}};
  Packet packet_;
  std::uint8_t bytes_[RdmaFrame::most];
};

/// Calls `run(count)` with a tenth of `packets`, and with all of them. Prints the seconds per million packets of both
/// runs, and fails if the cost per packet grows with the count.
template <class Run>
void compare(const char* name, std::uint64_t packets, Run run) {
  double rates[2] = {};
  std::size_t i = 0;
  for (const std::uint64_t count : {packets / 10, packets}) {
    const std::clock_t began = std::clock();  // CPU time of this process only
    run(count);
    const double took = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
    rates[i++] = took / static_cast<double>(count) * 1e6;
  }
  std::printf("%-28s %9llu packets: %.2f s a million, a tenth of them %.2f; peak of the process %zu MiB\n", name,
              static_cast<unsigned long long>(packets), rates[1], rates[0], peak_bytes() >> 20);
  // If the cost were quadratic, each of ten times as many packets would be ten times as expensive. The limit tolerates
  // noise on a busy host.
  EXPECT_LT(rates[1], rates[0] * 6 + 1) << name;
}

constexpr std::size_t mebi = 1U << 20;

TEST(TrackerMemory, ConnectionsOfOnePacket) {
  TrackerOptions options;
  options.connections = 1U << 14;
  options.waiting_packets = 1U << 15;
  const std::size_t before = peak_bytes();
  compare("one packet each", full() ? 10'000'000 : 300'000, [&](std::uint64_t count) {
    Flood flood(options);
    for (std::uint64_t i = 0; i < count; ++i)
      flood.send({.from = static_cast<std::uint32_t>(host_a + i / 1000),
                  .to = static_cast<std::uint32_t>(0x0b000000 + i % 7),
                  .qp = static_cast<std::uint32_t>(i & 0xffffff),
                  .psn = static_cast<std::uint32_t>(i * 7919 & 0xffffff)});
    flood.finish();
    EXPECT_EQ(flood.counter.connections, count);
    EXPECT_EQ(flood.counter.packets, count) << "every packet is counted";
    EXPECT_EQ(flood.counter.messages, count);
    EXPECT_EQ(flood.counter.evicted, count - options.connections);
    EXPECT_GE(flood.tracker.evicted(), flood.counter.evicted);
    EXPECT_LT(flood.most, 128 * mebi);
  });
  EXPECT_LT(growth_since(before), 192 * mebi);
}

TEST(TrackerMemory, FlowsOfOnePairWithTheSamePsn) {
  compare("one PSN", full() ? 1'000'000 : 200'000, [&](std::uint64_t count) {
    Flood flood;
    for (std::uint64_t i = 0; i < count; ++i)
      flood.send({.qp = static_cast<std::uint32_t>(i & 0xffffff), .psn = 7}, 10);
    flood.finish();
    EXPECT_EQ(flood.counter.packets, count);
  });
}

// Each response matches thousands of requests.
TEST(TrackerMemory, ResponsesWithThousandsOfCandidates) {
  compare("many candidates", full() ? 1'000'000 : 100'000, [&](std::uint64_t count) {
    Flood flood;
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto qp = static_cast<std::uint32_t>((i / 2) & 0xffffff);
      if (i % 2 == 0)
        flood.send({.qp = qp, .psn = 7}, 10);
      else
        flood.send({.opcode = rc::acknowledge, .from = host_b, .to = host_a, .qp = 0xffffff - qp, .psn = 7}, 10);
    }
    flood.finish();
    EXPECT_EQ(flood.counter.packets, count);
  });
}

// A thousand flows have waiting requests, and the responses match all of them.
TEST(TrackerMemory, LongFlowsWithEqualPsns) {
  compare("flows alike", full() ? 1'000'000 : 100'000, [&](std::uint64_t count) {
    Flood flood;
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto qp = static_cast<std::uint32_t>(i / 2 % 1000);
      const auto psn = static_cast<std::uint32_t>(i / 2000 & 0xffffff);
      if (i % 2 == 0)
        flood.send({.qp = qp, .psn = psn}, 10);
      else
        flood.send({.opcode = rc::acknowledge, .from = host_b, .to = host_a, .qp = 5000 + qp, .psn = psn}, 10);
    }
    flood.finish();
    EXPECT_EQ(flood.counter.packets, count);
  });
}

/// Tests one connection: the first packets of both endpoints pair it, then `each(i)` sends packets.
template <class Each>
void one_connection(Flood& flood, std::uint64_t count, Each each) {
  flood.send({.qp = 2, .psn = 0});
  flood.send({.opcode = rc::acknowledge, .from = host_b, .to = host_a, .qp = 1, .psn = 0, .msn = 1});
  for (std::uint64_t i = 2; i < count; ++i) each(i);
  flood.finish();
  EXPECT_EQ(flood.counter.packets, count);
}

TEST(TrackerMemory, PsnsThatJumpWithEachPacket) {
  for (const std::uint32_t step : {1U << 13, 1U << 15, 1U << 22, 0x7fffffU})
    compare("jumps", full() ? 1'000'000 : 100'000, [&](std::uint64_t count) {
      Flood flood;
      one_connection(flood, count, [&](std::uint64_t i) {
        flood.send({.qp = 2, .psn = static_cast<std::uint32_t>(i * step & 0xffffff)});
      });
      EXPECT_LT(flood.most, 64 * mebi);
    });
}

// Each connection is within its own limits, but all of them together exceed the total limit.
TEST(TrackerMemory, UnacknowledgedWindows) {
  TrackerOptions options;
  options.memory = 16 * mebi;
  compare("wide windows", full() ? 3'000'000 : 300'000, [&](std::uint64_t count) {
    Flood flood(options);
    constexpr std::uint32_t window = 2000;
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto pair = static_cast<std::uint32_t>(i / window);
      const auto step = static_cast<std::uint32_t>(i % window);
      if (step == 1)
        flood.send({.opcode = rc::acknowledge, .from = host_b, .to = host_a + 100 + pair, .qp = 1, .psn = 0, .msn = 1});
      else
        flood.send({.from = host_a + 100 + pair, .to = host_b, .qp = 2, .psn = step ? step - 1 : 0});
    }
    flood.finish();
    EXPECT_EQ(flood.counter.packets, count);
    EXPECT_EQ(flood.counter.messages, count - count / window);
    EXPECT_LT(flood.most, 32 * mebi);
    EXPECT_EQ(flood.counter.evicted > 0, count > 100000);
  });
}

TEST(TrackerMemory, EndlessRetransmission) {
  compare("endless retransmission", full() ? 3'000'000 : 300'000, [&](std::uint64_t count) {
    Flood flood;
    one_connection(flood, count, [&](std::uint64_t i) {
      flood.send({.qp = 2, .psn = 1, .identification = static_cast<std::uint16_t>(i)}, 1'000'000);
    });
    EXPECT_LT(flood.most, 8 * mebi);
  });
}

TEST(TrackerMemory, NoAcknowledgements) {
  compare("never acknowledged", full() ? 3'000'000 : 300'000, [&](std::uint64_t count) {
    Flood flood;
    one_connection(flood, count, [&](std::uint64_t i) {
      flood.send({.qp = 2, .psn = static_cast<std::uint32_t>((i - 1) & 0xffffff)});
    });
    EXPECT_LT(flood.most, 32 * mebi);
  });
}

// There are thousands of waiting messages, and each is acknowledged separately.
TEST(TrackerMemory, ManyOutstandingMessages) {
  compare("many outstanding", full() ? 1'000'000 : 100'000, [&](std::uint64_t count) {
    Flood flood;
    one_connection(flood, count, [&](std::uint64_t i) {
      const std::uint32_t ahead = std::min<std::uint32_t>(8000, static_cast<std::uint32_t>(count / 4));
      if (i < ahead || i % 2 == 0)
        flood.send(
            {.qp = 2, .psn = static_cast<std::uint32_t>((i < ahead ? i - 1 : ahead + (i - ahead) / 2 - 1) & 0xffffff)});
      else
        flood.send({.opcode = rc::acknowledge,
                    .from = host_b,
                    .to = host_a,
                    .qp = 1,
                    .psn = static_cast<std::uint32_t>(((i - ahead) / 2 + 1) & 0xffffff),
                    .msn = 2});
    });
  });
}

// A gap of thousands of packets is filled from its end.
TEST(TrackerMemory, GapsFilledBackwards) {
  compare("gaps backwards", full() ? 1'000'000 : 100'000, [&](std::uint64_t count) {
    Flood flood;
    constexpr std::uint64_t gap = 4000;
    one_connection(flood, count, [&](std::uint64_t i) {
      const std::uint64_t round = (i - 2) / (2 * gap), step = (i - 2) % (2 * gap);
      const std::uint64_t first = 1 + round * 2 * gap;
      flood.send({.qp = 2,
                  .psn = static_cast<std::uint32_t>((step < gap ? first + gap + step : first + 2 * gap - 1 - step) &
                                                    0xffffff)});
    });
  });
}

TEST(TrackerMemory, EverySecondPacketIsMissingThenComes) {
  compare("every second", full() ? 1'000'000 : 100'000, [&](std::uint64_t count) {
    Flood flood;
    constexpr std::uint64_t half = 4000;
    one_connection(flood, count, [&](std::uint64_t i) {
      const std::uint64_t round = (i - 2) / (2 * half), step = (i - 2) % (2 * half);
      const std::uint64_t first = 1 + round * 2 * half;
      flood.send({.qp = 2,
                  .psn = static_cast<std::uint32_t>(
                      (step < half ? first + 2 * step + 1 : first + 2 * (2 * half - 1 - step)) & 0xffffff)});
    });
  });
}

TEST(TrackerMemory, EndlessNotifications) {
  compare("notifications", full() ? 3'000'000 : 300'000, [&](std::uint64_t count) {
    Flood flood;
    one_connection(flood, count, [&](std::uint64_t i) {
      if (i % 64 == 0)
        flood.send({.qp = 2, .psn = static_cast<std::uint32_t>((i / 64) & 0xffffff)});
      else
        flood.send({.opcode = congestion_notification, .from = host_b, .to = host_a, .qp = 1});
    });
  });
}

/// Writes a TCP segment between raw IPv4 hosts. Returns its length.
std::size_t segment(std::uint8_t* out, std::uint32_t from, std::uint16_t port, bool syn, std::string_view data) {
  const std::size_t size = 40 + data.size();
  std::memset(out, 0, size);
  out[0] = 0x45;
  store_be(out + 2, 2, size);
  out[8] = 64;
  out[9] = 6;
  store_be(out + 12, 4, from);
  store_be(out + 16, 4, host_b);
  store_be(out + 20, 2, port);
  store_be(out + 22, 2, 4420);
  store_be(out + 24, 4, syn ? 99 : 100);
  out[32] = 0x50;
  out[33] = syn ? 0x02 : 0x18;
  store_be(out + 34, 2, 9000);
  std::memcpy(out + 40, data.data(), data.size());
  return size;
}

TEST(TrackerMemory, UnansweredMpaRequests) {
  using namespace std::string_view_literals;
  constexpr std::string_view request = "MPA ID Req Frame\x00\x01\x00\x00"sv;
  const std::size_t before = peak_bytes();
  compare("MPA requests", full() ? 3'000'000 : 200'000, [&](std::uint64_t count) {
    Flood flood;
    for (std::uint64_t i = 0; i < count; ++i)
      flood.give(segment(flood.bytes(), static_cast<std::uint32_t>(host_a + i / 2 / 50000),
                         static_cast<std::uint16_t>(1024 + i / 2 % 50000), i % 2 == 0, i % 2 == 0 ? ""sv : request));
    flood.finish();
    EXPECT_LT(flood.most, 128 * mebi);
  });
  EXPECT_LT(growth_since(before), 256 * mebi);
}

/// Returns a datagram to QP 1 with space for a MAD of 256 bytes.
RdmaFrame management() {
  return {.opcode = ud + rc::send, .qp = 1, .payload = 256, .source_qp = 1, .qkey = 0x80010000};
}

TEST(TrackerMemory, UnansweredConnectionRequests) {
  const std::size_t before = peak_bytes();
  compare("CM requests", full() ? 3'000'000 : 200'000, [&](std::uint64_t count) {
    Flood flood;
    for (std::uint64_t i = 0; i < count; ++i) {
      RdmaFrame frame = management();
      frame.from = static_cast<std::uint32_t>(host_a + i / 100000);
      const std::size_t size = frame.write(flood.bytes());
      std::uint8_t* mad = flood.bytes() + RdmaFrame::headers + 8;
      mad[0] = 1;      // base version
      mad[1] = 7;      // class: communication management
      mad[2] = 2;      // class version
      mad[3] = 3;      // method: Send
      mad[17] = 0x10;  // attribute: REQ
      store_be(mad + 24, 4, i + 1);
      store_be(mad + 24 + 32, 3, i + 2);  // QP number
      store_be(mad + 24 + 52, 4, 0xffffffff);
      mad[24 + 56 + 10] = mad[24 + 56 + 11] = 0xff;
      store_be(mad + 24 + 56 + 12, 4, frame.from);
      mad[24 + 72 + 10] = mad[24 + 72 + 11] = 0xff;
      store_be(mad + 24 + 72 + 12, 4, host_b);
      flood.give(size);
    }
    flood.finish();
    EXPECT_GE(flood.tracker.evicted(), count > (1U << 15) ? count - (1U << 15) : 0)
        << "they were recognized as requests";
    EXPECT_LT(flood.most, 64 * mebi);
  });
  EXPECT_LT(growth_since(before), 128 * mebi);
}

}  // namespace
}  // namespace rdmawire::tracking
