#include "conformance/attribution/traffic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <map>
#include <optional>
#include <stdexcept>

#include "conformance/device/roce/device.hpp"
#include "dissectors/machines/psn_window.hpp"
#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::attribution {
namespace {

using namespace device;

constexpr std::int64_t never = replay::SimulatedHost::never;
constexpr std::uint64_t buffer_bytes = 1U << 20;
/// Maximum time for which a packet waits to be overtaken, like the difference in delay of two network paths.
constexpr std::int64_t most_held_ns = 30'000;
constexpr std::int64_t capture_start = 1'790'000'000'000'000'000;
constexpr std::uint16_t service_port = 7471;

std::uint32_t ipv4_of(unsigned number) { return 0x0a000001U + number; }
Gid address_of(unsigned number) { return Gid::ipv4(ipv4_of(number)); }

DeviceOptions options_of(unsigned number, const Scenario& scenario) {
  DeviceOptions options;
  options.seed = scenario.seed * 2 + number;
  options.port.mac = {0x02, 0, 0, 0, 0, static_cast<std::uint8_t>(number + 1)};
  options.port.gids = {{address_of(number), GidType::roce_v2}};
  options.port.mtu = scenario.mtu;
  options.port.bits_per_second = scenario.bits_per_second;
  return options;
}

/// Returns the value of a result that must be a success. Throws otherwise.
template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  if constexpr (!std::is_void_v<T>) return *result;
}

/// A device with one QP and one memory region.
struct Host {
  Host(unsigned number, const Scenario& scenario) : device(options_of(number, scenario)) {
    pd = must(device.alloc_pd());
    cq = must(device.create_cq(1024));
    buffer = must(device.alloc(buffer_bytes));
    constexpr std::uint32_t rights =
        access::local_write | access::remote_write | access::remote_read | access::remote_atomic;
    mr = must(device.reg_mr(pd, buffer, buffer_bytes, rights));
    qp = must(device.create_qp({.type = QpType::rc, .pd = pd, .send_cq = cq, .recv_cq = cq}));
    device.port().learn(address_of(1 - number), {0x02, 0, 0, 0, 0, static_cast<std::uint8_t>(2 - number)});
  }
  void connect(unsigned peer, const Host& to, std::uint32_t own_psn, std::uint32_t its_psn, const Scenario& scenario) {
    AddressVector path;
    path.dgid = address_of(peer);
    constexpr std::uint32_t rights = access::remote_write | access::remote_read | access::remote_atomic;
    must(device.modify_qp(qp, {.state = QpState::init, .pkey_index = 0, .port = 1, .access = rights}));
    must(device.modify_qp(qp, {.state = QpState::rtr,
                               .path_mtu = scenario.mtu,
                               .path = path,
                               .dest_qpn = to.device.qp(to.qp)->qpn,
                               .rq_psn = its_psn,
                               .max_dest_rd_atomic = 4,
                               .min_rnr_timer = 1}));
    must(device.modify_qp(qp, {.state = QpState::rts,
                               .sq_psn = own_psn,
                               .max_rd_atomic = 4,
                               .timeout = scenario.timeout,
                               .retry_count = 7,
                               .rnr_retry = 7}));
  }

  Device device;
  std::uint32_t pd = 0, cq = 0, qp = 0;
  std::uint64_t buffer = 0;
  const Region* mr = nullptr;
};

class Simulation {
 public:
  explicit Simulation(const Scenario& scenario)
      : scenario_(scenario), random_(Random(~scenario.seed).next()), hosts_{Host(0, scenario), Host(1, scenario)} {}

  Traffic run() {
    connect();
    plan();
    impaired_ = true;
    constexpr std::int64_t longest = 20'000'000'000;
    process(now_ + longest);
    impaired_ = false;
    if (cm_id_) {
      (void)hosts_[0].device.cm_disconnect(*cm_id_);
      process(now_ + longest);
    }
    finish();
    return std::move(traffic_);
  }

