#include "dissectors/protocol/registry.hpp"

#include <algorithm>
#include <array>
#include <atomic>
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
#include "dissectors/protocol/user_headers.hpp"

namespace rdmawire {
namespace {

struct HeaderRow {
  const HeaderInfo* header;
  std::string_view structure;  ///< name of the C++ type: "AtomicEth"
};

// Returns the compiler's name of H without its namespace. __PRETTY_FUNCTION__ contains "[with H = rdmawire::Bth; …]" or
// "[H = rdmawire::Bth]".
template <class H>
constexpr std::string_view structure_name() {
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("H = ") + 4);
  text = text.substr(0, text.find_first_of(";]"));
  return text.substr(text.rfind(':') + 1);
}

template <class... H>
constexpr std::array<HeaderRow, sizeof...(H)> headers_of() {
  return {HeaderRow{&info<H>, structure_name<H>()}...};
}

template <std::size_t... N>
constexpr auto join(const std::array<HeaderRow, N>&... lists) {
  std::array<HeaderRow, (N + ...)> all{};
  auto out = all.begin();
  ((out = std::copy(lists.begin(), lists.end(), out)), ...);
  return all;
}

// Grouped by protocol.
// clang-format off
constexpr auto header_rows = join(
    headers_of<Ethernet, Vlan, LinuxSll, LinuxSll2, NullLoopback, Erf, MacControl, Pause, PriorityPause>(),
    headers_of<Ipv4, Ipv4Option, Ipv4OptionByte, Ipv6, Ipv6Extension, Ipv6Fragment, Ipv6Authentication>(),
    headers_of<Arp, ArpEthernet, ArpInfiniband>(),
    headers_of<Icmp, IcmpEcho, Icmpv6, Icmpv6Echo, RouterSolicitation, RouterAdvertisement, NeighborSolicitation,
               NeighborAdvertisement, NdRedirect, NdOption, NdLinkAddress, NdIpoibLinkAddress>(),
    headers_of<Udp, Tcp, TcpOption, TcpOptionByte, TcpMss, TcpWindowScale, TcpTimestamps, TcpSackBlock>(),
    headers_of<Vxlan, Gre, Erspan2, Erspan3>(),
    headers_of<Lrh, Grh, Rwh>(),
    headers_of<Bth, Rdeth, Deth, Xrceth, Reth, AtomicEth, Aeth, AtomicAckEth, ImmDt, Ieth, Feth, Cnp, DcEth>(),
    headers_of<MrcBth, Meth, Tseth, Seth, CcState, Neth, Peth, Erth, Eeth>(),
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

constexpr auto headers = [] {
  std::array<const HeaderInfo*, header_rows.size()> all{};
  std::transform(header_rows.begin(), header_rows.end(), all.begin(), [](const HeaderRow& row) { return row.header; });
  return all;
}();

struct Spelling {
  std::string_view here, there;
};
// Spelling of words in C++ names, as in the specifications.
constexpr Spelling words[] = {
    {"Aeth", "AETH"},      {"Arp", "ARP"},       {"Bth", "BTH"},       {"Cc", "CC"},     {"Cm", "CM"},
    {"Cnp", "CNP"},        {"Cqe", "CQE"},       {"Dc", "DC"},         {"Ddp", "DDP"},   {"Deth", "DETH"},
    {"Eeth", "EETH"},      {"Erf", "ERF"},       {"Erspan", "ERSPAN"}, {"Erth", "ERTH"}, {"Eth", "ETH"},
    {"Ethernet", "Ether"}, {"Feth", "FETH"},     {"Fpdu", "FPDU"},     {"Gre", "GRE"},   {"Grh", "GRH"},
    {"Guid", "GUID"},      {"Icmp", "ICMP"},     {"Icmpv", "ICMPv"},   {"Ieth", "IETH"}, {"Io", "IO"},
    {"Ipoib", "IPoIB"},    {"Ipv", "IPv"},       {"Iscsi", "iSCSI"},   {"Iser", "iSER"}, {"Lid", "LID"},
    {"Lrh", "LRH"},        {"Mad", "MAD"},       {"Mc", "MC"},         {"Meth", "METH"}, {"Mpa", "MPA"},
    {"Mrc", "MRC"},        {"Mss", "MSS"},       {"Nd", "ND"},         {"Neth", "NETH"}, {"Nvme", "NVMe"},
    {"Peth", "PETH"},      {"Pm", "PM"},         {"Rdeth", "RDETH"},   {"Rdma", "RDMA"}, {"Rdmap", "RDMAP"},
    {"Reth", "RETH"},      {"Rmpp", "RMPP"},     {"Rpc", "RPC"},       {"Rwh", "RWH"},   {"Sa", "SA"},
    {"Seth", "SETH"},      {"Sll", "SLL"},       {"Sm", "SM"},         {"Smb", "SMB"},   {"Smp", "SMP"},
    {"Srp", "SRP"},        {"Tcp", "TCP"},       {"Tseth", "TSETH"},   {"Udp", "UDP"},   {"Vlan", "VLAN"},
    {"Vxlan", "VXLAN"},    {"Xrceth", "XRCETH"},
};
// Enumerations whose type name is not derived from their title.
constexpr Spelling phrases[] = {{"BTH opcode", "Opcode"}};

constexpr bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
constexpr bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr char upper(char c) { return is_lower(c) ? static_cast<char>(c - 'a' + 'A') : c; }

std::string spell(std::string_view structure) {
  std::string out;
  while (!structure.empty()) {
    std::size_t end = 1;
    while (end < structure.size() && is_lower(structure[end])) ++end;
    const std::string_view word = structure.substr(0, end);
    structure.remove_prefix(end);
    const auto* known =
        std::find_if(std::begin(words), std::end(words), [&](const Spelling& s) { return s.here == word; });
    out += known != std::end(words) ? known->there : word;
  }
  return out;
}

// Splits a phrase into words of letters and digits. Omits apostrophes.
std::vector<std::string> words_of(std::string_view phrase) {
  std::vector<std::string> out;
  bool inside = false;
  for (const char c : phrase) {
    if (c == '\'') continue;
    const bool letter = is_upper(c) || is_lower(c) || is_digit(c);
    if (letter && !inside) out.emplace_back();
    if (letter) out.back() += c;
    inside = letter;
  }
  return out;
}

}  // namespace

std::string_view type_name(const HeaderInfo& header) {
  static const auto names = [] {
    std::array<std::string, header_rows.size()> all;
    for (std::size_t i = 0; i < header_rows.size(); ++i) all[i] = spell(header_rows[i].structure);
    return all;
  }();
  const auto found = std::find(headers.begin(), headers.end(), &header);
  if (found == headers.end()) return user_type_name(header);
  return names[static_cast<std::size_t>(found - headers.begin())];
}

std::string type_name(const Names& names) {
  for (const Spelling& phrase : phrases)
    if (names.title == phrase.here) return std::string(phrase.there);
  std::string out;
  for (std::string word : words_of(names.title)) {
    word[0] = upper(word[0]);
    out += word;
  }
  // If a header has the same type name, append "Code".
  const auto is_it = [&](const HeaderInfo* header) { return type_name(*header) == out; };
  return std::any_of(headers.begin(), headers.end(), is_it) ? out + "Code" : out;
}

std::string constant_name(const Names& names, const Name& entry) {
  const auto plain = [&](const Name& one) {
    std::string out;
    for (const std::string& word : words_of(one.name)) {
      if (!out.empty()) out += '_';
      out += word;
    }
    // An identifier must not start with a digit. If it does, prepend the first word of the enumeration's name.
    if (out.empty() || is_digit(out[0])) out = words_of(names.title).front() + (out.empty() ? "" : "_") + out;
    std::transform(out.begin(), out.end(), out.begin(), upper);
    return out;
  };
  std::string name = plain(entry);
  for (const Name& other : names.entries)
    if (&other != &entry && plain(other) == name) return name + "_" + std::to_string(entry.value);
  return name;
}

namespace {

/// The headers of the table, followed by those defined at run time. Readers need no lock.
struct AllHeaders {
  std::array<const HeaderInfo*, header_rows.size() + max_user_headers> headers{};
  std::atomic<std::size_t> count{header_rows.size()};
  AllHeaders() { std::copy(rdmawire::headers.begin(), rdmawire::headers.end(), headers.begin()); }
};
AllHeaders& known_headers() {
  static auto* const all = new AllHeaders;
  return *all;
}

}  // namespace

std::span<const HeaderInfo* const> all_headers() {
  const AllHeaders& all = known_headers();
  return {all.headers.data(), all.count.load(std::memory_order_acquire)};
}

void detail::register_header(const HeaderInfo& header) {
  AllHeaders& all = known_headers();
  const std::size_t count = all.count.load(std::memory_order_relaxed);
  all.headers[count] = &header;
  all.count.store(count + 1, std::memory_order_release);
}

const HeaderInfo* find_header(std::string_view name) {
  for (const HeaderInfo* header : all_headers())
    if (header->name == name) return header;
  return nullptr;
}

FieldRef find_field(std::string_view name) {
  // A field name can contain dots, but a header name cannot.
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
