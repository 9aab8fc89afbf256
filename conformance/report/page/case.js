// One case: what its rule asks, how it ended, and every step of it, with the frames to be opened.

/** The frame's headers, as tables, and its bytes; those of the header that is pointed at are marked. */
function frame_body(step) {
  const decoded = object(data.frames[step.decoded]);
  const bytes = step.frame.match(/../g) || [];
  const marks = [];
  const dump = element("div", {class: "hex", "aria-label": "bytes in hexadecimal"});
  for (let at = 0; at < bytes.length; at += 16) {
    dump.append(element("span", {class: "at"}, at.toString(16).padStart(4, "0")));
    const row = element("span", {class: "bytes"});
    bytes.slice(at, at + 16).forEach((byte, i) => {
      marks[at + i] = element("i", {}, byte);
      row.append(marks[at + i], " ");
    });
    dump.append(row);
  }
  const mark = (offset, length, on) => marks.slice(offset, offset + length).forEach(byte => byte.classList.toggle("on", on));
  const layer = one => {
    const rows = Object.entries(object(one.fields)).filter(([name]) => !name.endsWith("_name"));
    const value = ([name, raw]) => {
      const called = one.fields[`${name}_name`];
      const number = typeof raw === "number" && raw > 9 ? `${raw} (0x${raw.toString(16)})` : typeof raw === "object" ? JSON.stringify(raw) : String(raw);
      return known(called) ? `${called}, ${number}` : number;
    };
    const node = element("details", {class: "layer", open: !["eth", "ip", "ipv6", "udp"].includes(one.protocol)},
        element("summary", {}, element("b", {}, one.protocol), ` ${plural(one.length, "byte")} at ${one.offset}`),
        element("table", {class: "plain"}, element("tbody", {}, rows.map(row => element("tr", {}, element("th", {scope: "row"}, row[0]), element("td", {}, value(row)))))));
    for (const [event, on] of [["pointerenter", true], ["pointerleave", false], ["focusin", true], ["focusout", false]]) {
      node.addEventListener(event, () => mark(one.offset, one.length, on));
    }
    return node;
  };
  const rest = [
    decoded.payload && `payload: ${plural(decoded.payload.length, "byte")} at ${decoded.payload.offset}`,
    decoded.icrc && `ICRC ${decoded.icrc.value ?? ""}: ${decoded.icrc.status}`,
    step.length > bytes.length && `the first ${bytes.length} of ${step.length} bytes; the capture has all`,
  ].filter(Boolean);
  return element("div", {class: "opened"}, element("div", {class: "layers"}, list(decoded.layers).map(layer), rest.map(text => element("p", {class: "hint"}, text))), dump);
}

/** The conversation: the tester at the left, the device at the right, time downwards. */
function ladder(row) {
  const steps = list(row.steps);
  const start = steps.length ? steps[0].time_ns : 0;
  const rows = steps.map(step => {
    const time = element("span", {class: "time"}, duration(step.time_ns - start));
    const arrow = element("span", {class: "arrow", "aria-hidden": "true"});
    const way = {sent: "to the device: ", received: "from the device: "}[step.kind];
    if (!known(step.frame) && way) // of iWARP: what its frames carry, which follow
      return element("li", {class: `step ${step.kind}`}, time, element("span", {class: "said"}, element("span", {class: "visually-hidden"}, way), step.text, arrow));
    if (!known(step.frame)) {
      const sign = {expected: "✓", deviation: "✗", verbs: "verbs", observed: "seen"}[step.kind] ?? "";
      return element("li", {class: `step ${step.kind}`}, time, element("span", {class: "said"}, sign && element("b", {}, sign), " ", step.text));
    }
    const button = element("button", {type: "button", "aria-expanded": "false"}, way && element("span", {class: "visually-hidden"}, way), step.text);
    const item = element("li", {class: `step ${step.kind}`}, time, element("span", {class: "said"}, button, way && arrow));
    button.addEventListener("click", () => {
      const open = button.getAttribute("aria-expanded") !== "true";
      button.setAttribute("aria-expanded", String(open));
      if (open) item.append(frame_body(step));
      else item.querySelector(".opened").remove();
    });
    return item;
  });
  return element("div", {class: "steps"}, element("div", {class: "ends", "aria-hidden": "true"}, element("b", {}, "tester"), element("b", {}, "device")),
      element("ol", {}, rows));
}

const known_note = (title, words, tone) => words && element("div", {class: `note ${tone}`}, element("p", {}, element("b", {}, `${title}: `), `${words.verdict}. ${sentence(words.reason)}`),
    element("p", {class: "hint"}, [words.right && `Who is right: ${words.right}`, words.evidence && `evidence: ${words.evidence}`, words.until && `until ${words.until}`].filter(Boolean).join("; ")));

function case_body(row) {
  const facts = [
    ["Rule", [element("code", {}, row.rule), row.alias && `, ${row.alias}`, ` (${row.level})`]],
    ["Clauses", row.clauses],
    ["Seed", element("code", {}, row.seed)],
    ["Took", duration(row.duration_ns)],
    ["Runs", list(row.attempts).length > 0 && row.attempts.map(one => element("span", {class: `chip ${verdicts[one.verdict]}`, title: `--seed ${one.seed}`}, one.verdict))],
    ["Frames", row.capture && element("a", {href: row.capture}, row.capture.split("/").pop())],
  ].filter(([, value]) => value);
  const observed = list(row.observed);
  return [
    element("p", {class: "sentence"}, row.sentence),
    deviates(row.verdict) && element("p", {class: "deviates"}, `Deviates from ${row.clauses} as we read it.`),
    (known(row.expected) || known(row.actual)) && element("dl", {class: "outcome"},
        known(row.expected) && [element("dt", {}, "expected"), element("dd", {}, row.expected)],
        known(row.actual) && [element("dt", {}, deviates(row.verdict) ? "actual" : "because"), element("dd", {}, row.actual)]),
    row.unexpected && element("p", {class: "note error"}, element("b", {}, "Unexpected: "), row.known ? "another result is known of this device." : "nothing is known of this device that explains it."),
    known_note("Known of this device", row.known, "info"),
    known_note("Was waived, and is no longer", row.expired, "warning"),
    known(row.possible_problems) && element("p", {class: "hint"}, `Possible problems: ${sentence(row.possible_problems)}`),
    list(row.complaints).map(text => element("p", {class: "note warning"}, element("b", {}, "The device complains: "), text)),
    observed.length > 0 && element("div", {class: "observed"}, element("h4", {}, "What the monitors say of the frames"),
        observed.map(one => element("div", {class: "note warning"},
            element("p", {}, element("b", {}, one.alias || one.rule), ` deviates from ${one.clauses} as we read it, ${one.count === 1 ? "once" : `${one.count} times`}, first in frame ${one.frame}.`),
            element("p", {}, `Expected: ${one.expected}`), element("p", {}, `Actual: ${one.actual}`),
            one.known && element("p", {class: "hint"}, `Known of this device: ${sentence(one.known.reason)}`)))),
    element("dl", {class: "facts"}, facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)))),
    list(row.steps).length ? ladder(row) : element("p", {class: "hint"}, "Nothing was said."),
  ].flat().filter(Boolean);
}
