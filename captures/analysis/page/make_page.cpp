// make_page REPORT.json DETAILS.json TITLE OUT.html: generates a page from two files. Used by tests/page.

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "captures/analysis/page/page.hpp"

namespace {

std::string content(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) {
    std::fputs("usage: make_page REPORT.json DETAILS.json TITLE OUT.html\n", stderr);
    return 2;
  }
  std::ofstream out(arguments[4], std::ios::binary);
  out << rdmawire::captures::html_page(content(arguments[1]), content(arguments[2]), arguments[3]);
  return out.flush() ? 0 : 3;
}
