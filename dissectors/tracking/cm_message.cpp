#include "dissectors/tracking/cm_message.hpp"

#include <type_traits>

namespace rdmawire::tracking {
namespace {

template <class H>
bool read_as(CmMessage& m, const HeaderInfo* header, const std::uint8_t* at) {
  if (header != &info<H>) return false;
  constexpr bool request = std::is_same_v<H, CmReq>, reply = std::is_same_v<H, CmRep>,
                 sidr_request = std::is_same_v<H, CmSidrReq>, sidr_reply = std::is_same_v<H, CmSidrRep>;
  const View<H> view(at);
  m.kind = header;
  m.header = at;
  if constexpr (sidr_request) {
    m.local_id = view.template get<"request_id">();
  } else if constexpr (sidr_reply) {
    m.remote_id = view.template get<"request_id">();
    m.qp = view.template get<"qpn">();
  } else {
    m.local_id = view.template get<"local_comm_id">();
    if constexpr (!request) m.remote_id = view.template get<"remote_comm_id">();
  }
  if constexpr (request || sidr_request || sidr_reply) {
    m.service_id = view.template get<"service_id">();
    if (H::by_ip(at)) {
      m.port = view.template get<"service_id.port">();
      m.port_protocol = view.template get<"service_id.protocol">();
    }
  }
  if constexpr (request || reply) {
    m.qp = view.template get<"local_qpn">();
    m.starting_psn = view.template get<"starting_psn">();
  }
  if constexpr (request) {
    m.local_lid = view.template get<"primary_local_lid">();
    m.remote_lid = view.template get<"primary_remote_lid">();
  }
  if constexpr (reply) m.ca_guid = view.template get<"local_ca_guid">();
  if constexpr (std::is_same_v<H, CmDreq> || std::is_same_v<H, CmLap>) m.qp = view.template get<"remote_qpn">();
  return true;
}

template <class... H>
void read_any(CmMessage& m, const HeaderInfo* header, const std::uint8_t* at) {
  (void)(read_as<H>(m, header, at) || ...);
}

}  // namespace

CmMessage read_cm_message(const HeaderStack& stack) {
  CmMessage m;
  for (const Layer& layer : stack.layers()) {
    const std::uint8_t* at = stack.bytes.data() + layer.offset;
    if (layer.header == &info<Mad>)
      m.transaction_id = View<Mad>(at).get<"transaction_id">();
    else if (layer.header == &info<RdmaCm>)
      m.ip_addressed = true;
    else
      read_any<CmReq, CmRep, CmRtu, CmRej, CmMra, CmDreq, CmDrep, CmLap, CmApr, CmSidrReq, CmSidrRep>(m, layer.header,
                                                                                                      at);
  }
  m.private_data = stack.bytes_of(stack.payload);
  return m;
}

}  // namespace rdmawire::tracking
