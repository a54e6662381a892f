// SPDX-License-Identifier: Apache-2.0
//
// node bench/html-page.mjs PAGE.html [PICTURES]: drives a page of `mtool report --html` in Debian's chromium, as a reader with
// a mouse, with keys alone, in the dark, on a telephone, on paper and without scripts; looks for faults of accessibility
// with axe. Prints TAP; pictures go to the folder PICTURES. Needs chromium, and in the folder that it is started in
// `npm install playwright-core axe-core`. Not part of `make test`.
import { createRequire } from 'node:module';
import { existsSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const [page, pictures] = process.argv.slice(2);
if (!page || !existsSync(page)) {
  console.error('usage: node bench/html-page.mjs PAGE.html [PICTURES]');
  process.exit(2);
}
const local = createRequire(resolve('package.json'));
let chromium, axe;
try {
  ({ chromium } = local('playwright-core'));
  axe = readFileSync(local.resolve('axe-core/axe.min.js'), 'utf8');
} catch {
  console.log('ok - html page # SKIP npm install playwright-core axe-core');
  process.exit(0);
}
const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find(existsSync);
if (!executablePath) {
  console.log('ok - html page # SKIP no chromium');
  process.exit(0);
}
if (pictures) mkdirSync(pictures, { recursive: true });

const url = pathToFileURL(resolve(page)).href;
let failed = 0;
function is(name, good, said = '') {
  console.log(`${good ? 'ok' : 'not ok'} - ${name}${good || said === '' ? '' : `\n# ${said}`}`);
  failed += !good;
}
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });

// A tab on the page; what it asks of a network and what goes wrong in it is kept.
async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const tab = await context.newPage();
  tab.asked = [];
  tab.wrong = [];
  tab.on('request', (r) => r.url().startsWith('file:') || tab.asked.push(r.url()));
  tab.on('pageerror', (e) => tab.wrong.push(String(e)));
  tab.on('console', (m) => m.type() === 'error' && tab.wrong.push(m.text()));
  await tab.goto(url);
  return tab;
}
const picture = (tab, name, fullPage = false) => pictures && tab.screenshot({ path: `${pictures}/${name}.png`, fullPage });
const shows = (tab, id) => tab.waitForFunction((wanted) => [...document.querySelectorAll('.obj')].filter((o) => o.offsetHeight).map((o) => o.id).join() === wanted,
  id, { timeout: 3000 }).then(() => true, () => false);
const shownId = (tab) => tab.evaluate(() => [...document.querySelectorAll('.obj')].filter((o) => o.offsetHeight).map((o) => o.id).join(' '));

async function mouse() {
  const tab = await open();
  let took = Infinity; // the least: others may use the machine, and the first page pays for the browser's start
  for (let i = 0; i < 5; i++) {
    await tab.reload();
    took = Math.min(took, await tab.evaluate(() => Math.round(performance.getEntriesByType('navigation')[0].loadEventEnd)));
  }
  const count = await tab.locator('.obj').count();
  is(`opens in under a second (${took} ms, ${statSync(page).size} bytes)`, took < 1000, took);
  is('the first bottleneck is shown, alone', await shows(tab, 'o0'), await shownId(tab));
  await picture(tab, 'light', true);
  if (count > 1) {
    await tab.locator('.bars tbody tr').nth(1).locator('svg').click();
    is('a click on a bar opens its source', await shows(tab, 'o1'), await shownId(tab));
    await tab.locator('#o1 a[rel=prev]').click();
    is('PREV', await shows(tab, 'o0'), await shownId(tab));
    await tab.locator('#o0 a[rel=next]').click();
    is('NEXT', await shows(tab, 'o1'), await shownId(tab));
    await tab.goBack();
    is('the browser\'s way back', await shows(tab, 'o0'), await shownId(tab));
  }
  await tab.locator('#o0 .info summary').click();
  is('INFO opens', await tab.locator('#o0 .info dl').isVisible());
  await picture(tab, 'info');
  const lines = tab.locator('#o0 .own');
  if (await lines.count()) {
    await tab.locator('#o0 .src').first().scrollIntoViewIfNeeded();
    const seen = await tab.evaluate(() => {
      const pane = document.querySelector('#o0 .src').getBoundingClientRect(), line = document.querySelector('#o0 .own').getBoundingClientRect();
      return line.top >= pane.top && line.top < pane.bottom;
    });
    is('the marked lines are in sight', seen);
  }
  is('nothing is asked of a network', tab.asked.length === 0, tab.asked.join(' '));
  is('no error in the console', tab.wrong.length === 0, tab.wrong.join(' '));
  await tab.context().close();
}

