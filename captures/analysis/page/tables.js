// Shows the tables of the report with DataTables, which provides sorting, filters and pages. All HTML for DataTables is
// escaped here.

/** Columns by table, in order. Other keys of the rows follow. "-": initially hidden. */
const table_columns = {
  connections: "connection service wire a.address a.qp b.address b.qp confidence mtu sent.a.packets sent.b.packets sent.a.payload_bytes sent.b.payload_bytes sent.a.retransmitted_packets sent.b.retransmitted_packets first_time -paired_by -mtu_negotiated -upper -service_port -first_frame -last_frame -last_time -opened_frame -closed_frame -replaced",
  flows: "connection from ip_src ip_dst ip_dscp src_qp dest_qp frames_tx frames_rx frames_retransmitted frame_sequence_error nak_tx nak_rx ecn_ce_rx cnp_tx cnp_rx message_complete_rx message_fail flow_completion_time latency_max",
  mrc_connections: "connection from from_qp to to_qp packets payload_bytes messages messages_completed paths_good paths_congested paths_failed retransmitted trimmed ecn_marked sacks nacks reordering_depth first_time -reverse -last_time",
  mrc_paths: "connection flow_label source_port state state_frame packets retransmitted trimmed ecn_marked out_of_order without_response congested_sacks bad_sacks nacks probes probe_responses",
  operations: "operation messages bytes completed refused size_min size_max sizes",
  latency: "operation size_from size_to phase count min_ns p50_ns p90_ns p99_ns p999_ns max_ns",
  retransmissions: "cause recoveries packets bytes duration_ns",
  naks: "code count",
  regions: "responder key address_from address_to read_bytes written_bytes atomics refused messages",
  talkers: "from to packets bytes payload_bytes queue_pairs source_ports",
  endpoints: "address queue_pairs sent_packets sent_bytes received_packets received_bytes",
  congestion: "dscp ecn kind packets",
  pauses: "source priority frames pause_ns first_frame",
  incast: "receiver time window_ns senders bytes",
  crc_errors: "from to count cause first_frame",
  events: "kind cause severity connection end frame last_frame origin_frame cause_frame time duration_ns packets bytes psn value observed",
  counters: "name before after difference in_capture note",
  files: "name packets bytes first_frame lost_by_capture",
};
const most_columns = 80;

function table_rows(name) {
  const {report} = data;
  switch (name) {
    case "retransmissions": return Object.entries(object(report.retransmissions)).map(([cause, row]) => ({cause, ...object(row)}));
    case "naks": return Object.entries(object(report.naks)).map(([code, count]) => ({code, count}));
    case "congestion": return list(object(report.congestion).classes);
    case "mrc_connections": return list(object(report.mrc).connections).map(row => ({...row, nacks: list(row.nacks).map(nack => `${nack.reason ?? nack.code}: ${nack.count}`)}));
    case "mrc_paths": return list(object(report.mrc).paths);
    case "files": return list(object(report.input).files);
    case "counters": return list(Array.isArray(report.counters) ? report.counters : object(report.counters).rows);
    default: return list(report[name]);
  }
}

const reach = path => {
  const keys = path.split(".");
  return keys.length === 1 ? row => row[path] : row => {
    let value = row;
    for (const key of keys) value = value === null || value === undefined ? undefined : value[key];
    return value;
  };
};

