// Shows one connection: its endpoints, counters, rate, and PSNs over time.

const point_kinds = [
  {label: "request", color: "--accent", point: "circle", radius: 2},
  {label: "retransmitted request", color: "--error", point: "triangle", radius: 5},
  {label: "acknowledgement", color: "--ok", point: "circle", radius: 1.5, line: true},
  {label: "READ or atomic response", color: "--second", point: "circle", radius: 2},
  {label: "NAK", color: "--error", point: "crossRot", radius: 6},
  {label: "RNR NAK", color: "--warning", point: "crossRot", radius: 6},
  {label: "CNP", color: "--cnp", point: "star", radius: 6},
  {label: "ECN-marked request", color: "--warning", point: "rectRot", radius: 3.5},
];
// Labels for iWARP, where the plot shows offsets in the TCP stream.
const segment_labels = {0: "segment", 1: "retransmitted segment", 2: "TCP acknowledgement"};
const requests = new Set([0, 1, 7]);
const chosen = {connection: null, requester: 0};

/** Points by kind, of the requests of `requester` (0 a, 1 b) and their responses. CNPs have the PSN of the preceding point. */
function psn_sets(row, requester) {
  const sets = point_kinds.map(() => []);
  let height = 0;
  for (const point of list(row.points)) {
    const [time, end, kind, psn, frame, length] = point;
    if (!point_kinds[kind]) continue;
    if ((requests.has(kind) ? end : 1 - end) !== requester) continue;
    if (known(psn)) height = psn;
    sets[kind].push({x: time / 1e9, y: known(psn) ? psn : height, frame, length, psn});
  }
  return sets;
}

function psn_plot(row, requester) {
  const sets = psn_sets(row, requester);
  const all = sets.flat();
  let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
  // Unsolicited responses may have distant PSNs, so they are excluded from the initial range.
  const requested = [...requests].flatMap(kind => sets[kind]);
  let [least, most] = [-Infinity, Infinity];
  if (requested.length) {
    [least, most] = [Infinity, -Infinity];
    for (const {y} of requested) [least, most] = [Math.min(least, y), Math.max(most, y)];
    const beyond = Math.max(16, most - least);
    [least, most] = [least - beyond, most + beyond];
  }
  for (const {x, y} of all) {
    if (y < least || y > most) continue;
    if (x < x0) x0 = x;
    if (x > x1) x1 = x;
    if (y < y0) y0 = y;
    if (y > y1) y1 = y;
  }
  if (!all.length) [x0, x1, y0, y1] = [0, 1, 0, 1];
  const wide = (x1 - x0) * 0.02 || 1e-6, high = (y1 - y0) * 0.04 || 1;
  const zoom_bounds = {x: [x0 - wide, x1 + wide], y: [y0 - high, y1 + high]};
  const [a, b] = requester === 0 ? ["a", "b"] : ["b", "a"];
  const iwarp = is_iwarp(data.connections.get(row.connection));
  const label_of = kind => iwarp && segment_labels[kind] || point_kinds[kind].label;
  // Rare kinds are drawn over frequent ones.
  const order = [4, 5, 1, 6, 7, 3, 0, 2];
  const datasets = order.filter(kind => sets[kind].length).map(kind => {
    const {color, point, radius, line} = point_kinds[kind];
    return {label: `${label_of(kind)} (${integer.format(sets[kind].length)})`, kind, data: sets[kind], type: "scatter", showLine: Boolean(line), stepped: line ? "before" : false,
            borderColor: style(color), backgroundColor: style(color), borderWidth: line ? 1.2 : 0, pointBorderWidth: point === "crossRot" || point === "star" ? 2 : 0,
            pointBorderColor: style(color), pointStyle: point, pointRadius: radius, pointHoverRadius: radius + 2, pointHitRadius: 5};
  });
  return {zoom_bounds, configuration: {
    type: "scatter", data: {datasets},
    options: {
      parsing: false, normalized: true,
      interaction: {mode: "nearest", intersect: true},
      scales: {
        x: seconds_axis(...zoom_bounds.x),
        y: {min: zoom_bounds.y[0], max: zoom_bounds.y[1], title: {display: true, text: iwarp ? `stream offset of ${a}, bytes` : `PSN relative to ${a}'s first request`}, grid: {color: style("--grid")},
            ticks: {precision: 0, callback: value => value >= 0 && Number.isInteger(value) ? integer.format(value) : ""}, afterFit: scale => { scale.width = 84; }},
      },
      plugins: {
        tooltip: {callbacks: {
          title: items => items.length ? `frame ${items[0].raw.frame}` : "",
          label: item => ` ${label_of(item.dataset.kind)} from ${requests.has(item.dataset.kind) ? a : b}`,
          afterLabel: item => [known(item.raw.psn) ? iwarp ? `up to byte ${integer.format(item.raw.psn)}` : `PSN ${integer.format(item.raw.psn)}, relative` : "no PSN", `at ${duration(Math.round(item.raw.x * 1e9))}`, known(item.raw.length) ? `${integer.format(item.raw.length)} bytes` : ""].filter(Boolean).map(text => `   ${text}`),
        }},
      },
    },
  }};
}

