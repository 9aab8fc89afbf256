#include "conformance/device/roce/cm_messages.hpp"

#include <algorithm>

#include "dissectors/protocol/cm.hpp"

namespace rdmawire::device {

namespace {

constexpr std::uint8_t cm_class_version = 2;
constexpr std::size_t local_gid_at = 56, remote_gid_at = 72;  // in a REQ

/// Return the header at the start of `body`, padded with zeros.
template <class H>
Value<H> header_at(Bytes body) {
  std::array<std::uint8_t, H::size> bytes{};
  std::copy_n(body.begin(), std::min(body.size(), H::size), bytes.begin());
  return *Value<H>::parse(bytes);
}

Gid gid_at(Bytes body, std::size_t at) {
  Gid gid;
  if (body.size() >= at + gid.bytes.size())
    std::copy_n(body.begin() + static_cast<std::ptrdiff_t>(at), 16, gid.bytes.begin());
  return gid;
}

std::vector<std::uint8_t> bytes_after(Bytes body, std::size_t at) {
  const Bytes rest = body.subspan(std::min(body.size(), at));
  return {rest.begin(), rest.end()};
}

template <class H>
std::vector<std::uint8_t> mad_of(std::uint8_t method, std::uint16_t attribute, std::uint64_t transaction,
                                 const Value<H>& body, Bytes more = {}, std::uint16_t status = 0) {
  std::vector<std::uint8_t> mad(Mad::whole, 0);
  const auto header = Value<Mad>()
                          .set<"base_version">(Mad::version)
                          .set<"class">(management_class::communication)
                          .set<"class_version">(cm_class_version)
                          .set<"method">(method)
                          .template set<"status">(status)
                          .template set<"transaction_id">(transaction)
                          .template set<"attribute_id">(attribute);
  const auto at = std::ranges::copy(header.bytes(), mad.begin()).out;
  const auto end = std::ranges::copy(body.bytes(), at).out;
  std::copy_n(more.begin(), std::min<std::size_t>(more.size(), static_cast<std::size_t>(mad.end() - end)), end);
  return mad;
}

/// Read an address of RDMA-CM's header. An IPv4 address is in the last four bytes.
Gid address_at(Bytes bytes, bool ipv4) {
  Gid gid;
  std::copy_n(bytes.begin(), 16, gid.bytes.begin());
  return ipv4 ? Gid::ipv4(gid.ipv4_address()) : gid;
}

std::array<std::uint8_t, 16> address_bytes(const Gid& gid) {
  std::array<std::uint8_t, 16> bytes = gid.bytes;
  if (gid.is_ipv4()) bytes[10] = bytes[11] = 0;
  return bytes;
}

}  // namespace

std::uint64_t guid_of(const Mac& mac) {
  const std::uint8_t bytes[] = {mac[0], mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
  return load_be<8>(bytes);
}

std::uint8_t ack_timeout_code(std::uint8_t packet_lifetime, std::uint8_t ack_delay) {
  const std::uint64_t least = 2 * exponential_time_ns(std::min<std::uint8_t>(packet_lifetime, 31)) +
                              exponential_time_ns(std::min<std::uint8_t>(ack_delay, 31));
  std::uint8_t code = 1;
  while (code < 31 && exponential_time_ns(code) < least) ++code;
  return code;
}

CmIncoming read_cm(Bytes mad) {
  CmIncoming message;
  const auto header = header_at<Mad>(mad);
  message.attribute = header.get<"attribute_id">();
  message.transaction = header.get<"transaction_id">();
  message.body = mad.subspan(Mad::size);
  // Each message starts with the local and the remote ID. Only a REQ has no remote ID.
  message.local_id = static_cast<std::uint32_t>(load_be<4>(message.body.data()));
  if (message.attribute != cm_attribute::req)
    message.remote_id = static_cast<std::uint32_t>(load_be<4>(message.body.data() + 4));
  return message;
}

CmRequest read_request(const CmIncoming& message) {
  const auto req = header_at<CmReq>(message.body);
  CmRequest request;
  CmPeer& peer = request.peer;
  peer.qpn = req.get<"local_qpn">();
  peer.starting_psn = req.get<"starting_psn">();
  peer.responder_resources = req.get<"responder_resources">();
  peer.initiator_depth = req.get<"initiator_depth">();
  peer.retry_count = req.get<"retry_count">();
  peer.rnr_retry_count = req.get<"rnr_retry_count">();
  peer.flow_control = req.get<"end_to_end_flow_control">();
  peer.srq = req.get<"srq">();
  peer.path_mtu = req.get<"path_mtu">();
  peer.ack_timeout = req.get<"primary_local_ack_timeout">();
  peer.ca_guid = req.get<"local_ca_guid">();
  request.service_id = req.get<"service_id">();
  request.local_gid = gid_at(message.body, local_gid_at);
  request.remote_gid = gid_at(message.body, remote_gid_at);
  request.local_lid = req.get<"primary_local_lid">();
  request.remote_lid = req.get<"primary_remote_lid">();
  request.pkey = req.get<"pkey">();
  request.service_type = req.get<"transport_service_type">();
  request.remote_response_timeout = req.get<"remote_cm_response_timeout">();
  request.local_response_timeout = req.get<"local_cm_response_timeout">();
  request.retries = req.get<"max_cm_retries">();
  request.hop_limit = req.get<"primary_hop_limit">();
  request.traffic_class = req.get<"primary_traffic_class">();
  request.sl = req.get<"primary_sl">();
  const Bytes data = message.body.subspan(std::min<std::size_t>(message.body.size(), CmReq::size));
  const auto ip = header_at<RdmaCm>(data);
  const unsigned version = ip.get<"ip_version">();
  request.by_ip = IpServiceId::holds(message.body.data() + CmReq::service_id_at) && data.size() >= RdmaCm::size &&
                  ip.get<"major_version">() == 0 && (version == 4 || version == 6);
  if (request.by_ip) {
    request.from = {address_at(data.subspan(4), version == 4), static_cast<std::uint16_t>(ip.get<"src_port">())};
    request.to = {address_at(data.subspan(20), version == 4), static_cast<std::uint16_t>(request.service_id & 0xffff)};
  }
  peer.private_data = bytes_after(message.body, CmReq::size + (request.by_ip ? RdmaCm::size : 0));
  return request;
}

CmPeer read_reply(const CmIncoming& message) {
  const auto rep = header_at<CmRep>(message.body);
  CmPeer peer;
  peer.qpn = rep.get<"local_qpn">();
  peer.starting_psn = rep.get<"starting_psn">();
  peer.responder_resources = rep.get<"responder_resources">();
  peer.initiator_depth = rep.get<"initiator_depth">();
  peer.rnr_retry_count = rep.get<"rnr_retry_count">();
  peer.flow_control = rep.get<"end_to_end_flow_control">();
  peer.srq = rep.get<"srq">();
  peer.ack_delay = rep.get<"target_ack_delay">();
  peer.ca_guid = rep.get<"local_ca_guid">();
  peer.private_data = bytes_after(message.body, CmRep::size);
  return peer;
}

std::vector<std::uint8_t> request_of(const CmConnection& at, const CmSettings& settings, std::uint8_t mtu_code,
                                     bool reliable, const Gid& own) {
  constexpr std::uint16_t by_gid = 0xffff;
  constexpr std::uint8_t rate_of_100_gb = 16;
  auto req = Value<CmReq>()
                 .set<"local_comm_id">(at.id)
                 .set<"service_id">(service_of_port(at.remote.port))
                 .set<"local_ca_guid">(at.guid)
                 .set<"local_qpn">(at.own.qpn)
                 .set<"responder_resources">(at.own.responder_resources.value_or(0))
                 .set<"initiator_depth">(at.own.initiator_depth.value_or(0))
                 .set<"remote_cm_response_timeout">(settings.response_timeout)
                 .set<"transport_service_type">(reliable ? 0 : 1)
                 .set<"end_to_end_flow_control">(at.own.flow_control)
                 .set<"starting_psn">(at.starting_psn)
                 .set<"local_cm_response_timeout">(settings.response_timeout)
                 .set<"retry_count">(at.own.retry_count)
                 .set<"pkey">(at.way.pkey)
                 .set<"path_mtu">(mtu_code)
                 .set<"rnr_retry_count">(at.own.rnr_retry_count)
                 .set<"max_cm_retries">(settings.retries)
                 .set<"srq">(at.own.srq)
                 .set<"primary_local_lid">(by_gid)
                 .set<"primary_remote_lid">(by_gid)
                 .set<"primary_local_gid">(Bytes(own.bytes))
                 .set<"primary_remote_gid">(Bytes(at.data_path.dgid.bytes))
                 .set<"primary_packet_rate">(rate_of_100_gb)
                 .set<"primary_traffic_class">(at.data_path.traffic_class)
                 .set<"primary_hop_limit">(at.data_path.hop_limit)
                 .set<"primary_sl">(at.data_path.sl);
  req.set<"primary_local_ack_timeout">(at.own.ack_timeout.value_or(0));
  const bool ipv4 = at.local.address.is_ipv4();
  const auto source = address_bytes(at.local.address), destination = address_bytes(at.remote.address);
  const auto ip = Value<RdmaCm>()
                      .set<"ip_version">(ipv4 ? 4 : 6)
                      .set<"src_port">(at.local.port)
                      .set<"src">(Bytes(source))
                      .set<"dst">(Bytes(destination));
  std::vector<std::uint8_t> data(ip.bytes().begin(), ip.bytes().end());
  data.insert(data.end(), at.own.private_data.begin(), at.own.private_data.end());
  return mad_of(mad_method::send, cm_attribute::req, at.transaction, req, data);
}

std::vector<std::uint8_t> reply_of(const CmConnection& at, const CmSettings& settings) {
  constexpr std::uint8_t failover_not_supported = 1;
  const auto rep = Value<CmRep>()
                       .set<"local_comm_id">(at.id)
                       .set<"remote_comm_id">(at.remote_id)
                       .set<"local_qpn">(at.own.qpn)
                       .set<"starting_psn">(at.starting_psn)
                       .set<"responder_resources">(at.own.responder_resources.value_or(0))
                       .set<"initiator_depth">(at.own.initiator_depth.value_or(0))
                       .set<"target_ack_delay">(settings.ack_delay)
                       .set<"failover_accepted">(failover_not_supported)
                       .set<"end_to_end_flow_control">(at.own.flow_control)
                       .set<"rnr_retry_count">(at.own.rnr_retry_count)
                       .set<"srq">(at.own.srq)
                       .set<"local_ca_guid">(at.guid);
  return mad_of(mad_method::send, cm_attribute::rep, at.transaction, rep, at.own.private_data);
}

std::vector<std::uint8_t> short_of(const CmConnection& at, std::uint16_t attribute, std::uint64_t transaction) {
  const auto body = Value<CmRtu>().set<"local_comm_id">(at.id).set<"remote_comm_id">(at.remote_id);
  return mad_of(mad_method::send, attribute, transaction, body);
}

std::vector<std::uint8_t> disconnect_of(const CmConnection& at) {
  const auto body =
      Value<CmDreq>().set<"local_comm_id">(at.id).set<"remote_comm_id">(at.remote_id).set<"remote_qpn">(at.peer.qpn);
  return mad_of(mad_method::send, cm_attribute::dreq, at.last_transaction, body);
}

std::vector<std::uint8_t> mra_of(const CmConnection& at, const CmSettings& settings) {
  const auto body = Value<CmMra>()
                        .set<"local_comm_id">(at.id)
                        .set<"remote_comm_id">(at.remote_id)
                        .set<"service_timeout">(settings.service_timeout);
  return mad_of(mad_method::send, cm_attribute::mra, at.transaction, body);
}

std::vector<std::uint8_t> rejection_of(std::uint32_t local_id, std::uint32_t remote_id, std::uint64_t transaction,
                                       std::uint8_t rejected, std::uint8_t reason, Bytes private_data,
                                       Bytes additional) {
  auto body = Value<CmRej>()
                  .set<"local_comm_id">(local_id)
                  .set<"remote_comm_id">(remote_id)
                  .set<"message">(rejected)
                  .set<"info_length">(additional.size())
                  .set<"reason">(reason)
                  .set<"ari">(additional);
  return mad_of(mad_method::send, cm_attribute::rej, transaction, body, private_data);
}

std::vector<std::uint8_t> response_to_unknown(const CmIncoming& message, bool known) {
  constexpr std::uint8_t invalid_id = 1, not_supported = 2, service_not_supported = 1;
  if (message.attribute == cm_attribute::lap) {
    const auto apr = Value<CmApr>()
                         .set<"local_comm_id">(message.remote_id)
                         .set<"remote_comm_id">(message.local_id)
                         .set<"status">(known ? not_supported : invalid_id);
    return mad_of(mad_method::send, cm_attribute::apr, message.transaction, apr);
  }
  if (message.attribute == cm_attribute::sidr_req) {
    const auto request = header_at<CmSidrReq>(message.body);
    const auto rep = Value<CmSidrRep>()
                         .set<"request_id">(request.get<"request_id">())
                         .set<"status">(service_not_supported)
                         .set<"service_id">(request.get<"service_id">());
    return mad_of(mad_method::send, cm_attribute::sidr_rep, message.transaction, rep);
  }
  const auto drep = Value<CmDrep>().set<"local_comm_id">(message.remote_id).set<"remote_comm_id">(message.local_id);
  return mad_of(mad_method::send, cm_attribute::drep, message.transaction, drep);
}

std::vector<std::uint8_t> class_port_info(Bytes mad, const CmSettings& settings) {
  constexpr std::uint16_t class_port_info = 1;
  constexpr std::uint16_t bad_version = 1U << 2, bad_method_and_attribute = 3U << 2;
  const auto request = header_at<Mad>(mad);
  const std::uint16_t attribute = request.get<"attribute_id">();
  const bool get = request.get<"method">() == mad_method::get && attribute == class_port_info;
  const std::uint16_t status = request.get<"class_version">() != cm_class_version ? bad_version
                               : get                                              ? std::uint16_t{0}
                                                                                  : bad_method_and_attribute;
  Value<ClassPortInfo> body;
  if (status == 0)
    body.set<"base_version">(Mad::version)
        .set<"class_version">(cm_class_version)
        .set<"response_time">(settings.response_timeout);
  return mad_of(mad_method::get_response, attribute, request.get<"transaction_id">(), body, {}, status);
}

}  // namespace rdmawire::device
