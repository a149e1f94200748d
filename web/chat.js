// The chat: what the user does, and what follows from it.
import {getJson} from './api.js';
import {addMessage, createConversation, getPath, getSiblings, makeTitle, selectBranch, titleOf} from './conversation.js';
import {announce, find, h, icon, toast} from './dom.js';
import {askForKey} from './key.js';
import {MessageView} from './message.js';
import {Run} from './run.js';
import {openSettings, settings} from './settings.js';
import {Sidebar} from './sidebar.js';
import {Store} from './store.js';
import {bindThemeButton} from './theme_button.js';
import {hideTip} from './tokens.js';

const SUGGESTIONS = ['Tell me a story about a small bird.', 'What is 12 + 30?', 'Write a haiku about the sea.'];
const AT_END = 60; // pixels from the end that still count as the end

class Page {
  constructor(store) {
    this.store = store;
    this.conversations = new Map();
    this.runs = new Map(); // by the conversation's id
    this.views = [];
    this.models = [];
    this.scroll = find('#scroll');
    this.prompt = find('#prompt');
    this.current = createConversation(this.defaultSystem());
    this.sidebar = new Sidebar(this);
    this.follows = true;
    this.bind();
  }

  async start() {
    for (const conversation of await this.store.all()) {
      for (const node of Object.values(conversation.nodes))
        if (node.isRunning) Object.assign(node, {isRunning: false, finish: 'stopped'});
      this.conversations.set(conversation.id, conversation);
    }
    const wanted = this.conversations.get(location.hash.slice(1));
    this.open(wanted || this.current);
    if (!this.store.isKept) toast('This browser keeps no chats: they end with the page.');
  }

  defaultSystem() {
    return settings.system;
  }

  // ---- the server -----------------------------------------------------------------------------

  async loadModels() {
    const select = find('#model');
    try {
      this.models = (await getJson('/v1/models')).data;
      this.showBanner(null);
    } catch (error) {
      await this.fail(error, () => this.loadModels());
      return;
    }
    const kept = this.readModel();
    select.replaceChildren(...this.models.map((model) =>
      h('option', {value: model.id, selected: model.id === kept}, this.nameModel(model))));
    this.showModel();
  }

  // Of several models, of which not all are loaded, with the state.
  nameModel(model) {
    const state = model.status?.value;
    return state !== undefined && state !== 'loaded' ? `${model.id} (${state})` : model.id;
  }

  // States of models change as they are used.
  async refreshModels() {
    if (this.models.length < 2) return;
    const {data} = await getJson('/v1/models').catch(() => ({data: this.models}));
    this.models = data;
    for (const option of find('#model').options) {
      const model = data.find((one) => one.id === option.value);
      const name = model === undefined ? option.value : this.nameModel(model);
      if (option.textContent !== name) option.textContent = name;
    }
    this.showModel();
  }

  readModel() {
    try {
      return localStorage.getItem('linnet.model');
    } catch {
      return null;
    }
  }

  showModel() {
    const model = this.models.find((one) => one.id === find('#model').value);
    const context = model?.max_model_len;
    find('#context').textContent = context ? `${context.toLocaleString('en')} tokens of context` : '';
    this.prompt.placeholder = model ? `Message ${model.id}` : 'Message the model';
    find('#empty-note').textContent = model ? `You are talking to ${model.id}, on this server.` : '';
  }

  // What went wrong: a key that is missing, a server that is away. True where `again` was called.
  async fail(error, again) {
    if (error.status === 401) {
      const given = await askForKey(this.wasAsked);
      this.wasAsked = true;
      if (given) await again();
      else this.showBanner('The server asks for an API key.', 'Give the key', again);
      return given;
    }
    if (error.status === 0) {
      this.showBanner('The server cannot be reached. Waiting for it to come back…');
      this.waitForServer(again);
    } else {
      this.showBanner(error.message, 'Try again', again);
    }
    return false;
  }

  waitForServer(again) {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(async () => {
      try {
        await getJson('/health');
        this.showBanner(null);
        announce('The server is back');
        if (this.models.length === 0) await again();
      } catch {
        this.waitForServer(again);
      }
    }, 2000);
  }

  showBanner(text, action, onaction) {
    const banner = find('#banner');
    banner.hidden = text === null;
    banner.replaceChildren(text || '');
    if (action) banner.append(h('button', {type: 'button', class: 'text-button', onclick: () => {
      banner.hidden = true;
      onaction();
    }}, action));
  }

  // ---- conversations --------------------------------------------------------------------------

