#pragma once
/// Reader of capture files: pcap and pcapng, plain or compressed, from a path, standard input or memory.
///
/// libpcap's reading interface lacks comments, the drop counts of Interface Statistics Blocks, several link types in
/// one file, offsets for error messages, and views into a mapped file. Reading a record costs a few nanoseconds
/// (compare with libpcap in reader_bench.cpp).
///
/// The formats: draft-ietf-opsawg-pcap (both byte orders, micro- and nanoseconds, Kuznetzov's modified form) and
/// draft-ietf-opsawg-pcapng.

#include <cstdint>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "captures/io/compression.hpp"
#include "captures/io/error.hpp"
#include "captures/io/record.hpp"
#include "dissectors/protocol/time.hpp"

namespace rdmawire::captures {

enum class Format : std::uint8_t { pcap, pcapng };
std::string_view to_string(Format format);

/// Result of next().
enum class Next : std::uint8_t {
  record,   ///< the record was filled
  end,      ///< the capture is complete
  error,    ///< the rest of the capture cannot be read, see error(). Earlier records are valid
  timeout,  ///< only in a live capture: no packet arrived within the time limit
};

/// Number of skipped pcapng blocks, by type.
struct SkippedBlocks {
  std::uint64_t name_resolution = 0;
  std::uint64_t decryption_secrets = 0;
  std::uint64_t custom = 0;
  std::uint64_t other = 0;
  friend bool operator==(const SkippedBlocks&, const SkippedBlocks&) = default;
};

/// Reads one capture sequentially. Memory does not grow with the file or with lengths claimed in the file: buffers grow
/// only with received bytes, up to `max_record`.
///
/// A plain regular file is mapped (see window.hpp about truncation while reading). A pipe, standard input or a
/// compressed file is read through a sliding buffer.
///
///   auto reader = Reader::open("x.pcap");
///   Record record;
///   while (reader->next(record) == Next::record) …
class Reader {
 public:
  /// Maximum size of a record or parsed block in bytes. A larger one is an error.
  static constexpr std::uint32_t max_record = 16 * 1024 * 1024;
  /// A pcap record of this size is accepted even if the file's snap length is smaller, because some file headers are
  /// wrong.
  static constexpr std::uint32_t usual_snap_length = 262144;
  static constexpr std::uint32_t max_interfaces = 65536;  ///< maximum per file, over all sections
  static constexpr std::uint64_t max_description =
      64 * 1024 * 1024;  ///< maximum total of section and interface blocks in bytes

  struct Options {
    bool map = true;  ///< map plain regular files (false: always read them through the buffer)
  };

  /// Opens a file, or standard input for "-". Returns an error if the file is missing, a directory, not accessible,
  /// empty or of an unknown format, or if its header or compression is malformed.
  static tl::expected<Reader, CaptureError> open(const std::string& path, Options options);
  static tl::expected<Reader, CaptureError> open(const std::string& path) { return open(path, Options{}); }
  /// Reads `memory`, which must outlive the reader. Error messages contain `name`. If Options::map is false, reads
  /// through the buffer, like a pipe.
  static tl::expected<Reader, CaptureError> from_memory(Bytes memory, std::string name, Options options);
  static tl::expected<Reader, CaptureError> from_memory(Bytes memory, std::string name = "memory") {
    return from_memory(memory, std::move(name), Options{});
  }

  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;
  ~Reader();

  /// Fills `record` with the next packet. After the end or an error, further calls return the same result.
  Next next(Record& record);
  /// Returns the error after next() returned Next::error.
  [[nodiscard]] const CaptureError& error() const;

  /// Number of records that were read.
  [[nodiscard]] std::uint64_t records() const { return records_; }
  /// Number of bytes of the (decompressed) file that were read.
  [[nodiscard]] std::uint64_t position() const { return bias_ + reinterpret_cast<std::uintptr_t>(at_); }
  /// Size of the file on disk or in memory in bytes (0: a pipe).
  [[nodiscard]] std::uint64_t file_size() const;
  /// Returns whether Record::bytes remain valid after the next call of next().
  [[nodiscard]] bool stable() const;
  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] Format format() const;
  [[nodiscard]] Compression compression() const;
  /// Returns whether times are finer than microseconds. The magic number of a pcap file shows this. A pcapng file has
  /// finer times if any interface so far has them.
  [[nodiscard]] bool nanoseconds() const;

  /// Descriptions that were read so far. Later parts of a pcapng file may add interfaces and statistics. References are
  /// valid until the next call of next().
  [[nodiscard]] const std::vector<Interface>& interfaces() const;
  [[nodiscard]] const std::vector<Section>& sections() const;
  [[nodiscard]] const SkippedBlocks& skipped() const;

 private:
  /// Converts an interface's ticks to nanoseconds, and contains properties of the interface that records need.
  struct Clock {
    enum class Scale : std::uint8_t { multiply, divide, binary };
    std::uint64_t factor;
    std::int64_t offset;  ///< offset in nanoseconds
    Scale scale;
    LinkType link;
    std::uint32_t snap_length;
    [[nodiscard]] std::int64_t nanoseconds(std::uint64_t ticks) const;
  };
  struct Rest;

