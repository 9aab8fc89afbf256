#include "dissectors/output/printable.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "dissectors/output/text_style.hpp"

namespace rdmawire::output {
namespace {

/// Returns a text with every control character, invalid UTF-8, and every kind of bidirectional mark.
std::string hostile() {
  std::string text;
  for (int c = 0; c < 0x20; ++c) text += static_cast<char>(c);
  text += '\x7f';
  for (int c = 0x80; c < 0xa0; ++c) text += {static_cast<char>(0xc2), static_cast<char>(c)};
  text += "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff\u2028";
  return text + "\xff\xfe\x80\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80\xe2\x82";
}

bool is_harmless(std::string_view text, std::string_view permitted = {}) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte < 0x20 || byte == 0x7f) && permitted.find(text[i]) == std::string_view::npos) return false;
    if (byte == 0xc2 && static_cast<unsigned char>(text[i + 1]) < 0xa0) return false;
  }
  return text.find("\u202e") == std::string_view::npos && text.find("\u2066") == std::string_view::npos;
}

TEST(Printable, KeepsTextWithoutControlCharacters) {
  EXPECT_EQ(printable("trace µ → 捕.pcap"), "trace µ → 捕.pcap");
  EXPECT_EQ(printable_lines("a\tb\nc\n"), "a\tb\nc\n");
}

TEST(Printable, EscapesControlCharacters) {
  EXPECT_EQ(printable("a\nb\t\r\x1b[2J\x7f"), "a\\nb\\t\\r\\x1b[2J\\u007f");
  EXPECT_EQ(printable(std::string_view("\0x", 2)), "\\x00x");
  EXPECT_EQ(printable("\u009b31m"), "\\u009b31m");
}

TEST(Printable, EscapesBidirectionalMarks) { EXPECT_EQ(printable("a\u202egnp.pcap"), "a\\u202egnp.pcap"); }

TEST(Printable, EscapesInvalidUtf8) {
  EXPECT_EQ(printable("a\xff"
                      "b\xc0\xaf"
                      "c\xed\xa0\x80"
                      "d\xe2\x82"),
            "a\\xffb\\xc0\\xafc\\xed\\xa0\\x80d\\xe2\\x82");
}

TEST(Printable, TruncatesLongTextAtACharacter) {
  EXPECT_EQ(printable("aaaa", 4), "aaaa");
  EXPECT_EQ(printable("aaaaa", 4), "aaaa… (5 bytes)");
  EXPECT_EQ(printable("aaa→b", 4), "aaa… (7 bytes)");
  EXPECT_LT(printable(std::string(10'000, 'x')).size(), 1100U);
}

TEST(Printable, ResultIsHarmless) {
  EXPECT_TRUE(is_harmless(printable(hostile())));
  EXPECT_TRUE(is_harmless(printable_lines(hostile()), "\n\t"));
}

TEST(PrintableLines, KeepsOnlyOwnColors) {
  const std::string styled = std::string(escape_of(TextStyle::bad)) + "bad" + std::string(escape_of(TextStyle::plain));
  EXPECT_EQ(printable_lines(styled, true), styled);
  EXPECT_EQ(printable_lines(styled, false), "\\x1b[1;31mbad\\x1b[0m");
  EXPECT_EQ(printable_lines("\x1b[8mhidden", true), "\\x1b[8mhidden");
  EXPECT_EQ(printable_lines("\x1b]0;title\a", true), "\\x1b]0;title\\x07");
}

TEST(PrintableLines, KeepsTheValuesOfJson) {
  const nlohmann::json value = {{"name", "a\u202eb\u009b\u007f\U000e0041→"}, {"line", "x\ny"}};
  const std::string text = printable_lines(value.dump(2));
  EXPECT_TRUE(is_harmless(text, "\n"));
  EXPECT_EQ(nlohmann::json::parse(text), value);
}

}  // namespace
}  // namespace rdmawire::output
