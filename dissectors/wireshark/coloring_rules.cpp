// SPDX-License-Identifier: GPL-2.0-or-later
/// Default coloring rules. A plugin has no file of rules: it adds them to the list in memory.

#include <cstddef>
#include <cstring>
#include <iterator>

#include "dissectors/wireshark/plugin.hpp"

namespace rdmawire::wireshark {
namespace {

struct ColoringRule {
  const char* name;
  const char* filter;
  color_t background, foreground;
};

constexpr color_t rgb(unsigned red, unsigned green, unsigned blue) {
  // 16 bits per color, from 8.
  return {static_cast<guint16>(red * 257), static_cast<guint16>(green * 257), static_cast<guint16>(blue * 257)};
}

/// The colors of Wireshark's rules "Bad TCP", "Checksum Errors" and "ICMP errors".
constexpr ColoringRule coloring_rules[] = {
    {"RDMA bad CRC",
     "rdmawire.icrc.status == \"bad\" || rdmawire.vcrc.status == \"bad\" || rdmawire.crc.status == \"bad\"",
     rgb(0x12, 0x27, 0x2e), rgb(0xf7, 0x87, 0x87)},
    {"RDMA connection error", "rdmawire.analysis.nak || rdmawire.analysis.rejected || rdmawire.analysis.terminate",
     rgb(0x12, 0x27, 0x2e), rgb(0xb7, 0xf7, 0x74)},
    {"Bad RDMA", "rdmawire.analysis.flags", rgb(0x12, 0x27, 0x2e), rgb(0xf7, 0x87, 0x87)},
    {"RDMA congestion", "rdmawire.analysis.cnp || rdmawire.analysis.ecn_marked || rdmawire.analysis.pause",
     rgb(0xff, 0xf3, 0xd6), rgb(0x12, 0x27, 0x2e)},
};

/// The lists that Wireshark keeps.
struct Lists {
  GSList *temporary = nullptr, *permanent = nullptr;
};

void keep(color_filter_t* rule, gpointer lists) {
  auto& to = *static_cast<Lists*>(lists);
  const bool temporary =
      std::strncmp(rule->filter_name, CONVERSATION_COLOR_PREFIX, sizeof CONVERSATION_COLOR_PREFIX - 1) == 0;
  GSList*& list = temporary ? to.temporary : to.permanent;
  list = g_slist_append(list, rule);
}

GSList* find(GSList* rules, const char* name) {
  while (rules && std::strcmp(static_cast<color_filter_t*>(rules->data)->filter_name, name) != 0) rules = rules->next;
  return rules;
}

/// Returns whether the list changed.
bool add_rules(GSList*& rules) {
  // Without rules the program does not color, such as tshark without --color.
  if (!rules) return false;
  bool changed = false;
  for (std::size_t i = std::size(coloring_rules); i-- > 0;) {
    const ColoringRule& rule = coloring_rules[i];
    if (find(rules, rule.name)) continue;
    color_t background = rule.background, foreground = rule.foreground;
    rules = g_slist_prepend(rules, color_filter_new(rule.name, rule.filter, &background, &foreground, FALSE));
    changed = true;
  }
  return changed;
}

bool remove_rules(GSList*& rules) {
  bool changed = false;
  for (const ColoringRule& rule : coloring_rules)
    if (GSList* found = find(rules, rule.name)) {
      color_filter_delete(static_cast<color_filter_t*>(found->data));
      rules = g_slist_delete_link(rules, found);
      changed = true;
    }
  return changed;
}

/// The rules in memory are ours, and not from a file of the profile.
bool rules_added = false;

}  // namespace

void update_coloring_rules() {
  if (!preferences.coloring_rules && !rules_added) return;
  Lists lists;
  color_filters_clone(&lists, keep);
  const bool changed = preferences.coloring_rules ? add_rules(lists.permanent) : remove_rules(lists.permanent);
  rules_added = preferences.coloring_rules && (rules_added || changed);
  gchar* error = nullptr;
  if (changed && !color_filters_apply(lists.temporary, lists.permanent, &error)) g_warning("rdmawire: %s", error);
  g_free(error);
  color_filter_list_delete(&lists.temporary);
  color_filter_list_delete(&lists.permanent);
}

}  // namespace rdmawire::wireshark
