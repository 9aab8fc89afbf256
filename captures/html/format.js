// Formats values and creates elements. Text from the capture is inserted as text nodes, never as HTML.

const integer = new Intl.NumberFormat("en-US", {maximumFractionDigits: 0});
const known = value => value !== null && value !== undefined;

/** Formats with three significant digits and a prefix: 1.38 G. */
function scaled(value, unit, step = 1000) {
  const prefixes = ["", "k", "M", "G", "T", "P"];
  let at = 0;
  while (Math.abs(value) >= step && at < prefixes.length - 1) {
    value /= step;
    at++;
  }
  const digits = at === 0 && Number.isInteger(value) ? 0 : Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return `${Number(value.toFixed(digits))} ${prefixes[at]}${unit}`.trim();
}
const bytes = value => scaled(value, "B");

/** Formats nanoseconds in a suitable unit. */
function duration(ns) {
  const size = Math.abs(ns);
  for (const [limit, unit, divisor] of [[1e3, "ns", 1], [1e6, "µs", 1e3], [1e9, "ms", 1e6]]) {
    if (size < limit) return `${short(ns / divisor)} ${unit}`;
  }
  return size < 120e9 ? `${short(ns / 1e9)} s` : size < 7200e9 ? `${short(ns / 60e9)} min` : `${short(ns / 3600e9)} h`;
}
function short(value) {
  const size = Math.abs(value);
  return String(Number(value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2)));
}

/** Converts "1732163000.123456789" to nanoseconds since 1970. */
function nanoseconds(time) {
  const match = /^(-?)(\d+)(?:\.(\d{1,9}))?$/.exec(String(time));
  if (!match) return null;
  const value = BigInt(match[2]) * 1000000000n + BigInt((match[3] || "").padEnd(9, "0"));
  return match[1] ? -value : value;
}
/** Formats a time as a UTC date. */
function date(time) {
  const ns = nanoseconds(time);
  if (ns === null) return String(time);
  const at = new Date(Number(ns / 1000000n));
  if (Number.isNaN(at.getTime())) return String(time);
  return `${at.toISOString().slice(0, 19).replace("T", " ")}.${String(ns % 1000000000n).padStart(9, "0")} UTC`;
}

const plural = (count, one, many = `${one}s`) => `${integer.format(count)} ${count === 1 ? one : many}`;
const words = name => String(name).replace(/_/g, " ");
/** Display names of services and wires. */
const term = name => ({rc: "RC", uc: "UC", ud: "UD", xrc: "XRC", rd: "RD", iwarp: "iWARP", roce_v1: "RoCEv1", roce_v2: "RoCEv2", infiniband: "InfiniBand", other: "not RDMA"})[name] || words(name);
const sentence = text => capital(text) + (/[.?!]$/.test(text) ? "" : ".");
const capital = text => text.charAt(0).toUpperCase() + text.slice(1);

/** Creates an element: element("p", {class: "note"}, "text", another). on: {click: …} adds listeners. */
function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}
function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}
function filled(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "on") {
      for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    } else if (value === true) {
      node.setAttribute(key, "");
    } else if (known(value) && value !== false) {
      node.setAttribute(key, value);
    }
  }
  node.append(...children.flat(Infinity).filter(child => known(child) && child !== false));
  return node;
}
/** Escapes HTML for DataTables. */
const escaped = text => String(text).replace(/[&<>"']/g, letter => `&#${letter.charCodeAt(0)};`);
const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
