#pragma once
/// Internal: prepares frames for the wires. Input: captures. Output: frames with their transmission times.

#include <deque>
#include <map>
#include <memory>
#include <queue>
#include <unordered_map>

#include "dissectors/tracking/dissector.hpp"
#include "replay/faults/engine.hpp"
#include "replay/player/player.hpp"
#include "replay/rewrite/resegmenter.hpp"
#include "replay/wires/frame_limits.hpp"

namespace rdmawire::replay {

/// A frame that is ready to send.
struct Slot {
  std::vector<std::uint8_t> bytes;
  std::int64_t time = 0;  ///< scheduled transmission time
  std::uint64_t order = 0;
  std::uint64_t number = 0;
  std::uint64_t loop = 1;
  std::uint32_t lane = 0;
  std::uint32_t connection = Rewritten::none;
  Side from = Side::a;
  std::string comment;  ///< faults of the frame. Empty: none
};

/// Counters of a frame pipeline.
struct FrameCounters {
  std::uint64_t read = 0, loop = 0;
  std::uint64_t shortened = 0, fragmented = 0, fragments = 0;
  std::uint64_t truncated = 0, padded = 0, converted = 0, rewritten = 0, divided_pdus = 0;
  std::uint64_t fcs = 0, fcs_changed = 0, tagged = 0, labeled = 0;
  std::uint64_t fault_hits = 0;  ///< including those beyond the limit
  std::array<std::uint64_t, skips> skipped{};
  std::vector<FaultCount> faults;         ///< by rule
  std::uint64_t position = 0, whole = 0;  ///< read and total bytes of the captures, as in PlayProgress
};

/// Determines which endpoint of its connections a host is, by MAC address or, if both endpoints have the same MAC
/// address, by IP address.
class Sides {
 public:
  explicit Sides(const FlowMap& map);
  [[nodiscard]] std::optional<Side> of(const HeaderStack& stack) const;

 private:
  std::unordered_map<std::uint64_t, Side> macs_;
  std::unordered_map<PortAddress, Side, HashFlow> addresses_;
};

/// Reads captures and returns frames with their transmission times, in the order of these times. Uses only the
/// capabilities of the wires.
class FramePipeline {
 public:
  FramePipeline(const PlayerOptions& options, std::span<Wire* const> wires);

  /// Returns false if there is no frame or error() is set.
  bool begin();
  /// Starts the schedule: `anchor` is the transmission time of the first selected frame. nullopt: its captured time.
  void begin_schedule(std::optional<std::int64_t> anchor);

  /// Returns the next frame. nullptr at the end, after an error (see error()) or when stopped.
  std::unique_ptr<Slot> next();
  /// Same as next(), but processes at most one captured frame per call. Returns true if `slot` is the result of next().
  bool step(std::unique_ptr<Slot>& slot);
  /// Returns an unused frame for reuse.
  void recycle(std::unique_ptr<Slot> slot) { free_.push_back(std::move(slot)); }

  [[nodiscard]] const std::string& trouble() const { return trouble_; }  ///< empty: no error
  /// Current values.
  [[nodiscard]] const FrameCounters& tally();
  /// True if some messages are resegmented, so that live and captured PSNs do not differ by a constant.
  [[nodiscard]] bool cuts() const { return resegmenter_.needed(); }
  /// Duration of one loop: from the anchor to the start of the second loop.
  [[nodiscard]] std::int64_t length() const { return schedule_ ? schedule_->length() : 0; }
  /// Adds the values of `tally` to a report.
  void tell(ReplayReport& report, const FrameCounters& tally) const;

 private:
  bool advance();

  bool next_loop();

  void change_map();

  std::unique_ptr<Slot> make_slot();
  /// Makes a frame leave: at its time, if it may precede earlier ones. Divides it if it is too long.
  void enqueue(std::unique_ptr<Slot> slot);
  void push(std::unique_ptr<Slot> slot) {
    faults_ ? delayed_.push(std::move(slot)) : ready_.push_back(std::move(slot));
  }
  /// Maximum length of this frame.
  [[nodiscard]] std::size_t limit_of(std::uint32_t lane, Bytes frame) const;
  /// Applies PlayerOptions::too_long. Returns false if the frame is skipped.
  bool fit(Slot& slot);

