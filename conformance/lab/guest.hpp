#pragma once
/// A virtual machine with a Linux RDMA device.

#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conformance/lab/console.hpp"
#include "conformance/lab/error.hpp"
#include "conformance/lab/image.hpp"

namespace rdmawire::lab {

/// An Ethernet interface of the guest. The host sends and receives its frames through a wire.
struct PortOptions {
  std::string mac;                     ///< "": 52:54:00:77:PORT:GUEST
  std::vector<std::string> addresses;  ///< as ADDRESS/LENGTH. Empty: 10.77.PORT.GUEST/24 and fd77:PORT::GUEST/64
  unsigned mtu = 1500;
  std::optional<unsigned> vlan;  ///< adds eth0.VLAN: its addresses are GIDs of rxe, and siw is attached to it
  std::vector<std::string> vlan_addresses;  ///< empty: 10.78.PORT.GUEST/24 and fd78:PORT::GUEST/64
};

/// The state of a booted guest in the memory of this process (about 200 MB). The first guest that uses this object
/// stores its state after its boot. Later guests with equal options start from that state, which is much faster.
class Snapshot {
 public:
  Snapshot();
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;
  ~Snapshot();

  [[nodiscard]] bool stored() const { return stored_; }

 private:
  friend class Guest;
  [[nodiscard]] std::string path() const;  ///< path under which other processes of this user can open the file
  int file_ = -1;
  bool stored_ = false;
  bool failed_ = false;  ///< the state could not be stored, so later guests boot
};

struct GuestOptions {
  bool rxe = true;      ///< rxe0 on eth0, rxe1 on eth1, …
  bool siw = false;     ///< siw0 on eth0, …, and siwtcp on tcp0, the interface of the forwarded TCP ports
  unsigned number = 1;  ///< number of the guest in its lab, from 1
  std::vector<PortOptions> ports = {PortOptions{}};
  /// TCP ports of the guest that are forwarded from free ports of 127.0.0.1. Default with siw: 7471 to 7474.
  std::vector<std::uint16_t> tcp_ports;
  std::vector<std::string> modules;  ///< additional modules to load
  unsigned memory = 512;             ///< MiB
  std::filesystem::path share;       ///< directory of the host, mounted read-only at /share
  std::filesystem::path agent;       ///< path of the agent program ("": none)
  unsigned agent_channels = 4;       ///< number of controllers that can use the agent concurrently
  std::string accelerator = "tcg";   ///< qemu accelerator: tcg works everywhere. kvm is faster if available
  std::string qemu = "qemu-system-x86_64";
  std::string kernel_arguments;        ///< appended to the kernel's command line
  std::chrono::seconds timeout{60};    ///< boot timeout. A failed boot is retried once
  std::shared_ptr<Snapshot> snapshot;  ///< nullptr: always boot. Cannot be combined with `share`
  StopDescriptor stop = -1;
  Progress progress;
};

/// Input, output and time limit of a program in the guest.
struct RunOptions {
  int input = -1;   ///< descriptor that the program's standard input is read from (-1: empty input)
  int output = -1;  ///< descriptor that receives the program's standard output (-1: RunResult)
  int error = -1;
  std::chrono::milliseconds timeout{0};  ///< 0: unlimited
  StopDescriptor stop = -1;
};

struct RunResult {
  int status = 0;      ///< exit status as in a shell: 128 + N if killed by signal N
  std::string output;  ///< the first 64 MiB
  std::string error;
  static constexpr std::size_t max_bytes = 64U << 20;
};

/// Runs a program in the guest with the run directory `guest`. The guest may belong to another process.
Result<RunResult> run_in_guest(const std::filesystem::path& guest, const std::vector<std::string>& argv,
                               const RunOptions& options);

class Guest {
 public:
  /// Boots a guest in its own directory below `lab` and waits until it is ready.
  static Result<Guest> boot(const Image& image, const std::filesystem::path& lab, const GuestOptions& options);

  Guest(Guest&&) noexcept;
  Guest& operator=(Guest&&) noexcept;
  ~Guest();  ///< kills the guest

  struct Port {
    std::string interface;  ///< eth0
    std::string wire;       ///< unix:PATH, for replay::open_wire
    std::string mac;
    std::vector<std::string> addresses;
    std::vector<std::string> devices;  ///< rxe0, siw0
  };
  struct TcpPort {
    std::uint16_t guest = 0;
    std::uint16_t host = 0;  ///< on 127.0.0.1
  };
  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] const std::vector<Port>& ports() const;
  [[nodiscard]] const std::vector<TcpPort>& tcp_ports() const;
  [[nodiscard]] const std::vector<std::string>& agents() const;  ///< channels as unix:PATH, for one controller each
  [[nodiscard]] const std::filesystem::path& directory() const;
  [[nodiscard]] std::filesystem::path console_log() const;
  [[nodiscard]] std::string shell() const;  ///< path of a Unix socket that is a terminal of the guest
  [[nodiscard]] double boot_seconds() const;
  [[nodiscard]] bool restored() const;  ///< started from a snapshot
  [[nodiscard]] pid_t process() const;  ///< process ID of qemu

  /// Kernel errors so far.
  [[nodiscard]] std::vector<KernelReport> complaints() const;
  /// Returns a descriptor that is readable for poll() once the guest has ended.
  [[nodiscard]] int ended_descriptor() const;
  /// Returns why the guest has ended, for example a panic. nullopt: it is running.
  [[nodiscard]] std::optional<LabError> ended() const;

  Result<RunResult> run(const std::vector<std::string>& argv, const RunOptions& options = {});

 private:
  class Impl;
  explicit Guest(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rdmawire::lab
