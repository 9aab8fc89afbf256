#include "conformance/lab/console.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace rdmawire::lab {
namespace {

constexpr std::size_t longest_line = 1024, most_lines = 100, most_complaints = 100, most_last = 20;

using ReportKind = KernelReport::Kind;

struct Phrase {
  std::string_view text;
  ReportKind kind;
  bool at_start;  // otherwise anywhere in the line
};

// Messages of the kernel. The first match determines the kind.
constexpr std::array phrases = {
    Phrase{"Kernel panic - not syncing", ReportKind::panic, true},
    Phrase{"BUG: KASAN", ReportKind::sanitizer, true},
    Phrase{"BUG: KFENCE", ReportKind::sanitizer, true},
    Phrase{"UBSAN:", ReportKind::sanitizer, true},
    Phrase{"WARNING: possible circular locking", ReportKind::sanitizer, true},
    Phrase{"WARNING: possible recursive locking", ReportKind::sanitizer, true},
    Phrase{"WARNING: inconsistent lock state", ReportKind::sanitizer, true},
    Phrase{"watchdog: BUG: soft lockup", ReportKind::hang, true},
    Phrase{"BUG: soft lockup", ReportKind::hang, true},
    Phrase{"BUG: workqueue lockup", ReportKind::hang, true},
    Phrase{"watchdog: Watchdog detected hard LOCKUP", ReportKind::hang, true},
    Phrase{"INFO: task ", ReportKind::hang, true},
    Phrase{"rcu: INFO: rcu_", ReportKind::hang, true},
    Phrase{"INFO: rcu_", ReportKind::hang, true},
    Phrase{"BUG:", ReportKind::oops, true},
    Phrase{"kernel BUG at", ReportKind::oops, true},
    Phrase{"Oops:", ReportKind::oops, true},
    Phrase{"general protection fault", ReportKind::oops, true},
    Phrase{"invalid opcode:", ReportKind::oops, true},
    Phrase{"divide error:", ReportKind::oops, true},
    Phrase{"stack segment:", ReportKind::oops, true},
    Phrase{"Internal error:", ReportKind::oops, true},
    Phrase{"Unable to handle kernel", ReportKind::oops, true},
    Phrase{"WARNING:", ReportKind::warning, true},
    Phrase{"refcount_t:", ReportKind::warning, true},
    Phrase{"unregister_netdevice: waiting for", ReportKind::hang, true},
    Phrase{"Out of memory:", ReportKind::out_of_memory, true},
    Phrase{"Memory cgroup out of memory", ReportKind::out_of_memory, true},
    Phrase{"invoked oom-killer", ReportKind::out_of_memory, false},
};

// Removes timestamps and similar prefixes in brackets, such as "[    1.234567] ".
std::string_view without_time(std::string_view line) {
  while (!line.empty() && line.front() == '[') {
    const std::size_t end = line.find(']');
    if (end == std::string_view::npos) break;
    for (const char c : line.substr(1, end - 1))
      if (!(c == ' ' || c == '.' || c == 'T' || c == 'C' || (c >= '0' && c <= '9'))) return line;
    line.remove_prefix(end + 1);
    if (!line.empty() && line.front() == ' ') line.remove_prefix(1);
  }
  return line;
}

std::optional<ReportKind> kind_of(std::string_view text) {
  for (const Phrase& phrase : phrases)
    if (phrase.at_start ? text.substr(0, phrase.text.size()) == phrase.text : text.find(phrase.text) != text.npos)
      return phrase.kind;
  return std::nullopt;
}

bool ends_complaint(std::string_view text) {
  return text.substr(0, 13) == "---[ end trace" || text.substr(0, 8) == "---[ end";
}

}  // namespace

std::string_view to_string(KernelReport::Kind kind) {
  switch (kind) {
    case ReportKind::warning: return "warning";
    case ReportKind::hang: return "hang";
    case ReportKind::out_of_memory: return "out of memory";
    case ReportKind::sanitizer: return "sanitizer";
    case ReportKind::oops: return "oops";
    case ReportKind::panic: return "panic";
  }
  return "?";
}

void ConsoleWatch::take(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view piece = text.substr(0, end);
    const std::size_t room = longest_line - std::min(longest_line, partial_.size());
    partial_ += piece.substr(0, room);
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
    while (!partial_.empty() && partial_.back() == '\r') partial_.pop_back();
    line(std::exchange(partial_, {}));
  }
}

void ConsoleWatch::line(std::string text) {
  const std::string_view bare = without_time(text);
  const bool cut_here = bare.substr(0, 12) == "------------" && bare.find("cut here") != bare.npos;
  if (const auto kind = kind_of(bare)) {
    panicked_ = panicked_ || *kind == ReportKind::panic;
    // An oops prints "BUG: …", "Oops: …" and possibly a panic. Combine these lines into one report of the most severe
    // kind.
    const bool same = open_ && !complaints_.empty() && complaints_.back().lines.size() < most_lines &&
                      (*kind == ReportKind::oops || *kind == ReportKind::panic) &&
                      complaints_.back().kind >= ReportKind::oops;
    if (same) {
      complaints_.back().kind = std::max(complaints_.back().kind, *kind);
    } else {
      ++count_;
      open_ = complaints_.size() < most_complaints;
      if (open_) complaints_.push_back({*kind, std::string(bare), {}});
    }
  } else if (cut_here) {
    open_ = false;
  }
  if (open_ && complaints_.back().lines.size() < most_lines) complaints_.back().lines.push_back(text);
  if (open_ && ends_complaint(bare) && complaints_.back().kind != ReportKind::panic)
    open_ = complaints_.back().kind == ReportKind::oops;
  if (!text.empty()) {
    if (last_.size() == most_last) last_.erase(last_.begin());
    last_.push_back(std::move(text));
  }
}

}  // namespace rdmawire::lab
