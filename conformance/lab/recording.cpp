#include "conformance/lab/recording.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <future>
#include <mutex>
#include <sstream>
#include <thread>

#include "captures/io/writer.hpp"
#include "conformance/lab/process.hpp"
#include "replay/switch/switch.hpp"
#include "replay/wires/unix.hpp"

namespace rdmawire::lab {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Kind = LabError::Kind;

constexpr std::size_t server_side = 0, client_side = 1;
constexpr std::array<std::string_view, 2> role = {"server", "client"};
constexpr std::chrono::seconds preparation_timeout{60};
constexpr unsigned most_attempts = 6;
constexpr std::size_t longest_output_told = 4000;
// Traffic has ended when no frame has passed for quiet_time. The recorder checks every quiet_look, and gives up after
// quiet_patience.
constexpr std::chrono::milliseconds quiet_time{300}, quiet_look{50}, quiet_patience{5000};

// Combines several descriptors into one that is readable when any of them is.
class AnyOf {
 public:
  explicit AnyOf(std::initializer_list<int> descriptors) : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    for (const int descriptor : descriptors) {
      if (descriptor < 0) continue;
      epoll_event event{};
      event.events = EPOLLIN;
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event);
    }
  }
  [[nodiscard]] StopDescriptor descriptor() const { return epoll_.get(); }

 private:
  Descriptor epoll_;
};

class Event {
 public:
  Event() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  void raise() const {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(event_.get(), &one, sizeof one));
  }
  [[nodiscard]] int descriptor() const { return event_.get(); }

 private:
  Descriptor event_;
};

// Format of /sys/class/infiniband/…/gids.
std::string gid_of(const std::string& address) {
  std::array<std::uint8_t, 16> bytes{};
  if (::inet_pton(AF_INET6, address.c_str(), bytes.data()) != 1) {
    bytes[10] = bytes[11] = 0xff;
    ::inet_pton(AF_INET, address.c_str(), bytes.data() + 12);
  }
  std::string text;
  for (std::size_t i = 0; i < 16; i += 2) text += fmt::format("{}{:02x}{:02x}", i ? ":" : "", bytes[i], bytes[i + 1]);
  return text;
}

std::string shown(const std::string& output) {
  if (output.size() <= longest_output_told) return output;
  return "…" + output.substr(output.size() - longest_output_told);
}

// Last output lines of a program for an error message.
std::string said(const RunResult& result) {
  const std::string all = shown(result.output + result.error);
  std::string text;
  std::istringstream lines(all);
  for (std::string line; std::getline(lines, line);) text += "\n  " + line;
  return text.empty() ? "; no output" : text;
}

// Returns names and versions of the image's kernel and RDMA packages.
std::vector<std::string> versions(const Image& image) {
  std::vector<std::string> found;
  for (const fs::path& list : {image.kernel.parent_path() / "packages", image.root.parent_path() / "packages"}) {
    std::ifstream in(list);
    for (std::string name, version; in >> name >> version;)
      if (name.starts_with("linux-image") || name == "libibverbs1" || name == "librdmacm1" || name == "perftest" ||
          name == "ibverbs-utils" || name == "rdmacm-utils" || name == "nvme-cli")
        found.push_back(name + " " + version);
  }
  return found;
}

// Returns a guest's address. Its last part is the guest's number.
std::string address_of(const RecordingPlan& plan, std::size_t side) {
  return fmt::format("{}{}", plan.vlan ? (plan.ipv6 ? "fd78::" : "10.78.0.") : (plan.ipv6 ? "fd77::" : "10.77.0."),
                     side + 1);
}

}  // namespace

class Recorder::Impl {
 public:
  explicit Impl(RecordingOptions options) : options_(std::move(options)) {}

