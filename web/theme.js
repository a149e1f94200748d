// Before anything is drawn: the theme that the user chose; otherwise the system's counts.
(() => {
  let theme = null;
  try {
    theme = localStorage.getItem('linnet.theme');
  } catch {
    // without storage the system's theme counts
  }
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
})();
