/// rdmawire lab: real Linux RDMA devices in virtual machines.

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
namespace {

namespace fs = std::filesystem;
using lab::LabError;
using Json = nlohmann::ordered_json;

constexpr const char* description =
    "A real Linux RDMA device on any machine: rxe (RoCEv2) and siw (iWARP) in a virtual machine under emulation, in\n"
    "seconds, without root and without hardware. Its Ethernet ports are wires for the other commands.";
constexpr const char* examples = R"(Examples:
  rdmawire lab run -- ibv_devinfo                     boots, runs one program there, ends
  rdmawire lab run --device siw -- rdma link
  rdmawire lab boot                                   stays until ctrl-C; prints wires, agents, TCP ports
  rdmawire lab boot --device both --guests 2 --name bench
  rdmawire lab run --in bench/2 -- rping -s -C 1      in the second guest of that lab
  rdmawire lab boot --guests 2 --faults 'drop psn +3 try 1 from a' -o lossy.pcapng
  rdmawire lab record rping -o rping.pcapng           real programs between two guests, recorded
  rdmawire lab shell                                  a shell in a guest that is up, or in a new one
  rdmawire lab status
  rdmawire lab clean --cache

The first use fetches Debian packages and takes up to a minute; they stay in ~/.cache/rdmawire/lab.

Exit status: 0 fine (run: the program's own), 2 wrong usage, 3 the lab could not do it.)";

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

// What ctrl-C makes readable.
int stop_event = -1;
volatile std::sig_atomic_t stop_signal = 0;
void request_stop(int signal) {
  const int number = errno;
  stop_signal = signal;
  const std::uint64_t one = 1;
  static_cast<void>(!::write(stop_event, &one, sizeof one));
  errno = number;
}

}  // namespace

lab::StopDescriptor catch_signals() {
  stop_event = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  struct sigaction action {};
  action.sa_handler = request_stop;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
  return stop_event;
}

Exit trouble(const LabError& error, bool briefly) {
  const std::string& message = error.message;
  if (error.kind != LabError::Kind::stopped)
    report_error("lab: " + (briefly ? message.substr(0, message.find('\n')) : message));
  return error.kind == LabError::Kind::usage ? Exit::usage : Exit::trouble;
}

Exit status_of_signal() { return stop_signal ? static_cast<Exit>(128 + stop_signal) : Exit::trouble; }

namespace {

// What is being done: a line each on standard error, from the second second on.
class ProgressPrinter {
 public:
  explicit ProgressPrinter(bool quiet) : quiet_(quiet) {}
  void operator()(std::string_view line) const {
    if (!quiet_) report_error("lab: " + std::string(line));
  }

 private:
  bool quiet_;
};

// Beside the running program, where both are installed and where both are built.
fs::path find_agent(const std::string& given) {
  if (!given.empty()) return given;
  std::error_code error;
  const fs::path beside = fs::read_symlink("/proc/self/exe", error).parent_path() / "rdmawire-agent";
  return fs::exists(beside, error) ? beside : fs::path();
}

class Lab {
 public:
  explicit Lab(const Options& options) : options_(options), story_(options.quiet) {}

  lab::Result<void> boot() {
    auto faults = replay::FaultProgram::compile(options_.fault_text);
    if (!faults)
      return lab::failure(LabError::Kind::usage, "--faults: " + replay::to_string(faults.error(), options_.fault_text));
    if (options_.guests < 2 && (!options_.fault_text.empty() || !options_.capture.empty()))
      return lab::failure(LabError::Kind::usage,
                          "--faults and --output are the switch's, which joins --guests 2 or more");
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
    image_options.progress = story_;
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
      if (auto joined = join(); !joined) return joined;
    const double seconds =
        image_.seconds + std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    story_(fmt::format("{} with {} is up: {} {:.1f} s", image_.release, device_words(),
                       image_.built ? "from nothing" : "cached,", seconds));
    // Whoever looks finds all of it or nothing.
    const fs::path unfinished = directory_.path() / "lab.json.new";
    std::error_code error;
    if (!(std::ofstream(unfinished) << describe().dump(2) << '\n' << std::flush))
      return lab::failure(LabError::Kind::space, "writing " + unfinished.string() + " failed; is the disk full?");
    fs::rename(unfinished, directory_.path() / "lab.json", error);
    return {};
  }

