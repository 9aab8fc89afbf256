#include "dissectors/protocol/registry.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "dissectors/protocol/arp.hpp"
#include "dissectors/protocol/cm.hpp"
#include "dissectors/protocol/ddp.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/icmp.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/ipoib.hpp"
#include "dissectors/protocol/iser.hpp"
#include "dissectors/protocol/mac_control.hpp"
#include "dissectors/protocol/mad.hpp"
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

namespace rdmawire {
namespace {

template <class... H>
constexpr std::array<const HeaderInfo*, sizeof...(H)> headers_of() {
  return {&info<H>...};
}

template <std::size_t... N>
constexpr auto join(const std::array<const HeaderInfo*, N>&... lists) {
  std::array<const HeaderInfo*, (N + ...)> all{};
  auto out = all.begin();
  ((out = std::copy(lists.begin(), lists.end(), out)), ...);
  return all;
}

// One line a family.
// clang-format off
constexpr auto headers = join(
    headers_of<Ethernet, Vlan, LinuxSll, LinuxSll2, NullLoopback, Erf, MacControl, Pause, PriorityPause>(),
    headers_of<Ipv4, Ipv4Option, Ipv4OptionOctet, Ipv6, Ipv6Extension, Ipv6Fragment, Ipv6Authentication>(),
    headers_of<Arp, ArpEthernet, ArpInfiniband>(),
    headers_of<Icmp, IcmpEcho, Icmpv6, Icmpv6Echo, RouterSolicitation, RouterAdvertisement, NeighbourSolicitation,
               NeighbourAdvertisement, NdRedirect, NdOption, NdLinkAddress, NdIpoibLinkAddress>(),
    headers_of<Udp, Tcp, TcpOption, TcpOptionOctet, TcpMss, TcpWindowScale, TcpTimestamps, TcpSackBlock>(),
    headers_of<Vxlan, Gre, Erspan2, Erspan3>(),
    headers_of<Lrh, Grh, Rwh>(),
    headers_of<Bth, Rdeth, Deth, Xrceth, Reth, AtomicEth, Aeth, AtomicAckEth, ImmDt, Ieth, Feth, Cnp, DcEth>(),
    headers_of<Mad, Rmpp, VendorMad, ClassPortInfo>(),
    headers_of<SmpLid, SmpDirected, SmpPath, SmpData, NodeDescription, NodeInfo, SwitchInfo,
               GuidInfo, PortInfo, PKeyTable, SmInfo, Notice>(),
    headers_of<Sa, PathRecord, McMemberRecord, NodeRecord, PortInfoRecord, ServiceRecord,
               InformInfo, InformInfoRecord, SaNotice>(),
    headers_of<Pm, PortCounters, PortCountersExtended>(),
    headers_of<CmReq, CmMra, CmRej, CmRep, CmRtu, CmDreq, CmDrep, CmLap, CmApr, CmSidrReq, CmSidrRep, RdmaCm>(),
    headers_of<MpaFrame, MpaEnhanced, Fpdu, Marker, Ddp, Rdmap, DdpTagged, DdpUntagged>(),
    headers_of<RdmapReadRequest, Terminate, DdpSegmentLength, RdmapAtomicRequest, RdmapAtomicResponse,
               RdmapImmediateData>(),
    headers_of<Ipoib, IpoibCm>(),
    headers_of<NvmeAdmin, NvmeIo, NvmeFabrics, NvmeDwords, NvmeRange, NvmeConnect, NvmeConnectData, NvmePropertySet,
               NvmePropertyGet, NvmeDisconnect, NvmeAuthentication, NvmeCqe, NvmeCmRequest, NvmeCmReply, NvmeCmReject>(),
    headers_of<RpcRdma, RpcRdmaRead, RpcRdmaChunk, RpcRdmaSegment, RpcRdmaEnd, RpcRdmaPadding, RpcRdmaError,
               RpcRdmaVersions, RpcCall, RpcReply, RpcRdmaPrivate>(),
    headers_of<Iser, IserHello, Iscsi, IserCm>(),
    headers_of<SrpLoginRequest, SrpLoginRequestRdma, SrpLoginResponse, SrpLoginReject, SrpShort, SrpTargetLogout,
               SrpTaskManagement, SrpCommand, SrpResponse, SrpCreditRequest, SrpEventRequest>(),
    headers_of<SmbDirectNegotiateRequest, SmbDirectNegotiateResponse, SmbDirectData>());
// clang-format on

}  // namespace

std::span<const HeaderInfo* const> all_headers() { return headers; }

const HeaderInfo* find_header(std::string_view name) {
  for (const HeaderInfo* header : headers)
    if (header->name == name) return header;
  return nullptr;
}

FieldRef find_field(std::string_view name) {
  // Header names have no dot, field names may.
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return {};
  const HeaderInfo* header = find_header(name.substr(0, dot));
  if (!header) return {};
  return {header, header->find(name.substr(dot + 1))};
}

std::span<const FieldRef> find_wireshark(std::string_view alias) {
  static const auto by_alias = [] {
    std::map<std::string_view, std::vector<FieldRef>> map;
    for (const HeaderInfo* header : headers)
      for (const Field& f : header->fields)
        for (std::string_view alias_of_field : f.aliases()) map[alias_of_field].push_back({header, &f});
    return map;
  }();
  const auto found = by_alias.find(alias);
  if (found == by_alias.end()) return {};
  return found->second;
}

std::span<const Names* const> all_names() {
  static const auto all = [] {
    std::vector<const Names*> names;
    for (const HeaderInfo* header : headers)
      for (const Field& f : header->fields)
        if (f.names && std::find(names.begin(), names.end(), f.names) == names.end()) names.push_back(f.names);
    return names;
  }();
  return all;
}

}  // namespace rdmawire
