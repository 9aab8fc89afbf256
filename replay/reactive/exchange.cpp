#include "replay/reactive/exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "captures/analysis/findings.hpp"
#include "dissectors/machines/psn_window.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/tracking/tracker.hpp"
#include "replay/reactive/exchange_detail.hpp"
#include "replay/rewrite/resegmenter.hpp"

namespace rdmawire::replay::reactive {
namespace {

using tracking::Connection;
using tracking::MessageKind;
using tracking::Service;
using tracking::Side;
using tracking::TransportPacket;

using detail::dissect_file;
using detail::Result;
using detail::wrong;

tl::unexpected<ExchangeError> wrong_choice(std::string message) {
  return tl::unexpected(ExchangeError{true, std::move(message)});
}

struct Rows final : tracking::Sink {
  std::map<std::uint64_t, Connection> rows;
  void connection(const Connection& connection, tracking::CloseReason /*farewell*/) override {
    constexpr std::uint32_t management_qp = 1;
    const bool management = connection.ends[0].qp == management_qp || connection.ends[1].qp == management_qp;
    if (!management) rows.emplace(connection.id, connection);
  }
};

bool can_be_played(const Connection& connection) {
  return connection.service == Service::rc || connection.service == Service::uc || connection.service == Service::iwarp;
}

/// The maximum is half of the PSN space.
constexpr std::uint32_t most_psns = Psn::half - 1;

/// Message bytes plus request packets of an endpoint. The packets make a difference if both endpoints send no payload.
std::uint64_t weight(const Connection& connection, Side end) {
  return connection.by(end).message_bytes + connection.by(end).requests;
}

std::optional<MessageKind> kind_of(Operation operation) {
  switch (operation) {
    case Operation::send: return MessageKind::send;
    case Operation::rdma_write: return MessageKind::write;
    case Operation::rdma_read_request: return MessageKind::read;
    case Operation::compare_swap: return MessageKind::compare_swap;
    case Operation::fetch_add: return MessageKind::fetch_add;
    default: return std::nullopt;
  }
}

/// Captured packets of one direction, by relative PSN.
struct Half {
  Half() {}  // NOLINT(modernize-use-equals-default): user-provided
  std::optional<Psn> first;
  std::map<std::int64_t, CapturedPacket> requests,
      answers;  ///< `answers`: responses with data to the requests of the other direction
  std::map<std::int64_t, std::uint64_t> seen;      ///< first frame of each request PSN
  std::map<std::int64_t, std::uint64_t> answered;  ///< first frame of each response PSN with data
  std::vector<CapturedAnswer> acknowledgements;    ///< to the requests of the other direction
  std::uint32_t again = 0;
};

/// Builds an exchange from captured packets.
class Builder {
 public:
  Builder(Exchange& exchange, const ExchangeOptions& options) : exchange_(exchange), options_(options) {
    const std::size_t us = static_cast<std::size_t>(exchange.side);
    ends_[0] = exchange.connection.ends[us];
    ends_[1] = exchange.connection.ends[1 - us];
    if (options.mtu == 0 || exchange.connection.mtu == 0 || options.mtu == exchange.connection.mtu) return;
    MappedConnection connection;
    connection.mtu = {exchange.connection.mtu, options.mtu};
    resegmenter_.emplace(FlowMap{{connection}, {}});
    exchange.notes.push_back(
        fmt::format("messages are resegmented from {} to {} bytes per packet", exchange.connection.mtu, options.mtu));
  }

