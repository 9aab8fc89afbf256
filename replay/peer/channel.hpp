#pragma once
/// Opens a bidirectional byte stream to an agent.

#include <chrono>
#include <string>
#include <utility>

#include "replay/peer/error.hpp"

namespace rdmawire::peer {

/// An owned file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();

  [[nodiscard]] int get() const { return number_; }
  [[nodiscard]] bool valid() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

/// Opens "tcp:HOST:PORT" (IPv6 addresses in brackets), "unix:PATH" or "serial:PATH" (a terminal is set to raw mode. Its
/// speed is unchanged), non-blocking. Fails after `timeout`.
PeerResult<Descriptor> open_channel(const std::string& address, std::chrono::milliseconds timeout);

}  // namespace rdmawire::peer
