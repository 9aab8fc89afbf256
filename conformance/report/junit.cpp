#include <fmt/format.h>

#include <pugixml.hpp>
#include <sstream>

#include "conformance/report/report.hpp"

namespace rdmawire::conformance {
namespace {

std::string_view group_of(const Rule& rule) { return rule.id.substr(0, rule.id.find('.', rule.id.find('.') + 1)); }

std::string seconds(std::int64_t nanoseconds) { return fmt::format("{:.6f}", static_cast<double>(nanoseconds) / 1e9); }

bool is_waived(const CaseResult& result, const Report& report) {
  return disposition_of(result, report) == Disposition::waived;
}

void add_outcome(pugi::xml_node test, const CaseResult& result, const Report& report) {
  if (is_waived(result, report)) {
    test.append_child("skipped").append_attribute("message") =
        fmt::format("{}, {}", to_string(result.judgment.verdict), remark_of(result, report)).c_str();
    return;
  }
  const Judgment& judgment = result.judgment;
  const auto add = [&](const char* element, const std::string& message) {
    pugi::xml_node node = test.append_child(element);
    node.append_attribute("message") = message.c_str();
    node.text() = text_of(result, true).c_str();
  };
  for (const Violation& violation : result.observed.violations)
    add("failure", fmt::format("observed {}: expected {}; got {}", violation.of().alias, violation.statement.expected,
                               violation.statement.actual));
  switch (judgment.verdict) {
    case Verdict::pass:
    case Verdict::may: break;
    case Verdict::fail:
    case Verdict::fail_wrong_code:
      add("failure", fmt::format("{}{}expected {}; got {}", judgment.rule ? judgment.rule->id : "",
                                 judgment.rule ? ": " : "", judgment.expected, judgment.actual));
      break;
    case Verdict::error: add("error", judgment.actual); break;
    case Verdict::unsupported:
    case Verdict::inconclusive:
      test.append_child("skipped").append_attribute("message") =
          fmt::format("{}: {}", to_string(judgment.verdict), judgment.actual).c_str();
      break;
  }
}

}  // namespace

std::string to_junit(const Report& report) {
  pugi::xml_document document;
  pugi::xml_node suites = document.append_child("testsuites");
  suites.append_attribute("name") = fmt::format("rdmawire certify {}", report.device).c_str();
  suites.append_attribute("time") = seconds(report.nanoseconds).c_str();
  std::map<std::string_view, std::vector<const CaseResult*>> suites_by_name;
  for (const CaseResult& result : report.results) suites_by_name[group_of(*result.of->rule)].push_back(&result);
  for (const auto& [name, results] : suites_by_name) {
    pugi::xml_node suite = suites.append_child("testsuite");
    const auto count = [&results = results, &report](auto... verdicts) {
      return static_cast<unsigned>(std::count_if(results.begin(), results.end(), [&](const CaseResult* result) {
        return !is_waived(*result, report) && ((result->judgment.verdict == verdicts) || ...);
      }));
    };
    suite.append_attribute("name") = std::string(name).c_str();
    suite.append_attribute("tests") = static_cast<unsigned>(results.size());
    const auto waived = static_cast<unsigned>(std::count_if(
        results.begin(), results.end(), [&report](const CaseResult* result) { return is_waived(*result, report); }));
    suite.append_attribute("failures") =
        static_cast<unsigned>(std::count_if(results.begin(), results.end(), [&report](const CaseResult* result) {
          if (is_waived(*result, report)) return false;
          const Verdict verdict = result->judgment.verdict;
          return verdict == Verdict::fail || verdict == Verdict::fail_wrong_code ||
                 !result->observed.violations.empty();
        }));
    suite.append_attribute("errors") = count(Verdict::error);
    suite.append_attribute("skipped") = count(Verdict::unsupported, Verdict::inconclusive) + waived;
    for (const CaseResult* result : results) {
      pugi::xml_node test = suite.append_child("testcase");
      test.append_attribute("classname") = std::string(result->of->rule->id).c_str();
      test.append_attribute("name") = result->of->id().c_str();
      test.append_attribute("time") = seconds(result->nanoseconds).c_str();
      add_outcome(test, *result, report);
    }
  }
  std::ostringstream text;
  document.save(text, "  ");
  return text.str();
}

}  // namespace rdmawire::conformance
