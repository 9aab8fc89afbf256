#pragma once
/// A part of a capture as a capture of its own: what one attaches to a ticket.

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
  /// Which packets; called once for each, in order. The packet is dissected when `dissect` is set or the result is
  /// anonymized; else only its number, time and link are known.
  std::function<bool(const tracking::Packet&)> select;
  bool dissect = true;
  /// No packet behind this one is selected.
  std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
  /// So many packets before and after each selected one come along.
  std::uint32_t around = 0;
  std::optional<AnonymizeOptions> anonymize;
  DecodeOptions decode;
  /// Called for each packet that was read: for a display of progress.
  std::function<void(const Reader&)> progress;
};

struct Extracted {
  std::uint64_t read = 0;             ///< packets that were looked at
  std::uint64_t selected = 0;         ///< of those
  std::uint64_t written = 0;          ///< with those around them
  std::optional<CaptureError> input;  ///< what ended the reading before the capture's end; the packets so far count
};

/// Copies the selected packets with their times, comments and interfaces, and with the last statistics of these. Each
/// gets a comment that says which frame it was, and what anonymizing found and could not mend. Of an anonymized capture
/// the comments of others, the capture filters and the descriptions of interfaces and machines are left out: they can
/// name hosts. An error: the output could not be written.
tl::expected<Extracted, CaptureError> extract(Reader& reader, Writer& writer, const ExtractOptions& options);

}  // namespace rdmawire::captures
