/// The C++ part of rdmawire.devices.

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include "conformance/coverage/seeded_fault.hpp"
#include "pysdk/src/bindings.hpp"
#include "pysdk/src/device_parts.hpp"
#include "pysdk/src/frame.hpp"
#include "pysdk/src/option_setters.hpp"
#include "pysdk/src/stream_bindings.hpp"
#include "pysdk/src/values.hpp"
#include "pysdk/src/wires_bindings.hpp"
#include "replay/host/host.hpp"
#include "replay/rpc/names.hpp"

namespace rdmawire::python {
namespace {

using conformance::Bench;
using conformance::Connected;
using conformance::ConnectOptions;
using conformance::Target;

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

Transport service_of(const std::string& name) {
  if (name == "rc") return Transport::rc;
  if (name == "uc") return Transport::uc;
  if (name == "ud") return Transport::ud;
  if (name == "xrc") return Transport::xrc;
  python::raise(ErrorClass::usage, "service=\"" + name + "\": expected rc, uc, ud or xrc");
}

/// Returns the opcode of a packet that contains a complete message.
std::uint8_t opcode_of(const std::string& service, const std::string& operation) {
  const Operation which = operation == "write"          ? Operation::rdma_write
                          : operation == "compare_swap" ? Operation::compare_swap
                          : operation == "acknowledge"  ? Operation::acknowledge
                                                        : Operation::send;
  const Opcode* found = find_opcode(service_of(service), which, Position::only);
  if (!found)
    python::raise(ErrorClass::usage, operation + " is not available for service " + service + "; specify the opcode");
  return found->value;
}

using DevicePointer = std::shared_ptr<SharedDevice>;
using DeviceClass = py::class_<SharedDevice, DevicePointer>;

void bind_device_properties(DeviceClass& c) {
  c.def_property_readonly("name", [](const SharedDevice& self) { return self.use()->device().name; })
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
      .def_property_readonly("handle", [](const SharedDevice& self) { return self.use()->device().device->handle(); })
      .def_property_readonly("recorder", [](const SharedDevice& self) { return wire_object(self.recorder()); })
      .def_property_readonly("faults", [](const SharedDevice& self) {
        const auto target = self.use();
        const py::gil_scoped_release released;
        return target->faults();
      });
}

void bind_device_operations(DeviceClass& c) {
  c.def("gone",
        [](const SharedDevice& self) {
          const py::gil_scoped_release released;
          return self.gone();
        })
      .def("kernel_messages",
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
          "domain",
          [](const DevicePointer& self, std::uint64_t seed) {
            auto made = std::make_shared<Domain>(self, seed);
            self->add(made);
            return made;
          },
          py::arg("seed"))
      .def(
          "completion_queue",
          [](const DevicePointer& self, std::uint32_t entries) {
            auto made = std::make_shared<CompletionQueuePart>(self, entries);
            self->add(made);
            return made;
          },
          py::arg("entries"))
      .def(
          "set_faults",
          [](const SharedDevice& self, const std::vector<std::string>& names) {
            const auto target = self.use();
            const auto set = [&] {
              const py::gil_scoped_release released;
              return target->set_faults(names);
            }();
            if (!set) python::raise(set.error());
          },
          py::arg("names"))
      .def("close", &SharedDevice::close, py::call_guard<py::gil_scoped_release>());
}

void bind_device(py::module_& module) {
  DeviceClass c(module, "_Device", "The C++ part of rdmawire.Device.");
  bind_device_properties(c);
  bind_device_operations(c);
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
  module.def("_access_rights", [] {
    py::list names;
    for (const rpc::Name& right : rpc::names::access) names.append(py::str(std::string(right.name)));
    return names;
  });
}

/// Returns `given`, or a new domain if it is null.
std::shared_ptr<Domain> domain_for(const std::shared_ptr<SharedDevice>& device, const std::shared_ptr<Domain>& given,
                                   std::uint64_t seed) {
  if (!given) {
    auto made = std::make_shared<Domain>(device, seed);
    device->add(made);
    return made;
  }
  if (given->device != device) python::raise(ErrorClass::usage, "the protection domain belongs to another device");
  return given;
}

void are_of_one_device(const std::shared_ptr<SharedDevice>& device, const std::shared_ptr<CompletionQueuePart>& cq) {
  if (cq && cq->device != device) python::raise(ErrorClass::usage, "the completion queue belongs to another device");
}

void bind_queue_pair(py::module_& module) {
  const auto number = [](std::uint32_t conformance::TesterQueuePair::*member) {
    return [member](QueuePair& self) {
      return self.with([&](Connected& qp, Bench&) { return static_cast<conformance::TesterQueuePair&>(qp).*member; });
    };
  };
  py::class_<QueuePair, QueuePairPart, std::shared_ptr<QueuePair>>(module, "_QueuePair",
                                                                   "The C++ part of rdmawire.QueuePair.")
      .def(py::init([](const std::shared_ptr<SharedDevice>& device, const std::string& service, const py::dict& options,
                       std::uint64_t seed, const std::optional<std::shared_ptr<Domain>>& shared_domain,
                       const std::optional<std::shared_ptr<CompletionQueuePart>>& shared_cq) {
             const auto domain = shared_domain.value_or(nullptr);
             const auto cq = shared_cq.value_or(nullptr);
             if (device->use()->device().is_iwarp())
               python::raise(ErrorClass::usage,
                             "this is an iWARP device; use stream(), which creates queue pairs without PSNs");
             are_of_one_device(device, cq);
             ConnectOptions how = connect_options(options);
             how.transport = service_of(service);
             return std::make_shared<QueuePair>(domain_for(device, domain, seed), !domain, std::move(how), cq);
           }),
           py::arg("device"), py::arg("service"), py::arg("options"), py::arg("seed"), py::arg("domain"), py::arg("cq"))
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
      .def(
          "headers",
          [](QueuePair& self, std::uint8_t opcode, std::uint32_t psn) {
            return make_frame(self.with([&](Connected& qp, Bench&) { return qp.headers(opcode, Psn(psn)); }));
          },
          py::arg("opcode"), py::arg("psn"))
      .def_static("opcode", &opcode_of, py::arg("service"), py::arg("operation"))
      .def(
          "attributes_to",
          [](QueuePair& self, const std::string& state) {
            return from_json(self.with([&](Connected& qp, Bench&) { return qp.attributes_to(state); }));
          },
          py::arg("state"));
}

void bind_stream(py::module_& module) {
  py::class_<StreamPair, QueuePairPart, std::shared_ptr<StreamPair>> c(module, "_StreamPair",
                                                                       "The C++ part of rdmawire.StreamQueuePair.");
  c.def(py::init([](const std::shared_ptr<SharedDevice>& device, const py::dict& options, std::uint64_t seed,
                    bool connected, const std::optional<std::shared_ptr<Domain>>& shared_domain,
                    const std::optional<std::shared_ptr<CompletionQueuePart>>& shared_cq) {
          const auto domain = shared_domain.value_or(nullptr);
          const auto cq = shared_cq.value_or(nullptr);
          if (!device->use()->device().is_iwarp())
            python::raise(ErrorClass::usage, "this is a RoCE device without streams; use rc_qp(), uc_qp() or ud_qp()");
          are_of_one_device(device, cq);
          return std::make_shared<StreamPair>(domain_for(device, domain, seed), !domain, stream_options(options),
                                              connected, cq);
        }),
        py::arg("device"), py::arg("options"), py::arg("seed"), py::arg("connected"), py::arg("domain"), py::arg("cq"));
  bind_stream_steps(c);
  c.def(
      "receive",
      [](const StreamPair& self, const py::object& timeout) -> py::object {
        const bool virtual_time = self.domain->device->use()->device().virtual_time();
        // A wait without timeout ends after one hour of virtual time.
        constexpr double most_of_virtual_time = 3600;
        const std::int64_t all = virtual_time && timeout.is_none()
                                     ? static_cast<std::int64_t>(most_of_virtual_time * 1e9)
                                     : milliseconds_of(timeout).count() * 1'000'000;
        // Wait in short slices, since other threads wait for the device's streams.
        constexpr std::int64_t slice = 10'000'000;
        for (std::int64_t left = all;;) {
          const std::int64_t now = std::max<std::int64_t>(1, virtual_time ? left : std::min(left, slice));
          auto seen = self.with([&](StreamConnected& qp, StreamBench&) { return qp.next(now); });
          if (seen) return received_object(std::move(*seen));
          left -= now;
          if (left <= 0) return py::none();
          if (PyErr_CheckSignals() != 0) throw py::error_already_set();
        }
      },
      py::arg("timeout"));
}

}  // namespace

conformance::TargetOptions target_options(const std::string& device, const py::dict& options) {
  using How = conformance::TargetOptions;
  static const OptionSetters<How> setters = {
      {"family",
       [](How& how, const py::handle& value) {
         how.family =
             py::cast<std::string>(value) == "iwarp" ? conformance::Family::iwarp : conformance::Family::infiniband;
       }},
      {"seed", option(&How::seed)},
      {"faults", option(&How::faults)},
      {"wire", option(&How::wire)},
      {"kernel", option(&How::kernel)},
      {"modules", option(&How::modules)},
      {"agent", [](How& how, const py::handle& value) { how.agent = py::cast<std::string>(value); }},
      {"credentials", option(&How::credentials)},
      {"allow", option(&How::allowed)},
      {"multicast", option(&How::multicast)},
      {"frames_per_second", option(&How::frames_per_second)},
      {"congestion_management", option(&How::congestion_management)},
      {"slow", option(&How::slow)},
      {"dangerous", option(&How::dangerous)},
  };
  How how;
  how.device = device;
  return set_options(std::move(how), setters, options, "device");
}

void bind_devices(py::module_& module) {
  // Classes must be bound before functions whose signatures name them.
  bind_device_parts(module);
  bind_queue_pair_parts(module);
  bind_device(module);
  bind_queue_pair(module);
  bind_stream(module);
}

}  // namespace rdmawire::python
