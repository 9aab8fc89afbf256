/// Functions and classes for iWARP test cases in Python: stimuli, expectations, received items, and the bench.

#include <fmt/format.h>
#include <pybind11/functional.h>

#include <functional>

#include "pysdk/src/bindings.hpp"
#include "pysdk/src/cases.hpp"
#include "pysdk/src/frame.hpp"
#include "pysdk/src/option_setters.hpp"
#include "pysdk/src/pair_bindings.hpp"
#include "pysdk/src/stream_bindings.hpp"

namespace rdmawire::python {
namespace {

namespace iwarp = conformance::iwarp;
using conformance::Match;
using conformance::Stimulus;
using iwarp::Seen;

// ---- received items

struct Received {
  std::shared_ptr<const Seen> seen;

  [[nodiscard]] const char* kind() const {
    switch (seen->kind) {
      case Seen::Kind::setup: return "setup";
      case Seen::Kind::fpdu: return "fpdu";
      case Seen::Kind::torn: return "torn";
      case Seen::Kind::fin: return "fin";
      case Seen::Kind::reset: return "reset";
    }
    return "fpdu";
  }
  [[nodiscard]] py::object frame() const {
    const bool fpdu = seen->kind == Seen::Kind::fpdu;
    if (!fpdu && seen->kind != Seen::Kind::setup) return py::none();
    return make_frame(seen->bytes, link_from(py::str(fpdu ? "fpdu" : "mpa")),
                      static_cast<std::uint32_t>(seen->bytes.size()), seen->time);
  }
};

void bind_received(py::module_& part) {
  py::class_<Received>(part, "Received",
                       "An item received on a stream. `received[DDP]` and `DDP in received` work as for a Frame.")
      .def_property_readonly(
          "kind", &Received::kind,
          "\"setup\" (an MPA frame), \"fpdu\", \"torn\" (an incomplete FPDU at the end of the stream), "
          "\"fin\" or \"reset\".")
      .def_property_readonly("frame", &Received::frame,
                             "The MPA frame or FPDU as a Frame without markers, otherwise None. The CRC covers the "
                             "markers, see crc_good.")
      .def_property_readonly(
          "data", [](const Received& self) { return to_bytes(self.seen->bytes); },
          "Bytes of the MPA frame, of the FPDU (length field to CRC, without markers), or of the incomplete FPDU.")
      .def_property_readonly(
          "time", [](const Received& self) { return self.seen->time; },
          "Receive time, nanoseconds of the host's clock.")
      .def_property_readonly(
          "opcode",
          [](const Received& self) -> py::object {
            if (self.seen->kind != Seen::Kind::fpdu) return py::none();
            const auto opcode = self.seen->get<Rdmap, "opcode">();
            if (!opcode) return py::none();
            return py::module_::import("rdmawire").attr("RDMAPOpcode")(*opcode);
          },
          "RDMAP opcode of an FPDU, otherwise None.")
      .def_property_readonly(
          "payload",
          [](const Received& self) {
            return py::bytes(self.seen->kind == Seen::Kind::fpdu ? self.seen->payload() : std::string());
          },
          "Payload of an FPDU.")
      .def_property_readonly(
          "crc_good", [](const Received& self) { return self.seen->crc_good; },
          "Whether the CRC of the FPDU, including markers, is valid.")
      .def_property_readonly(
          "position", [](const Received& self) { return self.seen->position; },
          "Position of the FPDU in the stream of Full Operation Phase, including markers.")
      .def_property_readonly(
          "markers",
          [](const Received& self) {
            py::list all;
            for (const Seen::MarkerSeen& one : self.seen->markers) all.append(py::make_tuple(one.position, one.value));
            return all;
          },
          "Markers of an FPDU: (position in the stream, value).")
      .def_property_readonly(
          "segment_bytes", [](const Received& self) { return self.seen->segment_bytes; },
          "Bytes of the TCP segment with the first byte of the FPDU.")
      .def_property_readonly(
          "text", [](const Received& self) { return self.seen->text(); },
          "Text in reports: \"Send, QN 0, MSN 2, MO 0, 16 bytes\".")
      .def("__getitem__",
           [](const Received& self, const py::object& layer) {
             const py::object frame = self.frame();
             if (frame.is_none()) throw py::index_error(fmt::format("{} has no headers", self.seen->text()));
             return py::object(frame[layer]);
           })
      .def("__contains__",
           [](const Received& self, const py::object& layer) {
             const py::object frame = self.frame();
             return !frame.is_none() && frame.contains(layer);
           })
      .def("__bytes__", [](const Received& self) { return to_bytes(self.seen->bytes); })
      .def("__repr__", [](const Received& self) { return fmt::format("<Received {}>", self.seen->text()); });
}

// ---- expectations

/// A predicate of Python for received items.
std::function<bool(const Seen&)> predicate_by(py::object predicate) {
  // The last owner can be any thread, so the deleter acquires the interpreter's lock.
  std::shared_ptr<py::object> kept(new py::object(std::move(predicate)), [](py::object* object) {
    const py::gil_scoped_acquire lock;
    delete object;
  });
  return [kept](const Seen& seen) {
    const py::gil_scoped_acquire lock;
    const int truth = PyObject_IsTrue((*kept)(received_object(seen)).ptr());
    if (truth < 0) throw py::error_already_set();
    return truth != 0;
  };
}

RdmapOperation operation(std::uint8_t opcode) {
  if (opcode > 15) raise(ErrorClass::usage, fmt::format("an RDMAP opcode has 4 bits: {} does not fit", opcode));
  return static_cast<RdmapOperation>(opcode);
}

void bind_expectations(py::module_& part) {
  using E = StreamExpectation;
  py::class_<E>(part, "Expectation", "An item that a case expects on a stream, as the clause requires.")
      .def_property_readonly("text", &E::text, "Text in reports.")
      .def(
          "carrying", [](const E& self, const py::object& payload) { return self.carrying(bytes_of(payload)); },
          py::arg("payload"), "Require this payload.")
      .def(
          "where",
          [](const E& self, const std::string& words, const py::function& holds) {
            return self.where(words, predicate_by(holds));
          },
          py::arg("words"), py::arg("holds"), "Require that `holds` returns a true value for the Received.")
      .def("__repr__", [](const E& self) { return fmt::format("<Expectation {}>", self.text()); });
  part.def(
      "expect",
      [](const std::string& words, const py::function& predicate) {
        return E(words,
                 [holds = predicate_by(predicate)](const Seen& seen) { return holds(seen) ? Match::yes : Match::no; });
      },
      py::arg("words"), py::arg("predicate"), "Expect an item for which `predicate` returns a true value.");
  part.def(
      "an",
      [](std::uint8_t opcode, std::optional<std::uint32_t> msn) {
        return msn ? iwarp::an(operation(opcode), *msn) : iwarp::an(operation(opcode));
      },
      py::arg("opcode"), py::arg("msn") = py::none(),
      "Expect an FPDU with this RDMAP opcode and a valid CRC, and with this MSN if specified.");
  part.def("a_send", &iwarp::a_send, py::arg("msn"), "Expect a Send with this MSN.");
  part.def("a_write", &iwarp::a_write, py::arg("stag"), py::arg("to"), "Expect an RDMA Write to this STag and TO.");
  part.def("a_read_request", &iwarp::a_read_request, py::arg("msn"), py::arg("size"),
           "Expect an RDMA Read Request for `size` bytes.");
  part.def("a_read_response", &iwarp::a_read_response, py::arg("stag"), py::arg("to"),
           "Expect an RDMA Read Response, or a segment of one, to this STag and TO.");
  part.def("an_atomic_response", &iwarp::an_atomic_response, py::arg("msn"), py::arg("id"), py::arg("original"),
           "Expect an Atomic Response with the original memory contents.");
  part.def("a_terminate", &iwarp::a_terminate, py::arg("layer"), py::arg("type"), py::arg("code"),
           "Expect a Terminate with this layer, error type and code. Another Terminate results in the verdict "
           "fail-wrong-code.");
  part.def("any_terminate", &iwarp::any_terminate, "Expect a Terminate with any contents.");
  part.def("a_reply", &iwarp::a_reply, "Expect an MPA Reply Frame.");
  part.def("a_request", &iwarp::a_request, "Expect an MPA Request Frame.");
  part.def("a_fin", &iwarp::a_fin, "Expect the device's FIN.");
  part.def("a_reset", &iwarp::a_reset, "Expect a TCP reset.");
  part.def("stream_closed", &iwarp::stream_closed, "Expect a FIN or a reset.");
  part.def("a_refusal", &iwarp::a_refusal, "Expect a Terminate with any contents, or the end of TCP without one.");
}

// ---- stimuli

std::string payload_of(const py::object& payload) {
  return payload.is_none() ? conformance::pattern_bytes(8) : bytes_of(payload);
}

void bind_headers(py::module_& part) {
  part.def(
      "queue_of",
      [](std::uint8_t opcode) {
        const RdmapOpcode& row = rdmap_opcode(operation(opcode));
        return row.known && row.tagged ? std::optional<std::uint32_t>() : row.queue;
      },
      py::arg("opcode"), "Return the untagged queue of messages with this RDMAP opcode, or None for tagged messages.");
  part.def(
      "headers",
      [](std::uint8_t opcode, std::uint32_t msn) {
        const RdmapOpcode& row = rdmap_opcode(operation(opcode));
        const bool is_tagged = row.known && row.tagged;
        Frame frame = (is_tagged ? iwarp::tagged(operation(opcode), 0, 0, {})
                                 : iwarp::untagged(operation(opcode), row.queue, msn, 0, {}))
                          .frame();
        if (is_tagged) frame.layers.pop_back();  // the caller appends the DDPTagged header
        return make_frame(std::move(frame), link_from(py::str("fpdu")));
      },
      py::arg("opcode"), py::arg("msn"),
      "Return a Frame with the headers of a message with this RDMAP opcode: up to DDPUntagged for untagged messages, "
      "up to RDMAP for tagged messages, to which the caller appends DDPTagged.");
}

void bind_sends_and_writes(py::module_& part) {
  part.def(
      "untagged",
      [](std::uint8_t opcode, std::uint32_t qn, std::uint32_t msn, std::uint32_t mo, const py::object& payload,
         bool last) { return iwarp::untagged(operation(opcode), qn, msn, mo, payload_of(payload), last); },
      py::arg("opcode"), py::arg("qn"), py::arg("msn"), py::arg("mo") = 0, py::arg("payload") = py::none(),
      py::arg("last") = true, "Return an untagged segment of RDMAP version 1. Default payload: 8 bytes.");
  part.def(
      "tagged",
      [](std::uint8_t opcode, std::uint32_t stag, std::uint64_t to, const py::object& payload, bool last) {
        return iwarp::tagged(operation(opcode), stag, to, payload_of(payload), last);
      },
      py::arg("opcode"), py::arg("stag"), py::arg("to"), py::arg("payload") = py::none(), py::arg("last") = true,
      "Return a tagged segment of RDMAP version 1.");
  part.def(
      "send", [](std::uint32_t msn, const py::object& payload) { return iwarp::send(msn, payload_of(payload)); },
      py::arg("msn"), py::arg("payload") = py::none(), "Return a Send. The first MSN of each queue is 1.");
  part.def(
      "send_part",
      [](std::uint32_t msn, std::uint32_t mo, const py::object& payload, bool last) {
        return iwarp::send_part(msn, mo, bytes_of(payload), last);
      },
      py::arg("msn"), py::arg("mo"), py::arg("payload"), py::arg("last"), "Return a segment of a Send.");
  part.def("send_nowhere", &iwarp::send_nowhere, py::arg("msn"), "Return a Send to an invalid queue number.");
  part.def(
      "send_solicited",
      [](std::uint32_t msn, const py::object& payload) { return iwarp::send_solicited(msn, payload_of(payload)); },
      py::arg("msn"), py::arg("payload") = py::none(), "Return a Send with Solicited Event.");
  part.def(
      "send_invalidate",
      [](std::uint32_t msn, std::uint32_t stag, const py::object& payload) {
        return iwarp::send_invalidate(msn, stag, payload_of(payload));
      },
      py::arg("msn"), py::arg("stag"), py::arg("payload") = py::none(), "Return a Send with Invalidate.");
  part.def(
      "send_solicited_invalidate",
      [](std::uint32_t msn, std::uint32_t stag, const py::object& payload) {
        return iwarp::send_solicited_invalidate(msn, stag, payload_of(payload));
      },
      py::arg("msn"), py::arg("stag"), py::arg("payload") = py::none(),
      "Return a Send with Solicited Event and Invalidate.");
  part.def(
      "write",
      [](std::uint32_t stag, std::uint64_t to, const py::object& payload) {
        return iwarp::write(stag, to, payload_of(payload));
      },
      py::arg("stag"), py::arg("to"), py::arg("payload") = py::none(), "Return an RDMA Write.");
  part.def(
      "write_part",
      [](std::uint32_t stag, std::uint64_t to, const py::object& payload, bool last) {
        return iwarp::write_part(stag, to, bytes_of(payload), last);
      },
      py::arg("stag"), py::arg("to"), py::arg("payload"), py::arg("last"), "Return a segment of an RDMA Write.");
}

void bind_reads_and_atomics(py::module_& part) {
  part.def(
      "read_request",
      [](std::uint32_t msn, std::uint32_t source_stag, std::uint64_t source_to, std::uint32_t size,
         std::uint32_t sink_stag, std::uint64_t sink_to) {
        return iwarp::read_request(msn, {.size = size,
                                         .source_stag = source_stag,
                                         .source_to = source_to,
                                         .sink_stag = sink_stag,
                                         .sink_to = sink_to});
      },
      py::arg("msn"), py::arg("source_stag"), py::arg("source_to"), py::arg("size") = 8,
      py::arg("sink_stag") = iwarp::Read{}.sink_stag, py::arg("sink_to") = iwarp::Read{}.sink_to,
      "Return an RDMA Read Request for the device's memory. The default sink is arbitrary.");
  part.def(
      "read_response",
      [](std::uint32_t stag, std::uint64_t to, const py::object& payload, bool last) {
        return iwarp::read_response(stag, to, bytes_of(payload), last);
      },
      py::arg("stag"), py::arg("to"), py::arg("payload"), py::arg("last") = true, "Return an RDMA Read Response.");
  part.def(
      "response_to",
      [](const Received& request, const py::object& payload, std::uint64_t offset, bool last) {
        return iwarp::response_to(*request.seen, bytes_of(payload), offset, last);
      },
      py::arg("request"), py::arg("payload"), py::arg("offset") = 0, py::arg("last") = true,
      "Return the RDMA Read Response to a device request: `payload` for its sink at `offset`.");
  part.def(
      "immediate",
      [](std::uint32_t msn, std::uint64_t data, bool solicited) { return iwarp::immediate(msn, data, solicited); },
      py::arg("msn"), py::arg("data"), py::arg("solicited") = false, "Return Immediate Data. RFC 7306, 6.2.");
  part.def(
      "atomic_request",
      [](std::uint32_t msn, std::uint8_t op, std::uint32_t stag, std::uint64_t to, std::uint64_t data,
         std::uint64_t mask, std::uint64_t compare, std::uint64_t compare_mask, std::uint32_t id) {
        return iwarp::atomic_request(msn, {.operation = op,
                                           .id = id,
                                           .stag = stag,
                                           .to = to,
                                           .data = data,
                                           .mask = mask,
                                           .compare = compare,
                                           .compare_mask = compare_mask});
      },
      py::arg("msn"), py::arg("operation"), py::arg("stag"), py::arg("to"), py::arg("data"), py::arg("mask") = 0,
      py::arg("compare") = 0, py::arg("compare_mask") = ~std::uint64_t{0}, py::arg("id") = iwarp::Atomic{}.id,
      "Return an Atomic Request. Operation 0 is FetchAdd, 2 is CmpSwap. RFC 7306, 5.");
  part.def("atomic_response", &iwarp::atomic_response, py::arg("msn"), py::arg("id"), py::arg("original"),
           "Return an Atomic Response.");
  part.def("terminate", &iwarp::terminate, py::arg("layer"), py::arg("type"), py::arg("code"),
           "Return a Terminate message without terminated headers.");
}

void bind_mpa_frames(py::module_& part) {
  const auto frame = [&part](const char* name, std::string_view key, const char* doc) {
    part.def(
        name,
        [key](std::uint8_t flags, std::uint8_t revision, const py::object& private_data, int pd_length) {
          return to_bytes(iwarp::mpa_frame(key, flags, revision, bytes_of(private_data), pd_length));
        },
        py::arg("flags") = iwarp::mpa_flag::crc, py::arg("revision") = 1, py::arg("private_data") = py::bytes(),
        py::arg("pd_length") = -1, doc);
  };
  frame("mpa_request", mpa::request_key,
        "Return the bytes of an MPA Request Frame. `pd_length`: PD_Length field; -1: length of the private data.");
  frame("mpa_reply", mpa::reply_key, "Return the bytes of an MPA Reply Frame. Arguments: as for mpa_request().");
  part.def(
      "enhanced_data",
      [](std::uint16_t ird, std::uint16_t ord, bool a, bool b, bool c, bool d) {
        return py::bytes(iwarp::enhanced_data({.ird = ird, .ord = ord, .a = a, .b = b, .c = c, .d = d}));
      },
      py::arg("ird") = iwarp::Enhanced{}.ird, py::arg("ord") = iwarp::Enhanced{}.ord, py::arg("a") = false,
      py::arg("b") = false, py::arg("c") = false, py::arg("d") = false,
      "Return the four bytes before the private data of an enhanced frame, with control flags A to D. RFC 6581, 9.");
  part.attr("MARKERS") = iwarp::mpa_flag::markers;
  part.attr("CRC") = iwarp::mpa_flag::crc;
  part.attr("REJECT") = iwarp::mpa_flag::reject;
  part.attr("ENHANCED") = iwarp::mpa_flag::enhanced;
  part.attr("UNKNOWN_STAG") = iwarp::unknown_stag;
}

// ---- the bench

struct StreamBenchObject {
  std::shared_ptr<BenchHandle> handle;

