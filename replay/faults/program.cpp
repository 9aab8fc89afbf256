#include "replay/faults/program.hpp"

#include <arpa/inet.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "dissectors/output/edit_distance.hpp"
#include "dissectors/output/filter_source.hpp"
#include "dissectors/protocol/syndrome.hpp"

namespace rdmawire::replay {
namespace {

struct Word {
  std::string_view text;
  std::size_t position = 0;
};

constexpr std::string_view actions[] = {"drop", "delay",    "hold",   "duplicate", "corrupt",
                                        "mark", "truncate", "inject", "change",    "seed"};
// Index: AETH NAK code. IBTA vol 1, 9.7.5.2.2 to 9.7.5.2.6
constexpr std::string_view nak_codes[] = {"sequence-error", "invalid-request", "remote-access", "remote-operation",
                                          "invalid-rd-request"};
constexpr std::string_view selectors[] = {
    "from",    "to",  "connection", "qp",     "psn",         "try", "message", "packet", "requests", "answers",
    "segment", "seq", "after",      "before", "probability", "nth", "first",   "every",  "where"};
constexpr std::string_view blank = " \t\r";
/// Words of other tools, and the words of this language.
using OtherWord = std::pair<std::string_view, std::string_view>;
constexpr OtherWord other_actions[] = {
    {"loss", "drop probability P"}, {"lose", "drop"},    {"dup", "duplicate"}, {"reorder", "hold N"},
    {"jitter", "delay TIME"},       {"ecn", "mark ce"},  {"ce", "mark ce"},    {"cnp", "inject cnp"},
    {"nak", "inject nak CODE"},     {"flip", "corrupt"}, {"cut", "truncate N"}};
constexpr OtherWord other_selectors[] = {
    {"flow", "connection N"}, {"responses", "answers"}, {"src", "from ADDRESS"}, {"dst", "to ADDRESS"}};

std::string listed(std::span<const std::string_view> words) {
  std::string list;
  for (const std::string_view word : words) list += fmt::format("{}{}", list.empty() ? "" : ", ", word);
  return list;
}

std::string nearest(std::string_view word, std::span<const std::string_view> words, std::span<const OtherWord> others) {
  for (const auto& [other, own] : others)
    if (word == other) return fmt::format("; did you mean {}?", own);
  const std::string near = output::did_you_mean(word, words);
  return near.empty() ? "; expected " + listed(words) : near;
}

std::string shown(std::string_view word) {
  std::string text;
  for (const char c : word.substr(0, 40)) text += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return text;
}

}  // namespace

class FaultCompiler {
 public:
  explicit FaultCompiler(std::string_view text) : text_(text) {}

  tl::expected<FaultProgram, FaultError> compile() {
    if (text_.size() > FaultProgram::max_length) {
      return tl::unexpected(FaultError{1, 0, 0, fmt::format("the program exceeds {} bytes", FaultProgram::max_length)});
    }
    std::size_t number = 0;
    for (std::size_t begin = 0; begin <= text_.size();) {
      std::size_t end = text_.find('\n', begin);
      if (end == std::string_view::npos) end = text_.size();
      line_ = text_.substr(begin, end - begin);
      at_ = 0;
      ++number;
      if (!line()) {
        error_.line = number;
        return tl::unexpected(std::move(error_));
      }
      if (!program_.rules_.empty() && program_.rules_.back().line == 0) program_.rules_.back().line = number;
      begin = end + 1;
    }
    return std::move(program_);
  }

 private:
  bool fail(const Word& at, std::string message) {
    error_ = {0, at.position, at.text.size(), std::move(message)};
    return false;
  }
  Word peek() {
    std::size_t begin = line_.find_first_not_of(blank, at_);
    if (begin == std::string_view::npos || line_[begin] == '#') return {{}, std::min(at_, line_.size())};
    const std::size_t end = std::min(line_.find_first_of(" \t\r#", begin), line_.size());
    return {line_.substr(begin, end - begin), begin};
  }
  Word next() {
    const Word word = peek();
    if (!word.text.empty()) at_ = word.position + word.text.size();
    return word;
  }
  bool accept(std::string_view text) {
    if (peek().text != text) return false;
    next();
    return true;
  }

