/// rdmawire dissect: prints packets as lines, trees, hex dumps or JSON.

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <memory>
#include <optional>

#include "captures/io/contents_size.hpp"
#include "captures/io/reader.hpp"
#include "cli/command.hpp"
#include "cli/frames.hpp"
#include "cli/terminal.hpp"
#include "dissectors/output/count.hpp"
#include "dissectors/output/filter.hpp"
#include "dissectors/output/json.hpp"
#include "dissectors/output/line.hpp"
#include "dissectors/output/printable.hpp"
#include "dissectors/output/tree.hpp"
#include "dissectors/tracking/dissector.hpp"

namespace rdmawire::cli {
namespace dissect {

struct Options {
  std::vector<std::string> files;
  FrameSet frames;
  std::string filter;
  output::TimeStyle time = output::TimeStyle::relative;
  Colors colors = Colors::automatic;
  bool tree = false;
  bool hexdump = false;
  bool json = false;
  bool no_crc = false;
  bool count = false;
  std::uint16_t roce_port = 0;
  DecodeOptions decode;
  std::uint64_t limit = 0;
};

class Dissect {
 public:
  explicit Dissect(const Options& options)
      : options_(options), frames_(options.frames), last_frame_(options.frames.last()) {
    dissector_options_.verify_crcs = !options.no_crc;
    dissector_options_.decode = options.decode;
    dissector_options_.decode.extra_roce_v2_port = options.roce_port;
    line_options_.time = options.time;
    line_options_.colors = use_colors(options.colors, STDOUT_FILENO);
  }

  Exit run() {
    if (!options_.filter.empty()) {
      auto filter = output::Filter::compile(options_.filter);
      if (!filter) {
        throw UsageError("--filter:\n" + output::to_string(filter.error(), options_.filter));
      }
      filter_ = std::move(*filter);
      if (options_.no_crc && filter_->uses_crcs())
        throw UsageError("--filter uses CRC fields, which requires CRC verification; remove --no-crc");
    }
    bool complete = true;
    for (const std::string& file : options_.files) {
      if (options_.files.size() > 1 && !options_.json)
        output_.text() += fmt::format("==> {} <==\n", output::printable(file));
      complete &= show(file);
      if (stopped_) break;
    }
    return output_.finish() && complete ? Exit::success : Exit::error;
  }

 private:
  // Output is flushed before waiting for more input.
  static bool has_input() {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    return ::poll(&input, 1, 0) > 0;
  }

  bool show(const std::string& file) {
    auto reader = captures::Reader::open(file);
    if (!reader) {
      output_.settle(true);
      report_error(captures::to_string(reader.error()));
      return false;
    }
    const bool live = file == "-";
    tracking::Dissector dissector(dissector_options_);
    output::LinePrinter lines(line_options_);
    tracking::Packet packet;
    captures::Record record;
    captures::Next next = captures::Next::record;
    std::uint64_t shown = 0;
    output::Count count;
    while (!stopped_ && (next = reader->next(record)) == captures::Next::record) {
      if (record.number == 1) lines.set_origin(record.time);
      packet.number = record.number;
      packet.time_ns = record.time;
      packet.link = record.link;
      dissector.dissect(packet, record.bytes, record.wire_length);
      if (progress_.due(record.number))
        progress_.at(record.number, reader->position(), captures::contents_size(*reader), reader->name());
      if (frames_.has(record.number) && (!filter_ || filter_->matches(packet))) {
        ++shown;
        if (options_.count)
          count.add(packet);
        else
          append(lines, packet, record, file);
      }
      stopped_ = !output_.settle(live && !has_input());
      if ((options_.limit && shown == options_.limit) || record.number >= last_frame_) break;
    }
    progress_.clear();
    report_drops(*reader, count);
    if (options_.count) output_.text() += options_.json ? count.json() : count.text(line_options_.colors);
    if (next != captures::Next::error) return true;
    output_.settle(true);
    report_error(captures::to_string(reader->error()));
    return false;
  }

