#include "conformance/cases/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "conformance/cases/case.hpp"
#include "conformance/cases/history.hpp"

namespace rdmawire::conformance {

namespace {

std::string type_of(Transport transport) {
  switch (transport) {
    case Transport::uc: return "uc";
    case Transport::ud: return "ud";
    case Transport::xrc: return "xrc_send";
    default: return "rc";
  }
}

std::string gid_text(const std::array<std::uint8_t, 16>& address) {
  std::string text;
  for (std::size_t i = 0; i < address.size(); i += 2)
    text += fmt::format("{}{:02x}{:02x}", i ? ":" : "", address[i], address[i + 1]);
  return text;
}

}  // namespace

Connected::Connected(Bench& at, const ConnectOptions& how)
    : DeviceQueuePair(at, how.receive_bytes), options(how), bench_(&at) {}

Bench::~Bench() {
  if (switched_) device().switch_congestion_management(*device().congestion_management);
  if (xrc_off_) device().switch_xrc(true);
}

bool Bench::congestion_management(bool on) {
  const auto& usual = device().congestion_management;
  if (usual == on) return true;
  if (usual && device().switch_congestion_management) {
    device().switch_congestion_management(on);
    note(on ? "congestion management switched on" : "congestion management switched off");
    return switched_ = true;
  }
  if (usual)
    end_case(Verdict::unsupported,
             on ? "the device has no congestion management" : "the device has congestion management");
  return false;
}

void Bench::without_xrc() {
  if (lacking(device(), Need::xrc).empty()) {
    if (!device().switch_xrc) end_case(Verdict::unsupported, "the device has XRC");
    device().switch_xrc(false);
    xrc_off_ = true;
    note("XRC switched off");
  }
  const auto domain = device().device->xrc_domain();
  const bool absent = !domain && domain.error().kind == peer::PeerError::Kind::refused;
  require(absent, "no XRC domain on a device that reports no support for XRC",
          domain ? "an XRC domain" : domain.error().message);
  note("no XRC domain: " + domain.error().message);
}

const peer::XrcDomain& Bench::xrc_domain(std::size_t number) {
  while (xrc_domains_.size() <= number) xrc_domains_.push_back(take(device().device->xrc_domain(), "an XRC domain"));
  return xrc_domains_[number];
}

Way Bench::way(Over over) {
  const auto other = [](const std::optional<Way>& way, const char* what) {
    if (!way) end_case(Verdict::unsupported, fmt::format("the device has no GID {}", what));
    return *way;
  };
  switch (over) {
    case Over::ipv6: return other(device().ipv6, "of type RoCEv2 with an IPv6 address");
    case Over::vlan: return other(device().vlan, "of type RoCEv2 with an IPv4 address in a VLAN");
    case Over::roce_v1: return other(device().roce_v1, "of type RoCEv1 with an IPv4 address");
    case Over::ipv4: break;
  }
  return {device().path, device().gid_index};
}

std::uint32_t Bench::bound_window(Connected& through, std::uint64_t offset, std::uint64_t length,
                                  const peer::Names& access) {
  return windows_.emplace_back(bind_window(through, offset, length, access)).rkey;
}

void Bench::make_receive_queue(Connected& of) {
  peer::SharedReceiveQueueOptions asked{.max_wr = 64, .max_sge = of.receive_sges};
  if (of.options.xrc_target) {
    asked.xrcd = &xrc_domain(of.options.xrc_domain);
    asked.cq = &of.completions();
  } else if (!of.options.shared_receives) {
    return;
  }
  of.srq = take(domain().shared_receive_queue(asked), "a shared receive queue");
  of.xrc_srq = of.srq.number();
}

void Bench::make_queue_pair(Connected& made) {
  const ConnectOptions& options = made.options;
  if (options.xrc_target) {
    made.qp = take(domain().receiving_xrc(xrc_domain(options.xrc_domain)), "a target of XRC");
    return;
  }
  const bool own_receives = !options.shared_receives && options.transport != Transport::xrc;
  made.qp = take(domain().queue_pair({.type = type_of(options.transport),
                                      .send_cq = &made.completions(),
                                      .srq = options.shared_receives ? &made.srq : nullptr,
                                      .max_send_wr = options.send_wr,
                                      .max_recv_wr = own_receives ? 64U : 0U,
                                      .max_send_sge = options.send_sge,
                                      .max_recv_sge = own_receives ? made.receive_sges : 0U,
                                      .max_inline_data = options.inline_bytes,
                                      .send_ops = options.send_ops}),
                 "a queue pair");
}

void Bench::resolve(ConnectOptions& options) {
  Environment& row = environment();
  const bool connected = options.transport != Transport::ud;
  constexpr std::array<std::uint8_t, 7> reads{4, 1, 2, 3, 5, 7, 16};
  const std::uint32_t usual_mtu = options.mtu;
  if (connected)
    options.mtu.resolve(row, Parameter::path_mtu, std::array<std::uint32_t, 6>{usual_mtu, 256, 512, 1024, 2048, 4096});
  if (options.mtu != usual_mtu) {
    // Memory for messages of several larger packets, unless the case sets its size.
    constexpr std::uint32_t region_packets = 8, receive_packets = 4;
    const ConnectOptions usual;
    if (options.region_bytes == usual.region_bytes)
      options.region_bytes = std::max<std::uint64_t>(usual.region_bytes, std::uint64_t{region_packets} * options.mtu);
    if (options.receive_bytes == usual.receive_bytes)
      options.receive_bytes = std::max(usual.receive_bytes, receive_packets * options.mtu.value());
  }
  options.over.resolve(row, Parameter::network, std::array{Over::ipv4, Over::ipv6, Over::vlan});
  options.traffic_class.resolve(row, Parameter::traffic_class, std::array<std::uint8_t, 3>{0, 184, 2});
  options.send_wr.resolve(row, Parameter::send_queue, std::array<std::uint32_t, 3>{32, 33, 128});
  options.send_sge.resolve(row, Parameter::send_sges, std::array<std::uint32_t, 2>{1, 3});
  const bool is_reliable = options.transport == Transport::rc || options.transport == Transport::xrc;
  if (is_reliable && (options.transport == Transport::rc || options.xrc_target))
    options.reads_at_once.resolve(row, Parameter::reads_at_once, reads);
  if (is_reliable && !options.xrc_target) options.own_reads.resolve(row, Parameter::own_reads, reads);
}

void Bench::set_first_psns(Connected& made, std::size_t history) {
  constexpr std::uint32_t psns = 1U << 24;
  constexpr std::array<std::uint32_t, 7> first{0, 0, 1, psns / 2 - 1, psns - 1, psns - 2, psns - 3};
  const auto chosen = [&](Parameter parameter, std::int64_t set) {
    // Drawn for each row, so that the other random values do not depend on the row.
    const std::uint32_t random = set < 0 ? any(psns) : static_cast<std::uint32_t>(set);
    if (set >= 0) {
      environment().set_by_case(parameter);
      return random;
    }
    const std::size_t index = environment().take(parameter);
    return index == 0 ? random : first[index];
  };
  const HistoryLength before = history_length(history);
  made.ours = Psn(chosen(Parameter::tester_psn, made.options.first_psn)) + -before.tester_packets;
  made.theirs = Psn(chosen(Parameter::device_psn, made.options.device_psn)) + -before.device_packets;
}

Connected& Bench::make(const ConnectOptions& options) {
  const peer::Device& verbs = *device().device;
  Connected& made = connected_.emplace_back(*this, options);
  made.shared_cq = options.shared_cq;
  const Way way = this->way(options.over);
  if (!options.shared_cq) {
    const peer::CompletionChannel* channel = nullptr;
    if (options.notifies) channel = &channels_.emplace_back(take(verbs.completion_channel(), "a completion channel"));
    made.cq = take(verbs.completion_queue(options.completions, channel), "a completion queue");
  }
  made.region = region(options.region_bytes, options.region_access);
  const std::uint64_t inbox_bytes = std::max<std::uint64_t>(std::uint64_t{64} * options.receive_bytes, 64);
  made.inbox = take(domain().region(inbox_bytes, {"local_write"}), "memory for receive requests");
  made.send_sges = options.send_sge.is_set() ? 1 : options.send_sge.value();
  const bool receives =
      options.transport != Transport::ud && (options.transport != Transport::xrc || options.xrc_target);
  if (receives && environment().take(Parameter::receive_sges) != 0) made.receive_sges = 3;
  make_receive_queue(made);
  make_queue_pair(made);
  constexpr std::uint32_t first_qpn = 0x100000, qpns = 0x700000;
  made.transport = options.transport;
  made.path = way.path;
  made.path.hop_limit = options.hop_limit;
  made.device_qpn = made.qp.qp_num();
  made.tester_qpn = first_qpn + any(qpns);
  made.mtu = options.mtu;
  return made;
}

Connected& Bench::connect(const ConnectOptions& asked) {
  make_others();
  ConnectOptions options = asked;
  resolve(options);
  Connected& made = make(options);
  if (!options.traffic_class.is_set()) made.path.traffic_class = options.traffic_class;
  constexpr std::array<std::uint16_t, 3> ports{0xc123, 0xc000, 0xffff};
  made.path.udp_source_port = ports[environment().take(Parameter::udp_source_port)];
  const std::size_t history = HistoryTraffic::possible(options) ? environment().take(Parameter::history) : 0;
  set_first_psns(made, history);
  listen_to(made);
  made.bring_to(options.state);
  if (history != 0) HistoryTraffic(*this, made).run(history);
  if (options.receives) made.post_receives(options.receives);
  others_transfer();
  return made;
}

nlohmann::json Connected::attributes_to(const std::string& state) const {
  const bool datagrams = transport == Transport::ud, xrc = transport == Transport::xrc;
  const bool reliable = transport == Transport::rc || xrc;
  const bool answers = reliable && (!xrc || options.xrc_target), asks = reliable && !options.xrc_target;
  nlohmann::json attributes = {{"state", state}};
  if (state == "init") {
    attributes.update({{"pkey_index", 0}, {"port", bench_->device().device->port().number}});
    if (datagrams)
      attributes["qkey"] = options.qkey;
    else
      attributes["access"] = options.access;
  } else if (state == "rtr" && !datagrams) {
    attributes.update({{"path_mtu", options.mtu.value()},
                       {"dest_qp_num", tester_qpn},
                       {"rq_psn", ours.value()},
                       {"ah_attr",
                        {{"port", bench_->device().device->port().number},
                         {"sl", options.service_level},
                         {"grh",
                          {{"dgid", gid_text(path.tester_address)},
                           {"sgid_index", bench_->way(options.over).gid_index},
                           {"hop_limit", options.hop_limit},
                           {"traffic_class", options.traffic_class.value()}}}}}});
    if (answers)
      attributes.update(
          {{"max_dest_rd_atomic", options.reads_at_once.value()}, {"min_rnr_timer", options.min_rnr_timer}});
  } else if (state == "rts") {
    attributes["sq_psn"] = theirs.value();
    if (reliable) attributes["timeout"] = options.timeout;
    if (asks)
      attributes.update({{"retry_cnt", options.retry_cnt},
                         {"rnr_retry", options.rnr_retry},
                         {"max_rd_atomic", options.own_reads.value()}});
  }
  return attributes;
}

peer::PeerResult<void> Connected::try_to_modify(const nlohmann::json& attributes) {
  auto result = qp.modify(attributes);
  if (!result && result.error().number == ETIMEDOUT) {
    // The device resolves the tester's MAC address: the wire responds only while it is read.
    bench_->pass(bench_->patience().silence);
    result = qp.modify(attributes);
  }
  if (result && attributes.value("state", "") == "reset" && (device_msn != 0 || tester_msn != 0))
    bench_->restart(*this);
  return result;
}

void Connected::modify(const nlohmann::json& attributes) {
  bench_->take(try_to_modify(attributes), fmt::format("queue pair {:#x}: {}", device_qpn, attributes.dump()));
  if (attributes.value("state", "") == "rtr" && transport != Transport::ud) bench_->record(pairing(attributes));
}

Pairing Connected::pairing(const nlohmann::json& attributes) const {
  return {.transport = transport,
          .tester = {path.tester_address, attributes.value("dest_qp_num", tester_qpn),
                     attributes.value("rq_psn", ours.value())},
          .device = {path.device_address, device_qpn, theirs.value()},
          .mtu = attributes.value("path_mtu", options.mtu.value()),
          .timeout = options.timeout,
          .retry_cnt = options.retry_cnt,
          .rnr_retry = options.rnr_retry,
          .reads_at_once = options.reads_at_once,
          .own_reads = options.own_reads};
}

void Connected::bring_to(const std::string& state) {
  if (state == "reset") return;
  for (const char* next : {"init", "rtr", "rts"}) {
    modify(attributes_to(next));
    if (state == next) return;
  }
}

peer::AddressHandle Connected::address_handle_of_tester() const {
  return bench_->take(
      bench_->domain().address_handle(gid_text(path.tester_address), bench_->way(options.over).gid_index),
      "an address handle of the tester's address");
}

void Connected::device_sends(std::uint64_t wr_id, Message message) {
  post({.opcode = "send",
        .wr_id = wr_id,
        .sges = pieces(message.offset, message.length),
        .flags = std::move(message.flags)});
}
void Connected::device_writes(std::uint64_t wr_id, Message message) {
  post({.opcode = "write",
        .wr_id = wr_id,
        .sges = pieces(message.offset, message.length),
        .remote_addr = tester_memory,
        .rkey = tester_rkey,
        .flags = std::move(message.flags)});
}
void Connected::device_reads(std::uint64_t wr_id, Message message) {
  post({.opcode = "read",
        .wr_id = wr_id,
        .sges = pieces(message.offset, message.length),
        .remote_addr = tester_memory,
        .rkey = tester_rkey,
        .flags = std::move(message.flags)});
}
void Connected::device_adds(std::uint64_t wr_id, Message message) {
  post({.opcode = "fetch_add",
        .wr_id = wr_id,
        .sges = {piece(message.offset, 8)},
        .remote_addr = tester_memory,
        .rkey = tester_rkey,
        .add = 5,
        .flags = std::move(message.flags)});
}

void Connected::post(peer::SendRequest request) {
  if (transport == Transport::xrc && !request.remote_srqn) request.remote_srqn = tester_srq;
  DeviceQueuePair::post(std::move(request));
}

void Connected::fails_or_is_asked_again(std::uint64_t wr_id) {
  const std::string expected = fmt::format("{} fails or is retried", wr_id);
  const std::int64_t until = bench_->now() + bench_->patience().answer;
  do {
    const auto found = bench_->take(completions().poll(1, bench_->silence_time()), "poll for a completion");
    if (!found.empty()) {
      const bool failed = found.front().wr_id == wr_id && !found.front().good();
      return bench_->require(failed, expected, text_of(found.front()));
    }
    if (const auto seen = bench_->next(bench_->patience().silence))
      return bench_->require(seen->op->known && seen->op->direction == Direction::request, expected, seen->text());
  } while (bench_->now() < until);
  bench_->require(false, expected, "neither");
}

void Connected::drops(const Stimulus& bad) {
  const std::string payload = pattern_bytes(12, 0x70);
  *bench_ >> bad;
  *bench_ << silence();
  accepts(send_only(psn(+0), payload), payload);
}

void Connected::accepts(const Stimulus& good, const std::string& payload) {
  *bench_ >> good;
  *bench_ << conformance::ack(psn(+0)).msn(1);
  completes(0);
  received(0, payload);
}

void Connected::refuses(const Expectation& nak) {
  *bench_ << nak;
  is_in("err");
}

}  // namespace rdmawire::conformance
