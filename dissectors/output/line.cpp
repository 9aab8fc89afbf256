#include "dissectors/output/line.hpp"

#include <unordered_map>

#include "dissectors/output/summary_formats.hpp"
#include "dissectors/output/tree.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/mad.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/mrc.hpp"
#include "dissectors/protocol/rdmap.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::output {
namespace {

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
// Fields with addresses, in the headers that endpoints_of() uses.
constexpr EndpointFields endpoint_fields[] = {
    endpoints<Ipv4>("src", "dst"),  endpoints<Ipv6>("src", "dst"),     endpoints<Lrh>("slid", "dlid", "LID "),
    endpoints<Grh>("sgid", "dgid"), endpoints<Ethernet>("src", "dst"),
};

/// Returns the color of a header's summary. The color of BTH and RDMAP depends on the direction. Errors have their own
/// color.
TextStyle operation_ink(const HeaderInfo& which, const std::uint8_t* header, const HeaderStack& stack) {
  if (&which == &info<Bth>) {
    const Opcode& op = opcode(View<Bth>(header).get<"opcode">());
    if (op.known && op.operation == Operation::congestion_notification) return TextStyle::notice;
    if (op.operation == Operation::acknowledge)
      if (const auto aeth = stack.get<Aeth>())
        if (aeth->get<"syndrome.kind">() != syndrome_kind::ack) return TextStyle::bad;
    return op.direction == Direction::request ? TextStyle::request : TextStyle::response;
  }
  if (&which == &info<MrcBth>) {
    const MrcOpcode& op = mrc_opcode(View<MrcBth>(header).get<"opcode">());
    if (op.operation == MrcOperation::nack) return TextStyle::bad;
    return op.direction == Direction::request ? TextStyle::request : TextStyle::response;
  }
  if (&which == &info<Rdmap>) {
    switch (static_cast<RdmapOperation>(View<Rdmap>(header).get<"opcode">())) {
      case RdmapOperation::read_response:
      case RdmapOperation::atomic_response: return TextStyle::response;
      case RdmapOperation::terminate: return TextStyle::bad;
      default: return TextStyle::request;
    }
  }
  return ink_of(which);
}

/// Maximum number of PDUs that a line shows.
constexpr std::size_t shown_pdus = 4;

/// True if the line already shows the upper layer, or if the packet contains no upper layer data.
bool names_upper(const HeaderStack& stack) {
  const bool is_mad = stack.find(info<Mad>) != nullptr;
  if (stack.payload.length == 0) return !is_mad;
  return !is_mad && !stack.layers().empty() && ink_of(*stack.layers().back().header) == TextStyle::upper;
}

std::string_view crc_name(const char* name, CrcCheck::Status status, std::string& scratch) {
  scratch = name;
  scratch += ' ';
  scratch += to_string(status);
  return scratch;
}

}  // namespace

struct LinePrinter::Plans {
  using Map = std::unordered_map<const HeaderInfo*, SummaryPlan>;
  Map summary_format, carrier, below, mark;
  SummaryPlan stream{summary_formats::stream};
  std::string scratch;

  Plans() {
    for (const SummaryFormat& g : summary_formats::own) summary_format.emplace(g.header, SummaryPlan(g));
    for (const SummaryFormat& g : summary_formats::carriers) carrier.emplace(g.header, SummaryPlan(g));
    for (const SummaryFormat& g : summary_formats::beneath) below.emplace(g.header, SummaryPlan(g));
    for (const SummaryFormat& g : summary_formats::marks) mark.emplace(g.header, SummaryPlan(g));
  }
  const SummaryPlan& of(const HeaderInfo& header) {
    const auto found = summary_format.find(&header);
    return found != summary_format.end() ? found->second
                                         : summary_format.emplace(&header, SummaryPlan(header)).first->second;
  }
  static bool write(Page& page, const Map& from, const HeaderStack& stack, const Layer& layer) {
    const auto plan = from.find(layer.header);
    if (plan == from.end()) return false;
    plan->second.write(page, stack.bytes.data() + layer.offset);
    return true;
  }

  void crc(Page& page, const char* name, const CrcCheck& check) {
    if (check.status == CrcCheck::Status::absent) return;
    const TextStyle ink = check.status == CrcCheck::Status::good  ? TextStyle::good
                          : check.status == CrcCheck::Status::bad ? TextStyle::bad
                                                                  : TextStyle::dim;
    page.put("  ").put(ink, crc_name(name, check.status, scratch));
  }
  /// Returns the width of a main header's summary, including space for the payload size. Returns 0 for other headers.
  static std::size_t size_end(const HeaderInfo& header) {
    return is_base_transport(header) ? 61 : &header == &info<Rdmap> ? 30 : 0;
  }