function columns_of(name, rows) {
  const columns = table_columns[name].split(" ").map(column => ({name: column.replace("-", ""), shown: !column.startsWith("-")}));
  const there = new Set(columns.map(column => column.name));
  // Almost all rows have the same keys, so the first and the last hundred rows are sufficient.
  for (const row of rows.length > 200 ? rows.slice(0, 100).concat(rows.slice(-100)) : rows) {
    for (const key of Object.keys(flattened(object(row)))) {
      const whole_array = [...there].some(prefix => key.startsWith(`${prefix}.`));
      if (!there.has(key) && !whole_array && there.size < most_columns) {
        there.add(key);
        columns.push({name: key, shown: false});
      }
    }
  }
  const sample = rows.slice(0, 1000);
  return columns.map(column => {
    const get = reach(column.name);
    const found = sample.find(row => known(get(row)));
    const value = found && get(found);
    const kind = /(^|_)time$/.test(column.name) && column.name !== "flow_completion_time" ? "time"
        : typeof value !== "number" ? "text" : /_ns$|^flow_completion_time$|(^|\.)latency_(max|sum)$/.test(column.name) ? "duration" : "number";
    return {...column, get, kind, linked: column.name === "connection" && !name.startsWith("mrc_"), empty: value === undefined};
  }).filter(column => !column.empty || column.shown);
}

function cell_text(value, kind) {
  if (!known(value)) return "";
  if (kind === "duration" && typeof value === "number") return duration(value);
  if (kind === "time") {
    const ns = since_start(value);
    return ns === null ? String(value) : `${ns < 0 ? "−" : "+"}${Math.floor(Math.abs(ns) / 1e9)}.${String(Math.abs(ns) % 1e9).padStart(9, "0")} s`;
  }
  if (typeof value === "number") return Number.isInteger(value) ? integer.format(value) : String(value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) {
    const texts = value.map(item => item && typeof item === "object" ? known(item.from) && known(item.messages) ? `${item.from}–${item.to}: ${integer.format(item.messages)}` : Object.values(item).join(" ") : String(item));
    return texts.slice(0, 12).join(", ") + (texts.length > 12 ? " …" : "");
  }
  if (typeof value === "object") return Object.entries(flattened(value)).filter(([, inner]) => known(inner)).map(([key, inner]) => `${words(key)} ${inner}`).join(", ");
  return String(value);
}

const sort_value = (value, kind) => {
  if (!known(value)) return kind === "text" ? "" : -Infinity;
  if (kind === "time") return since_start(value) ?? -Infinity;
  return kind === "text" ? cell_text(value, kind) : value;
};

function data_tables_column({name, get, kind, shown, linked}) {
  const numeric = kind !== "text";
  return {
    title: escaped(name), name, visible: shown, className: numeric ? `number ${kind}` : "", type: numeric ? "num" : "string", orderSequence: numeric ? ["desc", "asc"] : ["asc", "desc"],
    data: (row, type) => {
      const value = get(row);
      if (type === "sort" || type === "type") return sort_value(value, kind);
      const text = cell_text(value, kind);
      if (type !== "display") return escaped(text);
      if (linked && known(value)) return `<a href="#connection=${escaped(value)}">${escaped(text)}</a>`;
      if (name === "severity") return `<span class="badge ${escaped(value)}">${escaped(text)}</span>`;
      const title = kind === "time" && known(value) ? date(value) : kind === "duration" && known(value) ? `${integer.format(value)} ns` : "";
      return title ? `<span title="${escaped(title)}">${escaped(text)}</span>` : escaped(text);
    },
  };
}

