/// rdmawire lab: Linux RDMA devices in virtual machines.

#include "cli/lab.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/terminal.hpp"
#include "conformance/lab/guest.hpp"
#include "conformance/lab/image.hpp"
#include "conformance/lab/run_directory.hpp"
#include "conformance/lab/sockets.hpp"
#include "replay/switch/switch.hpp"

namespace rdmawire::cli {
namespace guests {

namespace fs = std::filesystem;
using lab::LabError;
using Json = nlohmann::ordered_json;

enum class Device { rxe, siw, both };

struct Options {
  Device device = Device::rxe;
  std::string kernel = "debian";
  std::string modules;
  bool update = false;
  std::string name;
  unsigned guests = 1;
  unsigned ports = 1;
  unsigned mtu = 1500;
  unsigned vlan = 0;
  std::vector<std::string> addresses;
  std::string mac;
  std::vector<std::uint16_t> tcp_ports;
  std::vector<std::string> load;
  unsigned memory = 512;
  std::string share;
  std::string agent;
  std::string accelerator = "tcg";
  double timeout = 60;
  std::string in;
  std::vector<std::string> command;
  bool json = false;
  bool cache = false;
  bool quiet = false;
  std::string fault_text;
  std::string capture;
};

// The eventfd that signals make readable.
int stop_event = -1;
volatile std::sig_atomic_t stop_signal = 0;
void request_stop(int signal) {
  const int number = errno;
  stop_signal = signal;
  const std::uint64_t one = 1;
  static_cast<void>(!::write(stop_event, &one, sizeof one));
  errno = number;
}

}  // namespace guests

lab::StopDescriptor catch_signals() {
  guests::stop_event = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  struct sigaction action {};
  action.sa_handler = guests::request_stop;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
  return guests::stop_event;
}

Exit report_lab_error(const lab::LabError& error, bool briefly) {
  const std::string& message = error.message;
  if (error.kind != lab::LabError::Kind::stopped)
    report_error("lab: " + (briefly ? message.substr(0, message.find('\n')) : message));
  return error.kind == lab::LabError::Kind::usage ? Exit::usage : Exit::error;
}

Exit status_of_signal() { return guests::stop_signal ? static_cast<Exit>(128 + guests::stop_signal) : Exit::error; }

namespace guests {

/// Prints progress messages to standard error.
class ProgressPrinter {
 public:
  explicit ProgressPrinter(bool quiet) : quiet_(quiet) {}
  void operator()(std::string_view line) const {
    if (!quiet_) report_error("lab: " + std::string(line));
  }

 private:
  bool quiet_;
};

// The agent is next to the running program, both in an installation and in a build directory.
fs::path find_agent(const std::string& given) {
  if (!given.empty()) return given;
  std::error_code error;
  const fs::path neighbor = fs::read_symlink("/proc/self/exe", error).parent_path() / "rdmawire-agent";
  return fs::exists(neighbor, error) ? neighbor : fs::path();
}

class Lab {
 public:
  explicit Lab(const Options& options) : options_(options), progress_(options.quiet) {}

  lab::Result<void> boot() {
    auto faults = replay::FaultProgram::compile(options_.fault_text);
    if (!faults)
      return lab::failure(LabError::Kind::usage, "--faults: " + replay::to_string(faults.error(), options_.fault_text));
    if (options_.guests < 2 && (!options_.fault_text.empty() || !options_.capture.empty()))
      return lab::failure(LabError::Kind::usage,
                          "--faults and --output require --guests 2 or more, which are connected by a switch");
    faults_ = std::move(*faults);
    auto directory = lab::RunDirectory::create(options_.name);
    if (!directory) return tl::unexpected(directory.error());
    directory_ = std::move(*directory);
    lab::ImageOptions image_options;
    image_options.kernel = options_.kernel;
    image_options.modules = options_.modules;
    image_options.siw = options_.device != Device::rxe;
    image_options.update = options_.update;
    image_options.stop = stop_event;
    image_options.progress = progress_;
    auto image = lab::provide_image(image_options);
    if (!image) return tl::unexpected(image.error());
    image_ = std::move(*image);
    const auto began = std::chrono::steady_clock::now();
    std::vector<std::future<lab::Result<lab::Guest>>> booting;
    for (unsigned number = 1; number <= options_.guests; ++number)
      booting.push_back(std::async(std::launch::async, [this, number] {
        return lab::Guest::boot(image_, directory_.path(), guest_options(number));
      }));
    std::optional<LabError> failed;
    for (auto& one : booting) {
      auto guest = one.get();
      if (guest)
        guests_.push_back(std::move(*guest));
      else if (!failed)
        failed = guest.error();
    }
    if (failed) return tl::unexpected(*failed);
    if (guests_.size() > 1)
      if (auto connected = connect_guests(); !connected) return connected;
    const double seconds =
        image_.seconds + std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    progress_(fmt::format("{} with {} is running: {} {:.1f} s", image_.release, device_words(),
                          image_.built ? "new image," : "cached image,", seconds));
    // The rename makes the complete file visible atomically.
    const fs::path unfinished = directory_.path() / "lab.json.new";
    std::error_code error;
    if (!(std::ofstream(unfinished) << describe().dump(2) << '\n' << std::flush))
      return lab::failure(LabError::Kind::space, "cannot write " + unfinished.string() + "; check the free disk space");
    fs::rename(unfinished, directory_.path() / "lab.json", error);
    return {};
  }

