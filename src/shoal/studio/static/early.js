// Loads before the page is shown. A form that is submitted before studio.js is ready waits here:
// sent by the browser alone, its answer would replace the whole page by one part of it.
const early = [];

function hold(event) {
  if (!event.target.dataset.swap) return;
  event.preventDefault();
  early.push([event.target, event.submitter]);
}

document.addEventListener("submit", hold);

// Called by studio.js once it can send forms itself.
window.releaseForms = (send) => {
  document.removeEventListener("submit", hold);
  for (const [form, submitter] of early.splice(0)) send(form, submitter);
};
