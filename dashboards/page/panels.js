// Everything beside the lanes.
function renderProblems(root, rows, now) {
  const shown = JSON.stringify(rows.map((row) => [row.alert, row.text]));
  if (root.shown !== shown) { // opened ones stay open while nothing else comes or goes
    root.shown = shown;
    root.replaceChildren(...(rows.length ? rows.map((row) => problem(row, rows.length <= 2)) : [make("p", "quiet", "✓ Nothing is wrong.")]));
  }
  rows.forEach((row, place) => setText(root.children[place].since, `since ${clock(row.began_at)}, ${now - row.began_at < 1 ? "just now" : duration(now - row.began_at)}`));
}
function problem(row, open) {
  const element = make("details", `problem ${row.severity}`), summary = make("summary"), meaning = make("p"), remedy = make("p");
  summary.append(make("b", "", `${row.severity === "page" ? "‼ Look now: " : "! Look today: "}`), row.text, " ", (element.since = make("span")));
  meaning.append(...withCode(row.meaning));
  remedy.append(make("b", "", "Do: "), ...withCode(row.do), make("span", "quiet", ` (${row.link})`));
  element.append(summary, meaning, remedy);
  element.open = open;
  return element;
}
const withCode = (words) => words.split("`").map((part, place) => (place % 2 ? make("code", "", part) : part));

const SVG = "http://www.w3.org/2000/svg";
function chart(root, title, lines, format) { // lines: [legend, samples' place, kind]
  const element = make("div", "chart"), head = make("h3"), svg = document.createElementNS(SVG, "svg"), foot = make("div");
  svg.setAttribute("viewBox", "0 0 600 96");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  const paths = ["grid", "area", ...lines.map(([, , kind]) => kind)].map((kind) => {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("class", kind);
    svg.append(path);
    return path;
  });
  const values = lines.map(([legend, , kind]) => {
    const span = make("span", kind), value = make("b");
    span.append(make("span", "key"), value, legend);
    head.append(span);
    return value;
  });
  const most = make("span"), begin = make("span");
  foot.append(begin, most, make("span", "", "now"));
  element.append(head, svg, foot);
  root.append(element);
  return (samples, now) => {
    const rows = samples.filter((sample) => sample[0] > now - 600), span = rows.length && now - rows[0][0] > 120 ? 600 : 120;
    setText(begin, `${span / 60} minutes ago`);
    const top = Math.max(1e-9, ...lines.flatMap(([, place]) => rows.map((sample) => sample[place] ?? 0)));
    const x = (at) => (600 * (1 - (now - at) / span)).toFixed(1), y = (value) => (94 - (88 * value) / top).toFixed(1);
    const draw = (place) => rows.filter((sample) => sample[place] !== null)
      .map((sample, index, every) => `${index && sample[0] - every[index - 1][0] < 60 ? "L" : "M"}${x(sample[0])} ${y(sample[place])}`).join("");
    paths[0].setAttribute("d", "M0 95H600M0 50H600M0 6H600");
    lines.forEach(([, place], index) => paths[index + 2].setAttribute("d", draw(place)));
    const known = rows.filter((sample) => sample[lines[0][1]] !== null);
    paths[1].setAttribute("d", known.length > 1 ? `M${x(known[0][0])} 95${known.map((sample) => `L${x(sample[0])} ${y(sample[lines[0][1]])}`).join("")}L${x(known.at(-1)[0])} 95Z` : "");
    const last = rows.at(-1), words = lines.map(([, place]) => (last && last[place] !== null ? format(last[place]) : "–"));
    words.forEach((word, index) => setText(values[index], word));
    setText(most, rows.length ? `highest ${format(top > 1e-9 ? top : 0)}` : "the first samples are on their way");
    svg.setAttribute("aria-label", `${title}: ${lines.map(([legend], index) => `${words[index]} ${legend}`).join(", ")}`);
  };
}

function renderBatch(root, batch, now) {
  if (!root.firstChild) root.append(make("p", "big"), make("progress"), make("p"), make("p", "quiet"));
  const [name, bar, ranges, waits] = root.children, active = batch && !batch.may_be_over;
  bar.hidden = !active;
  bar.setAttribute("aria-label", "ranges delivered");
  if (!active) {
    setText(name, "none");
    setText(ranges, "The query waits for records, or for its next trigger.");
    setText(waits, "");
    return;
  }
  const every = batch.ranges_delivered + batch.ranges_owed;
  setText(name, `${batch.number === null ? "a batch" : `batch ${batch.number}`}, for ${duration(batch.age_ms / 1000)}`);
  bar.max = Math.max(every, 1);
  bar.value = batch.ranges_delivered;
  setText(ranges, `${whole.format(batch.ranges_delivered)} of ${counted(every, "range")} delivered`);
  setText(waits, `waits for ${batch.waits_for}`);
}

