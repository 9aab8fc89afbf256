/// rdmawire capture: packets from a live interface into files.

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <optional>

#include "captures/io/live.hpp"
#include "captures/io/ring.hpp"
#include "cli/command.hpp"
#include "cli/terminal.hpp"

namespace rdmawire::cli {
namespace {

constexpr const char* description =
    "Captures packets from an interface: any that libpcap knows, its RDMA devices (rdmasniff) included.\n"
    "Writes pcapng with nanoseconds, or pcap when the name ends so; .gz and .zst compress; - is standard output.\n"
    "Ends with ctrl-C, or after --count packets or --seconds.";
constexpr const char* examples = R"(Examples:
  rdmawire capture --list                                   what can be captured from
  rdmawire capture -i mlx5_0 -o x.pcapng                    until ctrl-C
  rdmawire capture -i eth0 --filter 'udp port 4791' -s 128 -o x.pcapng.zst
  rdmawire capture -i eth0 -o ring.pcapng --ring-size 100M --ring-files 20
  rdmawire capture -i eth0 -o - | rdmawire dissect -

Each file ends with the interface's statistics; packets that were lost while capturing are counted there and below.

Exit status: 0 fine, 2 wrong usage, 3 no such interface, not permitted, or the output could not be written.)";

struct Options {
  bool list = false;
  std::string interface;
  std::string filter;
  std::uint32_t snap_length = 262144;
  std::string output;
  std::uint64_t ring_size = 0;
  double ring_seconds = 0;
  std::uint32_t ring_files = 0;
  std::uint64_t count = 0;
  double seconds = 0;
  bool no_promiscuous = false;
  std::uint64_t buffer = 16 << 20;
};

std::int64_t now() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
}
std::int64_t nanoseconds_of(double seconds) { return static_cast<std::int64_t>(seconds * 1e9); }

Exit list() {
  const auto devices = captures::LiveCapture::devices();
  if (!devices) {
    report_error(captures::to_string(devices.error()));
    return Exit::trouble;
  }
  Output output;
  for (const captures::Device& device : *devices) {
    std::string& out = output.text();
    out += fmt::format("{:<16} {:<8}", device.name, device.running ? "running" : device.up ? "up" : "down");
    if (!device.description.empty()) out += " " + device.description;
    for (const std::string& address : device.addresses) out += " " + address;
    while (out.back() == ' ') out.pop_back();
    out += '\n';
  }
  if (devices->empty()) report_error("no interface can be seen; capturing may need root or CAP_NET_RAW");
  return output.finish() ? Exit::fine : Exit::trouble;
}

// What a signal ends.
captures::LiveCapture* running = nullptr;
void stop_running(int) {
  if (running) running->stop();
}

class Capture {
 public:
  explicit Capture(const Options& options) : options_(options) {}

