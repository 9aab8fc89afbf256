#include "dissectors/protocol/mad.hpp"

#include <algorithm>

#include "dissectors/protocol/cm.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/pm.hpp"
#include "dissectors/protocol/sa.hpp"
#include "dissectors/protocol/smp.hpp"

namespace rdmawire {
namespace {

bool take(Cursor& c, const HeaderInfo& header) { return c.need(header, header.size) && c.take(header, header.size); }

// Makes the remaining bytes the payload.
Step rest_is_payload(Cursor& c) {
  c.payload();
  return done;
}

Step decode_attribute(Cursor& c, const HeaderInfo* attribute) {
  if (attribute && !take(c, *attribute)) return done;
  return rest_is_payload(c);
}

Step decode_subnet_management(Cursor& c, const HeaderInfo* attribute, const View<Mad>& mad) {
  const bool directed = mad.get<"class">() == management_class::subnet_directed;
  if (!take(c, directed ? info<SmpDirected> : info<SmpLid>)) return done;
  if (!take(c, attribute ? *attribute : info<SmpData>)) return done;
  if (directed && !take(c, info<SmpPath>)) return done;
  return rest_is_payload(c);
}

Step decode_performance_management(Cursor& c, const HeaderInfo* attribute, const View<Mad>&) {
  if (!take(c, info<Pm>)) return done;
  return decode_attribute(c, attribute);
}

// Adds a finding if the length of the additional information exceeds its 72 bytes.
void check_info_length(Cursor& c, const HeaderInfo& header, std::uint32_t at) {
  const std::uint8_t* message = c.stack.bytes.data() + at;
  const std::uint32_t bytes = &header == &info<CmRej>       ? View<CmRej>(message).get<"info_length">()
                              : &header == &info<CmApr>     ? View<CmApr>(message).get<"info_length">()
                              : &header == &info<CmSidrRep> ? View<CmSidrRep>(message).get<"info_length">()
                                                            : 0;
  if (bytes > CmRej::ari_bytes)
    c.stack.report(
        {ParseError::Kind::malformed, &header, at, 0, 0, "the additional information's length exceeds its 72 bytes"});
}

Step decode_communication_management(Cursor& c, const HeaderInfo* attribute, const View<Mad>&) {
  const std::uint32_t at = c.at;
  if (!attribute) return rest_is_payload(c);
  if (!take(c, *attribute)) return done;
  check_info_length(c, *attribute, at);
  const std::uint8_t* message = c.stack.bytes.data() + at;
  const bool by_ip = (attribute == &info<CmReq> && CmReq::by_ip(message)) ||
                     (attribute == &info<CmSidrReq> && CmSidrReq::by_ip(message));
  // The service ID indicates that the private data starts with an RDMA-CM header. The header is decoded only if its IP
  // version is 4 or 6.
  if (by_ip && c.left() >= 2 && (RdmaCm::v4(c.here()) || RdmaCm::v6(c.here())) && !take(c, info<RdmaCm>)) return done;
  return rest_is_payload(c);
}

// Kind and position of the bytes after an RMPP header.
struct RmppSegment {
  enum class Kind : std::uint8_t { none, alone, data, control } kind = Kind::none;
  std::uint32_t number = 1;                   // segment number, from 1
  std::uint32_t bytes = Rmpp::segment_bytes;  // number of bytes in the segment, including the header of the class
};

// Decodes the RMPP header. Returns Kind::none if decoding stops.
RmppSegment take_rmpp(Cursor& c) {
  const std::uint32_t at = c.at;
  auto report = [&](ParseError::Kind kind, std::string_view what) {
    c.stack.report({kind, &info<Rmpp>, at, 0, 0, what});
  };
  RmppSegment segment;
  if (!take(c, info<Rmpp>)) return segment;
  const View<Rmpp> rmpp(c.stack.bytes.data() + at);
  if (!rmpp.get<"flags.active">()) {
    segment.kind = RmppSegment::Kind::alone;
    return segment;
  }
  if (rmpp.get<"version">() != Rmpp::version) {
    report(ParseError::Kind::unknown, "unsupported RMPP version");
    c.payload();
    return segment;
  }
  const std::uint8_t type = rmpp.get<"type">();
  if (type != rmpp_type::data) {
    if (type == 0 || type > rmpp_type::abort) report(ParseError::Kind::unknown, "unknown RMPP type");
    segment.kind = RmppSegment::Kind::control;
    return segment;
  }
  segment.kind = RmppSegment::Kind::data;
  segment.number = rmpp.get<"data1">();
  const bool first = rmpp.get<"flags.first">(), last = rmpp.get<"flags.last">();
  const std::uint32_t length = rmpp.get<"data2">();
  if (segment.number == 0)
    report(ParseError::Kind::malformed, "the segment number is 0; segments are counted from 1");
  else if (first != (segment.number == 1))
    report(ParseError::Kind::malformed, "the segment number contradicts the first flag");
  if (last && length > Rmpp::segment_bytes)
    report(ParseError::Kind::malformed, "the last segment's payload length exceeds the segment");
  else if (last)
    segment.bytes = length;
  else if (first && length != 0 && length <= Rmpp::segment_bytes)
    report(ParseError::Kind::malformed, "the payload length fits one segment, but this is not the last");
  return segment;
}

// Decodes the records that this segment contains completely. Decoding records that span segments would require
// reassembly. A segment after the first starts inside a record, unless the preceding records fill whole segments.
Step decode_records(Cursor& c, const HeaderInfo& record, const RmppSegment& segment, std::uint32_t stride) {
  const std::uint64_t bytes_before = (segment.number - 1ULL) * (Rmpp::segment_bytes - Sa::size);
  if (segment.number == 0 || segment.bytes < Sa::size ||
      (segment.number != 1 && (stride == 0 || bytes_before % stride != 0)))
    return rest_is_payload(c);
  const std::uint32_t end = c.at + segment.bytes - static_cast<std::uint32_t>(Sa::size);
  if (stride != 0 && stride < record.size) {
    c.malformed(record, "the attribute offset is shorter than the record", record.size, stride);
    stride = 0;
  }
  while (c.at + record.size <= end) {
    if (!c.need(record, record.size)) return done;
    const std::uint32_t length = record.tail.empty() ? record.size : std::max(stride, record.size);
    if (!c.take(record, std::min({length, end - c.at, c.left()}))) return done;
    if (stride == 0 || record.tail.empty()) break;
  }
  return rest_is_payload(c);
}

Step decode_subnet_administration(Cursor& c, const HeaderInfo* attribute, const View<Mad>&) {
  const std::uint32_t rmpp_at = c.at;
  const RmppSegment segment = take_rmpp(c);
  if (segment.kind == RmppSegment::Kind::none) return done;
  if (segment.kind == RmppSegment::Kind::control) return rest_is_payload(c);
  const std::uint32_t sa_at = c.at;
  if (!take(c, info<Sa>)) return done;
  if (segment.kind == RmppSegment::Kind::alone) return decode_attribute(c, attribute);
  if (segment.bytes < Sa::size)
    c.stack.report({ParseError::Kind::malformed, &info<Rmpp>, rmpp_at, 0, 0,
                    "the payload length is too short for the header of the class"});
  if (!attribute) return rest_is_payload(c);
  return decode_records(c, *attribute, segment, View<Sa>(c.stack.bytes.data() + sa_at).get<"attribute_offset">() * 8U);
}

Step decode_rmpp_only(Cursor& c, const HeaderInfo*, const View<Mad>&) {
  if (take_rmpp(c).kind == RmppSegment::Kind::none) return done;
  return rest_is_payload(c);
}

Step decode_vendor(Cursor& c, const HeaderInfo*, const View<Mad>&) {
  if (take_rmpp(c).kind == RmppSegment::Kind::none) return done;
  return decode_attribute(c, &info<VendorMad>);
}

// Classes with a decoder. `version`: version of the class's format (0: any). `headers`: headers between the common
// header and the attribute.
struct Class {
  std::uint8_t first, last;
  std::uint8_t version;
  std::array<const HeaderInfo*, 2> headers;
  Step (*decode)(Cursor&, const HeaderInfo* attribute, const View<Mad>&);
};
namespace mc = management_class;
constexpr Class classes[] = {
    {mc::communication, mc::communication, 2, {}, decode_communication_management},
    {mc::subnet_directed, mc::subnet_directed, 1, {&info<SmpDirected>}, decode_subnet_management},
    {mc::subnet_lid, mc::subnet_lid, 1, {&info<SmpLid>}, decode_subnet_management},
    {mc::subnet_administration, mc::subnet_administration, 2, {&info<Rmpp>, &info<Sa>}, decode_subnet_administration},
    {mc::performance, mc::performance, 1, {&info<Pm>}, decode_performance_management},
    {mc::vendor_first, mc::vendor_last, 0, {&info<Rmpp>, &info<VendorMad>}, decode_vendor},
    {mc::device_administration, mc::device_administration, 0, {&info<Rmpp>}, decode_rmpp_only},
    {mc::boot_image, mc::boot_image, 0, {&info<Rmpp>}, decode_rmpp_only},
};

const Class* find_class(std::uint8_t value) {
  for (const Class& row : classes)
    if (row.first <= value && value <= row.last) return &row;
  return nullptr;
}

// Methods whose datagrams contain the attribute. Encoding uses the first method of a list.
namespace mm = mad_method;
constexpr std::uint8_t gets[] = {mm::get, mm::set, mm::get_response};
constexpr std::uint8_t sends[] = {mm::send};
constexpr std::uint8_t traps[] = {mm::trap, mm::get, mm::set, mm::get_response, mm::trap_repress};
constexpr std::uint8_t reports[] = {mm::report, mm::report_response};
constexpr std::uint8_t queries[] = {
    mm::get,   mm::set,           mm::get_response, mm::get_table, mm::get_table_response, mm::get_multi_response,
    mm::erase, mm::erase_response};

struct Attribute {
  std::uint8_t mgmt_class;
  std::uint16_t id;
  const HeaderInfo* header;
  std::span<const std::uint8_t> methods;
};
constexpr Attribute attributes[] = {
    {mc::subnet_lid, 0x02, &info<Notice>, traps},
    {mc::subnet_lid, 0x10, &info<NodeDescription>, gets},
    {mc::subnet_lid, 0x11, &info<NodeInfo>, gets},
    {mc::subnet_lid, 0x12, &info<SwitchInfo>, gets},
    {mc::subnet_lid, 0x14, &info<GuidInfo>, gets},
    {mc::subnet_lid, 0x15, &info<PortInfo>, gets},
    {mc::subnet_lid, 0x16, &info<PKeyTable>, gets},
    {mc::subnet_lid, 0x20, &info<SmInfo>, gets},
    {mc::subnet_administration, 0x01, &info<ClassPortInfo>, gets},
    {mc::subnet_administration, 0x02, &info<SaNotice>, reports},
    {mc::subnet_administration, 0x03, &info<InformInfo>, gets},
    {mc::subnet_administration, 0x11, &info<NodeRecord>, queries},
    {mc::subnet_administration, 0x12, &info<PortInfoRecord>, queries},
    {mc::subnet_administration, 0x31, &info<ServiceRecord>, queries},
    {mc::subnet_administration, 0x35, &info<PathRecord>, queries},
    {mc::subnet_administration, 0x38, &info<McMemberRecord>, queries},
    {mc::subnet_administration, 0xf3, &info<InformInfoRecord>, queries},
    {mc::performance, 0x01, &info<ClassPortInfo>, gets},
    {mc::performance, 0x12, &info<PortCounters>, gets},
    {mc::performance, 0x1d, &info<PortCountersExtended>, gets},
    {mc::communication, 0x01, &info<ClassPortInfo>, gets},
    {mc::communication, 0x10, &info<CmReq>, sends},
    {mc::communication, 0x11, &info<CmMra>, sends},
    {mc::communication, 0x12, &info<CmRej>, sends},
    {mc::communication, 0x13, &info<CmRep>, sends},
    {mc::communication, 0x14, &info<CmRtu>, sends},
    {mc::communication, 0x15, &info<CmDreq>, sends},
    {mc::communication, 0x16, &info<CmDrep>, sends},
    {mc::communication, 0x17, &info<CmSidrReq>, sends},
    {mc::communication, 0x18, &info<CmSidrRep>, sends},
    {mc::communication, 0x19, &info<CmLap>, sends},
    {mc::communication, 0x1a, &info<CmApr>, sends},
};

// Both forms of subnet management (LID routed, directed route) have the same attributes.
constexpr std::uint8_t attributes_of(std::uint8_t mgmt_class) {
  return mgmt_class == mc::subnet_directed ? mc::subnet_lid : mgmt_class;
}

}  // namespace

const HeaderInfo* mad_attribute(std::uint8_t mgmt_class, std::uint16_t id, std::uint8_t method) {
  for (const Attribute& row : attributes)
    if (row.mgmt_class == attributes_of(mgmt_class) && row.id == id)
      return std::find(row.methods.begin(), row.methods.end(), method) != row.methods.end() ? row.header : nullptr;
  return nullptr;
}

Step decode_mad(Cursor& c) {
  const std::uint32_t mad_at = c.at;
  auto report = [&](ParseError::Kind kind, std::string_view what, std::uint32_t needed = 0, std::uint32_t had = 0) {
    c.stack.report({kind, &info<Mad>, mad_at, needed, had, what});
  };
  if (c.declared_end - mad_at != Mad::whole)
    report(ParseError::Kind::malformed, "a management datagram has 256 bytes", Mad::whole, c.declared_end - mad_at);
  if (!take(c, info<Mad>)) return done;
  const View<Mad> mad(c.stack.bytes.data() + mad_at);
  const std::uint8_t mgmt_class = mad.get<"class">();
  if (mad.get<"base_version">() != Mad::version) {
    report(ParseError::Kind::unknown, "unsupported base version");
    return rest_is_payload(c);
  }
  const Class* row = find_class(mgmt_class);
  if (!row) return rest_is_payload(c);
  if (row->version != 0 && mad.get<"class_version">() != row->version) {
    report(ParseError::Kind::unknown, "unsupported class version");
    return rest_is_payload(c);
  }
  return row->decode(c, mad_attribute(mgmt_class, mad.get<"attribute_id">(), mad.get<"method">()), mad);
}

void Mad::fill(FrameLayout& frame, std::size_t index) {
  HeaderValue& mad = frame.at(index);
  mad.fill("base_version", version);

  // Find the class by the headers that follow the common header. The attribute follows them.
  auto follows = [&](std::size_t ahead) { return frame.next(index + ahead); };
  for (const Class& row : classes) {
    std::size_t count = 0;
    while (count < row.headers.size() && row.headers[count] && row.headers[count] == follows(count)) ++count;
    if (count < row.headers.size() && row.headers[count]) continue;
    const Attribute* attribute = nullptr;
    for (const Attribute& known : attributes)
      if (known.mgmt_class == attributes_of(row.first) && follows(count) == known.header) attribute = &known;
    if (count == 0 && !attribute) continue;
    mad.fill("class", row.first);
    if (attribute) {
      mad.fill("method", attribute->methods.front());
      mad.fill("attribute_id", attribute->id);
    }
    break;
  }
  const auto mgmt_class = static_cast<std::uint8_t>(mad.get(*info<Mad>.find("class")));
  if (const Class* row = find_class(mgmt_class); row && row->version) mad.fill("class_version", row->version);

  // Fill the lower layers: UD SEND Only from QP 1 to QP 1 with the well-known Q_Key. Subnet management uses QP 0 and
  // Q_Key 0.
  const bool subnet = Mad::is_subnet(mad.bytes().data());
  constexpr std::uint64_t qkey_of_qp1 = 0x80010000;  // IBTA vol 1, 10.2.5 (clause number not verified)
  for (std::size_t i = index; i-- > 0;) {
    HeaderValue& below = frame.at(i);
    if (&below.header() == &info<Deth>) {
      below.fill("qkey", subnet ? 0 : qkey_of_qp1);
      below.fill("src_qp", subnet ? 0 : 1);
    } else if (&below.header() == &info<Bth>) {
      below.fill("opcode", find_opcode(Transport::ud, Operation::send)->value);
      below.fill("dest_qp", subnet ? 0 : 1);
      break;
    }
  }
}

void Rmpp::fill(FrameLayout& frame, std::size_t index) {
  HeaderValue& rmpp = frame.at(index);
  if (rmpp.get(*info<Rmpp>.find("type")) != rmpp_type::data) return;
  constexpr std::uint64_t active_first_last = 7;
  rmpp.fill("version", version);
  rmpp.fill("flags", active_first_last);
  rmpp.fill("data1", 1);
  std::size_t bytes = 0;
  for (std::size_t i = index + 1; i < frame.layers.size(); ++i) bytes += frame.at(i).bytes().size();
  rmpp.fill("data2", bytes);
}

void Sa::fill(FrameLayout& frame, std::size_t index) {
  const bool list = index > 0 && &frame.at(index - 1).header() == &info<Rmpp> &&
                    frame.at(index - 1).get(*info<Rmpp>.find("type")) == rmpp_type::data;
  if (list && frame.next(index)) frame.at(index).fill("attribute_offset", (frame.at(index + 1).bytes().size() + 7) / 8);
}

void RdmaCm::fill(FrameLayout& frame, std::size_t index) {
  HeaderValue& header = frame.at(index);
  const Bytes addresses = header.bytes().subspan(4);
  const bool v4 = load_be(addresses.data(), 8) == 0 && load_be(addresses.data() + 8, 4) == 0 &&
                  load_be(addresses.data() + 16, 8) == 0 && load_be(addresses.data() + 24, 4) == 0;
  header.fill("ip_version", v4 ? 4 : 6);
}

}  // namespace rdmawire
