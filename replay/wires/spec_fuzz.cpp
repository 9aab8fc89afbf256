// Fuzz target: parses wire specifications. A parsed specification must round-trip.

#include <cstdlib>

#include "replay/wires/spec.hpp"
#include "replay/wires/verbs.hpp"
#include "replay/wires/xdp.hpp"

namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == ',' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using rdmawire::replay::WireSpec;
  const auto spec = WireSpec::parse({reinterpret_cast<const char*>(data), size});
  if (!spec) {
    if (spec.error().message.empty()) std::abort();
    return 0;
  }
  (void)spec->check({{"local", true, "a path"}, {"bypass", false, "faster"}, {"rate", true, "a number"}});
  if (const auto rate = spec->number("rate", 7, 2, 1'000'000'000'000); rate && (*rate < 2 || *rate > 1'000'000'000'000))
    std::abort();
  // Options of any kind are parsed within their bounds or rejected with an error.
  const auto link = spec->link();
  const auto verbs = rdmawire::replay::verbs_options(*spec);
  const auto xdp = rdmawire::replay::xdp_options(*spec);
  if ((!link && link.error().message.empty()) || (!verbs && verbs.error().message.empty()) ||
      (!xdp && xdp.error().message.empty()))
    std::abort();
  if (verbs && (verbs->send_depth < 2 || verbs->send_depth > 1U << 20 || verbs->port > 255)) std::abort();
  if (xdp && (xdp->frames < 64 || xdp->batch == 0)) std::abort();
  std::string text = spec->address.empty() ? spec->kind : spec->kind + ":" + escaped(spec->address);
  bool exact = text.size() <= WireSpec::max_length;
  for (const auto& option : spec->options) {
    exact = exact && option.name.find('=') == std::string::npos;
    text += "," + escaped(option.name) + (option.value ? "=" + escaped(*option.value) : "");
  }
  if (!exact || text.size() > WireSpec::max_length) return 0;
  const auto again = WireSpec::parse(text);
  if (!again || again->address != spec->address || again->options.size() != spec->options.size()) std::abort();
  for (std::size_t i = 0; i < spec->options.size(); ++i)
    if (again->options[i].name != spec->options[i].name || again->options[i].value != spec->options[i].value)
      std::abort();
  return 0;
}
