// The two JSON objects in the page, and functions that look up values in them.

const data = {report: {}, details: {}, start: null, connections: new Map(), plotted: new Map(), sequences: new Map()};

/** Reads both objects. Throws an Error if the report is not JSON. */
async function read_data() {
  for (const name of ["report", "details"]) {
    const text = await carried(`${name}-data`);
    try {
      data[name] = object(text.trim() ? JSON.parse(text) : {});
    } catch (error) {
      if (name === "report") throw new Error(`The report in this page is not JSON: ${error.message}`);
    }
  }
  const {report, details} = data;
  data.start = known(object(report.summary).first_time) ? nanoseconds(report.summary.first_time) : null;
  for (const row of list(report.connections)) data.connections.set(row.connection, row);
  for (const row of list(details.connections)) data.plotted.set(row.connection, row);
  for (const row of list(details.sequences)) data.sequences.set(row.finding, row);
}

/** Time since the start of the capture, in nanoseconds, or null. */
function since_start(time) {
  const ns = known(time) ? nanoseconds(time) : null;
  return ns === null || data.start === null ? null : Number(ns - data.start);
}

const is_iwarp = row => /^iwarp$/i.test(object(row).service ?? "");

/** Formats an endpoint: "10.0.0.2 QP 0x11". */
function end_name(end, iwarp) {
  end = object(end);
  const qp = known(end.qp) ? iwarp ? `port ${end.qp}` : `QP 0x${Number(end.qp).toString(16)}` : "";
  return [end.address, qp].filter(known).join(" ").trim() || "unknown";
}
function connection_name(row) {
  return row ? `${end_name(row.a, is_iwarp(row))} ↔ ${end_name(row.b, is_iwarp(row))}` : "unknown";
}
