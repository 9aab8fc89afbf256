#include "captures/io/writer.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "captures/io/output_file.hpp"
#include "captures/io/sink.hpp"

namespace rdmawire::captures {

namespace {
using Kind = CaptureError::Kind;
constexpr std::size_t flush_at = 1024 * 1024;
constexpr std::uint32_t default_snap_length = Reader::usual_snap_length;
}  // namespace

struct Writer::State {
  std::string name;
  Format format = Format::pcapng;
  bool nanoseconds = true;
  bool repairable = false;  // a plain regular file, which can be truncated after its last complete record
  int descriptor = -1;
  std::optional<OutputFile> file;  // only with Options::complete_only. It is destroyed after the sink
  std::unique_ptr<Sink> sink;
  std::vector<std::uint8_t> buffer;
  struct End {
    std::size_t at;
    bool record;
  };
  std::vector<End> ends;  // where records and blocks end in the buffer
  std::uint64_t flushed = 0;
  std::uint64_t last_whole = 0;  // end of the last record that was flushed completely
  std::uint64_t records = 0;
  std::vector<LinkType> interfaces;
  std::uint32_t max_bytes = default_snap_length;  // maximum size of a record that readers of pcap accept
  bool header_written = false;                    // the header of pcap is written when the link type is known
  bool closed = false;
  std::optional<CaptureError> error;

  void put(const void* from, std::size_t count) {
    const auto* p = static_cast<const std::uint8_t*>(from);
    buffer.insert(buffer.end(), p, p + count);
  }
  void number(std::uint64_t value, unsigned count) {
    buffer.resize(buffer.size() + count);
    store_le(buffer.data() + buffer.size() - count, count, value);
  }
  void option(std::uint16_t code, Bytes value) {
    value = value.first(std::min<std::size_t>(value.size(), 0xffff));
    number(code, 2);
    number(value.size(), 2);
    put(value.data(), value.size());
    buffer.resize(buffer.size() + (4 - value.size() % 4) % 4);
  }
  void option(std::uint16_t code, std::string_view value) {
    option(code, Bytes(reinterpret_cast<const std::uint8_t*>(value.data()), value.size()));
  }
  void option(std::uint16_t code, std::uint64_t value, unsigned count) {
    number(code, 2);
    number(count, 2);
    number(value, count);
    buffer.resize(buffer.size() + (4 - count % 4) % 4);
  }
  void text_option(std::uint16_t code, const std::string& value) {
    if (!value.empty()) option(code, value);
  }
  std::size_t begin_block(std::uint32_t type) {
    const std::size_t begin = buffer.size();
    number(type, 4);
    number(0, 4);
    return begin;
  }
  void end_block(std::size_t begin, bool record = false) {
    const std::size_t total = buffer.size() - begin + 4;
    store_le(buffer.data() + begin + 4, 4, total);
    number(total, 4);
    ends.push_back({buffer.size(), record});
  }
  void section_header(const Section& section) {
    const std::size_t begin = begin_block(pcapng::section_header);
    number(pcapng::byte_order_magic, 4);
    number(1, 2);
    number(0, 2);
    number(~0ULL, 8);  // the section length is not specified
    for (const std::string& comment : section.comments) option(pcapng::opt_comment, comment);
    text_option(pcapng::shb_hardware, section.hardware);
    text_option(pcapng::shb_os, section.os);
    text_option(pcapng::shb_userappl, section.application);
    number(0, 4);  // opt_endofopt
    end_block(begin);
  }
  void interface_description(const Interface& interface) {
    const std::size_t begin = begin_block(pcapng::interface_description);
    number(static_cast<std::uint16_t>(interface.link), 2);
    number(0, 2);
    number(interface.snap_length, 4);
    for (const std::string& comment : interface.comments) option(pcapng::opt_comment, comment);
    text_option(pcapng::if_name, interface.name);
    text_option(pcapng::if_description, interface.description);
    option(pcapng::if_tsresol, nanoseconds ? 9 : 6, 1);
    if (!interface.filter.empty()) option(pcapng::if_filter, std::string(1, '\0') + interface.filter);
    text_option(pcapng::if_os, interface.os);
    if (interface.fcs_length) option(pcapng::if_fcslen, *interface.fcs_length, 1);
    text_option(pcapng::if_hardware, interface.hardware);
    number(0, 4);
    end_block(begin);
  }
  void pcap_header(const Interface& interface) {
    number(nanoseconds ? pcap::magic_nanoseconds : pcap::magic_microseconds, 4);
    number(2, 2);
    number(4, 2);
    number(0, 8);  // time zone and accuracy, which are always zero in practice
    number(interface.snap_length == 0 ? default_snap_length : interface.snap_length, 4);
    max_bytes = std::max(interface.snap_length, default_snap_length);
    std::uint32_t link = static_cast<std::uint16_t>(interface.link);
    if (interface.fcs_length) link |= 0x04000000u | static_cast<std::uint32_t>(*interface.fcs_length / 2) << 28;
    number(link, 4);
    ends.push_back({buffer.size(), false});
    header_written = true;
  }
  void time(std::int64_t nanoseconds_since) {
    const auto ticks = static_cast<std::uint64_t>(nanoseconds ? nanoseconds_since : nanoseconds_since / 1000);
    number(ticks >> 32, 4);
    number(ticks & 0xffffffff, 4);
  }

