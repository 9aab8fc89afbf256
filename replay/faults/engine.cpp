#include "replay/faults/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <map>

#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/address.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "replay/faults/recompute_checksums.hpp"

namespace rdmawire::replay {
namespace {

// splitmix64: sufficient to select packets.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }

 private:
  std::uint64_t state_;
};

constexpr std::int64_t later(std::int64_t time, std::int64_t by) {
  return time > FaultEngine::never - by ? FaultEngine::never : time + by;
}

bool is_at(const FaultEndpoint& end, std::uint32_t side, const HeaderStack& stack, bool source) {
  const auto same = [&](std::uint32_t offset, std::size_t bytes) {
    return std::equal(end.address.begin(), end.address.begin() + static_cast<std::ptrdiff_t>(bytes),
                      stack.bytes.begin() + offset);
  };
  switch (end.kind) {
    case FaultEndpoint::Kind::side: return end.side == side;
    case FaultEndpoint::Kind::mac: return stack.bytes.size() >= Ethernet::size && same(source ? 6 : 0, 6);
    case FaultEndpoint::Kind::ipv4: {
      const Layer* ip = stack.find(info<Ipv4>);
      return ip && same(ip->offset + (source ? 12 : 16), 4);
    }
    case FaultEndpoint::Kind::ipv6: {
      const Layer* ip = stack.find(info<Ipv6>);
      if (!ip) ip = stack.find(info<Grh>);
      return ip && same(ip->offset + (source ? 8 : 24), 16);
    }
  }
  return false;
}

Range region_of(FaultAction::Region region, const HeaderStack& stack) {
  const auto whole = static_cast<std::uint32_t>(stack.bytes.size());
  switch (region) {
    case FaultAction::Region::frame: return {0, whole};
    case FaultAction::Region::payload: return stack.payload;
    case FaultAction::Region::icrc: return stack.icrc;
    case FaultAction::Region::field:
    case FaultAction::Region::header: break;
  }
  // The range from the innermost transport header to the payload.
  if (stack.transport == HeaderStack::none) return {};
  const Layer& transport = stack.layers()[stack.transport];
  const Layer& last = stack.layers().back();
  return {transport.offset, last.offset + last.length - transport.offset};
}

std::string_view name_of(FaultAction::Region region) {
  switch (region) {
    case FaultAction::Region::frame: return "frame";
    case FaultAction::Region::header: return "transport header";
    case FaultAction::Region::payload: return "payload";
    case FaultAction::Region::icrc: return "ICRC";
    case FaultAction::Region::field: return "field";
  }
  return {};
}

/// Returns `wanted` different numbers below `all`, using Floyd's algorithm.
std::vector<std::uint64_t> choose(std::uint64_t wanted, std::uint64_t all, Random& random) {
  std::vector<std::uint64_t> chosen;
  for (std::uint64_t j = all - std::min(wanted, all); j < all; ++j) {
    std::uint64_t bit = random.below(j + 1);
    if (std::find(chosen.begin(), chosen.end(), bit) != chosen.end()) bit = j;
    chosen.push_back(bit);
  }
  return chosen;
}

/// Changes a field as specified by the action. Returns a description. Empty if the frame does not contain the field.
std::string corrupt_field(const FaultAction& action, const HeaderStack& stack, MutableBytes frame, Random& random) {
  const Field& field = *action.field.field;
  const Layer* layer = stack.find(*action.field.header);
  if (!layer || layer->offset + layer->header->size > frame.size()) return {};
  std::uint8_t* const header = frame.data() + layer->offset;
  if (!field.present_in(header)) return {};
  const std::string name = fmt::format("{}.{}", layer->header->name, field.name);
  if (action.set) {
    const std::uint64_t before = field.load(header);
    field.store(header, action.value);
    return fmt::format("{} changed from {:#x} to {:#x}", name, before, action.value);
  }
  if (action.bits > 0) {
    for (const std::uint64_t bit : choose(action.bits, field.width, random))
      header[(field.bit + bit) / 8] ^= static_cast<std::uint8_t>(0x80U >> (field.bit + bit) % 8);
    return fmt::format("{} random bits of {} flipped", std::min<unsigned>(action.bits, field.width), name);
  }
  if (field.is_number()) {
    field.store(header, field.load(header) ^ action.value);
  } else {
    std::uint8_t* const last = header + (field.bit + field.width) / 8 - 8;
    store_be(last, 8, load_be<8>(last) ^ action.value);
  }
  return fmt::format("{}: bits {:#x} flipped", name, action.value);
}

/// Lower layers of a response to the selected frame.
Frame answering(const HeaderStack& stack) {
  Frame frame;
  const auto layers = stack.layers();
  for (std::size_t i = 0; i < stack.transport; ++i) {
    auto parsed = HeaderValue::parse(*layers[i].header, stack.bytes_of(layers[i]));
    if (!parsed) break;
    HeaderValue& header = *parsed;
    for (const auto& [from, to] : {std::pair("src", "dst"), std::pair("sgid", "dgid")}) {
      const Field *a = header.header().find(from), *b = header.header().find(to);
      if (!a || !b) continue;
      const Bytes bytes = header.bytes();
      const std::vector<std::uint8_t> first(a->bytes(bytes.data()).begin(), a->bytes(bytes.data()).end());
      const std::vector<std::uint8_t> second(b->bytes(bytes.data()).begin(), b->bytes(bytes.data()).end());
      header.set(*a, Bytes(second));
      header.set(*b, Bytes(first));
    }
    frame /= std::move(header);
  }
  frame.forget_computed();
  return frame;
}

}  // namespace