/** Converts a column filter to a predicate: "> 10", "10..20", "= text", "!text", or a part of the text. */
function column_test(text, {get, kind}) {
  text = text.trim();
  if (!text) return null;
  const scale = kind === "duration" ? {ns: 1, us: 1e3, µs: 1e3, ms: 1e6, s: 1e9} : {k: 1e3, M: 1e6, G: 1e9};
  const number = part => {
    const match = /^(-?[\d,]*\.?\d+)\s*([a-zµ]*)$/i.exec(part.trim());
    return match && (match[2] === "" || scale[match[2]]) ? Number(match[1].replace(/,/g, "")) * (scale[match[2]] || 1) : NaN;
  };
  const raw = row => kind === "time" ? (since_start(get(row)) ?? NaN) / 1e9 : Number(get(row) ?? NaN);
  const range = /^(.+)\.\.(.+)$/.exec(text);
  if (kind !== "text" && range && !Number.isNaN(number(range[1])) && !Number.isNaN(number(range[2]))) {
    const [low, high] = [number(range[1]), number(range[2])];
    return row => raw(row) >= low && raw(row) <= high;
  }
  const operator = /^(>=|<=|>|<|=|!)\s*(.*)$/.exec(text);
  if (operator && kind !== "text" && !Number.isNaN(number(operator[2]))) {
    const limit = number(operator[2]);
    return row => ({">=": raw(row) >= limit, "<=": raw(row) <= limit, ">": raw(row) > limit, "<": raw(row) < limit, "=": raw(row) === limit, "!": raw(row) !== limit})[operator[1]];
  }
  const wanted = (operator ? operator[2] : text).toLowerCase();
  const plain = row => cell_text(get(row), kind).toLowerCase();
  if (operator && operator[1] === "=") return row => plain(row) === wanted;
  if (operator && operator[1] === "!") return row => !plain(row).includes(wanted);
  return row => plain(row).includes(wanted) || kind !== "text" && String(get(row) ?? "").includes(wanted);
}

const made_tables = new Map();

function make_table(name, panel) {
  const rows = table_rows(name);
  const columns = columns_of(name, rows);
  const table = element("table", {id: `table-${name}`, class: "data", "aria-label": words(name)});
  const search = element("input", {type: "search", id: `search-${name}`, placeholder: "Search all columns", "aria-label": `Search ${words(name)}`});
  const count = element("span", {class: "hint", role: "status"});
  const picker = element("details", {class: "picker"}, element("summary", {}, "Columns"));
  const save = element("button", {type: "button", class: "small", title: "Save the visible rows and columns in the displayed order"}, "Save CSV");
  const help = element("span", {class: "hint wide"}, "Column filters: text, =text, !text, >10, <1ms, 10..20");
  panel.append(element("div", {class: "controls"}, search, picker, save, count, help), element("div", {class: "scroll"}, table));

  const tests = new Map();
  const api = $(table).DataTable({
    data: rows, columns: columns.map(data_tables_column), deferRender: true, autoWidth: false, orderClasses: false, order: [], orderMulti: true, orderCellsTop: true,
    pageLength: 25, lengthMenu: [[10, 25, 50, 100, 500], [10, 25, 50, 100, 500]], pagingType: "simple_numbers", dom: "t<'pages'lp>",
    language: {emptyTable: "No rows.", zeroRecords: "No row matches the filter.", lengthMenu: "_MENU_ rows per page"},
    drawCallback() {
      const info = new $.fn.dataTable.Api(this).page.info();
      count.textContent = info.recordsDisplay === info.recordsTotal ? plural(info.recordsTotal, "row") : `${integer.format(info.recordsDisplay)} of ${plural(info.recordsTotal, "row")}`;
    },
  });
  made_tables.set(name, {api, tests, table});

  const later = (action, wait = rows.length > 2000 ? 150 : 0) => {
    let timer = 0;
    return () => { clearTimeout(timer); timer = setTimeout(action, wait); };
  };
  search.addEventListener("input", later(() => api.search(search.value, false, true).draw()));

  const filters = element("tr", {class: "filters"});
  const make_filters = () => filters.replaceChildren(...columns.filter((_, at) => api.column(at).visible()).map(column => {
    const input = element("input", {type: "text", "aria-label": `Filter ${column.name}`, "data-column": column.name, value: (tests.get(column) || {}).text || ""});
    input.addEventListener("input", later(() => {
      const test = column_test(input.value, column);
      if (test) tests.set(column, {test, text: input.value}); else tests.delete(column);
      api.draw();
    }));
    return element("td", {}, input);
  }));
  make_filters();
  if (rows.length > 1) table.tHead.append(filters);

  columns.forEach((column, at) => {
    const box = element("input", {type: "checkbox", "data-column": column.name, on: {change: () => {
      api.column(at).visible(box.checked, false);
      make_filters();
    }}});
    box.checked = column.shown;
    picker.append(element("label", {}, box, ` ${column.name}`));
  });
  picker.hidden = columns.length < 3;

  save.addEventListener("click", () => {
    const visible = columns.filter((_, at) => api.column(at).visible());
    const quoted = value => {
      let text = known(value) ? typeof value === "object" ? JSON.stringify(value) : String(value) : "";
      if (/^[=+\-@\t]/.test(text) && Number.isNaN(Number(text))) text = `'${text}`;  // so that a spreadsheet does not evaluate it as a formula
      return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
    };
    const lines = [visible.map(column => quoted(column.name)), ...api.rows({search: "applied", order: "applied"}).data().toArray().map(row => visible.map(column => quoted(column.get(row))))];
    const url = URL.createObjectURL(new Blob([lines.map(line => line.join(",")).join("\n"), "\n"], {type: "text/csv"}));
    element("a", {href: url, download: `${name}.csv`}).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  });
  return api;
}

