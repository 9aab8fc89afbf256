#include "pysdk/src/enumerations.hpp"

#include <map>
#include <string>
#include <vector>

#include "dissectors/protocol/registry.hpp"
#include "pysdk/src/bindings.hpp"

namespace rdmawire::python {
namespace {

struct Member {
  std::string name;
  std::uint64_t value;
  std::string meaning;
};

std::unordered_map<const void*, const Enumeration*>& enumerations() {
  static auto* all = new std::unordered_map<const void*, const Enumeration*>;  // key: address of a Names or a Field
  return *all;
}

const Enumeration* make(const std::string& name, const std::string& doc, const std::vector<Member>& members) {
  static const py::handle int_enum = py::object(py::module_::import("enum").attr("IntEnum")).release();
  py::list pairs;
  for (const Member& member : members) pairs.append(py::make_tuple(member.name, member.value));
  py::object type = int_enum(name, pairs, py::arg("module") = "rdmawire");
  type.attr("__doc__") = doc;
  std::unordered_map<std::uint64_t, PyObject*> by_value;
  for (const Member& member : members) {
    py::object object = type.attr(member.name.c_str());
    if (!member.meaning.empty()) object.attr("__doc__") = member.meaning;
    by_value.emplace(member.value, object.release().ptr());
  }
  return new Enumeration(std::move(type), std::move(by_value));
}

const Enumeration* make(py::module_& module, const std::string& name, const std::string& doc,
                        const std::vector<Member>& members) {
  const Enumeration* const made = make(name, doc, members);
  module.attr(name.c_str()) = made->type();
  py::list(module.attr("ENUMERATIONS")).append(made->type());
  return made;
}

std::vector<Member> members_of(const Names& names) {
  std::vector<Member> members;
  for (const Name& entry : names.entries)
    members.push_back({constant_name(names, entry), entry.value, std::string(entry.meaning)});
  return members;
}

bool is_part_of(const Field& part, const Field& whole) {
  return part.name.size() > whole.name.size() && part.name.starts_with(whole.name) &&
         part.name[whole.name.size()] == '.';
}

// Returns the values whose enumerated parts have names and whose other bits are zero.
std::vector<Member> composed(const HeaderInfo& header, const Field& whole) {
  std::vector<std::uint8_t> bytes(header.size);
  std::vector<Member> members;
  for (std::uint64_t value = 0; value <= low_mask(whole.width); ++value) {
    whole.store(bytes.data(), value);
    Member member{"", value, ""};
    bool named = true;
    std::uint64_t unexplained = value;
    for (const Field& part : header.fields) {
      if (!is_part_of(part, whole) || part.is_decoded() || !part.present_in(bytes.data())) continue;
      const std::uint64_t number = part.load(bytes.data());
      const unsigned right = (whole.bit + whole.width) - (part.bit + part.width);
      unexplained &= ~(low_mask(part.width) << right);
      if (!part.names) {
        named &= number == 0;
      } else if (const Name* entry = part.names->find(number)) {
        if (!member.name.empty()) member.name += '_';
        member.name += constant_name(*part.names, *entry);
        member.meaning = entry->meaning;
      } else {
        named = false;
      }
    }
    if (named && unexplained == 0 && !member.name.empty()) members.push_back(std::move(member));
  }
  return members;
}

bool is_composed(const HeaderInfo& header, const Field& whole) {
  if (whole.names || whole.is_part() || whole.width > 8) return false;
  // One part of the field determines the meaning of the other parts.
  std::size_t named = 0, always = 0;
  for (const Field& part : header.fields)
    if (is_part_of(part, whole) && part.names) part.present ? ++named : ++always;
  return always == 1 && named > 0;
}

}  // namespace

const Enumeration* enumeration_of(const HeaderInfo&, const Field& f) {
  const auto& all = enumerations();
  const auto found = all.find(f.names ? static_cast<const void*>(f.names) : &f);
  return found == all.end() ? nullptr : found->second;
}

void define_enumeration(const Names& names, const std::string& type_name) {
  enumerations()[&names] = make(type_name, std::string(names.title) + ".", members_of(names));
}

void bind_enumerations(py::module_& module) {
  module.attr("ENUMERATIONS") = py::list();
  for (const Names* names : all_names())
    enumerations()[names] =
        make(module, type_name(*names), std::string(names->title) + ". " + std::string(names->section) + ".",
             members_of(*names));
  for (const HeaderInfo* header : all_headers())
    for (const Field& f : header->fields) {
      if (!is_composed(*header, f)) continue;
      std::string name(f.name);
      name[0] = static_cast<char>(name[0] - 'a' + 'A');
      enumerations()[&f] =
          make(module, name, std::string(f.meaning) + ". " + std::string(header->section) + ".", composed(*header, f));
    }
  module.attr("ENUMERATIONS") = py::tuple(module.attr("ENUMERATIONS"));
}

}  // namespace rdmawire::python
