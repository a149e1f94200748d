// Colours of code: comments, strings, numbers and keywords, by one regular expression per family of
// languages.
import {h} from './dom.js';

const MAX_CHARACTERS = 60000;

const words = (text) => new Set(text.split(' '));
const C_LIKE = 'break case class const continue default do else enum extern false final for goto if ' +
  'import inline int long namespace new null nullptr private protected public return short signed sizeof ' +
  'static struct super switch template this throw true try catch typedef typename union unsigned using ' +
  'void volatile while bool char double float auto virtual override interface extends implements package ' +
  'abstract boolean byte finally instanceof __global__ __device__ __shared__';
const KEYWORDS = {
  c: words(C_LIKE),
  js: words('async await break case catch class const continue debugger default delete do else enum ' +
    'export extends false finally for from function if implements import in instanceof interface let new ' +
    'null of return static super switch this throw true try type typeof undefined var void while yield'),
  python: words('False None True and as assert async await break class continue def del elif else except ' +
    'finally for from global if import in is lambda match nonlocal not or pass raise return self try ' +
    'while with yield case'),
  rust: words('as async await break const continue crate dyn else enum extern false fn for if impl in let ' +
    'loop match mod move mut pub ref return self Self static struct super trait true type unsafe use ' +
    'where while bool char f32 f64 i32 i64 u8 u32 u64 usize str String'),
  go: words('break case chan const continue default defer else fallthrough false for func go goto if ' +
    'import interface map nil package range return select struct switch true type var string int bool error'),
  shell: words('case do done elif else esac export fi for function if in local return set then until while ' +
    'echo cd exit read'),
  sql: words('select from where and or not insert into values update set delete create table drop alter ' +
    'join left right inner outer on as group by order having limit null is in like distinct union all ' +
    'primary key references index view case when then else end'),
  data: words('true false null yes no'),
};
const FAMILY = {
  c: 'c', h: 'c', cpp: 'c', 'c++': 'c', cc: 'c', cuda: 'c', cu: 'c', java: 'c', cs: 'c', csharp: 'c',
  kotlin: 'c', swift: 'c', php: 'c', js: 'js', javascript: 'js', ts: 'js', typescript: 'js', jsx: 'js',
  tsx: 'js', py: 'python', python: 'python', ruby: 'python', rb: 'python', rs: 'rust', rust: 'rust',
  go: 'go', sh: 'shell', bash: 'shell', shell: 'shell', zsh: 'shell', makefile: 'shell',
  dockerfile: 'shell', sql: 'sql', json: 'data', yaml: 'data', yml: 'data', toml: 'data', ini: 'data',
};

const STRINGS = '"(?:[^"\\\\\\n]|\\\\.)*"?|\'(?:[^\'\\\\\\n]|\\\\.)*\'?';
const REST = '|(\\b\\d[\\w.]*\\b)|([A-Za-z_$][\\w$]*)';
const slashes = () => new RegExp(`(//[^\\n]*|/\\*[^]*?(?:\\*/|$))|(${STRINGS}|\`(?:[^\`\\\\]|\\\\.)*\`?)${REST}`, 'g');
const hashes = () => new RegExp(`(#[^\\n]*)|("""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|${STRINGS})${REST}`, 'g');
const dashes = () => new RegExp(`(--[^\\n]*)|(${STRINGS})${REST}`, 'g');
const RULES = {c: slashes, js: slashes, rust: slashes, go: slashes, python: hashes, shell: hashes,
  data: hashes, sql: dashes};
const CLASSES = [null, 'comment', 'string', 'number', 'keyword'];

function classOf(match, family) {
  for (let i = 1; i < 4; i++) if (match[i] !== undefined) return CLASSES[i];
  const word = family === 'sql' ? match[4].toLowerCase() : match[4];
  return KEYWORDS[family].has(word) ? 'keyword' : null;
}

// Lines of a diff by what they begin with.
function highlightDiff(text, out) {
  for (const line of text.split(/(?<=\n)/)) {
    const name = line.startsWith('+') ? 'added' : line.startsWith('-') ? 'removed' :
      line.startsWith('@@') ? 'comment' : null;
    out.append(name ? h('span', {class: `code-${name}`}, line) : line);
  }
}

// A fragment of the code's text.
export function highlight(text, language) {
  const out = document.createDocumentFragment();
  const name = language.toLowerCase();
  const family = Object.hasOwn(FAMILY, name) ? FAMILY[name] : null;
  if (text.length > MAX_CHARACTERS || (family === null && name !== 'diff')) {
    out.append(text);
    return out;
  }
  if (name === 'diff') {
    highlightDiff(text, out);
    return out;
  }
  let at = 0;
  for (const match of text.matchAll(RULES[family]())) {
    const kind = classOf(match, family);
    if (kind === null) continue;
    out.append(text.slice(at, match.index), h('span', {class: `code-${kind}`}, match[0]));
    at = match.index + match[0].length;
  }
  out.append(text.slice(at));
  return out;
}
