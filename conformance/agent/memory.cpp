/// register, reregister, write, read, fill, checksum, alloc_mw, bind_mw.

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "conformance/agent/commands.hpp"
#include "conformance/agent/kinds.hpp"

namespace rdmawire::agent {
namespace {

/// Maximum number of bytes in one line of hexadecimal text.
constexpr std::uint64_t max_bytes = 1'900'000;

/// SplitMix64: deterministic pseudo-random numbers from a seed. Not for secrets.
std::uint64_t next_random(std::uint64_t& state) {
  state += 0x9E3779B97F4A7C15;
  std::uint64_t z = state;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
  z = (z ^ z >> 27) * 0x94D049BB133111EB;
  return z ^ z >> 31;
}

void fill_memory(std::uint8_t* memory, std::size_t length, Pattern pattern, std::uint64_t seed) {
  switch (pattern) {
    case Pattern::byte: std::memset(memory, static_cast<int>(seed), length); return;
    case Pattern::counter:
      for (std::size_t i = 0; i < length; ++i) memory[i] = static_cast<std::uint8_t>(seed + i);
      return;
    case Pattern::random:
      for (std::size_t i = 0; i < length; i += 8) {
        const std::uint64_t bytes = htole64(next_random(seed));
        std::memcpy(memory + i, &bytes, std::min<std::size_t>(8, length - i));
      }
      return;
  }
}

struct Filling {
  Pattern pattern;
  std::uint64_t value;
};

/// {"pattern": …, "value": …}
Filling read_filling(Arguments& arguments) {
  const auto pattern = static_cast<Pattern>(arguments.choice("pattern", names::pattern));
  const bool one_byte = pattern != Pattern::random;
  return {pattern, arguments.number_or<std::uint64_t>("value", 0, {0, one_byte ? 255 : UINT64_MAX})};
}

struct Part {
  Mr* mr = nullptr;
  std::uint64_t offset = 0, length = 0;
  [[nodiscard]] std::uint8_t* begin() const { return mr->memory() + offset; }
};

/// A range of a region: `offset` (default 0) and `length` (default: to the end of the region).
Part read_part(Arguments& arguments, std::optional<std::uint64_t> length = {}) {
  Part part;
  part.mr = arguments.object<Mr>("mr");
  const std::uint64_t has = part.mr != nullptr ? part.mr->length() : UINT64_MAX;
  part.offset = arguments.number_or<std::uint64_t>("offset", 0, {0, has});
  const std::uint64_t left = part.offset <= has ? has - part.offset : 0;
  part.length = length ? *length : arguments.number_or<std::uint64_t>("length", left, {0, left});
  if (part.length > left) {
    arguments.report_error(
        "bytes", ERANGE,
        fmt::format("{} bytes at offset {} exceed the region of {} bytes", part.length, part.offset, has));
  }
  return part;
}

Result<Json> register_memory(Session& session, Arguments& arguments) {
  const auto* pd = arguments.object<Pd>("pd");
  const auto length = arguments.number<std::uint64_t>("length", {1, session.settings().most_memory});
  const auto access = static_cast<unsigned>(arguments.bits("access", names::access));
  const auto iova = arguments.maybe<std::uint64_t>("iova");
  std::optional<Filling> filling;
  if (auto inner = arguments.inner("fill")) filling = read_filling(*inner);
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  if (length > session.settings().most_memory - std::min(session.memory, session.settings().most_memory)) {
    return fail(ENOMEM, "length: the session has {} bytes in memory regions, the limit is {} (--memory)",
                session.memory, session.settings().most_memory);
  }
  std::uint8_t* memory = map_memory(length);
  if (memory == nullptr) return fail(ENOMEM, "length: cannot allocate {} bytes", length);
  if (filling) fill_memory(memory, length, filling->pattern, filling->value);
  errno = 0;
  ibv_mr* mr = iova ? ibv_reg_mr_iova(pd->verbs(), memory, length, *iova, access)
                    : ibv_reg_mr(pd->verbs(), memory, length, access);
  if (mr == nullptr) {
    const int number = errno;
    unmap_memory(memory, length);
    return tl::unexpected(verbs_failed(iova ? "ibv_reg_mr_iova" : "ibv_reg_mr", number));
  }
  std::uint64_t first = reinterpret_cast<std::uintptr_t>(memory);
  if (iova) first = *iova;
  if (!iova && (access & IBV_ACCESS_ZERO_BASED) != 0) first = 0;
  const Mr& added = session.objects().add(std::make_unique<Mr>(session, mr, memory, length, first), {pd});
  return Json{{"mr", added.handle()}, {"addr", first}, {"length", length}, {"lkey", mr->lkey}, {"rkey", mr->rkey}};
}

Result<Json> reregister(Session&, Arguments& arguments) {
  auto* mr = arguments.object<Mr>("mr");
  const auto* pd = arguments.maybe_object<Pd>("pd");
  const auto access = arguments.maybe_bits("access", names::access);
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  const int flags = (pd != nullptr ? IBV_REREG_MR_CHANGE_PD : 0) | (access ? IBV_REREG_MR_CHANGE_ACCESS : 0);
  if (flags == 0) return fail(EINVAL, "no change requested; specify pd, access or both");
  errno = 0;
  const int wrong = ibv_rereg_mr(mr->verbs(), flags, pd != nullptr ? pd->verbs() : nullptr, nullptr, 0,
                                 static_cast<int>(access.value_or(0)));
  if (wrong != 0) {
    Error error = verbs_failed("ibv_rereg_mr", errno);
    const bool refused = error.number == EOPNOTSUPP || error.number == ENOSYS;
    if (!refused && (wrong == IBV_REREG_MR_ERR_CMD || wrong == IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW)) {
      error.message += "; the region is unusable, destroy it";
    }
    return tl::unexpected(error);
  }
  return Json{{"lkey", mr->verbs()->lkey}, {"rkey", mr->verbs()->rkey}};
}

Result<Json> write(Session&, Arguments& arguments) {
  const auto bytes = arguments.bytes("bytes", max_bytes);
  const Part part = read_part(arguments, bytes.size());
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  std::copy(bytes.begin(), bytes.end(), part.begin());
  return Json{{"length", bytes.size()}};
}

Result<Json> read(Session&, Arguments& arguments) {
  const Part part = read_part(arguments);
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  if (part.length > max_bytes) {
    return fail(EMSGSIZE, "length: the response limit is {} bytes, not {}; read the region in parts", max_bytes,
                part.length);
  }
  return Json{{"bytes", to_hex(part.begin(), part.length)}};
}

Result<Json> fill(Session&, Arguments& arguments) {
  const Part part = read_part(arguments);
  const Filling filling = read_filling(arguments);
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  fill_memory(part.begin(), part.length, filling.pattern, filling.value);
  return Json{{"length", part.length}};
}

Result<Json> checksum(Session&, Arguments& arguments) {
  const Part part = read_part(arguments);
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  return Json{{"crc32", crc32_z(crc32_z(0, nullptr, 0), part.begin(), part.length)}, {"length", part.length}};
}

Result<Json> alloc_mw(Session& session, Arguments& arguments) {
  const auto* pd = arguments.object<Pd>("pd");
  const auto type = arguments.number_or<std::uint8_t>("type", 1, {1, 2});
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  errno = 0;
  ibv_mw* mw = ibv_alloc_mw(pd->verbs(), static_cast<ibv_mw_type>(type));
  if (mw == nullptr) return tl::unexpected(verbs_failed("ibv_alloc_mw", errno));
  const Mw& added = session.objects().add(std::make_unique<Mw>(mw), {pd});
  return Json{{"mw", added.handle()}, {"rkey", mw->rkey}};
}

Result<Json> bind_mw(Session&, Arguments& arguments) {
  const auto* qp = arguments.object<Qp>("qp");
  const auto* mw = arguments.object<Mw>("mw");
  const auto* mr = arguments.maybe_object<Mr>("mr");
  ibv_mw_bind bind{};
  bind.wr_id = arguments.number_or<std::uint64_t>("wr_id", 0);
  bind.send_flags = static_cast<unsigned>(arguments.bits("flags", names::send_flags));
  bind.bind_info.mr = mr != nullptr ? mr->verbs() : nullptr;
  bind.bind_info.addr = arguments.number_or<std::uint64_t>("addr", mr != nullptr ? mr->iova() : 0);
  bind.bind_info.length = arguments.number_or<std::uint64_t>("length", mr != nullptr ? mr->length() : 0);
  bind.bind_info.mw_access_flags = static_cast<unsigned>(arguments.bits("access", names::access));
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  if (const int wrong = ibv_bind_mw(qp->verbs(), mw->verbs(), &bind); wrong != 0) {
    return tl::unexpected(verbs_failed("ibv_bind_mw", wrong));
  }
  return Json{{"rkey", mw->verbs()->rkey}};
}

}  // namespace

std::span<const Command> memory_commands() {
  static constexpr std::string_view
      a_region = "handle of a memory region",
      an_offset = "optional number: offset in bytes (default 0)",
      a_length = "optional number: length in bytes (default: to the end of the region)",
      a_pattern =
          "`byte` (every byte is `value`), `counter` (`value`, `value` + 1, …), or `random` (SplitMix64 with the "
          "seed `value`, eight bytes per number, little-endian)",
      a_value = "optional number, 0 to 255, or a 64-bit seed (default 0)",
      an_access =
          "optional list of names: `local_write`, `remote_write`, `remote_read`, `remote_atomic`, `mw_bind`, "
          "`zero_based`, `on_demand`, `hugetlb`, `flush_global`, `flush_persistent`, `relaxed_ordering` (none)";
  static const Command all[] = {
      {"register",
       "Registers newly allocated memory: whole pages, initialized with zeros. Other memory of the agent is never "
       "registered, read or written.",
       {{"pd", "handle of a protection domain"},
        {"length", "number: bytes, 1 to the limit of the session (`--memory`)"},
        {"access", an_access},
        {"iova",
         "optional number: the first address for accesses with its keys (default: its virtual address, or 0 with "
         "`zero_based`)"},
        {"fill", "optional object: `pattern` and `value` as for `fill`"}},
       {{"mr", "handle"},
        {"addr", "number: the first address for accesses with its keys"},
        {"length", "bytes"},
        {"lkey, rkey", "numbers"}},
       R"({"pd":2,"length":4096,"access":["local_write","remote_write"]})",
       R"({"mr":4,"addr":140216412057600,"length":4096,"lkey":1137,"rkey":1137})",
       &register_memory},
      {"reregister",
       "Changes the protection domain or the access rights of a region.",
       {{"mr", a_region}, {"pd", "optional handle of a protection domain"}, {"access", an_access}},
       {{"lkey, rkey", "numbers, possibly changed"}},
       R"({"mr":4,"access":["local_write"]})",
       R"({"lkey":1138,"rkey":1138})",
       &reregister},
      {"write",
       "Writes bytes into a region.",
       {{"mr", a_region}, {"offset", an_offset}, {"bytes", "bytes, at most 1900000"}},
       {{"length", "bytes"}},
       R"({"mr":4,"offset":16,"bytes":"c0ffee"})",
       R"({"length":3})",
       &write},
      {"read",
       "Returns bytes of a region, at most 1900000.",
       {{"mr", a_region}, {"offset", an_offset}, {"length", a_length}},
       {{"bytes", "bytes"}},
       R"({"mr":4,"offset":16,"length":4})",
       R"({"bytes":"c0ffee00"})",
       &read},
      {"fill",
       "Writes a pattern into a region.",
       {{"mr", a_region}, {"offset", an_offset}, {"length", a_length}, {"pattern", a_pattern}, {"value", a_value}},
       {{"length", "bytes"}},
       R"({"mr":4,"pattern":"random","value":7})",
       R"({"length":4096})",
       &fill},
      {"checksum",
       "Returns the CRC-32 of a region, as in zlib and IEEE 802.3.",
       {{"mr", a_region}, {"offset", an_offset}, {"length", a_length}},
       {{"crc32", "number"}, {"length", "bytes"}},
       R"({"mr":4})",
       R"({"crc32":3335331722,"length":4096})",
       &checksum},
      {"alloc_mw",
       "Allocates a memory window.",
       {{"pd", "handle of a protection domain"}, {"type", "optional number: 1 or 2 (default 1)"}},
       {{"mw", "handle"}, {"rkey", "number"}},
       R"({"pd":2})",
       R"({"mw":5,"rkey":2304})",
       &alloc_mw},
      {"bind_mw",
       "Binds a type 1 window with a QP, or unbinds it if `mr` is absent. Type 2 windows are bound with "
       "`post_send`.",
       {{"qp", "handle of a queue pair"},
        {"mw", "handle of a memory window"},
        {"mr", "optional handle of a memory region"},
        {"addr", "optional number: start of the window (the region's `addr`)"},
        {"length", "optional number: length in bytes (the region's)"},
        {"access", an_access},
        {"wr_id", "optional number (default 0)"},
        {"flags", "optional list of `signaled`, `fence`"}},
       {{"rkey", "number: the new rkey"}},
       R"({"qp":7,"mw":5,"mr":4,"access":["remote_write"],"flags":["signaled"]})",
       R"({"rkey":2305})",
       &bind_mw},
  };
  return all;
}

}  // namespace rdmawire::agent
