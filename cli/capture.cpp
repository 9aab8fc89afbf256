/// rdmawire capture: writes packets of a live interface to files.

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <optional>

#include "captures/io/live.hpp"
#include "captures/io/ring.hpp"
#include "cli/command.hpp"
#include "cli/options/standard_streams.hpp"
#include "cli/terminal.hpp"
#include "dissectors/output/printable.hpp"

namespace rdmawire::cli {
namespace capture {

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
    return Exit::error;
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
  if (devices->empty()) report_error("no interfaces found; capturing may require root or CAP_NET_RAW");
  return output.finish() ? Exit::success : Exit::error;
}

// The running capture, which signals stop.
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
    // A program that reads the pipe expects packets without delay.
    how.immediate = options_.output == "-";
    auto live = captures::LiveCapture::open(options_.interface, how);
    if (!live) {
      report_error(captures::to_string(live.error()));
      return live.error().kind == captures::CaptureError::Kind::filter ? Exit::usage : Exit::error;
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
    const std::int64_t start = now();
    const std::int64_t end = options_.seconds > 0 ? start + nanoseconds_of(options_.seconds) : 0;
    const bool terminal = ::isatty(STDERR_FILENO) == 1;
    std::int64_t shown = start;
    captures::Record record;
    captures::Next next = captures::Next::record;
    // Creates the first file, so that an invalid path is reported before packets arrive.
    captures::Writer::Result written = writer.tick(start);
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
        show(writer, start, time);
      }
    }
    if (terminal && shown != start) write_to_standard_error("\r\033[K");
    const auto closed = writer.close(now());
    summarize(writer);
    if (next == captures::Next::error) report_error(captures::to_string(live_->error()));
    // A closed pipe is not an error.
    if (!written && options_.output != "-") report_error(captures::to_string(written.error()));
    if (written && !closed) report_error(captures::to_string(closed.error()));
    return next == captures::Next::error || (!written && options_.output != "-") || (written && !closed)
               ? Exit::error
               : Exit::success;
  }

  void show(const captures::RingWriter& writer, std::int64_t start, std::int64_t time) {
    const auto statistics = live_->statistics();
    const std::uint64_t drops = statistics ? statistics->drops().value_or(0) : 0;
    write_to_standard_error(fmt::format("\r{}: {} packets, {} dropped, {} s\033[K",
                                        output::printable(options_.interface), writer.records(), drops,
                                        (time - start) / 1'000'000'000));
  }

  void summarize(const captures::RingWriter& writer) {
    const auto statistics = live_->statistics();
    std::string text = fmt::format("{}: {} packets", output::printable(options_.interface), writer.records());
    if (statistics) {
      text += fmt::format(", {} dropped", statistics->drops().value_or(0));
      if (statistics->drops().value_or(0) != 0)
        text += fmt::format(" ({} because the buffer was full, {} by the interface)",
                            statistics->system_drops.value_or(0), statistics->interface_drops.value_or(0));
    }
    if (writer.files_begun() > 1)
      text += fmt::format(", {} files, {} kept", writer.files_begun(), writer.files().size());
    report_error(text);
  }

  const Options& options_;
  std::optional<captures::LiveCapture> live_;
};

std::vector<std::string> interface_names() {
  std::vector<std::string> names;
  if (const auto devices = captures::LiveCapture::devices())
    for (const captures::Device& device : *devices) names.push_back(device.name);
  return names;
}

}  // namespace capture

Command capture_command() {
  const auto options = std::make_shared<capture::Options>();
  Command command;
  command.name = "capture";
  command.summary = "Capture packets of an interface.";
  command.description =
      "Captures from any interface that libpcap supports, including RDMA devices (rdmasniff). Stops at Ctrl-C, or "
      "after --count packets or --seconds. Each pcapng file ends with the interface's statistics, which count dropped "
      "packets.";
  command.usage = {"--interface IFACE --output FILE [OPTIONS]", "--list"};
  command.group("Input");
  command.option("-i,--interface", "IFACE", options->interface, "Capture from the interface IFACE.")
      .completes(capture::interface_names);
  command.flag("-D,--list", options->list, "List the interfaces.");
  command.option("--filter", "BPF", options->filter,
                 "Capture only packets that match a libpcap expression such as 'udp port 4791'.");
  command.option("-s,--snaplen", "BYTES", options->snap_length, "Capture at most BYTES bytes of each packet.")
      .range(1, 262144);
  command.flag("--no-promiscuous", options->no_promiscuous,
               "Do not enable promiscuous mode: capture only packets sent or received by this host.");
  command
      .size("--buffer", options->buffer,
            "Set the size of the kernel's capture buffer. Larger buffers drop fewer packets.")
      .range(1 << 12, 1U << 31U);
  command.group("Output");
  command.option("-o,--output", "FILE", options->output,
                 "Write the packets to FILE. The name selects the format: pcap if it ends in .pcap, else pcapng with "
                 "nanosecond times. .gz and .zst compress. \"-\" writes to standard output.");
  command.size("--ring-size", options->ring_size, "Start a new file before a file exceeds SIZE.");
  command.option("--ring-seconds", "SECONDS", options->ring_seconds, "Start a new file after SECONDS seconds.")
      .range(1e-9, 1e9);
  command.option("--ring-files", "N", options->ring_files, "Keep the newest N files and delete older ones.");
  command.group("Stop conditions");
  command.option("-c,--count", "N", options->count, "Stop after N packets.").positive();
  command.option("--seconds", "SECONDS", options->seconds, "Stop after SECONDS seconds.").range(1e-9, 1e9);
  command.examples = {{"rdmawire capture -i mlx5_0 -o trace.pcapng", "Capture until Ctrl-C."},
                      {"rdmawire capture -i eth0 -o ring.pcapng --ring-size 100M --ring-files 20",
                       "Keep the newest 20 files of 100 MiB each."},
                      {"rdmawire capture -i eth0 -o - | rdmawire dissect -", "Show packets while they are captured."}};
  command.statuses = {{"0", "success"},
                      {"2", "usage error"},
                      {"3", "unknown interface, missing permission, or the output could not be written"}};
  command.run = [options](const Given& given) {
    if (options->list) return capture::list();
    if (!given("--interface")) throw UsageError("missing option --interface; use --list to show the interfaces");
    if (!given("--output")) throw UsageError("missing option --output");
    const bool ring = options->ring_size != 0 || options->ring_seconds > 0;
    if (options->ring_files != 0 && !ring) throw UsageError("--ring-files requires --ring-size or --ring-seconds");
    if (ring && options->output == "-") throw UsageError("--ring-size and --ring-seconds require --output FILE");
    return capture::Capture(*options).run();
  };
  return command;
}

}  // namespace rdmawire::cli
