// Shows the summary, and the findings with their sequence diagrams.

const severities = {error: "Error", warning: "Warning", info: "Info"};
const findings_at_once = 20;

function count_card(label, value, exact, note) {
  return element("div", {class: "card"}, element("dt", {}, label), element("dd", {title: exact, "data-value": known(exact) ? exact : value}, value),
                 note && element("dd", {class: "note"}, note));
}

function verdict() {
  const {report} = data;
  const counts = object(object(report.summary).findings);
  const parts = Object.keys(severities).filter(name => counts[name] > 0);
  const packets = object(report.summary).packets || 0;
  const connections = object(report.summary).connections || 0;
  if (parts.length) {
    return {severity: parts[0], text: parts.map(name => plural(counts[name], {info: "note"}[name] || name)).join(", ")};
  }
  if (!list(report.findings).length && (!packets || !connections)) {
    return {severity: "info", text: packets ? "No RDMA in this capture" : "No packets"};
  }
  return {severity: "ok", text: "No problems found"};
}

function show_summary() {
  const place = document.getElementById("summary");
  const {report} = data;
  const summary = object(report.summary);
  const input = object(report.input);
  const files = list(input.files);
  const {severity, text} = verdict();
  const cards = [];
  const number = (label, name, note) => {
    if (known(summary[name])) {
      const large = summary[name] >= 1e7;
      cards.push(count_card(label, large ? scaled(summary[name], "") : integer.format(summary[name]), String(summary[name]), note));
    }
  };
  number("Packets", "packets", known(summary.bytes) && `${bytes(summary.bytes)} on the wire`);
  if (known(summary.duration_ns)) cards.push(count_card("Duration", duration(summary.duration_ns), String(summary.duration_ns)));
  number("Connections", "connections");
  number("Messages", "messages", known(summary.message_bytes) && `${bytes(summary.message_bytes)} of payload`);
  if (known(summary.message_bytes) && summary.duration_ns > 0) {
    cards.push(count_card("Mean throughput", scaled(summary.message_bytes * 8e9 / summary.duration_ns, "bit/s"), null, "payload"));
  }
  const tcp = object(summary.events).tcp_retransmission;
  number("Retransmitted", "retransmitted_packets", tcp ? plural(tcp, "TCP retransmission") : summary.retransmitted_packets > 0 && `${(100 * summary.retransmitted_packets / summary.packets).toPrecision(2)} % of packets`);

  const notes = [];
  const lost = files.reduce((sum, file) => sum + (file.lost_by_capture || 0), 0);
  if (lost) notes.push(`The capture lost ${plural(lost, "packet")}. Missing packets are not necessarily network loss.`);
  if (input.exact === false) {
    const evicted = object(input.evicted);
    notes.push(`The counters are incomplete: ${plural(evicted.connections || 0, "connection")} and ${plural(evicted.packets || 0, "packet")} were evicted, and ${input.skipped || 0} table entries were not counted, because the memory limit was reached.`);
  }
  const wires = Object.entries(object(summary.wires)).filter(([, packets]) => packets);
  const facts = [
    [files.length === 1 ? "File" : "Files", files.slice(0, 8).map(file => element("span", {class: "file"}, element("code", {}, file.name ?? "?"), known(file.packets) && ` ${plural(file.packets, "packet")}, ${bytes(file.bytes || 0)}`))
        .concat(files.length > 8 ? [`and ${files.length - 8} more`] : [])],
    ["From", known(summary.first_time) && date(summary.first_time)],
    ["To", known(summary.last_time) && date(summary.last_time)],
    ["Wires", wires.map(([name, packets]) => `${term(name)} ${integer.format(packets)}`).join(", ")],
    ["Filter", known(input.filter) && input.filter && element("code", {}, input.filter)],
    ["Memory limit", known(input.memory) && bytes(input.memory)],
    ["Range", (known(input.from) || known(input.to)) && `${input.from ?? "start"} – ${input.to ?? "end"}`],
    ["Events", Object.entries(object(summary.events)).filter(([, count]) => count).map(([kind, count]) => element("span", {class: "chip", title: kind}, words(kind), " ", element("b", {}, integer.format(count))))],
  ].filter(([, value]) => value && value.length !== 0);

  place.hidden = false;
  place.append(
      element("div", {class: `verdict ${severity}`}, element("div", {}, element("h1", {id: "title"}, document.title),
              element("p", {class: "program"}, known(report.program) && report.program)),
              element("strong", {id: "verdict"}, text)),
      ...notes.map(note => element("p", {class: "note warning"}, note)),
      cards.length ? element("dl", {class: "cards"}, cards) : element("p", {class: "note info"}, "The report has no summary."),
      facts.length ? element("dl", {class: "facts panel"}, facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)))) : "");
}

