#include "dissectors/tracking/evidence.hpp"

#include <optional>

#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/ipoib.hpp"
#include "dissectors/protocol/nvme.hpp"

namespace rdmawire::tracking {
namespace {

/// A service that listens on a port, and the sentence that says why a connection to it carries the protocol.
struct Service {
  std::uint16_t port;
  Upper protocol;
  std::string_view cm_reason;
};
constexpr Service services[] = {
    {445, Upper::smb_direct, "the CM request's service id is port 445, SMB Direct"},
    {860, Upper::iser, "the CM request's service id is port 860, iSCSI (iSER)"},
    {3260, Upper::iser, "the CM request's service id is port 3260, iSCSI (iSER)"},
    {4420, Upper::nvme, "the CM request's service id is port 4420, NVMe over Fabrics"},
    {5445, Upper::smb_direct, "the CM request's service id is port 5445, SMB Direct"},
    {8009, Upper::nvme, "the CM request's service id is port 8009, NVMe over Fabrics discovery"},
    {20049, Upper::rpc_rdma, "the CM request's service id is port 20049, NFS over RDMA"},
};

const Service* find_service(std::uint16_t port) {
  for (const Service& s : services)
    if (s.port == port) return &s;
  return nullptr;
}

/// RDMA-CM's service ids for the TCP port space: a prefix and the port. IBTA vol 1, annex A11.
namespace ip_service {
constexpr std::uint64_t prefix = 0x0000000001060000, port_mask = 0xffff;
constexpr bool matches(std::uint64_t service_id) { return (service_id & ~port_mask) == prefix; }
}  // namespace ip_service

constexpr std::uint32_t mad_octets = 256;

/// The MAD of a packet to queue pair 1, or empty when it is not there whole.
Bytes mad_of(const HeaderStack& stack) {
  const Layer* deth = stack.find(info<Deth>);
  if (!deth) return {};
  const std::uint32_t at = deth->offset + deth->length;
  if (stack.bytes.size() < at + mad_octets) return {};
  return stack.bytes.subspan(at, mad_octets);
}

enum class CmKind : std::uint8_t { request = 0x10, reject = 0x12, reply = 0x13, disconnect_request = 0x15 };

/// What is needed of a CM message. IBTA vol 1, 12.6.
struct CmMessage {
  CmKind kind;
  std::uint32_t local_id, remote_id;
  std::uint64_t service_id;
  std::uint32_t qp;  ///< sender's; of DREQ the receiver's
  std::uint32_t starting_psn;
  std::uint16_t local_lid, remote_lid;
  Bytes private_data;
};

std::optional<CmMessage> read_cm(Bytes mad) {
  constexpr std::uint8_t cm_class = 0x07;
  if (mad[1] != cm_class) return std::nullopt;
  const auto kind = static_cast<std::uint16_t>(load_be(mad.data() + 16, 2));
  const std::uint8_t* cm = mad.data() + 24;
  const auto u = [cm](unsigned at, unsigned octets) { return static_cast<std::uint32_t>(load_be(cm + at, octets)); };
  CmMessage m{static_cast<CmKind>(kind), u(0, 4), u(4, 4), 0, 0, 0, 0, 0, {}};
  switch (kind) {
    case static_cast<std::uint16_t>(CmKind::request):
      m.service_id = load_be(cm + 8, 8);
      m.qp = u(32, 3);
      m.starting_psn = u(44, 3);
      m.local_lid = static_cast<std::uint16_t>(u(52, 2));
      m.remote_lid = static_cast<std::uint16_t>(u(54, 2));
      m.private_data = mad.subspan(24 + 140);
      return m;
    case static_cast<std::uint16_t>(CmKind::reply):
      m.qp = u(12, 3);
      m.starting_psn = u(20, 3);
      m.private_data = mad.subspan(24 + 36);
      return m;
    case static_cast<std::uint16_t>(CmKind::reject): m.private_data = mad.subspan(24 + 84); return m;
    case static_cast<std::uint16_t>(CmKind::disconnect_request): m.qp = u(8, 3); return m;
    default: return std::nullopt;
  }
}

constexpr std::uint32_t rdma_cm_header_octets = 36;

PortAddress of_lid(std::uint16_t lid) { return {0, lid}; }
PortAddress of_gid(const std::uint8_t* gid) { return {load_be<8>(gid), load_be<8>(gid + 8)}; }
PortAddress of_ipv4(const std::uint8_t* address) { return {0, 0xffff00000000 | load_be<4>(address)}; }

/// Which ports the packet goes between, as FlowKey with number 0: by LID on native InfiniBand, where every packet has
/// them, else by IP address or GID.
std::optional<FlowKey> ports_of(const HeaderStack& stack) {
  const auto layers = stack.layers();
  if (stack.wire == Wire::infiniband) {
    const auto lrh = stack.get<Lrh>();
    if (!lrh) return std::nullopt;
    return FlowKey{of_lid(lrh->get<"slid">()), of_lid(lrh->get<"dlid">()), 0};
  }
  if (stack.network >= layers.size()) return std::nullopt;
  const Layer& network = layers[stack.network];
  const std::uint8_t* at = stack.bytes.data() + network.offset;
  if (network.header == &info<Ipv4>) return FlowKey{of_ipv4(at + 12), of_ipv4(at + 16), 0};
  return FlowKey{of_gid(at + 8), of_gid(at + 24), 0};  // IPv6 and GRH have their addresses in the same place
}

FlowKey with(FlowKey ports, std::uint64_t number) {
  ports.number = number;
  return ports;
}
FlowKey reversed(const FlowKey& ports, std::uint64_t number) { return {ports.to, ports.from, number}; }

}  // namespace

Evidence::Evidence(std::uint32_t capacity) : flows_(capacity), requests_(capacity), datagram_qps_(capacity) {}

void Evidence::apply(Packet& packet) {
  const HeaderStack& stack = packet.stack;
  if (stack.transport >= stack.layers().size()) return;
  const Layer& transport = stack.layers()[stack.transport];
  if (transport.header != &info<Bth>) return;
  const View<Bth> bth(stack.bytes.data() + transport.offset);
  switch (opcode(bth.get<"opcode">()).transport) {
    case Transport::rc:
    case Transport::uc:
      if (!flows_.empty()) apply_connection(packet);
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

void Evidence::apply_connection(Packet& packet) {
  HeaderStack& stack = packet.stack;
  const auto ports = ports_of(stack);
  if (!ports) return;
  const View<Bth> bth(stack.bytes.data() + stack.layers()[stack.transport].offset);
  const Flow* flow = flows_.find(with(*ports, bth.get<"dest_qp">()));
  if (!flow) return;
  packet.upper = flow->evidence;
  const Opcode& op = opcode(bth.get<"opcode">());
  if (op.operation != Operation::send || !op.begins_message()) return;
  UpperContext context = flow->context;
  context.first_message = bth.get<"psn">() == flow->first_psn;
  decode_upper(stack, context, op.ends_message() ? Extent::whole : Extent::beginning);
}

void Evidence::learn_datagram_qp(std::uint16_t lid, std::uint32_t qp, const DatagramQp& value) {
  const FlowKey key{{}, of_lid(lid), qp};
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
    const DatagramQp* known = datagram_qps_.find({{}, of_lid(lid), qp});
    return known && (!known->qkey_known || known->qkey == qkey) ? known : nullptr;
  };
  const std::uint16_t slid = lrh->get<"slid">(), dlid = lrh->get<"dlid">();
  const auto grh = stack.get<Grh>();
  constexpr std::uint32_t multicast_qp = 0xffffff;
  UpperEvidence evidence;
  if (grh && is_ipoib_group(grh->get<"dgid">().data()))
    evidence = {Upper::ipoib, "the destination GID is an IPoIB multicast group", packet.number};
  else if (const DatagramQp* known = uses(dlid, destination_qp))
    evidence = {Upper::ipoib, "the destination queue pair is one that IPoIB uses", known->evidence.frame};
  else if (const DatagramQp* sender = uses(slid, source_qp))
    evidence = {Upper::ipoib, "the source queue pair is one that IPoIB uses", sender->evidence.frame};
  if (evidence.protocol == Upper::unknown) return;

  packet.upper = evidence;
  // An IPoIB queue pair talks to IPoIB queue pairs only.
  const DatagramQp learned{{Upper::ipoib, evidence.reason, packet.number}, qkey, true};
  learn_datagram_qp(slid, source_qp, learned);
  if (destination_qp != multicast_qp) learn_datagram_qp(dlid, destination_qp, learned);
  decode_upper(stack, {Upper::ipoib, false, false, false}, Extent::whole);
}

void Evidence::apply_management(Packet& packet) {
  const Bytes mad = mad_of(packet.stack);
  if (mad.empty()) return;
  apply_cm(packet, mad);
}

void Evidence::apply_cm(Packet& packet, Bytes mad) {
  const auto cm = read_cm(mad);
  const auto ports = ports_of(packet.stack);
  if (!cm || !ports) return;
  const bool native = packet.stack.wire == Wire::infiniband;

  switch (cm->kind) {
    case CmKind::request: {
      Request request;
      request.starting_psn = cm->starting_psn;
      request.context.to_listener = true;
      if (ip_service::matches(cm->service_id)) {
        request.ip_addressed = true;
        if (const Service* service = find_service(static_cast<std::uint16_t>(cm->service_id)))
          request.evidence = {service->protocol, service->cm_reason, packet.number};
      } else if ((cm->service_id & ~ipoib_service::qp_mask) == ipoib_service::prefix) {
        request.evidence = {Upper::ipoib, "the CM request's service id is IPoIB's connected mode", packet.number};
        if (native)
          learn_datagram_qp(cm->remote_lid, static_cast<std::uint32_t>(cm->service_id & ipoib_service::qp_mask),
                            {{Upper::ipoib, "a CM request names it as an IPoIB queue pair", packet.number}, 0, false});
      }
      request.context.protocol = request.evidence.protocol;
      const Bytes own = cm->private_data.subspan(request.ip_addressed ? rdma_cm_header_octets : 0);
      if (request.context.protocol == Upper::nvme)
        request.context.admin_queue = View<NvmeCmRequest>(own.data()).get<"queue_id">() == 0;
      // The path is the one that the REQ names; RoCE's has no LIDs.
      const FlowKey path = native ? FlowKey{of_lid(cm->local_lid), of_lid(cm->remote_lid), 0} : *ports;
      request.to_requester = reversed(path, cm->qp);
      requests_.put(with(*ports, cm->local_id), request);
      // Whatever was known of the queue pair is over.
      flows_.erase(request.to_requester);
      packet.upper = request.evidence;
      return;
    }
    case CmKind::reply: {
      const Request* request = requests_.find(reversed(*ports, cm->remote_id));
      if (!request) return;
      packet.upper = request->evidence;
      const FlowKey to_listener = reversed(request->to_requester, cm->qp);
      if (request->evidence.protocol == Upper::unknown) {
        flows_.erase(to_listener);
        return;
      }
      Flow flow{request->evidence, request->context, cm->starting_psn,
                static_cast<std::uint32_t>(request->to_requester.number)};
      flows_.put(to_listener, flow);
      flow.context.to_listener = false;
      flow.first_psn = request->starting_psn;
      flow.peer_qp = cm->qp;
      flows_.put(request->to_requester, flow);
      return;
    }
    case CmKind::reject: {
      if (const Request* request = requests_.find(reversed(*ports, cm->remote_id))) packet.upper = request->evidence;
      return;
    }
    case CmKind::disconnect_request: {
      // From here on the queue pairs may be used for something else.
      const FlowKey key = with(*ports, cm->qp);
      if (const Flow* flow = flows_.find(key)) {
        packet.upper = flow->evidence;
        const FlowKey other = reversed(*ports, flow->peer_qp);
        flows_.erase(key);
        flows_.erase(other);
      }
      return;
    }
  }
}

}  // namespace rdmawire::tracking