function renderWrites(root, writes) {
  byId("writes-section").hidden = !writes;
  const shown = JSON.stringify(writes);
  if (!writes || root.shown === shown) return;
  root.shown = shown;
  const table = make("table", "rows"), head = make("tr"), { last } = writes;
  head.append(...["topic", "rows", "bytes", "batches", "retries"].map((name, place) => make("th", place ? "num" : "", name)));
  table.append(head, ...Object.entries(writes.topics).map(([topic, row]) => {
    const element = make("tr"), figures = [row.rows, row.bytes, row.batches, row.retries];
    element.append(make("td", "", topic), ...figures.map((figure) => make("td", "num", whole.format(figure))));
    return element;
  }));
  const waited = `The tasks of the last batch waited ${last.waited_s.toFixed(1)} s of ${last.tasks_s.toFixed(1)} s for brokers.`;
  const lines = [`${waited} Batches not written whole: ${whole.format(writes.failed_batches)}.`];
  if (writes.commits.committed) lines.push(`Transactions committed: ${whole.format(writes.commits.committed)}, aborted: ${whole.format(writes.commits.aborted)}.`);
  root.replaceChildren(table, ...lines.map((line) => make("p", "quiet", line)));
}

function renderRebalances(status, show) {
  const line = byId("timeline"), list = byId("rebalances"), now = status.now;
  const rows = status.rebalances.filter((row) => now - row.at < 3600);
  const shown = rows.map((row) => row.generation).join();
  if (line.shown !== shown) {
    line.shown = shown;
    line.replaceChildren(...rows.map((row) => {
      const mark = make("button", row.result.startsWith("failed") ? "failed" : "");
      mark.type = "button";
      mark.title = `${clock(row.at)}: ${row.cause}; ${row.moved.length} moved, ${row.kept} kept, ${row.duration_ms} ms`;
      mark.setAttribute("aria-label", mark.title);
      mark.style.height = `${Math.min(14 + 8 * Math.log2(1 + row.moved.length), 42)}px`;
      mark.addEventListener("click", () => show(row.generation));
      return mark;
    }));
    const table = make("table", "rows"), head = make("tr"), ticks = make("div", "ticks");
    for (const name of ["when", "cause", "moved", "kept", "took"]) head.append(make("th", "", name));
    table.append(head, ...rows.slice(-6).reverse().map((row) => rebalanceRow(row, show)));
    ticks.append(make("span", "", "an hour ago"), make("span", "", "30 minutes"), make("span", "", "now"));
    list.replaceChildren(ticks, rows.length ? table : make("p", "quiet", "none"));
  }
  rows.forEach((row, place) => { line.children[place].style.left = `${100 * (1 - (now - row.at) / 3600)}%`; });
}
function rebalanceRow(row, show) {
  const element = make("tr"), when = make("td", "num"), link = make("button", "", clock(row.at));
  link.type = "button";
  link.addEventListener("click", () => show(row.generation));
  when.append(link);
  const failed = row.result.startsWith("failed") ? ` (${row.result})` : "";
  const figures = [whole.format(row.moved.length), whole.format(row.kept), `${whole.format(row.duration_ms)} ms`];
  element.append(when, make("td", "", row.cause + failed), ...figures.map((text) => make("td", "num", text)));
  return element;
}

// As `cohort rebalances --show` tells it.
async function showStory(base, generation) {
  const dialog = byId("story"), body = byId("story-body");
  setText(byId("story-head"), `Rebalance to generation ${generation}`);
  body.replaceChildren("…");
  dialog.showModal();
  try {
    const answer = await fetch(`${base}rebalances/${generation}`), story = await answer.json();
    if (!story.assignments) throw new Error("it is no longer in the driver's history");
    const lines = [
      `${story.result}; ended ${clock(story.at)} after ${whole.format(story.duration_ms)} ms; ${story.protocol}`,
      `reason: ${story.reason || "unknown"}`,
      `${counted(story.members, "member")}, ${counted(story.moved, "partition")} moved, ${story.revoked} revoked`,
      ...story.removed.map((row) => `gone: ${row.client_id ?? row.member_id}, ${row.reason}`),
    ];
    const table = make("table", "rows"), head = make("tr");
    for (const name of ["executor", "host", "before", "after", "kept", "gained", "lost", "gives up"]) head.append(make("th", "", name));
    table.append(head, ...story.assignments.map(storyRow));
    body.replaceChildren(...lines.map((words) => make("p", "", words)), table);
  } catch (error) {
    body.replaceChildren(make("p", "", `No answer: ${error.message}`));
  }
}
function storyRow(row) {
  const routes = (word, rows) => {
    const peers = Map.groupBy ? Map.groupBy(rows, (one) => one[word]) : new Map([[null, rows]]);
    return [...peers].map(([peer, some]) => `${names(some)} ${word} ${peer ?? "nobody"}`).join("; ");
  };
  const cells = [(row.client_id ?? row.member_id) + (row.present ? "" : " (gone)"), row.host ?? "–", String(row.before.length), String(row.after.length),
    names(row.kept), routes("from", row.gained), routes("to", row.lost), names(row.giving_up)];
  const element = make("tr");
  element.append(...cells.map((text) => make("td", "", text || "–")));
  return element;
}
function names(rows) { // as group.summary.ranges
  const topics = new Map();
  for (const row of rows) topics.set(row.topic, [...(topics.get(row.topic) ?? []), row.partition]);
  return [...topics].map(([topic, numbers]) => {
    const spans = [];
    for (const number of numbers.sort((one, other) => one - other)) {
      if (spans.length && spans.at(-1)[1] === number - 1) spans.at(-1)[1] = number;
      else spans.push([number, number]);
    }
    return `${topic}-${spans.map(([first, last]) => (first === last ? first : `${first}..${last}`)).join()}`;
  }).join("; ");
}
