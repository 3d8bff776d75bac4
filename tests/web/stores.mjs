// stores.mjs - `tenure console` in a real browser on any store: the same expectations of each.
//
// usage: node stores.mjs BUILD MODULES FOLDER NAME=URL...
//
// A picture of each page stays in FOLDER, as NAME.png.

import assert from "node:assert/strict";
import { elect, endAll, tenureConsole } from "./actors.mjs";
import { launch, openPage } from "./browser.mjs";
import { act, clean, states, texts } from "./operator.mjs";

const [build, modules, folder, ...stores] = process.argv.slice(2);
const TTL_S = 10;
const HUSHED = /^(zookeeper|consul):/; // Nobody but the holder sees a renewal there.
const PATIENCE = { timeout: 90000 };
const browser = await launch(modules);

const row = (page, name) =>
  page.locator("tbody tr", { has: page.getByText(name, { exact: true }) });
const tokenOf = (line) => String(JSON.parse(line.text).token);
const leads = (page, name, holder, token) =>
  page.waitForFunction(
    ([job, who, number]) =>
      [...document.querySelectorAll("tbody tr")].some((tr) => {
        const cells = [...tr.cells].map((cell) => cell.textContent);
        return cells[0] === job && cells[1].startsWith(who) && cells[2] === number;
      }),
    [name, holder, token],
    PATIENCE,
  );

// The dialog follows what was asked for to its end: somebody else leads.
async function followed(page, words, name) {
  await act(page, words, name);
  await page.waitForSelector("#act-states .done", PATIENCE);
  const said = await states(page);
  console.log(`   ${words}: ${said.join(" > ")}`);
  assert.equal(said[0], "asked");
  await page.keyboard.press("Escape");
  return said.at(-1);
}

// The bar goes up by itself, and the words beside it say what is left.
async function rises(page) {
  const bar = row(page, "jobs/one").locator(".ttl i b");
  await bar.waitFor({ state: "attached", ...PATIENCE });
  const left = async () => {
    const words = await row(page, "jobs/one").locator(".ttl small").textContent();
    const [, is, of] = /^([\d.]+) of ([\d.]+) s$/.exec(words);
    assert.equal(Number(of), TTL_S);
    return Number(is);
  };
  const seen = [await left()];
  for (const end = Date.now() + PATIENCE.timeout; ; seen.push(await left())) {
    assert.ok(Date.now() < end, `the bar never rises: ${seen.slice(-20)}`);
    if (seen.at(-1) > seen.at(-2) + 0.5) break;
    await page.waitForTimeout(100);
  }
  assert.ok(seen.every((it) => it >= 0 && it <= TTL_S));
}

async function expectations(store, name) {
  const served = await tenureConsole(build, store, `${folder}/state-${name}`);
  const run = (job, id) => elect(build, store, job, id, `${TTL_S}s`);
  const first = run("jobs/one", "first");
  const won = await first.line(/"won"/);
  const page = await openPage(browser, served.page);

  // Names, holders, tokens.
  await leads(page, "jobs/one", "first", tokenOf(won));
  const next = run("jobs/one", "next");
  await next.line(/"leader"/);

  // What is left of the TTL goes up again: the console sees renewals. Or else it says why not.
  if (HUSHED.test(store)) {
    const words = await row(page, "jobs/one").locator(".ttl").textContent();
    assert.equal(words, "the store does not tell");
  } else await rises(page);

  // Changes appear by themselves.
  const passing = run("jobs/two", "passing");
  await leads(page, "jobs/two", "passing", tokenOf(await passing.line(/"won"/)));
  await page.screenshot({ path: `${folder}/${name}.png` });
  await passing.end();
  const hushed = HUSHED.test(store);
  await page
    .locator(".tiles div", { hasText: hushed ? "not known why" : "given back" })
    .getByText("1", { exact: true })
    .waitFor(PATIENCE);
  const holder = row(page, "jobs/two").locator("td").nth(1);
  assert.equal(await holder.textContent(), hushed ? "nobody" : "nobody, given back");
  assert.equal(await page.locator(".alert").count(), 0);

  // Hand over, and revoke.
  const asked = await followed(page, "hand over", "jobs/one");
  const second = tokenOf(await next.line(/"won"/));
  assert.equal(asked, `next leads now, token ${second}`);
  await first.line(/"lost".*"asked"/);
  await leads(page, "jobs/one", "next", second);
  const mark = first.lines.length;
  const revoked = await followed(page, "revoke", "jobs/one");
  await next.line(/"lost".*"revoked"/);
  const third = tokenOf(await first.line(/"won"/, mark));
  assert.equal(revoked, `first leads now, token ${third}`);
  assert.ok(BigInt(third) > BigInt(second) && BigInt(second) > BigInt(tokenOf(won)));

  // The page of the name has its terms, the newest first, and a gap between each two.
  await page.evaluate(() => {
    location.hash = "#/name/jobs/one";
  });
  await page.waitForFunction(
    () => document.querySelectorAll("tbody tr:not(.was-gap)").length === 3,
    null,
    PATIENCE,
  );
  assert.deepEqual(await texts(page, "tbody tr:not(.was-gap) td:nth-child(1)"), [
    third,
    second,
    tokenOf(won),
  ]);
  assert.deepEqual(await texts(page, "tbody tr:not(.was-gap) td:nth-child(2)"), [
    "first",
    "next",
    "first",
  ]);
  assert.match(await page.textContent("main"), /on record since/);
  const gaps = await texts(page, "tbody .was-gap td:last-child");
  console.log(`   gaps: ${gaps.join(", ")}`);
  clean(page, served.page);
  await page.screenshot({ path: `${folder}/${name}-name.png` });

  // A click that names an earlier term is refused.
  const stale = (token) =>
    page.evaluate(async (body) => {
      const headers = { "Content-Type": "application/json" };
      return (await fetch("v1/leases/revoke", { method: "POST", headers, body })).status;
    }, `{"name":"jobs/one","token":${token}}`);
  assert.equal(await stale(second), 412);
  await page.context().close();
  await endAll();
}

let failed = 0;
for (const it of stores) {
  const name = it.slice(0, it.indexOf("="));
  const from = Date.now();
  try {
    await expectations(it.slice(name.length + 1), name);
    console.log(`ok ${name} (${((Date.now() - from) / 1000).toFixed(1)} s)`);
  } catch (error) {
    failed++;
    console.log(`FAIL ${name}\n${error.stack}`);
    for (const context of browser.contexts()) {
      for (const page of context.pages()) {
        console.log(`   ${(await page.textContent("main")).slice(0, 600)}; ${await states(page)}`);
        await page.screenshot({ path: `${folder}/${name}.png` });
      }
      await context.close();
    }
    await endAll();
  }
}
await browser.close();
console.log(`${stores.length - failed} passed, ${failed} failed, 0 skipped`);
process.exit(failed > 0 ? 1 : 0);
