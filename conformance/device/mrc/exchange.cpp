#include "conformance/device/mrc/exchange.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <queue>
#include <random>
#include <set>

#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::conformance::mrc {
namespace {

constexpr std::int64_t microsecond = 1000;
constexpr std::uint32_t requester_qp = 0x11, responder_qp = 0x22, mtu = 256, first_psn = 0xfffff0, modulus = 1U << 24;
constexpr std::uint8_t dscp_control = 46, dscp_data = 4, dscp_retransmitted = 8, dscp_trimmed = 12, ect = 2, ce = 3;
constexpr std::array<std::uint8_t, 16> requester_address{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
constexpr std::array<std::uint8_t, 16> responder_address{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
constexpr std::size_t paths = 8, failing_path = 5;
constexpr std::int64_t path_fails = 30 * microsecond, path_recovers = 250 * microsecond;
constexpr std::int64_t acknowledgement_timeout = 80 * microsecond, skipped_for = 10 * microsecond;

enum class PathState : std::uint8_t { good, skipped, assumed_bad };
enum class Fate : std::uint8_t { delivered, marked, trimmed, lost };

std::uint16_t timestamp_of(std::int64_t time) { return static_cast<std::uint16_t>(time / 128); }

/// A packet of a WRITE message, and the state of its transmission.
struct DataPacket {
  std::uint8_t opcode = 0;
  std::uint16_t msn = 0, rqmsn = 0;
  std::uint64_t address = 0;
  std::uint32_t bytes = 0, message_bytes = 0, immediate = 0;
  bool ends = false;
  // State of its transmission
  std::uint32_t transmissions = 0;
  Entropy entropy;
  std::int64_t sent = 0;
  bool acknowledged = false, waits = false;
};

class Run {
 public:
  explicit Run(const ExchangeOptions& options) : options_(options), random_(options.seed) {
    for (std::size_t i = 0; i < paths; ++i)
      path_[i].entropy = {static_cast<std::uint16_t>(0x1000 + 0x111 * i), static_cast<std::uint16_t>(0xc000 + i * 7)};
    make_messages();
  }

  std::vector<CapturedFrame> all() {
    endpoint_operations();
    at(20 * microsecond, [this] { transmit(); });
    while (!events_.empty() && now_ < 5000 * microsecond) {
      Event next = events_.top();
      events_.pop();
      now_ = next.time;
      next.act();
    }
    return std::move(captured_);
  }

 private:
  struct Event {
    std::int64_t time;
    std::uint64_t order;
    std::function<void()> act;
    bool operator<(const Event& other) const { return std::pair(time, order) > std::pair(other.time, other.order); }
  };
  struct Path {
    Entropy entropy;
    PathState state = PathState::good;
  };

  void at(std::int64_t time, std::function<void()> act) { events_.push({time, ++order_, std::move(act)}); }
  std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(random_() % limit); }

  void make_messages() {
    std::uint16_t immediates = 0;
    std::uint64_t address = 0x7f0000000000;
    for (std::uint32_t m = 0; m < options_.messages; ++m) {
      const std::uint32_t count = m % 5 == 0 ? 1 : 2 + below(5);
      const bool immediate = m % 3 == 2;
      immediates = static_cast<std::uint16_t>(immediates + immediate);
      const std::uint32_t last = m == 0 ? 29 : 64 + 4 * below(48), total = (count - 1) * mtu + last;
      for (std::uint32_t i = 0; i < count; ++i) {
        DataPacket p;
        p.ends = i + 1 == count;
        p.opcode = static_cast<std::uint8_t>(count == 1 ? (immediate ? 0xcb : 0xca)
                                             : i == 0   ? 0xc6
                                             : !p.ends  ? 0xc7
                                                        : (immediate ? 0xc9 : 0xc8));
        p.msn = static_cast<std::uint16_t>(m + 1);
        p.rqmsn = immediate ? immediates : std::uint16_t{0};
        p.address = address + i * mtu;
        p.bytes = p.ends ? last : mtu;
        p.message_bytes = total;
        p.immediate = 0xabc000 + m;
        packets_.push_back(p);
      }
      address += 0x10000;
    }
  }
  static std::uint32_t psn_of(std::size_t index) { return static_cast<std::uint32_t>((first_psn + index) % modulus); }

  static Frame below_transport(bool from_requester, std::uint8_t dscp, std::uint8_t ecn, const Entropy& entropy) {
    Value<Ethernet> ethernet;
    ethernet.set<"dst">(from_requester ? 0x020000000002 : 0x020000000001);
    ethernet.set<"src">(from_requester ? 0x020000000001 : 0x020000000002);
    Value<Ipv6> ip;
    ip.set<"traffic_class">(dscp << 2U | ecn).set<"flow_label">(entropy.label).set<"hop_limit">(64);
    ip.set<"src">(Bytes(from_requester ? requester_address : responder_address));
    ip.set<"dst">(Bytes(from_requester ? responder_address : requester_address));
    return ethernet / ip / Value<Udp>().set<"src_port">(entropy.port);
  }

  Outgoing outgoing(bool from_requester, std::uint8_t opcode, std::uint8_t dscp, const Entropy& entropy,
                    std::uint32_t qp, std::uint32_t psn) {
    Outgoing out;
    out.operation = mrc_opcode(opcode).operation;
    out.number = sent_[static_cast<std::size_t>(out.operation)]++;
    out.frame = below_transport(from_requester, dscp, out.operation == MrcOperation::rdma_write ? ect : 0, entropy);
    out.frame /= Value<MrcBth>().set<"opcode">(opcode).set<"dest_qp">(qp).set<"psn">(psn);
    return out;
  }
  void capture(const std::vector<std::uint8_t>& bytes) { captured_.push_back({now_, bytes}); }
  std::vector<std::uint8_t> encode(Outgoing& out) const {
    if (options_.fault) options_.fault->change(out);
    return out.frame.encode();
  }

  // The requester

  Path* next_path(const Entropy* except) {
    for (std::size_t tries = 0; tries < 2 * paths; ++tries) {
      Path& path = path_[next_path_++ % paths];
      if (path.state == PathState::good && !(except && path.entropy == *except)) return &path;
    }
    return nullptr;
  }
  Path* path_with(const Entropy& entropy) {
    for (Path& path : path_)
      if (path.entropy == entropy) return &path;
    return nullptr;
  }
  void skip(const Entropy& entropy) {
    Path* path = path_with(entropy);
    if (!path || path->state != PathState::good) return;
    path->state = PathState::skipped;
    at(now_ + skipped_for, [path] {
      if (path->state == PathState::skipped) path->state = PathState::good;
    });
  }
  void assume_bad(const Entropy& entropy) {
    Path* path = path_with(entropy);
    if (!path || path->state == PathState::assumed_bad) return;
    path->state = PathState::assumed_bad;
    probe(path);
  }
  void probe(Path* path) {
    if (path->state != PathState::assumed_bad) return;
    const std::uint16_t id = ++probes_;
    probed_[id] = path;
    Outgoing out = outgoing(true, 0xde, dscp_data, path->entropy, responder_qp, 0);
    out.frame /= Value<Peth>()
                     .set<"probe_id">(id)
                     .set<"spdcid">(requester_qp)
                     .set<"dpdcid">(responder_qp)
                     .set<"timestamp">(timestamp_of(now_));
    const auto bytes = encode(out);
    const Entropy entropy = path->entropy;
    const std::uint16_t stamp = timestamp_of(now_);
    if (!fails(*path))
      at(now_ + delay_of(entropy), [this, bytes, id, entropy, stamp] {
        capture(bytes);
        acknowledge_selectively(0, entropy, stamp, false, id);
      });
    at(now_ + 60 * microsecond, [this, path] { probe(path); });
  }

  [[nodiscard]] bool fails(const Path& path) const {
    return options_.disturbed && options_.path_fails && &path == &path_[failing_path] && now_ >= path_fails &&
           now_ < path_recovers;
  }
  std::int64_t delay_of(const Entropy& entropy) const { return 3 * microsecond + (entropy.port & 7) * 1450; }

  void transmit() {
    std::size_t index = packets_.size();
    if (!resend_.empty()) {
      index = *resend_.begin();
      resend_.erase(resend_.begin());
    } else if (next_ < packets_.size()) {
      index = next_++;
    }
    if (index == packets_.size()) return;
    transmit(index);
    at(now_ + microsecond, [this] { transmit(); });
  }

  void transmit(std::size_t index) {
    DataPacket& p = packets_[index];
    const bool again = p.transmissions != 0;
    Path* path = next_path(again ? &p.entropy : nullptr);
    if (!path) {
      resend_.insert(index);
      at(now_ + skipped_for, [this] { transmit(); });
      return;
    }
    Outgoing out =
        outgoing(true, p.opcode, again ? dscp_retransmitted : dscp_data, path->entropy, responder_qp, psn_of(index));
    out.psn = psn_of(index);
    out.retransmission = again;
    out.previous = p.entropy;
    out.set<MrcBth>("rtx", again);
    out.set<MrcBth>("ack_request", p.ends);
    out.frame /= Value<Meth>().set<"rqmsn">(p.rqmsn).set<"msn">(p.msn);
    out.frame /= Value<Tseth>().set<"timestamp">(timestamp_of(now_));
    out.frame /= Value<Reth>().set<"va">(p.address).set<"rkey">(0x1234).set<"length">(p.message_bytes);
    if (mrc_opcode(p.opcode).immediate) {
      out.frame /= Value<ImmDt>().set<"data">(p.immediate);
      out.set<MrcBth>("se", 1);
    }
    for (std::uint32_t i = 0; i < p.bytes; ++i) out.frame.payload.push_back(static_cast<std::uint8_t>(index + i));
    const std::vector<std::uint8_t> bytes = encode(out);
    ++p.transmissions;
    p.entropy = path->entropy;
    p.sent = now_;
    const std::uint32_t transmission = p.transmissions;
    at(now_ + acknowledgement_timeout, [this, index, transmission] { time_out(index, transmission); });

    Fate fate = Fate::delivered;
    if (fails(*path))
      fate = Fate::lost;
    else if (options_.disturbed && !again && index % 11 == 7)
      fate = Fate::trimmed;
    else if (options_.disturbed && index % 9 == 4)
      fate = Fate::marked;
    if (fate == Fate::lost) return;
    const Entropy entropy = path->entropy;
    const std::uint16_t stamp = timestamp_of(now_);
    at(now_ + delay_of(entropy),
       [this, index, fate, entropy, stamp, bytes, again] { arrive(index, fate, entropy, stamp, bytes, again); });
  }

  void time_out(std::size_t index, std::uint32_t transmission) {
    const DataPacket& p = packets_[index];
    if (p.acknowledged || p.transmissions != transmission || resend_.contains(index)) return;
    assume_bad(p.entropy);
    repeat(index);
  }
  void repeat(std::size_t index) {
    if (packets_[index].acknowledged || !resend_.insert(index).second) return;
    at(now_ + microsecond, [this] { transmit(); });
  }

  // The responder

  void arrive(std::size_t index, Fate fate, const Entropy& entropy, std::uint16_t stamp,
              std::vector<std::uint8_t> bytes, bool again) {
    constexpr std::size_t traffic_class_at = Ethernet::size;  // start of the IPv6 header, which contains it
    const auto set_traffic_class = [&](std::uint8_t dscp, std::uint8_t ecn) {
      const std::uint32_t value = std::uint32_t{dscp} << 2 | ecn;
      store_bits(bytes.data() + traffic_class_at, 4, 8, value);
    };
    if (fate == Fate::trimmed) {
      set_traffic_class(dscp_trimmed, ect);
      const HeaderStack stack = decode(bytes);
      bytes.resize(stack.payload.offset);
      capture(bytes);
      reject(index, entropy, stamp, nack_reason::trimmed);
      return;
    }
    if (fate == Fate::marked) set_traffic_class(again ? dscp_retransmitted : dscp_data, ce);
    capture(bytes);
    if (received_.insert(index).second) received_bytes_ += packets_[index].bytes + 40;
    while (received_.contains(expected_)) ++expected_;
    const DataPacket& p = packets_[index];
    const bool late = *received_.rbegin() != index;
    if (p.ends || again || late || fate == Fate::marked || ++since_sack_ >= 3)
      acknowledge_selectively(index, entropy, stamp, fate == Fate::marked, 0);
    complete();
  }

  void acknowledge_selectively(std::size_t index, const Entropy& entropy, std::uint16_t stamp, bool marked,
                               std::uint16_t probe_id) {
    since_sack_ = 0;
    const std::size_t cumulative = expected_;  // index of the first missing packet
    std::uint64_t bitmap = 0;
    std::uint32_t out_of_order = 0;
    for (std::size_t i = 0; i < 64; ++i)
      if (received_.contains(cumulative + i)) bitmap |= std::uint64_t{1} << i;
    for (const std::size_t one : received_) out_of_order += one > cumulative;
    const std::uint32_t cack = psn_of(cumulative + modulus - 1);
    Outgoing out = outgoing(false, 0xdc, dscp_control, reverse(), requester_qp, cack);
    const std::uint32_t offset = probe_id ? probe_id : static_cast<std::uint32_t>(index + 1 - cumulative);
    out.frame /= Value<Seth>()
                     .set<"path_state">(marked)
                     .set<"probe_response">(probe_id != 0)
                     .set<"ack_psn_offset">(offset & 0xffff)
                     .set<"entropy">(entropy.value())
                     .set<"spdcid">(responder_qp)
                     .set<"dpdcid">(requester_qp)
                     .set<"cack_psn">(cack)
                     .set<"mpr">(1)
                     .set<"sack_offset">(1)
                     .set<"bitmap">(bitmap);
    out.frame /= Value<CcState>()
                     .set<"timestamp">(stamp)
                     .set<"ooo_count">(out_of_order)
                     .set<"received">((received_bytes_ + 255) / 256);
    capture(encode(out));
    at(now_ + 4 * microsecond, [this, index, cumulative, bitmap, entropy, marked, probe_id] {
      for (std::size_t i = 0; i < cumulative; ++i) packets_[i].acknowledged = true;
      for (std::size_t i = 0; i < 64; ++i)
        if (bitmap >> i & 1) packets_[cumulative + i].acknowledged = true;
      if (probe_id) {
        if (Path* path = probed_[probe_id]) path->state = PathState::good;
        return;
      }
      packets_[index].acknowledged = true;
      if (marked) skip(entropy);
    });
  }

  void reject(std::size_t index, const Entropy& entropy, std::uint16_t stamp, std::uint8_t reason) {
    Outgoing out = outgoing(false, 0xdd, dscp_control, reverse(), requester_qp, psn_of(index));
    out.frame /= Value<Neth>()
                     .set<"reason">(reason)
                     .set<"entropy">(entropy.value())
                     .set<"spdcid">(responder_qp)
                     .set<"dpdcid">(requester_qp)
                     .set<"nack_psn">(psn_of(index))
                     .set<"timestamp">(stamp);
    capture(encode(out));
    at(now_ + 4 * microsecond, [this, index, entropy] {
      skip(entropy);
      repeat(index);
    });
  }

  // Sends an Acknowledge for the messages that are complete in order.
  void complete() {
    bool any = false;
    for (; completed_ < expected_; ++completed_)
      if (packets_[completed_].ends) {
        ++messages_;
        any = true;
      }
    if (!any) return;
    Outgoing out = outgoing(false, 0xd1, dscp_control, reverse(), requester_qp, psn_of(completed_ - 1));
    out.frame /= Value<Aeth>().set<"syndrome">(0x1f).set<"msn">(messages_);
    capture(encode(out));
  }

  Entropy reverse() {
    const std::uint32_t n = ++reversed_;
    return {static_cast<std::uint16_t>(0x2000 + n % 4), static_cast<std::uint16_t>(0xd000 + n % 4)};
  }

  // A port status update, and a probe of each path, before the QP is used.
  void endpoint_operations() {
    for (std::uint16_t i = 0; i <= paths; ++i) {
      const bool status = i == 0;
      const Entropy entropy = path_[status ? 0 : i - 1U].entropy;
      at(i * microsecond, [this, i, status, entropy] {
        const std::uint16_t id = static_cast<std::uint16_t>(0x100 + i), stamp = timestamp_of(now_);
        Outgoing request = outgoing(true, 0xd8, dscp_data, entropy, rdmawire::mrc::endpoint_qp, id);
        request.frame /= Value<Erth>()
                             .set<"operation">(status ? 0 : 1)
                             .set<"port_status">(status ? 0xff : 0)
                             .set<"timestamp">(stamp);
        const auto bytes = encode(request);
        at(now_ + delay_of(entropy), [this, bytes, id, status, stamp] {
          capture(bytes);
          Outgoing answer = outgoing(false, 0xd9, dscp_control, reverse(), rdmawire::mrc::endpoint_qp, id);
          Value<Eeth> eeth;
          eeth.set<"operation_bits.first">(status ? 0 : 1).set<"timestamp">(stamp);
          answer.frame /= eeth;
          capture(encode(answer));
        });
      });
    }
  }

  const ExchangeOptions options_;
  std::mt19937_64 random_;
  std::int64_t now_ = 0;
  std::uint64_t order_ = 0;
  std::priority_queue<Event> events_;
  std::vector<CapturedFrame> captured_;
  std::array<std::uint32_t, 8> sent_{};  // by operation
  // Requester
  std::array<Path, paths> path_;
  std::vector<DataPacket> packets_;
  std::size_t next_ = 0, next_path_ = 0;
  std::set<std::size_t> resend_;
  std::uint16_t probes_ = 0;
  std::map<std::uint16_t, Path*> probed_;
  // Responder
  std::set<std::size_t> received_;
  std::size_t expected_ = 0, completed_ = 0;
  std::uint32_t since_sack_ = 0, messages_ = 0, reversed_ = 0;
  std::uint64_t received_bytes_ = 0;
};

}  // namespace

void Outgoing::send_on(const Entropy& entropy) {
  set<Ipv6>("flow_label", entropy.label);
  set<Udp>("src_port", entropy.port);
}

std::vector<CapturedFrame> run(const ExchangeOptions& options) { return Run(options).all(); }

}  // namespace rdmawire::conformance::mrc
