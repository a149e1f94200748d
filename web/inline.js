// The inside of a block of Markdown: emphasis, code, links, formulas.
import {h} from './dom.js';
import {renderMath} from './math.js';

const MAX_DEPTH = 8;
const MAX_DELIMITERS = 400; // of a block; further ones are text
const MAX_SPAN = 4000;      // characters of a link or formula
const PUNCTUATION = /[!-/:-@[-`{-~]/;
const TARGET = /\(\s*(?:<([^<>\n]{0,2000})>|([^\s()<>]{0,2000}(?:\([^\s()<>]{0,200}\)[^\s()<>]{0,2000})?))(?:\s+"[^"\n]{0,500}")?\s*\)/y;
const BARE = /https?:\/\/[^\s<>"'`\\|]{1,2000}/y;

// Only addresses that cannot run anything become links.
export function safeAddress(address) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return null;
  }
  return ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : null;
}

function link(address, content) {
  const href = safeAddress(address);
  if (href === null) return h('span', {title: address}, content);
  return h('a', {href, rel: 'noopener noreferrer nofollow', target: '_blank', title: href}, content);
}

class Scanner {
  constructor(text, depth) {
    this.text = text;
    this.depth = depth;
    this.at = 0;
    this.plain = '';
    this.fragment = document.createDocumentFragment();
    this.delimiters = [];
    this.missing = new Set(); // ends that do not come any more
  }

  put(node) {
    this.flush();
    this.fragment.append(node);
  }

  flush() {
    if (this.plain !== '') this.fragment.append(this.plain);
    this.plain = '';
  }

  // The place of an end behind `from`, or -1; what was not found once is not searched again.
  findEnd(end, from) {
    if (this.missing.has(end)) return -1;
    const found = this.text.indexOf(end, from);
    if (found < 0) this.missing.add(end);
    return found >= 0 && found - from <= MAX_SPAN ? found : -1;
  }

  takeCode() {
    const run = /`+/y;
    run.lastIndex = this.at;
    const ticks = run.exec(this.text)[0];
    let from = this.at + ticks.length;
    const key = `code${ticks.length}`;
    if (!this.missing.has(key)) {
      for (let found = this.text.indexOf(ticks, from); found >= 0;) {
        run.lastIndex = found;
        const other = run.exec(this.text)[0];
        if (other.length === ticks.length) {
          let code = this.text.slice(from, found).replace(/\n/g, ' ');
          if (/^ .*[^ ].* $/.test(code)) code = code.slice(1, -1);
          this.put(h('code', null, code));
          this.at = found + ticks.length;
          return;
        }
        found = this.text.indexOf(ticks, found + other.length);
      }
      this.missing.add(key);
    }
    this.plain += ticks;
    this.at = from;
  }

  // $x$, $$x$$, \(x\), \[x\]; a dollar beside a space or before a digit is money.
  takeMath(open, close, isDisplay) {
    const from = this.at + open.length;
    if (open === '$' && /[\s$]/.test(this.text[from] || ' ')) return false;
    for (let end = this.findEnd(close, from); end > from; end = this.findEnd(close, end + 1)) {
      if (open === '$' && end - from > 500) return false;
      const isMoney = open === '$' && (/\s/.test(this.text[end - 1]) || /\d/.test(this.text[end + 1] || ''));
      if (open === '$' && this.text[end - 1] === '\\') continue;
      if (isMoney || this.text.slice(from, end).includes('\n\n')) return false;
      this.put(renderMath(this.text.slice(from, end), isDisplay));
      this.at = end + close.length;
      return true;
    }
    return false;
  }

  // [text](address), ![text](address); pictures are not loaded, as that would tell others.
  takeLink() {
    const isPicture = this.text[this.at] === '!';
    const from = this.at + (isPicture ? 2 : 1);
    let open = 1, end = from;
    for (; end < this.text.length && end - from < MAX_SPAN && open > 0; end++) {
      if (this.text[end] === '\\') end++;
      else if (this.text[end] === '[') open++;
      else if (this.text[end] === ']') open--;
    }
    if (open > 0) return false;
    TARGET.lastIndex = end;
    const target = TARGET.exec(this.text);
    if (target === null) return false;
    const label = this.text.slice(from, end - 1);
    const content = isPicture ? [`Picture: ${label || 'without a name'}`]
      : [renderInline(label, this.depth + 1)];
    this.put(link(target[1] === undefined ? target[2] : target[1], content));
    this.at = end + target[0].length;
    return true;
  }

  takeBareLink() {
    BARE.lastIndex = this.at;
    const found = BARE.exec(this.text);
    if (found === null) return false;
    let address = found[0].replace(/[.,;:!?*_~\]}]+$/, '');
    if (address.endsWith(')') && !address.includes('(')) address = address.slice(0, -1);
    this.put(link(address, [address]));
    this.at += address.length;
    return true;
  }

  takeDelimiter() {
    const c = this.text[this.at];
    let end = this.at;
    while (this.text[end] === c) end++;
    const run = this.text.slice(this.at, end);
    const before = this.text[this.at - 1] || ' ', after = this.text[end] || ' ';
    const isTilde = c === '~';
    if (this.delimiters.length >= MAX_DELIMITERS || (isTilde && run.length !== 2)) {
      this.plain += run;
      this.at = end;
      return;
    }
    const left = !/\s/.test(after) && (!PUNCTUATION.test(after) || /\s/.test(before) || PUNCTUATION.test(before));
    const right = !/\s/.test(before) && (!PUNCTUATION.test(before) || /\s/.test(after) || PUNCTUATION.test(after));
    const node = document.createTextNode(run);
    this.put(node);
    this.delimiters.push({c, node, n: run.length,
      opens: left && (c !== '_' || !right || PUNCTUATION.test(before)),
      closes: right && (c !== '_' || !left || PUNCTUATION.test(after))});
    this.at = end;
  }

  takeBackslash() {
    const next = this.text[this.at + 1] || '';
    if (next === '(' && this.takeMath('\\(', '\\)', false)) return;
    if (next === '[' && this.takeMath('\\[', '\\]', true)) return;
    if (next === '\n') this.put(h('br'));
    else if (next !== '' && PUNCTUATION.test(next)) this.plain += next;
    else {
      this.plain += '\\';
      this.at -= 1;
    }
    this.at += 2;
  }

  takeSpecial(c) {
    if (c === '`') this.takeCode();
    else if (c === '\\') this.takeBackslash();
    else if (c === '*' || c === '_' || c === '~') this.takeDelimiter();
    else if (c === '\n') {
      this.plain = this.plain.replace(/ +$/, '');
      this.put(h('br'));
      this.at++;
    } else return false;
    return true;
  }

