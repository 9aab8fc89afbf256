/// Memory, as the agent's protocol has it.

#include <arpa/inet.h>

#include <algorithm>

#include "conformance/device/roce/names.hpp"
#include "conformance/device/roce/verbs_rpc_handler.hpp"
#include "dissectors/protocol/crc.hpp"

namespace rdmawire::device {

namespace {

constexpr std::uint64_t max_bytes = 1'900'000;

void fill_with(MutableBytes to, std::uint64_t pattern, std::uint64_t value) {
  Random random(value);
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (pattern == 0) to[i] = static_cast<std::uint8_t>(value);
    if (pattern == 1) to[i] = static_cast<std::uint8_t>(value + i);
  }
  if (pattern != 2) return;
  for (std::size_t i = 0; i < to.size(); i += 8) {
    std::uint8_t bytes[8];
    store_le(bytes, 8, random.next());
    std::copy_n(bytes, std::min<std::size_t>(8, to.size() - i), to.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

int digit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

}  // namespace

std::string to_hex(Bytes bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const std::uint8_t byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::string gid_text(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, gid.bytes.data(), text, sizeof text);
  return text;
}

std::vector<std::uint8_t> ArgumentReader::bytes(const std::string& name, std::size_t most) {
  const std::string written = text(name);
  std::vector<std::uint8_t> read;
  if (written.size() % 2 != 0 || written.size() / 2 > most)
    return report_error(name, EINVAL, fmt::format("must be at most {} bytes, two digits each", most)), read;
  for (std::size_t i = 0; i < written.size(); i += 2) {
    const int high = digit(written[i]), low = digit(written[i + 1]);
    if (high < 0 || low < 0) return report_error(name, EINVAL, "must be hexadecimal digits"), read;
    read.push_back(static_cast<std::uint8_t>(high << 4 | low));
  }
  return read;
}

Gid ArgumentReader::gid(const std::string& name) {
  Gid read;
  const std::string written = text(name);
  if (inet_pton(AF_INET6, written.c_str(), read.bytes.data()) != 1)
    report_error(name, EINVAL, "must be a GID, written as an address of IPv6");
  return read;
}

VerbsRpcHandler::Part VerbsRpcHandler::read_part(ArgumentReader& given, std::optional<std::uint64_t> length) {
  Part part;
  const auto handle = given.number<std::uint32_t>("mr");
  part.region = verbs_.region(handle);
  const auto piece = pieces_.find(handle);
  if (!part.region || piece == pieces_.end()) {
    given.report_error("mr", ENOENT, fmt::format("there is no region {}", handle));
    return part;
  }
  // A region without memory yet (of fast registration) has its piece all the same.
  const std::uint64_t has = std::max(part.region->length, part.region->most);
  part.offset = given.number_or<std::uint64_t>("offset", 0, 0, has);
  part.length = length ? *length : given.number_or<std::uint64_t>("length", has - part.offset, 0, has - part.offset);
  if (part.length > has - part.offset) given.report_error("bytes", ERANGE, "end beyond the region");
  part.address = piece->second + part.offset;
  return part;
}

Result<Json> VerbsRpcHandler::alloc_pd(ArgumentReader& given) {
  given.number<std::uint32_t>("device");
  if (auto wrong = given.finish()) return tl::unexpected(*wrong);
  const auto pd = verbs_.alloc_pd();
  if (!pd) return tl::unexpected(pd.error());
  return Json{{"pd", add(Kind::pd, *pd)}};
}

Result<Json> VerbsRpcHandler::register_memory(ArgumentReader& given) {
  const auto pd = given.number<std::uint32_t>("pd");
  const auto length = given.number<std::uint64_t>("length", 1);
  const auto rights = static_cast<std::uint32_t>(given.maybe_bits("access", names::access).value_or(0));
  const auto iova = given.maybe<std::uint64_t>("iova");
  std::optional<std::uint64_t> pattern;
  std::uint64_t value = 0;
  given.inner("fill", [&](ArgumentReader& fill) {
    pattern = fill.maybe_choice("pattern", names::pattern);
    value = fill.number_or<std::uint64_t>("value", 0);
  });
  if (auto wrong = given.finish()) return tl::unexpected(*wrong);
  const auto address = verbs_.alloc(length);
  if (!address) return tl::unexpected(address.error());
  if (pattern) fill_with(verbs_.memory(*address, length), *pattern, value);
  const auto region = verbs_.reg_mr(pd, *address, length, rights, iova);
  if (!region) {
    (void)verbs_.free(*address);
    return tl::unexpected(region.error());
  }
  pieces_[(*region)->handle] = *address;
  return Json{{"mr", add(Kind::mr, (*region)->handle)},
              {"addr", (*region)->iova},
              {"length", length},
              {"lkey", (*region)->key},
              {"rkey", (*region)->key}};
}

/// Beyond what a real agent has: memory for fast registration, which `reg_mr` of post_send registers.
Result<Json> VerbsRpcHandler::alloc_mr(ArgumentReader& given) {
  const auto pd = given.number<std::uint32_t>("pd");
  const auto length = given.number<std::uint64_t>("length", 1);
  if (auto wrong = given.finish()) return tl::unexpected(*wrong);
  const auto address = verbs_.alloc(length);
  if (!address) return tl::unexpected(address.error());
  const auto region = verbs_.alloc_mr(pd, length);
  if (!region) {
    (void)verbs_.free(*address);
    return tl::unexpected(region.error());
  }
  pieces_[(*region)->handle] = *address;
  return Json{{"mr", add(Kind::mr, (*region)->handle)}, {"addr", *address}, {"rkey", (*region)->key}};
}

Result<Json> VerbsRpcHandler::write(ArgumentReader& given) {
  const auto bytes = given.bytes("bytes", max_bytes);
  const Part part = read_part(given, bytes.size());
  if (auto wrong = given.finish()) return tl::unexpected(*wrong);
  const MutableBytes to = verbs_.memory(part.address, bytes.size());
  std::copy_n(bytes.begin(), to.size(), to.begin());
  return Json{{"length", bytes.size()}};
}

Result<Json> VerbsRpcHandler::read(ArgumentReader& given) {
  const Part part = read_part(given);
  if (auto wrong = given.finish()) return tl::unexpected(*wrong);
  if (part.length > max_bytes)
    return tl::unexpected(Error{EMSGSIZE, fmt::format("length: an answer carries at most {} bytes", max_bytes)});
  return Json{{"bytes", to_hex(verbs_.memory(part.address, part.length))}};
}

Result<Json> VerbsRpcHandler::fill(ArgumentReader& given) {
  const Part part = read_part(given);
  const auto pattern = given.maybe_choice("pattern", names::pattern);
  const auto value = given.number_or<std::uint64_t>("value", 0);
  if (!pattern) given.report_error("pattern", EINVAL, "is needed");
  if (auto wrong = given.finish()) return tl::unexpected(*wrong);
  fill_with(verbs_.memory(part.address, part.length), *pattern, value);
  return Json{{"length", part.length}};
}

Result<Json> VerbsRpcHandler::checksum(ArgumentReader& given) {
  const Part part = read_part(given);
  if (auto wrong = given.finish()) return tl::unexpected(*wrong);
  return Json{{"crc32", crc32(verbs_.memory(part.address, part.length))}, {"length", part.length}};
}

Result<Json> VerbsRpcHandler::alloc_mw(ArgumentReader& given) {
  const auto pd = given.number<std::uint32_t>("pd");
  const auto type = given.number_or<std::uint8_t>("type", 1, 1, 2);
  if (auto wrong = given.finish()) return tl::unexpected(*wrong);
  const auto window = verbs_.alloc_mw(pd, type);
  if (!window) return tl::unexpected(window.error());
  return Json{{"mw", add(Kind::mw, (*window)->handle)}, {"rkey", (*window)->key}};
}

Result<Json> VerbsRpcHandler::bind_mw(ArgumentReader& given) {
  const auto qp = given.number<std::uint32_t>("qp");
  SendRequest request;
  request.opcode = WorkOpcode::bind_mw;
  request.window = given.number<std::uint32_t>("mw");
  request.region = given.number_or<std::uint32_t>("mr", 0);
  const Region* region = verbs_.region(request.region);
  request.id = given.number_or<std::uint64_t>("wr_id", 0);
  const auto flags = given.maybe_bits("flags", names::send_flags).value_or(0);
  request.fence = (flags & 1) != 0;
  request.signaled = (flags & 2) != 0;
  request.address = given.number_or<std::uint64_t>("addr", region ? region->iova : 0);
  request.bytes_bound = given.number_or<std::uint64_t>("length", region ? region->length : 0);
  request.rights = static_cast<std::uint32_t>(given.maybe_bits("access", names::access).value_or(0));
  const Window* window = verbs_.window(request.window);
  if (!window) given.report_error("mw", ENOENT, "there is no such window");
  if (window && window->type != 1) given.report_error("mw", EINVAL, "is of type 2: post_send binds it");
  if (auto wrong = given.finish()) return tl::unexpected(*wrong);
  const auto key = verbs_.bind_mw(qp, request);
  if (!key) return tl::unexpected(key.error());
  return Json{{"rkey", *key}};
}

}  // namespace rdmawire::device
