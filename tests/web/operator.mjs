// operator.mjs - what the tests of the console do on its page, and ask of it.

import assert from "node:assert/strict";

export const clean = (page, url) => {
  assert.deepEqual(page.wrongs, []);
  for (const it of page.requests) assert.ok(it.startsWith(url) || it.startsWith("data:"), it);
};

export const texts = (page, what) => page.$$eval(what, (list) => list.map((it) => it.textContent));
export const states = (page) => texts(page, "#act-states li");

export async function act(page, words, name) {
  await page.click(`[aria-label="${words} ${name}"]`);
  assert.ok(await page.isDisabled("#act-go"));
  await page.fill("#act-name", name);
  await page.click("#act-go");
}