struct FaultEngine::State {
  State(FaultProgram p, const Options& o)
      : program(std::move(p)),
        options(o),
        seed(program.seed().value_or(o.seed)),
        coordinator(o.connections),
        counts(program.rules().size()),
        misses(program.rules().size()),
        dissector({.decode = {}, .verify_crcs = uses_crcs(program)}) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      randoms.emplace_back(seed ^ Random(i + 1).next());
      filters |= program.rules()[i].where != nullptr;
      injects |= program.rules()[i].action.kind == FaultAction::Kind::inject;
    }
  }
  static bool uses_crcs(const FaultProgram& program) {
    return std::any_of(program.rules().begin(), program.rules().end(),
                       [](const FaultRule& rule) { return rule.where && rule.where->uses_crcs(); });
  }

  // Latest values seen in frames of a connection to an address, for injected frames.
  struct Seen {
    std::uint32_t dest_qp = 0;
    std::uint32_t side = 0;
    std::uint32_t msn = 0;
  };
  std::map<std::pair<std::uint32_t, tracking::PortAddress>, Seen> seen;
  void look(const HeaderStack& stack, std::uint32_t side) {
    const auto bth = stack.get<Bth>();
    const auto ports = tracking::ports_of(stack);
    if (!bth || !ports || outcome.coordinates.connection == 0) return;
    if (seen.size() >= 4 * std::size_t{options.connections}) seen.clear();
    Seen& there = seen[{outcome.coordinates.connection, ports->to}];
    there.dest_qp = bth->get<"dest_qp">();
    there.side = side;
    if (const auto aeth = stack.get<Aeth>()) there.msn = aeth->get<"msn">();
  }
  /// The frame to inject toward the sender of this frame. Empty if it cannot be built.
  std::vector<std::uint8_t> injection(const FaultAction& action, const HeaderStack& stack, std::uint32_t& side) const {
    const auto bth = stack.get<Bth>();
    const auto ports = tracking::ports_of(stack);
    if (!bth || !ports || stack.transport == HeaderStack::none) return {};
    const auto back = seen.find({outcome.coordinates.connection, ports->from});
    if (outcome.coordinates.connection == 0 || back == seen.end()) return {};
    side = back->second.side;
    Value<Bth> header;
    // XRC has its own Acknowledge opcode. UC and UD have none and use that of RC. IBTA vol 1, 9.2.
    const Opcode* op = action.cnp ? find_opcode(Transport::cnp, Operation::congestion_notification)
                                  : find_opcode(opcode(bth->get<"opcode">()).transport, Operation::acknowledge);
    if (!op) op = find_opcode(Transport::rc, Operation::acknowledge);
    header.set<"opcode">(op->value).set<"pkey">(bth->get<"pkey">()).set<"dest_qp">(back->second.dest_qp);
    Frame frame = answering(stack);
    if (action.cnp) {
      header.set<"becn">(1);  // IBTA vol 1, A17.9.3
      frame /= header;
      frame /= Value<Cnp>();
    } else {
      header.set<"psn">(bth->get<"psn">());
      frame /= header;
      frame /= Value<Aeth>().set<"syndrome">(action.syndrome).set<"msn">(back->second.msn);
    }
    return frame.encode();
  }
  std::deque<std::vector<std::uint8_t>> injected;  // injected frames. The result refers to them

  struct HeldFrame {
    std::vector<std::uint8_t> bytes;
    std::string faults;
    std::uint64_t frame = 0;
    std::uint32_t side = 0;
    std::uint32_t to_pass = 0;
    std::uint32_t copies = 1;
    std::int64_t delay = 0;
    std::int64_t until = 0;
  };

  FaultProgram program;
  Options options;
  std::uint64_t seed;
  Coordinator coordinator;
  std::vector<FaultCount> counts;
  /// Why a rule was not applied.
  struct Miss {
    std::string reason{};         ///< why the action could not be applied to the first such frame
    std::uint64_t unlucky = 0;    ///< frames that only `probability` excluded
    unsigned stage = 0;           ///< selectors that the closest frame matched
    std::string_view selector{};  ///< the next selector, which the closest frame did not match
  };
  std::vector<Miss> misses;
  std::uint32_t last_connection = 0;  ///< highest connection number so far
  std::vector<Random> randoms;
  tracking::Dissector dissector;
  tracking::Packet packet;
  bool filters = false, injects = false;

  std::uint64_t frames = 0;
  std::int64_t first_time = 0;
  std::int64_t now = 0;
  std::list<HeldFrame> held;      // oldest first
  std::list<HeldFrame> released;  // released by this call. The result refers to them
  std::vector<std::uint8_t> own;  // a modified frame
  std::deque<FaultLogEntry> log;
  std::uint64_t log_forgotten = 0;
  FaultOutcome outcome;

  void begin(std::int64_t time) {
    now = std::max(now, time);
    released.clear();
    injected.clear();
    outcome.frame = 0;
    outcome.coordinates = {};
    outcome.faults.clear();
    outcome.dropped = false;
    outcome.leaving.clear();
  }
  void release(std::list<HeldFrame>::iterator frame) {
    released.splice(released.end(), held, frame);
    const HeldFrame& h = released.back();
    for (std::uint32_t i = 0; i < h.copies; ++i)
      outcome.leaving.push_back({h.bytes, later(now, h.delay), h.side, h.frame, h.faults});
  }
  void release_due() {
    for (auto h = held.begin(); h != held.end();) {
      const auto here = h++;
      if (here->until <= now) release(here);
    }
  }
  /// The first selector that excludes the frame. Empty: the rule selects it. `stage` counts the checked selectors.
  [[nodiscard]] std::string_view excluded_by(const FaultRule& rule, const HeaderStack& stack, std::uint32_t side,
                                             std::int64_t time, unsigned& stage) const;
  [[nodiscard]] bool picks(std::size_t index, const HeaderStack& stack, std::uint32_t side, std::int64_t time) {
    unsigned stage = 0;
    const std::string_view selector = excluded_by(program.rules()[index], stack, side, time, stage);
    if (selector.empty()) return true;
    Miss& miss = misses[index];
    if (stage > miss.stage) {
      miss.stage = stage;
      miss.selector = selector;
    }
    return false;
  }
  void note(std::size_t rule, bool done, std::string what, std::int64_t time, std::uint32_t side) {
    ++(done ? counts[rule].done : counts[rule].undoable);
    if (!done && misses[rule].reason.empty()) misses[rule].reason = what;
    if (options.log_entries == 0) {
      ++log_forgotten;
      return;
    }
    if (log.size() >= options.log_entries) {
      log.pop_front();
      ++log_forgotten;
    }
    log.push_back({frames, time, side, static_cast<std::uint32_t>(rule), done, outcome.coordinates, std::move(what)});
  }

  /// A frame, and the effects of the rules that were applied to it.
  struct Arrival {
    const HeaderStack& stack;
    std::int64_t time;
    std::uint32_t side;
    Bytes frame;  ///< the received bytes, or `own` after a modification
    std::uint32_t hold = 0;
    std::uint32_t copies = 1;
    std::int64_t delay = 0;
    std::int64_t hold_time = 0;
    std::vector<FaultedFrame> injections{};
  };
  /// Whether an action could be applied, and the text for the log.
  struct Effect {
    bool done = false;
    std::string what{};
  };
  void locate(Bytes bytes, const Arrival& arrival, std::optional<std::uint32_t> connection);
  /// Whether the rule selects the frame, and `probability`, `nth` and `every` permit the action.
  bool applies(std::size_t index, const Arrival& arrival);
  /// Returns the frame's bytes for a modification.
  std::vector<std::uint8_t>& changed(Arrival& arrival) {
    if (arrival.frame.data() != own.data()) {
      own.assign(arrival.frame.begin(), arrival.frame.end());
      arrival.frame = own;
    }
    return own;
  }
  Effect apply(const FaultAction& action, Random& random, Arrival& arrival);
  Effect mark(const FaultAction& action, Arrival& arrival);
  Effect inject(const FaultAction& action, Arrival& arrival);
  Effect change_syndrome(const FaultAction& action, Arrival& arrival);
  Effect truncate(const FaultAction& action, Arrival& arrival);
  Effect corrupt(const FaultAction& action, Random& random, Arrival& arrival);
  void correct_checksums(const FaultAction& action, const Arrival& arrival);
  /// Sends, holds or drops the frame, and sends the injected frames.
  void leave(const Arrival& arrival);
};

