/// Functions and classes for RoCE test cases in Python: bench, queue pairs, stimuli and expectations.

#include <fmt/format.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <functional>

#include "dissectors/protocol/decode.hpp"
#include "pysdk/src/bindings.hpp"
#include "pysdk/src/bytes.hpp"
#include "pysdk/src/cases.hpp"
#include "pysdk/src/errors.hpp"
#include "pysdk/src/frame.hpp"
#include "pysdk/src/pair_bindings.hpp"
#include "pysdk/src/values.hpp"

namespace rdmawire::python {
namespace {

using conformance::Bench;
using conformance::Connected;
using conformance::Expectation;
using conformance::Match;
using conformance::Operands;
using conformance::psn;
using conformance::Seen;
using conformance::Silence;
using conformance::Stimulus;
using conformance::Verdict;

template <class Work>
auto with(const std::shared_ptr<BenchHandle>& handle, const Work& work) {
  return with_bench(handle->bench, work);
}

/// Makes a stimulus of raw bytes, which are sent without changes.
Stimulus raw(const py::object& frame, const std::string& words) {
  const BytesView raw(frame);
  Frame made;
  made.payload.assign(raw.bytes().begin(), raw.bytes().end());
  made.pad.emplace();
  if (!words.empty()) return {std::move(made), words};
  const HeaderStack stack = decode(raw.bytes());
  const auto bth = stack.get<Bth>();
  const Opcode* op = bth ? &rdmawire::opcode(bth->get<"opcode">()) : nullptr;
  return {std::move(made), op && op->known ? fmt::format("{}, PSN {} (raw frame, {} bytes)", op->name,
                                                         bth->get<"psn">(), raw.bytes().size())
                                           : fmt::format("a frame of {} bytes", raw.bytes().size())};
}

/// A received frame for Python.
struct SeenObject {
  std::shared_ptr<const Seen> seen;
};

py::object seen_object(Seen seen) { return py::cast(SeenObject{std::make_shared<const Seen>(std::move(seen))}); }

/// A predicate of Python for received frames.
std::function<Match(const Seen&)> match_by(py::object predicate) {
  // The last owner can be any thread, so the deleter acquires the interpreter's lock.
  std::shared_ptr<py::object> kept(new py::object(std::move(predicate)), [](py::object* object) {
    const py::gil_scoped_acquire lock;
    delete object;
  });
  return [kept](const Seen& seen) {
    const py::gil_scoped_acquire lock;
    const py::object result = (*kept)(seen_object(seen));
    if (py::isinstance<py::str>(result) && py::cast<std::string>(result) == "skip") return Match::skip;
    const int truth = PyObject_IsTrue(result.ptr());
    if (truth < 0) throw py::error_already_set();
    return truth ? Match::yes : Match::no;
  };
}

struct BenchObject {
  std::shared_ptr<BenchHandle> handle;

  template <class Work>
  auto with(const Work& work) const {
    return python::with(handle, work);
  }
};

/// A queue pair of the device in a case, and the tester's endpoint.
struct PairObject {
  std::shared_ptr<BenchHandle> handle;
  Connected* qp;