  Result<void> boot(const fs::path& lab, bool siw) {
    const auto began = Clock::now();
    ImageOptions image_options = options_.image;
    image_options.siw = siw;
    auto image = provide_image(image_options);
    if (!image) return tl::unexpected(image.error());
    image_ = std::move(*image);
    std::mutex telling;
    GuestOptions guest = options_.guests;
    guest.rxe = true;
    guest.siw = siw;
    guest.ports = {PortOptions{}};
    if (options_.progress)
      guest.progress = [&](std::string_view line) {
        const std::lock_guard lock(telling);
        options_.progress(line);
      };
    // Boot both guests concurrently. If one fails, stop the other one.
    const Event failed;
    const AnyOf stop{options_.stop, failed.descriptor()};
    guest.stop = stop.descriptor();
    std::array<std::future<Result<Guest>>, 2> booting;
    for (std::size_t side = 0; side < 2; ++side) {
      guest.number = static_cast<unsigned>(side) + 1;
      booting[side] = std::async(std::launch::async, [this, &lab, &failed, guest] {
        auto booted = Guest::boot(image_, lab, guest);
        if (!booted) failed.raise();
        return booted;
      });
    }
    std::optional<LabError> error;
    for (auto& each : booting) {
      auto booted = each.get();
      if (booted)
        guests_.push_back(std::move(*booted));
      else if (!error || error->kind == Kind::stopped)
        error = booted.error();
    }
    if (error) return tl::unexpected(*error);
    boot_seconds_ = std::chrono::duration<double>(Clock::now() - began).count();
    return {};
  }

  Result<Recording> record(const RecordingPlan& plan, const std::string& file) {
    const std::string_view race = plan.scenario->race;
    for (unsigned attempt = 1;; ++attempt) {
      auto recording = record_once(plan, file);
      if (recording || attempt == most_attempts || race.empty() || recording.error().kind != Kind::program ||
          recording.error().message.find(race) == std::string::npos)
        return recording;
      if (options_.progress)
        options_.progress(name_of(plan) +
                          ": the client connected before the server listened for its second connection; retrying");
    }
  }

  Result<Recording> record_once(const RecordingPlan& plan, const std::string& file) {
    const auto began = Clock::now();
    const Scenario& scenario = *plan.scenario;
    std::array<std::size_t, 2> complained{};
    for (std::size_t side = 0; side < 2; ++side) complained[side] = guests_[side].complaints().size();
    std::array<std::string, 2> commands;
    RecordingPlan ipv4 = plan;
    ipv4.ipv6 = false;
    const std::string exchange = address_of(ipv4, server_side);
    for (std::size_t side = 0; side < 2; ++side) {
      auto gid = prepare(plan, side);
      if (!gid) return tl::unexpected(gid.error());
      commands[side] = command_for(
          side == server_side ? scenario.server : scenario.client, plan,
          {address_of(plan, server_side), address_of(plan, client_side), exchange, plan.siw ? "siw0" : "rxe0", *gid});
    }
    auto fabric = connect(plan, file, commands);
    if (!fabric) return tl::unexpected(fabric.error());
    Recording recording;
    recording.server_command = commands[server_side];
    recording.client_command = commands[client_side];
    auto ran = run(plan, commands, recording);
    until_quiet(**fabric);
    (*fabric)->stop();
    for (std::size_t side = 0; side < 2; ++side)
      if (!netem_of(plan, side).empty())
        if (const auto statistics = shell(side, "tc -s qdisc show dev eth0 root", preparation_timeout, options_.stop))
          recording.netem[side] = statistics->output;
    for (const replay::FaultLogEntry& entry : (*fabric)->fault_log())
      recording.faults.push_back(to_string(entry, (*fabric)->faults()));
    const replay::SwitchCounters counters = (*fabric)->counters();
    for (std::size_t side = 0; side < 2; ++side) {
      recording.frames += counters.ports[side].received;
      const auto complaints = guests_[side].complaints();
      for (std::size_t i = complained[side]; i < complaints.size(); ++i)
        recording.complaints.push_back(fmt::format("{} ({}): {}{}", guests_[side].name(), to_string(complaints[i].kind),
                                                   complaints[i].what, lines_of(complaints[i])));
    }
    if (const auto cleaned = clean(plan); !cleaned && ran) ran = tl::unexpected(cleaned.error());
    if (auto dead = ended()) return tl::unexpected(*dead);
    if (!ran) {
      LabError error = ran.error();
      for (const std::string& complaint : recording.complaints) error.message += "\n" + complaint;
      return tl::unexpected(std::move(error));
    }
    if (!counters.tap_trouble.empty())
      return failure(Kind::system, fmt::format("write {}: {}", file, counters.tap_trouble));
    for (std::size_t side = 0; side < 2; ++side)
      if (counters.ports[side].queue_full != 0)
        return failure(Kind::system,
                       fmt::format("the switch dropped {} frames for the {}, because the guest was too slow; "
                                   "repeat the recording",
                                   counters.ports[side].queue_full, role[side]));
    recording.seconds = std::chrono::duration<double>(Clock::now() - began).count();
    return recording;
  }

