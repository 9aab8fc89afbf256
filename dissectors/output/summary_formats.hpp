#pragma once
/// Summary formats of headers for a packet's line. Each list has at most one row per header.

#include <span>

#include "dissectors/output/summary_format.hpp"

namespace rdmawire::output::summary_formats {

/// Summaries of headers. A header without a row shows its title.
extern const std::span<const SummaryFormat> own;
/// Headers that are only shown if their payload is not decoded.
extern const std::span<const SummaryFormat> carriers;
/// Fields of encapsulating headers, shown before their contents.
extern const std::span<const SummaryFormat> beneath;
/// Flags that are shown if set, after the numbers.
extern const std::span<const SummaryFormat> marks;

/// Connection of a TCP header, shown with its PDUs.
extern const SummaryFormat stream;

}  // namespace rdmawire::output::summary_formats