  open(conversation) {
    hideTip();
    this.current = conversation;
    history.replaceState(null, '', this.conversations.has(conversation.id) ? `#${conversation.id}` : location.pathname);
    this.follows = true;
    this.render();
    this.sidebar.render();
    this.sidebar.closeOnPhone();
    if (!matchMedia('(pointer: coarse)').matches) this.prompt.focus();
  }

  save(conversation) {
    this.conversations.set(conversation.id, conversation);
    this.store.put(conversation).catch((error) => toast(`The browser cannot keep this chat: ${error.message}`));
  }

  remove(conversation) {
    this.runs.get(conversation.id)?.stop();
    this.conversations.delete(conversation.id);
    this.store.remove(conversation.id);
    if (conversation === this.current) this.open(createConversation(this.defaultSystem()));
  }

  restore(conversation) {
    this.save(conversation);
    this.open(conversation);
  }

  // ---- showing --------------------------------------------------------------------------------

  render() {
    const path = getPath(this.current);
    this.views = path.map((message, i) => this.makeView(message, i === path.length - 1));
    find('#messages').replaceChildren(...this.views.map((view) => view.element));
    find('#empty').hidden = path.length > 0;
    find('#title').textContent = titleOf(this.current);
    document.title = path.length > 0 ? `${titleOf(this.current)} · linnet` : 'linnet';
    this.showRunning();
    this.scrollToEnd();
  }

  makeView(message, isLast) {
    const siblings = getSiblings(this.current, message);
    return new MessageView(message, this, {index: siblings.indexOf(message), count: siblings.length, isLast});
  }

  showRunning() {
    const runs = this.runs.has(this.current.id);
    const hadFocus = document.activeElement === find('#stop');
    find('#stop').hidden = !runs;
    find('#send').hidden = runs;
    if (hadFocus && !runs) this.prompt.focus();
    this.showSend();
  }

  showSend() {
    find('#send').disabled = this.prompt.value.trim() === '' || this.runs.has(this.current.id);
  }

  scrollToEnd() {
    if (this.follows) this.scroll.scrollTop = this.scroll.scrollHeight;
    this.showEnd();
  }

  showEnd() {
    const rest = this.scroll.scrollHeight - this.scroll.scrollTop - this.scroll.clientHeight;
    find('#to-end').hidden = rest < 2 * AT_END;
  }

  // ---- asking ---------------------------------------------------------------------------------

  send(text) {
    if (text.trim() === '' || this.runs.has(this.current.id)) return;
    const conversation = this.current;
    if (conversation.title === '') conversation.title = makeTitle(text);
    const message = addMessage(conversation, conversation.leaf, {role: 'user', content: text});
    this.follows = true;
    this.answer(conversation, message.id);
    history.replaceState(null, '', `#${conversation.id}`);
  }

  edit(message, text) {
    if (this.runs.has(this.current.id)) return;
    this.current.leaf = message.parent;
    const edited = addMessage(this.current, message.parent, {role: 'user', content: text});
    this.answer(this.current, edited.id);
    this.prompt.focus();
  }

  regenerate(message) {
    if (this.runs.has(this.current.id)) return;
    this.follows = true;
    this.answer(this.current, message.parent);
    this.prompt.focus();
  }

  // Asks again in place of an answer that failed.
  retry(message) {
    if (this.runs.has(this.current.id)) return;
    if (message.content === '' && !message.toolCalls?.length) delete this.current.nodes[message.id];
    this.answer(this.current, message.parent);
  }

  select(message, step) {
    const siblings = getSiblings(this.current, message);
    const other = siblings[siblings.indexOf(message) + step];
    if (!other || this.runs.has(this.current.id)) return;
    selectBranch(this.current, other.id);
    this.save(this.current);
    this.follows = false;
    this.render();
    find(`[data-id="${other.id}"] .versions button:not(:disabled)`)?.focus();
    announce(`Version ${siblings.indexOf(other) + 1} of ${siblings.length}`);
  }

  giveResults(message, results) {
    let parent = message.id;
    message.toolCalls.forEach((call, i) => {
      parent = addMessage(this.current, parent, {role: 'tool', content: results[i], toolCallId: call.id}).id;
    });
    this.follows = true;
    this.answer(this.current, parent);
    this.prompt.focus();
  }

  async answer(conversation, parent) {
    const message = addMessage(conversation, parent, {role: 'assistant', content: '', isRunning: true,
      model: find('#model').value});
    const run = new Run(conversation, message, find('#model').value, () => this.schedule(run));
    this.runs.set(conversation.id, run);
    this.save(conversation);
    if (conversation === this.current) this.render();
    this.sidebar.render();
    announce('Answering');
    let failure = null;
    try {
      await run.run();
    } catch (error) {
      failure = error;
    }
    this.runs.delete(conversation.id);
    this.refreshModels();
    conversation.updated = Date.now();
    this.finish(run, failure);
  }

