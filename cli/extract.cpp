/// rdmawire extract: copies selected packets into a new capture, optionally anonymized.

#include "captures/extract/extract.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <random>

#include "captures/io/contents_size.hpp"
#include "captures/io/output_file.hpp"
#include "cli/command.hpp"
#include "cli/frames.hpp"
#include "cli/terminal.hpp"
#include "dissectors/output/filter.hpp"

namespace rdmawire::cli {
namespace extract {

struct Options {
  std::string file;
  FrameSet frames;
  std::string filter;
  std::uint32_t around = 0;
  bool anonymize = false;
  bool blank_payload = false;
  std::string key;
  std::string key_text;
  std::string output;
  std::uint16_t roce_port = 0;
  DecodeOptions decode;
};

// A key derived from the file, from the text, or from random bytes if both are empty.
std::optional<captures::SipKey> key_from(const std::string& path, const std::string& text) {
  if (path.empty() && text.empty()) {
    std::random_device device;
    std::uint8_t random_bytes[16];
    for (auto& byte : random_bytes) byte = static_cast<std::uint8_t>(device());
    return captures::Pseudonyms::key_of(random_bytes);
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
      throw UsageError("--filter:\n" + output::to_string(compiled.error(), options.filter));
    }
    filter = std::move(*compiled);
  }
  const FrameSet& frames = options.frames;
  how.select = [&](const tracking::Packet& packet) {
    return frames.has(packet.number) && (!filter || filter->matches(packet));
  };
  how.dissect = filter.has_value();
  how.last = frames.last();
  how.around = options.around;
  how.decode = options.decode;
  how.decode.extra_roce_v2_port = options.roce_port;
  if (options.anonymize) {
    const auto key = key_from(options.key, options.key_text);
    if (!key) {
      report_error(fmt::format("--key: {} is empty or cannot be read", options.key));
      return Exit::error;
    }
    how.anonymize = captures::AnonymizeOptions{*key, options.blank_payload};
  }
  if (const auto fine = captures::check_output(options.output, {&options.file, 1}); !fine)
    throw UsageError("--output: " + fine.error());

  auto reader = captures::Reader::open(options.file);
  if (!reader) {
    report_error(captures::to_string(reader.error()));
    return Exit::error;
  }
  captures::Writer::Options written;
  written.section.application = "rdmawire " RDMAWIRE_VERSION;
  written.complete_only = true;
  auto writer = captures::Writer::create(options.output, written);
  if (!writer) {
    report_error(captures::to_string(writer.error()));
    return Exit::error;
  }
  Progress progress;
  how.progress = [&](const captures::Reader& r) {
    progress.at(r.records(), r.position(), captures::contents_size(r), r.name());
  };
  auto extracted = captures::extract(*reader, *writer, how);
  progress.clear();
  if (extracted)
    if (auto closed = writer->close(); !closed) extracted = tl::unexpected(closed.error());
  if (!extracted) {
    report_error(captures::to_string(extracted.error()));
    return Exit::error;
  }
  if (extracted->input) report_error(captures::to_string(*extracted->input));
  if (extracted->selected == 0)
    report_error(
        fmt::format("{}: no packet matched ({} read); {} is empty", options.file, extracted->read, options.output));
  else if (options.anonymize && writer->format() == captures::Format::pcap)
    report_error(
        fmt::format("{}: the pcap format cannot store comments with the original CRC status; use pcapng to keep it",
                    options.output));
  return extracted->input ? Exit::error : Exit::success;
}

}  // namespace extract

Command extract_command() {
  const auto options = std::make_shared<extract::Options>();
  Command command;
  command.name = "extract";
  command.summary = "Copy selected packets of a capture into a new capture, optionally anonymized.";
  command.description =
      "Keeps times, comments and interfaces. Each packet gets a comment with its original frame number.";
  command.argument("FILE", options->file, "Capture file. \"-\" reads standard input.").must_be_given();
  command
      .option("-o,--output", "FILE", options->output,
              "Write the packets to FILE. The name selects the format: pcap if it ends in .pcap, else pcapng. .gz "
              "and .zst compress. \"-\" writes to standard output.")
      .must_be_given();
  command.group("Selection");
  add_frame_option(command, options->frames);
  command.option("--filter", "EXPR", options->filter,
                 "Select only packets that match EXPR (see docs/reference/filters.md).");
  command.option("--around", "N", options->around, "Also copy N packets before and after each selected packet.")
      .range(0, 100000);
  add_roce_port_option(command, options->roce_port);
  add_disable_protocol_option(command, options->decode);
  command.group("Anonymization");
  command.flag("--anonymize", options->anonymize, "Replace addresses and recompute checksums and CRCs.");
  command
      .option("--key", "FILE", options->key,
              "Derive the pseudonyms from the contents of FILE. The same key gives the same pseudonyms.")
      .by_default("a random key")
      .needs("--anonymize");
  command
      .option("--key-text", "TEXT", options->key_text,
              "Derive the pseudonyms from TEXT. Choose a text that is hard to guess.")
      .needs("--anonymize")
      .excludes({"--key"});
  command.flag("--blank-payload", options->blank_payload, "Replace RDMA payload with zeros.").needs("--anonymize");
  command.sections = {
      {"Anonymization",
       "Replaces MAC, IPv4 and IPv6 addresses, GIDs and GUIDs in all known fields. Equal addresses get equal "
       "pseudonyms, "
       "and subnets are preserved. Host names and payload other than RDMA are blanked. Each packet's comment keeps the "
       "original status of its checksums and CRCs. QP numbers, PSNs, keys, LIDs, ports and times are unchanged. In "
       "RDMA "
       "payload, only known addresses are replaced. Use --blank-payload if payload is confidential."}};
  command.examples = {
      {"rdmawire extract trace.pcap --frame 214 --around 50 -o part.pcapng", "Copy the packets around frame 214."},
      {"rdmawire extract trace.pcap --filter 'aeth.syndrome.kind == nak' --around 5 -o naks.pcapng",
       "Copy each NAK with five packets before and after it."},
      {"rdmawire extract trace.pcap --frame 1- --anonymize --key-text 'ticket 4711' -o ticket.pcapng",
       "Anonymize a capture for a support ticket."}};
  command.statuses = {{"0", "success"},
                      {"2", "usage error"},
                      {"3",
                       "the input could not be read completely (the readable part is written), or the output could "
                       "not be written"}};
  command.run = [options](const Given& given) {
    if (!given("--frame") && !given("--filter")) throw UsageError("one of --frame and --filter is required");
    return extract::run(*options);
  };
  return command;
}

}  // namespace rdmawire::cli
