"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const specs = read("charts"), themes = read("themes");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  // page.py stores rows as columns, which are shorter.
  const unpack = (data) => {
    if (!data.columns) return data;
    const names = Object.keys(data.columns);
    const length = names.length ? data.columns[names[0]].length : 0;
    return { values: Array.from({ length }, (_, i) => Object.fromEntries(names.map((n) => [n, data.columns[n][i]]))) };
  };
  const unpackAll = (spec) => {
    if (spec.data) spec.data = unpack(spec.data);
    (spec.layer || []).forEach(unpackAll);
    return spec;
  };
  for (const spec of Object.values(specs)) unpackAll(spec);
  const draw = async () => {
    for (const [name, spec] of Object.entries(specs)) {
      const options = { config: themes[dark.matches ? "dark" : "light"], renderer: "svg", actions: false, ast: true };
      await vegaEmbed(document.getElementById("chart-" + name), structuredClone(spec), options);
    }
    document.documentElement.dataset.drawn = String(Object.keys(specs).length);
  };
  dark.addEventListener("change", draw);
  draw().catch((error) => {
    document.documentElement.dataset.failed = String(error);
    console.error(error);
  });
})();
