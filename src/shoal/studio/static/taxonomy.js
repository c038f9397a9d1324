// The page of one taxonomy: its handlers are attached again after each swap.
import { ask, notify, swap, announce } from "/static/studio.js";
import { wireScale } from "/static/taxonomy-scale.js";
import { wireTree } from "/static/taxonomy-tree.js";

const place = document.getElementById("taxonomy");

function wireImport(root) {
  const form = root.querySelector("[data-import]");
  const chooser = form?.elements.file;
  chooser?.addEventListener("change", async () => {
    const file = chooser.files[0];
    if (!file) return;
    notify("");
    const query = new URLSearchParams({ revision: form.elements.revision.value, keep: form.elements.keep.value });
    const text = await ask(`${form.getAttribute("action")}?${query}`, {
      method: "PUT",
      body: file,
      headers: { "Shoal-Name": encodeURIComponent(file.name), "Content-Type": "application/octet-stream" },
    });
    chooser.value = "";
    if (text === null) return;
    swap(place, text);
    announce(`${file.name} is imported`);
  });
  form?.addEventListener("submit", (event) => event.preventDefault());
}

// Typing into a field of one way to cut chooses that way.
function wireCuts(root) {
  for (const name of ["widths", "edges"]) {
    root.querySelector(`#intervals-form [name="${name}"]`)?.addEventListener("input", () => {
      root.querySelector(`#cut-${name}`).checked = true;
    });
  }
}

function wire() {
  wireScale(place);
  wireTree(place);
  wireImport(place);
  wireCuts(place);
}

if (place) {
  place.addEventListener("swapped", wire);
  wire();
}
