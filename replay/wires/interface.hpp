#pragma once
/// Internal: a local network interface, for packet:, xdp: and the device list.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "replay/wires/descriptor.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

/// Counters of an interface since it exists. They include the frames of all programs.
struct LinkCounters {
  std::uint64_t sent = 0, sent_bytes = 0;
  std::uint64_t discarded = 0;  ///< frames to send that the kernel or the driver discarded
  std::uint64_t losses = 0;     ///< how often the carrier was lost
};

class Interface {
 public:
  Interface() = default;
  /// Looks up the interface. `wire` prefixes error messages.
  static WireResult<Interface> find(std::string wire, std::string_view name);

  /// Prefix of error messages.
  [[nodiscard]] const std::string& wire() const { return wire_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] unsigned index() const { return index_; }
  /// Number of bytes without the link header.
  [[nodiscard]] std::uint32_t mtu() const { return mtu_; }
  /// Line rate. 0: unknown.
  [[nodiscard]] std::uint64_t bits_per_second() const;
  /// Driver name as in ethtool, for example "veth" or "mlx5_core". Empty: unknown.
  [[nodiscard]] std::string driver() const;
  /// Returns an error that names the link type if it is not Ethernet.
  [[nodiscard]] WireResult<void> check_ethernet() const;
  /// Returns an error if the interface is down (ENETDOWN) or has no carrier (ENOLINK), because the kernel accepts and
  /// drops frames without a carrier. Checks at most once per millisecond.
  [[nodiscard]] WireResult<void> check_link();
  /// nullopt: unavailable.
  [[nodiscard]] std::optional<LinkCounters> counters() const;
  /// Maximum length of this frame: the last four of `most` bytes are reserved for a VLAN tag.
  static std::size_t max_bytes(Bytes frame, std::size_t most);
  /// Error for a frame length outside `least` to `most` bytes. `of` names the origin of the limits.
  [[nodiscard]] WireError wrong_length(Bytes frame, std::size_t least, std::size_t most, std::string_view of) const;
  /// True if the interface still exists.
  [[nodiscard]] bool is_there() const;
  /// True if the interface is administratively up, with or without a carrier.
  [[nodiscard]] bool is_up() const;
  /// Error of the operating system, with a hint.
  [[nodiscard]] WireError failed(std::string_view doing, int number) const;

  /// All visible interfaces.
  static std::vector<std::string> names();

 private:
  [[nodiscard]] bool ask(unsigned long request, void* ifreq) const;

  std::string wire_, name_;
  unsigned index_ = 0;
  std::uint32_t mtu_ = 0;
  unsigned short hardware_ = 0;
  Descriptor socket_;
  std::int64_t link_checked_ = 0;
};

}  // namespace rdmawire::replay
