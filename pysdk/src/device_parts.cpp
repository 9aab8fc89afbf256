#include "pysdk/src/device_parts.hpp"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <algorithm>

#include "conformance/cases/memory_windows.hpp"
#include "pysdk/src/bytes.hpp"
#include "pysdk/src/values.hpp"

namespace rdmawire::python {

using conformance::Bench;
using conformance::iwarp::IwarpBench;

namespace {

constexpr std::chrono::milliseconds moment{100};   // interval between signal checks
constexpr std::uint64_t most_receives = 1U << 16;  // of one call

[[noreturn]] void raise_lost(const std::string& why) {
  py::dict attributes;
  attributes["kind"] = "lost";
  raise(ErrorClass::device, why, attributes);
}

/// Releases the interpreter's lock if this thread holds it.
class Unlocked {
 public:
  Unlocked() {
    if (PyGILState_Check()) released_.emplace();
  }

 private:
  std::optional<py::gil_scoped_release> released_;
};

}  // namespace

void fail(const SharedDevice& device, const peer::PeerError& error) {
  if (device.closed()) static_cast<void>(device.use());  // raises
  if (error.kind == peer::PeerError::Kind::lost)
    if (const auto gone = device.gone()) raise_lost(*gone);
  raise(error);
}

void fail(const SharedDevice& device, const conformance::CaseEnd& end) {
  if (device.closed()) static_cast<void>(device.use());  // raises
  if (const auto gone = device.gone()) raise_lost(*gone);
  raise(end);
}

// Completion queues.

CompletionQueuePart::CompletionQueuePart(std::shared_ptr<SharedDevice> of, std::uint32_t entries)
    : device(std::move(of)) {
  auto made = [&] {
    const auto target = device->use();
    const py::gil_scoped_release released;
    return target->device().device->completion_queue(entries);
  }();
  cq_ = std::make_shared<SharedCompletions>(take(*device, std::move(made)));
}

std::shared_ptr<SharedCompletions> CompletionQueuePart::use() const {
  static_cast<void>(device->use());  // raises
  const std::lock_guard lock(mutex_);
  if (!cq_) raise(ErrorClass::closed, "the completion queue was closed");
  return cq_;
}

bool CompletionQueuePart::closed() const {
  if (device->closed()) return true;
  const std::lock_guard lock(mutex_);
  return cq_ == nullptr;
}

void CompletionQueuePart::close() {
  std::shared_ptr<SharedCompletions> gone;
  const std::lock_guard lock(mutex_);
  gone.swap(cq_);
  // A forked process does not own the object at the device.
  if (device->owned_by_parent_process()) static_cast<void>(new std::shared_ptr<SharedCompletions>(std::move(gone)));
}

std::uint64_t Completions::own() {
  constexpr std::uint64_t ours = 0x7264'6d61'0000'0000;  // users are unlikely to use such a wr_id
  const std::lock_guard lock(mutex_);
  return awaited_.emplace_back(ours | ++owns_);
}

std::vector<peer::Completion> Completions::sort(std::vector<peer::Completion> polled) {
  const auto is_awaited = [&](const peer::Completion& one) {
    return std::find(awaited_.begin(), awaited_.end(), one.wr_id) != awaited_.end();
  };
  const auto others = std::stable_partition(polled.begin(), polled.end(), is_awaited);
  arrived_.insert(arrived_.end(), polled.begin(), others);
  polled.erase(polled.begin(), others);
  return polled;
}

peer::PeerResult<std::vector<peer::Completion>> Completions::take(std::size_t most, std::chrono::milliseconds wait,
                                                                  const Poll& poll) {
  std::vector<peer::Completion> all;
  {
    const std::lock_guard lock(mutex_);
    for (; !kept_.empty() && all.size() < most; kept_.pop_front()) all.push_back(std::move(kept_.front()));
  }
  if (all.size() == most) return all;
  auto polled = poll(most - all.size(), wait);
  if (!polled) return polled;
  const std::lock_guard lock(mutex_);
  for (peer::Completion& one : sort(std::move(*polled))) all.push_back(std::move(one));
  return all;
}

peer::PeerResult<std::optional<peer::Completion>> Completions::wait_for(std::uint64_t wr_id,
                                                                        std::chrono::milliseconds most,
                                                                        bool virtual_time, const Poll& poll) {
  const auto forget = [&] { std::erase(awaited_, wr_id); };
  for (std::chrono::milliseconds left = most;;) {
    const auto slice = virtual_time ? left : std::min(left, moment);
    auto polled = poll(1, slice);
    const std::lock_guard lock(mutex_);
    if (!polled) {
      forget();
      return tl::unexpected(polled.error());
    }
    const bool came = !polled->empty();
    for (peer::Completion& one : sort(std::move(*polled))) kept_.push_back(std::move(one));
    const auto found =
        std::find_if(arrived_.begin(), arrived_.end(), [&](const peer::Completion& one) { return one.wr_id == wr_id; });
    if (found != arrived_.end()) {
      std::optional<peer::Completion> own = std::move(*found);
      arrived_.erase(found);
      forget();
      return own;
    }
    if (!came) left -= slice;  // other completions do not reduce the remaining time
    if (left.count() <= 0) {
      forget();
      return std::optional<peer::Completion>();
    }
  }
}

// Domains.

void Pair::close() {
  if (closed) return;
  closed = true;
  windows.clear();
  tester = {};
  if (stream) {
    if (stream->connected()) stream->connection().reset();
    stream->cm = {};
    stream->listener = {};
  }
  verbs->qp = {};
  verbs->srq = {};
  regions.clear();
  verbs->region = {};
  verbs->inbox = {};
  verbs->cq = {};
  cq.reset();
}

Domain::Made::Made(std::shared_ptr<conformance::Target> of, std::uint64_t seed) : target(std::move(of)) {
  if (target->device().is_iwarp())
    iwarp.emplace(target->device(), seed);
  else
    roce.emplace(target->device(), seed);
}

Domain::Domain(std::shared_ptr<SharedDevice> of, std::uint64_t seed)
    : device(std::move(of)), streams_(device->use()->device().is_iwarp()) {
  auto target = device->use();
  try {
    const py::gil_scoped_release released;
    const std::lock_guard lock(mutex());
    made_ = std::make_unique<Made>(std::move(target), seed);
    static_cast<void>(made_->bench().domain());
    forward_frames();
  } catch (const conformance::CaseEnd& end) {
    fail(*device, end);
  }
}

Domain::~Domain() {
  if (device->owned_by_parent_process()) {
    static_cast<void>(made_.release());  // belongs to the parent process
    return;
  }
  const Unlocked unlocked;
  close();
}

void Domain::close() {
  const std::lock_guard lock(mutex());
  made_ = nullptr;
}

bool Domain::closed() {
  if (device->owned_by_parent_process()) return true;
  const Unlocked unlocked;
  const std::lock_guard lock(mutex());
  return made_ == nullptr;
}

void Domain::if_open(const std::function<void(Made&)>& work) {
  const std::lock_guard lock(mutex());
  if (made_) work(*made_);
}

void Domain::forward_frames() {
  if (!made_) return;
  for (const conformance::Step& step : made_->bench().story().take_transcript())
    if (step.kind == conformance::Step::Kind::link)
      device->keep_passed(step.time, step.text.starts_with("to the device"), step.frame);
}

// Queue pairs.

QueuePairPart::~QueuePairPart() {
  if (domain->device->owned_by_parent_process()) return;
  const Unlocked unlocked;
  close();
}

void QueuePairPart::close() {
  if (domain->device->owned_by_parent_process()) return;
  if (owns_) return domain->close();
  domain->if_open([&](Domain::Made&) {
    if (pair) pair->close();
  });
}

bool QueuePairPart::closed() {
  if (domain->device->owned_by_parent_process()) return true;
  const Unlocked unlocked;
  bool open = false;
  domain->if_open([&](Domain::Made&) { open = pair && !pair->closed; });
  return !open;
}

QueuePair::QueuePair(std::shared_ptr<Domain> in, bool owns, conformance::ConnectOptions options,
                     const std::shared_ptr<CompletionQueuePart>& cq)
    : QueuePairPart(std::move(in), owns) {
  const auto shared = cq ? cq->use() : nullptr;
  options.shared_cq = shared ? &shared->queue : nullptr;
  pair = domain->with([&](Domain::Made& made) {
    conformance::Connected& qp = made.roce->connect(options);
    return &made.pairs.emplace_back(Pair{.verbs = &qp, .roce = &qp, .cq = shared});
  });
}

StreamPair::StreamPair(std::shared_ptr<Domain> in, bool owns, conformance::iwarp::ConnectOptions options,
                       bool connected, const std::shared_ptr<CompletionQueuePart>& cq)
    : QueuePairPart(std::move(in), owns) {
  const auto shared = cq ? cq->use() : nullptr;
  options.shared_cq = shared ? &shared->queue : nullptr;
  pair = domain->with([&](Domain::Made& made) {
    conformance::iwarp::Connected& qp = connected ? made.iwarp->connect(options) : made.iwarp->make(options);
    return &made.pairs.emplace_back(Pair{.verbs = &qp, .stream = &qp, .cq = shared});
  });
}

// For Python.

std::chrono::milliseconds milliseconds_of(const py::object& seconds) {
  const double value = seconds.is_none() ? 1e9 : PyFloat_AsDouble(seconds.ptr());
  if (PyErr_Occurred()) throw py::error_already_set();
  if (!(value >= 0)) raise(ErrorClass::usage, "timeout: expected seconds from 0, or None for no timeout");
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::min(value, 1e9) * 1000));
}

