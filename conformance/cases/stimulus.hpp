#pragma once
/// A frame that a case sends: a complete valid frame, with the changes of the case.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/cases/relative.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"

namespace rdmawire::conformance {

/// A frame and its description for reports. Each change returns a changed copy:
///
///     qp.send_only(psn(+0)).with<Bth, "tver">(1, "with TVer 1")
class Stimulus {
 public:
  Stimulus(Frame frame, std::string text) : frame_(std::move(frame)), text_(std::move(text)) {}

  /// Returns a copy with the field set. encode() computes lengths and CRCs that are not set.
  template <class H, FixedString Name>
  [[nodiscard]] Stimulus with(std::uint64_t value, std::string_view words) const {
    constexpr const Field& field = *info<H>.find(Name.view());
    Stimulus changed = *this;
    if (HeaderValue* header = changed.frame_.find(info<H>)) header->set(field, value);
    return changed.called(words);
  }
  /// Changes the frame before it is encoded.
  [[nodiscard]] Stimulus changed(const std::function<void(Frame&)>& change, std::string_view words) const {
    Stimulus result = *this;
    change(result.frame_);
    return result.called(words);
  }
  /// Changes the encoded bytes without recomputing CRCs.
  [[nodiscard]] Stimulus damaged(std::function<void(std::vector<std::uint8_t>&)> change, std::string_view words) const {
    Stimulus result = *this;
    result.damages_.push_back(std::move(change));
    return result.called(words);
  }
  /// Clears AckReq, which requests set by default.
  [[nodiscard]] Stimulus without_ack_request() const { return with<Bth, "ack_request">(0, "without AckReq"); }
  [[nodiscard]] Stimulus solicited() const { return with<Bth, "se">(1, "solicited"); }

  [[nodiscard]] const Frame& frame() const { return frame_; }
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] std::vector<std::uint8_t> bytes() const {
    std::vector<std::uint8_t> bytes = frame_.encode();
    damage(bytes);
    return bytes;
  }
  /// Applies the changes of damaged() to other encoded bytes, e.g. an FPDU with its markers.
  void damage(std::vector<std::uint8_t>& bytes) const {
    for (const auto& one : damages_) one(bytes);
  }

 private:
  [[nodiscard]] Stimulus called(std::string_view words) const {
    Stimulus result = *this;
    if (!words.empty()) result.text_.append(", ").append(words);
    return result;
  }
  Frame frame_;
  std::string text_;
  std::vector<std::function<void(std::vector<std::uint8_t>&)>> damages_;
};

}  // namespace rdmawire::conformance
