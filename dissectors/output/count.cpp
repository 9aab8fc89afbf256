#include "dissectors/output/count.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "dissectors/output/printable.hpp"
#include "dissectors/output/text_style.hpp"
#include "dissectors/output/value.hpp"
#include "dissectors/protocol/infiniband.hpp"

namespace rdmawire::output {
namespace {

using Node = Count::Node;

Node& child(Node& parent, std::string_view name) {
  for (Node& node : parent.children)
    if (node.name == name) return node;
  parent.children.push_back({std::string(name), 0, 0, {}});
  return parent.children.back();
}

void sort(Node& node) {
  std::stable_sort(node.children.begin(), node.children.end(),
                   [](const Node& a, const Node& b) { return a.packets > b.packets; });
  for (Node& below : node.children) sort(below);
}

nlohmann::ordered_json to_json(const Node& node) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Node& below : node.children) {
    nlohmann::ordered_json entry{{"name", below.name}, {"packets", below.packets}, {"bytes", below.bytes}};
    if (!below.children.empty()) entry["children"] = to_json(below);
    list.push_back(std::move(entry));
  }
  return list;
}

void write(Page& page, const Node& node, std::uint64_t whole, int depth) {
  for (const Node& below : node.children) {
    page.put(fmt::format("{:>12} {:>14}  ", below.packets, below.bytes));
    page.put(TextStyle::dim,
             fmt::format("{:5.1f} %  ", 100.0 * static_cast<double>(below.packets) / static_cast<double>(whole)));
    page.put(std::string(static_cast<std::size_t>(depth) * 2, ' '));
    page.put(below.children.empty() ? TextStyle::strong : TextStyle::plain, below.name).line();
    write(page, below, whole, depth + 1);
  }
}

constexpr ParseError::Kind finding_kinds[] = {ParseError::Kind::truncated, ParseError::Kind::malformed,
                                              ParseError::Kind::unknown, ParseError::Kind::limit};
constexpr CrcCheck::Status judged[] = {CrcCheck::Status::good, CrcCheck::Status::bad, CrcCheck::Status::unverifiable};

template <class Enum>
constexpr std::size_t index(Enum value) {
  return static_cast<std::size_t>(value);
}

}  // namespace

void Count::add(const tracking::Packet& packet) {
  const HeaderStack& stack = packet.stack;
  ++packets_;
  bytes_ += stack.wire_length;
  if (!first_) first_ = last_ = packet.time_ns;
  last_ = std::max(last_, packet.time_ns);
  cut_ += stack.cut;
  stacks_.add(stack, stack.wire_length);
  ++icrc_[index(packet.icrc.status)];
  ++vcrc_[index(packet.vcrc.status)];
  for (const ParseError& finding : stack.findings()) ++findings_[index(finding.kind)];
  for (const tracking::Pdu& unit : packet.pdus) {
    ++unit_count_;
    units_.add(unit.stack, unit.stack.bytes.size());
    ++mpa_crc_[index(unit.crc.status)];
    for (const ParseError& finding : unit.stack.findings()) ++findings_[index(finding.kind)];
  }
}

void Count::add_lost(std::string_view interface, std::uint64_t packets) {
  lost_.push_back({std::string(interface), packets});
}

void Count::Stacks::insert(Row& row, std::uint64_t hash, const HeaderStack& stack, std::uint64_t bytes) {
  if (used_ == most) {
    ++rest_.packets;
    rest_.bytes += bytes;
    return;
  }
  row.order = used_++;
  row.hash = hash;
  row.packets = 1;
  row.bytes = bytes;
  for (const Layer& layer : stack.layers()) row.levels.push_back({layer.header, kind_of(stack, layer)});
}

Node Count::Stacks::tree() const {
  // Sorts rows by their first packet. Their positions in the table depend on memory addresses, which differ between
  // runs.
  std::vector<const Row*> rows;
  for (const Row& row : rows_)
    if (row.hash != 0) rows.push_back(&row);
  std::sort(rows.begin(), rows.end(), [](const Row* a, const Row* b) { return a->order < b->order; });
  Node root;
  for (const Row* entry : rows) {
    const Row& row = *entry;
    Node* node = &root;
    auto descend = [&](std::string_view name) {
      node = &child(*node, name);
      node->packets += row.packets;
      node->bytes += row.bytes;
    };
    root.packets += row.packets;
    root.bytes += row.bytes;
    std::span<const HeaderInfo* const> implied;  // extension headers that the opcode's name implies
    for (const Level& level : row.levels) {
      if (std::find(implied.begin(), implied.end(), level.header) != implied.end()) continue;
      descend(level.header->name);
      if (!level.header->kind) continue;
      const Names* names = level.header->kind->names;
      const Name* name = names ? names->find(level.kind) : nullptr;
      descend(name ? std::string(name->name) : fmt::format("{} {:#04x}", level.header->kind->name, level.kind));
      if (level.header == &info<Bth>) implied = opcode(static_cast<std::uint8_t>(level.kind)).extension_headers();
    }
    if (row.levels.empty()) descend("not decoded");
  }
  if (rest_.packets) {
    Node& rest = child(root, "other combinations of headers");
    rest.packets = rest_.packets;
    rest.bytes = rest_.bytes;
    root.packets += rest_.packets;
    root.bytes += rest_.bytes;
  }
  sort(root);
  return root;
}

