#include "dissectors/protocol/crc.hpp"

#include <bit>
#include <vector>

#include "dissectors/protocol/crc_kernels.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire {

namespace {

// Slicing-by-8: table[k][b] is the CRC of byte b followed by k zero bytes.
constexpr auto vcrc_tables = [] {
  std::array<std::array<std::uint16_t, 256>, 8> t{};
  for (unsigned b = 0; b < 256; ++b) {
    std::uint16_t crc = static_cast<std::uint16_t>(b);
    for (int i = 0; i < 8; ++i) crc = static_cast<std::uint16_t>(crc & 1 ? crc >> 1 ^ 0xd008 : crc >> 1);
    t[0][b] = crc;
  }
  for (unsigned k = 1; k < 8; ++k)
    for (unsigned b = 0; b < 256; ++b)
      t[k][b] = static_cast<std::uint16_t>(t[k - 1][b] >> 8 ^ t[0][t[k - 1][b] & 0xff]);
  return t;
}();

}  // namespace

std::uint16_t crc16_vcrc(Bytes bytes) {
  std::uint16_t crc = 0xffff;
  const auto& t = vcrc_tables;
  while (bytes.size() >= 8) {
    const std::uint8_t* p = bytes.data();
    crc = static_cast<std::uint16_t>(t[7][p[0] ^ (crc & 0xff)] ^ t[6][p[1] ^ (crc >> 8)] ^ t[5][p[2]] ^ t[4][p[3]] ^
                                     t[3][p[4]] ^ t[2][p[5]] ^ t[1][p[6]] ^ t[0][p[7]]);
    bytes = bytes.subspan(8);
  }
  for (std::uint8_t b : bytes) crc = static_cast<std::uint16_t>(crc >> 8 ^ t[0][(crc ^ b) & 0xff]);
  return static_cast<std::uint16_t>(~crc);
}

namespace plain {
namespace {
template <class T>
T reflected(Bytes bytes, T polynomial, T crc) {
  for (std::uint8_t b : bytes) {
    crc = static_cast<T>(crc ^ b);
    for (int i = 0; i < 8; ++i) crc = static_cast<T>(crc & 1 ? crc >> 1 ^ polynomial : crc >> 1);
  }
  return crc;
}
}  // namespace
std::uint32_t crc32(Bytes bytes, std::uint32_t crc) { return ~reflected<std::uint32_t>(bytes, 0xedb88320, ~crc); }
std::uint32_t crc32c(Bytes bytes, std::uint32_t crc) { return ~reflected<std::uint32_t>(bytes, 0x82f63b78, ~crc); }
std::uint16_t crc16_vcrc(Bytes bytes) {
  return static_cast<std::uint16_t>(~reflected<std::uint16_t>(bytes, 0xd008, 0xffff));
}
}  // namespace plain

std::string_view to_string(CrcCheck::Status status) {
  switch (status) {
    case CrcCheck::Status::absent: return "absent";
    case CrcCheck::Status::good: return "good";
    case CrcCheck::Status::bad: return "bad";
    case CrcCheck::Status::unverifiable: return "unverifiable";
  }
  return "?";
}

namespace {

// The first bytes of the ICRC's input: eight bytes of ones in place of the LRH (RoCE), then the headers up to the BTH
// with their variant fields set to ones. The remaining input is the unchanged packet.
class MaskedPrefix {
 public:
  void ones(std::size_t n) {
    std::memset(bytes_ + size_, 0xff, n);
    size_ += n;
  }
  std::uint8_t* copy(const std::uint8_t* from, std::size_t n) {
    std::uint8_t* at = bytes_ + size_;
    std::memcpy(at, from, n);
    size_ += n;
    return at;
  }
  [[nodiscard]] Bytes bytes() const { return {bytes_, size_}; }

 private:
  std::uint8_t bytes_[8 + 40 + 12];  // maximum: RoCEv1 (8 bytes of ones, GRH, BTH)
  std::size_t size_ = 0;
};

void mask_bth(std::uint8_t* bth) { bth[4] = 0xff; }  // FECN, BECN and the adjacent reserved bits
void mask_ipv6_or_grh(std::uint8_t* header) {
  header[0] |= 0x0f;  // masks traffic class, flow label and hop limit, but not the version
  header[1] = header[2] = header[3] = 0xff;
  header[7] = 0xff;
}

}  // namespace

