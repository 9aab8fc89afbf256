#include "conformance/fuzzer/open.hpp"

#include <fmt/format.h>

#include "conformance/device/iwarp/fault_table.hpp"
#include "conformance/device/roce/fault_table.hpp"
#include "conformance/fuzzer/iwarp.hpp"
#include "conformance/runner/lab_target.hpp"

namespace rdmawire::fuzzer {

namespace {

/// Return the faults listed after "reference:" or "reference:iwarp:".
template <class Faults, class Find>
tl::expected<Faults, OpenError> faults_in(std::string_view name, std::string_view device, const Find& find) {
  Faults faults;
  std::string_view rest = name.substr(std::min(name.size(), device.size() + 1));
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view one = rest.substr(0, comma);
    const auto* fault = find(one);
    if (!fault)
      return tl::unexpected(
          OpenError{true, fmt::format("{}: unknown fault \"{}\"; rdmawire.fuzz.faults() lists all faults", name, one)});
    faults.set(fault->fault);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  return faults;
}

}  // namespace

tl::expected<std::unique_ptr<Target>, OpenError> open_target(const OpenOptions& options) {
  const std::string_view name = options.name;
  if (name == "reference:iwarp" || name.starts_with("reference:iwarp:")) {
    const auto faults = faults_in<endpoint::Faults>(name, "reference:iwarp", endpoint::find_fault);
    if (!faults) return tl::unexpected(faults.error());
    return reference_endpoint_target(*faults, options.name);
  }
  if (name == "reference" || name.starts_with("reference:")) {
    const auto faults = faults_in<device::Faults>(name, "reference", device::find_fault);
    if (!faults) return tl::unexpected(faults.error());
    return reference_target(*faults, options.name);
  }
  if (name == "lab:rxe" || name == "lab:siw" || name.starts_with("agent:")) {
    conformance::TargetOptions device;
    device.device = options.name;
    device.wire = options.wire;
    device.kernel = options.kernel;
    device.agent = options.agent;
    device.allowed = options.allowed;
    device.credentials = options.credentials;
    device.stop = options.stop;
    device.progress = options.progress;
    const bool stores = options.restarts && name.starts_with("lab:");
    const auto snapshot = stores ? std::make_shared<lab::Snapshot>() : nullptr;
    auto opened = remote_target(
        [device, snapshot] {
          return snapshot ? conformance::open_lab(device, snapshot) : conformance::Target::open(device);
        },
        options.name);
    if (!opened) return tl::unexpected(OpenError{opened.error().usage, opened.error().message});
    return std::move(*opened);
  }
  return tl::unexpected(OpenError{
      true,
      fmt::format("unknown target \"{}\"; expected reference, reference:FAULT, reference:iwarp, reference:iwarp:FAULT, "
                  "lab:rxe, lab:siw or agent:ADDRESS",
                  options.name)});
}

}  // namespace rdmawire::fuzzer