py::dict dict_of(const peer::Completion& completion) {
  py::dict d;
  d["wr_id"] = completion.wr_id;
  d["status"] = completion.status;
  d["vendor_err"] = completion.vendor_err;
  d["qp_num"] = completion.qp_num;
  d["opcode"] = completion.opcode.empty() ? py::object(py::none()) : py::str(completion.opcode);
  d["byte_len"] = completion.byte_len;
  const auto maybe = [](const auto& number) { return number ? py::object(py::int_(*number)) : py::none(); };
  d["imm"] = maybe(completion.imm);
  d["invalidated_rkey"] = maybe(completion.invalidated_rkey);
  d["src_qp"] = maybe(completion.src_qp);
  return d;
}

namespace {

/// Polls until there are `count` completions or the time is over. Ctrl-C ends it. `request(count, slice)` polls once.
template <class Ask>
py::list poll(bool virtual_time, std::size_t count, const py::object& timeout, const Ask& request) {
  std::chrono::milliseconds left = milliseconds_of(timeout);
  py::list all;
  for (;;) {
    // A single poll in virtual time waits for the complete timeout.
    const auto slice = virtual_time ? left : std::min(left, moment);
    const std::vector<peer::Completion> some = request(count - all.size(), slice);
    for (const peer::Completion& one : some) all.append(dict_of(one));
    left -= slice;
    if (all.size() >= count || left.count() <= 0) return all;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

bool is_in_virtual_time(const SharedDevice& device) { return device.use()->device().virtual_time(); }

void post_send(QueuePairPart& self, const py::dict& request, bool to_tester) {
  peer::SendRequest asked;
  asked.more = to_json(request);
  const nlohmann::json opcode = asked.more.value("opcode", nlohmann::json("send"));
  if (!opcode.is_string())
    raise(ErrorClass::usage, "opcode: expected the name of a work request such as \"send\" or \"write\", got " +
                                 std::string(py::str(py::repr(request["opcode"]))));
  asked.opcode = opcode.get<std::string>();
  if (asked.more.contains("wr_id")) {
    if (!asked.more["wr_id"].is_number_unsigned())
      raise(ErrorClass::usage, "wr_id: expected a non-negative int, got " + asked.more["wr_id"].dump());
    asked.wr_id = asked.more["wr_id"].get<std::uint64_t>();
  }
  self.request_pair([&](Pair& pair, Domain::Made&) {
    if (to_tester && pair.roce) {
      if (!pair.tester) pair.tester = pair.roce->address_handle_of_tester();
      asked.more["ah"] = pair.tester.handle();
    }
    if (pair.roce && pair.roce->transport == Transport::xrc) asked.remote_srqn = conformance::tester_srq;
    return pair.verbs->qp.post_send({asked});
  });
}

Completions::Poll poll_of(const peer::CompletionQueue& queue) {
  return [&queue](std::size_t most, std::chrono::milliseconds wait) { return queue.poll(most, wait); };
}

/// Binds a window and waits for its completion. Other completions of the same queue are stored.
conformance::BoundWindow bound_window(Pair& pair, conformance::DeviceBench& bench, std::uint64_t offset,
                                      std::uint64_t length, const std::vector<std::string>& access) {
  Completions& completions = pair.completions();
  const std::uint64_t wr_id = completions.own();
  conformance::BoundWindow bound = conformance::ask_for_window(bench, *pair.verbs, offset, length, access, wr_id);
  const auto found =
      bench.take(completions.wait_for(wr_id, bench.answer_time(), bench.device().virtual_time(), poll_of(pair.queue())),
                 "poll for the completion of the binding");
  bench.story().require(found.has_value(), "the memory window is bound", "no completion");
  bench.story().require(found->good(), "the memory window is bound", conformance::text_of(*found));
  return bound;
}

using QueuePairPointer = std::shared_ptr<QueuePairPart>;

/// Returns one of the two regions of each queue pair.
Region region_of(const QueuePairPointer& self, peer::Region conformance::DeviceQueuePair::*which) {
  return Region{self->domain, self, [pair = self->pair, which]() -> peer::Region& {
                  if (pair->closed) throw Domain::Closed{was_closed};
                  return pair->verbs->*which;
                }};
}

struct Window {
  QueuePairPointer of;
  conformance::BoundWindow* window;
  std::uint32_t rkey = 0;
};

}  // namespace

void bind_device_parts(py::module_& module) {
  py::class_<Region>(module, "_Region", "The C++ part of rdmawire.MemoryRegion.")
      .def_property_readonly("addr", [](const Region& self) { return self.get([](auto& r) { return r.addr(); }); })
      .def_property_readonly("size", [](const Region& self) { return self.get([](auto& r) { return r.size(); }); })
      .def_property_readonly("lkey", [](const Region& self) { return self.get([](auto& r) { return r.lkey(); }); })
      .def_property_readonly("rkey", [](const Region& self) { return self.get([](auto& r) { return r.rkey(); }); })
      .def_property_readonly("handle", [](const Region& self) { return self.get([](auto& r) { return r.handle(); }); })
      .def(
          "read",
          [](const Region& self, std::uint64_t offset, std::uint64_t length) {
            const std::uint64_t size = self.get([](auto& r) { return r.size(); });
            // A long read is divided, so the device cannot reject its length.
            if (offset <= size && length > size - offset) {
              py::dict attributes;
              attributes["kind"] = "refused";
              raise(ErrorClass::device, fmt::format("read: length must be 0 to {}, got {}", size - offset, length),
                    attributes);
            }
            return to_bytes(self.request([&](auto& r) { return r.read(offset, length); }));
          },
          py::arg("offset"), py::arg("length"))
      .def(
          "write",
          [](const Region& self, std::uint64_t offset, const py::object& bytes) {
            const BytesView given(bytes);
            self.request([&](auto& r) { return r.write(offset, given.bytes()); });
          },
          py::arg("offset"), py::arg("data"))
      .def(
          "fill",
          [](const Region& self, const std::string& pattern, std::uint64_t value) {
            self.request([&](auto& r) { return r.fill(pattern, value); });
          },
          py::arg("pattern"), py::arg("value"))
      .def(
          "checksum",
          [](const Region& self, std::uint64_t offset, std::uint64_t length) {
            return self.request([&](auto& r) { return r.checksum(offset, length); });
          },
          py::arg("offset"), py::arg("length"))
      .def("release", [](const Region& self) { self.request([](auto& r) { return r.release(); }); });
  py::class_<CompletionQueuePart, std::shared_ptr<CompletionQueuePart>>(module, "_CompletionQueue",
                                                                        "A completion queue for several queue pairs.")
      .def_property_readonly("handle", [](const CompletionQueuePart& self) { return self.use()->queue.handle(); })
      .def_property_readonly("entries", [](const CompletionQueuePart& self) { return self.use()->queue.entries(); })
      .def_property_readonly("closed", &CompletionQueuePart::closed)
      .def(
          "poll",
          [](const CompletionQueuePart& self, std::size_t count, const py::object& timeout) {
            return poll(is_in_virtual_time(*self.device), count, timeout, [&](std::size_t most, auto slice) {
              const auto cq = self.use();
              auto some = [&] {
                const py::gil_scoped_release released;
                return cq->completions.take(most, slice, poll_of(cq->queue));
              }();
              return take(*self.device, std::move(some));
            });
          },
          py::arg("count"), py::arg("timeout"))
      .def("close", &CompletionQueuePart::close, py::call_guard<py::gil_scoped_release>());
  py::class_<Domain, std::shared_ptr<Domain>>(module, "_Domain", "The C++ part of rdmawire.ProtectionDomain.")
      .def_property_readonly(
          "handle",
          [](Domain& self) { return self.with([](Domain::Made& made) { return made.bench().domain().handle(); }); })
      .def_property_readonly("closed", &Domain::closed)
      .def(
          "region",
          [](const std::shared_ptr<Domain>& self, std::uint64_t bytes, const std::vector<std::string>& access) {
            peer::Region* made = self->with(
                [&](Domain::Made& in) { return &in.regions.emplace_back(in.bench().region(bytes, access)); });
            return Region{self, nullptr, [made]() -> peer::Region& { return *made; }};
          },
          py::arg("size"), py::arg("access"))
      .def("close", [](Domain& self) {
        if (self.device->owned_by_parent_process()) return;
        const py::gil_scoped_release released;
        self.close();
      });
}

namespace {

void bind_window(py::module_& module) {
  py::class_<Window>(module, "_Window", "The C++ part of rdmawire.MemoryWindow.")
      .def_readonly("rkey", &Window::rkey)
      .def("release", [](const Window& self) {
        self.of->request_pair([&](Pair&, Domain::Made&) { return self.window->window.release(); });
      });
}

using QueuePairClass = py::class_<QueuePairPart, QueuePairPointer>;

void bind_queue_pair_resources(QueuePairClass& c) {
  c.def_property_readonly("device_qpn",
                          [](QueuePairPart& self) {
                            return self.with_pair([](Pair& pair, Domain::Made&) { return pair.verbs->qp.qp_num(); });
                          })
      .def_property_readonly("handle",
                             [](QueuePairPart& self) {
                               return self.with_pair([](Pair& pair, Domain::Made&) { return pair.verbs->qp.handle(); });
                             })
      .def_property_readonly("cq_handle",
                             [](QueuePairPart& self) {
                               return self.with_pair([](Pair& pair, Domain::Made&) { return pair.queue().handle(); });
                             })
      .def_property_readonly(
          "domain_handle",
          [](QueuePairPart& self) {
            return self.with_pair([](Pair&, Domain::Made& made) { return made.bench().domain().handle(); });
          })
      .def_property_readonly("closed", &QueuePairPart::closed)
      .def_property_readonly(
          "region", [](const QueuePairPointer& self) { return region_of(self, &conformance::DeviceQueuePair::region); })
      .def_property_readonly(
          "inbox", [](const QueuePairPointer& self) { return region_of(self, &conformance::DeviceQueuePair::inbox); })
      .def(
          "new_region",
          [](const QueuePairPointer& self, std::uint64_t bytes, const std::vector<std::string>& access) {
            peer::Region* made = self->with_pair([&](Pair& pair, Domain::Made& in) {
              return &pair.regions.emplace_back(in.bench().region(bytes, access));
            });
            return Region{self->domain, self, [made, pair = self->pair]() -> peer::Region& {
                            if (pair->closed) throw Domain::Closed{was_closed};
                            return *made;
                          }};
          },
          py::arg("size"), py::arg("access"))
      .def(
          "bind_window",
          [](const QueuePairPointer& self, std::uint64_t offset, std::uint64_t length,
             const std::vector<std::string>& access) {
            conformance::BoundWindow* made = self->with_pair([&](Pair& pair, Domain::Made& in) {
              return &pair.windows.emplace_back(bound_window(pair, in.bench(), offset, length, access));
            });
            return Window{self, made, made->rkey};
          },
          py::arg("offset"), py::arg("length"), py::arg("access"));
}

void bind_queue_pair_operations(QueuePairClass& c) {
  c.def("post_send", &post_send, py::arg("request"), py::arg("to_tester"))
      .def(
          "post_receives",
          [](QueuePairPart& self, std::uint64_t count) {
            if (count > most_receives)
              raise(ErrorClass::usage, fmt::format("count={}: expected at most {}", count, most_receives));
            constexpr std::uint64_t at_once = 1024;  // between checks for signals
            for (std::uint64_t posted = 0; posted < count; posted += at_once) {
              const auto some = static_cast<std::uint32_t>(std::min(count - posted, at_once));
              static_cast<void>(
                  self.with_pair([&](Pair& pair, Domain::Made&) { return pair.verbs->post_receives(some), true; }));
              if (PyErr_CheckSignals() != 0) throw py::error_already_set();
            }
          },
          py::arg("count"))
      .def(
          "poll",
          [](QueuePairPart& self, std::size_t count, const py::object& timeout) {
            return poll(is_in_virtual_time(*self.domain->device), count, timeout, [&](std::size_t most, auto slice) {
              return self.request_pair([&](Pair& pair, Domain::Made&) {
                return pair.completions().take(most, slice, poll_of(pair.queue()));
              });
            });
          },
          py::arg("count"), py::arg("timeout"))
      .def(
          "modify",
          [](QueuePairPart& self, const py::dict& attributes) {
            const nlohmann::json given = to_json(attributes);
            self.request_pair([&](Pair& pair, Domain::Made&) { return pair.verbs->qp.modify(given); });
          },
          py::arg("attributes"))
      .def("query",
           [](QueuePairPart& self) {
             return from_json(self.request_pair([](Pair& pair, Domain::Made&) { return pair.verbs->qp.query(); }));
           })
      .def("state",
           [](QueuePairPart& self) {
             return self.request_pair([](Pair& pair, Domain::Made&) { return pair.verbs->qp.state(); });
           })
      .def("close", [](QueuePairPart& self) {
        if (self.domain->device->owned_by_parent_process()) return;
        const py::gil_scoped_release released;
        self.close();
      });
}

}  // namespace

void bind_queue_pair_parts(py::module_& module) {
  bind_window(module);
  QueuePairClass c(module, "_QueuePairPart", "Common part of RoCE and iWARP queue pairs.");
  bind_queue_pair_resources(c);
  bind_queue_pair_operations(c);
}

}  // namespace rdmawire::python