/** Counters of both endpoints, without rows that are zero for both. */
function sent_table(row) {
  const sent = object(row.sent);
  const flat = [flattened(object(sent.a)), flattened(object(sent.b))];
  const names = [...new Set(flat.flatMap(Object.keys))].filter(name => flat.some(counters => counters[name]));
  if (!names.length) return "";
  const cell = (counters, name) => element("td", {class: "number"}, known(counters[name]) ? name.endsWith("_ns") || name.startsWith("latency_") && name !== "latency_count" ? duration(counters[name]) : typeof counters[name] === "number" ? integer.format(counters[name]) : String(counters[name]) : "");
  return element("div", {class: "scroll"}, element("table", {class: "plain"}, element("thead", {}, element("tr", {}, element("th", {scope: "col"}, "sent by"), element("th", {scope: "col", class: "number"}, "a"), element("th", {scope: "col", class: "number"}, "b"))),
      element("tbody", {}, names.map(name => element("tr", {}, element("th", {scope: "row"}, words(name).replace(/\./g, " · ")), cell(flat[0], name), cell(flat[1], name))))));
}

/** Converts {a: {b: 1}} to {"a.b": 1}. */
function flattened(value, prefix = "", into = {}) {
  for (const [key, inner] of Object.entries(value)) {
    if (inner && typeof inner === "object" && !Array.isArray(inner)) flattened(inner, `${prefix}${key}.`, into);
    else into[prefix + key] = Array.isArray(inner) ? inner.some(item => item && typeof item === "object") ? inner.length : inner.some(Boolean) ? inner.join(" ") : null : inner;
  }
  return into;
}

function connection_rate(row) {
  const series = object(row.series);
  const {start, step} = series_window(series);
  const sets = [["bytes_a", "sent by a", "--accent"], ["bytes_b", "sent by b", "--second"]].filter(([name]) => list(series[name]).some(Boolean)).map(
      ([name, label, color]) => ({label, color, data: steps(series[name], start, step, value => value * 8e9 / step)}));
  const count = Math.max(1, ...sets.map(set => set.data.length));
  const range = [start / 1e9, (start + Math.max(1, count - 1) * step) / 1e9];
  return {zoom_bounds: {x: range}, configuration: line_configuration({from: range[0], to: range[1], unit: "bit/s", sets, x_title: false})};
}
function connection_messages(row) {
  const series = object(row.series);
  const {start, step} = series_window(series);
  const sets = [["messages_a", "of a", "--accent"], ["messages_b", "of b", "--second"]].filter(([name]) => list(series[name]).some(Boolean)).map(
      ([name, label, color]) => ({label, color, data: steps(series[name], start, step, value => value * 1e9 / step)}));
  const count = Math.max(1, ...sets.map(set => set.data.length));
  const range = [start / 1e9, (start + Math.max(1, count - 1) * step) / 1e9];
  return {zoom_bounds: {x: range}, configuration: line_configuration({from: range[0], to: range[1], unit: "/s", sets})};
}

