/// Measures how fast a packet is formatted as a line, as JSON and as a tree. For comparison, nlohmann's library writes
/// JSON with the same values.

#include <benchmark/benchmark.h>

#include <nlohmann/json.hpp>

#include "dissectors/output/frames_for_test.hpp"
#include "dissectors/output/json.hpp"
#include "dissectors/output/line.hpp"
#include "dissectors/output/tree.hpp"

namespace rdmawire::output {
namespace {

template <class Append>
void measure(benchmark::State& state, Append append) {
  const testing::OnePacket one(testing::read_request_frame);
  std::string out;
  std::int64_t bytes = 0;
  for (auto _ : state) {
    out.clear();
    append(out, one.packet);
    benchmark::DoNotOptimize(out.data());
    bytes += static_cast<std::int64_t>(out.size());
  }
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(bytes);
}

void Line(benchmark::State& state) {
  LinePrinter printer;
  measure(state, [&](std::string& out, const tracking::Packet& packet) { printer.append(out, packet); });
}
void Json(benchmark::State& state) {
  JsonWriter writer;
  measure(state, [&](std::string& out, const tracking::Packet& packet) { writer.append(out, packet); });
}
void JsonByNlohmann(benchmark::State& state) {
  const testing::OnePacket one(testing::read_request_frame);
  std::string text;
  JsonWriter().append(text, one.packet);
  const auto values = nlohmann::ordered_json::parse(text);
  measure(state, [&](std::string& out, const tracking::Packet&) { out += values.dump(); });
}
void Tree(benchmark::State& state) {
  measure(state, [](std::string& out, const tracking::Packet& packet) { append_tree(out, packet); });
}
void Hexdump(benchmark::State& state) {
  measure(state, [](std::string& out, const tracking::Packet& packet) { append_hexdump(out, packet); });
}
BENCHMARK(Line);
BENCHMARK(Json);
BENCHMARK(JsonByNlohmann);
BENCHMARK(Tree);
BENCHMARK(Hexdump);

}  // namespace
}  // namespace rdmawire::output
