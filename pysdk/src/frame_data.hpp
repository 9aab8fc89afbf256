#pragma once
/// What a Python Frame holds: bytes as they were captured, decoded when somebody asks, or values that somebody has
/// changed, encoded when somebody asks.

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <string>

#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/field_overflow.hpp"
#include "dissectors/protocol/stack.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::python {

namespace py = pybind11;

/// Where a frame's first byte stands, beyond the link types of captures: what a stream or a transport carries.
namespace begins {
inline constexpr LinkType fpdu{0xfff0};  ///< an FPDU without markers
inline constexpr LinkType mpa{0xfff1};   ///< an MPA Request or Reply Frame
inline constexpr LinkType bth{0xfff2};   ///< InfiniBand's transport, from the BTH to the ICRC
}  // namespace begins

/// The word of a link type: those of JSON, and the names of the headers above.
std::string link_word(LinkType link);
/// The other way round; numbers in text are link types of captures. Nothing for a word that is none.
std::optional<LinkType> link_of(std::string_view word);
/// The link type of a frame whose outermost header is `header`.
LinkType link_of(const HeaderInfo& header);

class FrameData {
 public:
  LinkType link = LinkType::ethernet;
  std::optional<std::int64_t> time_ns;
  std::uint64_t number = 0;
  /// A tuple of the interface and the comments, as the capture has them (captures_origin.hpp); null: there are none.
  py::object origin;

  /// A captured frame. `bytes` is an object of type bytes; `wire_length` less than its size: as many.
  FrameData(py::bytes bytes, LinkType link_type, std::uint32_t wire_length);
  /// A frame made of values.
  FrameData(Frame values, LinkType link_type);
  FrameData(const FrameData& other);
  FrameData(FrameData&& other) = default;
  FrameData& operator=(const FrameData&) = delete;
  FrameData& operator=(FrameData&&) = delete;
  ~FrameData() = default;

  /// The frame as it goes out: an object of type bytes. UsageError where a length that is computed does not fit.
  const py::bytes& bytes();
  /// The same, to look at: of a length that does not fit it has the low bits.
  [[nodiscard]] Bytes view();
  /// bytes(), decoded.
  const HeaderStack& stack();
  [[nodiscard]] std::uint32_t wire_length() { return static_cast<std::uint32_t>(view().size()) + missing_; }

  [[nodiscard]] std::size_t layer_count() { return values_ ? values_->layers.size() : stack().layers().size(); }
  [[nodiscard]] const HeaderInfo& header(std::size_t i) {
    return values_ ? values_->layers[i].header() : *stack().layers()[i].header;
  }
  /// Bytes of layer `i` as they go out.
  [[nodiscard]] Bytes layer(std::size_t i);
  /// Where field `f` of layer `i` can be read: as it was given, else as it goes out. UsageError for what is computed,
  /// in a frame that cannot go out.
  [[nodiscard]] const std::uint8_t* layer_with(std::size_t i, const Field& f) {
    if (values_ && values_->layers[i].given(f)) return values_->layers[i].bytes().data();
    const std::uint8_t* built = layer(i).data();
    if (f.is_computed) refuse_misfit();
    return built;
  }
  /// A copy of layer `i`, with what of it is given.
  [[nodiscard]] HeaderValue layer_value(std::size_t i);

  /// Whether anything was given or changed since the frame was captured.
  [[nodiscard]] bool is_captured() const { return !values_; }
  /// The values to read.
  [[nodiscard]] const Frame& values();
  /// The values to change: what was encoded before is forgotten.
  Frame& change();

  /// Reads the bytes as that link's from now on; the bytes stay.
  void relink(LinkType link_type);

  /// CRCs, as the packet holds them, and judged.
  [[nodiscard]] CrcCheck icrc();
  [[nodiscard]] CrcCheck vcrc();
  [[nodiscard]] CrcCheck mpa_crc();

  /// For the faces. Valid until the frame changes.
  [[nodiscard]] tracking::Packet packet();

 private:
  void decode_into(HeaderStack& stack, Bytes bytes) const;
  void build();
  void refuse_misfit() const;

  py::bytes bytes_;                       // null: to be encoded
  std::optional<FieldOverflow> misfit_;   // of bytes_
  std::unique_ptr<HeaderStack> stack_;    // of bytes_
  std::unique_ptr<Frame> values_;         // null: as captured
  std::unique_ptr<Frame> captured_view_;  // of a captured frame, only read
  std::uint32_t missing_ = 0;             // bytes that the capture has not
};

}  // namespace rdmawire::python
