#include "captures/io/reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "captures/io/interrupt.hpp"
#include "captures/io/window.hpp"

namespace rdmawire::captures {

using Kind = CaptureError::Kind;

/// Members that the fast path does not use.
struct Reader::Rest {
  std::string name;
  std::unique_ptr<Window> window;
  Format format = Format::pcap;
  Compression compression = Compression::none;
  std::uint64_t file_size = 0;
  bool nanoseconds = false;
  std::vector<Interface> interfaces;
  std::vector<Section> sections;
  std::vector<Clock> clocks;  // one entry per interface
  SkippedBlocks skipped;
  std::uint64_t description_bytes = 0;
  std::optional<Next> over;
  CaptureError error;
};

namespace {

std::string number(std::uint64_t value) { return std::to_string(value); }

std::string block_name(std::uint32_t type) {
  switch (type) {
    case pcapng::section_header: return "Section Header Block";
    case pcapng::interface_description: return "Interface Description Block";
    case pcapng::name_resolution: return "Name Resolution Block";
    case pcapng::interface_statistics: return "Interface Statistics Block";
    case pcapng::decryption_secrets: return "Decryption Secrets Block";
    case pcapng::custom_copied:
    case pcapng::custom_not_copied: return "Custom Block";
    default: return "block of type " + number(type);
  }
}
bool is_packet(std::uint32_t type) {
  return type == pcapng::enhanced_packet || type == pcapng::simple_packet || type == pcapng::packet;
}

std::string text(Bytes value) { return {reinterpret_cast<const char*>(value.data()), value.size()}; }

/// Describes the format of an unsupported file (empty if it is unknown).
std::string_view familiar(Bytes beginning) {
  struct Known {
    std::string_view magic, what;
  };
  static constexpr std::array known{
      Known{"BZh", "a bzip2 file: decompress it first"},
      Known{std::string_view("\xfd"
                             "7zXZ\0",
                             6),
            "an xz file: decompress it first"},
      Known{"\x04\x22\x4d\x18", "an lz4 file: decompress it first"},
      Known{std::string_view("PK\x03\x04", 4), "a zip file: unpack it first"},
      Known{std::string_view("snoop\0\0\0", 8), "a snoop capture: convert it with editcap -F pcapng"},
      Known{"GMBU", "a Network Monitor capture: convert it with editcap -F pcapng"},
      Known{"\x7f"
            "ELF",
            "an ELF file"},
      Known{"<?xml", "an XML file"},
      Known{"{", "a JSON or text file"},
  };
  const std::string_view bytes(reinterpret_cast<const char*>(beginning.data()), beginning.size());
  for (const Known& k : known)
    if (bytes.starts_with(k.magic)) return k.what;
  return {};
}

std::string hex(Bytes bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (const std::uint8_t b : bytes) {
    if (!out.empty()) out += ' ';
    out += digits[b >> 4];
    out += digits[b & 15];
  }
  return out;
}

enum class Magic { none, pcap, pcapng };
Magic detect_format(Bytes beginning) {
  if (beginning.size() < 4) return Magic::none;
  const auto little = static_cast<std::uint32_t>(load_le(beginning.data(), 4));
  const auto big = static_cast<std::uint32_t>(load_be(beginning.data(), 4));
  if (little == pcapng::section_header) return Magic::pcapng;
  for (const std::uint32_t magic : {pcap::magic_microseconds, pcap::magic_nanoseconds, pcap::magic_modified})
    if (little == magic || big == magic) return Magic::pcap;
  return Magic::none;
}

constexpr bool machine_is_big = std::endian::native == std::endian::big;

CaptureError file_error(Kind kind, std::string file, std::string what, std::string follows = {}) {
  CaptureError error;
  error.kind = kind;
  error.file = std::move(file);
  error.what = std::move(what);
  error.follows = std::move(follows);
  return error;
}

/// Converts a LINKTYPE number. Also accepts the DLT numbers of raw IP, which some files contain.
LinkType link_type(std::uint32_t number_in_file) {
  constexpr std::uint32_t dlt_raw = 12, dlt_raw_openbsd = 14;
  if (number_in_file == dlt_raw || number_in_file == dlt_raw_openbsd) return LinkType::raw_ip;
  return static_cast<LinkType>(number_in_file);
}

/// Opens a file. If there is an InterruptScope, does not wait for the writer of a FIFO: reading will wait for it.
int open_descriptor(const std::string& path) {
  struct stat status {};
  if (!InterruptScope::active() || ::stat(path.c_str(), &status) != 0 || !S_ISFIFO(status.st_mode))
    return ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor >= 0) static_cast<void>(::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) & ~O_NONBLOCK));
  return descriptor;
}

