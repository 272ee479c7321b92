// Before anything is drawn, so that a dark page does not begin with a flash of light.
document.documentElement.dataset.theme = window.matchMedia("(prefers-color-scheme: dark)").matches
  ? "dark"
  : "light";