  void skip(Skip why, std::string example = {});

  /// Processes the frame in record_ and reads the next one.
  void process();

  [[nodiscard]] std::uint32_t side_of(const Slot& slot) const;

  /// Applies all changes except faults to the frame. Returns nullptr if the frame is not sent.
  std::unique_ptr<Slot> shape(Bytes bytes, bool snapped, const HeaderStack& captured);
  /// Emits one frame, or the frames that its message is resegmented into.
  void emit(Bytes bytes, bool snapped, bool padded, std::int64_t nominal);
  void leave(std::unique_ptr<Slot> slot, bool padded, std::int64_t nominal);

  /// True if the pace is a number of frames or bits per second.
  [[nodiscard]] bool has_rate() const {
    return options_.pace.kind == Pace::Kind::packets || options_.pace.kind == Pace::Kind::bits;
  }
  bool check(const Rewritten& rewritten, Slot& slot, bool snapped);

  [[nodiscard]] bool needs_sides() const { return wires_.size() > 1 || faults_; }

  [[nodiscard]] std::string who_sent() const;

  void take(const FaultOutcome& outcome);
  void log_faults(const FaultOutcome& outcome);

  /// True if the frame ends with a valid frame check sequence.
  [[nodiscard]] bool has_fcs(Bytes bytes) const;
  void finish_fcs(std::vector<std::uint8_t>& bytes);
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
  static constexpr std::size_t most_fault_hits = 65'536;
  static constexpr std::size_t fcs_bytes = 4;
  static constexpr std::size_t most_engine_slots = 8192;  // more than the fault engine can hold back

  const PlayerOptions& options_;
  std::uint64_t loops_;  ///< 0: unlimited. 1 if the player repeats preloaded frames
  std::span<Wire* const> wires_;
  std::vector<const FrameLimits*> limits_;  ///< by wire. nullptr: its capabilities
  std::uint32_t fragment_id_ = 0;           ///< of the last fragmented IPv6 packet
  FrameCounters tally_;
  std::array<ReplayReport::Skipped, skips> first_skipped_;  ///< with zero counts
  std::string trouble_;
  FrameSource source_;
  Rewriter rewriter_;
  Resegmenter resegmenter_;
  Sides sides_;
  LinkConversion links_;
  bool matches_first_wire_ = false;  ///< the current frame matches PlayerOptions::first_wire
  bool to_ethernet_ = false;         ///< a wire requires Ethernet frames
  bool rewrites_, dissects_ = false;
  tracking::DissectorOptions dissector_options_;
  std::optional<tracking::Dissector> dissector_;
  std::optional<FaultEngine> faults_;
  std::map<std::uint64_t, Origin> engine_slots_;
  std::vector<FaultHit> fault_hits_;
  bool finished_ = false;
  std::int64_t fault_time_ = 0;

  bool fcs_seen_ = false;  ///< an earlier frame had a frame check sequence
  bool fcs_ = false;       ///< the current frame has one

  captures::Record record_;
  tracking::Packet packet_;
  std::vector<std::uint8_t> padded_;
  bool more_ = false;
  std::optional<std::int64_t> anchor_;
  std::optional<Schedule> schedule_;
  std::optional<Schedule> nominal_;  ///< at top speed: schedule by captured times, for fault rules that depend on time
  std::int64_t coming_ = 0;
  std::uint64_t slots_ = 0, slots_before_loop_ = 0;

  std::deque<std::unique_ptr<Slot>> ready_;
  std::priority_queue<std::unique_ptr<Slot>, std::vector<std::unique_ptr<Slot>>, Later> delayed_;
  std::vector<std::unique_ptr<Slot>> free_;
};

}  // namespace rdmawire::replay
