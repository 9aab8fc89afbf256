#include "conformance/fuzzer/remote_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "conformance/device/roce/names.hpp"
#include "conformance/fuzzer/fixture_memory.hpp"
#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/ip.hpp"

namespace rdmawire::fuzzer {

using nlohmann::json;

namespace {

namespace access = device::access;
namespace names = device::names;

constexpr auto agent_time = std::chrono::milliseconds(10'000);

struct Place {
  Key key;  ///< unknown: a range that steps cannot refer to
  layout::Range range;
  std::uint32_t rights;    ///< 0: all rights
  bool elsewhere = false;  ///< true: in the other protection domain
};
constexpr Place places[] = {
    {Key::everything, layout::everything, 0},
    {Key::read_only, layout::read_only, access::remote_read},
    {Key::write_only, layout::write_only, access::local_write | access::remote_write},
    {Key::closed, layout::closed, access::local_write},
    {Key::foreign, layout::foreign, 0, true},
    {Key::unknown, layout::receives, access::local_write},
    {Key::unknown, layout::local, access::local_write},
};
constexpr std::size_t receives_at = 5, local_at = 6;
constexpr std::uint64_t first_receive = 500;  // wr_id of the first receive request

std::vector<std::uint8_t> bytes_of(const std::string& hex) {
  std::vector<std::uint8_t> bytes(hex.size() / 2);
  const auto digit = [](char c) { return static_cast<std::uint8_t>(c <= '9' ? c - '0' : (c | 32) - 'a' + 10); };
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
  return bytes;
}

std::string hex_of(Bytes bytes) {
  std::string hex;
  for (const std::uint8_t byte : bytes) hex += fmt::format("{:02x}", byte);
  return hex;
}

}  // namespace

json RemoteMemory::run_command(const char* command, const json& arguments, std::optional<std::string>& lost) {
  if (lost) return json::object();
  auto result = peer_->call(command, arguments, agent_time);
  if (result) return std::move(*result);
  if (result.error().kind != peer::PeerError::Kind::refused)
    lost = fmt::format("{}: {}", command, result.error().message);
  return json::object();
}

void RemoteMemory::post_command(const char* command, const json& arguments, std::optional<std::string>& lost) {
  if (lost) return;
  if (auto number = peer_->send(command, arguments))
    posted_.push_back({command, *number});
  else
    lost = fmt::format("{}: {}", command, number.error().message);
}

void RemoteMemory::wait_for_posted(std::optional<std::string>& lost) {
  for (const Posted& one : posted_) {
    if (lost) {
      peer_->forget(one.number);
      continue;
    }
    const auto response = peer_->collect(one.number, agent_time);
    if (response || response.error().kind == peer::PeerError::Kind::refused) continue;
    if (response.error().kind == peer::PeerError::Kind::timeout) peer_->forget(one.number);
    lost = fmt::format("{}: {}", one.command, response.error().message);
  }
  posted_.clear();
}

void RemoteMemory::make(std::uint32_t pd, std::uint32_t other_pd, std::uint32_t all_rights, KnownObjects& objects,
                        std::optional<std::string>& lost) {
  static_assert(std::size(places) == regions);
  for (std::size_t i = 0; i < objects.memory.size(); ++i)
    objects.memory[i] = {static_cast<std::uint32_t>(0x5a5a5a00 + i), 0x1000};
  known_.clear();
  std::array<std::optional<std::uint64_t>, regions> numbers{};
  for (std::size_t i = 0; i < regions; ++i) {
    const Place& place = places[i];
    const std::uint32_t rights = place.rights != 0 ? place.rights : all_rights;
    if (handles_[i] != 0) post_command("destroy", {{"object", handles_[i]}}, lost);
    if (auto number = peer_->send("register", {{"pd", place.elsewhere ? other_pd : pd},
                                               {"length", place.range.bytes},
                                               {"access", names::names_of_bits(names::access, rights)}}))
      numbers[i] = *number;
  }
  for (std::size_t i = 0; i < regions; ++i) {
    const Place& place = places[i];
    const json made = (numbers[i] ? collect("register", *numbers[i], lost) : std::nullopt).value_or(json::object());
    handles_[i] = made.value("mr", 0U);
    if (place.key != Key::unknown)
      objects.memory[static_cast<std::size_t>(place.key)] = {made.value("rkey", 0U),
                                                             made.value("addr", std::uint64_t{0})};
  }
  wait_for_posted(lost);
  objects.memory[static_cast<std::size_t>(Key::unknown)].address =
      objects.memory[static_cast<std::size_t>(Key::everything)].address;
}

void RemoteMemory::fill(std::optional<std::string>& lost) {
  placed_.clear();
  headers_.clear();
  arena_.assign(layout::size, 0);
  fill_memory(arena_);
  std::array<bool, regions> known{};
  if (!known_.empty()) {
    known.fill(true);
    request_checksums(lost);
    compare(known_, lost, [&](std::size_t region) { known[region] = false; });
  }
  for (std::size_t i = 0; i < regions; ++i) {
    const auto [offset, bytes] = places[i].range;
    std::size_t begin = offset, end = offset + bytes;
    while (known[i] && begin < end && known_[begin] == arena_[begin]) ++begin;
    while (known[i] && begin < end && known_[end - 1] == arena_[end - 1]) --end;
    if (begin == end) continue;
    post_command(
        "write",
        {{"mr", handles_[i]}, {"offset", begin - offset}, {"bytes", hex_of(Bytes(arena_).subspan(begin, end - begin))}},
        lost);
  }
  wait_for_posted(lost);
  known_ = arena_;
}

void RemoteMemory::request_checksums(std::optional<std::string>& lost) {
  for (const auto& number : checksums_)
    if (number) peer_->forget(*number);
  checksums_.assign(regions, std::nullopt);
  if (lost) return;
  for (std::size_t i = 0; i < regions; ++i)
    if (auto number = peer_->send("checksum", {{"mr", handles_[i]}})) checksums_[i] = *number;
}

template <class Differs>
void RemoteMemory::compare(Bytes content, std::optional<std::string>& lost, const Differs& differs) {
  const auto numbers = std::exchange(checksums_, {});
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (!numbers[i]) continue;
    const layout::Range range = places[i].range;
    const auto response = collect("checksum", *numbers[i], lost);
    if (response && response->value("crc32", 0U) != crc32(content.subspan(range.offset, range.bytes))) differs(i);
  }
}

std::optional<json> RemoteMemory::collect(const char* command, std::uint64_t number, std::optional<std::string>& lost) {
  auto response = peer_->collect(number, agent_time);
  if (response) return std::move(*response);
  if (response.error().kind == peer::PeerError::Kind::timeout) peer_->forget(number);
  lost = fmt::format("{}: {}", command, response.error().message);
  return std::nullopt;
}

void RemoteMemory::look(Bytes expected, std::optional<std::string>& lost) {
  arena_.assign(expected.begin(), expected.end());
  if (checksums_.empty()) request_checksums(lost);
  bool read_all = true;
  compare(expected, lost, [&](std::size_t i) {
    const layout::Range range = places[i].range;
    const auto bytes = bytes_of(run_command("read", {{"mr", handles_[i]}}, lost).value("bytes", ""));
    if (bytes.size() == range.bytes)
      std::ranges::copy(bytes, arena_.begin() + static_cast<std::ptrdiff_t>(range.offset));
    else
      read_all = false;
  });
  known_ = arena_;
  if (lost || !read_all) known_.clear();
  for (NetworkHeader& header : headers_) {
    const auto here = std::span(arena_).subspan(header.offset, network_bytes);
    const auto was = expected.subspan(header.offset, network_bytes);
    constexpr std::size_t half = network_bytes - ipv4_bytes;
    if (!header.there && std::ranges::equal(std::span(header.bytes).subspan(half), here.subspan(half))) {
      std::ranges::copy(here, header.bytes.begin());
      header.there = true;
    }
    // Compare byte by byte, because later messages may have overwritten a part of the header.
    for (std::size_t i = 0; header.there && i < network_bytes; ++i)
      if (here[i] == header.bytes[i]) here[i] = was[i];
  }
}

void RemoteMemory::expect_network_header(std::uint64_t id, std::span<const std::vector<std::uint8_t>> frames) {
  if (id <= first_receive || id - first_receive > placed_.size()) return;
  const std::size_t offset = placed_[id - first_receive - 1];
  std::erase_if(headers_, [&](const NetworkHeader& header) { return header.offset == offset; });
  for (const auto& frame : frames) {
    const HeaderStack stack = decode(frame);
    const Layer* ip = stack.find(info<Ipv4>);
    if (!ip) continue;
    NetworkHeader header{offset, {}};
    std::copy_n(frame.begin() + ip->offset, ipv4_bytes, header.bytes.begin() + (network_bytes - ipv4_bytes));
    headers_.push_back(header);
  }
}

json RemoteMemory::receive(std::uint32_t number, std::int64_t bytes) {
  constexpr std::uint64_t each = layout::receives.bytes / 8;
  const auto length = std::min<std::uint64_t>(static_cast<std::uint64_t>(bytes), layout::receives.bytes);
  const std::uint64_t place = length > each ? 0 : each * ((number - 1) % 8);
  json sges = json::array();
  if (length > 0) sges.push_back({{"mr", handles_[receives_at]}, {"offset", place}, {"length", length}});
  placed_.resize(std::max<std::size_t>(placed_.size(), number), layout::receives.offset);
  placed_[number - 1] = layout::receives.offset + place;
  return {{"wr_id", first_receive + number}, {"sges", sges}};
}

std::uint32_t RemoteMemory::handle(Key key) const {
  const auto place = std::ranges::find(places, key, &Place::key);
  return key == Key::unknown || place == std::end(places) ? 0 : handles_[static_cast<std::size_t>(place - places)];
}

json RemoteMemory::local(std::int64_t offset, std::int64_t bytes) const {
  return {{"mr", handles_[local_at]}, {"offset", offset}, {"length", bytes}};
}

}  // namespace rdmawire::fuzzer
