/// Port counters: IBTA vol 1, 16.1.3.5 (saturation at all ones), 14.2.5.6 (violations of P_Keys and Q_Keys have 16
/// bits, clause number not verified).

#include <fmt/format.h>

#include "conformance/cases/files.hpp"

namespace rdmawire::conformance::port_counters_cases {
namespace {

constexpr std::uint64_t all_ones = 0xffff;

/// Reads a counter of the port by the agent's name.
std::uint64_t read(Bench& bench, const char* name) {
  const auto port = bench.device().peer->call("port", {{"device", bench.device().device->handle()}, {"port", 1}});
  if (!port) end_case(Verdict::error, "query the port: " + port.error().message);
  return port->value(name, std::uint64_t{0});
}

/// Sends the packet `times` times and returns the counter, so that a device that counts has increased it.
std::uint64_t count_up(Bench& bench, const Stimulus& bad, const char* name, std::uint64_t times) {
  constexpr std::uint64_t burst = 256;  // fits into the receive queue of a network interface
  const std::vector<std::uint8_t> frame = bad.bytes();
  for (std::uint64_t sent = 0; sent < times; ++sent) {
    while (true) {
      const auto done = bench.wire().send(frame);
      if (done) break;
      if (done.error().kind != replay::WireError::Kind::full)
        end_case(Verdict::error, "the tester could not send: " + done.error().message);
    }
    if (sent % burst == burst - 1) bench.pass(500'000);
  }
  bench.pass(20'000'000);
  return read(bench, name);
}

// Verbs cannot preset such a counter, so it is counted up from its current value.
void saturates(Bench& bench, const Stimulus& bad, const char* name) {
  constexpr int attempts = 20;  // some packets may be lost
  bench >> bad;
  bench << silence();
  std::uint64_t value = read(bench, name);
  if (value == 0) end_case(Verdict::unsupported, fmt::format("the device does not count: {} is 0", name));
  for (int attempt = 0; attempt < attempts && value < all_ones; ++attempt) {
    const std::uint64_t now = count_up(bench, bad, name, all_ones - value);
    bench.require(now >= value, fmt::format("{} no lower than {}", name, value), fmt::format("{}", now));
    if (now == value) end_case(Verdict::inconclusive, fmt::format("{} stopped counting at {}", name, value));
    value = now;
  }
  bench.require(value == all_ones, fmt::format("{} at all ones, {}", name, all_ones), fmt::format("{}", value),
                value < all_ones ? Verdict::inconclusive : Verdict::fail);
  value = count_up(bench, bad, name, 32);
  bench.require(value == all_ones, fmt::format("{} still {}", name, all_ones), fmt::format("{}", value));
}
void violations_of_pkeys(Bench& bench) {
  const Connected& qp = bench.rc();
  saturates(bench, qp.send_only(psn(+0)).with<Bth, "pkey">(0x8123, "with P_Key 0x8123"), "bad_pkey_counter");
}
void violations_of_qkeys(Bench& bench) {
  const Connected& qp = bench.ud();
  saturates(bench, qp.datagram(psn(+0), qp.options.qkey ^ 1), "qkey_violations");
}

}  // namespace

std::span<const Case> all() {
  static constexpr Case list[] = {
      {.rule = "port.verbs.counters.saturate",
       .variant = "P_Key violations",
       .run = violations_of_pkeys,
       .caution = RunPolicy::slow},
      {.rule = "port.verbs.counters.saturate",
       .variant = "Q_Key violations",
       .needs = Need::ud,
       .run = violations_of_qkeys,
       .caution = RunPolicy::slow},
  };
  return list;
}

}  // namespace rdmawire::conformance::port_counters_cases
