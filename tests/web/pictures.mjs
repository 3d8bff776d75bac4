// pictures.mjs - the pictures of the documents: `make screenshots`.
//
// usage: node pictures.mjs TENURE MODULES FOLDER

import { launch, openPage, serve } from "./browser.mjs";

const [tenure, modules, folder] = process.argv.slice(2);
const DESKTOP = { width: 1360, height: 1010 };
const PHONE = { width: 390, height: 844 };
const pictures = [
  {
    name: "sandbox-light",
    script: "story=pause-and-fence",
    at: 27003,
    viewport: DESKTOP,
    colorScheme: "light",
  },
  {
    name: "sandbox-dark",
    script: "story=drift+plant=no-margin",
    at: 19100,
    viewport: DESKTOP,
    colorScheme: "dark",
  },
  {
    name: "sandbox-phone-light",
    script: "nodes=5+9000:freeze:a:22000+fence=off",
    at: 31010,
    viewport: PHONE,
    colorScheme: "light",
  },
  {
    name: "sandbox-phone-dark",
    script: "story=pause-and-fence",
    at: 27006,
    viewport: PHONE,
    colorScheme: "dark",
  },
];

const browser = await launch(modules);
const served = await serve(tenure);
for (const { name, script, at, viewport, colorScheme } of pictures) {
  const page = await openPage(browser, `${served.url}#1/${at}/${script}`, {
    viewport,
    colorScheme,
  });
  await page.screenshot({ path: `${folder}/${name}.png` });
  await page.context().close();
}
await browser.close();
await served.end();
