#include "conformance/runner/target.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "conformance/device/iwarp/blind/blind_faults.hpp"
#include "conformance/device/iwarp/fault_table.hpp"
#include "conformance/device/roce/blind/blind_faults.hpp"
#include "conformance/device/roce/fault_table.hpp"
#include "conformance/device/roce/reference.hpp"
#include "conformance/lab/guest.hpp"
#include "conformance/lab/run_directory.hpp"
#include "conformance/runner/lab_target.hpp"
#include "conformance/runner/target_iwarp.hpp"
#include "dissectors/output/edit_distance.hpp"
#include "replay/host/host.hpp"
#include "replay/streams/tcp_over_wire.hpp"
#include "replay/wires/background.hpp"
#include "replay/wires/limited_wire.hpp"

namespace rdmawire::conformance {
namespace {

tl::unexpected<TargetError> trouble(std::string message) {
  return tl::unexpected(TargetError{false, std::move(message)});
}

constexpr replay::MacAddress tester_mac = 0x020000000c01;
constexpr std::uint16_t lab_vlan = 7;  // in addition to the port's untagged traffic

std::array<std::uint8_t, 6> bytes_of(replay::MacAddress mac) {
  std::array<std::uint8_t, 6> bytes{};
  store_be(bytes.data(), bytes.size(), mac);
  return bytes;
}

std::array<std::uint8_t, 16> gid_bytes(const replay::IpAddress& address) {
  std::array<std::uint8_t, 16> bytes{};
  if (address.v6) {
    bytes = address.storage;
  } else {
    bytes[10] = bytes[11] = 0xff;
    std::copy_n(address.storage.begin(), 4, bytes.begin() + 12);
  }
  return bytes;
}

/// The IP address in a GID.
replay::IpAddress address_of(const std::array<std::uint8_t, 16>& gid) {
  constexpr std::array<std::uint8_t, 12> mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (!std::equal(mapped.begin(), mapped.end(), gid.begin())) return replay::IpAddress::of_v6(gid);
  return replay::IpAddress::v4(static_cast<std::uint32_t>(load_be<4>(gid.data() + mapped.size())));
}

/// Chooses the tester's address: another one in the same subnet, which must be unused.
replay::IpAddress beside(replay::IpAddress address) {
  if (address.v6 && address.storage[0] == 0xfe) return replay::link_local(tester_mac);
  address.storage[address.v6 ? 15 : 3] = 200;
  return address;
}

/// The VLAN of an interface with a name like "eth0.7". 0: none.
std::uint16_t vlan_of(const std::string& netdev) {
  const std::size_t dot = netdev.rfind('.');
  std::uint16_t id = 0;
  if (dot != std::string::npos) std::from_chars(netdev.data() + dot + 1, netdev.data() + netdev.size(), id);
  return id;
}

Path path_to(const replay::IpAddress& address) {
  Path path;
  path.tester_mac = bytes_of(tester_mac);
  path.tester_address = gid_bytes(beside(address));
  path.device_address = gid_bytes(address);
  return path;
}

/// Finds further GID table entries: for IPv6, a VLAN, and RoCEv1.
void find_other_ways(DeviceUnderTest& device, const peer::Port& port) {
  for (const peer::Gid& gid : port.gids) {
    const auto address = replay::IpAddress::parse(gid.text);
    if (!address) continue;
    const replay::IpAddress plain = address_of(address->storage);
    const std::uint16_t vlan = vlan_of(gid.netdev);
    const Way way{path_to(plain), gid.index};
    if (gid.type == "roce_v1" && vlan == 0 && !plain.v6 && !device.roce_v1) {
      device.roce_v1 = way;
      device.roce_v1->path.roce_v1 = true;
    }
    if (gid.type != "roce_v2") continue;
    if (vlan != 0 && !plain.v6 && !device.vlan) {
      device.vlan = way;
      device.vlan->path.vlan = vlan;
    }
    // Prefer a routable address over a link-local one.
    if (vlan == 0 && plain.v6 && (!device.ipv6 || device.ipv6->path.device_address[0] == 0xfe)) device.ipv6 = way;
  }
}

/// The reference device in this process, in virtual time.
class ReferenceTarget final : public Target {
 public:
  tl::expected<void, TargetError> start(const TargetOptions& options) {
    auto started = device::Reference::start(device::reference_options(options.seed));
    if (!started) return trouble(started.error().message);
    reference_ = std::move(*started);
    if (auto set = set_faults(options.faults); !set) return set;
    auto opened = peer::Device::open(reference_->peer());
    if (!opened) return trouble(opened.error().message);
    verbs_.emplace(std::move(*opened));
    constexpr std::uint32_t device_ip = 0x0a000001;
    device_.name = options.device;
    device_.peer = &reference_->peer();
    device_.device = &*verbs_;
    device_.wire = &reference_->wire();
    device_.gid_index = verbs_->gid().index;
    device_.path = path_to(replay::IpAddress::v4(device_ip));
    find_other_ways(device_, verbs_->port());
    const auto known = [this](Path& path) {
      path.device_mac = reference_->device().options().port.mac;
      reference_->learn({path.tester_address}, path.tester_mac);
    };
    known(device_.path);
    for (auto* way : {&device_.ipv6, &device_.vlan, &device_.roce_v1})
      if (*way) known((*way)->path);
    device_.patience.upper_bounds = true;
    device_.wire_delay = reference_->wire().delay();
    const auto switch_to = [this](bool on) {
      const std::lock_guard lock(reference_->wire().mutex());
      reference_->device().set_congestion_control(on);
    };
    device_.switch_congestion_management = switch_to;
    device_.congestion_management = options.congestion_management.value_or(true);
    switch_to(*device_.congestion_management);
    device_.switch_xrc = [this](bool on) {
      const std::lock_guard lock(reference_->wire().mutex());
      reference_->device().set_xrc(on);
    };
    device_.takes_slow = device_.takes_dangerous = true;
    guard();
    return {};
  }
  DeviceUnderTest& device() override { return device_; }
  [[nodiscard]] const DeviceUnderTest& device() const override { return device_; }
  [[nodiscard]] std::string details() const override { return "rdmawire's reference device"; }
  tl::expected<void, TargetError> set_faults(const std::vector<std::string>& names) override {
    std::vector<device::Fault> all;
    std::vector<const device::RoceBlindFault*> blind;
    for (const std::string& name : names) {
      if (const device::RoceBlindFault* found = device::find_blind_fault(name)) {
        blind.push_back(found);
        continue;
      }
      const device::FaultRow* fault = device::find_fault(name);
      // A fault of the iWARP reference device
      if (!fault && (endpoint::find_fault(name) || endpoint::find_blind_fault(name))) continue;
      if (!fault) {
        std::vector<std::string_view> known;
        for (const device::FaultRow& row : device::fault_rows) known.push_back(row.name);
        return tl::unexpected(
            TargetError{true, fmt::format("unknown fault \"{}\"{}", name, output::did_you_mean(name, known))});
      }
      all.push_back(fault->fault);
    }
    const std::lock_guard lock(reference_->wire().mutex());
    device::Faults faults;
    for (const device::Fault fault : all) faults.set(fault);
    reference_->device().set_faults(faults);
    reference_->device().set_blind_faults(std::move(blind));
    return {};
  }
  [[nodiscard]] std::vector<std::string> faults() override {
    const std::lock_guard lock(reference_->wire().mutex());
    std::vector<std::string> names;
    for (const device::FaultRow& row : device::fault_rows)
      if (reference_->device().faults()[row.fault]) names.emplace_back(row.name);
    for (const device::RoceBlindFault* fault : reference_->device().blind_faults()) names.emplace_back(fault->name);
    return names;
  }

