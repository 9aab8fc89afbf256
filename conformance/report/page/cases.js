// The list of cases and its filters.

const shown_at_once = 60;
const state = {verdict: "", group: "", only: "", text: "", most: shown_at_once};
const articles = new Map();
let fill_cases = () => {};

/** Shows only the cases of this verdict and group. */
function choose_cases({verdict = "", group = ""}) {
  Object.assign(state, {verdict, group, only: "", text: "", most: shown_at_once});
  for (const name of ["verdict", "group", "only"]) document.getElementById(`choose-${name}`).value = state[name];
  document.getElementById("choose-text").value = "";
  fill_cases();
  const place = document.getElementById("cases");
  place.scrollIntoView({block: "start"});
  place.focus({preventScroll: true});
}

function case_article(row) {
  if (articles.has(row.id)) return articles.get(row.id);
  const body = element("div", {class: "body", id: `body-${row.id}`, hidden: true});
  const button = element("button", {type: "button", "aria-expanded": "false", "aria-controls": body.id},
      badge(row.verdict), element("span", {class: "alias"}, row.alias || ""),
      element("span", {class: "what"}, element("span", {class: "title"}, row.id), element("span", {class: "subtitle"}, row.sentence)),
      element("span", {class: "metrics"}, list(row.observed).length > 0 && element("span", {class: "badge warning", title: "monitors found a violation"}, "observed"), row.flaky && element("span", {class: "badge warning"}, "flaky"), row.unexpected ? element("span", {class: "badge error"}, "unexpected") : row.known ? element("span", {class: "badge plain"}, "known") : ""));
  const article = element("article", {class: `finding ${verdicts[row.verdict] ?? ""}`, id: `case-${row.id}`, "data-verdict": row.verdict}, element("h3", {}, button), body);
  button.addEventListener("click", () => open_case(article, row, body.hidden));
  articles.set(row.id, article);
  return article;
}

function open_case(article, row, open) {
  const body = article.querySelector(".body");
  if (open && !body.firstChild) body.append(...case_body(row));
  body.hidden = !open;
  article.querySelector("button").setAttribute("aria-expanded", String(open));
}

function show_cases() {
  const place = document.getElementById("cases");
  place.hidden = false;
  const text_of = new Map(data.cases.map(row => [row, [row.id, row.alias, row.rule, row.sentence, row.clauses, row.expected, row.actual].join(" ").toLowerCase()]));
  const only = {
    deviating: row => deviates(row.verdict) || list(row.observed).length, observed: row => list(row.observed).length,
    unexpected: row => row.unexpected, known: row => row.known, flaky: row => row.flaky,
  };
  const chosen = () => data.cases.filter(row => (!state.verdict || row.verdict === state.verdict) && (!state.group || row.group === state.group) &&
      (!state.only || only[state.only](row)) && text_of.get(row).includes(state.text));
  const holder = element("div", {class: "findings"});
  const status = element("p", {class: "hint", role: "status", id: "chosen"});
  const more = element("button", {type: "button", class: "more", on: {click: () => { state.most += 200; fill_cases(); }}});
  fill_cases = () => {
    const rows = chosen();
    holder.replaceChildren(...rows.slice(0, state.most).map(case_article));
    const left = rows.length - state.most;
    more.hidden = left <= 0;
    more.textContent = `Show ${Math.min(left, 200)} more of ${integer.format(rows.length)}`;
    status.textContent = `${integer.format(rows.length)} of ${plural(data.cases.length, "case")}`;
  };
  const select = (name, label, options) => element("select", {id: `choose-${name}`, "aria-label": label, on: {change: event => { state[name] = event.target.value; state.most = shown_at_once; fill_cases(); }}},
      options.map(([value, text]) => element("option", {value}, text)));
  const search = element("input", {type: "search", id: "choose-text", placeholder: "Rule, clause, word", "aria-label": "Filter cases by a text",
                                   on: {input: () => { state.text = search.value.toLowerCase(); state.most = shown_at_once; fill_cases(); }}});
  const all_open = open => holder.querySelectorAll("article").forEach(article => open_case(article, data.cases.find(row => `case-${row.id}` === article.id), open));
  place.append(element("div", {class: "heading"}, element("h2", {id: "cases-heading"}, "Cases"), status),
      element("div", {class: "controls"},
          select("verdict", "Verdict", [["", "every verdict"], ...Object.keys(verdicts).filter(name => data.cases.some(row => row.verdict === name)).map(name => [name, name])]),
          select("group", "Group", [["", "every group"], ...list(data.report.groups).map(group => [group.name, `${group.name} ${group.title}`])]),
          select("only", "Kind", [["", "known or not"], ["deviating", "violations"], ["observed", "violations found by monitors"], ["unexpected", "unexpected"], ["known", "known for the device"], ["flaky", "flaky"]]),
          search, element("button", {type: "button", id: "open-all", on: {click: () => all_open(true)}}, "Open all"), element("button", {type: "button", id: "close-all", on: {click: () => all_open(false)}}, "Close all")),
      holder, more);
  // Show the violations first.
  if (data.cases.some(row => row.unexpected)) document.getElementById("choose-only").value = state.only = "unexpected";
  fill_cases();
}
