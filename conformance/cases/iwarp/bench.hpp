#pragma once
/// What a case of iWARP works with: queue pairs, memory and completions at the device, and the other ends of their
/// streams in the tester's hands.
///
///     Connected& qp = bench.connect({.receives = 1});   // TCP and MPA are set up, the tester began
///     qp >> send(1, "hello");
///     qp.completes(0);

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "conformance/cases/device_bench.hpp"
#include "conformance/cases/iwarp/stream.hpp"

namespace rdmawire::conformance::iwarp {

/// How a queue pair of the device is made, and its stream set up.
struct ConnectOptions {
  bool device_initiates = false;  ///< the device asks for the stream; else the tester does
  // The tester's MPA frame
  std::uint8_t revision = 1;  ///< `enhanced` makes it 2
  bool markers = false;       ///< in what the device sends
  bool crc = true;
  std::optional<Enhanced> enhanced{};
  std::string private_data{};
  std::uint32_t mss = 1460;  ///< of the device's TCP segments
  // The device's consumer
  std::string device_private_data{};
  std::uint8_t reads_at_once = 4;     ///< READs and atomics that the device answers: its IRD
  std::uint8_t own_reads = 4;         ///< that the device may have outstanding: its ORD
  std::optional<MpaWishes> wishes{};  ///< of the device's set-up; where it cannot be chosen, the case is unsupported
  // The queue pair
  std::uint32_t receives = 0;          ///< receive requests that are posted before the stream is there
  std::uint32_t receive_bytes = 1024;  ///< each of them holds
  std::uint64_t region_bytes = 8192;
  peer::Names region_access = {"local_write", "remote_write", "remote_read", "remote_atomic"};
  std::uint32_t send_wr = 32;
  std::uint32_t completions = 256;                   ///< that its queue holds
  bool notifies = false;                             ///< the completion queue can be asked for notifications
  std::size_t domain = 0;                            ///< protection domain, by number
  const peer::CompletionQueue* shared_cq = nullptr;  ///< in place of one of its own
};

/// An STag that no device has.
inline constexpr std::uint32_t nobodys_stag = 0xdeadbe00;
/// What no byte was placed in.
inline std::string untouched(std::size_t bytes = 64) { return std::string(bytes, '\0'); }

/// The tester's memory that the device's requests name. Nothing looks at it but the tester.
inline constexpr std::uint64_t tester_memory = 0x10000;
inline constexpr std::uint32_t tester_stag = 0x4321;

/// A queue pair of the device and the tester's end of its stream.
struct Connected : DeviceQueuePair, Stream {
  Connected(DeviceBench& bench, CaseRecorder& story, replay::TcpHost& host, const ConnectOptions& how)
      : DeviceQueuePair(bench, how.receive_bytes), Stream(story, host), options(how), bench_(&bench) {}

  ConnectOptions options;
  peer::Listener listener;    ///< of the device, where it waits
  peer::CmConnection cm;      ///< once the device's consumer has it
  std::optional<Seen> setup;  ///< the device's MPA frame

  /// "region", in a Write or Read of the tester: its STag, and the TO of one of its bytes.
  [[nodiscard]] std::uint32_t stag() const { return region.rkey(); }
  [[nodiscard]] std::uint64_t to(std::uint64_t offset = 0) const { return region.addr() + offset; }

  // What the device is to send, bytes of the region from `offset` on.
  void device_sends(std::uint64_t wr_id, std::uint32_t length = 8, std::uint64_t offset = 0,
                    const peer::Names& flags = {"signaled"});
  void device_writes(std::uint64_t wr_id, std::uint32_t length = 8, std::uint64_t offset = 0);
  /// READs `length` bytes of the tester's memory into the region.
  void device_reads(std::uint64_t wr_id, std::uint32_t length = 8, std::uint64_t offset = 0,
                    const peer::Names& flags = {"signaled"});
  /// The tester's first FPDU, behind which the device may send: an RDMA Write of nothing, which takes nothing. RFC
  /// 5044, 7.1.2 rule 4.
  void opens() { *this >> write(0, 0, {}); }

  /// What an error makes of a stream: that Terminate, the end of TCP, and the consumer is told.
  void refuses(const Expectation& terminate);
  /// The same, where the stream's end began with this: a refusal.
  void is_refused_by(const Seen& refusal);
  /// These complete with an error, each with which the device likes: what was outstanding when its stream failed.
  void fail_or_are_flushed(std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t wr_id = first; wr_id <= last; ++wr_id) fails_or_is_flushed(wr_id);
  }
  /// Our half is closed too, and the consumer is told of the end.
  void ends();

 private:
  DeviceBench* bench_;
};

/// What answers the device's RDMA Read Request: these bytes, to where it asked for them and `offset` on.
Stimulus response_to(const Seen& request, const std::string& payload, std::uint64_t offset = 0, bool last = true);

class IwarpBench : public CaseRecorder, public DeviceBench {
 public:
  IwarpBench(DeviceUnderTest& device, std::uint64_t seed)
      : CaseRecorder(device.patience), DeviceBench(*this, device, seed), host_(*device.tcp) {}
  ~IwarpBench() override;
  IwarpBench(const IwarpBench&) = delete;
  IwarpBench& operator=(const IwarpBench&) = delete;

  /// A queue pair whose stream is in Full Operation Phase, its receives posted.
  Connected& connect(const ConnectOptions& options = {});
  /// A queue pair without a stream.
  Connected& make(const ConnectOptions& options = {});

  // Step by step, for who wants something else on the way.
  /// The device waits for a stream.
  void listens(Connected& of);
  /// The tester connects TCP to where it waits, or the case ends.
  void dials(Connected& to);
  /// The device asks the tester for a stream, and TCP is connected.
  void device_dials(Connected& from);
  /// The tester's MPA frame as the options have it.
  [[nodiscard]] static ByteVector frame_of(const ConnectOptions& options);
  /// Waits for the device's request, and says the options' reply to it: to an enhanced one, where they do not say
  /// otherwise, an enhanced one that grants what was asked for.
  void answers(Connected& of);
  /// The device's consumer is told of the request, and accepts.
  void accepts(Connected& of);
  /// Waits for the device's frame, takes it over, and goes to Full Operation Phase by what both frames say.
  void operates(Connected& of);
  /// The device's consumer is told.
  peer::CmEvent expect_event(Connected& of, const std::string& type) { return DeviceBench::expect_event(of.cm, type); }

  /// Streams of queue pairs that are made from now on are set up so, where that can be chosen; else the case ends.
  void wish(const MpaWishes& wishes);
  /// The device does without RFC 7306, or the case ends.
  void without_extensions();
  [[nodiscard]] replay::TcpHost& host() { return host_; }
  [[nodiscard]] std::int64_t now() const override { return host_.now(); }
  void pass(std::int64_t nanoseconds) override;
  /// What still comes at the end of a case, until there is silence for so long: it belongs to what happened.
  void drain(std::int64_t silence);

 private:
  replay::TcpHost& host_;
  bool wished_ = false, switched_ = false;
  std::deque<peer::CompletionChannel> channels_;
  std::deque<Connected> connected_;
};

}  // namespace rdmawire::conformance::iwarp