  Result<void> add(const tracking::Packet& packet) {
    TransportPacket t;
    if (packet.number < exchange_.connection.first_frame || packet.number > exchange_.connection.last_frame) return {};
    if (!tracking::read_transport_packet(packet, t)) return {};
    const auto from = sender(t);
    if (!from) return {};
    if (packet.link != LinkType::ethernet)
      return wrong(fmt::format("frame {} is not an Ethernet frame; replay requires an Ethernet capture", t.frame));
    if (packet.stack.cut)
      return wrong(
          fmt::format("frame {} was truncated by the capture ({} of {} bytes); replay requires complete packets",
                      t.frame, packet.stack.bytes.size(), packet.stack.wire_length));
    if (t.crc_bad || t.truncated) return {};  // the responder dropped it and the requester retransmitted it
    bytes_ += packet.stack.bytes.size();
    if (bytes_ > options_.max_bytes)
      return wrong(fmt::format("the packets of the connection exceed {} bytes; replay a part of the capture",
                               options_.max_bytes));
    if (!resegmenter_) return take(*from, packet, t);
    const Side end = *from == 0 ? exchange_.side : tracking::other(exchange_.side);
    Resegmenter::Result cut = resegmenter_->take(packet.stack, {0, end});
    if (cut.outcome == Resegmenter::Result::Outcome::untouched) return take(*from, packet, t);
    tracking::Packet made;
    made.number = packet.number;
    made.time_ns = packet.time_ns;
    for (const ByteVector& frame : cut.frames) {
      made.stack = decode(frame);
      TransportPacket of_it;
      if (!tracking::read_transport_packet(made, of_it)) continue;
      if (auto taken = take(*from, made, of_it); !taken) return taken;
    }
    return {};
  }

  Result<void> finish() {
    infer_mtu();
    if (!machines::is_path_mtu(exchange_.mtu))
      return wrong(
          fmt::format("packets within messages contain {} bytes, which is not a valid path MTU", exchange_.mtu));
    Requests* const directions[] = {&exchange_.ours, &exchange_.theirs};
    for (std::size_t i = 0; i < 2; ++i)
      if (auto built = build(i, *directions[i]); !built) return built;
    if (exchange_.ours.messages.empty() && exchange_.theirs.messages.empty())
      return wrong("the capture contains no complete message of the connection");
    const auto& messages = exchange_.ours.messages;
    if (const auto count =
            std::count_if(messages.begin(), messages.end(), [](const auto& m) { return m.has_invalidate; }))
      exchange_.notes.push_back(
          fmt::format("{} with Invalidate replayed without invalidation: the device's memory stays "
                      "registered for the whole replay",
                      captures::analysis::counted(static_cast<std::uint64_t>(count), "SEND", "SENDs")));
    order(exchange_.ours, exchange_.theirs);
    order(exchange_.theirs, exchange_.ours);
    return {};
  }

 private:
  Result<void> take(std::size_t from, const tracking::Packet& packet, const TransportPacket& t) {
    CapturedPacket captured{.bytes = {packet.stack.bytes.begin(), packet.stack.bytes.end()}, .t = t};
    if (captured.t.payload_at + captured.t.payload > captured.bytes.size()) return {};
    if (from == 0 && !exchange_.model) exchange_.model = captured;
    if (t.op->operation == Operation::congestion_notification) {
      halves_[from].acknowledgements.push_back({.frame = t.frame, .psn = 0, .syndrome = 0, .msn = 0, .cnp = true});
      return {};
    }
    if (t.is_response())
      answer(from, std::move(captured));
    else
      request(from, std::move(captured));
    return {};
  }

  std::optional<std::size_t> sender(const TransportPacket& t) const {
    for (std::size_t i = 0; i < 2; ++i) {
      const tracking::ConnectionEnd &from = ends_[i], &to = ends_[1 - i];
      if (t.from == from.address && t.to == to.address && t.dest_qp == to.qp) return i;
    }
    return std::nullopt;
  }

  void request(std::size_t from, CapturedPacket captured) {
    Half& half = halves_[from];
    if (!half.first) half.first = captured.t.psn;
    const std::int64_t at = captured.t.psn - *half.first;
    if (!half.seen.emplace(at, captured.t.frame).second) ++half.again;
    half.requests.emplace(at, std::move(captured));
  }
  void answer(std::size_t from, CapturedPacket captured) {
    Half &half = halves_[from], &other = halves_[1 - from];
    if (!other.first) other.first = captured.t.psn;  // the capture starts with a response
    const std::int64_t at = captured.t.psn - *other.first;
    const TransportPacket& t = captured.t;
    if (t.op->operation == Operation::acknowledge) {
      half.acknowledgements.push_back({t.frame, at, t.syndrome, t.msn.value(), false});
      return;
    }
    // A response with data is also an acknowledgement.
    half.answered.emplace(at, t.frame);
    half.answers.emplace(at, std::move(captured));
  }

