// SPDX-License-Identifier: Apache-2.0
//
// node bench/html-picture.mjs PAGE.html OUT.svg [SELECTOR...]: draws parts of a page of `mtool report --html` as Debian's chromium
// lays it out (the first screen, if none are named) as an SVG of text and rectangles, for the README. Needs what html-page.mjs needs.
import { createRequire } from 'node:module';
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const [page, out, ...selectors] = process.argv.slice(2);
if (!out) {
  console.error('usage: node bench/html-picture.mjs PAGE.html OUT.svg [SELECTOR...]');
  process.exit(2);
}
const { chromium } = createRequire(resolve('package.json'))('playwright-core');
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
const tab = await (await browser.newContext({ viewport: { width: 1000, height: 420 } })).newPage();
await tab.goto(pathToFileURL(resolve(page)).href);

// Everything that is seen inside of the selected elements, in order: boxes first, text above them.
const drawing = await tab.evaluate((wanted) => {
  const parts = wanted.length ? wanted.map((s) => document.querySelector(s)) : [document.body];
  const colour = (c) => (/rgba\(.*, 0\)/.test(c) || c === 'transparent' ? null : c);
  const boxes = [], texts = [], gap = 12;
  let top = 0, right = 0;
  for (const part of parts) {
    const frame = part.getBoundingClientRect(), shift = top - frame.top;
    // Within what scrolls around it; what a closed element holds is not there.
    const inside = (e, r) => {
      const pane = (e.closest('.src') ?? part).getBoundingClientRect();
      const head = e.closest('.src tbody')?.previousElementSibling.getBoundingClientRect().bottom ?? pane.top;
      return e.checkVisibility({ contentVisibilityAuto: true, visibilityProperty: true }) && r.width > 0 && r.height > 0 && r.bottom <= pane.bottom + 1 && r.top >= head - 1 && r.left < pane.right - 4;
    };
    for (const e of [part, ...part.querySelectorAll('*')]) {
      const style = getComputedStyle(e), r = e.getBoundingClientRect();
      if (style.clipPath !== 'none' || !inside(e, r)) continue;
      const fill = e.tagName === 'rect' ? style.fill : colour(style.backgroundColor);
      if (e.tagName === 'path') {
        for (const [x, y, w, h] of [[r.left, r.top + r.height / 2, r.width, 1.5], [r.left, r.top, 1.5, r.height], [r.right - 1.5, r.top, 1.5, r.height]])
          boxes.push({ x, y: y + shift, w, h, fill: style.stroke });
        continue;
      }
      const edge = e.closest('.src')?.getBoundingClientRect().right ?? 1000;
      if (fill) boxes.push({ x: r.left, y: r.top + shift, w: Math.min(r.right, edge) - r.left, h: r.height, fill });
      for (const [side, x, y, w, h] of [['Top', r.left, r.top, r.width, 1], ['Bottom', r.left, r.bottom - 1, r.width, 1], ['Left', r.left, r.top, 1, r.height], ['Right', r.right - 1, r.top, 1, r.height]])
        if (parseFloat(style[`border${side}Width`]) && e.namespaceURI.endsWith('xhtml')) boxes.push({ x, y: y + shift, w: Math.min(w, edge - x), h, fill: style[`border${side}Color`] });
      right = Math.max(right, Math.min(r.right, edge));
    }
    const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const style = getComputedStyle(node.parentElement), range = document.createRange();
      if (!node.data.trim() || style.clipPath !== 'none') continue;
      let line = null;
      for (let i = 0; i < node.data.length; i++) {
        range.setStart(node, i);
        range.setEnd(node, i + 1);
        const r = range.getBoundingClientRect();
        if (!inside(node.parentElement, r) || r.right > 990) continue;
        if (!line || r.top > line.top + 2) texts.push(line = { top: r.top, x: r.left, y: r.bottom - r.height * 0.23 + shift, text: '', size: parseFloat(style.fontSize),
          weight: style.fontWeight, fill: style.color, mono: style.fontFamily.includes('mono') });
        line.text += node.data[i];
        if (node.data[i].trim()) line.width = r.right - line.x;
      }
    }
    top += frame.height + gap;
  }
  return { boxes, texts, width: right + 16, height: top };
}, selectors);
await browser.close();

const escape = (s) => s.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const n = (x) => Number(x.toFixed(1));
const lines = [`<svg xmlns="http://www.w3.org/2000/svg" width="${n(drawing.width)}" height="${n(drawing.height)}" font-family="system-ui, DejaVu Sans, sans-serif">`,
  '<!-- SPDX-License-Identifier: Apache-2.0; drawn by bench/html-picture.mjs -->', '<rect width="100%" height="100%" fill="#fff"/>'];
for (const b of drawing.boxes) lines.push(`<rect x="${n(b.x)}" y="${n(b.y)}" width="${n(b.w)}" height="${n(b.h)}" fill="${b.fill}"/>`);
for (const t of drawing.texts.filter((x) => x.width))
  lines.push(`<text x="${n(t.x)}" y="${n(t.y)}" font-size="${n(t.size)}" fill="${t.fill}" textLength="${n(t.width)}"${t.weight > 400 ? ` font-weight="${t.weight}"` : ''}${t.mono ? ' font-family="monospace" xml:space="preserve"' : ''}>${escape(t.text.trimEnd())}</text>`);
writeFileSync(out, lines.concat('</svg>', '').join('\n'));
