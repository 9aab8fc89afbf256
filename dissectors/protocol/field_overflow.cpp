#include "dissectors/protocol/field_overflow.hpp"

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace rdmawire {
namespace {

/// Set while encode_strictly() runs on this thread. The fill functions of headers do not know their caller, and callers
/// that need no check must not pay for it.
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
  // Headers are filled from the innermost to the outermost, so the report about an outer header replaces earlier
  // reports.
  if (asked && (!*asked || (*asked)->header != misfit.header)) *asked = misfit;
}

std::string to_string(const FieldOverflow& misfit) {
  return fmt::format("{}.{} is {} bits wide: {}, as computed, does not fit; set it explicitly or reduce the frame",
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
