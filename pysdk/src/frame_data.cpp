#include "pysdk/src/frame_data.hpp"

#include <algorithm>
#include <charconv>

#include "dissectors/output/json.hpp"
#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/layer_bytes.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/user_headers.hpp"
#include "pysdk/src/bytes.hpp"
#include "pysdk/src/errors.hpp"

namespace rdmawire::python {
namespace {

struct Outermost {
  const HeaderInfo* header;
  LinkType link;
};
constexpr Outermost outermost[] = {
    {&info<Ethernet>, LinkType::ethernet},
    {&info<Lrh>, LinkType::infiniband},
    {&info<Ipv4>, LinkType::raw_ip},
    {&info<Ipv6>, LinkType::raw_ip},
    {&info<LinuxSll>, LinkType::linux_sll},
    {&info<LinuxSll2>, LinkType::linux_sll2},
    {&info<NullLoopback>, LinkType::null_loopback},
    {&info<Erf>, LinkType::erf},
    {&info<Fpdu>, begins::fpdu},
    {&info<MpaFrame>, begins::mpa},
    {&info<Bth>, begins::bth},
};
constexpr LinkType words[] = {
    LinkType::ethernet, LinkType::infiniband, LinkType::raw_ip,     LinkType::ipv4,
    LinkType::ipv6,     LinkType::linux_sll,  LinkType::linux_sll2, LinkType::null_loopback,
    LinkType::erf,      begins::fpdu,         begins::mpa,          begins::bth,
};

Bytes view_of(const py::bytes& bytes) {
  return {reinterpret_cast<const std::uint8_t*>(PyBytes_AS_STRING(bytes.ptr())),
          static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.ptr()))};
}

// Returns a null object. py::bytes() is an empty bytes object.
py::bytes no_bytes() { return py::reinterpret_steal<py::bytes>(py::handle()); }

}  // namespace

std::string link_word(LinkType link) {
  for (const Outermost& one : outermost)
    if (one.link == link && static_cast<unsigned>(link) >= static_cast<unsigned>(begins::fpdu))
      return std::string(one.header->name);
  return output::link_name(link);
}

std::optional<LinkType> link_of(std::string_view word) {
  for (const LinkType link : words)
    if (link_word(link) == word) return link;
  std::uint16_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (word.empty() || error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return LinkType{number};
}

LinkType link_of(const HeaderInfo& header) {
  for (const Outermost& one : outermost)
    if (one.header == &header) return one.link;
  return LinkType::ethernet;
}

FrameData::FrameData(py::bytes bytes, LinkType link_type, std::uint32_t wire_length)
    : link(link_type), bytes_(std::move(bytes)) {
  const auto size = static_cast<std::uint32_t>(view_of(bytes_).size());
  missing_ = std::max(wire_length, size) - size;
}

FrameData::FrameData(Frame values, LinkType link_type)
    : link(link_type), bytes_(no_bytes()), values_(std::make_unique<Frame>(std::move(values))) {}

FrameData::FrameData(const FrameData& other)
    : link(other.link),
      time_ns(other.time_ns),
      number(other.number),
      origin(other.origin),
      bytes_(other.bytes_),
      misfit_(other.misfit_),
      values_(other.values_ ? std::make_unique<Frame>(*other.values_) : nullptr),
      missing_(other.missing_) {}

void FrameData::build() {
  if (bytes_) return;
  const auto built = encode_strictly(*values_);
  misfit_ = built ? std::nullopt : std::optional(built.error());
  bytes_ = built ? to_bytes(*built) : to_bytes(values_->encode());
}

void FrameData::refuse_misfit() const {
  if (misfit_) raise(ErrorClass::usage, to_string(*misfit_));
}

const py::bytes& FrameData::bytes() {
  build();
  refuse_misfit();
  return bytes_;
}

Bytes FrameData::view() {
  build();
  return view_of(bytes_);
}

void FrameData::decode_into(HeaderStack& stack, Bytes bytes) const {
  const auto wire_length = static_cast<std::uint32_t>(bytes.size()) + missing_;
  if (link == begins::fpdu) return decode_fpdu(stack, bytes, wire_length);
  if (link == begins::mpa) return decode_mpa_frame(stack, bytes, wire_length);
  if (link == begins::bth) {
    stack = decode_transport(bytes, true);
  } else {
    decode(stack, bytes, link, wire_length);
  }
  decode_user_headers(stack);
}

const HeaderStack& FrameData::stack() {
  if (!stack_) {
    auto stack = std::make_unique<HeaderStack>();
    decode_into(*stack, view());
    stack_ = std::move(stack);
  }
  return *stack_;
}

Bytes FrameData::layer(std::size_t i) {
  if (!values_) return stack().bytes_of(stack().layers()[i]);
  std::size_t offset = 0;
  for (std::size_t k = 0; k < i; ++k) offset += bytes_in_packet(values_->layers[k]);
  return view().subspan(offset, bytes_in_packet(values_->layers[i]));
}

HeaderValue FrameData::layer_value(std::size_t i) {
  if (values_) return values_->layers[i];
  return *HeaderValue::parse(header(i), layer(i));
}

const Frame& FrameData::values() {
  if (values_) return *values_;
  if (!captured_view_) captured_view_ = std::make_unique<Frame>(Frame::of(stack()));
  return *captured_view_;
}

Frame& FrameData::change() {
  if (!values_) {
    static_cast<void>(values());
    values_ = std::move(captured_view_);
  }
  bytes_ = no_bytes();
  stack_.reset();
  return *values_;
}

void FrameData::relink(LinkType link_type) {
  link = link_type;
  stack_.reset();
  captured_view_.reset();
}

CrcCheck FrameData::icrc() { return check_icrc(stack()); }
CrcCheck FrameData::vcrc() { return check_vcrc(stack()); }
CrcCheck FrameData::mpa_crc() {
  if (stack().mpa_crc.length == 0) return {};
  return check_mpa_crc(stack());
}

tracking::Packet FrameData::packet() {
  tracking::Packet packet;
  packet.number = number;
  packet.time_ns = time_ns.value_or(0);
  packet.link = link;
  packet.stack = stack();
  packet.icrc = icrc();
  packet.vcrc = vcrc();
  return packet;
}

}  // namespace rdmawire::python