std::uint32_t plain::compute_icrc(const HeaderStack& stack, std::uint32_t end) {
  if (end == 0) end = stack.icrc.offset;
  const std::uint8_t* packet = stack.bytes.data();
  const auto layers = stack.layers();
  const std::uint32_t bth_at = layers[stack.transport].offset;
  MaskedPrefix prefix;
  std::uint32_t at = bth_at;

  if (stack.wire == Wire::roce_v2) {
    prefix.ones(8);
    const Layer& ip = layers[stack.network];
    const std::uint32_t udp_at = bth_at - info<Udp>.size, ip_end = ip.offset + ip.header->size;
    std::uint8_t* h = prefix.copy(packet + ip.offset, ip.header->size);
    if (ip.header == &info<Ipv4>) {
      h[1] = 0xff;           // type of service
      h[8] = 0xff;           // time to live
      h[10] = h[11] = 0xff;  // checksum
    } else {
      mask_ipv6_or_grh(h);
    }
    // The CRC covers IP options and extension headers without masking.
    const std::uint32_t crc = crc32({packet + ip_end, udp_at - ip_end}, crc32(prefix.bytes()));
    MaskedPrefix rest;
    std::uint8_t* udp = rest.copy(packet + udp_at, info<Udp>.size + info<Bth>.size);
    udp[6] = udp[7] = 0xff;
    mask_bth(udp + info<Udp>.size);
    at = bth_at + info<Bth>.size;
    return crc32({packet + at, end - at}, crc32(rest.bytes(), crc));
  }

  const bool with_grh = stack.network != HeaderStack::none && layers[stack.network].header == &info<Grh>;
  if (stack.wire == Wire::infiniband) {
    // Starts with the first LRH. The CRC does not cover the layers of the capture format before it.
    for (const Layer& layer : layers)
      if (layer.header == &info<Lrh>) {
        if (with_grh) {
          prefix.ones(info<Lrh>.size);  // routers change the whole LRH
        } else {
          prefix.copy(packet + layer.offset, info<Lrh>.size)[0] |= 0xf0;  // the virtual lane
        }
        break;
      }
  } else {
    prefix.ones(8);
  }
  if (with_grh) mask_ipv6_or_grh(prefix.copy(packet + layers[stack.network].offset, info<Grh>.size));
  mask_bth(prefix.copy(packet + bth_at, info<Bth>.size));
  at = bth_at + info<Bth>.size;
  return crc32({packet + at, end - at}, crc32(prefix.bytes()));
}

namespace {

// Masks without a copy. A CRC is linear over GF(2): the CRC of the masked packet is the CRC of the unmasked packet XOR
// the CRC of the bits that the mask flips. The library computes the former. The flipped bits are in few bytes before
// the end of the BTH, so their CRC needs only a few table look-ups, and one multiplication modulo the polynomial that
// shifts it over the bytes after the BTH.

constexpr std::uint32_t polynomial = 0xedb88320;  // reflected
constexpr std::uint32_t times_x8(std::uint32_t crc) {
  for (int i = 0; i < 8; ++i) crc = crc & 1 ? crc >> 1 ^ polynomial : crc >> 1;
  return crc;
}

// contribution[p][b]: the CRC of byte b followed by p zero bytes. The largest p is the distance from the first byte of
// an IPv6 header to the end of the BTH.
constexpr std::size_t masked_reach = 60;
constexpr auto contribution = [] {
  std::array<std::array<std::uint32_t, 256>, masked_reach> t{};
  for (std::uint32_t b = 0; b < 256; ++b) t[0][b] = times_x8(b);
  for (std::size_t p = 1; p < masked_reach; ++p)
    for (std::size_t b = 0; b < 256; ++b) t[p][b] = t[p - 1][b] >> 8 ^ t[0][t[p - 1][b] & 0xff];
  return t;
}();

// shift[n]: x^(8n), the factor of a CRC that is followed by n bytes. The largest n covers a path MTU of 4096 bytes with
// all headers.
constexpr std::size_t shift_reach = 4096 + 128;
constexpr auto shift = [] {
  std::array<std::uint32_t, shift_reach> t{};
  t[0] = 0x80000000;  // 1
  for (std::size_t n = 1; n < shift_reach; ++n) t[n] = t[n - 1] >> 8 ^ contribution[0][t[n - 1] & 0xff];
  return t;
}();

// Returns a * b modulo the polynomial. Computes bit by bit.
constexpr std::uint32_t multiply_slowly(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = 0x80000000; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = b & 1 ? b >> 1 ^ polynomial : b >> 1;
  }
  return product;
}
// Returns `crc` after `bytes` more zero bytes.
std::uint32_t shifted(std::uint32_t crc, std::uint64_t bytes) {
  for (; bytes >= shift_reach; bytes -= shift_reach - 1) crc = multiply_slowly(crc, shift[shift_reach - 1]);
  return carryless::available() ? carryless::multiply(crc, shift[bytes]) : multiply_slowly(crc, shift[bytes]);
}

