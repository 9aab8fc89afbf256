#include "conformance/lab/scenario.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "replay/faults/program.hpp"

namespace rdmawire::lab {
namespace {

constexpr unsigned longest_frame = 9000;
constexpr std::uint16_t rdmacm_port = 7174;
constexpr std::uint16_t perftest_port = 18515;
constexpr std::uint16_t nvme_port = 4420;

// perftest connects twice with -R, and its server listens again for the second connection.
constexpr std::string_view rejected = "Failed to handle RDMA CM event.";

// ACK timeout of 268 ms instead of the default 67 ms, because emulated guests are slow.
#define PERFTEST(program) program " -n {iterations} -u 16 -F -p {port} -d {device} {IPV6:--ipv6} "

constexpr std::string_view nvme_server = R"(set -e
modprobe nvmet; modprobe nvmet-rdma; modprobe brd rd_nr=1 rd_size=4096
cd /sys/kernel/config/nvmet
mkdir subsystems/rdmawire
echo 1 >subsystems/rdmawire/attr_allow_any_host
mkdir subsystems/rdmawire/namespaces/1
echo /dev/ram0 >subsystems/rdmawire/namespaces/1/device_path
echo 1 >subsystems/rdmawire/namespaces/1/enable
mkdir ports/1
echo {FAMILY} >ports/1/addr_adrfam
echo rdma >ports/1/addr_trtype
echo {port} >ports/1/addr_trsvcid
echo {server} >ports/1/addr_traddr
ln -s /sys/kernel/config/nvmet/subsystems/rdmawire ports/1/subsystems/rdmawire)";
constexpr std::string_view nvme_client = R"(set -e
modprobe nvme-rdma
target="-t rdma -a {server} -s {port}"
nvme discover $target
nvme connect $target -n rdmawire -i 1 -Q 16
until [ -b /dev/nvme0n1 ]; do usleep 20000; done
dd if=/dev/urandom of=/tmp/written bs={size} count={iterations} 2>/dev/null
dd if=/tmp/written of=/dev/nvme0n1 bs={size} oflag=direct
dd if=/dev/nvme0n1 of=/tmp/read bs={size} count={iterations} iflag=direct
cmp /tmp/written /tmp/read
rm /tmp/written /tmp/read
nvme disconnect -n rdmawire)";
constexpr std::string_view nvme_clean = R"(cd /sys/kernel/config/nvmet
rm -f ports/1/subsystems/rdmawire
rmdir ports/1 subsystems/rdmawire/namespaces/1 subsystems/rdmawire
rmmod brd)";

