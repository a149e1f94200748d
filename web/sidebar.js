// The list of conversations: open, rename, export, delete.
import {createConversation, fromExport, getPath, titleOf, toMarkdown} from './conversation.js';
import {announce, find, h, icon, iconButton, toast} from './dom.js';

const DAY = 86400000;

function groupOf(time) {
  const today = new Date().setHours(0, 0, 0, 0);
  if (time >= today) return 'Today';
  if (time >= today - DAY) return 'Yesterday';
  return time >= today - 7 * DAY ? 'Last seven days' : 'Older';
}

export function download(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], {type}));
  const anchor = h('a', {href: address, download: name});
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

const fileName = (conversation, extension) =>
  `${titleOf(conversation).replace(/[^\p{L}\d]+/gu, '-').replace(/^-|-$/g, '').slice(0, 40) || 'chat'}.${extension}`;

// `page` has conversations, current, open(conversation), save(conversation), remove(conversation),
// restore(conversation).
export class Sidebar {
  constructor(page) {
    this.page = page;
    this.element = find('#sidebar');
    this.list = find('#conversations');
    this.menu = find('#menu');
    this.narrow = matchMedia('(max-width: 48rem)');
    find('#new-chat').append(icon('plus'), 'New chat');
    find('#open-sidebar').append(icon('menu'));
    find('#close-sidebar').append(icon('close'));
    find('#new-chat').addEventListener('click', () => this.page.open(createConversation(page.defaultSystem())));
    find('#open-sidebar').addEventListener('click', () => this.toggle());
    find('#close-sidebar').addEventListener('click', () => this.toggle(false));
    find('#scrim').addEventListener('click', () => this.toggle(false));
    find('#filter').addEventListener('input', () => this.render());
    find('#export-all').addEventListener('click', () => this.exportAll());
    find('#import').addEventListener('click', () => find('#import-file').click());
    find('#import-file').addEventListener('change', (event) => this.importFile(event.target));
    this.narrow.addEventListener('change', () => this.toggle(!this.narrow.matches, true));
    this.element.addEventListener('keydown', (event) => {
      if (event.key === 'Escape' && this.narrow.matches) this.toggle(false);
    });
    document.addEventListener('pointerdown', (event) => {
      if (!this.menu.hidden && !this.menu.contains(event.target)) this.closeMenu();
    });
    this.menu.addEventListener('keydown', (event) => this.walkMenu(event));
    this.toggle(!this.narrow.matches, true);
  }

  get isOpen() {
    return !document.body.classList.contains('no-sidebar');
  }

  toggle(opens = !this.isOpen, isQuiet = false) {
    document.body.classList.toggle('no-sidebar', !opens);
    this.element.inert = !opens;
    find('#main').inert = opens && this.narrow.matches;
    find('#scrim').hidden = !(opens && this.narrow.matches);
    find('#open-sidebar').setAttribute('aria-expanded', String(opens));
    if (isQuiet) return;
    if (opens) find('#new-chat').focus();
    else find('#open-sidebar').focus();
  }

  closeOnPhone() {
    if (this.narrow.matches) this.toggle(false);
  }

  render() {
    const wanted = find('#filter').value.trim().toLowerCase();
    const fits = (conversation) => wanted === '' || titleOf(conversation).toLowerCase().includes(wanted) ||
        Object.values(conversation.nodes).some((node) => node.content.toLowerCase().includes(wanted));
    const shown = [...this.page.conversations.values()].filter(fits).sort((a, b) => b.updated - a.updated);
    const items = [];
    let group = '';
    for (const conversation of shown) {
      const own = groupOf(conversation.updated);
      if (own !== group) items.push(h('li', {class: 'group'}, own));
      group = own;
      items.push(this.makeItem(conversation));
    }
    if (items.length === 0)
      items.push(h('li', {class: 'none muted'}, wanted ? 'No chat has this.' : 'No chats yet.'));
    this.list.replaceChildren(...items);
    find('#export-all').disabled = this.page.conversations.size === 0;
  }