 private:
  std::unique_ptr<device::Reference> reference_;
  std::optional<peer::Device> verbs_;
  DeviceUnderTest device_;
};

/// Name and address of the agent's device. Empty: the first device, and the address that the agent reports.
struct Known {
  std::string device{};
  std::string address{};
};

/// Session, wire and addresses of a device with an agent.
class AgentTarget : public Target {
 public:
  DeviceUnderTest& device() override { return device_; }
  [[nodiscard]] const DeviceUnderTest& device() const override { return device_; }
  [[nodiscard]] std::string details() const override {
    const nlohmann::json& hello = peer_->hello();
    return fmt::format("{} at {}, kernel {}", verbs_->name(), hello.value("host", "?"), hello.value("kernel", "?"));
  }

 protected:
  tl::expected<void, TargetError> reach(const TargetOptions& options, const std::string& agent, const std::string& wire,
                                        const Known& known = {}) {
    const std::string& name = options.device;
    peer::Options session;
    session.credentials = options.credentials;
    auto connected = peer::Peer::connect(agent, session);
    if (!connected) return trouble(connected.error().message);
    peer_.emplace(std::move(*connected));
    auto opened = peer::Device::open(*peer_, known.device);
    if (!opened) return trouble(opened.error().message);
    verbs_.emplace(std::move(*opened));
    device_.name = name;
    device_.peer = &*peer_;
    device_.device = &*verbs_;
    device_.takes_slow = options.slow;
    device_.takes_dangerous = options.dangerous;
    if (verbs_->iwarp()) return reach_streams(options, wire, known.address);
    const auto address = replay::IpAddress::parse(verbs_->address());
    if (!address) return trouble(fmt::format("{}: invalid device address {}", name, verbs_->address()));
    if (address->v6) return trouble(fmt::format("{}: the device has no IPv4 address; assign one to its port", name));
    if (auto allowed = may_send(options, to_string(*address)); !allowed) return allowed;
    device_.gid_index = verbs_->gid().index;
    find_other_ways(device_, verbs_->port());
    std::vector<replay::IpAddress> own{beside(*address)};
    for (const auto& way : {device_.ipv6, device_.vlan, device_.roce_v1})
      if (way && std::ranges::find(own, address_of(way->path.tester_address)) == own.end())
        own.push_back(address_of(way->path.tester_address));
    auto port = replay::open_wire(wire);
    if (!port) return trouble(port.error().message);
    // A guest blocks if its frames are not read while the agent handles a request.
    if (wire.starts_with("unix:")) port = replay::read_in_background(std::move(*port));
    auto hosted = replay::HostedWire::make(std::move(*port), {.mac = tester_mac, .addresses = std::move(own)});
    if (!hosted) return trouble(hosted.error().message);
    wire_ = std::move(*hosted);
    const auto mac = wire_->resolve(*address);
    if (!mac) return trouble(mac.error().message);
    device_.wire = wire_.get();
    device_.path = path_to(*address);
    device_.path.device_mac = bytes_of(*mac);
    for (auto* way : {&device_.ipv6, &device_.vlan, &device_.roce_v1})
      if (*way) (*way)->path.device_mac = bytes_of(*mac);
    if (is_on_bench(name)) {
      device_.multicast = options.multicast;
      restrained_.emplace(*wire_, replay::SendLimits{.frames_per_second = options.frames_per_second,
                                                     .destinations = {*mac},
                                                     .groups = options.multicast});
      device_.wire = &*restrained_;
    }
    guard();
    return {};
  }