// clang-format off
constexpr auto table = std::to_array<Scenario>({
    {"rping", "alternating SEND, RDMA READ and RDMA WRITE, connected by the CM", true, true, Readiness::cm, rdmacm_port, 10, 4000,
     "rping -s -V -a {server} -C {iterations} -S {size}",
     "rping -c -V -a {server} -C {iterations} -S {size}"},
    // The server sends first, which iWARP does not permit.
    {"ucmatose", "SENDs in both directions, connected by the CM", true, false, Readiness::cm, rdmacm_port, 10, 4096,
     "ucmatose -b {server} -C {iterations} -S {size} {IPV6:-f ip6}",
     "ucmatose -s {server} -C {iterations} -S {size} {IPV6:-f ip6}"},
    {"udaddy", "UD SENDs in both directions, QPs resolved by the CM's SIDR", true, false, Readiness::cm, rdmacm_port, 10, 512,
     "udaddy -b {server} -C {iterations} -S {size} {IPV6:-f ip6}",
     "udaddy -s {server} -C {iterations} -S {size} {IPV6:-f ip6}"},
    {"write", "RDMA WRITEs of perftest, without the CM", true, false, Readiness::tcp, perftest_port, 20, 8192,
     PERFTEST("ib_write_bw") "-s {size} -x {gid}", PERFTEST("ib_write_bw") "-s {size} -x {gid} {exchange}"},
    {"write-cm", "RDMA WRITEs of perftest, connected by the CM", true, true, Readiness::cm, perftest_port, 20, 8192,
     PERFTEST("ib_write_bw") "-s {size} -R", PERFTEST("ib_write_bw") "-s {size} -R {server}", {}, rejected, false},
    {"write-uc", "UC RDMA WRITEs of perftest: no acknowledgements", true, false, Readiness::tcp, perftest_port, 20, 8192,
     PERFTEST("ib_write_bw") "-c UC -s {size} -x {gid}", PERFTEST("ib_write_bw") "-c UC -s {size} -x {gid} {exchange}"},
    {"read", "RDMA READs of perftest, without the CM", true, false, Readiness::tcp, perftest_port, 20, 8192,
     PERFTEST("ib_read_bw") "-s {size} -x {gid}", PERFTEST("ib_read_bw") "-s {size} -x {gid} {exchange}"},
    {"read-cm", "RDMA READs of perftest, connected by the CM", true, true, Readiness::cm, perftest_port, 20, 8192,
     PERFTEST("ib_read_bw") "-s {size} -R", PERFTEST("ib_read_bw") "-s {size} -R {server}", {}, rejected, false},
    {"send", "SENDs of perftest, without the CM", true, false, Readiness::tcp, perftest_port, 20, 8192,
     PERFTEST("ib_send_bw") "-s {size} -x {gid}", PERFTEST("ib_send_bw") "-s {size} -x {gid} {exchange}"},
    {"send-cm", "SENDs of perftest, connected by the CM", true, true, Readiness::cm, perftest_port, 20, 8192,
     PERFTEST("ib_send_bw") "-s {size} -R", PERFTEST("ib_send_bw") "-s {size} -R {server}", {}, rejected, false},
    {"send-ud", "UD SENDs of perftest", true, false, Readiness::tcp, perftest_port, 20, 1024,
     PERFTEST("ib_send_bw") "-c UD -s {size} -x {gid}", PERFTEST("ib_send_bw") "-c UD -s {size} -x {gid} {exchange}"},
    {"atomic", "fetch-and-add of perftest, without the CM", true, false, Readiness::tcp, perftest_port, 20, 0,
     PERFTEST("ib_atomic_bw") "-A FETCH_AND_ADD -x {gid}", PERFTEST("ib_atomic_bw") "-A FETCH_AND_ADD -x {gid} {exchange}"},
    {"atomic-cm", "compare-and-swap of perftest, connected by the CM", true, false, Readiness::cm, perftest_port, 20, 0,
     PERFTEST("ib_atomic_bw") "-A CMP_AND_SWAP -R", PERFTEST("ib_atomic_bw") "-A CMP_AND_SWAP -R {server}", {}, rejected, false},
    {"rc-pingpong", "RC SENDs in both directions, without the CM", true, false, Readiness::tcp, perftest_port, 10, 8192,
     "ibv_rc_pingpong -d {device} -g {gid} -m {mtu} -n {iterations} -s {size}",
     "ibv_rc_pingpong -d {device} -g {gid} -m {mtu} -n {iterations} -s {size} {server}"},
    {"uc-pingpong", "UC SENDs in both directions, without the CM", true, false, Readiness::tcp, perftest_port, 10, 8192,
     "ibv_uc_pingpong -d {device} -g {gid} -m {mtu} -n {iterations} -s {size}",
     "ibv_uc_pingpong -d {device} -g {gid} -m {mtu} -n {iterations} -s {size} {server}"},
    {"ud-pingpong", "UD SENDs in both directions, without the CM", true, false, Readiness::tcp, perftest_port, 20, 512,
     "ibv_ud_pingpong -d {device} -g {gid} -n {iterations} -s {size}",
     "ibv_ud_pingpong -d {device} -g {gid} -n {iterations} -s {size} {server}"},
    {"srq-pingpong", "RC SENDs of four QPs with a shared receive queue", true, false, Readiness::tcp, perftest_port, 20, 4096,
     "ibv_srq_pingpong -d {device} -g {gid} -m {mtu} -q 4 -n {iterations} -s {size}",
     "ibv_srq_pingpong -d {device} -g {gid} -m {mtu} -q 4 -n {iterations} -s {size} {server}"},
    {"nvme", "NVMe over Fabrics: discover, connect, write, read back, disconnect", true, true, Readiness::ended, nvme_port, 4, 16384,
     nvme_server, nvme_client, nvme_clean},
});
// clang-format on
#undef PERFTEST

const Scenario* find_scenario(std::string_view name) {
  for (const Scenario& scenario : table)
    if (scenario.name == name) return &scenario;
  return nullptr;
}

tl::unexpected<LabError> wrong(std::string message) { return failure(LabError::Kind::usage, std::move(message)); }

Result<unsigned> number(std::string_view option, std::string_view text, unsigned least, unsigned most) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    return wrong(fmt::format("{} must be a number from {} to {}, not \"{}\"", option, least, most, text));
  return value;
}

}  // namespace

std::span<const Scenario> scenarios() { return table; }

