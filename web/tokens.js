// An answer token by token: coloured by probability, with the likeliest others at each place on hover
// or focus. Arrow keys walk through it.
import {find, h} from './dom.js';

const percent = (logprob) => {
  const share = Math.exp(logprob) * 100;
  return share >= 99.95 ? '100 %' : share >= 1 ? `${share.toFixed(1)} %` : share >= 0.01 ? `${share.toFixed(2)} %` : '< 0.01 %';
};

// What a token looks like where spaces and line ends must show.
const visible = (token) => (token === '' ? '(nothing)'
  : token.replace(/ /g, '␣').replace(/\n/g, '↵').replace(/\t/g, '⇥'));

const levelOf = (logprob) => Math.min(5, Math.floor(-logprob / 0.7)); // 0: above one half

// Of what the API says, as little as is needed: [token, logprob, [[other, logprob], ...]].
export function compact(entry) {
  return [entry.token, entry.logprob, (entry.top_logprobs || []).map((top) => [top.token, top.logprob])];
}

function showTip(element, entry) {
  const [token, logprob, others] = entry;
  const tip = find('#token-tip');
  const rows = others.some(([other]) => other === token) ? others : [...others, [token, logprob]];
  tip.replaceChildren(
      h('div', {class: 'tip-head'}, h('code', null, visible(token)),
          h('span', null, `${percent(logprob)} · logprob ${(Math.abs(logprob) < 0.0005 ? 0 : logprob).toFixed(3).replace('-', '−')}`)),
      h('table', null, h('tbody', null, rows.map(([other, value]) => {
        const bar = h('span', {class: 'bar'});
        bar.style.inlineSize = `${Math.max(1, Math.exp(value) * 100)}%`;
        return h('tr', {class: other === token ? 'chosen' : null}, h('th', {scope: 'row'}, visible(other)),
            h('td', {class: 'track'}, bar), h('td', null, percent(value)));
      }))));
  tip.hidden = false;
  const box = element.getBoundingClientRect(), own = tip.getBoundingClientRect();
  const left = Math.max(8, Math.min(box.left, innerWidth - own.width - 8));
  const above = box.top - own.height - 8;
  tip.style.left = `${left}px`;
  tip.style.top = `${above > 8 ? above : box.bottom + 8}px`;
}

export function hideTip() {
  find('#token-tip').hidden = true;
}

export function renderTokens(entries) {
  const spans = entries.map((entry, i) => h('span', {class: `token level-${levelOf(entry[1])}`, 'data-i': i,
    tabindex: i === 0 ? '0' : '-1', role: 'option', 'aria-selected': 'false',
    'aria-label': `${visible(entry[0])}, ${percent(entry[1])}`}, entry[0]));
  const view = h('div', {class: 'tokens', role: 'listbox', 'aria-label': 'Tokens with their probabilities',
    'aria-orientation': 'horizontal'}, spans);
  const tokenOf = (event) => (event.target instanceof Element ? event.target.closest('.token') : null);
  const show = (event) => {
    const span = tokenOf(event);
    if (span) showTip(span, entries[Number(span.dataset.i)]);
  };
  view.addEventListener('pointerover', show);
  view.addEventListener('click', show);
  view.addEventListener('pointerleave', hideTip);
  view.addEventListener('focusin', (event) => {
    for (const span of spans) span.setAttribute('tabindex', '-1');
    const span = tokenOf(event);
    span?.setAttribute('tabindex', '0');
    show(event);
  });
  view.addEventListener('focusout', hideTip);
  view.addEventListener('keydown', (event) => {
    const span = tokenOf(event);
    const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
    const at = span ? Number(span.dataset.i) : 0;
    const to = event.key === 'Home' ? 0 : event.key === 'End' ? spans.length - 1 : step ? at + step : -1;
    if (event.key === 'Escape') hideTip();
    if (to < 0 || to >= spans.length) return;
    event.preventDefault();
    spans[to].focus();
  });
  return view;
}
