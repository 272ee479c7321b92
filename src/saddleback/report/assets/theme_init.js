// Runs before the first paint, so that a dark page does not begin with a flash of white.
document.documentElement.dataset.theme = window.matchMedia("(prefers-color-scheme: dark)").matches
  ? "dark"
  : "light";