/** Sequence diagram of the frames around a finding. */
function sequence_diagram(row, connection) {
  const frames = list(row.frames);
  const line = 26, top = 44, left = 186, right = 626, width = 710;
  const gaps = frames.filter(frame => frame.skipped).length;
  const height = top + (frames.length + gaps) * line + 10;
  const marks = {cause: "cause", event: "event", retransmitted: "retransmitted", origin: "origin"};
  const svg = drawn("svg", {class: "sequence", viewBox: `0 0 ${width} ${height}`, role: "img", width, height,
                            "aria-label": `Sequence diagram of ${plural(frames.length, "frame")}`});
  const ends = connection ? [end_name(connection.a, is_iwarp(connection)), end_name(connection.b, is_iwarp(connection))] : ["a", "b"];
  svg.append(drawn("text", {x: 10, y: 22, class: "head"}, "frame"), drawn("text", {x: 78, y: 22, class: "head"}, "time"),
             drawn("text", {x: 140, y: 22, class: "head end"}, ends[0]),
             drawn("text", {x: width - 8, y: 22, class: "head end", "text-anchor": "end"}, ends[1]),
             drawn("path", {class: "lifeline", d: `M${left} 30V${height}M${right} 30V${height}`}));
  let before = null, at = 0;
  frames.forEach(frame => {
    if (frame.skipped) {
      svg.append(drawn("text", {x: (left + right) / 2, y: top + at++ * line + 6, class: "gap", "text-anchor": "middle"},
                       `… ${plural(frame.skipped, "packet")} of this connection omitted …`));
    }
    const y = top + at++ * line + 8;
    const to_right = frame.from !== "b";
    const [x1, x2, tip] = to_right ? [left, right - 2, -8] : [right, left + 2, 8];
    const mark = marks[frame.mark] ? frame.mark : "";
    const time = since_start(frame.time);
    const group = drawn("g", {class: `step ${mark}`});
    group.append(drawn("title", {}, `frame ${frame.frame}: ${frame.text ?? ""}${known(frame.time) ? `, ${date(frame.time)}` : ""}`),
                 drawn("rect", {class: "row", x: 0, y: y - 16, width, height: line}),
                 drawn("text", {x: 10, y: y + 2, class: "number"}, String(frame.frame ?? "")),
                 drawn("text", {x: 78, y: y + 2, class: "time"}, time === null ? "" : before === null ? duration(time) : `+${duration(time - before)}`),
                 drawn("path", {class: "arrow", d: `M${x1} ${y}H${x2}M${x2 + tip} ${y - 4}L${x2} ${y}L${x2 + tip} ${y + 4}`}),
                 drawn("text", {x: (left + right) / 2, y: y - 4, class: "text", "text-anchor": "middle"}, clipped(frame.text ?? "", 68)));
    if (mark) group.append(drawn("text", {x: right + 16, y: y + 2, class: "mark"}, marks[mark]));
    before = time ?? before;
    svg.append(group);
  });
  return element("div", {class: "scroll"}, svg);
}
const clipped = (text, most) => text.length > most ? `${text.slice(0, most - 1)}…` : text;

function finding_body(finding) {
  const row = data.sequences.get(finding.rank);
  const id = finding.connection ?? (row && row.connection);
  const connection = data.connections.get(id);
  const frames = list(finding.frames);
  const detail = [
    ["Frames", known(finding.first_frame) && `${integer.format(finding.first_frame)}${known(finding.last_frame) && finding.last_frame !== finding.first_frame ? ` to ${integer.format(finding.last_frame)}` : ""}`],
    ["First time", known(finding.first_time) && date(finding.first_time)],
    ["Events", frames.length > 1 && `frame ${frames.map(frame => integer.format(frame)).join(", ")}${finding.count > frames.length ? " …" : ""}`],
    ["Kind", known(finding.kind) && element("code", {}, [finding.kind, finding.cause].filter(cause => cause && cause !== "none").join(" · "))],
  ].filter(([, value]) => value);
  return [
    known(finding.meaning) && element("p", {}, sentence(finding.meaning)),
    known(finding.next) && element("p", {class: "next"}, element("b", {}, "Next step: "), sentence(finding.next)),
    element("dl", {class: "facts"}, detail.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)))),
    row && list(row.frames).length ? sequence_diagram(row, connection) : element("p", {class: "hint"}, "This finding has no sequence diagram."),
    connection && element("p", {class: "actions"}, element("a", {class: "button", href: `#connection=${id}`}, `Show connection ${id}`)),
  ].filter(Boolean);
}