  template <class Work>
  auto with(const Work& work) const {
    return with_streams(handle, work);
  }
};

/// A queue pair of the device in a case, and the tester's endpoint of its stream.
struct CaseStream {
  std::shared_ptr<BenchHandle> handle;
  StreamConnected* qp;

  template <class Work>
  auto with(const Work& work) const {
    return with_streams(handle, [&](StreamBench& bench) { return work(*qp, bench); });
  }
};

void bind_case_stream(py::module_& part) {
  py::class_<CaseStream> c(part, "CaseStream",
                           "A queue pair of the device in a case, and the tester's endpoint of its stream. The first "
                           "MSN of each queue is 1.");
  bind_stream_steps(c);
  bind_verbs_steps(c);
  c.def_property_readonly(
      "stag", [](const CaseStream& self) { return self.with([](auto& qp, auto&) { return qp.stag(); }); },
      "STag of the region.");
  c.def(
      "to",
      [](const CaseStream& self, std::uint64_t offset) {
        return self.with([&](auto& qp, auto&) { return qp.to(offset); });
      },
      py::arg("offset") = 0, "Return the TO of a byte of the region.");
  const auto posts = [&c](const char* name, auto work, const char* doc) {
    c.def(
        name,
        [work](const CaseStream& self, std::uint64_t wr_id, std::uint32_t length, std::uint64_t offset) {
          static_cast<void>(self.with([&](auto& qp, auto&) { return work(qp, wr_id, length, offset), true; }));
        },
        py::arg("wr_id"), py::arg("length") = 8, py::arg("offset") = 0, doc);
  };
  posts(
      "device_sends",
      [](StreamConnected& qp, auto id, auto length, auto offset) { qp.device_sends(id, length, offset); },
      "Post a Send of bytes of the region at the device.");
  posts(
      "device_writes",
      [](StreamConnected& qp, auto id, auto length, auto offset) { qp.device_writes(id, length, offset); },
      "Post an RDMA Write to the tester's memory at the device.");
  posts(
      "device_reads",
      [](StreamConnected& qp, auto id, auto length, auto offset) { qp.device_reads(id, length, offset); },
      "Post an RDMA Read of the tester's memory at the device.");
  c.def(
      "opens",
      [](const CaseStream& self) {
        static_cast<void>(on_stream(
            self, [](StreamConnected& qp, StreamBench&) { return qp.opens(), true; }, true));
      },
      "Send the tester's first FPDU, an empty RDMA Write, after which the device may send. RFC 5044, 7.1.2 rule 4.");
  c.def(
      "is_refused_by",
      [](const CaseStream& self, const Received& refusal) {
        static_cast<void>(
            on_stream(self, [&](StreamConnected& qp, StreamBench&) { return qp.is_refused_by(*refusal.seen), true; }));
      },
      py::arg("refusal"),
      "Expect the effects that refuses() expects, except for this item, which was received already.");
  c.def(
      "fail_or_are_flushed",
      [](const CaseStream& self, std::uint64_t first, std::uint64_t last) {
        static_cast<void>(self.with([&](auto& qp, auto&) { return qp.fail_or_are_flushed(first, last), true; }));
      },
      py::arg("first"), py::arg("last"), "Expect that these requests complete with any error status.");
}

conformance::MpaWishes wishes_from(const py::dict& given);

void bind_stream_bench(py::module_& part) {
  using B = StreamBenchObject;
  py::class_<B> c(part, "IwarpBench",
                  "The interface of a case to an iWARP device: queue pairs, memory, completions, and the tester's "
                  "endpoints of streams. After the end of the case its methods raise ClosedError.");
  c.def(
      "connect",
      [](const B& self, const py::kwargs& given) {
        const iwarp::ConnectOptions options = stream_options(given);
        return CaseStream{self.handle, self.with([&](StreamBench& bench) { return &bench.connect(options); })};
      },
      "Create a queue pair in Full Operation Phase. Posts `receives` receive requests (default: 0). Options: as for "
      "Device.stream().");
  c.def(
      "make",
      [](const B& self, const py::kwargs& given) {
        const iwarp::ConnectOptions options = stream_options(given);
        return CaseStream{self.handle, self.with([&](StreamBench& bench) { return &bench.make(options); })};
      },
      "Create a queue pair without a stream.");
  c.def(
      "wish",
      [](const B& self, const py::kwargs& given) {
        const conformance::MpaWishes wishes = wishes_from(given);
        static_cast<void>(self.with([&](StreamBench& bench) { return bench.wish(wishes), true; }));
      },
      "Configure the device's MPA setup for queue pairs created afterwards: revision, markers, crc, enhanced, "
      "peer_to_peer, rtr_send, rtr_write, rtr_read, rdmac. Ends the case if the device has no such configuration.");
  c.def(
      "without_extensions",
      [](const B& self) {
        static_cast<void>(self.with([](StreamBench& bench) { return bench.without_extensions(), true; }));
      },
      "Disable RFC 7306 at the device. Ends the case if this is impossible.");
  bind_bench_steps(c);
}

// ---- options

using Options = iwarp::ConnectOptions;

conformance::MpaWishes wishes_from(const py::dict& given) {
  using W = conformance::MpaWishes;
  static const OptionSetters<W> setters = {{"revision", option(&W::revision)},
                                           {"markers", option(&W::markers)},
                                           {"crc", option(&W::crc)},
                                           {"enhanced", option(&W::enhanced)},
                                           {"peer_to_peer", option(&W::peer_to_peer)},
                                           {"rtr_send", option(&W::rtr_send)},
                                           {"rtr_write", option(&W::rtr_write)},
                                           {"rtr_read", option(&W::rtr_read)},
                                           {"rdmac", option(&W::rdmac)}};
  return set_options(W{}, setters, given, "wishes");
}

std::optional<iwarp::Enhanced> enhanced_from(const py::handle& given) {
  using E = iwarp::Enhanced;
  static const OptionSetters<E> setters = {{"ird", option(&E::ird)}, {"ord", option(&E::ord)}, {"a", option(&E::a)},
                                           {"b", option(&E::b)},     {"c", option(&E::c)},     {"d", option(&E::d)}};
  if (given.is_none() || given.is(py::bool_(false))) return std::nullopt;
  if (given.is(py::bool_(true))) return E{};
  return set_options(E{}, setters, py::cast<py::dict>(given), "enhanced");
}

}  // namespace

Options stream_options(const py::dict& given) {
  static const OptionSetters<Options> setters = {
      {"device_initiates", option(&Options::device_initiates)},
      {"revision", option(&Options::revision)},
      {"markers", option(&Options::markers)},
      {"crc", option(&Options::crc)},
      {"enhanced", [](Options& o, const py::handle& v) { o.enhanced = enhanced_from(v); }},
      {"private_data", [](Options& o, const py::handle& v) { o.private_data = bytes_of(v); }},
      {"mss", option(&Options::mss)},
      {"device_private_data", [](Options& o, const py::handle& v) { o.device_private_data = bytes_of(v); }},
      {"reads_at_once", option(&Options::reads_at_once)},
      {"own_reads", option(&Options::own_reads)},
      {"wishes",
       [](Options& o, const py::handle& v) {
         if (!v.is_none()) o.wishes = wishes_from(py::cast<py::dict>(v));
       }},
      {"receives", option(&Options::receives)},
      {"receive_bytes", option(&Options::receive_bytes)},
      {"region_bytes", option(&Options::region_bytes)},
      {"region_access", option(&Options::region_access)},
      {"send_wr", option(&Options::send_wr)},
      {"completions", option(&Options::completions)},
      {"notifies", option(&Options::notifies)},
  };
  return set_options(Options{}, setters, given, "stream");
}

std::int64_t nanoseconds_of(double seconds) {
  if (!(seconds >= 0) || seconds > 9e9)
    raise(ErrorClass::usage, fmt::format("seconds={}: expected a number from 0 to 9e9", seconds));
  return static_cast<std::int64_t>(seconds * 1e9);
}

py::object received_object(Seen seen) { return py::cast(Received{std::make_shared<const Seen>(std::move(seen))}); }

OutgoingBytes outgoing_bytes(const py::object& what, const std::string& words) {
  if (py::isinstance<Stimulus>(what)) {
    Stimulus stimulus = py::cast<Stimulus>(what);
    std::string text = words.empty() ? stimulus.text() : words;
    return {.fpdu = std::move(stimulus), .words = std::move(text)};
  }
  if (is_frame(what) && link_word(frame_link(what)) == "fpdu") {
    const Bytes bytes = frame_bytes(what);
    Seen as_seen{.bytes = {bytes.begin(), bytes.end()}};
    std::string text = words.empty() ? as_seen.text() : words;
    return {.fpdu = Stimulus(frame_values(what), text), .words = std::move(text)};
  }
  const BytesView bytes(what);
  return {.bytes = {bytes.bytes().begin(), bytes.bytes().end()},
          .words = words.empty() ? fmt::format("{} raw bytes", bytes.bytes().size()) : words};
}

py::object stream_bench_object(std::shared_ptr<BenchHandle> handle) {
  return py::cast(StreamBenchObject{std::move(handle)});
}

void bind_stream_vocabulary(py::module_& module) {
  py::module_ part = module.def_submodule("iwarp", "The vocabulary of iWARP test cases.");
  bind_received(part);
  bind_expectations(part);
  bind_headers(part);
  bind_sends_and_writes(part);
  bind_reads_and_atomics(part);
  bind_mpa_frames(part);
  bind_case_stream(part);
  bind_stream_bench(part);
}

}  // namespace rdmawire::python
