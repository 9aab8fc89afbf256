/// Work divided over processes gives what one run gives, to the letter.

#include "captures/analysis/partition.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "captures/analysis/archive.hpp"
#include "source_directory.hpp"

namespace rdmawire::captures::analysis {
namespace {

using ::testing::HasSubstr;

Bytes octets_of(const std::string& text) { return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}; }

std::vector<std::string> samples() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(RDMAWIRE_SOURCE_DIR "/captures/samples"))
    if (entry.path().string().find(".pcap") != std::string::npos) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

/// The report of these files, worked out in shares, with files cut into portions of so many frames, and everything that
/// would travel between processes sent as octets.
Json divided(const std::vector<std::string>& names, unsigned shares, std::uint64_t portion_frames,
             const std::string& from = {}, const std::string& to = {}) {
  std::vector<Survey> surveys;
  for (const std::string& name : names) surveys.push_back(survey(name).value());
  std::stable_sort(surveys.begin(), surveys.end(),
                   [](const Survey& a, const Survey& b) { return a.begins < b.begins; });
  const std::int64_t origin = surveys.front().begins;
  std::vector<std::unique_ptr<ShareTracker>> trackers;
  RunOptions options;
  for (unsigned share = 0; share < shares; ++share) trackers.push_back(std::make_unique<ShareTracker>(options));
  Input input;
  Overlaps overlaps;
  std::uint64_t before = 0;
  for (const Survey& file : surveys) {
    Portion portion{file.facts.name, 1, 0, before, {}, {}};
    if (!from.empty()) portion.begin = Boundary::parse(from)->from_origin(origin);
    if (!to.empty()) portion.end = Boundary::parse(to)->from_origin(origin);
    for (; portion.from <= file.facts.packets; portion.from = portion.to + 1) {
      portion.to = std::min(file.facts.packets, portion.from + portion_frames - 1);
      const auto parcels = divide(portion, shares).value();
      EXPECT_EQ(parcels.size(), shares);
      for (unsigned share = 0; share < shares; ++share) {
        const auto added = trackers[share]->add(octets_of(parcels[share]));
        EXPECT_TRUE(added) << added.error();
      }
    }
    input.files.push_back(file.facts);
    if (input.files.back().packets) input.files.back().first_frame = before + 1;
    before += file.facts.packets;
    overlaps.packet(file.first_time);
    overlaps.packet(file.last_time);
    input.overlapping_files += overlaps.end_of_file();
  }
  std::optional<Analysis> whole;
  for (const auto& tracker : trackers) {
    const std::string saved = save(tracker->finish());
    input.evicted_packets += tracker->evicted_packets();
    Analysis part = load(octets_of(saved)).value();
    if (whole)
      whole->merge(part);
    else
      whole = std::move(part);
  }
  return report_of(*whole, input);
}

TEST(Partition, SharesAndPortionsGiveWhatOneRunGives) {
  RunOptions options;
  options.files = samples();
  ASSERT_GT(options.files.size(), 15U);
  const RunResult result = run(options);
  const Json one = report_of(result.analysis, result.input);
  for (const auto& [shares, portion] : {std::pair{1U, std::uint64_t{1} << 40},
                                        {3U, std::uint64_t{1000}},
                                        {7U, std::uint64_t{333}},
                                        {64U, std::uint64_t{1} << 40}}) {
    const Json many = divided(options.files, shares, portion);
    EXPECT_TRUE(many == one) << shares << " shares: " << Json::diff(one, many).dump().substr(0, 2000);
  }
}

TEST(Partition, EachSampleByItself) {
  for (const std::string& name : samples()) {
    RunOptions options;
    options.files = {name};
    const RunResult result = run(options);
    const Json one = report_of(result.analysis, result.input);
    const Json many = divided({name}, 4, 100);
    EXPECT_TRUE(many == one) << name << ": " << Json::diff(one, many).dump().substr(0, 1000);
  }
}

TEST(Partition, BoundariesAreTheWholeCaptures) {
  RunOptions options;
  options.files = {RDMAWIRE_SOURCE_DIR "/captures/samples/rping.pcap"};
  options.from = *Boundary::parse("3.25");
  options.to = *Boundary::parse("frame:200");
  const RunResult result = run(options);
  const Json one = report_of(result.analysis, result.input);
  ASSERT_LT(one.at("summary").at("packets").get<int>(), 200);
  const Json many = divided(options.files, 3, 50, "3.25", "frame:200");
  EXPECT_TRUE(many == one) << Json::diff(one, many).dump().substr(0, 1000);
}

TEST(Partition, WhatIsWrongIsSaid) {
  EXPECT_THAT(survey("/nowhere/x.pcap").error(), HasSubstr("/nowhere/x.pcap"));
  const std::string name = RDMAWIRE_SOURCE_DIR "/captures/samples/rping.pcap";
  EXPECT_THAT(divide({name, 1, 1'000'000, 0, {}, {}}, 2).error(), HasSubstr("when it was surveyed"));
  const auto parcels = divide({name, 1, UINT64_MAX, 0, {}, {}}, 1).value();
  for (std::size_t octets = 1; octets < 400; ++octets) {
    ShareTracker tracker{RunOptions{}};
    const auto added = tracker.add(octets_of(parcels[0]).first(octets));
    if (!added) {
      EXPECT_THAT(added.error(), HasSubstr("broken at octet"));
    }
    tracker.finish();
  }
  ShareTracker tracker{RunOptions{}};
  EXPECT_FALSE(tracker.add(octets_of("nonsense that is longer than an item is")));
}

TEST(Archive, ComesBackWhole) {
  RunOptions options;
  options.files = {RDMAWIRE_SOURCE_DIR "/captures/samples/nvme-over-rdma.pcap.zst",
                   RDMAWIRE_SOURCE_DIR "/captures/samples/siw-write-loss.pcap.gz"};
  RunResult result = run(options);
  const Json before = report_of(result.analysis, result.input);
  ASSERT_THAT(before.dump(), HasSubstr("NVMe"));  // a sentence that an archive must carry along
  std::optional<Analysis> loaded;
  {
    const std::string saved = save(result.analysis);
    loaded = load(octets_of(saved)).value();
  }
  result.analysis = Analysis();
  EXPECT_EQ(report_of(*loaded, result.input), before);
}

TEST(Archive, WhatIsNotOneIsRefused) {
  EXPECT_THAT(load({}).error(), HasSubstr("no saved analysis"));
  EXPECT_THAT(load(octets_of("rdmawire analysis 0.0.0 1 2 3\n")).error(), HasSubstr("another build"));
  RunOptions options;
  options.files = {RDMAWIRE_SOURCE_DIR "/captures/samples/rping.pcap"};
  const std::string saved = save(run(options).analysis);
  for (std::size_t octets = 0; octets < saved.size(); octets += 97)
    EXPECT_FALSE(load(octets_of(saved).first(octets))) << octets;
  EXPECT_THAT(load(octets_of(saved + "x")).error(), HasSubstr("left at its end"));
}

}  // namespace
}  // namespace rdmawire::captures::analysis