  void infer_mtu() {
    exchange_.mtu = resegmenter_ ? options_.mtu : exchange_.connection.mtu;
    if (resegmenter_) return;
    std::uint32_t largest = 0;
    for (const Half& half : halves_)
      for (const auto* packets : {&half.requests, &half.answers})
        for (const auto& [psn, packet] : *packets) {
          if (!packet.t.op->ends_message()) exchange_.mtu = packet.t.payload;
          largest = std::max(largest, packet.t.payload);
        }
    if (exchange_.mtu == 0) {
      exchange_.mtu = 256;
      while (exchange_.mtu < largest) exchange_.mtu *= 2;
    }
  }

  static bool continues(const CapturedPacket& packet, Operation operation) {
    return packet.t.op->operation == operation && !packet.t.op->begins_message();
  }

  Result<void> build(std::size_t from, Requests& direction) {
    Half &half = halves_[from], &other = halves_[1 - from];
    direction.retransmitted_packets = half.again;
    const char* const who = from == 0 ? "the local side" : "the peer";
    // Replay starts with the first packet of a message.
    auto at = half.requests.begin();
    while (at != half.requests.end() && !at->second.t.op->begins_message()) ++at;
    if (at == half.requests.end()) return {};
    const std::int64_t base = at->first;
    direction.first = *half.first + base;
    if (at != half.requests.begin())
      exchange_.notes.push_back(
          fmt::format("the capture starts within a message of {}; replay starts at "
                      "frame {}",
                      who, at->second.t.frame));
    std::int64_t next = base;
    while (at != half.requests.end()) {
      if (at->first < next) {  // retry of a part of a READ
        ++at;
        continue;
      }
      if (at->first > next || !at->second.t.op->begins_message())
        return wrong(
            fmt::format("the capture does not contain the request of {} with PSN {} (before frame {}), so its "
                        "message cannot be replayed",
                        who, (*half.first + next).value(), at->second.t.frame));
      auto message = take(half, other, at, base, who);
      if (!message) return tl::unexpected(message.error());
      if (!*message) break;
      if (from == 1 && !(*message)->has_answer && ((*message)->is_read() || (*message)->is_atomic())) {
        exchange_.notes.push_back(
            fmt::format("the local response to frame {} is incomplete in the capture; the peer's "
                        "requests from there on are skipped",
                        (*message)->first_frame));
        break;
      }
      next = base + (*message)->end();
      direction.messages.push_back(std::move(**message));
    }
    direction.psns = direction.messages.empty() ? 0 : direction.messages.back().end();
    if (direction.psns > most_psns)
      return wrong(fmt::format("{}: {} packets exceed the limit of {}", who, direction.psns, most_psns));
    for (CapturedAnswer answered : other.acknowledgements) {
      answered.psn -= base;
      direction.answers.push_back(answered);
    }
    for (const auto& [psn, frame] : other.answered)
      direction.answers.push_back({frame, psn - base, 0, other.answers.at(psn).t.msn.value(), false});
    std::sort(direction.answers.begin(), direction.answers.end(),
              [](const CapturedAnswer& a, const CapturedAnswer& b) { return a.frame < b.frame; });
    for (const CapturedAnswer& one : direction.answers) {
      if (!one.refuses()) continue;
      const auto refused =
          std::find_if(direction.messages.begin(), direction.messages.end(),
                       [&](const Message& message) { return one.psn >= message.first && one.psn < message.end(); });
      if (refused != direction.messages.end()) refused->refused = true;
    }
    return {};
  }

