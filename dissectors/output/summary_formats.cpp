#include "dissectors/output/summary_formats.hpp"

#include "dissectors/protocol/arp.hpp"
#include "dissectors/protocol/cm.hpp"
#include "dissectors/protocol/ddp.hpp"
#include "dissectors/protocol/icmp.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ipoib.hpp"
#include "dissectors/protocol/iser.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/mrc.hpp"
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

namespace rdmawire::output::summary_formats {
namespace {

constexpr SummaryFormat own_rows[] = {
    summary_format<Arp>("ARP {operation}"),
    summary_format<ArpEthernet>("{sender_protocol} at {sender_hardware}  to {target_protocol}"),
    summary_format<ArpInfiniband>("{sender_protocol} at {sender_gid} qp {sender_qp}  to {target_protocol}"),
    summary_format<Icmp>("ICMP {type}[?code:  code {code}]"),
    summary_format<IcmpEcho>("id {identifier}  seq {sequence}"),
    summary_format<Icmpv6>("ICMPv6 {type}[?code:  code {code}]"),
    summary_format<Icmpv6Echo>("id {identifier}  seq {sequence}"),
    summary_format<NeighborSolicitation>("{target}"),
    summary_format<NeighborAdvertisement>("{target}"),
    summary_format<RouterSolicitation>(""),
    summary_format<NdOption>("{type}"),
    summary_format<NdLinkAddress>("{address}"),
    summary_format<NdIpoibLinkAddress>("qp {qp}  {gid}"),
    summary_format<Bth>("{opcode:28} qp {dest_qp:8} psn {psn:8}"),
    summary_format<Rdeth>("eec {ee_context}"),
    summary_format<Deth>("from qp {src_qp}  qkey {qkey}"),
    summary_format<Xrceth>("srq {xrcsrq}"),
    summary_format<Reth>("va {va}  rkey {rkey}  len {length}"),
    summary_format<AtomicEth>("va {va}  rkey {rkey}  swap/add {swap_add}  compare {compare}"),
    summary_format<Aeth>(
        "{syndrome.kind}[ {syndrome.nak_code}][ wait {syndrome.wait}]  msn {msn}[  credits {syndrome.credits}]"),
    summary_format<AtomicAckEth>("original {original}"),
    summary_format<ImmDt>("imm {data}"),
    summary_format<Ieth>("invalidates {rkey}"),
    summary_format<Feth>("{placement.global?global }{placement.persistent?persistent }{selectivity}"),
    summary_format<Cnp>(""),
    summary_format<DcEth>("DC (vendor transport)  from qp {src_qp}"),
    summary_format<MrcBth>("{opcode:28} qp {dest_qp:8} psn {psn:8}"),
    summary_format<Meth>("msn {msn}[?rqmsn:  rqmsn {rqmsn}]"),
    summary_format<Tseth>("sent at {timestamp}"),
    summary_format<Seth>("up to {cack_psn}  bitmap {bitmap}  ev {entropy}[?path_state:  path {path_state}]"
                         "{probe_response?  probe response}"),
    summary_format<CcState>("[?ooo_count:out of order {ooo_count}][?cwnd_penalty:  penalty {cwnd_penalty}]"),
    summary_format<Neth>("{reason}  psn {nack_psn}  ev {entropy}"),
    summary_format<Peth>("probe {probe_id}"),
    summary_format<Erth>("{operation}[?port_status:  ports {port_status}]"),
    summary_format<Eeth>(""),
    summary_format<Mad>("[CM {attribute_id.cm:9}][SM {method} {attribute_id.sm}][SA {method} {attribute_id.sa}]"
                        "[PM {method} {attribute_id.pm}][DM {method} {attribute_id.dm}][CC {method} {attribute_id.cc}]"
                        "[?class_specific.hop_count:  hop {class_specific.hop_pointer} of {class_specific.hop_count}]"
                        "[?attribute_modifier:  modifier {attribute_modifier}]  tid {transaction_id}"
                        "[?status.sa:  {status.sa}][?status.invalid:  {status.invalid}]{status.busy?  busy}"),
    summary_format<Rmpp>("[?type:RMPP {type}][ segment {data1.segment_number}][?status:  status {status}]"),
    summary_format<CmReq>(
        "comm {local_comm_id}  qp {local_qpn}  psn {starting_psn}  {transport_service_type}  mtu {path_mtu}"
        "[  service {service_id.protocol} {service_id.port}][!service_id.port:  service {service_id}]"),
    summary_format<CmMra>(
        "comm {local_comm_id} → {remote_comm_id}  of {message}[  reply within {service_timeout.limit}]"),
    summary_format<CmRej>("comm {local_comm_id} → {remote_comm_id}  of {message}: {reason}"),
    summary_format<CmRep>("comm {local_comm_id} → {remote_comm_id}  qp {local_qpn}  psn {starting_psn}"),
    summary_format<CmRtu>("comm {local_comm_id} → {remote_comm_id}"),
    summary_format<CmDreq>("comm {local_comm_id} → {remote_comm_id}  qp {remote_qpn}"),
    summary_format<CmDrep>("comm {local_comm_id} → {remote_comm_id}"),
    summary_format<CmLap>("comm {local_comm_id} → {remote_comm_id}  qp {remote_qpn}  LIDs {alternate_local_lid} → "
                          "{alternate_remote_lid}"),
    summary_format<CmApr>("comm {local_comm_id} → {remote_comm_id}  {status}"),
    summary_format<CmSidrReq>("request {request_id}[  service {service_id.protocol} {service_id.port}]"
                              "[!service_id.port:  service {service_id}]"),
    summary_format<CmSidrRep>("request {request_id}  {status}  qp {qpn}  qkey {qkey}"),
    summary_format<RdmaCm>("[{src.ipv4}:{src_port} → {dst.ipv4}][{src.ipv6} port {src_port} → {dst.ipv6}]"),
    summary_format<SmpLid>(""),
    summary_format<SmpDirected>(""),
    summary_format<SmpPath>(""),
    summary_format<NodeDescription>("{text}"),
    summary_format<NodeInfo>("{node_type} {node_guid}"),
    summary_format<PortInfo>("LID {lid}"),
    summary_format<SmInfo>("priority {priority}  {state}"),
    summary_format<Sa>(""),
    summary_format<PathRecord>("{sgid} → {dgid}"),
    summary_format<McMemberRecord>("{mgid}"),
    summary_format<NodeRecord>("LID {lid}  {node_description}"),
    summary_format<PortInfoRecord>("LID {end_port_lid} port {port_num}"),
    summary_format<ServiceRecord>("{service_name}"),
    summary_format<Pm>(""),
    summary_format<PortCounters>(
        "port {port_select}  rcv errors {rcv_errors}  discards {xmit_discards}  wait {xmit_wait}"),
    summary_format<PortCountersExtended>("port {port_select}  sent {xmit_pkts}  received {rcv_pkts}"),
    summary_format<MpaFrame>("{key}  revision {revision}{crc?  CRC}{markers?  markers}{reject?  reject}"),
    summary_format<MpaEnhanced>(
        "ird {ird}  ord {ord}{rtr_send?  RTR by Send}{rtr_write?  RTR by Write}{rtr_read?  RTR by Read}"),
    summary_format<Fpdu>(""),
    summary_format<Ddp>(""),
    summary_format<Rdmap>("{opcode:22}"),
    summary_format<DdpTagged>("stag {stag}  to {to}"),
    summary_format<DdpUntagged>("msn {msn}[?mo:  at {mo}][?invalidate_stag:  invalidates {invalidate_stag}]"),
    summary_format<RdmapReadRequest>("{size} B of stag {src_stag} to {src_to}  into stag {sink_stag} to {sink_to}"),
    summary_format<Terminate>("{layer}:[ {etype.rdma}][ {etype.ddp}][ {etype.llp}][: {error_code.protection}]"
                              "[: {error_code.operation}][: {error_code.ddp_local}][: {error_code.ddp_tagged}]"
                              "[: {error_code.ddp_untagged}][: {error_code.mpa}]"),
    summary_format<DdpSegmentLength>(""),
    summary_format<RdmapAtomicRequest>("{operation}  stag {stag}  to {to}  id {request_id}"),
    summary_format<RdmapAtomicResponse>("id {request_id}  original {original}"),
    summary_format<RdmapImmediateData>("imm {data}"),
    summary_format<NvmeAdmin>(
        "NVMe {opcode}  cid {command_id}[  {sgl1.keyed_length} B at {sgl1.address} key {sgl1.key}]"),
    summary_format<NvmeIo>(
        "NVMe {opcode}  cid {command_id}  nsid {namespace_id}"
        "[  {sgl1.keyed_length} B at {sgl1.address} key {sgl1.key}][  {sgl1.length} B in the capsule]"),
    summary_format<NvmeFabrics>("NVMe {type}  cid {command_id}"),
    summary_format<NvmeDwords>(""),
    summary_format<NvmeRange>("from block {start}"),
    summary_format<NvmeConnect>("queue {queue_id}  size {queue_size}"),
    summary_format<NvmeConnectData>("{subsystem_nqn}"),
    summary_format<NvmePropertySet>("{offset} = {value}"),
    summary_format<NvmePropertyGet>("{offset}"),
    summary_format<NvmeCqe>("NVMe response  cid {command_id}  [{status.generic}][{status.specific}]"
                            "[!status.generic:{status}]  result {result}"),
    summary_format<RpcRdma>("RPC-over-RDMA {procedure}  xid {xid}  credits {credits}"),
    summary_format<RpcRdmaRead>("reads {length} B handle {handle}"),
    summary_format<RpcRdmaChunk>("chunk of {segments}"),
    summary_format<RpcRdmaSegment>("{length} B handle {handle}"),
    summary_format<RpcRdmaEnd>(""),
    summary_format<RpcRdmaPadding>(""),
    summary_format<RpcRdmaError>("{error}"),
    summary_format<RpcCall>("{program} procedure {procedure}"),
    summary_format<RpcReply>("{status}"),
    summary_format<Iser>("iSER {opcode}"),
    summary_format<IserHello>("iSER {opcode}"),
    summary_format<Iscsi>("{opcode}  tag {task_tag}"),
    summary_format<SrpLoginRequest>("{type}  {initiator_port} → {target_port}"),
    summary_format<SrpLoginRequestRdma>("{type}  {initiator_port} → {target_port}"),
    summary_format<SrpLoginResponse>("{type}"),
    summary_format<SrpLoginReject>("{type}: {reason}"),
    summary_format<SrpShort>("{type}"),
    summary_format<SrpTargetLogout>("{type}"),
    summary_format<SrpTaskManagement>("{type} {function}"),
    summary_format<SrpCommand>("{type}  tag {tag}"),
    summary_format<SrpResponse>("{type}  tag {tag}  status {status}"),
    summary_format<SrpCreditRequest>("{type}"),
    summary_format<SrpEventRequest>("{type}"),
    summary_format<SmbDirectNegotiateRequest>("SMB Direct negotiate request  credits {credits_requested}"),
    summary_format<SmbDirectNegotiateResponse>("SMB Direct negotiate response  credits {credits_granted}"),
    summary_format<SmbDirectData>("SMB Direct data  {data_length} B[?remaining_length:  {remaining_length} B to come]"),
    summary_format<NvmeCmRequest>("NVMe queue {queue_id}"),
    summary_format<NvmeCmReply>("NVMe"),
};

constexpr SummaryFormat carrier_rows[] = {
    summary_format<Ethernet>("{type}"),
    summary_format<Vlan>("{type}"),
    summary_format<LinuxSll>("{protocol}"),
    summary_format<LinuxSll2>("{protocol}"),
    summary_format<NullLoopback>("family {family}"),
    summary_format<Erf>("ERF {type.kind}"),
    summary_format<Ipv4>("{protocol}"),
    summary_format<Ipv6>("{next_header}"),
    summary_format<Ipv6Extension>("{next_header}"),
    summary_format<Ipv6Fragment>("{next_header}"),
    summary_format<Ipv6Authentication>("{next_header}"),
    summary_format<Udp>("UDP {src_port} → {dst_port}"),
    summary_format<Tcp>(
        "TCP {src_port} → {dst_port} {syn? SYN}{fin? FIN}{rst? RST}{psh? PSH}{ack? ACK}{urg? URG}{ece? ECE}"
        "{cwr? CWR}  seq {seq}  ack {ack_number}  win {window}"),
    summary_format<Gre>("GRE {protocol}"),
    summary_format<Lrh>("LRH {lnh}"),
    summary_format<Grh>("{next_header}"),
    summary_format<Rwh>("{type}"),
    summary_format<Ipoib>("IPoIB {type}"),
};

constexpr SummaryFormat beneath_rows[] = {
    summary_format<Vlan>("vlan {id}"),
    summary_format<Vxlan>("VXLAN {vni}"),
    summary_format<Erspan2>("ERSPAN {session}"),
    summary_format<Erspan3>("ERSPAN {session}"),
};

constexpr SummaryFormat mark_rows[] = {
    summary_format<Ipv4>("{tos.ecn=3?  CE}"),
    summary_format<Ipv6>("{traffic_class.ecn=3?  CE}"),
    summary_format<Grh>("{traffic_class.ecn=3?  CE}"),
    summary_format<Ddp>("{last?  last}"),
    summary_format<Bth>("{fecn?  FECN}{becn?  BECN}{se?  SE}{ack_request?  AckReq}"),
    summary_format<MrcBth>("{se?  SE}{ack_request?  AckReq}{rtx?  RTX}"),
};

}  // namespace

constinit const SummaryFormat stream = summary_format<Tcp>("TCP {src_port} → {dst_port}{fin? FIN}{rst? RST}");
constinit const std::span<const SummaryFormat> own = own_rows;
constinit const std::span<const SummaryFormat> carriers = carrier_rows;
constinit const std::span<const SummaryFormat> beneath = beneath_rows;
constinit const std::span<const SummaryFormat> marks = mark_rows;

}  // namespace rdmawire::output::summary_formats
