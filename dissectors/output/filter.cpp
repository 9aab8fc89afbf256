#include "dissectors/output/filter.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dissectors/output/filter_literal.hpp"
#include "dissectors/output/filter_operators.hpp"
#include "dissectors/output/filter_source.hpp"

namespace rdmawire::output {
namespace {

enum class Sort : std::uint8_t {
  end,
  word,
  text,  ///< quoted text
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  contains,
  matches,
  in,
  both,
  either,
  negation,
  open,
  close,
  open_set,
  close_set,
  comma,
  dots,
  wrong,
};

struct Token {
  Sort sort = Sort::end;
  std::size_t position = 0;
  std::size_t length = 0;
  std::string text;  ///< the word, the text without quotes and escapes, or an error message
};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

bool in_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_.:/-").find(c) != std::string_view::npos || static_cast<unsigned char>(c) >= 0x80;
}

struct Spelling {
  std::string_view text;
  Sort sort;
};
constexpr Spelling keywords[] = {
    {"and", Sort::both},          {"or", Sort::either},       {"not", Sort::negation}, {"in", Sort::in},
    {"contains", Sort::contains}, {"matches", Sort::matches}, {"eq", Sort::equal},     {"ne", Sort::not_equal},
    {"lt", Sort::less},           {"le", Sort::less_equal},   {"gt", Sort::greater},   {"ge", Sort::greater_equal},
};
// Longer operators must precede their prefixes.
constexpr Spelling signs[] = {
    {"==", Sort::equal},   {"!=", Sort::not_equal}, {"<=", Sort::less_equal}, {">=", Sort::greater_equal},
    {"&&", Sort::both},    {"||", Sort::either},    {"..", Sort::dots},       {"<", Sort::less},
    {">", Sort::greater},  {"!", Sort::negation},   {"(", Sort::open},        {")", Sort::close},
    {"{", Sort::open_set}, {"}", Sort::close_set},  {",", Sort::comma},
};

/// Returns the text of an operator, or an empty text for other tokens.
std::string_view sign_of(Sort sort) {
  if (sort == Sort::contains) return "contains";
  if (sort < Sort::equal || sort > Sort::greater_equal) return {};
  for (const Spelling& sign : signs)
    if (sign.sort == sort) return sign.text;
  return {};
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out += '"';
}

class Scanner {
 public:
  explicit Scanner(std::string_view expression) : rest_(expression), size_(expression.size()) {}

  Token next() {
    while (!rest_.empty() && std::string_view(" \t\r\n").find(rest_[0]) != std::string_view::npos)
      rest_.remove_prefix(1);
    Token token;
    token.position = size_ - rest_.size();
    if (rest_.empty()) return token;
    if (rest_[0] == '"' || rest_[0] == '\'') return quoted_text(token);
    for (const Spelling& sign : signs)
      if (rest_.starts_with(sign.text)) return take(token, sign.sort, sign.text.size());
    if (in_word(rest_[0])) {
      // Two dots end a word, because they are the separator in ranges.
      std::size_t length = 0;
      while (length < rest_.size() && in_word(rest_[length]) && rest_.substr(length, 2) != "..") ++length;
      token.text = rest_.substr(0, length);
      const std::string plain = lower(token.text);
      for (const Spelling& keyword : keywords)
        if (plain == keyword.text) return take(token, keyword.sort, length);
      return take(token, Sort::word, length);
    }
    token.text = rest_[0] == '='                      ? "the operator = is not supported; did you mean ==?"
                 : rest_[0] == '&' || rest_[0] == '|' ? "bit operators are not supported; compare the parts of a field"
                 : static_cast<unsigned char>(rest_[0]) < 0x20 ? "unexpected control character"
                                                               : fmt::format("unexpected character {}", rest_[0]);
    return take(token, Sort::wrong, 1);
  }

