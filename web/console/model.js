// model.js - what the console knows: leases from the stream of events, histories on demand, and how
// old all of it is. The server decides about rights; this only knows what it said.

export const model = {
  me: null,
  leases: new Map(),
  notes: new Map(), // Operators' wishes: leases under reserved names.
  histories: new Map(),
  events: [],
  heard: 0,
  state: "connecting",
  synced: false,
  skew: 0,
};
const listeners = new Set();
export const listen = (heed) => listeners.add(heed);
const tell = (what, name) => {
  for (const heed of listeners) heed(what, name);
};

// Tokens have 64 bits: digits that JavaScript would round stay a text.
const parse = (text) =>
  JSON.parse(text.replace(/("(?:token|highest|after)":)(\d{16,})/g, '$1"$2"'));

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export async function ask(path, body) {
  const how =
    body === undefined
      ? {}
      : {
          method: "POST",
          headers: { "Content-Type": "application/json" },
          body,
        };
  const answer = await fetch(path, {
    ...how,
    cache: "no-store",
    signal: AbortSignal.timeout(8000),
  });
  const text = await answer.text();
  let value = {};
  try {
    value = parse(text);
  } catch {
    /* An error without a body. */
  }
  if (!answer.ok) throw new Refused(answer.status, value.message || answer.statusText);
  return value;
}

export const may = (name) =>
  !!model.me &&
  model.me.rights.some(
    (it) =>
      it.right === "admin" &&
      (it.pattern === "*" ||
        it.pattern === name ||
        (it.pattern.endsWith("/*") && name.startsWith(it.pattern.slice(0, -1)))),
  );
export const shows = (what) => !!model.me && model.me.shows.includes(what);

/* --- The stream ------------------------------------------------------------------------------- */

let streams = [];
let fresh = null;
let awaited = 0; // Streams that have not told all that there is.
const changes = new Map(); // How often each name has changed.

function hear() {
  model.heard = performance.now();
}

function note(lease, before) {
  if (
    before &&
    before.state === lease.state &&
    before.token === lease.token &&
    before.revoked === lease.revoked
  )
    return;
  const what = lease.revoked
    ? `revoked, still with ${lease.holder}`
    : lease.state === "held"
      ? `${lease.holder} leads`
      : "nobody leads";
  model.events.unshift({ at: Date.now(), name: lease.name, what, token: lease.token });
  model.events.length = Math.min(model.events.length, 300);
  changes.set(lease.name, (changes.get(lease.name) || 0) + 1);
}

const NOTE = "~tenure/";
export const wish = (name) => model.notes.get(`${NOTE}ask/${name}`);

function takeNote(lease) {
  if (lease.state === "held") model.notes.set(lease.name, lease);
  else model.notes.delete(lease.name);
  tell("note", lease.name.slice(`${NOTE}ask/`.length));
}

function take(lease) {
  lease.at = performance.now();
  if (lease.name.startsWith(NOTE)) {
    takeNote(lease);
    return;
  }
  const before = model.leases.get(lease.name);
  if (fresh) fresh.set(lease.name, lease);
  else {
    model.leases.set(lease.name, lease);
    note(lease, before);
    tell("lease", lease.name);
  }
}

function finish() {
  for (const lease of fresh.values()) if (model.synced) note(lease, model.leases.get(lease.name));
  model.leases = fresh;
  fresh = null;
  model.synced = true;
  model.histories.forEach((history) => {
    history.version = -1;
  });
  tell("leases");
}

// What to watch: everything, or what the user's rights allow. A browser has six connections to a
// server, and some of them are for requests.
const STREAMS_MOST = 4;
export function watched() {
  const patterns = [...new Set(model.me.rights.map((it) => it.pattern))];
  const covers = (wide, it) =>
    wide !== it && (wide === "*" || (wide.endsWith("/*") && it.startsWith(wide.slice(0, -1))));
  const widest = patterns.filter((it) => !patterns.some((wide) => covers(wide, it)));
  return { shown: widest.slice(0, STREAMS_MOST), hidden: widest.slice(STREAMS_MOST) };
}
function streamPath(pattern) {
  if (pattern === "*") return "v1/events?beat=1";
  const [key, text] = pattern.endsWith("/*")
    ? ["prefix", pattern.slice(0, -1)]
    : ["name", pattern];
  return `v1/events?beat=1&${key}=${encodeURIComponent(text)}`;
}

function disconnect() {
  for (const stream of streams) stream.close();
  streams = [];
}

function lose(stream) {
  if (!streams.includes(stream)) return;
  disconnect();
  model.heard = Math.min(model.heard, performance.now() - 1900);
  setTimeout(() => {
    if (!streams.length) connect();
  }, 700);
}

