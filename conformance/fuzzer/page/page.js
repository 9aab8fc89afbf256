// Renders the report of a fuzzing session: statistics, and each finding with its minimized script.

function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (known(value)) element.setAttribute(key, value);
  element.append(...children.filter(known));
  return element;
}

const card = (term, value, note) => make("dl", {class: "card"}, make("dt", {}, term), make("dd", {}, value), note ? make("dd", {class: "note"}, note) : null);

function show_summary(report) {
  const section = document.getElementById("summary");
  const found = list(report.findings).length;
  const counts = object(report.statistics);
  section.append(
    make("div", {class: `verdict ${found ? "error" : ""}`},
      make("div", {}, make("h1", {id: "title"}, `Fuzzing ${report.target}`), make("p", {class: "program"}, `seed ${report.seed}`)),
      make("strong", {}, found ? `${found} ${found === 1 ? "finding" : "findings"}` : "no findings")),
    make("div", {class: "cards"},
      card("executions", integer.format(counts.executions), `${integer.format(counts.executions / Math.max(counts.seconds, 1e-9))} a second, of ${integer.format(counts.steps)} steps`),
      card("connections", integer.format(counts.connections), counts.restarts > 0 ? `${integer.format(counts.restarts)} restarts of a lost device` : "the device was never lost"),
      card("response edges", integer.format(counts.edges), "state × stimulus × response"),
      card("code edges", known(counts.code_edges) ? integer.format(counts.code_edges) : "–", known(counts.code_edges) ? "pairs of basic blocks of the device" : object(report.feedback).code_offered ? "not counted" : "not offered by this device"),
      card("monitor edges", known(counts.monitor_edges) ? integer.format(counts.monitor_edges) : "–", known(counts.monitor_edges) ? "state × frame × state, and results of rules" : "not counted"),
      card("corpus", integer.format(counts.corpus), "scripts")));
  section.hidden = false;
}

function show_findings(report) {
  const section = document.getElementById("findings");
  section.append(make("div", {class: "heading"}, make("h2", {id: "findings-heading"}, "Findings")));
  const all = list(report.findings);
  if (all.length === 0) section.append(make("div", {class: "panel calm ok"}, make("p", {}, "No alarms.")));
  for (const [index, one] of all.entries()) {
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
    section.append(make("article", {class: "panel"},
      make("h3", {}, `${index + 1}. ${one.signature} `, make("span", {class: `badge ${one.reproduced ? "error" : "warning"}`}, one.oracle)),
      facts, make("ol", {}, ...list(one.steps).map(step => make("li", {}, make("code", {}, step))))));
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
