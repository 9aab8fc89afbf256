#include "replay/rpc/memory_commands.hpp"

#include <algorithm>

namespace rdmawire::rpc {
namespace {

constexpr std::string_view start = "start of the range, in bytes", rest = "bytes (default: to the end of the region)",
                           patterns =
                               "`byte`: every byte is `value`. `counter`: `value`, `value` + 1, … `random`: SplitMix64 "
                               "with the seed `value`, eight bytes per number, little-endian",
                           pattern_value = "0 to 255, or a 64-bit seed";

/// SplitMix64: deterministic pseudo-random numbers from a seed. Not for secrets.
std::uint64_t next_random(std::uint64_t& state) {
  state += 0x9E3779B97F4A7C15;
  std::uint64_t z = state;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
  z = (z ^ z >> 27) * 0x94D049BB133111EB;
  return z ^ z >> 31;
}

}  // namespace

void fill(std::span<std::uint8_t> bytes, const Choice<names::pattern>& pattern, std::uint64_t value) {
  switch (static_cast<Pattern>(pattern.value())) {
    case Pattern::byte: std::ranges::fill(bytes, static_cast<std::uint8_t>(value)); break;
    case Pattern::counter:
      for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(value++);
      break;
    case Pattern::random:
      for (std::size_t i = 0; i < bytes.size(); i += 8) {
        std::uint64_t number = next_random(value);
        for (std::uint8_t& byte : bytes.subspan(i, std::min<std::size_t>(8, bytes.size() - i))) {
          byte = static_cast<std::uint8_t>(number);
          number >>= 8;
        }
      }
      break;
  }
}

const Structure& Filling::structure() {
  static const Structure& it = *new Structure{
      "Filling",
      "A pattern that fills memory.",
      {required<&Filling::pattern>("pattern", patterns), optional<&Filling::value>("value", pattern_value)}};
  return it;
}

const Command& Register::command() {
  static const Command& it = *new Command{
      .name = "register",
      .does =
          "Registers newly allocated memory: whole pages, initialized with zeros. Other memory of the agent is never "
          "registered, read or written.",
      .arguments =
          {required<&Register::pd>("pd"),
           required<&Register::length>("length", "bytes, up to the limit of the session (`--memory`)", {.least = 1}),
           optional<&Register::access>("access"),
           optional<&Register::iova>(
               "iova",
               "the first address for accesses with its keys (default: its virtual address, or 0 with `zero_based`)"),
           optional<&Register::fill>("fill", "initial content")},
      .result = {required<&Result::mr>("mr"),
                 required<&Result::addr>("addr", "the first address for accesses with its keys"),
                 required<&Result::length>("length", "bytes"), required<&Result::lkey>("lkey"),
                 required<&Result::rkey>("rkey")},
      .example = R"({"pd":2,"length":4096,"access":["local_write","remote_write"]})",
      .answers = R"({"mr":4,"addr":140216412057600,"length":4096,"lkey":1137,"rkey":1137})"};
  return it;
}

const Command& Reregister::command() {
  static const Command& it = *new Command{
      .name = "reregister",
      .does = "Changes the protection domain or the access rights of a region.",
      .arguments = {required<&Reregister::mr>("mr"), optional<&Reregister::pd>("pd"),
                    optional<&Reregister::access>("access")},
      .result = {required<&Result::lkey>("lkey", "possibly changed"), required<&Result::rkey>("rkey", same)},
      .example = R"({"mr":4,"access":["local_write"]})",
      .answers = R"({"lkey":1138,"rkey":1138})"};
  return it;
}

const Command& AllocMr::command() {
  static const Command& it = *new Command{
      .name = "alloc_mr",
      .does = "Allocates memory for fast registration by the opcode `reg_mr` of `post_send`.",
      .arguments = {required<&AllocMr::pd>("pd"), required<&AllocMr::length>("length", "bytes", {.least = 1})},
      .result = {required<&Result::mr>("mr"), required<&Result::addr>("addr", "address of its first byte"),
                 required<&Result::rkey>("rkey")},
      .example = R"({"pd":2,"length":4096})",
      .answers = R"({"mr":4,"addr":4096,"rkey":1137})",
      .extension = true};
  return it;
}

const Command& Write::command() {
  static const Command& it =
      *new Command{.name = "write",
                   .does = "Writes bytes into a region.",
                   .arguments = {required<&Write::mr>("mr"), optional<&Write::offset>("offset", start),
                                 required<&Write::bytes>("bytes", {}, {.most = most_bytes})},
                   .result = {required<&Result::length>("length", "bytes")},
                   .example = R"({"mr":4,"offset":16,"bytes":"c0ffee"})",
                   .answers = R"({"length":3})"};
  return it;
}

const Command& Read::command() {
  static const Command& it =
      *new Command{.name = "read",
                   .does = "Returns bytes of a region, at most 1900000. EMSGSIZE: more are requested.",
                   .arguments = {required<&Read::mr>("mr"), optional<&Read::offset>("offset", start),
                                 optional<&Read::length>("length", rest)},
                   .result = {required<&Result::bytes>("bytes")},
                   .example = R"({"mr":4,"offset":16,"length":4})",
                   .answers = R"({"bytes":"c0ffee00"})"};
  return it;
}

const Command& Fill::command() {
  static const Command& it =
      *new Command{.name = "fill",
                   .does = "Writes a pattern into a region.",
                   .arguments = {required<&Fill::mr>("mr"), optional<&Fill::offset>("offset", start),
                                 optional<&Fill::length>("length", rest), required<&Fill::pattern>("pattern", patterns),
                                 optional<&Fill::value>("value", pattern_value)},
                   .result = {required<&Result::length>("length", "bytes")},
                   .example = R"({"mr":4,"pattern":"random","value":7})",
                   .answers = R"({"length":4096})"};
  return it;
}

const Command& Checksum::command() {
  static const Command& it =
      *new Command{.name = "checksum",
                   .does = "Returns the CRC-32 of a region, as in zlib and IEEE 802.3.",
                   .arguments = {required<&Checksum::mr>("mr"), optional<&Checksum::offset>("offset", start),
                                 optional<&Checksum::length>("length", rest)},
                   .result = {required<&Result::crc32>("crc32"), optional<&Result::length>("length", "bytes")},
                   .example = R"({"mr":4})",
                   .answers = R"({"crc32":3335331722,"length":4096})"};
  return it;
}

const Command& AllocMw::command() {
  static const Command& it = *new Command{
      .name = "alloc_mw",
      .does = "Allocates a memory window.",
      .arguments = {required<&AllocMw::pd>("pd"), optional<&AllocMw::type>("type", {}, {.least = 1, .most = 2})},
      .result = {required<&Result::mw>("mw"), required<&Result::rkey>("rkey")},
      .example = R"({"pd":2})",
      .answers = R"({"mw":5,"rkey":2304})"};
  return it;
}

const Command& BindMw::command() {
  static const Command& it = *new Command{
      .name = "bind_mw",
      .does =
          "Binds a type 1 window with a QP, or unbinds it if `mr` is absent. Type 2 windows are bound with "
          "`post_send`.",
      .arguments = {required<&BindMw::qp>("qp"), required<&BindMw::mw>("mw"), optional<&BindMw::mr>("mr"),
                    optional<&BindMw::addr>("addr", "start of the window (default: `addr` of the region)"),
                    optional<&BindMw::length>("length", "bytes (default: those of the region)"),
                    optional<&BindMw::access>("access"), optional<&BindMw::wr_id>("wr_id"),
                    optional<&BindMw::flags>("flags", "`signaled` and `fence` have an effect")},
      .result = {required<&Result::rkey>("rkey", "the new key")},
      .example = R"({"qp":7,"mw":5,"mr":4,"access":["remote_write"],"flags":["signaled"]})",
      .answers = R"({"rkey":2305})"};
  return it;
}

}  // namespace rdmawire::rpc
