#include "captures/analysis/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace rdmawire::captures::analysis {
namespace {

template <class Number>
void lower(Number& limit, std::uint64_t to) {
  limit = static_cast<Number>(std::min<std::uint64_t>(limit, std::max<std::uint64_t>(to, 16)));
}

}  // namespace

tl::expected<std::uint64_t, std::string> parse_memory(std::string_view text) {
  const auto wrong = [&] {
    return tl::unexpected(fmt::format("expected a size from {} to {}, such as 512M or 2G, got \"{}\"",
                                      memory_text(least_memory), memory_text(most_memory), text));
  };
  double value = 0;
  const char* const end = text.data() + text.size();
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text.front())) == 0) return wrong();
  const auto [rest, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (error != std::errc()) return wrong();
  std::string unit(rest, end);
  for (char& letter : unit) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  if (unit.size() > 1 && unit.ends_with("IB"))
    unit.resize(unit.size() - 2);
  else if (unit.size() > 1 && unit.ends_with('B'))
    unit.resize(unit.size() - 1);
  constexpr std::string_view units = "KMGT";
  if (unit == "B") unit.clear();
  if (unit.size() > 1 || (unit.size() == 1 && units.find(unit[0]) == std::string_view::npos)) return wrong();
  if (!unit.empty()) value *= static_cast<double>(std::uint64_t{1024} << 10 * units.find(unit[0]));
  if (!(value >= static_cast<double>(least_memory) && value <= static_cast<double>(most_memory))) return wrong();
  return static_cast<std::uint64_t>(value);
}

std::string memory_text(std::uint64_t bytes) {
  constexpr std::uint64_t kibi = 1024;
  constexpr std::string_view names[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (unit + 1 < std::size(names) && bytes != 0 && bytes % kibi == 0) {
    bytes /= kibi;
    ++unit;
  }
  return fmt::format("{} {}", bytes, names[unit]);
}

std::string out_of_memory_text(std::uint64_t limit) {
  return fmt::format("out of memory with a limit of {}", memory_text(limit));
}

std::string retry_text(std::uint64_t limit) {
  return out_of_memory_text(limit) + ": the captures are read again with a quarter of this limit";
}

// The values were measured with tests/memory/flood.py. All parts at their limits use about 80 % of `memory`. The rest
// is for the program, for tables that grow (the old and the new one exist at the same time), and for the allocator.
void limit_memory(std::uint64_t memory, tracking::TrackerOptions& tracker, tracking::DissectorOptions& dissector) {
  lower(tracker.memory, memory * 45 / 100);
  lower(tracker.conversations, memory >> 15);
  lower(tracker.iwarp_connections, memory >> 16);
  lower(tracker.iwarp_messages, memory >> 13);
  lower(dissector.tcp.connections, memory >> 15);
  lower(dissector.tcp.bytes, memory >> 4);
  lower(dissector.evidence, memory >> 14);
}

void limit_memory(std::uint64_t memory, AnalysisOptions& analysis) {
  lower(analysis.connections, memory / 50'000);
  lower(analysis.talkers, memory >> 14);
  lower(analysis.regions, memory >> 14);
  lower(analysis.distinct, memory >> 10);
  lower(analysis.affected, memory >> 14);
  lower(analysis.mrc_paths, memory >> 13);
}

}  // namespace rdmawire::captures::analysis