 private:
  enum class At : std::uint8_t { capture, device, timer };
  /// A copy of a packet in flight.
  struct Copy {
    std::size_t transmission = 0;
    std::vector<std::uint8_t> bytes;
    bool damaged = false;
  };
  struct Flying {
    At at = At::timer;
    Copy copy;
    std::uint64_t held = 0;  ///< Held::number of the packet to release, if `at` is timer
  };
  struct Held {
    std::uint64_t number = 0;
    std::uint32_t remaining = 0;
    Copy copy;
  };
  struct Action {
    unsigned host = 0;
    bool receive = false;
    SendRequest request;
    ReceiveRequest posted;
  };

  std::uint64_t draw(std::uint64_t below) { return below == 0 ? 0 : random_.next() % below; }

  void connect() {
    if (!scenario_.connection_manager) {
      const auto psn_a = static_cast<std::uint32_t>(draw(4) == 0 ? 0xfffff0 + draw(16) : draw(1U << 24));
      const auto psn_b = static_cast<std::uint32_t>(draw(1U << 24));
      hosts_[0].connect(1, hosts_[1], psn_a, psn_b, scenario_);
      hosts_[1].connect(0, hosts_[0], psn_b, psn_a, scenario_);
      return;
    }
    must(hosts_[1].device.cm_listen({{}, service_port}, 4));
    CmParameters with;
    with.qp = hosts_[0].qp;
    with.ack_timeout = scenario_.timeout;
    cm_id_ = must(hosts_[0].device.cm_connect({address_of(1), service_port}, {}, with));
    constexpr std::int64_t enough = 20'000'000;
    process(now_ + enough);
    while (const auto event = hosts_[1].device.get_cm_event()) {
      if (event->type != CmEventType::connect_request) continue;
      CmParameters accept;
      accept.qp = hosts_[1].qp;
      must(hosts_[1].device.cm_accept(event->cm_id, accept));
    }
    process(now_ + enough);
    for (Host& host : hosts_)
      if (host.device.qp(host.qp)->state != QpState::rts) throw std::runtime_error("the connection failed");
  }

  void plan() {
    std::int64_t last = now_;
    for (unsigned from = 0; from < 2; ++from) {
      std::int64_t at = now_;
      for (unsigned i = 0; i < scenario_.requests[from]; ++i) {
        at += static_cast<std::int64_t>(draw(static_cast<std::uint64_t>(scenario_.interval) * 2 + 1));
        // Applications pause between groups of requests.
        if (draw(4) == 0) at += scenario_.interval * 20;
        plan_one(from, i, at);
      }
      last = std::max(last, at);
    }
  }

