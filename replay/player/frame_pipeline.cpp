#include "replay/player/frame_pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "captures/analysis/findings.hpp"
#include "dissectors/output/json.hpp"
#include "dissectors/protocol/bits.hpp"
#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/tracking/address.hpp"
#include "replay/faults/recompute_checksums.hpp"
#include "replay/player/frame_lengths.hpp"

namespace rdmawire::replay {

Sides::Sides(const FlowMap& map) {
  for (const MappedConnection& c : map.connections)
    for (const Side end : {Side::a, Side::b}) {
      if (c.at(end).mac.captured) macs_.try_emplace(*c.at(end).mac.captured, end);
      if (c.at(end).address.captured) addresses_.try_emplace(*c.at(end).address.captured, end);
    }
}

std::optional<Side> Sides::of(const HeaderStack& stack) const {
  if (const auto ports = tracking::ports_of(stack))
    if (const auto found = addresses_.find(ports->from); found != addresses_.end()) return found->second;
  if (const auto ethernet = stack.get<Ethernet>())
    if (const auto found = macs_.find(ethernet->get<"src">()); found != macs_.end()) return found->second;
  return std::nullopt;
}

FramePipeline::FramePipeline(const PlayerOptions& options, std::span<Wire* const> wires)
    : options_(options),
      loops_(options.preload && !options.loops_differ() ? 1 : options.loops),
      wires_(wires),
      source_(options.files),
      rewriter_(options.map, options.rewrite),
      resegmenter_(options.map),
      sides_(options.map),
      rewrites_(!options.map.empty() || changes_frames(options.rewrite) || options.changes.ip_step != 0) {
  for (const Wire* wire : wires) {
    to_ethernet_ |= wire->capabilities().link == LinkType::ethernet;
    limits_.push_back(dynamic_cast<const FrameLimits*>(wire));
  }
  for (const MappedConnection& c : options.map.connections) dissects_ |= c.service == tracking::Service::iwarp;
  dissects_ |= options.include || options.exclude || options.first_wire;
  dissector_options_.verify_crcs = rewrites_;
  for (const auto* filter : {&options.include, &options.exclude, &options.first_wire})
    dissector_options_.verify_crcs |= *filter && (*filter)->uses_crcs();
  if (!options.faults.rules().empty()) {
    FaultEngineOptions how;
    how.seed = options.fault_seed;
    faults_.emplace(options.faults, how);
  }
}

bool FramePipeline::begin() {
  if (to_ethernet_) {
    auto conversion = learn_links(source_);
    if (!conversion) {
      trouble_ = conversion.error();
      return false;
    }
    links_ = std::move(*conversion);
  } else if (auto begun = source_.begin(); !begun) {
    trouble_ = begun.error();
    return false;
  }
  dissector_.emplace(dissector_options_);
  more_ = advance();
  return more_;
}

void FramePipeline::begin_schedule(std::optional<std::int64_t> anchor) {
  anchor_ = anchor;
  tally_.loop = 1;
}

std::unique_ptr<Slot> FramePipeline::next() {
  std::unique_ptr<Slot> slot;
  while (!step(slot)) {
  }
  return slot;
}

bool FramePipeline::step(std::unique_ptr<Slot>& slot) {
  slot = nullptr;
  if (!ready_.empty()) {
    slot = std::move(ready_.front());
    ready_.pop_front();
    return true;
  }
  if (!delayed_.empty() && (!more_ || delayed_.top()->time <= coming_)) {
    slot = pop_delayed();
    return true;
  }
  if (!trouble_.empty()) return true;
  // next() may skip many frames before it returns, so check for a stop here.
  if (options_.stop && options_.stop->load(std::memory_order_relaxed)) return true;
  if (more_ || next_loop()) {
    process();
    return false;
  }
  if (!faults_ || finished_) return true;
  finished_ = true;
  take(faults_->finish(std::max(fault_time_, coming_)));
  return false;
}

const FrameCounters& FramePipeline::tally() {
  if (faults_) tally_.faults.assign(faults_->counts().begin(), faults_->counts().end());
  std::tie(tally_.position, tally_.whole) = source_.position();
  return tally_;
}

void FramePipeline::tell(ReplayReport& report, const FrameCounters& tally) const {
  report.read = tally.read;
  report.loops = tally.loop;
  report.truncated = tally.truncated;
  report.padded = tally.padded;
  report.shortened = tally.shortened;
  report.fragmented = tally.fragmented;
  report.fragments = tally.fragments;
  report.converted = tally.converted;
  report.rewritten = tally.rewritten;
  report.divided_pdus = tally.divided_pdus;
  report.fcs = tally.fcs;
  report.fcs_changed = tally.fcs_changed;
  report.fcs_removed = options_.fcs == PlayerOptions::Fcs::remove && tally.fcs_changed != 0;
  report.tagged = tally.tagged;
  report.labeled = tally.labeled;
  for (std::size_t i = 0; i < skips; ++i) {
    if (tally.skipped[i] == 0) continue;
    report.skipped[i] = first_skipped_[i];
    report.skipped[i].frames = tally.skipped[i];
  }
  if (!faults_) return;
  const auto& rules = faults_->program().rules();
  for (std::size_t i = 0; i < rules.size(); ++i) {
    report.faults.push_back({rules[i].text, i < tally.faults.size() ? tally.faults[i] : FaultCount{},
                             faults_->why_not(i), rules[i].probability < 1});
    report.chance |= rules[i].probability < 1 || rules[i].action.bits > 0;
  }
  report.fault_seed = faults_->seed();
  // A prefetching pipeline is ahead of the last frame that was sent.
  const auto kept = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(fault_hits_.size(), tally.fault_hits));
  report.fault_hits.assign(fault_hits_.begin(), fault_hits_.begin() + kept);
  report.fault_hits_omitted = tally.fault_hits - report.fault_hits.size();
}