  bool number(std::uint64_t& value, std::uint64_t least, std::uint64_t most, std::string_view what) {
    const Word word = next();
    std::string_view digits = word.text;
    int base = 10;
    if (digits.starts_with("0x")) {
      digits.remove_prefix(2);
      base = 16;
    }
    const auto [end, bad] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (digits.empty() || bad != std::errc() || end != digits.data() + digits.size() || value < least || value > most)
      return fail(word, fmt::format("{} must be a number from {} to {}{}", what, least, most,
                                    word.text.empty() ? ", but is missing" : ""));
    return true;
  }
  bool small_number(std::uint32_t& value, std::uint32_t least, std::uint32_t most, std::string_view what) {
    std::uint64_t wide = 0;
    if (!number(wide, least, most, what)) return false;
    value = static_cast<std::uint32_t>(wide);
    return true;
  }
  static bool is_time(std::string_view word) {
    return !word.empty() && word[0] >= '0' && word[0] <= '9' && word.back() == 's';
  }
  bool time(std::int64_t& value) {
    const Word word = next();
    double amount = 0;
    const auto [end, bad] =
        std::from_chars(word.text.data(), word.text.data() + word.text.size(), amount, std::chars_format::fixed);
    const std::string_view unit = word.text.substr(static_cast<std::size_t>(end - word.text.data()));
    const double scale = unit == "ns" ? 1 : unit == "us" ? 1e3 : unit == "ms" ? 1e6 : unit == "s" ? 1e9 : 0;
    if (bad != std::errc() || scale == 0 || !(amount >= 0) || amount * scale > 86'400e9)
      return fail(word, "a time must be a number with unit ns, us, ms or s, for example 5ms, up to one day");
    value = std::llround(amount * scale);
    return true;
  }
  // N, N..M or N... With `relative`, each number has a sign.
  bool range(std::optional<FaultRange>& out, bool relative, const Word& name) {
    if (out) return fail(name, fmt::format("{} is specified twice", name.text));
    const Word word = next();
    const auto wrong = [&] {
      return fail(word, relative
                            ? fmt::format("{} requires a relative number or range: +3, +3..+7, +3..", name.text)
                            : fmt::format("{} requires a number of at least 1, or a range: 3, 3..7, 3..", name.text));
    };
    const auto one = [&](std::string_view text, std::int64_t& value) {
      if (relative && text.starts_with('+')) text.remove_prefix(1);
      const bool hexadecimal = text.starts_with("0x");
      if (hexadecimal) text.remove_prefix(2);
      const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), value, hexadecimal ? 16 : 10);
      return bad == std::errc() && end == text.data() + text.size() && (relative || value >= 1) &&
             value < (std::int64_t{1} << 62) && value > -(std::int64_t{1} << 62);
    };
    FaultRange range;
    const std::size_t dots = word.text.find("..");
    if (!one(word.text.substr(0, dots), range.from)) return wrong();
    if (dots == std::string_view::npos)
      range.to = range.from;
    else if (dots + 2 < word.text.size() && !one(word.text.substr(dots + 2), range.to))
      return wrong();
    if (range.to < range.from) return fail(word, "the end of the range precedes its start");
    out = range;
    return true;
  }
  bool endpoint(std::optional<FaultEndpoint>& out, const Word& name) {
    if (out) return fail(name, fmt::format("{} is specified twice", name.text));
    const Word word = next();
    FaultEndpoint end;
    const std::string text(word.text);
    if (text.size() == 1 && text[0] >= 'a' && text[0] <= 'z') {
      end.side = static_cast<std::uint32_t>(text[0] - 'a');
    } else if (inet_pton(AF_INET, text.c_str(), end.address.data()) == 1) {
      end.kind = FaultEndpoint::Kind::ipv4;
    } else if (text.size() == 17 && text[2] == ':' && mac(text, end.address)) {
      end.kind = FaultEndpoint::Kind::mac;
    } else if (inet_pton(AF_INET6, text.c_str(), end.address.data()) == 1) {
      end.kind = FaultEndpoint::Kind::ipv6;
    } else {
      return fail(word, fmt::format("{} requires a side (a, b, …) or an IPv4, IPv6 or Ethernet address", name.text));
    }
    out = end;
    return true;
  }
  static bool mac(std::string_view text, std::array<std::uint8_t, 16>& out) {
    for (std::size_t i = 0; i < 6; ++i) {
      const std::string_view byte = text.substr(i * 3, 2);
      const auto [end, bad] = std::from_chars(byte.data(), byte.data() + 2, out[i], 16);
      if (bad != std::errc() || end != byte.data() + 2 || (i < 5 && text[i * 3 + 2] != ':')) return false;
    }
    return true;
  }

