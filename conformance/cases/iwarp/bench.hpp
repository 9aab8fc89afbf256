#pragma once
/// The environment of an iWARP case: QPs, memory and completions at the device, and the tester's endpoints of their
/// streams.
///
///     Connected& qp = bench.connect({.receives = 1});   // TCP connection and MPA negotiation by the tester
///     qp >> send(1, "hello");
///     qp.completes(0);

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "conformance/cases/device_bench.hpp"
#include "conformance/cases/iwarp/stream.hpp"

namespace rdmawire::conformance::iwarp {

/// Options for creating a QP of the device and establishing its stream. Those of type Option, and empty private data,
/// have the values of the environment unless the case sets them.
struct ConnectOptions {
  bool device_initiates = false;  ///< false: the tester is the initiator
  // The tester's MPA frame
  std::uint8_t revision = 1;  ///< 2 if `enhanced` is set
  /// Request markers in the device's stream.
  Option<bool> markers = Option<bool>::usual(false);
  bool crc = true;
  std::optional<Enhanced> enhanced{};
  std::string private_data{};
  /// Maximum size of the device's TCP segments.
  Option<std::uint32_t> mss = Option<std::uint32_t>::usual(1460);
  // The device's application
  std::string device_private_data{};
  std::uint8_t reads_at_once = 4;     ///< the device's IRD
  std::uint8_t own_reads = 4;         ///< the device's ORD
  std::optional<MpaWishes> wishes{};  ///< negotiation parameters. If they cannot be set, the case is unsupported
  // The queue pair
  std::uint32_t receives = 0;          ///< number of receive requests posted before the stream exists
  std::uint32_t receive_bytes = 1024;  ///< size of each
  std::uint64_t region_bytes = 8192;
  peer::Names region_access = {"local_write", "remote_write", "remote_read", "remote_atomic"};
  Option<std::uint32_t> send_wr = Option<std::uint32_t>::usual(32);
  std::uint32_t completions = 256;                   ///< size of the completion queue
  bool notifies = false;                             ///< enable notifications of the completion queue
  std::size_t domain = 0;                            ///< number of the protection domain
  const peer::CompletionQueue* shared_cq = nullptr;  ///< replaces the QP's own completion queue
};

/// An unused STag.
inline constexpr std::uint32_t unknown_stag = 0xdeadbe00;
/// The content of memory without placed data.
inline std::string untouched(std::size_t bytes = 64) { return std::string(bytes, '\0'); }

/// Address of the tester's memory in requests of the device.
inline constexpr std::uint64_t tester_memory = 0x10000;
inline constexpr std::uint32_t tester_stag = 0x4321;

/// A QP of the device and the tester's endpoint of its stream.
struct Connected : DeviceQueuePair, Stream {
  Connected(DeviceBench& bench, CaseRecorder& story, replay::TcpHost& host, const ConnectOptions& how)
      : DeviceQueuePair(bench, how.receive_bytes),
        Stream(story, host, how.device_initiates),
        options(how),
        bench_(&bench) {}

  ConnectOptions options;
  peer::Listener listener;    ///< the device's listener, if any
  peer::CmConnection cm;      ///< set when the device's application has the connection
  std::optional<Seen> setup;  ///< the device's MPA frame

  /// The STag of the region for the tester's Writes and Reads. to() is the TO of a byte.
  [[nodiscard]] std::uint32_t stag() const { return region.rkey(); }
  [[nodiscard]] std::uint64_t to(std::uint64_t offset = 0) const { return region.addr() + offset; }

  // Messages of the device: bytes of the region from `offset`.
  void device_sends(std::uint64_t wr_id, std::uint32_t length = 8, std::uint64_t offset = 0,
                    const peer::Names& flags = {"signaled"});
  void device_writes(std::uint64_t wr_id, std::uint32_t length = 8, std::uint64_t offset = 0);
  /// Reads `length` bytes of the tester's memory into the region.
  void device_reads(std::uint64_t wr_id, std::uint32_t length = 8, std::uint64_t offset = 0,
                    const peer::Names& flags = {"signaled"});
  /// Sends the tester's first FPDU, after which the device may send: a zero-length RDMA Write, which consumes no
  /// receive. RFC 5044, 7.1.2 rule 4.
  void opens() { *this >> write(0, 0, {}); }