  void plan_one(unsigned from, unsigned i, std::int64_t at) {
    static constexpr WorkOpcode kinds[] = {WorkOpcode::send, WorkOpcode::write,    WorkOpcode::write,
                                           WorkOpcode::read, WorkOpcode::send,     WorkOpcode::write_imm,
                                           WorkOpcode::read, WorkOpcode::fetch_add};
    const WorkOpcode kind = kinds[draw(std::size(kinds))];
    Host &own = hosts_[from], &peer = hosts_[1 - from];
    auto bytes = static_cast<std::uint32_t>(1 + draw(draw(3) == 0 ? 64 : scenario_.most_bytes));
    constexpr std::uint64_t half = buffer_bytes / 2;
    const std::uint64_t here = draw(half - bytes), there = half + draw(half / 2 - bytes);
    Action action{from, false, {.id = i, .opcode = kind}, {}};
    action.request.remote_address = peer.buffer + there;
    action.request.rkey = peer.mr->key;
    if (kind == WorkOpcode::fetch_add) {
      bytes = 8;
      action.request.swap_add = 1;
      action.request.remote_address &= ~7ULL;
    }
    action.request.sges = {{own.buffer + here, bytes, own.mr->key}};
    if (kind == WorkOpcode::send || kind == WorkOpcode::write_imm) {
      // Late receives can be out of order relative to their messages, so all have the maximum length.
      const std::uint32_t most = scenario_.most_bytes + 64;
      Action receive{
          1 - from, true, {}, {.id = i, .sges = {{peer.buffer + half + draw(half / 2), most, peer.mr->key}}}};
      const bool late = scenario_.receiver_not_ready && draw(3) == 0;
      actions_.emplace(late ? at + static_cast<std::int64_t>(draw(200'000)) : at, std::move(receive));
    }
    actions_.emplace(at, std::move(action));
  }

  void process(std::int64_t until) {
    for (;;) {
      std::int64_t next = std::min(flying_.empty() ? never : flying_.begin()->first,
                                   actions_.empty() ? never : std::max(now_, actions_.begin()->first));
      int waking = -1;
      for (int i = 0; i < 2; ++i) {
        const std::int64_t wakes = hosts_[static_cast<std::size_t>(i)].device.wakes();
        if (wakes != never && std::max(now_, wakes) < next) {
          next = std::max(now_, wakes);
          waking = i;
        }
      }
      if (next == never || next > until) {
        if (next != never) now_ = until;
        return;
      }
      now_ = next;
      if (waking >= 0) {
        replay::SimulatedHostOutput output;
        Device& device = hosts_[static_cast<std::size_t>(waking)].device;
        const Counters before = device.counters();
        device.woken(now_, output);
        note_trigger(static_cast<unsigned>(waking), before, SIZE_MAX);
        send(static_cast<unsigned>(waking), output);
      } else if (!actions_.empty() && actions_.begin()->first <= now_) {
        act();
      } else {
        fly();
      }
    }
  }

  void act() {
    const Action action = std::move(actions_.begin()->second);
    actions_.erase(actions_.begin());
    Host& host = hosts_[action.host];
    // Ignore failures: a QP in the Error state accepts no work.
    if (action.receive)
      (void)host.device.post_recv(host.qp, action.posted);
    else
      (void)host.device.post_send(host.qp, action.request);
  }

  void fly() {
    Flying flying = std::move(flying_.begin()->second);
    flying_.erase(flying_.begin());
    if (flying.at == At::timer) return release(flying.held);
    Transmission& t = traffic_.transmissions[flying.copy.transmission];
    if (flying.at == At::capture) {
      if (flying.copy.damaged)
        t.passed_damaged = true;
      else if (t.captured < 0)
        t.captured = now_;
      capture(flying.copy);
      pass(Segment::after, std::move(flying.copy));
      return;
    }
    const unsigned to = 1 - t.sender;
    if (!flying.copy.damaged) {
      if (t.arrived < 0) t.arrived = now_;
      if (t.transport) traffic_.arrivals[to].push_back({now_, flying.copy.transmission});
    }
    replay::SimulatedHostOutput output;
    const Counters before = hosts_[to].device.counters();
    hosts_[to].device.arrived(flying.copy.bytes, now_, output);
    note_trigger(to, before, flying.copy.transmission);
    send(to, output);
  }

  /// Derives the reason of the device's next retransmission from the counters that changed. `before`: earlier values.
  void note_trigger(unsigned of, const Counters& before, std::size_t response) {
    const Counters after = hosts_[of].device.counters();
    const Trigger trigger = after.timeouts != before.timeouts                     ? Trigger::timer
                            : after.rnr_naks_received != before.rnr_naks_received ? Trigger::rnr_nak
                            : after.implied_naks != before.implied_naks           ? Trigger::implied_nak
                            : after.naks_received != before.naks_received         ? Trigger::nak
                                                                                  : Trigger::none;
    if (trigger != Trigger::none) triggers_[of].emplace_back(trigger, response);
  }

  /// Assigns the newest reason that fits the retransmitted packet.
  void assign_trigger(Transmission& t) {
    auto& triggers = triggers_[t.sender];
    for (std::size_t i = triggers.size(); i-- > 0;) {
      const auto [trigger, response] = triggers[i];
      if (trigger != Trigger::timer) {
        const std::int32_t beyond = traffic_.transmissions[response].psn - t.psn;
        if (trigger == Trigger::implied_nak ? beyond <= 0 : beyond != 0) continue;
      }
      t.trigger = trigger;
      t.trigger_response = response;
      triggers.clear();
      return;
    }
  }

  void send(unsigned from, replay::SimulatedHostOutput& output) {
    for (auto& frame : output.frames) {
      Transmission t;
      t.sender = from;
      t.sent = t.decided = std::max(frame.time, now_);
      if (from == 1) t.sent += scenario_.response_delay;
      number(from, frame.bytes);
      const HeaderStack stack = decode(frame.bytes);
      if (const auto bth = stack.get<Bth>()) {
        t.opcode = static_cast<std::uint8_t>(bth->get<"opcode">());
        t.psn = Psn(bth->get<"psn">());
        t.transport = bth->get<"dest_qp">() > 1;
        t.response = t.op().direction == Direction::response;
        if (const auto aeth = stack.get<Aeth>()) t.syndrome = static_cast<std::uint8_t>(aeth->get<"syndrome">());
        if (const auto reth = stack.get<Reth>(); reth && t.op().operation == Operation::rdma_read_request)
          t.psns = machines::psns_of_read(static_cast<std::uint32_t>(reth->get<"length">()), scenario_.mtu);
        if (t.transport && !t.response) {
          // A READ that is continued after some of its responses has a PSN that no request had before.
          auto& next = next_psn_[from];
          t.retransmitted = next && t.psn - *next < 0;
          if (!t.retransmitted) next = t.psn + t.psns;
        }
        if (t.retransmitted) assign_trigger(t);
      }
      traffic_.transmissions.push_back(t);
      Copy copy{traffic_.transmissions.size() - 1, std::move(frame.bytes), false};
      pass(Segment::before, std::move(copy), t.sent);
    }
    output.frames.clear();
  }

  /// Sets the IP identification, and the checksum and the ICRC that cover it.
  void number(unsigned from, std::vector<std::uint8_t>& frame) {
    if (scenario_.numbering == Numbering::constant) return;
    const HeaderStack stack = decode(frame);
    const Layer* ip = stack.find(info<Ipv4>);
    if (!ip || stack.icrc.length == 0) return;
    const auto value = static_cast<std::uint16_t>(
        scenario_.numbering == Numbering::consecutive ? identification_[from]++ : draw(1U << 16));
    std::uint8_t* at = frame.data() + ip->offset;
    store_be(at + 4, 2, value);
    store_be(at + 10, 2, 0);
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < Ipv4::size; i += 2) sum += static_cast<std::uint32_t>(load_be(at + i, 2));
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    store_be(at + 10, 2, ~sum & 0xffff);
    store_icrc(frame.data() + stack.icrc.offset, compute_icrc(decode(frame)));
  }

  /// Returns how long a packet of this sender takes for the segment, in nanoseconds.
  [[nodiscard]] std::int64_t delay_of(Segment segment, unsigned sender) const {
    return scenario_.delay[(segment == Segment::before) == (sender == 0) ? 0 : 1];
  }

  void pass(Segment segment, Copy copy) { pass(segment, std::move(copy), now_); }
  void pass(Segment segment, Copy copy, std::int64_t from) {
    Transmission& t = traffic_.transmissions[copy.transmission];
    const auto lane = static_cast<std::size_t>(segment) * 2 + t.sender;
    const At to = segment == Segment::before ? At::capture : At::device;
    std::int64_t arrival = from + delay_of(segment, t.sender);
    bool keeps_order = true;
    std::uint32_t held = 0;
    std::int64_t duplicate_after = -1;
    for (std::size_t i = 0; impaired_ && t.transport && i < scenario_.impairments.size(); ++i) {
      const Impairment& impairment = scenario_.impairments[i];
      if (impairment.segment != segment || (impairment.sender != Impairment::both && impairment.sender != t.sender))
        continue;
      std::uint32_t& burst = burst_[i][t.sender];
      const bool hit = burst > 0 || draw(impairment.one_in) == 0;
      switch (impairment.kind) {
        case Kind::loss:
          if (hit) return;
          break;
        case Kind::burst:
          if (!hit) break;
          burst = burst > 0 ? burst - 1 : impairment.depth - 1;
          return;
        case Kind::reordering:
          if (hit) held = 1 + static_cast<std::uint32_t>(draw(impairment.depth));
          break;
        case Kind::jitter:
          arrival += static_cast<std::int64_t>(draw(static_cast<std::uint64_t>(impairment.time)));
          keeps_order = false;
          break;
        case Kind::duplication:
          if (!hit) break;
          duplicate_after = static_cast<std::int64_t>(draw(static_cast<std::uint64_t>(impairment.time)));
          t.duplicated = true;
          t.duplicated_after = segment == Segment::after;
          break;
        case Kind::corruption:
          if (hit) damage(copy);
          break;
      }
    }
    if (held > 0) {
      const std::uint64_t number = ++last_held_;
      flying_.emplace(arrival + most_held_ns, Flying{At::timer, {}, number});
      held_[lane].push_back({number, held, std::move(copy)});
      return;
    }
    std::int64_t& last = last_out_[lane];
    if (keeps_order) arrival = std::max(arrival, last + 1);
    last = std::max(last, arrival);
    if (duplicate_after >= 0) flying_.emplace(arrival + 1 + duplicate_after, Flying{to, copy, 0});
    flying_.emplace(arrival, Flying{to, std::move(copy), 0});
    // This packet overtakes each held packet. Release those that the required number of packets has overtaken.
    for (auto it = held_[lane].begin(); it != held_[lane].end();) {
      if (--it->remaining > 0) {
        ++it;
        continue;
      }
      last = std::max(last, arrival + 1);
      flying_.emplace(arrival + 1, Flying{to, std::move(it->copy), 0});
      it = held_[lane].erase(it);
    }
  }

  void release(std::uint64_t number) {
    for (std::size_t lane = 0; lane < held_.size(); ++lane)
      for (auto it = held_[lane].begin(); it != held_[lane].end(); ++it) {
        if (it->number != number) continue;
        last_out_[lane] = std::max(last_out_[lane], now_);
        flying_.emplace(now_, Flying{lane < 2 ? At::capture : At::device, std::move(it->copy), 0});
        held_[lane].erase(it);
        return;
      }
  }

  /// Flips 1 to 4 random bits after the UDP header: in earlier headers, the IP checksum would detect the damage. Marks
  /// the copy as damaged unless all changes are in the byte that the ICRC does not cover.
  void damage(Copy& copy) {
    constexpr std::size_t headers = 14 + Ipv4::size + Udp::size, not_covered = 4;
    const unsigned flips = 1 + static_cast<unsigned>(draw(4));
    std::map<std::size_t, std::uint8_t> changes;
    for (unsigned i = 0; i < flips; ++i)
      changes[draw(copy.bytes.size() - headers)] ^= static_cast<std::uint8_t>(1U << draw(8));
    for (const auto& [at, bits] : changes) {
      copy.bytes[headers + at] ^= bits;
      copy.damaged |= at != not_covered && bits != 0;
    }
  }

  void capture(const Copy& copy) {
    Transmission& t = traffic_.transmissions[copy.transmission];
    std::int64_t at = now_;
    for (std::size_t i = 0; impaired_ && t.transport && i < scenario_.impairments.size(); ++i) {
      const Impairment& impairment = scenario_.impairments[i];
      if (impairment.segment != Segment::capture ||
          (impairment.sender != Impairment::both && impairment.sender != t.sender))
        continue;
      std::uint32_t& burst = burst_[i][t.sender];
      const bool hit = burst > 0 || draw(impairment.one_in) == 0;
      if (!hit && impairment.kind != Kind::jitter) continue;
      const auto later = static_cast<std::int64_t>(draw(static_cast<std::uint64_t>(impairment.time)));
      switch (impairment.kind) {
        case Kind::burst: burst = burst > 0 ? burst - 1 : impairment.depth - 1; [[fallthrough]];
        case Kind::loss: t.hidden = true; return;
        case Kind::duplication:
          t.copied = true;
          record(copy, at + 1 + later);
          break;
        default: at += later; break;
      }
    }
    record(copy, at);
  }

  void record(const Copy& copy, std::int64_t at) {
    CapturedFrame frame{capture_start + at, copy.transmission, static_cast<std::uint32_t>(copy.bytes.size()),
                        copy.bytes};
    if (scenario_.snap_length != 0 && frame.bytes.size() > scenario_.snap_length)
      frame.bytes.resize(scenario_.snap_length);
    traffic_.frames.push_back(std::move(frame));
  }

  void finish() {
    auto& frames = traffic_.frames;
    std::stable_sort(frames.begin(), frames.end(),
                     [](const CapturedFrame& x, const CapturedFrame& y) { return x.time < y.time; });
    if (scenario_.first_frame != 0)
      frames.erase(frames.begin(), frames.begin() + static_cast<std::ptrdiff_t>(
                                                        std::min<std::size_t>(frames.size(), scenario_.first_frame)));
    for (unsigned sender = 0; sender < 2; ++sender) {
      // Going from the last packet to the first: earliest time at which a later packet passed the capture point.
      std::int64_t earliest = never;
      std::vector<std::pair<std::int64_t, std::int64_t>> order;  // captured, arrived
      for (std::size_t i = traffic_.transmissions.size(); i-- > 0;) {
        Transmission& t = traffic_.transmissions[i];
        if (t.sender != sender || t.captured < 0 || !t.transport) continue;
        t.late_before = t.captured > earliest;
        earliest = std::min(earliest, t.captured);
        if (t.arrived >= 0) order.emplace_back(t.captured, t.arrived);
      }
      std::sort(order.begin(), order.end());
      std::map<std::int64_t, std::int64_t> earliest_arrival;  // of later captured packets, by capture time
      std::int64_t arrival = never;
      for (std::size_t i = order.size(); i-- > 0;) {
        earliest_arrival[order[i].first] = arrival;
        arrival = std::min(arrival, order[i].second);
      }
      for (Transmission& t : traffic_.transmissions)
        if (t.sender == sender && t.transport && t.captured >= 0 && t.arrived >= 0)
          t.late_after = t.arrived > earliest_arrival[t.captured];
      Host& host = hosts_[sender];
      const auto completions = host.device.poll_cq(host.cq, 1024);
      for (const Completion& completion : *completions)
        traffic_.completed[sender] +=
            completion.status == Status::success && completion.opcode < CompletionOpcode::receive;
    }
    std::array<std::size_t, 2> newest{};
    for (const CapturedFrame& frame : frames) {
      Transmission& t = traffic_.transmissions[frame.transmission];
      t.late_recorded |= !t.late_before && frame.transmission < newest[t.sender];
      newest[t.sender] = std::max(newest[t.sender], frame.transmission);
    }
  }

  const Scenario& scenario_;
  Random random_;
  std::array<Host, 2> hosts_;
  std::optional<std::uint32_t> cm_id_;
  std::int64_t now_ = 0;
  bool impaired_ = false;
  Traffic traffic_;
  std::multimap<std::int64_t, Flying> flying_;
  std::multimap<std::int64_t, Action> actions_;
  std::array<std::list<Held>, 4> held_;  // by segment and sender
  std::array<std::int64_t, 4> last_out_{-1, -1, -1, -1};
  std::uint64_t last_held_ = 0;
  std::map<std::size_t, std::array<std::uint32_t, 2>> burst_;  // remaining packets of a burst, by impairment
  std::array<std::uint16_t, 2> identification_{0x1f00, 0xfff0};
  std::array<std::optional<Psn>, 2> next_psn_;                            // PSN after the newest request
  std::array<std::vector<std::pair<Trigger, std::size_t>>, 2> triggers_;  // retransmission not started yet
};

}  // namespace

std::string_view to_string(Segment segment) {
  switch (segment) {
    case Segment::before: return "before";
    case Segment::after: return "after";
    case Segment::capture: return "capture";
  }
  return {};
}

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::loss: return "loss";
    case Kind::burst: return "burst";
    case Kind::reordering: return "reordering";
    case Kind::jitter: return "jitter";
    case Kind::duplication: return "duplication";
    case Kind::corruption: return "corruption";
  }
  return {};
}

std::string Scenario::text() const {
  constexpr const char* numberings[] = {"consecutive", "constant", "random"};
  std::string line =
      fmt::format("seed {} identification {}{}{}{}{}{}", seed, numberings[static_cast<std::size_t>(numbering)],
                  connection_manager ? " cm" : "", receiver_not_ready ? " rnr" : "", response_delay ? " slow" : "",
                  first_frame ? " late-start" : "", snap_length ? " snap" : "");
  for (const Impairment& i : impairments)
    line += fmt::format(", {} {} of {} 1/{} depth {} {} ns", to_string(i.kind), to_string(i.segment),
                        i.sender == Impairment::both ? "both"
                        : i.sender == 0              ? "a"
                                                     : "b",
                        i.one_in, i.depth, i.time);
  return line;
}

tracking::PortAddress device_address(unsigned number) { return tracking::PortAddress::of_ipv4(ipv4_of(number)); }

Traffic simulate(const Scenario& scenario) { return Simulation(scenario).run(); }

}  // namespace rdmawire::attribution
