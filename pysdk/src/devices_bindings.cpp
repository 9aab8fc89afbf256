/// Devices, their queue pairs and memory, as rdmawire.devices builds on them.

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <functional>
#include <list>
#include <map>

#include "conformance/cases/bench.hpp"
#include "conformance/coverage/seeded_fault.hpp"
#include "pysdk/src/bindings.hpp"
#include "pysdk/src/devices.hpp"
#include "pysdk/src/errors.hpp"
#include "pysdk/src/frame.hpp"
#include "pysdk/src/octets.hpp"
#include "pysdk/src/values.hpp"
#include "pysdk/src/wires_bindings.hpp"
#include "replay/host/host.hpp"

namespace rdmawire::python {
namespace {

using conformance::Bench;
using conformance::Connected;
using conformance::ConnectOptions;
using conformance::Target;

constexpr std::chrono::milliseconds moment{100};  // between two looks for signals

/// Raises for an error of the agent's: by what became of the device, where that is why.
[[noreturn]] void fail(const SharedDevice& device, const peer::PeerError& error) {
  if (device.closed()) static_cast<void>(device.use());  // raises
  if (error.kind == peer::PeerError::Kind::lost)
    if (const auto gone = device.gone()) {
      py::dict attributes;
      attributes["kind"] = "lost";
      raise(ErrorClass::device, *gone, attributes);
    }
  raise(error);
}

template <class T>
T take(const SharedDevice& device, peer::PeerResult<T> result) {
  if (!result) fail(device, result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// What was made at a device for one queue pair: with the tester's end, memory and a completion queue.
class QueuePair : public DevicePart {
 public:
  QueuePair(std::shared_ptr<SharedDevice> of, Transport transport, ConnectOptions options, std::uint64_t seed)
      : device(std::move(of)) {
    options.transport = transport;
    auto target = device->use();
    try {
      const py::gil_scoped_release released;
      made_ = std::make_unique<Made>(std::move(target), seed, options);
    } catch (const conformance::CaseEnd& end) {
      explain(end);
    }
  }
  ~QueuePair() override {
    if (device->of_other_process()) {
      static_cast<void>(made_.release());
      return;
    }
    std::optional<py::gil_scoped_release> released;
    if (PyGILState_Check()) released.emplace();
    close();
  }

  /// Does it with what was made, without the interpreter's lock; raises where it is closed or a step of it fails.
  template <class Work>
  auto with(const Work& work) {
    using Result = decltype(work(std::declval<Connected&>(), std::declval<Bench&>()));
    if (device->of_other_process()) static_cast<void>(device->use());  // raises
    std::optional<Result> result;
    try {
      const py::gil_scoped_release released;
      const std::lock_guard lock(mutex_);
      if (made_) result.emplace(work(*made_->qp, made_->bench));
    } catch (const conformance::CaseEnd& end) {
      explain(end);
    }
    if (!result) {
      if (device->closed()) static_cast<void>(device->use());  // raises
      python::raise(ErrorClass::closed, "the queue pair was closed");
    }
    return std::move(*result);
  }
  /// The same of what the agent answers.
  template <class Work>
  auto ask(const Work& work) {
    return take(*device, with(work));
  }
  void close() override {
    const std::lock_guard lock(mutex_);
    made_ = nullptr;
  }
  [[nodiscard]] bool closed() {
    if (device->of_other_process()) return true;
    const py::gil_scoped_release released;
    const std::lock_guard lock(mutex_);
    return made_ == nullptr;
  }

  /// Memory beside the queue pair's own, in its protection domain.
  std::list<peer::Region>& regions() { return made_->regions; }
  std::list<conformance::BoundWindow>& windows() { return made_->windows; }
  [[nodiscard]] const peer::AddressHandle& tester() {
    if (!made_->tester) made_->tester = made_->qp->address_handle_of_tester();
    return made_->tester;
  }

  const std::shared_ptr<SharedDevice> device;

 private:
  struct Made {
    Made(std::shared_ptr<Target> of, std::uint64_t seed, const ConnectOptions& options)
        : target(std::move(of)), bench(target->device(), seed), qp(&bench.connect(options)) {}
    std::shared_ptr<Target> target;
    Bench bench;
    Connected* qp;
    std::list<peer::Region> regions;
    std::list<conformance::BoundWindow> windows;
    peer::AddressHandle tester;
  };
  [[noreturn]] void explain(const conformance::CaseEnd& end) const {
    if (device->closed()) static_cast<void>(device->use());  // raises
    if (const auto gone = device->gone()) {
      py::dict attributes;
      attributes["kind"] = "lost";
      python::raise(ErrorClass::device, *gone, attributes);
    }
    python::raise(end);
  }

  std::mutex mutex_;
  std::unique_ptr<Made> made_;
};

using QueuePairPointer = std::shared_ptr<QueuePair>;

/// Memory of the device that belongs to a queue pair's protection domain.
struct Region {
  QueuePairPointer of;
  std::function<peer::Region&(Connected&)> find;

  template <class Work>
  auto ask(const Work& work) const {
    return of->ask([&](Connected& qp, Bench&) { return work(find(qp)); });
  }
  template <class Work>
  auto get(const Work& work) const {
    return of->with([&](Connected& qp, Bench&) { return work(find(qp)); });
  }
};

struct Window {
  QueuePairPointer of;
  conformance::BoundWindow* window;
  std::uint32_t rkey = 0;
};

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

std::string mac_text(const std::array<std::uint8_t, 6>& mac) {
  return replay::mac_text(load_be(mac.data(), mac.size()));
}

std::string address_text(const conformance::Path& path, const std::array<std::uint8_t, 16>& gid) {
  if (path.is_ipv4()) return to_string(replay::IpAddress::v4(static_cast<std::uint32_t>(load_be<4>(gid.data() + 12))));
  return to_string(replay::IpAddress::of_v6(gid));
}

py::dict dict_of(const conformance::Path& path) {
  py::dict d;
  d["tester_mac"] = mac_text(path.tester_mac);
  d["device_mac"] = mac_text(path.device_mac);
  d["tester_address"] = address_text(path, path.tester_address);
  d["device_address"] = address_text(path, path.device_address);
  d["vlan"] = path.vlan;
  d["roce_v1"] = path.roce_v1;
  d["udp_source_port"] = path.udp_source_port;
  d["pkey"] = path.pkey;
  d["traffic_class"] = path.traffic_class;
  d["hop_limit"] = path.hop_limit;
  return d;
}

std::chrono::milliseconds milliseconds_of(const py::object& seconds) {
  const double value = seconds.is_none() ? 1e9 : PyFloat_AsDouble(seconds.ptr());
  if (PyErr_Occurred()) throw py::error_already_set();
  if (!(value >= 0)) python::raise(ErrorClass::usage, "a timeout is a number of seconds from 0, or None for no end");
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::min(value, 1e9) * 1000));
}

/// Completions as they come, until there are `count` or the time is over; ctrl-C ends it.
py::list poll(QueuePair& self, std::size_t count, const py::object& timeout) {
  std::chrono::milliseconds left = milliseconds_of(timeout);
  const bool virtual_time = self.with([](Connected&, Bench& bench) { return bench.device().virtual_time(); });
  py::list all;
  for (;;) {
    // In virtual time nobody waits: it is over as soon as it was asked.
    const auto slice = virtual_time ? left : std::min(left, moment);
    const auto some = self.ask([&](Connected& qp, Bench&) { return qp.cq.poll(count - all.size(), slice); });
    for (const peer::Completion& one : some) all.append(dict_of(one));
    left -= slice;
    if (all.size() >= count || left.count() <= 0) return all;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

void post_send(QueuePair& self, const py::dict& request, bool to_tester) {
  peer::SendRequest asked;
  asked.more = to_json(request);
  self.ask([&](Connected& qp, Bench&) {
    asked.opcode = asked.more.value("opcode", "send");
    if (asked.more.contains("wr_id")) asked.wr_id = asked.more["wr_id"].get<std::uint64_t>();
    if (to_tester) asked.more["ah"] = self.tester().handle();
    if (qp.transport == Transport::xrc) asked.remote_srqn = conformance::tester_srq;
    return qp.qp.post_send({asked});
  });
}

Transport service_of(const std::string& name) {
  if (name == "rc") return Transport::rc;
  if (name == "uc") return Transport::uc;
  if (name == "ud") return Transport::ud;
  if (name == "xrc") return Transport::xrc;
  python::raise(ErrorClass::usage, "a queue pair is of rc, uc, ud or xrc, not " + name);
}

/// Of the packet that is a whole message.
std::uint8_t opcode_of(const std::string& service, const std::string& operation) {
  const Operation which = operation == "write"          ? Operation::rdma_write
                          : operation == "compare_swap" ? Operation::compare_swap
                          : operation == "acknowledge"  ? Operation::acknowledge
                                                        : Operation::send;
  const Opcode* found = find_opcode(service_of(service), which, Position::only);
  if (!found)
    python::raise(ErrorClass::usage, "a queue pair of " + service + " has no such packets; say which opcode is meant");
  return found->value;
}

void bind_device(py::module_& module) {
  using DevicePointer = std::shared_ptr<SharedDevice>;
  py::class_<SharedDevice, DevicePointer>(module, "_Device", "A device, as rdmawire.Device has it.")
      .def_property_readonly("name", [](const SharedDevice& self) { return self.use()->device().name; })
      .def_property_readonly("details", [](const SharedDevice& self) { return self.use()->details(); })
      .def_property_readonly("verbs_name", [](const SharedDevice& self) { return self.use()->device().device->name(); })
      .def_property_readonly(
          "family", [](const SharedDevice& self) { return self.use()->device().is_iwarp() ? "iwarp" : "roce"; })
      .def_property_readonly("virtual_time",
                             [](const SharedDevice& self) { return self.use()->device().virtual_time(); })
      .def_property_readonly("path", [](const SharedDevice& self) { return dict_of(self.use()->device().path); })
      .def_property_readonly("destinations", [](const SharedDevice& self) { return self.use()->destinations(); })
      .def_property_readonly("closed", &SharedDevice::closed)
      .def_property_readonly("wire",
                             [](SharedDevice& self) -> py::object {
                               auto wire = self.wire();
                               return wire ? wire_object(std::move(wire)) : py::none();
                             })
      .def("gone",
           [](const SharedDevice& self) {
             const py::gil_scoped_release released;
             return self.gone();
           })
      .def("complaints",
           [](const SharedDevice& self) {
             const auto target = self.use();
             const py::gil_scoped_release released;
             return target->complaints();
           })
      .def(
          "call",
          [](const SharedDevice& self, const std::string& command, const py::dict& arguments,
             const py::object& timeout) {
            const auto target = self.use();
            const nlohmann::json given = to_json(arguments);
            const auto within = milliseconds_of(timeout);
            auto result = [&] {
              const py::gil_scoped_release released;
              return target->device().peer->call(command, given, within);
            }();
            return from_json(take(self, std::move(result)));
          },
          py::arg("command"), py::arg("arguments"), py::arg("timeout"))
      .def_property_readonly("handle", [](const SharedDevice& self) { return self.use()->device().device->handle(); })
      .def("counters",
           [](const SharedDevice& self) {
             const auto target = self.use();
             auto result = [&] {
               const py::gil_scoped_release released;
               return target->device().device->counters();
             }();
             return take(self, std::move(result));
           })
      .def("lacking",
           [](const SharedDevice& self, std::uint32_t needs) {
             const auto target = self.use();
             const py::gil_scoped_release released;
             return conformance::lacking(target->device(), static_cast<conformance::Need>(needs));
           })
      .def(
          "queue_pair",
          [](const DevicePointer& self, const std::string& service, const py::dict& options, std::uint64_t seed) {
            if (self->use()->device().is_iwarp())
              python::raise(ErrorClass::usage,
                            "the device speaks iWARP: its queue pairs have streams, and no queue pair numbers");
            auto made = std::make_shared<QueuePair>(self, service_of(service), connect_options(options), seed);
            self->add(made);
            return made;
          },
          py::arg("service"), py::arg("options"), py::arg("seed"))
      .def("close", &SharedDevice::close, py::call_guard<py::gil_scoped_release>());
  module.def(
      "_open_device",
      [](const std::string& device, const py::dict& options) {
        return SharedDevice::open(target_options(device, options));
      },
      py::arg("device"), py::arg("options"));
  module.def(
      "_faults",
      [](const std::string& family) {
        py::dict all;
        for (const conformance::SeededFault& fault : conformance::seeded_faults())
          if ((fault.family == conformance::Family::iwarp) == (family == "iwarp"))
            all[py::str(std::string(fault.name))] = std::string(fault.sentence);
        return all;
      },
      py::arg("family"));
}

void bind_queue_pair(py::module_& module) {
  const auto number = [](std::uint32_t conformance::TesterQueuePair::*member) {
    return [member](QueuePair& self) {
      return self.with([&](Connected& qp, Bench&) { return static_cast<conformance::TesterQueuePair&>(qp).*member; });
    };
  };
  py::class_<QueuePair, QueuePairPointer>(module, "_QueuePair", "A queue pair, as rdmawire.QueuePair has it.")
      .def_property_readonly("device_qpn", number(&conformance::TesterQueuePair::device_qpn))
      .def_property_readonly("tester_qpn", number(&conformance::TesterQueuePair::tester_qpn))
      .def_property_readonly("mtu", number(&conformance::TesterQueuePair::mtu))
      .def_property_readonly(
          "first_psn", [](QueuePair& self) { return self.with([](Connected& qp, Bench&) { return qp.ours.value(); }); })
      .def_property_readonly(
          "device_first_psn",
          [](QueuePair& self) { return self.with([](Connected& qp, Bench&) { return qp.theirs.value(); }); })
      .def_property_readonly(
          "qkey", [](QueuePair& self) { return self.with([](Connected& qp, Bench&) { return qp.options.qkey; }); })
      .def_property_readonly(
          "path", [](QueuePair& self) { return dict_of(self.with([](Connected& qp, Bench&) { return qp.path; })); })
      .def_property_readonly(
          "handle", [](QueuePair& self) { return self.with([](Connected& qp, Bench&) { return qp.qp.handle(); }); })
      .def_property_readonly(
          "cq_handle", [](QueuePair& self) { return self.with([](Connected& qp, Bench&) { return qp.cq.handle(); }); })
      .def_property_readonly(
          "domain_handle",
          [](QueuePair& self) { return self.with([](Connected&, Bench& bench) { return bench.domain().handle(); }); })
      .def_property_readonly("closed", &QueuePair::closed)
      .def(
          "headers",
          [](QueuePair& self, std::uint8_t opcode, std::uint32_t psn) {
            return make_frame(self.with([&](Connected& qp, Bench&) { return qp.headers(opcode, Psn(psn)); }));
          },
          py::arg("opcode"), py::arg("psn"))
      .def_static("opcode", &opcode_of, py::arg("service"), py::arg("operation"))
      .def_property_readonly("region",
                             [](const QueuePairPointer& self) {
                               return Region{self, [](Connected& qp) -> peer::Region& { return qp.region; }};
                             })
      .def_property_readonly("inbox",
                             [](const QueuePairPointer& self) {
                               return Region{self, [](Connected& qp) -> peer::Region& { return qp.inbox; }};
                             })
      .def(
          "new_region",
          [](const QueuePairPointer& self, std::uint64_t octets, const std::vector<std::string>& access) {
            peer::Region* made = self->with(
                [&](Connected&, Bench& bench) { return &self->regions().emplace_back(bench.region(octets, access)); });
            return Region{self, [made](Connected&) -> peer::Region& { return *made; }};
          },
          py::arg("octets"), py::arg("access"))
      .def(
          "bind_window",
          [](const QueuePairPointer& self, std::uint64_t offset, std::uint64_t length,
             const std::vector<std::string>& access) {
            conformance::BoundWindow* made = self->with([&](Connected& qp, Bench& bench) {
              return &self->windows().emplace_back(bench.bind_window(qp, offset, length, access));
            });
            return Window{self, made, made->rkey};
          },
          py::arg("offset"), py::arg("length"), py::arg("access"))
      .def("post_send", &post_send, py::arg("request"), py::arg("to_tester"))
      .def(
          "post_receives",
          [](QueuePair& self, std::uint32_t count) {
            static_cast<void>(self.with([&](Connected& qp, Bench&) { return qp.post_receives(count), true; }));
          },
          py::arg("count"))
      .def("poll", &poll, py::arg("count"), py::arg("timeout"))
      .def(
          "modify",
          [](QueuePair& self, const py::dict& attributes) {
            const nlohmann::json given = to_json(attributes);
            self.ask([&](Connected& qp, Bench&) { return qp.qp.modify(given); });
          },
          py::arg("attributes"))
      .def(
          "attributes_to",
          [](QueuePair& self, const std::string& state) {
            return from_json(self.with([&](Connected& qp, Bench&) { return qp.attributes_to(state); }));
          },
          py::arg("state"))
      .def("query",
           [](QueuePair& self) { return from_json(self.ask([](Connected& qp, Bench&) { return qp.qp.query(); })); })
      .def("state", [](QueuePair& self) { return self.ask([](Connected& qp, Bench&) { return qp.qp.state(); }); })
      .def("close", [](QueuePair& self) {
        if (self.device->of_other_process()) return;
        const py::gil_scoped_release released;
        self.close();
      });
}

void bind_memory(py::module_& module) {
  py::class_<Region>(module, "_Region", "Memory of a device, as rdmawire.MemoryRegion has it.")
      .def_property_readonly("addr", [](const Region& self) { return self.get([](auto& r) { return r.addr(); }); })
      .def_property_readonly("size", [](const Region& self) { return self.get([](auto& r) { return r.size(); }); })
      .def_property_readonly("lkey", [](const Region& self) { return self.get([](auto& r) { return r.lkey(); }); })
      .def_property_readonly("rkey", [](const Region& self) { return self.get([](auto& r) { return r.rkey(); }); })
      .def_property_readonly("handle", [](const Region& self) { return self.get([](auto& r) { return r.handle(); }); })
      .def(
          "read",
          [](const Region& self, std::uint64_t offset, std::uint64_t length) {
            return to_bytes(self.ask([&](auto& r) { return r.read(offset, length); }));
          },
          py::arg("offset"), py::arg("length"))
      .def(
          "write",
          [](const Region& self, std::uint64_t offset, const py::object& octets) {
            const Octets given(octets);
            self.ask([&](auto& r) { return r.write(offset, given.bytes()); });
          },
          py::arg("offset"), py::arg("octets"))
      .def(
          "fill",
          [](const Region& self, const std::string& pattern, std::uint64_t value) {
            self.ask([&](auto& r) { return r.fill(pattern, value); });
          },
          py::arg("pattern"), py::arg("value"))
      .def(
          "checksum",
          [](const Region& self, std::uint64_t offset, std::uint64_t length) {
            return self.ask([&](auto& r) { return r.checksum(offset, length); });
          },
          py::arg("offset"), py::arg("length"))
      .def("release", [](const Region& self) { self.ask([](auto& r) { return r.release(); }); });
  py::class_<Window>(module, "_Window", "A memory window, as rdmawire.MemoryWindow has it.")
      .def_readonly("rkey", &Window::rkey)
      .def("release",
           [](const Window& self) { self.of->ask([&](Connected&, Bench&) { return self.window->window.release(); }); });
}

}  // namespace

conformance::TargetOptions target_options(const std::string& device, const py::dict& options) {
  using How = conformance::TargetOptions;
  using Setter = std::function<void(How&, const py::handle&)>;
  const auto to = [](auto How::*member) -> Setter {
    return [member](How& how, const py::handle& value) {
      how.*member = py::cast<std::decay_t<decltype(how.*member)>>(value);
    };
  };
  static const std::map<std::string, Setter> setters = {
      {"family",
       [](How& how, const py::handle& value) {
         how.family =
             py::cast<std::string>(value) == "iwarp" ? conformance::Family::iwarp : conformance::Family::infiniband;
       }},
      {"seed", to(&How::seed)},
      {"faults", to(&How::faults)},
      {"wire", to(&How::wire)},
      {"kernel", to(&How::kernel)},
      {"agent", [](How& how, const py::handle& value) { how.agent = py::cast<std::string>(value); }},
      {"secret_file", to(&How::secret_file)},
      {"allow", to(&How::allowed)},
      {"multicast", to(&How::multicast)},
      {"frames_per_second", to(&How::frames_per_second)},
      {"congestion_management", to(&How::congestion_management)},
      {"slow", to(&How::slow)},
      {"dangerous", to(&How::dangerous)},
  };
  How how;
  how.device = device;
  for (const auto& [key, value] : options) {
    const auto name = py::cast<std::string>(key);
    const auto found = setters.find(name);
    if (found == setters.end()) python::raise(ErrorClass::usage, "a device has no option " + name);
    try {
      found->second(how, value);
    } catch (const py::cast_error&) {
      python::raise(ErrorClass::usage,
                    name + "=" + std::string(py::str(py::repr(value))) + ": this value cannot be taken");
    }
  }
  return how;
}

void bind_devices(py::module_& module) {
  // Each after those that its signatures name.
  bind_memory(module);
  bind_queue_pair(module);
  bind_device(module);
}

}  // namespace rdmawire::python
