// The status page: looks at /metrics once a second while it is in front.
import {getJson, request} from './api.js';
import {Chart, formatNumber} from './charts.js';
import {find, h, icon} from './dom.js';
import {askForKey} from './key.js';
import {parseMetrics, quantile, sum, takeSample} from './metrics.js';
import {bindThemeButton} from './theme_button.js';

const EVERY_MS = 1000, KEPT = 900; // looks
const WINDOWS = [[60, '1 min'], [300, '5 min'], [900, '15 min']];
const PLACE = 'linnet.history';

const charts = [
  new Chart('Throughput', ' tokens/s', [{name: 'Output', key: 'outputRate'}, {name: 'Prompts', key: 'promptRate'}], 10),
  new Chart('Requests', '', [{name: 'Running', key: 'running'}, {name: 'Waiting', key: 'waiting'}, {name: 'Swapped', key: 'swapped'}], 4),
  new Chart('KV cache in use', ' %', [{name: 'Blocks', key: 'cachePercent'}], 100),
  new Chart('Latency, median', ' ms', [{name: 'First token', key: 'firstMs'}, {name: 'Per token', key: 'tokenMs'}], 10),
];

let samples = readHistory(), span = 60, timer = 0, info = {};
// Tokens that differ from zero are there only when the counters went on.
const isNewer = (a, b) => b.output >= a.output && b.prompt >= a.prompt && b.steps >= a.steps;

function readHistory() {
  try {
    return JSON.parse(sessionStorage.getItem(PLACE) || '[]').filter((one) => Number.isFinite(one.time)).map((one) => ({
      ...one, first: one.first.map(([bound, n]) => [bound ?? Infinity, n]),
      token: one.token.map(([bound, n]) => [bound ?? Infinity, n])}));
  } catch {
    return [];
  }
}

function keepHistory() {
  try {
    sessionStorage.setItem(PLACE, JSON.stringify(samples.slice(-300)));
  } catch {
    // it begins again next time
  }
}

// ---- figures --------------------------------------------------------------------------------

function makePoints(now) {
  const shown = samples.filter((one) => one.time >= now - span * 1000);
  return shown.map((sample, i) => {
    const before = shown[i - 1];
    const seconds = before ? (sample.time - before.time) / 1000 : 0;
    const isGap = !before || seconds > 5 || !isNewer(before, sample);
    const rate = (key) => (isGap ? null : (sample[key] - before[key]) / seconds);
    const ms = (key) => {
      const value = isGap ? null : quantile(before[key], sample[key], 0.5);
      return value === null ? null : value * 1000;
    };
    return {time: sample.time, running: sample.running, waiting: sample.waiting, swapped: sample.swapped,
      cachePercent: sample.cache * 100, outputRate: rate('output'), promptRate: rate('prompt'),
      firstMs: ms('first'), tokenMs: ms('token')};
  });
}

function card(label, value, unit, more) {
  return h('div', {class: 'card'}, h('dt', null, label),
      h('dd', {class: 'value'}, value, unit ? h('small', null, unit) : null), h('dd', {class: 'more'}, more));
}

const milliseconds = (seconds) => (seconds === null ? ['–', ''] : seconds < 1 ? [formatNumber(Math.round(seconds * 1e4) / 10), 'ms']
  : [seconds.toFixed(2), 's']);

function showCards(points) {
  const last = samples[samples.length - 1], point = points[points.length - 1];
  const minute = samples.find((one) => one.time >= last.time - 60000 && isNewer(one, last));
  const first = quantile(minute.first, last.first, 0.5), late = quantile(minute.first, last.first, 0.95);
  const token = quantile(minute.token, last.token, 0.5);
  const queries = last.queries - minute.queries, hits = last.hits - minute.hits;
  const most = Math.max(0, ...points.map((one) => one.outputRate || 0));
  find('#cards').replaceChildren(
      card('Output', formatNumber(point.outputRate ?? 0), 'tokens/s', `at most ${formatNumber(most)} in this window`),
      card('Running', formatNumber(last.running), '', `${last.waiting} waiting, ${last.swapped} swapped`),
      card('KV cache', formatNumber(Math.round(last.cache * 1000) / 10), '%', 'of all blocks'),
      card('Prefix cache', queries > 0 ? formatNumber(Math.round(1000 * hits / queries) / 10) : '–', queries > 0 ? '%' : '', 'of prompts found, last minute'),
      card('First token', ...milliseconds(first), late === null ? 'median of the last minute' : `95 %: ${milliseconds(late).join(' ')}`),
      card('Per token', ...milliseconds(token), 'median of the last minute'));
}