  /// Checks the reaction to an error: this Terminate, the end of TCP, and a notification of the application.
  void refuses(const Expectation& terminate);
  /// Like refuses(), for a rejection (Terminate or close of TCP) that the test has already received.
  void is_refused_by(const Seen& refusal);
  /// All of these complete with an error. Any error status is accepted.
  void fail_or_are_flushed(std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t wr_id = first; wr_id <= last; ++wr_id) fails_or_is_flushed(wr_id);
  }
  /// Closes the tester's direction, and checks that the application is notified.
  void ends();

 private:
  DeviceBench* bench_;
};

/// The response to the device's RDMA Read Request: these bytes, to the requested sink from `offset`.
Stimulus response_to(const Seen& request, const std::string& payload, std::uint64_t offset = 0, bool last = true);

class IwarpBench : public CaseRecorder, public DeviceBench {
 public:
  /// `environment`: must outlive this object.
  IwarpBench(DeviceUnderTest& device, std::uint64_t seed, Environment& environment)
      : CaseRecorder(device.patience), DeviceBench(*this, device, seed, environment), host_(*device.tcp) {}
  /// Uses the default environment.
  IwarpBench(DeviceUnderTest& device, std::uint64_t seed)
      : CaseRecorder(device.patience), DeviceBench(*this, device, seed), host_(*device.tcp) {}
  ~IwarpBench() override;
  IwarpBench(const IwarpBench&) = delete;
  IwarpBench& operator=(const IwarpBench&) = delete;

  /// Returns a QP whose stream is in Full Operation Phase, with `options.receives` posted receives.
  Connected& connect(const ConnectOptions& options = {});
  /// Returns a QP without a stream.
  Connected& make(const ConnectOptions& options = {});

  // Single steps of connect()
  /// The device listens for a stream.
  void listens(Connected& of);
  /// The tester connects TCP to the listener, or ends the case.
  void dials(Connected& to);
  /// The device requests a stream to the tester, and TCP is connected.
  void device_dials(Connected& from);
  /// The tester's MPA frame according to the options.
  [[nodiscard]] static ByteVector frame_of(const ConnectOptions& options);
  /// Waits for the device's request and sends the reply according to the options. Unless set, the reply to an enhanced
  /// request is enhanced and grants the request.
  void answers(Connected& of);
  /// The device's application is notified of the request, and accepts.
  void accepts(Connected& of);
  /// Waits for the device's frame and enters Full Operation Phase according to both frames.
  void operates(Connected& of);
  /// Checks the next event at the device's application.
  peer::CmEvent expect_event(Connected& of, const std::string& type) { return DeviceBench::expect_event(of.cm, type); }

  /// Sets the negotiation parameters of QPs created from now on. Ends the case if this is not possible.
  void wish(const MpaWishes& wishes);
  /// Disables RFC 7306 if the device supports it, or ends the case.
  void without_extensions();
  [[nodiscard]] replay::TcpHost& host() { return host_; }
  [[nodiscard]] std::int64_t now() const override { return host_.now(); }
  void pass(std::int64_t nanoseconds) override;
  /// Records events at the end of a case until there is silence for this time.
  void drain(std::int64_t silence);
  /// Ends the environment of a case. Does nothing for this family.
  void finish() {}

 private:
  /// Sets the options that the case leaves to the environment.
  void resolve(ConnectOptions& options);
  /// Sends the messages of the environment before the case.
  void run_history(Connected& qp);
  replay::TcpHost& host_;
  bool wished_ = false, switched_ = false;
  std::deque<peer::CompletionChannel> channels_;
  std::deque<Connected> connected_;
};

}  // namespace rdmawire::conformance::iwarp
