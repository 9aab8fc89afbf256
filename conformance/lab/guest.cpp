#include "conformance/lab/guest.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "conformance/lab/cpio.hpp"
#include "conformance/lab/process.hpp"
#include "conformance/lab/sockets.hpp"

namespace rdmawire::lab {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Kind = LabError::Kind;

constexpr unsigned run_slots = 4;
constexpr std::size_t longest_console_log = 16 << 20;

// Returns an unused port. If another program binds it before qemu does, the boot fails and is retried.
Result<std::uint16_t> free_tcp_port() {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (!socket || ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return system_failure("find a free TCP port of 127.0.0.1");
  return ntohs(address.sin_port);
}

std::string shell_word(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

Result<std::string> contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream all;
  all << in.rdbuf();
  if (!in) return failure(Kind::missing, "reading " + path.string() + " failed");
  return std::move(all).str();
}

// A comma in an option value must be doubled for qemu.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == ',' ? std::string(",,") : std::string(1, c);
  return out;
}

}  // namespace

class Guest::Impl {
 public:
  Impl(const Image& image, GuestOptions options) : image_(image), options_(std::move(options)) {}

  ~Impl() {
    quit_.store(true);
    wake();
    if (watcher_.joinable()) watcher_.join();
    process_.kill();
    std::error_code error;
    if (!directory.empty()) fs::remove_all(directory, error);
  }

  Result<void> boot(const fs::path& lab) {
    name = fmt::format("{}{}", "guest", options_.number);
    directory = lab / std::to_string(options_.number);
    if (options_.siw && options_.tcp_ports.empty()) options_.tcp_ports = {7471, 7472, 7473, 7474};
    if (find_program(options_.qemu).empty())
      return failure(Kind::missing, options_.qemu + " not found; install the package qemu-system-x86");
    std::error_code error;
    if (!options_.share.empty()) options_.share = fs::absolute(options_.share, error);
    describe_ports();
    auto initrd = make_initrd();
    if (!initrd) return tl::unexpected(initrd.error());
    const auto& snapshot = options_.snapshot;
    if (snapshot && snapshot->stored_) {
      auto started = boot_once(*initrd, snapshot->path());
      restored = started.has_value();
      if (restored) remove_initrd(*initrd);
      if (restored || started.error().kind == Kind::stopped) return started;
      snapshot->stored_ = false;
    }
    for (int attempt = 1;; ++attempt) {
      auto booted = boot_once(*initrd);
      if (booted) {
        if (snapshot && !snapshot->failed_) {
          const auto stored = store_state(snapshot->path());
          snapshot->stored_ = stored.has_value();
          if (!stored && stored.error().kind == Kind::stopped) return stored;
          if (!stored) {
            // The attempt may have left the guest paused. Boot again, without storing the state.
            snapshot->failed_ = true;
            --attempt;
            continue;
          }
        }
        remove_initrd(*initrd);
        return {};
      }
      const bool again = attempt == 1 && booted.error().kind == Kind::boot && !panicked();
      if (!again) return booted;
      if (options_.progress)
        options_.progress(booted.error().message.substr(0, booted.error().message.find('\n')) + "; retrying");
    }
  }

  [[nodiscard]] std::vector<KernelReport> complaints() const {
    const std::lock_guard lock(mutex_);
    return console_.complaints();
  }
  [[nodiscard]] std::optional<LabError> ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  [[nodiscard]] pid_t process() const { return process_.id(); }
  [[nodiscard]] int ended_descriptor() const { return ended_event_.get(); }

  std::string name;
  fs::path directory;
  std::vector<Port> ports;
  std::vector<TcpPort> tcp;
  std::vector<std::string> agents;
  double boot_seconds = 0;
  bool restored = false;

 private:
  static void remove_initrd(const fs::path& initrd) {
    std::error_code error;
    fs::remove(initrd, error);
  }

