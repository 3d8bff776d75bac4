// script.js - a script as a list of items, the way a page edits it. sim/script.h has the grammar.

export class Script {
  constructor(text) {
    this.items = text.split(/[+\n]/).filter((item) => item !== "");
  }

  toString() {
    return this.items.join("+");
  }

  get(key) {
    const item = this.items.findLast((it) => it.startsWith(`${key}=`));
    return item === undefined ? null : item.slice(key.length + 1);
  }

  // Null removes the setting.
  set(key, value) {
    this.items = this.items.filter((it) => !it.startsWith(`${key}=`));
    if (value !== null && key === "story") this.items.unshift(`${key}=${value}`);
    else if (value !== null) this.items.push(`${key}=${value}`);
    return this;
  }

  // The acts written here; those of a story are not among them.
  acts() {
    return this.items
      .filter((it) => /^\d/.test(it))
      .map((text) => {
        const [head] = text.split("=");
        const [at, kind, who, number] = head.split(":");
        return { text, at: Number(at), kind, who, number: Number(number) };
      });
  }

  // Adds an act at an instant. What was to come after it is dropped: the past has changed.
  act(at, words) {
    const later = this.acts().filter((act) => act.at > at && act.kind !== "finish");
    this.items = this.items.filter((it) => !later.some((act) => act.text === it));
    this.items.push(`${instant(at)}:${words}`);
    return later.length;
  }

  // Ends the pause, freeze or sleep that a process is in at an instant.
  wake(at, who) {
    const sleeps = ["pause", "freeze", "suspend"];
    const last = this.acts().findLast(
      (act) =>
        sleeps.includes(act.kind) && act.who === who && act.at < at && act.at + act.number > at,
    );
    if (!last) return false;
    const shorter = `${instant(last.at)}:${last.kind}:${who}:${instant(at - last.at)}`;
    this.items = this.items.map((it) => (it === last.text ? shorter : it));
    return true;
  }
}

// Milliseconds, to the microsecond, without zeros that say nothing.
export function instant(ms) {
  return String(Math.round(ms * 1000) / 1000);
}

// The part of an address behind '#': version, instant, script.
const VERSION = "1";

export function toHash(script, ms) {
  const text = encodeURIComponent(String(script)).replace(/%(3A|3D|2B|2C|3B)/g, decodeURIComponent);
  return `#${VERSION}/${instant(ms)}/${text}`;
}

// Null for an address that holds no script.
export function fromHash(hash) {
  const found = /^#1\/([\d.]+)\/(.*)$/s.exec(hash);
  if (!found) return null;
  try {
    return { at: Number(found[1]) || 0, script: decodeURIComponent(found[2]) };
  } catch {
    return null;
  }
}