  /// Joins the guests' first ports, and a wire for us, with a switch.
  lab::Result<void> join() {
    const auto trouble_of = [](const std::string& message) { return lab::failure(LabError::Kind::system, message); };
    replay::SwitchOptions how;
    how.faults = faults_;
    if (!options_.capture.empty()) {
      auto writer = captures::Writer::create(options_.capture);
      if (!writer) return trouble_of(captures::to_string(writer.error()));
      how.left = std::move(*writer);
    }
    std::vector<std::unique_ptr<replay::Wire>> wires;
    for (const lab::Guest& guest : guests_) {
      auto wire = replay::open_wire(guest.ports().front().wire);
      if (!wire) return trouble_of(wire.error().message);
      wires.push_back(std::move(*wire));
    }
    // The other end of the wire that is ours: whoever opens it listens at its .peer.
    const std::string path = (directory_.path() / "wire").string();
    auto ours = replay::open_wire(fmt::format("unix:{}.peer,local={}", path, path));
    if (!ours) return trouble_of(ours.error().message);
    wires.push_back(std::move(*ours));
    auto joined = replay::Switch::start(std::move(wires), std::move(how));
    if (!joined) return trouble_of(joined.error().message);
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

  /// Tells what the guests' kernels complained of and was not told yet; whether there was anything.
  bool tell_complaints() {
    bool any = false;
    told_.resize(guests_.size());
    for (std::size_t i = 0; i < guests_.size(); ++i) {
      const auto complaints = guests_[i].complaints();
      for (; told_[i] < complaints.size(); ++told_[i]) {
        const lab::KernelReport& complaint = complaints[told_[i]];
        std::string text = fmt::format("lab: {}: the kernel complains ({}): {}", guests_[i].name(),
                                       lab::to_string(complaint.kind), complaint.what);
        for (const std::string& line : complaint.lines) text += "\n  " + line;
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
    guest.progress = story_;
    return guest;
  }

  const Options& options_;
  ProgressPrinter story_;
  lab::RunDirectory directory_;
  lab::Image image_;
  std::vector<lab::Guest> guests_;  // they end before the directory that they are in goes away
  std::unique_ptr<replay::Switch> switch_;
  std::string wire_;  // ours, at the switch
  replay::FaultProgram faults_;
  std::vector<std::size_t> told_;
};

std::string describe_text(const Json& described) {
  std::string text = fmt::format("{}  kernel {}  process {}\n", described.at("name").get<std::string>(),
                                 described.at("kernel").get<std::string>(), described.at("process").get<int>());
  if (described.at("wire").is_string())
    text += fmt::format("  switch  joins the first ports and {}\n", described.at("wire").get<std::string>());
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
    return booted.error().kind == LabError::Kind::stopped ? status_of_signal() : trouble(booted.error());
  {
    Output output;
    output.text() =
        options.json ? the_lab.describe().dump(2) + "\n" : describe_text(the_lab.describe()) + "ctrl-C ends it\n";
    if (!output.finish()) return Exit::trouble;
  }
  while (true) {
    std::vector<pollfd> waiting = {{stop_event, POLLIN, 0}};
    for (const lab::Guest& guest : the_lab.guests()) waiting.push_back({guest.ended_descriptor(), POLLIN, 0});
    ::poll(waiting.data(), waiting.size(), 1000);
    the_lab.tell_complaints();
    if (waiting[0].revents != 0) return Exit::fine;
    for (const lab::Guest& guest : the_lab.guests())
      if (const auto ended = guest.ended()) {
        the_lab.tell_complaints();
        return trouble({ended->kind, guest.name() + ": " + ended->message}, !guest.complaints().empty());
      }
  }
}

// The directory of a guest that is up: NAME, or NAME/2 for its second guest; "": the only lab there is.
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
  return lab::failure(LabError::Kind::usage, "there is no guest " + (in.empty() ? "to choose" : in) +
                                                 "; labs that are up: " + (names.empty() ? "none" : names));
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
      return booted.error().kind == LabError::Kind::stopped ? status_of_signal() : trouble(booted.error());
    guest = own->guests().front().directory();
  } else {
    auto found = find_guest(options.in);
    if (!found) return trouble(found.error());
    guest = *found;
  }
  const auto result =
      own ? own->guests().front().run(options.command, how) : lab::run_in_guest(guest, options.command, how);
  const bool told = own && own->tell_complaints();
  if (!result) {
    if (result.error().kind == LabError::Kind::stopped) return status_of_signal();
    return trouble(result.error(), told);
  }
  return static_cast<Exit>(result->status);
}

// The terminal, handed through byte by byte while this lives.
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
  if (!connected) return trouble(connected.error());
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
    report_error("lab: a shell in the guest; exit or ctrl-] leaves it");
    winsize size{};
    if (::ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col)
      send(fmt::format("stty rows {} cols {}; clear\n", size.ws_row, size.ws_col));
    raw.emplace();
  }
  constexpr std::string_view left = "\033]rdmawire;left\007";  // what the guest prints when its shell has ended
  constexpr char escape = 0x1d;
  std::string seen;
  bool reading = true;
  while (true) {
    pollfd waiting[] = {{socket.get(), POLLIN, 0}, {reading ? STDIN_FILENO : -1, POLLIN, 0}, {stop_event, POLLIN, 0}};
    if (::poll(waiting, 3, -1) < 0 && errno != EINTR) return Exit::trouble;
    if (waiting[2].revents != 0) return status_of_signal();
    char buffer[4096];
    if (waiting[0].revents != 0) {
      const ssize_t got = ::read(socket.get(), buffer, sizeof buffer);
      if (got <= 0) {
        raw.reset();
        report_error("lab: the guest has ended");
        return Exit::trouble;
      }
      seen.append(buffer, static_cast<std::size_t>(got));
      const std::size_t end = seen.find(left);
      std::size_t show = end;
      if (end == std::string::npos) {
        // What might be the mark's beginning waits.
        show = seen.size();
        for (std::size_t length = std::min(left.size() - 1, seen.size()); length > 0; --length)
          if (seen.compare(seen.size() - length, length, left.substr(0, length)) == 0) {
            show -= length;
            break;
          }
      }
      for (std::size_t at = 0; at < show;) {
        const ssize_t written = ::write(STDOUT_FILENO, seen.data() + at, show - at);
        if (written < 0 && errno != EINTR) return Exit::trouble;
        if (written > 0) at += static_cast<std::size_t>(written);
      }
      if (end != std::string::npos) return Exit::fine;
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
      if (terminal && typed.find(escape) != std::string_view::npos) return Exit::fine;
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
    if (!living) return trouble(living.error());
    if (!living->empty()) {
      auto found = find_guest({});
      if (!found) return trouble(found.error());
      guest = *found;
    }
  } else {
    auto found = find_guest(options.in);
    if (!found) return trouble(found.error());
    guest = *found;
  }
  if (guest.empty()) {
    own.emplace(options);
    if (auto booted = own->boot(); !booted)
      return booted.error().kind == LabError::Kind::stopped ? status_of_signal() : trouble(booted.error());
    guest = own->guests().front().directory();
  }
  const Exit exit = talk(guest);
  if (own) own->tell_complaints();
  return exit;
}

Exit status(const Options& options) {
  auto living = lab::RunDirectory::living();
  if (!living) return trouble(living.error());
  Json labs = Json::array();
  for (const auto& found : *living) {
    std::ifstream in(found.path / "lab.json");
    Json described = Json::parse(in, nullptr, false);
    // It says what it has only once it is up.
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
    if (labs.empty()) out += "no lab is up\n";
    for (const Json& described : labs) {
      try {
        out += describe_text(described);
      } catch (const Json::exception&) {  // it boots, or is of another version
        out += described.value("name", "?") + (described.contains("booting") ? "  booting\n" : "  up\n");
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
  return output.finish() ? Exit::fine : Exit::trouble;
}

Exit clean(const Options& options) {
  catch_signals();
  auto living = lab::RunDirectory::living();
  if (!living) return trouble(living.error());
  fmt::print("swept; {} up\n", living->size() == 1 ? "1 lab is" : fmt::format("{} labs are", living->size()));
  if (!options.cache) return Exit::fine;
  const fs::path cache = lab::default_cache();
  auto bytes = lab::clean_cache(cache, stop_event, ProgressPrinter(false));
  if (!bytes) return trouble(bytes.error());
  fmt::print("emptied {}: {:.1f} MB\n", cache.string(), static_cast<double>(*bytes) / 1e6);
  return Exit::fine;
}

void add_guest_options(CLI::App& app, Options& options) {
  add_choice<Device>(app, "--device", options.device,
                     {{"rxe", Device::rxe}, {"siw", Device::siw}, {"both", Device::both}}, "RoCEv2, iWARP");
  app.add_option("--kernel", options.kernel, "debian (the default), newest (Debian's newest), or a bzImage of yours")
      ->type_name("KERNEL");
  app.add_option("--modules", options.modules, "with a kernel of yours: its lib/modules/RELEASE")->type_name("DIR");
  app.add_flag("--update", options.update, "build the image anew, from the packages that there are now");
  app.add_option("--name", options.name, "of the lab; several can be up at once")->type_name("NAME");
  app.add_option("--guests", options.guests, "so many guests")->check(CLI::Range(1, 8))->type_name("N");
  app.add_option("--faults", options.fault_text, "what the switch between guests does to frames, as a program")
      ->type_name("PROGRAM");
  app.add_option("-o,--output", options.capture, "a capture of what the switch forwarded")->type_name("OUT");
  app.add_option("--ports", options.ports, "Ethernet ports of a guest, each a wire")
      ->check(CLI::Range(1, 4))
      ->type_name("N");
  app.add_option("--mtu", options.mtu, "of the ports")->check(CLI::Range(576, 9000))->type_name("BYTES");
  app.add_option("--vlan", options.vlan, "eth0.ID is there, too; siw sits on it, rxe has its addresses among its GIDs")
      ->check(CLI::Range(1, 4094))
      ->type_name("ID");
  app.add_option("--address", options.addresses, "of the first guest's first port: 192.0.2.1/24 (may be repeated)")
      ->allow_extra_args(false)
      ->type_name("IP/N");
  app.add_option("--mac", options.mac, "of the first guest's first port")->type_name("MAC");
  app.add_option("--tcp", options.tcp_ports, "a TCP port of the guest to forward from 127.0.0.1 (may be repeated)")
      ->allow_extra_args(false)
      ->type_name("PORT");
  app.add_option("--load", options.load, "a kernel module to load besides (may be repeated)")
      ->allow_extra_args(false)
      ->type_name("MODULE");
  app.add_option("--memory", options.memory, "of a guest, in MiB")->check(CLI::Range(256, 65536))->type_name("MIB");
  app.add_option("--share", options.share, "a directory that the guest sees at /share, read-only")
      ->check(CLI::ExistingDirectory)
      ->type_name("DIR");
  app.add_option("--agent", options.agent, "the agent's program, when it is not beside this one")
      ->check(CLI::ExistingFile)
      ->type_name("FILE");
  app.add_option("--accel", options.accelerator, "qemu's accelerator: tcg (anywhere), kvm (where /dev/kvm is usable)")
      ->type_name("NAME");
  app.add_option("--timeout", options.timeout, "for one boot; it is tried twice")
      ->check(check_positive)
      ->type_name("S");
  app.add_flag("-q,--quiet", options.quiet, "say nothing of what is being done");
}

}  // namespace

void add_lab(CLI::App& app, Work& work) {
  CLI::App* sub = app.add_subcommand("lab", description);
  sub->footer(examples);
  sub->require_subcommand(1);
  const auto options = std::make_shared<Options>();

  CLI::App* boot_it = sub->add_subcommand("boot", "Boots guests and stays until ctrl-C.");
  add_guest_options(*boot_it, *options);
  boot_it->add_flag("--json", options->json, "what there is as JSON");
  boot_it->callback([=, &work] { work = [options] { return boot(*options); }; });

  CLI::App* run_it = sub->add_subcommand("run", "Runs a program in a guest; its exit status is this command's.");
  add_guest_options(*run_it, *options);
  run_it->add_option("--in", options->in, "in a guest that is up: NAME, or NAME/2 for its second one")
      ->type_name("NAME");
  run_it->add_option("command", options->command, "after --: the program and its arguments")
      ->required()
      ->type_name("COMMAND");
  run_it->callback([=, &work] { work = [options] { return run(*options); }; });

  add_lab_record(*sub, work);

  CLI::App* shell_it = sub->add_subcommand("shell", "A shell in a guest that is up, or in a new one.");
  add_guest_options(*shell_it, *options);
  shell_it->add_option("--in", options->in, "in a guest that is up: NAME, or NAME/2 for its second one")
      ->type_name("NAME");
  shell_it->callback([=, &work] { work = [options] { return shell(*options); }; });

  CLI::App* status_it = sub->add_subcommand("status", "The labs that are up, and what the cache holds.");
  status_it->add_flag("--json", options->json, "as one JSON object");
  status_it->callback([=, &work] { work = [options] { return status(*options); }; });

  CLI::App* clean_it = sub->add_subcommand("clean", "Sweeps what labs left that were killed.");
  clean_it->add_flag("--cache", options->cache, "and empties the cache");
  clean_it->callback([=, &work] { work = [options] { return clean(*options); }; });
}

}  // namespace rdmawire::cli
