#pragma once
/// Simulated traffic with known disturbances: two conforming reference devices, a path with a capture point, and the
/// fate of every packet. Runs in virtual time. The same scenario always gives the same bytes.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "dissectors/protocol/modular.hpp"
#include "dissectors/protocol/opcode.hpp"
#include "dissectors/tracking/address.hpp"

namespace rdmawire::attribution {

/// Location of an impairment on the path of a packet.
enum class Segment : std::uint8_t {
  before,   ///< between the sender and the capture point
  after,    ///< between the capture point and the receiver
  capture,  ///< only in the capture: the receiver is not affected
};

/// burst: loss of consecutive packets.
enum class Kind : std::uint8_t { loss, burst, reordering, jitter, duplication, corruption };
std::string_view to_string(Segment segment);
std::string_view to_string(Kind kind);

struct Impairment {
  static constexpr unsigned both = 2;
  Kind kind = Kind::loss;
  Segment segment = Segment::before;
  unsigned sender = both;     ///< number of the device whose packets are affected
  std::uint32_t one_in = 50;  ///< each packet is affected with probability 1 / one_in (jitter: always)
  std::uint32_t depth = 1;    ///< reordering: later packets that overtake the packet. burst: lost packets
  std::int64_t time = 1000;   ///< jitter, duplication: maximum additional delay, nanoseconds
};

/// IP identifications of a sender.
enum class Numbering : std::uint8_t { consecutive, constant, random };

struct Scenario {
  std::uint64_t seed = 1;
  Numbering numbering = Numbering::consecutive;
  std::uint32_t mtu = 1024;
  std::array<unsigned, 2> requests{30, 0};        ///< number of requests of each device
  std::int64_t interval = 2000;                   ///< mean time between requests, without pauses, nanoseconds
  std::uint32_t most_bytes = 4096;                ///< maximum length of a request
  std::array<std::int64_t, 2> delay{1000, 1000};  ///< nanoseconds from device 0 to the capture point, then to device 1
  std::uint64_t bits_per_second = 100'000'000'000;
  std::uint8_t timeout = 9;         ///< code of the ACK timeout: 4.096 µs times 2^timeout
  bool connection_manager = true;   ///< false: the capture contains no negotiation
  bool receiver_not_ready = false;  ///< some receives are posted late
  std::int64_t response_delay = 0;  ///< additional processing time of device 1, nanoseconds
  std::uint64_t first_frame = 0;    ///< number of packets before the start of the capture
  std::uint32_t snap_length = 0;    ///< captured bytes of each packet. 0: all
  std::vector<Impairment> impairments;

  [[nodiscard]] std::string text() const;
};

/// Why a requester retransmits from a packet on.
enum class Trigger : std::uint8_t { none, timer, nak, implied_nak, rnr_nak };

/// One transmission of a packet by a device, and its fate.
struct Transmission {
  unsigned sender = 0;
  std::int64_t decided = 0;  ///< time at which the device decided to send it
  std::int64_t sent = 0;     ///< time at which it was sent, after the additional processing time
  std::uint8_t opcode = 0, syndrome = 0;
  Psn psn;
  std::uint32_t psns = 1;  ///< PSNs that the packet uses. READ request: number of its response packets
  bool transport = false;  ///< true: a packet of the QPs. false: of the connection manager
  bool response = false;
  bool retransmitted = false;               ///< a request whose PSN was sent before
  Trigger trigger = Trigger::none;          ///< reason of the retransmission that starts here
  std::size_t trigger_response = SIZE_MAX;  ///< index of the NAK, or of the response that implied it
  std::int64_t captured = -1;               ///< time at which it first passed the capture point intact. -1: never
  std::int64_t arrived = -1;                ///< time at which it first arrived intact. -1: never
  bool passed_damaged = false;              ///< a corrupted copy passed the capture point
  bool late_before = false;                 ///< captured after a packet that was sent later
  bool late_recorded = false;               ///< reordered in the capture only
  bool late_after = false;                  ///< received after a packet that passed the capture point later
  bool duplicated = false;                  ///< duplicated by the network, before or after the capture point
  bool duplicated_after = false;            ///< duplicated by the network after the capture point
  bool copied = false;                      ///< duplicated in the capture only
  bool hidden = false;                      ///< lost in the capture only

  [[nodiscard]] const Opcode& op() const { return rdmawire::opcode(opcode); }
  [[nodiscard]] bool lost_before() const { return captured < 0 && !passed_damaged; }
  [[nodiscard]] bool lost_after() const { return captured >= 0 && arrived < 0; }
};

struct CapturedFrame {
  std::int64_t time = 0;
  std::size_t transmission = 0;
  std::uint32_t wire_length = 0;
  std::vector<std::uint8_t> bytes;
};

struct Arrival {
  std::int64_t time = 0;
  std::size_t transmission = 0;
};

struct Traffic {
  std::vector<Transmission> transmissions;       ///< in the order in which the devices sent them
  std::vector<CapturedFrame> frames;             ///< in capture order. Frame n is element n - 1
  std::array<std::vector<Arrival>, 2> arrivals;  ///< intact packets, by receiving device
  std::array<std::uint64_t, 2> completed{};      ///< successful requests, by device
};

Traffic simulate(const Scenario& scenario);
/// The address of a device in the captured frames.
tracking::PortAddress device_address(unsigned number);

}  // namespace rdmawire::attribution
