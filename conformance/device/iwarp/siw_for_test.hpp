#pragma once
/// For tests only: an endpoint that is connected over TCP to a program in a lab guest with Linux's siw.

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "conformance/device/iwarp/stream_link_for_test.hpp"
#include "conformance/device/iwarp/tcp_stream.hpp"
#include "conformance/lab/guest_for_test.hpp"

namespace rdmawire::endpoint::testing {

inline constexpr std::chrono::seconds default_timeout{30};

/// An application whose endpoint is connected to the program.
class SiwPeer {
 public:
  SiwPeer(TcpStream connected, machines::MpaSettings mpa)
      : stream_(std::move(connected)), consumer_(mpa, {}, stream_.emss()), driver_(*consumer_.end, stream_) {}

  Consumer& consumer() { return consumer_; }
  Endpoint& end() { return *consumer_.end; }
  bool until(const std::function<bool()>& done, std::chrono::milliseconds limit = default_timeout) {
    return driver_.run(done, limit);
  }

  std::optional<ConnectionEvent> event() {
    std::optional<ConnectionEvent> found;
    (void)until([&] { return (found = end().next_event()).has_value(); });
    return found;
  }
  /// Return the next receive completion, or nothing if it failed. Send completions are counted.
  std::optional<device::Completion> received() {
    (void)wait_received(default_timeout);
    if (receives_.empty()) return std::nullopt;
    const auto first = receives_.front();
    receives_.pop_front();
    if (first.status != device::Status::success) return std::nullopt;
    while (const auto unexpected = end().next_event())
      ADD_FAILURE() << "event " << int{static_cast<std::uint8_t>(unexpected->type)} << ", error "
                    << int{unexpected->error.layer} << ' ' << int{unexpected->error.type} << ' '
                    << int{unexpected->error.code};
    return first;
  }
  /// Return true if a receive completes within `limit`.
  bool wait_received(std::chrono::milliseconds limit) {
    return until(
        [&] {
          poll();
          return !receives_.empty();
        },
        limit);
  }
  bool sent(std::uint64_t id) {
    return until([&] {
      poll();
      return done_ >= id;
    });
  }
  std::uint64_t post(device::SendRequest request) {
    request.id = ++posted_;
    EXPECT_TRUE(end().post_send(std::move(request)));
    return posted_;
  }
  device::Status worst = device::Status::success;

 private:
  void poll() {
    for (const auto& one : consumer_.poll()) {
      if (one.opcode == device::CompletionOpcode::receive) {
        receives_.push_back(one);
        continue;
      }
      ++done_;
      if (one.status != device::Status::success) worst = one.status;
    }
  }

  TcpStream stream_;
  Consumer consumer_;
  TcpDriver driver_;
  std::deque<device::Completion> receives_;
  std::uint64_t posted_ = 0, done_ = 0;
};

inline machines::MpaSettings siw_settings(int revision, bool crc) {
  machines::MpaSettings mpa{.revision = static_cast<std::uint8_t>(revision)};
  mpa.crc = crc;
  mpa.ird = mpa.ord = 1;
  return mpa;
}

/// Return an `End`, which is a SiwPeer, that is connected to a guest program at a forwarded port. Until the program
/// listens, connections close immediately and are retried. nullptr: no connection.
template <class End>
std::unique_ptr<End> connected(std::uint16_t port, const machines::MpaSettings& mpa) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    auto stream = TcpStream::connect("127.0.0.1", port);
    if (!stream) return nullptr;
    auto end = std::make_unique<End>(std::move(*stream), mpa);
    if (!end->end().connect({}, steady_now())) return nullptr;
    const auto event = end->event();
    if (event && event->type == ConnectionEvent::Type::established) return end;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return nullptr;
}

/// Work around a bug of siw in Linux 6.1: it processes data that arrives directly after its MPA Reply Frame only when
/// more data arrives. Wait for the response to the first message. If there is none, send an empty RDMA Write and return
/// true.
inline bool nudge(SiwPeer& end) {
  if (end.wait_received(std::chrono::seconds(3))) return false;
  end.post({.opcode = device::WorkOpcode::write});
  return true;
}

/// Tests that share one guest with siw.
class Siw : public ::testing::Test {
 protected:
  static lab::Result<lab::TestGuest>& booted() {
    static lab::Result<lab::TestGuest> one = lab::TestGuest::boot(true);
    return one;
  }
  void SetUp() override {
    if (booted()) return;
    if (booted().error().kind == lab::LabError::Kind::missing ||
        booted().error().message.find("network") != std::string::npos)
      GTEST_SKIP() << booted().error().message;
    FAIL() << booted().error().message;
  }
  void TearDown() override {
    if (!booted()) return;
    for (const auto& complaint : guest().complaints()) ADD_FAILURE() << "guest kernel: " << complaint.what;
  }
  static lab::Guest& guest() { return booted()->guest; }
  /// Start a program in the guest, whose peer is the test.
  static std::future<lab::Result<lab::RunResult>> start(std::vector<std::string> argv) {
    return std::async(std::launch::async, [argv = std::move(argv)] {
      lab::RunOptions options;
      options.timeout = default_timeout;
      return guest().run(argv, options);
    });
  }
  static void expect_success(std::future<lab::Result<lab::RunResult>>& program) {
    const auto result = program.get();
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->status, 0) << result->output << result->error;
  }
};

}  // namespace rdmawire::endpoint::testing
