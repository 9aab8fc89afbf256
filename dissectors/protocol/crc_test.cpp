#include "dissectors/protocol/crc.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <isa-l.h>
#endif

#include "dissectors/protocol/crc_kernels.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/icrc_cause.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/testing.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire {
namespace {

using rdmawire::testing::from_hex;

TEST(Crc, CheckValues) {
  const std::vector<std::uint8_t> check{'1', '2', '3', '4', '5', '6', '7', '8', '9'};
  EXPECT_EQ(crc32(check), 0xcbf43926U);
  EXPECT_EQ(crc32c(check), 0xe3069283U);
  EXPECT_EQ(crc32({}), 0U);
  EXPECT_EQ(crc32c({}), 0U);
}

TEST(Crc, FastImplementationsMatchReference) {
  std::mt19937 random(7);
  std::vector<std::uint8_t> bytes(700);
  for (auto& b : bytes) b = static_cast<std::uint8_t>(random());
  for (std::size_t n = 0; n <= bytes.size(); ++n) {
    const Bytes part = Bytes(bytes).first(n);
    ASSERT_EQ(crc32(part), plain::crc32(part)) << n;
    ASSERT_EQ(crc32c(part), plain::crc32c(part)) << n;
    ASSERT_EQ(crc16_vcrc(part), plain::crc16_vcrc(part)) << n;
    const std::size_t cut = n ? random() % n : 0;
    ASSERT_EQ(crc32(part.subspan(cut), crc32(part.first(cut))), crc32(part)) << n << " cut at " << cut;
    ASSERT_EQ(crc32c(part.subspan(cut), crc32c(part.first(cut))), crc32c(part)) << n << " cut at " << cut;
  }
}

TEST(Crc, CarrylessProductsEqualBitByBitProducts) {
  if (!carryless::available()) GTEST_SKIP() << "this processor has no carry-less multiplication";
  auto bit_by_bit = [](std::uint32_t a, std::uint32_t b) {
    std::uint32_t product = 0;
    for (std::uint32_t bit = 0x80000000; bit != 0; bit >>= 1) {
      if (a & bit) product ^= b;
      b = b & 1 ? b >> 1 ^ 0xedb88320 : b >> 1;
    }
    return product;
  };
  std::mt19937 random(3);
  std::uint32_t a[33], b[33], sum = 0;
  EXPECT_EQ(carryless::sum_of_products(a, b, 0), 0U);
  for (std::size_t i = 0; i < std::size(a); ++i) {
    a[i] = i < 32 ? 1U << i : ~0U;
    b[i] = static_cast<std::uint32_t>(random());
    EXPECT_EQ(carryless::multiply(a[i], b[i]), bit_by_bit(a[i], b[i])) << a[i] << " times " << b[i];
    sum ^= bit_by_bit(a[i], b[i]);
    EXPECT_EQ(carryless::sum_of_products(a, b, i + 1), sum) << i + 1;
  }
}

#if defined(__x86_64__)
// Returns the processor state components that are not in their initial state (XINUSE). Intel's manual, volume 1, 13.6.
std::uint64_t components_in_use() {
  std::uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
  return static_cast<std::uint64_t>(high) << 32 | low;
}
__attribute__((target("avx"))) void zero_upper_halves() { _mm256_zeroupper(); }
constexpr std::uint64_t upper_halves_256 = 1U << 2, upper_halves_512 = 1U << 6;

TEST(Crc, KernelsLeaveUpperVectorRegisterHalvesClean) {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__get_cpuid_count(0xd, 1, &eax, &ebx, &ecx, &edx) || !(eax & 1U << 2) || !__builtin_cpu_supports("avx"))
    GTEST_SKIP() << "this processor does not report the state components in use (XGETBV with ECX 1)";
  const std::vector<std::uint8_t> bytes(4096, 0x5a);
  zero_upper_halves();
  if (components_in_use() & (upper_halves_256 | upper_halves_512))
    GTEST_SKIP() << "this processor does not track the upper halves";
  for (const std::size_t n : {std::size_t{16}, std::size_t{300}, bytes.size()}) {
    crc32(Bytes(bytes).first(n));
    EXPECT_EQ(components_in_use() & (upper_halves_256 | upper_halves_512), 0U) << "crc32, " << n;
    crc32c(Bytes(bytes).first(n));
    EXPECT_EQ(components_in_use() & (upper_halves_256 | upper_halves_512), 0U) << "crc32c, " << n;
  }
  // Calls ISA-L directly, and compares the registers that its kernels use with the names that crc_kernels() returns.
  auto width = [] {
    const std::uint64_t used = components_in_use();
    return used & upper_halves_512 ? "512-bit" : used & upper_halves_256 ? "256-bit" : "";
  };
  crc32_gzip_refl(0, bytes.data(), bytes.size());
  EXPECT_THAT(crc_kernels().crc32, ::testing::HasSubstr(width()));
  zero_upper_halves();
  crc32_iscsi(const_cast<std::uint8_t*>(bytes.data()), static_cast<int>(bytes.size()), 0);
  EXPECT_THAT(crc_kernels().crc32c, ::testing::HasSubstr(width()));
  zero_upper_halves();
}
#endif