bool FramePipeline::advance() {
  if (source_.next(record_)) return true;
  if (!source_.error().empty()) trouble_ = source_.error();
  return false;
}

bool FramePipeline::next_loop() {
  if (!trouble_.empty() || (loops_ != 0 && tally_.loop >= loops_)) return false;
  // Stops after a loop without frames to send.
  if (slots_ == slots_before_loop_) return false;
  slots_before_loop_ = slots_;
  if (auto begun = source_.begin(); !begun) {
    trouble_ = begun.error();
    return false;
  }
  dissector_.emplace(dissector_options_);
  ++tally_.loop;
  if (schedule_) schedule_->begin_again(options_.pause);
  if (nominal_) nominal_->begin_again(options_.pause);
  change_map();
  resegmenter_.begin_again();
  return more_ = advance();
}

void FramePipeline::change_map() {
  const LoopChanges& changes = options_.changes;
  FlowMap& map = rewriter_.map();
  const bool steps = changes.ip_step && (tally_.loop - 1) % changes.ip_loops == 0;
  if (steps) map.address_step += changes.ip_step;
  for (std::size_t i = 0; i < map.connections.size(); ++i)
    for (std::size_t e = 0; e < 2; ++e) {
      MappedEnd& end = map.connections[i].ends[e];
      const bool iwarp = map.connections[i].service == tracking::Service::iwarp;
      if (i < changes.psns.size() && end.psn.captured && !iwarp)
        end.psn.live = (end.psn.live.value_or(*end.psn.captured) + changes.psns[i][e]) & Psn::mask;
      if (i < changes.msns.size() && end.msn.captured && !iwarp)
        end.msn.live = (end.msn.live.value_or(*end.msn.captured) + changes.msns[i][e]) & Psn::mask;
      if (steps && end.address.captured)
        end.address.live = stepped(end.address.live.value_or(*end.address.captured), changes.ip_step);
      if (changes.qp_step && end.qp.captured)
        end.qp.live = (end.qp.live.value_or(*end.qp.captured) + changes.qp_step) & (iwarp ? 0xffff : 0xffffff);
    }
}

std::unique_ptr<Slot> FramePipeline::make_slot() {
  if (free_.empty()) return std::make_unique<Slot>();
  auto slot = std::move(free_.back());
  free_.pop_back();
  slot->comment.clear();
  return slot;
}

void FramePipeline::skip(Skip why, std::string example) {
  const auto kind = static_cast<std::size_t>(why);
  if (tally_.skipped[kind]++ == 0) first_skipped_[kind] = {0, source_.number(), std::move(example)};
}

