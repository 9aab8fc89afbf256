#include "dissectors/protocol/crc_kernels.hpp"

#include <isa-l.h>

#include <algorithm>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#if defined(__linux__) || defined(__FreeBSD__)
#include <sys/auxv.h>
#endif
#endif

#include "dissectors/protocol/crc.hpp"

namespace rdmawire {
namespace {

#if defined(__x86_64__)

bool has_clmul() {
  static const bool yes = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  return yes;
}

// Clears the upper halves of the vector registers, which ISA-L's kernels for AVX2 and AVX-512 leave in use. Until they
// are cleared, later SSE instructions are slow. See Intel's optimization manual, "Mixing AVX code with SSE code".
__attribute__((target("avx"))) void zero_upper_halves() { _mm256_zeroupper(); }
void clean_registers() {
  static const bool has_avx = __builtin_cpu_supports("avx");
  if (has_avx) zero_upper_halves();
}

#elif defined(__aarch64__)

// Bits of AT_HWCAP, which Linux's getauxval() and FreeBSD's elf_aux_info() return.
constexpr unsigned long hwcap_pmull = 1UL << 4, hwcap_crc32 = 1UL << 7, hwcap_cpuid = 1UL << 11;
unsigned long hwcap() {
  static const unsigned long bits = [] {
#if defined(__linux__)
    return getauxval(AT_HWCAP);
#elif defined(__FreeBSD__)
    unsigned long value = 0;
    return elf_aux_info(AT_HWCAP, &value, sizeof value) == 0 ? value : 0UL;
#elif defined(__ARM_FEATURE_AES) && defined(__ARM_FEATURE_CRC32)
    return hwcap_pmull | hwcap_crc32;  // the compiler's target already requires these instructions
#else
    return 0UL;
#endif
  }();
  return bits;
}
// Returns whether the processor is a Cortex-A57, a Cortex-A72 or a Neoverse N1. ISA-L does not use PMULL on these.
bool isal_avoids_pmull() {
#if defined(__linux__)
  if (!(hwcap() & hwcap_cpuid)) return false;
  std::uint64_t midr = 0;
  asm("mrs %0, midr_el1" : "=r"(midr));
  const std::uint64_t part = midr >> 4 & 0xfff;
  return midr >> 24 == 0x41 && (part == 0xd07 || part == 0xd08 || part == 0xd0c);
#else
  return false;
#endif
}
void clean_registers() {}

#else
void clean_registers() {}
#endif

}  // namespace

// The only calls of ISA-L. ISA-L selects the kernel at run time.
std::uint32_t crc32(Bytes bytes, std::uint32_t crc) {
  crc = crc32_gzip_refl(crc, bytes.data(), bytes.size());
  clean_registers();
  return crc;
}

std::uint32_t crc32c(Bytes bytes, std::uint32_t crc) {
  // The kernel's length parameter is an int, so longer input is processed in chunks. The kernel does not invert the
  // CRC.
  constexpr std::size_t chunk = 1U << 30;
  crc = ~crc;
  while (!bytes.empty()) {
    const std::size_t n = std::min(bytes.size(), chunk);
    crc = crc32_iscsi(const_cast<std::uint8_t*>(bytes.data()), static_cast<int>(n),
                      crc);  // the kernel only reads the bytes
    bytes = bytes.subspan(n);
  }
  clean_registers();
  return ~crc;
}

#if defined(__x86_64__)

namespace {
// Reduces a carry-less product of two 32-bit numbers, or a sum of such products, modulo the polynomial, by Barrett's
// method.
__attribute__((target("pclmul,sse4.1"))) inline std::uint32_t reduce(__m128i product) {
  const auto reflected = static_cast<std::uint64_t>(_mm_cvtsi128_si64(product)) << 1;
  auto low = [](__m128i v) { return _mm_cvtsi32_si128(_mm_cvtsi128_si32(v)); };
  const __m128i quotient =
      _mm_clmulepi64_si128(_mm_cvtsi32_si128(static_cast<int>(reflected)), _mm_set_epi64x(0, 0x1f7011641), 0);
  const __m128i multiple = _mm_clmulepi64_si128(low(quotient), _mm_set_epi64x(0, 0x1db710641), 0);
  return static_cast<std::uint32_t>(reflected >> 32) ^
         static_cast<std::uint32_t>(static_cast<std::uint64_t>(_mm_cvtsi128_si64(multiple)) >> 32);
}
__attribute__((target("pclmul,sse4.1"))) inline __m128i product(std::uint32_t a, std::uint32_t b) {
  return _mm_clmulepi64_si128(_mm_cvtsi32_si128(static_cast<int>(a)), _mm_cvtsi32_si128(static_cast<int>(b)), 0);
}
}  // namespace

bool carryless::available() { return has_clmul(); }

__attribute__((target("pclmul,sse4.1"))) std::uint32_t carryless::multiply(std::uint32_t a, std::uint32_t b) {
  return reduce(product(a, b));
}

// Adds the products first, so that only one reduction is needed.
__attribute__((target("pclmul,sse4.1"))) std::uint32_t carryless::sum_of_products(const std::uint32_t* a,
                                                                                  const std::uint32_t* b,
                                                                                  std::size_t count) {
  __m128i sum = _mm_setzero_si128();
  for (std::size_t i = 0; i < count; ++i) sum = _mm_xor_si128(sum, product(a[i], b[i]));
  return reduce(sum);
}

#elif defined(__aarch64__)

// gcc and clang use different attributes. clang declares the intrinsics only if the whole file is compiled for a
// processor with these instructions, so assembly replaces them.
#if defined(__clang__)
#define RDMAWIRE_TARGET_PMULL __attribute__((target("aes,crc")))
#else
#define RDMAWIRE_TARGET_PMULL __attribute__((target("+crypto+crc")))
#endif

namespace {
RDMAWIRE_TARGET_PMULL inline std::uint64_t product(std::uint32_t a, std::uint32_t b) {
  uint64x2_t result;
  asm("pmull %0.1q, %1.1d, %2.1d" : "=w"(result) : "w"(vcreate_u64(a)), "w"(vcreate_u64(b)));
  return vgetq_lane_u64(result, 0);
}
// Reduces a carry-less product of two 32-bit numbers, or a sum of such products, modulo the polynomial. CRC32W with an
// initial value of 0 multiplies its operand by x^32 modulo the polynomial.
RDMAWIRE_TARGET_PMULL inline std::uint32_t reduce(std::uint64_t product) {
  const std::uint64_t reflected = product << 1;
  std::uint32_t high_powers = 0;
  asm("crc32w %w0, wzr, %w1" : "=r"(high_powers) : "r"(static_cast<std::uint32_t>(reflected)));
  return high_powers ^ static_cast<std::uint32_t>(reflected >> 32);
}
}  // namespace

bool carryless::available() { return (hwcap() & hwcap_pmull) && (hwcap() & hwcap_crc32); }

RDMAWIRE_TARGET_PMULL std::uint32_t carryless::multiply(std::uint32_t a, std::uint32_t b) {
  return reduce(product(a, b));
}

// Adds the products first, so that only one reduction is needed.
RDMAWIRE_TARGET_PMULL std::uint32_t carryless::sum_of_products(const std::uint32_t* a, const std::uint32_t* b,
                                                               std::size_t count) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum ^= product(a[i], b[i]);
  return reduce(sum);
}

