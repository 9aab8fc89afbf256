// Sets the colors of the page: system default, light or dark. A button changes them.

const themes = {auto: "Auto", light: "Light", dark: "Dark"};

function set_theme(name) {
  document.documentElement.dataset.theme = name;
  document.getElementById("theme").textContent = themes[name];
  try {
    localStorage.setItem("rdmawire-theme", name);
  } catch {
    // Without storage, the choice only applies until the page is closed.
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

/** Initializes the theme. `redraw` is called after each change. */
function begin_theme(redraw = () => {}) {
  set_theme(remembered_theme());
  document.getElementById("theme").addEventListener("click", () => {
    const names = Object.keys(themes);
    set_theme(names[(names.indexOf(document.documentElement.dataset.theme) + 1) % names.length]);
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}
