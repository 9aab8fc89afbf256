#include "dissectors/output/summary_formats.hpp"

#include "dissectors/protocol/arp.hpp"
#include "dissectors/protocol/cm.hpp"
#include "dissectors/protocol/ddp.hpp"
#include "dissectors/protocol/icmp.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ipoib.hpp"
#include "dissectors/protocol/iser.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/nvme.hpp"
#include "dissectors/protocol/pm.hpp"
#include "dissectors/protocol/rdmap.hpp"
#include "dissectors/protocol/rpc_rdma.hpp"
#include "dissectors/protocol/sa.hpp"
#include "dissectors/protocol/smb_direct.hpp"
#include "dissectors/protocol/smp.hpp"
#include "dissectors/protocol/srp.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/protocol/tunnel.hpp"

namespace rdmawire::faces::gists {
namespace {

constexpr Gist own_rows[] = {
    gist<Arp>("ARP {operation}"),
    gist<ArpEthernet>("{sender_protocol} at {sender_hardware}  to {target_protocol}"),
    gist<ArpInfiniband>("{sender_protocol} at {sender_gid} qp {sender_qp}  to {target_protocol}"),
    gist<Icmp>("ICMP {type}[?code:  code {code}]"),
    gist<IcmpEcho>("id {identifier}  seq {sequence}"),
    gist<Icmpv6>("ICMPv6 {type}[?code:  code {code}]"),
    gist<Icmpv6Echo>("id {identifier}  seq {sequence}"),
    gist<NeighbourSolicitation>("{target}"),
    gist<NeighbourAdvertisement>("{target}"),
    gist<RouterSolicitation>(""),
    gist<NdOption>("{type}"),
    gist<NdLinkAddress>("{address}"),
    gist<NdIpoibLinkAddress>("qp {qp}  {gid}"),
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
    gist<Feth>("{placement.global?global }{placement.persistent?persistent }{selectivity}"),
    gist<Cnp>(""),
    gist<DcEth>("DC (vendor transport)  from qp {src_qp}"),
    gist<Mad>("[CM {attribute_id.cm:9}][SM {method} {attribute_id.sm}][SA {method} {attribute_id.sa}]"
              "[PM {method} {attribute_id.pm}][DM {method} {attribute_id.dm}][CC {method} {attribute_id.cc}]"
              "[?class_specific.hop_count:  hop {class_specific.hop_pointer} of {class_specific.hop_count}]"
              "[?attribute_modifier:  modifier {attribute_modifier}]  tid {transaction_id}"
              "[?status.sa:  {status.sa}][?status.invalid:  {status.invalid}]{status.busy?  busy}"),
    gist<Rmpp>("[?type:RMPP {type}][ segment {data1.segment_number}][?status:  status {status}]"),
    gist<CmReq>("comm {local_comm_id}  qp {local_qpn}  psn {starting_psn}  {transport_service_type}  mtu {path_mtu}"
                "[  service {service_id.protocol} {service_id.port}][!service_id.port:  service {service_id}]"),
    gist<CmMra>("comm {local_comm_id} → {remote_comm_id}  of {message}[  answers within {service_timeout.limit}]"),
    gist<CmRej>("comm {local_comm_id} → {remote_comm_id}  of {message}: {reason}"),
    gist<CmRep>("comm {local_comm_id} → {remote_comm_id}  qp {local_qpn}  psn {starting_psn}"),
    gist<CmRtu>("comm {local_comm_id} → {remote_comm_id}"),
    gist<CmDreq>("comm {local_comm_id} → {remote_comm_id}  qp {remote_qpn}"),
    gist<CmDrep>("comm {local_comm_id} → {remote_comm_id}"),
    gist<CmLap>("comm {local_comm_id} → {remote_comm_id}  qp {remote_qpn}  LIDs {alternate_local_lid} → "
                "{alternate_remote_lid}"),
    gist<CmApr>("comm {local_comm_id} → {remote_comm_id}  {status}"),
    gist<CmSidrReq>("request {request_id}[  service {service_id.protocol} {service_id.port}]"
                    "[!service_id.port:  service {service_id}]"),
    gist<CmSidrRep>("request {request_id}  {status}  qp {qpn}  qkey {qkey}"),
    gist<RdmaCm>("[{src.ipv4}:{src_port} → {dst.ipv4}][{src.ipv6} port {src_port} → {dst.ipv6}]"),
    gist<SmpLid>(""),
    gist<SmpDirected>(""),
    gist<SmpPath>(""),
    gist<NodeDescription>("{text}"),
    gist<NodeInfo>("{node_type} {node_guid}"),
    gist<PortInfo>("LID {lid}"),
    gist<SmInfo>("priority {priority}  {state}"),
    gist<Sa>(""),
    gist<PathRecord>("{sgid} → {dgid}"),
    gist<McMemberRecord>("{mgid}"),
    gist<NodeRecord>("LID {lid}  {node_description}"),
    gist<PortInfoRecord>("LID {end_port_lid} port {port_num}"),
    gist<ServiceRecord>("{service_name}"),
    gist<Pm>(""),
    gist<PortCounters>("port {port_select}  rcv errors {rcv_errors}  discards {xmit_discards}  wait {xmit_wait}"),
    gist<PortCountersExtended>("port {port_select}  sent {xmit_pkts}  received {rcv_pkts}"),
    gist<MpaFrame>("{key}  revision {revision}{crc?  CRC}{markers?  markers}{reject?  reject}"),
    gist<MpaEnhanced>("ird {ird}  ord {ord}{rtr_send?  RTR by Send}{rtr_write?  RTR by Write}{rtr_read?  RTR by Read}"),
    gist<Fpdu>(""),
    gist<Ddp>(""),
    gist<Rdmap>("{opcode:22}"),
    gist<DdpTagged>("stag {stag}  to {to}"),
    gist<DdpUntagged>("msn {msn}[?mo:  at {mo}][?invalidate_stag:  invalidates {invalidate_stag}]"),
    gist<RdmapReadRequest>("{size} B of stag {src_stag} to {src_to}  into stag {sink_stag} to {sink_to}"),
    gist<Terminate>("{layer}:[ {etype.rdma}][ {etype.ddp}][ {etype.llp}][: {error_code.protection}]"
                    "[: {error_code.operation}][: {error_code.ddp_local}][: {error_code.ddp_tagged}]"
                    "[: {error_code.ddp_untagged}][: {error_code.mpa}]"),
    gist<DdpSegmentLength>(""),
    gist<RdmapAtomicRequest>("{operation}  stag {stag}  to {to}  id {request_id}"),
    gist<RdmapAtomicResponse>("id {request_id}  original {original}"),
    gist<RdmapImmediateData>("imm {data}"),
    gist<NvmeAdmin>("NVMe {opcode}  cid {command_id}[  {sgl1.keyed_length} B at {sgl1.address} key {sgl1.key}]"),
    gist<NvmeIo>("NVMe {opcode}  cid {command_id}  nsid {namespace_id}"
                 "[  {sgl1.keyed_length} B at {sgl1.address} key {sgl1.key}][  {sgl1.length} B in the capsule]"),
    gist<NvmeFabrics>("NVMe {type}  cid {command_id}"),
    gist<NvmeDwords>(""),
    gist<NvmeRange>("from block {start}"),
    gist<NvmeConnect>("queue {queue_id}  size {queue_size}"),
    gist<NvmeConnectData>("{subsystem_nqn}"),
    gist<NvmePropertySet>("{offset} = {value}"),
    gist<NvmePropertyGet>("{offset}"),
    gist<NvmeCqe>("NVMe response  cid {command_id}  [{status.generic}][{status.specific}]"
                  "[!status.generic:{status}]  result {result}"),
    gist<RpcRdma>("RPC-over-RDMA {procedure}  xid {xid}  credits {credits}"),
    gist<RpcRdmaRead>("reads {length} B handle {handle}"),
    gist<RpcRdmaChunk>("chunk of {segments}"),
    gist<RpcRdmaSegment>("{length} B handle {handle}"),
    gist<RpcRdmaEnd>(""),
    gist<RpcRdmaPadding>(""),
    gist<RpcRdmaError>("{error}"),
    gist<RpcCall>("{program} procedure {procedure}"),
    gist<RpcReply>("{status}"),
    gist<Iser>("iSER {opcode}"),
    gist<IserHello>("iSER {opcode}"),
    gist<Iscsi>("{opcode}  tag {task_tag}"),
    gist<SrpLoginRequest>("{type}  {initiator_port} → {target_port}"),
    gist<SrpLoginRequestRdma>("{type}  {initiator_port} → {target_port}"),
    gist<SrpLoginResponse>("{type}"),
    gist<SrpLoginReject>("{type}: {reason}"),
    gist<SrpShort>("{type}"),
    gist<SrpTargetLogout>("{type}"),
    gist<SrpTaskManagement>("{type} {function}"),
    gist<SrpCommand>("{type}  tag {tag}"),
    gist<SrpResponse>("{type}  tag {tag}  status {status}"),
    gist<SrpCreditRequest>("{type}"),
    gist<SrpEventRequest>("{type}"),
    gist<SmbDirectNegotiateRequest>("SMB Direct negotiate request  credits {credits_requested}"),
    gist<SmbDirectNegotiateResponse>("SMB Direct negotiate response  credits {credits_granted}"),
    gist<SmbDirectData>("SMB Direct data  {data_length} B[?remaining_length:  {remaining_length} B to come]"),
    gist<NvmeCmRequest>("NVMe queue {queue_id}"),
    gist<NvmeCmReply>("NVMe"),
};

constexpr Gist carrier_rows[] = {
    gist<Ethernet>("{type}"),
    gist<Vlan>("{type}"),
    gist<LinuxSll>("{protocol}"),
    gist<LinuxSll2>("{protocol}"),
    gist<NullLoopback>("family {family}"),
    gist<Erf>("ERF {type.kind}"),
    gist<Ipv4>("{protocol}"),
    gist<Ipv6>("{next_header}"),
    gist<Ipv6Extension>("{next_header}"),
    gist<Ipv6Fragment>("{next_header}"),
    gist<Ipv6Authentication>("{next_header}"),
    gist<Udp>("UDP {src_port} → {dst_port}"),
    gist<Tcp>("TCP {src_port} → {dst_port} {syn? SYN}{fin? FIN}{rst? RST}{psh? PSH}{ack? ACK}{urg? URG}{ece? ECE}"
              "{cwr? CWR}  seq {seq}  ack {ack_number}  win {window}"),
    gist<Gre>("GRE {protocol}"),
    gist<Lrh>("LRH {lnh}"),
    gist<Grh>("{next_header}"),
    gist<Rwh>("{type}"),
    gist<Ipoib>("IPoIB {type}"),
};

constexpr Gist beneath_rows[] = {
    gist<Vlan>("vlan {id}"),
    gist<Vxlan>("VXLAN {vni}"),
    gist<Erspan2>("ERSPAN {session}"),
    gist<Erspan3>("ERSPAN {session}"),
};

constexpr Gist mark_rows[] = {
    gist<Ipv4>("{tos.ecn=3?  CE}"),
    gist<Ipv6>("{traffic_class.ecn=3?  CE}"),
    gist<Grh>("{traffic_class.ecn=3?  CE}"),
    gist<Ddp>("{last?  last}"),
    gist<Bth>("{fecn?  FECN}{becn?  BECN}{se?  SE}{ack_request?  AckReq}"),
};

}  // namespace

constinit const Gist stream = gist<Tcp>("TCP {src_port} → {dst_port}{fin? FIN}{rst? RST}");
constinit const std::span<const Gist> own = own_rows;
constinit const std::span<const Gist> carriers = carrier_rows;
constinit const std::span<const Gist> beneath = beneath_rows;
constinit const std::span<const Gist> marks = mark_rows;

}  // namespace rdmawire::faces::gists
