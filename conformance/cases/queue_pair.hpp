#pragma once
/// The tester's end of a queue pair: what it can say, frame by frame, in relative numbers.

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "conformance/cases/stimulus.hpp"
#include "dissectors/protocol/modular.hpp"
#include "dissectors/protocol/opcode.hpp"

namespace rdmawire::conformance {

/// Between the tester and the device.
struct Path {
  std::array<std::uint8_t, 6> tester_mac{}, device_mac{};
  /// IPv4 is mapped (::ffff:a.b.c.d), as in GIDs.
  std::array<std::uint8_t, 16> tester_address{}, device_address{};
  std::uint16_t vlan = 0;  ///< 0: no tag
  bool roce_v1 = false;    ///< a GRH in place of IP and UDP
  std::uint8_t priority = 0;
  std::uint16_t udp_source_port = 0xc123;
  std::uint16_t pkey = 0xffff;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;

  [[nodiscard]] bool is_ipv4() const;
};

/// Ethernet, VLAN where there is one, IP and UDP or the GRH, from the tester to the device.
Frame headers_to_device(const Path& path);

/// What a request carries beyond its opcode and PSN.
struct Operands {
  std::string payload{};
  std::uint64_t va = 0;
  std::uint32_t rkey = 0;
  std::uint32_t length = 0;
  std::uint64_t swap_or_add = 0, compare = 0;
  std::uint32_t immediate = 0;
  std::uint32_t invalidated_rkey = 0;
  std::optional<std::uint32_t> xrc_srq{};  ///< of XRC; else the queue pair's
  std::uint32_t qkey = 0;                  ///< of UD, with the tester's queue pair as the source
  std::uint8_t placement = 1;              ///< FLUSH: bit 0 global visibility, bit 1 persistence
  std::uint8_t selectivity = 0;            ///< FLUSH: 0 range, 1 memory region
};

/// The tester's end of a queue pair, of any service.
struct TesterQueuePair {
  Transport transport = Transport::rc;
  Path path;
  std::uint32_t device_qpn = 0, tester_qpn = 0;
  Psn ours;    ///< first PSN of our requests
  Psn theirs;  ///< first PSN of the device's requests
  std::uint32_t mtu = 1024;
  std::uint32_t xrc_srq = 0;  ///< of XRC: the device's shared receive queue that our requests name

  /// From Ethernet to the BTH: to the device's queue pair, with an absolute PSN; a request asks for an acknowledgement.
  [[nodiscard]] Frame headers(std::uint8_t opcode, Psn absolute) const;

  // As requester: requests with our PSNs. All ask for an acknowledgement.
  [[nodiscard]] Stimulus request(std::uint8_t opcode, psn at, const Operands& operands = {}) const;
  [[nodiscard]] Stimulus request(Operation operation, Position position, psn at, const Operands& operands = {}) const;
  [[nodiscard]] Stimulus send_first(psn at, const std::string& payload) const;
  [[nodiscard]] Stimulus send_middle(psn at, const std::string& payload) const;
  [[nodiscard]] Stimulus send_last(psn at, const std::string& payload) const;
  [[nodiscard]] Stimulus send_only(psn at, const std::string& payload = pattern_bytes(8)) const;
  [[nodiscard]] Stimulus write_first(psn at, const Operands& operands) const;
  [[nodiscard]] Stimulus write_middle(psn at, const std::string& payload) const;
  [[nodiscard]] Stimulus write_last(psn at, const std::string& payload) const;
  /// The whole of a WRITE; its length is the payload's unless given.
  [[nodiscard]] Stimulus write_only(psn at, Operands operands) const;
  [[nodiscard]] Stimulus read(psn at, const Operands& operands) const;
  [[nodiscard]] Stimulus compare_swap(psn at, const Operands& operands) const;
  [[nodiscard]] Stimulus fetch_add(psn at, const Operands& operands) const;

  /// A datagram to the device's queue pair.
  [[nodiscard]] Stimulus datagram(psn at, std::uint32_t qkey, const std::string& payload = pattern_bytes(8)) const;
  /// A congestion notification for the device's queue pair.
  [[nodiscard]] Stimulus cnp() const;

  // As responder: responses with the device's PSNs.
  [[nodiscard]] Stimulus response(std::uint8_t opcode, psn at, std::uint8_t syndrome, std::uint32_t msn,
                                  const std::string& payload = {}, std::uint64_t original = 0) const;
  [[nodiscard]] Stimulus ack(psn at, std::uint32_t msn) const;
  [[nodiscard]] Stimulus nak(std::uint8_t code, psn at, std::uint32_t msn) const;
  [[nodiscard]] Stimulus rnr_nak(std::uint8_t timer, psn at, std::uint32_t msn) const;
  [[nodiscard]] Stimulus read_response(Position position, psn at, std::uint32_t msn, const std::string& payload) const;
  [[nodiscard]] Stimulus atomic_acknowledge(psn at, std::uint32_t msn, std::uint64_t original) const;

 private:
  [[nodiscard]] Stimulus compose(std::uint8_t opcode, Psn absolute, psn at, const Operands& operands,
                                 std::uint8_t syndrome, std::uint32_t msn, std::uint64_t original) const;
};

}  // namespace rdmawire::conformance
