/// Fuzzes data that processes exchange: batches of frames (first byte 0) and saved analyses.

#include "captures/analysis/archive.hpp"
#include "captures/analysis/partition.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rdmawire::captures::analysis;
  if (size == 0) return 0;
  const rdmawire::Bytes bytes(data + 1, size - 1);
  if (data[0] == 0) {
    static const RunOptions options = [] {
      RunOptions small;
      small.tracker.connections = 64;
      return small;
    }();
    ShardTracker tracker(options);
    const auto added = tracker.add(bytes);
    static_cast<void>(added);
    static_cast<void>(tracker.finish({}));
    return 0;
  }
  static const std::string beginning = [] {
    const std::string saved = save(Analysis());
    return saved.substr(0, saved.find('\n') + 1);
  }();
  // Prepend a valid header of this build, so that the fuzzer reaches the contents.
  std::string saved = beginning;
  saved.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (const auto loaded = load({reinterpret_cast<const std::uint8_t*>(saved.data()), saved.size()})) {
    const std::string resaved = save(*loaded);
    static_cast<void>(resaved);
  }
  return 0;
}
