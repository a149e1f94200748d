// One message of the conversation as it is shown.
import {copyButton, h, icon, iconButton} from './dom.js';
import {MarkdownView} from './markdown.js';
import {renderTokens} from './tokens.js';

const NOTES = {length: 'The answer reached its longest length.', stopped: 'Stopped.',
  content_filter: 'The answer was filtered.'};

const pretty = (text) => {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
};

function statsText(stats) {
  if (!stats || !stats.tokens) return '';
  const parts = [`${stats.tokens} token${stats.tokens === 1 ? '' : 's'}`];
  if (stats.rate) parts.push(`${stats.rate >= 100 ? Math.round(stats.rate) : stats.rate.toFixed(1)} tokens/s`);
  if (stats.first) parts.push(`first after ${stats.first < 1 ? `${Math.round(stats.first * 1000)} ms` : `${stats.first.toFixed(1)} s`}`);
  return parts.join(' · ');
}

// `actions` are the page's: edit(message, text), regenerate(message), select(message, step),
// giveResults(message, results), retry(message). `index` and `count`: its place among its siblings.
export class MessageView {
  constructor(message, actions, {index, count, isLast}) {
    this.message = message;
    this.actions = actions;
    this.place = {index, count, isLast};
    this.showsTokens = false;
    this.element = h('article', {class: `message ${message.role}`, 'data-id': message.id});
    this.render();
  }

  render() {
    const {message} = this;
    const who = {user: 'You', tool: 'Tool result'}[message.role] || message.model || 'Assistant';
    this.body = h('div', {class: 'body'});
    this.parts = h('div', {class: 'parts'});
    this.foot = h('div', {class: 'foot'});
    this.element.replaceChildren(h('h2', {class: message.role === 'assistant' ? 'who' : 'visually-hidden'}, who),
        this.parts, this.body, this.foot);
    if (message.role === 'assistant') this.update();
    else this.renderPlain();
    this.renderFoot();
  }

  renderPlain() {
    if (this.message.role === 'tool')
      this.body.append(h('details', null, h('summary', null, icon('tool'), h('span', null, 'Result')),
          h('pre', {tabindex: '0'}, pretty(this.message.content))));
    else this.body.append(this.message.content);
  }

  // Shows what has come of an answer so far.
  update() {
    const {message} = this;
    this.updateReasoning();
    this.updateCalls();
    if (this.showsTokens && message.tokens?.length) {
      this.markdown = null;
      this.body.className = 'body';
      this.body.replaceChildren(renderTokens(message.tokens));
    } else {
      if (!this.markdown) {
        this.body.replaceChildren();
        this.markdown = new MarkdownView(this.body);
      }
      this.body.className = 'body prose';
      this.markdown.update(message.content);
    }
    const waits = message.isRunning && !message.content && !message.reasoning && !message.toolCalls?.length;
    this.body.classList.toggle('waiting', Boolean(waits));
    if (waits) this.body.replaceChildren(h('span', {class: 'dots', role: 'img', 'aria-label': 'Waiting for the answer'},
        h('span'), h('span'), h('span')));
    if (waits) this.markdown = null;
    this.element.classList.toggle('running', Boolean(message.isRunning));
  }

  updateReasoning() {
    const {message} = this;
    if (!message.reasoning) return;
    if (!this.reasoning || !this.reasoning.isConnected) {
      const text = h('div', {class: 'prose'});
      this.reasoningTitle = h('span');
      this.reasoningView = new MarkdownView(text);
      this.reasoning = h('details', {class: 'fold'}, h('summary', null, icon('think'), this.reasoningTitle), text);
      this.parts.prepend(this.reasoning);
    }
    const thinks = message.isRunning && !message.content;
    this.reasoningTitle.textContent = thinks ? 'Thinking…'
      : message.thought >= 0.05 ? `Thought for ${message.thought.toFixed(1)} s` : 'Reasoning';
    this.reasoning.classList.toggle('busy', Boolean(thinks));
    this.reasoningView.update(message.reasoning);
  }

  updateCalls() {
    const calls = this.message.toolCalls || [];
    const shown = this.parts.querySelectorAll('.call');
    calls.forEach((call, i) => {
      let fold = shown[i];
      if (!fold) {
        fold = h('details', {class: 'fold call'}, h('summary', null, icon('tool'), h('span')), h('pre', {tabindex: '0'}));
        this.parts.append(fold);
      }
      fold.querySelector('span').textContent = `Calls ${call.name || '…'}`;
      fold.querySelector('pre').textContent = this.message.isRunning ? call.arguments : pretty(call.arguments);
    });
  }

