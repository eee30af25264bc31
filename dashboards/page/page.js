// The page: one stream of events, one render a frame.
const base = location.pathname.endsWith("/") ? "" : `${location.pathname.split("/").at(-1)}/`; // behind a proxy's path without its slash
const page = { status: null, chosen: "", history: new History(), drawn: true };
const lanes = new Lanes(byId("lanes"), choose);
const rate = (value) => short.format(value < 10 ? Number(value.toFixed(1)) : Math.round(value));
const charts = [
  chart(byId("charts"), "records a second", [["records/s in", 1, "in"], ["records/s out", 2, "out"]], rate),
  chart(byId("charts"), "records behind", [["records behind", 3, "in"]], rate),
  chart(byId("charts"), "age of the oldest record", [["behind", 4, "in"]], duration),
];

function choose(name) {
  page.chosen = page.chosen === name ? "" : name;
  draw();
}
function chosenKeys(status) {
  const owner = status.members.find((member) => member.client_id === page.chosen);
  if (owner) return owner.owned.map(([topic, number]) => `${topic}-${number}`);
  return page.chosen ? [page.chosen] : null;
}
function renderFlow(status) {
  const keys = chosenKeys(status), row = lanes.cells.get(page.chosen)?.row;
  const samples = keys ? page.history.of(keys) : status.flow.samples;
  for (const redraw of charts) redraw(samples, status.now);
  byId("all").hidden = !keys;
  if (!keys) return setText(byId("chosen"), "all partitions");
  if (!row) return setText(byId("chosen"), `${page.chosen}: ${counted(keys.length, "partition")}, since this page was opened`);
  const offsets = `offset ${row.current_offset ?? "not known"} of ${row.log_end_offset ?? "not known"}`;
  const lag = `${row.lag === null ? "lag not known" : `${whole.format(row.lag)} behind`}${row.lag_seconds ? `, ${duration(row.lag_seconds)}` : ""}`;
  const why = [row.unreachable, row.late].filter(Boolean).map((words) => ` · ${words}`).join("");
  setText(byId("chosen"), `${page.chosen} · ${row.executor === null ? "read directly" : `executor-${row.executor}`} · ${offsets} · ${lag}${why}`);
}
function renderHead(status) {
  const lag = status.partitions.reduce((sum, row) => sum + (row.lag ?? 0), 0), facts = byId("facts");
  const words = [[status.state, ""], [whole.format(status.members.length), ` executor${status.members.length === 1 ? "" : "s"}`],
    [whole.format(status.partitions.length), ` partition${status.partitions.length === 1 ? "" : "s"}`], [whole.format(lag), " behind"], [`generation ${status.generation}`, status.protocol ? ` · ${status.protocol}` : ""]];
  if (status.query?.name) words.unshift([status.query.name, ""]);
  facts.replaceChildren(...words.flatMap(([strong, rest], place) => [place ? " · " : "", make("b", "", strong), rest]));
  setText(byId("group"), status.group);
  document.title = `${status.problems.length ? `(${status.problems.length}) ` : ""}${status.group} · Cohort`;
  setText(byId("live"), `● live, driver's time ${clock(status.now)}`);
}
async function renderQueries() {
  if (window.parent !== window) return; // Spark's tab has links of its own: through its port, these ports can't be reached
  const rows = await fetch(`${base}queries.json`).then((answer) => answer.json()).catch(() => []);
  byId("queries-section").hidden = rows.length < 2;
  byId("queries").replaceChildren(...rows.map((row) => {
    const item = make("li"), port = new URL(row.page).port, link = make(port === location.port ? "b" : "a", "", row.group);
    if (link.href !== undefined) link.href = `${location.protocol}//${location.hostname}:${port}/`;
    item.append(link, ` · ${row.health}`);
    return item;
  }));
}
function render() {
  page.drawn = true;
  const status = page.status;
  if (!status) return;
  renderHead(status);
  renderProblems(byId("problems"), status.problems, status.now);
  lanes.update(status, page.chosen);
  renderFlow(status);
  renderBatch(byId("batch"), status.batches.in_flight, status.now);
  renderWrites(byId("writes"), status.writes);
  renderRebalances(status, (generation) => showStory(base, generation));
}
function draw() {
  if (!page.drawn) return;
  page.drawn = false;
  if (document.hidden) setTimeout(render, 1000);
  else requestAnimationFrame(render);
}
function isGone(reason) {
  const since = page.status ? ` since ${clock(page.status.now)}` : "";
  setText(byId("gone"), `No answer from the driver${since}: ${reason}. What is below is the last that it said.`);
  byId("gone").hidden = false;
  document.body.classList.add("gone");
  setText(byId("live"), `○ not live${since}`);
}
function take(status) {
  page.status = status;
  page.history.add(status);
  byId("gone").hidden = true;
  document.body.classList.remove("gone");
  draw();
}
function listen() {
  const events = new EventSource(`${base}events`);
  events.addEventListener("document", (event) => take(JSON.parse(event.data)));
  events.addEventListener("change", (event) => take(applyChange(page.status, JSON.parse(event.data))));
  events.addEventListener("failed", (event) => isGone(JSON.parse(event.data)));
  events.addEventListener("error", () => {
    clearTimeout(page.late);
    page.late = setTimeout(() => events.readyState !== EventSource.OPEN && isGone("it has ended, or can't be reached"), 1500);
    if (events.readyState === EventSource.CLOSED) setTimeout(listen, 3000); // refused: too many viewers, or another server
  });
}
function renderLegend() {
  const items = [["l0", "", "0 behind"], ...LAGS.slice(0).map((limit, place) => [`l${place + 1}`, "", limit === 1 ? "1" : short.format(limit)])];
  for (const [state, [word, mark]] of Object.entries(STATES)) if (mark) items.push([state, mark, word]);
  items.push(["came", "", "came within a minute"]);
  byId("legend").replaceChildren(...items.map(([kind, mark, words]) => {
    const item = make("span"), cell = make("span", `cell ${kind}`);
    cell.append(make("i", "", mark));
    item.append(cell, words);
    return item;
  }));
}
byId("all").addEventListener("click", () => choose(page.chosen));
byId("lookup").addEventListener("input", (event) => {
  const found = event.target.value.trim() ? lanes.find(event.target.value) : "";
  event.target.classList.toggle("none", found === undefined);
  page.chosen = found ?? "";
  const cell = lanes.cells.get(page.chosen)?.element;
  cell?.scrollIntoView({ block: "nearest" });
  lanes.focus(cell);
  draw();
});
renderLegend();
listen();
renderQueries();
setInterval(() => document.hidden || document.body.classList.contains("gone") || renderQueries(), 15000);
