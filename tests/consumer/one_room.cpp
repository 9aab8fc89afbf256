// Declares a header of its own, reads it and writes it, with nothing but the installed package.

#include <array>
#include <cstdint>
#include <iostream>

#include "dissectors/protocol/header.hpp"

struct Greeting {
  static constexpr std::string_view name = "greeting";
  static constexpr std::string_view title = "Greeting";
  static constexpr std::string_view section = "none";
  static constexpr std::size_t size = 4;
  static constexpr std::array fields{rdmawire::field("kind", 0, 4), rdmawire::field("number", 4, 12),
                                     rdmawire::field("port", 16, 16)};
};

int main() {
  const std::array<std::uint8_t, 4> bytes{0x12, 0x34, 0x12, 0xb7};
  const auto view = rdmawire::View<Greeting>::of(bytes);
  if (!view) {
    std::cout << rdmawire::to_string(view.error()) << '\n';
    return 1;
  }
  const auto truncated = rdmawire::View<Greeting>::of(rdmawire::Bytes(bytes).first(3));
  const bool right = view->get<"kind">() == 1 && view->get<"number">() == 0x234 && view->get<"port">() == 4791 &&
                     !truncated && rdmawire::to_string(truncated.error()).find("needed 4, had 3") != std::string::npos;
  std::cout << "consumer: port " << view->get<"port">() << "; " << rdmawire::to_string(truncated.error()) << '\n';
  return right ? 0 : 1;
}
