"use strict";
// Draws the charts in the colours of the page, and runs its few controls; `adopt` does so for a part
// that is put into the page later.
const adopt = (() => {
  const root = document.documentElement;
  const charts = () => [...document.querySelectorAll(".chart")];
  const PRINTED = 675; // px of a page of paper between its margins
  const PRINTED_REM = 14; // px of 10.5 pt, the letters of a printed page
  const LEGEND_REM = 3; // of a legend that a chart has room for

  const cssValue = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  // Lists of thousands of numbers hold no colours and are not looked through.
  const BARE = new Set(["x", "y", "z", "base", "customdata", "text", "width"]);

  const coloured = (value, key) => {
    if (typeof value === "string") {
      return value.startsWith("var(") ? cssValue(value.slice(4, -1)) : value;
    }
    if (value === null || typeof value !== "object" || BARE.has(key)) return value;
    if (Array.isArray(value)) return value.map((item) => coloured(item, ""));
    return Object.fromEntries(Object.entries(value).map(([k, item]) => [k, coloured(item, k)]));
  };

  const themed = (layout, rem) => {
    const ink = cssValue("--ink");
    const size = 0.82 * (rem || parseFloat(getComputedStyle(root).fontSize));
    const grid = cssValue("--grid");
    const made = coloured(layout, "");
    for (const key of Object.keys(made).filter((name) => /^[xy]axis\d*$/.test(name))) {
      made[key] = { gridcolor: grid, zerolinecolor: grid, linecolor: grid, ...made[key] };
    }
    return {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: ink, size, family: getComputedStyle(document.body).fontFamily },
      hoverlabel: {
        bgcolor: cssValue("--raised"),
        bordercolor: cssValue("--quiet"),
        font: { color: ink, size },
        align: "left",
      },
      ...made,
    };
  };

  const coarse = matchMedia("(pointer: coarse)").matches; // a finger scrolls the page
  const config = { displayModeBar: false, responsive: true, doubleClick: "reset" };

  // A name in a legend is cut off where it is wider than the chart.
  const folded = (name, letters) => {
    let line = 0;
    return (name || "").split(" ").reduce((text, word) => {
      const full = text && line + word.length + 1 > letters;
      line = full ? word.length : line + word.length + 1;
      return text + (full ? "<br>" : text && " ") + word;
    }, "");
  };

  // The title of an axis that is longer than the axis takes several lines.
  const fitTitles = (layout, width, height) => {
    const { size } = layout.font;
    const names = (layout.yaxis.ticktext || ["10,000"]).flatMap((name) => name.split("<br>"));
    const aside = 0.55 * size * Math.max(...names.map((name) => name.length));
    const rooms = { x: width - aside - 40, y: height - 90 };
    for (const key of ["xaxis", "yaxis"]) {
      const { title } = layout[key];
      const letters = Math.max(12, Math.floor(rooms[key[0]] / (0.68 * size)));
      if (title) layout[key].title = { ...title, text: folded(title.text, letters) };
    }
  };

  // Names at 1, 2 and 5 of each decade may lie on each other; those of the decades do not.  Of
  // numbers at places of their own those are left out that would touch the one before.
  const spaceTicks = (chart) => {
    const { dtick, ticktext, tickangle } = chart.layout.xaxis;
    const boxes = [...chart.querySelectorAll(".xtick > text")].map((t) => t.getBoundingClientRect());
    const touch = boxes.some((box, i) => i && boxes[i - 1].right + 4 > box.left);
    if (dtick === "D2" && touch) Plotly.relayout(chart, { "xaxis.dtick": 1 });
    if (tickangle !== 0 || boxes.length !== ticktext.length || !touch) return;
    let end = -Infinity;
    const shown = boxes.map((box) => box.left > end + 4 && (end = box.right));
    const names = ticktext.map((name, i) => (shown[i] ? name : ""));
    Plotly.relayout(chart, { "xaxis.ticktext": names });
  };

  const isNumber = (name) => /^[\d.,]+$/.test(name);

  // --- letters on colours ----------------------------------------------------------------------

  const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

  // Black or white, of which at least one has a contrast of 4.5 to 1 on any colour.
  const inkOn = (colour) => {
    const [r, g, b] = colour.map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
  };

  // The colour at a share of a scale, between the two stops around it.
  const onScale = (stops, share) => {
    const i = Math.max(1, stops.findIndex(([stop]) => stop >= share));
    const [[from, first], [to, last]] = [stops[i - 1], stops[i]];
    const part = (share - from) / (to - from);
    return rgb(first).map((value, k) => value + part * (rgb(last)[k] - value));
  };

  // Plotly chooses dark grey or white by a rule that leaves grey on mid blue.
  const inkBars = (trace) => {
    const { color, colorscale, cmax } = trace.marker;
    const inks = Array.isArray(color)
      ? color.map((shade) => inkOn(onScale(colorscale, shade / cmax)))
      : inkOn(rgb(color));
    trace.insidetextfont = { color: inks };
  };

  const inkFields = (trace, layout, width) => {
    const letters = Math.max(...trace.text.flat().map((text) => text.length));
    const size = Math.min(layout.font.size, (width - 90) / trace.z[0].length / (0.62 * letters));
    const values = trace.z.flat().filter((value) => value !== null);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const words = [];
    trace.z.forEach((row, y) => row.forEach((value, x) => {
      const share = high > low ? (value - low) / (high - low) : 0.5;
      const fill = onScale(trace.colorscale, trace.reversescale ? 1 - share : share);
      const font = value === null ? { size } : { size, color: inkOn(fill) };
      words.push({ x, y, text: trace.text[y][x], showarrow: false, font });
    }));
    delete trace.texttemplate;
    layout.annotations = words.filter((word) => word.text);
  };

  const draw = (chart, width) => {
    const figure = JSON.parse(document.getElementById(chart.dataset.figure).textContent);
    const layout = themed(figure.layout, width && PRINTED_REM);
    if (coarse) layout.dragmode = false;
    if (width) {
      // Paper has smaller letters than the screen: what is not as high as its place lies on the note.
      const height = parseFloat(chart.style.height) * PRINTED_REM;
      Object.assign(layout, { width, height, autosize: false });
    }
    const seen = chart._fullLayout && chart._fullLayout.xaxis.range.slice();
    if (seen && figure.layout.xaxis.range) layout.xaxis.range = seen;
    layout.xaxis.uirevision = String(width);
    if ((layout.xaxis.ticktext || [""]).every(isNumber)) layout.xaxis.tickangle = 0;
    fitTitles(layout, width || chart.clientWidth, layout.height || chart.clientHeight);
    const data = coloured(figure.data, "data");
    data.filter((each) => each.type === "bar" && each.insidetextanchor).forEach(inkBars);
    data.filter((each) => each.texttemplate).forEach((each) => inkFields(each, layout, chart.clientWidth));
    const letters = Math.floor(((width || chart.clientWidth) - 70) / (0.56 * layout.font.size));
    if (layout.showlegend) data.forEach((each) => (each.name = folded(each.name, letters)));
    Plotly.react(chart, data, layout, config);
    if (layout.showlegend) heighten(chart, width);
    spaceTicks(chart);
  };

  // A legend of several lines makes its chart higher; the lines of data keep their place.
  const heighten = (chart, width) => {
    const rem = width ? PRINTED_REM : parseFloat(getComputedStyle(root).fontSize);
    chart.dataset.height ||= parseFloat(chart.style.height);
    const { _height: legend = 0 } = chart._fullLayout.legend || {};
    const height = parseFloat(chart.dataset.height) + Math.max(0, legend / rem - LEGEND_REM);
    if (Math.abs(height - parseFloat(chart.style.height)) < 0.1) return;
    chart.style.height = `${height}rem`;
    if (width) Plotly.relayout(chart, { height: height * rem });
    else Plotly.Plots.resize(chart);
  };

  // What is near the screen is drawn at once, the rest when there is nothing else to do.
  const waiting = new Set();
  const drawFirst = (chart) => {
    if (!waiting.delete(chart)) return;
    near.unobserve(chart);
    if (chart.isConnected) { // not where another part has taken its place
      draw(chart);
      chart.dataset.whole = JSON.stringify(chart._fullLayout.xaxis.range);
    }
    if (!waiting.size) root.dataset.drawn = "true";
  };
  const near = new IntersectionObserver(
    (seen) => seen.filter((each) => each.isIntersecting).forEach((each) => drawFirst(each.target)),
    { rootMargin: "600px" },
  );

  const drawAgain = (width) => {
    charts().filter((chart) => !waiting.has(chart)).forEach((chart) => draw(chart, width));
  };

  // --- views of time ---------------------------------------------------------------------------

  const VIEWS = {
    in: ([a, b]) => [a + (b - a) / 4, b - (b - a) / 4],
    out: ([a, b]) => [a - (b - a) / 2, b + (b - a) / 2],
    earlier: ([a, b]) => [a - (b - a) / 2, b - (b - a) / 2],
    later: ([a, b]) => [a + (b - a) / 2, b + (b - a) / 2],
  };

  const within = ([a, b], [begin, end]) => {
    const length = Math.min(b - a, end - begin);
    const start = Math.min(Math.max(a, begin), end - length);
    return [start, start + length];
  };

  const zoom = (button) => {
    const chart = button.closest(".figure").querySelector(".chart");
    const whole = JSON.parse(chart.dataset.whole);
    const view = VIEWS[button.dataset.zoom];
    const range = view ? within(view(chart._fullLayout.xaxis.range), whole) : whole;
    Plotly.relayout(chart, { "xaxis.range": range });
  };

  // --- controls --------------------------------------------------------------------------------

  const theme = document.getElementById("theme");
  const preferred = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : preferred.matches);
  const showTheme = () => theme.setAttribute("aria-pressed", String(isDark()));

  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    showTheme();
    drawAgain();
  });
  preferred.addEventListener("change", () => {
    showTheme();
    drawAgain();
  });

  const unfold = document.getElementById("unfold");
  unfold.addEventListener("click", () => {
    const open = unfold.getAttribute("aria-pressed") !== "true";
    unfold.setAttribute("aria-pressed", String(open));
    document.querySelectorAll("details.behind").forEach((each) => (each.open = open));
  });

  const narrow = (input) => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const paragraph = input.closest(".filter");
    const tables = paragraph.nextElementSibling;
    const rows = [...tables.querySelectorAll("tbody tr")];
    let shown = 0;
    for (const row of rows) {
      const table = row.closest(".fold")?.querySelector("summary").textContent ?? "";
      const text = `${table} ${row.textContent}`.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    for (const fold of tables.querySelectorAll(".fold")) {
      const matches = fold.querySelector("tbody tr:not([hidden])") !== null;
      fold.hidden = !matches;
      fold.open = matches && words.length > 0;
    }
    paragraph.querySelector(".count").textContent = `${shown} of ${rows.length} rows`;
  };

  const order = new Intl.Collator("en", { numeric: true });
  const quantity = (text) => parseFloat(text.replace(/,/g, ""));

  const sort = (button) => {
    const head = button.closest("th");
    const down = head.getAttribute("aria-sort") === "ascending";
    const place = head.cellIndex;
    const body = head.closest("table").tBodies[0];
    const compare = (a, b) => {
      const [x, y] = [a, b].map((row) => row.cells[place].textContent);
      return (quantity(x) - quantity(y) || order.compare(x, y)) * (down ? -1 : 1);
    };
    head.parentElement.querySelectorAll("th").forEach((each) => each.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    body.append(...[...body.rows].sort(compare));
  };

  // --- paper -----------------------------------------------------------------------------------

  let before;
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    charts().forEach(drawFirst);
    drawAgain(PRINTED);
  });
  addEventListener("afterprint", () => {
    if (before) root.dataset.theme = before;
    else delete root.dataset.theme;
    drawAgain();
  });

  // --- begin -----------------------------------------------------------------------------------

  const idle = window.requestIdleCallback || ((work) => setTimeout(work, 50));
  const others = () => {
    const [chart] = waiting;
    if (chart) {
      drawFirst(chart);
      idle(others);
    }
  };

  const begin = (part) => {
    for (const chart of part.querySelectorAll(".chart")) {
      waiting.add(chart);
      near.observe(chart);
    }
    root.dataset.drawn = String(!waiting.size);
    const open = unfold.getAttribute("aria-pressed") === "true";
    part.querySelectorAll("details.behind").forEach((each) => (each.open = open));
    part.querySelectorAll(".sort").forEach((button) => {
      button.addEventListener("click", () => sort(button));
    });
    part.querySelectorAll("[data-zoom]").forEach((button) => {
      button.addEventListener("click", () => zoom(button));
    });
    part.querySelectorAll(".filter input").forEach((input) => {
      input.addEventListener("input", () => narrow(input));
    });
    idle(others);
  };

  showTheme();
  addEventListener("load", () => idle(others));
  begin(document);
  return begin;
})();