  [[nodiscard]] std::optional<LabError> ended() const {
    for (const Guest& guest : guests_)
      if (auto error = guest.ended()) return LabError{error->kind, guest.name() + ": " + error->message};
    return {};
  }
  [[nodiscard]] double boot_seconds() const { return boot_seconds_; }

 private:
  static std::string lines_of(const KernelReport& complaint) {
    std::string text;
    for (const std::string& line : complaint.lines) text += "\n  " + line;
    return text;
  }

  Result<RunResult> shell(std::size_t side, const std::string& script, std::chrono::milliseconds timeout,
                          StopDescriptor stop) {
    RunOptions how;
    how.timeout = timeout;
    how.stop = stop;
    return guests_[side].run({"sh", "-c", script}, how);
  }

  // Runs one of the two programs. If it does not end in time, the error message contains its output.
  Result<RunResult> program(const RecordingPlan& plan, std::size_t side, const std::string& command,
                            StopDescriptor stop) {
    const Descriptor output(::memfd_create("output", MFD_CLOEXEC));
    if (!output) return system_failure("memfd_create");
    RunOptions how;
    how.timeout = options_.program_timeout;
    how.stop = stop;
    how.output = how.error = output.get();
    auto result = guests_[side].run({"sh", "-c", command}, how);
    std::string text;
    char buffer[4096];
    ssize_t got = 0;
    while (text.size() < RunResult::max_bytes &&
           (got = ::pread(output.get(), buffer, sizeof buffer, static_cast<off_t>(text.size()))) > 0)
      text.append(buffer, static_cast<std::size_t>(got));
    if (result) {
      result->output = std::move(text);
      return result;
    }
    if (result.error().kind != Kind::timeout) return result;
    return failure(Kind::timeout, fmt::format("{}: the {} did not end within {} s: {}{}", name_of(plan), role[side],
                                              options_.program_timeout.count(), command,
                                              said({.status = 0, .output = std::move(text), .error = {}})));
  }

  // Configures interface and device according to the plan. Returns the GID index.
  Result<std::string> prepare(const RecordingPlan& plan, std::size_t side) {
    std::string script =
        "set -e\n"
        "for device in $(ls /sys/class/infiniband); do rdma link delete $device; done\n"
        "for interface in $(ls /sys/class/net); do case $interface in eth0.*) ip link delete $interface;; esac; done\n"
        "tc qdisc del dev eth0 root 2>/dev/null || true\n";
    script += fmt::format("ip link set eth0 mtu {}\n", plan.mtu);
    std::string interface = "eth0";
    if (plan.vlan) {
      interface = fmt::format("eth0.{}", *plan.vlan);
      script += fmt::format(
          "modprobe 8021q\n"
          "ip link add link eth0 name {0} type vlan id {1}\n"
          "echo 0 >/proc/sys/net/ipv6/conf/{0}/accept_dad\n"
          "ip address add 10.78.0.{2}/24 dev {0}\n"
          "ip link set {0} up\n"
          "ip address add fd78::{2}/64 dev {0} nodad\n",
          interface, *plan.vlan, side + 1);
    }
    // rxe is attached to eth0, and has GIDs for its VLAN. siw is attached to the VLAN interface.
    script += plan.siw ? fmt::format("rdma link add siw0 type siw netdev {}\n", interface)
                       : "rdma link add rxe0 type rxe netdev eth0\n";
    if (const std::string netem = netem_of(plan, side); !netem.empty())
      script += fmt::format("modprobe sch_netem\ntc qdisc add dev eth0 root netem {}\n", netem);
    script += "ip neighbor flush all\n";
    // The kernel adds the GID of a new address with a delay.
    if (!plan.siw)
      script += fmt::format(
          "tries=0\n"
          "until index=$(grep -l {} /sys/class/infiniband/rxe0/ports/1/gids/* | head -n 1) && [ -n \"$index\" ]; do\n"
          "  tries=$((tries + 1)); [ $tries -lt 500 ] || {{ echo 'no GID for the address' >&2; exit 1; }}\n"
          "  usleep 10000\n"
          "done\n"
          "echo ${{index##*/}}\n",
          gid_of(address_of(plan, side)));
    const auto result = shell(side, script, preparation_timeout, options_.stop);
    if (!result) return tl::unexpected(result.error());
    if (result->status != 0)
      return failure(
          plan.netem.empty() ? Kind::guest : Kind::usage,
          fmt::format("setup of the {}'s guest failed with status {}{}", role[side], result->status, said(*result)));
    return result->output.substr(0, result->output.find('\n'));
  }