  // ---- below the text -----------------------------------------------------------------------

  // Counts of an answer that is on its way.
  showProgress() {
    if (!this.message.isRunning) return;
    this.progress ||= h('span', {class: 'stats muted', 'aria-hidden': 'true'});
    this.progress.textContent = statsText(this.message.stats);
    if (!this.progress.isConnected) this.foot.replaceChildren(h('div', {class: 'actions'}, this.progress));
  }

  renderFoot() {
    const {message} = this;
    this.foot.replaceChildren();
    if (message.isRunning) return;
    if (message.error) this.foot.append(this.makeError());
    if (message.role === 'assistant' && this.place.isLast && message.toolCalls?.length) this.foot.append(this.makeResults());
    const actions = h('div', {class: 'actions', role: 'group', 'aria-label': 'Actions'});
    if (this.place.count > 1) actions.append(this.makeVersions());
    if (message.role !== 'tool' && message.content !== '') actions.append(copyButton('Copy the message', () => message.content));
    if (message.role === 'user') actions.append(iconButton('edit', 'Edit', () => this.edit(), {class: 'icon-button edit'}));
    if (message.role === 'assistant') {
      actions.append(iconButton('again', 'Regenerate', () => this.actions.regenerate(message), {class: 'icon-button regenerate'}));
      if (message.tokens?.length) actions.append(this.makeTokensButton());
      const stats = statsText(message.stats);
      const note = NOTES[message.finish];
      if (note && !message.error) actions.append(h('span', {class: 'note'}, note));
      if (stats) actions.append(h('span', {class: 'stats muted'}, stats));
    }
    this.foot.append(actions);
  }

  makeError() {
    return h('div', {class: 'failure', role: 'alert'}, h('p', null, this.message.error),
        h('button', {type: 'button', class: 'button', onclick: () => this.actions.retry(this.message)}, 'Try again'));
  }

  makeTokensButton() {
    const button = iconButton('bars', 'Show the tokens', () => {
      this.showsTokens = !this.showsTokens;
      button.setAttribute('aria-pressed', String(this.showsTokens));
      this.update();
    }, {'aria-pressed': String(this.showsTokens), class: 'icon-button show-tokens'});
    return button;
  }

  makeVersions() {
    const {index, count} = this.place;
    return h('span', {class: 'versions', role: 'group', 'aria-label': `Version ${index + 1} of ${count}`},
        iconButton('left', 'Previous version', () => this.actions.select(this.message, -1), {disabled: index === 0}),
        h('span', null, `${index + 1}/${count}`),
        iconButton('right', 'Next version', () => this.actions.select(this.message, 1), {disabled: index + 1 === count}));
  }

  // Fields for what the called tools returned.
  makeResults() {
    const {message} = this;
    const fields = message.toolCalls.map((call, i) => {
      const id = `result-${message.id}-${i}`;
      return [h('label', {for: id}, `Result of ${call.name}`), h('textarea', {id, rows: 2})];
    });
    return h('form', {class: 'results', onsubmit: (event) => {
      event.preventDefault();
      this.actions.giveResults(message, fields.map(([, area]) => area.value));
    }}, fields, h('button', {type: 'submit', class: 'button'}, 'Send the results'));
  }

  edit() {
    const {message} = this;
    const area = h('textarea', {'aria-label': 'Edit your message', rows: Math.min(12, message.content.split('\n').length + 1)});
    area.value = message.content;
    const cancel = () => {
      this.render();
      this.element.querySelector('.edit')?.focus();
    };
    const form = h('form', {class: 'edit-form', onsubmit: (event) => {
      event.preventDefault();
      if (area.value.trim() !== '') this.actions.edit(message, area.value);
    }}, area, h('div', {class: 'buttons'}, h('button', {type: 'button', class: 'button', onclick: cancel}, 'Cancel'),
        h('button', {type: 'submit', class: 'button primary'}, 'Send')));
    area.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') {
        event.stopPropagation();
        cancel();
      }
      if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        form.requestSubmit();
      }
    });
    this.body.replaceChildren(form);
    this.foot.replaceChildren();
    area.focus();
    area.setSelectionRange(area.value.length, area.value.length);
  }
}