function show_connection(id) {
  const row = data.connections.get(id);
  if (!row) return;
  chosen.connection = id;
  const kept = data.plotted.get(id);
  document.getElementById("choose-connection").value = kept ? String(id) : "";
  document.getElementById("any-connection").value = String(id);
  const body = document.getElementById("connection-body");
  const findings = list(data.report.findings).filter(finding => finding.connection === id);
  const facts = [
    ["a", element("b", {class: "end"}, end_name(row.a, is_iwarp(row)))], ["b", element("b", {class: "end"}, end_name(row.b, is_iwarp(row)))],
    ["Service", [row.service, row.wire === "other" || is_iwarp(row) ? null : row.wire].filter(Boolean).map(term).join(", ")],
    ["Paired by", row.paired_by && `${words(row.paired_by)}${row.confidence ? `, ${row.confidence}` : ""}`],
    ["MTU", row.mtu && `${integer.format(row.mtu)}${known(row.mtu_negotiated) ? row.mtu_negotiated ? ", negotiated" : ", inferred" : ""}`],
    ["Upper layer", row.upper && row.upper !== "none" && (typeof row.upper === "object" ? Object.entries(flattened(row.upper)).filter(([, value]) => value).map(([name, value]) => `${words(name)} ${value}`).join(", ") : words(row.upper))],
    ["Service port", row.service_port && String(row.service_port)],
    ["Frames", known(row.first_frame) && `${integer.format(row.first_frame)} to ${integer.format(row.last_frame ?? row.first_frame)}`],
    ["Opened, closed", (row.opened_frame || row.closed_frame) && `${row.opened_frame ? `frame ${integer.format(row.opened_frame)}` : "not seen"}, ${row.closed_frame ? `frame ${integer.format(row.closed_frame)}` : "not seen"}`],
    ["Findings", findings.length > 0 && findings.slice(0, 6).map(finding => element("a", {class: `chip ${finding.severity}`, href: `#finding=${finding.rank}`}, `${finding.rank} ${words(finding.kind)}`))],
  ].filter(([, value]) => value);
  const plots = [];
  if (kept && list(kept.points).length) {
    const counts = [0, 1].map(requester => psn_sets(kept, requester).reduce((sum, set) => sum + set.length, 0));
    chosen.requester = counts[0] > 0 ? counts[1] > 2 * counts[0] ? 1 : 0 : 1;
    const direction = counts[0] && counts[1] ? element("span", {class: "segments", role: "group", "aria-label": "Requester"}, [0, 1].map(requester =>
        element("button", {type: "button", class: "small", "data-requester": requester, "aria-pressed": String(requester === chosen.requester), on: {click: event => {
          chosen.requester = requester;
          event.target.parentElement.querySelectorAll("button").forEach(button => button.setAttribute("aria-pressed", String(button === event.target)));
          draw("psn", () => psn_plot(kept, chosen.requester));
        }}}, `${is_iwarp(row) ? "stream" : "requests"} of ${requester === 0 ? "a" : "b"}`))) : null;
    plots.push(plot_place("psn", `Packet sequence numbers over time of connection ${id}`, 420, `${is_iwarp(row) ? "TCP sequence" : "PSN"} over time${kept.sampled ? " (a sample of the packets)" : ""}`, direction, zoom_buttons("psn")));
  }
  const series = kept && object(kept.series);
  const has = (...names) => series && names.some(name => list(series[name]).some(Boolean));
  if (has("bytes_a", "bytes_b")) plots.push(plot_place("connection-rate", `Throughput of connection ${id} over time`, 180, "Throughput", zoom_buttons("connection-rate")));
  if (has("messages_a", "messages_b")) plots.push(plot_place("connection-messages", `Messages per second of connection ${id} over time`, 180, "Messages", zoom_buttons("connection-messages")));
  const counters = sent_table(row);
  body.replaceChildren(...[
    element("div", {class: "panel"}, element("dl", {class: "facts"}, facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))))),
    plots.length ? element("div", {class: "panel"}, plots) : element("p", {class: "note info"}, "This page has plots only for connections with findings and for the busiest connections."),
    counters && element("details", {class: "panel"}, element("summary", {}, "Counters by endpoint"), counters),
  ].filter(Boolean));
  draw("psn", () => psn_plot(kept, chosen.requester));
  const linked = [];
  draw("connection-rate", () => connection_rate(kept), linked);
  draw("connection-messages", () => connection_messages(kept), linked);
}

function show_connections() {
  const rows = list(data.report.connections);
  if (!rows.length) return;
  const place = document.getElementById("connection");
  place.hidden = false;
  const affected = new Map();
  for (const finding of list(data.report.findings)) {
    if (!affected.has(finding.connection)) affected.set(finding.connection, finding);
  }
  const kept = list(data.details.connections).filter(row => data.connections.has(row.connection));
  const option = row => {
    const finding = affected.get(row.connection);
    return element("option", {value: row.connection}, `${row.connection}   ${connection_name(data.connections.get(row.connection))}${finding ? `   ${finding.severity}: ${words(finding.kind)}` : ""}`);
  };
  const select = element("select", {id: "choose-connection", "aria-label": "Connections with plots", on: {change: () => select.value && show_connection(Number(select.value))}},
      element("option", {value: ""}, kept.length ? `${plural(kept.length, "connection")} with plots` : "no connection with plots"), kept.map(option));
  const number = element("input", {id: "any-connection", type: "number", min: 1, "aria-label": "Number of any connection", placeholder: "number", on: {change: () => {
    const there = data.connections.has(Number(number.value));
    number.setCustomValidity(there ? "" : `There is no connection ${number.value}`);
    if (there) show_connection(Number(number.value)); else number.reportValidity();
  }}});
  place.append(element("div", {class: "heading"}, element("h2", {id: "connection-heading"}, "Connection"), element("p", {class: "hint"}, "Drag to zoom in, Shift and drag to move. Click a plot to use the wheel, + − 0 and the arrow keys.")),
               element("div", {class: "controls"}, select, element("label", {class: "inline"}, "or number ", number)),
               element("div", {id: "connection-body"}));
  const worst = list(data.report.findings).slice().sort((left, right) => left.rank - right.rank).find(finding => data.plotted.has(finding.connection) && data.connections.has(finding.connection));
  show_connection(worst ? worst.connection : kept.length ? kept[0].connection : rows[0].connection);
}
