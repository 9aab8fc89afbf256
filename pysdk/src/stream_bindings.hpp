#pragma once
/// What of streams of iWARP is for Python, at a device and in a case alike.

#include <fmt/format.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <vector>

#include "conformance/cases/iwarp/bench.hpp"
#include "pysdk/src/bytes.hpp"
#include "pysdk/src/errors.hpp"

namespace rdmawire::python {

using StreamBench = conformance::iwarp::IwarpBench;
using StreamConnected = conformance::iwarp::Connected;
using StreamExpectation = conformance::iwarp::Expectation;

/// The Python object for what came, of class Heard.
py::object received_object(conformance::iwarp::Seen seen);
/// By name; raises UsageError for an option that there is not.
conformance::iwarp::ConnectOptions stream_options(const py::dict& given);
/// From one to 64 bits of seconds; 0 is the usual patience. Raises for what is no time.
std::int64_t nanoseconds_of(double seconds);

/// What Python gives to be said on a stream: an FPDU to be framed as the stream is, or bytes as they stand.
struct OutgoingBytes {
  std::optional<conformance::Stimulus> fpdu{};
  conformance::iwarp::ByteVector bytes{};
  std::string words;

  /// The bytes that come next in the stream.
  [[nodiscard]] conformance::iwarp::ByteVector next_of(StreamConnected& qp) const {
    return fpdu ? qp.fpdu(*fpdu) : bytes;
  }
};
/// A Stimulus, a Frame that begins with an FPDU, or bytes. `words`: how a report calls it, in place of our own.
OutgoingBytes outgoing_bytes(const py::object& what, const std::string& words = {});

/// Does it where TCP is there, and, if `fpdu`, both MPA frames have been; else raises UsageError.
template <class Pair, class Work>
auto on_stream(const Pair& self, const Work& work, bool fpdu = false) {
  auto result = self.with([&](StreamConnected& qp, StreamBench& bench) {
    using Result = decltype(work(qp, bench));
    return qp.connected() && (!fpdu || qp.operating()) ? std::optional<Result>(work(qp, bench)) : std::nullopt;
  });
  if (!result)
    raise(ErrorClass::usage, fpdu ? "the stream is not in Full Operation Phase: set it up, or say bytes"
                                  : "the queue pair has no stream: connect TCP by dials() or device_dials()");
  return std::move(*result);
}

/// Adds what is said and heard on a stream, and the steps of its set-up. Objects of `Pair` have
/// with(work(StreamConnected&, StreamBench&)), which does it without the interpreter's lock.
template <class Pair, class... Bases>
void bind_stream_steps(py::class_<Pair, Bases...>& c) {
  using conformance::Silence;
  const auto step = [&c](const char* name, auto work, const char* doc) {
    c.def(
        name,
        [work](const Pair& self) {
          static_cast<void>(self.with([&](StreamConnected& qp, StreamBench& bench) { return work(qp, bench), true; }));
        },
        doc);
  };
  const auto on_tcp = [&c](const char* name, auto work, const char* doc) {
    c.def(
        name,
        [work](const Pair& self) {
          static_cast<void>(
              on_stream(self, [&](StreamConnected& qp, StreamBench& bench) { return work(qp, bench), true; }));
        },
        doc);
  };

  // Its set-up, step by step.
  step(
      "listens", [](StreamConnected& qp, StreamBench& bench) { bench.listens(qp); },
      "The device waits for a stream; `port` says where.");
  step(
      "dials", [](StreamConnected& qp, StreamBench& bench) { bench.dials(qp); },
      "The tester connects TCP to where the device waits.");
  step(
      "device_dials", [](StreamConnected& qp, StreamBench& bench) { bench.device_dials(qp); },
      "The device asks the tester for a stream, and TCP is connected.");
  on_tcp(
      "requests",
      [](StreamConnected& qp, StreamBench& bench) { qp.say(bench.frame_of(qp.options), "MPA Request Frame"); },
      "Says the MPA Request Frame that the options make.");
  on_tcp(
      "accepts", [](StreamConnected& qp, StreamBench& bench) { bench.accepts(qp); },
      "The device's consumer is told of the request, and accepts.");
  on_tcp(
      "answers", [](StreamConnected& qp, StreamBench& bench) { bench.answers(qp); },
      "Waits for the device's MPA Request Frame, and says the reply that the options make.");
  on_tcp(
      "operates", [](StreamConnected& qp, StreamBench& bench) { bench.operates(qp); },
      "Waits for the device's MPA frame, if it has not come yet, and goes to Full Operation Phase by what both say.");
  c.def(
      "operates_with",
      [](const Pair& self, bool markers, bool crc, bool device_markers, bool device_crc) {
        static_cast<void>(on_stream(self, [&](StreamConnected& qp, StreamBench&) {
          return qp.operate({.markers = markers, .crc = crc}, {.markers = device_markers, .crc = device_crc}), true;
        }));
      },
      py::arg("markers") = false, py::arg("crc") = true, py::arg("device_markers") = false,
      py::arg("device_crc") = true,
      "Goes to Full Operation Phase as if that had been agreed on, whatever was said: markers and CRCs in what the "
      "tester says, and in what the device does.");
  c.def(
      "expect_event",
      [](const Pair& self, const std::string& event) {
        static_cast<void>(
            self.with([&](StreamConnected& qp, StreamBench& bench) { return bench.expect_event(qp, event), true; }));
      },
      py::arg("event"), "The device's consumer is told of that event of the connection next: \"established\", …");
  c.def_property_readonly(
      "mpa_frame",
      [](const Pair& self) {
        return to_bytes(self.with([](StreamConnected& qp, StreamBench& bench) { return bench.frame_of(qp.options); }));
      },
      "The tester's MPA frame as the options make it: a request, or a reply where the device initiates.");
  c.def_property_readonly(
      "setup",
      [](const Pair& self) -> py::object {
        auto seen = self.with([](StreamConnected& qp, StreamBench&) { return qp.setup; });
        return seen ? received_object(std::move(*seen)) : py::none();
      },
      "The device's MPA frame; None before it came.");
  c.def_property_readonly(
      "port",
      [](const Pair& self) {
        return self.with([](StreamConnected& qp, StreamBench&) {
          return qp.listener ? qp.listener.port() : qp.connected() ? qp.connection().remote().port : std::uint16_t{0};
        });
      },
      "The device's TCP port; 0: it has none yet.");
  c.def_property_readonly(
      "mss",
      [](const Pair& self) {
        return on_stream(self, [](StreamConnected& qp, StreamBench&) { return qp.connection().send_mss(); });
      },
      "Bytes that one TCP segment of the tester's carries at most.");
  c.def_property_readonly(
      "connected",
      [](const Pair& self) { return self.with([](StreamConnected& qp, StreamBench&) { return qp.connected(); }); },
      "TCP was connected.");
  c.def_property_readonly(
      "operating",
      [](const Pair& self) { return self.with([](StreamConnected& qp, StreamBench&) { return qp.operating(); }); },
      "The stream is in Full Operation Phase.");

  // What is said.
  const auto say = [](const Pair& self, const std::vector<OutgoingBytes>& all) {
    bool fpdus = false;
    std::string words;
    for (const OutgoingBytes& one : all) {
      fpdus |= one.fpdu.has_value();
      words += (words.empty() ? all.size() > 1 ? "together: " : "" : "; ") + one.words;
    }
    static_cast<void>(on_stream(
        self,
        [&](StreamConnected& qp, StreamBench&) {
          conformance::iwarp::ByteVector bytes;
          for (const OutgoingBytes& one : all) {
            const conformance::iwarp::ByteVector next = one.next_of(qp);
            bytes.insert(bytes.end(), next.begin(), next.end());
          }
          return qp.say(bytes, words), true;
        },
        fpdus));
  };
  c.def(
      "send",
      [say](const Pair& self, const py::object& what, const std::string& words) {
        say(self, {outgoing_bytes(what, words)});
      },
      py::arg("what"), py::arg("words") = "",
      "Says a Stimulus, a Frame that begins with an FPDU, or bytes as they stand: as one TCP segment where it fits "
      "one. `words` call it in reports.");
  c.def(
      "together",
      [say](const Pair& self, const py::iterable& parts) {
        std::vector<OutgoingBytes> all;
        for (const py::handle part : parts) all.push_back(outgoing_bytes(py::reinterpret_borrow<py::object>(part)));
        say(self, all);
      },
      py::arg("parts"), "Says these as one TCP segment where they fit one.");
  c.def(
      "in_pieces",
      [](const Pair& self, const py::object& what, std::size_t each, const std::string& words) {
        if (each == 0) raise(ErrorClass::usage, "each=0: a TCP segment has one byte at least");
        const OutgoingBytes outgoing = outgoing_bytes(what, words);
        static_cast<void>(on_stream(
            self,
            [&](StreamConnected& qp, StreamBench&) {
              return qp.send_in_segments(outgoing.next_of(qp), each, outgoing.words), true;
            },
            outgoing.fpdu.has_value()));
      },
      py::arg("what"), py::arg("each"), py::arg("words") = "", "Says it in TCP segments of so many bytes each.");
  c.def(
      "send_after_close",
      [](const Pair& self, const py::object& what) {
        const OutgoingBytes outgoing = outgoing_bytes(what);
        if (!outgoing.fpdu) raise(ErrorClass::usage, "an FPDU can be said behind the FIN: a Frame or a Stimulus");
        static_cast<void>(on_stream(
            self, [&](StreamConnected& qp, StreamBench&) { return qp.send_after_close(*outgoing.fpdu), true; }, true));
      },
      py::arg("what"), "Says an FPDU behind our FIN, where the tester's TCP can; else it is unsupported.");
  c.def(
      "fpdu",
      [](const Pair& self, const py::object& what) {
        const OutgoingBytes outgoing = outgoing_bytes(what);
        return to_bytes(on_stream(
            self, [&](StreamConnected& qp, StreamBench&) { return outgoing.next_of(qp); }, outgoing.fpdu.has_value()));
      },
      py::arg("what"),
      "The bytes of an FPDU as the next of the stream, with its markers: to be changed, and said by send().");
  on_tcp(
      "finish", [](StreamConnected& qp, StreamBench&) { qp.finish(); }, "The tester's FIN.");
  on_tcp(
      "reset", [](StreamConnected& qp, StreamBench&) { qp.reset(); }, "A reset of TCP.");
  c.def("__rshift__", [say](const py::object& self, const py::object& what) {
    say(py::cast<const Pair&>(self), {outgoing_bytes(what)});
    return self;
  });

  // What is heard.
  c.def("__lshift__", [](const py::object& self, const StreamExpectation& expectation) {
    static_cast<void>(on_stream(py::cast<const Pair&>(self),
                                [&](StreamConnected& qp, StreamBench&) { return qp.wait(expectation), true; }));
    return self;
  });
  c.def("__lshift__", [](const py::object& self, const Silence& silence) {
    static_cast<void>(
        on_stream(py::cast<const Pair&>(self), [&](StreamConnected& qp, StreamBench&) { return qp << silence, true; }));
    return self;
  });
  c.def(
      "wait",
      [](const Pair& self, const StreamExpectation& expectation, double seconds) {
        const std::int64_t time = nanoseconds_of(seconds);
        return received_object(
            on_stream(self, [&](StreamConnected& qp, StreamBench&) { return qp.wait(expectation, time); }));
      },
      py::arg("expectation"), py::arg("seconds") = 0.0, "As <<, and gives what came (0: the usual patience).");
  c.def(
      "wait_or_silence",
      [](const Pair& self, const StreamExpectation& expectation) -> py::object {
        auto seen = on_stream(self, [&](StreamConnected& qp, StreamBench&) { return qp.wait_or_silence(expectation); });
        return seen ? received_object(std::move(*seen)) : py::none();
      },
      py::arg("expectation"), "The same, where silence is right as well: then None.");
  c.def(
      "next",
      [](const Pair& self, double seconds) -> py::object {
        const std::int64_t time = nanoseconds_of(seconds);
        auto seen = on_stream(self, [&](StreamConnected& qp, StreamBench&) { return qp.next(time); });
        return seen ? received_object(std::move(*seen)) : py::none();
      },
      py::arg("seconds") = 0.0, "What comes next, whatever it is; None after so long (0: the usual patience).");
  c.def(
      "all_until_silence",
      [](const Pair& self) {
        py::list all;
        for (conformance::iwarp::Seen& seen :
             on_stream(self, [](StreamConnected&qp, StreamBench&) { return qp.all_until_silence(); }))
          all.append(received_object(std::move(seen)));
        return all;
      },
      "What comes until there is silence, or the stream's end, which is the last.");
  c.def(
      "message",
      [](const Pair& self, std::uint8_t opcode) {
        py::list all;
        for (conformance::iwarp::Seen& seen : on_stream(self, [&](StreamConnected&qp, StreamBench&) {
               return qp.message(static_cast<RdmapOperation>(opcode & 15));
             }))
          all.append(received_object(std::move(seen)));
        return all;
      },
      py::arg("opcode"), "The segments of a message of the device, each of that RDMAP opcode, to its last one.");
  c.def(
      "ends",
      [](const Pair& self) {
        static_cast<void>(on_stream(self, [](StreamConnected& qp, StreamBench&) { return qp.ends(), true; }));
      },
      "Our half is closed too, and the device's consumer is told of the end.");
  c.def(
      "refuses",
      [](const Pair& self, const StreamExpectation& terminate) {
        static_cast<void>(
            on_stream(self, [&](StreamConnected& qp, StreamBench&) { return qp.refuses(terminate), true; }));
      },
      py::arg("terminate"),
      "What an error makes of a stream: that Terminate, the end of TCP, and the consumer is told.");
}

/// The module of what cases of iWARP say and wait for.
void bind_stream_vocabulary(py::module_& module);

}  // namespace rdmawire::python
