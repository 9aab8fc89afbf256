// Builds the page and handles links within it.

/** Handles #connection=214, #finding=3 and #table=flows. */
function follow() {
  const match = /^#(connection|finding|table)=(\w+)$/.exec(location.hash);
  if (!match) return;
  const [, kind, value] = match;
  let target = null;
  if (kind === "connection" && data.connections.has(Number(value))) {
    show_connection(Number(value));
    target = document.getElementById("connection");
  } else if (kind === "finding") {
    const finding = list(data.report.findings).find(row => row.rank === Number(value));
    if (finding) {
      if (!document.getElementById(`finding-${value}`)) filter_findings();
      target = document.getElementById(`finding-${value}`);
      open_finding(target, finding, true);
      target.querySelector("button").focus({preventScroll: true});
    }
  } else if (kind === "table" && document.getElementById(`panel-${value}`)) {
    open_table(value);
    target = document.getElementById("tables");
  }
  if (target) target.scrollIntoView({block: "start"});
}

async function begin() {
  const wait = document.getElementById("wait");
  begin_theme(redraw_all);
  try {
    await read_data();
  } catch (error) {
    wait.className = "note error";
    wait.textContent = why_unreadable(error);
    document.documentElement.dataset.ready = "failed";
    return;
  }
  chart_defaults();
  // If one part fails, the others are still shown.
  for (const part of [show_summary, show_traffic, show_latency, show_connections, show_findings, show_tables]) {
    try {
      part();
    } catch (error) {
      console.error(part.name, error);
      document.getElementById("main").append(element("p", {class: "note error"}, `This part of the page failed: ${words(part.name.replace("show_", ""))}: ${error.message}`));
    }
  }
  for (const link of document.querySelectorAll("nav a")) link.hidden = document.querySelector(link.getAttribute("href")).hidden;
  document.getElementById("foot").textContent = [data.report.program, data.report.schema].filter(Boolean).join(" · ");
  wait.remove();
  addEventListener("hashchange", follow);
  addEventListener("beforeprint", () => Object.values(Chart.instances).forEach(chart => chart.resize()));
  addEventListener("afterprint", () => Object.values(Chart.instances).forEach(chart => chart.resize()));
  follow();
  document.documentElement.dataset.ready = "yes";
  performance.mark("ready");
}

begin();
