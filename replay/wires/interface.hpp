#pragma once
/// Inside the room: a network interface of this machine, as packet: and xdp: and the listing of devices see it.

#include <cstdint>
#include <string>
#include <vector>

#include "replay/wires/descriptor.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

class Interface {
 public:
  Interface() = default;
  /// Finds it. `wire` stands before what errors say.
  static WireResult<Interface> find(std::string wire, std::string_view name);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] unsigned index() const { return index_; }
  /// Bytes above the link header.
  [[nodiscard]] std::uint32_t mtu() const { return mtu_; }
  /// Of the line; 0: not known.
  [[nodiscard]] std::uint64_t bits_per_second() const;
  /// As ethtool names it: "veth", "mlx5_core"; empty: not known.
  [[nodiscard]] std::string driver() const;
  /// It carries Ethernet frames; an error says what else.
  [[nodiscard]] WireResult<void> check_ethernet() const;
  /// It is up and has a carrier: the kernel takes frames for a line without one, and drops them. Looked at once a
  /// millisecond.
  [[nodiscard]] WireResult<void> check_link();
  /// Most bytes that this very frame may have: of `most`, the last four are for a VLAN tag alone.
  static std::size_t max_bytes(Bytes frame, std::size_t most);
  /// A frame that is not of `least` to `most` bytes; `of` says where these come from.
  [[nodiscard]] WireError wrong_length(Bytes frame, std::size_t least, std::size_t most, std::string_view of) const;
  /// It still exists; asked anew each time.
  [[nodiscard]] bool is_there() const;
  /// It was set up; a carrier is another thing.
  [[nodiscard]] bool is_up() const;
  /// An error of the operating system, with what to do about it.
  [[nodiscard]] WireError failed(std::string_view doing, int number) const;

  /// Every interface that this process can see.
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