std::unique_ptr<Stream> decompressed(std::unique_ptr<Stream> stream, Compression compression) {
  switch (compression) {
    case Compression::gzip: return gzip_stream(std::move(stream));
    case Compression::zstd: return zstd_stream(std::move(stream));
    case Compression::none: break;
  }
  return stream;
}

}  // namespace

std::string_view to_string(Format format) { return format == Format::pcap ? "pcap" : "pcapng"; }

Reader::Reader(std::unique_ptr<Rest> rest) : rest_(std::move(rest)) {}
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;
Reader::~Reader() = default;

const CaptureError& Reader::error() const { return rest_->error; }
std::uint64_t Reader::file_size() const { return rest_->file_size; }
bool Reader::stable() const { return rest_->window->stable(); }
const std::string& Reader::name() const { return rest_->name; }
Format Reader::format() const { return rest_->format; }
Compression Reader::compression() const { return rest_->compression; }
bool Reader::nanoseconds() const { return rest_->nanoseconds; }
const std::vector<Interface>& Reader::interfaces() const { return rest_->interfaces; }
const std::vector<Section>& Reader::sections() const { return rest_->sections; }
const SkippedBlocks& Reader::skipped() const { return rest_->skipped; }

// ---------------------------------------------------------------------------------------------------------- opening

tl::expected<Reader, CaptureError> Reader::open(const std::string& path, Options options) {
  auto rest = std::make_unique<Rest>();
  std::unique_ptr<Stream> stream;
  if (path == "-") {
    rest->name = "standard input";
    stream = descriptor_stream(STDIN_FILENO, false);
  } else {
    rest->name = path;
    const int descriptor = open_descriptor(path);
    if (descriptor < 0) {
      const std::string_view hint =
          errno == EACCES ? "check the file permissions (captures made by root are often private)" : "";
      return tl::unexpected(
          file_error(Kind::unreadable, path, std::string("cannot open: ") + std::strerror(errno), std::string(hint)));
    }
    stream = descriptor_stream(descriptor, true);
    struct stat status {};
    if (::fstat(descriptor, &status) == 0) {
      if (S_ISDIR(status.st_mode))
        return tl::unexpected(file_error(Kind::unreadable, path, "is a directory", "specify a capture file in it"));
      if (S_ISREG(status.st_mode)) {
        rest->file_size = static_cast<std::uint64_t>(status.st_size);
        std::array<std::uint8_t, 4> first{};
        if (options.map && ::pread(descriptor, first.data(), first.size(), 0) == static_cast<ssize_t>(first.size()) &&
            detect_format(first) != Magic::none) {
          const int duplicate = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
          if (duplicate >= 0) {
            rest->window = mapped_window(duplicate, rest->file_size);
            if (!rest->window) ::close(duplicate);
          }
        }
      }
    }
  }
  if (rest->window) return begin(std::move(rest));

  auto peeked = std::make_unique<PeekedStream>(std::move(stream));
  rest->compression = detect_compression(peeked->beginning());
  rest->window = stream_window(decompressed(std::move(peeked), rest->compression));
  return begin(std::move(rest));
}

tl::expected<Reader, CaptureError> Reader::from_memory(Bytes memory, std::string name, Options options) {
  auto rest = std::make_unique<Rest>();
  rest->name = std::move(name);
  rest->file_size = memory.size();
  rest->compression = detect_compression(memory);
  if (rest->compression == Compression::none && options.map)
    rest->window = memory_window(memory);
  else
    rest->window = stream_window(decompressed(memory_stream(memory), rest->compression));
  return begin(std::move(rest));
}

tl::expected<Reader, CaptureError> Reader::begin(std::unique_ptr<Rest> rest) {
  Reader reader(std::move(rest));
  if (!reader.begin_file()) {
    if (!reader.rest_->error.place.empty()) reader.rest_->error.follows = "nothing was read";
    return tl::unexpected(std::move(reader.rest_->error));
  }
  return reader;
}