std::string_view FaultEngine::State::excluded_by(const FaultRule& rule, const HeaderStack& stack, std::uint32_t side,
                                                 std::int64_t time, unsigned& stage) const {
  using Kind = FrameCoordinates::Kind;
  const FrameCoordinates& at = outcome.coordinates;
  const Kind wanted = rule.answers ? Kind::answer : Kind::request;
  const bool in_rdma = rule.answers || rule.requests || rule.psn || rule.message || rule.packet;
  const auto outside = [](const std::optional<FaultRange>& range, std::int64_t value) {
    return range && !range->holds(value);
  };
  // For a rule that was never applied, why_not() names the check that the closest frames failed. This is the latest
  // failed check in the order below.
  stage = 1;
  if (rule.from && !is_at(*rule.from, side, stack, true)) return "from";
  ++stage;
  // If there are two sides, the destination is the side that is not the source.
  if (rule.to && (rule.to->kind == FaultEndpoint::Kind::side ? rule.to->side == side || rule.to->side > 1 || side > 1
                                                             : !is_at(*rule.to, side, stack, false)))
    return "to";
  ++stage;
  if (in_rdma && at.kind != wanted) return rule.answers ? "answers" : "requests";
  if ((rule.segment || rule.sequence) && (at.kind != Kind::tcp || at.bytes == 0))
    return rule.segment ? "segment" : "seq";
  if (rule.transmission && (at.transmission == 0 || (at.kind != wanted && at.kind != Kind::tcp))) return "try";
  ++stage;
  if (outside(rule.connection, at.connection)) return "connection";
  ++stage;
  if (rule.qp) {
    const auto bth = stack.get<Bth>();
    if (!bth) return "qp";
    const auto qp = static_cast<std::uint32_t>(bth->get<"dest_qp">());
    const auto named = options.qp_numbers.find(qp);
    if (outside(rule.qp, named == options.qp_numbers.end() ? qp : named->second)) return "qp";
  }
  ++stage;
  if (outside(rule.message, at.message)) return "message";
  ++stage;
  if (outside(rule.packet, at.packet)) return "packet";
  ++stage;
  if (outside(rule.psn, at.psn)) return "psn";
  ++stage;
  if (outside(rule.segment, at.segment)) return "segment";
  // A segment matches if one of its bytes is in the range.
  if (rule.sequence && (at.sequence > rule.sequence->to || at.sequence + at.bytes <= rule.sequence->from)) return "seq";
  ++stage;
  if (outside(rule.transmission, at.transmission)) return "try";
  ++stage;
  if (rule.after && time - first_time < *rule.after) return "after";
  if (rule.before && time - first_time >= *rule.before) return "before";
  ++stage;
  return rule.where && !rule.where->matches(packet) ? "where" : std::string_view();
}