  /// Connects the guests' first ports and a local wire with a switch.
  lab::Result<void> connect_guests() {
    const auto system_error = [](const std::string& message) { return lab::failure(LabError::Kind::system, message); };
    replay::SwitchOptions how;
    how.faults = faults_;
    if (!options_.capture.empty()) {
      auto writer = captures::Writer::create(options_.capture);
      if (!writer) return system_error(captures::to_string(writer.error()));
      how.left = std::move(*writer);
    }
    std::vector<std::unique_ptr<replay::Wire>> wires;
    for (const lab::Guest& guest : guests_) {
      auto wire = replay::open_wire(guest.ports().front().wire);
      if (!wire) return system_error(wire.error().message);
      wires.push_back(std::move(*wire));
    }
    // The remote endpoint of the local wire: a process that opens it binds the path with the suffix .peer.
    const std::string path = (directory_.path() / "wire").string();
    auto local = replay::open_wire(fmt::format("unix:{}.peer,local={}", path, path));
    if (!local) return system_error(local.error().message);
    wires.push_back(std::move(*local));
    auto joined = replay::Switch::start(std::move(wires), std::move(how));
    if (!joined) return system_error(joined.error().message);
    switch_ = std::move(*joined);
    wire_ = "unix:" + path;
    return {};
  }

  [[nodiscard]] Json describe() const {
    Json guests = Json::array();
    for (const lab::Guest& guest : guests_) {
      Json ports = Json::array(), tcp = Json::array();
      for (const auto& port : guest.ports())
        ports.push_back({{"interface", port.interface},
                         {"wire", switch_ && port.interface == "eth0" ? Json(nullptr) : Json(port.wire)},
                         {"mac", port.mac},
                         {"addresses", port.addresses},
                         {"devices", port.devices}});
      for (const auto& port : guest.tcp_ports())
        tcp.push_back({{"guest", port.guest}, {"host", fmt::format("127.0.0.1:{}", port.host)}});
      guests.push_back({{"name", guest.name()},
                        {"process", guest.process()},
                        {"ports", ports},
                        {"agents", guest.agents()},
                        {"tcp", tcp},
                        {"console", guest.console_log().string()},
                        {"boot_seconds", guest.boot_seconds()}});
    }
    return {
        {"name", directory_.name()}, {"process", ::getpid()},           {"kernel", image_.release},
        {"cached", !image_.built},   {"image_seconds", image_.seconds}, {"wire", switch_ ? Json(wire_) : Json(nullptr)},
        {"guests", guests}};
  }

  [[nodiscard]] std::vector<lab::Guest>& guests() { return guests_; }
  [[nodiscard]] const std::string& name() const { return directory_.name(); }

  /// Reports new kernel messages of the guests. Returns whether there were any.
  bool report_kernel_messages() {
    bool any = false;
    reported_.resize(guests_.size());
    for (std::size_t i = 0; i < guests_.size(); ++i) {
      const auto messages = guests_[i].complaints();
      for (; reported_[i] < messages.size(); ++reported_[i]) {
        const lab::KernelReport& message = messages[reported_[i]];
        std::string text = fmt::format("lab: {}: kernel message ({}): {}", guests_[i].name(),
                                       lab::to_string(message.kind), message.what);
        for (const std::string& line : message.lines) text += "\n  " + line;
        report_error(text);
        any = true;
      }
    }
    return any;
  }

