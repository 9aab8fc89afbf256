#include "dissectors/tracking/evidence.hpp"

#include <cstring>
#include <optional>

#include "dissectors/protocol/cm.hpp"
#include "dissectors/protocol/ddp.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/ipoib.hpp"
#include "dissectors/protocol/mad.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/nvme.hpp"
#include "dissectors/protocol/rdmap.hpp"
#include "dissectors/protocol/sa.hpp"
#include "dissectors/protocol/srp.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::tracking {
namespace {

/// A service that listens on a port, and the sentences that state why a connection to the port has the service's
/// protocol.
struct KnownService {
  std::uint16_t port;
  Upper protocol;
  std::string_view cm_reason;
  std::string_view mpa_reason;   ///< empty: the service uses another port over iWARP
  std::string_view port_reason;  ///< sentence for a connection whose MPA request was not captured
};
constexpr KnownService services[] = {
    {445, Upper::smb_direct, "the CM request's service ID is port 445, SMB Direct", {}, {}},
    {860, Upper::iser, "the CM request's service ID is port 860, iSCSI (iSER)",
     "the MPA request went to port 860, iSCSI (iSER)",
     "one endpoint of the iWARP connection has port 860, iSCSI (iSER)"},
    {3260, Upper::iser, "the CM request's service ID is port 3260, iSCSI (iSER)",
     "the MPA request went to port 3260, iSCSI (iSER)",
     "one endpoint of the iWARP connection has port 3260, iSCSI (iSER)"},
    {4420, Upper::nvme, "the CM request's service ID is port 4420, NVMe over Fabrics",
     "the MPA request went to port 4420, NVMe over Fabrics",
     "one endpoint of the iWARP connection has port 4420, NVMe over Fabrics"},
    {5445, Upper::smb_direct, "the CM request's service ID is port 5445, SMB Direct",
     "the MPA request went to port 5445, SMB Direct", "one endpoint of the iWARP connection has port 5445, SMB Direct"},
    {8009, Upper::nvme, "the CM request's service ID is port 8009, NVMe over Fabrics discovery",
     "the MPA request went to port 8009, NVMe over Fabrics discovery",
     "one endpoint of the iWARP connection has port 8009, NVMe over Fabrics discovery"},
    {20049, Upper::rpc_rdma, "the CM request's service ID is port 20049, NFS over RDMA",
     "the MPA request went to port 20049, NFS over RDMA",
     "one endpoint of the iWARP connection has port 20049, NFS over RDMA"},
};

const KnownService* find_service(std::uint16_t port) {
  for (const KnownService& s : services)
    if (s.port == port) return &s;
  return nullptr;
}

const KnownService* find_iwarp_service(std::uint16_t port) {
  const KnownService* service = find_service(port);
  return service && !service->mpa_reason.empty() ? service : nullptr;
}

/// Returns the MAD of a packet to QP 1. Returns empty bytes if it is incomplete.
Bytes mad_of(const HeaderStack& stack) {
  const Layer* mad = stack.find(info<Mad>);
  if (!mad || stack.bytes.size() < mad->offset + Mad::whole) return {};
  return stack.bytes.subspan(mad->offset, Mad::whole);
}

NumberKey group_key(std::uint32_t qkey, std::uint16_t pkey) {
  constexpr std::uint16_t full_member = 0x8000;
  return {std::uint64_t{qkey} << 16 | (pkey | full_member)};
}

constexpr std::string_view assumed_reason = "the user selected the protocol for this number";

/// Decodes a message whose direction is unknown. Only NVMe over Fabrics needs it: a completion has 16 bytes, and a
/// command 64.
void decode_assumed(HeaderStack& stack, Upper protocol, Extent extent) {
  UpperContext context;
  context.protocol = protocol;
  context.to_listener = extent == Extent::beginning || stack.payload.length != NvmeCqe::size;
  decode_upper(stack, context, extent);
}
}  // namespace

Evidence::Evidence(std::uint32_t capacity)
    : flows_(capacity),
      requests_(capacity),
      datagram_qps_(capacity),
      streams_(capacity),
      services_(capacity),
      groups_(capacity) {}

