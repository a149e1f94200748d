// What a request asks for beside its messages: sampling, tools, token probabilities. Kept in the
// browser; the system prompt belongs to the conversation.
import {find, h, iconButton} from './dom.js';

const PLACE = 'linnet.settings';
const DEFAULTS = {temperature: '', top_p: '', top_k: '', min_p: '', repetition_penalty: '', max_tokens: '',
  seed: '', stop: '', reasoning_effort: '', tools: '', tool_choice: 'auto', logprobs: false, system: ''};

// Field, label, least, greatest, step, what is said below it.
const NUMBERS = [
  ['temperature', 'Temperature', 0, 2, 0.05, '0: always the likeliest token'],
  ['top_p', 'Top-p', 0.01, 1, 0.01, 'share of the likeliest tokens'],
  ['top_k', 'Top-k', 0, 1000, 1, 'number of the likeliest tokens; 0: all'],
  ['min_p', 'Min-p', 0, 1, 0.01, 'share of the likeliest token’s probability'],
  ['repetition_penalty', 'Repetition penalty', 0.1, 2, 0.05, '1: none'],
  ['max_tokens', 'Longest answer', 1, 1000000, 1, 'tokens'],
  ['seed', 'Seed', 0, 9007199254740991, 1, 'the same seed, the same answer'],
];

function read() {
  try {
    const kept = JSON.parse(localStorage.getItem(PLACE) || '{}');
    const settings = {...DEFAULTS};
    for (const name of Object.keys(DEFAULTS))
      if (typeof kept[name] === typeof DEFAULTS[name]) settings[name] = kept[name];
    return settings;
  } catch {
    return {...DEFAULTS};
  }
}

export const settings = read();

function keep() {
  try {
    localStorage.setItem(PLACE, JSON.stringify(settings));
  } catch {
    // they hold for this page alone
  }
}

// Tools as the API takes them, or an error's text.
export function parseTools(text) {
  if (text.trim() === '') return {tools: []};
  try {
    const value = JSON.parse(text);
    const list = Array.isArray(value) ? value : [value];
    const tools = list.map((tool) => (tool.type === 'function' ? tool : {type: 'function', function: tool}));
    const bad = tools.find((tool) => typeof tool.function?.name !== 'string');
    return bad ? {error: 'A tool has no name.'} : {tools};
  } catch (error) {
    return {error: `This is not JSON: ${error.message}`};
  }
}

// The fields of a request that are set.
export function requestFields() {
  const fields = {};
  for (const [name] of NUMBERS) if (settings[name] !== '') fields[name] = Number(settings[name]);
  const stops = settings.stop.split('\n').filter((line) => line !== '');
  if (stops.length > 0) fields.stop = stops;
  if (settings.reasoning_effort !== '') fields.reasoning_effort = settings.reasoning_effort;
  const {tools} = parseTools(settings.tools);
  if (tools?.length) Object.assign(fields, {tools, tool_choice: settings.tool_choice});
  if (settings.logprobs) Object.assign(fields, {logprobs: true, top_logprobs: 5});
  return fields;
}

// ---- the dialog -----------------------------------------------------------------------------

function numberField([name, label, least, greatest, step, note]) {
  const input = h('input', {id: `set-${name}`, type: 'number', min: least, max: greatest, step, inputmode: 'decimal',
    placeholder: 'default', 'aria-describedby': `note-${name}`, value: settings[name]});
  input.addEventListener('input', () => {
    if (!input.validity.badInput && !input.validity.rangeUnderflow && !input.validity.rangeOverflow)
      settings[name] = input.value;
    input.toggleAttribute('aria-invalid', !input.checkValidity() && !input.validity.stepMismatch);
    keep();
  });
  return h('div', {class: 'field'}, h('label', {for: `set-${name}`}, label), input,
      h('small', {id: `note-${name}`, class: 'muted'}, note));
}

function textField(name, label, note, value, onchange, attributes) {
  const area = h('textarea', {id: `set-${name}`, rows: 3, 'aria-describedby': `note-${name}`, ...attributes});
  area.value = value;
  const small = h('small', {id: `note-${name}`, class: 'muted'}, note);
  area.addEventListener('input', () => {
    const complaint = onchange(area.value);
    small.textContent = complaint || note;
    small.className = complaint ? 'error' : 'muted';
    area.toggleAttribute('aria-invalid', Boolean(complaint));
    keep();
  });
  return h('div', {class: 'field whole'}, h('label', {for: `set-${name}`}, label), area, small);
}

function selectField(name, label, options) {
  const select = h('select', {id: `set-${name}`}, options.map(([value, text]) =>
    h('option', {value, selected: settings[name] === value}, text)));
  select.addEventListener('change', () => {
    settings[name] = select.value;
    keep();
  });
  return h('div', {class: 'field'}, h('label', {for: `set-${name}`}, label), h('div', {class: 'select'}, select));
}

function checkField(name, label, note) {
  const box = h('input', {id: `set-${name}`, type: 'checkbox', checked: settings[name],
    'aria-describedby': `note-${name}`});
  box.addEventListener('change', () => {
    settings[name] = box.checked;
    keep();
  });
  return h('div', {class: 'field whole'}, h('label', {class: 'check', for: `set-${name}`}, box, h('span', null, label)),
      h('small', {id: `note-${name}`, class: 'muted'}, note));
}

// conversation.system is what the dialog edits; onclose comes after it was changed.
export function openSettings(conversation, onclose) {
  const dialog = find('#settings');
  const refresh = () => {
    dialog.close();
    Object.assign(settings, DEFAULTS);
    keep();
    openSettings(conversation, onclose);
  };
  dialog.replaceChildren(
      h('div', {class: 'dialog-head'}, h('h2', {id: 'settings-title'}, 'Settings'),
          iconButton('close', 'Close the settings', () => dialog.close())),
      h('div', {class: 'dialog-body', tabindex: '-1'},
          textField('system', 'System prompt', 'For this chat and for new ones.', conversation.system, (value) => {
            conversation.system = settings.system = value;
          }),
          h('h3', null, 'Sampling'),
          h('div', {class: 'fields'}, NUMBERS.map(numberField),
              selectField('reasoning_effort', 'Reasoning', [['', 'default'], ['none', 'none'], ['low', 'low'],
                ['medium', 'medium'], ['high', 'high']])),
          textField('stop', 'Stop at', 'Texts that end the answer, one a line.', settings.stop, (value) => {
            settings.stop = value;
          }, {rows: 2}),
          checkField('logprobs', 'Token probabilities',
              'Answers can then be shown token by token, with the five likeliest at each place.'),
          h('h3', null, 'Tools'),
          textField('tools', 'Functions (JSON)', 'An array as the API takes it. You give the results yourself.',
              settings.tools, (value) => {
                settings.tools = value;
                return parseTools(value).error;
              }, {rows: 4, spellcheck: 'false', class: 'code-area',
                placeholder: '[{"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}]'}),
          selectField('tool_choice', 'Calls', [['auto', 'where the model wants'], ['required', 'always'],
            ['none', 'never']]),
          h('div', {class: 'buttons'},
              h('button', {type: 'button', class: 'button', onclick: refresh}, 'Reset'),
              h('button', {type: 'button', class: 'button primary', onclick: () => dialog.close()}, 'Done'))));
  dialog.addEventListener('close', onclose, {once: true});
  dialog.showModal();
}
