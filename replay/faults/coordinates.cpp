#include "replay/faults/coordinates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/modular.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/address.hpp"
#include "dissectors/tracking/lru.hpp"

namespace rdmawire::replay {
namespace {

using tracking::FlowKey;

// State of one PSN.
struct Noted {
  std::uint32_t transmissions = 0;
  std::uint32_t message = 0;
  std::uint32_t packet = 0;
};

// The requests or the answers of one direction of a QP.
struct PsnStream {
  bool begun = false;
  Psn first, highest;
  std::int64_t highest_relative = 0;
  std::uint32_t connection = 0;
  std::uint32_t message = 0, packet = 0;
  std::vector<Noted> noted;  // indexed by relative PSN modulo the vector's size, a power of two. Grows up to the window

  Noted* at(std::int64_t relative) {
    const auto size = static_cast<std::int64_t>(noted.size());
    if (relative > highest_relative || relative <= highest_relative - size) return nullptr;
    return &noted[static_cast<std::size_t>(relative) & (noted.size() - 1)];
  }
  void begin(Psn psn, std::int64_t relative) {
    begun = true;
    first = psn - relative;
    highest = psn;
    highest_relative = relative;
    noted.assign(16, {});
  }
  // Advances to a new highest PSN. Skipped PSNs stay unseen.
  void advance(Psn psn, std::int64_t relative) {
    const std::int64_t ahead = relative - highest_relative;
    while (noted.size() < Coordinator::window && ahead + highest_relative >= static_cast<std::int64_t>(noted.size())) {
      std::vector<Noted> larger(noted.size() * 2);
      for (std::size_t i = 0; i < noted.size(); ++i) {
        const std::int64_t r = highest_relative - static_cast<std::int64_t>(i);
        larger[static_cast<std::size_t>(r) & (larger.size() - 1)] = *at(r);
      }
      noted = std::move(larger);
    }
    for (std::int64_t i = 1; i <= std::min<std::int64_t>(ahead, static_cast<std::int64_t>(noted.size())); ++i)
      noted[static_cast<std::size_t>(relative - i + 1) & (noted.size() - 1)] = {};
    highest = psn;
    highest_relative = relative;
  }
};

struct TcpDirection {
  bool begun = false;
  TcpSeq first;
  TcpSeq next_number;
  std::int64_t next = 0;  // relative end of all data so far
  std::uint32_t segments = 0;
  struct Segment {
    std::int64_t begin = 0, end = 0;
    std::uint32_t number = 0, transmissions = 0;
  };
  std::deque<Segment> recent;  // ascending
};

}  // namespace

struct Coordinator::State {
  explicit State(std::uint32_t most) : requests(most), answers(most), tcp(most * 2), halves(most * 2) {}

  tracking::LruTable<FlowKey, PsnStream> requests, answers;
  tracking::LruTable<FlowKey, TcpDirection> tcp;
  tracking::LruTable<FlowKey, std::uint32_t> halves;  // connection number by direction
  std::uint32_t connections = 0;

