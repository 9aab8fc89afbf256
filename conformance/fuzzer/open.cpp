#include "conformance/fuzzer/open.hpp"

#include <fmt/format.h>

#include "conformance/device/fault_table.hpp"

namespace rdmawire::fuzzer {

tl::expected<std::unique_ptr<Target>, OpenError> open_target(const OpenOptions& options) {
  constexpr std::string_view reference = "reference";
  const std::string_view name = options.name;
  if (name == reference || name.starts_with("reference:")) {
    device::Faults faults;
    std::string_view rest = name.substr(std::min(name.size(), reference.size() + 1));
    while (!rest.empty()) {
      const std::size_t comma = rest.find(',');
      const std::string_view one = rest.substr(0, comma);
      const device::FaultRow* fault = device::find_fault(one);
      if (!fault)
        return tl::unexpected(OpenError{
            true, fmt::format("{}: the reference device has no fault \"{}\"; rdmawire.fuzz.faults() lists them",
                              options.name, one)});
      faults.set(fault->fault);
      rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    }
    return reference_target(faults, options.name);
  }
  if (name == "lab:rxe" || name.starts_with("agent:")) {
    conformance::TargetOptions device;
    device.device = options.name;
    device.wire = options.wire;
    device.kernel = options.kernel;
    device.agent = options.agent;
    device.allowed = options.allowed;
    device.secret_file = options.secret_file;
    device.stop = options.stop;
    device.progress = options.progress;
    auto opened = remote_target([device] { return conformance::Target::open(device); }, options.name);
    if (!opened) return tl::unexpected(OpenError{opened.error().usage, opened.error().message});
    return std::move(*opened);
  }
  return tl::unexpected(OpenError{
      true, fmt::format("there is no target \"{}\"; there are reference, reference:FAULT, lab:rxe, agent:ADDRESS",
                        options.name)});
}

}  // namespace rdmawire::fuzzer
