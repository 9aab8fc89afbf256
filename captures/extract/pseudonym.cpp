#include "captures/extract/pseudonym.hpp"

#include <algorithm>
#include <span>

namespace rdmawire::captures {
namespace {

/// Addresses whose first `length` bits are those of `bits`, which is left-aligned to the width of the kind.
struct Prefix {
  std::uint64_t bits;
  unsigned length;
};

// The pseudonym of an address is inside such a range if and only if the address is. IANA special-purpose address
// registries.
constexpr Prefix special_ipv4[] = {
    {0x00000000, 8},  // this network
    {0x0a000000, 8},  {0x64400000, 10}, {0x7f000000, 8}, {0xa9fe0000, 16},
    {0xac100000, 12}, {0xc0a80000, 16}, {0xe0000000, 4}, {0xf0000000, 4},
};
// IPv6 ranges, as the high halves of addresses.
constexpr Prefix special_prefix[] = {
    {0x0000000000000000, 64}, {0x20010db800000000, 32}, {0xfc00000000000000, 7},
    {0xfe80000000000000, 64}, {0xff00000000000000, 8},
};

constexpr std::uint64_t mac_flags = 0x03'0000'000000;  // flags "locally administered" and "group"
constexpr std::uint64_t identifier_flags = 0x03ULL << 56;

// Returns whether an EUI-64 contains a MAC address, according to the IEEE rule or to the Mellanox convention.
bool holds_mac(std::uint64_t identifier) {
  const std::uint64_t middle = identifier >> 24 & 0xffff;
  return middle == 0xfffe || middle == 0x0300;
}
std::uint64_t mac_in(std::uint64_t identifier) { return (identifier >> 40) << 24 | (identifier & 0xffffff); }

// Parses an IPv4 address at the start of the text. Returns its length in characters (0: there is none).
std::size_t ipv4_text(Bytes text, std::uint32_t& address) {
  std::size_t at = 0;
  address = 0;
  for (int part = 0; part < 4; ++part) {
    if (part && (at == text.size() || text[at++] != '.')) return 0;
    std::uint32_t number = 0;
    const std::size_t begin = at;
    for (; at < text.size() && at - begin < 3 && text[at] >= '0' && text[at] <= '9'; ++at)
      number = number * 10 + (text[at] - '0');
    if (at == begin || number > 255) return 0;
    address = address << 8 | number;
  }
  return at;
}

}  // namespace

SipKey Pseudonyms::key_of(Bytes secret) {
  return {siphash({0x7264'6d61'7769'7265, 1}, secret), siphash({0x7264'6d61'7769'7265, 2}, secret)};
}

// Inverts each bit depending on the key and the preceding bits: Jun Xu et al., "Prefix-Preserving IP Address
// Anonymization", 2002. Keeps the flags of a MAC address and of an EUI-64. The other bits do not depend on these flags,
// because an interface identifier is a MAC address with an inverted flag.
std::uint64_t Pseudonyms::turned(Kind kind, std::uint64_t address) const {
  const unsigned width = kind == Kind::ipv4 ? 32 : kind == Kind::mac ? 48 : kind == Kind::node ? 24 : 64;
  const std::uint64_t fixed = kind == Kind::mac ? mac_flags : kind == Kind::identifier ? identifier_flags : 0;
  const std::span<const Prefix> specials = kind == Kind::ipv4     ? std::span<const Prefix>(special_ipv4)
                                           : kind == Kind::prefix ? std::span<const Prefix>(special_prefix)
                                                                  : std::span<const Prefix>();
  const std::uint64_t plain = address & ~fixed;
  std::uint64_t result = address;
  for (unsigned i = 0; i < width; ++i) {
    const std::uint64_t bit = 1ULL << (width - 1 - i);
    if (fixed & bit) continue;
    const std::uint64_t before = i == 0 ? 0 : plain >> (width - i) << (width - i);
    const bool leads_to_special = std::any_of(specials.begin(), specials.end(), [&](const Prefix& special) {
      return special.length > i && (i == 0 || special.bits >> (width - i) == before >> (width - i));
    });
    if (leads_to_special) continue;
    std::uint8_t message[10] = {static_cast<std::uint8_t>(kind), static_cast<std::uint8_t>(i)};
    store_be(message + 2, 8, before);
    if (siphash(key_, message) & 1) result ^= bit;
  }
  return result;
}

std::uint64_t Pseudonyms::map(Kind kind, std::uint64_t address) {
  constexpr std::size_t most = 1 << 18;  // limits the memory. Entries that were removed are computed again
  auto& known = known_[static_cast<std::size_t>(kind)];
  if (const auto found = known.find(address); found != known.end()) return found->second;
  if (known.size() >= most) known.clear();
  return known[address] = turned(kind, address);
}

std::uint32_t Pseudonyms::ipv4(std::uint32_t address) {
  const std::uint32_t first = address >> 24;
  if (first == 0 || first == 127 || first >= 224) return address;
  return static_cast<std::uint32_t>(map(Kind::ipv4, address));
}

std::uint64_t Pseudonyms::mac(std::uint64_t address) {
  if (address >> 24 == 0x3333ff) return (address & ~0xffffffULL) | map(Kind::node, address & 0xffffff);
  if (address == 0 || address >> 40 & 1) return address;
  return map(Kind::mac, address);
}

std::uint64_t Pseudonyms::eui64(std::uint64_t identifier) {
  if (identifier == 0 || identifier == ~0ULL) return identifier;
  if (holds_mac(identifier)) {
    const std::uint64_t mapped = map(Kind::mac, mac_in(identifier));
    return mapped >> 24 << 40 | (identifier & 0xffff000000) | (mapped & 0xffffff);
  }
  // If the pseudonym has the form of an EUI-64 with a MAC address, map it again. Otherwise, it could equal the
  // pseudonym of such an identifier.
  do identifier = map(Kind::identifier, identifier);
  while (holds_mac(identifier));
  return identifier;
}

std::array<std::uint8_t, 16> Pseudonyms::ipv6(const std::uint8_t* address) {
  std::array<std::uint8_t, 16> result;
  std::copy_n(address, 16, result.begin());
  const std::uint64_t prefix = load_be<8>(address), identifier = load_be<8>(address + 8);
  const bool mapped = prefix == 0 && identifier >> 32 == 0xffff;
  // IPv4-compatible addresses, which RDMA-CM's private data uses for IPv4 addresses (::1 is loopback).
  const bool compatible = prefix == 0 && identifier >> 32 == 0 && identifier > 1;
  if (mapped || compatible) {
    store_be(result.data() + 12, 4, ipv4(static_cast<std::uint32_t>(identifier)));
  } else if (address[0] == 0xff) {
    // A solicited-node address ends with 24 bits of the host's address.
    if (address[11] == 0x01 && address[12] == 0xff)
      store_be(result.data() + 13, 3, map(Kind::node, identifier & 0xffffff));
  } else if (prefix != 0 || identifier > 1) {
    store_be(result.data(), 8, map(Kind::prefix, prefix));
    store_be(result.data() + 8, 8, eui64(identifier));
  }
  return result;
}

bool Pseudonyms::knows_identifier(std::uint64_t identifier) const {
  return holds_mac(identifier) ? knows(Kind::mac, mac_in(identifier)) : knows(Kind::identifier, identifier);
}

std::size_t Pseudonyms::replace_known(Bytes bytes, MutableBytes copy) {
  std::size_t found = 0;
  // Replaces a known address at `p`. Returns its length (0: there is none).
  auto replace = [&](const std::uint8_t* p, std::size_t left, std::uint8_t* to) -> std::size_t {
    if (left >= 16) {
      const std::uint64_t prefix = load_be<8>(p), identifier = load_be<8>(p + 8);
      const bool mapped = prefix == 0 && identifier >> 32 == 0xffff;
      if (mapped ? knows(Kind::ipv4, identifier & 0xffffffff)
                 : prefix != 0 && knows(Kind::prefix, prefix) && knows_identifier(identifier)) {
        const auto pseudonym = ipv6(p);
        std::copy(pseudonym.begin(), pseudonym.end(), to);
        return 16;
      }
    }
    // Values with a zero vendor prefix are ignored, because they are usually small numbers and not addresses.
    if (left >= 8 && load_be<3>(p) != 0 && knows_identifier(load_be<8>(p))) {
      store_be(to, 8, eui64(load_be<8>(p)));
      return 8;
    }
    if (left >= 6 && load_be<3>(p) != 0 && knows(Kind::mac, load_be<6>(p))) {
      store_be(to, 6, mac(load_be<6>(p)));
      return 6;
    }
    if (*p >= '0' && *p <= '9' && (p == bytes.data() || p[-1] < '0' || p[-1] > '9')) {
      std::uint32_t address = 0;
      const std::size_t length = ipv4_text({p, left}, address);
      if (length && knows(Kind::ipv4, address)) {
        std::fill_n(to, length, std::uint8_t{0});
        return length;
      }
    }
    return 0;
  };
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t length = replace(bytes.data() + at, bytes.size() - at, copy.data() + at);
    found += length != 0;
    at += std::max<std::size_t>(length, 1);
  }
  return found;
}

}  // namespace rdmawire::captures