void FramePipeline::process() {
  ++tally_.read;
  if (to_ethernet_ && LinkConversion::supports(record_.link)) tally_.converted += links_.convert(record_);
  const std::uint64_t number = source_.number();
  packet_.number = number;
  packet_.time_ns = record_.time;
  packet_.link = record_.link;
  Bytes bytes = record_.bytes;
  bool snapped = record_.bytes.size() < record_.wire_length;
  bool padded = false;
  if (snapped && options_.snapped == PlayerOptions::Snapped::pad) {
    padded_.assign(bytes.begin(), bytes.end());
    padded_.resize(record_.wire_length);
    mend_icrc(padded_, decode(padded_, record_.link));
    bytes = padded_;
    padded = true;
  }
  bool shortened = false;
  if (snapped && options_.snapped == PlayerOptions::Snapped::shorten) {
    padded_.assign(bytes.begin(), bytes.end());
    if (const auto length = shorten_frame(padded_, record_.link, padded_.size())) {
      bytes = Bytes(padded_).first(*length);
      shortened = true;
      snapped = false;
    }
  }
  std::uint32_t wire_length = padded || shortened ? static_cast<std::uint32_t>(bytes.size()) : record_.wire_length;
  // The length of the frame and its filters are those without a frame check sequence that is removed.
  fcs_ = false;
  if (options_.fcs == PlayerOptions::Fcs::remove && !snapped && has_fcs(bytes)) {
    bytes = bytes.first(bytes.size() - fcs_bytes);
    wire_length -= fcs_bytes;
    fcs_ = true;
  }
  if (dissects_)
    dissector_->dissect(packet_, bytes, wire_length);
  else
    decode(packet_.stack, bytes, record_.link, wire_length);

  // Only selected frames affect the schedule.
  if ((options_.include && !options_.include->matches(packet_)) ||
      (options_.exclude && options_.exclude->matches(packet_))) {
    skip(Skip::excluded);
    more_ = advance();
    return;
  }
  tally_.shortened += shortened;
  if (options_.first_wire) matches_first_wire_ = options_.first_wire->matches(packet_);
  if (!schedule_) {
    const std::int64_t anchor = anchor_.value_or(record_.time);
    schedule_.emplace(options_.pace, anchor);
    if (options_.pace.kind == Pace::Kind::top) nominal_.emplace(Pace{}, anchor);
  }
  // A schedule by captured times advances with every selected frame. A rate counts only the frames to send, in leave().
  std::int64_t nominal = 0;
  if (!has_rate()) {
    nominal = schedule_->next(record_.time, static_cast<std::uint32_t>(bytes.size()));
    if (nominal_) nominal = nominal_->next(record_.time, static_cast<std::uint32_t>(bytes.size()));
    coming_ = nominal;
  }
  emit(bytes, snapped && !padded, padded, nominal);
  more_ = advance();
}

void FramePipeline::emit(Bytes bytes, bool snapped, bool padded, std::int64_t nominal) {
  if (resegmenter_.needed()) {
    const HeaderStack captured = packet_.stack;
    if (const auto place = rewriter_.find(captured, packet_.number)) {
      const Resegmenter::Result cut = resegmenter_.take(captured, *place);
      if (cut.outcome == Resegmenter::Result::Outcome::dropped) return skip(Skip::recut, std::string(cut.why));
      if (cut.outcome == Resegmenter::Result::Outcome::replaced) {
        for (const auto& frame : cut.frames) {
          decode(packet_.stack, frame, record_.link, static_cast<std::uint32_t>(frame.size()));
          if (auto slot = shape(frame, false, captured)) leave(std::move(slot), false, nominal);
        }
        return;
      }
    }
  }
  if (auto slot = shape(bytes, snapped, packet_.stack)) leave(std::move(slot), padded, nominal);
}

