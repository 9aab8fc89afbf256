/// Agent commands for memory.

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
    return report_error(name, EINVAL, fmt::format("must be at most {} bytes of two hexadecimal digits each", most)),
           read;
  for (std::size_t i = 0; i < written.size(); i += 2) {
    const int high = digit(written[i]), low = digit(written[i + 1]);
    if (high < 0 || low < 0) return report_error(name, EINVAL, "must contain only hexadecimal digits"), read;
    read.push_back(static_cast<std::uint8_t>(high << 4 | low));
  }
  return read;
}

Gid ArgumentReader::gid(const std::string& name) {
  Gid read;
  const std::string written = text(name);
  if (inet_pton(AF_INET6, written.c_str(), read.bytes.data()) != 1)
    report_error(name, EINVAL, "must be a GID, written as an IPv6 address");
  return read;
}

VerbsRpcHandler::Part VerbsRpcHandler::read_part(ArgumentReader& arguments, std::optional<std::uint64_t> length) {
  Part part;
  const auto handle = arguments.number<std::uint32_t>("mr");
  part.region = verbs_.region(handle);
  const auto piece = pieces_.find(handle);
  if (!part.region || piece == pieces_.end()) {
    arguments.report_error("mr", ENOENT, fmt::format("unknown region {}", handle));
    return part;
  }
  // A fast registration region has allocated memory before it is valid.
  const std::uint64_t has = std::max(part.region->length, part.region->most);
  part.offset = arguments.number_or<std::uint64_t>("offset", 0, 0, has);
  part.length =
      length ? *length : arguments.number_or<std::uint64_t>("length", has - part.offset, 0, has - part.offset);
  if (part.length > has - part.offset) arguments.report_error("bytes", ERANGE, "exceed the region");
  part.address = piece->second + part.offset;
  return part;
}

Result<Json> VerbsRpcHandler::alloc_pd(ArgumentReader& arguments) {
  arguments.number<std::uint32_t>("device");
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  const auto pd = verbs_.alloc_pd();
  if (!pd) return tl::unexpected(pd.error());
  return Json{{"pd", add(Kind::pd, *pd)}};
}

Result<Json> VerbsRpcHandler::register_memory(ArgumentReader& arguments) {
  const auto pd = arguments.number<std::uint32_t>("pd");
  const auto length = arguments.number<std::uint64_t>("length", 1);
  const auto rights = static_cast<std::uint32_t>(arguments.optional_bits("access", names::access).value_or(0));
  const auto iova = arguments.optional_number<std::uint64_t>("iova");
  std::optional<std::uint64_t> pattern;
  std::uint64_t value = 0;
  arguments.inner("fill", [&](ArgumentReader& fill) {
    pattern = fill.optional_choice("pattern", names::pattern);
    value = fill.number_or<std::uint64_t>("value", 0);
  });
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
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

/// Extension of the agent protocol: allocate memory for fast registration by `reg_mr` of post_send.
Result<Json> VerbsRpcHandler::alloc_mr(ArgumentReader& arguments) {
  const auto pd = arguments.number<std::uint32_t>("pd");
  const auto length = arguments.number<std::uint64_t>("length", 1);
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
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

Result<Json> VerbsRpcHandler::write(ArgumentReader& arguments) {
  const auto bytes = arguments.bytes("bytes", max_bytes);
  const Part part = read_part(arguments, bytes.size());
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  const MutableBytes to = verbs_.memory(part.address, bytes.size());
  std::copy_n(bytes.begin(), to.size(), to.begin());
  return Json{{"length", bytes.size()}};
}

Result<Json> VerbsRpcHandler::read(ArgumentReader& arguments) {
  const Part part = read_part(arguments);
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  if (part.length > max_bytes)
    return tl::unexpected(Error{EMSGSIZE, fmt::format("length: a response contains at most {} bytes", max_bytes)});
  return Json{{"bytes", to_hex(verbs_.memory(part.address, part.length))}};
}

Result<Json> VerbsRpcHandler::fill(ArgumentReader& arguments) {
  const Part part = read_part(arguments);
  const auto pattern = arguments.optional_choice("pattern", names::pattern);
  const auto value = arguments.number_or<std::uint64_t>("value", 0);
  if (!pattern) arguments.report_error("pattern", EINVAL, "is required");
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  fill_with(verbs_.memory(part.address, part.length), *pattern, value);
  return Json{{"length", part.length}};
}

Result<Json> VerbsRpcHandler::checksum(ArgumentReader& arguments) {
  const Part part = read_part(arguments);
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  return Json{{"crc32", crc32(verbs_.memory(part.address, part.length))}, {"length", part.length}};
}

Result<Json> VerbsRpcHandler::alloc_mw(ArgumentReader& arguments) {
  const auto pd = arguments.number<std::uint32_t>("pd");
  const auto type = arguments.number_or<std::uint8_t>("type", 1, 1, 2);
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  const auto window = verbs_.alloc_mw(pd, type);
  if (!window) return tl::unexpected(window.error());
  return Json{{"mw", add(Kind::mw, (*window)->handle)}, {"rkey", (*window)->key}};
}

Result<Json> VerbsRpcHandler::bind_mw(ArgumentReader& arguments) {
  const auto qp = arguments.number<std::uint32_t>("qp");
  SendRequest request;
  request.opcode = WorkOpcode::bind_mw;
  request.window = arguments.number<std::uint32_t>("mw");
  request.region = arguments.number_or<std::uint32_t>("mr", 0);
  const Region* region = verbs_.region(request.region);
  request.id = arguments.number_or<std::uint64_t>("wr_id", 0);
  const auto flags = arguments.optional_bits("flags", names::send_flags).value_or(0);
  request.fence = (flags & 1) != 0;
  request.signaled = (flags & 2) != 0;
  request.address = arguments.number_or<std::uint64_t>("addr", region ? region->iova : 0);
  request.bytes_bound = arguments.number_or<std::uint64_t>("length", region ? region->length : 0);
  request.rights = static_cast<std::uint32_t>(arguments.optional_bits("access", names::access).value_or(0));
  const Window* window = verbs_.window(request.window);
  if (!window) arguments.report_error("mw", ENOENT, "unknown window");
  if (window && window->type != 1) arguments.report_error("mw", EINVAL, "is of type 2; bind it with post_send");
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  const auto key = verbs_.bind_mw(qp, request);
  if (!key) return tl::unexpected(key.error());
  return Json{{"rkey", *key}};
}

}  // namespace rdmawire::device
