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

/// Comments of a record (pcapng's opt_comment), parsed on demand without allocation.
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

/// One captured packet: a view into the file. Filled by Reader::next and LiveCapture::next. Input of Writer::write.
///
/// The source owns `bytes` and `options`. For a memory-mapped file or memory they are valid as long as the reader or
/// the memory exists. For a stream (pipe, standard input, compressed file) or a live capture they are valid until the
/// next call of next(). See Reader::stable().
struct Record {
  Bytes bytes;                    ///< the captured bytes
  std::int64_t time = 0;          ///< nanoseconds since 1970-01-01 00:00 UTC, limited to ±farthest_time. 0 in a Simple
                                  ///< Packet Block
  std::uint64_t number = 0;       ///< frame number, from 1, like Wireshark's
  std::uint64_t position = 0;     ///< offset of the record or block in the (decompressed) file, bytes
  Bytes options;                  ///< options of the block in file format (empty in pcap)
  std::uint32_t wire_length = 0;  ///< length on the wire, bytes
  std::uint32_t interface = 0;    ///< index into the interfaces of the reader or writer, over all sections
  LinkType link = LinkType::ethernet;  ///< link type of the interface
  bool options_swapped = false;        ///< `options` are not in native byte order

  [[nodiscard]] std::uint32_t captured_length() const { return static_cast<std::uint32_t>(bytes.size()); }
  [[nodiscard]] Comments comments() const { return {options, options_swapped}; }
  /// epb_flags: direction, reception type, FCS length, link-layer errors. draft-ietf-opsawg-pcapng, 4.3.1.
  [[nodiscard]] std::optional<std::uint32_t> flags() const;
  /// epb_dropcount: packets lost by interface and operating system between the preceding packet and this one.
  [[nodiscard]] std::optional<std::uint64_t> drops() const;
};

/// Loss counters of the capture: from an Interface Statistics Block or a live device. Counters that are missing in the
/// file are nullopt. draft-ietf-opsawg-pcapng, 4.6.
struct InterfaceStatistics {
  std::int64_t time = 0;                         ///< time of the counters, nanoseconds
  std::optional<std::int64_t> start_time;        ///< nanoseconds
  std::optional<std::int64_t> end_time;          ///< nanoseconds
  std::optional<std::uint64_t> received;         ///< isb_ifrecv: received by the interface
  std::optional<std::uint64_t> interface_drops;  ///< isb_ifdrop: dropped by the interface, due to missing resources
  std::optional<std::uint64_t> filter_accepted;  ///< isb_filteraccept
  std::optional<std::uint64_t> system_drops;     ///< isb_osdrop: dropped by the operating system
  std::optional<std::uint64_t> delivered;        ///< isb_usrdeliv: delivered to the capturing program

  /// Packets known to be missing from the capture (nullopt if both drop counters are missing).
  [[nodiscard]] std::optional<std::uint64_t> drops() const {
    if (!interface_drops && !system_drops) return std::nullopt;
    return interface_drops.value_or(0) + system_drops.value_or(0);
  }
  friend bool operator==(const InterfaceStatistics&, const InterfaceStatistics&) = default;
};

/// An Interface Description Block, or the single interface of a pcap file.
struct Interface {
  LinkType link = LinkType::ethernet;
  std::uint32_t snap_length = 0;  ///< maximum bytes kept per packet (0: no limit)
  std::uint8_t resolution = 9;    ///< if_tsresol: units of 10^-n s, or of 2^-(n-128) s from 128 on
  std::int64_t offset = 0;        ///< if_tsoffset: seconds added to each time (included in Record::time)
  std::uint32_t section = 0;      ///< index into the reader's sections
  std::string name;               ///< "eth0"
  std::string description;
  std::string filter;  ///< the capture filter, as text
  std::string os;
  std::string hardware;
  std::optional<std::uint8_t> fcs_length;  ///< length of the frame check sequence, bytes (nullopt: unknown)
  std::vector<std::string> comments;
  std::optional<InterfaceStatistics> statistics;  ///< latest Interface Statistics Block read so far
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
