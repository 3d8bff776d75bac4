// act.js - what an operator may do to a lease: hand over, revoke. The dialog follows it to its end.
import { ask, left, may, model, shows, wish } from "./model.js";
import { el, span } from "./draw.js";

const $ = (id) => document.getElementById(id);
const order = (it) => `{"name":${JSON.stringify(it.name)},"token":${it.token}}`;
const acts = {
  revoke: {
    title: "Revoke",
    danger: true,
    what: (it) =>
      `${it.holder} is told to stop at once. The lease passes on when it has given it ` +
      `back, at the latest ${span(it.ttl_ms)} from now. Token ${it.token}.`,
    send: (it) => ask("v1/leases/revoke", order(it)),
  },
  handover: {
    title: "Hand over",
    danger: false,
    what: (it) =>
      `${it.holder} is asked to finish its work and give the lease back; the next in ` +
      `line leads then. If nobody else waits, it leads again. Token ${it.token}.`,
    send: (it) => ask("v1/leases/handover", order(it)),
  },
};
// A lease that ends with less than this left was not given back: its time ran out.
const SILENT_MS = 300;
let act = null;

function say(words, kind) {
  $("act-states").append(el("li", { class: kind || "" }, words));
}

// What the stream tells about the lease is how the action goes on.
export function follow(lease) {
  if (!act || !act.sent || act.over || lease.name !== act.lease.name) return;
  const same = String(lease.token) === String(act.lease.token);
  if (same && (lease.revoked || wish(lease.name)) && !act.told) {
    act.told = true;
    say(`${lease.holder} is told; it has to stop its work and give the lease back`);
  }
  if (same && lease.state === "held") act.last = lease;
  if ((!same || lease.state !== "held") && !act.back) {
    act.back = true;
    const { holder } = act.lease;
    // etcd's listings do not tell a TTL: until the console has asked, nobody knows what was left.
    if (!(act.last.ttl_ms > 0)) say(`${holder} does not hold it any more`);
    else if (left(act.last) > SILENT_MS) say(`${holder} has stopped and given it back`);
    else say(`the time of ${holder} is over; it did not give the lease back`);
    if (lease.state !== "held") say("nobody leads yet");
  }
  if (!same && lease.state === "held") {
    const again = lease.holder === act.lease.holder;
    act.over = true;
    say(
      again
        ? `${lease.holder} leads again, token ${lease.token}: nobody else was waiting`
        : `${lease.holder} leads now, token ${lease.token}`,
      again ? "bad" : "done",
    );
    $("said").textContent = `${lease.name}: ${lease.holder} leads ${again ? "again" : "now"}`;
  }
}

function openAct(kind, lease) {
  act = { kind: acts[kind], lease: { ...lease }, last: lease, sent: false };
  $("act-title").textContent = `${act.kind.title}: ${lease.name}`;
  $("act-what").textContent = act.kind.what(lease);
  $("act-go").textContent = act.kind.title;
  $("act-go").className = act.kind.danger ? "danger" : "go";
  $("act-go").hidden = false;
  $("act-go").disabled = true;
  $("act-cancel").textContent = "Cancel";
  $("act-name").value = "";
  $("act-name").disabled = false;
  $("act-states").replaceChildren();
  $("act").showModal();
  $("act-name").focus();
}

async function sendAct() {
  const mine = act;
  if (!mine || mine.sent || $("act-name").value !== mine.lease.name) return;
  mine.sent = true;
  $("act-go").hidden = true;
  $("act-name").disabled = true;
  $("act-cancel").textContent = "Close";
  $("act-cancel").focus(); // What has the focus must not vanish.
  say("asked");
  try {
    await mine.kind.send(mine.lease);
    if (!mine.told && !mine.back) say("the store has accepted it");
    const lease = model.leases.get(mine.lease.name);
    if (lease) follow(lease);
  } catch (error) {
    mine.over = true;
    const why =
      error.status === 412
        ? "refused: somebody else leads by now; look again"
        : error.status === 403
          ? "refused: no right to do this"
          : error.status
            ? `refused: ${error.message}`
            : "no answer: it may have happened or not; watch the lease";
    say(why, "bad");
    $("said").textContent = why;
  }
}

$("act-go").addEventListener("click", sendAct);
$("act-cancel").addEventListener("click", () => $("act").close());
$("act").addEventListener("close", () => {
  act = null;
});
$("act")
  .querySelector("form")
  .addEventListener("submit", (event) => {
    event.preventDefault();
    sendAct();
  });
$("act-name").addEventListener("input", () => {
  $("act-go").disabled = !act || $("act-name").value !== act.lease.name;
});

// The buttons stay as they are while this does.
export const buttonKey = (lease) =>
  `${lease.state} ${lease.token} ${!!lease.revoked} ${may(lease.name)} ${shows("handover")}`;

export function buttons(name) {
  const lease = model.leases.get(name);
  if (!lease || lease.state !== "held" || lease.revoked || !may(name)) return [];
  const button = (kind, words) =>
    el(
      "button",
      {
        type: "button",
        "aria-label": `${words} ${name}`,
        onclick: () => openAct(kind, model.leases.get(name)),
      },
      `${words}…`,
    );
  return [
    shows("handover") ? button("handover", "hand over") : null,
    button("revoke", "revoke"),
  ].filter((it) => it);
}

// Polls and a server that came back tell of the lease without an event of its own.
export function followAgain() {
  if (act && model.leases.has(act.lease.name)) follow(model.leases.get(act.lease.name));
}
