#include "captures/html/html.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <new>
#include <utility>
#include <vector>

namespace rdmawire::captures {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char letter : text) {
    switch (letter) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += letter;
    }
  }
  return out;
}

std::string gzip(std::string_view text) {
  constexpr int gzip_header = 16 + MAX_WBITS;
  constexpr int memory_level = 8;
  z_stream state{};
  if (deflateInit2(&state, Z_DEFAULT_COMPRESSION, Z_DEFLATED, gzip_header, memory_level, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
  // Releases the state of zlib on every exit.
  struct Guard {
    z_stream* state;
    ~Guard() { deflateEnd(state); }
  } guard{&state};

  std::string out;
  std::array<char, 65536> buffer{};
  constexpr std::size_t most = std::numeric_limits<uInt>::max();
  int result = Z_OK;
  do {
    if (state.avail_in == 0) {
      const std::string_view piece = text.substr(0, most);
      text.remove_prefix(piece.size());
      // zlib does not modify its input, but the type is const only if ZLIB_CONST is defined.
      state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
      state.avail_in = static_cast<uInt>(piece.size());
    }
    state.next_out = reinterpret_cast<Bytef*>(buffer.data());
    state.avail_out = static_cast<uInt>(buffer.size());
    result = deflate(&state, text.empty() ? Z_FINISH : Z_NO_FLUSH);
    out.append(buffer.data(), buffer.size() - state.avail_out);
  } while (result != Z_STREAM_END);
  return out;
}

/// Encodes as in RFC 4648, section 4.
std::string base64(std::string_view bytes) {
  constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      bits = bits << 8 | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    }
    for (std::size_t i = 0; i < 4; ++i) out += i <= count ? alphabet[bits >> (18 - 6 * i) & 63] : '=';
  }
  return out;
}

}  // namespace

std::string fill_page(std::string_view page_template, std::string_view title, std::span<const Carried> carried) {
  std::vector<std::pair<std::string_view, std::string>> parts{{"{{title}}", escaped(title)}};
  for (const Carried& one : carried) parts.emplace_back(one.place, base64(gzip(one.text)));
  std::string page;
  std::size_t size = page_template.size();
  for (const auto& [place, text] : parts) size += text.size();
  page.reserve(size);
  // Searches only the template, not the inserted text.
  for (const auto& [place, text] : parts) {
    const std::size_t at = page_template.find(place);
    page += page_template.substr(0, at);
    page += text;
    page_template.remove_prefix(at + place.size());
  }
  page += page_template;
  return page;
}

}  // namespace rdmawire::captures
