#pragma once
/// Common methods of queue pairs and benches of both transport families.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <string>
#include <vector>

#include "conformance/cases/device_bench.hpp"
#include "pysdk/src/bytes.hpp"
#include "pysdk/src/stream_bindings.hpp"
#include "pysdk/src/values.hpp"

namespace rdmawire::python {

/// Parses "pass", "fail-wrong-code", …. Raises UsageError for other texts.
conformance::Verdict verdict_from(const std::string& text);

// The following functions add methods for steps at the device's side of a queue pair. Objects of `Pair` have
// with(work(qp, bench)), which runs `work` without the interpreter's lock.

/// Runs a step and returns None.
inline constexpr auto run_step = [](const auto& pair, const auto& work) {
  static_cast<void>(
      pair.with([&](auto& qp, auto&) { return work(static_cast<conformance::DeviceQueuePair&>(qp)), true; }));
};

/// Adds the methods for work requests and states.
template <class Pair>
void bind_work_steps(py::class_<Pair>& c) {
  using conformance::DeviceQueuePair;
  const auto does = [&c](const char* name, const auto& work, const char* doc, const auto&... args) {
    c.def(name, work, args..., doc);
  };
  does(
      "post_receives",
      [](const Pair& self, std::uint32_t count) {
        run_step(self, [&](DeviceQueuePair& qp) { qp.post_receives(count); });
      },
      "Post receive requests at the device. Their wr_id counts from 0.", py::arg("count"));
  does(
      "completes",
      [](const Pair& self, std::uint64_t wr_id, const std::string& status) {
        run_step(self, [&](DeviceQueuePair& qp) { qp.completes(wr_id, status); });
      },
      "Expect this wr_id and status in the next completion. Ends the case otherwise.", py::arg("wr_id"),
      py::arg("status") = "success");
  does(
      "completes_nothing",
      [](const Pair& self) { run_step(self, [&](DeviceQueuePair& qp) { qp.completes_nothing(); }); },
      "Expect no completion for some time. Ends the case otherwise.");
  does(
      "fails",
      [](const Pair& self, std::uint64_t wr_id) { run_step(self, [&](DeviceQueuePair& qp) { qp.fails(wr_id); }); },
      "Expect an error status other than \"flushed\" in the next completion. Ends the case otherwise.",
      py::arg("wr_id"));
  does(
      "fails_or_is_flushed",
      [](const Pair& self, std::uint64_t wr_id) {
        run_step(self, [&](DeviceQueuePair& qp) { qp.fails_or_is_flushed(wr_id); });
      },
      "Expect an error status in the next completion. Ends the case otherwise.", py::arg("wr_id"));
  does(
      "flushes",
      [](const Pair& self, std::uint64_t first, std::uint64_t last) {
        run_step(self, [&](DeviceQueuePair& qp) { qp.flushes(first, last); });
      },
      "Expect that these requests complete as flushed, in order. Ends the case otherwise.", py::arg("first"),
      py::arg("last"));
  does(
      "is_in",
      [](const Pair& self, const std::string& state) { run_step(self, [&](DeviceQueuePair& qp) { qp.is_in(state); }); },
      "Expect this state within the device's usual response time. Ends the case otherwise.", py::arg("state"));
}

/// Adds the methods for memory.
template <class Pair>
void bind_memory_steps(py::class_<Pair>& c) {
  using conformance::DeviceQueuePair;
  const auto does = [&c](const char* name, const auto& work, const char* doc, const auto&... args) {
    c.def(name, work, args..., doc);
  };
  does(
      "holds",
      [](const Pair& self, std::uint64_t offset, const py::object& expected) {
        const std::string bytes = bytes_of(expected);
        run_step(self, [&](DeviceQueuePair& qp) { qp.holds(offset, bytes); });
      },
      "Expect these bytes in the region. Ends the case otherwise.", py::arg("offset"), py::arg("expected"));
  does(
      "received",
      [](const Pair& self, std::uint64_t wr_id, const py::object& expected) {
        const std::string bytes = bytes_of(expected);
        run_step(self, [&](DeviceQueuePair& qp) { qp.received(wr_id, bytes); });
      },
      "Expect these bytes in the memory of the receive request. Ends the case otherwise.", py::arg("wr_id"),
      py::arg("expected"));
  does(
      "fill",
      [](const Pair& self, std::uint64_t offset, const py::object& content) {
        const std::string bytes = bytes_of(content);
        run_step(self, [&](DeviceQueuePair& qp) { qp.fill(offset, bytes); });
      },
      "Write bytes to the region, as the device's application.", py::arg("offset"), py::arg("data"));
  does(
      "read_memory",
      [](const Pair& self, std::uint64_t offset, std::uint64_t length) {
        return to_bytes(self.with([&](auto& qp, auto& bench) {
          return bench.take(qp.region.read(offset, length), "read the memory region");
        }));
      },
      "Return bytes of the region.", py::arg("offset"), py::arg("length"));
  const auto number = [&c](const char* name, const auto& get, const char* doc) {
    c.def_property_readonly(
        name, [get](const Pair& self) { return self.with([&](auto& qp, auto&) { return get(qp); }); }, doc);
  };
  number(
      "device_qpn", [](DeviceQueuePair& qp) { return qp.qp.qp_num(); }, "QP number of the device.");
  number(
      "addr", [](DeviceQueuePair& qp) { return qp.region.addr(); }, "Virtual address of the region, for iWARP its TO.");
  number(
      "rkey", [](DeviceQueuePair& qp) { return qp.region.rkey(); }, "R_Key of the region, for iWARP its STag.");
}

template <class Pair>
void bind_verbs_steps(py::class_<Pair>& c) {
  bind_work_steps(c);
  bind_memory_steps(c);
}

/// Adds the methods of a bench that are independent of queue pairs. Objects of `B` have with(work(bench)).
template <class B>
void bind_bench_steps(py::class_<B>& c) {
  c.def(
      "passes",
      [](const B& self, double seconds) {
        const std::int64_t time = nanoseconds_of(seconds);
        static_cast<void>(self.with([&](auto& bench) { return bench.pass(time), true; }));
      },
      py::arg("seconds"), "Wait for `seconds`. Received frames are kept.");
  c.def(
      "now", [](const B& self) { return self.with([](auto& bench) { return bench.now(); }); },
      "Return the time of the wire's clock in nanoseconds.");
  c.def(
      "any",
      [](const B& self, std::uint32_t below) {
        if (below == 0) raise(ErrorClass::usage, "below=0: expected a number above 0");
        return self.with([&](auto& bench) { return bench.any(below); });
      },
      py::arg("below"), "Return a random number from 0 to `below` - 1. The case's seed determines it.");
  c.def(
      "counters", [](const B& self) { return self.with([](auto& bench) { return bench.counters(); }); },
      "Return the device's counters by name.");
  c.def(
      "note",
      [](const B& self, const std::string& text) {
        static_cast<void>(self.with([&](auto& bench) { return bench.note(text), true; }));
      },
      py::arg("text"), "Add a line to the report.");
  c.def(
      "require",
      [](const B& self, bool holds, const std::string& expected, const std::string& actual,
         const std::string& verdict) {
        const conformance::Verdict otherwise = verdict_from(verdict);
        static_cast<void>(
            self.with([&](auto& bench) { return bench.require(holds, expected, actual, otherwise), true; }));
      },
      py::arg("holds"), py::arg("expected"), py::arg("actual"), py::arg("otherwise") = "fail",
      "End the case with the verdict `otherwise` unless `holds` is true.");
  c.def(
      "deviates",
      [](const B& self, const std::string& expected, const std::string& actual, const std::string& verdict) {
        const conformance::Verdict which = verdict_from(verdict);
        static_cast<void>(self.with([&](auto& bench) { return bench.deviates(which, expected, actual), true; }));
      },
      py::arg("expected"), py::arg("actual"), py::arg("verdict") = "fail",
      "Report a deviation and continue. The first one determines the verdict unless the case ends with another one.");
  c.def(
      "end",
      [](const B& self, const std::string& verdict, const std::string& reason) {
        const conformance::Verdict which = verdict_from(verdict);
        static_cast<void>(self.with([&](auto&) -> bool { conformance::end_case(which, reason); }));
      },
      py::arg("verdict"), py::arg("reason"), "End the case: \"unsupported\", \"inconclusive\", \"may\", …");
}

}  // namespace rdmawire::python