function show_congestion(panel) {
  const congestion = object(data.report.congestion);
  const delay = object(congestion.ce_to_cnp_ns);
  const facts = [
    ...["ecn_capable", "ecn_marked", "cnps", "rate_fell", "rate_unchanged"].filter(name => known(congestion[name])).map(name => [words(name), integer.format(congestion[name])]),
    ...["p50", "p99"].filter(name => known(delay[name])).map(name => [`CE to CNP, ${name}`, duration(delay[name])]),
  ];
  if (facts.length) panel.append(element("dl", {class: "facts"}, facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)))));
}

function open_table(name) {
  document.querySelectorAll("#tables [role=tab]").forEach(tab => {
    const active = tab.dataset.table === name;
    tab.setAttribute("aria-selected", String(active));
    tab.tabIndex = active ? 0 : -1;
  });
  document.querySelectorAll("#tables [role=tabpanel]").forEach(panel => { panel.hidden = panel.dataset.table !== name; });
  const panel = document.getElementById(`panel-${name}`);
  if (panel && !panel.firstChild) {
    if (name === "congestion") show_congestion(panel);
    make_table(name, panel);
  }
}

function show_tables() {
  const names = Object.keys(table_columns).filter(name => table_rows(name).length || name === "congestion" && Object.values(object(data.report.congestion)).some(value => value > 0));
  if (!names.length) return;
  $.fn.dataTable.ext.errMode = "none";
  $.fn.dataTable.ext.search.push((settings, cells, at, row) => {
    for (const {tests, table} of made_tables.values()) {
      if (table === settings.nTable) {
        for (const {test} of tests.values()) if (!test(row)) return false;
        break;
      }
    }
    return true;
  });
  const place = document.getElementById("tables");
  place.hidden = false;
  const tabs = names.map(name => element("button", {type: "button", role: "tab", id: `tab-${name}`, "data-table": name, "aria-controls": `panel-${name}`, on: {
    click: () => open_table(name),
    keydown: event => {
      const to = {ArrowRight: 1, ArrowLeft: -1}[event.key];
      if (!to) return;
      const next = tabs[(names.indexOf(name) + to + names.length) % names.length];
      next.focus();
      next.click();
    },
  }}, capital(words(name)), element("span", {class: "count"}, integer.format(table_rows(name).length))));
  place.append(element("div", {class: "heading"}, element("h2", {id: "tables-heading"}, "Tables"), element("p", {class: "hint"}, "Column names are those of the JSON report. Times are relative to the first packet.")),
               element("div", {class: "tabs", role: "tablist", "aria-label": "Tables"}, tabs),
               ...names.map(name => element("div", {class: "panel", role: "tabpanel", id: `panel-${name}`, "data-table": name, "aria-labelledby": `tab-${name}`, hidden: true})));
  open_table(names[0]);
}