  // Reports packets dropped by the capturing host, so that they are not mistaken for network loss.
  void report_drops(const captures::Reader& reader, output::Count& count) {
    std::uint64_t lost = 0;
    for (const captures::Interface& interface : reader.interfaces())
      if (const auto drops = interface.statistics ? interface.statistics->drops() : std::nullopt) {
        count.add_lost(interface.name, *drops);
        lost += *drops;
      }
    if (lost == 0 || options_.count) return;
    output_.settle(true);
    report_error(fmt::format("{}: {} packets were dropped while capturing", output::printable(reader.name()), lost));
  }

  void append(output::LinePrinter& lines, const tracking::Packet& packet, const captures::Record& record,
              const std::string& file) {
    output::PacketContext context;
    comments_.clear();
    if (!record.options.empty())
      for (std::string_view comment : record.comments()) comments_.push_back(comment);
    context.comments = comments_;
    if (options_.files.size() > 1) context.file = file;
    std::string& out = output_.text();
    if (options_.json) return json_.append(out, packet, context);
    const bool colors = line_options_.colors;
    if (options_.tree)
      output::append_tree(out, packet, context, {.colors = colors});
    else
      lines.append(out, packet);
    if (options_.hexdump) output::append_hexdump(out, packet, colors);
    if (options_.tree || options_.hexdump) out += '\n';
  }

  const Options& options_;
  tracking::DissectorOptions dissector_options_;
  output::LineOptions line_options_;
  std::optional<output::Filter> filter_;
  const FrameSet& frames_;
  const std::uint64_t last_frame_;
  output::JsonWriter json_;
  std::vector<std::string_view> comments_;
  Output output_;
  Progress progress_;
  bool stopped_ = false;
};

}  // namespace dissect

Command dissect_command() {
  const auto options = std::make_shared<dissect::Options>();
  Command command;
  command.name = "dissect";
  command.summary = "Show the packets of captures, one line each.";
  command.description = "Reads pcap and pcapng files, also compressed with gzip or zstd.";
  command.argument("FILE", options->files, "Capture files. \"-\" reads standard input.").repeats().must_be_given();
  command.group("Output");
  command.flag("-V", options->tree, "Show every field of every layer with its meaning.")
      .excludes({"--json", "--count"});
  command.flag("-x", options->hexdump, "Show the bytes with layers and fields marked.").excludes({"--json", "--count"});
  command.flag("--json", options->json,
               "Print one JSON object per packet (NDJSON, see docs/reference/dissect-json.md).");
  command.flag("--count", options->count,
               "Print a table of protocols, operations, CRC results and findings instead of packets.");
  command.choice<output::TimeStyle>("--time", "STYLE", options->time,
                                    {{"relative", output::TimeStyle::relative, "seconds since the first packet"},
                                     {"absolute", output::TimeStyle::absolute, "date and time, UTC"},
                                     {"epoch", output::TimeStyle::epoch, "seconds since 1970"},
                                     {"delta", output::TimeStyle::delta, "seconds since the previous packet shown"}},
                                    "Set the format of the time column.");
  add_color_option(command, options->colors);
  command.group("Selection");
  command.option(
      "--filter", "EXPR", options->filter,
      "Show only packets that match EXPR (see docs/reference/filters.md). Wireshark's field names are accepted.");
  add_frame_option(command, options->frames);
  command.option("--limit", "N", options->limit, "Show at most N packets of each file.").positive();
  command.group("Decoding");
  add_roce_port_option(command, options->roce_port);
  add_disable_protocol_option(command, options->decode);
  command.flag("--no-crc", options->no_crc, "Do not verify the ICRC, VCRC and MPA CRC.");
  command.examples = {{"rdmawire dissect trace.pcap --filter 'aeth.syndrome.kind == nak and ip.src == 10.0.0.2'",
                       "Show the NAKs of one host."},
                      {"rdmawire dissect trace.pcap -V --frame 214", "Show every field of one packet."},
                      {"tcpdump -i eth0 -w - | rdmawire dissect -", "Show packets while they are captured."}};
  command.statuses = {{"0", "success"},
                      {"2", "usage error"},
                      {"3", "a file could not be read completely (the readable part is shown)"}};
  command.run = [options](const Given&) { return dissect::Dissect(*options).run(); };
  return command;
}

}  // namespace rdmawire::cli