 private:
  Token take(Token& token, Sort sort, std::size_t length) {
    token.sort = sort;
    token.length = length;
    rest_.remove_prefix(length);
    return std::move(token);
  }
  Token quoted_text(Token& token) {
    const char quote = rest_[0];
    std::size_t i = 1;
    for (; i < rest_.size() && rest_[i] != quote; ++i) {
      if (rest_[i] != '\\') {
        token.text += rest_[i];
        continue;
      }
      const char escaped = i + 1 < rest_.size() ? rest_[i + 1] : '\0';
      if (escaped == '\\' || escaped == '"' || escaped == '\'') {
        token.text += escaped;
        ++i;
      } else if (const auto byte = escaped == 'x' ? parse_bytes(rest_.substr(i + 2, 2)) : std::nullopt) {
        token.text += *byte;
        i += 3;
      } else {
        token.position += i;
        token.text = "after \\ only \\, a quote, or x and two hexadecimal digits";
        return take(token, Sort::wrong, std::min<std::size_t>(2, rest_.size() - i));
      }
    }
    if (i == rest_.size()) {
      token.text = "the quote is not closed";
      return take(token, Sort::wrong, 1);
    }
    return take(token, Sort::text, i + 1);
  }

  std::string_view rest_;
  std::size_t size_;
};

std::string listed(const std::vector<std::string>& names, std::string_view last) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i) out += i + 1 == names.size() ? fmt::format(" {} ", last) : ", ";
    out += names[i];
  }
  return out;
}

}  // namespace

bool is_filter_operator(std::string_view name) {
  return std::any_of(std::begin(keywords), std::end(keywords), [&](const Spelling& one) { return one.text == name; });
}

/// Parses an expression by recursive descent, then arranges its tests in order of evaluation.
class FilterCompiler {
 public:
  explicit FilterCompiler(std::string_view expression) : scanner_(expression) {}

  tl::expected<Filter, FilterError> compile() {
    advance();
    Part whole = either();
    if (!error_ && token_.sort != Sort::end) fail(token_, unexpected("and, or, or the end"));
    if (!error_ && (filter_.sources_.size() > most || filter_.ranges_.size() > most || filter_.strings_.size() > most ||
                    filter_.wide_ranges_.size() > most || filter_.tests_.size() > most))
      fail({}, "the expression covers too many fields and values");
    if (error_) return tl::unexpected(std::move(*error_));
    std::uint16_t next = 0;
    lay_out(whole.node, next, Filter::accept, Filter::reject);
    filter_.tests_ = std::move(laid_out_);
    filter_.text_ = std::move(whole.text);
    return std::move(filter_);
  }

 private:
  static constexpr std::size_t most = 0x8000;

  /// A node of the parsed expression.
  struct Node {
    enum class Join : std::uint8_t { test, all, any, negation } join = Join::test;
    std::uint16_t test = 0;
    std::vector<Node> children;
  };
  /// A part of the expression and its text. The text needs parentheses inside a part of the same or a lower rank.
  struct Part {
    Node node;
    std::string text;
    int rank = 0;
  };

  void advance() {
    token_ = scanner_.next();
    if (token_.sort == Sort::wrong) fail(token_, token_.text);
  }
  void fail(const Token& at, std::string message) {
    if (!error_) error_ = FilterError{at.position, at.length, std::move(message)};
    token_.sort = Sort::end;
  }
  [[nodiscard]] std::string unexpected(std::string_view wanted) const {
    if (token_.sort == Sort::end) return fmt::format("the expression ends; expected {}", wanted);
    return fmt::format("expected {}", wanted);
  }

  Part joined(Node::Join join, Sort between, std::string_view word, Part (FilterCompiler::*operand)(), int rank) {
    Part first = (this->*operand)();
    if (error_ || token_.sort != between) return first;
    Part all;
    all.node.join = join;
    all.rank = rank;
    for (Part part = std::move(first);; part = (this->*operand)()) {
      if (!all.text.empty()) all.text += fmt::format(" {} ", word);
      all.text += part.rank >= rank ? "(" + part.text + ")" : part.text;
      all.node.children.push_back(std::move(part.node));
      if (error_ || token_.sort != between) return all;
      advance();
    }
  }
  Part either() { return joined(Node::Join::any, Sort::either, "or", &FilterCompiler::both, 2); }
  Part both() { return joined(Node::Join::all, Sort::both, "and", &FilterCompiler::single, 1); }

