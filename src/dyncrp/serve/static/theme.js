// Run before anything is drawn, so that a theme chosen by hand does not flash in the other one first.
try {
  const theme = localStorage.getItem("dyncrp-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // No storage: the system's theme.
}
