#include "conformance/cases/bench.hpp"

#include <fmt/format.h>

#include <cerrno>

namespace rdmawire::conformance {

namespace {

std::string text_of(const peer::Completion& completion) {
  return fmt::format("completion of {} with {}", completion.wr_id, completion.status);
}

/// Where two runs of octets differ first.
std::string difference(const peer::Octets& found, const std::string& expected) {
  for (std::size_t i = 0; i < found.size() && i < expected.size(); ++i)
    if (found[i] != static_cast<std::uint8_t>(expected[i]))
      return fmt::format("octet {} is {:#04x} instead of {:#04x}", i, found[i], static_cast<std::uint8_t>(expected[i]));
  return fmt::format("{} octets instead of {}", found.size(), expected.size());
}

bool same(const peer::Octets& found, const std::string& expected) {
  return std::equal(found.begin(), found.end(), expected.begin(), expected.end(),
                    [](std::uint8_t a, char b) { return a == static_cast<std::uint8_t>(b); });
}

double milliseconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e6; }

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

Bench::~Bench() {
  if (switched_) device_.switch_congestion_management(*device_.congestion_management);
}

bool Bench::congestion_management(bool on) {
  const auto& usual = device_.congestion_management;
  if (usual == on) return true;
  if (usual && device_.switch_congestion_management) {
    device_.switch_congestion_management(on);
    note(on ? "congestion management switched on" : "congestion management switched off");
    return switched_ = true;
  }
  if (usual)
    end_case(Verdict::unsupported,
             on ? "the device has no congestion management" : "the device has congestion management");
  return false;
}

void Bench::refused(const peer::PeerError& error, const std::string& what) {
  const bool lacking = error.number == EOPNOTSUPP || error.number == ENOSYS || error.number == ENOTSUP;
  end_case(lacking ? Verdict::unsupported : Verdict::error, fmt::format("{}: {}", what, error.message));
}

const peer::ProtectionDomain& Bench::domain(std::size_t number) {
  while (domains_.size() <= number)
    domains_.push_back(take(device_.device->protection_domain(), "a protection domain"));
  return domains_[number];
}

const peer::XrcDomain& Bench::xrc_domain(std::size_t number) {
  while (xrc_domains_.size() <= number) xrc_domains_.push_back(take(device_.device->xrc_domain(), "an XRC domain"));
  return xrc_domains_[number];
}

peer::Region Bench::region(std::uint64_t octets, const peer::Names& access, std::size_t in) {
  return take(domain(in).region(octets, access),
              fmt::format("a memory region of {} octets: {}", octets, fmt::join(access, ", ")));
}

Way Bench::way(Over over) {
  const auto other = [](const std::optional<Way>& way, const char* what) {
    if (!way) end_case(Verdict::unsupported, fmt::format("the device has no GID {}", what));
    return *way;
  };
  switch (over) {
    case Over::ipv6: return other(device_.ipv6, "of RoCEv2 of an IPv6 address");
    case Over::vlan: return other(device_.vlan, "of RoCEv2 of an IPv4 address in a VLAN");
    case Over::roce_v1: return other(device_.roce_v1, "of RoCEv1 of an IPv4 address");
    case Over::ipv4: break;
  }
  return {device_.path, device_.gid_index};
}

std::uint32_t Bench::bound_window(Connected& through, std::uint64_t offset, std::uint64_t length,
                                  const peer::Names& access) {
  constexpr std::uint64_t bind_wr_id = 0xb1d;
  windows_.push_back(take(domain().memory_window(2), "a memory window of type 2"));
  // The lowest octet of a type 2 window's key is its consumer's.
  const std::uint32_t rkey = (windows_.back().rkey() & ~0xffU) | ((windows_.back().rkey() + 1) & 0xff);
  through.post({.opcode = "bind_mw",
                .wr_id = bind_wr_id,
                .more = {{"mw", windows_.back().handle()},
                         {"mr", through.region.handle()},
                         {"new_rkey", rkey},
                         {"addr", through.region.addr() + offset},
                         {"length", length},
                         {"access", access}}});
  through.completes(bind_wr_id);
  return rkey;
}

std::optional<std::uint64_t> Bench::counter(std::initializer_list<const char*> names) {
  const auto all = counters();
  std::optional<std::uint64_t> sum;
  for (const char* name : names)
    if (const auto found = all.find(name); found != all.end()) sum = sum.value_or(0) + found->second;
  return sum;
}

void Bench::make_receive_queue(Connected& of) {
  peer::SharedReceiveQueueOptions asked{.max_wr = 64};
  if (of.options.xrc_target) {
    asked.xrcd = &xrc_domain(of.options.xrc_domain);
    asked.cq = &of.cq;
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
                                      .send_cq = &made.cq,
                                      .srq = options.shared_receives ? &made.srq : nullptr,
                                      .max_send_wr = options.send_wr,
                                      .max_recv_wr = own_receives ? 64U : 0U,
                                      .max_send_sge = options.send_sge,
                                      .max_recv_sge = own_receives ? 1U : 0U,
                                      .max_inline_data = options.inline_octets,
                                      .send_ops = options.send_ops}),
                 "a queue pair");
}

