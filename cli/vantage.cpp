#include "cli/vantage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "captures/analysis/vantage/run.hpp"

namespace rdmawire::cli {
namespace {

namespace vantage = captures::vantage;
using captures::analysis::Json;

bool fails(const Json& report, const std::string& word) {
  if (word.empty()) return false;
  const auto rank = [](std::string_view severity) {
    return severity == "error" ? 3 : severity == "warning" ? 2 : severity == "info" ? 1 : 0;
  };
  const auto& findings = report.at("vantage").at("findings");
  return std::any_of(findings.begin(), findings.end(), [&](const Json& f) {
    return f.at("kind") == word ||
           (rank(word) != 0 && rank(f.at("severity").get_ref<const std::string&>()) >= rank(word));
  });
}

}  // namespace

bool is_vantage_finding(const std::string& word) {
  for (std::size_t i = 0; i < vantage::fates; ++i)
    if (to_string(static_cast<vantage::HopOutcome>(i)) == word) return true;
  for (const std::string_view other : {"delayed", "lost_before_first", "lost_behind_last", "unrelated", "inexact",
                                       "unidentified", "not_synchronized", "unsteady_clock", "order_unknown"})
    if (word == other) return true;
  return false;
}

Exit compare_vantage_points(const VantageOptions& options) {
  vantage::RunOptions run;
  run.files = options.files;
  run.threads = options.threads;
  run.read.decode.extra_roce_v2_port = options.roce_port;
  run.read.verify_crcs = !options.no_crc;
  run.layout.synchronized = options.synchronized;
  if (options.window > 0) run.matcher.window = std::llround(options.window * 1e9);
  if (const auto fine = vantage::check_points(options.files); !fine) {
    report_error("--vantage: " + fine.error());
    return Exit::usage;
  }
  auto order = vantage::order_of_points(options.order, options.files);
  if (!order) {
    report_error("--order: " + order.error());
    return Exit::usage;
  }
  run.layout.order = std::move(*order);
  std::optional<output::Filter> filter;
  if (!options.filter.empty()) {
    auto compiled = output::Filter::compile(options.filter);
    if (!compiled) {
      report_error("--filter:\n" + output::to_string(compiled.error(), options.filter));
      return Exit::usage;
    }
    filter = std::move(*compiled);
    run.read.filter = &*filter;
    if (options.no_crc && filter->uses_crcs()) {
      report_error("--filter asks for CRCs, which --no-crc leaves unverified");
      return Exit::usage;
    }
  }
  Progress progress;
  run.read.progress = [&progress](std::uint64_t packets, std::uint64_t done, std::uint64_t all,
                                  const std::string& name) { progress.at(packets, done, all, name); };
  // A file that cannot be opened leaves a hole in the order: it is told, and the order of the others stands.
  const vantage::Comparison comparison = vantage::run(run);
  progress.clear();
  for (const std::string& trouble : comparison.troubles) report_error(trouble);
  if (comparison.surveys.size() < 2) return Exit::trouble;
  const Json report = vantage::report_of(comparison);
  Output output;
  if (options.json)
    output.text() += report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  else
    output.text() += vantage::text_of(report, {.width = options.width, .colors = options.colors, .rows = options.rows});
  if (!output.finish() || !comparison.troubles.empty()) return Exit::trouble;
  return fails(report, options.fail_on) ? Exit::found : Exit::fine;
}

}  // namespace rdmawire::cli
