#include "dissectors/protocol/upper.hpp"

#include "dissectors/protocol/cursor.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/ipoib.hpp"
#include "dissectors/protocol/iser.hpp"
#include "dissectors/protocol/nvme.hpp"
#include "dissectors/protocol/rpc_rdma.hpp"
#include "dissectors/protocol/smb_direct.hpp"
#include "dissectors/protocol/srp.hpp"

namespace rdmawire {

std::string_view to_string(Upper upper) {
  switch (upper) {
    case Upper::unknown: return "unknown";
    case Upper::ipoib: return "IPoIB";
    case Upper::nvme: return "NVMe over Fabrics";
    case Upper::rpc_rdma: return "RPC-over-RDMA";
    case Upper::iser: return "iSER";
    case Upper::srp: return "SRP";
    case Upper::smb_direct: return "SMB Direct";
  }
  return "?";
}

namespace {

/// An upper layer message, or its start, in a packet's payload. The destructor restores the ranges, indices and flags
/// of the RDMA packet, which the decoders of the message change.
class Message {
 public:
  Message(HeaderStack& stack, Extent extent)
      : stack_(stack),
        end_(stack.payload.end()),
        partial_(extent == Extent::beginning || stack.cut),
        cursor_{stack, options(), stack.payload.offset, end_, partial_ ? unlimited : end_},
        pad_(stack.pad),
        icrc_(stack.icrc),
        vcrc_(stack.vcrc),
        wire_(stack.wire),
        network_(stack.network),
        transport_(stack.transport),
        cut_(stack.cut),
        fragment_(stack.fragment) {}
  ~Message() {
    stack_.payload = {cursor_.at, end_ - cursor_.at};
    stack_.pad = pad_;
    stack_.icrc = icrc_;
    stack_.vcrc = vcrc_;
    stack_.wire = wire_;
    stack_.network = network_;
    stack_.transport = transport_;
    stack_.cut = cut_;
    stack_.fragment = fragment_;
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  [[nodiscard]] const std::uint8_t* here() const { return cursor_.here(); }
  [[nodiscard]] std::uint32_t left() const { return cursor_.left(); }

  /// True if `bytes` are available for `header`, which every message of the protocol has. If they are missing in a
  /// complete message, adds a finding.
  bool need(const HeaderInfo& header, std::uint32_t bytes) {
    if (left() >= bytes) return true;
    if (!partial_) cursor_.malformed(header, "the message is too short for the connection's protocol", bytes, left());
    return false;
  }
  bool take(const HeaderInfo& header) { return cursor_.take(header, header.size); }
  bool take(const HeaderInfo& header, std::uint32_t bytes) { return cursor_.take(header, bytes); }
  void unknown(const HeaderInfo& header, std::string_view what) {
    stack_.report({ParseError::Kind::unknown, &header, cursor_.at, 0, 0, what});
  }
  void malformed(const HeaderInfo& header, std::string_view what, std::uint32_t needed = 0, std::uint32_t had = 0) {
    cursor_.malformed(header, what, needed, had);
  }
  [[nodiscard]] bool partial() const { return partial_; }
  void run(Step step) {
    while (step.next) step = step.next(cursor_);
  }

 private:
  static constexpr std::uint32_t unlimited = 0x7fffffff;
  static const DecodeOptions& options() {
    static constexpr DecodeOptions none{};
    return none;
  }
  HeaderStack& stack_;
  std::uint32_t end_;
  bool partial_;
  Cursor cursor_;
  Range pad_, icrc_, vcrc_;
  Wire wire_;
  std::uint8_t network_, transport_;
  bool cut_, fragment_;
};

const HeaderInfo& fabrics_body(std::uint8_t type) {
  using namespace nvme::fabrics_type;
  switch (type) {
    case property_set: return info<NvmePropertySet>;
    case connect: return info<NvmeConnect>;
    case property_get: return info<NvmePropertyGet>;
    case authentication_send:
    case authentication_receive: return info<NvmeAuthentication>;
    case disconnect: return info<NvmeDisconnect>;
    default: return info<NvmeDwords>;
  }
}

const HeaderInfo& io_body(std::uint8_t opcode) {
  using namespace nvme::io_opcode;
  switch (opcode) {
    case write:
    case read:
    case compare:
    case write_zeroes:
    case verify: return info<NvmeRange>;
    default: return info<NvmeDwords>;
  }
}

void decode_nvme(Message& m, const UpperContext& context) {
  if (context.connect_data) {
    if (m.left() >= NvmeConnectData::size) m.take(info<NvmeConnectData>);
    return;
  }
  if (!context.to_listener) {
    if (m.need(info<NvmeCqe>, NvmeCqe::size)) m.take(info<NvmeCqe>);
    return;
  }
  if (!m.need(info<NvmeAdmin>, nvme::command_bytes)) return;
  const std::uint8_t opcode = m.here()[0];
  if (opcode != nvme::fabrics_opcode) {
    const HeaderInfo& command = context.admin_queue ? info<NvmeAdmin> : info<NvmeIo>;
    if (m.take(command)) m.take(context.admin_queue ? info<NvmeDwords> : io_body(opcode));
    return;
  }
  const std::uint8_t type = View<NvmeFabrics>(m.here()).get<"type">();
  if (!m.take(info<NvmeFabrics>) || !m.take(fabrics_body(type))) return;
  // If the data of a command follows in the same capsule, it is decoded only for Connect.
  if (type == nvme::fabrics_type::connect && m.left() >= NvmeConnectData::size) m.take(info<NvmeConnectData>);
}

void decode_rpc_rdma(Message& m) {
  if (!m.need(info<RpcRdma>, RpcRdma::size)) return;
  const View<RpcRdma> header(m.here());
  if (header.get<"version">() != RpcRdma::version_1) {
    m.unknown(info<RpcRdma>, "unsupported RPC-over-RDMA version");
    m.take(info<RpcRdma>);
    return;
  }
  const RpcRdmaChunks chunks = read_chunks({m.here(), m.left()});
  using Status = RpcRdmaChunks::Status;
  if (chunks.status == Status::malformed)
    m.malformed(info<RpcRdma>, "invalid chunk list");
  else if (chunks.status == Status::cut && !m.partial())
    m.malformed(info<RpcRdma>, "the message ends inside the chunk lists");
  if (chunks.status != Status::whole) {
    m.take(info<RpcRdma>);
    return;
  }
  const std::uint32_t procedure = header.get<"procedure">();
  if (!m.take(info<RpcRdma>, RpcRdma::size + chunks.bytes)) return;
  if (procedure != rpc_rdma_procedure::msg) return;
  constexpr std::uint32_t call = 0, reply = 1;
  if (m.left() < RpcReply::size) return;
  const std::uint32_t type = View<RpcReply>(m.here()).get<"type">();
  if (type == call && m.left() >= RpcCall::size) m.take(info<RpcCall>);
  if (type == reply) m.take(info<RpcReply>);
}

void decode_iser(Message& m) {
  if (!m.need(info<Iser>, Iser::size)) return;
  switch (View<Iser>(m.here()).get<"opcode">()) {
    case iser_opcode::control:
      if (m.take(info<Iser>) && m.need(info<Iscsi>, Iscsi::size)) m.take(info<Iscsi>);
      return;
    case iser_opcode::hello:
    case iser_opcode::hello_reply: m.take(info<IserHello>); return;
    default: m.unknown(info<Iser>, "undefined iSER opcode");
  }
}

const HeaderInfo* srp_unit(std::uint8_t type) {
  switch (type) {
    case srp_type::login_request: return &info<SrpLoginRequest>;
    case srp_type::task_management: return &info<SrpTaskManagement>;
    case srp_type::command: return &info<SrpCommand>;
    case srp_type::initiator_logout:
    case srp_type::credit_response:
    case srp_type::event_response: return &info<SrpShort>;
    case srp_type::target_logout: return &info<SrpTargetLogout>;
    case srp_type::credit_request: return &info<SrpCreditRequest>;
    case srp_type::event_request: return &info<SrpEventRequest>;
    case srp_type::login_response: return &info<SrpLoginResponse>;
    case srp_type::response: return &info<SrpResponse>;
    case srp_type::login_reject: return &info<SrpLoginReject>;
    default: return nullptr;
  }
}

void decode_srp(Message& m) {
  const HeaderInfo* unit = srp_unit(m.here()[0]);
  if (!unit)
    m.unknown(info<SrpShort>, "undefined SRP information unit type");
  else if (m.need(*unit, unit->size))
    m.take(*unit);
}

void decode_smb_direct(Message& m, const UpperContext& context) {
  if (context.first_message) {
    const HeaderInfo& negotiate =
        context.to_listener ? info<SmbDirectNegotiateRequest> : info<SmbDirectNegotiateResponse>;
    if (m.need(negotiate, negotiate.size)) m.take(negotiate);
    return;
  }
  if (!m.need(info<SmbDirectData>, SmbDirectData::size)) return;
  const View<SmbDirectData> data(m.here());
  const std::uint32_t offset = data.get<"data_offset">(), length = data.get<"data_length">();
  const bool before = length != 0 && offset < SmbDirectData::size;
  const bool beyond = std::uint64_t{offset} + length > m.left();
  if (before || (beyond && !m.partial())) {
    m.malformed(info<SmbDirectData>, before ? "the data starts inside the header" : "the data exceeds the message");
    m.take(info<SmbDirectData>);
    return;
  }
  // The bytes between header and data are padding.
  const bool padded = length != 0 && offset <= m.left();
  m.take(info<SmbDirectData>, padded ? offset : std::uint32_t{SmbDirectData::size});
}

}  // namespace

void decode_upper(HeaderStack& stack, const UpperContext& context, Extent extent) {
  if (stack.payload.length == 0 || stack.fragment) return;
  Message m(stack, extent);
  switch (context.protocol) {
    case Upper::ipoib:
      // Applications that send without the IPoIB header can use the same multicast groups.
      if (m.need(info<Ipoib>, Ipoib::size) && View<Ipoib>(m.here()).get<"type">() >= ethertype::lowest)
        m.run({decode_ipoib});
      break;
    case Upper::nvme: decode_nvme(m, context); break;
    case Upper::rpc_rdma: decode_rpc_rdma(m); break;
    case Upper::iser: decode_iser(m); break;
    case Upper::srp: decode_srp(m); break;
    case Upper::smb_direct: decode_smb_direct(m, context); break;
    case Upper::unknown: break;
  }
}

void decode_private_data(HeaderStack& stack, const UpperContext& context, PrivateData message, bool ip_addressed) {
  if (stack.payload.length == 0) return;
  Message m(stack, Extent::beginning);
  auto take = [&](const HeaderInfo& header) {
    if (m.left() >= header.size) m.take(header);
  };
  switch (context.protocol) {
    case Upper::ipoib:
      if (message != PrivateData::reject) take(info<IpoibCm>);
      break;
    case Upper::nvme:
      take(message == PrivateData::request ? info<NvmeCmRequest>
           : message == PrivateData::reply ? info<NvmeCmReply>
                                           : info<NvmeCmReject>);
      break;
    case Upper::rpc_rdma:
      if (m.left() >= RpcRdmaPrivate::size &&
          View<RpcRdmaPrivate>(m.here()).get<"magic">() == RpcRdmaPrivate::magic_number)
        take(info<RpcRdmaPrivate>);
      break;
    case Upper::iser:
      if (message != PrivateData::reject) take(info<IserCm>);
      break;
    case Upper::srp: {
      const HeaderInfo& unit = message == PrivateData::request
                                   ? (ip_addressed ? info<SrpLoginRequestRdma> : info<SrpLoginRequest>)
                               : message == PrivateData::reply ? info<SrpLoginResponse>
                                                               : info<SrpLoginReject>;
      // The message contains SRP data only if a reply is a login response, or a reject is from the target.
      const std::uint8_t type = message == PrivateData::request ? srp_type::login_request
                                : message == PrivateData::reply ? srp_type::login_response
                                                                : srp_type::login_reject;
      if (m.left() >= unit.size && unit.find("type")->load(m.here()) == type) take(unit);
      break;
    }
    case Upper::smb_direct:
    case Upper::unknown: break;
  }
}

}  // namespace rdmawire