  Exit run() {
    captures::LiveCapture::Options how;
    how.snap_length = options_.snap_length;
    how.promiscuous = !options_.no_promiscuous;
    how.filter = options_.filter;
    how.buffer_size = static_cast<std::uint32_t>(options_.buffer);
    // A reader at the other end of a pipe wants packets as they come.
    how.immediate = options_.output == "-";
    auto live = captures::LiveCapture::open(options_.interface, how);
    if (!live) {
      report_error(captures::to_string(live.error()));
      return live.error().kind == captures::CaptureError::Kind::filter ? Exit::usage : Exit::trouble;
    }
    live_.emplace(std::move(*live));

    captures::RingWriter::Options ring;
    ring.max_bytes = options_.ring_size;
    ring.max_nanoseconds = nanoseconds_of(options_.ring_seconds);
    ring.keep = options_.ring_files;
    ring.writer.nanoseconds = live_->nanoseconds();
    ring.writer.section.application = "rdmawire " RDMAWIRE_VERSION;
    captures::RingWriter writer(options_.output, ring, [this] { return counters(); });
    writer.add_interface(live_->interface());

    running = &*live_;
    struct sigaction action {};
    action.sa_handler = stop_running;
    for (int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
    const Exit exit = capture(writer);
    running = nullptr;
    return exit;
  }

 private:
  std::vector<std::optional<captures::InterfaceStatistics>> counters() {
    auto statistics = live_->statistics();
    if (!statistics) return {std::nullopt};
    return {*statistics};
  }

  Exit capture(captures::RingWriter& writer) {
    const std::int64_t begun = now();
    const std::int64_t end = options_.seconds > 0 ? begun + nanoseconds_of(options_.seconds) : 0;
    const bool terminal = ::isatty(STDERR_FILENO) == 1;
    std::int64_t shown = begun;
    captures::Record record;
    captures::Next next = captures::Next::record;
    // The first file is there from the beginning, and a bad path shows before anything was captured.
    captures::Writer::Result written = writer.tick(begun);
    while (written) {
      next = live_->next(record);
      const std::int64_t time = now();
      if (next == captures::Next::record) {
        record.interface = 0;
        written = writer.write(record, time);
        if (written && options_.count && writer.records() == options_.count) break;
      } else if (next == captures::Next::timeout) {
        written = writer.tick(time);
        if (written) written = writer.flush();
      } else {
        break;
      }
      if (end && time >= end) break;
      if (terminal && time - shown >= 500'000'000) {
        shown = time;
        show(writer, begun, time);
      }
    }
    if (terminal && shown != begun) fmt::print(stderr, "\r\033[K");
    const auto closed = writer.close(now());
    summarize(writer);
    if (next == captures::Next::error) report_error(captures::to_string(live_->error()));
    // A reader that goes away has seen enough.
    if (!written && options_.output != "-") report_error(captures::to_string(written.error()));
    if (written && !closed) report_error(captures::to_string(closed.error()));
    return next == captures::Next::error || (!written && options_.output != "-") || (written && !closed) ? Exit::trouble
                                                                                                         : Exit::fine;
  }

  void show(const captures::RingWriter& writer, std::int64_t begun, std::int64_t time) {
    const auto statistics = live_->statistics();
    const std::uint64_t drops = statistics ? statistics->drops().value_or(0) : 0;
    fmt::print(stderr, "\r{}: {} packets, {} lost, {} s\033[K", options_.interface, writer.records(), drops,
               (time - begun) / 1'000'000'000);
    std::fflush(stderr);
  }

  void summarize(const captures::RingWriter& writer) {
    const auto statistics = live_->statistics();
    std::string text = fmt::format("{}: {} packets", options_.interface, writer.records());
    if (statistics) {
      text += fmt::format(", {} lost", statistics->drops().value_or(0));
      if (statistics->drops().value_or(0) != 0)
        text += fmt::format(" ({} for lack of buffer, {} by the interface)", statistics->system_drops.value_or(0),
                            statistics->interface_drops.value_or(0));
    }
    if (writer.files_begun() > 1)
      text += fmt::format(", {} files, {} kept", writer.files_begun(), writer.files().size());
    report_error(text);
  }

  const Options& options_;
  std::optional<captures::LiveCapture> live_;
};

}  // namespace

void add_capture(CLI::App& app, Work& work) {
  const auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("capture", description);
  sub->footer(examples);
  CLI::Option* list_them = sub->add_flag("-D,--list", options->list, "the interfaces there are");
  CLI::Option* interface =
      sub->add_option("-i,--interface", options->interface, "where to capture")->type_name("IFACE");
  sub->add_option("--filter", options->filter, "only these, in libpcap's language: 'udp port 4791'")->type_name("BPF");
  sub->add_option("-s,--snaplen", options->snap_length, "bytes to keep of each packet")
      ->check(CLI::Range(1, 262144))
      ->type_name("BYTES");
  CLI::Option* output =
      sub->add_option("-o,--output", options->output, "the capture; - is standard output")->type_name("OUT");
  sub->add_option("-c,--count", options->count, "stop after so many packets")->check(check_positive)->type_name("N");
  sub->add_option("--seconds", options->seconds, "stop after so long")->check(check_positive)->type_name("S");
  sub->add_option("--ring-size", options->ring_size, "a new file when one would exceed this: 100M")
      ->transform(CLI::AsSizeValue(false))
      ->type_name("SIZE");
  sub->add_option("--ring-seconds", options->ring_seconds, "a new file when one is so old")
      ->check(check_positive)
      ->type_name("S");
  sub->add_option("--ring-files", options->ring_files, "keep so many files, delete the oldest")->type_name("N");
  sub->add_flag("--no-promiscuous", options->no_promiscuous, "only packets for this machine");
  sub->add_option("--buffer", options->buffer, "what the kernel may hold for us: 64M; larger ones lose fewer packets")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{1} << 12, std::uint64_t{1} << 31))
      ->type_name("SIZE");
  sub->callback([=, &work] {
    if (!list_them->empty()) {
      work = [] { return list(); };
      return;
    }
    if (interface->empty()) throw CLI::RequiredError("--interface");
    if (output->empty()) throw CLI::RequiredError("--output");
    const bool rings = options->ring_size != 0 || options->ring_seconds > 0;
    if (options->ring_files != 0 && !rings)
      throw CLI::ValidationError("--ring-files needs --ring-size or --ring-seconds");
    if (rings && options->output == "-") throw CLI::ValidationError("standard output is one file, not a ring");
    work = [options] { return Capture(*options).run(); };
  });
}

}  // namespace rdmawire::cli
