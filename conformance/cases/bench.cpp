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

}  // namespace

void Bench::refused(const peer::PeerError& error, const std::string& what) {
  const bool lacking = error.number == EOPNOTSUPP || error.number == ENOSYS || error.number == ENOTSUP;
  end_case(lacking ? Verdict::unsupported : Verdict::error, fmt::format("{}: {}", what, error.message));
}

Connected& Bench::connect(const ConnectOptions& options) {
  const peer::Device& device = *device_.device;
  if (domains_.empty()) domains_.push_back(take(device.protection_domain(), "a protection domain"));
  const peer::ProtectionDomain& domain = domains_.front();
  peer::CompletionQueue cq = take(device.completion_queue(256), "a completion queue");
  peer::Region region = take(domain.region(options.region_octets, options.region_access),
                             fmt::format("a memory region of {} octets", options.region_octets));
  const std::uint64_t inbox_octets = std::max<std::uint64_t>(std::uint64_t{64} * options.receive_octets, 64);
  peer::Region inbox = take(domain.region(inbox_octets, {"local_write"}), "memory for receive requests");
  const bool rc = options.transport == Transport::rc;
  peer::QueuePair qp = take(domain.queue_pair({.type = rc ? "rc" : "uc",
                                               .send_cq = &cq,
                                               .max_send_wr = options.send_wr,
                                               .max_recv_wr = 64,
                                               .max_inline_data = options.inline_octets,
                                               .send_ops = options.send_ops}),
                            "a queue pair");
  constexpr std::uint32_t psns = 1U << 24, first_qpn = 0x100000, qpns = 0x700000;
  TesterQueuePair end;
  end.transport = options.transport;
  end.path = device_.path;
  end.path.hop_limit = options.hop_limit;
  end.device_qpn = qp.qp_num();
  end.tester_qpn = first_qpn + any(qpns);
  end.ours = Psn(options.first_psn < 0 ? any(psns) : static_cast<std::uint32_t>(options.first_psn));
  end.theirs = Psn(options.device_psn < 0 ? any(psns) : static_cast<std::uint32_t>(options.device_psn));
  end.mtu = options.mtu;
  std::string address;
  for (std::size_t i = 0; i < end.path.tester_address.size(); i += 2)
    address += fmt::format("{}{:02x}{:02x}", i ? ":" : "", end.path.tester_address[i], end.path.tester_address[i + 1]);
  take(qp.connect({.qp_num = end.tester_qpn,
                   .address = address,
                   .psn = end.ours.value(),
                   .own_psn = end.theirs.value(),
                   .mtu = options.mtu,
                   .timeout = options.timeout,
                   .retry_cnt = options.retry_cnt,
                   .rnr_retry = options.rnr_retry,
                   .min_rnr_timer = options.min_rnr_timer,
                   .max_rd_atomic = options.own_reads,
                   .max_dest_rd_atomic = options.reads_at_once,
                   .access = options.access,
                   .sgid_index = device_.gid_index,
                   .hop_limit = options.hop_limit,
                   .traffic_class = options.traffic_class}),
       fmt::format("queue pair {:#x} connected to the tester's {:#x}, which begins at PSN {}, itself at {}",
                   end.device_qpn, end.tester_qpn, end.ours.value(), end.theirs.value()));
  listen_to(end);
  connected_.emplace_back(*this, std::move(end), std::move(cq), std::move(region), std::move(inbox), std::move(qp),
                          options);
  if (options.receives) connected_.back().post_receives(options.receives);
  return connected_.back();
}

void Connected::post_receives(std::uint32_t count) {
  std::vector<peer::ReceiveRequest> requests;
  for (std::uint32_t i = 0; i < count; ++i, ++posted_receives_)
    requests.push_back(
        {posted_receives_,
         {inbox.piece(std::uint64_t{posted_receives_} * options.receive_octets, options.receive_octets)}});
  bench_->take(qp.post_recv(requests), fmt::format("{} receive requests of {} octets", count, options.receive_octets));
}

void Connected::post(peer::SendRequest request) {
  const std::string what = fmt::format("send request {}: {}", request.wr_id, request.opcode);
  bench_->take(qp.post_send({std::move(request)}), what);
}

peer::Completion Connected::completes(std::uint64_t wr_id, const std::string& status) {
  auto completions = bench_->take(cq.poll(1, bench_->answer_time()), "poll for a completion");
  const std::string expected = fmt::format("completion of {} with {}", wr_id, status);
  const bool as_expected =
      !completions.empty() && completions.front().wr_id == wr_id && completions.front().status == status;
  bench_->require(as_expected, expected, completions.empty() ? "no completion" : text_of(completions.front()));
  return completions.front();
}

void Connected::completes_nothing() {
  const auto completions = bench_->take(cq.poll(1, bench_->silence_time()), "poll for a completion");
  bench_->require(completions.empty(), "no completion", completions.empty() ? "" : text_of(completions.front()));
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
