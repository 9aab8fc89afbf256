// check_coverage STAMP: build step that fails if a rule has no check. Otherwise writes the stamp file.

#include <cstdio>
#include <fstream>

#include "conformance/coverage/coverage.hpp"

int main(int count, char** arguments) {
  if (count != 2) {
    std::fputs("usage: check_coverage STAMP\n", stderr);
    return 2;
  }
  const auto all = rdmawire::conformance::coverage();
  if (const std::string text = rdmawire::conformance::gaps(all); !text.empty()) {
    std::fprintf(stderr,
                 "%serror: every rule needs a case, a monitor or a unit check; conformance/coverage/coverage.cpp "
                 "lists exceptions with reasons\n",
                 text.c_str());
    return 1;
  }
  std::ofstream stamp(arguments[1]);
  return stamp.flush() ? 0 : 3;
}