Result<std::vector<RecordingPlan>> parse_plan(std::string_view text, const RecordingPlan& defaults,
                                              std::optional<bool> siw) {
  RecordingPlan plan = defaults;
  const std::string whole(text);
  std::string_view name = text.substr(0, text.find(','));
  const auto set = [&](unsigned& target, std::string_view option, std::string_view value, unsigned least,
                       unsigned most) -> Result<void> {
    const auto got = number(option, value, least, most);
    if (!got) return wrong(whole + ": " + got.error().message);
    target = *got;
    return {};
  };
  for (std::string_view rest = text.substr(name.size()); !rest.empty();) {
    rest.remove_prefix(1);
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(word.size());
    const std::string_view option = word.substr(0, word.find('='));
    const std::string_view value = option.size() == word.size() ? std::string_view() : word.substr(option.size() + 1);
    Result<void> done;
    if (word == "rxe" || word == "siw") {
      siw = word == "siw";
    } else if (word == "ipv6") {
      plan.ipv6 = true;
    } else if (option == "vlan") {
      unsigned id = 0;
      done = set(id, option, value, 1, 4094);
      plan.vlan = id;
    } else if (option == "mtu") {
      done = set(plan.mtu, option, value, 576, longest_frame);
    } else if (option == "iterations") {
      done = set(plan.iterations, option, value, 1, 100'000);
    } else if (option == "size") {
      done = set(plan.size, option, value, 1, 1 << 20);
    } else if (option == "netem" && !value.empty()) {
      plan.netem = value;
    } else if (option == "fault" && !value.empty()) {
      plan.faults += std::string(value) + "\n";
    } else {
      return wrong(
          fmt::format("{}: unknown option {}; expected rxe, siw, ipv6, vlan=ID, mtu=BYTES, iterations=N, size=BYTES, "
                      "netem=WORDS, fault=RULE",
                      text, word.empty() ? "nothing" : word));
    }
    if (!done) return tl::unexpected(done.error());
  }
  if (const auto compiled = replay::FaultProgram::compile(plan.faults); !compiled)
    return wrong("fault program: " + to_string(compiled.error(), plan.faults));
  if (plan.ipv6 && plan.mtu < 1280) return wrong(fmt::format("{}: IPv6 requires an MTU of at least 1280 bytes", text));
  std::vector<RecordingPlan> plans;
  const auto add = [&](const Scenario& scenario, bool over_siw) {
    plan.scenario = &scenario;
    plan.siw = over_siw;
    plans.push_back(plan);
  };
  if (name == "all") {
    for (const Scenario& scenario : table)
      for (const bool over_siw : {false, true})
        if ((over_siw ? scenario.siw : scenario.rxe) && siw.value_or(over_siw) == over_siw &&
            (scenario.ipv6 || !plan.ipv6))
          add(scenario, over_siw);
    return plans;
  }
  const Scenario* scenario = find_scenario(name);
  if (!scenario) {
    std::string names;
    for (const Scenario& known : table) names += fmt::format("{}{}", names.empty() ? "" : ", ", known.name);
    return wrong(fmt::format("unknown scenario \"{}\"; expected all, {}", name, names));
  }
  const bool over_siw = siw.value_or(!scenario->rxe);
  if (!(over_siw ? scenario->siw : scenario->rxe))
    return wrong(
        fmt::format("{} is not supported with {}: {}", name, over_siw ? "siw" : "rxe",
                    over_siw ? "iWARP requires the CM and supports only RC without atomics" : "it requires iWARP"));
  if (plan.ipv6 && !scenario->ipv6)
    return wrong(fmt::format("{} does not support IPv6: its program connects only to IPv4 addresses", name));
  add(*scenario, over_siw);
  return plans;
}

std::string name_of(const RecordingPlan& plan) {
  std::string name = fmt::format("{}-{}", plan.scenario->name, plan.siw ? "siw" : "rxe");
  if (plan.ipv6) name += "-ipv6";
  if (plan.vlan) name += fmt::format("-vlan{}", *plan.vlan);
  if (plan.mtu != 1500) name += fmt::format("-mtu{}", plan.mtu);
  if (plan.iterations) name += fmt::format("-n{}", plan.iterations);
  if (plan.size) name += fmt::format("-s{}", plan.size);
  if (!plan.faults.empty()) name += "-faults";
  if (!plan.netem.empty()) name += "-netem";
  return name;
}

std::string command_for(std::string_view words, const RecordingPlan& plan, const Places& places) {
  const Scenario& scenario = *plan.scenario;
  std::string out;
  while (!words.empty()) {
    const std::size_t begin = words.find('{');
    out += words.substr(0, begin);
    if (begin == std::string_view::npos) break;
    const std::size_t end = words.find('}', begin);
    const std::string_view what = words.substr(begin + 1, end - begin - 1);
    words.remove_prefix(end + 1);
    if (what == "server") out += places.server;
    if (what == "exchange") out += places.exchange;
    if (what == "client") out += places.client;
    if (what == "device") out += places.device;
    if (what == "gid") out += places.gid;
    if (what == "FAMILY") out += plan.ipv6 ? "ipv6" : "ipv4";
    if (what == "mtu") out += plan.mtu >= 4096 + 200 ? "4096" : "1024";
    if (what == "iterations") out += std::to_string(plan.iterations ? plan.iterations : scenario.iterations);
    if (what == "size") out += std::to_string(plan.size ? plan.size : scenario.size);
    if (what == "port") out += std::to_string(scenario.port);
    if (what.starts_with("IPV6:") && plan.ipv6) out += what.substr(5);
    // Avoid double blanks for omitted words.
    if (what.starts_with("IPV6:") && !plan.ipv6 && out.ends_with(' ') && words.starts_with(' ')) words.remove_prefix(1);
  }
  while (out.ends_with(' ')) out.pop_back();
  return out;
}

}  // namespace rdmawire::lab
