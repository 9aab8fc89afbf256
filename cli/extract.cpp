/// rdmawire extract: a part of a capture as a capture of its own, anonymized when asked.

#include "captures/extract/extract.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <random>

#include "cli/command.hpp"
#include "cli/frames.hpp"
#include "cli/terminal.hpp"
#include "dissectors/output/filter.hpp"

namespace rdmawire::cli {
namespace {

constexpr const char* description =
    "Copies packets of a capture into a capture of their own, with their times, comments and interfaces.\n"
    "Each gets a comment that says which frame it was. The output's name says the format: .pcap, else pcapng;\n"
    ".gz and .zst compress; - is standard output.";
constexpr const char* examples = R"(Examples:
  rdmawire extract x.pcap --frame 214 --around 50 -o part.pcapng
  rdmawire extract x.pcap --filter 'aeth.syndrome.kind == nak' --around 5 -o naks.pcapng
  rdmawire extract x.pcap --frame 1- --anonymize --key-text 'ticket 4711' -o ticket.pcapng

Anonymizing replaces MAC, IPv4 and IPv6 addresses, GIDs and GUIDs wherever the tables know them, the same one by the
same one, subnets by subnets; blanks names of hosts and what is not RDMA; and makes checksums and CRCs good again. The
comment of each packet says what they were. Queue pairs, PSNs, keys, LIDs, ports and times stay. So does the payload of
RDMA, but for addresses that were met before: payload can hold anything, so think of --blank-payload. Without --key the
pseudonyms are different each time.

Exit status: 0 fine, 2 wrong usage, 3 the input could not be read to its end (what could be read is written) or the
output could not be written.)";

struct Options {
  std::string file;
  std::vector<std::string> frames;
  std::string filter;
  std::uint32_t around = 0;
  bool anonymize = false;
  bool blank_payload = false;
  std::string key;
  std::string key_text;
  std::string output;
  std::uint16_t roce_port = 0;
};

bool same_file(const std::string& a, const std::string& b) {
  struct stat first {
  }, second{};
  return ::stat(a.c_str(), &first) == 0 && ::stat(b.c_str(), &second) == 0 && S_ISREG(first.st_mode) &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

// The key of a file's content or of a text. Without either, a random key.
std::optional<captures::SipKey> key_from(const std::string& path, const std::string& text) {
  if (path.empty() && text.empty()) {
    std::random_device device;
    std::uint8_t random[16];
    for (auto& byte : random) byte = static_cast<std::uint8_t>(device());
    return captures::Pseudonyms::key_of(random);
  }
  std::string secret = text;
  if (!path.empty()) {
    std::ifstream file(path, std::ios::binary);
    secret.assign(std::istreambuf_iterator<char>(file), {});
    if (secret.empty()) return std::nullopt;
  }
  return captures::Pseudonyms::key_of({reinterpret_cast<const std::uint8_t*>(secret.data()), secret.size()});
}

Exit run(const Options& options) {
  captures::ExtractOptions how;
  std::optional<output::Filter> filter;
  if (!options.filter.empty()) {
    auto compiled = output::Filter::compile(options.filter);
    if (!compiled) {
      report_error(fmt::format("--filter\n{}", output::to_string(compiled.error(), options.filter)));
      return Exit::usage;
    }
    filter = std::move(*compiled);
  }
  const FrameSet frames(options.frames);
  how.select = [&](const tracking::Packet& packet) {
    return frames.has(packet.number) && (!filter || filter->matches(packet));
  };
  how.dissect = filter.has_value();
  how.last = frames.last();
  how.around = options.around;
  how.decode.extra_roce_v2_port = options.roce_port;
  if (options.anonymize) {
    const auto key = key_from(options.key, options.key_text);
    if (!key) {
      report_error(fmt::format("--key {}: is empty or cannot be read", options.key));
      return Exit::trouble;
    }
    how.anonymize = captures::AnonymizeOptions{*key, options.blank_payload};
  }
  if (same_file(options.file, options.output)) {
    report_error(fmt::format("{}: is the input; write to another file", options.output));
    return Exit::usage;
  }

  auto reader = captures::Reader::open(options.file);
  if (!reader) {
    report_error(captures::to_string(reader.error()));
    return Exit::trouble;
  }
  captures::Writer::Options written;
  written.section.application = "rdmawire " RDMAWIRE_VERSION;
  auto writer = captures::Writer::create(options.output, written);
  if (!writer) {
    report_error(captures::to_string(writer.error()));
    return Exit::trouble;
  }
  Progress progress;
  how.progress = [&](const captures::Reader& r) { progress.at(r.records(), r.position(), r.file_size(), r.name()); };
  auto extracted = captures::extract(*reader, *writer, how);
  progress.clear();
  if (extracted)
    if (auto closed = writer->close(); !closed) extracted = tl::unexpected(closed.error());
  if (!extracted) {
    report_error(captures::to_string(extracted.error()));
    return Exit::trouble;
  }
  if (extracted->input) report_error(captures::to_string(*extracted->input));
  if (extracted->selected == 0)
    report_error(
        fmt::format("{}: none of {} packets matched; {} is empty", options.file, extracted->read, options.output));
  else if (options.anonymize && writer->format() == captures::Format::pcap)
    report_error(fmt::format("{}: pcap has no comments, so the original status of the CRCs is lost; pcapng keeps it",
                             options.output));
  return extracted->input ? Exit::trouble : Exit::fine;
}

}  // namespace

void add_extract(CLI::App& app, Work& work) {
  const auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("extract", description);
  sub->footer(examples);
  sub->add_option("FILE", options->file, "a capture; - is standard input")->required()->type_name("");
  CLI::Option* frames = add_frame_option(*sub, options->frames);
  CLI::Option* filter = sub->add_option("--filter", options->filter,
                                        "only packets that match: 'aeth.syndrome.kind == nak' (docs/filters.md)")
                            ->type_name("EXPR");
  sub->add_option("--around", options->around, "so many packets before and after each, too")
      ->check(CLI::Range(0, 100000))
      ->type_name("K");
  CLI::Option* anonymize =
      sub->add_flag("--anonymize", options->anonymize, "replace addresses, make checksums good again");
  CLI::Option* key =
      sub->add_option("--key", options->key, "a file: the same content gives the same pseudonyms, another others")
          ->needs(anonymize)
          ->type_name("FILE");
  sub->add_option("--key-text", options->key_text, "the same with a text; one that can be guessed protects nothing")
      ->needs(anonymize)
      ->excludes(key)
      ->type_name("TEXT");
  sub->add_flag("--blank-payload", options->blank_payload, "RDMA payload becomes zeros")->needs(anonymize);
  sub->add_option("--roce-port", options->roce_port, "a further UDP port that carries RoCEv2, beside 4791")
      ->check(CLI::Range(1, 65535))
      ->type_name("PORT");
  sub->add_option("-o,--output", options->output, "the new capture; - is standard output")
      ->required()
      ->type_name("OUT");
  sub->callback([=, &work] {
    if (frames->empty() && filter->empty()) throw CLI::ValidationError("one of --frame and --filter is required");
    work = [options] { return run(*options); };
  });
}

}  // namespace rdmawire::cli
