// Renders the report of a fuzzing session: statistics, and each finding with its minimized script.

function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (known(value)) element.setAttribute(key, value);
  element.append(...children.filter(known));
  return element;
}

const count = value => known(value) ? integer.format(value) : "–";
const seeds = report => known(report.seed) ? `seed ${report.seed}` : `${integer.format(report.jobs)} jobs with the seeds ${list(report.seeds).join(", ")}`;
const card = (term, value, note) => make("dl", {class: "card"}, make("dt", {}, term), make("dd", {}, value), note ? make("dd", {class: "note"}, note) : null);

function show_summary(report) {
  const section = document.getElementById("summary");
  const found = list(report.findings).length;
  const counts = object(report.statistics);
  section.append(
    make("div", {class: `verdict ${found ? "error" : ""}`},
      make("div", {}, make("h1", {id: "title"}, `Fuzzing ${report.target}`), make("p", {class: "program"}, seeds(report))),
      make("strong", {}, found ? `${found} ${found === 1 ? "finding" : "findings"}` : "no findings")),
    make("div", {class: "cards"},
      card("executions", count(counts.executions), `${integer.format(counts.executions / Math.max(counts.seconds, 1e-9))} a second${known(counts.steps) ? `, of ${integer.format(counts.steps)} steps` : ""}`),
      known(counts.connections) ? card("connections", count(counts.connections), counts.restarts > 0 ? `${integer.format(counts.restarts)} restarts of a lost device` : "the device was never lost")
        : card("messages", count(counts.sent), `sent, and ${integer.format(counts.received)} received`),
      card("response edges", count(counts.edges), known(counts.sent) ? "message × kind of response" : "state × stimulus × response"),
      card("code edges", count(counts.code_edges), known(counts.code_edges) ? "pairs of basic blocks of the device" : object(report.feedback).code_offered ? "not counted" : "not offered by this device"),
      card("monitor edges", count(counts.monitor_edges), known(counts.monitor_edges) ? "state × frame × state, and results of rules" : "not counted"),
      card("corpus", count(counts.corpus), known(counts.sent) ? "cases" : "scripts")));
  section.hidden = false;
}

function finding_panel(report, one, index) {
  const facts = make("dl", {class: "facts"});
  const fact = (term, value) => known(value) && facts.append(make("div", {}, make("dt", {}, term), make("dd", {}, value)));
  fact("expected", one.expected);
  fact("actual", one.actual);
  const rules = list(one.rules).map(id => ({id, ...object(object(report.rules)[id])}));
  if (rules.length)
    facts.append(make("div", {class: "rules"}, make("dt", {}, rules.length === 1 ? "rule" : "rules"),
      make("dd", {}, ...rules.map(rule => make("div", {}, rule.alias ? make("b", {}, rule.alias, " ") : null, make("code", {}, rule.id), rule.sentence ? make("p", {class: "note"}, rule.sentence) : null)))));
  fact("like", list(one.like).length ? `the reference device with ${list(one.like).join(", or ")}` : null);
  fact("execution", integer.format(one.execution));
  fact("occurrences", integer.format(one.times));
  fact("reproduced", one.reproduced ? "yes, by the script below" : "no, the script alone is not sufficient");
  const cut = object(one.minimized);
  if (cut.trials > 0)
    fact("minimized", `by ${integer.format(cut.trials)} trials${cut.restarts > 0 ? `, ${integer.format(cut.restarts)} of which ended the device` : ""}${cut.whole || !one.reproduced ? "" : "; stopped at the limits of the minimizer"}`);
  fact("files", one.directory);
  return make("article", {class: "panel", id: `finding-${index + 1}`},
    make("h4", {}, `${index + 1}. ${one.signature} `, make("span", {class: `badge ${one.reproduced ? "error" : "warning"}`}, one.oracle)),
    facts, make("ol", {}, ...list(one.steps).map(step => make("li", {}, make("code", {}, step)))));
}

// Findings are in groups with the same probable cause.
function show_findings(report) {
  const section = document.getElementById("findings");
  const all = list(report.findings);
  const groups = list(report.groups);
  section.append(make("div", {class: "heading"}, make("h2", {id: "findings-heading"}, "Findings"),
    all.length ? make("p", {class: "note"}, `probably of ${groups.length} ${groups.length === 1 ? "cause" : "causes"}`) : null));
  if (all.length === 0) section.append(make("div", {class: "panel calm ok"}, make("p", {}, "No alarms.")));
  const panel = index => all[index] && finding_panel(report, all[index], index);
  for (const group of groups) {
    const indexes = list(group.findings);
    section.append(make("section", {class: "group"},
      make("h3", {}, group.cause, " ", make("span", {class: "note"}, `${indexes.length} ${indexes.length === 1 ? "finding" : "findings"}`)),
      ...indexes.map(panel)));
  }
  section.hidden = false;
}

async function begin() {
  begin_theme();
  const wait = document.getElementById("wait");
  try {
    const report = JSON.parse(await carried("report-data"));
    show_summary(report);
    show_findings(report);
    document.getElementById("foot").textContent = report.program;
    wait.remove();
    document.documentElement.dataset.ready = "yes";
  } catch (error) {
    wait.className = "note error";
    wait.textContent = why_unreadable(error);
    document.documentElement.dataset.ready = "failed";
  }
}

begin();
