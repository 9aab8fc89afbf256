// Tests the text of the page. tests/page tests the page in a browser.

#include "captures/analysis/page/page.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <regex>
#include <string>

#include "captures/analysis/page/template.hpp"

namespace rdmawire::captures {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string_view element(std::string_view page, std::string_view id) {
  const std::string begin = "id=\"" + std::string(id) + "\">";
  const std::size_t at = page.find(begin) + begin.size();
  return page.substr(at, page.find("</script>", at) - at);
}

/// Returns the data in an element, which is encoded with base64 and gzip.
std::string carried(std::string_view page, std::string_view id) {
  constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string packed;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char letter : element(page, id)) {
    if (letter == '=') break;
    bits = bits << 6 | static_cast<std::uint32_t>(alphabet.find(letter));
    if ((count += 6) >= 8) packed += static_cast<char>(bits >> (count -= 8) & 0xff);
  }
  std::string text(16U << 20, '\0');
  z_stream state{};
  EXPECT_EQ(inflateInit2(&state, 16 + MAX_WBITS), Z_OK);
  state.next_in = reinterpret_cast<Bytef*>(packed.data());
  state.avail_in = static_cast<uInt>(packed.size());
  state.next_out = reinterpret_cast<Bytef*>(text.data());
  state.avail_out = static_cast<uInt>(text.size());
  EXPECT_EQ(inflate(&state, Z_FINISH), Z_STREAM_END);
  text.resize(state.total_out);
  inflateEnd(&state);
  return text;
}

TEST(Page, ContainsBothTextsUnchanged) {
  std::string report = R"({"summary": {"packets": 3}, "hostile": "</script><script>alert(1)</script> {{details}} é"})";
  report += std::string(1, '\0');
  std::string details = "[";
  for (std::uint32_t i = 0; i < 300000; ++i) details += std::to_string(i * 7919 % 65537) + ",";
  const std::string page = html_page(report, details, "t");
  EXPECT_EQ(carried(page, "report-data"), report);
  EXPECT_EQ(carried(page, "details-data"), details);
  EXPECT_THAT(page, Not(HasSubstr("alert(1)")));
}

TEST(Page, ContainsTextsOfEveryLengthModuloThree) {
  for (const std::string text : {"", "1", "12", "123", "1234"}) {
    EXPECT_EQ(carried(html_page(text, "", "t"), "report-data"), text);
    EXPECT_EQ(carried(html_page("", text, "t"), "details-data"), text);
  }
}

TEST(Page, TitleIsEscaped) {
  const std::string page = html_page("{}", "{}", R"(a</title><script>alert("1")</script>&'{{report}})");
  EXPECT_THAT(page,
              HasSubstr("<title>a&lt;/title&gt;&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;&#39;{{report}}"
                        "</title>"));
  EXPECT_EQ(carried(page, "report-data"), "{}");
}

TEST(Page, LoadsNoExternalResources) {
  const std::string page(page_template());
  // All links in the page refer to its own sections.
  EXPECT_FALSE(std::regex_search(page.substr(0, page.find("report-data")), std::regex(R"((src|href)="[^#])")));
  EXPECT_THAT(page, Not(HasSubstr("@import")));
  EXPECT_THAT(page, HasSubstr("default-src 'none'; script-src 'sha256-"));
  for (const char* library : {"Chart.js v", "jQuery v", "DataTables", "Permission is hereby granted"}) {
    EXPECT_THAT(page, HasSubstr(library));
  }
  for (const char* place : {"@script@", "@style@", "@hash@", "@licenses@"}) EXPECT_THAT(page, Not(HasSubstr(place)));
}

}  // namespace
}  // namespace rdmawire::captures