function showTable(id, rows) {
  find(id).replaceChildren(...rows.filter(([, value]) => value !== null && value !== undefined).map(([name, value]) =>
    h('tr', null, h('th', {scope: 'row'}, name), h('td', null, String(value)))));
}

function showTables(metrics) {
  const count = (name, label, value) => sum(metrics, name, label, value).toLocaleString('en');
  showTable('#server', [
    ...(info.models || []).map((model) => ['Model', model.status ? `${model.id} (${model.status.value})` : model.id]),
    ['Context', info.models?.length === 1 && info.models[0].max_model_len ? `${info.models[0].max_model_len.toLocaleString('en')} tokens` : null],
    ['Sequences in a step', info.slots], ['Version', info.version],
    ['Connections', count('http_connections')], ['Requests open', count('num_requests_open')]]);
  const reasons = ['stop', 'length', 'abort', 'error', 'timeout'].map((reason) =>
    [reason, sum(metrics, 'request_success_total', 'finished_reason', reason)]).filter(([, n]) => n > 0);
  showTable('#totals', [
    ['Tokens of output', count('generation_tokens_total')], ['Tokens of prompts', count('prompt_tokens_total')],
    ['Outputs ended', reasons.map(([reason, n]) => `${n.toLocaleString('en')} ${reason}`).join(', ') || '0'],
    ['Steps', count('engine_steps_total')], ['Preemptions', count('num_preemptions_total')],
    ['Responses', ['2xx', '4xx', '5xx'].map((status) => `${count('http_responses_total', 'status', status)} × ${status}`).join(', ')],
    ['Refused, as the queue was full', count('requests_refused_total')]]);
}

// ---- looking --------------------------------------------------------------------------------

function showState(text, kind) {
  const state = find('#state');
  if (state.textContent !== text) state.textContent = text;
  state.className = `state ${kind}`;
}

function showBanner(text, action, onaction) {
  const banner = find('#banner');
  banner.hidden = text === null;
  banner.replaceChildren(text || '');
  if (action) banner.append(h('button', {type: 'button', class: 'text-button', onclick: onaction}, action));
}

async function readInfo() {
  const read = (path) => getJson(path).catch((error) => {
    if (error.status === 401) throw error;
    return {};
  });
  const [models, version] = await Promise.all(['/v1/models', '/version'].map(read));
  const props = models.data?.length === 1 ? await read('/props') : {}; // of several: of which?
  info = {models: models.data, version: version.version, slots: props.total_slots};
}

async function readState() {
  const state = await fetch('/ready', {cache: 'no-store'}).then((response) => response.json()).catch(() => ({}));
  showState(state.status || 'unknown', state.status === 'ready' ? 'good' : 'bad');
}

async function look() {
  const metrics = parseMetrics(await (await request('/metrics')).text());
  if (!info.models || info.models.length > 1) await readInfo(); // states of several change
  const now = Date.now();
  samples.push(takeSample(metrics, now));
  samples = samples.slice(-KEPT);
  draw(now);
  showTables(metrics);
  await readState();
  showBanner(null);
}

function draw(now) {
  const points = makePoints(now);
  if (points.length > 0) showCards(points);
  for (const chart of charts) chart.show(points, span, now);
}

async function goOn() {
  clearTimeout(timer);
  if (document.hidden) return;
  try {
    await look();
  } catch (error) {
    info = {};
    if (error.status === 401) {
      showState('needs a key', 'bad');
      if (await askForKey(false)) return goOn();
      showBanner('The server asks for an API key.', 'Give the key', goOn);
      return;
    }
    showState('away', 'bad');
    showBanner(error.status === 0 ? 'The server cannot be reached. Trying again…' : error.message);
  }
  clearTimeout(timer);
  timer = setTimeout(goOn, EVERY_MS);
}

find('#chat-link').append(icon('chat'));
bindThemeButton(find('#theme'));
find('#charts').append(...charts.map((chart) => chart.element));
find('#windows').append(...WINDOWS.map(([seconds, label]) => h('button', {type: 'button', 'aria-pressed': String(seconds === span),
  onclick: (event) => {
    span = seconds;
    for (const other of find('#windows').children) other.setAttribute('aria-pressed', String(other === event.currentTarget));
    draw(Date.now());
  }}, label)));
document.addEventListener('visibilitychange', goOn);
addEventListener('pagehide', keepHistory);
goOn();
document.documentElement.dataset.ready = 'yes';
