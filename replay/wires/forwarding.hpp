#pragma once
/// Base class of wires that wrap another wire. Forwards all calls that a derived class does not override.

#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

class ForwardingWire : public Wire {
 public:
  /// `next` must outlive the object.
  explicit ForwardingWire(Wire& next) : next_(next) {}

  [[nodiscard]] const std::string& name() const override { return next_.name(); }
  [[nodiscard]] const WireCapabilities& capabilities() const override { return next_.capabilities(); }
  [[nodiscard]] std::int64_t now() const override { return next_.now(); }
  [[nodiscard]] int descriptor() const override { return next_.descriptor(); }
  [[nodiscard]] WireCounters counters() const override { return next_.counters(); }
  using Wire::send;
  WireResult<std::size_t> send(std::span<const Outgoing> frames) override { return next_.send(frames); }
  WireResult<std::optional<Received>> receive(std::int64_t deadline) override { return next_.receive(deadline); }
  WireResult<bool> writable(std::int64_t deadline) override { return next_.writable(deadline); }
  WireResult<bool> flush(std::int64_t deadline) override { return next_.flush(deadline); }
  void close() override { next_.close(); }

 protected:
  [[nodiscard]] Wire& next() const { return next_; }

 private:
  Wire& next_;
};

}  // namespace rdmawire::replay
