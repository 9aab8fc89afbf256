#include "dissectors/protocol/field_overflow.hpp"

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace rdmawire {
namespace {

/// Where fill() leaves word. Headers are filled by functions that know nothing of who encodes, and those who do not ask
/// are to pay nothing.
thread_local std::optional<FieldOverflow>* asked = nullptr;

struct Asking {
  explicit Asking(std::optional<FieldOverflow>& answer) : before(std::exchange(asked, &answer)) {}
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;
  ~Asking() { asked = before; }
  std::optional<FieldOverflow>* before;
};

}  // namespace

void note_misfit(const FieldOverflow& misfit) {
  // Headers are filled from the innermost out: a further one replaces what those within said.
  if (asked && (!*asked || (*asked)->header != misfit.header)) *asked = misfit;
}

std::string to_string(const FieldOverflow& misfit) {
  return fmt::format("{}.{} is {} bits wide: {}, as computed, does not fit; give it, or make the frame smaller",
                     misfit.header->name, misfit.field->name, static_cast<unsigned>(misfit.field->width), misfit.value);
}

tl::expected<std::vector<std::uint8_t>, FieldOverflow> encode_strictly(const Frame& frame) {
  std::optional<FieldOverflow> misfit;
  std::vector<std::uint8_t> packet;
  {
    const Asking asking(misfit);
    packet = frame.encode();
  }
  if (misfit) return tl::unexpected(*misfit);
  return packet;
}

}  // namespace rdmawire