  Part single() {
    if (++depth_ > Filter::max_depth) {
      fail(token_, fmt::format("more than {} nested brackets and nots", Filter::max_depth));
      return {};
    }
    Part part;
    if (token_.sort == Sort::negation) {
      advance();
      Part inner = single();
      part.node.join = Node::Join::negation;
      part.text = inner.rank ? "not (" + inner.text + ")" : "not " + inner.text;
      part.node.children.push_back(std::move(inner.node));
    } else if (token_.sort == Sort::open) {
      const Token bracket = token_;
      advance();
      part = either();
      if (!error_ && token_.sort == Sort::end) fail(bracket, "the bracket is not closed");
      if (!error_ && token_.sort != Sort::close) fail(token_, unexpected("and, or, or )"));
      advance();
    } else {
      part = comparison();
    }
    --depth_;
    return part;
  }

  // Fields whose values have the same type.
  struct Group {
    FilterType type;
    const Names* names;
    const Field* field;  ///< one of the fields, which determines the width (nullptr: a derived field)
    std::vector<Filter::Source> sources;
  };

  Part comparison() {
    if (token_.sort == Sort::text) {
      fail(token_, "expected a field name, without quotes");
      return {};
    }
    if (token_.sort != Sort::word) {
      fail(token_, unexpected("a field's or header's name, not, or ("));
      return {};
    }
    const Token name = token_;
    const Resolved resolved = resolve(name.text);
    if (!resolved) {
      const std::vector<std::string> nearest = nearest_names(name.text);
      fail(name, nearest.empty() ? fmt::format("unknown field {}", name.text)
                                 : fmt::format("unknown field {}; did you mean {}?", name.text, listed(nearest, "or")));
      return {};
    }
    if (resolved.derived) filter_.uses_crcs_ |= resolved.derived->name.find("crc") != std::string_view::npos;
    advance();
    const Sort sort = token_.sort;
    if (sort == Sort::matches) {
      fail(token_, "regular expressions are not supported; use contains to search for a text");
      return {};
    }
    if (sort == Sort::word || sort == Sort::text || sort == Sort::open_set) {
      fail(token_, unexpected("a comparison (== != < <= > >= in contains), and, or, or the end"));
      return {};
    }
    if (sort != Sort::in && sign_of(sort).empty()) return bare(name, resolved);

    std::vector<Group> groups = groups_of(resolved);
    if (groups.empty()) {
      refuse_value(name, resolved);
      return {};
    }
    const Token sign = token_;
    advance();
    std::vector<Value> values;
    std::string text = name.text;
    if (sort == Sort::in) {
      if (!read_set(values, text)) return {};
    } else {
      text += fmt::format(" {} ", sign_of(sort));
      values.emplace_back();
      if (!read_value(values.back().from, text)) return {};
    }
    return {compared(name, sign, groups, values), std::move(text), 0};
  }

  // Parses a name without a comparison.
  Part bare(const Token& name, const Resolved& resolved) {
    Part part;
    part.text = name.text;
    std::vector<Node> tests;
    auto add = [&](Filter::Kind kind, std::vector<Filter::Source> sources) {
      if (!sources.empty()) tests.push_back(test(kind, false, sources, {}));
    };
    if (resolved.derived) {
      add(resolved.derived->type == FilterType::flag ? Filter::Kind::set : Filter::Kind::present,
          {{nullptr, nullptr, resolved.derived}});
    } else {
      std::vector<Filter::Source> headers, flags, fields;
      for (const FieldRef& ref : resolved.refs) {
        // The name of a flag is true if the flag is set. A Wireshark name is true if the field is present, as in
        // Wireshark.
        const bool asks_value = ref.field && type_of(*ref.field) == FilterType::flag && !resolved.by_wireshark;
        auto& list = !ref.field ? headers : asks_value ? flags : fields;
        list.push_back({ref.header, ref.field, nullptr});
      }
      add(Filter::Kind::header, headers);
      add(Filter::Kind::set, flags);
      add(Filter::Kind::present, fields);
    }
    part.node = any_of(std::move(tests));
    return part;
  }