  /// Reads the message that starts at `at` and advances `at` to the next message. Returns nullopt if the capture ends
  /// within the message.
  Result<std::optional<Message>> take(Half& half, Half& other, std::map<std::int64_t, CapturedPacket>::iterator& at,
                                      std::int64_t base, const char* who) {
    const TransportPacket& t = at->second.t;
    const auto kind = kind_of(t.op->operation);
    if (!kind || t.op->transport != (exchange_.is_unreliable() ? Transport::uc : Transport::rc))
      return wrong(fmt::format("frame {}: {} cannot be replayed against a live peer", t.frame, t.op->name));
    Message message;
    message.kind = *kind;
    message.first = static_cast<std::uint32_t>(at->first - base);
    message.has_remote = t.has_reth || t.has_atomic;
    message.remote_address = t.address;
    message.key = t.key;
    message.length = message.is_atomic() ? 8 : t.length;
    message.operand = t.operand;
    message.compare = t.compare;
    message.first_frame = half.seen.at(at->first);
    const Operation operation = t.op->operation;
    for (std::int64_t psn = at->first;; ++psn) {
      if (at == half.requests.end() || at->first != psn ||
          (psn != base + message.first && !continues(at->second, operation))) {
        if (at != half.requests.end())
          return wrong(
              fmt::format("the capture does not contain the request of {} with PSN {} (before frame {}), so its "
                          "message cannot be replayed",
                          who, (*half.first + psn).value(), at->second.t.frame));
        exchange_.notes.push_back(fmt::format("the capture ends within a message of {} (frame {}), which is skipped",
                                              who, message.first_frame));
        return std::nullopt;
      }
      CapturedPacket& packet = at->second;
      const Bytes payload = packet.payload();
      message.payload.insert(message.payload.end(), payload.begin(), payload.end());
      message.has_immediate |= packet.t.op->immediate;
      message.has_invalidate |= packet.t.op->invalidate;
      message.solicited |= packet.t.solicited;
      message.immediate = packet.t.immediate;
      message.invalidated_key = packet.t.invalidated_key;
      message.last_frame = std::max(message.last_frame, half.seen.at(psn));
      const bool ends = packet.t.op->ends_message();
      message.packets.push_back(std::move(packet));
      ++at;
      if (ends) break;
    }
    message.psns = static_cast<std::uint32_t>(message.packets.size());
    if (message.is_read()) message.psns = machines::psns_of_read(message.length, exchange_.mtu);
    if (!message.is_read() && !message.is_atomic()) {
      message.length = static_cast<std::uint32_t>(message.payload.size());
      return message;
    }
    for (std::uint32_t i = 0; i < message.psns; ++i) {
      const auto found = other.answers.find(base + message.first + i);
      if (found == other.answers.end()) break;
      message.answer_frame = std::max(message.answer_frame, other.answered.at(found->first));
      message.answers.push_back(found->second);
    }
    message.has_answer = message.answers.size() == message.psns;
    for (const CapturedPacket& answer : message.answers) {
      const Bytes payload = answer.payload();
      message.payload.insert(message.payload.end(), payload.begin(), payload.end());
      message.original = answer.t.operand;
    }
    if (message.is_read() && message.has_answer && message.payload.size() != message.length)
      return wrong(fmt::format("the READ of frame {} requests {} bytes, but its captured responses contain {}",
                               message.first_frame, message.length, message.payload.size()));
    return message;
  }

  /// Determines the events that precede each message of `direction`.
  static void order(Requests& direction, const Requests& other) {
    std::size_t messages = 0, answer = 0;
    std::uint32_t acknowledged = 0;
    std::uint64_t last = 0;
    for (Message& message : direction.messages) {
      // In PSN order, so that no message waits for a later one.
      last = std::max(last, message.first_frame);
      while (messages < other.messages.size() && other.messages[messages].last_frame < last) ++messages;
      for (; answer < direction.answers.size() && direction.answers[answer].frame < last; ++answer) {
        const CapturedAnswer& one = direction.answers[answer];
        if (one.cnp || one.psn < 0) continue;
        const bool nak = !Syndrome(one.syndrome).is_ack();
        acknowledged = std::max(acknowledged, static_cast<std::uint32_t>(one.psn + (nak ? 0 : 1)));
      }
      message.after_messages = messages;
      message.after_psn = std::min(acknowledged, message.first);
    }
  }