void Evidence::apply(Packet& packet) {
  const HeaderStack& stack = packet.stack;
  if (stack.transport >= stack.layers().size()) return;
  if (!packet.pdus.empty()) return apply_iwarp(packet);
  const Layer& transport = stack.layers()[stack.transport];
  if (transport.header != &info<Bth>) return;
  const View<Bth> bth(stack.bytes.data() + transport.offset);
  switch (opcode(bth.get<"opcode">()).transport) {
    case Transport::rc:
    case Transport::uc:
      if (knows_flows()) apply_connection(packet);
      break;
    case Transport::ud:
      if (bth.get<"dest_qp">() == 1)
        apply_management(packet);
      else if (stack.wire == Wire::infiniband)
        apply_datagram(packet);
      break;
    default: break;
  }
}

Upper Evidence::assumed(std::initializer_list<std::uint32_t> numbers) const {
  for (const AssumedUpper& one : assumed_)
    for (const std::uint32_t number : numbers)
      if (one.numbers.has(number)) return one.protocol;
  return Upper::unknown;
}

void Evidence::apply_connection(Packet& packet) {
  HeaderStack& stack = packet.stack;
  const auto ports = ports_of(stack);
  if (!ports) return;
  const View<Bth> bth(stack.bytes.data() + stack.layers()[stack.transport].offset);
  const FlowKey key = ports->with(bth.get<"dest_qp">());
  Flow* flow = flows_.find(key);
  const Opcode& op = opcode(bth.get<"opcode">());
  const Extent extent = op.ends_message() ? Extent::whole : Extent::beginning;
  if (!flow) {
    const Upper protocol = assumed({static_cast<std::uint32_t>(key.number)});
    if (protocol == Upper::unknown) return;
    packet.upper = {protocol, assumed_reason, 0};
    if (op.operation == Operation::send && op.begins_message()) decode_assumed(stack, protocol, extent);
    return;
  }
  packet.upper = flow->evidence;
  UpperContext context = flow->context;
  if (op.operation != Operation::send) {
    context.connect_data = context.protocol == Upper::nvme && is_connect_data(stack, key, *flow);
    if (context.connect_data) decode_upper(stack, context, extent);
    return;
  }
  if (!op.begins_message()) return;
  context.first_message = bth.get<"psn">() == flow->first_psn;
  decode_upper(stack, context, extent);
  if (context.protocol != Upper::nvme || !context.to_listener || !stack.find(info<NvmeConnect>)) return;
  const auto connect = stack.get<NvmeFabrics>();
  if (connect->get<"sgl1.type">() == nvme::keyed_data_block)
    flow->connect_data = {ConnectData::State::offered, connect->get<"sgl1.key">(), connect->get<"sgl1.address">(), 0};
}

// True if the packet is the READ response with the data of a Connect. The Connect contains the address of its data,
// from which the controller reads them. The response has the PSN of this READ request.
bool Evidence::is_connect_data(const HeaderStack& stack, const FlowKey& key, Flow& flow) {
  const View<Bth> bth(stack.bytes.data() + stack.layers()[stack.transport].offset);
  const Opcode& op = opcode(bth.get<"opcode">());
  if (op.operation == Operation::rdma_read_request && !flow.context.to_listener) {
    const auto reth = stack.get<Reth>();
    Flow* to_listener = flows_.find(key.reversed(flow.peer_qp));
    if (!reth || !to_listener) return false;
    ConnectData& data = to_listener->connect_data;
    if (data.state == ConnectData::State::none || data.key != reth->get<"rkey">() || data.address != reth->get<"va">())
      return false;
    data.state = ConnectData::State::read;
    data.psn = bth.get<"psn">();
    return false;
  }
  return op.operation == Operation::rdma_read_response && op.begins_message() && flow.context.to_listener &&
         flow.connect_data.state == ConnectData::State::read && flow.connect_data.psn == bth.get<"psn">();
}

void Evidence::learn_datagram_qp(std::uint16_t lid, std::uint32_t qp, const DatagramQp& value) {
  const FlowKey key{{}, PortAddress::of_lid(lid), qp};
  const DatagramQp* old = datagram_qps_.find(key);
  if (!old || (value.qkey_known && (!old->qkey_known || old->qkey != value.qkey))) datagram_qps_.put(key, value);
}