  // Stores the state of the running guest with QMP, QEMU's monitor protocol.
  Result<void> store_state(const std::string& path) {
    auto socket = connect_to_guest((directory / "monitor").string());
    if (!socket) return tl::unexpected(socket.error());
    std::string received;
    // Returns the response to a command. Skips events and QMP's greeting.
    const auto run = [&](const nlohmann::json& command) -> Result<nlohmann::json> {
      const std::string line = command.dump() + "\n";
      if (::send(socket->get(), line.data(), line.size(), MSG_NOSIGNAL) < 0) return system_failure("write to QMP");
      const auto deadline = Clock::now() + options_.timeout;
      while (true) {
        for (std::size_t end; (end = received.find('\n')) != std::string::npos;) {
          auto message = nlohmann::json::parse(received.substr(0, end), nullptr, false);
          received.erase(0, end + 1);
          if (!message.is_object()) continue;
          if (message.contains("return")) return std::move(message["return"]);
          if (message.contains("error")) return failure(Kind::guest, "QMP: " + message["error"].dump());
        }
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
        pollfd waiting[] = {{socket->get(), POLLIN, 0}, {options_.stop, POLLIN, 0}};
        if (left <= 0 || ::poll(waiting, 2, static_cast<int>(left)) == 0)
          return failure(Kind::guest, "QMP: no response");
        if (waiting[1].revents != 0) return failure(Kind::stopped, "stopped while the guest's state was stored");
        char buffer[4096];
        const ssize_t got = ::recv(socket->get(), buffer, sizeof buffer, MSG_DONTWAIT);
        if (got == 0) return failure(Kind::guest, "QMP: the guest ended");
        if (got > 0) received.append(buffer, static_cast<std::size_t>(got));
      }
    };
    using nlohmann::json;
    constexpr std::uint64_t unlimited = 100'000'000'000;  // bytes per second
    const json parameters = {{"max-bandwidth", unlimited}};
    for (const json& command :
         std::vector<json>{{{"execute", "qmp_capabilities"}},
                           {{"execute", "migrate-set-parameters"}, {"arguments", parameters}},
                           {{"execute", "migrate"}, {"arguments", {{"uri", "exec:cat >" + path}}}}})
      if (auto done = run(command); !done) return tl::unexpected(done.error());
    std::string status;
    const auto deadline = Clock::now() + options_.timeout;
    while (status != "completed" && status != "failed" && Clock::now() < deadline) {
      auto state = run({{"execute", "query-migrate"}});
      if (!state) return tl::unexpected(state.error());
      status = state->is_object() ? state->value("status", "") : "";
      if (status != "completed" && stopped_within(options_.stop, std::chrono::milliseconds(20)))
        return failure(Kind::stopped, "stopped while the guest's state was stored");
    }
    if (status != "completed" && status != "failed") (void)run({{"execute", "migrate_cancel"}});
    if (auto continued = run({{"execute", "cont"}}); !continued) return tl::unexpected(continued.error());
    if (status != "completed") return failure(Kind::guest, "QMP: storing the guest's state failed");
    return {};
  }

  [[nodiscard]] bool panicked() const {
    const std::lock_guard lock(mutex_);
    return console_.panicked();
  }

  void describe_ports() {
    unsigned index = 0;
    for (PortOptions& port : options_.ports) {
      if (port.mac.empty()) port.mac = fmt::format("52:54:00:77:{:02x}:{:02x}", index, options_.number);
      if (port.addresses.empty())
        port.addresses = {fmt::format("10.77.{}.{}/24", index, options_.number),
                          fmt::format("fd77:{:x}::{:x}/64", index, options_.number)};
      if (port.vlan && port.vlan_addresses.empty())
        port.vlan_addresses = {fmt::format("10.78.{}.{}/24", index, options_.number),
                               fmt::format("fd78:{:x}::{:x}/64", index, options_.number)};
      Port made;
      made.interface = fmt::format("eth{}", index);
      made.wire = "unix:" + (directory / made.interface).string();
      made.mac = port.mac;
      made.addresses = port.addresses;
      made.addresses.insert(made.addresses.end(), port.vlan_addresses.begin(), port.vlan_addresses.end());
      if (options_.rxe) made.devices.push_back(fmt::format("rxe{}", index));
      if (options_.siw) made.devices.push_back(fmt::format("siw{}", index));
      ports.push_back(std::move(made));
      ++index;
    }
  }

