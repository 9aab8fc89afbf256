#include "conformance/fuzzer/connections.hpp"

#include <algorithm>

#include "conformance/device/roce/cm_messages.hpp"
#include "conformance/fuzzer/frames.hpp"
#include "dissectors/protocol/cm.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/mad.hpp"

namespace rdmawire::fuzzer {

namespace {

constexpr std::uint64_t tester_guid = 0x020000fffe000009, transactions = 0x7e57'0000'0000'0000;
constexpr std::uint8_t rdma_cm_ipv4 = 4;
constexpr std::uint16_t tester_port_number = 7100;

/// Value of a named field in a message of the tester.
struct FieldValue {
  std::string_view field;
  std::uint64_t value;
};

void fill(const HeaderInfo& header, std::span<const FieldValue> values, std::uint8_t* at) {
  for (const FieldValue& one : values)
    if (const auto field = std::ranges::find(header.fields, one.field, &Field::name); field != header.fields.end())
      field->store(at, one.value);
}

void fill_address(const HeaderInfo& header, std::string_view name, const device::Gid& gid, std::uint8_t* at) {
  if (const auto field = std::ranges::find(header.fields, name, &Field::name); field != header.fields.end())
    std::ranges::copy(gid.bytes, at + field->bit / 8);
}

}  // namespace

std::uint32_t tester_queue_pair(std::uint32_t id, std::size_t at) {
  return (tester_qpn + (id << 1) + static_cast<std::uint32_t>(at)) & 0xffffffU;
}

std::vector<std::uint8_t> cm_datagram(const Step& step, const KnownConnection& known, const device::Gid& from,
                                      const device::Gid& to) {
  using device::cm_attribute::req;
  const auto attribute = static_cast<std::uint16_t>(step.opcode);
  const auto slot = static_cast<std::uint32_t>(step.at);
  const bool fresh = attribute == req && step.number == 0;
  const std::uint32_t own = known.tester_id + (fresh ? 1 : 0);
  std::vector<std::uint8_t> datagram(Mad::whole, 0);
  const FieldValue mad[] = {
      {"base_version", Mad::version}, {"class", management_class::communication}, {"class_version", 2},
      {"method", mad_method::send},   {"transaction_id", transactions | own},     {"attribute_id", attribute}};
  fill(info<Mad>, mad, datagram.data());
  const HeaderInfo* header = mad_attribute(management_class::communication, attribute, mad_method::send);
  if (!header) return datagram;
  std::uint8_t* body = datagram.data() + Mad::size;
  const FieldValue message[] = {
      {"local_comm_id", own},
      {"remote_comm_id", known.device_id},
      {"request_id", own},
      {"service_id", device::service_of_port(cm_port)},
      {"local_ca_guid", tester_guid},
      {"local_qpn", tester_queue_pair(known.fresh_queue_pairs ? own : 0, slot)},
      {"remote_qpn", static_cast<std::uint64_t>(step.immediate)},
      {"responder_resources", static_cast<std::uint64_t>(step.depth)},
      {"initiator_depth", static_cast<std::uint64_t>(step.depth)},
      {"remote_cm_response_timeout", known.timeout},
      {"local_cm_response_timeout", known.timeout},
      {"starting_psn", static_cast<std::uint64_t>(step.own_psn) & 0xffffff},
      {"retry_count", static_cast<std::uint64_t>(step.retries)},
      {"rnr_retry_count", static_cast<std::uint64_t>(step.retries)},
      {"max_cm_retries", 2},
      {"pkey", 0xffff},
      {"path_mtu", 1},
      {"primary_local_lid", 0xffff},
      {"primary_remote_lid", 0xffff},
      {"primary_hop_limit", 64},
      {"primary_local_ack_timeout",
       known.timeout == KnownConnection::usual ? static_cast<std::uint64_t>(step.timeout) : known.timeout},
      {"message", static_cast<std::uint64_t>(step.value)},
      {"reason", static_cast<std::uint64_t>(step.compare)},
      {"status", static_cast<std::uint64_t>(step.compare)},
      {"service_timeout", static_cast<std::uint64_t>(step.length)}};
  fill(*header, message, body);
  for (const std::string_view name : {"primary_local_gid", "alternate_local_gid"})
    fill_address(*header, name, from, body);
  for (const std::string_view name : {"primary_remote_gid", "alternate_remote_gid"})
    fill_address(*header, name, to, body);
  if (header == &info<CmReq>) {
    const FieldValue ip[] = {{"ip_version", rdma_cm_ipv4},
                             {"src_port", tester_port_number + slot},
                             {"src.ipv4", from.ipv4_address()},
                             {"dst.ipv4", to.ipv4_address()}};
    fill_address(*header, "alternate_local_gid", {}, body);  // no alternate path
    fill_address(*header, "alternate_remote_gid", {}, body);
    fill(info<RdmaCm>, ip, body + CmReq::size);
  }
  return datagram;
}

std::optional<CmMessage> cm_message_in(Bytes frame) {
  const HeaderStack stack = decode(frame);
  const auto mad = stack.get<Mad>();
  if (!mad || mad->get<"class">() != management_class::communication) return std::nullopt;
  CmMessage message{.attribute = static_cast<std::uint16_t>(mad->get<"attribute_id">())};
  const HeaderInfo* header = mad_attribute(management_class::communication, message.attribute, mad_method::send);
  const Layer* layer = header ? stack.find(*header) : nullptr;
  if (!layer) return std::nullopt;
  const auto number = [&](std::string_view name) {
    const auto field = std::ranges::find(header->fields, name, &Field::name);
    return static_cast<std::uint32_t>(field == header->fields.end() ? 0 : field->load(stack.bytes_of(*layer).data()));
  };
  message.local_id = number("local_comm_id");
  message.remote_id = number("remote_comm_id");
  message.local_qpn = number("local_qpn");
  message.starting_psn = number("starting_psn");
  message.path_mtu = static_cast<std::uint8_t>(number("path_mtu"));
  return message;
}

std::vector<std::uint16_t> messages_among(std::span<const std::vector<std::uint8_t>> frames) {
  std::vector<std::uint16_t> all;
  for (const auto& frame : frames)
    if (const auto message = cm_message_in(frame);
        message && message->attribute != device::cm_attribute::mra && message->attribute != device::cm_attribute::apr)
      all.push_back(message->attribute);
  return all;
}

}  // namespace rdmawire::fuzzer
