/// rdmawire dissect: packets as lines, trees, bytes or JSON.

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <optional>

#include "captures/io/reader.hpp"
#include "cli/command.hpp"
#include "cli/frames.hpp"
#include "cli/terminal.hpp"
#include "dissectors/output/count.hpp"
#include "dissectors/output/filter.hpp"
#include "dissectors/output/json.hpp"
#include "dissectors/output/line.hpp"
#include "dissectors/output/tree.hpp"
#include "dissectors/tracking/dissector.hpp"

namespace rdmawire::cli {
namespace {

constexpr const char* description =
    "Shows the packets of captures, one line each.\n"
    "Reads pcap and pcapng, plain or compressed with gzip or zstd; - is standard input.";
constexpr const char* examples = R"(Examples:
  rdmawire dissect x.pcap                     one line a packet
  rdmawire dissect x.pcap -V --frame 214      one packet, every field
  rdmawire dissect x.pcap --filter 'aeth.syndrome.kind == nak and ip.src == 10.0.0.2'
  rdmawire dissect x.pcap --count             what the capture consists of
  rdmawire dissect x.pcap.zst --json | jq .   one JSON object a packet
  tcpdump -i eth0 -w - | rdmawire dissect -   as it happens

Exit status: 0 fine, 2 wrong usage, 3 a file could not be read to its end (what could be read is shown).)";

struct Options {
  std::vector<std::string> files;
  std::vector<std::string> frames;
  std::string filter;
  output::TimeStyle time = output::TimeStyle::relative;
  Colors colors = Colors::automatic;
  bool tree = false;
  bool hexdump = false;
  bool json = false;
  bool no_crc = false;
  bool count = false;
  std::uint16_t roce_port = 0;
  std::uint64_t limit = 0;
};

class Dissect {
 public:
  explicit Dissect(const Options& options) : options_(options), frames_(options.frames) {
    dissector_options_.verify_crcs = !options.no_crc;
    dissector_options_.decode.extra_roce_v2_port = options.roce_port;
    line_options_.time = options.time;
    line_options_.colors = use_colors(options.colors, STDOUT_FILENO);
  }

  Exit run() {
    if (!options_.filter.empty()) {
      auto filter = output::Filter::compile(options_.filter);
      if (!filter) {
        report_error("--filter:\n" + output::to_string(filter.error(), options_.filter));
        return Exit::usage;
      }
      filter_ = std::move(*filter);
      if (options_.no_crc && filter_->uses_crcs()) {
        report_error("--filter asks for CRCs, which --no-crc leaves unverified");
        return Exit::usage;
      }
    }
    bool whole = true;
    for (const std::string& file : options_.files) {
      if (options_.files.size() > 1 && !options_.json) output_.text() += fmt::format("==> {} <==\n", file);
      whole &= show(file);
      if (stopped_) break;
    }
    return output_.finish() && whole ? Exit::fine : Exit::trouble;
  }

 private:
  // Standard input gives packets as they happen: show what there is before waiting for more.
  static bool more_is_there() {
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
        progress_.at(record.number, reader->position(), reader->file_size(), reader->name());
      if (frames_.has(record.number) && (!filter_ || filter_->matches(packet))) {
        ++shown;
        if (options_.count)
          count.add(packet);
        else
          append(lines, packet, record, file);
      }
      stopped_ = !output_.settle(live && !more_is_there());
      if ((options_.limit && shown == options_.limit) || record.number >= frames_.last()) break;
    }
    progress_.clear();
    tell_lost(*reader, count);
    if (options_.count) output_.text() += options_.json ? count.json() : count.text(line_options_.colors);
    if (next != captures::Next::error) return true;
    output_.settle(true);
    report_error(captures::to_string(reader->error()));
    return false;
  }

  // What is missing for the capture's own sake must not be taken for trouble on the wire.
  void tell_lost(const captures::Reader& reader, output::Count& count) {
    std::uint64_t lost = 0;
    for (const captures::Interface& interface : reader.interfaces())
      if (const auto drops = interface.statistics ? interface.statistics->drops() : std::nullopt) {
        count.add_lost(interface.name, *drops);
        lost += *drops;
      }
    if (lost == 0 || options_.count) return;
    output_.settle(true);
    report_error(fmt::format("{}: the capture itself lost {} packets, as it says", reader.name(), lost));
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
  FrameSet frames_;
  output::JsonWriter json_;
  std::vector<std::string_view> comments_;
  Output output_;
  Progress progress_;
  bool stopped_ = false;
};

}  // namespace

void add_dissect(CLI::App& app, Work& work) {
  const auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("dissect", description);
  sub->footer(examples);
  sub->add_option("FILE", options->files, "captures; - is standard input")->required()->type_name("");
  sub->add_flag("-V", options->tree, "every field of every layer, with what it means");
  sub->add_flag("-x", options->hexdump, "the bytes too, with layers and fields marked");
  sub->add_flag("--json", options->json, "one JSON object a packet (NDJSON; docs/json.md names the keys)");
  sub->add_option("--filter", options->filter, "only packets that match (docs/filters.md); Wireshark's names work too")
      ->type_name("EXPR");
  add_frame_option(*sub, options->frames);
  sub->add_option("--limit", options->limit, "of each capture, show so many packets at most")
      ->check(check_positive)
      ->type_name("N");
  add_choice<output::TimeStyle>(*sub, "--time", options->time,
                                {{"relative", output::TimeStyle::relative},
                                 {"absolute", output::TimeStyle::absolute},
                                 {"epoch", output::TimeStyle::epoch},
                                 {"delta", output::TimeStyle::delta}},
                                "a line's time, since the first packet or the previous one shown, or UTC");
  sub->add_option("--roce-port", options->roce_port, "a further UDP port that carries RoCEv2, beside 4791")
      ->check(CLI::Range(1, 65535))
      ->type_name("PORT");
  sub->add_flag("--no-crc", options->no_crc, "do not verify ICRC, VCRC and MPA's CRC");
  sub->add_flag("--count", options->count, "a table of protocols, operations, CRCs and findings instead of packets");
  add_color_option(*sub, options->colors);
  sub->callback([options, &work] {
    // Said here and not by excludes(), which the help would repeat beside each option.
    for (const auto& [given, name] : {std::pair(options->tree, "-V"), std::pair(options->hexdump, "-x")}) {
      if (given && options->json) throw CLI::ExcludesError(name, "--json");
      if (given && options->count) throw CLI::ExcludesError(name, "--count");
    }
    work = [options] { return Dissect(*options).run(); };
  });
}

}  // namespace rdmawire::cli
