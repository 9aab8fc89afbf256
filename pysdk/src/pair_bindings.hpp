#pragma once
/// What queue pairs and benches of both families have, for the classes of cases.

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

/// "pass", "fail-wrong-code", …; raises UsageError for what is none.
conformance::Verdict verdict_from(const std::string& text);

/// The device's side of a queue pair. Objects of `Pair` have with(work(qp, bench)), which does it without the
/// interpreter's lock.
template <class Pair>
void bind_verbs_steps(py::class_<Pair>& c) {
  using conformance::DeviceQueuePair;
  const auto does = [&c](const char* name, const auto& work, const char* doc, const auto&... args) {
    c.def(name, work, args..., doc);
  };
  /// Does it, and gives nothing.
  const auto step = [](const Pair& self, const auto& work) {
    static_cast<void>(self.with([&](auto& qp, auto&) { return work(static_cast<DeviceQueuePair&>(qp)), true; }));
  };
  does(
      "post_receives",
      [step](const Pair& self, std::uint32_t count) {
        step(self, [&](DeviceQueuePair& qp) { qp.post_receives(count); });
      },
      "The device posts further receive requests; their wr_id counts from 0.", py::arg("count"));
  does(
      "completes",
      [step](const Pair& self, std::uint64_t wr_id, const std::string& status) {
        step(self, [&](DeviceQueuePair& qp) { qp.completes(wr_id, status); });
      },
      "The next completion has this wr_id and status, or the case ends.", py::arg("wr_id"),
      py::arg("status") = "success");
  does(
      "completes_nothing",
      [step](const Pair& self) { step(self, [&](DeviceQueuePair& qp) { qp.completes_nothing(); }); },
      "No completion comes for a while, or the case ends.");
  does(
      "fails",
      [step](const Pair& self, std::uint64_t wr_id) { step(self, [&](DeviceQueuePair& qp) { qp.fails(wr_id); }); },
      "It completes with any error but \"flushed\", or the case ends.", py::arg("wr_id"));
  does(
      "fails_or_is_flushed",
      [step](const Pair& self, std::uint64_t wr_id) {
        step(self, [&](DeviceQueuePair& qp) { qp.fails_or_is_flushed(wr_id); });
      },
      "It completes with any error, or the case ends.", py::arg("wr_id"));
  does(
      "flushes",
      [step](const Pair& self, std::uint64_t first, std::uint64_t last) {
        step(self, [&](DeviceQueuePair& qp) { qp.flushes(first, last); });
      },
      "These complete as flushed, one after the other, or the case ends.", py::arg("first"), py::arg("last"));
  does(
      "is_in",
      [step](const Pair& self, const std::string& state) { step(self, [&](DeviceQueuePair& qp) { qp.is_in(state); }); },
      "The queue pair comes to that state within the usual patience, or the case ends.", py::arg("state"));
  does(
      "holds",
      [step](const Pair& self, std::uint64_t offset, const py::object& expected) {
        const std::string bytes = bytes_of(expected);
        step(self, [&](DeviceQueuePair& qp) { qp.holds(offset, bytes); });
      },
      "The region holds these bytes, or the case ends.", py::arg("offset"), py::arg("expected"));
  does(
      "received",
      [step](const Pair& self, std::uint64_t wr_id, const py::object& expected) {
        const std::string bytes = bytes_of(expected);
        step(self, [&](DeviceQueuePair& qp) { qp.received(wr_id, bytes); });
      },
      "The receive request's memory holds these bytes, or the case ends.", py::arg("wr_id"), py::arg("expected"));
  does(
      "fill",
      [step](const Pair& self, std::uint64_t offset, const py::object& content) {
        const std::string bytes = bytes_of(content);
        step(self, [&](DeviceQueuePair& qp) { qp.fill(offset, bytes); });
      },
      "Puts bytes into the region, as the device's consumer would.", py::arg("offset"), py::arg("data"));
  does(
      "read_memory",
      [](const Pair& self, std::uint64_t offset, std::uint64_t length) {
        return to_bytes(self.with([&](auto& qp, auto& bench) {
          return bench.take(qp.region.read(offset, length), "read the memory region");
        }));
      },
      "What the region holds.", py::arg("offset"), py::arg("length"));
  const auto number = [&c](const char* name, const auto& get, const char* doc) {
    c.def_property_readonly(
        name, [get](const Pair& self) { return self.with([&](auto& qp, auto&) { return get(qp); }); }, doc);
  };
  number(
      "device_qpn", [](DeviceQueuePair& qp) { return qp.qp.qp_num(); }, "The device's queue pair number.");
  number(
      "addr", [](DeviceQueuePair& qp) { return qp.region.addr(); }, "The region's virtual address; with iWARP the TO.");
  number(
      "rkey", [](DeviceQueuePair& qp) { return qp.region.rkey(); }, "The region's R_Key; with iWARP its STag.");
}

/// What a case tells, and asks of the device. Objects of `B` have with(work(bench)).
template <class B>
void bind_bench_steps(py::class_<B>& c) {
  c.def(
      "passes",
      [](const B& self, double seconds) {
        const std::int64_t time = nanoseconds_of(seconds);
        static_cast<void>(self.with([&](auto& bench) { return bench.pass(time), true; }));
      },
      py::arg("seconds"), "Lets time pass; what comes meanwhile is kept for later.");
  c.def(
      "now", [](const B& self) { return self.with([](auto& bench) { return bench.now(); }); },
      "The wire's clock, nanoseconds.");
  c.def(
      "any",
      [](const B& self, std::uint32_t below) {
        if (below == 0) raise(ErrorClass::usage, "below=0: there is no number below 0");
        return self.with([&](auto& bench) { return bench.any(below); });
      },
      py::arg("below"), "A number by chance, of the case's seed.");
  c.def(
      "counters", [](const B& self) { return self.with([](auto& bench) { return bench.counters(); }); },
      "The device's counters by name.");
  c.def(
      "note",
      [](const B& self, const std::string& text) {
        static_cast<void>(self.with([&](auto& bench) { return bench.note(text), true; }));
      },
      py::arg("text"), "A line for the report.");
  c.def(
      "require",
      [](const B& self, bool holds, const std::string& expected, const std::string& actual,
         const std::string& verdict) {
        const conformance::Verdict otherwise = verdict_from(verdict);
        static_cast<void>(
            self.with([&](auto& bench) { return bench.require(holds, expected, actual, otherwise), true; }));
      },
      py::arg("holds"), py::arg("expected"), py::arg("actual"), py::arg("otherwise") = "fail",
      "Ends the case with that verdict unless it holds.");
  c.def(
      "deviates",
      [](const B& self, const std::string& expected, const std::string& actual, const std::string& verdict) {
        const conformance::Verdict which = verdict_from(verdict);
        static_cast<void>(self.with([&](auto& bench) { return bench.deviates(which, expected, actual), true; }));
      },
      py::arg("expected"), py::arg("actual"), py::arg("verdict") = "fail",
      "It is not as expected, but the case goes on: the first such deviation is its verdict unless it ends otherwise.");
  c.def(
      "end",
      [](const B& self, const std::string& verdict, const std::string& reason) {
        const conformance::Verdict which = verdict_from(verdict);
        static_cast<void>(self.with([&](auto&) -> bool { conformance::end_case(which, reason); }));
      },
      py::arg("verdict"), py::arg("reason"), "Ends the case: \"unsupported\", \"inconclusive\", \"may\", …");
}

}  // namespace rdmawire::python
