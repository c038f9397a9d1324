// Swaps parts of pages, polls runs and announces results. Everything else is plain HTML.
// A form or field with data-swap="#id" is sent without leaving the page; its answer replaces the content of #id.

const SHOWN = 4000; // milliseconds for which a message such as "Saved" is visible
let hiding = 0;

// Announces a message to screen readers, and shows it for a while.
export function announce(text) {
  const place = document.getElementById("announcer");
  if (!place) return;
  if (place.textContent !== text) place.textContent = text;
  place.classList.toggle("seen", Boolean(text));
  clearTimeout(hiding);
  hiding = setTimeout(() => place.classList.remove("seen"), SHOWN);
}

export function notify(html) {
  const place = document.getElementById("notices");
  if (!place) return;
  place.innerHTML = html;
  if (html) place.scrollIntoView({ block: "nearest" });
}

// Calls back with a chosen file, also if it was chosen before the scripts were loaded.
export function whenChosen(chooser, use) {
  const look = () => chooser.files[0] && use(chooser.files[0]);
  chooser.addEventListener("change", look);
  look();
}

function remembered(place) {
  const active = document.activeElement;
  if (!active || !place.contains(active)) return null;
  const name = active.getAttribute("name");
  const selector = active.id
    ? `#${CSS.escape(active.id)}`
    : name
      ? `[name="${CSS.escape(name)}"]${active.type === "radio" || active.type === "submit" ? `[value="${CSS.escape(active.value)}"]` : ""}`
      : null;
  const range = "selectionStart" in active && active.type !== "number" ? [active.selectionStart, active.selectionEnd] : null;
  return { selector, range };
}

// Returns the details of an element by their guarantee and their summary, and a number where these repeat.
function foldersOf(place) {
  const found = new Map();
  for (const each of place.querySelectorAll("details")) {
    const model = each.closest("[data-model]")?.dataset.model;
    let key = `${model} ${each.querySelector("summary")?.textContent}`;
    while (found.has(key)) key += " again";
    found.set(key, each);
  }
  return found;
}

// Puts new content into an element; focus, selection, open details and scrolling stay.
export function swap(place, html) {
  const focus = remembered(place);
  const opened = new Map([...foldersOf(place)].map(([key, each]) => [key, each.open]));
  const left = place.querySelector("pre")?.scrollTop ?? 0;
  const [x, y] = [window.scrollX, window.scrollY];
  place.innerHTML = html;
  for (const [key, each] of foldersOf(place)) if (opened.has(key)) each.open = opened.get(key);
  const pre = place.querySelector("pre");
  if (pre) pre.scrollTop = left;
  if (focus?.selector) {
    const again = place.querySelector(focus.selector);
    again?.focus({ preventScroll: true });
    if (again && focus.range) again.setSelectionRange?.(...focus.range);
  }
  window.scrollTo(x, y);
  place.dispatchEvent(new CustomEvent("swapped", { bubbles: true }));
}

export function revisionIs(number) {
  if (!number) return;
  let changed = false;
  for (const field of document.querySelectorAll('input[name="revision"]')) {
    changed ||= field.value !== number;
    field.value = number;
  }
  if (changed || document.body.dataset.revision !== number) {
    if (document.body.dataset.revision) document.body.dataset.unsaved = "";
    document.body.dataset.revision = number;
    refreshPolicy();
  }
}

async function refreshPolicy() {
  const panel = document.getElementById("policy-panel");
  if (!panel) return;
  const answer = await fetch(panel.dataset.source, { headers: { "Shoal-Swap": "1" } }).catch(() => null);
  if (answer?.ok) swap(panel, await answer.text());
}

// Sends a request for a part of a page; returns the text, or null after showing the error.
export async function ask(url, options = {}) {
  const headers = { "Shoal-Swap": "1", ...(options.headers ?? {}) };
  let answer;
  try {
    answer = await fetch(url, { ...options, headers });
  } catch {
    notify('<div class="notice problem"><p>The studio does not respond. If it was stopped, start shoal studio again.</p></div>');
    return null;
  }
  if (answer.redirected) {
    location.assign(answer.url);
    return null;
  }
  const text = await answer.text();
  if (!answer.ok) {
    notify(text);
    return null;
  }
  notify("");
  revisionIs(answer.headers.get("shoal-revision"));
  return text;
}

let last = Promise.resolve(); // changes are sent in sequence, each with the revision of the one before
const MOST_KEPT = 50_000; // characters of a request that continues after the page is closed; browsers allow 64 KiB
let pressed = false; // whether a button made the last change, which may have removed the subject of a later one

// Unsent input in the fields of a part of the page, by the fields' ids.
function unsent(place, form, body) {
  const fields = [...place.querySelectorAll("input[id], textarea[id]")].filter((field) => !["hidden", "checkbox", "radio", "file"].includes(field.type));
  return fields.filter((field) => field.value !== (field.form === form ? body.get(field.name) : field.defaultValue)).map((field) => [field.id, field.value]);
}

function writeAgain(place, written) {
  for (const [id, value] of written) {
    const field = document.getElementById(id);
    if (!place.contains(field) || field.value === value) continue;
    field.value = value;
    field.dataset.unsent = "1";
  }
}

