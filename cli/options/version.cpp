#include "cli/options/version.hpp"

#include "commit.hpp"

namespace rdmawire::cli {
namespace {

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#elif defined(__GNUC__)
  return "gcc " __VERSION__;
#else
  return "unknown";
#endif
}

}  // namespace

std::string commit_date() { return RDMAWIRE_COMMIT_DATE; }

std::string version_text(const std::string& program, const std::string& version,
                         const std::vector<std::pair<std::string, std::string>>& more) {
  std::vector<std::pair<std::string, std::string>> lines{
      {"commit", commit_date().empty() ? RDMAWIRE_COMMIT : RDMAWIRE_COMMIT " (" + commit_date() + ")"},
      {"compiler", compiler() + ", C++" + std::to_string(__cplusplus / 100 % 100)}};
  lines.insert(lines.end(), more.begin(), more.end());
  std::string text = program + " " + version + "\n";
  for (const auto& [label, value] : lines)
    text += label + std::string(label.size() < 10 ? 10 - label.size() : 1, ' ') + value + "\n";
  return text;
}

}  // namespace rdmawire::cli
