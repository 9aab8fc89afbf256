#pragma once
/// Common methods of iWARP streams of devices and of cases.

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

/// Returns a Python object of class Received.
py::object received_object(conformance::iwarp::Seen seen);
/// Parses options by name. Raises UsageError for unknown options.
conformance::iwarp::ConnectOptions stream_options(const py::dict& given);
/// Converts seconds to nanoseconds. 0 means the device's usual response time. Raises UsageError for invalid values.
std::int64_t nanoseconds_of(double seconds);

/// Data to send on a stream: an FPDU, which is framed for the stream, or unchanged bytes.
struct OutgoingBytes {
  std::optional<conformance::Stimulus> fpdu{};
  conformance::iwarp::ByteVector bytes{};
  std::string words;

  /// Returns the bytes for the current position of the stream.
  [[nodiscard]] conformance::iwarp::ByteVector next_of(StreamConnected& qp) const {
    return fpdu ? qp.fpdu(*fpdu) : bytes;
  }
};
/// Converts a Stimulus, a Frame that starts with an FPDU, or bytes. `words`: description in reports.
OutgoingBytes outgoing_bytes(const py::object& what, const std::string& words = {});

/// Runs `work` on a connected stream. `fpdu`: require Full Operation Phase. Raises UsageError otherwise.
template <class Pair, class Work>
auto on_stream(const Pair& self, const Work& work, bool fpdu = false) {
  auto result = self.with([&](StreamConnected& qp, StreamBench& bench) {
    using Result = decltype(work(qp, bench));
    return qp.connected() && (!fpdu || qp.operating()) ? std::optional<Result>(work(qp, bench)) : std::nullopt;
  });
  if (!result)
    raise(ErrorClass::usage, fpdu ? "the stream is not in Full Operation Phase; establish it, or send bytes"
                                  : "the queue pair has no stream; connect TCP with dials() or device_dials()");
  return std::move(*result);
}

// The following functions add methods of streams. Objects of `Pair` have with(work(StreamConnected&, StreamBench&)),
// which runs `work` without the interpreter's lock.

/// Adds a method that requires a TCP connection.
template <class Pair, class Work, class... Bases>
void bind_tcp_step(py::class_<Pair, Bases...>& c, const char* name, Work work, const char* doc) {
  c.def(
      name,
      [work](const Pair& self) {
        static_cast<void>(
            on_stream(self, [&](StreamConnected& qp, StreamBench& bench) { return work(qp, bench), true; }));
      },
      doc);
}

/// Adds the methods for the connection setup.
template <class Pair, class... Bases>
void bind_stream_setup(py::class_<Pair, Bases...>& c) {
  const auto step = [&c](const char* name, auto work, const char* doc) {
    c.def(
        name,
        [work](const Pair& self) {
          static_cast<void>(self.with([&](StreamConnected& qp, StreamBench& bench) { return work(qp, bench), true; }));
        },
        doc);
  };
  step(
      "listens", [](StreamConnected& qp, StreamBench& bench) { bench.listens(qp); },
      "Listen for a stream at the device, at `port`.");
  step(
      "dials", [](StreamConnected& qp, StreamBench& bench) { bench.dials(qp); },
      "Connect TCP from the tester to the device's port.");
  step(
      "device_dials", [](StreamConnected& qp, StreamBench& bench) { bench.device_dials(qp); },
      "Connect TCP from the device to the tester.");
  bind_tcp_step(
      c, "requests",
      [](StreamConnected& qp, StreamBench& bench) { qp.say(bench.frame_of(qp.options), "MPA Request Frame"); },
      "Send the MPA Request Frame defined by the options.");
  bind_tcp_step(
      c, "accepts", [](StreamConnected& qp, StreamBench& bench) { bench.accepts(qp); },
      "Expect the request at the device's application, and accept it.");
  bind_tcp_step(
      c, "replies", [](StreamConnected& qp, StreamBench& bench) { bench.answers(qp); },
      "Wait for the device's MPA Request Frame, and send the reply defined by the options.");
  bind_tcp_step(
      c, "operates", [](StreamConnected& qp, StreamBench& bench) { bench.operates(qp); },
      "Wait for the device's MPA frame unless it has arrived, and enter Full Operation Phase as negotiated.");
  c.def(
      "operates_with",
      [](const Pair& self, bool markers, bool crc, bool device_markers, bool device_crc) {
        static_cast<void>(on_stream(self, [&](StreamConnected& qp, StreamBench&) {
          return qp.operate({.markers = markers, .crc = crc}, {.markers = device_markers, .crc = device_crc}), true;
        }));
      },
      py::arg("markers") = false, py::arg("crc") = true, py::arg("device_markers") = false,
      py::arg("device_crc") = true,
      "Enter Full Operation Phase with these markers and CRCs of the tester and the device, regardless of the "
      "negotiation.");
  c.def(
      "expect_event",
      [](const Pair& self, const std::string& event) {
        static_cast<void>(
            self.with([&](StreamConnected& qp, StreamBench& bench) { return bench.expect_event(qp, event), true; }));
      },
      py::arg("event"), "Expect this connection event at the device's application: \"established\", …");
}

