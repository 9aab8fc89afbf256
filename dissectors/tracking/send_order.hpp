#pragma once
/// Derives the order in which an endpoint sent its packets from their IPv4 identifications. Many senders increment the
/// identification with every packet. It then shows which of two packets was sent first, even if the network reordered
/// them.

#include <cstdint>

namespace rdmawire::tracking {

class SendOrder {
 public:
  /// Adds the next captured packet. A packet without an IPv4 header has the identification 0, which shows no order.
  void note(std::uint16_t identification) {
    const auto step = static_cast<std::int16_t>(identification - newest_);
    if (step > 0 && step <= longest_step) {
      recent_ = step < recent_packets ? recent_ << step | 1 : 1;
      newest_ = identification;
      if (rising_ < UINT8_MAX) ++rising_;
      if (same_ > 0) same_ = 0;
    } else {
      note_other(identification, step);
    }
  }
  /// True if the identifications of this sender show the order of its packets.
  [[nodiscard]] bool numbered() const { return rising_ >= enough; }
  /// True if the last packets have different identifications, in any order.
  [[nodiscard]] bool distinct() const { return rising_ + varied_ >= enough_distinct; }
  /// Identification of the captured packet that was sent last. Valid if numbered().
  [[nodiscard]] std::uint16_t newest() const { return newest_; }
  /// True if the packet was sent before another packet that was captured earlier. Requires numbered(). Must be called
  /// before note().
  [[nodiscard]] bool is_late(std::uint16_t identification) const {
    return is_after(newest_, identification) && static_cast<std::int16_t>(newest_ - identification) <= longest_step;
  }
  /// True if a packet with this identification was captured, among the last `recent_packets` identifications. Requires
  /// numbered(). Must be called before note().
  [[nodiscard]] bool contains(std::uint16_t identification) const {
    const auto age = static_cast<std::int16_t>(newest_ - identification);
    return age >= 0 && age < recent_packets && (recent_ >> age & 1) != 0;
  }
  /// True if the packet was sent after all packets that were captured earlier. Requires numbered(). Must be called
  /// before note().
  [[nodiscard]] bool is_after_newest(std::uint16_t identification) const {
    return is_after(identification, newest_) && static_cast<std::int16_t>(identification - newest_) <= longest_step;
  }
  /// True if the first identification was sent after the second one. Requires numbered().
  [[nodiscard]] static bool is_after(std::uint16_t identification, std::uint16_t than) {
    return static_cast<std::int16_t>(identification - than) > 0;
  }

 private:
  /// Maximum step between two packets of a connection. Other connections of the sender use identifications, too. The
  /// maximum is 1/16 of all values, so that random identifications do not seem to increase.
  static constexpr std::int16_t longest_step = 4096;
  static constexpr std::uint8_t enough = 6, enough_distinct = 3;
  /// Number of identifications that are remembered. A duplicate is usually captured soon after the packet.
  static constexpr std::int16_t recent_packets = 64;

  void note_other(std::uint16_t identification, std::int16_t step) {
    if (step == 0) {
      // Two packets with the same identification can be duplicates. Three packets show that the identification is
      // constant.
      if (same_ < UINT8_MAX) ++same_;
      if (same_ > 1) rising_ = varied_ = 0;
      return;
    }
    same_ = 0;
    if (varied_ < UINT8_MAX) ++varied_;
    if (step < 0 && step >= -longest_step && rising_ + varied_ > 1) {  // a late packet
      if (-step < recent_packets) recent_ |= std::uint64_t{1} << -step;
      return;
    }
    newest_ = identification;
    recent_ = 1;
    rising_ = 0;
  }

  std::uint64_t recent_ = 0;  // bit n: a packet with the identification newest_ - n was captured
  std::uint16_t newest_ = 0;
  std::uint8_t rising_ = 0;  // number of increasing identifications, not counting late packets
  std::uint8_t varied_ = 0;  // number of other changes since the identification was last constant
  std::uint8_t same_ = 0;    // number of packets with the same identification as the newest one
};

}  // namespace rdmawire::tracking
