#include "conformance/runner/preflight.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <thread>

#include "conformance/runner/run.hpp"
#include "conformance/runner/transfer.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/infiniband.hpp"

namespace rdmawire::conformance {
namespace {

using Json = nlohmann::json;
using Status = Finding::Status;

constexpr std::uint32_t mtu_of_cases = 1024;
constexpr std::uint32_t room_for_headers =
    200;  // Ethernet with a VLAN tag, IPv6, UDP, BTH, the largest extensions, ICRC
constexpr std::uint16_t full_member = 0x8000;

/// Both clocks at the same time. The agent's is accurate to half of the round-trip time.
struct Reading {
  std::int64_t ours = 0, theirs = 0, half_trip = 0;
};

std::optional<Reading> read_clocks(DeviceUnderTest& device) {
  std::optional<Reading> best;
  for (int i = 0; i < 8; ++i) {
    const std::int64_t before = device.now();
    const auto answer = device.peer->call("ping");
    const std::int64_t after = device.now();
    if (!answer || !answer->contains("time_ns")) return best;
    const Reading reading{before + (after - before) / 2, answer->value("time_ns", std::int64_t{0}),
                          (after - before) / 2};
    if (!best || reading.half_trip < best->half_trip) best = reading;
  }
  return best;
}

class Look {
 public:
  Look(Target& target, const PreflightOptions& options)
      : target_(target), device_(target.device()), options_(options) {}

  std::vector<Finding> all() {
    agent();
    port();
    if (!device_.is_iwarp()) {
      gids();
      pkeys();
    }
    reach();
    if (device_.virtual_time())
      found("clocks", "one virtual clock for tester and device");
    else
      clocks();
    if (!device_.is_iwarp()) quiet();
    rights();
    transfer();
    return std::move(findings_);
  }

 private:
  void add(Status status, std::string what, std::string found, std::string advice = {}) {
    findings_.push_back({status, std::move(what), std::move(found), std::move(advice)});
  }
  void found(std::string what, std::string is) { add(Status::pass, std::move(what), std::move(is)); }
  /// Adds a pass, or the status `otherwise` with the advice.
  void holds(bool it_does, Status otherwise, std::string what, std::string is, std::string advice) {
    add(it_does ? Status::pass : otherwise, std::move(what), std::move(is),
        it_does ? std::string() : std::move(advice));
  }

  void agent() {
    const Json& hello = device_.peer->hello();
    const int protocol = hello.value("protocol", 0);
    const std::string program = hello.value("agent", "?");
    holds(protocol == 1, Status::fail, "agent's protocol", fmt::format("version {}", protocol),
          "install the rdmawire-agent of this version on the device's host");
    if (device_.name == "reference") return;
    holds(program.ends_with(" " RDMAWIRE_VERSION), Status::warn, "agent", program,
          "its version differs from this program's, " RDMAWIRE_VERSION
          "; unknown commands make cases "
          "unsupported");
  }

  void port() {
    const auto asked =
        device_.peer->call("port", {{"device", device_.device->handle()}, {"port", device_.device->port().number}});
    if (!asked) {
      add(Status::fail, "port", asked.error().message, "check that the agent may open the device's verbs");
      return;
    }
    port_ = *asked;
    const auto text = [&](const char* key) {
      const auto at = port_.find(key);
      return at != port_.end() && at->is_string() ? at->get<std::string>() : std::string("?");
    };
    holds(text("state") == "active", Status::fail, "link", text("state"),
          "connect the cable, enable the interface, and check that both sides agree on speed and FEC");
    holds(text("link_layer") == "ethernet", Status::fail, "link layer", text("link_layer"),
          "the cases test RoCEv2 and iWARP: set the port type to Ethernet");
    if (device_.is_iwarp()) return;
    const std::uint32_t mtu = port_.value("active_mtu", 0U);
    holds(mtu >= mtu_of_cases, Status::fail, "path MTU", fmt::format("{} bytes", mtu),
          fmt::format("the cases use {}: set the interface MTU to {} or more", mtu_of_cases,
                      mtu_of_cases + room_for_headers));
    const std::uint32_t wire = device_.wire->capabilities().max_bytes;
    holds(wire >= mtu_of_cases + room_for_headers, Status::fail, "tester's frames", fmt::format("up to {} bytes", wire),
          fmt::format("set the MTU of the tester's port to {} or more", mtu_of_cases + room_for_headers));
  }

  void gids() {
    const peer::Gid& gid = device_.device->gid();
    holds(gid.type == "roce_v2", Status::fail, "GID", fmt::format("{}: {}, {}", gid.index, gid.text, gid.type),
          "assign an IPv4 address to the port, so that its GID table has a RoCEv2 entry for it");
    holds(device_.ipv6.has_value(), Status::warn, "GID of IPv6",
          device_.ipv6 ? fmt::format("index {}", device_.ipv6->gid_index) : "none",
          "assign an IPv6 address to the port; otherwise the cases over IPv6 are unsupported");
    holds(device_.vlan.has_value(), Status::warn, "GID of a VLAN",
          device_.vlan ? fmt::format("VLAN {}, index {}", device_.vlan->path.vlan, device_.vlan->gid_index) : "none",
          "add a VLAN interface with an IPv4 address to the port; otherwise the cases with VLAN tags are unsupported");
  }