/// Adds the properties of a stream.
template <class Pair, class... Bases>
void bind_stream_properties(py::class_<Pair, Bases...>& c) {
  c.def_property_readonly(
      "mpa_frame",
      [](const Pair& self) {
        return to_bytes(self.with([](StreamConnected& qp, StreamBench& bench) { return bench.frame_of(qp.options); }));
      },
      "The tester's MPA frame defined by the options: a request, or a reply if the device initiates.");
  c.def_property_readonly(
      "setup",
      [](const Pair& self) -> py::object {
        auto seen = self.with([](StreamConnected& qp, StreamBench&) { return qp.setup; });
        return seen ? received_object(std::move(*seen)) : py::none();
      },
      "The device's MPA frame, or None before it arrives.");
  c.def_property_readonly(
      "port",
      [](const Pair& self) {
        return self.with([](StreamConnected& qp, StreamBench&) {
          return qp.listener ? qp.listener.port() : qp.connected() ? qp.connection().remote().port : std::uint16_t{0};
        });
      },
      "TCP port of the device. 0: none.");
  c.def_property_readonly(
      "mss",
      [](const Pair& self) {
        return on_stream(self, [](StreamConnected& qp, StreamBench&) { return qp.connection().send_mss(); });
      },
      "Maximum payload, in bytes, of the TCP segments that the tester sends.");
  c.def_property_readonly(
      "connected",
      [](const Pair& self) { return self.with([](StreamConnected& qp, StreamBench&) { return qp.connected(); }); },
      "Whether TCP was connected.");
  c.def_property_readonly(
      "operating",
      [](const Pair& self) { return self.with([](StreamConnected& qp, StreamBench&) { return qp.operating(); }); },
      "Whether the stream is in Full Operation Phase.");
}

/// Adds methods for sending.
template <class Pair, class... Bases>
void bind_stream_sending(py::class_<Pair, Bases...>& c) {
  const auto send_all = [](const Pair& self, const std::vector<OutgoingBytes>& all) {
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
      [send_all](const Pair& self, const py::object& what, const std::string& words) {
        send_all(self, {outgoing_bytes(what, words)});
      },
      py::arg("what"), py::arg("words") = "",
      "Send a Stimulus, a Frame that starts with an FPDU, or bytes. If possible, uses one TCP segment. `words` "
      "describe the data in reports.");
  c.def(
      "send_together",
      [send_all](const Pair& self, const py::iterable& parts) {
        std::vector<OutgoingBytes> all;
        for (const py::handle part : parts) all.push_back(outgoing_bytes(py::reinterpret_borrow<py::object>(part)));
        send_all(self, all);
      },
      py::arg("parts"), "Send several parts, if possible as one TCP segment.");
  c.def(
      "send_in_segments",
      [](const Pair& self, const py::object& what, std::size_t segment_bytes, const std::string& words) {
        if (segment_bytes == 0) raise(ErrorClass::usage, "segment_bytes=0: a TCP segment requires at least one byte");
        const OutgoingBytes outgoing = outgoing_bytes(what, words);
        static_cast<void>(on_stream(
            self,
            [&](StreamConnected& qp, StreamBench&) {
              return qp.send_in_segments(outgoing.next_of(qp), segment_bytes, outgoing.words), true;
            },
            outgoing.fpdu.has_value()));
      },
      py::arg("what"), py::arg("segment_bytes"), py::arg("words") = "",
      "Send data in TCP segments of `segment_bytes` bytes.");
  c.def(
      "send_after_close",
      [](const Pair& self, const py::object& what) {
        const OutgoingBytes outgoing = outgoing_bytes(what);
        if (!outgoing.fpdu) raise(ErrorClass::usage, "send_after_close() requires an FPDU: a Frame or a Stimulus");
        static_cast<void>(on_stream(
            self, [&](StreamConnected& qp, StreamBench&) { return qp.send_after_close(*outgoing.fpdu), true; }, true));
      },
      py::arg("what"),
      "Send an FPDU after the tester's FIN. Ends the case as unsupported if the TCP stack prevents it.");
  c.def(
      "fpdu",
      [](const Pair& self, const py::object& what) {
        const OutgoingBytes outgoing = outgoing_bytes(what);
        return to_bytes(on_stream(
            self, [&](StreamConnected& qp, StreamBench&) { return outgoing.next_of(qp); }, outgoing.fpdu.has_value()));
      },
      py::arg("what"),
      "Return an FPDU as bytes for the current position of the stream, with markers. The bytes can be changed and "
      "passed to send().");
  bind_tcp_step(
      c, "finish", [](StreamConnected& qp, StreamBench&) { qp.finish(); }, "Send the tester's FIN.");
  bind_tcp_step(
      c, "reset", [](StreamConnected& qp, StreamBench&) { qp.reset(); }, "Reset the TCP connection.");
  c.def("__rshift__", [send_all](const py::object& self, const py::object& what) {
    send_all(py::cast<const Pair&>(self), {outgoing_bytes(what)});
    return self;
  });
}

