// unsqueeze.js - unpacks what web/squeeze.c has packed. Each step is the same there.

const MODELS = 6;
const SLOT_BITS = 18;
const SEEN_MOST = 24;
const MASKS = [0xff, 0xffff, 0xffffff, -1, 0xffff00, 0xf0f0ff];
const CURVE = [
  1, 2, 3, 6, 10, 16, 27, 45, 73, 120, 194, 310, 488, 747, 1101, 1546, 2047, 2549, 2994, 3348, 3607,
  3785, 3901, 3975, 4022, 4050, 4068, 4079, 4085, 4089, 4092, 4093, 4094,
];

function squash(value) {
  if (value > 2047 || value < -2047) return value > 0 ? 4094 : 1;
  const at = (value + 2048) >> 7;
  const part = value & 127;
  return (CURVE[at] * (128 - part) + CURVE[at + 1] * part + 64) >> 7;
}

export function unsqueeze(packed) {
  const stretched = new Int16Array(4096).fill(2047);
  for (let value = -2047, next = 0; value <= 2047; value++)
    while (next <= squash(value)) stretched[next++] = value;
  const odds = new Uint16Array(MODELS << SLOT_BITS).fill(1 << 15);
  const seen = new Uint8Array(MODELS << SLOT_BITS);
  const weights = new Int32Array(256 * MODELS).fill(1 << 14);
  const slots = new Int32Array(MODELS);
  const inputs = new Int32Array(MODELS);
  const bytes = new Uint8Array(new DataView(packed.buffer, packed.byteOffset).getUint32(0, true));
  let [low, high, code, from, before] = [0, 0xffffffff, 0, 4, 0];
  const take = () => {
    code = ((code << 8) | packed[from++]) >>> 0;
  };
  for (let i = 0; i < 4; i++) take();
  for (let i = 0; i < bytes.length; i++) {
    let byte = 1;
    while (byte < 256) {
      let sum = 0;
      for (let k = 0; k < MODELS; k++) {
        const hash =
          (Math.imul(before & MASKS[k], 0x9e3779b1) + Math.imul(byte, 0x2545f491)) | 0;
        slots[k] =
          (k << SLOT_BITS) |
          (Math.imul(hash ^ (hash >>> 15), 0x85ebca6b) >>> (32 - SLOT_BITS));
        inputs[k] = stretched[odds[slots[k]] >> 4];
        sum += weights[byte * MODELS + k] * inputs[k];
      }
      const expected = squash((sum / 65536) | 0);
      const middle = low + ((high - low) >>> 12) * expected;
      const bit = code <= middle ? 1 : 0;
      if (bit) high = middle;
      else low = middle + 1;
      const error = (bit << 12) - expected;
      for (let k = 0; k < MODELS; k++) {
        const at = slots[k];
        weights[byte * MODELS + k] += ((inputs[k] * error) / 1024) | 0;
        odds[at] += (((bit * 65535 - odds[at]) * 2) / (2 * seen[at] + 3)) | 0;
        if (seen[at] < SEEN_MOST) seen[at]++;
      }
      byte = (byte << 1) | bit;
      for (; (low ^ high) >>> 24 === 0; take()) {
        low = (low << 8) >>> 0;
        high = ((high << 8) | 0xff) >>> 0;
      }
    }
    bytes[i] = byte;
    before = (before << 8) | bytes[i];
  }
  return bytes;
}
