// The level explorer: sliders request the cost and risk of their levels; rows and points of the drawing set the sliders.
import { ask, swap } from "/static/studio.js";

const NEAR = 14; // units of the drawing that a click may be away from a point
const element = (id) => document.getElementById(id);
const sliders = () => [...(element("levels-form")?.querySelectorAll("input[name=level]") ?? [])];

// Shows and announces the level of a slider, with the label of the most frequent value.
function label(slider) {
  const width = slider.dataset.widths?.split(" ")[slider.value];
  if (!width) return;
  const ticks = [...slider.nextElementSibling.children];
  ticks.forEach((tick, level) => tick.classList.toggle("on", level === Number(slider.value)));
  const values = `${Number(width).toLocaleString("en")} value${width === "1" ? "" : "s"}`;
  slider.setAttribute("aria-valuetext", `level ${slider.value}: ${ticks[slider.value].textContent}, ${values}`);
  element(`shown-${slider.id.slice(6)}`).textContent = `level ${slider.value}, ${values}`;
}

// Marks the levels of the sliders in the drawing.
function mark() {
  const [state, here] = [element("node-state"), element("here")];
  if (!state || !here) return;
  here.setAttribute("cx", state.dataset.x);
  here.setAttribute("cy", state.dataset.y);
}

const body = () => new URLSearchParams(new FormData(element("levels-form")));
let busy = false;
let again = false; // whether the sliders moved since the last request

// Requests the levels of the sliders; a change during the request starts another one.
async function refresh() {
  again = true;
  if (busy) return;
  busy = true;
  while (again) {
    again = false;
    const form = element("levels-form");
    delete form.dataset.early;
    const text = await ask(form.action, { method: "POST", body: body() });
    if (text === null) break;
    if (again) continue;
    swap(element("node"), text);
    mark();
    element("levels-said").textContent = element("node-state").dataset.said;
  }
  busy = false;
}

function choose(levels) {
  sliders().forEach((slider, place) => {
    slider.value = levels[place];
    label(slider);
  });
  refresh();
}

document.addEventListener("input", (event) => {
  if (event.target.name !== "level") return;
  label(event.target);
  refresh();
});

// The point of the drawing that is nearest to a click.
function nearest(plot, event) {
  const svg = plot.querySelector("svg");
  const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  const far = ([left, top]) => Math.hypot(left - x, top - y);
  const found = JSON.parse(plot.dataset.nodes).reduce((best, node) => (!best || far(node) < far(best) ? node : best), null);
  return found && far(found) <= NEAR ? found[2] : null;
}

document.addEventListener("click", (event) => {
  const plot = event.target.closest?.("svg")?.closest(".levels-plot");
  const levels = plot ? nearest(plot, event) : event.target.closest?.("[data-levels]")?.dataset.levels;
  if (levels) choose(levels.split(","));
});

// When the search ends, untouched sliders move to the optimum.
document.addEventListener("swapped", (event) => {
  if (!["levels", "lattice"].includes(event.target.id) || !element("levels-form")) return;
  mark();
  const best = element("lattice-state").dataset.optimum;
  if (best && "early" in element("levels-form").dataset) choose(best.split(","));
  else if (best && !element("go-optimum")) refresh();
});
if (element("levels-form")) {
  sliders().forEach(label);
  mark();
}
