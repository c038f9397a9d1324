// Edges of intervals, moved by pointer and by keyboard. Each change writes the field of edges and sends the form.
import { announce } from "/static/studio.js";

function decimals(step) {
  const [digits, exponent = "0"] = String(step).split("e");
  return Math.max(0, (digits.split(".")[1] ?? "").length - Number(exponent));
}

// A label that is wider than its interval is hidden; its title and the table of levels still have it.
const fitting = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    for (const label of target.querySelectorAll(".strip text")) {
      const room = label.previousElementSibling.getBoundingClientRect().width;
      label.classList.toggle("crowded", label.getComputedTextLength() + 8 > room);
    }
  }
});

export function wireScale(root) {
  const figure = root.querySelector("[data-scale]");
  fitting.disconnect();
  if (figure) fitting.observe(figure);
  const form = root.querySelector("#intervals-form");
  const svg = figure?.querySelector("svg");
  const edges = figure ? [...figure.querySelectorAll('[role="slider"]')] : [];
  if (!figure || !form || !root.querySelector("#cut-edges")?.checked) return;

  const low = Number(figure.dataset.low);
  const step = Number(figure.dataset.step);
  const end = Number(figure.dataset.high) + (figure.dataset.whole === "1" ? 1 : 0);
  const digits = decimals(figure.dataset.step);
  const value = (edge) => Number(edge.getAttribute("aria-valuenow"));
  const text = (number) => (figure.dataset.whole === "1" ? String(number) : number.toFixed(Math.max(digits, 1)));
  let timer = 0;

  function save(now) {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const field = form.elements.edges;
      const lines = [];
      for (let level = 1; level <= Number(figure.dataset.levels); level += 1) {
        const marks = edges.filter((edge) => edge.isConnected && Number(edge.dataset.levels) >= level).map(value);
        if (marks.length) lines.push(marks.sort((a, b) => a - b).map(text).join(", "));
      }
      field.value = lines.join("\n");
      if (lines.length) form.requestSubmit();
      else announce("The last edge stays; choose equal widths instead");
    }, now ? 0 : 500);
  }

  function put(edge, wanted) {
    const [least, most] = ["aria-valuemin", "aria-valuemax"].map((name) => Number(edge.getAttribute(name)));
    const snapped = Number((least + Math.round((wanted - least) / step) * step).toFixed(digits + 2));
    const number = Math.min(most, Math.max(least, snapped));
    const at = `${(100 * (number - low)) / (end - low)}%`;
    for (const line of edge.querySelectorAll("line")) {
      line.setAttribute("x1", at);
      line.setAttribute("x2", at);
    }
    edge.querySelector("circle").setAttribute("cx", at);
    const label = edge.querySelector("text");
    label.setAttribute("x", at);
    label.textContent = String(number);
    edge.setAttribute("aria-valuenow", String(number));
    edge.setAttribute("aria-valuetext", `${number}, in ${edge.dataset.levels} of ${figure.dataset.levels} levels`);
  }

  function remove(edge) {
    if (edges.length === 1) return announce("The last edge stays; choose equal widths instead");
    const [place, id] = [edges.indexOf(edge), edge.id];
    edges.splice(place, 1);
    edge.remove();
    const next = edges[place] ?? edges[place - 1];
    if (edges[place]) next.id = id; // its number after the next swap, when it gets the focus again
    next.focus();
    save(true);
  }

  function relevel(edge, by) {
    const levels = Math.min(Number(figure.dataset.levels), Math.max(1, Number(edge.dataset.levels) + by));
    if (levels === Number(edge.dataset.levels)) return;
    edge.dataset.levels = String(levels);
    save(true);
  }

  const at = (event) => {
    const box = svg.getBoundingClientRect();
    return low + ((event.clientX - box.left) / box.width) * (end - low);
  };

  for (const edge of edges) {
    edge.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      edge.setPointerCapture(event.pointerId);
      edge.classList.add("moving");
      edge.focus();
      event.preventDefault();
      const before = value(edge);
      const moved = (each) => put(edge, at(each));
      const done = (each) => {
        edge.removeEventListener("pointermove", moved);
        edge.classList.remove("moving");
        if (each.type === "pointercancel") put(edge, before);
        if (value(edge) !== before) save(true);
      };
      edge.addEventListener("pointermove", moved);
      edge.addEventListener("pointerup", done, { once: true });
      edge.addEventListener("pointercancel", done, { once: true });
    });
    edge.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 }[event.key];
      if (by !== undefined) put(edge, value(edge) + by * step);
      else if (event.key === "Home") put(edge, Number(edge.getAttribute("aria-valuemin")));
      else if (event.key === "End") put(edge, Number(edge.getAttribute("aria-valuemax")));
      else if (event.key === "Delete" || event.key === "Backspace") remove(edge);
      else if (event.key === "+") relevel(edge, 1);
      else if (event.key === "-") relevel(edge, -1);
      else return;
      event.preventDefault();
      if (by !== undefined || event.key === "Home" || event.key === "End") save(false);
    });
  }

  svg.addEventListener("dblclick", (event) => {
    if (event.target.closest('[role="slider"]')) return;
    const field = form.elements.edges;
    const number = low + Math.round((at(event) - low) / step) * step;
    const [first = "", ...others] = field.value.split("\n");
    const marks = new Set(first.split(/[\s,;]+/).filter(Boolean).map(Number));
    marks.add(Number(number.toFixed(digits + 2)));
    field.value = [[...marks].sort((a, b) => a - b).map(text).join(", "), ...others].join("\n");
    form.requestSubmit();
  });
}