const std::uint32_t after_eight_ones = [] {
  constexpr std::uint8_t ones[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  return crc32(ones);
}();

}  // namespace

std::uint32_t compute_icrc(const HeaderStack& stack, std::uint32_t end) {
  if (end == 0) end = stack.icrc.offset;
  const auto layers = stack.layers();
  const std::uint32_t bth_end = layers[stack.transport].offset + Bth::size;
  if (end - bth_end >= shift_reach || !carryless::available()) return plain::compute_icrc(stack, end);

  const std::uint8_t* past = stack.bytes.data() + bth_end;  // offsets of masked bytes count back from here
  std::uint32_t flips = 0;
  auto mask = [&](std::uint32_t back, std::uint8_t bits = 0xff) {
    flips ^= contribution[back - 1][static_cast<std::uint8_t>(~*(past - back) & bits)];
  };
  constexpr std::uint32_t bth = Bth::size;
  mask(bth - 4);
  auto mask_ipv6_or_grh_at = [&](std::uint32_t back) {
    mask(back, 0x0f);
    mask(back - 1);
    mask(back - 2);
    mask(back - 3);
    mask(back - 7);
  };
  std::uint32_t from = 0;
  const Layer* network = stack.network == HeaderStack::none ? nullptr : &layers[stack.network];
  if (stack.wire == Wire::roce_v2) {
    constexpr std::uint32_t udp = bth + Udp::size;
    mask(udp - 6);
    mask(udp - 7);
    from = network->offset;
    if (bth_end - from == udp + Ipv4::size && network->header == &info<Ipv4>) {
      constexpr std::uint32_t ip = udp + Ipv4::size;
      mask(ip - 1);
      mask(ip - 8);
      mask(ip - 10);
      mask(ip - 11);
    } else if (bth_end - from == udp + Ipv6::size && network->header == &info<Ipv6>) {
      mask_ipv6_or_grh_at(udp + Ipv6::size);
    } else {
      return plain::compute_icrc(stack, end);  // the packet has IP options or extension headers
    }
  } else if (network && network->header == &info<Grh> && bth_end - network->offset == bth + Grh::size) {
    mask_ipv6_or_grh_at(bth + Grh::size);
    from = network->offset;
  } else {
    return plain::compute_icrc(stack, end);
  }
  return crc32(stack.bytes.subspan(from, end - from), after_eight_ones) ^
         carryless::multiply(flips, shift[end - bth_end]);
}

namespace {

// Words that differ between two packets: the XOR of each, and the CRC factor for its distance to the end of the CRC.
struct ChangedWords {
  static constexpr std::size_t most = 96;
  std::size_t count = 0;
  std::uint32_t word[most], factor[most];