function finding_article(finding) {
  const id = `finding-${finding.rank}`;
  const severity = severities[finding.severity] ? finding.severity : "info";
  const body = element("div", {class: "body", id: `${id}-body`, hidden: true});
  const metric = (value, label) => element("span", {class: "metric"}, element("b", {}, value), ` ${label}`);
  const button = element("button", {type: "button", "aria-expanded": "false", "aria-controls": `${id}-body`},
      element("span", {class: "rank"}, String(finding.rank)),
      element("span", {class: "badge"}, severities[severity]),
      element("span", {class: "what"}, element("span", {class: "title"}, finding.title ?? words(finding.kind)), known(finding.flow) && element("span", {class: "subtitle"}, finding.flow)),
      element("span", {class: "metrics"},
              known(finding.count) && metric(integer.format(finding.count), "×"),
              finding.bytes > 0 && metric(bytes(finding.bytes), ""),
              finding.cost_ns > 0 && metric(duration(finding.cost_ns), "stalled")));
  const article = element("article", {class: `finding ${severity}`, id, "data-rank": finding.rank}, element("h3", {}, button), body);
  button.addEventListener("click", () => open_finding(article, finding, body.hidden));
  return article;
}

function open_finding(article, finding, open) {
  const body = article.querySelector(".body");
  if (open && !body.firstChild) body.append(...finding_body(finding));
  body.hidden = !open;
  article.querySelector("button").setAttribute("aria-expanded", String(open));
  if (open && known(finding.connection) && data.connections.has(finding.connection)) show_connection(finding.connection);
}

let filter_findings = () => {};

function show_findings() {
  const place = document.getElementById("findings");
  place.hidden = false;
  const findings = list(data.report.findings).slice().sort((left, right) => left.rank - right.rank);
  const heading = element("h2", {id: "findings-heading"}, "Findings");
  if (!findings.length) {
    const {severity, text} = verdict();
    place.append(element("div", {class: "heading"}, heading), element("div", {class: `panel calm ${severity}`}, element("p", {}, `${text}.`),
        severity === "ok" && element("p", {class: "hint"}, "The capture has no retransmission, loss, rejection, damage or stall that requires attention.")));
    return;
  }
  const state = {severity: "all", text: "", most: findings_at_once};
  const articles = new Map();
  const holder = element("div", {class: "findings"});
  const more = element("button", {type: "button", class: "more", on: {click: () => { state.most += 50; fill(); }}});
  const status = element("p", {class: "hint", role: "status"});
  const text_of = new Map(findings.map(finding => [finding, [finding.title, finding.flow, finding.kind, finding.cause, finding.connection].join(" ").toLowerCase()]));
  const fill = () => {
    const shown = findings.filter(finding => (state.severity === "all" || finding.severity === state.severity) && text_of.get(finding).includes(state.text));
    holder.replaceChildren(...shown.slice(0, state.most).map(finding => {
      if (!articles.has(finding)) articles.set(finding, finding_article(finding));
      return articles.get(finding);
    }));
    const left = shown.length - state.most;
    more.hidden = left <= 0;
    more.textContent = `Show ${Math.min(left, 50)} more of ${integer.format(shown.length)}`;
    status.textContent = shown.length === findings.length ? `${integer.format(findings.length)}, worst first. Open a finding to see its frames.` : `${integer.format(shown.length)} of ${integer.format(findings.length)}`;
  };
  filter_findings = () => { state.severity = "all"; state.text = ""; search.value = ""; state.most = Infinity; press("all"); fill(); };
  const search = element("input", {type: "search", placeholder: "Filter findings", "aria-label": "Filter findings", on: {input: () => { state.text = search.value.toLowerCase(); fill(); }}});
  const buttons = ["all", ...Object.keys(severities)].filter(name => name === "all" || findings.some(finding => finding.severity === name)).map(name =>
      element("button", {type: "button", "data-severity": name, "aria-pressed": String(name === "all"), on: {click: () => { state.severity = name; press(name); fill(); }}},
              name === "all" ? "All" : `${severities[name]} ${integer.format(findings.filter(finding => finding.severity === name).length)}`));
  const press = name => buttons.forEach(button => button.setAttribute("aria-pressed", String(button.dataset.severity === name)));
  place.append(element("div", {class: "heading"}, heading, status),
               element("div", {class: "controls"}, element("div", {class: "segments", role: "group", "aria-label": "Severity"}, buttons), search),
               holder, more);
  fill();
  const first = findings[0];
  open_finding(articles.get(first), first, true);
}
