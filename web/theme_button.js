// The button that chooses between the system's theme, light and dark.
import {announce, icon} from './dom.js';

const ORDER = ['auto', 'light', 'dark'];
const ICON = {auto: 'auto', light: 'sun', dark: 'moon'};

export function bindThemeButton(button) {
  const current = () => document.documentElement.dataset.theme || 'auto';
  const show = () => {
    const label = `Theme: ${current() === 'auto' ? 'system' : current()}`;
    button.replaceChildren(icon(ICON[current()]));
    button.title = label;
    button.setAttribute('aria-label', label);
  };
  button.addEventListener('click', () => {
    const next = ORDER[(ORDER.indexOf(current()) + 1) % ORDER.length];
    if (next === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    try {
      localStorage.setItem('linnet.theme', next);
    } catch {
      // it holds for this page alone
    }
    show();
    announce(button.title);
  });
  show();
}
