#pragma once
/// Extracts a part of a capture to a new capture.

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <tl/expected.hpp>

#include "captures/extract/anonymize.hpp"
#include "captures/io/reader.hpp"
#include "captures/io/writer.hpp"
#include "dissectors/tracking/dissector.hpp"

namespace rdmawire::captures {

struct ExtractOptions {
  /// Selects packets. Called once for each packet in order. The packet is dissected if `dissect` or `anonymize` is set.
  /// If not, only its number, time and link are valid.
  std::function<bool(const tracking::Packet&)> select;
  bool dissect = true;
  /// Number of the last packet that can be selected.
  std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
  /// Number of packets to include before and after each selected packet.
  std::uint32_t around = 0;
  std::optional<AnonymizeOptions> anonymize;
  DecodeOptions decode;
  /// Called for each packet that was read, to report progress.
  std::function<void(const Reader&)> progress;
};

struct Extracted {
  std::uint64_t read = 0;             ///< number of packets that were read
  std::uint64_t selected = 0;         ///< number of packets that were selected
  std::uint64_t written = 0;          ///< number of packets that were written, including those around selected packets
  std::optional<CaptureError> input;  ///< read error that ended the extraction. Earlier packets were processed
};

/// Copies the selected packets with times, comments, interfaces and the latest statistics of the interfaces. Adds a
/// comment with the original frame number and the remarks of the anonymizer. An anonymized capture omits the original
/// comments, the capture filters, and the descriptions of interfaces and hosts, because these may name hosts. Returns
/// an error if the output cannot be written.
tl::expected<Extracted, CaptureError> extract(Reader& reader, Writer& writer, const ExtractOptions& options);

}  // namespace rdmawire::captures
