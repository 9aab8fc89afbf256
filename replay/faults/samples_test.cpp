// Transmission numbers of real captures: the numbers counted online must agree with those that the tracker finds in the
// whole capture.

#include <gtest/gtest.h>

#include "captures/analysis/run.hpp"
#include "captures/io/reader.hpp"
#include "dissectors/protocol/decode.hpp"
#include "replay/faults/coordinates.hpp"
#include "source_directory.hpp"

namespace rdmawire::replay {
namespace {

struct Again final : tracking::Sink {
  void event(const tracking::Connection* /*connection*/, const tracking::Event& event) override {
    using tracking::EventKind;
    if (event.kind == EventKind::retransmission || event.kind == EventKind::tcp_retransmission)
      packets += event.packets;
    // Counts retransmissions whose first transmission precedes the capture.
    if (event.kind == EventKind::lost_in_network && event.cause == tracking::Cause::before_capture)
      never_seen += event.packets;
  }
  std::uint64_t packets = 0, never_seen = 0;
};

class Samples : public ::testing::TestWithParam<const char*> {};

TEST_P(Samples, TransmissionsAgreeWithTheTracker) {
  const std::string path = std::string(RDMAWIRE_SOURCE_DIR "/captures/samples/") + GetParam();
  Again again;
  captures::analysis::RunOptions options;
  options.files = {path};
  options.also = &again;
  (void)captures::analysis::run(options);

  auto reader = captures::Reader::open(path).value();
  captures::Record record;
  Coordinator coordinator;
  std::uint64_t counted = 0;
  while (reader.next(record) == captures::Next::record) {
    const FrameCoordinates at = coordinator.locate(decode(record.bytes, record.link));
    EXPECT_NE(at.connection == 0, at.kind != FrameCoordinates::Kind::other) << record.number;
    if (at.kind != FrameCoordinates::Kind::answer && at.transmission > 1) ++counted;
  }
  EXPECT_EQ(counted, again.packets - again.never_seen);
}

INSTANTIATE_TEST_SUITE_P(Captures, Samples,
                         ::testing::Values("rping.pcap", "rc-pingpong-loss.pcap.gz", "rc-write-ipv6.pcap",
                                           "siw-write-loss.pcap.gz", "siw-read.pcap.gz", "siw-rping.pcap"));

}  // namespace
}  // namespace rdmawire::replay