  void payload(Page& page, std::uint32_t bytes, std::size_t end) {
    scratch.clear();
    append_decimal(scratch, bytes);
    scratch += " B";
    page.put(" ").to(end - std::min(end, scratch.size())).put(scratch);
  }

  void essence(Page& page, const HeaderStack& stack) {
    const auto layers = stack.layers();
    const bool is_mad = stack.find(info<Mad>) != nullptr;
    bool sized = is_mad;  // true for a MAD: its size is always 256 bytes, and not shown
    bool first = true;
    for (const Layer& layer : layers) {
      const bool last = &layer == &layers.back();
      const std::uint8_t* header = stack.bytes.data() + layer.offset;
      if (!last && (carrier.contains(layer.header) || below.contains(layer.header))) {
        if (write(page, below, stack, layer)) page.put(" · ");
        continue;
      }
      // These headers are the same in every MAD.
      if (is_mad && (layer.header == &info<Bth> || layer.header == &info<Deth>)) continue;
      const Page::Mark before = page.mark();
      if (!first) page.put("  ");
      const std::size_t begin = page.column();
      page.base(operation_ink(*layer.header, header, stack));
      if (!last || !write(page, carrier, stack, layer)) of(*layer.header).write(page, header);
      page.base(TextStyle::plain);
      if (page.column() == begin) {
        page.back_to(before);
        continue;
      }
      first = false;
      const std::size_t end = size_end(*layer.header);
      if (end && stack.payload.length) {
        payload(page, stack.payload.length, begin + end);
        sized = true;
      } else if (end && !last) {
        page.to(begin + end);
      }
    }
    for (const Layer& layer : layers)
      if (!(is_mad && layer.header == &info<Bth>)) write(page, mark, stack, layer);
    if (!sized && stack.payload.length) {
      page.put(" ");
      payload(page, stack.payload.length, 0);
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
  // LIDs are the endpoints of native InfiniBand, even if there is a GRH.
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
  Page page(out, options_.colors);
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
  page.put(TextStyle::dim, scratch).put("  ");

  const Endpoints ends = endpoints_of(stack);
  // Only packets with a transport header widen the columns: for example, ARP does not.
  if (stack.transport != HeaderStack::none) {
    source_width_ = std::max(source_width_, columns(ends.source));
    destination_width_ = std::max(destination_width_, columns(ends.destination));
  }
  const std::size_t source_end = page.column() + source_width_;
  page.to(source_end - std::min(source_end, columns(ends.source)))
      .put(ends.source)
      .put(ends.source.empty() ? "   " : " → ");
  page.put(ends.destination).to(source_end + 3 + destination_width_).put("  ");

  const Layer* tcp = packet.pdus.empty() ? nullptr : stack.find(info<Tcp>);
  if (tcp) {
    page.base(TextStyle::dim);
    plans_->stream.write(page, stack.bytes.data() + tcp->offset);
    page.base(TextStyle::plain);
  } else {
    plans_->essence(page, stack);
  }
  plans_->crc(page, "ICRC", packet.icrc);
  plans_->crc(page, "VCRC", packet.vcrc);
  if (stack.mpa_crc.length) plans_->crc(page, "CRC", check_mpa_crc(stack));
  for (std::size_t i = 0; i < packet.pdus.size(); ++i) {
    page.put(i ? "  │ " : "  ");
    if (i == shown_pdus) {
      page.with([&](std::string& text) {
        append_decimal(text, packet.pdus.size() - shown_pdus);
        text += " more";
      });
      break;
    }
    plans_->essence(page, packet.pdus[i].stack);
    plans_->crc(page, "CRC", packet.pdus[i].crc);
  }
  if (packet.upper.protocol != tracking::Upper::unknown && !names_upper(stack))
    page.put("  ").put(TextStyle::upper, tracking::to_string(packet.upper.protocol));
  for (std::string_view note : packet.notes) page.put("  ").put(TextStyle::notice, note);
  const auto findings = [&](const HeaderStack& in) {
    for (const ParseError& finding : in.findings()) {
      scratch = "! ";
      scratch += to_string(finding.kind);
      scratch += ": ";
      scratch += to_string(finding);
      page.put("  ").put(finding.kind == ParseError::Kind::truncated ? TextStyle::notice : TextStyle::bad, scratch);
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

}  // namespace rdmawire::output
