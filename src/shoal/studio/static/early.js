// Loads before the page is shown. A form that is submitted before studio.js is ready waits here;
// without studio.js, its answer, a part of a page, would replace the whole page.
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
