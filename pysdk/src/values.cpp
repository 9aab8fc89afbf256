#include "pysdk/src/values.hpp"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include "dissectors/output/edit_distance.hpp"
#include "pysdk/src/bytes.hpp"
#include "pysdk/src/errors.hpp"
#include "pysdk/src/option_setters.hpp"

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

void raise_unknown_option(const char* what, const std::string& name, const std::vector<std::string>& known) {
  const std::string near = output::did_you_mean(name, known);
  raise(ErrorClass::usage, fmt::format("{}: unknown option {}{}", what, name,
                                       near.empty() ? fmt::format("; expected {}", fmt::join(known, ", ")) : near));
}

void raise_invalid_option(const std::string& name, const py::handle& value) {
  raise(ErrorClass::usage, fmt::format("{}={}: invalid value", name, std::string(py::str(py::repr(value)))));
}

namespace {

conformance::Over over(const std::string& name) {
  if (name == "ipv4") return conformance::Over::ipv4;
  if (name == "ipv6") return conformance::Over::ipv6;
  if (name == "vlan") return conformance::Over::vlan;
  if (name == "roce_v1") return conformance::Over::roce_v1;
  raise(ErrorClass::usage, fmt::format("over=\"{}\": expected ipv4, ipv6, vlan or roce_v1", name));
}

const OptionSetters<ConnectOptions>& setters() {
  static const OptionSetters<ConnectOptions> all = {
      {"mtu", option(&ConnectOptions::mtu)},
      {"receives", option(&ConnectOptions::receives)},
      {"receive_bytes", option(&ConnectOptions::receive_bytes)},
      {"region_bytes", option(&ConnectOptions::region_bytes)},
      {"region_access", option(&ConnectOptions::region_access)},
      {"access", option(&ConnectOptions::access)},
      {"reads_at_once", option(&ConnectOptions::reads_at_once)},
      {"own_reads", option(&ConnectOptions::own_reads)},
      {"timeout", option(&ConnectOptions::timeout)},
      {"retry_cnt", option(&ConnectOptions::retry_cnt)},
      {"rnr_retry", option(&ConnectOptions::rnr_retry)},
      {"min_rnr_timer", option(&ConnectOptions::min_rnr_timer)},
      {"send_wr", option(&ConnectOptions::send_wr)},
      {"inline_bytes", option(&ConnectOptions::inline_bytes)},
      {"send_ops", option(&ConnectOptions::send_ops)},
      {"send_sge", option(&ConnectOptions::send_sge)},
      {"completions", option(&ConnectOptions::completions)},
      {"shared_receives", option(&ConnectOptions::shared_receives)},
      {"xrc_target", option(&ConnectOptions::xrc_target)},
      {"xrc_domain", option(&ConnectOptions::xrc_domain)},
      {"qkey", option(&ConnectOptions::qkey)},
      {"state", option(&ConnectOptions::state)},
      {"hop_limit", option(&ConnectOptions::hop_limit)},
      {"traffic_class", option(&ConnectOptions::traffic_class)},
      {"service_level", option(&ConnectOptions::service_level)},
      {"over", [](ConnectOptions& o, const py::handle& v) { o.over = over(py::cast<std::string>(v)); }},
      {"notifies", option(&ConnectOptions::notifies)},
      {"first_psn", option(&ConnectOptions::first_psn)},
      {"device_psn", option(&ConnectOptions::device_psn)},
  };
  return all;
}

}  // namespace

ConnectOptions connect_options(const py::dict& given) {
  ConnectOptions options = set_options(ConnectOptions{}, setters(), given, "queue pair");
  if (options.state != "reset" && options.state != "init" && options.state != "rtr" && options.state != "rts")
    raise(ErrorClass::usage, fmt::format("state=\"{}\": expected reset, init, rtr or rts", options.state));
  return options;
}

}  // namespace rdmawire::python
