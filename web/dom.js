// Elements without markup: text never becomes HTML anywhere in this page.

const SVG = 'http://www.w3.org/2000/svg';

// h('button', {class: 'x', onclick: f, 'aria-label': 't'}, 'text', node, ...): an element. Attributes
// that are null, undefined or false are left out.
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

export const find = (selector, root = document) => root.querySelector(selector);

// Paths of icons in a box of 24, drawn with strokes.
const ICONS = {
  menu: 'M4 6h16M4 12h16M4 18h16',
  plus: 'M12 5v14M5 12h14',
  send: 'M12 19V5M5 12l7-7 7 7',
  stop: 'M7 7h10v10H7z',
  copy: 'M9 9h10v11H9zM5 15V4h10',
  check: 'M5 12.5l4.5 4.5L19 7.5',
  edit: 'M4 20l1-4L16 5l3 3L8 19zM14 7l3 3',
  again: 'M4.5 12a7.5 7.5 0 0 1 13-5l2 2M19.5 4v5h-5M19.5 12a7.5 7.5 0 0 1-13 5l-2-2M4.5 20v-5h5',
  left: 'M14 6l-6 6 6 6',
  right: 'M10 6l6 6-6 6',
  trash: 'M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13',
  more: 'M6 12h.01M12 12h.01M18 12h.01',
  save: 'M12 4v11M7 11l5 5 5-5M5 20h14',
  open: 'M12 16V5M7 9l5-5 5 5M5 20h14',
  sliders: 'M3.5 8H13M18.5 8h2M3.5 16h2M11 16h9.5M13 8a2.75 2.75 0 1 0 5.5 0 2.75 2.75 0 1 0-5.5 0M5.5 16a2.75 2.75 0 1 0 5.5 0 2.75 2.75 0 1 0-5.5 0',
  sun: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8M12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6L19 19M5 19l1.4-1.4M17.6 6.4L19 5',
  moon: 'M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5z',
  auto: 'M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18M12 3v18M12 7h4M12 11h6M12 15h5',
  chart: 'M4 19h16M7 15v-4M12 15V6M17 15v-7',
  close: 'M6 6l12 12M18 6L6 18',
  bars: 'M6 20v-6M12 20V10M18 20V4',
  tool: 'M14 6a4 4 0 0 1 5-1l-3 3 1 2 2 1 3-3a4 4 0 0 1-6 5l-7 7-3-3 7-7a4 4 0 0 1 1-4z',
  think: 'M12 3a6 6 0 0 0-3.5 10.9V17h7v-3.1A6 6 0 0 0 12 3M9.5 20.5h5',
  down: 'M12 5v14M6 13l6 6 6-6',
  chat: 'M4 5h16v11H10l-4 4v-4H4z',
  key: 'M14 10a4 4 0 1 1-1.2-2.8A4 4 0 0 1 14 10zM14 10h7v4M18 10v3',
};

export function icon(name) {
  return svg('svg', {class: 'icon', viewBox: '0 0 24 24', 'aria-hidden': 'true'},
      svg('path', {d: ICONS[name]}));
}

// A button that shows an icon and says its label.
export function iconButton(name, label, onclick, attributes) {
  return h('button', {type: 'button', class: 'icon-button', title: label, 'aria-label': label, onclick,
    ...attributes}, icon(name));
}

// Says something to screen readers, without showing it.
export function announce(text) {
  const place = find('#announcer');
  if (place) place.textContent = text;
}

let toastTimer = 0;

// A short note at the bottom, with one action if wanted.
export function toast(text, action, onaction) {
  const place = find('#toast');
  clearTimeout(toastTimer);
  place.replaceChildren(h('span', null, text));
  if (action)
    place.append(h('button', {type: 'button', class: 'text-button', onclick: () => {
      place.replaceChildren();
      onaction();
    }}, action));
  toastTimer = setTimeout(() => place.replaceChildren(), action ? 8000 : 3000);
}

// Where the page has no clipboard of its own, as over HTTP by another name than localhost, a selection
// of the text is copied.
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = h('textarea', {class: 'off-screen', readonly: true, 'aria-hidden': 'true'});
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
}

// A button that copies what `text` returns.
export function copyButton(label, text) {
  const button = iconButton('copy', label, async () => {
    const focused = document.activeElement;
    const done = await copyText(text());
    if (focused instanceof HTMLElement) focused.focus();
    button.replaceChildren(icon(done ? 'check' : 'close'));
    announce(done ? 'Copied' : 'Copying failed');
    setTimeout(() => button.replaceChildren(icon('copy')), 1500);
  });
  return button;
}