  explicit Reader(std::unique_ptr<Rest> rest);
  static tl::expected<Reader, CaptureError> begin(std::unique_ptr<Rest> rest);
  Next next_slow(Record& record);
  Next slow_pcap(Record& record);
  Next slow_pcapng(Record& record);
  bool read_section_header();
  bool read_interface(Bytes block);
  bool read_statistics(Bytes block);
  bool read_packet(Bytes block, std::uint32_t type, Record& record);
  bool begin_file();
  std::size_t ensure(std::size_t need);
  bool skip(std::uint64_t count);
  Next fail(CaptureError::Kind kind, std::string place, std::string what);
  Next fail_record(CaptureError::Kind kind, std::string what);
  // The start of the next record is known only after the length of this record was loaded, which takes one memory
  // latency per record. Prefetching memory far ahead hides the latency. Each cache line is prefetched once.
  static void fetch_ahead(const std::uint8_t* from, std::uint32_t bytes) {
    constexpr std::uint32_t ahead = 4096, line = 64;
    for (std::uint32_t i = 0; i < bytes; i += line) __builtin_prefetch(from + ahead + i);
  }
  void finish_record(const std::uint8_t* begin, Record& record) {
    record.number = ++records_;
    record.position = bias_ + reinterpret_cast<std::uintptr_t>(begin);
  }

  // Members that the fast path uses.
  const std::uint8_t* at_ = nullptr;
  const std::uint8_t* limit_ = nullptr;
  std::uint64_t bias_ = 0;  ///< offset in the file minus address
  std::uint64_t records_ = 0;
  enum class Hot : std::uint8_t { none, pcap, pcapng } hot_ = Hot::none;
  bool swapped_ = false;
  LinkType link_ = LinkType::ethernet;  ///< pcap
  std::uint32_t fraction_ = 1;          ///< pcap: unit of the fractional part of timestamps in nanoseconds
  std::uint32_t record_header_ = 16;    ///< pcap
  std::uint32_t snap_length_ = 0;       ///< pcap: longer records take the slow path
  const Clock* clocks_ = nullptr;       ///< pcapng: clocks of the interfaces in this section
  std::uint32_t clock_count_ = 0;
  std::uint32_t first_interface_ = 0;  ///< pcapng: index of the first interface in this section
  std::unique_ptr<Rest> rest_;
};

inline std::int64_t Reader::Clock::nanoseconds(std::uint64_t ticks) const {
  constexpr std::uint64_t largest = INT64_MAX;
  std::uint64_t value = 0;
  if (scale == Scale::multiply) {
    if (__builtin_mul_overflow(ticks, factor, &value) || value > largest) value = largest;
  } else if (scale == Scale::divide) {
    value = factor == 0 ? 0 : ticks / factor;
    if (value > largest) value = largest;
  } else {
    __extension__ using Wide = unsigned __int128;
    const Wide wide = static_cast<Wide>(ticks) * 1'000'000'000u >> factor;
    value = wide > largest ? largest : static_cast<std::uint64_t>(wide);
  }
  std::int64_t sum = 0;
  if (__builtin_add_overflow(static_cast<std::int64_t>(value), offset, &sum))
    return offset < 0 ? -farthest_time : farthest_time;
  return bounded_time(sum);
}

inline Next Reader::next(Record& record) {
  const std::uint8_t* const p = at_;
  const auto left = static_cast<std::size_t>(limit_ - p);
  if (hot_ == Hot::pcap) {
    if (left >= record_header_) [[likely]] {
      const auto captured = load<std::uint32_t>(p + 8, swapped_);
      // Records of length 0 take the slow path. They are rare. If the file is truncated while it is read, pages become
      // zeros, which look like such records.
      if (captured - 1 < snap_length_ && captured <= left - record_header_) [[likely]] {
        record.bytes = {p + record_header_, captured};
        record.time = static_cast<std::int64_t>(std::uint64_t{load<std::uint32_t>(p, swapped_)} * 1'000'000'000u +
                                                std::uint64_t{load<std::uint32_t>(p + 4, swapped_)} * fraction_);
        record.wire_length = load<std::uint32_t>(p + 12, swapped_);
        record.options = {};
        record.interface = 0;
        record.link = link_;
        finish_record(p, record);
        at_ = p + record_header_ + captured;
        fetch_ahead(p, record_header_ + captured);
        return Next::record;
      }
    }
  } else if (hot_ == Hot::pcapng) {
    if (left >= 32 && load<std::uint32_t>(p, swapped_) == pcapng::enhanced_packet) [[likely]] {
      const auto total = load<std::uint32_t>(p + 4, swapped_);
      const auto index = load<std::uint32_t>(p + 8, swapped_);
      const auto captured = load<std::uint32_t>(p + 20, swapped_);
      if (total >= 32 && total % 4 == 0 && total <= left && total <= max_record && captured <= total - 32 &&
          index < clock_count_ && load<std::uint32_t>(p + total - 4, swapped_) == total) [[likely]] {
        const Clock& clock = clocks_[index];
        const std::uint32_t padded = pcapng::pad4(captured);
        record.bytes = {p + 28, captured};
        record.time = clock.nanoseconds(std::uint64_t{load<std::uint32_t>(p + 12, swapped_)} << 32 |
                                        load<std::uint32_t>(p + 16, swapped_));
        record.wire_length = load<std::uint32_t>(p + 24, swapped_);
        record.options = {p + 28 + padded, total - 32 - padded};
        record.options_swapped = swapped_;
        record.interface = first_interface_ + index;
        record.link = clock.link;
        finish_record(p, record);
        at_ = p + total;
        fetch_ahead(p, total);
        return Next::record;
      }
    }
  }
  return next_slow(record);
}

}  // namespace rdmawire::captures