  CaptureError error_of(std::string what, std::string place) const {
    CaptureError e;
    e.kind = Kind::write;
    e.file = name;
    e.place = std::move(place);
    e.record = e.place.empty() ? 0 : records + 1;
    e.offset = flushed + buffer.size();
    e.what = std::move(what);
    e.follows = " after " + std::to_string(records) + (records == 1 ? " packet" : " packets");
    return e;
  }
  /// Rejects a record. The file is unchanged, and the caller can continue to write.
  [[nodiscard]] tl::unexpected<CaptureError> refuse(std::string what, std::string place = {}) const {
    CaptureError e = error_of(std::move(what), std::move(place));
    e.follows = "rejected" + e.follows;
    return tl::unexpected(std::move(e));
  }
  /// Ends writing after an I/O error.
  Result fail(std::string what) {
    CaptureError e = error_of(std::move(what), {});
    e.follows = "stopped" + e.follows;
    error = e;
    return tl::unexpected(std::move(e));
  }
  Result flush() { return flush(buffer.size()); }
  /// Writes the first `count` bytes of the buffer.
  Result flush(std::size_t count) {
    if (count == 0) return {};
    const std::uint64_t before = sink->written();
    const Sink::Result result = sink->write(Bytes(buffer).first(count));
    if (!result) {
      std::string what = "write error: " + result.error();
      if (repairable) {
        // Truncate the file after its last complete record, because an earlier flush may have written the start of the
        // next one.
        const std::uint64_t arrived = sink->written() - before;
        std::uint64_t whole = last_whole;
        for (const End& end : ends) {
          if (end.at <= arrived)
            whole = before + end.at;
          else if (end.record)
            --records;
        }
        if (::ftruncate(descriptor, static_cast<off_t>(whole)) == 0)
          what += ", the file was truncated after its last complete record at byte " + std::to_string(whole);
      }
      buffer.clear();
      ends.clear();
      return fail(std::move(what));
    }
    std::size_t gone = 0;
    while (gone < ends.size() && ends[gone].at <= count) last_whole = flushed + ends[gone++].at;
    ends.erase(ends.begin(), ends.begin() + static_cast<std::ptrdiff_t>(gone));
    for (End& end : ends) end.at -= count;
    buffer.erase(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(count));
    flushed += count;
    return {};
  }
  Result flush_when_large() {
    // Write aligned pieces, so that the page cache uses large folios. Mapped reading is then several times faster.
    return buffer.size() >= flush_at ? flush((flushed + buffer.size()) / flush_at * flush_at - flushed) : Result{};
  }
};

Writer::Writer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Writer::Writer(Writer&&) noexcept = default;
Writer& Writer::operator=(Writer&& other) noexcept {
  if (this != &other) {
    if (state_) (void)close();
    state_ = std::move(other.state_);
  }
  return *this;
}
Writer::~Writer() {
  if (state_) (void)close();
}

tl::expected<Writer, CaptureError> Writer::create(const std::string& path, const Options& options) {
  auto state = std::make_unique<State>();
  const Compression compression = options.compression.value_or(compression_of_name(path));
  std::string_view bare = path;
  if (bare.ends_with(".gz"))
    bare.remove_suffix(3);
  else if (bare.ends_with(".zst"))
    bare.remove_suffix(4);
  const bool named_pcap = bare.ends_with(".pcap") || bare.ends_with(".cap");
  state->format = options.format.value_or(named_pcap ? Format::pcap : Format::pcapng);
  state->nanoseconds = options.nanoseconds;
  bool owned = false;
  if (path == "-") {
    state->name = "standard output";
    state->descriptor = STDOUT_FILENO;
  } else if (options.complete_only) {
    state->name = path;
    auto file = OutputFile::create(path);
    if (!file) {
      CaptureError error;
      error.kind = Kind::write;
      error.what = file.error();
      return tl::unexpected(std::move(error));
    }
    state->file.emplace(std::move(*file));
    state->descriptor = state->file->descriptor();
  } else {
    state->name = path;
    state->descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (state->descriptor < 0) {
      CaptureError error;
      error.kind = Kind::write;
      error.file = path;
      error.what = std::string("cannot create: ") + std::strerror(errno);
      return tl::unexpected(std::move(error));
    }
    owned = true;
    struct stat status {};
    state->repairable =
        compression == Compression::none && ::fstat(state->descriptor, &status) == 0 && S_ISREG(status.st_mode);
  }
  state->sink = make_sink(state->descriptor, owned, compression, options.level);
  if (state->format == Format::pcapng) state->section_header(options.section);
  return Writer(std::move(state));
}

tl::expected<std::uint32_t, CaptureError> Writer::add_interface(const Interface& interface) {
  State& state = *state_;
  if (state.error) return tl::unexpected(*state.error);
  if (state.format == Format::pcapng) {
    state.interface_description(interface);
  } else if (state.interfaces.empty()) {
    state.pcap_header(interface);
  } else if (state.interfaces.front() != interface.link) {
    return state.refuse("link type " + std::to_string(static_cast<std::uint16_t>(interface.link)) +
                        " after link type " + std::to_string(static_cast<std::uint16_t>(state.interfaces.front())) +
                        ": a pcap file has a single link type, use pcapng");
  }
  state.interfaces.push_back(interface.link);
  if (const Result r = state.flush_when_large(); !r) return tl::unexpected(r.error());
  return static_cast<std::uint32_t>(state.interfaces.size() - 1);
}

Writer::Result Writer::write(const Record& record, std::span<const std::string_view> comments) {
  State& state = *state_;
  if (state.error) return tl::unexpected(*state.error);
  const auto place = [&] { return "record " + std::to_string(state.records + 1); };
  if (record.interface >= state.interfaces.size())
    return state.refuse("undefined interface " + std::to_string(record.interface) + " (" +
                            std::to_string(state.interfaces.size()) + " defined)",
                        place());
  if (record.time < 0) return state.refuse("times before 1970 are not supported", place());
  if (record.bytes.size() > Reader::max_record / 2)
    return state.refuse("length " + std::to_string(record.bytes.size()) + " exceeds the limit of " +
                            std::to_string(Reader::max_record / 2) + " bytes per record",
                        place());

  if (state.format == Format::pcap) {
    constexpr std::int64_t second = 1'000'000'000;
    if (record.time / second > 0xffffffff) return state.refuse("pcap does not support times after 2106", place());
    if (record.bytes.size() > state.max_bytes)
      return state.refuse("length " + std::to_string(record.bytes.size()) + " exceeds the limit of " +
                              std::to_string(state.max_bytes) + " bytes in the file header",
                          place());
    state.number(static_cast<std::uint64_t>(record.time / second), 4);
    state.number(static_cast<std::uint64_t>(record.time % second / (state.nanoseconds ? 1 : 1000)), 4);
    state.number(record.bytes.size(), 4);
    state.number(record.wire_length, 4);
    state.put(record.bytes.data(), record.bytes.size());
    state.ends.push_back({state.buffer.size(), true});
  } else {
    const std::size_t begin = state.begin_block(pcapng::enhanced_packet);
    state.number(record.interface, 4);
    state.time(record.time);
    state.number(record.bytes.size(), 4);
    state.number(record.wire_length, 4);
    state.put(record.bytes.data(), record.bytes.size());
    state.buffer.resize(state.buffer.size() + (4 - record.bytes.size() % 4) % 4);
    const std::size_t options_begin = state.buffer.size();
    BlockOptions options(record.options, record.options_swapped);
    BlockOptions::Option option{};
    while (options.next(option)) {
      const std::uint8_t* const p = option.value.data();
      const std::size_t size = option.value.size();
      const bool number = option.code == pcapng::epb_flags || option.code == pcapng::epb_dropcount ||
                          option.code == pcapng::epb_packetid || option.code == pcapng::epb_queue;
      // Convert numbers to the byte order of this file.
      if (number && size == 4)
        state.option(option.code, load<std::uint32_t>(p, record.options_swapped), 4);
      else if (number && size == 8)
        state.option(option.code, load<std::uint64_t>(p, record.options_swapped), 8);
      else
        state.option(option.code, option.value);
    }
    for (const std::string_view comment : comments) state.option(pcapng::opt_comment, comment);
    if (state.buffer.size() != options_begin) state.number(0, 4);
    state.end_block(begin, true);
  }
  ++state.records;
  return state.flush_when_large();
}

Writer::Result Writer::write(std::uint32_t interface, const InterfaceStatistics& statistics) {
  State& state = *state_;
  if (state.error) return tl::unexpected(*state.error);
  if (interface >= state.interfaces.size())
    return state.refuse("statistics of undefined interface " + std::to_string(interface) + " (" +
                        std::to_string(state.interfaces.size()) + " defined)");
  if (state.format == Format::pcap) return {};
  const std::size_t begin = state.begin_block(pcapng::interface_statistics);
  state.number(interface, 4);
  state.time(statistics.time);
  const auto time = [&](std::uint16_t code, const std::optional<std::int64_t>& value) {
    if (!value) return;
    state.number(code, 2);
    state.number(8, 2);
    state.time(*value);
  };
  const auto count = [&](std::uint16_t code, const std::optional<std::uint64_t>& value) {
    if (value) state.option(code, *value, 8);
  };
  time(pcapng::isb_starttime, statistics.start_time);
  time(pcapng::isb_endtime, statistics.end_time);
  count(pcapng::isb_ifrecv, statistics.received);
  count(pcapng::isb_ifdrop, statistics.interface_drops);
  count(pcapng::isb_filteraccept, statistics.filter_accepted);
  count(pcapng::isb_osdrop, statistics.system_drops);
  count(pcapng::isb_usrdeliv, statistics.delivered);
  state.number(0, 4);
  state.end_block(begin);
  return state.flush_when_large();
}

Writer::Result Writer::flush() {
  State& state = *state_;
  if (state.error) return tl::unexpected(*state.error);
  if (Result r = state.flush(); !r) return r;
  if (const Sink::Result r = state.sink->flush(); !r) return state.fail("write error: " + r.error());
  return {};
}

Writer::Result Writer::close() {
  State& state = *state_;
  if (std::exchange(state.closed, true)) return state.error ? Result(tl::unexpected(*state.error)) : Result{};
  // A pcap file without packets also needs a header, so that it can be read.
  if (!state.error && state.format == Format::pcap && !state.header_written) state.pcap_header(Interface{});
  Result result = state.error ? Result(tl::unexpected(*state.error)) : state.flush();
  const Sink::Result closed = state.sink->close();
  if (result && !closed) result = state.fail("close error: " + closed.error());
  if (state.file) {
    if (result)
      if (const auto named = state.file->commit(); !named) result = state.fail(named.error());
    state.file.reset();
  }
  return result;
}

Format Writer::format() const { return state_->format; }
std::uint64_t Writer::records() const { return state_->records; }
std::uint64_t Writer::bytes() const { return state_->flushed + state_->buffer.size(); }
std::uint64_t Writer::size() const { return state_->sink->written() + state_->buffer.size(); }

}  // namespace rdmawire::captures
