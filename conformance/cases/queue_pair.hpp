#pragma once
/// The tester's endpoint of a QP, which constructs frames with relative numbers.

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "conformance/cases/stimulus.hpp"
#include "dissectors/protocol/modular.hpp"
#include "dissectors/protocol/opcode.hpp"

namespace rdmawire::conformance {

/// The path between tester and device.
struct Path {
  std::array<std::uint8_t, 6> tester_mac{}, device_mac{};
  /// IPv4 is mapped (::ffff:a.b.c.d), as in GIDs.
  std::array<std::uint8_t, 16> tester_address{}, device_address{};
  std::uint16_t vlan = 0;  ///< 0: no tag
  bool roce_v1 = false;    ///< a GRH instead of IP and UDP
  std::uint8_t priority = 0;
  std::uint16_t udp_source_port = 0xc123;
  std::uint16_t pkey = 0xffff;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;

  [[nodiscard]] bool is_ipv4() const;
};

/// Returns Ethernet, an optional VLAN tag, and IP and UDP or the GRH, from the tester to the device.
Frame headers_to_device(const Path& path);

/// The operands of a request in addition to its opcode and PSN.
struct Operands {
  std::string payload{};
  std::uint64_t va = 0;
  std::uint32_t rkey = 0;
  std::uint32_t length = 0;
  std::uint64_t swap_or_add = 0, compare = 0;
  std::uint32_t immediate = 0;
  std::uint32_t invalidated_rkey = 0;
  std::optional<std::uint32_t> xrc_srq{};  ///< XRC only. Overrides that of the QP
  std::uint32_t qkey = 0;                  ///< UD only. The source is the tester's QP
  std::uint8_t placement = 1;              ///< FLUSH: bit 0 global visibility, bit 1 persistence
  std::uint8_t selectivity = 0;            ///< FLUSH: 0 range, 1 memory region
};

/// The tester's endpoint of a QP of any service.
struct TesterQueuePair {
  Transport transport = Transport::rc;
  Path path;
  std::uint32_t device_qpn = 0, tester_qpn = 0;
  Psn ours;    ///< first PSN of the tester's requests
  Psn theirs;  ///< first PSN of the device's requests
  /// Messages that each side completed as responder before the case. MSNs of expectations and responses count from
  /// here.
  std::uint32_t device_msn = 0, tester_msn = 0;
  std::uint32_t mtu = 1024;
  std::uint32_t xrc_srq = 0;  ///< XRC: number of the device's shared receive queue in requests

  /// Headers from Ethernet to the BTH, to the device's QP, with an absolute PSN. AckReq is set for requests.
  [[nodiscard]] Frame headers(std::uint8_t opcode, Psn absolute) const;

  // Requests with the tester's PSNs and AckReq set.
  [[nodiscard]] Stimulus request(std::uint8_t opcode, psn at, const Operands& operands = {}) const;
  [[nodiscard]] Stimulus request(Operation operation, Position position, psn at, const Operands& operands = {}) const;
  [[nodiscard]] Stimulus send_first(psn at, const std::string& payload) const;
  [[nodiscard]] Stimulus send_middle(psn at, const std::string& payload) const;
  [[nodiscard]] Stimulus send_last(psn at, const std::string& payload) const;
  [[nodiscard]] Stimulus send_only(psn at, const std::string& payload = pattern_bytes(8)) const;
  [[nodiscard]] Stimulus write_first(psn at, const Operands& operands) const;
  [[nodiscard]] Stimulus write_middle(psn at, const std::string& payload) const;
  [[nodiscard]] Stimulus write_last(psn at, const std::string& payload) const;
  /// A whole WRITE. The length defaults to that of the payload.
  [[nodiscard]] Stimulus write_only(psn at, Operands operands) const;
  [[nodiscard]] Stimulus read(psn at, const Operands& operands) const;
  [[nodiscard]] Stimulus compare_swap(psn at, const Operands& operands) const;
  [[nodiscard]] Stimulus fetch_add(psn at, const Operands& operands) const;

  /// A datagram to the device's QP.
  [[nodiscard]] Stimulus datagram(psn at, std::uint32_t qkey, const std::string& payload = pattern_bytes(8)) const;
  /// A CNP for the device's QP.
  [[nodiscard]] Stimulus cnp() const;

  // Responses with the device's PSNs.
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