void Evidence::apply_datagram(Packet& packet) {
  HeaderStack& stack = packet.stack;
  const auto lrh = stack.get<Lrh>();
  const auto deth = stack.get<Deth>();
  if (!lrh || !deth) return;
  const View<Bth> bth(stack.bytes.data() + stack.layers()[stack.transport].offset);
  const std::uint32_t source_qp = deth->get<"src_qp">(), destination_qp = bth.get<"dest_qp">(),
                      qkey = deth->get<"qkey">();
  if (source_qp <= 1 || destination_qp <= 1) return;

  const auto uses = [&](std::uint16_t lid, std::uint32_t qp) -> const DatagramQp* {
    const DatagramQp* known = datagram_qps_.find({{}, PortAddress::of_lid(lid), qp});
    return known && (!known->qkey_known || known->qkey == qkey) ? known : nullptr;
  };
  const std::uint16_t slid = lrh->get<"slid">(), dlid = lrh->get<"dlid">();
  const auto grh = stack.get<Grh>();
  constexpr std::uint32_t multicast_qp = 0xffffff;
  UpperEvidence evidence;
  if (grh && is_ipoib_group(grh->get<"dgid">().data()))
    evidence = {Upper::ipoib, "the destination GID is an IPoIB multicast group", packet.number};
  else if (const DatagramQp* known = uses(dlid, destination_qp))
    evidence = {Upper::ipoib, "the destination QP is an IPoIB QP", known->evidence.frame};
  else if (const DatagramQp* sender = uses(slid, source_qp))
    evidence = {Upper::ipoib, "the source QP is an IPoIB QP", sender->evidence.frame};
  else if (const UpperEvidence* group = groups_.find(group_key(qkey, bth.get<"pkey">())))
    evidence = *group;
  if (evidence.protocol == Upper::unknown) return;

  packet.upper = evidence;
  // IPoIB QPs communicate only with other IPoIB QPs.
  const DatagramQp learned{{Upper::ipoib, evidence.reason, packet.number}, qkey, true};
  learn_datagram_qp(slid, source_qp, learned);
  if (destination_qp != multicast_qp) learn_datagram_qp(dlid, destination_qp, learned);
  decode_upper(stack, {Upper::ipoib, false, false, false}, Extent::whole);
}

// The number in the key combines the ports of the initiator and the listener.
const Evidence::Stream* Evidence::stream_of(const FlowKey& key, std::uint64_t frame, bool& to_listener) {
  const auto source = static_cast<std::uint16_t>(key.number >> 16),
             destination = static_cast<std::uint16_t>(key.number);
  const FlowKey back = key.reversed(std::uint64_t{destination} << 16 | source);
  to_listener = true;
  if (const Stream* stream = streams_.find(key)) return stream;
  to_listener = false;
  if (const Stream* stream = streams_.find(back)) return stream;
  // The capture does not contain the start of the connection. If both ports belong to services, the listening side is
  // unknown.
  const KnownService *from = find_iwarp_service(source), *to = find_iwarp_service(destination);
  if (from && to) return nullptr;
  to_listener = to != nullptr;
  const KnownService& service = to ? *to : *from;
  return &streams_.put(to ? key : back, {{service.protocol, service.port_reason, frame}, false});
}

void Evidence::apply_iwarp(Packet& packet) {
  const auto ports = ports_of(packet.stack);
  const auto tcp = packet.stack.get<Tcp>();
  if (!ports || !tcp) return;
  const std::uint16_t source = tcp->get<"src_port">(), destination = tcp->get<"dst_port">();
  const KnownService* listener = find_iwarp_service(destination);
  const bool is_service = listener || find_iwarp_service(source);
  const Upper selected = assumed({destination, source});
  if (!is_service && selected == Upper::unknown) return;
  const FlowKey key = ports->with(std::uint64_t{source} << 16 | destination);

  for (Pdu& pdu : packet.pdus) {
    HeaderStack& stack = pdu.stack;
    const Layer* mpa = stack.find(info<MpaFrame>);
    if (mpa && MpaFrame::is_request(stack.bytes.data() + mpa->offset)) {
      // The request went from a service's port to another port. The connection is stored, so that the service's port is
      // not used as evidence.
      Stream stream;
      if (listener) stream.evidence = {listener->protocol, listener->mpa_reason, packet.number};
      const std::size_t enhanced =
          View<MpaFrame>(stack.bytes.data() + mpa->offset).get<"enhanced">() ? std::size_t{MpaEnhanced::size} : 0;
      const Bytes tail = stack.bytes_of(*mpa).subspan(MpaFrame::size);
      const Bytes own = tail.subspan(std::min(enhanced, tail.size()));
      if (stream.evidence.protocol == Upper::nvme && own.size() >= NvmeCmRequest::size)
        stream.admin_queue = View<NvmeCmRequest>(own.data()).get<"queue_id">() == 0;
      packet.upper = streams_.put(key, stream).evidence;
      continue;
    }
    bool to_listener = false;
    const Stream* stream = is_service ? stream_of(key, packet.number, to_listener) : nullptr;
    const bool known = stream && stream->evidence.protocol != Upper::unknown;
    if (!known && selected == Upper::unknown) continue;
    packet.upper = known ? stream->evidence : UpperEvidence{selected, assumed_reason, 0};
    const auto rdmap = stack.get<Rdmap>();
    const auto ddp = stack.get<Ddp>();
    const auto untagged = stack.get<DdpUntagged>();
    if (!rdmap || !ddp || !untagged || untagged->get<"mo">() != 0) continue;
    const auto operation = static_cast<RdmapOperation>(rdmap->get<"opcode">());
    const bool send = operation == RdmapOperation::send || operation == RdmapOperation::send_invalidate ||
                      operation == RdmapOperation::send_se || operation == RdmapOperation::send_se_invalidate;
    if (!send) continue;
    const Extent extent = ddp->get<"last">() ? Extent::whole : Extent::beginning;
    if (!known) {
      decode_assumed(stack, selected, extent);
      continue;
    }
    UpperContext context;
    context.protocol = stream->evidence.protocol;
    context.to_listener = to_listener;
    context.first_message = untagged->get<"msn">() == 1;
    context.admin_queue = stream->admin_queue;
    decode_upper(stack, context, extent);
  }
}

