#include "dissectors/faces/line.hpp"

#include <unordered_map>

#include "dissectors/faces/gist.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/protocol/tunnel.hpp"

namespace rdmawire::faces {
namespace {

// What a header says in one line. A header that has no row here says its title and what its enumerated fields hold.
constexpr Gist gists[] = {
    gist<Ethernet>("{type}"),
    gist<Vlan>("{type}"),
    gist<LinuxSll>("{protocol}"),
    gist<LinuxSll2>("{protocol}"),
    gist<Erf>("ERF {type.kind}"),
    gist<Ipv4>("{protocol}"),
    gist<Ipv6>("{next_header}"),
    gist<Ipv6Extension>("{next_header}"),
    gist<Ipv6Fragment>("{next_header}"),
    gist<Udp>("UDP {src_port} → {dst_port}"),
    gist<Tcp>("TCP {src_port} → {dst_port} {syn? SYN}{fin? FIN}{rst? RST}{psh? PSH}{ack? ACK}{urg? URG}{ece? ECE}"
              "{cwr? CWR}  seq {seq}  ack {ack_number}  win {window}"),
    gist<Lrh>("LRH {lnh}"),
    gist<Rwh>("{type}"),
    gist<Bth>("{opcode:28} qp {dest_qp:8} psn {psn:8}"),
    gist<Rdeth>("eec {ee_context}"),
    gist<Deth>("from qp {src_qp}  qkey {qkey}"),
    gist<Xrceth>("srq {xrcsrq}"),
    gist<Reth>("va {va}  rkey {rkey}  len {length}"),
    gist<AtomicEth>("va {va}  rkey {rkey}  swap/add {swap_add}  compare {compare}"),
    gist<Aeth>("{syndrome.kind}[ {syndrome.nak_code}][ wait {syndrome.wait}]  msn {msn}[  credits {syndrome.credits}]"),
    gist<AtomicAckEth>("original {original}"),
    gist<ImmDt>("imm {data}"),
    gist<Ieth>("invalidates {rkey}"),
    gist<Feth>("{placement.global? global}{placement.persistent? persistent}  {selectivity}"),
    gist<Cnp>(""),
    gist<DcEth>("from qp {src_qp}"),
};

// What is worth saying of a header that lies beneath the endpoints: written before the gist.
constexpr Gist beneath[] = {
    gist<Vlan>("vlan {id}"),
    gist<Vxlan>("VXLAN {vni}"),
    gist<Erspan2>("ERSPAN {session}"),
    gist<Erspan3>("ERSPAN {session}"),
};

// Bits that matter when they are set: written behind the numbers.
constexpr Gist marks[] = {
    gist<Ipv4>("{tos.ecn=3?  CE}"),
    gist<Ipv6>("{traffic_class.ecn=3?  CE}"),
    gist<Grh>("{traffic_class.ecn=3?  CE}"),
    gist<Bth>("{fecn?  FECN}{becn?  BECN}{se?  SE}{ack_request?  AckReq}"),
};

struct EndpointFields {
  const HeaderInfo* header;
  std::string_view prefix;
  Field source;
  Field destination;
};
template <class H>
consteval EndpointFields endpoints(std::string_view source, std::string_view destination,
                                   std::string_view prefix = {}) {
  return {&info<H>, prefix, detail::field_of<H>(source), detail::field_of<H>(destination)};
}
// The nearest to the transport that is there.
constexpr EndpointFields endpoint_fields[] = {
    endpoints<Ipv4>("src", "dst"),
    endpoints<Ipv6>("src", "dst"),
    endpoints<Lrh>("slid", "dlid", "LID "),
    endpoints<Grh>("sgid", "dgid"),
    endpoints<Ethernet>("src", "dst"),
};

Ink ink_of(const Opcode& op, const HeaderStack& stack) {
  if (op.operation == Operation::congestion_notification && op.known) return Ink::notice;
  if (op.operation == Operation::acknowledge)
    if (const auto aeth = stack.get<Aeth>())
      if (aeth->get<"syndrome.kind">() != syndrome_kind::ack) return Ink::bad;
  return op.direction == Direction::request ? Ink::request : Ink::response;
}

std::string_view crc_name(const char* name, CrcCheck::Status status, std::string& scratch) {
  scratch = name;
  scratch += ' ';
  scratch += to_string(status);
  return scratch;
}

}  // namespace

struct LinePrinter::Plans {
  std::unordered_map<const HeaderInfo*, GistPlan> gist, below, mark;
  std::string scratch;