// Every section has its link; ranks and threads, where there are several, have a row each.
async function sections() {
  const tab = await open();
  const [links, all] = await tab.evaluate(() => ['header nav a', 'main section'].map((s) => [...document.querySelectorAll(s)].map((e) => e.id || e.hash.slice(1)).join(' ')));
  is('a link to every section, in order', links === all, `${links} | ${all}`);
  for (const id of links.split(' ')) {
    await tab.locator(`header nav a[href="#${id}"]`).click();
    const top = await tab.evaluate((i) => document.getElementById(i).getBoundingClientRect().top, id);
    is(`the link to ${id} leads there`, top > -2 && top < 900, top);
  }
  for (const id of ['ranks', 'threads']) {
    const rows = tab.locator(`#${id} table`).first().locator('tbody tr'), count = await rows.count();
    if (!count) continue;
    const before = await shownId(tab);
    await rows.nth(count - 1).click();
    is(`${id}: ${count} rows, which lead nowhere`, (await shownId(tab)) === before && tab.wrong.length === 0, tab.wrong.join(' '));
    if (pictures) await tab.locator(`#${id}`).screenshot({ path: `${pictures}/${id}.png` });
  }
  await tab.context().close();
}

async function keys() {
  const tab = await open(), count = await tab.locator('.obj').count();
  const focused = () => tab.evaluate(() => document.activeElement.getAttribute('href') || document.activeElement.className || document.activeElement.tagName);
  await tab.keyboard.press('Tab');
  is('the first key leads to the bottlenecks', (await focused()) === '#histogram', await focused());
  await tab.keyboard.press('Enter');
  for (let i = 0; i < 30 && (await focused()) !== '#o0'; i++) await tab.keyboard.press('Tab');
  is('Tab reaches the first bar', (await focused()) === '#o0', await focused());
  if (count > 1) {
    await tab.keyboard.press('ArrowDown');
    is('an arrow moves to the next bar', (await focused()) === '#o1', await focused());
    await tab.keyboard.press('Enter');
    is('Enter opens it', await shows(tab, 'o1'), await shownId(tab));
    await tab.keyboard.press('ArrowLeft');
    is('an arrow moves to the larger one', await shows(tab, 'o0'), await shownId(tab));
    await tab.keyboard.press('ArrowRight');
    is('and back', await shows(tab, 'o1'), await shownId(tab));
    await tab.keyboard.press('ArrowLeft');
  } else {
    await tab.keyboard.press('Enter');
  }
  for (let i = 0; i < 10 && !(await focused()).includes('button') ; i++) await tab.keyboard.press('Tab');
  while (!(await tab.evaluate(() => document.activeElement.tagName === 'SUMMARY'))) await tab.keyboard.press('Tab');
  await tab.keyboard.press('Enter');
  is('Enter opens INFO', await tab.locator('#o0 .info dl').isVisible());
  await tab.context().close();
}

async function rules(name, options) {
  const tab = await open({ bypassCSP: true, ...options });
  await tab.evaluate(() => document.querySelectorAll('details').forEach((d) => { d.open = true; }));
  await tab.evaluate(axe);
  const found = await tab.evaluate(() => globalThis.axe.run());
  is(`no fault of accessibility, ${name}`, found.violations.length === 0,
    found.violations.map((v) => `${v.id} (${v.nodes.length}): ${v.nodes[0].html.slice(0, 160)} ${v.nodes[0].failureSummary}`).join(' | ').replaceAll('\n', ' '));
  await tab.context().close();
}

async function looks() {
  const dark = await open({ colorScheme: 'dark' });
  is('dark', (await dark.evaluate(() => getComputedStyle(document.body).backgroundColor)) === 'rgb(21, 24, 28)');
  await picture(dark, 'dark', true);
  await dark.context().close();
  for (const width of [400, 320]) {
    const narrow = await open({ viewport: { width, height: 800 } });
    const wide = await narrow.evaluate(() => document.documentElement.scrollWidth);
    is(`${width} pixels: nothing sticks out`, wide <= width, wide);
    await picture(narrow, `narrow-${width}`, true);
    await narrow.context().close();
  }
  const paper = await open();
  await paper.emulateMedia({ media: 'print' });
  if (pictures) await paper.pdf({ path: `${pictures}/paper.pdf`, format: 'A4' });
  is('paper: no buttons', !(await paper.locator('.obj.on .button').first().isVisible()));
  await paper.context().close();
  const still = await open({ javaScriptEnabled: false });
  is('without scripts all is there', (await still.locator('.obj').last().isVisible()));
  await still.context().close();
}

await mouse();
await sections();
await keys();
await rules('light', {});
await rules('dark', { colorScheme: 'dark' });
await rules('narrow', { viewport: { width: 400, height: 800 } });
await looks();
await browser.close();
process.exit(failed ? 1 : 0);
