// A lane for each executor, a cell for each partition.  A cell that stays keeps its element and its slot; one that moves
// travels to the first free slot of its new lane, and its old slot says for a minute where it went.
const bare = (name) => name.replace("executor-", "");
class Lanes {
  constructor(root, choose) {
    this.root = root;
    this.choose = choose;
    this.cells = new Map(); // by key: {element, lane, from, until, row}
    this.lanes = new Map(); // by member id, "" for what tasks read directly
    this.focused = null;
    this.direct = this.lane("", "read directly");
    root.addEventListener("click", (event) => this.onClick(event));
    root.addEventListener("keydown", (event) => this.onKey(event));
  }
  lane(id, name) {
    const element = make("div", id ? "lane" : "lane direct empty"), head = make("button", "name"), cells = make("div", "cells");
    const lane = { id, name, element, head, cells, slots: [], until: 0 };
    head.type = "button";
    head.append(make("b", "", name), make("span"));
    head.setAttribute("aria-pressed", "false");
    head.lane = lane;
    element.append(head, cells);
    this.root.insertBefore(element, id ? this.direct.element : null);
    this.lanes.set(id, lane);
    return lane;
  }
  update(status, chosen) {
    const dense = status.partitions.length > 300, topics = new Set(status.partitions.map((row) => row.topic));
    this.root.classList.toggle("dense", dense);
    this.root.classList.toggle("wide", topics.size > 1 && !dense);
    byId("lanes-section").classList.toggle("whole", dense);
    this.plain = topics.size === 1;
    this.dense = dense;
    const members = new Map(status.members.map((member) => [member.member_id, member])), moves = [];
    for (const member of status.members) if (!this.lanes.has(member.member_id)) this.lane(member.member_id, member.client_id);
    for (const lane of this.lanes.values()) {
      if (lane.id && !members.has(lane.id)) lane.until ||= status.now + TRACE_S;
    }
    const stateOf = partitionStates(status), keys = new Set();
    const past = this.cells.size ? null : this.pastOwners(status);
    for (const row of status.partitions) {
      const key = keyOf(row), lane = this.lanes.get(row.member_id ?? "") ?? this.direct;
      keys.add(key);
      let cell = this.cells.get(key);
      if (!cell) {
        this.place(cell = this.cell(key, row), lane);
        const from = past.get?.(key);
        if (from && from[0] !== lane.name) [cell.from, cell.until] = [from[0], from[1] + TRACE_S];
      } else if (cell.lane !== lane) {
        moves.push([cell, lane, cell.element.getBoundingClientRect()]);
      }
      cell.row = row;
    }
    for (const [cell, lane] of moves) {
      this.leave(cell, lane, status.now);
      if (cell.lane.id || status.now > cell.until) cell.from = cell.lane.id ? cell.lane.name : "tasks"; // what was on its way comes from its last executor
      cell.until = status.now + TRACE_S;
      this.place(cell, lane);
    }
    for (const [key, cell] of this.cells) if (!keys.has(key)) this.remove(key, cell);
    this.expire(status.now);
    for (const cell of this.cells.values()) this.paint(cell, stateOf(cell.row), status.now, chosen);
    for (const lane of this.lanes.values()) this.paintLane(lane, members.get(lane.id), status, chosen);
    this.reserve(status.partitions.length, status.members.length);
    this.animate(moves);
    if (!this.focused?.isConnected) this.focus(this.root.querySelector(".cell"));
  }
  // Who had what before the rebalances of the last minute, for a page that is opened right after them.
  pastOwners(status) {
    const names = new Map(status.members.map((member) => [member.member_id, member.client_id])), past = new Map();
    for (const done of status.rebalances) {
      if (status.now - done.at > TRACE_S) continue;
      const moved = new Set([...done.moved, ...done.revoked].map(([topic, number]) => `${topic}-${number}`));
      for (const [id, pairs] of Object.entries(done.before)) for (const [topic, number] of pairs) {
        const key = `${topic}-${number}`;
        if (moved.has(key)) past.set(key, [names.get(id) ?? id.replace(/(-[0-9a-f]+){2}-\d+$/, ""), done.at]);
      }
    }
    return past;
  }
  cell(key, row) {
    const element = make("button", "cell");
    element.type = "button";
    element.tabIndex = -1;
    element.append(make("b", "", this.plain ? String(row.partition) : key), make("span"), make("i"));
    const cell = { key, element, lane: null, row, from: "", until: 0 };
    element.cell = cell;
    this.cells.set(key, cell);
    return cell;
  }
  place(cell, lane) {
    const own = lane.slots.findIndex((slot) => slot.key === cell.key), hole = lane.slots.findIndex((slot) => slot.hole);
    const ghost = lane.slots.findIndex((slot) => slot.ghost), place = [own, hole, ghost].find((index) => index >= 0);
    if (place === undefined) {
      lane.slots.push({ cell });
      lane.cells.append(cell.element);
    } else {
      lane.cells.children[place].replaceWith(cell.element);
      lane.slots[place] = { cell };
    }
    cell.lane = lane;
  }
  leave(cell, lane, at) {
    const place = cell.lane.slots.findIndex((slot) => slot.cell === cell), ghost = make("div", cell.lane.id ? "ghost" : "hole");
    cell.element.replaceWith(ghost);
    cell.lane.slots[place] = cell.lane.id ? { key: cell.key, ghost, until: at + TRACE_S } : { hole: true };
    for (const { slots } of this.lanes.values()) for (const slot of slots) {
      if (slot.key !== cell.key) continue; // wherever it was within a minute: where it is now
      slot.ghost.textContent = this.dense ? "" : `${this.plain ? cell.row.partition : cell.key}\n→ ${bare(lane.id ? lane.name : "tasks")}`;
      slot.ghost.title = `${cell.key} went to ${lane.id ? lane.name : "tasks, which read it directly"}`;
    }
  }
  remove(key, cell) {
    const place = cell.lane.slots.findIndex((slot) => slot.cell === cell);
    cell.element.replaceWith(make("div", "hole"));
    cell.lane.slots[place] = { hole: true };
    this.cells.delete(key);
  }
  expire(at) {
    for (const lane of this.lanes.values()) {
      lane.slots.forEach((slot, place) => {
        if (slot.ghost && at > slot.until) {
          lane.cells.children[place].className = "hole";
          lane.cells.children[place].textContent = "";
          lane.slots[place] = { hole: true };
        }
      });
      while (lane.slots.length && lane.slots.at(-1).hole) {
        lane.slots.pop();
        lane.cells.lastChild.remove();
      }
      if (lane.until && at > lane.until && !lane.slots.some((slot) => slot.cell)) {
        lane.element.remove();
        this.lanes.delete(lane.id);
      }
    }
  }
  paint(cell, state, at, chosen) {
    const { element, row } = cell, came = at < cell.until, [word, mark] = STATES[state];
    const step = row.lag === null ? 0 : lagStep(row.lag), pressed = String(chosen === cell.key);
    const kind = `cell l${step}${state === "flowing" ? "" : ` ${state}`}${came ? " came" : ""}`;
    if (element.className !== kind) element.className = kind;
    if (!this.dense) setText(element.children[1], came ? `← ${bare(cell.from)}` : row.lag === null ? "–" : short.format(row.lag));
    setText(element.children[2], mark);
    const lag = row.lag === null ? "lag not known" : `${whole.format(row.lag)} behind`;
    const label = `${cell.key}, ${cell.lane.name}, ${lag}, ${word}${came ? `, came from ${cell.from}` : ""}`;
    if (element.title !== label) {
      element.title = label;
      element.setAttribute("aria-label", label);
    }
    if (element.getAttribute("aria-pressed") !== pressed) element.setAttribute("aria-pressed", pressed);
  }
  paintLane(lane, member, status, chosen) {
    const cells = lane.slots.filter((slot) => slot.cell), lag = cells.reduce((sum, slot) => sum + (slot.cell.row.lag ?? 0), 0);
    const facts = [this.dense ? whole.format(cells.length) : counted(cells.length, "partition"), `${short.format(lag)}${this.dense ? "" : " behind"}`];
    if (member && member.heartbeat_age_ms > 10000) facts[1] = `silent for ${duration(member.heartbeat_age_ms / 1000)}`;
    lane.element.classList.toggle("left", Boolean(lane.until));
    lane.element.classList.toggle("empty", !lane.id && !lane.slots.length);
    setText(lane.head.children[1], lane.until ? "gone" : facts.join(" · "));
    lane.head.title = member ? `${lane.name} on ${member.host}, ${counted(member.cores, "core")}` : lane.name;
    lane.head.setAttribute("aria-pressed", String(chosen === lane.name));
  }
  // Room for what each lane gets when one executor is lost, so that no lane grows then and pushes others down.
  reserve(partitions, members) {
    const width = this.direct.cells.clientWidth || this.root.querySelector(".cells").clientWidth;
    const [wide, high] = this.dense ? [16, 16] : [this.plain ? 67 : 129, 47];
    const rows = Math.ceil(Math.ceil(partitions / Math.max(members - 1, 1)) / Math.max(Math.floor((width + 5) / wide), 1));
    const least = `${Math.min(rows, 12) * high - (high === 16 ? 2 : 5)}px`;
    if (members) for (const lane of this.lanes.values()) if (lane.id) lane.cells.style.minHeight = least;
  }
  animate(moves) {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    for (const [cell, , from] of moves.slice(0, 400)) {
      const to = cell.element.getBoundingClientRect(), shift = `translate(${from.x - to.x}px, ${from.y - to.y}px)`;
      cell.element.animate([{ transform: shift, zIndex: 2 }, { transform: "none", zIndex: 2 }], { duration: 900, easing: "ease-in-out" });
    }
  }
  onClick(event) {
    const target = event.target.closest("button");
    if (!target) return;
    if (target.cell) this.focus(target);
    this.choose(target.cell ? target.cell.key : target.lane.name);
  }
  onKey(event) {
    const cell = event.target.cell, step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], leap = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!cell || !(step || leap)) return;
    event.preventDefault();
    if (step) {
      const every = [...this.root.querySelectorAll(".cell")];
      this.focus(every[every.indexOf(cell.element) + step], true);
      return;
    }
    const lanes = [...this.lanes.values()].filter((lane) => lane.cells.querySelector(".cell"))
      .sort((one, other) => (one.element.compareDocumentPosition(other.element) & 4 ? -1 : 1));
    const place = cell.lane.slots.findIndex((slot) => slot.cell === cell), next = lanes[lanes.indexOf(cell.lane) + leap];
    const slots = next?.slots.filter((slot) => slot.cell);
    if (slots) this.focus(slots[Math.min(place, slots.length - 1)].cell.element, true);
  }
  focus(element, take) { // one stop for the tabulator key among all cells
    if (!element) return;
    if (this.focused) this.focused.tabIndex = -1;
    this.focused = element;
    element.tabIndex = 0;
    if (take) element.focus();
  }
  find(text) {
    const wanted = text.trim().toLowerCase(), keys = [...this.cells.keys()];
    const names = [...this.lanes.values()].filter((lane) => lane.id && !lane.until).map((lane) => lane.name);
    const every = [...keys, ...names];
    return every.find((name) => name.toLowerCase() === wanted) ??
      (this.plain && /^\d+$/.test(wanted) ? keys.find((key) => key.endsWith(`-${wanted}`)) : undefined) ??
      every.find((name) => name.toLowerCase().includes(wanted));
  }
}