  Plans() {
    for (const Gist& g : gists) gist.emplace(g.header, GistPlan(g));
    for (const Gist& g : beneath) below.emplace(g.header, GistPlan(g));
    for (const Gist& g : marks) mark.emplace(g.header, GistPlan(g));
  }
  const GistPlan& of(const HeaderInfo& header) {
    const auto found = gist.find(&header);
    return found != gist.end() ? found->second : gist.emplace(&header, GistPlan(header)).first->second;
  }
  static void write(Page& page, const std::unordered_map<const HeaderInfo*, GistPlan>& from, const HeaderStack& stack,
                    const Layer& layer) {
    if (const auto plan = from.find(layer.header); plan != from.end())
      plan->second.write(page, stack.bytes.data() + layer.offset);
  }

  void crc(Page& page, const char* name, const CrcCheck& check) {
    if (check.status == CrcCheck::Status::absent) return;
    const Ink ink = check.status == CrcCheck::Status::good  ? Ink::good
                    : check.status == CrcCheck::Status::bad ? Ink::bad
                                                            : Ink::dim;
    page.put("  ").put(ink, crc_name(name, check.status, scratch));
  }
  static void octets(Page& page, std::uint32_t count) {
    page.with([&](std::string& out) {
      append_decimal(out, count);
      out += " B";
    });
  }

