#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "captures/io/output_file.hpp"
#include "captures/io/writer.hpp"
#include "conformance/report/report.hpp"
#include "conformance/report/traceability.hpp"

namespace rdmawire::conformance {

namespace fs = std::filesystem;

namespace {

std::string comment_of(const Step& step) {
  switch (step.kind) {
    case Step::Kind::sent: return "sent: " + step.text;
    case Step::Kind::received: return "received: " + step.text;
    case Step::Kind::expected: return "as expected: " + step.text;
    case Step::Kind::violation: return "VIOLATION: " + step.text;
    default: return step.text;
  }
}

/// Returns whether the step is a comment of the preceding frame.
bool follows(const Step& step) {
  return step.frame.empty() && step.kind != Step::Kind::verbs && step.kind != Step::Kind::sent;
}

}  // namespace

std::string capture_name(const CaseResult& result) {
  std::string name = result.of->id();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '/' || c == ' '; }, '-');
  return name + ".pcapng";
}

tl::expected<void, std::string> write_capture(const CaseResult& result, const fs::path& directory) {
  const fs::path captures = directory / "captures", path = captures / capture_name(result);
  std::error_code error;
  fs::create_directories(captures, error);
  if (error) return tl::unexpected(fmt::format("{}: {}", captures.string(), error.message()));
  const Rule& rule = *result.of->rule;
  captures::Writer::Options options;
  options.section.application = "rdmawire certify";
  options.section.comments = {
      fmt::format("{} {}: {} [{}]", rule.alias, result.of->id(), rule.sentence, clauses_of(rule)),
      fmt::format("verdict: {}, seed {}", to_string(result.judgment.verdict), result.seed)};
  auto writer = captures::Writer::create(path.string(), options);
  const auto failed = [](const captures::CaptureError& what) { return tl::unexpected(to_string(what)); };
  if (!writer) return failed(writer.error());
  const auto interface = writer->add_interface({});
  if (!interface) return failed(interface.error());
  // Verbs calls and expectations are comments of the preceding frame, or of the first one.
  std::vector<std::string> before;
  for (std::size_t i = 0; i < result.transcript.size();) {
    const Step& step = result.transcript[i++];
    if (step.frame.empty()) {
      before.push_back(comment_of(step));
      continue;
    }
    std::vector<std::string> comments = std::move(before);
    before.clear();
    comments.push_back(comment_of(step));
    for (; i < result.transcript.size() && follows(result.transcript[i]); ++i)
      comments.push_back(comment_of(result.transcript[i]));
    captures::Record record;
    record.bytes = step.frame;
    record.time = step.time;
    record.wire_length = static_cast<std::uint32_t>(step.frame.size());
    record.interface = *interface;
    const std::vector<std::string_view> views(comments.begin(), comments.end());
    if (const auto written = writer->write(record, views); !written) return failed(written.error());
  }
  if (const auto closed = writer->close(); !closed) return failed(closed.error());
  return {};
}

tl::expected<void, std::string> write(const Report& report, const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return tl::unexpected(fmt::format("{}: {}", directory.string(), error.message()));
  const auto text_of_json = [](const nlohmann::ordered_json& json) {
    return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  };
  for (const auto& [name, text] :
       {std::pair("report.json", text_of_json(to_json(report))), std::pair("junit.xml", to_junit(report)),
        std::pair("index.html", to_html(report, "captures")),
        std::pair("traceability.json", text_of_json(traceability(report))),
        std::pair("traceability.csv", traceability_csv(report))})
    if (auto written = captures::write_file((directory / name).string(), text); !written) return written;
  return {};
}

}  // namespace rdmawire::conformance