FaultEngine::FaultEngine(FaultProgram program, const Options& options)
    : state_(std::make_unique<State>(std::move(program), options)) {}
FaultEngine::FaultEngine(FaultEngine&&) noexcept = default;
FaultEngine& FaultEngine::operator=(FaultEngine&&) noexcept = default;
FaultEngine::~FaultEngine() = default;

void FaultEngine::State::locate(Bytes bytes, const Arrival& arrival, std::optional<std::uint32_t> connection) {
  FrameCoordinates& at = outcome.coordinates;
  at = coordinator.locate(arrival.stack);
  if (at.connection != 0) {
    if (options.connection != 0) at.connection = options.connection;
    if (connection) at.connection = *connection;
  }
  last_connection = std::max(last_connection, at.connection);
  if (injects) look(arrival.stack, arrival.side);
  if (filters) {
    packet.number = frames;
    packet.time_ns = arrival.time;
    packet.link = LinkType::ethernet;
    dissector.dissect(packet, bytes, static_cast<std::uint32_t>(bytes.size()));
  }
}

bool FaultEngine::State::applies(std::size_t index, const Arrival& arrival) {
  const FaultRule& rule = program.rules()[index];
  if (!picks(index, arrival.stack, arrival.side, arrival.time)) return false;
  if (rule.probability < 1 && randoms[index].unit() >= rule.probability) {
    ++misses[index].unlucky;
    return false;
  }
  const std::uint64_t count = ++counts[index].picked;
  if (rule.nth && !rule.nth->holds(static_cast<std::int64_t>(count))) return false;
  return rule.every <= 1 || count % rule.every == 0;
}