 private:
  [[nodiscard]] std::string device_words() const {
    switch (options_.device) {
      case Device::rxe: return "rxe";
      case Device::siw: return "siw";
      case Device::both: break;
    }
    return "rxe and siw";
  }

  [[nodiscard]] lab::GuestOptions guest_options(unsigned number) const {
    lab::GuestOptions guest;
    guest.rxe = options_.device != Device::siw;
    guest.siw = options_.device != Device::rxe;
    guest.number = number;
    guest.ports.assign(options_.ports, {});
    for (lab::PortOptions& port : guest.ports) {
      port.mtu = options_.mtu;
      if (options_.vlan) port.vlan = options_.vlan;
    }
    guest.ports.front().addresses = options_.addresses;
    guest.ports.front().mac = options_.mac;
    guest.tcp_ports = options_.tcp_ports;
    guest.modules = options_.load;
    guest.memory = options_.memory;
    guest.share = options_.share;
    guest.agent = find_agent(options_.agent);
    guest.accelerator = options_.accelerator;
    guest.timeout = std::chrono::seconds(static_cast<std::int64_t>(options_.timeout));
    guest.stop = stop_event;
    guest.progress = progress_;
    return guest;
  }

  const Options& options_;
  ProgressPrinter progress_;
  lab::RunDirectory directory_;
  lab::Image image_;
  std::vector<lab::Guest> guests_;  // destroyed before their directory
  std::unique_ptr<replay::Switch> switch_;
  std::string wire_;  // the local wire at the switch
  replay::FaultProgram faults_;
  std::vector<std::size_t> reported_;
};

std::string describe_text(const Json& described) {
  std::string text = fmt::format("{}  kernel {}  process {}\n", described.at("name").get<std::string>(),
                                 described.at("kernel").get<std::string>(), described.at("process").get<int>());
  if (described.at("wire").is_string())
    text += fmt::format("  switch  connects the first ports and {}\n", described.at("wire").get<std::string>());
  for (const Json& guest : described.at("guests")) {
    text += fmt::format("  {}\n", guest.at("name").get<std::string>());
    for (const Json& port : guest.at("ports"))
      text += fmt::format("    wire     {}  {} {}  {}  {}\n",
                          port.at("wire").is_string() ? port.at("wire").get<std::string>() : "(at the switch)",
                          port.at("interface").get<std::string>(), port.at("mac").get<std::string>(),
                          fmt::join(port.at("addresses").get<std::vector<std::string>>(), " "),
                          fmt::join(port.at("devices").get<std::vector<std::string>>(), " "));
    for (const Json& agent : guest.at("agents")) text += fmt::format("    agent    {}\n", agent.get<std::string>());
    for (const Json& tcp : guest.at("tcp"))
      text +=
          fmt::format("    TCP      {} to port {}\n", tcp.at("host").get<std::string>(), tcp.at("guest").get<int>());
    text += fmt::format("    console  {}\n", guest.at("console").get<std::string>());
  }
  return text;
}

Exit boot(const Options& options) {
  catch_signals();
  Lab the_lab(options);
  if (auto booted = the_lab.boot(); !booted)
    return booted.error().kind == LabError::Kind::stopped ? status_of_signal() : report_lab_error(booted.error());
  {
    Output output;
    output.text() = options.json ? the_lab.describe().dump(2) + "\n"
                                 : describe_text(the_lab.describe()) + "Press Ctrl-C to stop the lab.\n";
    if (!output.finish()) return Exit::error;
  }
  while (true) {
    std::vector<pollfd> waiting = {{stop_event, POLLIN, 0}};
    for (const lab::Guest& guest : the_lab.guests()) waiting.push_back({guest.ended_descriptor(), POLLIN, 0});
    ::poll(waiting.data(), waiting.size(), 1000);
    the_lab.report_kernel_messages();
    if (waiting[0].revents != 0) return Exit::success;
    for (const lab::Guest& guest : the_lab.guests())
      if (const auto ended = guest.ended()) {
        the_lab.report_kernel_messages();
        return report_lab_error({ended->kind, guest.name() + ": " + ended->message}, !guest.complaints().empty());
      }
  }
}

// The directory of a running guest: NAME, or NAME/2 for its second guest. "" selects the only running lab.
lab::Result<fs::path> find_guest(const std::string& in) {
  auto living = lab::RunDirectory::living();
  if (!living) return tl::unexpected(living.error());
  const std::size_t slash = in.find('/');
  const std::string name = in.substr(0, slash);
  const std::string number = slash == std::string::npos ? "1" : in.substr(slash + 1);
  std::string names;
  for (const auto& found : *living) {
    names += (names.empty() ? "" : ", ") + found.name;
    std::error_code error;
    if ((found.name == name || (name.empty() && living->size() == 1)) && fs::exists(found.path / "lab.json", error) &&
        fs::is_directory(found.path / number, error))
      return found.path / number;
  }
  return lab::failure(LabError::Kind::usage,
                      (in.empty() ? "more than one lab is running; use --in" : "no guest " + in) +
                          "; running labs: " + (names.empty() ? "none" : names));
}

Exit run(const Options& options) {
  catch_signals();
  lab::RunOptions how;
  how.input = STDIN_FILENO;
  how.output = STDOUT_FILENO;
  how.error = STDERR_FILENO;
  how.stop = stop_event;
  std::optional<Lab> own;
  fs::path guest;
  if (options.in.empty()) {
    own.emplace(options);
    if (auto booted = own->boot(); !booted)
      return booted.error().kind == LabError::Kind::stopped ? status_of_signal() : report_lab_error(booted.error());
    guest = own->guests().front().directory();
  } else {
    auto found = find_guest(options.in);
    if (!found) return report_lab_error(found.error());
    guest = *found;
  }
  const auto result =
      own ? own->guests().front().run(options.command, how) : lab::run_in_guest(guest, options.command, how);
  const bool reported = own && own->report_kernel_messages();
  if (!result) {
    if (result.error().kind == LabError::Kind::stopped) return status_of_signal();
    return report_lab_error(result.error(), reported);
  }
  return static_cast<Exit>(result->status);
}

// Sets the terminal to raw mode and restores it.
class RawTerminal {
 public:
  RawTerminal() {
    if (::tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios raw = before_;
    ::cfmakeraw(&raw);
    changed_ = ::tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
  }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;
  ~RawTerminal() {
    if (changed_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }

 private:
  termios before_{};
  bool changed_ = false;
};

Exit talk(const fs::path& guest) {
  auto connected = lab::connect_to_guest(guest / "shell");
  if (!connected) return report_lab_error(connected.error());
  const lab::Descriptor socket = std::move(*connected);
  const auto send = [&](std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EINTR) return;
      if (sent > 0) text.remove_prefix(static_cast<std::size_t>(sent));
    }
  };
  const bool terminal = ::isatty(STDIN_FILENO) == 1;
  std::optional<RawTerminal> raw;
  if (terminal) {
    report_error("lab: shell in the guest; type exit or Ctrl-] to leave");
    winsize size{};
    if (::ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col)
      send(fmt::format("stty rows {} cols {}; clear\n", size.ws_row, size.ws_col));
    raw.emplace();
  }
  constexpr std::string_view left = "\033]rdmawire;left\007";  // printed by the guest when its shell exits
  constexpr char escape = 0x1d;
  std::string seen;
  bool reading = true;
  while (true) {
    pollfd waiting[] = {{socket.get(), POLLIN, 0}, {reading ? STDIN_FILENO : -1, POLLIN, 0}, {stop_event, POLLIN, 0}};
    if (::poll(waiting, 3, -1) < 0 && errno != EINTR) return Exit::error;
    if (waiting[2].revents != 0) return status_of_signal();
    char buffer[4096];
    if (waiting[0].revents != 0) {
      const ssize_t got = ::read(socket.get(), buffer, sizeof buffer);
      if (got <= 0) {
        raw.reset();
        report_error("lab: the guest stopped");
        return Exit::error;
      }
      seen.append(buffer, static_cast<std::size_t>(got));
      const std::size_t end = seen.find(left);
      std::size_t show = end;
      if (end == std::string::npos) {
        // Delays bytes that may be the start of the mark.
        show = seen.size();
        for (std::size_t length = std::min(left.size() - 1, seen.size()); length > 0; --length)
          if (seen.compare(seen.size() - length, length, left.substr(0, length)) == 0) {
            show -= length;
            break;
          }
      }
      for (std::size_t at = 0; at < show;) {
        const ssize_t written = ::write(STDOUT_FILENO, seen.data() + at, show - at);
        if (written < 0 && errno != EINTR) return Exit::error;
        if (written > 0) at += static_cast<std::size_t>(written);
      }
      if (end != std::string::npos) return Exit::success;
      seen.erase(0, show);
    }
    if (waiting[1].revents != 0) {
      const ssize_t got = ::read(STDIN_FILENO, buffer, sizeof buffer);
      if (got <= 0) {
        reading = false;
        send("\004");  // a terminal's end of input
        continue;
      }
      const std::string_view typed(buffer, static_cast<std::size_t>(got));
      if (terminal && typed.find(escape) != std::string_view::npos) return Exit::success;
      send(typed);
    }
  }
}

Exit shell(const Options& options) {
  catch_signals();
  std::optional<Lab> own;
  fs::path guest;
  if (options.in.empty()) {
    auto living = lab::RunDirectory::living();
    if (!living) return report_lab_error(living.error());
    if (!living->empty()) {
      auto found = find_guest({});
      if (!found) return report_lab_error(found.error());
      guest = *found;
    }
  } else {
    auto found = find_guest(options.in);
    if (!found) return report_lab_error(found.error());
    guest = *found;
  }
  if (guest.empty()) {
    own.emplace(options);
    if (auto booted = own->boot(); !booted)
      return booted.error().kind == LabError::Kind::stopped ? status_of_signal() : report_lab_error(booted.error());
    guest = own->guests().front().directory();
  }
  const Exit exit = talk(guest);
  if (own) own->report_kernel_messages();
  return exit;
}

Exit status(const Options& options) {
  auto living = lab::RunDirectory::living();
  if (!living) return report_lab_error(living.error());
  Json labs = Json::array();
  for (const auto& found : *living) {
    std::ifstream in(found.path / "lab.json");
    Json described = Json::parse(in, nullptr, false);
    // The file exists only after the boot.
    if (!described.is_object()) described = Json{{"name", found.name}, {"booting", true}};
    labs.push_back(std::move(described));
  }
  const fs::path cache = lab::default_cache();
  const auto layers = lab::cached_layers(cache);
  Json cached = Json::array();
  std::uint64_t bytes = 0;
  for (const auto& layer : layers) {
    cached.push_back({{"name", layer.name}, {"bytes", layer.bytes}, {"packages", layer.packages}});
    bytes += layer.bytes;
  }
  Output output;
  if (options.json) {
    output.text() =
        Json{{"labs", labs}, {"cache", {{"path", cache.string()}, {"bytes", bytes}, {"layers", cached}}}}.dump(2) +
        "\n";
  } else {
    std::string& out = output.text();
    if (labs.empty()) out += "no lab is running\n";
    for (const Json& described : labs) {
      try {
        out += describe_text(described);
      } catch (const Json::exception&) {  // booting, or of another version
        out += described.value("name", "?") + (described.contains("booting") ? "  booting\n" : "  running\n");
      }
    }
    out += fmt::format("cache {}: {:.1f} MB\n", cache.string(), static_cast<double>(bytes) / 1e6);
    for (const auto& layer : layers) {
      out += fmt::format("  {:6.1f} MB  {}", static_cast<double>(layer.bytes) / 1e6, layer.name);
      for (const char* package : {"rdma-core", "libibverbs1", "perftest", "nvme-cli"})
        if (const auto found = layer.packages.find(package); found != layer.packages.end())
          out += fmt::format("  {} {}", found->first, found->second);
      for (const auto& [package, version] : layer.packages)
        if (package.rfind("linux-", 0) == 0) out += fmt::format("  {} {}", package, version);
      out += '\n';
    }
  }
  return output.finish() ? Exit::success : Exit::error;
}

Exit clean(const Options& options) {
  catch_signals();
  auto living = lab::RunDirectory::living();
  if (!living) return report_lab_error(living.error());
  Output output;
  output.text() += fmt::format("removed leftovers; {} running\n",
                               living->size() == 1 ? "1 lab is" : fmt::format("{} labs are", living->size()));
  if (!options.cache) return output.finish() ? Exit::success : Exit::error;
  output.settle(true);
  const fs::path cache = lab::default_cache();
  auto bytes = lab::clean_cache(cache, stop_event, ProgressPrinter(false));
  if (!bytes) return report_lab_error(bytes.error());
  output.text() += fmt::format("removed the cache {}: {:.1f} MB\n", cache.string(), static_cast<double>(*bytes) / 1e6);
  return output.finish() ? Exit::success : Exit::error;
}

void add_guest_options(Command& command, Options& options) {
  command.group("Devices");
  command.choice<Device>("--device", "DEVICE", options.device,
                         {{"rxe", Device::rxe, "RoCEv2"}, {"siw", Device::siw, "iWARP"}, {"both", Device::both}},
                         "Set the RDMA device of the guests.");
  command
      .option("--guests", "N", options.guests,
              "Boot N guests. A switch connects the first ports of two or more guests.")
      .range(1, 8);
  command
      .option("--ports", "N", options.ports,
              "Set the number of Ethernet ports of each guest. Each port that is not connected to the switch is "
              "available as a wire (see docs/reference/wires.md).")
      .range(1, 4);
  command.option("--mtu", "BYTES", options.mtu, "Set the MTU of the guest ports in bytes.").range(576, 9000);
  command
      .option("--vlan", "ID", options.vlan,
              "Add a VLAN interface to each port (eth0.ID, …). siw uses it; rxe adds its addresses to the GID table.")
      .range(1, 4094);
  command.option("--address", "IP/N", options.addresses,
                 "Set an address of the first guest's first port, for example 192.0.2.1/24.");
  command.option("--mac", "MAC", options.mac, "Set the MAC address of the first guest's first port.");
  command.option("--tcp", "PORT", options.tcp_ports, "Forward a port of 127.0.0.1 to this TCP port of the guest.");
  command.group("Switch");
  command.option(
      "--faults", "PROGRAM", options.fault_text,
      "Inject faults in the switch. PROGRAM is the text of the rules (see docs/reference/fault-language.md).");
  command.option("-o,--output", "FILE", options.capture, "Write a capture of the frames that the switch forwarded.");
  command.group("Guest system");
  command
      .option("--kernel", "KERNEL", options.kernel,
              "Boot this kernel: debian (the kernel of the Debian release), newest (Debian's newest kernel), or the "
              "path of a bzImage or vmlinux (requires --modules).")
      .completes([] {
        return std::vector<std::string>{"debian", "newest"};
      });
  command.option("--modules", "DIR", options.modules, "Use the kernel modules in DIR (lib/modules/RELEASE).");
  command.option("--load", "MODULE", options.load, "Also load this kernel module.");
  command.flag("--update", options.update, "Rebuild the image with the current packages.");
  command.option("--memory", "MIB", options.memory, "Set the memory of each guest in MiB.").range(256, 65536);
  command.option("--share", "DIR", options.share, "Mount DIR read-only at /share in the guests.");
  command.option("--agent", "FILE", options.agent, "Run this agent program in the guests.")
      .by_default("rdmawire-agent next to rdmawire");
  command
      .option("--accel", "NAME", options.accelerator,
              "Set the QEMU accelerator: tcg (works everywhere) or kvm (requires /dev/kvm).")
      .completes([] {
        return std::vector<std::string>{"tcg", "kvm"};
      });
  command.group("Run");
  command.option("--name", "NAME", options.name, "Set the name of the lab. Multiple labs can run in parallel.");
  command
      .option("--timeout", "SECONDS", options.timeout,
              "Set the boot timeout in seconds. A failed boot is retried once.")
      .positive();
  command.flag("-q,--quiet", options.quiet, "Suppress progress messages.");
}

std::vector<std::string> running_labs() {
  std::vector<std::string> names;
  if (const auto living = lab::RunDirectory::living())
    for (const auto& found : *living) names.push_back(found.name);
  return names;
}

void add_in_option(Command& command, Options& options) {
  command.option("--in", "NAME", options.in, "Use a running guest: NAME, or NAME/2 for the second guest of the lab.")
      .completes(running_labs);
}

/// Throws UsageError unless the path is empty or names an existing file or directory.
void require_existing(const char* option, const std::string& path) {
  std::error_code error;
  if (!path.empty() && !fs::exists(path, error)) throw UsageError(fmt::format("{}: {} does not exist", option, path));
}

void check(const Options& options) {
  require_existing("--share", options.share);
  require_existing("--agent", options.agent);
}

const std::vector<Status> statuses{{"0", "success"}, {"2", "usage error"}, {"3", "the lab failed"}};

Command subcommand(const char* name, const char* summary) {
  Command command;
  command.name = name;
  command.summary = summary;
  command.statuses = statuses;
  return command;
}

Command boot_command(const std::shared_ptr<Options>& options) {
  Command command = subcommand("boot", "Boot guests and keep them running until Ctrl-C.");
  command.description = "Prints the wires, agents and TCP ports of the guests.";
  command.group("Output");
  command.flag("--json", options->json, "Print one JSON object.");
  add_guest_options(command, *options);
  command.examples = {{"rdmawire lab boot", "Boot one guest with an rxe device."},
                      {"rdmawire lab boot --device both --guests 2 --name bench", "Boot two guests with rxe and siw."},
                      {"rdmawire lab boot --guests 2 --faults 'drop psn +3 try 1 from a' -o lossy.pcapng",
                       "Drop a packet between two guests, and record the traffic."}};
  command.run = [options](const Given&) {
    check(*options);
    return boot(*options);
  };
  return command;
}

Command run_command(const std::shared_ptr<Options>& options) {
  Command command = subcommand("run", "Run a program in a guest.");
  command.description = "Boots a guest, runs the program and stops the guest. Use --in for a running guest.";
  command.usage = {"[OPTIONS] -- COMMAND..."};
  command.argument("COMMAND", options->command, "Program and its arguments, after \"--\".").repeats().must_be_given();
  add_in_option(command, *options);
  add_guest_options(command, *options);
  command.examples = {{"rdmawire lab run -- ibv_devinfo", "Show the device of a new guest."},
                      {"rdmawire lab run --device siw -- rdma link", "Use an iWARP device."},
                      {"rdmawire lab run --in bench/2 -- rping -s -C 1", "Use the second guest of a running lab."}};
  command.statuses = {{"status of the program", "the program ran"}, {"2", "usage error"}, {"3", "the lab failed"}};
  command.run = [options](const Given&) {
    check(*options);
    return run(*options);
  };
  return command;
}

Command shell_command(const std::shared_ptr<Options>& options) {
  Command command = subcommand("shell", "Open a shell in a running guest, or in a new one.");
  add_in_option(command, *options);
  add_guest_options(command, *options);
  command.examples = {{"rdmawire lab shell", "Use the running guest, or boot one."},
                      {"rdmawire lab shell --in bench/2", "Use the second guest of a running lab."},
                      {"rdmawire lab shell --kernel newest", "Boot Debian's newest kernel."}};
  command.run = [options](const Given&) {
    check(*options);
    return shell(*options);
  };
  return command;
}

Command status_command(const std::shared_ptr<Options>& options) {
  Command command = subcommand("status", "Show the running labs and the cache.");
  command.flag("--json", options->json, "Print one JSON object.");
  command.examples = {{"rdmawire lab status", "Show wires, agents and consoles."},
                      {"rdmawire lab status --json", "Print the same for a script."},
                      {"rdmawire lab status --json | jq -r '.labs[].guests[].agents[]'", "List the agents."}};
  command.run = [options](const Given&) { return status(*options); };
  return command;
}

Command clean_command(const std::shared_ptr<Options>& options) {
  Command command = subcommand("clean", "Remove leftovers of labs that did not shut down cleanly.");
  command.flag("--cache", options->cache, "Also remove the cached images and packages.");
  command.examples = {{"rdmawire lab clean", "Remove leftovers."},
                      {"rdmawire lab clean --cache", "Also free the disk space of the cache."},
                      {"rdmawire lab clean && rdmawire lab status", "Remove leftovers and show what is running."}};
  command.run = [options](const Given&) { return clean(*options); };
  return command;
}

}  // namespace guests

Command lab_command() {
  const auto options = std::make_shared<guests::Options>();
  Command command;
  command.name = "lab";
  command.summary = "Run Linux RDMA devices (rxe and siw) in virtual machines.";
  command.description =
      "Requires neither root nor RDMA hardware. The guests' Ethernet ports are wires for the other commands. The first "
      "use downloads Debian packages, which takes up to one minute. They are cached in ~/.cache/rdmawire/lab.";
  command.subcommands = {
      guests::boot_command(options),  guests::run_command(options),    lab_record_command(),
      guests::shell_command(options), guests::status_command(options), guests::clean_command(options)};
  command.examples = {{"rdmawire lab run -- ibv_devinfo", "Boot a guest, run a program and stop the guest."},
                      {"rdmawire lab boot --guests 2", "Boot two guests that a switch connects."},
                      {"rdmawire lab record rping -o rping.pcapng", "Record rping between two guests."}};
  command.statuses = guests::statuses;
  return command;
}

}  // namespace rdmawire::cli
