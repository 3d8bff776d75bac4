// console.js - the views: leases, a name, sessions, fences, events; and the actions of an operator.
import {
  alarming,
  all,
  ask,
  endOf,
  leaderless,
  left,
  listen,
  lost,
  model,
  now,
  refresh,
  remember,
  shows,
  start,
  suspects,
  watched,
  wish,
} from "./model.js";
import { buttonKey, buttons, follow, followAgain } from "./act.js";
import { chart, clock, day, el, gapLength, hue, longestGap, span, strip } from "./draw.js";

const $ = (id) => document.getElementById(id);
const main = $("main");
const PAGE = 60;
const ROWS_MOST = 500;
let view = null;

/* --- The frame -------------------------------------------------------------------------------- */

const stateWords = {
  live: "live",
  old: "may be old",
  none: "no right to see any name",
  connecting: "connecting",
};
function showState() {
  document.body.className = model.state;
  $("state").textContent = stateWords[model.state];
}

function showAge() {
  const age = model.heard ? performance.now() - model.heard : 0;
  const words = age < 10000 ? `${(Math.max(0, age) / 1000).toFixed(1)} s` : span(age);
  $("age").textContent = model.heard ? `as of ${words} ago` : "";
}

function showMe() {
  const { me } = model;
  $("where").textContent = me.store || location.host;
  const rights = me.rights.map((it) => `${it.right} on ${it.pattern}`).join(", ");
  const { hidden } = watched();
  $("who").textContent =
    `${me.user ? `${me.user}, ` : ""}${rights ? `rights: ${rights}` : "no rights"}` +
    `${hidden.length ? `; not shown: ${hidden.join(", ")}` : ""}`;
  for (const link of document.querySelectorAll("nav a")) {
    const [what] = link.getAttribute("href").match(/[a-z]*(?=\/?$)/);
    if (what && what !== "events") link.hidden = !shows(what);
  }
}

/* --- Leases ----------------------------------------------------------------------------------- */

const link = (name) => `#/name/${name.split("/").map(encodeURIComponent).join("/")}`;
const rows = new Map();

function setText(cell, text, kind) {
  if (cell.textContent !== text) cell.textContent = text;
  if (kind !== undefined && cell.className !== kind) cell.className = kind;
}

function makeRow(name) {
  const bar = el("b");
  const row = { bar, box: el("i", {}, bar), words: el("small") };
  row.swatch = el("i", { class: "swatch", "aria-hidden": "true" });
  row.who = el("span");
  row.holder = el("td", { "data-label": "Holder" }, row.swatch, row.who);
  row.token = el("td", { class: "num", "data-label": "Token" });
  row.ttl = el("td", { class: "ttl" });
  row.strip = el("td", { class: "strip" });
  row.length = el("span");
  row.cause = el("small");
  row.gap = el("td", { class: "num", "data-label": "Longest gap" }, row.length, " ", row.cause);
  row.acts = el("td", { class: "acts" });
  row.tr = el(
    "tr",
    {},
    el("td", {}, el("a", { href: link(name) }, name)),
    row.holder,
    row.token,
    row.ttl,
    row.strip,
    row.gap,
    row.acts,
  );
  return row;
}

// What an operator has asked for, and has not come about yet.
function asked(lease) {
  if (lease.revoked) return " (revoked)";
  const note = wish(lease.name);
  if (!note) return "";
  return note.holder.startsWith("handover") ? " (asked to hand over)" : ` (${note.holder})`;
}

