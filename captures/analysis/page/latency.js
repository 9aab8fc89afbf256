// Shows the latency of operations: a histogram, and percentiles by operation and size.

const phases = {request_to_acknowledgement: "request to acknowledgement", request_to_first_response: "request to first response", request_to_last_response: "request to last response"};
const phase_colors = ["--accent", "--second", "--cnp", "--warning"];
const percentiles = [["p50_ns", "p50"], ["p90_ns", "p90"], ["p99_ns", "p99"], ["p999_ns", "p99.9"], ["max_ns", "max"]];

const log_axis = (from, to) => ({
  type: "logarithmic", min: from, max: to, grid: {color: style("--grid")},
  ticks: {maxRotation: 0, autoSkip: false, callback: value => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-9 ? duration(value) : ""},
});
const decade = (value, change) => 10 ** change(Math.log10(Math.max(1, value)));

function histogram(rows) {
  let low = Infinity, high = 1;
  const datasets = rows.map((row, at) => {
    const points = [];
    let last = null;
    for (const [from, to, count] of list(row.buckets).slice().sort((left, right) => left[0] - right[0])) {
      low = Math.min(low, Math.max(1, from));
      high = Math.max(high, to);
      if (last !== null && from > last) points.push({x: Math.max(1, last), y: 0});
      if (last === null || from > last) points.push({x: Math.max(1, from), y: 0});
      points.push({x: Math.max(1, from), y: count, to, from}, {x: Math.max(1, to), y: count, to, from});
      last = to;
    }
    if (last !== null) points.push({x: Math.max(1, last), y: 0});
    const color = style(phase_colors[at % phase_colors.length]);
    return {label: phases[row.phase] || words(row.phase), data: points, borderColor: color, backgroundColor: `${color}33`, fill: "origin", borderWidth: 1.5, pointRadius: 0, pointHitRadius: 8};
  });
  return {configuration: {type: "line", data: {datasets}, options: {
    parsing: false, normalized: true, interaction: {mode: "nearest", axis: "x", intersect: false},
    scales: {x: {...log_axis(decade(low, Math.floor), decade(high, Math.ceil)), title: {display: true, text: "latency"}},
             y: {beginAtZero: true, title: {display: true, text: "messages"}, grid: {color: style("--grid")}, ticks: {precision: 0, maxTicksLimit: 6, callback: value => scaled(value, "")}, afterFit: scale => { scale.width = 84; }}},
    plugins: {tooltip: {filter: item => known(item.raw.to), callbacks: {title: items => items.length ? `${duration(items[0].raw.from)} to ${duration(items[0].raw.to)}` : "", label: item => ` ${item.dataset.label}: ${plural(item.raw.y, "message")}`}}},
  }}};
}

/** Combines all sizes of an operation and phase into buckets of visible width: eight per power of two. */
function distributions_of(rows) {
  const all = new Map();
  for (const {operation, phase, buckets} of rows) {
    const name = `${operation} ${phase}`;
    if (!all.has(name)) all.set(name, {operation, phase, counts: new Map()});
    const {counts} = all.get(name);
    for (const [from, , count] of list(buckets)) {
      const at = Math.floor(Math.log2(Math.max(1, from)) * 8);
      counts.set(at, (counts.get(at) || 0) + count);
    }
  }
  return [...all.values()].filter(({counts}) => counts.size).map(({operation, phase, counts}) => ({operation, phase,
    buckets: [...counts].sort(([left], [right]) => left - right).map(([at, count]) => [2 ** (at / 8), 2 ** ((at + 1) / 8), count])}));
}

const size_text = row => known(row.size_from) ? row.size_from === row.size_to || !known(row.size_to) ? bytes(row.size_from) : `${bytes(row.size_from)} – ${bytes(row.size_to)}` : "";

function percentile_plot(rows) {
  const names = rows.map(row => [words(row.operation), size_text(row)].filter(Boolean).join(" "));
  const alphas = ["", "d0", "a0", "70", "48"];
  const values = rows.flatMap(row => percentiles.map(([key]) => row[key])).filter(value => value > 0);
  const low = Math.min(...values), high = Math.max(...values);
  const phase_names = [...new Set(rows.map(row => row.phase))];
  const color_of = row => style(phase_colors[phase_names.indexOf(row.phase) % phase_colors.length]);
  const datasets = percentiles.map(([key, label], at) => ({
    label, data: rows.map((row, y) => ({x: row[key], y})).filter(point => point.x > 0), pointRadius: 5 - at * 0.4, pointStyle: ["circle", "rect", "rectRot", "triangle", "line"][at], pointHoverRadius: 7,
    borderColor: rows.map(color_of), backgroundColor: rows.map(row => `${color_of(row)}${alphas[at]}`), pointBorderWidth: at === 4 ? 2 : 1,
  }));
  datasets.push(...rows.map((row, y) => ({label: "", data: [{x: row.min_ns || row.p50_ns, y}, {x: row.max_ns, y}].filter(point => point.x > 0), showLine: true, pointRadius: 0, pointHitRadius: 0, borderWidth: 6, borderColor: `${color_of(row)}2e`, borderCapStyle: "round"})));
  return {configuration: {type: "scatter", data: {datasets}, options: {
    parsing: false, normalized: true, interaction: {mode: "nearest", intersect: true},
    scales: {x: {...log_axis(decade(low, Math.floor), decade(high, Math.ceil)), title: {display: true, text: "latency"}},
             y: {min: -0.6, max: rows.length - 0.4, reverse: true, grid: {display: false}, afterBuildTicks: scale => { scale.ticks = rows.map((_, value) => ({value})); }, ticks: {autoSkip: rows.length > 40, callback: value => names[value] || ""}}},
    plugins: {legend: {labels: {filter: item => item.text !== ""}},
              tooltip: {filter: item => item.dataset.label !== "", callbacks: {title: items => items.length ? `${names[items[0].parsed.y]}, ${phases[rows[items[0].parsed.y].phase] || words(rows[items[0].parsed.y].phase)}` : "", label: item => ` ${item.dataset.label}: ${duration(item.parsed.x)}`}}},
  }}};
}

function show_latency() {
  const rows = list(data.report.latency).filter(row => row.count > 0 && percentiles.some(([key]) => row[key] > 0));
  const distributions = distributions_of(rows);
  if (!rows.length && !distributions.length) return;
  const place = document.getElementById("latency");
  place.hidden = false;
  const operations = [...new Set(distributions.map(row => row.operation))];
  const of = operation => distributions.filter(row => row.operation === operation);
  const buttons = operations.map((operation, at) => element("button", {type: "button", class: "small", "aria-pressed": String(at === 0), on: {click: event => {
    buttons.forEach(button => button.setAttribute("aria-pressed", String(button === event.target)));
    draw("histogram", () => histogram(of(operation)));
  }}}, words(operation)));
  place.append(element("div", {class: "heading"}, element("h2", {id: "latency-heading"}, "Latency"), element("p", {class: "hint"}, "Time from a message's first packet to its acknowledgement or response, at the capture point.")),
               element("div", {class: "panel pair"},
                       operations.length > 0 && plot_place("histogram", "Distribution of latency", 300, "Distribution", element("span", {class: "segments", role: "group", "aria-label": "Operation"}, buttons)),
                       rows.length > 0 && plot_place("percentiles", "Percentiles of latency by operation and size", Math.min(1200, Math.max(300, 70 + rows.length * 24)), "Percentiles by operation and size")));
  if (operations.length) draw("histogram", () => histogram(of(operations[0])));
  if (rows.length) draw("percentiles", () => percentile_plot(rows));
}
