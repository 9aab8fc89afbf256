// Plots with Chart.js in the colors of the page, and the plots of the capture's traffic over time.

const live = new Map();  // by canvas name: the chart, and a function that creates it again after a change of the theme

function chart_defaults() {
  Chart.defaults.font.family = style("--font");
  Chart.defaults.font.size = 12;
  Chart.defaults.color = style("--muted");
  Chart.defaults.borderColor = style("--line");
  Chart.defaults.animation = false;
  Chart.defaults.maintainAspectRatio = false;
  Object.assign(Chart.defaults.plugins.tooltip, {
    backgroundColor: style("--tip"), titleColor: style("--tip-ink"), bodyColor: style("--tip-ink"),
    padding: 10, cornerRadius: 6, boxPadding: 4, usePointStyle: true,
  });
  Object.assign(Chart.defaults.plugins.legend.labels, {usePointStyle: true, boxWidth: 8, boxHeight: 8, padding: 16});
  Chart.defaults.plugins.legend.align = "start";
}

/** Creates the frame of a chart, labeled for tests and screen readers. */
function plot_place(name, label, height, heading, ...tools) {
  return element("figure", {class: "plot", id: `plot-${name}`},
                 heading && element("figcaption", {}, element("h3", {}, heading), element("div", {class: "tools"}, tools)),
                 element("div", {class: "frame", style: `height:${height}px`},
                         element("canvas", {id: `canvas-${name}`, role: "img", "aria-label": label, tabindex: 0})));
}

/** Draws into the frame of that name. `make` returns the Chart.js configuration and, for zooming, {x, y} bounds. */
function draw(name, make, linked) {
  const old = live.get(name);
  if (old) old.chart.destroy();
  const canvas = document.getElementById(`canvas-${name}`);
  if (!canvas) {
    live.delete(name);
    return null;
  }
  canvas.parentElement.querySelectorAll(".selection").forEach(node => node.remove());
  const {configuration, zoom_bounds} = make();
  const fresh = old ? canvas.cloneNode() : canvas;  // a clone has no event listeners
  if (old) canvas.replaceWith(fresh);
  const chart = new Chart(fresh, configuration);
  if (zoom_bounds) {
    whole(chart, zoom_bounds.x, zoom_bounds.y);
    make_zoomable(chart);
  }
  if (linked) {
    chart.linked = linked;
    const gone = old ? linked.indexOf(old.chart) : -1;
    if (gone >= 0) linked.splice(gone, 1);
    linked.push(chart);
  }
  live.set(name, {make, chart, linked});
  return chart;
}

function redraw_all() {
  chart_defaults();
  for (const [name, {make, linked}] of [...live]) draw(name, make, linked);
}

const zoom_buttons = name => [["−", "Wider", chart => zoom(chart, 1 / 0.7)], ["+", "Closer", chart => zoom(chart, 0.7)],
                              ["All", "Show all", reset]].map(
    ([text, label, action]) => element("button", {type: "button", class: "small", title: label, "aria-label": label, on: {
      click: () => live.has(name) && action(live.get(name).chart)}}, text));

const seconds_axis = (min, max, more = {}) => ({
  type: "linear", min, max, title: {display: true, text: "time since the capture's first packet"},
  ticks: {maxRotation: 0, autoSkipPadding: 24, callback: value => value === 0 ? "0" : duration(Math.round(value * 1e9))},
  grid: {color: style("--grid"), offset: false}, ...more,
});

/** Converts values per step to points of a line: [{x: seconds, y}]. */
function steps(values, start_ns, step_ns, change = value => value) {
  return list(values).map((value, at) => ({x: (start_ns + at * step_ns) / 1e9, y: change(value)}));
}