function fillRow(name) {
  const row = rows.get(name);
  const lease = model.leases.get(name);
  if (!row || !lease) return;
  const held = lease.state === "held";
  const history = model.histories.get(name);
  const words = held
    ? lease.holder
    : endOf(lease) === "released"
      ? "nobody, given back"
      : "nobody";
  setText(row.who, words + asked(lease), lost(lease) ? "nobody" : held ? "" : "quiet");
  row.swatch.className = `swatch ${held ? hue(lease.holder) : ""}`;
  row.swatch.hidden = !held || !shows("history");
  setText(row.token, String(lease.token));
  const key = buttonKey(lease);
  if (row.key !== key) {
    row.key = key;
    row.acts.replaceChildren(...buttons(name));
  }
  if (held && lease.ttl_ms > 0) {
    const share = left(lease) / lease.ttl_ms;
    if (!row.box.isConnected) row.ttl.replaceChildren(row.box, row.words);
    row.box.className = share < 0.25 ? "low" : "";
    row.bar.style.transform = `scaleX(${share})`;
    setText(row.words, `${(left(lease) / 1000).toFixed(1)} of ${lease.ttl_ms / 1000} s`);
  } else {
    const open = history?.gaps.find((gap) => !gap.to);
    if (row.box.isConnected || !row.words.isConnected) row.ttl.replaceChildren(row.words);
    const rest = held ? "the store does not tell" : "";
    setText(row.words, open ? `nobody for ${span(now() - open.from)}` : rest);
  }
  if (history && (row.drawn !== history || now() - row.drawnAt > 60000)) {
    row.drawn = history;
    row.drawnAt = now();
    row.strip.replaceChildren(strip(history, now()));
  }
  if (!history) return;
  const gap = longestGap(history, now());
  setText(row.length, gap ? span(gapLength(gap, now())) : "none");
  setText(row.cause, gap ? gap.cause : "");
}

function leasesView() {
  const filter = el("input", {
    type: "search",
    id: "filter",
    placeholder: "Filter by name or holder ( / )",
    "aria-label": "Filter by name or holder",
    autocomplete: "off",
  });
  const only = el("input", { type: "checkbox", id: "only" });
  const tiles = el("dl", { class: "tiles" });
  const body = el("tbody");
  const more = el("p", { class: "bar" });
  let most = PAGE;
  let names = [];

  const table = el(
    "table",
    {},
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        ...[
          "Name",
          "Holder",
          "Token",
          "Left of TTL",
          "Last 24 h: who led; in red: nobody",
          "Longest gap",
          "",
        ].map((words, i) =>
          el(
            "th",
            { scope: "col", class: ["", "", "num", "", "strip", "num", ""][i] },
            words || el("span", { class: "unseen" }, "Actions"),
            i === 4
              ? el("small", { class: "ends" }, el("span", {}, "24 h ago"), el("span", {}, "now"))
              : null,
          ),
        ),
      ),
    ),
    body,
  );
  const tile = (words, value, alert) =>
    el("div", { class: alert ? "alert" : "" }, el("dt", {}, words), el("dd", {}, String(value)));

  function choose() {
    const text = filter.value.toLowerCase();
    names = [];
    for (const lease of model.leases.values()) {
      if (only.checked && !alarming(lease)) continue;
      if (
        text &&
        !lease.name.toLowerCase().includes(text) &&
        !(lease.holder || "").toLowerCase().includes(text)
      )
        continue;
      names.push(lease.name);
    }
    names.sort();
  }

  function draw() {
    choose();
    const shown = names.slice(0, most);
    const keep = new Set(shown);
    for (const [name, row] of rows)
      if (!keep.has(name)) {
        row.tr.remove();
        rows.delete(name);
      }
    shown.forEach((name, i) => {
      if (!rows.has(name)) rows.set(name, makeRow(name));
      const { tr } = rows.get(name);
      if (body.children[i] !== tr) body.insertBefore(tr, body.children[i] || null);
      fillRow(name);
    });
    let [gone, back, unsure, revoked] = [0, 0, 0, 0];
    for (const lease of model.leases.values()) {
      const ended = endOf(lease);
      gone += lost(lease);
      back += ended === "released";
      unsure += leaderless(lease) && !ended && model.histories.has(lease.name);
      revoked += !!lease.revoked;
    }
    tiles.replaceChildren(
      tile("names", model.leases.size),
      tile("lost their leader", gone, gone > 0),
      tile("given back, nobody leads", back),
      ...(unsure ? [tile("nobody leads, not known why", unsure)] : []),
      tile("revoked, not given back", revoked, revoked > 0),
      tile("hand-overs and holds asked for", model.notes.size),
    );
    more.replaceChildren(
      ...(names.length > shown.length
        ? [
            el(
              "button",
              {
                type: "button",
                onclick: () => {
                  most += PAGE;
                  draw();
                },
              },
              "Show more",
            ),
            el("span", { class: "quiet" }, `${shown.length} of ${names.length}`),
          ]
        : names.length < model.leases.size
          ? [el("span", { class: "quiet" }, `${names.length} of ${model.leases.size}`)]
          : []),
    );
    if (!model.leases.size)
      more.replaceChildren(el("span", {}, model.synced ? "No names yet." : ""));
  }

  let due = false;
  const soon = () => {
    if (due) return;
    due = true;
    setTimeout(() => {
      due = false;
      if (view === me) draw();
    }, 120);
  };
  filter.addEventListener("input", () => {
    most = PAGE;
    draw();
  });
  only.addEventListener("change", () => {
    most = PAGE;
    draw();
  });
  const since = el("p", { class: "quiet" });
  main.replaceChildren(
    tiles,
    el("div", { class: "bar" }, filter, el("label", {}, only, " only what needs attention"), since),
    table,
    more,
  );
  rows.clear();
  const me = {
    heed(what, name) {
      if (what === "history") fillRow(name);
      else if (what === "leases") draw();
      else soon();
    },
    async poll() {
      const shown = [...rows.keys()];
      const held = shown.filter((name) => model.leases.get(name)?.state === "held");
      await refresh([...new Set([...held, ...(only.checked ? suspects() : [])])]);
      const free = [...model.leases.values()].filter(leaderless).map((lease) => lease.name);
      await remember([...new Set([...shown, ...free])]);
      draw();
      since.textContent = model.me?.history_since
        ? `history since ${day(model.me.history_since)}`
        : "";
    },
    tick() {
      for (const name of rows.keys()) fillRow(name);
    },
  };
  view = me;
  draw();
}

