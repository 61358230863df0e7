"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const numbers = read("numbers");
  const figures = read("figures");
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const touch = window.matchMedia("(pointer: coarse)").matches;
  const shown = {};                                 // figure -> view
  let axis = document.querySelector("[data-axis]") ? "time" : "round";
  let zoom = null;                                  // the x range all figures share
  let following = false;
  let printing = false;                             // on paper: light, and as wide as a page

  const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const at = (path) => path.reduce((value, key) => value[key], numbers);

  // Put numbers, axes and colours where the specification names them.
  const filled = (value) => {
    if (Array.isArray(value)) return value.map(filled);
    if (value === null || typeof value !== "object") return value;
    if ("$" in value) return at(value.$);
    if ("$x" in value) { const points = at(value.$x)[axis]; return "at" in value ? points[value.at] : points; }
    if ("$c" in value) return colour(value.$c);
    if ("$heat" in value) return [0, 1, 2, 3, 4].map((k) => [k / 4, colour("heat-" + k)]);
    if ("$rows" in value) return value.$rows.map((text) => Array(at(value.along).round.length).fill(text));
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, filled(inner)]));
  };

  const merged = (base, more) => {
    const out = { ...base };
    for (const [key, value] of Object.entries(more)) {
      const both = value && typeof value === "object" && !Array.isArray(value) && typeof out[key] === "object";
      out[key] = both ? merged(out[key], value) : value;
    }
    return out;
  };

  const along = (small) => axis === "time" ? { type: "date" } : { type: "linear", tickformat: small ? "~s" : ",d" };

  const layout = (small, timed) => {
    const phone = window.innerWidth < 640;
    const line = { gridcolor: colour("grid"), linecolor: colour("rule"), zerolinecolor: colour("rule"), zerolinewidth: 1, automargin: true, tickfont: { size: small ? 10 : 12 }, fixedrange: touch };
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", size: phone ? 12 : 13, color: colour("soft") },
      margin: small ? { l: 36, r: 8, t: 6, b: 24 } : { l: phone ? 40 : 56, r: 12, t: 8, b: timed && axis === "time" ? 28 : 40 },
      xaxis: { ...line, ...(timed ? along(small) : {}), showgrid: false, tickangle: 0, nticks: small ? (printing ? 3 : 4) : phone ? 4 : 9, title: { font: { size: 12 }, standoff: 8, text: timed && axis === "round" && !small ? "row" : "" } },
      yaxis: { ...line, nticks: small ? 4 : undefined, zeroline: true, title: { standoff: 8, font: { size: 12 } } },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", xanchor: "left", font: { size: phone ? 11 : 12 }, traceorder: "normal" },
      hovermode: small || phone ? "closest" : "x unified",
      hoverlabel: { bgcolor: colour("surface"), bordercolor: colour("rule"), font: { color: colour("ink"), size: 12 } },
      dragmode: touch ? false : "zoom",
      showlegend: !small,
    };
  };
  const config = { responsive: true, displaylogo: false, displayModeBar: touch ? false : "hover", modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d", "pan2d"] };

  const timed = (view) => view.data.some((trace) => trace.x && trace.x.$x);
  const places = () => figures.flatMap((figure) => figure.panels.length
    ? figure.panels.map((view, k) => ({ id: `plot-${figure.key}-${k}`, view, small: true }))
    : [{ id: `plot-${figure.key}`, view: figure.views[shown[figure.key] || 0], small: false }]);

  let drawing = 0;
  const busy = (change) => { drawing += change; root.dataset.drawn = drawing ? "no" : "yes"; };

  const draw = async (place) => {
    busy(+1);
    const box = document.getElementById(place.id);
    const wanted = merged(layout(place.small, timed(place.view)), filled(place.view.layout));
    const inside = place.view.linked;
    const data = filled(place.view.data);
    if (window.innerWidth < 640) {                  // no room for scales beside the picture
      wanted.yaxis.title = undefined;
      for (const trace of data) if (trace.type === "heatmap") trace.showscale = false;
    }
    if (printing) wanted.width = place.small ? 205 : 660;
    if (inside && zoom) wanted.xaxis = { ...wanted.xaxis, range: zoom.slice(), autorange: false };
    await Plotly.react(box, data, wanted, config);
    if (!box.dataset.ready) {
      box.dataset.ready = "yes";
      box.on("plotly_relayout", (change) => follow(box, change));
    }
    box.dataset.linked = inside ? "yes" : "";
    busy(-1);
  };

  // A zoom in one figure through time is a zoom in all.
  const follow = async (box, change) => {
    if (following || !box.dataset.linked) return;
    const [low, high] = change["xaxis.range"] || [change["xaxis.range[0]"], change["xaxis.range[1]"]];
    if (low === undefined && !change["xaxis.autorange"]) return;
    zoom = low === undefined ? null : [low, high];
    following = true;
    busy(+1);
    try {
      for (const other of document.querySelectorAll('.plot[data-linked="yes"]')) {
        if (other !== box) await Plotly.relayout(other, zoom ? { "xaxis.range": zoom.slice() } : { "xaxis.autorange": true });
      }
    } finally { following = false; busy(-1); }
  };

  const drawAll = async () => { busy(+1); for (const place of places()) await draw(place); busy(-1); };

  const theme = (dark) => {
    root.dataset.theme = dark ? "dark" : "light";
    const button = document.getElementById("theme");
    button.textContent = dark ? "Light" : "Dark";
    button.setAttribute("aria-pressed", String(dark));
    button.setAttribute("aria-label", dark ? "Switch to light colours" : "Switch to dark colours");
  };
  const press = (button) => {
    for (const other of button.parentElement.children) other.setAttribute("aria-pressed", String(other === button));
  };

  document.getElementById("theme").addEventListener("click", () => { theme(root.dataset.theme !== "dark"); drawAll(); });
  system.addEventListener("change", (event) => { theme(event.matches); drawAll(); });
  for (const button of document.querySelectorAll("[data-axis]")) {
    button.addEventListener("click", () => { press(button); axis = button.dataset.axis; zoom = null; drawAll(); });
  }
  for (const button of document.querySelectorAll("[data-view]")) {
    button.addEventListener("click", () => {
      press(button);
      shown[button.dataset.figure] = Number(button.dataset.view);
      draw(places().find((place) => place.id === `plot-${button.dataset.figure}`));
    });
  }
  let before = false;
  window.addEventListener("beforeprint", () => {
    before = root.dataset.theme === "dark";
    printing = true;
    theme(false);
    drawAll();
  });
  window.addEventListener("afterprint", () => {
    printing = false;
    theme(before);
    drawAll();
  });

  theme(root.dataset.theme === "dark");
  drawAll();
})();
