/// Memory windows, tables and counters: IBTA vol 1, 10.6 (memory), 10.6.7.2.6 (deregistration), C10-72 to C10-77 and
/// Table 78 (windows), C10-2 and A17.7.1 (tables of a port).

#include <fmt/format.h>

#include <cerrno>

#include "conformance/cases/fast_region.hpp"
#include "conformance/cases/files.hpp"

namespace rdmawire::conformance::queue_pair_memory_cases {
namespace {

using nlohmann::json;

const peer::Names bindable = {"local_write", "remote_write", "remote_read", "mw_bind"};

/// A bind of a type 2 window onto the queue pair's region, as a work request.
peer::SendRequest bind(const peer::MemoryWindow& window, const peer::Region& region, json changes = json::object()) {
  json more = {{"mw", window.handle()},
               {"mr", region.handle()},
               {"new_rkey", (window.rkey() & ~0xffU) | ((window.rkey() + 1) & 0xffU)},
               {"addr", region.addr()},
               {"length", 64},
               {"access", {"remote_read"}}};
  more.update(changes);
  return {.opcode = "bind_mw", .wr_id = 0, .more = std::move(more)};
}

// An invalid bind is rejected immediately or completes in error, and has no effect.
void is_not_bound(Bench& bench, Connected& qp, const peer::SendRequest& request, const std::string& what) {
  const auto posted = qp.qp.post_send({request});
  if (!posted) return bench.note(what + " is rejected immediately: " + posted.error().message);
  qp.fails(0);
}
peer::MemoryWindow window_of(Bench& bench, std::size_t domain = 0) {
  return bench.take(bench.domain(domain).memory_window(2), "a memory window of type 2");
}

void a_region_without_the_right_to_bind(Bench& bench) {
  Connected& qp = bench.rc();
  const peer::MemoryWindow window = window_of(bench);
  is_not_bound(bench, qp, bind(window, qp.region), "a bind to a region without MW bind access");
}
void more_rights_than_the_region(Bench& bench) {
  Connected& qp = bench.rc({.region_access = {"remote_read", "mw_bind"}});
  const peer::MemoryWindow window = window_of(bench);
  is_not_bound(bench, qp, bind(window, qp.region, {{"access", {"remote_write"}}}),
               "a window for writing to a region without local write");
}
void beyond_the_region(Bench& bench) {
  Connected& qp = bench.rc({.region_access = bindable});
  const peer::MemoryWindow window = window_of(bench);
  is_not_bound(bench, qp, bind(window, qp.region, {{"addr", qp.region.addr() + qp.region.size() - 63}}),
               "a window one byte beyond its region");
}
void around_the_address_space(Bench& bench) {
  Connected& qp = bench.rc({.region_access = bindable});
  const peer::MemoryWindow window = window_of(bench);
  is_not_bound(bench, qp,
               bind(window, qp.region, {{"length", std::uint64_t{0} - qp.region.addr() + qp.region.addr() / 2}}),
               "a window whose end wraps");
}
void another_domain(Bench& bench) {
  Connected& qp = bench.rc({.region_access = bindable});
  const peer::MemoryWindow window = window_of(bench, 1);
  is_not_bound(bench, qp, bind(window, qp.region), "a window of another protection domain");
}
void bound_already(Bench& bench) {
  Connected& qp = bench.rc({.region_access = bindable});
  const peer::MemoryWindow window = window_of(bench);
  qp.post(bind(window, qp.region));
  qp.completes(0);
  is_not_bound(bench, qp, bind(window, qp.region), "a window that is bound");
}

/// Checks that the device invalidates a window of type 2, so that a rejected invalidate of another window has another
/// reason.
void invalidates_type_2(Bench& bench) {
  if (!bench.domain().memory_window(2)) return bench.note("the device has no memory windows of type 2");
  Connected& qp = bench.rc({.region_access = bindable});
  const std::uint32_t key = bench.bound_window(qp, 0, 64, {"remote_read"});
  qp.post({.opcode = "local_inv", .wr_id = 1, .invalidate_rkey = key});
  qp.completes(1);
}

// o10-37.2.26: the request is refused because of the type of the window, which stays valid.
void type_1_is_not_invalidated(Bench& bench) {
  invalidates_type_2(bench);
  Connected& qp = bench.rc({.region_access = bindable});
  Connected& reader = bench.rc();
  peer::MemoryWindow window = bench.take(bench.domain().memory_window(1), "a memory window of type 1");
  const std::uint32_t key = bench.take(window.bind(qp.qp, qp.region, 0, 64, {"remote_read"}, true), "the window bound");
  const auto bound = bench.take(qp.cq.poll(1, bench.answer_time()), "poll for the bind's completion");
  bench.require(!bound.empty() && bound.front().good(), "the bind completed with success",
                bound.empty() ? "no completion" : text_of(bound.front()));
  const auto reads = [&](psn at) {
    bench >> reader.read(at, {.va = qp.region.addr(), .rkey = key, .length = 8});
    bench << read_response(Position::only, at);
  };
  reads(psn(+0));
  const auto posted = qp.qp.post_send({{.opcode = "local_inv", .wr_id = 1, .invalidate_rkey = key}});
  if (posted)
    qp.fails(1);
  else
    bench.is_refused_with(posted, {EINVAL}, "the invalidate of a window of type 1");
  reads(psn(+1));
}

// 10.6.7.2.6
void a_region_with_a_window_stays(Bench& bench) {
  Connected& qp = bench.rc({.region_access = bindable});
  bench.bound_window(qp, 0, 64, {"remote_read"});
  bench.is_refused(bench.device().peer->call("destroy", {{"object", qp.region.handle()}}),
                   "deregistering a region with a window");
}

// C10-77
void no_write_through_a_window_for_reading(Bench& bench) {
  Connected& qp = bench.rc({.region_access = bindable});
  const std::uint32_t key = bench.bound_window(qp, 0, 64, {"remote_read"});
  bench >> qp.read(psn(+0), {.va = qp.region.addr(), .rkey = key, .length = 8});
  bench << read_response(Position::only, psn(+0));
  bench >> qp.write_only(psn(+1), {.payload = pattern_bytes(8), .va = qp.region.addr(), .rkey = key});
  bench << nak_remote_access(psn(+1));
  qp.holds(0, std::string(8, '\0'));
}
void nothing_beyond_the_window(Bench& bench) {
  Connected& qp = bench.rc({.region_access = bindable});
  const std::uint32_t key = bench.bound_window(qp, 0, 64, {"remote_read"});
  bench >> qp.read(psn(+0), {.va = qp.region.addr() + 57, .rkey = key, .length = 8});
  bench << nak_remote_access(psn(+0));
}
// o10-37.2.43: a type 2B window is usable only on its QP.
void not_on_another_queue_pair(Bench& bench) {
  Connected& qp = bench.rc({.region_access = bindable});
  Connected& other = bench.rc();
  const std::uint32_t key = bench.bound_window(qp, 0, 64, {"remote_read"});
  bench >> other.read(psn(+0), {.va = qp.region.addr(), .rkey = key, .length = 8});
  bench << nak_remote_access(psn(+0));
}
// 10.6.5
void not_after_its_invalidate(Bench& bench) {
  Connected& qp = bench.rc({.region_access = bindable});
  const std::uint32_t key = bench.bound_window(qp, 0, 64, {"remote_read"});
  bench >> qp.read(psn(+0), {.va = qp.region.addr(), .rkey = key, .length = 8});
  bench << read_response(Position::only, psn(+0));
  qp.post({.opcode = "local_inv", .wr_id = 1, .invalidate_rkey = key});
  qp.completes(1);
  bench >> qp.read(psn(+1), {.va = qp.region.addr(), .rkey = key, .length = 8});
  bench << nak_remote_access(psn(+1));
}
void reads_with(Bench& bench, Connected& qp, psn at, const FastRegion& region, std::uint32_t n) {
  bench >> qp.read(at, {.va = region.address, .rkey = region.key(n), .length = 8});
}
// 10.6.3.7: the key is valid from the execution of the work request on.
void not_before_it_is_registered(Bench& bench) {
  const FastRegion region(bench);
  Connected& early = bench.rc();
  reads_with(bench, early, psn(+0), region, 1);
  early.refuses(nak_remote_access(psn(+0)));
  Connected& qp = bench.rc();
  region.registers(qp, 0, 1);
  reads_with(bench, qp, psn(+0), region, 1);
  bench << read_response(Position::only, psn(+0)).carrying(std::string(8, '\0'));
}
// After another registration, only the new key is valid.
void the_key_before_is_bad(Bench& bench) {
  const FastRegion region(bench);
  Connected& qp = bench.rc();
  region.registers(qp, 0, 1);
  qp.post({.opcode = "local_inv", .wr_id = 1, .invalidate_rkey = region.key(1)});
  qp.completes(1);
  region.registers(qp, 2, 2);
  reads_with(bench, qp, psn(+0), region, 2);
  bench << read_response(Position::only, psn(+0));
  reads_with(bench, qp, psn(+1), region, 1);
  bench << nak_remote_access(psn(+1));
}
// 10.6.5
void not_after_the_regions_invalidate(Bench& bench) {
  const FastRegion region(bench);
  Connected& qp = bench.rc();
  region.registers(qp, 0, 1);
  reads_with(bench, qp, psn(+0), region, 1);
  bench << read_response(Position::only, psn(+0));
  qp.post({.opcode = "local_inv", .wr_id = 1, .invalidate_rkey = region.key(1)});
  qp.completes(1);
  reads_with(bench, qp, psn(+1), region, 1);
  bench << nak_remote_access(psn(+1));
}
// o10-2.2.5
void its_queue_pair_can_go(Bench& bench) {
  Connected& qp = bench.rc({.region_access = bindable});
  bench.bound_window(qp, 0, 64, {"remote_read"});
  const std::string what = "the QP destroyed while a type 2B window is bound to it";
  auto destroyed = qp.qp.release();
  // A device that waits for the release of the window would wait indefinitely.
  if (!destroyed && destroyed.error().kind == peer::PeerError::Kind::timeout)
    bench.require(false, what, "no reply: " + destroyed.error().message);
  bench.take(std::move(destroyed), what);
}

json port(Bench& bench) {
  return bench.take(bench.device().peer->call("port", {{"device", bench.device().device->handle()}}), "the port");
}
// C10-2, A17.7.1: the first P_Key is the default P_Key, and the first GID is the port's own.
void first_entries(Bench& bench) {
  const json tables = port(bench);
  const auto& pkeys = tables.at("pkeys");
  bench.require(!pkeys.empty() && (pkeys[0].get<unsigned>() & 0x7fff) == 0x7fff, "the default P_Key first",
                pkeys.dump());
  const auto& gids = tables.at("gids");
  bench.require(!gids.empty() && gids[0].at("index") == 0, "a GID at index 0", gids.empty() ? "none" : gids[0].dump());
  bench.require(gids[0].at("gid").get<std::string>().starts_with("fe80:"), "a link-local GID at index 0",
                gids[0].dump());
}
// CA17-26
void every_gid_has_a_type(Bench& bench) {
  const json tables = port(bench);
  for (const auto& gid : tables.at("gids")) {
    const std::string type = gid.value("type", "");
    bench.require(type == "roce_v1" || type == "roce_v2", "a type of RoCE for each GID", gid.dump());
  }
}

// The device's counters match the actions of the tester.
void counts(Bench& bench, std::initializer_list<const char*> names, std::uint64_t times,
            const std::function<void()>& events) {
  bench.pass(20'000'000);
  const auto before = bench.counter(names);
  if (!before) end_case(Verdict::unsupported, fmt::format("the device has no counter {}", *names.begin()));
  events();
  bench.pass(20'000'000);  // Linux returns counter values that are up to some milliseconds old
  const std::uint64_t counted = bench.counter(names).value_or(0) - *before;
  bench.require(counted == times, fmt::format("{} by {}", *names.begin(), times), fmt::format("by {}", counted));
}
void duplicates_are_counted(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1});
  bench >> qp.send_only(psn(+0));
  bench << acknowledged(psn(+0));
  counts(bench, {"duplicate_request"}, 2, [&] {
    for (int i = 0; i < 2; ++i) {
      bench >> qp.send_only(psn(+0));
      bench << acknowledged(psn(+0));
    }
  });
}
void gaps_are_counted(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1});
  counts(bench, {"out_of_seq_request", "out_of_sequence"}, 1, [&] {
    bench >> qp.send_only(psn(+1));
    bench << nak_sequence_error(psn(+0));
  });
}
void rnr_naks_are_counted(Bench& bench) {
  Connected& qp = bench.rc();
  counts(bench, {"send_rnr_err", "rnr_nak_sent"}, 1, [&] {
    bench >> qp.send_only(psn(+0));
    bench << rnr_nak(psn(+0));
  });
}
void received_rnr_naks_are_counted(Bench& bench) {
  Connected& qp = bench.rc({.timeout = 20});
  counts(bench, {"rcvd_rnr_err", "rnr_nak_received"}, 1, [&] {
    qp.device_sends(0);
    bench << a_send(psn(+0));
    bench >> qp.rnr_nak(1, psn(+0), 0);
    bench << a_send(psn(+0));
    bench >> qp.ack(psn(+0), 1);
    qp.completes(0);
  });
}
void exhausted_retries_are_counted(Bench& bench) {
  Connected& qp = bench.rc({.timeout = 12, .retry_cnt = 1});
  counts(bench, {"retry_exceeded_err"}, 1, [&] {
    qp.device_sends(0);
    qp.completes(0, "retry_exc_err");
  });
}

}  // namespace

