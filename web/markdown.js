// Markdown becomes elements, block by block. HTML in it stays text; pictures become links. What a
// model writes is hostile: nothing here makes markup of it, nesting is bounded, and the work grows
// with the length of the text.
import {copyButton, h} from './dom.js';
import {highlight} from './highlight.js';
import {renderInline} from './inline.js';
import {renderMath} from './math.js';

const MAX_DEPTH = 10;
const MAX_LINE = 4000; // characters of a line that can begin anything but a paragraph
const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:\s+(.*?))?(?:\s+#+)?\s*$/;
const RULE = /^ {0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?:( +)|$)/;
const TABLE_RULE = /^ {0,3}\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;
const MATH_OPEN = /^ {0,3}(\$\$|\\\[)/;

const isBlank = (line) => line.trim() === '';
const indentOf = (line) => line.length - line.trimStart().length;

const isTableRule = (line) => line.length < MAX_LINE && line.includes('-') && TABLE_RULE.test(line);

function beginsBlock(line) {
  if (line.length > MAX_LINE) return false;
  const item = ITEM.exec(line);
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) ||
      MATH_OPEN.test(line) || (item !== null && item[3] !== undefined);
}

// ---- blocks ---------------------------------------------------------------------------------

function takeFence(lines, at) {
  const [, fence, info] = FENCE.exec(lines[at]);
  const end = new RegExp(`^ {0,3}${fence[0]}{${fence.length},}\\s*$`);
  const indent = indentOf(lines[at]);
  const body = [];
  let i = at + 1;
  for (; i < lines.length && !end.test(lines[i]); i++)
    body.push(lines[i].slice(Math.min(indent, indentOf(lines[i]))));
  return {type: 'code', language: info.trim().split(/\s+/)[0], text: body.join('\n'), next: i + 1};
}

// $$ or \[ up to its end, where nothing follows that; otherwise null.
function takeMath(lines, at) {
  const open = MATH_OPEN.exec(lines[at])[1];
  const close = open === '$$' ? '$$' : '\\]';
  let text = lines[at].slice(lines[at].indexOf(open) + 2);
  for (let i = at; i < lines.length && i < at + 200; i++) {
    const from = i === at ? text : lines[i];
    const found = from.indexOf(close);
    if (i > at) text += '\n' + from;
    if (found < 0) continue;
    if (!isBlank(from.slice(found + 2))) return null;
    return {type: 'math', text: text.slice(0, text.lastIndexOf(close)), next: i + 1};
  }
  return null;
}

function takeQuote(lines, at) {
  const body = [];
  let i = at;
  for (; i < lines.length && QUOTE.test(lines[i]); i++) body.push(lines[i].replace(QUOTE, ''));
  return {type: 'quote', lines: body, next: i};
}

// The lines of one item, without its marker and indent.
function takeItem(lines, at, match) {
  const own = match[1].length;
  const gap = match[3] === undefined || match[3].length > 4 ? 1 : match[3].length;
  const indent = own + match[2].length + gap;
  const body = [lines[at].slice(indent)];
  let i = at + 1, blanks = 0;
  for (; i < lines.length; i++) {
    const line = lines[i], deep = indentOf(line);
    if (isBlank(line)) {
      blanks++;
      continue;
    }
    const inside = deep >= indent || (deep >= own + 2 && ITEM.test(line));
    const goesOn = blanks === 0 && !beginsBlock(line);
    if (!inside && !goesOn) break;
    while (blanks > 0) {
      body.push('');
      blanks--;
    }
    body.push(line.slice(Math.min(deep, indent)));
  }
  return {lines: body, next: i, isLoose: blanks > 0};
}

function takeList(lines, at) {
  const first = ITEM.exec(lines[at]);
  const kind = (match) => match[2].slice(-1);
  const items = [];
  let i = at, isLoose = false;
  while (i < lines.length) {
    const match = ITEM.exec(lines[i]);
    if (match === null || kind(match) !== kind(first) || RULE.test(lines[i])) break;
    const item = takeItem(lines, i, match);
    items.push(item.lines);
    i = item.next;
    const next = i < lines.length ? ITEM.exec(lines[i]) : null;
    isLoose = isLoose || (item.isLoose && next !== null && kind(next) === kind(first));
  }
  const start = /^\d/.test(first[2]) ? parseInt(first[2], 10) : null;
  return {type: 'list', start, items, isLoose, next: i};
}

// Cells of a row; a bar behind a backslash or within code does not part them.
function splitRow(line) {
  const cells = [];
  let cell = '', inCode = false;
  const text = line.trim().replace(/^\|/, '');
  for (let i = 0; i < text.length; i++) {
    if (text[i] === '\\' && text[i + 1] === '|') cell += text[++i];
    else if (text[i] === '|' && !inCode) {
      cells.push(cell.trim());
      cell = '';
    } else {
      if (text[i] === '`') inCode = !inCode && text.indexOf('`', i + 1) > 0;
      cell += text[i];
    }
  }
  if (!isBlank(cell)) cells.push(cell.trim());
  return cells;
}

function takeTable(lines, at) {
  const head = splitRow(lines[at]);
  const align = splitRow(lines[at + 1]).map((cell) => {
    const left = cell.startsWith(':'), right = cell.endsWith(':');
    return left && right ? 'centre' : right ? 'right' : null;
  });
  if (head.length !== align.length) return null;
  const rows = [];
  let i = at + 2;
  for (; i < lines.length && !isBlank(lines[i]) && lines[i].includes('|'); i++)
    rows.push(splitRow(lines[i]));
  return {type: 'table', head, align, rows, next: i};
}

function takeParagraph(lines, at) {
  let i = at + 1;
  while (i < lines.length && !isBlank(lines[i]) && !beginsBlock(lines[i])) {
    if (lines[i].length < MAX_LINE && lines[i].includes('|') && i + 1 < lines.length && isTableRule(lines[i + 1])) break;
    i++;
  }
  return {type: 'paragraph', text: lines.slice(at, i).join('\n'), next: i};
}

function takeBlock(lines, at) {
  const line = lines[at];
  if (line.length > MAX_LINE) return takeParagraph(lines, at);
  if (FENCE.test(line)) return takeFence(lines, at);
  const heading = HEADING.exec(line);
  if (heading) return {type: 'heading', level: heading[1].length, text: heading[2] || '', next: at + 1};
  if (RULE.test(line)) return {type: 'rule', next: at + 1};
  if (QUOTE.test(line)) return takeQuote(lines, at);
  if (ITEM.test(line)) return takeList(lines, at);
  const isTable = line.includes('|') && at + 1 < lines.length && isTableRule(lines[at + 1]);
  const block = (isTable && takeTable(lines, at)) || (MATH_OPEN.test(line) && takeMath(lines, at));
  return block || takeParagraph(lines, at);
}

// ---- elements -------------------------------------------------------------------------------

function renderCode(block) {
  const code = h('code', null, highlight(block.text, block.language));
  const name = /^[\w+#.-]{1,20}$/.test(block.language) ? block.language : '';
  return h('figure', {class: 'code'},
      h('figcaption', null, h('span', null, name || 'code'), copyButton('Copy the code', () => block.text)),
      h('pre', {tabindex: '0', 'aria-label': `Code${name ? ` in ${name}` : ''}`}, code));
}

function renderTable(block) {
  const cell = (tag, text, column) => h(tag, {class: block.align[column] || null,
    scope: tag === 'th' ? 'col' : null}, renderInline(text));
  const row = (tag, cells) => h('tr', null, block.align.map((_, i) => cell(tag, cells[i] || '', i)));
  return h('div', {class: 'table', tabindex: '0', role: 'region', 'aria-label': 'Table'},
      h('table', null, h('thead', null, row('th', block.head)),
          h('tbody', null, block.rows.map((cells) => row('td', cells)))));
}

function renderItem(lines, isLoose, depth) {
  const task = /^\[([ xX])\]\s+/.exec(lines[0]);
  const body = task ? [lines[0].slice(task[0].length), ...lines.slice(1)] : lines;
  const item = h('li', {class: task ? 'task' : null});
  if (task)
    item.append(h('span', {class: 'task-box', role: 'img', 'aria-label': task[1] === ' ' ? 'Open' : 'Done'},
        task[1] === ' ' ? '☐' : '☑'), ' ');
  for (const part of renderLines(body, depth + 1)) {
    if (part.tagName === 'P' && !isLoose) item.append(...part.childNodes);
    else item.append(part);
  }
  return item;
}

function renderList(block, depth) {
  const isOrdered = block.start !== null;
  return h(isOrdered ? 'ol' : 'ul', {start: isOrdered && block.start !== 1 ? block.start : null},
      block.items.map((lines) => renderItem(lines, block.isLoose, depth)));
}

function renderBlock(block, depth) {
  switch (block.type) {
    case 'code': return renderCode(block);
    case 'heading': // below the headings of the page itself
      return h(`h${Math.min(block.level + 2, 6)}`, {class: `level-${block.level}`}, renderInline(block.text));
    case 'rule': return h('hr');
    case 'quote': return h('blockquote', null, renderLines(block.lines, depth + 1));
    case 'list': return renderList(block, depth);
    case 'table': return renderTable(block);
    case 'math': return h('div', {class: 'math', tabindex: '0', role: 'group', 'aria-label': 'Formula'},
        renderMath(block.text, true));
    default: return h('p', null, renderInline(block.text));
  }
}

function renderLines(lines, depth) {
  if (depth > MAX_DEPTH) return [h('p', null, lines.join('\n'))];
  const elements = [];
  for (let at = 0; at < lines.length;) {
    if (isBlank(lines[at])) {
      at++;
      continue;
    }
    const block = takeBlock(lines, at);
    elements.push(renderBlock(block, depth));
    at = block.next;
  }
  return elements;
}

function splitLines(text) {
  return text.replace(/\r\n?/g, '\n').split('\n').map((line) => line.replace(/^\t+/, (tabs) =>
    '    '.repeat(tabs.length)));
}

// Shows a text that grows within an element: blocks that did not change keep their elements.
export class MarkdownView {
  constructor(element) {
    this.element = element;
    this.sources = [];
  }

  update(text) {
    const lines = splitLines(text);
    let n = 0;
    for (let at = 0; at < lines.length;) {
      if (isBlank(lines[at])) {
        at++;
        continue;
      }
      const block = takeBlock(lines, at);
      const source = lines.slice(at, block.next).join('\n');
      if (this.sources[n] !== source) {
        const fresh = renderBlock(block, 0);
        const old = this.element.children[n];
        if (old) old.replaceWith(fresh);
        else this.element.append(fresh);
        this.sources[n] = source;
      }
      n++;
      at = block.next;
    }
    while (this.element.children.length > n) this.element.lastElementChild.remove();
    this.sources.length = n;
  }
}