/// Adds methods for receiving.
template <class Pair, class... Bases>
void bind_stream_receiving(py::class_<Pair, Bases...>& c) {
  using conformance::Silence;
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
      py::arg("expectation"), py::arg("seconds") = 0.0,
      "Wait as << does, for `seconds` (0: the device's usual response time). Returns the Received.");
  c.def(
      "wait_or_silence",
      [](const Pair& self, const StreamExpectation& expectation) -> py::object {
        auto seen = on_stream(self, [&](StreamConnected& qp, StreamBench&) { return qp.wait_or_silence(expectation); });
        return seen ? received_object(std::move(*seen)) : py::none();
      },
      py::arg("expectation"), "Wait as << does, but accept silence. Returns the Received, or None after silence.");
  c.def(
      "next",
      [](const Pair& self, double seconds) -> py::object {
        const std::int64_t time = nanoseconds_of(seconds);
        auto seen = on_stream(self, [&](StreamConnected& qp, StreamBench&) { return qp.next(time); });
        return seen ? received_object(std::move(*seen)) : py::none();
      },
      py::arg("seconds") = 0.0,
      "Return the next Received, or None after `seconds` (0: the device's usual response time).");
  c.def(
      "all_until_silence",
      [](const Pair& self) {
        py::list all;
        for (conformance::iwarp::Seen& seen :
             on_stream(self, [](StreamConnected&qp, StreamBench&) { return qp.all_until_silence(); }))
          all.append(received_object(std::move(seen)));
        return all;
      },
      "Return all items that arrive until silence or the end of the stream. The end of the stream is the last item.");
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
      py::arg("opcode"), "Return the segments of a device message with this RDMAP opcode.");
  c.def(
      "ends",
      [](const Pair& self) {
        static_cast<void>(on_stream(self, [](StreamConnected& qp, StreamBench&) { return qp.ends(), true; }));
      },
      "Close the tester's direction, and expect the end of the connection at the device's application.");
  c.def(
      "refuses",
      [](const Pair& self, const StreamExpectation& terminate) {
        static_cast<void>(
            on_stream(self, [&](StreamConnected& qp, StreamBench&) { return qp.refuses(terminate), true; }));
      },
      py::arg("terminate"),
      "Expect the effect of a stream error: this Terminate, the end of TCP, and an event at the application.");
}

template <class Pair, class... Bases>
void bind_stream_steps(py::class_<Pair, Bases...>& c) {
  bind_stream_setup(c);
  bind_stream_properties(c);
  bind_stream_sending(c);
  bind_stream_receiving(c);
}

/// Adds the module rdmawire._core.iwarp.
void bind_stream_vocabulary(py::module_& module);

}  // namespace rdmawire::python
