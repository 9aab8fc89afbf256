#include "replay/wires/null.hpp"

#include "dissectors/protocol/ethernet.hpp"
#include "replay/wires/clock.hpp"
#include "replay/wires/error.hpp"
#include "replay/wires/frame_limits.hpp"
#include "replay/wires/interface.hpp"
#include "replay/wires/sending.hpp"

namespace rdmawire::replay {
namespace {

constexpr std::size_t null_batch = 64;

class NullWire final : public Wire, public FrameLimits {
 public:
  explicit NullWire(const NullWireOptions& options) : name_(options.name) {
    capabilities_.link = options.link;
    capabilities_.max_bytes = options.mtu ? options.mtu + static_cast<std::uint32_t>(Ethernet::size + Vlan::size)
                                          : std::numeric_limits<std::uint32_t>::max();
    limited_ = options.mtu != 0;
    capabilities_.batch = null_batch;
    capabilities_.receives = false;
  }

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] const WireCapabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] WireCounters counters() const override { return counters_; }

  using Wire::send;
  WireResult<std::size_t> send(std::span<const Outgoing> frames) override {
    if (closed_) return tl::unexpected(closed_error(name_));
    return send_when_due(frames, null_batch, [this](std::span<const Outgoing> run) -> WireResult<std::size_t> {
      for (const Outgoing& frame : run) counters_.sent_bytes += frame.frame.size();
      counters_.sent += run.size();
      return run.size();
    });
  }

  WireResult<std::optional<Received>> receive(std::int64_t deadline) override {
    if (closed_) return tl::unexpected(closed_error(name_));
    return receive_nothing(name_, deadline);
  }

  [[nodiscard]] std::size_t max_bytes_of(Bytes frame) const override {
    return limited_ ? Interface::max_bytes(frame, capabilities_.max_bytes) : capabilities_.max_bytes;
  }
  void close() override { closed_ = true; }

 private:
  std::string name_;
  WireCapabilities capabilities_;
  WireCounters counters_;
  bool closed_ = false, limited_ = false;
};

}  // namespace

std::unique_ptr<Wire> make_null_wire(const NullWireOptions& options) { return std::make_unique<NullWire>(options); }

WireResult<std::unique_ptr<Wire>> open_null_wire(const WireSpec& spec) {
  if (auto known = spec.check({{"link", true, "link type of the frames; default: ethernet"}}); !known)
    return tl::unexpected(known.error());
  const auto link = spec.link();
  if (!link) return tl::unexpected(link.error());
  return make_null_wire({*link, spec.text});
}

}  // namespace rdmawire::replay