Connected& Bench::connect(const ConnectOptions& options) {
  const peer::Device& device = *device_.device;
  Connected& made = connected_.emplace_back(*this, options);
  const Way way = this->way(options.over);
  const peer::CompletionChannel* channel = nullptr;
  if (options.notifies) channel = &channels_.emplace_back(take(device.completion_channel(), "a completion channel"));
  made.cq = take(device.completion_queue(options.completions, channel), "a completion queue");
  made.region = region(options.region_octets, options.region_access);
  const std::uint64_t inbox_octets = std::max<std::uint64_t>(std::uint64_t{64} * options.receive_octets, 64);
  made.inbox = take(domain().region(inbox_octets, {"local_write"}), "memory for receive requests");
  make_receive_queue(made);
  make_queue_pair(made);
  constexpr std::uint32_t psns = 1U << 24, first_qpn = 0x100000, qpns = 0x700000;
  made.transport = options.transport;
  made.path = way.path;
  made.path.hop_limit = options.hop_limit;
  made.device_qpn = made.qp.qp_num();
  made.tester_qpn = first_qpn + any(qpns);
  made.ours = Psn(options.first_psn < 0 ? any(psns) : static_cast<std::uint32_t>(options.first_psn));
  made.theirs = Psn(options.device_psn < 0 ? any(psns) : static_cast<std::uint32_t>(options.device_psn));
  made.mtu = options.mtu;
  listen_to(made);
  made.bring_to(options.state);
  if (options.receives) made.post_receives(options.receives);
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
    attributes.update({{"path_mtu", options.mtu},
                       {"dest_qp_num", tester_qpn},
                       {"rq_psn", ours.value()},
                       {"ah_attr",
                        {{"port", bench_->device().device->port().number},
                         {"sl", options.service_level},
                         {"grh",
                          {{"dgid", gid_text(path.tester_address)},
                           {"sgid_index", bench_->way(options.over).gid_index},
                           {"hop_limit", options.hop_limit},
                           {"traffic_class", options.traffic_class}}}}}});
    if (answers)
      attributes.update({{"max_dest_rd_atomic", options.reads_at_once}, {"min_rnr_timer", options.min_rnr_timer}});
  } else if (state == "rts") {
    attributes["sq_psn"] = theirs.value();
    if (reliable) attributes["timeout"] = options.timeout;
    if (asks)
      attributes.update(
          {{"retry_cnt", options.retry_cnt}, {"rnr_retry", options.rnr_retry}, {"max_rd_atomic", options.own_reads}});
  }
  return attributes;
}