void Evidence::apply_management(Packet& packet) {
  const auto mad = packet.stack.get<Mad>();
  if (!mad) return;
  const std::uint8_t mgmt_class = mad->get<"class">();
  if (mgmt_class == management_class::communication) return apply_cm(packet);
  if (mad->get<"method">() != mad_method::get_response) return;
  constexpr std::uint16_t service_entries = 0x12;
  if (mgmt_class == management_class::subnet_administration)
    learn_group(packet.number, packet.stack);
  else if (mgmt_class == management_class::device_management && mad->get<"attribute_id">() == service_entries)
    learn_services(packet.number, mad_of(packet.stack));
}

// The attribute has four entries of 40 bytes for a name and 8 bytes for a service ID. IBTA vol 1, 16.3.3.5
void Evidence::learn_services(std::uint64_t frame, Bytes mad) {
  constexpr std::size_t first = 64, entry = 48, id_at = 40;
  constexpr std::string_view srp_name = "SRP.T10:";
  for (std::size_t at = first; at + entry <= mad.size(); at += entry) {
    if (std::memcmp(mad.data() + at, srp_name.data(), srp_name.size()) != 0) continue;
    const std::uint64_t id = load_be<8>(mad.data() + at + id_at);
    if (id) services_.put({id}, {Upper::srp, "an SRP target (SRP.T10) announced the service ID", frame});
  }
}

void Evidence::learn_group(std::uint64_t frame, const HeaderStack& stack) {
  const auto record = stack.get<McMemberRecord>();
  if (!record || !is_ipoib_group(record->get<"mgid">().data())) return;
  const NumberKey key = group_key(record->get<"qkey">(), record->get<"pkey">());
  if (!groups_.find(key)) groups_.put(key, {Upper::ipoib, "the Q_Key belongs to an IPoIB multicast group", frame});
}

const Evidence::Request* Evidence::request_of(const FlowKey& ports, std::uint32_t local_id, std::uint32_t remote_id) {
  // Messages of the requester contain its ID as the local one, and messages of the listener as the remote one.
  if (const Request* request = requests_.find(ports.with(local_id))) return request;
  return requests_.find(ports.reversed(remote_id));
}