  Exchange& exchange_;
  const ExchangeOptions& options_;
  tracking::ConnectionEnd ends_[2];
  Half halves_[2];
  std::size_t bytes_ = 0;
  std::optional<Resegmenter> resegmenter_;
};

}  // namespace

std::string describe(const Connection& connection, std::uint32_t number) {
  const auto sent = [&](Side end) {
    std::uint64_t messages = 0;
    for (const std::uint32_t count : connection.by(end).messages) messages += count;
    return fmt::format("{} from {}", captures::analysis::counted(messages, "message", "messages"),
                       end == Side::a ? "a" : "b");
  };
  return fmt::format("connection {}: {} {}, {}, {}, frames {} to {}", number, to_string(connection.service),
                     captures::analysis::flow_name(connection.ends, connection.service, Side::a), sent(Side::a),
                     sent(Side::b), connection.first_frame, connection.last_frame);
}

Result<std::vector<Connection>> connections_of(const std::string& file) {
  Rows rows;
  tracking::Tracker tracker(rows);
  auto done = dissect_file(file, [&](const tracking::Packet& packet) -> Result<void> {
    tracker.add(packet);
    return {};
  });
  if (!done) return tl::unexpected(done.error());
  tracker.finish();
  std::vector<Connection> connections;
  for (auto& [id, connection] : rows.rows) connections.push_back(connection);
  return connections;
}

Result<Exchange> read_exchange(const std::string& file, const ExchangeOptions& options) {
  if (file == "-") return wrong_choice("replay reads the capture twice; standard input is not supported");
  const auto connections = connections_of(file);
  if (!connections) return tl::unexpected(connections.error());
  if (connections->empty()) return wrong(file + ": the capture contains no RDMA connection");
  const auto list = [&] {
    std::string text;
    for (std::size_t i = 0; i < connections->size() && i < 10; ++i)
      text += "\n  " + describe((*connections)[i], static_cast<std::uint32_t>(i + 1));
    return text;
  };
  std::size_t chosen = options.connection;
  if (chosen > connections->size())
    return wrong_choice(fmt::format("{}: no connection {}; available:{}", file, chosen, list()));
  if (chosen == 0) {
    std::uint64_t most = 0;
    for (std::size_t i = 0; i < connections->size(); ++i) {
      const Connection& one = (*connections)[i];
      const std::uint64_t bytes = weight(one, Side::a) + weight(one, Side::b);
      if (!can_be_played(one) || (chosen != 0 && bytes <= most)) continue;
      most = bytes;
      chosen = i + 1;
    }
    if (chosen == 0)
      return wrong(
          fmt::format("{}: no RC, UC or iWARP connection to replay against a live peer; available:{}", file, list()));
  }
  Exchange exchange;
  exchange.connection = (*connections)[chosen - 1];
  exchange.number = static_cast<std::uint32_t>(chosen);
  if (!can_be_played(exchange.connection))
    return wrong_choice(fmt::format("{}: only RC, UC and iWARP connections can be replayed against a live peer, not {}",
                                    file, describe(exchange.connection, exchange.number)));
  exchange.side = options.side.value_or(
      weight(exchange.connection, Side::b) > weight(exchange.connection, Side::a) ? Side::b : Side::a);
  if (exchange.is_iwarp()) {
    if (auto read = detail::read_streams(file, options.max_bytes, exchange); !read)
      return tl::unexpected(ExchangeError{read.error().usage, file + ": " + read.error().message});
    return exchange;
  }
  // If a UC sender receives no packet, its QP number is unknown.
  const bool ours_known = exchange.connection.ends[static_cast<std::size_t>(exchange.side)].qp_known;
  const bool theirs_known = exchange.connection.ends[static_cast<std::size_t>(tracking::other(exchange.side))].qp_known;
  if (!theirs_known || (!ours_known && !exchange.is_unreliable()))
    return wrong(fmt::format("{}: the capture contains only one direction: {}", file,
                             describe(exchange.connection, exchange.number)));
  Builder builder(exchange, options);
  auto read = dissect_file(file, [&](const tracking::Packet& packet) { return builder.add(packet); });
  if (read) read = builder.finish();
  if (!read) return tl::unexpected(ExchangeError{read.error().usage, file + ": " + read.error().message});
  return exchange;
}

}  // namespace rdmawire::replay::reactive