bool Reader::begin_file() {
  Rest& rest = *rest_;
  rest.window->fill(at_, limit_, pcap::file_header);
  bias_ = 0 - reinterpret_cast<std::uintptr_t>(at_);
  const Bytes beginning(at_, static_cast<std::size_t>(limit_ - at_));
  const Magic magic = detect_format(beginning);
  if (magic == Magic::none) {
    if (const auto error = rest.window->error()) {
      rest.error = file_error(error->kind, rest.name, error->what);
    } else if (beginning.empty()) {
      rest.error = file_error(Kind::empty, rest.name,
                              rest.compression == Compression::none ? "is empty: a capture has at least a file header"
                                                                    : "is empty after decompression");
    } else {
      const std::string_view known = familiar(beginning);
      const std::string what = known.empty() ? "neither pcap nor pcapng: it starts with " +
                                                   hex(beginning.first(std::min<std::size_t>(beginning.size(), 8)))
                                             : "neither pcap nor pcapng: it looks like " + std::string(known);
      rest.error = file_error(Kind::unknown_format, rest.name, what);
    }
    return false;
  }
  if (magic == Magic::pcapng) {
    rest.format = Format::pcapng;
    return read_section_header();
  }

  rest.format = Format::pcap;
  if (beginning.size() < pcap::file_header) {
    fail(Kind::truncated, "file header", "the file ends after " + number(beginning.size()) + " of its 24 bytes");
    return false;
  }
  const auto native = load<std::uint32_t>(at_, false);
  swapped_ = native != pcap::magic_microseconds && native != pcap::magic_nanoseconds && native != pcap::magic_modified;
  const auto kind = load<std::uint32_t>(at_, swapped_);
  const auto major = load<std::uint16_t>(at_ + 4, swapped_);
  if (major != 2) {
    fail(Kind::malformed, "file header",
         "unsupported version " + number(major) + "." + number(load<std::uint16_t>(at_ + 6, swapped_)) +
             " (supported: 2.4)");
    return false;
  }
  rest.nanoseconds = kind == pcap::magic_nanoseconds;
  fraction_ = rest.nanoseconds ? 1 : 1000;
  record_header_ = kind == pcap::magic_modified ? pcap::modified_record_header : pcap::record_header;

  Interface interface;
  interface.snap_length = load<std::uint32_t>(at_ + 16, swapped_);
  interface.resolution = rest.nanoseconds ? 9 : 6;
  // The upper half may contain the length of the frame check sequence in units of 16 bits. draft-ietf-opsawg-pcap, 4.
  const auto link = load<std::uint32_t>(at_ + 20, swapped_);
  constexpr std::uint32_t fcs_present = 0x04000000;
  if (link & fcs_present) interface.fcs_length = static_cast<std::uint8_t>((link >> 28) * 2);
  interface.link = link_ = link_type(link & 0xffff);
  snap_length_ = interface.snap_length == 0 ? usual_snap_length : std::min(interface.snap_length, max_record);
  rest.interfaces.push_back(std::move(interface));
  rest.sections.push_back({});
  rest.sections.back().big_endian = swapped_ != machine_is_big;
  at_ += pcap::file_header;
  hot_ = Hot::pcap;
  return true;
}

// ---------------------------------------------------------------------------------------------------------- reading

std::size_t Reader::ensure(std::size_t need) {
  const auto have = static_cast<std::size_t>(limit_ - at_);
  if (have >= need) return have;
  const std::uint64_t offset = position();
  rest_->window->fill(at_, limit_, need);
  bias_ = offset - reinterpret_cast<std::uintptr_t>(at_);
  return static_cast<std::size_t>(limit_ - at_);
}

bool Reader::skip(std::uint64_t count) {
  while (count > 0) {
    const std::size_t have = std::min<std::uint64_t>(ensure(1), count);
    if (have == 0) return false;
    at_ += have;
    count -= have;
  }
  return true;
}

