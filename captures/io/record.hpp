#pragma once
/// Contents of a capture: records (packets), interfaces, and sections of the file.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "captures/io/pcapng.hpp"
#include "dissectors/protocol/link_type.hpp"

namespace rdmawire::captures {

/// Comments of a record (pcapng's opt_comment). They are parsed when needed, without allocating memory.
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

/// One captured packet, which refers to the bytes of its source. Reader::next and LiveCapture::next fill it, and
/// Writer::write writes it.
///
/// The source owns `bytes` and `options`. If it is a memory-mapped file or memory, they are valid as long as the reader
/// or the memory exists. If it is a stream (pipe, standard input, compressed file) or a live capture, they are valid
/// until the next call of next(). See Reader::stable().
struct Record {
  Bytes bytes;  ///< the captured bytes
  std::int64_t time =
      0;  ///< nanoseconds since 1970-01-01 00:00 UTC, limited to ±farthest_time. 0 in a Simple Packet Block
  std::uint64_t number = 0;            ///< frame number from 1, as in Wireshark
  std::uint64_t position = 0;          ///< offset of the record or block in the (decompressed) file in bytes
  Bytes options;                       ///< options of the block as in the file (empty in pcap)
  std::uint32_t wire_length = 0;       ///< length on the wire in bytes
  std::uint32_t interface = 0;         ///< index of the interface in the reader or writer, over all sections
  LinkType link = LinkType::ethernet;  ///< link type of the interface
  bool options_swapped = false;        ///< the byte order of `options` is not the native one

  [[nodiscard]] std::uint32_t captured_length() const { return static_cast<std::uint32_t>(bytes.size()); }
  [[nodiscard]] Comments comments() const { return {options, options_swapped}; }
  /// Returns epb_flags: direction, reception type, FCS length, link-layer errors. draft-ietf-opsawg-pcapng, 4.3.1.
  [[nodiscard]] std::optional<std::uint32_t> flags() const;
  /// Returns epb_dropcount: number of packets that interface and operating system lost between the preceding packet and
  /// this one.
  [[nodiscard]] std::optional<std::uint64_t> drops() const;
};

/// Loss counters of the capture, from an Interface Statistics Block or a live device. Counters that the file does not
/// contain are nullopt. draft-ietf-opsawg-pcapng, 4.6.
struct InterfaceStatistics {
  std::int64_t time = 0;                   ///< time at which the counters were read in nanoseconds
  std::optional<std::int64_t> start_time;  ///< nanoseconds
  std::optional<std::int64_t> end_time;    ///< nanoseconds
  std::optional<std::uint64_t> received;   ///< isb_ifrecv: number of packets that the interface received
  std::optional<std::uint64_t>
      interface_drops;  ///< isb_ifdrop: number of packets that the interface dropped because resources were missing
  std::optional<std::uint64_t> filter_accepted;  ///< isb_filteraccept: number of packets that the filter accepted
  std::optional<std::uint64_t> system_drops;     ///< isb_osdrop: number of packets that the operating system dropped
  std::optional<std::uint64_t> delivered;        ///< isb_usrdeliv: number of packets that the capturing program got

  /// Returns the number of packets that are known to be missing in the capture (nullopt: both drop counters are
  /// missing).
  [[nodiscard]] std::optional<std::uint64_t> drops() const {
    if (!interface_drops && !system_drops) return std::nullopt;
    return interface_drops.value_or(0) + system_drops.value_or(0);
  }
  friend bool operator==(const InterfaceStatistics&, const InterfaceStatistics&) = default;
};

/// An Interface Description Block, or the only interface of a pcap file.
struct Interface {
  LinkType link = LinkType::ethernet;
  std::uint32_t snap_length = 0;  ///< maximum number of bytes that are kept of each packet (0: no limit)
  std::uint8_t resolution = 9;    ///< if_tsresol: units of 10^-n s. From 128 on, units of 2^-(n-128) s
  std::int64_t offset = 0;        ///< if_tsoffset: seconds that are added to each time. Record::time includes them
  std::uint32_t section = 0;      ///< index of the section in the reader
  std::string name;               ///< "eth0"
  std::string description;
  std::string filter;  ///< text of the capture filter
  std::string os;
  std::string hardware;
  std::optional<std::uint8_t> fcs_length;  ///< length of the frame check sequence in bytes (nullopt: unknown)
  std::vector<std::string> comments;
  std::optional<InterfaceStatistics> statistics;  ///< the latest Interface Statistics Block that was read
};

/// A Section Header Block. A pcap file has one section without texts.
struct Section {
  bool big_endian = false;
  std::uint64_t position = 0;  ///< offset in the (decompressed) file, bytes
  std::string hardware;
  std::string os;
  std::string application;
  std::vector<std::string> comments;
};

}  // namespace rdmawire::captures