/* --- A name ----------------------------------------------------------------------------------- */

const NAME = /^[\w.~:@-]+(\/[\w.~:@-]+)*$/;

function nameView(name) {
  const leader = el("span");
  const head = el("p", { class: "bar" }, leader);
  let keyed = null;
  let logged = null;
  let drawnAt = 0;
  const gaps = el("div", { class: "chart" });
  const longest = el("p", { class: "quiet" });
  const terms = el("tbody");
  const line = el("ol", { class: "line" });
  const log = el("ul", { class: "log" });
  const ended = {
    released: "given back",
    expired: "silent for its TTL",
    gone: "its process ended",
    revoked: "revoked",
    store: "the store was away",
    unknown: "not seen",
  };

  function draw() {
    const lease = model.leases.get(name);
    const held = lease?.state === "held";
    const ttl = held && lease.ttl_ms > 0;
    setText(
      leader,
      held
        ? `${lease.holder} leads, token ${lease.token}${
            ttl ? `, ${(left(lease) / 1000).toFixed(1)} of ${lease.ttl_ms / 1000} s left` : ""
          }${asked(lease)}`
        : lease
          ? `nobody leads; the last token was ${lease.token}${asked(lease)}`
          : "The store does not know this name: nobody has led it.",
      lease && lost(lease) ? "nobody" : "",
    );
    // A button that is replaced loses the focus, and the click that is under way.
    const key = lease && buttonKey(lease);
    if (keyed !== key) {
      keyed = key;
      head.replaceChildren(leader, ...buttons(name));
    }
    const list = model.events.filter((it) => it.name === name).slice(0, 50);
    if (log.children.length && logged === list[0]) return;
    [logged] = list;
    showLog(log, list);
  }

  function drawHistory() {
    const history = model.histories.get(name);
    if (!history) return;
    const at = now();
    drawnAt = at;
    gaps.replaceChildren(
      strip(history, at),
      chart(history, at, Math.max(280, gaps.clientWidth - 22)),
    );
    const gap = longestGap(history, at);
    const most = gap && `${span(gapLength(gap, at))}, ${gap.cause}, ${day(gap.from)}`;
    longest.textContent =
      `${most ? `longest gap of the last 24 h: ${most}` : "no gap in the last 24 h"}; ` +
      `on record since ${day(history.since)}`;
    const list = [];
    history.terms.forEach((term) => {
      const after = history.gaps.find((it) => String(it.after) === String(term.token));
      list.unshift(
        el(
          "tr",
          {},
          el("td", { class: "num", "data-label": "Token" }, String(term.token)),
          el(
            "td",
            { "data-label": "Holder" },
            el("i", { class: `swatch ${hue(term.holder)}`, "aria-hidden": "true" }),
            term.holder,
          ),
          el("td", { "data-label": "From" }, day(term.from)),
          el("td", { "data-label": "To" }, term.to ? day(term.to) : "now"),
          el("td", { class: "num", "data-label": "Lasted" }, span((term.to || at) - term.from)),
          el(
            "td",
            { "data-label": "Why" },
            term.ended ? ended[term.ended] || term.ended : "still leads",
          ),
        ),
      );
      if (after) {
        list.unshift(
          el(
            "tr",
            { class: "was-gap" },
            el("td", { class: "num" }, ""),
            el("td", { class: "nobody" }, "nobody"),
            el("td", { "data-label": "From" }, day(after.from)),
            el("td", { "data-label": "To" }, after.to ? day(after.to) : "now"),
            el(
              "td",
              { class: "num gap-length", "data-label": "Lasted", "data-ms": after.ms },
              span(gapLength(after, at)),
            ),
            el("td", { "data-label": "Cause" }, after.cause),
          ),
        );
      }
    });
    terms.replaceChildren(...list);
  }

  const table = el(
    "table",
    {},
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        ...["Token", "Holder", "From", "To", "Lasted", "Why"].map((words, i) =>
          el("th", { scope: "col", class: i === 0 || i === 4 ? "num" : "" }, words),
        ),
      ),
    ),
    terms,
  );
  const lineHead = el("h2", { hidden: true }, "Waiting, the next one first");
  const fences = el("ul", { class: "line" });
  const fencesHead = el("h2", { hidden: true }, "Fences that stand at a token of this name");
  main.replaceChildren(
    el("h2", { class: "name" }, name),
    head,
    el("h2", {}, "Gaps of the last 24 hours"),
    gaps,
    longest,
    lineHead,
    line,
    fencesHead,
    fences,
    el("h2", {}, "Terms"),
    table,
    el("h2", {}, "Events since you opened this page"),
    log,
  );
  // One counter gives out the tokens of all names, so a token says whose it is.
  async function showFences() {
    const tokens = new Set(model.histories.get(name)?.terms.map((term) => String(term.token)));
    const { list } = await all("v1/fences", "fences", ROWS_MOST);
    const mine = list.filter((it) => tokens.has(String(it.highest)));
    fencesHead.hidden = !mine.length;
    const item = (it) => el("li", {}, `${it.resource}: token ${it.highest}`);
    fences.replaceChildren(...mine.map(item));
  }

  view = {
    heed(what, whose) {
      if (what === "history" && whose === name) drawHistory();
      if (what !== "history" && (whose === name || whose === undefined)) draw();
    },
    async poll() {
      if (!NAME.test(name)) return; // The server would only refuse it.
      await refresh([name]);
      await remember([name]);
      if (shows("fences")) await showFences();
      if (!shows("line")) return;
      const { waiting } = await ask(`v1/line/${name.split("/").map(encodeURIComponent).join("/")}`);
      lineHead.hidden = false;
      line.replaceChildren(
        ...(waiting.length
          ? waiting.map((who) => el("li", {}, who))
          : [el("li", { class: "quiet none-waits" }, "nobody waits")]),
      );
    },
    tick() {
      draw();
      if (now() - drawnAt > 60000 || model.histories.get(name)?.gaps.some((gap) => !gap.to))
        drawHistory();
    },
  };
  draw();
  drawHistory();
}