  takeSpan(c) {
    if (c === '$')
      return this.takeMath('$$', '$$', true) ||
          (this.text[this.at + 1] !== '$' && this.takeMath('$', '$', false));
    if (this.depth < MAX_DEPTH && (c === '[' || (c === '!' && this.text[this.at + 1] === '[')))
      return this.takeLink();
    return c === 'h' && !/\w/.test(this.text[this.at - 1] || '') && this.takeBareLink();
  }

  run() {
    while (this.at < this.text.length) {
      const c = this.text[this.at];
      if (this.takeSpecial(c)) continue;
      if (c === '$' && !this.text.startsWith('$$', this.at) && this.takeSpan(c)) continue;
      if (c === '$' && this.text.startsWith('$$', this.at) && this.takeMath('$$', '$$', true)) continue;
      if (c !== '$' && this.takeSpan(c)) continue;
      this.plain += c;
      this.at++;
    }
    this.flush();
    this.pair();
    return this.fragment;
  }

  // Delimiters become elements around what lies between them.
  pair() {
    const open = [];
    for (const closer of this.delimiters) {
      while (closer.closes && closer.n > 0) {
        let i = open.length - 1;
        while (i >= 0 && open[i].c !== closer.c) i--;
        if (i < 0) break;
        const opener = open[i];
        open.length = i + 1;
        const n = Math.min(opener.n, closer.n) >= 2 ? 2 : 1;
        const tag = closer.c === '~' ? 'del' : n === 2 ? 'strong' : 'em';
        const element = h(tag);
        while (opener.node.nextSibling && opener.node.nextSibling !== closer.node)
          element.append(opener.node.nextSibling);
        opener.node.after(element);
        opener.n -= n;
        closer.n -= n;
        opener.node.data = opener.c.repeat(opener.n);
        closer.node.data = closer.c.repeat(closer.n);
        if (opener.n === 0) open.pop();
      }
      if (closer.opens && closer.n > 0) open.push(closer);
    }
  }
}

export function renderInline(text, depth = 0) {
  return new Scanner(text, depth).run();
}
