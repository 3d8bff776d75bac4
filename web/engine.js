// engine.js - the simulator behind plain functions. It is the C of sim/, src/core and src/fence,
// compiled to WebAssembly; nothing of it is written again here.

import { unsqueeze } from "./unsqueeze.js";

const NS_PER_MS = 1e6;

export class Engine {
  constructor(instance) {
    this.c = instance.exports;
    this.stack = this.c.__stack_pointer.value;
    this.catalogue = JSON.parse(this.read(this.c.catalogue()));
  }

  static async from(packed) {
    return new Engine((await WebAssembly.instantiate(unsqueeze(packed), {})).instance);
  }

  read(at) {
    const bytes = new Uint8Array(this.c.memory.buffer);
    return new TextDecoder().decode(bytes.subarray(at, bytes.indexOf(0, at)));
  }

  // Calls c, and after a trap - an assertion of the core - puts the stack back and calls rescue.
  guard(call, rescue) {
    try {
      return call();
    } catch (error) {
      if (!(error instanceof WebAssembly.RuntimeError)) throw error;
      this.c.__stack_pointer.value = this.stack;
      return rescue();
    }
  }

  // Returns 0, or 1 when Tenure refuses the numbers; throws for a text that is no script.
  open(script) {
    const bytes = new TextEncoder().encode(script);
    if (bytes.length >= this.c.input_size()) throw new Error("the script is too long");
    const room = new Uint8Array(this.c.memory.buffer, this.c.input(), bytes.length + 1);
    room.set(bytes);
    room[bytes.length] = 0;
    const status = this.guard(
      () => this.c.open(),
      () => {
        throw new Error("an assertion of the simulator does not hold for this script");
      },
    );
    if (status < 0) throw new Error(this.read(this.c.error()));
    return status;
  }

  snapshotAt(ms) {
    this.guard(
      () => this.c.until(Math.round(ms * NS_PER_MS)),
      () => {},
    );
    return this.read(this.c.snapshot());
  }

  look(ms) {
    return JSON.parse(this.snapshotAt(ms));
  }

  // The instant of the next event after ms, in milliseconds, or -1.
  next(ms) {
    this.guard(
      () => this.c.until(Math.round(ms * NS_PER_MS)),
      () => {},
    );
    const at = this.c.next();
    return at < 0 ? -1 : at / NS_PER_MS;
  }

  history() {
    return JSON.parse(
      this.read(
        this.guard(
          () => this.c.history(),
          () => this.c.history_end(),
        ),
      ),
    );
  }

  transcript() {
    return this.read(
      this.guard(
        () => this.c.transcript(),
        () => this.c.transcript_end(),
      ),
    );
  }

  breaks(plant, seed) {
    return this.guard(
      () => this.c.breaks(plant, seed) !== 0,
      () => false,
    );
  }
}

// The module lies beside the page, or inside it when the page is a single file.
export async function loadEngine() {
  const inside = document.getElementById("wasm");
  if (inside) {
    const text = atob(inside.textContent.trim());
    return Engine.from(Uint8Array.from(text, (c) => c.charCodeAt(0)));
  }
  const response = await fetch("sandbox.bin");
  if (!response.ok) throw new Error(`sandbox.bin: ${response.status}`);
  return Engine.from(new Uint8Array(await response.arrayBuffer()));
}
