// check_coverage STAMP: part of the build. Fails on a rule that nothing judges; else writes the stamp.

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
                 "says what is left out and why\n",
                 text.c_str());
    return 1;
  }
  std::ofstream stamp(arguments[1]);
  return stamp.flush() ? 0 : 3;
}