std::span<const Case> all() {
  constexpr Role verbs = Role::verbs;
  constexpr Need windows = Need::memory_windows;
  static constexpr Case list[] = {
      {.rule = "memory.verbs.window.bind-refused",
       .variant = "region without MW bind access",
       .role = verbs,
       .needs = windows,
       .run = a_region_without_the_right_to_bind},
      {.rule = "memory.verbs.window.bind-refused",
       .variant = "more rights than the region",
       .role = verbs,
       .needs = windows,
       .run = more_rights_than_the_region},
      {.rule = "memory.verbs.window.bind-refused",
       .variant = "out of bounds by one",
       .role = verbs,
       .needs = windows,
       .run = beyond_the_region},
      {.rule = "memory.verbs.window.bind-refused",
       .variant = "address space wraps",
       .role = verbs,
       .needs = windows,
       .run = around_the_address_space},
      {.rule = "memory.verbs.window.bind-refused",
       .variant = "another protection domain",
       .role = verbs,
       .needs = windows,
       .run = another_domain},
      {.rule = "memory.verbs.window.bind-refused",
       .variant = "bound already",
       .role = verbs,
       .needs = windows,
       .run = bound_already},
      {.rule = "memory.verbs.window.type-1-not-invalidated", .role = verbs, .run = type_1_is_not_invalidated},
      {.rule = "memory.verbs.region.deregister-with-windows",
       .role = verbs,
       .needs = windows,
       .run = a_region_with_a_window_stays},
      {.rule = "memory.responder.window.rights",
       .variant = "WRITE",
       .needs = windows,
       .run = no_write_through_a_window_for_reading},
      {.rule = "memory.responder.window.rights",
       .variant = "out of bounds by one",
       .needs = windows,
       .run = nothing_beyond_the_window},
      {.rule = "memory.responder.window.other-queue-pair", .needs = windows, .run = not_on_another_queue_pair},
      {.rule = "memory.responder.region.fast-register", .variant = "not before", .run = not_before_it_is_registered},
      {.rule = "memory.responder.region.fast-register", .variant = "preceding key", .run = the_key_before_is_bad},
      {.rule = "memory.responder.region.local-invalidate",
       .variant = "window",
       .needs = windows,
       .run = not_after_its_invalidate},
      {.rule = "memory.responder.region.local-invalidate",
       .variant = "region",
       .run = not_after_the_regions_invalidate},
      {.rule = "port.verbs.tables.first-entries", .role = verbs, .run = first_entries},
      {.rule = "port.verbs.tables.gid-type", .role = verbs, .run = every_gid_has_a_type},
      {.rule = "port.verbs.counters.as-the-wire", .variant = "duplicates", .run = duplicates_are_counted},
      {.rule = "port.verbs.counters.as-the-wire", .variant = "out of sequence", .run = gaps_are_counted},
      {.rule = "port.verbs.counters.as-the-wire", .variant = "RNR NAKs", .run = rnr_naks_are_counted},
      {.rule = "port.verbs.counters.as-the-wire",
       .variant = "RNR NAKs received",
       .role = Role::requester,
       .run = received_rnr_naks_are_counted},
      {.rule = "port.verbs.counters.as-the-wire",
       .variant = "retries exhausted",
       .role = Role::requester,
       .run = exhausted_retries_are_counted},
      {.rule = "memory.verbs.window.queue-pair-destroyed",
       .role = verbs,
       .needs = windows,
       .run = its_queue_pair_can_go,
       .caution = RunPolicy::dangerous},
  };
  return list;
}

}  // namespace rdmawire::conformance::queue_pair_memory_cases
