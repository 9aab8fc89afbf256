// The colors of a page: as the system has them, light, or dark; its button goes through them.

const themes = {auto: "Auto", light: "Light", dark: "Dark"};

function set_theme(name) {
  document.documentElement.dataset.theme = name;
  document.getElementById("theme").textContent = themes[name];
  try {
    localStorage.setItem("rdmawire-theme", name);
  } catch {
    // Not remembered then.
  }
}

function remembered_theme() {
  try {
    const name = localStorage.getItem("rdmawire-theme");
    return themes[name] ? name : "auto";
  } catch {
    return "auto";
  }
}

/** `redraw` is called when the colors have changed. */
function begin_theme(redraw = () => {}) {
  set_theme(remembered_theme());
  document.getElementById("theme").addEventListener("click", () => {
    const names = Object.keys(themes);
    set_theme(names[(names.indexOf(document.documentElement.dataset.theme) + 1) % names.length]);
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}
