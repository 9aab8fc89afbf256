#pragma once
/// Inside the room: what goes on before the wire. Captures in, frames with their times out.

#include <deque>
#include <map>
#include <memory>
#include <queue>
#include <unordered_map>

#include "dissectors/tracking/dissector.hpp"
#include "replay/faults/engine.hpp"
#include "replay/player/player.hpp"
#include "replay/rewrite/resegmenter.hpp"

namespace rdmawire::replay {

/// A frame that is ready to leave.
struct Slot {
  std::vector<std::uint8_t> bytes;
  std::int64_t time = 0;  ///< of its schedule
  std::uint64_t order = 0;
  std::uint64_t number = 0;
  std::uint32_t lane = 0;
  std::uint32_t connection = Rewritten::none;
  Side from = Side::a;
};

/// What a feeder has counted so far.
struct FrameCounters {
  std::uint64_t read = 0, loop = 0;
  std::uint64_t truncated = 0, padded = 0, rewritten = 0, divided_pdus = 0;
  std::array<std::uint64_t, skips> skipped{};
  std::vector<FaultCount> faults;         ///< by rule
  std::uint64_t position = 0, whole = 0;  ///< of the captures' bytes, as in PlayProgress
};

/// Which end of its connections a host is: by its MAC or, where both ends have the same, its address.
class Sides {
 public:
  explicit Sides(const FlowMap& map);
  [[nodiscard]] std::optional<Side> of(const HeaderStack& stack) const;

 private:
  std::unordered_map<std::uint64_t, Side> macs_;
  std::unordered_map<PortAddress, Side, HashFlow> addresses_;
};

/// What goes on before the wire: captures in, frames with their times out, in the order of these. Asks the wires for
/// nothing but what they can do.
class FramePipeline {
 public:
  FramePipeline(const PlayerOptions& options, std::span<Wire* const> wires);

  /// False: there is no frame, or trouble() says why.
  bool begin();
  /// When the first chosen frame is to leave; nothing: at its captured time.
  void begin_schedule(std::optional<std::int64_t> anchor);

  /// The next frame; nullptr: there are no more, trouble() says why, or it was to stop.
  std::unique_ptr<Slot> next();
  /// The same in small pieces: looks at one frame of the captures at most. True: `slot` is what next() would give.
  bool step(std::unique_ptr<Slot>& slot);
  /// For a frame that is not needed any more: its room is used again.
  void recycle(std::unique_ptr<Slot> slot) { free_.push_back(std::move(slot)); }

  [[nodiscard]] const std::string& trouble() const { return trouble_; }  ///< empty: none
  /// As of now.
  [[nodiscard]] const FrameCounters& tally();
  /// Some messages are cut anew: PSNs do not go by the capture's numbers.
  [[nodiscard]] bool cuts() const { return resegmenter_.needed(); }
  /// From the anchor to where the first loop's end would be the second one's beginning.
  [[nodiscard]] std::int64_t length() const { return schedule_ ? schedule_->length() : 0; }
  /// Puts into a report what was counted until `tally` was taken.
  void tell(ReplayReport& report, const FrameCounters& tally) const;

 private:
  bool advance();

  bool next_loop();

  void change_map();

  std::unique_ptr<Slot> make_slot();

  void skip(Skip why, std::string example = {});

  /// Does everything to the frame in record_ and goes on to the next one.
  void process();

  [[nodiscard]] std::uint32_t side_of(const Slot& slot) const;

  /// The frame as it is to leave, before faults; nullptr: it is not sent.
  std::unique_ptr<Slot> shape(Bytes bytes, bool snapped, const HeaderStack& captured);
  /// One frame of its own, or what its message became at another path MTU.
  void emit(Bytes bytes, bool snapped, bool padded, std::int64_t nominal);
  void leave(std::unique_ptr<Slot> slot, bool padded, std::int64_t nominal);

  bool check(const Rewritten& rewritten, Slot& slot, bool snapped);

  [[nodiscard]] bool needs_sides() const { return wires_.size() > 1 || faults_; }

  [[nodiscard]] std::string who_sent() const;

  void take(const FaultOutcome& outcome);
  std::unique_ptr<Slot> pop_delayed();

  struct Later {
    bool operator()(const std::unique_ptr<Slot>& a, const std::unique_ptr<Slot>& b) const {
      return std::pair(a->time, a->order) > std::pair(b->time, b->order);
    }
  };
  struct Origin {
    std::uint32_t lane, connection;
    Side from;
    std::uint64_t number;
  };
  static constexpr std::size_t most_engine_slots = 8192;  // more than the engine can hold back

  const PlayerOptions& options_;
  std::uint64_t loops_;  ///< what is loaded before is repeated by the player
  std::span<Wire* const> wires_;
  FrameCounters tally_;
  std::array<ReplayReport::Skipped, skips> first_skipped_;  ///< without their number
  std::string trouble_;
  FrameSource source_;
  Rewriter rewriter_;
  Resegmenter resegmenter_;
  Sides sides_;
  bool rewrites_, dissects_ = false;
  tracking::DissectorOptions dissector_options_;
  std::optional<tracking::Dissector> dissector_;
  std::optional<FaultEngine> faults_;
  std::map<std::uint64_t, Origin> engine_slots_;
  bool finished_ = false;
  std::int64_t fault_time_ = 0;

  captures::Record record_;
  tracking::Packet packet_;
  std::vector<std::uint8_t> padded_;
  bool more_ = false;
  std::optional<std::int64_t> anchor_;
  std::optional<Schedule> schedule_;
  std::optional<Schedule> nominal_;  ///< at top speed: what time faults go by
  std::int64_t coming_ = 0;
  std::uint64_t slots_ = 0, slots_before_loop_ = 0;

  std::deque<std::unique_ptr<Slot>> ready_;
  std::priority_queue<std::unique_ptr<Slot>, std::vector<std::unique_ptr<Slot>>, Later> delayed_;
  std::vector<std::unique_ptr<Slot>> free_;
};

}  // namespace rdmawire::replay
