/// Compares filters with the examples in the documentation, with a simple slow evaluator, and with tshark on real
/// captures.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <sstream>

#include "captures/io/reader.hpp"
#include "dissectors/output/filter.hpp"
#include "dissectors/output/filter_source.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/protocol/tunnel.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "source_directory.hpp"

namespace rdmawire::output {
namespace {

using tracking::Packet;

std::string documentation() {
  std::ifstream file(RDMAWIRE_SOURCE_DIR "/docs/reference/filters.md");
  return {std::istreambuf_iterator<char>(file), {}};
}
/// Returns the lines of each code block of the language `kind` in the documentation.
std::vector<std::vector<std::string>> blocks(std::string_view kind) {
  std::vector<std::vector<std::string>> found;
  std::istringstream text(documentation());
  bool inside = false;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("```")) {
      inside = !inside && line.substr(3) == kind;
      if (inside) found.emplace_back();
    } else if (inside) {
      found.back().push_back(line);
    }
  }
  return found;
}

TEST(FilterDocumentation, EveryExampleCompiles) {
  std::size_t examples = 0;
  for (const auto& block : blocks("filter"))
    for (const std::string& line : block) {
      const auto filter = Filter::compile(line);
      EXPECT_TRUE(filter) << to_string(filter.error(), line);
      ++examples;
    }
  EXPECT_GE(examples, 15U);
}

TEST(FilterDocumentation, EveryDocumentedErrorMatches) {
  const auto mistakes = blocks("error");
  EXPECT_GE(mistakes.size(), 4U);
  for (const auto& block : mistakes) {
    ASSERT_EQ(block.size(), 3U);
    const auto filter = Filter::compile(block[0]);
    ASSERT_FALSE(filter) << block[0];
    EXPECT_EQ(to_string(filter.error(), block[0]), block[0] + "\n" + block[1] + "\n" + block[2]);
  }
}

TEST(FilterDocumentation, ListsAllDerivedFields) {
  const std::string text = documentation();
  for (const Derived& derived : derived_fields()) {
    EXPECT_NE(text.find("`" + std::string(derived.name) + "`"), std::string::npos) << derived.name;
    // A header or field of the same name would hide the derived field.
    EXPECT_FALSE(find_field(derived.name)) << derived.name;
    EXPECT_EQ(find_header(derived.name), nullptr) << derived.name;
  }
}

TEST(FilterNames, EveryTableFieldCompiles) {
  for (const HeaderInfo* header : all_headers()) {
    EXPECT_TRUE(Filter::compile(header->name)) << header->name;
    for (const Field& field : header->fields) {
      const std::string name = std::string(header->name) + "." + std::string(field.name);
      EXPECT_TRUE(Filter::compile(name)) << name;
      for (const std::string_view alias : field.aliases()) EXPECT_TRUE(Filter::compile(alias)) << alias;
      if (!field.names) continue;
      for (const Name& entry : field.names->entries) {
        // A quoted name is always a value.
        const std::string comparison = name + " == \"" + std::string(entry.name) + "\"";
        EXPECT_TRUE(Filter::compile(comparison)) << comparison;
      }
    }
  }
}

// ---- Comparison with a simple evaluator

struct Sample {
  std::vector<std::uint8_t> bytes;
  Packet packet;
  explicit Sample(const Frame& frame) : bytes(frame.encode()) {
    packet.number = 3;
    tracking::Dissector().dissect(packet, bytes, static_cast<std::uint32_t>(bytes.size()));
  }
};
std::vector<std::unique_ptr<Sample>> samples() {
  std::vector<std::unique_ptr<Sample>> made;
  auto ip = [](std::uint32_t src) { return Value<Ipv4>().set<"src">(src).set<"dst">(0x0a000002); };
  const Frame ack = Frame(Value<Ethernet>() / ip(0x0a000003)) / Value<Udp>() /
                    Value<Bth>().set<"opcode">(0x11).set<"psn">(100) /
                    Value<Aeth>().set<"syndrome">(0x60).set<"msn">(3);
  Frame write = Frame(Value<Ethernet>() / ip(0x0a000004)) / Value<Udp>().set<"src_port">(7) /
                Value<Bth>().set<"opcode">(0x0a).set<"psn">(7).set<"dest_qp">(3) / Value<Reth>().set<"length">(100);
  write.payload.assign(100, 1);
  Frame mirrored = Frame(Value<Ethernet>() / ip(3)) / Value<Udp>().set<"dst_port">(4789) / Value<Vxlan>();
  for (const HeaderValue& layer : ack.layers) mirrored /= layer;
  const Frame tcp = Frame(Value<Ethernet>() / ip(100)) / Value<Tcp>().set<"data_offset">(5).set<"window">(100);
  for (const Frame* frame : {&ack, static_cast<const Frame*>(&write), static_cast<const Frame*>(&mirrored), &tcp})
    made.push_back(std::make_unique<Sample>(*frame));
  return made;
}

