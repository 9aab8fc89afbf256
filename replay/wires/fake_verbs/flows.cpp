// Flow steering: which frames a QP receives.

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "replay/wires/fake_verbs/fake_verbs_state.hpp"

namespace fake_verbs {
namespace {

struct Form {
  std::size_t bytes;   ///< length of the specification
  std::size_t value;   ///< offset of the value
  std::size_t filter;  ///< length of the value and of the mask
  int layer;
};

// Returns null for an unknown type.
const Form* form_of(std::uint32_t type) {
  static const std::map<std::uint32_t, Form> forms{
      {IBV_FLOW_SPEC_ETH,
       {sizeof(ibv_flow_spec_eth), offsetof(ibv_flow_spec_eth, val), sizeof(ibv_flow_eth_filter), 2}},
      {IBV_FLOW_SPEC_IPV4,
       {sizeof(ibv_flow_spec_ipv4), offsetof(ibv_flow_spec_ipv4, val), sizeof(ibv_flow_ipv4_filter), 3}},
      {IBV_FLOW_SPEC_IPV4_EXT,
       {sizeof(ibv_flow_spec_ipv4_ext), offsetof(ibv_flow_spec_ipv4_ext, val), sizeof(ibv_flow_ipv4_ext_filter), 3}},
      {IBV_FLOW_SPEC_IPV6,
       {sizeof(ibv_flow_spec_ipv6), offsetof(ibv_flow_spec_ipv6, val), sizeof(ibv_flow_ipv6_filter), 3}},
      {IBV_FLOW_SPEC_TCP,
       {sizeof(ibv_flow_spec_tcp_udp), offsetof(ibv_flow_spec_tcp_udp, val), sizeof(ibv_flow_tcp_udp_filter), 4}},
      {IBV_FLOW_SPEC_UDP,
       {sizeof(ibv_flow_spec_tcp_udp), offsetof(ibv_flow_spec_tcp_udp, val), sizeof(ibv_flow_tcp_udp_filter), 4}},
  };
  const auto form = forms.find(type);
  return form == forms.end() ? nullptr : &form->second;
}

struct Head {
  std::uint32_t type;
  std::uint16_t bytes;
};

int check(const ibv_flow_attr& attr, std::vector<std::vector<std::uint8_t>>& specifications) {
  if (attr.comp_mask || (attr.flags & ~3U)) return refuse(EOPNOTSUPP, "flow with unsupported flags 0x%x", attr.flags);
  if (attr.port != 1) return refuse(EINVAL, "flow for port %d; the only port is 1", attr.port);
  if (attr.type == IBV_FLOW_ATTR_SNIFFER && without("sniffer")) return EOPNOTSUPP;
  if (attr.type != IBV_FLOW_ATTR_NORMAL)
    return attr.num_of_specs || attr.type > IBV_FLOW_ATTR_SNIFFER
               ? refuse(EINVAL, "flow of type %d with %d specifications", attr.type, attr.num_of_specs)
               : 0;
  if (attr.num_of_specs == 0) return refuse(EINVAL, "steered flow without specifications");
  const auto* at = reinterpret_cast<const std::uint8_t*>(&attr + 1);
  int layer = 0;
  std::size_t bytes = sizeof attr;
  for (int i = 0; i < attr.num_of_specs; ++i) {
    Head head{};
    std::memcpy(&head.type, at, 4);
    std::memcpy(&head.bytes, at + 4, 2);
    const Form* form = form_of(head.type);
    if (!form) return refuse(EOPNOTSUPP, "unsupported flow specification 0x%x", head.type);
    if (head.bytes != form->bytes)
      return refuse(EINVAL, "specification 0x%x has length %d; expected %zu", head.type, head.bytes, form->bytes);
    if (form->layer <= layer) return refuse(EINVAL, "specification 0x%x is out of order", head.type);
    layer = form->layer;
    for (std::size_t o = 0; o < form->filter; ++o)
      if (at[form->value + o] & ~at[form->value + form->filter + o])
        return refuse(EINVAL, "specification 0x%x has value bits outside of its mask", head.type);
    specifications.emplace_back(at, at + head.bytes);
    at += head.bytes;
    bytes += head.bytes;
  }
  // pyverbs sets only the length of the attributes.
  if (attr.size != bytes && attr.size != sizeof attr)
    return refuse(EINVAL, "flow has length %d; expected %zu", attr.size, bytes);
  return 0;
}

// Compares bytes of the frame with value and mask.
bool same(const std::uint8_t* bytes, const std::uint8_t* filter, std::size_t filter_bytes, std::size_t at,
          std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    if ((bytes[i] ^ filter[at + i]) & filter[filter_bytes + at + i]) return false;
  return true;
}

bool matches(const std::vector<std::uint8_t>& specification, const std::vector<std::uint8_t>& frame) {
  std::uint32_t type = 0;
  std::memcpy(&type, specification.data(), 4);
  const Form& form = *form_of(type);
  const std::uint8_t* filter = specification.data() + form.value;
  const std::size_t bytes = form.filter;
  std::size_t l3 = 14;
  if (frame.size() < l3) return false;
  const bool tagged = frame.size() >= 18 && frame[12] == 0x81 && frame[13] == 0;
  if (tagged) l3 = 18;
  const auto is = [&](std::uint8_t high, std::uint8_t low) { return frame[l3 - 2] == high && frame[l3 - 1] == low; };
  const std::uint8_t* const ip = frame.data() + l3;
  if (type == IBV_FLOW_SPEC_ETH) {
    static constexpr std::uint8_t untagged[2]{};
    return same(frame.data(), filter, bytes, 0, 12) && same(ip - 2, filter, bytes, 12, 2) &&
           same(tagged ? frame.data() + 14 : untagged, filter, bytes, 14, 2);
  }
  const bool four = is(0x08, 0x00) && frame.size() >= l3 + 20, six = is(0x86, 0xdd) && frame.size() >= l3 + 40;
  switch (type) {
    case IBV_FLOW_SPEC_IPV4:
    case IBV_FLOW_SPEC_IPV4_EXT:
      if (!four || !same(ip + 12, filter, bytes, 0, 8)) return false;
      return type == IBV_FLOW_SPEC_IPV4 || (same(ip + 9, filter, bytes, 8, 1) && same(ip + 1, filter, bytes, 9, 1) &&
                                            same(ip + 8, filter, bytes, 10, 1));
    case IBV_FLOW_SPEC_IPV6: return six && same(ip + 8, filter, bytes, 0, 32) && same(ip + 6, filter, bytes, 36, 1);
    default: break;
  }
  const std::uint8_t protocol = type == IBV_FLOW_SPEC_TCP ? 6 : 17;
  const std::size_t l4 = l3 + (four ? static_cast<std::size_t>(ip[0] & 15) * 4 : 40);
  if ((!four && !six) || frame.size() < l4 + 8 || ip[four ? 9 : 6] != protocol) return false;
  return same(frame.data() + l4 + 2, filter, bytes, 0, 2) && same(frame.data() + l4, filter, bytes, 2, 2);
}

}  // namespace

bool wanted(const QueuePair& pair, const std::vector<std::uint8_t>& frame) {
  for (const Flow* flow : pair.flows) {
    bool all = true;
    for (const auto& specification : flow->specifications) all = all && matches(specification, frame);
    if (flow->type == IBV_FLOW_ATTR_MC_DEFAULT) all = !frame.empty() && (frame[0] & 1);
    if (all) return true;
  }
  return false;
}

ibv_flow* create_flow(ibv_qp* qp, ibv_flow_attr* attr) {
  QueuePair& pair = pair_of(qp);
  Context& context = context_of(qp->context);
  const std::lock_guard lock(context.mutex);
  auto flow = std::make_unique<Flow>();
  int number = scripted("ibv_create_flow");
  if (!number && qp->state == IBV_QPS_RESET) number = refuse(EINVAL, "flow for a QP in RESET");
  if (!number) number = check(*attr, flow->specifications);
  if (number) {
    errno = number;
    return nullptr;
  }
  flow->context = qp->context;
  flow->pair = &pair;
  flow->type = attr->type;
  if (pair.flows.empty()) {
    // Discards frames that arrived before the flow was created.
    char byte = 0;
    while (recv(pair.socket, &byte, 1, MSG_DONTWAIT) >= 0) {
    }
  }
  pair.flows.push_back(flow.get());
  return flow.release();
}

int destroy_flow(ibv_flow* base) {
  auto* flow = static_cast<Flow*>(base);
  const std::lock_guard lock(context_of(flow->context).mutex);
  flow->pair->flows.remove(flow);
  delete flow;
  return 0;
}

}  // namespace fake_verbs