void FramePipeline::leave(std::unique_ptr<Slot> slot, bool padded, std::int64_t nominal) {
  if (has_rate()) coming_ = nominal = schedule_->next(record_.time, static_cast<std::uint32_t>(slot->bytes.size()));
  slot->time = nominal;
  slot->order = slots_++;
  slot->number = packet_.number;
  slot->loop = tally_.loop;
  tally_.padded += padded;
  if (!faults_) return enqueue(std::move(slot));
  fault_time_ = std::max(fault_time_, nominal);
  if (faults_->wakes() <= fault_time_) take(faults_->due(fault_time_));
  engine_slots_[faults_->frames() + 1] = {slot->lane, slot->connection, slot->from, slot->number};
  if (engine_slots_.size() > most_engine_slots) engine_slots_.erase(engine_slots_.begin());
  std::optional<std::uint32_t> connection;
  if (!options_.numbers.empty())
    connection = slot->connection < options_.numbers.size() ? options_.numbers[slot->connection] : 0;
  const FaultOutcome& outcome = faults_->arrived(slot->bytes, fault_time_, side_of(*slot), connection);
  if (!outcome.faults.empty()) log_faults(outcome);
  take(outcome);
  recycle(std::move(slot));
}

void FramePipeline::log_faults(const FaultOutcome& outcome) {
  const std::deque<FaultLogEntry>& log = faults_->log();
  std::size_t first = log.size();
  while (first > 0 && log[first - 1].frame == outcome.frame) --first;
  for (std::size_t i = first; i < log.size(); ++i) {
    ++tally_.fault_hits;
    const bool keeps = fault_hits_.size() < most_fault_hits;
    if (!keeps && !options_.on_fault) continue;
    FaultHit hit{log[i], tally_.loop, {}};
    hit.entry.frame = packet_.number;
    hit.text = to_string(hit.entry, faults_->program());
    if (options_.on_fault) options_.on_fault(hit);
    if (keeps) fault_hits_.push_back(std::move(hit));
  }
}

bool FramePipeline::has_fcs(Bytes bytes) const {
  if (record_.link != LinkType::ethernet || bytes.size() < Ethernet::size + fcs_bytes) return false;
  const Bytes frame = bytes.first(bytes.size() - fcs_bytes);
  // IEEE 802.3, 3.2.9: the CRC-32 of the frame, least significant byte first.
  return load_le(bytes.data() + frame.size(), fcs_bytes) == crc32(frame);
}

void FramePipeline::finish_fcs(std::vector<std::uint8_t>& bytes) {
  if (options_.fcs == PlayerOptions::Fcs::remove) {
    tally_.fcs += fcs_;
    tally_.fcs_changed += fcs_;
    return;
  }
  // Computes the CRC only of frames with bytes after the packet, frames of an unknown length (ARP and others), or if
  // other frames have a frame check sequence.
  const HeaderStack& stack = packet_.stack;
  if (stack.layers().empty()) return;
  const Layer& last = stack.layers().back();
  const std::uint32_t end =
      std::max({last.offset + last.length, stack.payload.end(), stack.pad.end(), stack.icrc.end(), stack.vcrc.end()});
  if (!fcs_seen_ && stack.network != HeaderStack::none && end + fcs_bytes > stack.bytes.size()) return;
  if (!has_fcs(stack.bytes)) return;
  fcs_seen_ = true;
  ++tally_.fcs;
  if (options_.fcs == PlayerOptions::Fcs::keep || bytes.size() < Ethernet::size + fcs_bytes ||
      std::ranges::equal(bytes, stack.bytes))
    return;
  const std::size_t at = bytes.size() - fcs_bytes;
  store_le(bytes.data() + at, fcs_bytes, crc32(Bytes(bytes).first(at)));
  ++tally_.fcs_changed;
}

std::uint32_t FramePipeline::side_of(const Slot& slot) const {
  return wires_.size() > 1 ? slot.lane : static_cast<std::uint32_t>(slot.from);
}