// The sample packet of IBTA vol 1, 7.8, without its VCRC. It is a local packet, and the variant field of its LRH is
// already masked (its first byte is 0xf0).
TEST(Icrc, SampleOfTheSpecification) {
  auto packet = from_hex(
      "f012375c000e17d20a202487ff87b1b3000dec2a01710a1c015d400238f27a050000000ebb884d85fd5cfba4728bc0690ed4"
      "0000");
  EXPECT_EQ(__builtin_bswap32(crc32(packet)), 0x9625b75aU);
}

struct Vector {
  const char* name;
  const char* frame;
  std::uint32_t icrc;
};
const Vector vectors[] = {
    {"RoCEv2 CNP",
     "e41d2dab2bc27cfe90643b32080045c2003c718c4000401191610a0011010a001201000012b7002800008100ffff400001180000000000000"
     "0"
     "0000000000000000000000000082fd002a",
     0x82fd002a},
    {"RoCEv1 RDMA WRITE Only",
     "7cfe90753cd87cfe90753cd889156020000000281b4000000000000000000000ffff0f00000200000000000000000000ffff0f0000020a70f"
     "f"
     "ff0000010a80a788bc000055d4c0726000000047b3000000050000000001000000e3d856bb",
     0xe3d856bb},
    {"RoCEv1 Acknowledge",
     "7cfe90753cd87cfe90753cd889156020000000141b4000000000000000000000ffff0f00000200000000000000000000ffff0f0000021140f"
     "f"
     "ff0000010900a788c00000000525f0c038",
     0x25f0c038},
    {"RoCEv2 RDMA READ Request",
     "000c29ae1ca4000c2989a2e508004500003cbe10400040118a4bc0a83881c0a83883df9412b7002800000c00ffff000000118054cb6300007"
     "f"
     "ee260fb000000002b80001000008c6154a",
     0x08c6154a},
};

TEST(Icrc, CapturedFramesAreGoodAndEveryDamagedByteIsDetected) {
  for (const Vector& v : vectors) {
    auto frame = from_hex(v.frame);
    HeaderStack stack = decode(frame);
    ASSERT_TRUE(stack.findings().empty()) << v.name;
    const CrcCheck check = check_icrc(stack);
    EXPECT_EQ(check.status, CrcCheck::Status::good) << v.name;
    EXPECT_EQ(check.value, v.icrc) << v.name;
    // Fields from the BTH's DestQP on are not masked.
    for (std::size_t i = stack.layers()[stack.transport].offset + 5; i < stack.icrc.offset; ++i) {
      frame[i] ^= 0x40;
      EXPECT_EQ(check_icrc(stack).status, CrcCheck::Status::bad) << v.name << " byte " << i;
      frame[i] ^= 0x40;
    }
  }
}

TEST(Icrc, VariantFieldsAreMasked) {
  auto frame = from_hex(vectors[3].frame);
  HeaderStack stack = decode(frame);
  const std::uint32_t ip = 14, udp = 34, bth = 42;
  for (std::uint32_t i : {ip + 1, ip + 8, ip + 10, ip + 11, udp + 6, udp + 7, bth + 4}) {
    frame[i] ^= 0xff;
    EXPECT_EQ(check_icrc(stack).status, CrcCheck::Status::good) << "byte " << i;
    frame[i] ^= 0xff;
  }
  for (std::uint32_t i : {ip + 4, ip + 6, ip + 12, ip + 19, udp, udp + 4, bth, bth + 5}) {
    frame[i] ^= 0x01;
    EXPECT_EQ(check_icrc(stack).status, CrcCheck::Status::bad) << "byte " << i;
    frame[i] ^= 0x01;
  }
}

TEST(Icrc, IcrcOfHeaderChangeMatchesRecomputation) {
  std::mt19937 random(11);
  for (const Vector& v : vectors) {
    const auto frame = from_hex(v.frame);
    const HeaderStack stack = decode(frame);
    const std::uint32_t from = stack.layers()[stack.network].offset;
    for (int round = 0; round < 500; ++round) {
      const std::uint32_t end = from + static_cast<std::uint32_t>(random() % (stack.icrc.offset - from + 1));
      auto after = frame;
      for (std::uint32_t at = from; at < end; ++at)
        if (random() % 4 == 0) after[at] ^= static_cast<std::uint8_t>(random());
      const std::uint32_t twice = plain::icrc_of_change(stack, after, end);
      ASSERT_EQ(icrc_of_change(stack, after, end), twice) << v.name << " round " << round;
    }
  }
}