Next Reader::fail(Kind kind, std::string place, std::string what) {
  Rest& rest = *rest_;
  const std::uint64_t offset = position();
  // If the input has an error (the file was truncated while reading, or its stream is corrupt), this is the cause of
  // the format error, so report it instead.
  if (auto error = rest.window->error()) {
    kind = error->kind;
    what = std::move(error->what);
  } else if (rest.compression != Compression::none) {
    constexpr std::uint64_t worth_looking = 64 * 1024 * 1024;
    rest.window->drain(worth_looking);
    at_ = limit_ = nullptr;
    bias_ = offset;
    if (error = rest.window->error(); error) {
      kind = error->kind;
      what += ": " + error->what;
    }
  }
  rest.error.kind = kind;
  rest.error.file = rest.name;
  rest.error.place = std::move(place);
  rest.error.offset = offset;
  rest.error.what = std::move(what);
  rest.error.follows = "stopped after " + number(records_) + (records_ == 1 ? " packet" : " packets");
  if (kind == Kind::truncated && rest.window->grown())
    rest.error.follows += ", but the file has grown since it was opened: read it again, or through a pipe";
  hot_ = Hot::none;
  rest.over = Next::error;
  return Next::error;
}

Next Reader::fail_record(Kind kind, std::string what) {
  rest_->error.record = records_ + 1;
  return fail(kind, "record " + number(records_ + 1), std::move(what));
}

Next Reader::next_slow(Record& record) {
  if (rest_->over) return *rest_->over;
  return rest_->format == Format::pcap ? slow_pcap(record) : slow_pcapng(record);
}

Next Reader::slow_pcap(Record& record) {
  std::size_t have = ensure(record_header_);
  if (have == 0 && !rest_->window->error()) {
    hot_ = Hot::none;
    rest_->over = Next::end;
    return Next::end;
  }
  if (have < record_header_)
    return fail_record(Kind::truncated, "the file ends after " + number(have) + " of the " + number(record_header_) +
                                            " bytes of the record header");
  const auto captured = load<std::uint32_t>(at_ + 8, swapped_);
  const std::uint32_t snap = rest_->interfaces[0].snap_length;
  const std::string exceeds = "length " + number(captured) + " exceeds the file's snap length " + number(snap);
  if (captured > snap_length_ && captured > usual_snap_length)
    return fail_record(Kind::malformed, snap == 0 || captured <= snap
                                            ? "length " + number(captured) + " exceeds the limit of " +
                                                  number(snap_length_) + " bytes per record"
                                            : exceeds);
  const std::size_t whole = std::size_t{record_header_} + captured;
  have = ensure(whole);
  if (have < whole) {
    if (captured > snap_length_) return fail_record(Kind::malformed, exceeds);
    return fail_record(Kind::truncated,
                       "the file ends after " + number(have) + " of the record's " + number(whole) + " bytes");
  }
  if (captured > snap_length_) {
    // Either the snap length in the file header or the length of the record is wrong. The next record shows which one.
    have = ensure(whole + record_header_);
    if (have > whole) {
      const std::uint8_t* const following = at_ + whole;
      const bool plausible = have >= whole + record_header_ &&
                             load<std::uint32_t>(following + 4, swapped_) < 1'000'000'000u / fraction_ &&
                             load<std::uint32_t>(following + 8, swapped_) <= usual_snap_length;
      if (!plausible) return fail_record(Kind::malformed, exceeds);
    }
  }
  if (captured == 0)
    if (const auto error = rest_->window->error()) return fail_record(error->kind, error->what);

  record.bytes = {at_ + record_header_, captured};
  record.time = static_cast<std::int64_t>(std::uint64_t{load<std::uint32_t>(at_, swapped_)} * 1'000'000'000u +
                                          std::uint64_t{load<std::uint32_t>(at_ + 4, swapped_)} * fraction_);
  record.wire_length = load<std::uint32_t>(at_ + 12, swapped_);
  record.options = {};
  record.interface = 0;
  record.link = link_;
  finish_record(at_, record);
  at_ += whole;
  return Next::record;
}

