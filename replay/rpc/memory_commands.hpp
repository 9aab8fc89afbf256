#pragma once
/// Commands about memory regions and windows.

#include <span>

#include "replay/rpc/message.hpp"

namespace rdmawire::rpc {

/// Maximum number of bytes that one line contains in hexadecimal.
inline constexpr std::uint64_t most_bytes = 1'900'000;

/// A pattern that fills memory.
struct Filling {
  Choice<names::pattern> pattern = {};
  std::uint64_t value = 0;
  static const Structure& structure();
};

/// Write the pattern.
void fill(std::span<std::uint8_t> bytes, const Choice<names::pattern>& pattern, std::uint64_t value);

struct Register {
  PdHandle pd = {};
  std::uint64_t length = 0;
  Flags<names::access> access = {};
  std::optional<std::uint64_t> iova = {};
  std::optional<Filling> fill = {};
  struct Result {
    MrHandle mr = {};
    std::uint64_t addr = 0, length = 0;
    std::uint32_t lkey = 0, rkey = 0;
  };
  static const Command& command();
};

struct Reregister {
  MrHandle mr = {};
  std::optional<PdHandle> pd = {};
  std::optional<Flags<names::access>> access = {};
  struct Result {
    std::uint32_t lkey = 0, rkey = 0;
  };
  static const Command& command();
};

struct AllocMr {
  PdHandle pd = {};
  std::uint64_t length = 0;
  struct Result {
    MrHandle mr = {};
    std::uint64_t addr = 0;
    std::uint32_t rkey = 0;
  };
  static const Command& command();
};

struct Write {
  MrHandle mr = {};
  std::uint64_t offset = 0;
  ByteVector bytes = {};
  struct Result {
    std::uint64_t length = 0;
  };
  static const Command& command();
};

struct Read {
  MrHandle mr = {};
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length = {};
  struct Result {
    ByteVector bytes = {};
  };
  static const Command& command();
};

struct Fill {
  MrHandle mr = {};
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length = {};
  Choice<names::pattern> pattern = {};
  std::uint64_t value = 0;
  struct Result {
    std::uint64_t length = 0;
  };
  static const Command& command();
};

struct Checksum {
  MrHandle mr = {};
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length = {};
  struct Result {
    std::uint32_t crc32 = 0;
    std::uint64_t length = 0;
  };
  static const Command& command();
};

struct AllocMw {
  PdHandle pd = {};
  std::uint8_t type = 1;
  struct Result {
    MwHandle mw = {};
    std::uint32_t rkey = 0;
  };
  static const Command& command();
};

struct BindMw {
  QpHandle qp = {};
  MwHandle mw = {};
  std::optional<MrHandle> mr = {};
  std::optional<std::uint64_t> addr = {}, length = {};
  Flags<names::access> access = {};
  std::uint64_t wr_id = 0;
  Flags<names::send_flags> flags = {};
  struct Result {
    std::uint32_t rkey = 0;
  };
  static const Command& command();
};

}  // namespace rdmawire::rpc
