// A tree of groups and values: keyboard as trees have it, selection of several, cutting and pasting, dragging.
import { announce } from "/static/studio.js";

let opened = new Map(); // label path -> whether it was open, kept over swaps
let several = false; // whether a click adds to the selection, kept over swaps
let again = null; // label of the item that gets the focus after the next swap

export function wireTree(root) {
  const tree = root.querySelector("[data-tree]");
  const form = root.querySelector("#tree-form");
  if (!tree || !form) return;
  const says = form.querySelector("#tree-selection");
  const nothing = says.textContent;
  const all = [...tree.querySelectorAll('[role="treeitem"]')];
  let cut = [];

  const above = (item) => item.parentElement.closest('[role="treeitem"]');
  const path = (item) => (item ? `${path(above(item))}\u0000${item.dataset.label ?? ""}` : "");
  const seen = () => all.filter((item) => {
    for (let up = above(item); up; up = above(up)) if (up.getAttribute("aria-expanded") === "false") return false;
    return !item.closest("[hidden]");
  });
  const chosen = () => all.filter((item) => item.getAttribute("aria-selected") === "true");
  const line = (item) => item.querySelector(":scope > .line");
  const name = (item) => item.dataset.label ?? line(item).textContent.trim();

  function fold(item, open) {
    if (!item.hasAttribute("aria-expanded")) return;
    item.setAttribute("aria-expanded", String(open));
    opened.set(path(item), open);
  }

  function focus(item) {
    for (const each of all) each.tabIndex = -1;
    item.tabIndex = 0;
    item.focus();
  }

  function tell() {
    const items = chosen();
    says.textContent = items.length === 0 ? nothing : items.length === 1 ? `Selected: ${name(items[0])}` : `Selected: ${items.length}, ${items.slice(0, 4).map(name).join(", ")}${items.length > 4 ? ", …" : ""}`;
    form.elements.nodes.value = items.map((item) => item.dataset.node).join(" ");
    delete form.elements.name.dataset.renaming;
  }

  function select(items, only = true) {
    if (only) for (const each of chosen()) each.setAttribute("aria-selected", "false");
    for (const item of items) if (item.dataset.node) item.setAttribute("aria-selected", "true");
    tell();
  }

  function toggle(item) {
    if (!item.dataset.node) return;
    item.setAttribute("aria-selected", String(item.getAttribute("aria-selected") !== "true"));
    tell();
  }

  function send(what, nodes, target) {
    again = nodes[0] ? name(nodes[0]) : null;
    form.elements.nodes.value = nodes.map((item) => item.dataset.node).join(" ");
    if (target) {
      form.elements.target.value = target.dataset.node;
      fold(target, true);
      opened.set(path(target), true);
    }
    form.requestSubmit(form.querySelector(`button[value="${what}"]`));
  }

  function move(nodes, target) {
    const group = target.hasAttribute("data-group") ? target : above(target);
    if (!group?.dataset.node?.startsWith("n")) return announce("Nothing can be put there; choose a group");
    if (nodes.length) send("move", nodes, group);
  }

  const acting = (item) => (chosen().length ? chosen() : item.dataset.node ? [item] : []);

  tree.addEventListener("keydown", (event) => {
    const item = event.target.closest('[role="treeitem"]');
    if (!item || event.target !== item) return;
    const rows = seen();
    const place = rows.indexOf(item);
    const open = item.getAttribute("aria-expanded");
    const command = event.ctrlKey || event.metaKey;
    if (event.altKey && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
      if (item.dataset.node?.startsWith("n")) send(event.key === "ArrowUp" ? "earlier" : "later", [item]);
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const next = rows[place + (event.key === "ArrowDown" ? 1 : -1)];
      if (next) focus(next);
      if (next && event.shiftKey) select([item, next], false);
    } else if (event.key === "ArrowRight") {
      if (open === "false") fold(item, true);
      else if (open === "true" && rows[place + 1]) focus(rows[place + 1]);
    } else if (event.key === "ArrowLeft") {
      if (open === "true") fold(item, false);
      else if (above(item)) focus(above(item));
    } else if (event.key === "Home") focus(rows[0]);
    else if (event.key === "End") focus(rows.at(-1));
    else if (event.key === " ") toggle(item);
    else if (event.key === "Enter") {
      if (open) fold(item, open === "false");
      else select([item]);
    } else if (event.key === "Escape") {
      for (const each of cut) each.classList.remove("cut");
      cut = [];
      select([]);
    } else if (command && event.key.toLowerCase() === "x") {
      for (const each of cut) each.classList.remove("cut");
      cut = acting(item);
      for (const each of cut) each.classList.add("cut");
      announce(`${cut.length === 1 ? name(cut[0]) : `${cut.length} items`} cut; go to a group and press Control V`);
    } else if (command && event.key.toLowerCase() === "v") {
      if (cut.length) move(cut, item);
    } else if (command && event.key.toLowerCase() === "z") {
      root.querySelector("#undo")?.click();
    } else if (event.key === "Delete") {
      if (acting(item).some((each) => each.dataset.node.startsWith("n"))) send("delete", acting(item));
    } else if (event.key === "F2") {
      select([item]);
      form.elements.name.value = name(item);
      form.elements.name.dataset.renaming = "1";
      form.elements.name.select();
      form.elements.name.focus();
    } else if (event.key.length === 1 && /\S/.test(event.key) && !command && !event.altKey) {
      const later = [...rows.slice(place + 1), ...rows.slice(0, place)];
      const found = later.find((each) => name(each).toLowerCase().startsWith(event.key.toLowerCase()));
      if (found) focus(found);
    } else return;
    event.preventDefault();
  });

  tree.addEventListener("click", (event) => {
    const item = event.target.closest('[role="treeitem"]');
    if (!item) return;
    if (event.target.closest(".twist") || !item.dataset.node) fold(item, item.getAttribute("aria-expanded") === "false");
    else if (several || event.ctrlKey || event.metaKey || event.shiftKey) toggle(item);
    else select([item]);
    focus(item);
  });
  tree.addEventListener("dblclick", (event) => {
    const item = event.target.closest('[role="treeitem"]');
    if (item && !event.target.closest(".twist")) fold(item, item.getAttribute("aria-expanded") === "false");
  });

  let dragged = [];
  tree.addEventListener("dragstart", (event) => {
    const item = event.target.closest('[role="treeitem"]');
    dragged = item.getAttribute("aria-selected") === "true" ? chosen() : [item];
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", dragged.map(name).join("\n"));
    event.stopPropagation();
  });
  const over = (item) => {
    for (const each of tree.querySelectorAll(".over")) each.classList.remove("over");
    item?.classList.add("over");
  };
  tree.addEventListener("dragover", (event) => {
    const item = event.target.closest('[role="treeitem"]');
    if (!dragged.length || !item) return;
    event.preventDefault();
    over(item.hasAttribute("data-group") ? item : above(item));
  });
  tree.addEventListener("dragleave", (event) => {
    if (!tree.contains(event.relatedTarget)) over(null);
  });
  tree.addEventListener("dragend", () => {
    over(null);
    dragged = [];
  });
  tree.addEventListener("drop", (event) => {
    const item = event.target.closest('[role="treeitem"]');
    if (!dragged.length || !item) return;
    event.preventDefault();
    over(null);
    move(dragged, item);
    dragged = [];
  });

  // A button of the form takes the selection along; Enter in the name makes a group.
  form.addEventListener("submit", (event) => {
    const what = event.submitter?.value;
    if (again === null && chosen().length) again = what === "rename" || what === "group" ? form.elements.name.value.trim() : name(chosen()[0]);
    if (what === "group") form.elements.target.value = "";
  });
  form.elements.name.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    const what = form.elements.name.dataset.renaming ? "rename" : "group";
    form.requestSubmit(form.querySelector(`button[value="${what}"]`));
  });

  const box = form.querySelector("#tree-several");
  box.checked = several;
  box.addEventListener("change", () => {
    several = box.checked;
  });

  for (const button of form.querySelectorAll("[data-fold]")) {
    button.addEventListener("click", () => {
      for (const item of all) if (above(item)) fold(item, button.dataset.fold === "true");
    });
  }

  form.querySelector("#tree-find").addEventListener("input", (event) => {
    const wanted = event.target.value.trim().toLowerCase();
    for (const item of all) item.hidden = wanted !== "";
    if (!wanted) return;
    let found = 0;
    for (const item of all) {
      if (!name(item).toLowerCase().includes(wanted)) continue;
      found += 1;
      for (let up = item; up; up = above(up)) {
        up.hidden = false;
        if (up !== item) fold(up, true);
      }
    }
    announce(`${found} found`);
  });
  form.querySelector("#tree-find").addEventListener("keydown", (event) => {
    if (event.key === "Enter") event.preventDefault();
  });

  for (const item of all) {
    const kept = opened.get(path(item));
    if (kept !== undefined && item.hasAttribute("aria-expanded")) item.setAttribute("aria-expanded", String(kept));
  }
  const target = again === null ? null : all.find((item) => item.dataset.label === again);
  again = null;
  if (target) {
    for (let up = above(target); up; up = above(up)) fold(up, true);
    if (document.activeElement === document.body || tree.contains(document.activeElement)) focus(target);
    else target.tabIndex = 0;
  } else (tree.querySelector('[data-node="n0"]') ?? tree).tabIndex = 0;
}
