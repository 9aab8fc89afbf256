// Builds the page and handles links to its cases.

/** #case=ID */
function follow() {
  const match = /^#case=(.+)$/.exec(location.hash);
  if (!match) return;
  const id = decodeURIComponent(match[1]);
  const row = data.cases.find(one => one.id === id);
  if (!row) return;
  if (!document.getElementById(`case-${id}`)) {
    choose_cases({});
    state.most = Infinity;
    fill_cases();
  }
  const article = document.getElementById(`case-${id}`);
  open_case(article, row, true);
  article.scrollIntoView({block: "start"});
  article.querySelector("button").focus({preventScroll: true});
}

async function begin() {
  begin_theme();
  const wait = document.getElementById("wait");
  try {
    await read_data();
  } catch (error) {
    wait.className = "note error";
    wait.textContent = why_unreadable(error);
    document.documentElement.dataset.ready = "failed";
    return;
  }
  show_summary();
  show_groups();
  show_conditions();
  show_ics();
  show_observed();
  show_changes();
  show_cases();
  for (const link of document.querySelectorAll("nav a")) link.hidden = document.querySelector(link.getAttribute("href")).hidden;
  document.getElementById("foot").textContent = [data.report.program, data.report.note].filter(Boolean).join(" · ");
  wait.remove();
  addEventListener("hashchange", follow);
  follow();
  document.documentElement.dataset.ready = "yes";
}

begin();