using Values = std::vector<std::uint64_t>;
/// Returns all values of a field, from all layers.
Values values_of(const Packet& packet, const std::string& name) {
  if (name == "frame.len") return {packet.stack.wire_length};
  if (name == "payload.length") return {packet.stack.payload.length};
  Values values;
  const FieldRef ref = find_field(name);
  for (const Layer& layer : packet.stack.layers())
    if (layer.header == ref.header && ref.field->present_in(packet.stack.bytes.data() + layer.offset))
      values.push_back(ref.field->value(packet.stack.bytes.data() + layer.offset));
  return values;
}

struct Expression {
  std::string text;
  std::function<bool(const Packet&)> plain;
};

class Generator {
 public:
  explicit Generator(std::uint32_t seed) : random_(seed) {}

  Expression any(int depth) {
    const auto kind = below(depth <= 0 ? 3 : 6);
    if (kind == 3) {
      Expression inner = any(depth - 1);
      return {(below(2) ? "not (" : "!(") + inner.text + ")", [inner](const Packet& p) { return !inner.plain(p); }};
    }
    if (kind > 3) {
      const bool both = kind == 4;
      Expression a = any(depth - 1), b = any(depth - 1);
      return {"(" + a.text +
                  (both       ? below(2) ? ") and (" : ") && ("
                   : below(2) ? ") or ("
                              : ")||(") +
                  b.text + ")",
              [=](const Packet& p) {
                const bool first = a.plain(p), second = b.plain(p);
                return both ? first && second : first || second;
              }};
    }
    return comparison();
  }

 private:
  std::uint32_t below(std::uint32_t n) { return std::uniform_int_distribution<std::uint32_t>(0, n - 1)(random_); }

  Expression comparison() {
    static const char* const names[] = {"bth.psn",     "bth.opcode",     "bth.dest_qp",        "aeth.msn",
                                        "reth.length", "udp.dst_port",   "udp.src_port",       "tcp.window",
                                        "frame.len",   "payload.length", "aeth.syndrome.kind", "ip.ttl"};
    static const std::uint64_t interesting[] = {0, 1, 2, 3, 7, 10, 17, 62, 64, 100, 255};
    const std::string name = names[below(std::size(names))];
    const FieldRef ref = find_field(name);
    // A value that exceeds the field would be an error.
    const std::uint64_t most = ref ? (ref.field->width == 64 ? ~0ULL : (1ULL << ref.field->width) - 1) : ~0ULL;
    auto value = [&] { return std::min(most, interesting[below(std::size(interesting))]); };
    auto any_value = [name](auto test) {
      return [name, test](const Packet& p) {
        for (std::uint64_t v : values_of(p, name))
          if (test(v)) return true;
        return false;
      };
    };
    const std::uint64_t a = value(), b = value(), low = std::min(a, b), high = std::max(a, b);
    switch (below(9)) {
      case 0: return {name, [name](const Packet& p) { return !values_of(p, name).empty(); }};
      case 1: return {name + "==" + std::to_string(a), any_value([a](std::uint64_t v) { return v == a; })};
      case 2: return {name + " < " + std::to_string(a), any_value([a](std::uint64_t v) { return v < a; })};
      case 3: return {name + " <= " + std::to_string(a), any_value([a](std::uint64_t v) { return v <= a; })};
      case 4: return {name + " > " + std::to_string(a), any_value([a](std::uint64_t v) { return v > a; })};
      case 5: return {name + " ge " + std::to_string(a), any_value([a](std::uint64_t v) { return v >= a; })};
      case 6:
        return {name + " in {" + std::to_string(low) + ".." + std::to_string(high) + "}",
                any_value([=](std::uint64_t v) { return v >= low && v <= high; })};
      case 7:
        return {name + " in {" + std::to_string(a) + "," + std::to_string(b) + "}",
                any_value([=](std::uint64_t v) { return v == a || v == b; })};
      default:
        return {name + " != " + std::to_string(a), [name, a](const Packet& p) {
                  const Values values = values_of(p, name);
                  for (std::uint64_t v : values)
                    if (v == a) return false;
                  return !values.empty();
                }};
    }
  }