  void essence(Page& page, const HeaderStack& stack) {
    const auto layers = stack.layers();
    const std::size_t last = layers.empty() ? 0 : layers.size() - 1;
    const std::size_t first = stack.transport != HeaderStack::none ? stack.transport : last;
    for (std::size_t i = 0; i < first; ++i) {
      const std::size_t column = page.column();
      write(page, below, stack, layers[i]);
      if (page.column() != column) page.put(" · ");
    }
    if (layers.empty()) return;
    const std::size_t begin = page.column();
    const Layer& head = layers[first];
    const bool bth = head.header == &info<Bth>;
    const Ink ink = bth ? ink_of(opcode(View<Bth>(stack.bytes.data() + head.offset).get<"opcode">()), stack)
                        : Ink::plain;
    page.base(ink);
    of(*head.header).write(page, stack.bytes.data() + head.offset);
    page.base(Ink::plain);
    if (bth) {
      const std::size_t size = page.column() - begin;
      constexpr std::size_t size_column = 55;
      if (stack.payload.length) {
        scratch.clear();
        append_decimal(scratch, stack.payload.length);
        scratch += " B";
        page.to(begin + std::max(size, size_column + 6 - scratch.size())).put(scratch);
      } else if (layers.size() > first + 1) {
        page.to(begin + size_column + 6);
      }
    }
    for (const Layer& layer : layers.subspan(first + 1)) {
      const Page::Mark before = page.mark();
      page.put("  ");
      of(*layer.header).write(page, stack.bytes.data() + layer.offset);
      if (page.column() == before.column + 2) page.back_to(before);
    }
    for (const Layer& layer : layers) write(page, mark, stack, layer);
    if (!bth && stack.payload.length) {
      page.put("  ");
      octets(page, stack.payload.length);
    }
  }
};

LinePrinter::LinePrinter(const LineOptions& options) : options_(options), plans_(std::make_unique<Plans>()) {}
LinePrinter::LinePrinter(LinePrinter&&) noexcept = default;
LinePrinter& LinePrinter::operator=(LinePrinter&&) noexcept = default;
LinePrinter::~LinePrinter() = default;

void LinePrinter::set_origin(std::int64_t time_ns) { origin_ = time_ns; }

Endpoints endpoints_of(const HeaderStack& stack) {
  const auto layers = stack.layers();
  // Native InfiniBand is told apart by its LIDs, also where a GRH follows.
  const Layer* nearest = stack.wire == Wire::infiniband ? stack.find(info<Lrh>) : nullptr;
  if (!nearest && stack.network != HeaderStack::none) nearest = &layers[stack.network];
  const std::size_t from = nearest ? static_cast<std::size_t>(nearest - layers.data()) + 1 : layers.size();
  for (std::size_t i = from; i-- > 0;)
    for (const EndpointFields& fields : endpoint_fields) {
      if (layers[i].header != fields.header) continue;
      const std::uint8_t* header = stack.bytes.data() + layers[i].offset;
      Endpoints result{std::string(fields.prefix), std::string(fields.prefix)};
      append_value(result.source, fields.source, header);
      append_value(result.destination, fields.destination, header);
      return result;
    }
  return {};
}

void LinePrinter::append(std::string& out, const tracking::Packet& packet) {
  Page page(out, options_.colours);
  const HeaderStack& stack = packet.stack;
  if (!origin_) origin_ = packet.time_ns;
  if (!previous_) previous_ = packet.time_ns;

  std::string& scratch = plans_->scratch;
  const auto right = [&](std::size_t end) {
    const std::size_t size = columns(scratch);
    page.to(end > size ? end - size : 0);
  };
  scratch.clear();
  append_decimal(scratch, packet.number);
  right(6);
  page.put(scratch).put("  ");

  scratch.clear();
  switch (options_.time) {
    case TimeStyle::relative: append_seconds(scratch, packet.time_ns - *origin_); break;
    case TimeStyle::delta: append_seconds(scratch, packet.time_ns - *previous_); break;
    case TimeStyle::epoch: append_seconds(scratch, packet.time_ns); break;
    case TimeStyle::absolute: append_date(scratch, packet.time_ns); break;
  }
  previous_ = packet.time_ns;
  right(page.column() + 13);
  page.put(Ink::dim, scratch).put("  ");

  const Endpoints ends = endpoints_of(stack);
  // What carries no transport (ARP, neighbour discovery) does not push the columns of what does.
  if (stack.transport != HeaderStack::none) {
    source_width_ = std::max(source_width_, columns(ends.source));
    destination_width_ = std::max(destination_width_, columns(ends.destination));
  }
  const std::size_t source_end = page.column() + source_width_;
  page.to(source_end - std::min(source_end, columns(ends.source))).put(ends.source).put(ends.source.empty() ? "   " : " → ");
  page.put(ends.destination).to(source_end + 3 + destination_width_).put("  ");

  plans_->essence(page, stack);
  plans_->crc(page, "ICRC", packet.icrc);
  plans_->crc(page, "VCRC", packet.vcrc);
  for (const tracking::Pdu& pdu : packet.pdus) {
    page.put("  │ ");
    plans_->essence(page, pdu.stack);
    plans_->crc(page, "CRC", pdu.crc);
  }
  if (packet.upper.protocol != tracking::Upper::unknown)
    page.put("  ").put(Ink::upper, tracking::to_string(packet.upper.protocol));
  for (std::string_view note : packet.notes) page.put("  ").put(Ink::notice, note);
  const auto findings = [&](const HeaderStack& in) {
    for (const ParseError& finding : in.findings()) {
      scratch = "! ";
      scratch += to_string(finding.kind);
      scratch += ": ";
      scratch += to_string(finding);
      page.put("  ").put(finding.kind == ParseError::Kind::truncated ? Ink::notice : Ink::bad, scratch);
    }
  };
  findings(stack);
  for (const tracking::Pdu& pdu : packet.pdus) findings(pdu.stack);
  page.line();
}

std::string one_line(const tracking::Packet& packet, const LineOptions& options) {
  std::string out;
  LinePrinter(options).append(out, packet);
  return out;
}

}  // namespace rdmawire::faces
