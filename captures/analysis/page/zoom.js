// Zooms plots. Dragging selects a range, and dragging with Shift moves the plot. The wheel zooms at the pointer if Ctrl
// is pressed or the plot has the focus. The keys + and − zoom, the arrow keys move, and 0 or a double click resets the
// range.

const bounds = new WeakMap();  // by chart: the complete range of its axes

function whole(chart, x, y) {
  bounds.set(chart, {x, y});
}

function show(chart, ranges, follow = true) {
  const limits = bounds.get(chart);
  for (const axis of ["x", "y"]) {
    if (!ranges[axis] || !limits[axis]) continue;
    const [low, high] = limits[axis];
    const least = (high - low) / 1e7 || 1e-9;
    let [from, to] = ranges[axis];
    const width = Math.min(Math.max(to - from, least), high - low);
    from = Math.min(Math.max((from + to - width) / 2, low), high - width);
    to = from + width;
    chart.options.scales[axis].min = from;
    chart.options.scales[axis].max = to;
  }
  chart.update("none");
  if (follow) for (const other of chart.linked || []) if (other !== chart) show(other, {x: ranges.x}, false);
}

function reset(chart) {
  show(chart, bounds.get(chart));
}

function ranges_of(chart) {
  const ranges = {};
  for (const axis of ["x", "y"]) {
    if (bounds.get(chart)[axis]) ranges[axis] = [chart.scales[axis].min, chart.scales[axis].max];
  }
  return ranges;
}

/** factor < 1 zooms in. center: pixels in the canvas; default: the middle. */
function zoom(chart, factor, center) {
  const ranges = ranges_of(chart);
  for (const [axis, [from, to]] of Object.entries(ranges)) {
    const at = center ? chart.scales[axis].getValueForPixel(center[axis]) : (from + to) / 2;
    ranges[axis] = [at - (at - from) * factor, at + (to - at) * factor];
  }
  show(chart, ranges);
}

/** right, up: fractions of the visible range. */
function move(chart, right, up) {
  const ranges = ranges_of(chart);
  for (const [axis, part] of [["x", right], ["y", up]]) {
    if (ranges[axis]) ranges[axis] = ranges[axis].map(value => value + part * (ranges[axis][1] - ranges[axis][0]));
  }
  const limits = bounds.get(chart);
  for (const axis of Object.keys(ranges)) {
    const [low, high] = limits[axis];
    const [from, to] = ranges[axis];
    const back = from < low ? low - from : to > high ? high - to : 0;
    ranges[axis] = [from + back, to + back];
  }
  show(chart, ranges);
}

/** Adds listeners to the chart's canvas. The selection is drawn in its positioned parent. */
function make_zoomable(chart) {
  const canvas = chart.canvas;
  const selection = element("div", {class: "selection", hidden: true});
  canvas.parentElement.append(selection);
  let began = null;
  const place = event => {
    const box = canvas.getBoundingClientRect();
    const area = chart.chartArea;
    return {x: Math.min(Math.max(event.clientX - box.left, area.left), area.right),
            y: Math.min(Math.max(event.clientY - box.top, area.top), area.bottom)};
  };
  const box_of = (from, to) => {
    const area = chart.chartArea;
    const both = Boolean(bounds.get(chart).y);
    return {left: Math.min(from.x, to.x), right: Math.max(from.x, to.x),
            top: both ? Math.min(from.y, to.y) : area.top, bottom: both ? Math.max(from.y, to.y) : area.bottom};
  };
  const listen = {
    pointerdown(event) {
      if (event.button !== 0) return;
      began = {...place(event), last: place(event), move: event.shiftKey};
      try {
        canvas.setPointerCapture(event.pointerId);
      } catch {
        // The pointer is no longer active.
      }
    },
    pointermove(event) {
      if (!began) return;
      const now = place(event);
      if (began.move) {
        const area = chart.chartArea;
        move(chart, (began.last.x - now.x) / (area.right - area.left), (now.y - began.last.y) / (area.bottom - area.top));
        began.last = now;
        return;
      }
      const box = box_of(began, now);
      selection.hidden = box.right - box.left < 4;
      selection.style.cssText = `left:${box.left}px;top:${box.top}px;width:${box.right - box.left}px;` +
          `height:${box.bottom - box.top}px`;
    },
    pointerup(event) {
      if (!began) return;
      const box = box_of(began, place(event));
      const moved = began.move;
      began = null;
      selection.hidden = true;
      if (moved || box.right - box.left < 4) return;
      const {x, y} = chart.scales;
      const ranges = {x: [x.getValueForPixel(box.left), x.getValueForPixel(box.right)]};
      if (bounds.get(chart).y && box.bottom - box.top >= 4) {
        ranges.y = [y.getValueForPixel(box.bottom), y.getValueForPixel(box.top)];
      }
      show(chart, ranges);
    },
    pointercancel() {
      began = null;
      selection.hidden = true;
    },
    dblclick() {
      reset(chart);
    },
    wheel(event) {
      if (!event.ctrlKey && document.activeElement !== canvas) return;
      event.preventDefault();
      const center = place(event);
      zoom(chart, event.deltaY > 0 ? 1.25 : 0.8, {x: center.x, y: center.y});
    },
    keydown(event) {
      const actions = {
        "+": () => zoom(chart, 0.7), "=": () => zoom(chart, 0.7), "-": () => zoom(chart, 1 / 0.7),
        "0": () => reset(chart), ArrowLeft: () => move(chart, -0.15, 0), ArrowRight: () => move(chart, 0.15, 0),
        ArrowUp: () => move(chart, 0, 0.15), ArrowDown: () => move(chart, 0, -0.15),
      };
      if (event.ctrlKey || event.metaKey || event.altKey || !actions[event.key]) return;
      event.preventDefault();
      actions[event.key]();
    },
  };
  for (const [name, listener] of Object.entries(listen)) canvas.addEventListener(name, listener, {passive: false});
}
