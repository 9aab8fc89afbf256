#pragma once
/// The sentences of all headers: what of each is worth a place in a packet's line. One row a header.

#include <span>

#include "dissectors/output/summary_format.hpp"

namespace rdmawire::output::summary_formats {

/// What a header says. A header that has no row here says its title.
extern const std::span<const SummaryFormat> own;
/// Headers whose news is what they carry: they are named only where that is nothing that is read here.
extern const std::span<const SummaryFormat> carriers;
/// What is worth saying of a header that carries others: written before them.
extern const std::span<const SummaryFormat> beneath;
/// Bits that matter when they are set: written behind the numbers.
extern const std::span<const SummaryFormat> marks;

/// Of a TCP header, which connection it is: all that is wanted beside the PDUs in it.
extern const SummaryFormat stream;

}  // namespace rdmawire::output::summary_formats