  static std::string netem_of(const RecordingPlan& plan, std::size_t side) {
    for (std::size_t one = 0; one < 2; ++one)
      if (plan.netem.starts_with(fmt::format("{}:", role[one])))
        return one == side ? plan.netem.substr(role[one].size() + 1) : "";
    return plan.netem;
  }

  Result<std::unique_ptr<replay::Switch>> connect(const RecordingPlan& plan, const std::string& file,
                                                  const std::array<std::string, 2>& commands) {
    replay::SwitchOptions how;
    auto faults = replay::FaultProgram::compile(plan.faults);
    if (!faults) return failure(Kind::usage, "fault program: " + to_string(faults.error(), plan.faults));
    const std::uint64_t seed = faults->seed().value_or(plan.seed);
    how.fault_options.seed = seed;
    how.faults = std::move(*faults);
    captures::Writer::Options written;
    written.format = captures::Format::pcapng;
    written.section.application = options_.application;
    written.section.os = "Linux " + image_.release;
    written.section.hardware = "two virtual machines (qemu, " + options_.guests.accelerator + ") connected by a switch";
    std::vector<std::string>& comments = written.section.comments;
    comments.push_back(fmt::format("{}: {}", name_of(plan), plan.scenario->what));
    for (std::size_t side = 0; side < 2; ++side)
      comments.push_back(fmt::format("{}, {}: {}", role[side], address_of(plan, side), commands[side]));
    comments.push_back(fmt::format("{}", fmt::join(versions(image_), ", ")));
    if (plan.vlan) comments.push_back(fmt::format("VLAN {}", *plan.vlan));
    if (plan.mtu != 1500) comments.push_back(fmt::format("MTU {}", plan.mtu));
    for (std::size_t side = 0; side < 2; ++side)
      if (const std::string netem = netem_of(plan, side); !netem.empty())
        comments.push_back(fmt::format("{}: egress netem {}", role[side], netem));
    if (!plan.faults.empty()) {
      std::string rules = fmt::format("faults of the switch, seed {}; a: server, b: client", seed);
      for (std::size_t i = 0; i < how.faults.rules().size(); ++i)
        rules += fmt::format("\n{}: {}", i + 1, how.faults.rules()[i].text);
      comments.push_back(rules);
    }
    auto writer = captures::Writer::create(file, written);
    if (!writer) return failure(Kind::system, to_string(writer.error()));
    how.passed = std::move(*writer);
    std::vector<std::unique_ptr<replay::Wire>> wires;
    for (std::size_t side = 0; side < 2; ++side) {
      replay::UnixWireOptions options;
      options.path = guests_[side].ports().front().wire.substr(std::string_view("unix:").size());
      options.name = role[side];
      auto wire = replay::open_unix_wire(options);
      if (!wire) return failure(Kind::system, wire.error().message);
      wires.push_back(std::move(*wire));
    }
    auto fabric = replay::Switch::start(std::move(wires), std::move(how));
    if (!fabric) return failure(Kind::system, fabric.error().message);
    return std::move(*fabric);
  }

