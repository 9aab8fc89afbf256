// Sends the frames of a capture repeatedly at full speed and prints the rate.
//
//   wire_pass WIRE CAPTURE COUNT
//
// Used by scripts/bench-wires for the comparison with tcpreplay.

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <vector>

#include "captures/io/reader.hpp"
#include "replay/wires/clock.hpp"
#include "replay/wires/sending.hpp"
#include "replay/wires/wire.hpp"

int main(int argc, char** argv) {
  using namespace rdmawire;
  const auto report_error = [](const std::string& what) {
    fmt::print(stderr, "wire_pass: {}\n", what);
    return 1;
  };
  std::uint64_t count = 0;
  if (argc != 4 || std::from_chars(argv[3], argv[3] + std::strlen(argv[3]), count).ec != std::errc())
    return report_error("usage: wire_pass WIRE CAPTURE COUNT");
  auto reader = captures::Reader::open(argv[2]);
  if (!reader) return report_error(captures::to_string(reader.error()));
  std::vector<std::vector<std::uint8_t>> frames;
  captures::Record record;
  while (reader->next(record) == captures::Next::record) frames.emplace_back(record.bytes.begin(), record.bytes.end());
  if (frames.empty()) return report_error("the capture has no frames");
  auto wire = replay::open_wire(argv[1]);
  if (!wire) return report_error(wire.error().message);

  const std::size_t batch = (*wire)->capabilities().batch;
  std::vector<replay::Outgoing> run;
  const std::int64_t begin = replay::wire_clock::now();
  for (std::uint64_t sent = 0; sent < count; sent += run.size()) {
    run.clear();
    while (run.size() < batch && sent + run.size() < count)
      run.push_back({frames[(sent + run.size()) % frames.size()], 0});
    const auto taken = replay::send_all(**wire, run, begin + 600'000'000'000);
    if (!taken) return report_error(taken.error().message);
    run.resize(*taken);
  }
  if (const auto left = (*wire)->flush(begin + 600'000'000'000); !left) return report_error(left.error().message);
  const double seconds = static_cast<double>(replay::wire_clock::now() - begin) / 1e9;
  const auto counters = (*wire)->counters();
  fmt::print("{{\"wire\": \"{}\", \"how\": \"{}\", \"frames\": {}, \"bytes\": {}, \"seconds\": {:.6f}}}\n", argv[1],
             (*wire)->capabilities().how, counters.sent, counters.sent_bytes, seconds);
  return 0;
}