/* --- The rest --------------------------------------------------------------------------------- */

function showLog(log, list) {
  const none = el("li", { class: "quiet" }, "Nothing has changed since you opened this page.");
  const entry = (it) => el("li", {}, `${clock(it.at)} ${it.name}: ${it.what}, token ${it.token}`);
  log.replaceChildren(...(list.length ? list.map(entry) : [none]));
}

function eventsView() {
  const log = el("ul", { class: "log" });
  const draw = () => showLog(log, model.events);
  main.replaceChildren(el("h2", {}, "Events since you opened this page"), log);
  view = { heed: draw };
  draw();
}

function tableView(title, path, key, columns, cells) {
  const body = el("tbody");
  const note = el("p", { class: "quiet" });
  main.replaceChildren(
    el("h2", {}, title),
    el(
      "table",
      {},
      el("thead", {}, el("tr", {}, ...columns.map((words) => el("th", { scope: "col" }, words)))),
      body,
    ),
    note,
  );
  view = {
    async poll() {
      const { list, more } = await all(path, key, ROWS_MOST);
      note.textContent = more
        ? `The first ${list.length}; there are more.`
        : list.length
          ? `${list.length} in all`
          : "There are none.";
      while (body.rows.length > list.length) body.lastElementChild.remove();
      list.forEach((it, row) => {
        const tr = body.rows[row] || body.appendChild(el("tr"));
        cells(it).forEach((cell, i) => {
          const made = el("td", { "data-label": columns[i] }, ...[].concat(cell));
          const was = tr.cells[i];
          if (!was) tr.append(made);
          // A link that is replaced loses the focus.
          else if (was.textContent !== made.textContent) was.replaceWith(made);
        });
      });
    },
  };
}

