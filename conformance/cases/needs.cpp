#include <fmt/format.h>

#include <algorithm>

#include "conformance/cases/case.hpp"

namespace rdmawire::conformance {
namespace {

using nlohmann::json;

bool has(const json& description, std::initializer_list<const char*> any_of) {
  const json names = description.value("capabilities", json::array());
  return std::any_of(any_of.begin(), any_of.end(), [&](const char* name) {
    return std::find(names.begin(), names.end(), json(name)) != names.end();
  });
}

struct Question {
  Need need;
  const char* name;
  bool (*answer)(const json& description);
};

constexpr Question questions[] = {
    {Need::xrc, "XRC", [](const json& d) { return has(d, {"xrc"}); }},
    {Need::atomics, "atomic operations", [](const json& d) { return d.value("atomic", "none") != "none"; }},
    {Need::shared_receive_queues, "shared receive queues",
     [](const json& d) { return d.value("/limits/max_srq"_json_pointer, 0) > 0; }},
    {Need::memory_windows, "memory windows of type 2",
     [](const json& d) {
       return has(d, {"mem_window_type_2a", "mem_window_type_2b"});
     }},
    {Need::flush, "FLUSH", [](const json& d) { return has(d, {"flush_global"}); }},
    {Need::atomic_write, "ATOMIC WRITE", [](const json& d) { return has(d, {"atomic_write"}); }},
};

}  // namespace

std::string left_out(const DeviceUnderTest& device, RunPolicy caution) {
  if (caution == RunPolicy::slow && !device.takes_slow) return "the case takes more than a minute; run it with --slow";
  if (caution == RunPolicy::dangerous && !device.takes_dangerous)
    return "the case may stop the device; run it with --dangerous";
  return {};
}

std::string lacking(const DeviceUnderTest& device, Need needed) {
  if (needs(needed, Need::multicast) && !device.multicast)
    return "multicast is not permitted; permit it with --allow-multicast";
  const bool asks = std::any_of(std::begin(questions), std::end(questions),
                                [&](const Question& question) { return needs(needed, question.need); });
  if (!asks) return {};
  const auto description = device.peer->call("describe", {{"device", device.device->handle()}});
  if (!description) return {};  // the steps of the case report the error
  for (const Question& question : questions)
    if (needs(needed, question.need) && !question.answer(*description))
      return fmt::format("the device reports no support for {}", question.name);
  return {};
}

}  // namespace rdmawire::conformance