Node Count::packets_by_protocol() const { return stacks_.tree(); }
Node Count::units_by_protocol() const { return units_.tree(); }

std::string Count::text(bool colors) const {
  std::string out;
  Page page(out, colors);
  page.put(TextStyle::strong, fmt::format("{} packets, {} bytes", packets_, bytes_));
  if (first_ && last_ > *first_) {
    page.put(" in ").with([&](std::string& s) { append_duration(s, static_cast<std::uint64_t>(last_ - *first_)); });
    page.put(" from ").with([&](std::string& s) { append_date(s, *first_); }).put(" UTC");
  }
  page.line();
  std::uint64_t lost = 0;
  std::string where;
  for (const Lost& one : lost_) {
    lost += one.packets;
    if (one.packets && !one.interface.empty())
      where += fmt::format("{}{} at {}", where.empty() ? ": " : ", ", one.packets, printable(one.interface));
  }
  if (lost) page.put(TextStyle::bad, fmt::format("the capture lost {} packets{}", lost, where)).line();
  if (packets_ == 0) return out;

  page.line().put(TextStyle::dim, "     packets         bytes    share  protocol").line();
  write(page, packets_by_protocol(), packets_, 0);
  if (unit_count_) {
    page.line().put(TextStyle::dim, "       units         bytes    share  iWARP").line();
    write(page, units_by_protocol(), unit_count_, 0);
  }
  page.line();
  auto crcs = [&](std::string_view name, const Crcs& counts) {
    if (counts[index(CrcCheck::Status::absent)] == std::uint64_t{counts[0]} + counts[1] + counts[2] + counts[3]) return;
    page.put(fmt::format("{:9}", name));
    for (const CrcCheck::Status status : judged) {
      const std::uint64_t n = counts[index(status)];
      const TextStyle ink = n == 0                             ? TextStyle::dim
                            : status == CrcCheck::Status::good ? TextStyle::good
                            : status == CrcCheck::Status::bad  ? TextStyle::bad
                                                               : TextStyle::notice;
      page.put("  ").put(ink, fmt::format("{} {}", n, to_string(status)));
    }
    page.line();
  };
  crcs("ICRC", icrc_);
  crcs("VCRC", vcrc_);
  crcs("MPA CRC", mpa_crc_);
  if (cut_)
    page.put("truncated").put("  ").put(TextStyle::notice, fmt::format("{} packets, by the capture", cut_)).line();
  std::uint64_t findings = 0;
  for (const std::uint64_t n : findings_) findings += n;
  if (findings) {
    page.put("findings ");
    for (const ParseError::Kind kind : finding_kinds)
      if (const std::uint64_t n = findings_[index(kind)])
        page.put("  ").put(TextStyle::notice, fmt::format("{} {}", n, to_string(kind)));
    page.put("   (--filter finding shows them)").line();
  }
  return out;
}

std::string Count::json() const {
  nlohmann::ordered_json root{{"packets", packets_}, {"bytes", bytes_}};
  auto time = [](std::int64_t t) {
    std::string text;
    append_seconds(text, t);
    return text;
  };
  root["first"] = first_ ? nlohmann::ordered_json(time(*first_)) : nlohmann::ordered_json();
  root["last"] = first_ ? nlohmann::ordered_json(time(last_)) : nlohmann::ordered_json();
  root["protocols"] = to_json(packets_by_protocol());
  root["units"] = to_json(units_by_protocol());
  auto crcs = [&](const char* name, const Crcs& counts) {
    for (const CrcCheck::Status status : judged) root[name][std::string(to_string(status))] = counts[index(status)];
  };
  crcs("icrc", icrc_);
  crcs("vcrc", vcrc_);
  crcs("mpa_crc", mpa_crc_);
  for (const ParseError::Kind kind : finding_kinds)
    root["findings"][std::string(to_string(kind))] = findings_[index(kind)];
  root["truncated_packets"] = cut_;
  root["lost"] = nlohmann::ordered_json();
  for (const Lost& one : lost_)
    root["lost"] = root["lost"].is_null() ? one.packets : root["lost"].get<std::uint64_t>() + one.packets;
  return root.dump() + "\n";
}

}  // namespace rdmawire::output
