#pragma once
/// Frames for other parts of the module, such as captures and wires.

#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>

#include "dissectors/protocol/bits.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/link_type.hpp"
#include "dissectors/protocol/stack.hpp"

namespace rdmawire::python {

namespace py = pybind11;

/// Returns a Python Frame with a copy of these bytes, which is decoded leniently when needed. `wire_length` 0: the
/// number of bytes. `time_ns`: nanoseconds since 1970. `number`: in the capture, from 1. `origin`: see FrameData.
/// Requires the interpreter's lock.
py::object make_frame(Bytes bytes, LinkType link = LinkType::ethernet, std::uint32_t wire_length = 0,
                      std::optional<std::int64_t> time_ns = {}, std::uint64_t number = 0, py::object origin = {});
/// Returns a Python Frame of values, which is encoded when needed.
py::object make_frame(Frame values, LinkType link = LinkType::ethernet);

/// Returns the link type of the first header, or Ethernet without headers.
LinkType link_of_first(const Frame& frame);

bool is_frame(py::handle object);
/// The following functions require is_frame(). Bytes are valid until the frame changes or is destroyed.
Bytes frame_bytes(py::handle frame);
LinkType frame_link(py::handle frame);
/// Returns a copy that can be changed and encoded.
Frame frame_values(py::handle frame);

/// Returns the Python name of a link type: "ethernet". Additional names: "fpdu", "mpa" and "bth" for bytes that start
/// with this header.
std::string link_word(LinkType link);
/// Returns the link type of a str or an int. Raises UsageError for unknown names, TypeError for other types.
LinkType link_from(py::handle word);

}  // namespace rdmawire::python
