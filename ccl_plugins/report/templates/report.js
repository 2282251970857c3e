"use strict";
(() => {
  const root = document.documentElement;
  const button = document.getElementById("scheme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.scheme ? root.dataset.scheme === "dark" : system.matches);
  const show = () => button.setAttribute("aria-pressed", String(isDark()));
  button.addEventListener("click", () => {
    root.dataset.scheme = isDark() ? "light" : "dark";
    show();
  });
  system.addEventListener("change", show);
  button.hidden = false;
  show();
  // Paper has nothing to open.
  addEventListener("beforeprint", () => {
    for (const each of document.querySelectorAll("details")) each.open = true;
  });
})();