  /// Opens iWARP streams with rdmawire's own TCP over the wire. An iWARP device does not report its IP address.
  tl::expected<void, TargetError> reach_streams(const TargetOptions& options, const std::string& wire,
                                                const std::string& known) {
    std::vector<std::string> addresses = options.allowed;
    if (!known.empty()) addresses = {known};
    if (addresses.empty())
      return tl::unexpected(TargetError{
          true, fmt::format("{}: an iWARP device does not report its IP address, and crafted frames would be "
                            "sent there; specify it with --allow",
                            options.device)});
    std::string why;
    for (const std::string& text : addresses) {
      const auto address = replay::IpAddress::parse(text);
      if (!address) {
        why = fmt::format("{}: {} is not an IP address", options.device, text);
        continue;
      }
      auto reached = reach_address(*address, wire);
      if (!reached) {
        why = std::move(reached.error().message);
        continue;
      }
      if (is_on_bench(options.device))
        streams_->restrain({.frames_per_second = options.frames_per_second, .destinations = {*reached}});
      device_.tcp = streams_.get();
      device_.address = *address;
      device_.path = path_to(*address);
      device_.path.device_mac = bytes_of(*reached);
      guard();
      return {};
    }
    return trouble(std::move(why));
  }
  /// Resolves the MAC of the address and compares it with the device's.
  tl::expected<replay::MacAddress, TargetError> reach_address(const replay::IpAddress& address,
                                                              const std::string& wire) {
    constexpr std::int64_t patience = 5'000'000'000;
    streams_.reset();
    auto port = replay::open_wire(wire);
    if (!port) return trouble(port.error().message);
    auto host = replay::TcpOverWire::make(std::move(*port), {.mac = tester_mac, .address = beside(address)});
    if (!host) return trouble(host.error().message);
    streams_ = std::move(*host);
    const auto mac = streams_->resolve(address, streams_->now() + patience);
    if (!mac) return trouble(mac.error().message);
    const auto own = verbs_->mac();
    if (own != std::array<std::uint8_t, 6>{} && own != bytes_of(*mac))
      return trouble(fmt::format("{}: {} resolves to {}, but {} has {}; check the address of the port", wire,
                                 replay::mac_text(*mac), to_string(address), verbs_->name(),
                                 replay::mac_text(load_be(own.data(), own.size()))));
    return *mac;
  }

