// A chart of lines over time, in SVG, with its figures as a table for those who do not see it.
import {h, svg} from './dom.js';

const HEIGHT = 184, LEFT = 44, RIGHT = 8, TOP = 8, BOTTOM = 22;

// An even number, or 1, times a power of ten, at least `value`.
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 6, 8, 10].map((step) => step * power).find((step) => step >= value * 0.9999);
}

export function formatNumber(value) {
  if (value === null || !Number.isFinite(value)) return '–';
  if (value >= 10000) return `${(value / 1000).toFixed(value >= 100000 ? 0 : 1)}k`;
  if (value >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString('en');
  return value.toFixed(value >= 10 ? 1 : value >= 1 ? 2 : 3).replace(/\.?0+$/, '') || '0';
}

const ago = (seconds) => (seconds < 1 ? 'now' : seconds < 90 ? `−${Math.round(seconds)} s` : `−${Math.round(seconds / 60)} min`);

export class Chart {
  // `series`: [{name, key}]; `most`: where the axis ends at least; `unit` follows values.
  constructor(title, unit, series, most) {
    Object.assign(this, {title, unit, series, most, points: [], span: 60, cursor: null});
    this.legend = series.map(({name}, i) => h('span', {class: `series-${i}`}, name));
    this.svg = svg('svg', {role: 'img', 'aria-label': title});
    this.body = h('tbody');
    this.fold = h('details', null, h('summary', null, 'As a table'), h('div', {tabindex: '0', role: 'region', 'aria-label': `${title}, figures`},
        h('table', null, h('thead', null, h('tr', null, h('th', {scope: 'col'}, 'Time'),
            series.map(({name}) => h('th', {scope: 'col'}, name)))), this.body)));
    this.element = h('figure', {class: 'chart'}, h('figcaption', null, h('h3', null, title), h('div', {class: 'legend'}, this.legend)),
        this.svg, this.fold);
    this.svg.addEventListener('pointermove', (event) => {
      this.cursor = event.clientX - this.svg.getBoundingClientRect().left;
      this.draw();
    });
    this.svg.addEventListener('pointerleave', () => {
      this.cursor = null;
      this.draw();
    });
    this.fold.addEventListener('toggle', () => this.fillTable());
    new ResizeObserver(() => this.draw()).observe(this.svg);
  }

  // `points`: [{time in ms, key: value or null, ...}], oldest first; `span` in seconds.
  show(points, span, now) {
    Object.assign(this, {points, span, now});
    this.draw();
    if (this.fold.open) this.fillTable();
  }

  fillTable() {
    if (!this.fold.open) return;
    const rows = this.points.slice(-120).reverse();
    this.body.replaceChildren(...rows.map((point) => h('tr', null,
        h('th', {scope: 'row'}, new Date(point.time).toLocaleTimeString('en-GB')),
        this.series.map(({key}) => h('td', null, formatNumber(point[key]))))));
  }

  draw() {
    const width = this.svg.clientWidth;
    if (width === 0) return;
    this.svg.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
    const values = this.points.flatMap((point) => this.series.map(({key}) => point[key] || 0));
    const top = roundUp(Math.max(this.most, ...values));
    const x = (time) => width - RIGHT - (this.now - time) / 1000 / this.span * (width - LEFT - RIGHT);
    const y = (value) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
    const parts = [...this.drawAxes(width, top, y)];
    this.series.forEach(({key}, i) => parts.push(...this.drawLine(key, i, x, y)));
    if (this.points.length < 2)
      parts.push(svg('text', {class: 'nothing', x: (width + LEFT) / 2, y: HEIGHT / 2}, 'Gathering figures…'));
    parts.push(...this.drawCursor(x, y));
    this.svg.replaceChildren(...parts);
    const last = this.points[this.points.length - 1];
    this.svg.setAttribute('aria-label', `${this.title}. ${this.series.map(({name, key}) =>
      `${name}: now ${formatNumber(last ? last[key] : null)}${this.unit}, most ${formatNumber(Math.max(0,
          ...this.points.map((point) => point[key] || 0)))}${this.unit}`).join('; ')}`);
  }

  drawAxes(width, top, y) {
    const lines = [0, top / 2, top].flatMap((value) => [
      svg('line', {class: 'grid', x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value)}),
      svg('text', {x: LEFT - 8, y: y(value) + 4, 'text-anchor': 'end'}, formatNumber(value))]);
    const times = [0, 0.5, 1].map((share) => svg('text', {x: LEFT + share * (width - LEFT - RIGHT), y: HEIGHT - 5,
      'text-anchor': share === 0 ? 'start' : share === 1 ? 'end' : 'middle'}, ago((1 - share) * this.span)));
    return [...lines, ...times];
  }

  // A line, broken where there is no value, above its area.
  drawLine(key, i, x, y) {
    const parts = [];
    let run = [];
    const end = () => {
      if (run.length > 1) {
        const path = run.map(([px, py]) => `${px.toFixed(1)} ${py.toFixed(1)}`).join('L');
        if (i === 0)
          parts.push(svg('path', {class: `area series-${i}`, d: `M${run[0][0]} ${y(0)}L${path}L${run[run.length - 1][0]} ${y(0)}Z`}));
        parts.push(svg('path', {class: `line series-${i}`, d: `M${path}`}));
      } else if (run.length === 1) {
        parts.push(svg('circle', {class: `dot series-${i}`, cx: run[0][0], cy: run[0][1], r: 3.5}));
      }
      run = [];
    };
    for (const point of this.points) {
      if (point[key] === null || point[key] === undefined) end();
      else run.push([x(point.time), y(point[key])]);
    }
    end();
    return parts;
  }

  // The legend tells the values under the pointer, or the newest.
  drawCursor(x, y) {
    let shown = this.points[this.points.length - 1];
    const parts = [];
    if (this.cursor !== null && shown) {
      for (const point of this.points)
        if (Math.abs(x(point.time) - this.cursor) < Math.abs(x(shown.time) - this.cursor)) shown = point;
      const at = x(shown.time);
      parts.push(svg('line', {class: 'cursor', x1: at, x2: at, y1: TOP, y2: HEIGHT - BOTTOM}));
      this.series.forEach(({key}, i) => {
        if (shown[key] !== null && shown[key] !== undefined)
          parts.push(svg('circle', {class: `dot series-${i}`, cx: at, cy: y(shown[key]), r: 4.5}));
      });
    }
    this.series.forEach(({name, key}, i) => {
      this.legend[i].textContent = `${name} ${formatNumber(shown ? shown[key] : null)}${this.unit}`;
    });
    return parts;
  }
}