std::unique_ptr<Slot> FramePipeline::shape(Bytes bytes, bool snapped, const HeaderStack& captured) {
  auto slot = make_slot();
  Rewritten rewritten;
  slot->bytes.resize(bytes.size() + Rewriter::growth);
  if (rewrites_) {
    rewritten = dissects_ ? rewriter_.rewrite(packet_, slot->bytes)
                          : rewriter_.rewrite(packet_.stack, slot->bytes, packet_.number);
    for (const tracking::Pdu& pdu : packet_.pdus) tally_.divided_pdus += dissects_ && pdu.reassembled;
  } else {
    std::copy(bytes.begin(), bytes.end(), slot->bytes.begin());
    rewritten.frame = Bytes(slot->bytes).first(bytes.size());
  }
  bool leaves = check(rewritten, *slot, snapped);
  if (leaves && record_.link == LinkType::ethernet) {
    if (!snapped) finish_fcs(slot->bytes);
    constexpr std::size_t type = detail::field_of<Ethernet>("type").bit / 8;
    const std::uint64_t tag = slot->bytes.size() > type + 2 ? load_be<2>(slot->bytes.data() + type) : 0;
    tally_.tagged += tag == ethertype::vlan || tag == ethertype::provider_vlan;
    tally_.labeled += packet_.stack.network != HeaderStack::none &&
                      packet_.stack.layers()[packet_.stack.network].header != &info<Ipv4>;
  }
  tally_.rewritten += leaves && rewrites_ && !std::ranges::equal(slot->bytes, captured.bytes);
  if (options_.on_frame)
    options_.on_frame(
        {packet_.number, tally_.loop, captured, leaves ? Bytes(slot->bytes) : Bytes(), rewritten, slot->lane});
  if (leaves && options_.edit) {
    auto edited = options_.edit({packet_.number, tally_.loop, captured, slot->bytes, rewritten, slot->lane});
    if (!edited) skip(Skip::excluded);
    leaves = edited.has_value();
    if (edited) slot->bytes = std::move(*edited);
  }
  if (leaves) return slot;
  recycle(std::move(slot));
  return nullptr;
}

bool FramePipeline::check(const Rewritten& rewritten, Slot& slot, bool snapped) {
  if (rewritten.outcome == Rewritten::Outcome::refused) {
    trouble_ = fmt::format("frame {}: {}: {}", packet_.number, who_sent(), rewritten.why);
    return false;
  }
  if (rewritten.outcome == Rewritten::Outcome::dropped) {
    const bool rdma = rewritten.connection != Rewritten::none || packet_.stack.find(info<Bth>);
    skip(rdma ? Skip::unmapped : Skip::others, who_sent());
    return false;
  }
  slot.bytes.resize(rewritten.frame.size());
  slot.connection = rewritten.connection;
  slot.from = rewritten.from;
  const std::optional<Side> side = rewritten.connection != Rewritten::none ? std::optional(rewritten.from)
                                   : needs_sides()                         ? sides_.of(packet_.stack)
                                                                           : std::nullopt;
  slot.from = side.value_or(Side::a);
  slot.lane = 0;
  if (wires_.size() > 1 && options_.lanes == PlayerOptions::Lanes::by_end) {
    if (!side) return skip(Skip::lane, who_sent()), false;
    slot.lane = static_cast<std::uint32_t>(*side);
  } else if (wires_.size() > 1 && options_.lanes == PlayerOptions::Lanes::by_filter) {
    slot.lane = matches_first_wire_ ? 0 : 1;
  } else if (options_.lanes == PlayerOptions::Lanes::by_file) {
    slot.lane = static_cast<std::uint32_t>(std::min(source_.file(), wires_.size() - 1));
  }
  using Snapped = PlayerOptions::Snapped;
  if (snapped && (options_.snapped == Snapped::skip || options_.snapped == Snapped::shorten))
    return skip(Skip::snapped, fmt::format("{} of {} bytes", record_.bytes.size(), record_.wire_length)), false;
  const WireCapabilities& wire = wires_[slot.lane]->capabilities();
  if (record_.link != wire.link)
    return skip(Skip::link,
                fmt::format("{}, but the wire uses {}{}", output::link_name(record_.link), output::link_name(wire.link),
                            wire.virtual_time ? " (file:PATH,link=TYPE sets another)" : "")),
           false;
  if (!fit(slot)) return false;
  if (!options_.allow_groups && record_.link == LinkType::ethernet && !slot.bytes.empty() && (slot.bytes[0] & 1))
    return skip(Skip::group), false;
  return true;
}

std::string FramePipeline::who_sent() const {
  const auto ports = tracking::ports_of(packet_.stack);
  if (!ports) return "the frame has no addresses";
  std::string text = captures::analysis::to_text(ports->from) + " → " + captures::analysis::to_text(ports->to);
  if (const auto bth = packet_.stack.get<Bth>()) text += fmt::format(" QP {:#x}", bth->get<"dest_qp">());
  return text;
}