  static tl::expected<void, TargetError> may_send(const TargetOptions& options, const std::string& address) {
    const auto& allowed = options.allowed;
    if (!is_on_bench(options.device) || std::find(allowed.begin(), allowed.end(), address) != allowed.end()) return {};
    return tl::unexpected(TargetError{
        true, fmt::format("{}: refusing to send crafted frames to {}; if this is the device under test and it is "
                          "otherwise unused, permit it with --allow {}",
                          options.device, address, address)});
  }

  DeviceUnderTest device_;
  std::optional<peer::Peer> peer_;
  std::optional<peer::Device> verbs_;
  std::unique_ptr<replay::HostedWire> wire_;
  std::optional<replay::LimitedWire> restrained_;  ///< limits for the wire
  std::unique_ptr<replay::TcpOverWire> streams_;   ///< iWARP: replaces the wire
};

class LabTarget final : public AgentTarget {
 public:
  tl::expected<void, TargetError> boot(const TargetOptions& options,
                                       std::shared_ptr<lab::Snapshot> snapshot = nullptr) {
    const auto failed = [](const lab::LabError& error) {
      return tl::unexpected(TargetError{error.kind == lab::LabError::Kind::usage, "lab: " + error.message});
    };
    // Checked before the image is downloaded and built.
    if (::access(options.agent.c_str(), R_OK) != 0)
      return trouble(
          fmt::format("lab: no agent program {}: {}; install rdmawire-agent next to rdmawire, or name it "
                      "with --agent",
                      options.agent.empty() ? "given" : options.agent.string(), std::strerror(errno)));
    auto directory = lab::RunDirectory::create("");
    if (!directory) return failed(directory.error());
    directory_ = std::move(*directory);
    lab::ImageOptions image_options;
    const bool siw = options.device == "lab:siw";
    image_options.kernel = options.kernel;
    image_options.modules = options.modules;
    image_options.siw = siw;
    image_options.stop = options.stop;
    image_options.progress = options.progress;
    const auto image = lab::provide_image(image_options);
    if (!image) return failed(image.error());
    lab::GuestOptions guest_options;
    guest_options.agent = options.agent;
    guest_options.rxe = !siw;
    guest_options.siw = siw;
    if (!siw) guest_options.ports.front().vlan = lab_vlan;
    guest_options.snapshot = std::move(snapshot);
    guest_options.stop = options.stop;
    guest_options.progress = options.progress;
    auto guest = lab::Guest::boot(*image, directory_.path(), guest_options);
    if (!guest) return failed(guest.error());
    guest_.emplace(std::move(*guest));
    if (guest_->agents().empty())
      return trouble("lab: the guest has no agent; install rdmawire-agent with this program");
    device_.congestion_management = options.congestion_management.value_or(false);  // rxe has none
    const lab::Guest::Port& port = guest_->ports().front();
    const std::string& own = port.addresses.front();
    return reach(options, guest_->agents().front(), port.wire,
                 {port.devices.front(), siw ? own.substr(0, own.find('/')) : std::string()});
  }
  ~LabTarget() override {
    // Close the session and the wire before the guest.
    verbs_.reset();
    peer_.reset();
    wire_.reset();
    streams_.reset();
  }

  // The device and the first two numbers of the kernel version: "rxe-6.1" for "6.1.0-56-amd64".
  [[nodiscard]] std::string known_as() const override {
    const std::string kernel = peer_->hello().value("kernel", "");
    const std::size_t dot = kernel.find('.');
    return (verbs_->iwarp() ? "siw-" : "rxe-") +
           kernel.substr(0, dot == std::string::npos ? dot : kernel.find_first_not_of("0123456789", dot + 1));
  }
  [[nodiscard]] std::optional<DeviceLost> gone() const override {
    // After a kernel panic, the agent is lost before the cause is known.
    constexpr int moment = 3000;  // milliseconds
    if (const auto lost = peer_->lost(); lost && lost->number != ENOTCONN) {
      pollfd waiting{guest_->ended_descriptor(), POLLIN, 0};
      ::poll(&waiting, 1, moment);
    }
    // The first line of the console. The others are in the lab's log, and kernel messages in complaints().
    if (const auto ended = guest_->ended())
      return DeviceLost{true, ended->message.substr(0, ended->message.find('\n'))};
    return Target::gone();
  }
  std::vector<std::string> complaints() override {
    const auto all = guest_->complaints();
    std::vector<std::string> fresh;
    for (; told_ < all.size(); ++told_) fresh.push_back(all[told_].what);
    return fresh;
  }

