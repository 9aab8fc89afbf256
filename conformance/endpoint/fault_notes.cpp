#include "conformance/endpoint/fault_notes.hpp"

#include <algorithm>
#include <span>
#include <vector>

namespace rdmawire::endpoint {
namespace {

struct Note {
  Fault fault;
  std::string_view text;
};

std::string_view text_of(std::span<const Note> notes, Fault fault) {
  const auto found = std::find_if(notes.begin(), notes.end(), [&](const Note& note) { return note.fault == fault; });
  return found == notes.end() ? std::string_view() : found->text;
}

const std::vector<Note> reasons{};

const std::vector<Note> relations{};

}  // namespace

std::string_view unseen_because(Fault fault) { return text_of(reasons, fault); }
std::string_view related_to(Fault fault) { return text_of(relations, fault); }

}  // namespace rdmawire::endpoint
