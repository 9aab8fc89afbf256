#pragma once
/// The header stack of one packet, which decode() creates: layers with offsets. It refers to the bytes of the packet,
/// and does not allocate memory.

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "dissectors/protocol/error.hpp"
#include "dissectors/protocol/header.hpp"
#include "dissectors/protocol/link_type.hpp"

namespace rdmawire {

/// A range of the decoded bytes.
struct Range {
  std::uint32_t offset = 0;
  std::uint32_t length = 0;
  [[nodiscard]] constexpr std::uint32_t end() const { return offset + length; }
};

/// The RDMA wire format of a packet. Determines the coverage of the ICRC.
enum class Wire : std::uint8_t { none, infiniband, roce_v1, roce_v2, iwarp };

/// The layers of a packet from the link layer up, and the byte ranges after them.
class HeaderStack {
 public:
  static constexpr std::size_t max_layers = 24;  ///< deeper nesting is reported as a finding
  static constexpr std::size_t max_findings = 4;

  HeaderStack() {}  // NOLINT(modernize-use-equals-default): user-provided, so that {} leaves the arrays alone
  // Copies only the entries in use, which are few.
  HeaderStack(const HeaderStack& other) { *this = other; }
  HeaderStack& operator=(const HeaderStack& other) {
    if (this == &other) return *this;
    std::memcpy(static_cast<void*>(layers_.data()), other.layers_.data(), other.layer_count_ * sizeof(Layer));
    for (std::size_t i = 0; i < other.finding_count_; ++i) findings_[i] = other.findings_[i];
    layer_count_ = other.layer_count_;
    finding_count_ = other.finding_count_;
    bytes = other.bytes;
    wire_length = other.wire_length;
    payload = other.payload;
    pad = other.pad;
    icrc = other.icrc;
    vcrc = other.vcrc;
    mpa_crc = other.mpa_crc;
    wire = other.wire;
    network = other.network;
    transport = other.transport;
    cut = other.cut;
    fragment = other.fragment;
    return *this;
  }

  Bytes bytes;  ///< decoded bytes, owned by the caller
  std::uint32_t wire_length =
      0;  ///< length on the wire in bytes. Exceeds bytes.size() if the capture truncated the packet

  Range payload;  ///< bytes after the headers, without padding and CRCs
  Range pad;      ///< padding bytes counted by the BTH, or of an FPDU
  Range icrc;     ///< length 0: there is none, or the capture truncated it
  Range vcrc;     ///< length 0: as for icrc
  Range mpa_crc;  ///< of an FPDU. Length 0: as for icrc
  Wire wire = Wire::none;
  std::uint8_t network = none;    ///< index of the innermost IPv4, IPv6 or GRH layer
  std::uint8_t transport = none;  ///< index of the innermost BTH, UDP or TCP layer
  bool cut = false;               ///< the capture truncated the packet
  bool fragment = false;          ///< an IP fragment: the bytes after the IP header are not a whole datagram
  static constexpr std::uint8_t none = 0xff;

  [[nodiscard]] std::span<const Layer> layers() const { return {layers_.data(), layer_count_}; }
  [[nodiscard]] std::span<const ParseError> findings() const { return {findings_.data(), finding_count_}; }

  /// Returns the innermost layer of header `h`, or nullptr.
  [[nodiscard]] const Layer* find(const HeaderInfo& h) const {
    for (std::size_t i = layer_count_; i-- > 0;)
      if (layers_[i].header == &h) return &layers_[i];
    return nullptr;
  }
  /// Returns a view of the innermost `H`, or nullopt. The view is safe, because layers are inside `bytes`.
  template <class H>
  [[nodiscard]] std::optional<View<H>> get() const {
    const Layer* layer = find(info<H>);
    if (!layer) return std::nullopt;
    return View<H>(bytes.data() + layer->offset);
  }
  [[nodiscard]] Bytes bytes_of(const Layer& layer) const { return bytes.subspan(layer.offset, layer.length); }
  [[nodiscard]] Bytes bytes_of(Range range) const { return bytes.subspan(range.offset, range.length); }

  /// Appends a layer. Returns false and adds a finding if the stack is full. Only for decoders.
  bool push(const HeaderInfo& header, std::uint32_t offset, std::uint32_t length) {
    if (layer_count_ == max_layers) {
      report({ParseError::Kind::limit, &header, offset, 0, 0, "too many layers"});
      return false;
    }
    layers_[layer_count_++] = {&header, offset, length};
    return true;
  }
  /// Resets the stack to the given layers.
  template <std::size_t N>
  void assign(const Layer (&layers)[N]) {
    static_assert(N <= max_layers);
    for (std::size_t i = 0; i < N; ++i) layers_[i] = layers[i];
    layer_count_ = N;
  }
  /// Appends a finding. Ignores findings after max_findings, because usually the first ones cause the others.
  void report(const ParseError& finding) {
    if (finding_count_ < max_findings) findings_[finding_count_++] = finding;
  }
  [[nodiscard]] std::uint8_t last_layer() const { return static_cast<std::uint8_t>(layer_count_ - 1); }
  /// Prepares for the next packet. Cheaper than a new object.
  void reset(Bytes packet, std::uint32_t length_on_wire) {
    bytes = packet;
    wire_length = length_on_wire;
    layer_count_ = finding_count_ = 0;
    payload = pad = icrc = vcrc = mpa_crc = {};
    wire = Wire::none;
    network = transport = none;
    cut = fragment = false;
  }

 private:
  std::uint32_t layer_count_ = 0;
  std::uint32_t finding_count_ = 0;
  // Not initialized: a packet writes only the entries that it uses.
  std::array<Layer, max_layers> layers_;
  std::array<ParseError, max_findings> findings_;
};

}  // namespace rdmawire
