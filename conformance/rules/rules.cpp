#include "conformance/rules/rules.hpp"

namespace rdmawire::conformance {

const Rule* find_rule(std::string_view id_or_alias) {
  for (const Rule& rule : rules)
    if (rule.id == id_or_alias || rule.alias == id_or_alias) return &rule;
  return nullptr;
}

}  // namespace rdmawire::conformance
