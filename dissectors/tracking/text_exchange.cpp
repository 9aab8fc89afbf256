#include "dissectors/tracking/text_exchange.hpp"

#include <algorithm>

#include "dissectors/protocol/transport.hpp"

namespace rdmawire::tracking {
namespace {

constexpr std::size_t shortest = 19, longest = 108;

// Parses the parts of a record in order. After the first mismatch, every call fails.
class Reader {
 public:
  explicit Reader(Bytes text) : text_(text) {}

  // Reads `digits` lower-case hexadecimal digits.
  std::uint64_t hex(unsigned digits) {
    std::uint64_t value = 0;
    for (unsigned i = 0; i < digits; ++i) {
      const std::uint8_t c = next();
      if (c >= '0' && c <= '9')
        value = value << 4 | (c - '0');
      else if (c >= 'a' && c <= 'f')
        value = value << 4 | (c - 'a' + 10);
      else
        good_ = false;
    }
    return value;
  }
  void must_be(char c) { good_ = next() == static_cast<std::uint8_t>(c) && good_; }
  [[nodiscard]] bool is(char c) const { return at_ < text_.size() && text_[at_] == static_cast<std::uint8_t>(c); }
  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] std::size_t at() const { return at_; }

 private:
  std::uint8_t next() {
    if (at_ < text_.size()) return text_[at_++];
    good_ = false;
    return 0;
  }
  Bytes text_;
  std::size_t at_ = 0;
  bool good_ = true;
};

// True if the text may start a record. Detects most other data early.
bool can_begin_record(Bytes text) {
  return text.size() >= shortest && text[4] == ':' && (text[9] == ':' || text[11] == ':');
}

void read_pingpong(Reader& in, TextRecord& record) {
  record.qp = static_cast<std::uint32_t>(in.hex(6));
  in.must_be(':');
  record.psn = static_cast<std::uint32_t>(in.hex(6));
  if (!in.is(':')) return;
  in.must_be(':');
  record.gid.high = in.hex(16);
  record.gid.low = in.hex(16);
}

void read_perftest(Reader& in, TextRecord& record) {
  constexpr unsigned pair = 2, srqn = 8;
  record.perftest = true;
  record.reads = static_cast<std::uint8_t>(std::min<std::uint64_t>(in.hex(4), 0xff));
  in.must_be(':');
  record.qp = static_cast<std::uint32_t>(in.hex(6));
  in.must_be(':');
  record.psn = static_cast<std::uint32_t>(in.hex(6));
  in.must_be(':');
  in.hex(8);  // rkey
  in.must_be(':');
  in.hex(16);  // address
  if (!in.is(':')) return;
  in.must_be(':');
  // A GID has a colon after its first two digits, but an SRQ number does not.
  Reader ahead = in;
  ahead.hex(pair);
  if (!ahead.is(':')) {
    in.hex(srqn);
    return;
  }
  std::array<std::uint8_t, 16> gid{};
  for (std::size_t i = 0; i < gid.size(); ++i) {
    if (i != 0) in.must_be(':');
    gid[i] = static_cast<std::uint8_t>(in.hex(pair));
  }
  record.gid = PortAddress::of_gid(gid.data());
  if (!in.is(':')) return;
  in.must_be(':');
  in.hex(srqn);
  in.must_be(':');
}

}  // namespace

TextRecord read_text_record(Bytes text) {
  TextRecord record;
  if (!can_begin_record(text)) return record;
  Reader in(text);
  record.lid = static_cast<std::uint16_t>(in.hex(4));
  in.must_be(':');
  if (text[9] == ':')
    read_perftest(in, record);
  else
    read_pingpong(in, record);
  in.must_be('\0');
  if (in.good()) record.length = static_cast<std::uint32_t>(in.at());
  return record;
}

TextExchange::TextExchange(PairSink& sink, std::uint32_t capacity)
    : sink_(sink), exchanges_(capacity), mtu_codes_(capacity) {}

void TextExchange::add(const Packet& packet) {
  const HeaderStack& stack = packet.stack;
  const auto layers = stack.layers();
  if (stack.transport >= layers.size() || stack.payload.length == 0) return;
  const Layer& transport = layers[stack.transport];
  if (transport.header != &info<Tcp> || !packet.pdus.empty()) return;
  const Bytes payload = stack.bytes_of(stack.payload);

  // perftest sends its path MTU code as one digit before the QP numbers.
  const bool mtu_code = payload.size() == 2 && payload[0] >= '1' && payload[0] <= '5' && payload[1] == 0;
  if (!mtu_code && partials_ == 0 && !can_begin_record(payload)) return;
  const auto ports = ports_of(stack);
  if (!ports || stack.fragment) return;
  const View<Tcp> tcp(stack.bytes.data() + transport.offset);
  const FlowKey key = ports->with(std::uint64_t{tcp.get<"src_port">()} << 16 | tcp.get<"dst_port">());
  if (mtu_code)
    mtu_codes_.put(key, static_cast<std::uint8_t>(payload[0] - '0'));
  else
    segment(packet, key, tcp.get<"seq">(), payload);
}

