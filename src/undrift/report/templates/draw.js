"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const numbers = read("numbers");
  const figures = read("figures");
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const touch = window.matchMedia("(pointer: coarse), (hover: none)").matches;
  const activeView = {};                            // figure -> index of the view the reader chose
  let axis = document.querySelector("[data-axis]") ? "time" : "round";
  let zoom = null;                                  // the x range that linked figures share, or null for all
  let syncing = false;
  let printing = false;                             // on paper: light, and as wide as a page

  const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const lookUp = (path) => path.reduce((value, key) => value[key], numbers);

  // Replace what a specification names (numbers, axes, colours of the theme) by the values themselves.
  const resolve = (value) => {
    if (Array.isArray(value)) return value.map(resolve);
    if (value === null || typeof value !== "object") return value;
    if ("$" in value) return lookUp(value.$);
    if ("$x" in value) { const points = lookUp(value.$x)[axis]; return "at" in value ? points[value.at] : points; }
    if ("$c" in value) return colour(value.$c);
    if ("$heat" in value) return [0, 1, 2, 3, 4].map((k) => [k / 4, colour("heat-" + k)]);
    if ("$rows" in value) return value.$rows.map((text) => Array(lookUp(value.along).round.length).fill(text));
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, resolve(inner)]));
  };

  // Return one layout laid over another, level by level.
  const merge = (base, more) => {
    const out = { ...base };
    for (const [key, value] of Object.entries(more)) {
      const both = value && typeof value === "object" && !Array.isArray(value) && typeof out[key] === "object";
      out[key] = both ? merge(out[key], value) : value;
    }
    return out;
  };

  const xAxisType = (small) => axis === "time" ? { type: "date" } : { type: "linear", tickformat: small ? "~s" : ",d" };

  const layout = (small, timed) => {
    const phone = window.innerWidth < 640;
    const line = { gridcolor: colour("grid"), linecolor: colour("rule"), zerolinecolor: colour("rule"), zerolinewidth: 1, automargin: true, tickfont: { size: small ? 10 : 12 }, fixedrange: touch };
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", size: phone ? 12 : 13, color: colour("soft") },
      margin: small ? { l: 36, r: 8, t: 6, b: 24 } : { l: phone ? 40 : 56, r: 12, t: 8, b: timed && axis === "time" ? 28 : 40 },
      xaxis: { ...line, ...(timed ? xAxisType(small) : {}), showgrid: false, tickangle: 0, nticks: small ? (printing ? 3 : phone ? 2 : timed && axis === "time" ? 3 : 4) : phone ? 4 : 9, title: { font: { size: 12 }, standoff: 8, text: timed && axis === "round" && !small ? "row" : "" } },
      yaxis: { ...line, nticks: small ? 4 : undefined, zeroline: true, title: { standoff: 8, font: { size: 12 } } },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", xanchor: "left", font: { size: phone ? 11 : 12 }, traceorder: "normal" },
      hovermode: small || phone ? "closest" : "x unified",
      hoverlabel: { bgcolor: colour("surface"), bordercolor: colour("rule"), font: { color: colour("ink"), size: 12 } },
      dragmode: touch ? false : "zoom",
      showlegend: !small,
    };
  };
  // The toolbar appears under the pointer. Where none hovers it would cover the figure for good, and small panels always.
  const config = (small) => ({ responsive: true, displaylogo: false, displayModeBar: touch || small ? false : "hover", modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d", "pan2d"] });

  const timed = (view) => view.data.some((trace) => trace.x && trace.x.$x);
  const plots = () => figures.flatMap((figure) => figure.panels.length
    ? figure.panels.map((view, k) => ({ id: `plot-${figure.key}-${k}`, view, small: true }))
    : [{ id: `plot-${figure.key}`, view: figure.views[activeView[figure.key] || 0], small: false }]);

  // <html data-drawn="yes"> says that no figure is being drawn; tests wait for it.
  let drawing = 0;
  const countDrawing = (change) => { drawing += change; root.dataset.drawn = drawing ? "no" : "yes"; };

  const draw = async (plot) => {
    countDrawing(+1);
    const box = document.getElementById(plot.id);
    const layoutOfPlot = merge(layout(plot.small, timed(plot.view)), resolve(plot.view.layout));
    const linked = plot.view.linked;
    const data = resolve(plot.view.data);
    if (window.innerWidth < 640) {                  // no room for scales beside the picture
      layoutOfPlot.yaxis.title = undefined;
      for (const trace of data) if (trace.type === "heatmap") trace.showscale = false;
    }
    if (printing) layoutOfPlot.width = plot.small ? 205 : 660;
    if (linked && zoom) layoutOfPlot.xaxis = { ...layoutOfPlot.xaxis, range: zoom.slice(), autorange: false };
    await Plotly.react(box, data, layoutOfPlot, config(plot.small));
    if (!box.dataset.ready) {
      box.dataset.ready = "yes";
      box.on("plotly_relayout", (change) => syncZoom(box, change));
    }
    box.dataset.linked = linked ? "yes" : "";
    countDrawing(-1);
  };

  // A zoom in one figure through time zooms all linked figures.
  const syncZoom = async (box, change) => {
    if (syncing || !box.dataset.linked) return;
    const [low, high] = change["xaxis.range"] || [change["xaxis.range[0]"], change["xaxis.range[1]"]];
    if (low === undefined && !change["xaxis.autorange"]) return;
    zoom = low === undefined ? null : [low, high];
    syncing = true;
    countDrawing(+1);
    try {
      for (const other of document.querySelectorAll('.plot[data-linked="yes"]')) {
        if (other !== box) await Plotly.relayout(other, zoom ? { "xaxis.range": zoom.slice() } : { "xaxis.autorange": true });
      }
    } finally { syncing = false; countDrawing(-1); }
  };

  const drawAll = async () => { countDrawing(+1); for (const plot of plots()) await draw(plot); countDrawing(-1); };

  const setTheme = (dark) => {
    root.dataset.theme = dark ? "dark" : "light";
    const button = document.getElementById("theme");
    button.textContent = dark ? "Light" : "Dark";
    button.setAttribute("aria-pressed", String(dark));
    button.setAttribute("aria-label", dark ? "Switch to light colours" : "Switch to dark colours");
  };
  const press = (button) => {
    for (const other of button.parentElement.children) other.setAttribute("aria-pressed", String(other === button));
  };

  document.getElementById("theme").addEventListener("click", () => { setTheme(root.dataset.theme !== "dark"); drawAll(); });
  system.addEventListener("change", (event) => { setTheme(event.matches); drawAll(); });
  for (const button of document.querySelectorAll("[data-axis]")) {
    button.addEventListener("click", () => { press(button); axis = button.dataset.axis; zoom = null; drawAll(); });
  }
  for (const button of document.querySelectorAll("[data-view]")) {
    button.addEventListener("click", () => {
      press(button);
      activeView[button.dataset.figure] = Number(button.dataset.view);
      draw(plots().find((plot) => plot.id === `plot-${button.dataset.figure}`));
    });
  }
  // The figure of one key shows the key whose name the reader presses.
  for (const link of document.querySelectorAll("[data-shown]")) {
    link.addEventListener("click", () => {
      numbers.curve.shown = numbers.curve.keys[Number(link.dataset.shown)];
      document.getElementById("title-curve").textContent = `One key: ${numbers.curve.shown.name}`;
      draw(plots().find((plot) => plot.id === "plot-curve"));
    });
  }
  let wasDark = false;
  window.addEventListener("beforeprint", () => {
    wasDark = root.dataset.theme === "dark";
    printing = true;
    setTheme(false);
    drawAll();
  });
  window.addEventListener("afterprint", () => {
    printing = false;
    setTheme(wasDark);
    drawAll();
  });

  // Tables that are wider than the screen say so.
  const markWide = () => {
    for (const box of document.querySelectorAll(".scroll")) box.toggleAttribute("data-wide", box.scrollWidth > box.clientWidth + 1);
  };
  window.addEventListener("resize", markWide);
  for (const details of document.querySelectorAll("details")) details.addEventListener("toggle", markWide);

  setTheme(root.dataset.theme === "dark");
  markWide();
  drawAll();
})();
