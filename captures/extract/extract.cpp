#include "captures/extract/extract.hpp"

#include <fmt/format.h>

#include <deque>
#include <string>
#include <vector>

namespace rdmawire::captures {
namespace {

using tracking::Packet;

/// A packet that is written only if one of the following packets is selected.
struct PendingRecord {
  Record record;
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint8_t> options;
  std::string comment;
};

class Extraction {
 public:
  Extraction(Reader& reader, Writer& writer, const ExtractOptions& options)
      : reader_(reader), writer_(writer), options_(options), dissector_({options.decode, true}) {
    if (options.anonymize) anonymizer_.emplace(*options.anonymize);
  }

  tl::expected<Extracted, CaptureError> run() {
    Record record;
    Next next = Next::record;
    std::uint64_t remaining = 0;  // number of packets to write after the last selected packet
    while ((record_is_needed(remaining)) && (next = reader_.next(record)) == Next::record) {
      ++result_.read;
      if (options_.progress) options_.progress(reader_);
      dissect(record);
      if (record.number <= options_.last && options_.select(packet_)) {
        ++result_.selected;
        for (const PendingRecord& held : held_)
          if (auto written = write(held); !written) return tl::unexpected(written.error());
        held_.clear();
        remaining = std::uint64_t{options_.around} + 1;
      }
      if (remaining != 0) {
        --remaining;
        if (auto written = write(made_of(record)); !written) return tl::unexpected(written.error());
      } else if (options_.around != 0) {
        if (held_.size() == options_.around) held_.pop_front();
        held_.push_back(made_of(record));
      }
    }
    if (next == Next::error) result_.input = reader_.error();
    for (std::size_t i = 0; i < interfaces_.size(); ++i) {
      const auto& statistics = reader_.interfaces()[i].statistics;
      if (!interfaces_[i] || !statistics) continue;
      if (auto written = writer_.write(*interfaces_[i], *statistics); !written) return tl::unexpected(written.error());
    }
    return result_;
  }

 private:
  [[nodiscard]] bool record_is_needed(std::uint64_t remaining) const {
    return remaining != 0 || result_.read < options_.last;
  }

  // Every packet is dissected, because later packets depend on the state of earlier ones.
  void dissect(const Record& record) {
    packet_.number = record.number;
    packet_.time_ns = record.time;
    packet_.link = record.link;
    if (options_.dissect || anonymizer_) dissector_.dissect(packet_, record.bytes, record.wire_length);
  }

  PendingRecord made_of(const Record& record) {
    PendingRecord held{record, {}, {}, fmt::format("frame {} of the original capture", record.number)};
    if (anonymizer_) {
      std::string remark;
      anonymizer_->anonymize(packet_, held.bytes, remark);
      held.comment += ", anonymized";
      if (!remark.empty()) held.comment += "; " + remark;
    } else {
      held.bytes.assign(record.bytes.begin(), record.bytes.end());
      held.options.assign(record.options.begin(), record.options.end());
    }
    return held;
  }

  tl::expected<void, CaptureError> write(PendingRecord held) {
    auto interface = interface_of(held.record.interface);
    if (!interface) return tl::unexpected(interface.error());
    held.record.bytes = held.bytes;
    held.record.options = held.options;
    held.record.interface = *interface;
    const std::string_view comments[] = {held.comment};
    if (auto written = writer_.write(held.record, comments); !written) return tl::unexpected(written.error());
    ++result_.written;
    return {};
  }

  // Returns the number of an interface in the output. Interfaces are numbered in the order of their first written
  // packets.
  tl::expected<std::uint32_t, CaptureError> interface_of(std::uint32_t index) {
    if (interfaces_.size() <= index) interfaces_.resize(index + 1);
    if (interfaces_[index]) return *interfaces_[index];
    Interface description = reader_.interfaces()[index];
    if (anonymizer_) {
      description.description.clear();
      description.filter.clear();
      description.os.clear();
      description.hardware.clear();
      description.comments.clear();
    }
    auto added = writer_.add_interface(description);
    if (added) interfaces_[index] = *added;
    return added;
  }

  Reader& reader_;
  Writer& writer_;
  const ExtractOptions& options_;
  tracking::Dissector dissector_;
  std::optional<Anonymizer> anonymizer_;
  Packet packet_;
  std::deque<PendingRecord> held_;
  std::vector<std::optional<std::uint32_t>> interfaces_;
  Extracted result_;
};

}  // namespace

tl::expected<Extracted, CaptureError> extract(Reader& reader, Writer& writer, const ExtractOptions& options) {
  return Extraction(reader, writer, options).run();
}

}  // namespace rdmawire::captures