  // Runs the server and, when it is ready, the client. Waits for both.
  Result<void> run(const RecordingPlan& plan, const std::array<std::string, 2>& commands, Recording& recording) {
    const Scenario& scenario = *plan.scenario;
    const auto failed = [&](std::size_t side, const RunResult& result) {
      return LabError{Kind::program, fmt::format("{}: the {} failed with status {}: {}{}", name_of(plan), role[side],
                                                 result.status, commands[side], said(result))};
    };
    if (scenario.ready == Readiness::ended) {
      auto server = program(plan, server_side, commands[server_side], options_.stop);
      if (!server) return tl::unexpected(server.error());
      recording.server_output = server->output;
      if (server->status != 0) return tl::unexpected(failed(server_side, *server));
      auto client = program(plan, client_side, commands[client_side], options_.stop);
      if (!client) return tl::unexpected(client.error());
      recording.client_output = client->output;
      if (client->status != 0) return tl::unexpected(failed(client_side, *client));
      return {};
    }
    const Event server_ended, give_up;
    const AnyOf server_stop{options_.stop, give_up.descriptor()};
    auto serving = std::async(std::launch::async, [&] {
      auto result = program(plan, server_side, commands[server_side], server_stop.descriptor());
      server_ended.raise();
      return result;
    });
    const auto end_server = [&] {
      give_up.raise();
      return serving.get();
    };
    const AnyOf ready_stop{options_.stop, server_ended.descriptor()};
    const std::string listening =
        scenario.ready == Readiness::tcp
            ? fmt::format("until ss -ltnH 'sport = :{}' | grep -q .; do usleep 20000; done", scenario.port)
            : "until rdma resource show cm_id | grep -q LISTEN; do usleep 20000; done";
    if (auto ready = shell(server_side, listening, options_.program_timeout, ready_stop.descriptor()); !ready) {
      auto server = end_server();
      if (server) return tl::unexpected(failed(server_side, *server));
      if (ready.error().kind == Kind::timeout)
        return failure(Kind::timeout, fmt::format("{}: the server did not listen within {} s: {}", name_of(plan),
                                                  options_.program_timeout.count(), commands[server_side]));
      return tl::unexpected(ready.error().kind == Kind::stopped ? server.error() : ready.error());
    }
    auto client = program(plan, client_side, commands[client_side], options_.stop);
    if (!client || client->status != 0) {
      // The error message includes the server's output.
      auto server = end_server();
      if (!client) return tl::unexpected(client.error());
      recording.client_output = client->output;
      LabError error = failed(client_side, *client);
      if (server) error.message += fmt::format("\nthe server ended with status {}{}", server->status, said(*server));
      return tl::unexpected(std::move(error));
    }
    recording.client_output = client->output;
    auto server = serving.get();
    if (!server) return tl::unexpected(server.error());
    recording.server_output = server->output;
    if (server->status != 0) return tl::unexpected(failed(server_side, *server));
    return {};
  }

  Result<void> clean(const RecordingPlan& plan) {
    if (plan.scenario->clean.empty()) return {};
    auto result = shell(server_side, std::string(plan.scenario->clean), preparation_timeout, options_.stop);
    if (!result) return tl::unexpected(result.error());
    if (result->status != 0)
      return failure(Kind::guest,
                     fmt::format("{}: cleanup in the server's guest failed{}", name_of(plan), said(*result)));
    return {};
  }

  // Waits until no more frames arrive, so that the capture contains the last ones.
  void until_quiet(const replay::Switch& fabric) const {
    const auto frames = [&] {
      std::uint64_t count = 0;
      for (const replay::SwitchPortCounters& port : fabric.counters().ports) count += port.received;
      return count;
    };
    const auto give_up = Clock::now() + quiet_patience;
    auto changed = Clock::now();
    for (std::uint64_t seen = frames(); Clock::now() < give_up && Clock::now() - changed < quiet_time;) {
      if (stopped_within(options_.stop, quiet_look)) return;
      if (const std::uint64_t now = frames(); now != seen) {
        seen = now;
        changed = Clock::now();
      }
    }
  }

  RecordingOptions options_;
  Image image_;
  std::vector<Guest> guests_;  // server, client
  double boot_seconds_ = 0;
};

Recorder::Recorder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Recorder::Recorder(Recorder&&) noexcept = default;
Recorder& Recorder::operator=(Recorder&&) noexcept = default;
Recorder::~Recorder() = default;

Result<Recorder> Recorder::boot(const fs::path& lab, const RecordingOptions& options, bool siw) {
  auto impl = std::make_unique<Impl>(options);
  if (auto booted = impl->boot(lab, siw); !booted) return tl::unexpected(booted.error());
  return Recorder(std::move(impl));
}
Result<Recording> Recorder::record(const RecordingPlan& plan, const std::string& file) {
  return impl_->record(plan, file);
}
double Recorder::boot_seconds() const { return impl_->boot_seconds(); }
std::optional<LabError> Recorder::ended() const { return impl_->ended(); }

}  // namespace rdmawire::lab
