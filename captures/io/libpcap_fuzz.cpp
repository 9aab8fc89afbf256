/// Compares Reader with libpcap. The first byte of the input selects the file:
/// - even: the other bytes are the file. Records that both can read must be equal. Reader may reject a malformed file
/// or
///   record that libpcap accepts.
/// - odd: the other bytes select the contents of a well-formed file. Both must read all its records.

#include <pcap/pcap.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "captures/io/reader.hpp"

namespace {

using namespace rdmawire::captures;
using rdmawire::Bytes;

struct Closer {
  void operator()(pcap_t* file) const { pcap_close(file); }
};

std::unique_ptr<pcap_t, Closer> open_with_libpcap(Bytes file) {
  std::FILE* stream = ::fmemopen(const_cast<std::uint8_t*>(file.data()), file.size(), "rb");
  if (!stream) return nullptr;
  char message[PCAP_ERRBUF_SIZE];
  pcap_t* opened = pcap_fopen_offline_with_tstamp_precision(stream, PCAP_TSTAMP_PRECISION_NANO, message);
  if (!opened) std::fclose(stream);
  return std::unique_ptr<pcap_t, Closer>(opened);
}

void require(bool holds, const char* what, std::uint64_t record) {
  if (holds) return;
  std::fprintf(stderr, "record %llu: %s differs\n", static_cast<unsigned long long>(record), what);
  std::abort();
}

/// Returns whether the times are equal, except for known differences. libpcap treats the seconds in a pcap file as a
/// signed number, and its fraction of a second overflows. Reader limits times to ±farthest_time. The two round binary
/// units of pcapng differently.
bool same_time(std::int64_t ours, const timeval& theirs, Format format) {
  if (theirs.tv_usec < 0 || theirs.tv_usec >= 1'000'000'000) return true;
  const auto seconds =
      format == Format::pcap ? static_cast<std::uint32_t>(theirs.tv_sec) : static_cast<__int128>(theirs.tv_sec);
  const __int128 expected = static_cast<__int128>(seconds) * 1'000'000'000 + theirs.tv_usec;
  if (expected > rdmawire::farthest_time || expected < -rdmawire::farthest_time) return true;
  const __int128 difference = expected - ours;
  return difference >= -1 && difference <= 1;
}

/// Compares records until libpcap or Reader returns no more. Returns the number of equal records.
std::uint64_t compare(Reader& ours, pcap_t* theirs) {
  pcap_pkthdr* header = nullptr;
  const std::uint8_t* bytes = nullptr;
  Record record;
  while (pcap_next_ex(theirs, &header, &bytes) == 1) {
    const Next next = ours.next(record);
    if (next == Next::error) break;
    const std::uint64_t number = ours.records();
    require(next == Next::record, "number of records", number);
    require(record.wire_length == header->len, "length on the wire", number);
    // libpcap truncates a record that exceeds the file's snap length.
    const bool truncated =
        record.bytes.size() > header->caplen && static_cast<int>(header->caplen) == pcap_snapshot(theirs);
    require(record.bytes.size() == header->caplen || truncated, "captured length", number);
    require(std::memcmp(record.bytes.data(), bytes, header->caplen) == 0, "captured bytes", number);
    require(same_time(record.time, header->ts, ours.format()), "time", number);
  }
  return ours.records();
}

/// Builds a well-formed file from arbitrary bytes.
class File {
 public:
  explicit File(Bytes choices) : choices_(choices) {}

  std::vector<std::uint8_t> bytes;
  std::uint64_t records = 0;

  void make() {
    big_ = pick(2) != 0;
    if (pick(2) != 0)
      pcapng();
    else
      pcap();
  }

 private:
  static constexpr std::uint32_t snap_length = 65535;

  std::uint32_t pick(std::uint32_t limit) {
    if (at_ >= choices_.size()) return 0;
    return choices_[at_++] % limit;
  }
  std::uint32_t word() {
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) value = value << 8 | pick(256);
    return value;
  }
  void put(std::uint64_t value, unsigned size) {
    for (unsigned i = 0; i < size; ++i)
      bytes.push_back(static_cast<std::uint8_t>(value >> 8 * (big_ ? size - 1 - i : i)));
  }
  void payload(std::uint32_t size) {
    for (std::uint32_t i = 0; i < size; ++i) bytes.push_back(static_cast<std::uint8_t>(pick(256)));
  }

  void pcap() {
    const bool nanoseconds = pick(2) != 0;
    put(nanoseconds ? 0xa1b23c4d : 0xa1b2c3d4, 4);
    put(2, 2), put(4, 2), put(0, 4), put(0, 4), put(snap_length, 4), put(1, 4);
    while (at_ < choices_.size()) {
      const std::uint32_t size = pick(64);
      put(word() & 0x7fffffff, 4), put(word() % (nanoseconds ? 1'000'000'000U : 1'000'000U), 4);
      put(size, 4), put(size + pick(256), 4);
      payload(size);
      ++records;
    }
  }

  /// Appends a block of this type. `fill` appends its body.
  template <class Fill>
  void block(std::uint32_t type, Fill&& fill) {
    const std::size_t begin = bytes.size();
    put(type, 4), put(0, 4);
    fill();
    while (bytes.size() % 4 != 0) bytes.push_back(0);
    const std::uint64_t size = bytes.size() + 4 - begin;
    put(size, 4);
    const std::vector<std::uint8_t> length(bytes.end() - 4, bytes.end());
    std::copy(length.begin(), length.end(), bytes.begin() + static_cast<std::ptrdiff_t>(begin) + 4);
  }
  void option(std::uint32_t code, std::uint32_t size) {
    put(code, 2), put(size, 2), payload(size);
    while (bytes.size() % 4 != 0) bytes.push_back(0);
  }
  void options() {
    for (std::uint32_t left = pick(3); left > 0; --left) option(1, pick(16));
    if (pick(2) != 0) put(0, 4);
  }

  void pcapng() {
    block(0x0a0d0d0a, [&] { put(0x1a2b3c4d, 4), put(1, 2), put(0, 2), put(~0ULL, 8), options(); });
    block(1, [&] {
      put(1, 2), put(0, 2), put(snap_length, 4);
      // if_tsresol: units of 10^-n seconds. n is at most 9, because libpcap and rdmawire round finer times differently.
      if (const std::uint32_t digits = pick(10); digits != 0)
        put(9, 2), put(1, 2), bytes.push_back(static_cast<std::uint8_t>(digits)), bytes.resize(bytes.size() + 3);
      options();
    });
    while (at_ < choices_.size()) {
      switch (pick(6)) {
        case 0: block(4, [&] { put(0, 4), options(); }); break;                             // names
        case 1: block(0x40000bad, [&] { put(word(), 4), payload(pick(32)); }); break;       // custom
        case 2: block(5, [&] { put(0, 4), put(0, 4), put(word(), 4), options(); }); break;  // statistics
        case 3: block(0x80000000U | word(), [&] { payload(pick(32)); }); break;             // unknown
        default: {
          const std::uint32_t size = pick(64);
          block(6, [&] {
            put(0, 4), put(0, 4), put(word(), 4), put(size, 4), put(size + pick(256), 4), payload(size);
            while (bytes.size() % 4 != 0) bytes.push_back(0);
            options();
          });
          ++records;
        }
      }
    }
  }

  Bytes choices_;
  std::size_t at_ = 0;
  bool big_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const Bytes input(data + 1, size - 1);
  if (data[0] % 2 == 0) {
    const auto theirs = open_with_libpcap(input);
    auto ours = Reader::from_memory(input, "x");
    // Before version 2.4 (1998), the two lengths of a record had the opposite order, which Reader does not support.
    const bool old = theirs && pcap_minor_version(theirs.get()) < 4 && ours && ours->format() == Format::pcap;
    if (theirs && ours && !old) compare(*ours, theirs.get());
    return 0;
  }
  File file(input);
  file.make();
  const auto theirs = open_with_libpcap(file.bytes);
  auto ours = Reader::from_memory(file.bytes, "x");
  require(theirs && ours, "acceptance of the file", 0);
  require(compare(*ours, theirs.get()) == file.records, "number of records", file.records);
  Record record;
  require(ours->next(record) == Next::end, "end", file.records + 1);
  return 0;
}