void FramePipeline::take(const FaultOutcome& outcome) {
  for (const FaultedFrame& leaving : outcome.leaving) {
    auto slot = make_slot();
    slot->bytes.assign(leaving.bytes.begin(), leaving.bytes.end());
    slot->time = leaving.time;
    slot->order = slots_++;
    const auto known = engine_slots_.find(leaving.frame);
    slot->lane =
        wires_.size() > 1 ? std::min<std::uint32_t>(leaving.side, static_cast<std::uint32_t>(wires_.size()) - 1) : 0;
    slot->connection = known == engine_slots_.end() ? Rewritten::none : known->second.connection;
    slot->from = known == engine_slots_.end() ? Side::a : known->second.from;
    slot->number = known == engine_slots_.end() ? 0 : known->second.number;
    slot->loop = tally_.loop;
    if (!leaving.faults.empty()) slot->comment = fmt::format("frame {}: {}", slot->number, leaving.faults);
    enqueue(std::move(slot));
  }
}

void FramePipeline::enqueue(std::unique_ptr<Slot> slot) {
  const std::size_t most = limit_of(slot->lane, slot->bytes);
  if (options_.too_long != PlayerOptions::TooLong::fragment || slot->bytes.size() <= most) return push(std::move(slot));
  const auto fragments = fragment_frame(slot->bytes, wires_[slot->lane]->capabilities().link, most, ++fragment_id_);
  // A frame with faults may have become invalid. The wire then rejects it.
  if (fragments.empty()) return push(std::move(slot));
  ++tally_.fragmented;
  tally_.fragments += fragments.size();
  for (const auto& bytes : fragments) {
    auto part = make_slot();
    *part = *slot;
    part->bytes = bytes;
    part->order = slots_++;
    push(std::move(part));
  }
  recycle(std::move(slot));
}

std::size_t FramePipeline::limit_of(std::uint32_t lane, Bytes frame) const {
  const WireCapabilities& wire = wires_[lane]->capabilities();
  std::size_t most = limits_[lane] ? limits_[lane]->max_bytes_of(frame) : wire.max_bytes;
  if (most == 0) most = std::numeric_limits<std::size_t>::max();
  if (options_.mtu == 0) return most;
  std::size_t header = 0;
  if (wire.link == LinkType::ethernet) {
    header = Ethernet::size;
    const auto type = [&] { return frame.size() < header ? 0 : load_be<2>(frame.data() + header - 2); };
    while (type() == ethertype::vlan || type() == ethertype::provider_vlan) header += Vlan::size;
  }
  return std::min(most, options_.mtu + header);
}

bool FramePipeline::fit(Slot& slot) {
  const std::size_t most = limit_of(slot.lane, slot.bytes), bytes = slot.bytes.size();
  if (bytes <= most) return true;
  using TooLong = PlayerOptions::TooLong;
  const LinkType link = record_.link;
  if (options_.too_long == TooLong::truncate) {
    slot.bytes.resize(most);
    ++tally_.truncated;
    return true;
  }
  if (options_.too_long == TooLong::shorten) {
    if (const auto length = shorten_frame(slot.bytes, link, most)) {
      slot.bytes.resize(*length);
      ++tally_.shortened;
      return true;
    }
  }
  if (options_.too_long == TooLong::fragment && !fragment_frame(slot.bytes, link, most, 0).empty()) return true;
  std::string_view why;
  if (options_.too_long == TooLong::shorten) why = ", and the headers alone exceed it";
  if (options_.too_long == TooLong::fragment) why = ", and the frame is not an IP packet that can be fragmented";
  skip(Skip::too_long, fmt::format("{} bytes, the maximum {} is {}{}", bytes,
                                   options_.mtu ? "of the wire and --mtu" : "of the wire", most, why));
  return false;
}

std::unique_ptr<Slot> FramePipeline::pop_delayed() {
  auto slot = std::move(const_cast<std::unique_ptr<Slot>&>(delayed_.top()));
  delayed_.pop();
  return slot;
}

}  // namespace rdmawire::replay