 private:
  lab::RunDirectory directory_;
  std::optional<lab::Guest> guest_;
  std::size_t told_ = 0;
};

class BenchTarget final : public AgentTarget {
 public:
  tl::expected<void, TargetError> open(const TargetOptions& options, const std::string& agent) {
    if (options.wire.empty())
      return tl::unexpected(
          TargetError{true, fmt::format("{}: missing wire to the device; specify it with --wire", options.device)});
    device_.congestion_management = options.congestion_management;
    return reach(options, agent, options.wire);
  }
};

}  // namespace

tl::expected<std::unique_ptr<Target>, TargetError> open_lab(const TargetOptions& options,
                                                            std::shared_ptr<lab::Snapshot> snapshot) {
  auto target = std::make_unique<LabTarget>();
  if (auto booted = target->boot(options, std::move(snapshot)); !booted) return tl::unexpected(booted.error());
  return target;
}

bool is_cheap(const std::string& device) { return device == "reference"; }
bool is_on_bench(const std::string& device) { return device.starts_with("agent:"); }

std::string Target::wire() { return device().tcp ? device().tcp->name() : device().wire->name(); }

std::string Target::destinations() {
  const DeviceUnderTest& under_test = device();
  const std::uint64_t mac = load_be(under_test.path.device_mac.data(), 6);
  if (mac == 0) return to_string(under_test.address);  // in-process iWARP endpoint without a port
  std::string text =
      fmt::format("{}, {}", replay::mac_text(mac), to_string(address_of(under_test.path.device_address)));
  for (const auto* way : {&under_test.ipv6, &under_test.vlan})
    if (*way) text += ", " + to_string(address_of((*way)->path.device_address));
  if (under_test.is_iwarp()) return text + ", TCP";
  return text + fmt::format(", QPs 0x0 to 0xffffff{}", under_test.multicast ? ", multicast groups" : "");
}

tl::expected<void, TargetError> Target::set_faults(const std::vector<std::string>& names) {
  if (names.empty()) return {};
  return tl::unexpected(TargetError{
      true,
      fmt::format("faults can only be injected into reference devices; {} is a different device", device().name)});
}

void Target::guard() {
  if (!device().wire) return;
  guarded_ = std::make_unique<InterruptibleWire>(*device().wire);
  device().wire = guarded_.get();
}

void Target::interrupt() {
  if (guarded_) guarded_->interrupt();
  if (replay::TcpHost* tcp = device().tcp) tcp->interrupt();
  if (peer::Peer* peer = device().peer) peer->close();
}

std::optional<DeviceLost> Target::gone() const {
  if (const auto lost = device().peer->lost()) return DeviceLost{false, lost->message};
  return std::nullopt;
}

tl::expected<std::unique_ptr<Target>, TargetError> Target::open(const TargetOptions& options) {
  constexpr std::string_view agent = "agent:";
  if (options.device == "reference" && options.family == Family::iwarp) return open_reference_endpoint(options);
  if (options.device == "reference") {
    auto target = std::make_unique<ReferenceTarget>();
    if (auto started = target->start(options); !started) return tl::unexpected(started.error());
    return target;
  }
  if (options.device == "lab:rxe" || options.device == "lab:siw") {
    auto target = std::make_unique<LabTarget>();
    if (auto booted = target->boot(options); !booted) return tl::unexpected(booted.error());
    return target;
  }
  if (options.device.starts_with(agent)) {
    auto target = std::make_unique<BenchTarget>();
    if (auto opened = target->open(options, options.device.substr(agent.size())); !opened)
      return tl::unexpected(opened.error());
    return target;
  }
  return tl::unexpected(TargetError{
      true,
      fmt::format("unknown device \"{}\"; expected reference, lab:rxe, lab:siw or agent:ADDRESS", options.device)});
}

}  // namespace rdmawire::conformance