function open(pattern) {
  const stream = new EventSource(streamPath(pattern));
  const on = (what, heed) =>
    stream.addEventListener(what, (event) => {
      if (!streams.includes(stream)) return;
      hear();
      heed(event.data);
    });
  on("lease", (data) => take(parse(data)));
  on("leases", (data) => parse(data).forEach(take));
  on("synced", () => {
    awaited -= 1;
    if (awaited === 0) finish();
  });
  on("beat", (data) => {
    model.skew = JSON.parse(data).now - Date.now();
  });
  stream.onerror = () => lose(stream);
  return stream;
}

function connect() {
  const { shown } = watched();
  disconnect();
  fresh = new Map();
  model.notes.clear();
  awaited = shown.length;
  streams = shown.map(open);
  if (!shown.length) finish();
}

// The server says something every second; after two it may be gone, and what is shown be old.
function judge() {
  const age = performance.now() - model.heard;
  const state = !model.me
    ? "connecting"
    : !watched().shown.length
      ? "none"
      : !model.heard
        ? "connecting"
        : age > 1800
          ? "old"
          : fresh
            ? model.state
            : "live";
  if (age > 6000 && streams.length && streams.every((it) => it.readyState === EventSource.OPEN))
    connect();
  if (state !== model.state) {
    model.state = state;
    tell("state");
  }
}

export async function start() {
  setInterval(judge, 200);
  for (;;) {
    try {
      model.me = await ask("v1/whoami");
      connect();
      tell("me");
      return;
    } catch (error) {
      if (error.status === 403 || error.status === 401) {
        model.me = { server: "tenured", user: null, rights: [], shows: [] };
        connect();
        tell("me");
        return;
      }
      await new Promise((go) => {
        setTimeout(go, 1000);
      });
    }
  }
}

/* --- On demand -------------------------------------------------------------------------------- */

const ASKED_MOST = 1000; // Names in one second.

// As many names as fit into a request's first line.
function* bunches(names) {
  for (let from = 0; from < names.length;) {
    let to = from;
    for (let len = 0; to < names.length && to - from < 100 && len < 4000; to++)
      len += names[to].length;
    yield names.slice(from, to).join(",");
    from = to;
  }
}

export async function refresh(names) {
  for (const bunch of bunches(names)) {
    for (const lease of (await ask(`v1/leases?names=${encodeURIComponent(bunch)}`)).leases) {
      lease.at = performance.now();
      if (model.leases.has(lease.name)) model.leases.set(lease.name, lease);
    }
  }
}

export async function remember(names) {
  if (!shows("history")) return;
  const version = (name) => changes.get(name) || 0;
  const wanted = names
    .filter((name) => model.histories.get(name)?.version !== version(name))
    .slice(0, ASKED_MOST);
  // A change that comes while the answer is under way is not in it.
  const before = new Map(wanted.map((name) => [name, version(name)]));
  for (const bunch of bunches(wanted)) {
    for (const history of (await ask(`v1/history?names=${encodeURIComponent(bunch)}`)).names) {
      history.version = before.get(history.name);
      model.histories.set(history.name, history);
      tell("history", history.name);
    }
  }
}

// A page after the other: the first @most, and whether there are more.
export async function all(path, key, most) {
  const list = [];
  let cursor = 0;
  do {
    const page = await ask(`${path}?count=500&cursor=${cursor}`);
    list.push(...page[key]);
    cursor = page.cursor;
  } while (cursor !== 0 && list.length <= most);
  return { list: list.slice(0, most), more: list.length > most };
}

export const left = (lease) => Math.max(0, lease.remaining_ms - (performance.now() - lease.at));
export const now = () => Date.now() + model.skew;
export const leaderless = (lease) => lease.state !== "held" && lease.token !== 0;
// How the last term ended of a name that nobody leads, or null: not known (yet).
export function endOf(lease) {
  const ended = leaderless(lease) && model.histories.get(lease.name)?.terms.at(-1)?.ended;
  return ended && ended !== "unknown" ? ended : null;
}
// Whether somebody should lead: a job that is done needs no leader.
export function lost(lease) {
  const ended = endOf(lease);
  return shows("history") ? ended !== null && ended !== "released" : leaderless(lease);
}
// Renewals make no event: that little should be left is only known when the server has said so.
const isLow = (lease, ms) => lease.state === "held" && lease.ttl_ms > 0 && ms < lease.ttl_ms / 4;
export const alarming = (lease) =>
  lost(lease) || !!lease.revoked || isLow(lease, lease.remaining_ms);
export const suspects = () =>
  [...model.leases.values()]
    .filter((lease) => isLow(lease, left(lease)))
    .sort((a, b) => a.at - b.at)
    .slice(0, ASKED_MOST)
    .map((lease) => lease.name);
