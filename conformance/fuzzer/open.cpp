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
  return tl::unexpected(
      OpenError{true, fmt::format("there is no target \"{}\"; there are reference, reference:FAULT", options.name)});
}

}  // namespace rdmawire::fuzzer