TEST(Icrc, IcrcOfChangeBeforeLongPayload) {
  Frame frame = Value<Ethernet>() / Value<Ipv4>() / Value<Udp>() / Value<Bth>().set<"opcode">(0x04);
  for (const std::size_t byte_count : {std::size_t{0}, std::size_t{4096}, std::size_t{9000}, std::size_t{60'000}}) {
    frame.payload.assign(byte_count, 0x5a);
    const auto bytes = frame.encode();
    const HeaderStack stack = decode(bytes);
    auto after = bytes;
    constexpr std::uint32_t ip = 14, end = ip + 40;
    after[ip + 15] ^= 0x81;  // one byte of an address
    after[end - 1] ^= 0x01;  // the PSN's last byte
    const std::uint32_t twice = plain::icrc_of_change(stack, after, end);
    EXPECT_NE(twice, 0U);
    EXPECT_EQ(icrc_of_change(stack, after, end), twice) << byte_count;
  }
}

// The table of shift factors ends at 4224 bytes. compute_icrc() does not use it for longer packets.
TEST(Icrc, LengthsAroundTheEndOfTheTable) {
  Frame frame = Value<Ethernet>() / Value<Ipv4>() / Value<Udp>() / Value<Bth>().set<"opcode">(0x04);
  for (std::size_t byte_count = 4160; byte_count <= 4232; byte_count += 4) {
    frame.payload.assign(byte_count, 0x5a);
    for (std::size_t i = 0; i < byte_count; i += 7) frame.payload[i] = static_cast<std::uint8_t>(i);
    const auto bytes = frame.encode();
    for (std::uint32_t more = 0; more < 4; ++more) {
      const HeaderStack stack = decode(bytes);
      const std::uint32_t end = stack.icrc.offset + more;
      EXPECT_EQ(compute_icrc(stack, end), plain::compute_icrc(stack, end)) << byte_count << " + " << more;
    }
    const HeaderStack stack = decode(bytes);
    auto after = bytes;
    after[26] ^= 0x81;  // one byte of an address
    constexpr std::uint32_t changed_end = 30;
    EXPECT_EQ(icrc_of_change(stack, after, changed_end), plain::icrc_of_change(stack, after, changed_end))
        << byte_count;
    after[14 + byte_count] ^= 0x01;
    const auto end = static_cast<std::uint32_t>(15 + byte_count);
    EXPECT_EQ(icrc_of_change(stack, after, end), plain::icrc_of_change(stack, after, end)) << byte_count;
    // The change starts in the first word, which contains the IPv4 total length.
    after[17] ^= 0x01;
    for (std::uint32_t last = 14 + 4220; last <= 14 + 4228 && last <= stack.icrc.offset; last += 4) {
      after[last - 1] ^= 0x01;
      EXPECT_EQ(icrc_of_change(stack, after, last), plain::icrc_of_change(stack, after, last)) << byte_count;
    }
  }
}

TEST(Icrc, OverwrittenSourcePortIsFound) {
  for (const Vector& v : {vectors[0], vectors[3]}) {
    auto frame = from_hex(v.frame);
    const auto original = static_cast<std::uint16_t>(load_be<2>(frame.data() + 34));
    const HeaderStack stack = decode(frame);
    EXPECT_EQ(source_port_for_icrc(stack), std::nullopt) << "a good ICRC needs no explanation";
    for (unsigned port = 0; port < 65536; port += 251) {
      if (port == original) continue;
      store_be(frame.data() + 34, 2, port);
      EXPECT_EQ(source_port_for_icrc(stack), original) << v.name << " port " << port;
    }
    frame.back() ^= 1;
    frame[frame.size() - 3] ^= 0x10;
    EXPECT_NE(source_port_for_icrc(stack), original) << "the port is not the only change";
  }
}

TEST(Icrc, TruncatedPacketIsUnverifiable) {
  const auto frame = from_hex(vectors[3].frame);
  for (std::size_t n = 42; n < frame.size(); ++n) {
    HeaderStack stack;
    decode(stack, Bytes(frame).first(n), LinkType::ethernet, static_cast<std::uint32_t>(frame.size()));
    EXPECT_NE(check_icrc(stack).status, CrcCheck::Status::bad) << n;
    EXPECT_NE(check_icrc(stack).status, CrcCheck::Status::good) << n;
    EXPECT_TRUE(stack.cut) << n;
    // The capture contains no wire length, but the IP length shows that the packet is truncated.
    stack = decode(Bytes(frame).first(n));
    EXPECT_NE(check_icrc(stack).status, CrcCheck::Status::bad) << n;
    EXPECT_NE(check_icrc(stack).status, CrcCheck::Status::good) << n;
  }
}

TEST(Encode, CapturedFramesAreReencodedAndRecomputed) {
  for (const Vector& v : vectors) {
    const auto frame = from_hex(v.frame);
    Frame copy = Frame::of(decode(frame));
    EXPECT_EQ(copy.encode(), frame) << v.name;
    copy.forget_computed();
    EXPECT_EQ(copy.encode(), frame) << v.name;
  }
}

}  // namespace
}  // namespace rdmawire