Next Reader::slow_pcapng(Record& record) {
  Rest& rest = *rest_;
  for (;;) {
    std::size_t have = ensure(pcapng::block_frame);
    if (have == 0 && !rest.window->error()) {
      hot_ = Hot::none;
      rest.over = Next::end;
      return Next::end;
    }
    if (have < pcapng::block_frame) {
      const std::string what = "the file ends after " + number(have) + " bytes of a block of at least 12 bytes";
      return have >= 4 && !is_packet(load<std::uint32_t>(at_, swapped_))
                 ? fail(Kind::truncated, block_name(load<std::uint32_t>(at_, swapped_)), what)
                 : fail_record(Kind::truncated, what);
    }
    const auto type = load<std::uint32_t>(at_, swapped_);
    if (type == pcapng::section_header) {
      if (!read_section_header()) return Next::error;
      continue;
    }
    const auto total = load<std::uint32_t>(at_ + 4, swapped_);
    const bool packet = is_packet(type);
    const auto wrong = [&](Kind kind, std::string what) {
      return packet ? fail_record(kind, std::move(what)) : fail(kind, block_name(type), std::move(what));
    };
    if (total < pcapng::block_frame || total % 4 != 0)
      return wrong(Kind::malformed, "total length " + number(total) + " is less than 12 or not a multiple of 4");

    if (packet || type == pcapng::interface_description || type == pcapng::interface_statistics) {
      if (total > max_record)
        return wrong(Kind::limit, "total length " + number(total) + " exceeds the limit of " + number(max_record) +
                                      " bytes per block");
      have = ensure(total);
      if (have < total)
        return wrong(Kind::truncated,
                     "the file ends after " + number(have) + " of the block's " + number(total) + " bytes");
      const auto repeated = load<std::uint32_t>(at_ + total - 4, swapped_);
      if (repeated != total)
        return wrong(Kind::malformed, "total length " + number(total) + " at the start of the block, " +
                                          number(repeated) + " at its end");
      const Bytes block(at_, total);
      if (packet) {
        if (!read_packet(block, type, record)) return Next::error;
        at_ += total;
        return Next::record;
      }
      if (type == pcapng::interface_description ? !read_interface(block) : !read_statistics(block)) return Next::error;
      at_ += total;
      continue;
    }

    // Skips the block without buffering it. Errors contain the position at which the block starts.
    const std::uint64_t begin = position();
    const auto wrong_skip = [&](Kind kind, std::string what) {
      fail(kind, block_name(type), std::move(what));
      rest.error.offset = begin;
      return Next::error;
    };
    if (!skip(total - 4) || ensure(4) < 4)
      return wrong_skip(Kind::truncated, "the file ends after " + number(position() + (limit_ - at_) - begin) +
                                             " of the block's " + number(total) + " bytes");
    const auto repeated = load<std::uint32_t>(at_, swapped_);
    if (repeated != total)
      return wrong_skip(Kind::malformed, "total length " + number(total) + " at the start of the block, " +
                                             number(repeated) + " at its end");
    at_ += 4;
    switch (type) {
      case pcapng::name_resolution: ++rest.skipped.name_resolution; break;
      case pcapng::decryption_secrets: ++rest.skipped.decryption_secrets; break;
      case pcapng::custom_copied:
      case pcapng::custom_not_copied: ++rest.skipped.custom; break;
      default: ++rest.skipped.other; break;
    }
  }
}

bool Reader::read_section_header() {
  Rest& rest = *rest_;
  const std::string place = block_name(pcapng::section_header);
  constexpr std::uint32_t smallest = 28;
  const auto wrong = [&](Kind kind, std::string what) {
    fail(kind, place, std::move(what));
    return false;
  };
  std::size_t have = ensure(smallest);
  if (have < smallest)
    return wrong(Kind::truncated, "the file ends after " + number(have) + " bytes of a block of at least 28 bytes");
  const auto magic = load<std::uint32_t>(at_ + 8, false);
  const bool other = __builtin_bswap32(magic) == pcapng::byte_order_magic;
  if (magic != pcapng::byte_order_magic && !other)
    return wrong(Kind::malformed, "invalid byte-order magic " + hex({at_ + 8, 4}));
  swapped_ = other;
  const auto total = load<std::uint32_t>(at_ + 4, swapped_);
  if (total < smallest || total % 4 != 0)
    return wrong(Kind::malformed, "total length " + number(total) + " is less than 28 or not a multiple of 4");
  if (total > max_record)
    return wrong(Kind::limit,
                 "total length " + number(total) + " exceeds the limit of " + number(max_record) + " bytes per block");
  have = ensure(total);
  if (have < total)
    return wrong(Kind::truncated,
                 "the file ends after " + number(have) + " of the block's " + number(total) + " bytes");
  const auto repeated = load<std::uint32_t>(at_ + total - 4, swapped_);
  if (repeated != total)
    return wrong(Kind::malformed,
                 "total length " + number(total) + " at the start of the block, " + number(repeated) + " at its end");
  const auto major = load<std::uint16_t>(at_ + 12, swapped_);
  if (major != 1)
    return wrong(Kind::malformed, "unsupported version " + number(major) + "." +
                                      number(load<std::uint16_t>(at_ + 14, swapped_)) + " (supported: 1.0)");
  rest.description_bytes += total;
  if (rest.sections.size() >= max_interfaces || rest.description_bytes > max_description)
    return wrong(Kind::limit, "more than " + number(max_interfaces) + " sections, or 64 MiB of descriptions");

  Section section;
  section.big_endian = swapped_ != machine_is_big;
  section.position = position();
  BlockOptions options({at_ + 24, total - smallest}, swapped_);
  BlockOptions::Option option{};
  while (options.next(option)) {
    switch (option.code) {
      case pcapng::opt_comment: section.comments.push_back(text(option.value)); break;
      case pcapng::shb_hardware: section.hardware = text(option.value); break;
      case pcapng::shb_os: section.os = text(option.value); break;
      case pcapng::shb_userappl: section.application = text(option.value); break;
      default: break;
    }
  }
  rest.sections.push_back(std::move(section));
  first_interface_ = static_cast<std::uint32_t>(rest.interfaces.size());
  clocks_ = nullptr;
  clock_count_ = 0;
  at_ += total;
  hot_ = Hot::pcapng;
  return true;
}

