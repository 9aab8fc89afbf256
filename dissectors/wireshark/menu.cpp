// SPDX-License-Identifier: GPL-2.0-or-later
/// The RDMA menu of the main window: opens the HTML report of the current file in a browser, and shows the data of a
/// connection. Wireshark 4.0 offers no plugin in its own menu Follow.

#include <glib/gstdio.h>
#include <unistd.h>

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

struct FollowRun {
  guint stream;
  gchar* output;  ///< file with the output of tshark
};

/// Shows the output in a window when tshark has finished. Without windows for text (a build without Lua), the system's
/// program for text files shows it.
void show_stream(GPid process, gint status, gpointer given) {
  g_spawn_close_pid(process);
  auto* run = static_cast<FollowRun*>(given);
  GError* error = nullptr;
  gchar* text = nullptr;
  gsize length = 0;
  if (!g_spawn_check_wait_status(status, &error)) {
    report_error("tshark failed to follow the connection", error);
  } else if (!g_file_get_contents(run->output, &text, &length, &error)) {
    report_error("cannot read the output of tshark", error);
  } else if (const funnel_ops_t* windows = funnel_get_funnel_ops(); windows && windows->new_text_window) {
    gchar* title = g_strdup_printf("Follow RDMA stream %u", run->stream);
    gchar* valid = g_utf8_make_valid(text, static_cast<gssize>(length));
    funnel_text_window_t* window = windows->new_text_window(windows->ops_id, title);
    windows->set_text(window, valid);
    g_free(valid);
    g_free(title);
    g_remove(run->output);
  } else {
    gchar* program[] = {const_cast<gchar*>("xdg-open"), run->output, nullptr};
    if (!g_spawn_async(nullptr, program, nullptr, G_SPAWN_SEARCH_PATH, nullptr, nullptr, nullptr, &error))
      report_error("cannot open the data of the connection", error);
  }
  g_free(text);
  g_free(run->output);
  g_free(run);
}

/// Follows the connection of the selected packet.
void follow_stream(ext_menubar_gui_type, gpointer, gpointer) {
  ws_info_t* info = nullptr;
  plugin_if_get_ws_info(&info);
  auto* name = static_cast<gchar*>(plugin_if_get_capture_file(name_of, nullptr));
  if (!info || !name || info->cf_framenr == 0 || !session()) return report_error("no packet is selected", nullptr);
  static FrameFacts facts;
  session()->facts_of(info->cf_framenr, facts);
  if (!facts.connection) return report_error("the packet belongs to no RDMA connection", nullptr);
  GError* error = nullptr;
  gchar* output = nullptr;
  const gint file = g_file_open_tmp("rdmawire-follow-XXXXXX.txt", &output, &error);
  if (file < 0) return report_error("cannot create a file for the data", error);
  const guint stream = facts.connection->stream;
  gchar* tap = g_strdup_printf("follow,rdmawire,ascii,%u", stream);
  // Streams have the same numbers with two passes.
  gchar* program[] = {const_cast<gchar*>("tshark"),
                      const_cast<gchar*>("-n"),
                      const_cast<gchar*>("-2"),
                      const_cast<gchar*>("-q"),
                      const_cast<gchar*>("-r"),
                      name,
                      const_cast<gchar*>("-z"),
                      tap,
                      nullptr};
  GPid process;
  const bool started = g_spawn_async_with_fds(nullptr, program, nullptr,
                                              static_cast<GSpawnFlags>(G_SPAWN_SEARCH_PATH | G_SPAWN_DO_NOT_REAP_CHILD),
                                              nullptr, nullptr, &process, -1, file, -1, &error);
  close(file);
  g_free(tap);
  if (!started) {
    report_error("command not found: tshark", error);
    g_remove(output);
    g_free(output);
    return;
  }
  auto* run = g_new(FollowRun, 1);
  *run = {stream, output};
  g_child_watch_add(process, show_stream, run);
}

}  // namespace

void register_menu(int proto) {
  ext_menu_t* menu = ext_menubar_register_menu(proto, "RDMA", TRUE);
  ext_menubar_set_parentmenu(menu, "Tools");
  ext_menubar_add_entry(menu, "Report with PSN Graphs",
                        "Open the report of rdmawire analyze --html for the current file in a browser", show_report,
                        nullptr);
  ext_menubar_add_entry(menu, "Follow Connection", "Show the data of the selected packet's connection", follow_stream,
                        nullptr);
}

}  // namespace rdmawire::wireshark