  // Finds the words. Omits masked fields: headers consist of whole words, so each masked byte has a fixed position in
  // its word. Returns false if more than `most` words differ.
  bool find(const HeaderStack& stack, Bytes after, std::uint32_t end, std::uint32_t crc_end) {
    const auto layers = stack.layers();
    const std::uint32_t from = layers[stack.network].offset, bth = layers[stack.transport].offset;
    const bool v4 = layers[stack.network].header == &info<Ipv4>;
    const std::uint32_t udp_checksum = stack.wire == Wire::roce_v2 ? bth - 4 : 0;
    for (std::uint32_t at = from; at < end; at += 4) {
      std::uint32_t a = 0, b = 0;
      std::memcpy(&a, stack.bytes.data() + at, 4);
      std::memcpy(&b, after.data() + at, 4);
      if (a == b) continue;
      std::uint32_t x = a ^ b;
      if constexpr (std::endian::native == std::endian::big) x = __builtin_bswap32(x);
      // Masks: the low byte of a word is the first in the packet.
      if (at == from) x &= v4 ? 0xffff00ff : 0x000000f0;
      if (at == from + 4 && !v4) x &= 0x00ffffff;
      if (at == from + 8 && v4) x &= 0x0000ff00;
      if (at == udp_checksum) x &= 0x0000ffff;
      if (at == bth + 4) x &= 0xffffff00;
      if (count == most) return false;
      word[count] = x;
      factor[count++] = shift[crc_end - at];
    }
    return true;
  }
};

}  // namespace

std::uint32_t icrc_of_change(const HeaderStack& stack, Bytes after, std::uint32_t end) {
  const std::uint32_t from = stack.layers()[stack.network].offset, icrc = stack.icrc.offset;
  end = std::min(from + ((std::max(end, from) - from + 3) & ~3U), icrc);
  // The CRC covers the packet up to the ICRC or, if the ICRC is too far away for the table, up to the end of the
  // change.
  const bool near = icrc - from < shift_reach;
  const std::uint32_t crc_end = near ? icrc : end;
  ChangedWords words;
  if ((end - from) % 4 != 0 || crc_end - from >= shift_reach || !words.find(stack, after, end, crc_end))
    return plain::icrc_of_change(stack, after, end);
  std::uint32_t crc = 0;
  if (carryless::available())
    crc = carryless::sum_of_products(words.word, words.factor, words.count);
  else
    for (std::size_t i = 0; i < words.count; ++i) crc ^= multiply_slowly(words.word[i], words.factor[i]);
  return near ? crc : shifted(crc, icrc - end);
}

std::uint32_t plain::icrc_of_change(const HeaderStack& stack, Bytes after, std::uint32_t end) {
  std::vector<std::uint8_t> changed(stack.bytes.begin(), stack.bytes.end());
  const std::uint32_t from = stack.layers()[stack.network].offset;
  std::copy(after.begin() + from, after.begin() + std::max(from, end), changed.begin() + from);
  HeaderStack then = stack;
  then.bytes = changed;
  return plain::compute_icrc(stack) ^ plain::compute_icrc(then);
}

CrcCheck check_icrc(const HeaderStack& stack) {
  if (stack.wire == Wire::none || stack.wire == Wire::iwarp || stack.transport == HeaderStack::none) return {};
  if (stack.icrc.length == 0)
    return {stack.cut || stack.fragment ? CrcCheck::Status::unverifiable : CrcCheck::Status::absent, 0, 0};
  const std::uint32_t value = load_icrc(stack.bytes.data() + stack.icrc.offset);
  // A CRC-32 is sent low byte first, so the wire order is byte-swapped.
  const std::uint32_t computed = __builtin_bswap32(compute_icrc(stack));
  return {value == computed ? CrcCheck::Status::good : CrcCheck::Status::bad, value, computed};
}

std::uint16_t compute_vcrc(const HeaderStack& stack) {
  for (const Layer& layer : stack.layers())
    if (layer.header == &info<Lrh>)
      return crc16_vcrc(stack.bytes.subspan(layer.offset, stack.vcrc.offset - layer.offset));
  return 0;
}

CrcCheck check_vcrc(const HeaderStack& stack) {
  if (stack.wire == Wire::roce_v2 || !stack.find(info<Lrh>)) return {};
  if (stack.vcrc.length == 0) return {stack.cut ? CrcCheck::Status::unverifiable : CrcCheck::Status::absent, 0, 0};
  const auto value = static_cast<std::uint16_t>(load_be<2>(stack.bytes.data() + stack.vcrc.offset));
  const std::uint16_t computed = __builtin_bswap16(compute_vcrc(stack));
  return {value == computed ? CrcCheck::Status::good : CrcCheck::Status::bad, value, computed};
}

}  // namespace rdmawire