bool Reader::read_interface(Bytes block) {
  Rest& rest = *rest_;
  const std::string place = block_name(pcapng::interface_description);
  if (block.size() < 20) {
    fail(Kind::malformed, place, "total length " + number(block.size()) + " is less than 20");
    return false;
  }
  rest.description_bytes += block.size();
  if (rest.interfaces.size() >= max_interfaces || rest.description_bytes > max_description) {
    fail(Kind::limit, place, "more than " + number(max_interfaces) + " interfaces, or 64 MiB of descriptions");
    return false;
  }
  Interface interface;
  interface.link = link_type(load<std::uint16_t>(block.data() + 8, swapped_));
  interface.snap_length = load<std::uint32_t>(block.data() + 12, swapped_);
  interface.resolution = 6;
  interface.section = static_cast<std::uint32_t>(rest.sections.size() - 1);
  BlockOptions options(block.subspan(16, block.size() - 20), swapped_);
  BlockOptions::Option option{};
  while (options.next(option)) {
    switch (option.code) {
      case pcapng::opt_comment: interface.comments.push_back(text(option.value)); break;
      case pcapng::if_name: interface.name = text(option.value); break;
      case pcapng::if_description: interface.description = text(option.value); break;
      case pcapng::if_os: interface.os = text(option.value); break;
      case pcapng::if_hardware: interface.hardware = text(option.value); break;
      case pcapng::if_filter:
        // The first byte is the type of the filter. 0 is text.
        if (!option.value.empty() && option.value[0] == 0) interface.filter = text(option.value.subspan(1));
        break;
      case pcapng::if_tsresol:
        if (option.value.size() == 1) interface.resolution = option.value[0];
        break;
      case pcapng::if_fcslen:
        if (option.value.size() == 1) interface.fcs_length = option.value[0];
        break;
      case pcapng::if_tsoffset:
        if (option.value.size() == 8)
          interface.offset = static_cast<std::int64_t>(load<std::uint64_t>(option.value.data(), swapped_));
        break;
      default: break;
    }
  }

  Clock clock{};
  clock.link = interface.link;
  clock.snap_length = interface.snap_length;
  if (__builtin_mul_overflow(interface.offset, std::int64_t{1'000'000'000}, &clock.offset))
    clock.offset = interface.offset < 0 ? INT64_MIN : INT64_MAX;
  const unsigned exponent = interface.resolution & 0x7f;
  clock.factor = 1;
  if (interface.resolution & 0x80) {
    clock.scale = Clock::Scale::binary;
    clock.factor = exponent;
    if (exponent > 20) rest.nanoseconds = true;
  } else if (exponent <= 9) {
    clock.scale = Clock::Scale::multiply;
    for (unsigned i = exponent; i < 9; ++i) clock.factor *= 10;
  } else {
    clock.scale = Clock::Scale::divide;
    // No 64-bit number of ticks reaches a nanosecond if their unit is 10^-29 s or less.
    for (unsigned i = 9; i < exponent; ++i)
      if (__builtin_mul_overflow(clock.factor, std::uint64_t{10}, &clock.factor)) {
        clock.factor = 0;
        break;
      }
  }
  if (exponent > 6 && !(interface.resolution & 0x80)) rest.nanoseconds = true;
  rest.interfaces.push_back(std::move(interface));
  rest.clocks.push_back(clock);
  clocks_ = rest.clocks.data() + first_interface_;
  ++clock_count_;
  return true;
}

bool Reader::read_statistics(Bytes block) {
  const std::string place = block_name(pcapng::interface_statistics);
  if (block.size() < 24) {
    fail(Kind::malformed, place, "total length " + number(block.size()) + " is less than 24");
    return false;
  }
  const auto index = load<std::uint32_t>(block.data() + 8, swapped_);
  if (index >= clock_count_) {
    fail(Kind::malformed, place,
         "undefined interface " + number(index) + " (the section defines " + number(clock_count_) + " so far)");
    return false;
  }
  const Clock& clock = clocks_[index];
  const auto time = [&](const std::uint8_t* p) {
    return clock.nanoseconds(std::uint64_t{load<std::uint32_t>(p, swapped_)} << 32 |
                             load<std::uint32_t>(p + 4, swapped_));
  };
  InterfaceStatistics statistics;
  statistics.time = time(block.data() + 12);
  BlockOptions options(block.subspan(20, block.size() - 24), swapped_);
  BlockOptions::Option option{};
  while (options.next(option)) {
    if (option.value.size() != 8) continue;
    const auto count = load<std::uint64_t>(option.value.data(), swapped_);
    switch (option.code) {
      case pcapng::isb_starttime: statistics.start_time = time(option.value.data()); break;
      case pcapng::isb_endtime: statistics.end_time = time(option.value.data()); break;
      case pcapng::isb_ifrecv: statistics.received = count; break;
      case pcapng::isb_ifdrop: statistics.interface_drops = count; break;
      case pcapng::isb_filteraccept: statistics.filter_accepted = count; break;
      case pcapng::isb_osdrop: statistics.system_drops = count; break;
      case pcapng::isb_usrdeliv: statistics.delivered = count; break;
      default: break;
    }
  }
  rest_->interfaces[first_interface_ + index].statistics = statistics;
  return true;
}

bool Reader::read_packet(Bytes block, std::uint32_t type, Record& record) {
  const std::uint8_t* const p = block.data();
  const auto wrong = [&](std::string what) {
    fail_record(Kind::malformed, std::move(what));
    return false;
  };
  const bool simple = type == pcapng::simple_packet;
  const std::uint32_t head = simple ? 12 : 28;  // number of bytes before the packet data
  if (block.size() < head + 4)
    return wrong("total length " + number(block.size()) + " is less than " + number(head + 4));
  std::uint32_t index = 0;
  if (type == pcapng::enhanced_packet) index = load<std::uint32_t>(p + 8, swapped_);
  if (type == pcapng::packet) index = load<std::uint16_t>(p + 8, swapped_);
  if (index >= clock_count_)
    return wrong("undefined interface " + number(index) + " (the section defines " + number(clock_count_) + " so far)");
  const Clock& clock = clocks_[index];
  const auto remaining = static_cast<std::uint32_t>(block.size() - head - 4);
  std::uint32_t captured = 0;
  if (simple) {
    record.wire_length = load<std::uint32_t>(p + 8, swapped_);
    captured = std::min(record.wire_length, remaining);
    if (clock.snap_length != 0) captured = std::min(captured, clock.snap_length);
    record.time = 0;
  } else {
    captured = load<std::uint32_t>(p + 20, swapped_);
    record.wire_length = load<std::uint32_t>(p + 24, swapped_);
    record.time = clock.nanoseconds(std::uint64_t{load<std::uint32_t>(p + 12, swapped_)} << 32 |
                                    load<std::uint32_t>(p + 16, swapped_));
  }
  if (captured > remaining)
    return wrong("length " + number(captured) + " exceeds the remaining " + number(remaining) + " bytes of the block");
  record.bytes = block.subspan(head, captured);
  record.options = simple ? Bytes{} : block.subspan(head + pcapng::pad4(captured), remaining - pcapng::pad4(captured));
  record.options_swapped = swapped_;
  record.interface = first_interface_ + index;
  record.link = clock.link;
  finish_record(p, record);
  return true;
}

}  // namespace rdmawire::captures