  static std::vector<Group> groups_of(const Resolved& resolved) {
    std::vector<Group> groups;
    if (const Derived* d = resolved.derived) {
      if (d->type != FilterType::header) groups.push_back({d->type, d->names, nullptr, {{nullptr, nullptr, d}}});
      return groups;
    }
    for (const FieldRef& ref : resolved.refs) {
      if (!ref.field) continue;
      const FilterType type = type_of(*ref.field);
      auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
        return g.type == type && g.names == ref.field->names && g.field->width == ref.field->width &&
               (g.field->decoded != nullptr) == (ref.field->decoded != nullptr);
      });
      if (same == groups.end()) same = groups.insert(groups.end(), {type, ref.field->names, ref.field, {}});
      same->sources.push_back({ref.header, ref.field, nullptr});
    }
    return groups;
  }

  void refuse_value(const Token& name, const Resolved& resolved) {
    if (resolved.derived || resolved.refs.size() > 1)
      return fail(name, fmt::format("{} has no value to compare; use its name without an operator", name.text));
    const HeaderInfo& header = *resolved.refs.front().header;
    std::vector<std::string> fields;
    for (const Field& field : header.fields)
      if (!field.is_reserved() && fields.size() < 3) fields.push_back(fmt::format("{}.{}", header.name, field.name));
    fail(name, fields.empty() ? fmt::format("{} is a header and has no value", name.text)
                              : fmt::format("{} is a header and has no value; compare one of its fields, such as {}",
                                            name.text, listed(fields, "or")));
  }

  /// A value, or the limits of a range.
  struct Value {
    Token from;
    std::optional<Token> to;
  };
  bool read_value(Token& value, std::string& text) {
    if (token_.sort != Sort::word && token_.sort != Sort::text) {
      fail(token_, token_.sort == Sort::open_set ? "a set requires the operator in" : unexpected("a value"));
      return false;
    }
    value = token_;
    text += value.sort == Sort::text ? in_quotes(value.text) : value.text;
    advance();
    if (value.sort == Sort::word && token_.sort == Sort::word) {
      Token words = value;
      for (; token_.sort == Sort::word; advance()) {
        words.text += " " + token_.text;
        words.length = token_.position + token_.length - words.position;
      }
      fail(words, fmt::format("a value of several words needs quotes: {}", in_quotes(words.text)));
    }
    return !error_;
  }
  bool read_set(std::vector<Value>& values, std::string& text) {
    if (token_.sort != Sort::open_set) {
      fail(token_, unexpected("a set such as {1, 2, 5..9}"));
      return false;
    }
    text += " in {";
    do {
      advance();
      values.emplace_back();
      if (values.size() > 1) text += ", ";
      if (error_ || !read_value(values.back().from, text)) return false;
      if (token_.sort != Sort::dots) continue;
      advance();
      text += "..";
      if (error_ || !read_value(values.back().to.emplace(), text)) return false;
    } while (token_.sort == Sort::comma);
    if (token_.sort != Sort::close_set) {
      fail(token_, unexpected("a comma, .. or }"));
      return false;
    }
    text += '}';
    advance();
    return !error_;
  }

  // An interval of numbers of up to 64 bits, or of 128-bit addresses.
  template <class Number>
  struct Interval {
    Number low;
    Number high;
  };
  template <class Number>
  using Intervals = std::vector<Interval<Number>>;

  // Builds one test per group. Reports an error if a value is not valid for any group.
  Node compared(const Token& name, const Token& sign, const std::vector<Group>& groups,
                const std::vector<Value>& values) {
    std::vector<Node> equal, present;
    std::optional<FilterError> refused;
    for (const Group& group : groups) {
      const bool none = sign.sort == Sort::not_equal && groups.size() == 1;
      auto made = test_of(name, sign, group, values, none);
      if (error_) return {};
      if (made)
        equal.push_back(std::move(*made));
      else if (!refused)
        refused = std::move(made.error());
      if (sign.sort == Sort::not_equal && groups.size() > 1)
        present.push_back(test(Filter::Kind::present, false, group.sources, {}));
    }
    if (equal.empty()) {
      if (!error_) error_ = std::move(refused);
      return {};
    }
    if (present.empty()) return any_of(std::move(equal));
    Node different{Node::Join::negation, 0, {}};
    different.children.push_back(any_of(std::move(equal)));
    Node node{Node::Join::all, 0, {}};
    node.children.push_back(any_of(std::move(present)));
    node.children.push_back(std::move(different));
    return node;
  }

  static tl::unexpected<FilterError> refusal(const Token& at, std::string message) {
    return tl::unexpected(FilterError{at.position, at.length, std::move(message)});
  }

  tl::expected<Node, FilterError> test_of(const Token& name, const Token& sign, const Group& group,
                                          const std::vector<Value>& values, bool none) {
    const bool is_bytes = group.type == FilterType::bytes || group.type == FilterType::text;
    const bool orders = sign.sort >= Sort::less && sign.sort <= Sort::greater_equal;
    if (sign.sort == Sort::contains && !is_bytes)
      return refusal(sign, fmt::format("contains requires text or bytes; {} is compared with {}", name.text,
                                       describe(group.type)));
    if (orders && (is_bytes || group.type == FilterType::flag))
      return refusal(sign, fmt::format("{} has no order; use == or !=", name.text));
    if (is_bytes) {
      std::vector<std::string> strings;
      for (const Value& value : values) {
        if (value.to) return refusal(*value.to, fmt::format("{} has no order; ranges are not allowed", name.text));
        const bool as_bytes = group.type == FilterType::bytes && value.from.sort == Sort::word;
        const auto bytes = as_bytes ? parse_bytes(value.from.text) : std::optional(value.from.text);
        if (!bytes) return refusal(value.from, wrong_type(name, group, value.from));
        strings.push_back(*bytes);
      }
      const auto begin = static_cast<std::uint16_t>(filter_.strings_.size());
      std::move(strings.begin(), strings.end(), std::back_inserter(filter_.strings_));
      return test(sign.sort == Sort::contains ? Filter::Kind::contains : Filter::Kind::equals, none, group.sources,
                  {begin, static_cast<std::uint16_t>(values.size())});
    }
    if (group.type == FilterType::ipv6)
      return range_test<Filter::Wide>(Filter::Kind::wide, filter_.wide_ranges_, name, sign, group, values, none);
    return range_test<std::uint64_t>(Filter::Kind::number, filter_.ranges_, name, sign, group, values, none);
  }

  template <class Number>
  tl::expected<Node, FilterError> range_test(Filter::Kind kind, std::vector<Filter::Range<Number>>& table,
                                             const Token& name, const Token& sign, const Group& group,
                                             const std::vector<Value>& values, bool none) {
    constexpr Number largest = ~Number{0};
    const std::size_t begin = table.size();
    auto add = [&](Number low, Number high) { table.push_back({low, high - low}); };
    for (const Value& value : values) {
      auto from = intervals<Number>(name, group, value.from);
      if (!from) return tl::unexpected(std::move(from.error()));
      if (value.to) {
        auto to = intervals<Number>(name, group, *value.to);
        if (!to) return tl::unexpected(std::move(to.error()));
        if (is_prefix(value.from, group) || is_prefix(*value.to, group))
          return refusal(value.from, "a prefix is already a range");
        if (from->front().low > to->front().low)
          return refusal(value.from,
                         fmt::format("the range is empty: {} comes after {}", value.from.text, value.to->text));
        add(from->front().low, to->front().low);
        continue;
      }
      const Interval<Number> first = from->front();
      if (sign.sort >= Sort::less && sign.sort <= Sort::greater_equal && is_prefix(value.from, group))
        return refusal(value.from, "a prefix requires ==, != or in");
      switch (sign.sort) {
        case Sort::less:
          if (first.low != 0) add(0, first.low - 1);
          break;
        case Sort::less_equal: add(0, first.high); break;
        case Sort::greater:
          if (first.high != largest) add(first.high + 1, largest);
          break;
        case Sort::greater_equal: add(first.low, largest); break;
        default:
          for (const Interval<Number>& interval : *from) add(interval.low, interval.high);
      }
    }
    return test(kind, none, group.sources,
                {static_cast<std::uint16_t>(begin), static_cast<std::uint16_t>(table.size() - begin)});
  }

  static bool is_address(FilterType type) {
    return type == FilterType::mac || type == FilterType::ipv4 || type == FilterType::ipv6 || type == FilterType::guid;
  }
  static bool is_prefix(const Token& value, const Group& group) {
    return is_address(group.type) && value.text.find('/') != std::string::npos;
  }

  // Returns the numbers that a value stands for: one number, all addresses of a prefix, or all entries with that name.
  template <class Number>
  tl::expected<Intervals<Number>, FilterError> intervals(const Token& name, const Group& group, const Token& value) {
    if (is_address(group.type)) {
      const std::size_t slash = value.text.find('/');
      const std::string_view address = std::string_view(value.text).substr(0, slash);
      unsigned bits = sizeof(Number) * 8;
      std::optional<Number> number;
      if constexpr (sizeof(Number) == 16) {
        if (const auto bytes = parse_ipv6(address))
          number = static_cast<Number>(load_be<8>(bytes->data())) << 64 | load_be<8>(bytes->data() + 8);
      } else {
        bits = group.field ? group.field->width : bits;
        number = parse_address(group.type, address);
      }
      if (!number) return refusal(value, wrong_type(name, group, value));
      Number host = 0;
      if (slash != std::string::npos) {
        const auto length = parse_number(value.text.substr(slash + 1));
        const bool mapped = group.type == FilterType::ipv6 && address.find(':') == std::string_view::npos;
        const unsigned most_bits = mapped ? 32 : bits;
        if (!length || *length > most_bits)
          return refusal(value, fmt::format("the prefix length must be a number from 0 to {}", most_bits));
        const unsigned host_bits = most_bits - static_cast<unsigned>(*length);
        host = host_bits == 0 ? 0 : ~Number{0} >> (sizeof(Number) * 8 - host_bits);
      }
      return Intervals<Number>{{*number & ~host, *number | host}};
    }
    if constexpr (sizeof(Number) == 8) {
      Intervals<Number> named;
      if (group.names)
        for (const Name& entry : group.names->entries)
          if (plain_name(entry.name) == plain_name(value.text)) named.push_back({entry.value, entry.value});
      // Some names look like numbers, such as "2048" of an MTU code. They are names if they are quoted.
      if (!named.empty() && value.sort == Sort::text) return named;
      if (const auto number = parse_scalar(group.type, value.text)) {
        // A value in the unit of a converted field can have more bits than the field.
        if (!group.field || group.field->decoded || group.field->width == 64 || *number >> group.field->width == 0)
          return Intervals<Number>{{*number, *number}};
        if (named.empty())
          return refusal(
              value, fmt::format("{} does not fit in the {} bits of {}", value.text, group.field->width, name.text));
      }
      if (!named.empty()) return named;
    }
    return refusal(value, wrong_type(name, group, value));
  }

  static std::optional<std::uint64_t> parse_address(FilterType type, std::string_view text) {
    if (type == FilterType::mac) return parse_mac(text);
    if (type == FilterType::guid) return parse_guid(text);
    if (const auto address = parse_ipv4(text)) return *address;
    return std::nullopt;
  }
  static std::optional<std::uint64_t> parse_scalar(FilterType type, std::string_view text) {
    if (type == FilterType::duration) return parse_duration(text);
    if (type == FilterType::time) {
      if (const auto time = parse_time(text)) return static_cast<std::uint64_t>(*time) ^ 1ULL << 63;
      return std::nullopt;
    }
    if (type == FilterType::flag) {
      const std::string plain = lower(text);
      if (plain == "true") return 1;
      if (plain == "false") return 0;
    }
    return parse_number(text);
  }

  static std::string wrong_type(const Token& name, const Group& group, const Token& value) {
    if (group.type == FilterType::number && group.names) {
      std::vector<std::string> names = nearest_entries(value.text, *group.names);
      if (!names.empty()) {
        for (std::string& n : names) n = in_quotes(n);
        return fmt::format("{} has no value {}; did you mean {}?", name.text, value.text, listed(names, "or"));
      }
      constexpr std::size_t shown = 8;
      for (const Name& entry : group.names->entries)
        if (names.size() < shown) names.push_back(in_quotes(entry.name));
      const std::size_t count = group.names->entries.size();
      const std::string more = count > shown ? fmt::format(" and {} more", count - shown) : "";
      return fmt::format("{} has no value {}; it has {}{}, or a number", name.text, value.text,
                         listed(names, count > shown ? "," : "and"), more);
    }
    return fmt::format("{} is compared with {}, not with {}", name.text, describe(group.type), value.text);
  }

  Node test(Filter::Kind kind, bool none, const std::vector<Filter::Source>& sources, Filter::Run values) {
    Filter::Test made;
    made.kind = kind;
    made.none = none;
    made.sources = {static_cast<std::uint16_t>(filter_.sources_.size()), static_cast<std::uint16_t>(sources.size())};
    made.values = values;
    filter_.sources_.insert(filter_.sources_.end(), sources.begin(), sources.end());
    filter_.tests_.push_back(made);
    if (filter_.sources_.size() > most || filter_.tests_.size() > most)
      fail(token_, "the expression covers too many fields");
    return {Node::Join::test, static_cast<std::uint16_t>(filter_.tests_.size() - 1), {}};
  }
  static Node any_of(std::vector<Node> nodes) {
    if (nodes.size() == 1) return std::move(nodes.front());
    return {Node::Join::any, 0, std::move(nodes)};
  }

  // Numbers the tests in the order of the expression, and sets for each test where evaluation continues if it is true
  // or false.
  void lay_out(const Node& node, std::uint16_t& next, std::uint16_t if_true, std::uint16_t if_false) {
    switch (node.join) {
      case Node::Join::test:
        laid_out_.push_back(filter_.tests_[node.test]);
        laid_out_.back().if_true = if_true;
        laid_out_.back().if_false = if_false;
        ++next;
        return;
      case Node::Join::negation: return lay_out(node.children.front(), next, if_false, if_true);
      case Node::Join::all:
      case Node::Join::any:
        for (std::size_t i = 0; i < node.children.size(); ++i) {
          const bool last = i + 1 == node.children.size();
          const auto follows = static_cast<std::uint16_t>(next + tests_in(node.children[i]));
          const bool all = node.join == Node::Join::all;
          lay_out(node.children[i], next, last || !all ? if_true : follows, last || all ? if_false : follows);
        }
        return;
    }
  }
  static std::size_t tests_in(const Node& node) {
    if (node.join == Node::Join::test) return 1;
    std::size_t count = 0;
    for (const Node& child : node.children) count += tests_in(child);
    return count;
  }

  Scanner scanner_;
  Token token_;
  Filter filter_;
  std::vector<Filter::Test> laid_out_;
  std::optional<FilterError> error_;
  unsigned depth_ = 0;
};

