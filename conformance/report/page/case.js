// The details of one case: the rule, the verdict, and its steps with the frames.

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
    step.length > bytes.length && `first ${bytes.length} of ${step.length} bytes; the capture contains all`,
  ].filter(Boolean);
  return element("div", {class: "opened"}, element("div", {class: "layers"}, list(decoded.layers).map(layer), rest.map(text => element("p", {class: "hint"}, text))), dump);
}

/** The transcript as a sequence diagram: tester on the left, device on the right. */
function sequence(row) {
  const steps = list(row.steps);
  const start = steps.length ? steps[0].time_ns : 0;
  const rows = steps.map(step => {
    const time = element("span", {class: "time"}, duration(step.time_ns - start));
    const arrow = element("span", {class: "arrow", "aria-hidden": "true"});
    const way = {sent: "to the device: ", received: "from the device: "}[step.kind];
    if (!known(step.frame) && way) // iWARP: the content of the frames, which follow
      return element("li", {class: `step ${step.kind}`}, time, element("span", {class: "said"}, element("span", {class: "visually-hidden"}, way), step.text, arrow));
    if (!known(step.frame)) {
      const sign = {expected: "✓", violation: "✗", verbs: "verbs", observed: "seen"}[step.kind] ?? "";
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
    element("p", {class: "hint"}, [words.right && `conforming: ${words.right}`, words.evidence && `evidence: ${words.evidence}`, words.until && `until ${words.until}`].filter(Boolean).join("; ")));

function case_body(row) {
  const facts = [
    ["Rule", [element("code", {}, row.rule), row.alias && `, ${row.alias}`, ` (${row.level})`]],
    ["Clauses", row.clauses],
    ["Seed", element("code", {}, row.seed)],
    ["Repeat", row.repeat && element("code", {}, row.repeat)],
    ["Duration", duration(row.duration_ns)],
    ["Runs", list(row.attempts).length > 0 && row.attempts.map(one => element("span", {class: `chip ${verdicts[one.verdict]}`, title: `--seed ${one.seed}`}, one.verdict))],
    ["Frames", row.capture && element("a", {href: row.capture}, row.capture.split("/").pop())],
  ].filter(([, value]) => value);
  const observed = list(row.observed);
  return [
    element("p", {class: "sentence"}, row.sentence),
    deviates(row.verdict) && element("p", {class: "deviates"}, `Violates ${row.violated ? `${row.violated.rule}: ${row.violated.clauses}` : row.clauses} (our reading).`),
    (known(row.expected) || known(row.actual)) && element("dl", {class: "outcome"},
        known(row.expected) && [element("dt", {}, "expected"), element("dd", {}, row.expected)],
        known(row.actual) && [element("dt", {}, deviates(row.verdict) ? "actual" : "because"), element("dd", {}, row.actual)]),
    row.unexpected && element("p", {class: "note error"}, element("b", {}, "Unexpected: "), row.known ? "a different result is known for this device." : "no known result of this device explains it."),
    known_note("Known result of this device", row.known, "info"),
    known_note("Expired known result", row.expired, "warning"),
    known(row.possible_problems) && element("p", {class: "hint"}, `Possible problems: ${sentence(row.possible_problems)}`),
    list(row.kernel_messages).map(text => element("p", {class: "note warning"}, element("b", {}, "Kernel message: "), text)),
    list(row.frames).map(one => element("p", {class: "note warning"}, element("b", {}, one.alias || one.rule),
        ` violated in ${one.count === 1 ? "one frame" : `${one.count} frames`}${one.lost ? ", which no receiver would accept" : ""}. Expected: ${one.expected}. Actual: ${one.actual}.`)),
    observed.length > 0 && element("div", {class: "observed"}, element("h4", {}, "Monitor results for the frames"),
        observed.map(one => element("div", {class: "note warning"},
            element("p", {}, element("b", {}, one.alias || one.rule), ` violates ${one.clauses} (our reading), ${one.count === 1 ? "once" : `${one.count} times`}, first in frame ${one.frame}.`),
            element("p", {}, `Expected: ${one.expected}`), element("p", {}, `Actual: ${one.actual}`),
            one.known && element("p", {class: "hint"}, `Known result of this device: ${sentence(one.known.reason)}`)))),
    element("dl", {class: "facts"}, facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)))),
    list(row.steps).length ? sequence(row) : element("p", {class: "hint"}, "No steps were recorded."),
  ].flat().filter(Boolean);
}