  void pkeys() {
    const Json table = port_.value("pkeys", Json::array());
    std::string text;
    std::size_t used = 0;
    for (const Json& key : table) {
      const auto number = key.is_number_unsigned() ? key.get<std::uint32_t>() : 0;
      if (number == 0) continue;
      if (++used <= 8) text += fmt::format("{}{:#06x}", text.empty() ? "" : ", ", number);
    }
    const bool full = !table.empty() && table[0].is_number_unsigned() && (table[0].get<std::uint32_t>() & full_member);
    holds(full, Status::fail, "P_Key table", used == 0 ? "empty" : text,
          "entry 0 must be a full member, 0xffff in the default partition; check the port's configuration");
  }

  void reach() { found("wire", fmt::format("{} leads to {}", target_.wire(), target_.destinations())); }

  void clocks() {
    const auto first = read_clocks(device_);
    std::this_thread::sleep_for(std::chrono::nanoseconds(options_.clocks));
    const auto second = read_clocks(device_);
    if (!first || !second) {
      add(Status::warn, "clocks", "the agent does not report its clock", "install the rdmawire-agent of this version");
      return;
    }
    const auto ours = static_cast<double>(second->ours - first->ours);
    const auto theirs = static_cast<double>(second->theirs - first->theirs);
    const double parts = (theirs - ours) / ours * 1e6;
    const double sure = static_cast<double>(first->half_trip + second->half_trip) / ours * 1e6;
    constexpr double most_parts = 1000;  // ppm. The tolerance of the cases' timers is much larger
    holds(std::abs(parts) <= most_parts + sure, Status::warn, "clocks",
          fmt::format("the device's host differs by {:+.0f} ppm (±{:.0f}); {:.1f} µs round trip to the "
                      "agent",
                      parts, sure, static_cast<double>(2 * second->half_trip) / 1e3),
          "measured times are unreliable: check the clock sources of both hosts");
  }

  void quiet() {
    std::map<std::string, std::size_t> seen;
    std::size_t rdma = 0;
    const std::int64_t until = device_.wire->now() + options_.listening;
    for (std::size_t most = 100'000; most > 0; --most) {
      const auto received = device_.wire->receive(until);
      if (!received) {
        add(Status::fail, "quiet", received.error().message, "check that the tester's port stays up");
        return;
      }
      if (!*received) break;
      if ((*received)->own) continue;
      const HeaderStack stack = decode((*received)->frame);
      const bool is_rdma = static_cast<bool>(stack.get<Bth>());
      rdma += is_rdma;
      ++seen[is_rdma ? "RoCE" : "other"];
    }
    std::string text;
    for (const auto& [kind, count] : seen) text += fmt::format("{}{} {} frames", text.empty() ? "" : ", ", count, kind);
    const auto time = static_cast<double>(options_.listening) / 1e6;
    holds(rdma == 0, Status::warn, "quiet", fmt::format("{} in {:.0f} ms", text.empty() ? "no frame" : text, time),
          "another host sends RDMA traffic on this link: stop it, because cases would attribute its frames to the "
          "device");
  }

  void rights() {
    constexpr std::uint64_t some_memory = 1U << 20;
    std::string lacks;
    const auto domain = device_.device->protection_domain();
    if (!domain) {
      lacks = domain.error().message;
    } else if (const auto region = domain->region(some_memory, {"local_write", "remote_write", "remote_read"});
               !region) {
      lacks = region.error().message;
    }
    holds(
        lacks.empty(), Status::fail, "agent's rights", lacks.empty() ? "verbs, and 1 MiB of locked memory" : lacks,
        "the agent needs access to /dev/infiniband/uverbs*, locked memory (ulimit -l), and CAP_NET_RAW for privileged "
        "Q_Keys");
  }

  void transfer() {
    const Judgment works = sanity(device_, options_.seed);
    // A violation is a result of the run, not an error of the bench.
    if (works.rule)
      return add(Status::warn, "transfer", "the device violates " + text_of_violation(works),
                 "cases of other rules cannot be evaluated until the device conforms to this one");
    holds(works.verdict == Verdict::pass, Status::fail, "transfer",
          works.verdict == Verdict::pass
              ? device_.is_iwarp() ? "a Send was executed" : "a SEND was executed and acknowledged"
              : works.actual,
          "a transfer is required: check for packet filters (iptables, switches, flow rules) on the path, and for "
          "another host with the tester's addresses");
  }

  Target& target_;
  DeviceUnderTest& device_;
  const PreflightOptions options_;
  Json port_ = Json::object();
  std::vector<Finding> findings_;
};

}  // namespace

std::string_view to_string(Finding::Status status) {
  switch (status) {
    case Status::pass: return "pass";
    case Status::warn: return "warn";
    case Status::fail: return "fail";
  }
  return "fail";
}

std::vector<Finding> preflight(Target& target, const PreflightOptions& options) { return Look(target, options).all(); }

Finding unreachable(const TargetError& error) {
  return {Status::fail, "device", error.message, "docs/how-to/test-a-nic.md describes the setup of a bench"};
}

bool has_failure(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.status == Status::fail; });
}

std::string text_of(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += fmt::format("{}  {:<18} {}\n", to_string(finding.status), finding.what, finding.found);
    if (!finding.advice.empty()) text += fmt::format("      {:<18} {}\n", "", finding.advice);
  }
  return text;
}

}  // namespace rdmawire::conformance