  bool line() {
    const Word first = next();
    if (first.text.empty()) return true;
    if (first.text == "seed") {
      if (program_.seed_) return fail(first, "seed is specified twice");
      std::uint64_t seed = 0;
      if (!number(seed, 0, UINT64_MAX, "the seed")) return false;
      program_.seed_ = seed;
      const Word more = next();
      return more.text.empty() || fail(more, "unexpected text after the seed");
    }
    if (program_.rules_.size() == FaultProgram::max_rules)
      return fail(first, fmt::format("more than {} rules", FaultProgram::max_rules));
    FaultRule rule;
    if (!action(first, rule.action)) return false;
    for (;;) {
      const Word word = next();
      if (word.text.empty()) break;
      const bool changes =
          rule.action.kind == FaultAction::Kind::corrupt || rule.action.kind == FaultAction::Kind::truncate;
      if (word.text == "fix") {
        if (!changes) return fail(word, "fix requires the action corrupt or truncate");
        if (!fix(rule.action)) return false;
        continue;
      }
      if (!selector(word, rule)) return false;
    }
    // The rule text ends with the last parsed word.
    rule.text = line_.substr(first.position, at_ - first.position);
    if ((rule.segment || rule.sequence) &&
        (rule.qp || rule.psn || rule.message || rule.packet || rule.answers || rule.requests))
      return fail(first,
                  "segment and seq select TCP segments, but qp, psn, message, packet, requests and answers select RDMA "
                  "packets; they exclude each other");
    program_.rules_.push_back(std::move(rule));
    return true;
  }