tl::expected<Filter, FilterError> Filter::compile(std::string_view expression) {
  if (expression.size() > max_length)
    return tl::unexpected(FilterError{
        max_length, 0, fmt::format("the expression has {} bytes; the maximum is {}", expression.size(), max_length)});
  return FilterCompiler(expression).compile();
}

std::string to_string(const FilterError& error, std::string_view expression) {
  // Print the line that contains the error. If it is long, print the part around the error.
  std::size_t begin = std::min(error.position, expression.size());
  const std::size_t at = begin;
  while (begin > 0 && expression[begin - 1] != '\n' && at - begin < 60) --begin;
  auto continues = [&](std::size_t i) { return i < expression.size() && (expression[i] & 0xc0) == 0x80; };
  while (continues(begin)) ++begin;
  std::string line, carets;
  if (begin > 0 && expression[begin - 1] != '\n') {
    line = "…";
    carets = " ";
  }
  std::size_t end = begin;
  for (std::size_t& i = end; i < expression.size() && expression[i] != '\n' && i - begin < 100; ++i) {
    const char c = expression[i];
    line += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    if (continues(i)) continue;
    if (i < at) carets += ' ';
    if (i >= at && i < at + error.length) carets += '^';
  }
  if (end < expression.size() && expression[end] != '\n') line += "…";
  if (carets.find('^') == std::string::npos) carets += '^';
  return fmt::format("{}\n{}\n{}", line, carets, error.message);
}

}  // namespace rdmawire::output