void Evidence::apply_cm(Packet& packet) {
  HeaderStack& stack = packet.stack;
  const CmMessage cm = read_cm_message(stack);
  const auto ports = ports_of(stack);
  if (!cm.kind || !ports || cm.kind == &info<CmSidrReq> || cm.kind == &info<CmSidrRep>) return;

  if (cm.kind == &info<CmReq>) {
    const Request request = learn_request(packet.number, cm, *ports, stack.wire == Wire::infiniband);
    packet.upper = request.evidence;
    decode_private_data(stack, request.context, PrivateData::request, cm.ip_addressed);
  } else if (cm.kind == &info<CmRep>) {
    Request* request = requests_.find(ports->reversed(cm.remote_id));
    if (!request) return;
    if (request->evidence.protocol == Upper::unknown && request->srp_login && request->service_id == cm.ca_guid &&
        cm.private_data.size() >= SrpLoginResponse::size && cm.private_data[0] == srp_type::login_response &&
        View<SrpLoginResponse>(cm.private_data.data()).get<"tag">() == request->srp_tag) {
      request->evidence = {
          Upper::srp, "the service ID is the target's GUID, and both private data contain an SRP login", packet.number};
      request->context.protocol = Upper::srp;
    }
    packet.upper = request->evidence;
    const Request accepted = *request;
    learn_flows(accepted, cm);
    decode_private_data(stack, accepted.context, PrivateData::reply, false);
  } else if (cm.kind == &info<CmRej>) {
    const Request* request = request_of(*ports, cm.local_id, cm.remote_id);
    if (!request) return;
    packet.upper = request->evidence;
    decode_private_data(stack, request->context, PrivateData::reject, false);
    if (const Flow* flow = flows_.find(request->to_requester)) {
      const FlowKey other = request->to_requester.reversed(flow->peer_qp);
      flows_.erase(request->to_requester);
      flows_.erase(other);
    }
  } else if (cm.kind == &info<CmDreq>) {
    const FlowKey key = ports->with(cm.qp);
    const Flow* flow = flows_.find(key);
    if (!flow) {
      // The DREQ is a retransmission, or the capture does not contain the start of the connection.
      if (const Request* request = request_of(*ports, cm.local_id, cm.remote_id)) packet.upper = request->evidence;
      return;
    }
    packet.upper = flow->evidence;
    // The QPs can be reused after this packet.
    const FlowKey other = ports->reversed(flow->peer_qp);
    flows_.erase(key);
    flows_.erase(other);
  } else if (const Request* request = request_of(*ports, cm.local_id, cm.remote_id)) {
    packet.upper = request->evidence;
  }
}

Evidence::Request Evidence::learn_request(std::uint64_t frame, const CmMessage& cm, const FlowKey& ports, bool native) {
  Request request;
  request.service_id = cm.service_id;
  request.starting_psn = cm.starting_psn;
  if (cm.port != 0 && cm.port_protocol == ip_protocol::tcp) {
    if (const KnownService* service = find_service(cm.port))
      request.evidence = {service->protocol, service->cm_reason, frame};
  } else if ((cm.service_id & ~ipoib_service::qp_mask) == ipoib_service::prefix) {
    request.evidence = {Upper::ipoib, "the CM request's service ID is that of IPoIB connected mode", frame};
    if (native)
      learn_datagram_qp(cm.remote_lid, static_cast<std::uint32_t>(cm.service_id & ipoib_service::qp_mask),
                        {{Upper::ipoib, "a CM request identifies it as an IPoIB QP", frame}, 0, false});
  } else if (const UpperEvidence* announced = services_.find({cm.service_id})) {
    request.evidence = *announced;
  } else if (cm.private_data.size() >= SrpLoginRequest::size) {
    const View<SrpLoginRequest> login(cm.private_data.data());
    request.srp_login = login.get<"type">() == srp_type::login_request && login.get<"max_length">() != 0;
    request.srp_tag = login.get<"tag">();
  }
  request.context.protocol = request.evidence.protocol;
  request.context.to_listener = true;
  if (request.context.protocol == Upper::nvme && cm.private_data.size() >= NvmeCmRequest::size)
    request.context.admin_queue = View<NvmeCmRequest>(cm.private_data.data()).get<"queue_id">() == 0;
  // InfiniBand: the path is the pair of LIDs in the REQ. RoCE: the path consists of the packet's addresses, because the
  // REQ has no LIDs.
  const FlowKey path =
      native ? FlowKey{PortAddress::of_lid(cm.local_lid), PortAddress::of_lid(cm.remote_lid), 0} : ports;
  request.to_requester = path.reversed(cm.qp);
  requests_.put(ports.with(cm.local_id), request);
  // The earlier state of the QP is obsolete.
  flows_.erase(request.to_requester);
  return request;
}

void Evidence::learn_flows(const Request& request, const CmMessage& reply) {
  const FlowKey to_listener = request.to_requester.reversed(reply.qp);
  if (request.evidence.protocol == Upper::unknown) {
    flows_.erase(to_listener);
    return;
  }
  // The message of each side contains the first PSN of the other side.
  flows_.put(to_listener, {request.evidence,
                           request.context,
                           reply.starting_psn,
                           static_cast<std::uint32_t>(request.to_requester.number),
                           {}});
  Flow to_requester{request.evidence, request.context, request.starting_psn, reply.qp, {}};
  to_requester.context.to_listener = false;
  flows_.put(request.to_requester, to_requester);
}

}  // namespace rdmawire::tracking
