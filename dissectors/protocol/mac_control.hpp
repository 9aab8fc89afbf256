#pragma once
/// MAC control frames of Ethernet: pause, and priority flow control (PFC).

#include "dissectors/protocol/cursor.hpp"
#include "dissectors/protocol/header.hpp"

namespace rdmawire {

namespace mac_control_opcode {
inline constexpr std::uint16_t pause = 0x0001, priority_pause = 0x0101;
}
inline constexpr Name mac_control_opcode_entries[] = {
    {mac_control_opcode::pause, "PAUSE", "requests the neighbor to stop sending"},
    {mac_control_opcode::priority_pause, "PFC", "requests the neighbor to stop sending some traffic classes"},
};
inline constexpr Names mac_control_opcode_names{"MAC control opcode", mac_control_opcode_entries,
                                                "IEEE 802.3, table 31A-1"};

/// Start of every MAC control frame.
struct MacControl {
  static constexpr std::string_view name = "macc", title = "MAC control", section = "IEEE 802.3, 31.4";
  static constexpr std::string_view kind = "opcode";
  static constexpr std::size_t size = 2;
  static constexpr std::array fields{
      field("opcode", 0, 16, "requested operation").hex().of(mac_control_opcode_names).alias("macc.opcode").computed(),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

/// A frame that pauses the whole link.
struct Pause {
  static constexpr std::string_view name = "pause", title = "Pause", section = "IEEE 802.3, 31B.2";
  static constexpr std::size_t size = 2;
  static constexpr std::array fields{
      field("quanta", 0, 16, "duration, in units of 512 bit times (0: resume)").alias("macc.pause_time"),
  };
};

/// A frame that pauses single priorities.
struct PriorityPause {
  static constexpr std::string_view name = "pfc", title = "Priority flow control", section = "IEEE 802.1Q, 36.2";
  static constexpr std::size_t size = 18;
  static constexpr std::array fields{
      reserved("reserved", 0, 8),
      field("enabled", 8, 8, "bits: priorities whose durations are valid (bit n: priority n)")
          .hex()
          .alias("macc.cbfc.enbv"),
      field("quanta0", 16, 16, "priority 0: duration, in units of 512 bit times (0: resume)")
          .alias("macc.cbfc.pause_time.c0"),
      field("quanta1", 32, 16, "priority 1").alias("macc.cbfc.pause_time.c1"),
      field("quanta2", 48, 16, "priority 2").alias("macc.cbfc.pause_time.c2"),
      field("quanta3", 64, 16, "priority 3").alias("macc.cbfc.pause_time.c3"),
      field("quanta4", 80, 16, "priority 4").alias("macc.cbfc.pause_time.c4"),
      field("quanta5", 96, 16, "priority 5").alias("macc.cbfc.pause_time.c5"),
      field("quanta6", 112, 16, "priority 6").alias("macc.cbfc.pause_time.c6"),
      field("quanta7", 128, 16, "priority 7").alias("macc.cbfc.pause_time.c7"),
  };
};

Step decode_mac_control(Cursor& c);

}  // namespace rdmawire
