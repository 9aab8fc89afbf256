// Flow steering: selects the frames that a QP receives.

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "replay/wires/verbs_wire.hpp"

namespace rdmawire::replay::rdma {
namespace {

// Flow attributes directly followed by their specifications, as required by ibv_create_flow.
struct FlowRequest {
  ibv_flow_attr attributes{};
  std::array<std::uint8_t, sizeof(ibv_flow_spec_eth) + sizeof(ibv_flow_spec_ipv6) + sizeof(ibv_flow_spec_tcp_udp)>
      specifications{};

  template <class Specification>
  void add(Specification specification, ibv_flow_spec_type type) {
    specification.type = type;
    specification.size = sizeof specification;
    std::memcpy(specifications.data() + (attributes.size - sizeof attributes), &specification, sizeof specification);
    attributes.size = static_cast<std::uint16_t>(attributes.size + sizeof specification);
    ++attributes.num_of_specs;
  }
};
static_assert(offsetof(FlowRequest, specifications) == sizeof(ibv_flow_attr));

FlowRequest steered(const VerbsSteering& steering) {
  FlowRequest request;
  request.attributes.size = sizeof request.attributes;
  ibv_flow_spec_eth eth{};
  if (steering.mac) {
    std::copy(steering.mac->begin(), steering.mac->end(), eth.val.dst_mac);
    std::fill_n(eth.mask.dst_mac, 6, std::uint8_t{0xff});
  }
  std::optional<std::uint16_t> type = steering.ethertype;
  if (!type && steering.ip.size() == 4) type = std::uint16_t{0x0800};
  if (!type && steering.ip.size() == 16) type = std::uint16_t{0x86dd};
  if (type) {
    eth.val.ether_type = htons(*type);
    eth.mask.ether_type = 0xffff;
  }
  request.add(eth, IBV_FLOW_SPEC_ETH);
  if (steering.ip.size() == 4) {
    ibv_flow_spec_ipv4 ip{};
    std::memcpy(&ip.val.dst_ip, steering.ip.data(), 4);
    ip.mask.dst_ip = 0xffffffff;
    request.add(ip, IBV_FLOW_SPEC_IPV4);
  } else if (steering.ip.size() == 16) {
    ibv_flow_spec_ipv6 ip{};
    std::memcpy(ip.val.dst_ip, steering.ip.data(), 16);
    std::fill_n(ip.mask.dst_ip, 16, std::uint8_t{0xff});
    request.add(ip, IBV_FLOW_SPEC_IPV6);
  }
  if (steering.udp) {
    ibv_flow_spec_tcp_udp udp{};
    udp.val.dst_port = htons(*steering.udp);
    udp.mask.dst_port = 0xffff;
    request.add(udp, IBV_FLOW_SPEC_UDP);
  }
  return request;
}

}  // namespace

WireResult<void> VerbsWire::take_flow(const VerbsWireOptions& options) {
  using Receive = VerbsWireOptions::Receive;
  FlowRequest request;
  request.attributes.size = sizeof request.attributes;
  std::string_view what = "a sniffer flow", instead;
  switch (options.receive) {
    case Receive::steered:
      request = steered(options.steering);
      request.attributes.type = IBV_FLOW_ATTR_NORMAL;
      what = "a steered flow";
      break;
    case Receive::rest:
      request.attributes.type = IBV_FLOW_ATTR_ALL_DEFAULT;
      what = "the all-default flow";
      break;
    default:
      request.attributes.type = IBV_FLOW_ATTR_SNIFFER;
      instead = "; use rest or mac=… to receive, or noreceive to only send";
      break;
  }
  request.attributes.port = port_;
  flow_.reset(ibv_create_flow(pair_.get(), &request.attributes));
  if (!flow_) {
    const int number = errno;
    WireError error = failed(name_, fmt::format("create {}", what), number);
    // The request is well-formed, so EINVAL means that the device does not support the flow type.
    if (number == EINVAL) error.kind = WireError::Kind::unsupported;
    if (error.kind == WireError::Kind::unsupported) error.message += instead;
    return tl::unexpected(error);
  }
  capabilities_.how = fmt::format("{}, {}", what, requests_ ? "ibv_wr_*" : "ibv_post_send");
  return {};
}

}  // namespace rdmawire::replay::rdma
