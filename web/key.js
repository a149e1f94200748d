// Asks for the API key where the server wants one.
import {setKey} from './api.js';
import {find, h} from './dom.js';

let asking = null;

// Resolves once a key was given, with true, or refused, with false.
export function askForKey(isWrong) {
  asking = asking || show(isWrong).finally(() => {
    asking = null;
  });
  return asking;
}

function show(isWrong) {
  const dialog = find('#key-dialog');
  const field = h('input', {id: 'key', type: 'password', autocomplete: 'current-password', required: true,
    spellcheck: 'false', 'aria-describedby': 'key-note'});
  const keep = h('input', {id: 'keep-key', type: 'checkbox'});
  const form = h('form', {method: 'dialog'},
      h('h2', {id: 'key-title'}, 'API key'),
      h('p', {id: 'key-note', class: isWrong ? 'error' : 'muted'}, isWrong
        ? 'The server does not take this key.' : 'This server asks for a key (--api-key). It is sent to this server alone.'),
      h('label', {for: 'key'}, 'Key'), field,
      h('label', {class: 'check', for: 'keep-key'}, keep, h('span', null, 'Keep it in this browser')),
      h('div', {class: 'buttons'},
          h('button', {type: 'button', class: 'button', onclick: () => dialog.close('')}, 'Cancel'),
          h('button', {type: 'submit', class: 'button primary', value: 'use'}, 'Use the key')));
  dialog.replaceChildren(form);
  dialog.returnValue = '';
  dialog.showModal();
  field.focus();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => {
      const isGiven = dialog.returnValue === 'use' && field.value.trim() !== '';
      if (isGiven) setKey(field.value.trim(), keep.checked);
      field.value = '';
      resolve(isGiven);
    }, {once: true});
  });
}
