// The head of the page: the device, the number of cases by verdict, the preflight checks, and the groups.

/** Verdicts by decreasing importance, each with its color. */
const verdicts = {
  "fail": "error", "fail-wrong-code": "error", "error": "warning", "inconclusive": "warning", "unsupported": "plain",
  "may": "info", "pass": "ok",
};
const deviates = verdict => verdict === "fail" || verdict === "fail-wrong-code";
const badge = verdict => element("span", {class: `badge ${verdicts[verdict] ?? "plain"}`}, verdict);

const data = {report: {}, frames: [], cases: []};

async function read_data() {
  const report = JSON.parse(await carried("report-data"));
  data.report = object(report);
  data.cases = list(data.report.cases);
  try {
    data.frames = list(JSON.parse(await carried("frames-data")));
  } catch (error) {
    console.error(error);  // the page works without decoded headers
  }
}

function overall_verdict() {
  const news = data.cases.filter(row => row.unexpected);
  const failed = data.cases.filter(row => deviates(row.verdict) || list(row.observed).length);
  if (data.report.partial) return {tone: "warning", text: "Not all cases ran"};
  if (news.length) return {tone: "error", text: plural(news.length, "unexpected result")};
  if (failed.length) return {tone: "warning", text: `${plural(failed.length, "violation")}, all known or of "should" rules`};
  if (!data.cases.length) return {tone: "info", text: "No case ran"};
  return {tone: "ok", text: "No violations"};
}

function show_summary() {
  const {report} = data;
  const {tone, text} = overall_verdict();
  const cards = [["cases", data.cases.length, () => choose_cases({})]]
      .concat(Object.keys(verdicts).map(name => [name, object(report.verdicts)[name] || 0, () => choose_cases({verdict: name})]))
      .filter(([name, count]) => count || name === "fail" || name === "pass");
  const facts = [
    ["Device", element("code", {}, report.device ?? "?")],
    ["Details", report.details],
    ["Seed", element("code", {}, report.seed)],
    ["Run on", report.date],
    ["Duration", known(report.duration_ns) && `${duration(report.duration_ns)} (wire clock)`],
    ["Program", report.program],
    ["Flaky", plural(data.cases.filter(row => row.flaky).length, "case")],
  ].filter(([name, value]) => value && (name !== "Flaky" || data.cases.some(row => row.attempts)));
  const preflight = list(report.preflight);
  const place = document.getElementById("summary");
  place.hidden = false;
  place.append(
      element("div", {class: `verdict ${tone}`}, element("div", {}, element("h1", {id: "title"}, document.title), element("p", {class: "program"}, report.program)),
              element("strong", {id: "verdict"}, text)),
      element("p", {class: "note info", id: "disclaimer"}, report.note),
      report.partial ? element("p", {class: "note warning", id: "partial"}, `Partial report: ${report.partial}.`) : "",
      element("div", {class: "cards"}, cards.map(([name, count, choose]) =>
          element("button", {type: "button", class: `card ${verdicts[name] ?? ""}`, "data-count": name, on: {click: choose}}, element("span", {}, name), element("b", {}, integer.format(count))))),
      element("dl", {class: "facts panel"}, facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)))),
      preflight.length ? element("details", {class: "panel"}, element("summary", {}, `Preflight checks: ${plural(preflight.filter(row => row.status !== "pass").length, "remark")}`),
          element("table", {class: "plain preflight"}, element("tbody", {}, preflight.map(row => element("tr", {},
              element("td", {}, element("span", {class: `badge ${{pass: "ok", warn: "warning"}[row.status] ?? "error"}`}, row.status)),
              element("th", {scope: "row"}, row.check), element("td", {}, row.observed, row.advice && element("p", {class: "hint"}, sentence(row.advice)))))))) : "");
}

/** Table of groups and verdicts; each number links to its cases. */
function show_groups() {
  const groups = list(data.report.groups);
  const shown = Object.keys(verdicts).filter(name => data.cases.some(row => row.verdict === name));
  if (!groups.length || !shown.length) return;
  const count = (group, verdict) => data.cases.filter(row => row.group === group && row.verdict === verdict).length;
  const cell = (group, name) => {
    const number = count(group, name);
    return element("td", {class: `number ${number ? verdicts[name] : "none"}`},
        number ? element("button", {type: "button", "data-group": group, "data-verdict": name, "aria-label": `${group}: ${number} ${name}`, on: {click: () => choose_cases({group, verdict: name})}}, String(number)) : "·");
  };
  const place = document.getElementById("groups");
  place.hidden = false;
  place.append(element("div", {class: "heading"}, element("h2", {id: "groups-heading"}, "Groups"), element("p", {class: "hint"}, "Select a number to list its cases.")),
      element("div", {class: "scroll panel"}, element("table", {class: "matrix"},
          element("thead", {}, element("tr", {}, element("th", {scope: "col"}, "group"), shown.map(name => element("th", {scope: "col", class: "number"}, name)), element("th", {scope: "col", class: "number"}, "cases"))),
          element("tbody", {}, groups.filter(group => data.cases.some(row => row.group === group.name)).map(group => element("tr", {},
              element("th", {scope: "row"}, element("b", {}, group.name), " ", element("span", {class: "hint"}, group.title)),
              shown.map(name => cell(group.name, name)),
              element("td", {class: "number"}, String(data.cases.filter(row => row.group === group.name).length))))))));
}

