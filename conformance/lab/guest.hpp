#pragma once
/// A virtual machine with a real Linux RDMA device in it.

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

/// An Ethernet interface of the guest, eth0 being the first, whose other end is a wire for us.
struct PortOptions {
  std::string mac;                     ///< "": 52:54:00:77:PORT:GUEST
  std::vector<std::string> addresses;  ///< with their prefixes; none: 10.77.PORT.GUEST/24 and fd77:PORT::GUEST/64
  unsigned mtu = 1500;
  std::optional<unsigned> vlan;  ///< eth0.VLAN is there, too: rxe has its addresses among its GIDs, siw sits on it
  std::vector<std::string> vlan_addresses;  ///< none: 10.78.PORT.GUEST/24 and fd78:PORT::GUEST/64
};

struct GuestOptions {
  bool rxe = true;      ///< rxe0 on eth0, rxe1 on eth1, …
  bool siw = false;     ///< siw0 on eth0, …; and siwtcp on tcp0, where the forwarded TCP ports arrive
  unsigned number = 1;  ///< of the guest in its lab, from 1
  std::vector<PortOptions> ports = {PortOptions{}};
  /// Of the guest, each forwarded from a free port of 127.0.0.1; with siw and none given: 7471 to 7474.
  std::vector<std::uint16_t> tcp_ports;
  std::vector<std::string> modules;  ///< to load besides
  unsigned memory = 512;             ///< MiB
  std::filesystem::path share;       ///< a directory of this machine to be seen at /share, read-only
  std::filesystem::path agent;       ///< the agent's program; "": none
  unsigned agent_channels = 4;       ///< controllers at once
  std::string accelerator = "tcg";   ///< qemu's: tcg runs everywhere; kvm is fast where it is there
  std::string qemu = "qemu-system-x86_64";
  std::string kernel_arguments;      ///< appended to the kernel's command line
  std::chrono::seconds timeout{60};  ///< for one boot; one that takes longer is tried once more
  StopDescriptor stop = -1;
  Progress progress;
};

/// What a program in the guest is given and where its output goes.
struct RunOptions {
  int input = -1;   ///< read until its end; -1: the program finds its input at its end
  int output = -1;  ///< where its standard output is written; -1: into RunResult
  int error = -1;
  std::chrono::milliseconds timeout{0};  ///< 0: none
  StopDescriptor stop = -1;
};

struct RunResult {
  int status = 0;      ///< as a shell says it: 128 + N when signal N killed it
  std::string output;  ///< the first 64 MiB of it
  std::string error;
  static constexpr std::size_t max_bytes = 64U << 20;
};

/// Runs a program in the guest whose run directory this is; also from another process than the guest's owner.
Result<RunResult> run_in_guest(const std::filesystem::path& guest, const std::vector<std::string>& argv,
                               const RunOptions& options);

class Guest {
 public:
  /// Boots it, in a directory of its own below `lab`, and waits until it is ready.
  static Result<Guest> boot(const Image& image, const std::filesystem::path& lab, const GuestOptions& options);

  Guest(Guest&&) noexcept;
  Guest& operator=(Guest&&) noexcept;
  ~Guest();  ///< it is ended at once

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
  [[nodiscard]] const std::vector<std::string>& agents() const;  ///< unix:PATH; one controller each
  [[nodiscard]] const std::filesystem::path& directory() const;
  [[nodiscard]] std::filesystem::path console_log() const;
  [[nodiscard]] std::string shell() const;  ///< path of a unix socket with a terminal behind it
  [[nodiscard]] double boot_seconds() const;
  [[nodiscard]] pid_t process() const;  ///< qemu

  /// What the guest's kernel has complained of until now.
  [[nodiscard]] std::vector<KernelReport> complaints() const;
  /// Readable once the guest has ended by itself.
  [[nodiscard]] int ended_descriptor() const;
  /// Why it has ended: it panicked, was killed, powered off; nothing while it lives.
  [[nodiscard]] std::optional<LabError> ended() const;

  Result<RunResult> run(const std::vector<std::string>& argv, const RunOptions& options = {});

 private:
  class Impl;
  explicit Guest(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rdmawire::lab
