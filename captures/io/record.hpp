#pragma once
/// What a capture holds: records (packets), the interfaces they were captured on, and the sections of the file.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "captures/io/pcapng.hpp"
#include "dissectors/protocol/link_type.hpp"

namespace rdmawire::captures {

/// The comments of a record (pcapng's opt_comment), found on demand in the bytes of its block; no allocation.
class Comments {
 public:
  Comments(Bytes options, bool swapped) : options_(options), swapped_(swapped) {}

  class Iterator {
   public:
    explicit Iterator(BlockOptions options) : options_(options), more_(true) { ++*this; }
    Iterator() : options_({}, false), more_(false) {}
    std::string_view operator*() const {
      return {reinterpret_cast<const char*>(option_.value.data()), option_.value.size()};
    }
    Iterator& operator++() {
      do more_ = options_.next(option_);
      while (more_ && option_.code != pcapng::opt_comment);
      return *this;
    }
    bool operator==(const Iterator& other) const { return more_ == other.more_; }

   private:
    BlockOptions options_;
    BlockOptions::Option option_{};
    bool more_;
  };
  [[nodiscard]] Iterator begin() const { return Iterator(BlockOptions(options_, swapped_)); }
  [[nodiscard]] static Iterator end() { return {}; }
  [[nodiscard]] bool empty() const { return begin() == end(); }

 private:
  Bytes options_;
  bool swapped_;
};

/// One captured packet: a view into the file, filled in place by Reader::next and LiveCapture::next, and what
/// Writer::write takes.
///
/// `bytes` and `options` belong to whoever filled them. From a memory-mapped file and from memory they stay valid as
/// long as the reader (the memory) does; from a stream (pipe, standard input, compressed file) and a live capture,
/// until the next call of next(). Reader::stable() tells which.
struct Record {
  Bytes bytes;                    ///< the captured bytes
  std::int64_t time = 0;          ///< nanoseconds since 1970-01-01 00:00 UTC, at most farthest_time from it; 0 in a
                                  ///< Simple Packet Block
  std::uint64_t number = 0;       ///< 1-based, as Wireshark's frame number
  std::uint64_t position = 0;     ///< bytes into the (decompressed) file where the record or block begins
  Bytes options;                  ///< the block's options as they stand in the file; empty in pcap
  std::uint32_t wire_length = 0;  ///< bytes that the packet had on the wire
  std::uint32_t interface = 0;    ///< index into the reader's (or writer's) interfaces, over all sections
  LinkType link = LinkType::ethernet;  ///< the interface's
  bool options_swapped = false;        ///< `options` are in the other byte order than this machine's

  [[nodiscard]] std::uint32_t captured_length() const { return static_cast<std::uint32_t>(bytes.size()); }
  [[nodiscard]] Comments comments() const { return {options, options_swapped}; }
  /// epb_flags: direction, reception type, FCS length, link-layer errors. draft-ietf-opsawg-pcapng, 4.3.1.
  [[nodiscard]] std::optional<std::uint32_t> flags() const;
  /// epb_dropcount: packets lost by interface and operating system between the preceding packet and this one.
  [[nodiscard]] std::optional<std::uint64_t> drops() const;
};

/// What the capture knows of its own losses: an Interface Statistics Block, or a live device's counters.
/// A count that the file does not give is absent, not zero. draft-ietf-opsawg-pcapng, 4.6.
struct InterfaceStatistics {
  std::int64_t time = 0;                         ///< when the counts were taken, nanoseconds
  std::optional<std::int64_t> start_time;        ///< nanoseconds
  std::optional<std::int64_t> end_time;          ///< nanoseconds
  std::optional<std::uint64_t> received;         ///< isb_ifrecv: by the interface
  std::optional<std::uint64_t> interface_drops;  ///< isb_ifdrop: by the interface, for lack of resources
  std::optional<std::uint64_t> filter_accepted;  ///< isb_filteraccept
  std::optional<std::uint64_t> system_drops;     ///< isb_osdrop: by the operating system
  std::optional<std::uint64_t> delivered;        ///< isb_usrdeliv: to the capturing program

  /// What is known to be missing from the capture; absent when neither drop count is given.
  [[nodiscard]] std::optional<std::uint64_t> drops() const {
    if (!interface_drops && !system_drops) return std::nullopt;
    return interface_drops.value_or(0) + system_drops.value_or(0);
  }
  friend bool operator==(const InterfaceStatistics&, const InterfaceStatistics&) = default;
};

/// An Interface Description Block; for pcap the one interface of the file header.
struct Interface {
  LinkType link = LinkType::ethernet;
  std::uint32_t snap_length = 0;  ///< bytes kept of a packet at most; 0: no limit
  std::uint8_t resolution = 9;    ///< if_tsresol: units of 10^-n s, or of 2^-(n-128) s from 128 on
  std::int64_t offset = 0;        ///< if_tsoffset: seconds to add to each time; Record::time has them already
  std::uint32_t section = 0;      ///< index into the reader's sections
  std::string name;               ///< "eth0"
  std::string description;
  std::string filter;  ///< the capture filter, as text
  std::string os;
  std::string hardware;
  std::optional<std::uint8_t> fcs_length;  ///< bytes of frame check sequence at each packet's end, when the file says
  std::vector<std::string> comments;
  std::optional<InterfaceStatistics> statistics;  ///< of the last Interface Statistics Block read so far
};

/// A Section Header Block; a pcap file has one section, without texts.
struct Section {
  bool big_endian = false;
  std::uint64_t position = 0;  ///< bytes into the (decompressed) file
  std::string hardware;
  std::string os;
  std::string application;
  std::vector<std::string> comments;
};

}  // namespace rdmawire::captures