  std::mt19937 random_;
};

TEST(FilterProperty, MatchesSimpleEvaluatorAndItsCanonicalForm) {
  constexpr std::uint32_t seed = 20260101;
  Generator generator(seed);
  const auto packets = samples();
  std::size_t matched = 0;
  for (int i = 0; i < 20000; ++i) {
    const Expression expression = generator.any(4);
    const auto filter = Filter::compile(expression.text);
    ASSERT_TRUE(filter) << to_string(filter.error(), expression.text);
    const auto printed = Filter::compile(filter->text());
    ASSERT_TRUE(printed) << filter->text();
    ASSERT_EQ(printed->text(), filter->text());
    for (const auto& sample : packets) {
      const bool expected = expression.plain(sample->packet);
      ASSERT_EQ(filter->matches(sample->packet), expected) << expression.text << ", seed " << seed;
      ASSERT_EQ(printed->matches(sample->packet), expected) << filter->text() << ", seed " << seed;
      matched += expected;
    }
  }
  EXPECT_GT(matched, 10000U);
  EXPECT_LT(matched, 70000U);
}

// ---- Comparison with tshark

std::string output_of(const std::string& command) {
  std::string out;
  FILE* const pipe = ::popen(command.c_str(), "r");
  if (!pipe) return out;
  char buffer[4096];
  for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
  ::pclose(pipe);
  return out;
}

TEST(FilterDifferential, WiresharkNamesMatchTshark) {
  if (output_of("tshark --version 2>/dev/null").empty()) GTEST_SKIP() << "requires tshark";
  struct Case {
    const char* file;
    const char* expression;
  };
  static const Case cases[] = {
      {"rc-pingpong-loss.pcap.gz", "infiniband.aeth.syndrome.opcode == 3 and ip.src == 10.0.0.2"},
      {"rc-pingpong-loss.pcap.gz", "infiniband.bth.opcode in {0..2, 17} and !(infiniband.bth.psn >= 0x800000)"},
      {"rc-pingpong-loss.pcap.gz", "ip.src != 10.0.0.2"},
      {"rc-pingpong-loss.pcap.gz", "not ip.src != 10.0.0.2"},
      {"rc-pingpong-loss.pcap.gz", "tcp.flags.syn == 1 or tcp.window_size_value > 500 or ipv6.src == fe80::/10"},
      {"rc-pingpong-loss.pcap.gz",
       "infiniband.bth.a == 1 and frame.len in {60..1200} and eth.dst == 52:54:00:00:00:02"},
      {"rping.pcap", "infiniband.reth.dmalen > 1000 && ip.dst == 10.0.0.0/30"},
      {"rping.pcap", "infiniband.deth.q_key == 0x80010000 or frame.number in {5..7, 77}"},
      {"rping.pcap", "not infiniband.aeth and udp.dstport == 4791 and ip.dsfield.dscp != 1"},
      {"rping.pcap", "infiniband.aeth.msn != 1 and infiniband.bth.destqp == 0x11 and ip.len < 100"},
  };
  for (const Case& test : cases) {
    const std::string file = std::string(RDMAWIRE_SOURCE_DIR "/captures/samples/") + test.file;
    const std::string theirs =
        output_of("tshark -r '" + file + "' -Y '" + test.expression + "' -T fields -e frame.number 2>/dev/null");
    const auto filter = Filter::compile(test.expression);
    ASSERT_TRUE(filter) << to_string(filter.error(), test.expression);
    auto reader = captures::Reader::open(file);
    ASSERT_TRUE(reader);
    std::string ours;
    tracking::Dissector dissector;
    Packet packet;
    captures::Record record;
    while (reader->next(record) == captures::Next::record) {
      packet.number = record.number;
      packet.time_ns = record.time;
      packet.link = record.link;
      dissector.dissect(packet, record.bytes, record.wire_length);
      if (filter->matches(packet)) ours += std::to_string(record.number) + "\n";
    }
    EXPECT_EQ(ours, theirs) << test.expression;
    EXPECT_NE(ours, "") << test.expression << ": shows nothing";
  }
}

}  // namespace
}  // namespace rdmawire::output
