#include "dissectors/protocol/mad.hpp"

#include "dissectors/protocol/cm.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"

namespace rdmawire {
namespace {

// A class that is decoded: its format's version, and the headers between the common header and the attribute.
struct Class {
  std::uint8_t value;
  std::uint8_t version;
  std::array<const HeaderInfo*, 2> headers;
};
constexpr Class classes[] = {
    {management_class::communication, 2, {}},
};

const Class* find_class(std::uint8_t value) {
  for (const Class& row : classes)
    if (row.value == value) return &row;
  return nullptr;
}

// The methods that carry an attribute. The first is what encoding fills in.
constexpr std::uint8_t gets[] = {mad_method::get, mad_method::set, mad_method::get_response};
constexpr std::uint8_t sends[] = {mad_method::send};

struct Attribute {
  std::uint8_t mgmt_class;
  std::uint16_t id;
  const HeaderInfo* header;
  std::span<const std::uint8_t> methods;
};
constexpr Attribute attributes[] = {
    {management_class::communication, 0x01, &info<ClassPortInfo>, gets},
    {management_class::communication, 0x10, &info<CmReq>, sends},
    {management_class::communication, 0x11, &info<CmMra>, sends},
    {management_class::communication, 0x12, &info<CmRej>, sends},
    {management_class::communication, 0x13, &info<CmRep>, sends},
    {management_class::communication, 0x14, &info<CmRtu>, sends},
    {management_class::communication, 0x15, &info<CmDreq>, sends},
    {management_class::communication, 0x16, &info<CmDrep>, sends},
    {management_class::communication, 0x17, &info<CmSidrReq>, sends},
    {management_class::communication, 0x18, &info<CmSidrRep>, sends},
    {management_class::communication, 0x19, &info<CmLap>, sends},
    {management_class::communication, 0x1a, &info<CmApr>, sends},
};

bool take(Cursor& c, const HeaderInfo& header) { return c.need(header, header.size) && c.take(header, header.size); }

// Additional information that claims more octets than the message has.
void check_info_length(Cursor& c, const HeaderInfo& header, std::uint32_t at) {
  const std::uint8_t* message = c.stack.bytes.data() + at;
  std::uint32_t octets = 0;
  if (&header == &info<CmRej>)
    octets = View<CmRej>(message).get<"info_length">();
  else if (&header == &info<CmApr>)
    octets = View<CmApr>(message).get<"info_length">();
  else if (&header == &info<CmSidrRep>)
    octets = View<CmSidrRep>(message).get<"info_length">();
  if (octets > CmRej::ari_octets)
    c.stack.report(
        {ParseError::Kind::malformed, &header, at, 0, 0, "the additional information's length exceeds its 72 octets"});
}

Step communication_message(Cursor& c, const HeaderInfo& header) {
  const std::uint32_t at = c.at;
  if (!take(c, header)) return done;
  check_info_length(c, header, at);
  const std::uint8_t* message = c.stack.bytes.data() + at;
  const bool by_ip =
      (&header == &info<CmReq> && CmReq::by_ip(message)) || (&header == &info<CmSidrReq> && CmSidrReq::by_ip(message));
  // The service id promises the header; the IP version must agree, or the private data is left alone.
  if (by_ip && c.left() >= 2 && (RdmaCm::v4(c.here()) || RdmaCm::v6(c.here())) && !take(c, info<RdmaCm>)) return done;
  c.payload();
  return done;
}

}  // namespace

const HeaderInfo* mad_attribute(std::uint8_t mgmt_class, std::uint16_t id, std::uint8_t method) {
  if (mgmt_class == management_class::subnet_directed) mgmt_class = management_class::subnet_lid;
  for (const Attribute& row : attributes)
    if (row.mgmt_class == mgmt_class && row.id == id)
      return std::find(row.methods.begin(), row.methods.end(), method) != row.methods.end() ? row.header : nullptr;
  return nullptr;
}

Step decode_mad(Cursor& c) {
  const std::uint32_t mad_at = c.at;
  auto report = [&](ParseError::Kind kind, std::string_view what, std::uint32_t needed = 0, std::uint32_t had = 0) {
    c.stack.report({kind, &info<Mad>, mad_at, needed, had, what});
  };
  if (c.declared_end - mad_at != Mad::whole)
    report(ParseError::Kind::malformed, "a management datagram has 256 octets", Mad::whole, c.declared_end - mad_at);
  if (!take(c, info<Mad>)) return done;
  const View<Mad> mad(c.stack.bytes.data() + mad_at);
  const std::uint8_t mgmt_class = mad.get<"class">();
  const Class* known = find_class(mgmt_class);
  if (mad.get<"base_version">() != Mad::version) {
    report(ParseError::Kind::unknown, "a base version that is not known");
    known = nullptr;
  } else if (known && mad.get<"class_version">() != known->version) {
    report(ParseError::Kind::unknown, "a class version that is not known");
    known = nullptr;
  }
  const HeaderInfo* attribute =
      known ? mad_attribute(mgmt_class, mad.get<"attribute_id">(), mad.get<"method">()) : nullptr;
  if (attribute) return communication_message(c, *attribute);
  c.payload();
  return done;
}

void Mad::fill(FrameLayout& frame, std::size_t index) {
  HeaderValue& mad = frame.at(index);
  mad.fill("base_version", version);
  const HeaderInfo* next = frame.next(index);
  for (const Attribute& row : attributes)
    if (next && row.header == next) {
      mad.fill("class", row.mgmt_class);
      mad.fill("method", row.methods.front());
      mad.fill("attribute_id", row.id);
      break;
    }
  const auto mgmt_class = static_cast<std::uint8_t>(mad.get(*info<Mad>.find("class")));
  if (const Class* known = find_class(mgmt_class)) mad.fill("class_version", known->version);

  // Below: UD SEND Only from and to QP 1 with its well-known Q_Key; subnet management has QP 0, which needs none.
  const bool subnet = Mad::is_subnet(mad.bytes().data());
  constexpr std::uint64_t qkey_of_qp1 = 0x80010000;  // IBTA vol 1, 10.2.4, number unverified
  for (std::size_t i = index; i-- > 0;) {
    HeaderValue& below = frame.at(i);
    if (&below.header() == &info<Deth>) {
      below.fill("qkey", subnet ? 0 : qkey_of_qp1);
      below.fill("src_qp", subnet ? 0 : 1);
    } else if (&below.header() == &info<Bth>) {
      below.fill("opcode", 0x64);
      below.fill("dest_qp", subnet ? 0 : 1);
      break;
    }
  }
}

void RdmaCm::fill(FrameLayout& frame, std::size_t index) {
  HeaderValue& header = frame.at(index);
  const Bytes addresses = header.bytes().subspan(4);
  const bool v4 = load_be(addresses.data(), 8) == 0 && load_be(addresses.data() + 8, 4) == 0 &&
                  load_be(addresses.data() + 16, 8) == 0 && load_be(addresses.data() + 24, 4) == 0;
  header.fill("ip_version", v4 ? 4 : 6);
}

}  // namespace rdmawire