const names = (it) =>
  it.names
    .flatMap((name, i) => [i ? ", " : "", el("a", { href: link(name) }, name)])
    .concat(it.leases > it.names.length ? [` and ${it.leases - it.names.length} more`] : []);

// A link may have been typed: what is not encoded is taken as it is.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function route() {
  const path = location.hash.slice(1) || "/";
  for (const it of document.querySelectorAll("nav a")) {
    const mine =
      it.getAttribute("href") === `#${path}` ||
      (path.startsWith("/name/") && it.getAttribute("href") === "#/");
    if (mine) it.setAttribute("aria-current", "page");
    else it.removeAttribute("aria-current");
  }
  const title = path === "/" ? "" : `${path.replace(/^\/(name\/)?/, "")} - `;
  document.title = `${title}Tenure console`;
  if (path.startsWith("/name/"))
    nameView(path.slice(6).split("/").map(decoded).join("/"));
  else if (path === "/sessions") {
    tableView(
      "Sessions",
      "v1/sessions",
      "sessions",
      ["Holder", "User", "Left of TTL", "Waits for", "Leads"],
      (it) => [
        it.holder,
        it.user || "-",
        `${(it.remaining_ms / 1000).toFixed(1)} of ${it.ttl_ms / 1000} s`,
        String(it.waits),
        names(it),
      ],
    );
  } else if (path === "/fences") {
    tableView(
      "Fences",
      "v1/fences",
      "fences",
      ["Resource", "Highest token", "User", "State"],
      (it) => [it.resource, String(it.highest), it.user || "-", it.state],
    );
  } else if (path === "/events") eventsView();
  else leasesView();
  poll();
}

let polling = false;
async function poll() {
  if (polling || !view?.poll || model.state === "connecting" || document.hidden) return;
  polling = true;
  try {
    await view.poll();
  } catch {
    /* The stream tells whether the server is gone. */
  }
  polling = false;
}

listen((what, name) => {
  if (what === "state") {
    showState();
    if (model.state === "live") poll();
  }
  if (what === "me") {
    showMe();
    poll();
  }
  if (what === "lease" || (what === "note" && model.leases.has(name)))
    follow(model.leases.get(name));
  if (view?.heed) view.heed(what, name);
  if (what === "leases") document.body.dataset.ready = "";
});
addEventListener("hashchange", () => {
  route();
  main.focus();
});
document.addEventListener("keydown", (event) => {
  const filter = $("filter");
  if (event.key !== "/" || !filter || /^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName))
    return;
  event.preventDefault();
  filter.focus();
});
setInterval(() => {
  showAge();
  followAgain();
  if (view?.tick && model.state === "live") view.tick();
}, 250);
setInterval(poll, 1000);
route();
start();
