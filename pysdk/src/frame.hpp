#pragma once
/// Frames, for the other parts of the module: captures and wires make them and take them.

#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>

#include "dissectors/protocol/bits.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/link_type.hpp"
#include "dissectors/protocol/stack.hpp"

namespace rdmawire::python {

namespace py = pybind11;

/// A Python Frame of these bytes, which are copied; decoded when somebody asks, leniently. `wire_length` 0: as many as
/// are there; `time_ns` nanoseconds since 1970; `number` in its capture, from 1; `origin` as FrameData has it. Needs
/// the interpreter's lock.
py::object make_frame(Bytes bytes, LinkType link = LinkType::ethernet, std::uint32_t wire_length = 0,
                      std::optional<std::int64_t> time_ns = {}, std::uint64_t number = 0, py::object origin = {});
/// A Python Frame of values, built when somebody asks.
py::object make_frame(Frame values, LinkType link = LinkType::ethernet);

/// Of values: what its first header says where the first byte stands; Ethernet where there is none.
LinkType link_of_first(const Frame& frame);

bool is_frame(py::handle object);
/// What follows requires is_frame(). Bytes and stack are valid until the frame changes or goes.
Bytes frame_bytes(py::handle frame);
const HeaderStack& frame_stack(py::handle frame);
LinkType frame_link(py::handle frame);
/// A copy, to be changed and encoded.
Frame frame_values(py::handle frame);

/// The word of a link type in Python: "ethernet". Beyond those of captures: "fpdu", "mpa", "bth", for bytes that begin
/// with that header.
std::string link_word(LinkType link);
/// The other way round, from a str or an int. Raises UsageError for a word that is none, TypeError for anything else.
LinkType link_from(py::handle word);

}  // namespace rdmawire::python