FaultEngine::State::Effect FaultEngine::State::apply(const FaultAction& action, Random& random, Arrival& arrival) {
  switch (action.kind) {
    case FaultAction::Kind::drop: outcome.dropped = true; return {true, "dropped"};
    case FaultAction::Kind::delay:
      arrival.delay = later(arrival.delay, action.time);
      return {true, fmt::format("delayed by {} us", static_cast<double>(action.time) / 1000)};
    case FaultAction::Kind::hold:
      arrival.hold = std::max(arrival.hold, action.count);
      arrival.hold_time = std::max(arrival.hold_time, action.time);
      return {true, fmt::format("held until {} passed", action.count)};
    case FaultAction::Kind::duplicate:
      arrival.copies = std::min(arrival.copies + action.count, 1000U);
      return {true, fmt::format("sent {} times", action.count + 1)};
    case FaultAction::Kind::mark: return mark(action, arrival);
    case FaultAction::Kind::inject: return inject(action, arrival);
    case FaultAction::Kind::change: return change_syndrome(action, arrival);
    case FaultAction::Kind::truncate: return truncate(action, arrival);
    case FaultAction::Kind::corrupt: return corrupt(action, random, arrival);
  }
  return {};
}

FaultEngine::State::Effect FaultEngine::State::mark(const FaultAction& action, Arrival& arrival) {
  if (!set_ecn(changed(arrival), arrival.stack, action.ecn)) return {false, "not marked: no IP header"};
  return {true, fmt::format("marked {}", action.ecn == 3   ? "CE"
                                         : action.ecn == 2 ? "ECT(0)"
                                         : action.ecn == 1 ? "ECT(1)"
                                                           : "Not-ECT")};
}

FaultEngine::State::Effect FaultEngine::State::inject(const FaultAction& action, Arrival& arrival) {
  std::uint32_t from = 0;
  auto made = injection(action, arrival.stack, from);
  if (made.empty()) return {false, "not injected: the QP of the sender is unknown"};
  injected.push_back(std::move(made));
  arrival.injections.push_back({injected.back(), arrival.time, from, frames, "injected"});
  return {true, fmt::format("{} injected toward the sender", action.cnp ? "a CNP" : "an acknowledgement")};
}

