// SPDX-License-Identifier: GPL-2.0-or-later
/// The RDMA menu of the main window: opens the HTML report of the current file in a browser.

#include <string>

#include "dissectors/wireshark/plugin.hpp"

namespace rdmawire::wireshark {
namespace {

void* name_of(capture_file* file, void*) { return file ? file->filename : nullptr; }

void report_error(const char* what, GError* error) {
  g_warning("rdmawire: %s%s%s", what, error ? ": " : "", error ? error->message : "");
  g_clear_error(&error);
}

/// Opens the page when the process has finished.
void open_page(GPid process, gint status, gpointer page) {
  g_spawn_close_pid(process);
  GError* error = nullptr;
  if (!g_spawn_check_wait_status(status, &error)) {
    report_error("rdmawire analyze failed to create the page", error);
  } else {
    gchar* program[] = {const_cast<gchar*>("xdg-open"), static_cast<gchar*>(page), nullptr};
    if (!g_spawn_async(nullptr, program, nullptr, G_SPAWN_SEARCH_PATH, nullptr, nullptr, nullptr, &error))
      report_error("cannot open the page", error);
  }
  g_free(page);
}

void show_report(ext_menubar_gui_type, gpointer, gpointer) {
  auto* name = static_cast<gchar*>(plugin_if_get_capture_file(name_of, nullptr));
  if (!name) return report_error("no capture file is open", nullptr);
  GError* error = nullptr;
  gchar* folder = g_dir_make_tmp("rdmawire-XXXXXX", &error);
  if (!folder) return report_error("cannot create a directory for the page", error);
  gchar* page = g_build_filename(folder, "report.html", nullptr);
  g_free(folder);
  gchar* program[] = {
      const_cast<gchar*>("rdmawire"), const_cast<gchar*>("analyze"), name, const_cast<gchar*>("--html"), page, nullptr};
  GPid process;
  if (!g_spawn_async(
          nullptr, program, nullptr,
          static_cast<GSpawnFlags>(G_SPAWN_SEARCH_PATH | G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_STDOUT_TO_DEV_NULL),
          nullptr, nullptr, &process, &error)) {
    report_error("command not found: rdmawire", error);
    g_free(page);
    return;
  }
  g_child_watch_add(process, open_page, page);
}

}  // namespace

void register_menu(int proto) {
  ext_menu_t* menu = ext_menubar_register_menu(proto, "RDMA", TRUE);
  ext_menubar_set_parentmenu(menu, "Tools");
  ext_menubar_add_entry(menu, "Report with PSN Graphs",
                        "Open the report of rdmawire analyze --html for the current file in a browser", show_report,
                        nullptr);
}

}  // namespace rdmawire::wireshark
