// SPDX-License-Identifier: GPL-2.0-or-later
/// Prints for each frame of a capture the tracker's state after adding that frame, which the plugin must show in a
/// single pass. Uses only the tracker.
///
/// wireshark_first_pass CAPTURE
///
/// One line per frame: number, connection, endpoint, relative PSN, outstanding, retransmission flag, related frame,
/// outstanding bytes, acknowledged packets, class of a response, outstanding and allowed READs, credits (-: none). The
/// frame's events follow.

#include <cstdio>
#include <string>
#include <vector>

#include "captures/io/reader.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/tracker.hpp"

namespace {

using namespace rdmawire;

class EventCollector final : public tracking::Sink {
 public:
  std::uint64_t frame = 0;
  std::string note, events;

  void begin(std::uint64_t number) {
    frame = number;
    note.clear();
    events.clear();
  }
  void packet(const tracking::Connection&, std::uint64_t of, const tracking::PacketNote& n) override {
    if (of != frame) return;
    char text[200];
    std::snprintf(text, sizeof text, " %llu %c %u %u %d %llu %u %u %s %u %u ",
                  static_cast<unsigned long long>(n.connection), n.end == tracking::Side::a ? 'a' : 'b', n.relative_psn,
                  n.outstanding, n.again ? 1 : 0, static_cast<unsigned long long>(n.related_frame), n.outstanding_bytes,
                  n.acknowledged, to_string(n.answered).data(), n.reads, static_cast<unsigned>(n.read_limit));
    note = text + (n.credits ? std::to_string(*n.credits) : "-");
  }
  void event(const tracking::Connection*, const tracking::Event& event) override {
    if (event.frame != frame) return;
    events += ' ';
    events += to_string(event.kind);
  }
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  auto reader = captures::Reader::open(arguments[1]);
  if (!reader) return 3;
  EventCollector hearing;
  tracking::TrackerOptions options;
  options.packets = true;
  tracking::Tracker tracker(hearing, options);
  tracking::Dissector dissector;
  tracking::Packet packet;
  captures::Record record;
  while (reader->next(record) == captures::Next::record) {
    packet.number = record.number;
    packet.time_ns = record.time;
    packet.link = record.link;
    hearing.begin(record.number);
    dissector.dissect(packet, record.bytes, record.wire_length);
    tracker.add(packet);
    std::printf("%llu%s |%s\n", static_cast<unsigned long long>(record.number), hearing.note.c_str(),
                hearing.events.c_str());
  }
  return 0;
}