FaultEngine::State::Effect FaultEngine::State::change_syndrome(const FaultAction& action, Arrival& arrival) {
  const Layer* aeth = arrival.stack.find(info<Aeth>);
  if (!aeth || opcode(arrival.stack.get<Bth>()->get<"opcode">()).operation != Operation::acknowledge ||
      aeth->offset + Aeth::size > arrival.frame.size())
    return {false, "not changed: not an acknowledgement"};
  constexpr Field syndrome = detail::field_of<Aeth>("syndrome");
  const std::uint64_t before = syndrome.load(arrival.frame.data() + aeth->offset);
  syndrome.store(changed(arrival).data() + aeth->offset, action.syndrome);
  mend_icrc(own);
  return {true, fmt::format("syndrome changed from {:#04x} to {:#04x}", before, action.syndrome)};
}

FaultEngine::State::Effect FaultEngine::State::truncate(const FaultAction& action, Arrival& arrival) {
  const std::size_t size = arrival.frame.size();
  if (size <= action.count) return {false, fmt::format("not truncated: {} bytes", size)};
  changed(arrival).resize(action.count);
  arrival.frame = own;
  return {true, fmt::format("truncated from {} to {} bytes", size, action.count)};
}

FaultEngine::State::Effect FaultEngine::State::corrupt(const FaultAction& action, Random& random, Arrival& arrival) {
  if (action.region == FaultAction::Region::field) {
    std::string what = corrupt_field(action, arrival.stack, changed(arrival), random);
    if (!what.empty()) return {true, std::move(what)};
    return {false, fmt::format("not corrupted: no {}.{}", action.field.header->name, action.field.field->name)};
  }
  Range region = region_of(action.region, arrival.stack);
  const auto size = static_cast<std::uint32_t>(arrival.frame.size());  // an earlier rule may have truncated it
  region.length = region.offset >= size ? 0 : std::min(region.length, size - region.offset);
  if (action.bits > 0 && region.length > 0) {
    std::vector<std::uint8_t>& raw = changed(arrival);
    const auto chosen = choose(action.bits, std::uint64_t{region.length} * 8, random);
    for (const std::uint64_t bit : chosen) raw[region.offset + bit / 8] ^= static_cast<std::uint8_t>(0x80U >> bit % 8);
    return {true, fmt::format("{} random bits of the {} flipped", chosen.size(), name_of(action.region))};
  }
  if (action.bits == 0 && action.byte < region.length) {
    changed(arrival)[region.offset + action.byte] ^= action.mask;
    return {true,
            fmt::format("byte {} of the {}: bits {:#04x} flipped", action.byte, name_of(action.region), action.mask)};
  }
  return {false, fmt::format("not corrupted: the {} has {} bytes", name_of(action.region), region.length)};
}

void FaultEngine::State::correct_checksums(const FaultAction& action, const Arrival& arrival) {
  if (arrival.frame.data() != own.data() || own.empty()) return;
  if (action.fix_ip) mend_ip_checksums(own);
  if (action.fix_transport) mend_transport_checksum(own);
  if (action.fix_icrc) mend_icrc(own);
}

void FaultEngine::State::leave(const Arrival& arrival) {
  const auto send_injections = [&] {
    outcome.leaving.insert(outcome.leaving.end(), arrival.injections.begin(), arrival.injections.end());
  };
  if (outcome.dropped) return send_injections();
  const Bytes frame = arrival.frame;
  if (arrival.hold > 0) {
    send_injections();
    if (held.size() >= options.held_frames && !held.empty()) release(held.begin());
    held.push_back({{frame.begin(), frame.end()},
                    outcome.faults,
                    frames,
                    arrival.side,
                    arrival.hold,
                    arrival.copies,
                    arrival.delay,
                    later(arrival.time, arrival.hold_time)});
    return;
  }
  for (std::uint32_t i = 0; i < arrival.copies; ++i)
    outcome.leaving.push_back({frame, later(arrival.time, arrival.delay), arrival.side, frames, outcome.faults});
  send_injections();
  // This frame passes the held ones.
  for (auto h = held.begin(); h != held.end();) {
    const auto here = h++;
    if (here->side == arrival.side && --here->to_pass == 0) release(here);
  }
}