  // The direction of the requests that an answer with `psn` responds to. This pairs the two directions of a connection.
  std::optional<FlowKey> requests_answered(const FlowKey& answer, Psn psn);
  FrameCoordinates rdma(const FlowKey& flow, const HeaderStack& stack, const View<Bth>& bth);
  FrameCoordinates of_tcp(const FlowKey& ports, const HeaderStack& stack, const View<Tcp>& tcp);
  std::uint32_t connection_of(const FlowKey& flow) {
    if (const std::uint32_t* known = halves.find(flow)) return *known;
    return halves.put(flow, ++connections);
  }
};

std::optional<FlowKey> Coordinator::State::requests_answered(const FlowKey& answer, Psn psn) {
  std::optional<FlowKey> found;
  const auto possible = [&](const FlowKey& key, PsnStream& stream) {
    if (!(key.from == answer.to && key.to == answer.from)) return;
    // Responses to a READ use PSNs after the request's PSN.
    const std::int64_t relative = stream.highest_relative + (psn - stream.highest);
    // The most recently used direction is preferred.
    if (relative >= 0 && relative < stream.highest_relative + 1024) found = key;
  };
  requests.for_each_oldest_first(possible);
  return found;
}

FrameCoordinates Coordinator::State::rdma(const FlowKey& flow, const HeaderStack& /*stack*/, const View<Bth>& bth) {
  const Opcode& op = opcode(bth.get<"opcode">());
  const bool is_answer = op.direction == Direction::response;
  const Psn psn(bth.get<"psn">());
  FrameCoordinates at;
  at.kind = is_answer ? FrameCoordinates::Kind::answer : FrameCoordinates::Kind::request;

  auto& table = is_answer ? answers : requests;
  PsnStream* stream = table.find(flow);
  if (!stream) {
    stream = &table.put(flow, PsnStream());
    std::int64_t relative = 0;
    if (is_answer) {
      if (const auto other = requests_answered(flow, psn)) {
        const PsnStream& asked = *requests.find(*other);
        relative = asked.highest_relative + (psn - asked.highest);
        // Both directions get the lower of their connection numbers.
        const std::uint32_t* mine = halves.find(flow);
        const std::uint32_t number = mine ? std::min(*mine, asked.connection) : asked.connection;
        halves.put(flow, number);
        halves.put(*other, number);
        requests.find(*other)->connection = number;
        if (PsnStream* back = requests.find(flow)) back->connection = number;
      }
      stream = answers.find(flow);
    }
    stream->connection = connection_of(flow);
    stream->begin(psn, relative);
  }
  at.connection = stream->connection;
  at.psn = stream->highest_relative + (psn - stream->highest);
  const bool is_new = at.psn > stream->highest_relative;
  if (is_new) stream->advance(psn, at.psn);
  Noted* noted = stream->at(at.psn);
  if (!noted) return at;  // too old
  if (noted->transmissions == 0 && (is_new || noted->message == 0)) {
    if (op.begins_message() || !op.known) {
      ++stream->message;
      stream->packet = 1;
    } else {
      stream->message = std::max(stream->message, 1U);
      ++stream->packet;
    }
    noted->message = stream->message;
    noted->packet = stream->packet;
  }
  if (noted->transmissions != UINT32_MAX) ++noted->transmissions;
  at.transmission = noted->transmissions;
  at.message = noted->message;
  at.packet = noted->packet;
  return at;
}

FrameCoordinates Coordinator::State::of_tcp(const FlowKey& ports, const HeaderStack& stack, const View<Tcp>& header) {
  const std::uint64_t from = header.get<"src_port">(), to = header.get<"dst_port">();
  constexpr std::uint64_t is_tcp = std::uint64_t{1} << 63;
  const FlowKey flow = ports.with(is_tcp | from << 16 | to), back = ports.reversed(is_tcp | to << 16 | from);
  FrameCoordinates at;
  at.kind = FrameCoordinates::Kind::tcp;
  const bool syn = header.get<"syn">();
  TcpDirection* direction = tcp.find(flow);
  const TcpSeq seq(header.get<"seq">());
  // A new SYN starts a new connection. A retransmitted SYN does not.
  const TcpSeq data = syn ? seq + 1 : seq;
  const bool anew = syn && direction && direction->begun && direction->first != data;
  if (!direction || anew) {
    if (anew && !header.get<"ack">()) {
      halves.erase(flow);
      halves.erase(back);
    }
    direction = &tcp.put(flow, TcpDirection());
  }
  if (!direction->begun) {
    direction->begun = true;
    direction->first = direction->next_number = data;
  }
  if (const std::uint32_t* known = halves.find(flow)) {
    at.connection = *known;
  } else if (const std::uint32_t* other = halves.find(back)) {
    const std::uint32_t number = *other;
    at.connection = halves.put(flow, number);
  } else {
    at.connection = halves.put(flow, ++connections);
  }
  at.sequence = direction->next + (data - direction->next_number);
  at.bytes = stack.payload.length;
  if (at.bytes == 0) return at;
  const std::int64_t end = at.sequence + at.bytes;
  auto& recent = direction->recent;
  auto segment = std::upper_bound(recent.begin(), recent.end(), at.sequence,
                                  [](std::int64_t begin, const TcpDirection::Segment& s) { return begin < s.begin; });
  // A segment that starts within an earlier segment is a retransmission. A segment that starts in a gap is new.
  const bool again = segment != recent.begin() && at.sequence < std::prev(segment)->end;
  if (again) {
    --segment;
  } else {
    if (recent.size() >= window) {
      if (segment == recent.begin()) return at;  // too old
      const auto place = segment - recent.begin();
      recent.pop_front();
      segment = recent.begin() + (place - 1);
    }
    segment = recent.insert(segment, {at.sequence, end, ++direction->segments, 0});
  }
  if (end > direction->next) {
    direction->next = end;
    direction->next_number = data + at.bytes;
  }
  at.segment = segment->number;
  at.transmission = ++segment->transmissions;
  return at;
}

Coordinator::Coordinator(std::uint32_t most_connections) : state_(std::make_unique<State>(most_connections)) {}
Coordinator::Coordinator(Coordinator&&) noexcept = default;
Coordinator& Coordinator::operator=(Coordinator&&) noexcept = default;
Coordinator::~Coordinator() = default;

std::uint64_t Coordinator::forgotten() const { return state_->requests.evicted() + state_->tcp.evicted(); }

FrameCoordinates Coordinator::locate(const HeaderStack& stack) {
  if (stack.fragment) return {};
  const auto ports = tracking::ports_of(stack);
  if (!ports) return {};
  if (const auto bth = stack.get<Bth>()) {
    // Management QPs are shared by all connections.
    if (bth->get<"dest_qp">() <= 1 || opcode(bth->get<"opcode">()).transport == Transport::cnp) return {};
    std::uint64_t number = bth->get<"dest_qp">();
    if (const auto deth = stack.get<Deth>()) number |= std::uint64_t{deth->get<"src_qp">()} << 24;
    return state_->rdma(ports->with(number), stack, *bth);
  }
  if (const auto tcp = stack.get<Tcp>()) return state_->of_tcp(*ports, stack, *tcp);
  return {};
}

std::string to_string(const FrameCoordinates& at) {
  const std::string connection = at.connection == 0 ? "" : fmt::format("connection {}, ", at.connection);
  switch (at.kind) {
    case FrameCoordinates::Kind::other: return "no connection";
    case FrameCoordinates::Kind::request:
    case FrameCoordinates::Kind::answer:
      return fmt::format("{}{} psn {:+}, try {}, message {} packet {}", connection,
                         at.kind == FrameCoordinates::Kind::request ? "request" : "answer", at.psn, at.transmission,
                         at.message, at.packet);
    case FrameCoordinates::Kind::tcp:
      return at.bytes == 0 ? fmt::format("{}TCP seq {:+} without data", connection, at.sequence)
                           : fmt::format("{}TCP segment {} seq {:+}, {} bytes, try {}", connection, at.segment,
                                         at.sequence, at.bytes, at.transmission);
  }
  return {};
}

}  // namespace rdmawire::replay