  template <class Work>
  auto with(const Work& work) const {
    return python::with(handle, [&](Bench& bench) { return work(*qp, bench); });
  }
};

PairObject connect(const BenchObject& self, Transport transport, const py::kwargs& given) {
  conformance::ConnectOptions options = connect_options(given);
  options.transport = transport;
  return {self.handle, with(self.handle, [&](Bench& bench) { return &bench.connect(options); })};
}

/// Parses operands by name. `offset` is relative to the queue pair's region, whose key is the default.
Operands operands(const PairObject& self, const py::kwargs& given) {
  Operands made;
  made.va = self.qp->region.addr();
  made.rkey = self.qp->region.rkey();
  for (const auto& [key, value] : given) {
    const auto name = py::cast<std::string>(key);
    try {
      if (name == "payload")
        made.payload = bytes_of(value);
      else if (name == "offset")
        made.va = self.qp->region.addr() + py::cast<std::uint64_t>(value);
      else if (name == "va")
        made.va = py::cast<std::uint64_t>(value);
      else if (name == "rkey")
        made.rkey = py::cast<std::uint32_t>(value);
      else if (name == "length")
        made.length = py::cast<std::uint32_t>(value);
      else if (name == "swap" || name == "add")
        made.swap_or_add = py::cast<std::uint64_t>(value);
      else if (name == "compare")
        made.compare = py::cast<std::uint64_t>(value);
      else if (name == "immediate")
        made.immediate = py::cast<std::uint32_t>(value);
      else if (name == "invalidated_rkey")
        made.invalidated_rkey = py::cast<std::uint32_t>(value);
      else if (name == "qkey")
        made.qkey = py::cast<std::uint32_t>(value);
      else if (name == "xrc_srq")
        made.xrc_srq = py::cast<std::uint32_t>(value);
      else if (name == "placement")
        made.placement = py::cast<std::uint8_t>(value);
      else if (name == "selectivity")
        made.selectivity = py::cast<std::uint8_t>(value);
      else
        python::raise(ErrorClass::usage,
                      fmt::format("unknown operand {}; expected payload, offset, va, rkey, length, swap, add, compare, "
                                  "immediate, invalidated_rkey, qkey, xrc_srq, placement or selectivity",
                                  name));
    } catch (const py::cast_error&) {
      python::raise(ErrorClass::usage,
                    fmt::format("{}={}: invalid value", name, std::string(py::str(py::repr(value)))));
    }
  }
  return made;
}

Position position_from(const std::string& text) {
  if (text == "first") return Position::first;
  if (text == "middle") return Position::middle;
  if (text == "last") return Position::last;
  if (text == "only") return Position::only;
  python::raise(ErrorClass::usage, fmt::format("position=\"{}\": expected first, middle, last or only", text));
}

void bind_stimulus(py::module_& module) {
  py::class_<Stimulus>(module, "Stimulus",
                       "A frame that a case sends. It is valid unless the case changes it. Each method returns a "
                       "changed copy.")
      .def_property_readonly("text", &Stimulus::text, "Text in reports.")
      .def("without_ack_request", &Stimulus::without_ack_request, "Return a copy with AckReq = 0.")
      .def("solicited", &Stimulus::solicited, "Return a copy with the SE bit set.")
      .def(
          "changed",
          [](const Stimulus& self, const py::function& change, const std::string& words) {
            return self.changed(
                [&](Frame& frame) {
                  const py::object made = make_frame(frame, link_of_first(frame));
                  const py::object given = change(made);
                  const py::object& changed = given.is_none() ? made : given;
                  if (!is_frame(changed)) throw py::type_error("the change function must return a Frame or None");
                  frame = frame_values(changed);
                },
                words);
          },
          py::arg("change"), py::arg("words"),
          "Return a copy that is changed before encoding. `change` receives the Frame, and changes it or returns a new "
          "one. Lengths and CRCs that it does not set are computed. `words` describe the change in reports.")
      .def(
          "damaged",
          [](const Stimulus& self, const py::function& change, const std::string& words) {
            const py::bytearray raw(reinterpret_cast<const char*>(self.bytes().data()), self.bytes().size());
            const py::object given = change(raw);
            const std::string made = bytes_of(given.is_none() ? py::object(raw) : given);
            return self.damaged([made](std::vector<std::uint8_t>& bytes) { bytes.assign(made.begin(), made.end()); },
                                words);
          },
          py::arg("change"), py::arg("words"),
          "Return a copy that is changed after encoding. `change` receives the bytes as a bytearray. CRCs are kept.")
      .def_property_readonly(
          "frame", [](const Stimulus& self) { return make_frame(self.bytes(), link_of_first(self.frame())); },
          "The Frame as sent.")
      .def("__bytes__", [](const Stimulus& self) { return to_bytes(self.bytes()); })
      .def("__repr__", [](const Stimulus& self) { return fmt::format("<Stimulus {}>", self.text()); });
}

void bind_seen(py::module_& module) {
  py::class_<SeenObject>(module, "Seen", "A frame received from the device.")
      .def_property_readonly(
          "frame",
          [](const SeenObject& self) {
            return make_frame(self.seen->bytes, LinkType::ethernet, static_cast<std::uint32_t>(self.seen->bytes.size()),
                              self.seen->time);
          },
          "The Frame.")
      .def_property_readonly(
          "time", [](const SeenObject& self) { return self.seen->time; },
          "Receive time, nanoseconds of the wire's clock.")
      .def_property_readonly(
          "opcode", [](const SeenObject& self) { return self.seen->op->value; }, "Opcode of the BTH.")
      .def_property_readonly(
          "psn", [](const SeenObject& self) { return self.seen->at.value; },
          "PSN relative to the tester's first PSN (responses) or the device's first PSN (requests).")
      .def_property_readonly(
          "dest_qp", [](const SeenObject& self) { return self.seen->dest_qp; }, "Destination QP of the BTH.")
      .def_property_readonly(
          "syndrome",
          [](const SeenObject& self) {
            return self.seen->has_aeth ? py::object(py::int_(self.seen->syndrome)) : py::none();
          },
          "Syndrome of the AETH, or None without AETH.")
      .def_property_readonly(
          "msn",
          [](const SeenObject& self) {
            return self.seen->has_aeth ? py::object(py::int_(self.seen->msn)) : py::none();
          },
          "MSN of the AETH, or None without AETH.")
      .def_property_readonly(
          "payload", [](const SeenObject& self) { return to_bytes(self.seen->payload); }, "Payload without pad.")
      .def_property_readonly(
          "text", [](const SeenObject& self) { return self.seen->text(); },
          "Text in reports: \"NAK PSN sequence error, PSN +0, MSN 3\".")
      .def("__repr__", [](const SeenObject& self) { return fmt::format("<Seen {}>", self.seen->text()); });
}

void bind_expectation(py::module_& module) {
  py::class_<Expectation>(module, "Expectation", "A frame that a case expects, as the clause requires.")
      .def_property_readonly("text", &Expectation::text, "Text in reports.")
      .def("msn", &Expectation::msn, py::arg("value"),
           "Require this MSN in the AETH, counted from the start of the connection.")
      .def(
          "carrying",
          [](const Expectation& self, const py::object& payload) { return self.carrying(bytes_of(payload)); },
          py::arg("payload"), "Require this payload.")
      .def(
          "where",
          [](const Expectation& self, const std::string& words, const py::function& holds) {
            return self.where(words, [match = match_by(holds)](const Seen& seen) { return match(seen) == Match::yes; });
          },
          py::arg("words"), py::arg("holds"), "Require that `holds` returns a true value for the Seen.")
      .def("__repr__", [](const Expectation& self) { return fmt::format("<Expectation {}>", self.text()); });
  py::class_<Silence>(module, "Silence", "Expects that no frame arrives for some time.");
}

void bind_expected_frames(py::module_& module) {
  module.def("_nak_codes", [] {
    py::dict codes;
    codes["psn_sequence_error"] = nak_code::psn_sequence_error;
    codes["invalid_request"] = nak_code::invalid_request;
    codes["remote_access_error"] = nak_code::remote_access_error;
    codes["remote_operational_error"] = nak_code::remote_operational_error;
    return codes;
  });
  module.def(
      "expect",
      [](const std::string& words, const py::function& predicate) { return Expectation(words, match_by(predicate)); },
      py::arg("words"), py::arg("predicate"),
      "Expect a frame for which `predicate` returns a true value. It is called with the next Seen. If it returns "
      "\"skip\", this frame is ignored.");
  module.def(
      "ack", [](std::int32_t at) { return conformance::ack(psn(at)); }, py::arg("psn"),
      "Expect an ACK with exactly this PSN.");
  module.def(
      "acknowledged", [](std::int32_t at) { return conformance::acknowledged(psn(at)); }, py::arg("psn"),
      "Expect acknowledgements up to this PSN: one, or several of which the last has this PSN.");
  module.def(
      "nak", [](std::uint8_t code, std::int32_t at) { return conformance::nak(code, psn(at)); }, py::arg("code"),
      py::arg("psn"), "Expect a NAK with this code and PSN. Another code results in the verdict fail-wrong-code.");
  module.def(
      "rnr_nak",
      [](std::int32_t at, std::optional<std::uint8_t> timer) { return conformance::rnr_nak(psn(at), timer); },
      py::arg("psn"), py::arg("timer") = py::none(), "Expect an RNR NAK. `timer`: its timer code, or None for any.");
  module.def(
      "read_response",
      [](const std::string& position, std::int32_t at) {
        return conformance::read_response(position_from(position), psn(at));
      },
      py::arg("position"), py::arg("psn"), "Expect an RDMA READ Response: \"first\", \"middle\", \"last\", \"only\".");
  module.def(
      "atomic_acknowledge",
      [](std::int32_t at, std::uint64_t original) { return conformance::atomic_acknowledge(psn(at), original); },
      py::arg("psn"), py::arg("original"), "Expect an Atomic Acknowledge with the original memory contents.");
  module.def(
      "a_send",
      [](std::int32_t at, const std::string& position) {
        return conformance::a_send(psn(at), position_from(position));
      },
      py::arg("psn"), py::arg("position") = "only", "Expect a SEND from the device.");
  module.def(
      "a_write",
      [](std::int32_t at, const std::string& position) {
        return conformance::a_write(psn(at), position_from(position));
      },
      py::arg("psn"), py::arg("position") = "only", "Expect an RDMA WRITE from the device.");
  module.def(
      "a_read",
      [](std::int32_t at, std::uint32_t length, std::uint64_t va) { return conformance::a_read(psn(at), length, va); },
      py::arg("psn"), py::arg("length"), py::arg("va") = conformance::tester_memory,
      "Expect an RDMA READ Request from the device for `length` bytes of the tester's memory.");
  module.def(
      "a_fetch_add", [](std::int32_t at) { return conformance::a_fetch_add(psn(at)); }, py::arg("psn"),
      "Expect a Fetch & Add from the device.");
  module.def("cnp", &conformance::cnp, "Expect a congestion notification packet.");
  module.def(
      "silence", [](double seconds) { return conformance::silence(nanoseconds_of(seconds)); }, py::arg("seconds") = 0.0,
      "Expect no frame for `seconds`. 0: the device's usual response time.");
  module.def(
      "pattern_bytes",
      [](std::uint64_t count, std::uint8_t seed) {
        constexpr std::uint64_t most = 64U << 20;
        if (count > most) raise(ErrorClass::usage, fmt::format("count={}: expected at most {}", count, most));
        return py::bytes(conformance::pattern_bytes(count, seed));
      },
      py::arg("count"), py::arg("seed") = 1, "Return `count` bytes that count up from `seed`.");
}

void bind_pair_requests(py::class_<PairObject>& c) {
  using Pair = PairObject;
  const auto stimulus = [&c](const char* name, const char* position, Operation operation, const char* doc) {
    c.def(
        name,
        [operation, at_position = position_from(position)](const Pair& self, std::int32_t at,
                                                           const py::object& payload) {
          const std::string raw = payload.is_none() ? conformance::pattern_bytes(8) : bytes_of(payload);
          return self.with([&](Connected& qp, Bench&) {
            return qp.request(operation, at_position, psn(at), Operands{.payload = raw});
          });
        },
        py::arg("psn"), py::arg("payload") = py::none(), doc);
  };
  stimulus("send_first", "first", Operation::send, "Return a SEND First of the tester.");
  stimulus("send_middle", "middle", Operation::send, "Return a SEND Middle of the tester.");
  stimulus("send_last", "last", Operation::send, "Return a SEND Last of the tester.");
  stimulus("send_only", "only", Operation::send, "Return a SEND Only of the tester. Default payload: 8 bytes.");
  stimulus("write_middle", "middle", Operation::rdma_write, "Return an RDMA WRITE Middle of the tester.");
  stimulus("write_last", "last", Operation::rdma_write, "Return an RDMA WRITE Last of the tester.");

  const auto request = [&c](const char* name, const auto& make, const char* doc) {
    c.def(
        name,
        [make](const Pair& self, std::int32_t at, const py::kwargs& given) {
          const Operands requested = self.handle->bench ? operands(self, given) : Operands();
          return self.with([&](Connected& qp, Bench&) { return make(qp, psn(at), requested); });
        },
        py::arg("psn"), doc);
  };
  request(
      "write_first", [](Connected& qp, psn at, const Operands& o) { return qp.write_first(at, o); },
      "Return an RDMA WRITE First. Operands: offset or va, rkey, length of the message, payload.");
  request(
      "write_only", [](Connected& qp, psn at, const Operands& o) { return qp.write_only(at, o); },
      "Return an RDMA WRITE Only. Operands: offset or va, rkey, payload, length (default: of the payload).");
  request(
      "read", [](Connected& qp, psn at, const Operands& o) { return qp.read(at, o); },
      "Return an RDMA READ Request. Operands: offset or va, rkey, length.");
  request(
      "compare_swap", [](Connected& qp, psn at, const Operands& o) { return qp.compare_swap(at, o); },
      "Return a Compare & Swap. Operands: offset or va, rkey, compare, swap.");
  request(
      "fetch_add", [](Connected& qp, psn at, const Operands& o) { return qp.fetch_add(at, o); },
      "Return a Fetch & Add. Operands: offset or va, rkey, add.");
  c.def(
      "request",
      [](const Pair& self, std::uint8_t opcode, std::int32_t at, const py::kwargs& given) {
        const Operands requested = self.handle->bench ? operands(self, given) : Operands();
        return self.with([&](Connected& qp, Bench&) { return qp.request(opcode, psn(at), requested); });
      },
      py::arg("opcode"), py::arg("psn"),
      "Return a request of the tester with any opcode. Operands: payload, offset, va, rkey, length, swap, add, "
      "compare, immediate, invalidated_rkey, qkey, xrc_srq, placement, selectivity.");
}

void bind_pair_other_stimuli(py::class_<PairObject>& c) {
  using Pair = PairObject;
  c.def(
      "datagram",
      [](const Pair& self, std::int32_t at, std::uint32_t qkey, const py::object& payload) {
        const std::string raw = payload.is_none() ? conformance::pattern_bytes(8) : bytes_of(payload);
        return self.with([&](Connected& qp, Bench&) { return qp.datagram(psn(at), qkey, raw); });
      },
      py::arg("psn"), py::arg("qkey"), py::arg("payload") = py::none(),
      "Return a datagram to the device's queue pair.");
  c.def(
      "cnp", [](const Pair& self) { return self.with([](Connected& qp, Bench&) { return qp.cnp(); }); },
      "Return a congestion notification packet for the device's queue pair.");
  c.def(
      "ack",
      [](const Pair& self, std::int32_t at, std::uint32_t msn) {
        return self.with([&](Connected& qp, Bench&) { return qp.ack(psn(at), msn); });
      },
      py::arg("psn"), py::arg("msn"), "Return the tester's ACK of a device request.");
  c.def(
      "nak",
      [](const Pair& self, std::uint8_t code, std::int32_t at, std::uint32_t msn) {
        return self.with([&](Connected& qp, Bench&) { return qp.nak(code, psn(at), msn); });
      },
      py::arg("code"), py::arg("psn"), py::arg("msn"), "Return a NAK of the tester.");
  c.def(
      "rnr_nak",
      [](const Pair& self, std::uint8_t timer, std::int32_t at, std::uint32_t msn) {
        return self.with([&](Connected& qp, Bench&) { return qp.rnr_nak(timer, psn(at), msn); });
      },
      py::arg("timer"), py::arg("psn"), py::arg("msn"), "Return an RNR NAK of the tester.");
  c.def(
      "read_response",
      [](const Pair& self, const std::string& position, std::int32_t at, std::uint32_t msn, const py::object& payload) {
        const std::string raw = bytes_of(payload);
        const Position where = position_from(position);
        return self.with([&](Connected& qp, Bench&) { return qp.read_response(where, psn(at), msn, raw); });
      },
      py::arg("position"), py::arg("psn"), py::arg("msn"), py::arg("payload"),
      "Return an RDMA READ Response of the tester.");
  c.def(
      "atomic_acknowledge",
      [](const Pair& self, std::int32_t at, std::uint32_t msn, std::uint64_t original) {
        return self.with([&](Connected& qp, Bench&) { return qp.atomic_acknowledge(psn(at), msn, original); });
      },
      py::arg("psn"), py::arg("msn"), py::arg("original"), "Return an Atomic Acknowledge of the tester.");
}

void bind_pair_device(py::class_<PairObject>& c) {
  using Pair = PairObject;
  const auto device = [&c](const char* name, void (Connected::*does)(std::uint64_t, conformance::Message),
                           const char* doc) {
    c.def(
        name,
        [does](const Pair& self, std::uint64_t wr_id, std::uint32_t length, std::uint64_t offset,
               const std::vector<std::string>& flags) {
          static_cast<void>(self.with([&](Connected& qp, Bench&) {
            return (qp.*does)(wr_id, {length, offset, flags}), true;
          }));
        },
        py::arg("wr_id"), py::arg("length") = 8, py::arg("offset") = 0,
        py::arg("flags") = std::vector<std::string>{"signaled"}, doc);
  };
  device("device_sends", &Connected::device_sends, "Post a SEND to the tester at the device.");
  device("device_writes", &Connected::device_writes, "Post an RDMA WRITE to the tester's memory at the device.");
  device("device_reads", &Connected::device_reads, "Post an RDMA READ of the tester's memory at the device.");
  device("device_adds", &Connected::device_adds, "Post a Fetch & Add of 5 to the tester's memory at the device.");
  bind_verbs_steps(c);
  const auto does = [&c](const char* name, const auto& work, const char* doc, const auto&... args) {
    c.def(name, work, args..., doc);
  };
  does(
      "drops",
      [](const Pair& self, const Stimulus& bad) {
        static_cast<void>(self.with([&](Connected& qp, Bench&) { return qp.drops(bad), true; }));
      },
      "Send a frame that the device must drop, then a valid SEND, which must complete. Requires a new queue "
      "pair with a receive request.",
      py::arg("bad"));
  does(
      "refuses",
      [](const Pair& self, const Expectation& nak) {
        static_cast<void>(self.with([&](Connected& qp, Bench&) { return qp.refuses(nak), true; }));
      },
      "Expect the effect of a class C error: this NAK, then the error state.", py::arg("nak"));
  does(
      "modify",
      [](const Pair& self, const py::kwargs& attributes) {
        const nlohmann::json given = to_json(attributes);
        static_cast<void>(self.with([&](Connected& qp, Bench&) { return qp.modify(given), true; }));
      },
      "Change exactly these attributes (docs/reference/agent-protocol.md, modify_qp). Ends the case on failure.");
}

void bind_pair_properties(py::class_<PairObject>& c) {
  using Pair = PairObject;
  const auto number = [&c](const char* name, const auto& get, const char* doc) {
    c.def_property_readonly(
        name, [get](const Pair& self) { return self.with([&](Connected& qp, Bench&) { return get(qp); }); }, doc);
  };
  number(
      "tester_qpn", [](Connected& qp) { return qp.tester_qpn; }, "QP number of the tester.");
  number(
      "first_psn", [](Connected& qp) { return qp.ours.value(); }, "First PSN of the tester, absolute.");
  number(
      "device_first_psn", [](Connected& qp) { return qp.theirs.value(); }, "First PSN of the device, absolute.");
  number(
      "mtu", [](Connected& qp) { return qp.mtu; }, "Maximum payload bytes of a packet.");
  c.def(
      "frame",
      [](const Pair& self, std::uint8_t opcode, std::int32_t at) {
        return make_frame(self.with([&](Connected& qp, Bench&) { return qp.headers(opcode, qp.ours + at); }));
      },
      py::arg("opcode"), py::arg("psn"),
      "Return a Frame with the headers from Ethernet to the BTH, to be completed: frame / RETH(…) / b\"…\".");
}

void bind_pair(py::module_& module) {
  py::class_<PairObject> c(
      module, "CaseQueuePair",
      "A queue pair of the device in a case, and the tester's endpoint. PSNs are relative to the first PSN of their "
      "direction.");
  bind_pair_requests(c);
  bind_pair_other_stimuli(c);
  bind_pair_device(c);
  bind_pair_properties(c);
}

void bind_bench(py::module_& module) {
  using B = BenchObject;
  py::class_<B> c(module, "Bench",
                  "The interface of a case to the device: frames on the wire, queue pairs, memory and completions. "
                  "After the end of the case its methods raise ClosedError.");
  for (const auto& [name, transport, doc] :
       {std::tuple("rc", Transport::rc,
                   "Create an RC queue pair in RTS, connected to the tester. Options: as for Device.qp()."),
        std::tuple("uc", Transport::uc, "Create a UC queue pair. Options: as for rc()."),
        std::tuple("ud", Transport::ud, "Create a UD queue pair. Options: as for rc()."),
        std::tuple("xrc", Transport::xrc,
                   "Create an XRC queue pair. Options: as for rc(), and xrc_target=True if the device receives.")})
    c.def(
        name,
        [transport = transport](const B& self, const py::kwargs& options) { return connect(self, transport, options); },
        doc);
  c.def("__rshift__", [](const py::object& self, const Stimulus& stimulus) {
    with(py::cast<const B&>(self).handle, [&](Bench& bench) { return &(bench >> stimulus); });
    return self;
  });
  c.def("__rshift__", [](const py::object& self, const py::object& frame) {
    const Stimulus stimulus = raw(frame, {});
    with(py::cast<const B&>(self).handle, [&](Bench& bench) { return &(bench >> stimulus); });
    return self;
  });
  c.def(
      "send",
      [](const B& self, const py::object& frame, const std::string& words) {
        const Stimulus stimulus = raw(frame, words);
        with(self.handle, [&](Bench& bench) { return &(bench >> stimulus); });
      },
      py::arg("frame"), py::arg("words"), "Send a frame without changes. `words` describe it in reports.");
  c.def("__lshift__", [](const py::object& self, const Expectation& expectation) {
    with(py::cast<const B&>(self).handle, [&](Bench& bench) { return &(bench << expectation); });
    return self;
  });
  c.def("__lshift__", [](const py::object& self, const Silence& silence) {
    with(py::cast<const B&>(self).handle, [&](Bench& bench) { return &(bench << silence); });
    return self;
  });
  c.def(
      "wait",
      [](const B& self, const Expectation& expectation) {
        return seen_object(with(self.handle, [&](Bench& bench) { return bench.wait(expectation); }));
      },
      py::arg("expectation"), "Wait as << does. Returns the Seen.");
  c.def(
      "next",
      [](const B& self, double seconds) {
        const std::int64_t time = nanoseconds_of(seconds);
        auto seen = with(self.handle, [&](Bench& bench) { return bench.next(time); });
        return seen ? seen_object(std::move(*seen)) : py::none();
      },
      py::arg("seconds") = 0.0, "Return the next Seen, or None after `seconds` (0: the device's usual response time).");
  c.def(
      "all_until_silence",
      [](const B& self) {
        py::list all;
        for (Seen& seen : with(self.handle, [](Bench& bench) { return bench.all_until_silence(); }))
          all.append(seen_object(std::move(seen)));
        return all;
      },
      "Return the frames that arrive until silence.");
  bind_bench_steps(c);
  c.def(
      "listen_to_all", [](const B& self) { with(self.handle, [](Bench& b) { return b.listen_to_all(), true; }); },
      "Receive all RoCE frames, regardless of their destination QP. Their PSNs are absolute.");
  c.def(
      "expect_async_event",
      [](const B& self, const std::string& event, const PairObject& qp) {
        with(self.handle, [&](Bench& bench) { return bench.tells(event, "qp", qp.qp->qp.handle()), true; });
      },
      py::arg("event"), py::arg("qp"), "Expect this asynchronous event of the queue pair. Ends the case otherwise.");
  c.def(
      "congestion_management",
      [](const B& self, bool on) { return with(self.handle, [&](Bench& b) { return b.congestion_management(on); }); },
      py::arg("on"), "Set the device's congestion management. Returns whether its state is known to be `on`.");
}

PyObject* case_end_class = nullptr;  // exists until the interpreter ends

}  // namespace

conformance::Verdict verdict_from(const std::string& text) {
  for (const Verdict verdict : {Verdict::pass, Verdict::fail, Verdict::fail_wrong_code, Verdict::may,
                                Verdict::unsupported, Verdict::inconclusive, Verdict::error})
    if (to_string(verdict) == text) return verdict;
  python::raise(ErrorClass::usage,
                fmt::format("verdict=\"{}\": expected pass, fail, fail-wrong-code, may, unsupported, inconclusive or "
                            "error",
                            text));
}

py::object bench_object(std::shared_ptr<BenchHandle> handle) { return py::cast(BenchObject{std::move(handle)}); }

void raise_case_end(const conformance::CaseEnd& end) {
  const conformance::Judgment& judgment = end.judgment;
  const py::handle type(case_end_class);
  py::object error =
      type(judgment.expected.empty() ? judgment.actual
                                     : fmt::format("expected: {}; actual: {}", judgment.expected, judgment.actual));
  error.attr("verdict") = std::string(to_string(judgment.verdict));
  error.attr("expected") = judgment.expected;
  error.attr("actual") = judgment.actual;
  PyErr_SetObject(type.ptr(), error.ptr());
  throw py::error_already_set();
}

std::optional<conformance::CaseEnd> case_end_of(const py::error_already_set& error) {
  if (!error.matches(case_end_class)) return std::nullopt;
  const py::object& value = error.value();
  return conformance::CaseEnd{{verdict_from(py::cast<std::string>(value.attr("verdict"))),
                               py::cast<std::string>(value.attr("expected")),
                               py::cast<std::string>(value.attr("actual"))}};
}

void bind_cases_vocabulary(py::module_& module) {
  case_end_class = PyErr_NewExceptionWithDoc("rdmawire._core.CaseEnd",
                                             "Ends a case early with a verdict, expected and actual. Derives from "
                                             "BaseException, so that a case does not catch it accidentally.",
                                             PyExc_BaseException, nullptr);
  if (!case_end_class) throw py::error_already_set();
  module.add_object("CaseEnd", py::reinterpret_borrow<py::object>(case_end_class));
  bind_stimulus(module);
  bind_seen(module);
  bind_expectation(module);
  bind_expected_frames(module);
  bind_pair(module);
  bind_bench(module);
  bind_stream_vocabulary(module);
}

}  // namespace rdmawire::python
