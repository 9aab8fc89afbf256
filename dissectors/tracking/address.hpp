#pragma once
/// Addresses of ports, and directions between two ports. Both are keys with which connections are found.

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "dissectors/protocol/stack.hpp"

namespace rdmawire::tracking {

/// Address of a port: a GID, an IP address (IPv4 mapped into IPv6, RFC 4291, 2.5.5.2), or a LID.
struct PortAddress {
  std::uint64_t high = 0, low = 0;
  friend bool operator==(const PortAddress&, const PortAddress&) = default;
  friend auto operator<=>(const PortAddress&, const PortAddress&) = default;
  [[nodiscard]] constexpr bool is_zero() const { return high == 0 && low == 0; }

  static constexpr PortAddress of_lid(std::uint16_t lid) { return {0, lid}; }
  static constexpr PortAddress of_ipv4(std::uint32_t address) { return {0, std::uint64_t{0xffff00000000} | address}; }
  /// `bytes` contains the 16 bytes of a GID or an IPv6 address.
  static PortAddress of_gid(const std::uint8_t* bytes) { return {load_be<8>(bytes), load_be<8>(bytes + 8)}; }
};

/// Converts an MTU code of CM and subnet administration to bytes. Returns 0 for an undefined code.
constexpr std::uint32_t bytes_of_mtu(std::uint32_t code) { return code >= 1 && code <= 5 ? 128U << code : 0; }

/// The first addresses in the capture, up to a limit. If an address was rewritten, explain_icrc() tries them as the
/// original address.
class AddressBook {
 public:
  static constexpr std::size_t capacity = 256;

  void note(const PortAddress& address) {
    std::size_t at = hash_of(address) % slots_.size();
    for (; slots_[at] != none; at = (at + 1) % slots_.size())
      if (known_[slots_[at]] == address) return;
    if (count_ == capacity) return;
    slots_[at] = static_cast<std::uint16_t>(count_);
    known_[count_] = address;
    store_be(bytes_[count_].data(), 8, address.high);
    store_be(bytes_[count_].data() + 8, 8, address.low);
    ++count_;
  }
  /// The addresses, 16 bytes each, in the order of their first packets.
  [[nodiscard]] std::span<const std::array<std::uint8_t, 16>> bytes() const { return {bytes_.data(), count_}; }

  AddressBook() { slots_.fill(none); }

 private:
  static constexpr std::uint16_t none = 0xffff;
  static std::uint64_t hash_of(const PortAddress& a) {
    const std::uint64_t h = (a.high ^ a.low * 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
    return h ^ h >> 32;
  }
  std::size_t count_ = 0;
  std::array<PortAddress, capacity> known_;
  std::array<std::array<std::uint8_t, 16>, capacity> bytes_;
  std::array<std::uint16_t, 4 * capacity> slots_;
};

/// A direction from one port to another, and a number that distinguishes flows in it, such as a destination QP or a
/// communication ID.
struct FlowKey {
  PortAddress from, to;
  std::uint64_t number = 0;
  friend bool operator==(const FlowKey&, const FlowKey&) = default;
  [[nodiscard]] std::uint64_t hash() const {
    std::uint64_t h = number * 0x9e3779b97f4a7c15;
    for (std::uint64_t word : {from.high, from.low, to.high, to.low}) h = (h ^ word ^ h >> 29) * 0xbf58476d1ce4e5b9;
    return h ^ h >> 32;
  }
  [[nodiscard]] FlowKey with(std::uint64_t other_number) const { return {from, to, other_number}; }
  [[nodiscard]] FlowKey reversed(std::uint64_t other_number) const { return {to, from, other_number}; }
};

/// Returns the packet's source and destination port, with number 0. The addresses are LIDs on native InfiniBand,
/// otherwise IP addresses or GIDs. Returns nullopt if the packet has none of these.
std::optional<FlowKey> ports_of(const HeaderStack& stack);

}  // namespace rdmawire::tracking