peer::PeerResult<void> Connected::try_to_modify(const nlohmann::json& attributes) const {
  auto result = qp.modify(attributes);
  if (!result && result.error().number == ETIMEDOUT) {
    // The system asked for the tester's MAC address, and the wire answers only while it is read.
    bench_->pass(bench_->patience().silence);
    result = qp.modify(attributes);
  }
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
          .mtu = attributes.value("path_mtu", options.mtu),
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
        .sges = {piece(message.offset, message.length)},
        .flags = std::move(message.flags)});
}
void Connected::device_writes(std::uint64_t wr_id, Message message) {
  post({.opcode = "write",
        .wr_id = wr_id,
        .sges = {piece(message.offset, message.length)},
        .remote_addr = tester_memory,
        .rkey = tester_rkey,
        .flags = std::move(message.flags)});
}
void Connected::device_reads(std::uint64_t wr_id, Message message) {
  post({.opcode = "read",
        .wr_id = wr_id,
        .sges = {piece(message.offset, message.length)},
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

void Bench::tells(const std::string& event, const std::string& kind, std::uint64_t handle) {
  const auto about = [&](const peer::Event& told) {
    return told.name == "async" && told.body.value("type", "") == event &&
           told.body.value(kind, std::uint64_t{0}) == handle;
  };
  const bool came = next_event(patience().answer, about).has_value();
  require(came, fmt::format("the asynchronous event {} of the {}", event, kind), "no such event");
}

std::optional<peer::Event> Bench::next_event(std::int64_t for_ns, const peer::Peer::EventFilter& filter) {
  constexpr std::int64_t a_while = 2'000'000;
  const std::int64_t until = now() + for_ns;
  for (;;) {
    // A device in virtual time tells with its next answer what has happened.
    if (const auto alive = device_.peer->call("ping"); !alive) refused(alive.error(), "wait for an event");
    auto event = device_.peer->next_event(std::chrono::milliseconds(0), filter);
    if (!event) refused(event.error(), "wait for an event");
    if (*event || now() >= until) return std::move(*event);
    pass(a_while);
  }
}

void Bench::no_sooner(std::int64_t earlier, std::int64_t later, std::int64_t least, const std::string& what) {
  require(later - earlier >= least, fmt::format("{} no sooner than after {:.3f} ms", what, milliseconds(least)),
          fmt::format("after {:.3f} ms", milliseconds(later - earlier)));
}

void Connected::post_receives(std::uint32_t count) {
  std::vector<peer::ReceiveRequest> requests;
  for (std::uint32_t i = 0; i < count; ++i, ++posted_receives_)
    requests.push_back(
        {posted_receives_,
         {inbox.piece(std::uint64_t{posted_receives_} * options.receive_octets, options.receive_octets)}});
  bench_->take(options.shared_receives || options.xrc_target ? srq.post_recv(requests) : qp.post_recv(requests),
               fmt::format("{} receive requests of {} octets", count, options.receive_octets));
}

void Connected::post(peer::SendRequest request) {
  if (transport == Transport::xrc && !request.remote_srqn) request.remote_srqn = tester_srq;
  const std::string what = fmt::format("send request {}: {}", request.wr_id, request.opcode);
  bench_->take(qp.post_send({std::move(request)}), what);
}

peer::Completion Connected::completes(std::uint64_t wr_id, const std::string& status) {
  auto completions = bench_->take(cq.poll(1, bench_->answer_time()), "poll for a completion");
  const std::string expected = fmt::format("completion of {} with {}", wr_id, status);
  bench_->require(!completions.empty() && completions.front().wr_id == wr_id, expected,
                  completions.empty() ? "no completion" : text_of(completions.front()));
  const bool other_error = status != "success" && !completions.front().good();
  bench_->require(completions.front().status == status, expected, text_of(completions.front()),
                  other_error ? Verdict::fail_wrong_code : Verdict::fail);
  return completions.front();
}

void Connected::completes_nothing() {
  const auto completions = bench_->take(cq.poll(1, bench_->silence_time()), "poll for a completion");
  bench_->require(completions.empty(), "no completion", completions.empty() ? "" : text_of(completions.front()));
}

peer::Completion Connected::completes_badly(std::uint64_t wr_id, bool or_flushed) {
  auto completions = bench_->take(cq.poll(1, bench_->answer_time()), "poll for a completion");
  const bool as_expected = !completions.empty() && completions.front().wr_id == wr_id && !completions.front().good() &&
                           (or_flushed || completions.front().status != "wr_flush_err");
  bench_->require(as_expected,
                  fmt::format("completion of {} with {}", wr_id, or_flushed ? "an error" : "an error of its own"),
                  completions.empty() ? "no completion" : text_of(completions.front()));
  bench_->note(text_of(completions.front()));
  return completions.front();
}

peer::Completion Connected::fails(std::uint64_t wr_id) { return completes_badly(wr_id, false); }

peer::Completion Connected::fails_or_is_flushed(std::uint64_t wr_id) { return completes_badly(wr_id, true); }

void Connected::flushes(std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t wr_id = first; wr_id <= last; ++wr_id) completes(wr_id, "wr_flush_err");
}

void Connected::fails_or_is_asked_again(std::uint64_t wr_id) {
  const std::string expected = fmt::format("{} fails or is asked for again", wr_id);
  const std::int64_t until = bench_->now() + bench_->patience().answer;
  do {
    const auto completions = bench_->take(cq.poll(1, bench_->silence_time()), "poll for a completion");
    if (!completions.empty()) {
      const bool failed = completions.front().wr_id == wr_id && !completions.front().good();
      return bench_->require(failed, expected, text_of(completions.front()));
    }
    if (const auto seen = bench_->next(bench_->patience().silence))
      return bench_->require(seen->op->known && seen->op->direction == Direction::request, expected, seen->text());
  } while (bench_->now() < until);
  bench_->require(false, expected, "neither");
}

void Connected::is_in(const std::string& state) {
  const std::int64_t until = bench_->now() + bench_->patience().answer;
  std::string found;
  do {
    found = bench_->take(qp.state(), "query the queue pair");
    if (found == state) break;
    bench_->pass(bench_->patience().silence / 5);
  } while (bench_->now() < until);
  bench_->require(found == state, fmt::format("the queue pair in state {}", state), fmt::format("state {}", found));
}

void Connected::ask_for_notification(bool solicited_only) {
  bench_->take(cq.notify(solicited_only),
               solicited_only ? "a notification asked for, of solicited completions" : "a notification asked for");
}

void Connected::is_notified(bool expected) {
  const auto of_this_queue = [handle = cq.handle()](const peer::Event& event) {
    return event.name == "completion" && event.body.value("cq", std::uint64_t{0}) == handle;
  };
  const std::int64_t within = expected ? bench_->patience().answer : bench_->patience().silence;
  const bool came = bench_->next_event(within, of_this_queue).has_value();
  const auto words = [](bool yes) { return yes ? "a notification of the completion queue" : "no notification"; };
  bench_->require(came == expected, words(expected), words(came));
}

void Connected::drops(const Stimulus& bad) {
  const std::string payload = octets(12, 0x70);
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

void Connected::holds(std::uint64_t offset, const std::string& expected) {
  const auto found = bench_->take(region.read(offset, expected.size()), "read the memory region");
  bench_->require(same(found, expected),
                  fmt::format("{} octets as expected at offset {} of the memory region", expected.size(), offset),
                  difference(found, expected));
}

void Connected::received(std::uint64_t wr_id, const std::string& expected) {
  const auto found =
      bench_->take(inbox.read(wr_id * options.receive_octets, expected.size()), "read what was received");
  bench_->require(same(found, expected),
                  fmt::format("the {} octets that were sent in receive request {}", expected.size(), wr_id),
                  difference(found, expected));
}

void Connected::fill(std::uint64_t offset, const std::string& octets) {
  bench_->take(region.write(offset, Bytes(reinterpret_cast<const std::uint8_t*>(octets.data()), octets.size())),
               fmt::format("{} octets written to the memory region at offset {}", octets.size(), offset));
}

}  // namespace rdmawire::conformance
