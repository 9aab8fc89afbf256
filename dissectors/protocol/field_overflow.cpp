#include "dissectors/protocol/field_overflow.hpp"

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace rdmawire {
namespace {

/// Where fill() leaves word. Headers are filled by functions that know nothing of who encodes, and those who do not ask
/// are to pay nothing.
thread_local std::optional<Misfit>* asked = nullptr;

struct Asking {
  explicit Asking(std::optional<Misfit>& answer) : before(std::exchange(asked, &answer)) {}
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;
  ~Asking() { asked = before; }
  std::optional<Misfit>* before;
};

}  // namespace

void note_misfit(const Misfit& misfit) {
  // Headers are filled from the innermost out: a further one replaces what those within said.
  if (asked && (!*asked || (*asked)->header != misfit.header)) *asked = misfit;
}

std::string to_string(const Misfit& misfit) {
  return fmt::format("{}.{} is {} bits wide: {}, as computed, does not fit; give it, or make the frame smaller",
                     misfit.header->name, misfit.field->name, static_cast<unsigned>(misfit.field->width), misfit.value);
}

tl::expected<std::vector<std::uint8_t>, Misfit> encode_strictly(const Frame& frame) {
  std::optional<Misfit> misfit;
  std::vector<std::uint8_t> packet;
  {
    const Asking asking(misfit);
    packet = frame.encode();
  }
  if (misfit) return tl::unexpected(*misfit);
  return packet;
}

}  // namespace rdmawire
