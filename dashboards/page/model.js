"use strict";
// The document, what changes it, and what the page remembers of it.  Names from outside become text nodes, never markup.
const byId = (id) => document.getElementById(id);
function make(tag, kind, text) {
  const element = document.createElement(tag);
  if (kind) element.className = kind;
  if (text !== undefined) element.textContent = text;
  return element;
}
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
// The inverse of live_feed.changes.
function applyChange(value, change) {
  if (change === null) return value;
  if (Array.isArray(change)) return change[0];
  if (Array.isArray(value) && "+" in change) return value.slice(change["-"]).concat(change["+"]);
  for (const [key, part] of Object.entries(change)) {
    if (key === "-" && !Array.isArray(value)) for (const gone of part) delete value[gone];
    else value[key] = applyChange(value[key], part);
  }
  return value;
}
const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const clock = (seconds) => new Date(1000 * seconds).toLocaleTimeString("en-GB");
const counted = (number, word) => `${whole.format(number)} ${word}${number === 1 ? "" : "s"}`;
function duration(seconds) { // as views.duration
  if (seconds < 1) return `${Math.max(Math.round(1000 * seconds), 0)}ms`;
  const units = [["d", 86400, 1e9], ["h", 3600, 24], ["m", 60, 60], ["s", 1, 60]];
  const parts = units.map(([name, size, limit]) => [name, Math.floor(seconds / size) % limit]);
  const first = parts.findIndex(([, count]) => count);
  return parts.slice(first, first + 2).filter(([, count]) => count).map(([name, count]) => count + name).join("");
}
const keyOf = (row) => `${row.topic}-${row.partition}`;

const TRACE_S = 60, SAMPLES = 300, SAMPLE_S = 2;
const STATES = { // word, mark
  flowing: ["flowing", ""], moving: ["moving", "⇄"], direct: ["read directly", "↓"],
  held: ["held", "‖"], late: ["late", "◔"], cut: ["cut off", "✕"],
};
const LAGS = [1, 1e3, 1e4, 1e5, 1e6];
const lagStep = (lag) => LAGS.filter((limit) => lag >= limit).length;

// The state of each partition beyond what its row says.
function partitionStates(status) {
  const targets = new Map(), cut = new Set(status.cut_off.map((row) => `${row.member_id} ${keyOf(row)}`));
  for (const member of status.members) for (const [topic, number] of member.target) targets.set(`${topic}-${number}`, member.member_id);
  return (row) => {
    const key = keyOf(row), target = targets.get(key);
    if (row.unreachable !== null || row.open_transaction) return "held";
    if (row.late !== null) return "late";
    if (row.member_id === null) return "direct";
    if (cut.has(`${row.member_id} ${key}`)) return "cut";
    return target !== undefined && target !== row.member_id ? "moving" : "flowing";
  };
}

// Ten minutes of every partition, as far as this page has seen them: records in and out, and behind.
class History {
  constructor() { this.samples = []; this.former = new Map(); this.at = 0; }
  add(status) {
    if (status.now - this.at < SAMPLE_S) return;
    const elapsed = status.now - this.at, now = new Map(), sample = { at: status.now, rows: new Map() };
    for (const row of status.partitions) {
      const key = keyOf(row), end = row.log_end_offset ?? 0, offset = row.current_offset ?? 0, last = this.former.get(key);
      now.set(key, [end, offset]);
      if (last) sample.rows.set(key, Float32Array.of(
        Math.max(end - last[0], 0) / elapsed, Math.max(offset - last[1], 0) / elapsed, row.lag ?? 0, row.lag_seconds ?? NaN));
    }
    if (this.former.size) this.samples.push(sample);
    if (this.samples.length > SAMPLES) this.samples.shift();
    this.former = now;
    this.at = status.now;
  }
  of(keys) { // [time, in, out, records behind, seconds behind], as the document's own samples
    return this.samples.map((sample) => {
      const sum = [sample.at, 0, 0, 0, null];
      for (const key of keys) {
        const row = sample.rows.get(key);
        if (!row) continue;
        for (let place = 0; place < 3; place++) sum[place + 1] += row[place];
        if (!Number.isNaN(row[3])) sum[4] = Math.max(sum[4] ?? 0, row[3]);
      }
      return sum;
    });
  }
}
