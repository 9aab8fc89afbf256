#pragma once
/// Summary formats of headers for the line of a packet. Each list has at most one row per header.

#include <span>

#include "dissectors/output/summary_format.hpp"

namespace rdmawire::output::summary_formats {

/// Summaries of headers. The summary of a header without a row is its title.
extern const std::span<const SummaryFormat> own;
/// Summaries of headers that are only shown if no header in their payload is decoded.
extern const std::span<const SummaryFormat> carriers;
/// Fields of encapsulating headers. They precede the summary of the contents.
extern const std::span<const SummaryFormat> beneath;
/// Flags, shown after the numbers if they are set.
extern const std::span<const SummaryFormat> marks;

/// Summary of a TCP header that is shown with its PDUs.
extern const SummaryFormat stream;

}  // namespace rdmawire::output::summary_formats