const FaultOutcome& FaultEngine::arrived(Bytes bytes, std::int64_t time, std::uint32_t side,
                                         std::optional<std::uint32_t> connection) {
  State& s = *state_;
  s.begin(time);
  if (s.frames++ == 0) s.first_time = s.now;
  s.outcome.frame = s.frames;
  s.release_due();

  const HeaderStack stack = decode(bytes);
  State::Arrival arrival{stack, s.now, side, bytes};
  s.locate(bytes, arrival, connection);
  s.own.clear();
  const auto rules = s.program.rules();
  for (std::size_t i = 0; i < rules.size() && !s.outcome.dropped; ++i) {
    if (!s.applies(i, arrival)) continue;
    State::Effect effect = s.apply(rules[i].action, s.randoms[i], arrival);
    if (effect.done) s.correct_checksums(rules[i].action, arrival);
    if (!s.outcome.faults.empty()) s.outcome.faults += "; ";
    s.outcome.faults += fmt::format("{} by rule {}", effect.what, i + 1);
    s.note(i, effect.done, std::move(effect.what), arrival.time, side);
  }
  s.leave(arrival);
  return s.outcome;
}

std::int64_t FaultEngine::wakes() const {
  std::int64_t first = never;
  for (const State::HeldFrame& h : state_->held) first = std::min(first, h.until);
  return first;
}

const FaultOutcome& FaultEngine::due(std::int64_t time) {
  State& s = *state_;
  s.begin(time);
  s.release_due();
  return s.outcome;
}

const FaultOutcome& FaultEngine::finish(std::int64_t time) {
  State& s = *state_;
  s.begin(time);
  while (!s.held.empty()) s.release(s.held.begin());
  return s.outcome;
}

const FaultProgram& FaultEngine::program() const { return state_->program; }
std::span<const FaultCount> FaultEngine::counts() const { return state_->counts; }

std::string FaultEngine::why_not(std::size_t rule) const {
  const State& s = *state_;
  const FaultCount& count = s.counts[rule];
  const State::Miss& miss = s.misses[rule];
  if (count.undoable > 0) return miss.reason;
  if (count.done > 0) return {};
  if (count.picked > 0)
    return fmt::format("{} frames match, too few for {}", count.picked,
                       s.program.rules()[rule].nth ? "nth or first" : "every");
  if (miss.unlucky > 0) return fmt::format("{} frames match, but probability excluded all of them", miss.unlucky);
  if (s.frames == 0) return "there was no frame";
  if (miss.selector.empty()) return "an earlier rule drops all frames";
  std::string text = fmt::format("no frame matches: the closest ones do not match {}", miss.selector);
  if (miss.selector == "psn") text += " (PSNs are relative to the first one of the direction)";
  if (miss.selector == "connection") {
    if (s.last_connection == 0)
      text += " (they belong to no connection)";
    else if (s.options.connection != 0 || s.last_connection == 1)
      text += fmt::format(" (they belong to connection {})", s.last_connection);
    else
      text += fmt::format(" (they belong to connections 1 to {})", s.last_connection);
  }
  return text;
}
const std::deque<FaultLogEntry>& FaultEngine::log() const { return state_->log; }
std::uint64_t FaultEngine::log_forgotten() const { return state_->log_forgotten; }
std::uint64_t FaultEngine::frames() const { return state_->frames; }
std::uint64_t FaultEngine::seed() const { return state_->seed; }

std::string to_string(const FaultLogEntry& entry, const FaultProgram& program) {
  const std::string side =
      entry.side < 26 ? std::string(1, static_cast<char>('a' + entry.side)) : std::to_string(entry.side + 1);
  return fmt::format("frame {} from {} ({}): {} by rule {}: {}", entry.frame, side, to_string(entry.coordinates),
                     entry.what, entry.rule + 1,
                     entry.rule < program.rules().size() ? program.rules()[entry.rule].text : "");
}

}  // namespace rdmawire::replay
