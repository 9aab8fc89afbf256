#pragma once
/// Contents of a Python Frame: captured bytes that are decoded when needed, or changed values that are encoded when
/// needed.

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

/// Types of a frame's first header in addition to the link types of captures: contents of a stream or a transport.
namespace begins {
inline constexpr LinkType fpdu{0xfff0};  ///< an FPDU without markers
inline constexpr LinkType mpa{0xfff1};   ///< an MPA Request or Reply Frame
inline constexpr LinkType bth{0xfff2};   ///< InfiniBand transport, from the BTH to the ICRC
}  // namespace begins

/// Returns the name of a link type, as in JSON, or the name of the headers above.
std::string link_word(LinkType link);
/// Returns the link type with this name or number. nullopt: unknown name.
std::optional<LinkType> link_of(std::string_view word);
/// Returns the link type of a frame whose first header is `header`.
LinkType link_of(const HeaderInfo& header);

class FrameData {
 public:
  LinkType link = LinkType::ethernet;
  std::optional<std::int64_t> time_ns;
  std::uint64_t number = 0;
  /// A tuple of the interface and the comments of the capture (captures_origin.hpp). Null: no origin.
  py::object origin;

  /// A captured frame. `bytes` is a bytes object. The wire length is at least its size.
  FrameData(py::bytes bytes, LinkType link_type, std::uint32_t wire_length);
  /// A frame made of values.
  FrameData(Frame values, LinkType link_type);
  FrameData(const FrameData& other);
  FrameData(FrameData&& other) = default;
  FrameData& operator=(const FrameData&) = delete;
  FrameData& operator=(FrameData&&) = delete;
  ~FrameData() = default;

  /// Returns the encoded frame as a bytes object. Raises UsageError if a computed length does not fit.
  const py::bytes& bytes();
  /// Returns the encoded frame. Lengths that do not fit are truncated to their low bits.
  [[nodiscard]] Bytes view();
  /// Returns bytes(), decoded.
  const HeaderStack& stack();
  [[nodiscard]] std::uint32_t wire_length() { return static_cast<std::uint32_t>(view().size()) + missing_; }

  [[nodiscard]] std::size_t layer_count() { return values_ ? values_->layers.size() : stack().layers().size(); }
  [[nodiscard]] const HeaderInfo& header(std::size_t i) {
    return values_ ? values_->layers[i].header() : *stack().layers()[i].header;
  }
  /// Returns the encoded bytes of layer `i`.
  [[nodiscard]] Bytes layer(std::size_t i);
  /// Returns bytes of layer `i` that contain field `f`: as set, otherwise as encoded. Raises UsageError for computed
  /// fields of a frame that cannot be encoded.
  [[nodiscard]] const std::uint8_t* layer_with(std::size_t i, const Field& f) {
    if (values_ && values_->layers[i].given(f)) return values_->layers[i].bytes().data();
    const std::uint8_t* built = layer(i).data();
    if (f.is_computed) refuse_misfit();
    return built;
  }
  /// Returns a copy of layer `i` with its set fields.
  [[nodiscard]] HeaderValue layer_value(std::size_t i);

  /// Returns whether the frame is unchanged since the capture.
  [[nodiscard]] bool is_captured() const { return !values_; }
  /// Returns the values for reading.
  [[nodiscard]] const Frame& values();
  /// Returns the values for writing. Discards encoded bytes.
  Frame& change();

  /// Changes the link type without changing the bytes.
  void relink(LinkType link_type);

  /// CRCs of the frame and their status.
  [[nodiscard]] CrcCheck icrc();
  [[nodiscard]] CrcCheck vcrc();
  [[nodiscard]] CrcCheck mpa_crc();

  /// Returns the packet for output formats. Valid until the frame changes.
  [[nodiscard]] tracking::Packet packet();

 private:
  void decode_into(HeaderStack& stack, Bytes bytes) const;
  void build();
  void refuse_misfit() const;

  py::bytes bytes_;                       // null: not encoded
  std::optional<FieldOverflow> misfit_;   // error of encoding bytes_
  std::unique_ptr<HeaderStack> stack_;    // bytes_, decoded
  std::unique_ptr<Frame> values_;         // null: as captured
  std::unique_ptr<Frame> captured_view_;  // values of a captured frame, read only
  std::uint32_t missing_ = 0;             // bytes truncated by the capture
};

}  // namespace rdmawire::python