/** The parameter values with which the cases of a rule fail. */
function show_conditions() {
  const rows = list(data.report.failure_conditions);
  if (!rows.length) return;
  const text = combination => Object.entries(object(combination)).map(([name, value]) => `${name} = ${value}`).join(" and ");
  const condition = row => list(row.whenever).length ? list(row.whenever).map((one, i) => element("div", {}, i ? "or equally " : "", element("b", {}, text(one))))
      : row.passed ? ["no combination separates the rows", Object.keys(object(row.shared)).length ? `; all failed rows have ${text(row.shared)}` : ""] : row.other ? "in all rows with a verdict" : "in all rows";
  document.getElementById("groups").append(element("div", {class: "panel scroll", id: "conditions"}, element("table", {class: "plain"},
      element("caption", {}, "Parameter values of failures"),
      element("thead", {}, element("tr", {}, ["rule", "fails whenever", "failed", "passed", "other"].map(name => element("th", {scope: "col"}, name)))),
      element("tbody", {}, rows.map(row => element("tr", {},
          element("td", {}, element("a", {href: `#case=${encodeURIComponent(list(row.cases)[0])}`}, row.alias || row.rule), row.violated === row.rule ? "" : element("p", {class: "hint"}, `violates ${row.violated}`)),
          element("td", {}, condition(row)),
          ["failed", "passed", "other"].map(name => element("td", {class: "number"}, integer.format(row[name])))))))));
}

/** The conformance statement of the device, compared with the results. */
function show_ics() {
  const rows = list(data.report.ics);
  if (!rows.length) return;
  const tones = {"pass": "ok", "fail": "error", "unclaimed": "warning", "not tested": "warning"};
  const order = ["fail", "unclaimed", "not tested", "pass", "absent"];
  const sorted = rows.slice().sort((left, right) => order.indexOf(left.status) - order.indexOf(right.status));
  const counts = order.map(status => [status, rows.filter(row => row.status === status).length]).filter(([, count]) => count);
  const worst = counts.some(([status]) => status === "fail" || status === "unclaimed");
  document.getElementById("groups").append(element("details", {class: "panel", id: "ics", open: worst},
      element("summary", {}, "Conformance statement (ICS): ", counts.map(([status, count]) => `${count} ${status}`).join(", ")),
      element("div", {class: "scroll"}, element("table", {class: "plain"},
          element("thead", {}, element("tr", {}, ["statement", "declared", "reported by the device", "result", "pass", "fail", "unsupported", "other"].map(name => element("th", {scope: "col"}, name)))),
          element("tbody", {}, sorted.map(row => element("tr", {}, element("th", {scope: "row"}, element("code", {}, row.member)), element("td", {}, row.claimed), element("td", {}, row.reported ?? "unknown"),
              element("td", {}, element("span", {class: `badge ${tones[row.status] ?? "plain"}`}, row.status)),
              ["pass", "fail", "unsupported", "other"].map(name => element("td", {class: "number"}, integer.format(object(row.cases)[name] ?? 0))))))))));
}

/** Results of the monitors for each rule, over all cases. */
function show_observed() {
  const rules = list(data.report.rules);
  if (!rules.length) return;
  const tones = {violated: "error", passed: "ok", inconclusive: "warning"};
  const order = ["violated", "inconclusive", "passed", "not exercised"];
  const rows = rules.slice().sort((left, right) => order.indexOf(left.state) - order.indexOf(right.state));
  const counts = order.map(state => [state, rules.filter(rule => rule.state === state).length]).filter(([, count]) => count);
  document.getElementById("groups").append(element("details", {class: "panel", id: "observed"},
      element("summary", {}, "Monitor results for the frames of all cases: ", counts.map(([state, count]) => `${count} ${count === 1 ? "rule" : "rules"} ${words(state)}`).join(", ")),
      element("div", {class: "scroll"}, element("table", {class: "plain"},
          element("thead", {}, element("tr", {}, ["rule", "", "", "passed", "violated", "inconclusive"].map(name => element("th", {scope: "col"}, name)))),
          element("tbody", {}, rows.map(row => element("tr", {}, element("td", {}, row.alias), element("td", {}, element("code", {}, row.rule)), element("td", {}, element("span", {class: `badge ${tones[row.state] ?? "plain"}`}, words(row.state))),
              ["passed", "violated", "inconclusive"].map(name => element("td", {class: "number"}, integer.format(row[name]))))))))));
}

function show_changes() {
  const changes = list(data.report.changes);
  if (!changes.length) return;
  const tones = {worse: "error", better: "ok", other: "warning"};
  const place = document.getElementById("changes");
  place.hidden = false;
  place.append(element("div", {class: "heading"}, element("h2", {id: "changes-heading"}, "Changes since the previous run"), element("p", {class: "hint"}, plural(changes.length, "case"))),
      element("div", {class: "panel scroll"}, element("table", {class: "plain"}, element("tbody", {}, changes.map(row => element("tr", {},
          element("td", {}, element("span", {class: `badge ${tones[row.kind] ?? "plain"}`}, row.kind)),
          element("td", {}, element("a", {href: `#case=${encodeURIComponent(row.id)}`}, row.id)),
          element("td", {}, `${row.before || "not run"} → ${row.after || "not run"}`)))))));
}
