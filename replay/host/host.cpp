#include "replay/host/host.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>

#include "dissectors/protocol/arp.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/icmp.hpp"
#include "dissectors/protocol/ip.hpp"

namespace rdmawire::replay {
namespace {

constexpr MacAddress broadcast = 0xffffffffffff;
constexpr std::uint16_t arp_request = 1, arp_reply = 2;
// A smaller hop limit means that the packet crossed a router. RFC 4861, 7.1
constexpr std::uint8_t on_link = 255;

bool is_group(MacAddress mac) { return mac >> 40 & 1; }
bool is_unspecified(const IpAddress& address) {
  return std::all_of(address.storage.begin(), address.storage.end(), [](std::uint8_t byte) { return byte == 0; });
}
std::uint32_t number_of(const IpAddress& v4) { return static_cast<std::uint32_t>(load_be<4>(v4.storage.data())); }

// Solicited-node multicast address. RFC 4291, 2.7.1
IpAddress solicited_node(const IpAddress& target) {
  IpAddress group{true, {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x01, 0xff}};
  std::copy(target.storage.begin() + 13, target.storage.end(), group.storage.begin() + 13);
  return group;
}
const IpAddress all_nodes{true, {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x01}};
// MAC of an IPv6 multicast address. RFC 2464, 7
MacAddress mac_of_group(const IpAddress& group) { return 0x333300000000 | load_be<4>(group.storage.data() + 12); }
bool is_group(const IpAddress& v6) { return v6.storage[0] == 0xff; }
bool is_link_local(const IpAddress& v6) { return v6.storage[0] == 0xfe && (v6.storage[1] & 0xc0) == 0x80; }

// The reply has the VLAN tags of the request.
Frame link_header(MacAddress to, MacAddress from, const HeaderStack* question) {
  Frame frame;
  frame /= Value<Ethernet>().set<"dst">(to).set<"src">(from);
  if (!question) return frame;
  for (const Layer& layer : question->layers())
    if (layer.header == &info<Vlan>) {
      const View<Vlan> tag(question->bytes.data() + layer.offset);
      frame /= Value<Vlan>().set<"priority">(tag.get<"priority">()).set<"id">(tag.get<"id">());
    }
  // Keeps the EtherType of the request's outer tag.
  if (frame.layers.size() > 1)
    frame.layers[0].set(*info<Ethernet>.find("type"), load_be<2>(question->bytes.data() + 12));
  return frame;
}

Frame ip_header(Frame frame, const IpAddress& from, const IpAddress& to, std::uint8_t hops) {
  if (!from.v6) {
    frame /= Value<Ipv4>().set<"src">(number_of(from)).set<"dst">(number_of(to)).set<"ttl">(hops).set<"df">(1);
    return frame;
  }
  HeaderValue ip = Value<Ipv6>().set<"hop_limit">(hops);
  ip.set(*info<Ipv6>.find("src"), from.bytes());
  ip.set(*info<Ipv6>.find("dst"), to.bytes());
  frame /= std::move(ip);
  return frame;
}

Frame arp(Frame frame, std::uint16_t operation, MacAddress sender, const IpAddress& sender_ip, MacAddress target,
          const IpAddress& target_ip) {
  frame /= Value<Arp>()
               .set<"hardware">(arp_hardware::ethernet)
               .set<"protocol">(ethertype::ipv4)
               .set<"hardware_length">(6)
               .set<"protocol_length">(4)
               .set<"operation">(operation);
  frame /= Value<ArpEthernet>()
               .set<"sender_hardware">(sender)
               .set<"sender_protocol">(number_of(sender_ip))
               .set<"target_hardware">(target)
               .set<"target_protocol">(number_of(target_ip));
  return frame;
}

Frame advertisement(Frame link, const IpAddress& target, const IpAddress& to, bool solicited, MacAddress mac) {
  Frame frame = ip_header(std::move(link), target, to, on_link);
  frame /= Value<Icmpv6>().set<"type">(icmpv6_type::neighbor_advertisement);
  HeaderValue body = Value<NeighborAdvertisement>().set<"solicited">(solicited).set<"override">(1);
  body.set(*info<NeighborAdvertisement>.find("target"), target.bytes());
  frame /= std::move(body);
  frame /= Value<NdLinkAddress>().set<"type">(nd_option::target).set<"address">(mac);
  return frame;
}

std::optional<MacAddress> link_address(const HeaderStack& stack, std::uint8_t type) {
  for (const Layer& layer : stack.layers())
    if (layer.header == &info<NdLinkAddress>) {
      const View<NdLinkAddress> option(stack.bytes.data() + layer.offset);
      if (option.get<"type">() == type && !is_group(option.get<"address">())) return option.get<"address">();
    }
  return std::nullopt;
}

// True if the ICMPv6 checksum is valid. Damaged messages are ignored.
bool checksum_holds(const HeaderStack& stack, const Layer& message, bool v6) {
  const Layer& ip = stack.layers()[stack.network];
  const std::uint32_t end = stack.payload.end();
  if (end < message.offset || end > stack.bytes.size()) return false;
  std::uint32_t pseudo = 0;
  if (v6) {
    pseudo = end - message.offset + ip_protocol::icmpv6;
    for (std::uint32_t at = ip.offset + 8; at < ip.offset + 40; at += 2)
      pseudo += static_cast<std::uint32_t>(load_be<2>(stack.bytes.data() + at));
  }
  return internet_checksum(stack.bytes.subspan(message.offset, end - message.offset), pseudo) == 0;
}

}  // namespace

IpAddress IpAddress::v4(std::uint32_t address) {
  IpAddress made;
  store_be(made.storage.data(), 4, address);
  return made;
}
IpAddress IpAddress::of_v6(Bytes sixteen) {
  IpAddress made{true, {}};
  std::copy_n(sixteen.begin(), 16, made.storage.begin());
  return made;
}
std::optional<IpAddress> IpAddress::parse(const std::string& text) {
  IpAddress made;
  if (inet_pton(AF_INET, text.c_str(), made.storage.data()) == 1) return made;
  made.v6 = true;
  if (inet_pton(AF_INET6, text.c_str(), made.storage.data()) == 1) return made;
  return std::nullopt;
}
std::string to_string(const IpAddress& address) {
  char text[INET6_ADDRSTRLEN];
  return inet_ntop(address.v6 ? AF_INET6 : AF_INET, address.storage.data(), text, sizeof text);
}
std::string mac_text(MacAddress mac) {
  std::string text;
  for (int shift = 40; shift >= 0; shift -= 8)
    text += fmt::format("{}{:02x}", text.empty() ? "" : ":", mac >> shift & 0xff);
  return text;
}
IpAddress link_local(MacAddress mac) {
  IpAddress address{true, {0xfe, 0x80}};
  store_be(address.storage.data() + 8, 3, mac >> 24 ^ 0x020000);
  store_be(address.storage.data() + 11, 2, 0xfffe);
  store_be(address.storage.data() + 13, 3, mac & 0xffffff);
  return address;
}

Host::Host(HostOptions options) : options_(std::move(options)) {
  const IpAddress local = link_local(options_.mac);
  if (!owns(local)) options_.addresses.push_back(local);
}

bool Host::owns(const IpAddress& address) const {
  return std::find(options_.addresses.begin(), options_.addresses.end(), address) != options_.addresses.end();
}

std::optional<IpAddress> Host::own_for(const IpAddress& other) const {
  std::optional<IpAddress> best;
  for (const IpAddress& own : options_.addresses) {
    if (own.v6 != other.v6) continue;
    if (!best || is_link_local(own) == is_link_local(other)) best = own;
    if (own.v6 == other.v6 && (!own.v6 || is_link_local(own) == is_link_local(other))) break;
  }
  return best;
}

void Host::learn(const IpAddress& address, MacAddress mac, bool anew) {
  if (is_unspecified(address) || is_group(mac) || mac == 0 || owns(address)) return;
  const auto known = neighbors_.find(address);
  const bool asked = questions_.contains(address);
  if (known != neighbors_.end()) {
    known->second = mac;
  } else if (anew || asked) {
    if (neighbors_.size() >= options_.neighbors) {
      neighbors_.erase(learnt_order_.front());
      learnt_order_.pop_front();
    }
    neighbors_[address] = mac;
    learnt_order_.push_back(address);
  } else {
    return;
  }
  questions_.erase(address);
  silent_.erase(address);
}

bool Host::takes(Bytes bytes, std::int64_t /*time*/, SimulatedHostOutput& output) {
  if (bytes.size() < Ethernet::size) return false;
  const View<Ethernet> eth(bytes.data());
  const MacAddress to = eth.get<"dst">(), from = eth.get<"src">();
  // Some wires return the host's own frames.
  if ((to != options_.mac && !is_group(to)) || from == options_.mac) return false;
  const HeaderStack stack = decode(bytes);

  if (const auto addresses = stack.get<ArpEthernet>()) {
    const auto operation = stack.get<Arp>()->get<"operation">();
    const IpAddress sender = IpAddress::v4(addresses->get<"sender_protocol">());
    const IpAddress target = IpAddress::v4(addresses->get<"target_protocol">());
    const MacAddress sender_mac = addresses->get<"sender_hardware">();
    const bool mine = owns(target);
    learn(sender, sender_mac, mine);
    if (operation == arp_request && mine && !is_unspecified(target))
      output.send(
          arp(link_header(sender_mac, options_.mac, &stack), arp_reply, options_.mac, target, sender_mac, sender)
              .encode());
    return true;
  }
  if (stack.network == HeaderStack::none || stack.fragment || !stack.findings().empty()) return false;
  const Layer& network = stack.layers()[stack.network];

  if (network.header == &info<Ipv4>) {
    const Layer* icmp = stack.find(info<Icmp>);
    if (!icmp || !stack.find(info<IcmpEcho>)) return false;
    const View<Ipv4> ip(bytes.data() + network.offset);
    const IpAddress source = IpAddress::v4(ip.get<"src">()), destination = IpAddress::v4(ip.get<"dst">());
    if (!owns(destination) || !options_.answers_ping || !checksum_holds(stack, *icmp, false)) return false;
    if (View<Icmp>(bytes.data() + icmp->offset).get<"type">() != icmp_type::echo_request) return false;
    Frame frame = ip_header(link_header(from, options_.mac, &stack), destination, source, 64);
    frame /= Value<Icmp>().set<"type">(icmp_type::echo_reply);
    frame /= *HeaderValue::parse(info<IcmpEcho>, stack.bytes_of(*stack.find(info<IcmpEcho>)));
    const Bytes data = stack.bytes_of(stack.payload);
    frame.payload.assign(data.begin(), data.end());
    output.send(frame.encode());
    return true;
  }
  if (network.header != &info<Ipv6>) return false;
  const Layer* icmp = stack.find(info<Icmpv6>);
  if (!icmp || !checksum_holds(stack, *icmp, true)) return false;
  const View<Ipv6> ip(bytes.data() + network.offset);
  const auto source_bytes = ip.get<"src">(), destination_bytes = ip.get<"dst">();
  const IpAddress source = IpAddress::of_v6(source_bytes), destination = IpAddress::of_v6(destination_bytes);
  const View<Icmpv6> message(bytes.data() + icmp->offset);

  if (const auto solicitation = stack.get<NeighborSolicitation>()) {
    const auto target_bytes = solicitation->get<"target">();
    const IpAddress target = IpAddress::of_v6(target_bytes);
    if (ip.get<"hop_limit">() != on_link || message.get<"code">() != 0 || is_group(target)) return true;
    const bool probe = is_unspecified(source);
    const auto source_link = link_address(stack, nd_option::source);
    if (probe && source_link) return true;  // RFC 4861, 7.1.1
    if (!owns(target)) return true;
    if (source_link) learn(source, *source_link, true);
    // Duplicate address detection uses an unspecified source, so the reply is sent to all nodes. RFC 4862, 5.4.3
    const IpAddress& answer_to = probe ? all_nodes : source;
    const MacAddress answer_mac = probe ? mac_of_group(all_nodes) : source_link.value_or(from);
    output.send(
        advertisement(link_header(answer_mac, options_.mac, &stack), target, answer_to, !probe, options_.mac).encode());
    return true;
  }
  if (const auto advertisement = stack.get<NeighborAdvertisement>()) {
    const auto target_bytes = advertisement->get<"target">();
    if (ip.get<"hop_limit">() != on_link || message.get<"code">() != 0) return true;
    if (const auto mac = link_address(stack, nd_option::target))
      learn(IpAddress::of_v6(target_bytes), *mac, false);
    else if (advertisement->get<"solicited">())
      learn(IpAddress::of_v6(target_bytes), from, false);
    return true;
  }
  if (message.get<"type">() == icmpv6_type::echo_request && stack.find(info<Icmpv6Echo>) && options_.answers_ping) {
    // The only group of which the host is a member is that of all nodes.
    if (!owns(destination) && !(destination == all_nodes)) return false;
    const auto own = owns(destination) ? std::optional(destination) : own_for(source);
    if (!own || is_group(source)) return false;
    Frame frame = ip_header(link_header(from, options_.mac, &stack), *own, source, 64);
    frame /= Value<Icmpv6>().set<"type">(icmpv6_type::echo_reply);
    frame /= *HeaderValue::parse(info<Icmpv6Echo>, stack.bytes_of(*stack.find(info<Icmpv6Echo>)));
    const Bytes data = stack.bytes_of(stack.payload);
    frame.payload.assign(data.begin(), data.end());
    output.send(frame.encode());
    return true;
  }
  return false;
}

void Host::announce(SimulatedHostOutput& output) const {
  for (const IpAddress& own : options_.addresses) {
    if (own.v6)
      output.send(advertisement(link_header(mac_of_group(all_nodes), options_.mac, nullptr), own, all_nodes, false,
                                options_.mac)
                      .encode());
    else
      output.send(arp(link_header(broadcast, options_.mac, nullptr), arp_request, options_.mac, own, 0, own).encode());
  }
}

void Host::ask(const IpAddress& address, SimulatedHostOutput& output) const {
  const auto own = own_for(address);
  if (!own) return;
  if (!address.v6) {
    output.send(
        arp(link_header(broadcast, options_.mac, nullptr), arp_request, options_.mac, *own, 0, address).encode());
    return;
  }
  const IpAddress group = solicited_node(address);
  Frame frame = ip_header(link_header(mac_of_group(group), options_.mac, nullptr), *own, group, on_link);
  frame /= Value<Icmpv6>().set<"type">(icmpv6_type::neighbor_solicitation);
  HeaderValue body = Value<NeighborSolicitation>();
  body.set(*info<NeighborSolicitation>.find("target"), address.bytes());
  frame /= std::move(body);
  frame /= Value<NdLinkAddress>().set<"type">(nd_option::source).set<"address">(options_.mac);
  output.send(frame.encode());
}

void Host::resolve(const IpAddress& address, std::int64_t time, SimulatedHostOutput& output) {
  if (neighbor(address) || questions_.contains(address)) return;
  silent_.erase(address);
  if (questions_.size() >= options_.neighbors || !own_for(address) || options_.tries == 0) {
    if (silent_.size() < options_.neighbors) silent_[address] = true;
    return;
  }
  questions_[address] = {options_.tries - 1, time + options_.retry};
  ask(address, output);
}

std::optional<MacAddress> Host::neighbor(const IpAddress& address) const {
  const auto known = neighbors_.find(address);
  if (known == neighbors_.end()) return std::nullopt;
  return known->second;
}

bool Host::unreachable(const IpAddress& address) const { return silent_.contains(address); }

std::int64_t Host::wakes() const {
  std::int64_t first = never;
  for (const auto& [address, question] : questions_) first = std::min(first, question.next);
  return first;
}

void Host::woken(std::int64_t time, SimulatedHostOutput& output) {
  for (auto question = questions_.begin(); question != questions_.end();) {
    const auto here = question++;
    if (here->second.next > time) continue;
    if (here->second.left == 0) {
      if (silent_.size() >= options_.neighbors) silent_.clear();
      silent_[here->first] = true;
      questions_.erase(here);
      continue;
    }
    --here->second.left;
    here->second.next = time + std::max<std::int64_t>(1, options_.retry);
    ask(here->first, output);
  }
}

}  // namespace rdmawire::replay