function line_configuration({sets, from, to, unit, title, bars = false, x_title = true, limit}) {
  return {
    type: bars ? "bar" : "line",
    data: {datasets: sets.map(set => ({
      label: set.label, data: set.data, borderColor: style(set.color), hidden: set.hidden,
      backgroundColor: bars ? style(set.color) : `${style(set.color)}26`, fill: !bars && (set.fill || false), borderWidth: bars ? 0 : 1.5,
      pointRadius: set.data.length < 3 ? 3 : 0, pointHitRadius: 6, pointStyle: "circle", pointBackgroundColor: style(set.color),
      stepped: false, barThickness: 3, minBarLength: 2,
      borderDash: set.dash || [],
    }))},
    options: {
      parsing: false, normalized: true,
      interaction: {mode: "index", intersect: false, axis: "x"},
      scales: {
        x: seconds_axis(from, to, {stacked: bars, offset: false, ...(x_title ? {} : {title: {display: false}})}),
        y: {beginAtZero: true, stacked: bars, suggestedMax: limit, title: {display: Boolean(title), text: title},
            grid: {color: style("--grid")}, ticks: {maxTicksLimit: 6, callback: value => scaled(value, unit)},
            afterFit: scale => { scale.width = 84; }},
      },
      plugins: {
        legend: {display: sets.length > 1},
        tooltip: {callbacks: {
          title: items => items.length ? `at ${duration(Math.round(items[0].parsed.x * 1e9))}` : "",
          label: item => ` ${item.dataset.label}: ${scaled(item.parsed.y, unit)}`,
        }},
      },
    },
  };
}

function series_window(series) {
  const start = typeof series.start === "number" ? series.start : since_start(series.start) || 0;
  return {start, step: series.step_ns > 0 ? series.step_ns : 1e9};
}

function show_traffic() {
  const place = document.getElementById("traffic");
  const series = object(data.report.series);
  const count = Math.max(0, ...["payload_bytes", "packets", "messages"].map(name => list(series[name]).length));
  if (!count) return;
  place.hidden = false;
  const {start, step} = series_window(series);
  const from = Math.max(0, start) / 1e9;  // the first step can start before the first packet
  const to = (start + Math.max(1, count - 1) * step) / 1e9;
  const per_second = value => value * 1e9 / step;
  const linked = [];
  const has = name => list(series[name]).some(value => value > 0);
  place.append(
      element("div", {class: "heading"}, element("h2", {id: "traffic-heading"}, "Traffic over time"),
              element("p", {class: "hint"}, `One value per ${duration(step)}. Drag to zoom in, Shift and drag to move, double-click to reset.`)),
      element("div", {class: "panel"},
              plot_place("throughput", "Throughput of RDMA payload over time", 210, "Throughput of RDMA payload", zoom_buttons("throughput")),
              plot_place("rates", "Packets and messages per second over time", 190, "Packets and messages"),
              ["retransmitted", "ecn_marked", "cnps"].some(has) &&
                  plot_place("loss", "Retransmitted packets, ECN-marked packets and CNPs over time", 160, "Retransmissions, ECN marks, CNPs")));
  draw("throughput", () => ({zoom_bounds: {x: [from, to]}, configuration: line_configuration({from, to, unit: "bit/s", x_title: false,
    sets: [{label: "payload", color: "--accent", fill: "origin", data: steps(series.payload_bytes, start, step, value => per_second(value * 8))}]})}), linked);
  draw("rates", () => ({zoom_bounds: {x: [from, to]}, configuration: line_configuration({from, to, unit: "/s", x_title: !document.getElementById("canvas-loss"),
    sets: [{label: "packets", color: "--accent", data: steps(series.packets, start, step, per_second)},
           {label: "messages", color: "--second", data: steps(series.messages, start, step, per_second)}]})}), linked);
  draw("loss", () => ({zoom_bounds: {x: [from, to]}, configuration: line_configuration({from, to, unit: "", title: "packets", bars: true,
    sets: [{label: "retransmitted", color: "--error", data: steps(series.retransmitted, start, step)},
           {label: "ECN-marked", color: "--warning", data: steps(series.ecn_marked, start, step)},
           {label: "CNP", color: "--cnp", data: steps(series.cnps, start, step)}].map(set => ({...set, data: set.data.filter(point => point.y > 0)})).filter(set => set.data.length)})}), linked);
}