  makeItem(conversation) {
    const isCurrent = conversation.id === this.page.current.id;
    const more = iconButton('more', `Actions for ${titleOf(conversation)}`, () => this.openMenu(conversation, more),
        {class: 'icon-button more', 'aria-haspopup': 'menu'});
    return h('li', {class: isCurrent ? 'item current' : 'item', 'data-id': conversation.id},
        h('button', {type: 'button', class: 'open', 'aria-current': isCurrent ? 'page' : null, title: titleOf(conversation),
          onclick: () => {
            this.page.open(conversation);
            this.closeOnPhone();
          }}, titleOf(conversation)), more);
  }

  // ---- the menu of a conversation -------------------------------------------------------------

  openMenu(conversation, button) {
    const act = (action) => () => {
      this.closeMenu();
      action();
    };
    const entries = [
      ['edit', 'Rename', () => this.rename(conversation)],
      ['save', 'Export as JSON', () => download(fileName(conversation, 'json'),
          JSON.stringify({linnet: 1, conversations: [conversation]}, null, 1), 'application/json')],
      ['save', 'Export as Markdown', () => download(fileName(conversation, 'md'), toMarkdown(conversation), 'text/markdown')],
      ['trash', 'Delete', () => this.remove(conversation)],
    ];
    this.menuButton = button;
    this.menu.replaceChildren(...entries.map(([name, label, action]) =>
      h('button', {type: 'button', role: 'menuitem', tabindex: '-1', onclick: act(action)}, icon(name), label)));
    this.menu.hidden = false;
    const box = button.getBoundingClientRect(), own = this.menu.getBoundingClientRect();
    this.menu.style.left = `${Math.max(8, Math.min(box.left, innerWidth - own.width - 8))}px`;
    this.menu.style.top = `${Math.min(box.bottom + 4, innerHeight - own.height - 8)}px`;
    this.menu.firstElementChild.focus();
  }

  closeMenu() {
    const hadFocus = this.menu.contains(document.activeElement);
    this.menu.hidden = true;
    if (hadFocus) this.menuButton.focus();
  }

  walkMenu(event) {
    const entries = [...this.menu.children], at = entries.indexOf(document.activeElement);
    const to = {ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1}[event.key];
    if (event.key === 'Escape' || event.key === 'Tab') this.closeMenu();
    if (to === undefined && event.key !== 'Escape') return;
    event.preventDefault();
    event.stopPropagation();
    if (to !== undefined) entries.at(to % entries.length).focus();
  }

  rename(conversation) {
    const item = this.list.querySelector(`[data-id="${CSS.escape(conversation.id)}"]`);
    const field = h('input', {class: 'rename', 'aria-label': 'Name of the chat', maxlength: 200, value: titleOf(conversation)});
    let isOver = false;
    const end = (isKept) => {
      if (isOver) return;
      isOver = true;
      if (isKept && field.value.trim() !== '') {
        conversation.title = field.value.trim();
        this.page.save(conversation);
      }
      this.render();
      this.list.querySelector(`[data-id="${CSS.escape(conversation.id)}"] .more`)?.focus();
    };
    field.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') end(true);
      if (event.key === 'Escape') {
        event.stopPropagation();
        end(false);
      }
    });
    field.addEventListener('blur', () => end(true));
    item.replaceChildren(field);
    field.focus();
    field.select();
  }

  remove(conversation) {
    this.page.remove(conversation);
    this.render();
    find('#new-chat').focus();
    announce(`Deleted ${titleOf(conversation)}`);
    toast('Chat deleted.', 'Undo', () => this.page.restore(conversation));
  }

  // ---- files ----------------------------------------------------------------------------------

  exportAll() {
    const conversations = [...this.page.conversations.values()].filter((one) => getPath(one).length > 0);
    download('linnet-chats.json', JSON.stringify({linnet: 1, conversations}, null, 1), 'application/json');
  }

  async importFile(input) {
    const file = input.files[0];
    input.value = '';
    if (!file) return;
    let found = [];
    try {
      const value = JSON.parse(await file.text());
      found = (value.conversations || []).map(fromExport).filter((one) => one !== null);
    } catch {
      // nothing is found
    }
    for (const conversation of found) this.page.save(conversation);
    this.render();
    toast(found.length === 0 ? 'This file has no chats.' : `${found.length} chat${found.length > 1 ? 's' : ''} imported.`);
    if (found.length > 0) this.page.open(found[0]);
  }
}
