/// The result of following a growing file must equal the result of reading the complete file.

#include "captures/analysis/live_analysis.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "source_directory.hpp"

namespace rdmawire::captures::analysis {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr const char* sample = RDMAWIRE_SOURCE_DIR "/captures/samples/rping.pcap";

class Follow : public testing::Test {
 protected:
  Follow()
      : path_((std::filesystem::path(testing::TempDir()) / ("follow_test." + std::to_string(::getpid()))).string()) {
    std::ifstream file(sample, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    std::ofstream(path_, std::ios::binary);
  }
  ~Follow() override { std::filesystem::remove(path_); }

  void write(std::size_t from, std::size_t to) {
    std::ofstream(path_, std::ios::binary | std::ios::app)
        .write(bytes_.data() + from, static_cast<std::streamsize>(to - from));
  }
  bool take(LiveAnalysis& following) { return following.take(LiveAnalysis::Clock::now() + 20ms, stop_); }

  const std::string path_;
  std::string bytes_;
  std::atomic<bool> stop_{false};
  RunOptions options_;
};

TEST_F(Follow, PiecewiseReadingEqualsCompleteReading) {
  auto made = LiveAnalysis::file(path_, options_);
  ASSERT_TRUE(made) << made.error();
  LiveAnalysis& following = **made;
  std::uint64_t before = 0;
  EXPECT_TRUE(take(following));  // the file is empty, then has a part of the header
  std::size_t at = 0;
  for (const std::size_t to : {std::size_t{10}, bytes_.size() / 3, bytes_.size() / 2 + 7, bytes_.size()}) {
    write(at, to);
    at = to;
    EXPECT_TRUE(take(following));
    EXPECT_GE(following.packets(), before);
    before = following.packets();
    EXPECT_EQ(following.report().at("summary").at("packets"), before);
  }
  const RunResult grown = following.finish();
  options_.files = {path_};
  const RunResult whole = run(options_);
  EXPECT_TRUE(grown.errors.empty());
  EXPECT_EQ(report_of(grown.analysis, grown.input), report_of(whole.analysis, whole.input));
}

TEST_F(Follow, EndsOnStopAndOnFileRemoval) {
  write(0, bytes_.size());
  auto made = LiveAnalysis::file(path_, options_);
  ASSERT_TRUE(made);
  stop_ = true;
  const auto begun = LiveAnalysis::Clock::now();
  EXPECT_TRUE((*made)->take(begun + 120s, stop_));
  EXPECT_LT(LiveAnalysis::Clock::now() - begun, 60s);
  stop_ = false;
  EXPECT_TRUE(take(**made));
  std::filesystem::remove(path_);
  EXPECT_FALSE(take(**made));
  EXPECT_THAT((*made)->errors().at(0), HasSubstr("was removed"));
  EXPECT_GT((*made)->finish().analysis.packets, 100U);
}

TEST_F(Follow, ReportsUnsupportedInput) {
  EXPECT_THAT(LiveAnalysis::file("/nowhere/x.pcap", options_).error(), HasSubstr("not found"));
  EXPECT_THAT(LiveAnalysis::file("/dev/null", options_).error(), HasSubstr("regular file"));
  EXPECT_FALSE(LiveAnalysis::device("no-such-device", {}, options_));
  write(0, 3);
  std::ofstream(path_, std::ios::binary) << "text that is not a capture file";
  auto made = LiveAnalysis::file(path_, options_);
  ASSERT_TRUE(made);
  EXPECT_FALSE(take(**made));
  EXPECT_EQ((*made)->errors().size(), 1U);
}

}  // namespace
}  // namespace rdmawire::captures::analysis