void TextExchange::segment(const Packet& packet, const FlowKey& key, std::uint32_t seq, Bytes payload) {
  const FlowKey back = key.reversed(key.number >> 16 | (key.number & 0xffff) << 16);
  std::size_t side = 0;
  Exchange* exchange = exchanges_.find(key);
  if (!exchange) {
    exchange = exchanges_.find(back);
    side = exchange ? 1 : 0;
  }
  if (!exchange) {
    const TextRecord first = read_text_record(payload);
    if (first.length == 0) return;
    // Another record can follow.
    const Bytes second = payload.subspan(first.length);
    if (second.size() >= shortest && !can_begin_record(second)) return;
    exchange = &exchanges_.put(key, {});
  }
  const FlowKey& client = side == 0 ? key : back;
  Direction& direction = exchange->directions[side];
  if (direction.mtu == 0)
    if (const std::uint8_t* code = mtu_codes_.find(key)) direction.mtu = *code;

  if (direction.partial.empty() && !can_begin_record(payload)) return;
  if (direction.started) {
    const auto ahead = static_cast<std::int32_t>(seq - direction.next);
    if (ahead < 0) return;  // a retransmission
    // The missing data may contain a QP number, so later records cannot be numbered.
    if (ahead > 0) direction.broken = true;
  }
  std::vector<std::uint8_t> joined;
  joined.swap(direction.partial);
  if (!joined.empty()) --partials_;
  if (direction.broken) return;
  direction.started = true;
  direction.next = seq + static_cast<std::uint32_t>(payload.size());
  Bytes rest = payload;
  if (!joined.empty()) {
    joined.insert(joined.end(), payload.begin(), payload.end());
    rest = joined;
  }
  const bool continues = rest.size() > payload.size();
  const std::size_t all = rest.size();
  while (true) {
    const TextRecord record = read_text_record(rest);
    if (record.length == 0) break;
    take(packet, client, *exchange, side, record);
    rest = rest.subspan(record.length);
  }
  // Keep the bytes of an incomplete record until it is complete.
  if (!rest.empty() && rest.size() < longest && (continues || rest.size() < all)) {
    direction.partial.assign(rest.begin(), rest.end());
    ++partials_;
  }
}

void TextExchange::take(const Packet& packet, const FlowKey& client, Exchange& exchange, std::size_t side,
                        const TextRecord& record) {
  if (record.qp == 0) return;  // ibv_srq_pingpong pads its message with QPs that do not exist
  std::vector<Named>& named = exchange.directions[side].named;
  // Before each of its steps, perftest repeats all records in the same order, so search from the end.
  for (auto it = named.rbegin(); it != named.rend(); ++it)
    if (it->record.qp == record.qp && it->record.psn == record.psn) return;
  if (named.size() == max_queue_pairs) {
    ++beyond_;
    return;
  }
  named.push_back({record, packet.number, packet.time_ns});

  const std::size_t both = std::min(exchange.directions[0].named.size(), exchange.directions[1].named.size());
  for (; exchange.reported < both; ++exchange.reported) {
    PairEvidence e;
    e.by = JoinedBy::text;
    e.service_known = false;
    std::uint8_t mtu = 0;
    for (std::size_t i : {0U, 1U}) {
      const Direction& direction = exchange.directions[i];
      const TextRecord& one = direction.named[exchange.reported].record;
      PairEvidence::Side& out = e.sides[i];
      out.address = one.lid != 0         ? PortAddress::of_lid(one.lid)
                    : !one.gid.is_zero() ? one.gid
                    : i == 0             ? client.from
                                         : client.to;
      out.qp = one.qp;
      out.first_psn = one.psn;
      if (one.perftest) out.reads_as_responder = one.reads;
      if (direction.mtu != 0) mtu = mtu == 0 ? direction.mtu : std::min(mtu, direction.mtu);
    }
    if (mtu != 0) e.mtu = 128U << mtu;  // perftest uses the smaller MTU of the two sides
    const Named &a = exchange.directions[0].named[exchange.reported],
                &b = exchange.directions[1].named[exchange.reported];
    const bool a_first = a.frame <= b.frame;
    e.request_frame = a_first ? a.frame : b.frame;
    e.request_time = a_first ? a.time : b.time;
    e.frame = packet.number;
    e.time = packet.time_ns;
    e.requests = 1;
    sink_.pair(e);
  }
}

std::size_t TextExchange::memory() const {
  std::size_t bytes = exchanges_.memory() + mtu_codes_.memory();
  exchanges_.for_each_oldest_first([&](const FlowKey&, const Exchange& exchange) {
    for (const Direction& direction : exchange.directions)
      bytes += direction.named.capacity() * sizeof(Named) + direction.partial.capacity();
  });
  return bytes;
}

}  // namespace rdmawire::tracking