  finish({conversation, message}, failure) {
    if (failure) {
      const text = failure.message.charAt(0).toUpperCase() + failure.message.slice(1).replace(/[^.!?]$/, '$&.');
      message.error = failure.retryAfter ? `${text} Try again in ${failure.retryAfter} s.` : text;
      if (failure.status === 0 || failure.status === 401)
        this.fail(failure, async () => {
          if (failure.status === 401 && conversation === this.current) this.retry(message);
        });
    }
    if (this.conversations.has(conversation.id)) this.save(conversation);
    if (conversation === this.current) {
      const scrolled = this.scroll.scrollTop;
      this.updateView(message);
      const view = this.views.find((one) => one.message === message);
      view?.renderFoot();
      if (!this.follows) this.scroll.scrollTop = scrolled;
      this.showRunning();
      this.scrollToEnd();
    }
    this.sidebar.render();
    announce(failure ? message.error : `Answer: ${find(`[data-id="${message.id}"] .body`)?.textContent.slice(0, 2000) || 'complete'}`);
  }

  // At most one update a frame.
  schedule(run) {
    if (run.isScheduled) return;
    run.isScheduled = true;
    requestAnimationFrame(() => {
      run.isScheduled = false;
      if (run.conversation !== this.current || !run.message.isRunning) return;
      this.updateView(run.message);
      this.scrollToEnd();
    });
  }

  updateView(message) {
    const view = this.views.find((one) => one.message === message);
    view?.update();
    view?.showProgress();
  }

  // ---- events ---------------------------------------------------------------------------------

  bind() {
    find('#send').append(icon('send'));
    find('#stop').append(icon('stop'));
    find('#to-end').append(icon('down'));
    find('#open-settings').append(icon('sliders'));
    find('#status-link').append(icon('chart'));
    bindThemeButton(find('#theme'));
    find('#suggestions').append(...SUGGESTIONS.map((text) =>
      h('button', {type: 'button', class: 'suggestion', onclick: () => this.send(text)}, text)));
    find('#composer').addEventListener('submit', (event) => {
      event.preventDefault();
      this.submit();
    });
    find('#stop').addEventListener('click', () => this.runs.get(this.current.id)?.stop());
    find('#to-end').addEventListener('click', () => {
      this.follows = true;
      this.scrollToEnd();
      this.prompt.focus();
    });
    find('#open-settings').addEventListener('click', () => openSettings(this.current, () => {
      if (this.conversations.has(this.current.id)) this.save(this.current);
    }));
    find('#model').addEventListener('pointerdown', () => this.refreshModels());
    find('#model').addEventListener('focus', () => this.refreshModels());
    find('#model').addEventListener('change', (event) => {
      try {
        localStorage.setItem('linnet.model', event.target.value);
      } catch {
        // it holds for this page alone
      }
      this.showModel();
    });
    this.bindPrompt();
    this.bindScroll();
    document.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape' || event.defaultPrevented || find('dialog[open]')) return;
      this.runs.get(this.current.id)?.stop();
    });
  }

  bindPrompt() {
    const grow = () => {
      this.prompt.style.height = 'auto';
      this.prompt.style.height = `${this.prompt.scrollHeight}px`;
      this.showSend();
    };
    this.prompt.addEventListener('input', grow);
    this.prompt.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.submit();
      }
      if (event.key === 'ArrowUp' && this.prompt.value === '') {
        const buttons = document.querySelectorAll('.message.user .edit');
        if (buttons.length > 0) event.preventDefault();
        buttons[buttons.length - 1]?.click();
      }
    });
    this.growPrompt = grow;
    grow();
  }

  submit() {
    const text = this.prompt.value;
    if (text.trim() === '' || this.runs.has(this.current.id)) return;
    this.prompt.value = '';
    this.growPrompt();
    this.send(text);
    if (!matchMedia('(pointer: coarse)').matches) this.prompt.focus(); // elsewhere it opens a keyboard
  }

  bindScroll() {
    let last = 0;
    this.scroll.addEventListener('scroll', () => {
      const rest = this.scroll.scrollHeight - this.scroll.scrollTop - this.scroll.clientHeight;
      if (this.scroll.scrollTop < last - 2 && rest > AT_END) this.follows = false;
      if (rest <= AT_END / 2) this.follows = true;
      last = this.scroll.scrollTop;
      this.showEnd();
      hideTip();
    }, {passive: true});
  }
}

const page = new Page(await Store.open());
await page.start();
document.documentElement.dataset.ready = 'yes'; // for tests
await page.loadModels();
