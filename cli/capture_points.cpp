#include "cli/capture_points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "captures/analysis/vantage/run.hpp"
#include "cli/terminal.hpp"

namespace rdmawire::cli {
namespace capture_points {

using captures::analysis::Json;

bool fails(const Json& report, const std::string& word) {
  if (word.empty()) return false;
  const auto rank = [](std::string_view severity) {
    return severity == "error" ? 3 : severity == "warning" ? 2 : severity == "info" ? 1 : 0;
  };
  const auto& findings = report.at("capture_points").at("findings");
  return std::any_of(findings.begin(), findings.end(), [&](const Json& f) {
    return f.at("kind") == word ||
           (rank(word) != 0 && rank(f.at("severity").get_ref<const std::string&>()) >= rank(word));
  });
}

}  // namespace capture_points

std::vector<std::string> capture_point_findings() {
  std::vector<std::string> kinds;
  for (std::size_t i = 0; i < captures::vantage::hop_outcomes; ++i)
    kinds.emplace_back(to_string(static_cast<captures::vantage::HopOutcome>(i)));
  for (const char* other : {"delayed", "lost_before_first", "lost_after_last", "unrelated", "inexact", "unidentified",
                            "not_synchronized", "unsteady_clock", "order_unknown"})
    kinds.emplace_back(other);
  return kinds;
}

Exit compare_capture_points(const CapturePointOptions& options) {
  namespace vantage = captures::vantage;
  vantage::RunOptions run;
  run.files = options.files;
  run.threads = options.threads;
  run.read.decode = options.decode;
  run.read.decode.extra_roce_v2_port = options.roce_port;
  run.read.verify_crcs = !options.no_crc;
  run.layout.synchronized = options.synchronized;
  if (options.window > 0) run.matcher.window = std::llround(options.window * 1e9);
  if (const auto valid = vantage::check_points(options.files); !valid)
    throw UsageError("--capture-points: " + valid.error());
  auto order = vantage::order_of_points(options.order, options.files);
  if (!order) throw UsageError("--order: " + order.error());
  run.layout.order = std::move(*order);
  std::optional<output::Filter> filter;
  if (!options.filter.empty()) {
    auto compiled = output::Filter::compile(options.filter);
    if (!compiled) throw UsageError("--filter:\n" + output::to_string(compiled.error(), options.filter));
    filter = std::move(*compiled);
    run.read.filter = &*filter;
    if (options.no_crc && filter->uses_crcs())
      throw UsageError("--filter uses CRC fields, which requires CRC verification; remove --no-crc");
  }
  Progress progress;
  run.read.progress = [&progress](std::uint64_t packets, std::uint64_t done, std::uint64_t all,
                                  const std::string& name) { progress.at(packets, done, all, name); };
  const vantage::Comparison comparison = vantage::run(run);
  progress.clear();
  for (const std::string& message : comparison.errors) report_error(message);
  if (comparison.surveys.size() < 2) return Exit::error;
  const captures::analysis::Json report = vantage::report_of(comparison);
  Output output;
  if (options.json)
    output.text() += report.dump(2, ' ', false, captures::analysis::Json::error_handler_t::replace) + "\n";
  else
    output.text() += vantage::text_of(report, {.width = options.width, .colors = options.colors, .rows = options.rows});
  if (!output.finish() || !comparison.errors.empty()) return Exit::error;
  return capture_points::fails(report, options.fail_on) ? Exit::findings : Exit::success;
}

}  // namespace rdmawire::cli
