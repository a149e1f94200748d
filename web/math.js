// LaTeX's formulas become MathML, which browsers draw and screen readers speak. The source stays with
// them, as an annotation. What is not known is shown as it was written.
import {accents, big, functions, ignored, inAlphabet, integrals, isAlphabet, letters, limits, operators,
  spaces} from './math_symbols.js';

const MATHML = 'http://www.w3.org/1998/Math/MathML';
const MAX_CHARACTERS = 4000, MAX_DEPTH = 40;
const TOKEN = /\\(?:[a-zA-Z]+\*?|[^])|%[^\n]*|\s+|[^]/gu;
const FENCED = new Map([['matrix', ['', '']], ['smallmatrix', ['', '']], ['pmatrix', ['(', ')']],
  ['bmatrix', ['[', ']']], ['Bmatrix', ['{', '}']], ['vmatrix', ['|', '|']], ['Vmatrix', ['‖', '‖']],
  ['cases', ['{', '']], ['array', ['', '']]]);
const ALIGNED = new Set(['align', 'aligned', 'align*', 'split', 'gather', 'gathered', 'gather*', 'eqnarray',
  'equation', 'equation*', 'eqnarray*', 'multline', 'alignat', 'alignedat']);

function m(tag, attributes, ...children) {
  const element = document.createElementNS(MATHML, tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  element.append(...children.flat());
  return element;
}

const row = (nodes) => (nodes.length === 1 ? nodes[0] : m('mrow', null, nodes));
const mo = (text, attributes) => m('mo', attributes, text);
const mi = (text) => m('mi', null, text);
const makeFence = (text, form) =>
  (text === '' ? [] : mo(text, {stretchy: 'true', fence: 'true', form, 'data-fence': 'yes'}));
const upright = (text) => m('mi', {mathvariant: 'normal'}, text);

// Without a font for formulas nothing stretches. Whether there is one shows by a bracket that must grow.
let hasFont = null;

function findFont() {
  const probe = m('math', null, m('mrow', null, m('mo', {stretchy: 'true', minsize: '4em'}, '(')));
  probe.style.position = 'absolute';
  document.body.append(probe);
  hasFont = probe.getBoundingClientRect().height > 3 * parseFloat(getComputedStyle(probe).fontSize);
  probe.remove();
  document.documentElement.classList.toggle('no-math-font', !hasFont);
}

// Then brackets are scaled to what stands beside them, once the formula has a place.
function stretchFences(math) {
  if (!math.isConnected) return;
  for (const fence of math.querySelectorAll('mo[data-fence]')) {
    fence.style.transform = '';
    const own = fence.getBoundingClientRect();
    let top = Infinity, bottom = -Infinity;
    for (const other of fence.parentElement.children) {
      if (other.dataset.fence) continue;
      const box = other.getBoundingClientRect();
      top = Math.min(top, box.top);
      bottom = Math.max(bottom, box.bottom);
    }
    const scale = (bottom - top) / own.height;
    if (scale > 1.15)
      fence.style.transform = `translateY(${(top + bottom - own.top - own.bottom) / 2}px) scaleY(${scale})`;
  }
}

class Parser {
  constructor(source) {
    this.tokens = source.match(TOKEN) || [];
    this.at = 0;
    this.depth = 0;
  }

  skipSpace() {
    while (this.at < this.tokens.length && /^[\s%]/.test(this.tokens[this.at])) this.at++;
  }

  peek() {
    this.skipSpace();
    return this.tokens[this.at];
  }

  take() {
    this.skipSpace();
    return this.tokens[this.at++];
  }

  // The characters of a group, unread.
  takeRaw() {
    if (this.peek() !== '{') return this.take() || '';
    let text = '', open = 0;
    do {
      const token = this.tokens[this.at++];
      if (token === '{') open++;
      if (token === '}') open--;
      if (open > 0 && !(open === 1 && token === '{')) text += token;
    } while (open > 0 && this.at < this.tokens.length);
    return text;
  }

  // A group or one atom.
  takeArgument(alphabet) {
    if (this.peek() === undefined) return m('mrow');
    if (this.peek() !== '{') return row(this.takeAtom(alphabet));
    this.at++;
    const inside = this.takeUntil((token) => token === '}', alphabet);
    this.take();
    return row(inside);
  }

  takeUntil(ends, alphabet) {
    const nodes = [];
    if (++this.depth > MAX_DEPTH) throw new RangeError('too deep');
    for (let token = this.peek(); token !== undefined && !ends(token); token = this.peek())
      nodes.push(...this.takeScripted(alphabet));
    this.depth--;
    return nodes;
  }

  // An atom with what hangs above and below it.
  takeScripted(alphabet) {
    const first = this.peek();
    const atom = '^_\''.includes(first) ? [m('mrow')] : this.takeAtom(alphabet);
    const name = first.replace(/^\\/, '');
    const hasLimits = first[0] === '\\' && (big.has(name) || limits.has(name) ||
        ['underbrace', 'overbrace', 'operatorname*'].includes(name));
    let below = null, above = null;
    for (let token = this.peek(); token !== undefined; token = this.peek()) {
      if (token === '\\limits' || token === '\\nolimits') this.at++;
      else if (token === '_' && below === null) {
        this.at++;
        below = this.takeArgument(alphabet);
      } else if (token === '^' && (above === null || above.isPrime)) {
        this.at++;
        const power = this.takeArgument(alphabet);
        above = above === null ? power : m('mrow', null, above, power);
      } else if (token === '\'') {
        let primes = '';
        for (; this.peek() === '\''; this.at++) primes += '′';
        above = above === null ? mo(primes) : m('mrow', null, above, mo(primes));
        above.isPrime = true;
      } else break;
    }
    if (below === null && above === null) return atom;
    const base = row(atom);
    const tags = hasLimits ? ['munder', 'mover', 'munderover'] : ['msub', 'msup', 'msubsup'];
    if (above === null) return [m(tags[0], null, base, below)];
    if (below === null) return [m(tags[1], null, base, above)];
    return [m(tags[2], null, base, below, above)];
  }

  takeAtom(alphabet) {
    const token = this.take();
    if (token === '{') {
      const inside = this.takeUntil((other) => other === '}', alphabet);
      this.take();
      return [row(inside)];
    }
    if (token[0] === '\\' && token.length > 1) return this.takeCommand(token.slice(1), alphabet);
    if (/\d/.test(token)) return [this.takeNumber(token, alphabet)];
    if (/\p{L}/u.test(token)) return [this.makeLetter(token, alphabet)];
    if (token === '~') return [m('mspace', {width: '0.25em'})];
    if (token === '-') return [mo('−')];
    if (token === '*') return [mo('∗')];
    if (token === '|') return [mo('|', {stretchy: 'false'})];
    return [mo(token, '()[]/'.includes(token) ? {stretchy: 'false'} : null)];
  }

  takeNumber(first, alphabet) {
    let text = first;
    while (/^[\d.]$/.test(this.tokens[this.at] || '') &&
        (this.tokens[this.at] !== '.' || /\d/.test(this.tokens[this.at + 1] || '')))
      text += this.tokens[this.at++];
    return m('mn', null, [...text].map((c) => inAlphabet(c, alphabet)).join(''));
  }

  makeLetter(c, alphabet) {
    if (alphabet === 'mathrm') return upright(c);
    return mi(inAlphabet(c, alphabet));
  }

  takeCommand(name, alphabet) {
    if (letters.has(name)) return [/^[A-Z∞∂∇∅]/.test(name) ? upright(letters.get(name)) : mi(letters.get(name))];
    if (operators.has(name)) return [mo(operators.get(name), {stretchy: 'false'})];
    if (big.has(name)) return [mo(big.get(name), {largeop: 'true', movablelimits: 'true', 'data-big': 'yes'})];
    if (integrals.has(name)) return [mo(integrals.get(name), {largeop: 'true', 'data-big': 'yes'})];
    if (functions.has(name)) return [upright(name), m('mspace', {width: '0.167em'})];
    if (limits.has(name)) return [mo(name.replace(/^(lim|arg)(?=.)/, '$1 '), {movablelimits: 'true', form: 'prefix'})];
    if (spaces.has(name)) return [m('mspace', {width: `${spaces.get(name)}em`})];
    if (ignored.has(name)) return [];
    if (accents.has(name)) return [this.takeAccent(name, alphabet)];
    if (isAlphabet(name)) return this.takeAlphabet(name);
    return this.takeConstruct(name, alphabet);
  }

  takeAlphabet(name) {
    if (name !== 'mathrm') return [this.takeArgument(name)];
    const text = this.peek() === '{' ? this.takeRaw() : this.take() || '';
    if (/^[\p{L}\d\s.,-]+$/u.test(text)) return [upright(text.trim())];
    const inner = new Parser(text);
    inner.depth = this.depth + 1;
    return [row(inner.takeUntil(() => false, 'mathrm'))];
  }

  takeAccent(name, alphabet) {
    const base = this.takeArgument(alphabet);
    const wide = /^(wide|over)/.test(name) ? 'true' : 'false';
    return m('mover', {accent: 'true'}, base, mo(accents.get(name), {stretchy: wide}));
  }

  takeFraction(attributes, alphabet) {
    const above = this.takeArgument(alphabet);
    return m('mfrac', attributes, above, this.takeArgument(alphabet));
  }

  takeRoot(alphabet) {
    if (this.peek() !== '[') return m('msqrt', null, this.takeArgument(alphabet));
    this.at++;
    const index = row(this.takeUntil((token) => token === ']', alphabet));
    this.take();
    return m('mroot', null, this.takeArgument(alphabet), index);
  }

  takeConstruct(name, alphabet) {
    switch (name) {
      case 'frac': return [this.takeFraction(null, alphabet)];
      case 'dfrac': return [m('mstyle', {displaystyle: 'true'}, this.takeFraction(null, alphabet))];
      case 'tfrac': return [m('mstyle', {displaystyle: 'false'}, this.takeFraction(null, alphabet))];
      case 'binom': return [m('mrow', null, mo('('), this.takeFraction({linethickness: '0'}, alphabet), mo(')'))];
      case 'sqrt': return [this.takeRoot(alphabet)];
      case 'text': case 'textrm': case 'textit': case 'textbf': case 'mbox': case 'textsf': case 'texttt':
        return [m('mtext', null, this.takeRaw().replace(/^ | $/g, '\u00a0'))];
      case 'operatorname': case 'operatorname*':
        return [mo(this.takeRaw().replace(/\\,/g, ' '), {form: 'prefix'})];
      case 'left': return [this.takeFence(alphabet)];
      case 'right': this.takeDelimiter(); return [];
      case 'begin': return [this.takeEnvironment()];
      case 'end': this.takeRaw(); return [];
      case 'underline': return [m('munder', null, this.takeArgument(alphabet), mo('_', {stretchy: 'true'}))];
      case 'overbrace': return [m('mover', null, this.takeArgument(alphabet), mo('⏞', {stretchy: 'true'}))];
      case 'underbrace': return [m('munder', null, this.takeArgument(alphabet), mo('⏟', {stretchy: 'true'}))];
      case 'overset': case 'stackrel': case 'underset': return [this.takeStack(name, alphabet)];
      case 'boxed': return [m('mrow', {class: 'boxed'}, this.takeArgument(alphabet))];
      case 'not': return this.takeNot(alphabet);
      case 'pmod': return [m('mspace', {width: '0.5em'}), mo('('), upright('mod'), m('mspace', {width: '0.3em'}),
        this.takeArgument(alphabet), mo(')')];
      case 'bmod': case 'mod': return [mo('mod')];
      case 'color': case 'label': case 'tag': case 'tag*': this.takeRaw(); return [];
      case '|': return [mo('‖', {stretchy: 'false'})];
      case '\\': return [];
      case '-': case '/': return [];
      default: return /^[^a-zA-Z]/.test(name) ? [mo(name)] : [m('mtext', {class: 'unknown'}, `\\${name}`)];
    }
  }

  takeStack(name, alphabet) {
    const other = this.takeArgument(alphabet), base = this.takeArgument(alphabet);
    return m(name === 'underset' ? 'munder' : 'mover', null, base, other);
  }

  takeNot(alphabet) {
    const nodes = this.peek() === undefined ? [] : this.takeAtom(alphabet);
    if (nodes.length === 1) nodes[0].textContent += '\u0338';
    return nodes;
  }

  takeDelimiter() {
    const token = this.take() || '.';
    if (token === '.') return '';
    if (token[0] !== '\\') return token;
    const name = token.slice(1);
    return name === '|' ? '‖' : operators.get(name) || name;
  }

  takeFence(alphabet) {
    const open = this.takeDelimiter();
    const inside = this.takeUntil((token) => token === '\\right', alphabet);
    this.take();
    const close = this.takeDelimiter();
    return m('mrow', null, makeFence(open, 'prefix'), inside, makeFence(close, 'postfix'));
  }

  // Rows of cells up to \end.
  takeEnvironment() {
    const name = this.takeRaw();
    if (name === 'array' || name.startsWith('aligna')) this.takeRaw();
    const rows = [[]];
    const ends = (token) => token === '&' || token === '\\\\' || token === '\\end' || token === '\\cr';
    for (;;) {
      rows[rows.length - 1].push(m('mtd', null, this.takeUntil(ends)));
      const token = this.take();
      if (token === undefined || token === '\\end') break;
      if (token !== '&') rows.push([]);
    }
    this.takeRaw();
    const last = rows[rows.length - 1];
    if (rows.length > 1 && last.length === 1 && !last[0].hasChildNodes()) rows.pop();
    const isAligned = ALIGNED.has(name);
    const table = m('mtable', {class: isAligned ? 'aligned' : name === 'cases' ? 'cases' : 'matrix',
      ...(isAligned ? {displaystyle: 'true'} : null)}, rows.map((cells) => m('mtr', null, cells)));
    const [open, close] = FENCED.get(name) || ['', ''];
    return m('mrow', null, makeFence(open, 'prefix'), table, makeFence(close, 'postfix'));
  }
}

// Rows that \\ parts outside of any environment.
function parse(source) {
  const parser = new Parser(source);
  const lines = [];
  do {
    lines.push(parser.takeUntil((token) => token === '\\\\'));
  } while (parser.take() !== undefined);
  if (lines.length === 1) return lines[0];
  return [m('mtable', {class: 'aligned', displaystyle: 'true'},
      lines.map((line) => m('mtr', null, m('mtd', null, line))))];
}

export function renderMath(source, isDisplay) {
  const text = source.trim();
  try {
    if (text.length > MAX_CHARACTERS) throw new RangeError('too long');
    const math = m('math', {display: isDisplay ? 'block' : 'inline'}, m('semantics', null,
        m('mrow', null, parse(text)), m('annotation', {encoding: 'application/x-tex'}, text)));
    if (hasFont === null) findFont();
    if (!hasFont) requestAnimationFrame(() => stretchFences(math));
    return math;
  } catch {
    const code = document.createElement('code');
    code.textContent = text;
    return code;
  }
}