#else

bool carryless::available() { return false; }
std::uint32_t carryless::multiply(std::uint32_t, std::uint32_t) { return 0; }
std::uint32_t carryless::sum_of_products(const std::uint32_t*, const std::uint32_t*, std::size_t) { return 0; }

#endif

// ISA-L does not report the kernel that it selected. The conditions here are those of its dispatchers
// (include/multibinary.asm, crc/aarch64/crc_aarch64_dispatcher.c).
CrcKernels crc_kernels() {
  CrcKernels kernels{.crc32 = "ISA-L, tables",
                     .crc32c = "ISA-L, tables",
                     .vcrc = "tables of 8 bytes",
                     .icrc_mask = "masked copy of the headers"};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) kernels.crc32c = "ISA-L, CRC32 instructions";
  if (has_clmul()) {
    kernels.crc32 = "ISA-L, PCLMULQDQ, 128-bit registers";
    if (__builtin_cpu_supports("sse4.2")) kernels.crc32c = "ISA-L, CRC32 instructions and PCLMULQDQ";
    kernels.icrc_mask = "PCLMULQDQ";
  }
#if ISAL_VERSION >= ISAL_MAKE_VERSION(2, 32, 0)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq"))
    kernels.crc32 = kernels.crc32c = "ISA-L, VPCLMULQDQ, 256-bit registers";
#endif
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512vnni") &&
      __builtin_cpu_supports("avx512bitalg") && __builtin_cpu_supports("avx512vpopcntdq") &&
      __builtin_cpu_supports("gfni") && __builtin_cpu_supports("vpclmulqdq"))
    kernels.crc32 = kernels.crc32c = "ISA-L, VPCLMULQDQ, 512-bit registers";
#elif defined(__aarch64__)
  if (hwcap() & hwcap_pmull) kernels.crc32 = kernels.crc32c = "ISA-L, PMULL";
  if (carryless::available()) {
    kernels.crc32 = kernels.crc32c = "ISA-L, CRC32 instructions and PMULL";
    kernels.icrc_mask = "PMULL and CRC32 instructions";
  }
  if ((hwcap() & hwcap_crc32) && isal_avoids_pmull()) kernels.crc32 = kernels.crc32c = "ISA-L, CRC32 instructions";
#endif
  return kernels;
}

}  // namespace rdmawire
