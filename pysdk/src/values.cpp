#include "pysdk/src/values.hpp"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <functional>
#include <map>

#include "dissectors/output/edit_distance.hpp"
#include "pysdk/src/bytes.hpp"
#include "pysdk/src/errors.hpp"

namespace rdmawire::python {

using conformance::ConnectOptions;

py::object from_json(const nlohmann::json& value) {
  switch (value.type()) {
    case nlohmann::json::value_t::object: {
      py::dict made;
      for (const auto& [name, member] : value.items()) made[py::str(name)] = from_json(member);
      return made;
    }
    case nlohmann::json::value_t::array: {
      py::list made;
      for (const auto& member : value) made.append(from_json(member));
      return made;
    }
    case nlohmann::json::value_t::string: {
      const auto& text = value.get_ref<const std::string&>();
      return py::reinterpret_steal<py::object>(
          PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
    }
    case nlohmann::json::value_t::boolean: return py::bool_(value.get<bool>());
    case nlohmann::json::value_t::number_integer: return py::int_(value.get<std::int64_t>());
    case nlohmann::json::value_t::number_unsigned: return py::int_(value.get<std::uint64_t>());
    case nlohmann::json::value_t::number_float: return py::float_(value.get<double>());
    default: return py::none();
  }
}

nlohmann::json to_json(const py::object& value) {
  std::string text;
  try {
    text = py::cast<std::string>(py::module_::import("json").attr("dumps")(value));
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError) && !error.matches(PyExc_ValueError)) throw;
    raise(ErrorClass::usage,
          fmt::format("expected numbers, strings, lists and dictionaries: {}", std::string(py::str(error.value()))));
  }
  auto parsed = nlohmann::json::parse(text, nullptr, false);
  if (parsed.is_discarded()) raise(ErrorClass::usage, "NaN and infinity are not valid arguments of the agent");
  return parsed;
}

std::string bytes_of(py::handle object) {
  const BytesView bytes(object);
  return {reinterpret_cast<const char*>(bytes.bytes().data()), bytes.bytes().size()};
}

namespace {

using Setter = std::function<void(ConnectOptions&, const py::handle&)>;

template <class T>
Setter to(T ConnectOptions::*member) {
  return [member](ConnectOptions& options, const py::handle& value) { options.*member = py::cast<T>(value); };
}

conformance::Over over(const std::string& name) {
  if (name == "ipv4") return conformance::Over::ipv4;
  if (name == "ipv6") return conformance::Over::ipv6;
  if (name == "vlan") return conformance::Over::vlan;
  if (name == "roce_v1") return conformance::Over::roce_v1;
  raise(ErrorClass::usage, fmt::format("over=\"{}\": expected ipv4, ipv6, vlan or roce_v1", name));
}

const std::map<std::string, Setter>& setters() {
  static const std::map<std::string, Setter> all = {
      {"mtu", to(&ConnectOptions::mtu)},
      {"receives", to(&ConnectOptions::receives)},
      {"receive_bytes", to(&ConnectOptions::receive_bytes)},
      {"region_bytes", to(&ConnectOptions::region_bytes)},
      {"region_access", to(&ConnectOptions::region_access)},
      {"access", to(&ConnectOptions::access)},
      {"reads_at_once", to(&ConnectOptions::reads_at_once)},
      {"own_reads", to(&ConnectOptions::own_reads)},
      {"timeout", to(&ConnectOptions::timeout)},
      {"retry_cnt", to(&ConnectOptions::retry_cnt)},
      {"rnr_retry", to(&ConnectOptions::rnr_retry)},
      {"min_rnr_timer", to(&ConnectOptions::min_rnr_timer)},
      {"send_wr", to(&ConnectOptions::send_wr)},
      {"inline_bytes", to(&ConnectOptions::inline_bytes)},
      {"send_ops", to(&ConnectOptions::send_ops)},
      {"send_sge", to(&ConnectOptions::send_sge)},
      {"completions", to(&ConnectOptions::completions)},
      {"shared_receives", to(&ConnectOptions::shared_receives)},
      {"xrc_target", to(&ConnectOptions::xrc_target)},
      {"xrc_domain", to(&ConnectOptions::xrc_domain)},
      {"qkey", to(&ConnectOptions::qkey)},
      {"state", to(&ConnectOptions::state)},
      {"hop_limit", to(&ConnectOptions::hop_limit)},
      {"traffic_class", to(&ConnectOptions::traffic_class)},
      {"service_level", to(&ConnectOptions::service_level)},
      {"over", [](ConnectOptions& o, const py::handle& v) { o.over = over(py::cast<std::string>(v)); }},
      {"notifies", to(&ConnectOptions::notifies)},
      {"first_psn", to(&ConnectOptions::first_psn)},
      {"device_psn", to(&ConnectOptions::device_psn)},
  };
  return all;
}

}  // namespace

ConnectOptions connect_options(const py::dict& given) {
  ConnectOptions options;
  for (const auto& [key, value] : given) {
    const auto name = py::cast<std::string>(key);
    const auto found = setters().find(name);
    if (found == setters().end()) {
      std::vector<std::string> names;
      for (const auto& one : setters()) names.push_back(one.first);
      const std::string near = output::did_you_mean(name, names);
      raise(ErrorClass::usage, fmt::format("unknown queue pair option {}{}", name,
                                           near.empty() ? fmt::format("; expected {}", fmt::join(names, ", ")) : near));
    }
    try {
      found->second(options, value);
    } catch (const py::cast_error&) {
      raise(ErrorClass::usage, fmt::format("{}={}: invalid value", name, std::string(py::str(py::repr(value)))));
    }
  }
  if (options.state != "reset" && options.state != "init" && options.state != "rtr" && options.state != "rts")
    raise(ErrorClass::usage, fmt::format("state=\"{}\": expected reset, init, rtr or rts", options.state));
  return options;
}

}  // namespace rdmawire::python