  bool action(const Word& word, FaultAction& action) {
    using Kind = FaultAction::Kind;
    if (word.text == "drop") {
      action.kind = Kind::drop;
      return true;
    }
    if (word.text == "delay") {
      action.kind = Kind::delay;
      return time(action.time);
    }
    if (word.text == "hold") {
      action.kind = Kind::hold;
      action.time = 1'000'000'000;
      if (!small_number(action.count, 1, 1000, "the number of frames")) return false;
      return !accept("within") || time(action.time);
    }
    if (word.text == "duplicate") {
      action.kind = Kind::duplicate;
      action.count = 1;
      const std::string_view more = peek().text;
      return more.empty() || more[0] < '0' || more[0] > '9' ||
             small_number(action.count, 1, 100, "the number of copies");
    }
    if (word.text == "truncate") {
      action.kind = Kind::truncate;
      return small_number(action.count, 14, 65'535, "the number of bytes") && fixes(action);
    }
    if (word.text == "mark") {
      action.kind = Kind::mark;
      const Word codepoint = next();
      constexpr std::string_view codepoints[] = {"not-ect", "ect1", "ect0", "ce"};  // RFC 3168, 5
      const auto* found = std::find(std::begin(codepoints), std::end(codepoints), codepoint.text);
      if (found == std::end(codepoints)) return fail(codepoint, "mark requires one of " + listed(codepoints));
      action.ecn = static_cast<std::uint8_t>(found - std::begin(codepoints));
      return true;
    }
    if (word.text == "corrupt") {
      action.kind = Kind::corrupt;
      return corruption(action);
    }
    if (word.text == "inject") {
      action.kind = Kind::inject;
      const Word what = next();
      if (what.text == "cnp") {
        action.cnp = true;
        return true;
      }
      if (what.text == "nak" || what.text == "rnr-nak" || what.text == "ack") return syndrome(what, action);
      return fail(what, "inject requires cnp, ack, nak CODE or rnr-nak TIMER");
    }
    if (word.text == "change") {
      action.kind = Kind::change;
      const Word what = next();
      if (what.text == "nak" || what.text == "rnr-nak" || what.text == "ack") return syndrome(what, action);
      return fail(what, "change requires ack, nak CODE or rnr-nak TIMER");
    }
    return fail(word,
                fmt::format("unknown action \"{}\"{}", shown(word.text), nearest(word.text, actions, other_actions)));
  }

  // The code after the kind of acknowledgement. IBTA vol 1, 9.3.5.1 (clause number not verified)
  bool syndrome(const Word& kind, FaultAction& action) {
    std::uint32_t code = 31;  // invalid credit count
    std::uint8_t bits = syndrome_kind::ack;
    if (kind.text == "rnr-nak") {
      bits = syndrome_kind::rnr_nak;
      if (!small_number(code, 0, 31, "the timer code")) return false;
    } else if (kind.text == "nak") {
      bits = syndrome_kind::nak;
      const Word name = peek();
      const auto* found = std::find(std::begin(nak_codes), std::end(nak_codes), name.text);
      if (found != std::end(nak_codes)) {
        next();
        code = static_cast<std::uint32_t>(found - std::begin(nak_codes));
      } else if (name.text.empty() || name.text[0] < '0' || name.text[0] > '9') {
        return fail(name, "nak requires a number from 0 to 31 or one of " + listed(nak_codes));
      } else if (!small_number(code, 0, 31, "the NAK code")) {
        return false;
      }
    }
    action.syndrome = static_cast<std::uint8_t>(bits << 5 | code);
    return true;
  }

  bool field_corruption(const Word& name, FaultAction& action) {
    action.region = FaultAction::Region::field;
    action.field = find_field(name.text);
    if (!action.field) {
      if (const auto others = find_wireshark(name.text); !others.empty()) action.field = others.front();
    }
    if (!action.field) {
      const std::vector<std::string> near = output::nearest_names(name.text);
      return fail(name, fmt::format("unknown field \"{}\"{}", shown(name.text),
                                    near.empty() ? "; docs/reference/headers.md lists all fields"
                                                 : fmt::format("; did you mean {}?", fmt::join(near, " or "))));
    }
    const unsigned width = std::min<unsigned>(action.field.field->width, 64);
    action.value = 1;
    if (accept("set")) {
      if (action.field.field->width > 64) return fail(name, "set does not support fields of more than 64 bits");
      action.set = true;
      return number(action.value, 0, low_mask(width), "the value") && fixes(action);
    }
    if (accept("mask")) return number(action.value, 1, low_mask(width), "the mask") && fixes(action);
    if (accept("random")) {
      const Word bits = next();
      if (bits.text != "bits") return fail(bits, "random requires: bits N");
      if (!small_number(action.bits, 1, action.field.field->width, "the number of bits")) return false;
    }
    return fixes(action);
  }

  bool corruption(FaultAction& action) {
    using Region = FaultAction::Region;
    const Word what = peek();
    if (what.text.find('.') != std::string_view::npos) return field_corruption(next(), action);
    bool named = true;
    if (accept("payload"))
      action.region = Region::payload;
    else if (accept("header"))
      action.region = Region::header;
    else if (accept("icrc"))
      action.region = Region::icrc;
    else
      named = accept("frame");
    if (accept("byte")) {
      named = true;
      if (!small_number(action.byte, 0, 65'535, "the byte")) return false;
      if (accept("mask")) {
        std::uint32_t mask = 0;
        if (!small_number(mask, 1, 255, "the mask")) return false;
        action.mask = static_cast<std::uint8_t>(mask);
      }
    } else if (accept("mask")) {
      std::uint32_t mask = 0;
      if (!small_number(mask, 1, 255, "the mask")) return false;
      action.mask = static_cast<std::uint8_t>(mask);
    } else if (accept("random")) {
      named = true;
      const Word bits = next();
      if (bits.text != "bits") return fail(bits, "random requires: bits N");
      if (!small_number(action.bits, 1, 1024, "the number of bits")) return false;
    }
    if (!named)
      return fail(what,
                  "corrupt requires a field, for example bth.psn, or payload, header, icrc or frame, then byte N, mask "
                  "0xNN or random "
                  "bits N");
    return fixes(action);
  }
  bool fixes(FaultAction& action) {
    while (accept("fix"))
      if (!fix(action)) return false;
    return true;
  }
  /// The word after `fix`.
  bool fix(FaultAction& action) {
    const Word what = next();
    const bool all = what.text == "all";
    if (!all && what.text != "icrc" && what.text != "ip" && what.text != "tcp" && what.text != "udp")
      return fail(what, "fix requires icrc, ip, tcp, udp or all");
    action.fix_icrc |= all || what.text == "icrc";
    action.fix_ip |= all || what.text == "ip";
    action.fix_transport |= all || what.text == "tcp" || what.text == "udp";
    return true;
  }

  bool selector(const Word& word, FaultRule& rule) {
    const std::string_view name = word.text;
    if (name == "from") return endpoint(rule.from, word);
    if (name == "to") return endpoint(rule.to, word);
    if (name == "connection") return range(rule.connection, false, word);
    if (name == "qp") {
      if (!range(rule.qp, false, word)) return false;
      constexpr std::int64_t most_qp = 0xffffff;
      return rule.qp->from <= most_qp || fail(word, "a QP number has at most 24 bits");
    }
    if (name == "psn") return range(rule.psn, true, word);
    if (name == "try") return range(rule.transmission, false, word);
    if (name == "message") return range(rule.message, false, word);
    if (name == "packet") return range(rule.packet, false, word);
    if (name == "segment") return range(rule.segment, false, word);
    if (name == "seq") return range(rule.sequence, true, word);
    if (name == "answers" || name == "requests") {
      (name == "answers" ? rule.answers : rule.requests) = true;
      return !(rule.answers && rule.requests) || fail(word, "requests and answers exclude each other");
    }
    if (name == "after" || name == "before") {
      std::optional<std::int64_t>& bound = name == "after" ? rule.after : rule.before;
      if (bound) return fail(word, fmt::format("{} is specified twice", name));
      bound = 0;
      return time(*bound);
    }
    if (name == "nth") return range(rule.nth, false, word);
    if (name == "first") {
      if (rule.nth) return fail(word, "first and nth exclude each other");
      std::uint64_t count = 0;
      if (!number(count, 1, UINT32_MAX, "first")) return false;
      rule.nth = FaultRange{1, static_cast<std::int64_t>(count)};
      return true;
    }
    if (name == "every") {
      if (rule.every != 1) return fail(word, "every is specified twice");
      return number(rule.every, 1, UINT32_MAX, "every");
    }
    if (name == "probability") {
      const Word value = next();
      std::string_view digits = value.text;
      const bool percent = digits.ends_with('%');
      if (percent) digits.remove_suffix(1);
      const auto [end, bad] =
          std::from_chars(digits.data(), digits.data() + digits.size(), rule.probability, std::chars_format::fixed);
      if (percent) rule.probability /= 100;
      if (digits.empty() || bad != std::errc() || end != digits.data() + digits.size() ||
          !(rule.probability >= 0 && rule.probability <= 1))
        return fail(value, "a probability must be from 0 to 1 or from 0% to 100%");
      return true;
    }
    if (name == "where") {
      // The filter extends to the end of the line and cannot contain a comment.
      std::size_t begin = line_.find_first_not_of(blank, at_);
      if (begin == std::string_view::npos) return fail({{}, line_.size()}, "where requires a filter");
      std::string_view expression = line_.substr(begin);
      while (!expression.empty() && blank.find(expression.back()) != std::string_view::npos)
        expression.remove_suffix(1);
      auto filter = output::Filter::compile(expression);
      if (!filter) {
        error_ = {0, begin + filter.error().position, filter.error().length, filter.error().message};
        return false;
      }
      rule.where = std::make_shared<const output::Filter>(std::move(*filter));
      at_ = begin + expression.size();
      return true;
    }
    return fail(word, fmt::format("unknown selector \"{}\"{}", shown(name), nearest(name, selectors, other_selectors)));
  }

  std::string_view text_, line_;
  std::size_t at_ = 0;
  FaultProgram program_;
  FaultError error_;
};

tl::expected<FaultProgram, FaultError> FaultProgram::compile(std::string_view text) {
  return FaultCompiler(text).compile();
}

std::string to_string(const FaultError& error, std::string_view program) {
  std::size_t begin = 0;
  for (std::size_t line = 1; line < error.line; ++line) {
    const std::size_t end = program.find('\n', begin);
    if (end == std::string_view::npos) break;
    begin = end + 1;
  }
  const std::string_view line = program.substr(begin, program.substr(begin).find('\n'));
  return fmt::format("line {}:\n{}", error.line,
                     output::to_string(output::FilterError{error.position, error.length, error.message}, line));
}

}  // namespace rdmawire::replay