  [[nodiscard]] std::string configuration() const {
    std::string devices;
    if (options_.rxe) devices += "rxe ";
    if (options_.siw) devices += "siw ";
    std::string text = fmt::format("name={}\ndevices={}\nmodules={}\nshare={}\nlast_port=status\n", name,
                                   shell_word(devices), shell_word(fmt::format("{}", fmt::join(options_.modules, " "))),
                                   options_.share.empty() ? "" : "yes");
    text += "network() {\n";
    for (std::size_t i = 0; i < options_.ports.size(); ++i) {
      const PortOptions& port = options_.ports[i];
      text += fmt::format("  configure eth{} {} {} {}\n", i, port.mac, port.mtu, fmt::join(port.addresses, " "));
      std::string on = fmt::format("eth{}", i);
      if (port.vlan) {
        text += fmt::format("  configure_vlan eth{} {} {}\n", i, *port.vlan, fmt::join(port.vlan_addresses, " "));
        on += fmt::format(".{}", *port.vlan);
      }
      // rxe cannot be attached to a VLAN interface. It uses the addresses of the VLANs as further GIDs.
      if (options_.rxe) text += fmt::format("  add_device rxe{} rxe eth{}\n", i, i);
      if (options_.siw) text += fmt::format("  add_device siw{} siw {}\n", i, on);
    }
    if (!options_.tcp_ports.empty()) {
      // 10.0.2.15 is the guest's address in qemu's user network.
      text += fmt::format("  configure tcp0 {} 1500 10.0.2.15/24\n", tcp_mac());
      if (options_.siw) text += "  add_device siwtcp siw tcp0\n";
    }
    return text + "  true\n}\n";
  }

  [[nodiscard]] std::string tcp_mac() const { return fmt::format("52:54:00:77:ff:{:02x}", options_.number); }

  // Adds the agent, and those of its libraries that the image does not contain, to the archive.
  Result<void> add_agent(Cpio& cpio) const {
    if (options_.agent.empty()) return {};
    auto program = contents(options_.agent);
    if (!program) return tl::unexpected(program.error());
    cpio.file("bin/rdmawire-agent", *program, 0755);
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return system_failure("pipe");
    Descriptor reading(ends[0]), writing(ends[1]);
    const std::string libraries = (image_.root / "lib/x86_64-linux-gnu").string();
    Process::Options how;
    // Lists the agent's libraries. The image's loader searches the image first, then the library directories of the
    // host.
    how.argv = {(image_.root / "lib64/ld-linux-x86-64.so.2").string(), "--library-path", libraries, "--list",
                options_.agent.string()};
    how.descriptors = {{writing.get(), 1}, {writing.get(), 2}};
    auto loader = Process::start(how);
    if (!loader) return tl::unexpected(loader.error());
    writing.reset();
    std::string list;
    char buffer[4096];
    for (ssize_t got; (got = ::read(reading.get(), buffer, sizeof buffer)) != 0;) {
      if (got < 0 && errno != EINTR) return system_failure("read the libraries of the agent");
      if (got > 0) list.append(buffer, static_cast<std::size_t>(got));
    }
    std::istringstream lines(list);
    bool folder = false;
    for (std::string line; std::getline(lines, line);) {
      const std::size_t arrow = line.find(" => ");
      if (arrow == std::string::npos) continue;
      const std::string library = line.substr(line.find_first_not_of(" \t"), arrow - line.find_first_not_of(" \t"));
      std::string path = line.substr(arrow + 4);
      path = path.substr(0, path.rfind(" ("));
      if (path.find("not found") != std::string::npos)
        return failure(Kind::missing,
                       "the agent " + options_.agent.string() + " requires " + library + ", which was not found");
      if (path.rfind(libraries, 0) == 0) continue;
      auto content = contents(path);
      if (!content) return tl::unexpected(content.error());
      if (!folder) cpio.directory("lib/agent");
      folder = true;
      cpio.file("lib/agent/" + library, *content, 0755);
    }
    return {};
  }

