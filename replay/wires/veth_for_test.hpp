#pragma once
/// Two interfaces "near" and "far" of one veth pair in this thread's namespace, for tests.

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "replay/wires/background.hpp"
#include "replay/wires/namespaces_for_test.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::replay::testing {

constexpr std::int64_t second = 1'000'000'000;

/// A frame with an EtherType that no protocol stack handles by default.
inline std::vector<std::uint8_t> frame_of(std::size_t bytes, std::uint8_t value, std::uint16_t type = 0x88b5) {
  std::vector<std::uint8_t> frame(bytes, value);
  store_be(frame.data(), 6, 0x02000000'0001);
  store_be(frame.data() + 6, 6, 0x02000000'0002);
  store_be(frame.data() + 12, 2, type);
  return frame;
}

inline std::vector<std::uint8_t> copy(const Received& received) {
  return {received.frame.begin(), received.frame.end()};
}

/// Receives the next frame with this EtherType. 0: any.
inline std::optional<Received> next(Wire& wire, std::uint16_t type = 0x88b5, std::int64_t patience = 5 * second) {
  const std::int64_t deadline = wire.now() + patience;
  for (;;) {
    const auto got = wire.receive(deadline);
    if (!got || !*got) return std::nullopt;
    if (type == 0 || load_be<2>((*got)->frame.data() + 12) == type) return *got;
  }
}

/// Sends until an error reports the lost carrier. nullopt after one minute. The kernel may report it late, and its
/// queue may be full until then.
inline std::optional<WireError> until_down(Wire& wire) {
  std::optional<WireError> error;
  for (const std::int64_t deadline = wire.now() + 60 * second; wire.now() < deadline;) {
    if (const auto sent = wire.send(frame_of(60, 1)); !sent) error = sent.error();
    if (error && error->kind != WireError::Kind::full) break;
  }
  return error;
}

/// Calls `what` in a thread without capabilities.
inline void without_rights(const std::function<void()>& what) {
  std::thread([&] {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, 2> none{};
    ASSERT_EQ(syscall(SYS_capset, &header, none.data()), 0);
    what();
  }).join();
}

/// Sends frames in both directions while one thread reads each end.
inline void expect_both_ways_at_once(std::unique_ptr<Wire> one, std::unique_ptr<Wire> other) {
  ASSERT_TRUE(one && other);
  const auto near = read_in_background(std::move(one)), far = read_in_background(std::move(other));
  constexpr int count = 500;
  for (int i = 0; i < count; ++i) {
    const auto frame = frame_of(100, static_cast<std::uint8_t>(i));
    for (const auto* wire : {&near, &far}) {
      ASSERT_TRUE((*wire)->writable((*wire)->now() + 5 * second).value_or(false));
      ASSERT_TRUE((*wire)->send(frame));
    }
  }
  for (const auto* wire : {&near, &far}) {
    ASSERT_TRUE((*wire)->flush((*wire)->now() + 5 * second).value_or(false));
    for (int i = 0; i < count; ++i) {
      const auto got = next(**wire);
      ASSERT_TRUE(got) << i;
      ASSERT_EQ(copy(*got), frame_of(100, static_cast<std::uint8_t>(i)));
    }
  }
}

class VethTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why_not;
    spaces_ = Namespaces::make(why_not);
    if (!spaces_) GTEST_SKIP() << why_not;
    // Both ends are in one namespace, so that one thread can open both.
    ASSERT_TRUE(spaces_->run("ip link add near type veth peer name far && for i in near far; do "
                             "sysctl -qw net.ipv6.conf.$i.disable_ipv6=1; ip link set $i up; done") &&
                spaces_->run(Namespaces::until_up("near")) && spaces_->run(Namespaces::until_up("far")));
  }
  static std::unique_ptr<Wire> open(const std::string& name) {
    auto wire = open_wire(name);
    EXPECT_TRUE(wire) << wire.error().message;
    return wire ? std::move(*wire) : nullptr;
  }
  static WireError error_of(const std::string& name) {
    const auto wire = open_wire(name);
    return wire ? WireError{WireError::Kind::closed, 0, "it opened"} : wire.error();
  }
  std::unique_ptr<Namespaces> spaces_;
};

}  // namespace rdmawire::replay::testing