export function send(form, submitter) {
  const url = submitter?.hasAttribute("formaction") ? submitter.formAction : form.action;
  const body = new URLSearchParams(new FormData(form, submitter)); // a copy: the form may be replaced before its turn
  for (const field of form.elements) delete field.dataset.unsent;
  last = last.then(async () => {
    const place = document.querySelector(form.dataset.swap);
    if (!place) return;
    if (!form.isConnected && pressed) {
      notify('<div class="notice warning"><p>The page changed before the last entry was saved. Please make it again.</p></div>');
      return;
    }
    const current = (form.isConnected ? form : document).querySelector('input[name="revision"]');
    if (body.has("revision") && current) body.set("revision", current.value);
    const text = await ask(url, { method: "POST", body, keepalive: String(body).length < MOST_KEPT });
    if (text === null) return;
    pressed = Boolean(submitter);
    const written = submitter ? [] : unsent(place, form, body);
    swap(place, text);
    writeAgain(place, written);
    const said = place.querySelector("[data-announce]")?.dataset.announce ?? form.dataset.said ?? "Saved";
    announce(said);
  });
  return last;
}

// Restored input is sent when the field loses the focus, because the browser sees no change.
document.addEventListener("focusout", (event) => {
  const field = event.target;
  if (field.dataset?.unsent && field.closest("[data-send]") && field.form?.dataset.swap) send(field.form);
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.dataset.swap) return;
  event.preventDefault();
  send(form, event.submitter);
});
window.releaseForms(send);

// Fields with data-send send their form when they are changed.
document.addEventListener("change", (event) => {
  const field = event.target;
  if (field.closest("[data-send]") && field.form?.dataset.swap) send(field.form);
});

// Changes made before this script was loaded are sent now; browsers do not fill in such forms themselves.
function altered(field) {
  if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
  if (field.options) return [...field.options].some((option) => option.defaultSelected && !option.selected);
  return field.type !== "hidden" && field !== document.activeElement && field.value !== field.defaultValue;
}
for (const form of document.querySelectorAll('form[data-swap][autocomplete="off"]')) {
  if ([...form.elements].some((field) => field.name && field.type !== "submit" && field.closest("[data-send]") && altered(field))) send(form);
}

// Slow parts are requested after the page is loaded.
for (const form of document.querySelectorAll("form[data-load]")) send(form);

// Runs: each element with data-poll is refreshed twice a second until its run has ended.
function follow(place) {
  let shown = "";
  const timer = setInterval(async () => {
    const state = place.querySelector("[data-state]")?.dataset.state;
    if (!place.isConnected || (state && state !== "running")) {
      clearInterval(timer);
      if (state === "done" && place.isConnected && place.dataset.then) location.assign(place.dataset.then);
      const said = { done: "Done", failed: "Failed", cancelled: "Cancelled" }[state];
      if (said) announce(said);
      return;
    }
    const answer = await fetch(place.dataset.poll, { headers: { "Shoal-Swap": "1" } }).catch(() => null);
    if (!answer?.ok || !place.isConnected) return;
    swap(place, await answer.text());
    const step = place.querySelector(".under-way label")?.textContent ?? "";
    if (step && step !== shown) announce(step);
    shown = step || shown;
  }, 500);
}

function followAll(root) {
  for (const place of root.querySelectorAll("[data-poll]")) {
    if (place.dataset.followed) continue;
    place.dataset.followed = "1";
    follow(place);
  }
}

document.addEventListener("swapped", (event) => followAll(event.target));
document.body.dataset.revision = document.querySelector('input[name="revision"]')?.value ?? "";
followAll(document);
const here = document.querySelector(".steps [aria-current]"); // on narrow screens the steps scroll sideways
here?.closest("ol").scrollTo({ left: here.offsetLeft - 40 });

// The connection is checked every two seconds: a refusal counts immediately, a timeout the second time.
const EVERY = 2000;
let missed = 0;
async function listen() {
  try {
    const answer = await fetch("/alive", { cache: "no-store", signal: AbortSignal.timeout(3000) });
    missed = answer.ok ? 0 : 2;
  } catch (error) {
    missed += error.name === "TimeoutError" ? 1 : 2;
  }
  const lost = missed > 1;
  document.getElementById("connection").hidden = !lost;
  if (lost) for (const state of document.querySelectorAll("[data-state=running] .job-state strong")) state.textContent = "Connection lost";
  setTimeout(listen, EVERY);
}
setTimeout(listen, EVERY);

// Leaving the studio with unsaved work asks for confirmation; moving between its pages does not.
let within = -Infinity; // time of the last move between pages
const goWithin = () => (within = performance.now());
window.navigation?.addEventListener("navigate", goWithin);
document.addEventListener("click", (event) => event.target.closest?.("a[href]") && goWithin());
document.addEventListener("submit", goWithin);
window.addEventListener("beforeunload", (event) => {
  const asked = navigator.userActivation?.hasBeenActive ?? true; // without a user action, browsers ignore the question and log a warning
  if (asked && "unsaved" in document.body.dataset && performance.now() - within > EVERY) event.preventDefault();
});