  Result<fs::path> make_initrd() {
    if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) return system_failure("making " + directory.string());
    Cpio cpio;
    cpio.file("lab.conf", configuration());
    if (auto added = add_agent(cpio); !added) return tl::unexpected(added.error());
    const fs::path path = directory / "initrd";
    const Descriptor out(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!out) return system_failure("making " + path.string());
    const auto append = [&](std::string_view text) {
      while (!text.empty()) {
        const ssize_t written = ::write(out.get(), text.data(), text.size());
        if (written < 0 && errno != EINTR) return false;
        if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
      }
      return true;
    };
    for (const fs::path& layer : image_.layers) {
      auto text = contents(layer);
      if (!text) return tl::unexpected(text.error());
      if (!append(*text)) return system_failure("writing " + path.string());
    }
    if (!append(std::move(cpio).finish())) return system_failure("writing " + path.string());
    return path;
  }

  // `state`: file with the stored state from which the guest starts. Empty: it boots.
  Result<std::vector<std::string>> command_line(const fs::path& initrd, const std::string& state) {
    const auto path = [this](const std::string& file) { return escaped((directory / file).string()); };
    std::vector<std::string> argv = {options_.qemu,
                                     "-name",
                                     name,
                                     "-accel",
                                     options_.accelerator,
                                     "-M",
                                     "pc",
                                     "-nodefaults",
                                     "-no-user-config",
                                     "-display",
                                     "none",
                                     "-no-reboot",
                                     "-m",
                                     std::to_string(options_.memory),
                                     "-kernel",
                                     image_.kernel.string(),
                                     "-initrd",
                                     initrd.string()};
    std::string kernel =
        "console=ttyS0 loglevel=5 panic=-1 oops=panic nokaslr mitigations=off no_timer_check tsc=unstable "
        "trace_clock=global random.trust_cpu=on net.ifnames=0 rdinit=/init";
    if (!options_.kernel_arguments.empty()) kernel += " " + options_.kernel_arguments;
    argv.insert(argv.end(), {"-append", kernel});
    const auto add = [&argv](std::initializer_list<std::string> words) { argv.insert(argv.end(), words); };
    if (options_.snapshot)
      add({"-chardev", "socket,id=monitor,server=on,wait=off,path=" + path("monitor"), "-mon",
           "chardev=monitor,mode=control"});
    if (!state.empty()) add({"-incoming", "exec:cat " + state});
    // Descriptors 3 and 4 are the host's ends of the console and of the status channel.
    add({"-chardev", "socket,id=console,fd=3", "-serial", "chardev:console"});
    add({"-device", "virtio-serial-pci,max_ports=31"});
    const auto channel = [&](const std::string& id, const std::string& backend, const std::string& port = "") {
      add({"-chardev", fmt::format("{},id={}", backend, id), "-device",
           fmt::format("virtserialport,chardev={},name={}", id, port.empty() ? id : port)});
    };
    const auto listening = [&](const std::string& file) { return "socket,server=on,wait=off,path=" + path(file); };
    add({"-chardev", listening("shell") + ",id=shell", "-device", "virtconsole,chardev=shell"});
    channel("signals", "pipe,path=" + path("signals"));
    for (unsigned slot = 0; slot < run_slots; ++slot) {
      const std::string base = fmt::format("run.{}", slot);
      channel(base + ".control", "pipe,path=" + path(base + ".control"));
      for (const char* stream : {".in", ".out", ".err"}) channel(base + stream, listening(base + stream));
    }
    for (unsigned number = 0; number < (options_.agent.empty() ? 0 : options_.agent_channels); ++number)
      channel(fmt::format("agent.{}", number), listening(fmt::format("agent.{}", number)));
    channel("status", "socket,fd=4");  // the last device: when the guest sees it, all others exist

    for (std::size_t i = 0; i < ports.size(); ++i) {
      const std::string file = path(fmt::format("eth{}", i));
      add({"-netdev",
           fmt::format("dgram,id=eth{},local.type=unix,local.path={},remote.type=unix,remote.path={}.peer", i, file,
                       file),
           "-device", fmt::format("virtio-net-pci,netdev=eth{},mac={},romfile=", i, ports[i].mac)});
    }
    tcp.clear();
    if (!options_.tcp_ports.empty()) {
      std::string user = "user,id=tcp0";
      for (const std::uint16_t port : options_.tcp_ports) {
        auto host = free_tcp_port();
        if (!host) return tl::unexpected(host.error());
        tcp.push_back({port, *host});
        user += fmt::format(",hostfwd=tcp:127.0.0.1:{}-:{}", *host, port);
      }
      add({"-netdev", user, "-device", fmt::format("virtio-net-pci,netdev=tcp0,mac={},romfile=", tcp_mac())});
    }
    if (!options_.share.empty())
      add({"-fsdev",
           fmt::format("local,id=share,path={},security_model=none,readonly=on", escaped(options_.share.string())),
           "-device", "virtio-9p-pci,fsdev=share,mount_tag=share"});
    return argv;
  }

  Result<void> make_pipes() {
    std::vector<std::string> names = {"signals"};
    for (unsigned slot = 0; slot < run_slots; ++slot) {
      const std::string base = fmt::format("run.{}", slot);
      names.push_back(base + ".control");
      const Descriptor lock(::open((directory / (base + ".lock")).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
      if (!lock) return system_failure("making " + base + ".lock");
    }
    for (const std::string& base : names)
      for (const char* end : {".in", ".out"})
        if (::mkfifo((directory / (base + end)).c_str(), 0600) != 0 && errno != EEXIST)
          return system_failure("making " + (directory / (base + end)).string());
    return {};
  }

  Result<void> boot_once(const fs::path& initrd, const std::string& state = {}) {
    const auto began = Clock::now();
    stop_watching();
    process_.kill();
    if (auto made = make_pipes(); !made) return made;
    auto argv = command_line(initrd, state);
    if (!argv) return tl::unexpected(argv.error());
    int console[2], status[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, console) != 0 ||
        ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, status) != 0)
      return system_failure("create sockets for the guest");
    console_end_ = Descriptor(console[0]);
    status_end_ = Descriptor(status[0]);
    const Descriptor console_theirs(console[1]), status_theirs(status[1]);
    const fs::path qemu_log = directory / "qemu.log";
    const Descriptor log(::open(qemu_log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!log) return system_failure("making " + qemu_log.string());
    wake_event_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    ended_event_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    change_event_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_event_ || !ended_event_ || !change_event_) return system_failure("eventfd");

    Process::Options how;
    how.argv = *argv;
    how.descriptors = {{log.get(), 1}, {log.get(), 2}, {console_theirs.get(), 3}, {status_theirs.get(), 4}};
    auto started = Process::start(how);
    if (!started) return tl::unexpected(started.error());
    process_ = std::move(*started);
    {
      const std::lock_guard lock(mutex_);
      console_ = {};
      ended_.reset();
      told_.clear();
      ready_ = false;
    }
    quit_.store(false);
    watcher_ = std::thread([this] { watch(); });

    const auto deadline = began + options_.timeout;
    while (state.empty()) {  // not for a restored guest, which was ready when its state was stored
      {
        const std::lock_guard lock(mutex_);
        if (ready_) break;
        if (!told_.empty() && told_.back().rfind("failed ", 0) == 0)
          return failure(Kind::guest, "setup of the guest failed: " + told_.back().substr(7) + last_lines());
        if (ended_) return failure(Kind::boot, "the guest did not boot: " + ended_->message);
      }
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
      if (left <= 0) {
        const std::lock_guard lock(mutex_);
        return failure(Kind::boot,
                       fmt::format("the guest did not boot within {} s; last stage: {}{}", options_.timeout.count(),
                                   told_.empty() ? "none" : told_.back(), last_lines()));
      }
      pollfd waiting[] = {{change_event_.get(), POLLIN, 0}, {options_.stop, POLLIN, 0}};
      ::poll(waiting, 2, static_cast<int>(left));
      if (waiting[1].revents != 0) return failure(Kind::stopped, "stopped during the boot of the guest");
      std::uint64_t count;
      if (waiting[0].revents != 0) static_cast<void>(!::read(change_event_.get(), &count, sizeof count));
    }
    agents.clear();
    for (unsigned number = 0; number < (options_.agent.empty() ? 0 : options_.agent_channels); ++number)
      agents.push_back("unix:" + (directory / fmt::format("agent.{}", number)).string());
    if (auto answered = wait_for_agent(deadline); !answered) return answered;
    boot_seconds = std::chrono::duration<double>(Clock::now() - began).count();
    return {};
  }

  // Waits until the agent responds on the last channel, and ends that conversation so that the channel can be used.
  Result<void> wait_for_agent(Clock::time_point deadline) {
    if (agents.empty()) return {};
    auto socket = connect_to_guest(agents.back().substr(5));
    // If the guest starts from a stored state, qemu may not have created its sockets yet.
    while (!socket && Clock::now() < deadline && !ended() &&
           !stopped_within(options_.stop, std::chrono::milliseconds(10)))
      socket = connect_to_guest(agents.back().substr(5));
    if (!socket) return tl::unexpected(socket.error());
    constexpr std::string_view question =
        "{\"id\":1,\"do\":\"hello\",\"protocol\":1,\"controller\":\"lab\"}\n{\"id\":2,\"do\":\"bye\"}\n";
    if (::send(socket->get(), question.data(), question.size(), MSG_NOSIGNAL) < 0)
      return system_failure("send a request to the agent");
    std::string answer;
    while (std::count(answer.begin(), answer.end(), '\n') < 2) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
      pollfd waiting[] = {{socket->get(), POLLIN, 0}, {options_.stop, POLLIN, 0}};
      const int ready = left <= 0 ? 0 : ::poll(waiting, 2, static_cast<int>(left));
      if (ready == 0) {
        const std::lock_guard lock(mutex_);
        return failure(Kind::boot, "the guest booted, but its agent does not respond" + last_lines());
      }
      if (waiting[1].revents != 0) return failure(Kind::stopped, "stopped during the boot of the guest");
      char buffer[1024];
      const ssize_t got = ::recv(socket->get(), buffer, sizeof buffer, MSG_DONTWAIT);
      if (got == 0) return failure(Kind::boot, "the guest ended before its agent responded");
      if (got > 0) answer.append(buffer, static_cast<std::size_t>(got));
    }
    if (answer.find("\"result\"") == std::string::npos)
      return failure(Kind::guest, "unexpected hello response of the guest's agent: " + answer);
    return {};
  }

  // Returns the last lines of the console, for an error message. The caller must hold the mutex.
  [[nodiscard]] std::string last_lines() const {
    std::string text;
    for (const std::string& line : console_.last_lines()) text += "\n  " + line;
    return text;
  }

  void stop_watching() {
    if (!watcher_.joinable()) return;
    quit_.store(true);
    wake();
    watcher_.join();
  }

  void wake() const {
    const std::uint64_t one = 1;
    if (wake_event_) static_cast<void>(!::write(wake_event_.get(), &one, sizeof one));
  }
  static void raise(const Descriptor& event) {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(event.get(), &one, sizeof one));
  }

  // The watcher thread: writes the console output to a log, detects kernel errors, and reads the status channel until
  // qemu exits.
  void watch() {
    const Descriptor log(::open((directory / "console.log").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    std::size_t logged = 0;
    std::string status;
    bool console_open = true, status_open = true;
    while (!quit_.load()) {
      pollfd waiting[] = {{console_open ? console_end_.get() : -1, POLLIN, 0},
                          {status_open ? status_end_.get() : -1, POLLIN, 0},
                          {process_.descriptor(), POLLIN, 0},
                          {wake_event_.get(), POLLIN, 0}};
      if (::poll(waiting, 4, -1) < 0) continue;
      char buffer[8192];
      if (waiting[0].revents != 0) {
        const ssize_t got = ::read(console_end_.get(), buffer, sizeof buffer);
        if (got > 0) {
          const std::lock_guard lock(mutex_);
          console_.take({buffer, static_cast<std::size_t>(got)});
          if (logged < longest_console_log)
            static_cast<void>(!::write(log.get(), buffer, static_cast<std::size_t>(got)));
          logged += static_cast<std::size_t>(got);
        } else if (got == 0 || errno != EINTR) {
          console_open = false;
        }
      }
      if (waiting[1].revents != 0) {
        const ssize_t got = ::read(status_end_.get(), buffer, sizeof buffer);
        if (got > 0) {
          status.append(buffer, static_cast<std::size_t>(got));
          for (std::size_t end; (end = status.find('\n')) != std::string::npos; status.erase(0, end + 1)) {
            const std::lock_guard lock(mutex_);
            told_.push_back(status.substr(0, end));
            ready_ = ready_ || told_.back().rfind("ready", 0) == 0;
          }
          raise(change_event_);
        } else if (got == 0 || errno != EINTR) {
          status_open = false;
        }
      }
      if (waiting[2].revents != 0 && !console_open && !status_open) {
        tell_end();
        return;
      }
      // qemu has exited, but a channel is open. Report the end once no more output arrives.
      if (waiting[2].revents != 0 && waiting[0].revents == 0 && waiting[1].revents == 0) {
        tell_end();
        return;
      }
    }
  }

  void tell_end() {
    const std::optional<int> status = process_.status();
    std::ifstream in(directory / "qemu.log");
    std::string said, line;
    while (std::getline(in, line))
      if (line.find("terminating on signal") == std::string::npos) said += "\n  " + line;
    const std::lock_guard lock(mutex_);
    LabError error{Kind::guest, {}};
    if (console_.panicked()) {
      const auto worst = std::max_element(console_.complaints().begin(), console_.complaints().end(),
                                          [](const KernelReport& a, const KernelReport& b) { return a.kind < b.kind; });
      error.message = "the guest's kernel panicked: " + worst->what + last_lines();
    } else if (status && *status == 0) {
      error.message = "the guest shut down" + said + last_lines();
    } else {
      error.message = "qemu ended: " + (status ? describe_status(*status) : "unknown status") + said;
    }
    ended_ = error;
    raise(ended_event_);
    raise(change_event_);
  }

  const Image image_;
  GuestOptions options_;
  Process process_;
  Descriptor console_end_, status_end_, wake_event_, ended_event_, change_event_;
  std::thread watcher_;
  std::atomic<bool> quit_ = false;
  mutable std::mutex mutex_;
  ConsoleWatch console_;
  std::optional<LabError> ended_;
  std::vector<std::string> told_;
  bool ready_ = false;
};

Snapshot::Snapshot() : file_(::memfd_create("rdmawire-guest", MFD_CLOEXEC)) {}
Snapshot::~Snapshot() {
  if (file_ >= 0) ::close(file_);
}
std::string Snapshot::path() const { return fmt::format("/proc/{}/fd/{}", ::getpid(), file_); }

Guest::Guest(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Guest::Guest(Guest&&) noexcept = default;
Guest& Guest::operator=(Guest&&) noexcept = default;
Guest::~Guest() = default;

Result<Guest> Guest::boot(const Image& image, const fs::path& lab, const GuestOptions& options) {
  auto impl = std::make_unique<Impl>(image, options);
  if (auto booted = impl->boot(lab); !booted) return tl::unexpected(booted.error());
  return Guest(std::move(impl));
}

const std::string& Guest::name() const { return impl_->name; }
const std::vector<Guest::Port>& Guest::ports() const { return impl_->ports; }
const std::vector<Guest::TcpPort>& Guest::tcp_ports() const { return impl_->tcp; }
const std::vector<std::string>& Guest::agents() const { return impl_->agents; }
const fs::path& Guest::directory() const { return impl_->directory; }
fs::path Guest::console_log() const { return impl_->directory / "console.log"; }
std::string Guest::shell() const { return (impl_->directory / "shell").string(); }
double Guest::boot_seconds() const { return impl_->boot_seconds; }
bool Guest::restored() const { return impl_->restored; }
pid_t Guest::process() const { return impl_->process(); }
std::vector<KernelReport> Guest::complaints() const { return impl_->complaints(); }
int Guest::ended_descriptor() const { return impl_->ended_descriptor(); }
std::optional<LabError> Guest::ended() const { return impl_->ended(); }

Result<RunResult> Guest::run(const std::vector<std::string>& argv, const RunOptions& options) {
  auto result = run_in_guest(impl_->directory, argv, options);
  if (!result && result.error().kind == Kind::guest) {
    // The watcher thread detects the reason shortly after the channels close. Wait up to 5 s for it.
    pollfd waiting{ended_descriptor(), POLLIN, 0};
    ::poll(&waiting, 1, 5000);
    if (const auto why = ended()) return tl::unexpected(*why);
  }
  return result;
}

}  // namespace rdmawire::lab
