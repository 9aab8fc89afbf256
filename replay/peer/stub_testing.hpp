#pragma once
/// A scripted agent at the second socket of a pair, for tests.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "replay/peer/channel.hpp"

namespace rdmawire::peer::testing {

/// The agent's end of the connection. A line that does not arrive within a minute fails the test.
class Stub {
 public:
  explicit Stub(Descriptor stream) : stream_(std::move(stream)) {}

  void send_bytes(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t put = ::send(stream_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (put <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(put));
    }
  }
  void say(const std::string& line) { send_bytes(line + "\n"); }

  /// The next line without its end. nullopt at the end of the connection.
  std::optional<std::string> next() {
    for (;;) {
      if (const auto end = bytes_.find('\n'); end != std::string::npos) {
        std::string line = bytes_.substr(0, end);
        bytes_.erase(0, end + 1);
        return line;
      }
      pollfd wait{stream_.get(), POLLIN, 0};
      if (::poll(&wait, 1, 60'000) <= 0) {
        ADD_FAILURE() << "no line received";
        return std::nullopt;
      }
      std::array<char, 4096> some{};
      const ssize_t got = ::recv(stream_.get(), some.data(), some.size(), 0);
      if (got <= 0) return std::nullopt;
      bytes_.append(some.data(), static_cast<std::size_t>(got));
    }
  }
  void expect(const std::string& line) { EXPECT_EQ(next(), line); }
  /// Expects a line and responds to it.
  void expect(const std::string& line, const std::string& answer) {
    expect(line);
    say(answer);
  }

  /// Responds to a hello and returns its id as JSON text.
  std::string hello(const std::string& controller = "rdmawire", const std::string& heartbeat = "") {
    expect("");
    const auto line = next();
    if (!line) return "0";
    const auto id = nlohmann::json::parse(*line).at("id").dump();
    EXPECT_EQ(*line,
              fmt::format(R"({{"id":{},"do":"hello","controller":"{}"{},"protocol":1}})", id, controller, heartbeat));
    return id;
  }
  void greet(const std::string& heartbeat = "") {
    say(fmt::format(R"({{"id":{},"result":{{"protocol":1,"agent":"stub","authentication":"none"}}}})",
                    hello("rdmawire", heartbeat)));
  }
  /// Responds to all requests with success until bye or the end of the connection.
  void farewell() {
    while (const auto line = next()) {
      const auto asked = nlohmann::json::parse(*line);
      say(fmt::format(R"({{"id":{},"result":{{}}}})", asked.at("id").dump()));
      if (asked.at("do") == "bye") return;
    }
  }
  void hang_up() { stream_ = Descriptor(); }

 private:
  Descriptor stream_;
  std::string bytes_;
};

/// A socket pair with an agent thread that runs `script`.
class Played {
 public:
  explicit Played(std::function<void(Stub&)> script) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    ours_ = Descriptor(ends[0]);
    agent_ = std::thread([end = ends[1], script = std::move(script)] {
      Stub stub{Descriptor(end)};
      script(stub);
    });
  }
  ~Played() {
    ours_ = Descriptor();
    agent_.join();
  }
  Played(const Played&) = delete;
  Played& operator=(const Played&) = delete;

  Descriptor stream() { return std::move(ours_); }

 private:
  Descriptor ours_;
  std::thread agent_;
};

}  // namespace rdmawire::peer::testing
