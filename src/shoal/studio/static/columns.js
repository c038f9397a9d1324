// The table view of columns: search, filter, select many. The selection survives swaps of the list.
const form = document.getElementById("roles-form");
if (form) {
  const [list, search, filter, all, count, none] = ["dense", "search", "filter", "pick-all", "picked", "none-shown"].map((id) => document.getElementById(id));
  const lines = () => [...list.querySelectorAll("li[data-name]")];
  const box = (line) => line.querySelector("input[type=checkbox]");
  const fits = (line, text, kind) =>
    line.dataset.name.toLowerCase().includes(text) && (!kind || line.dataset.role === kind || (kind === "asks" && "asks" in line.dataset) || (kind === "changed" && "changed" in line.dataset));

  const show = () => {
    const [text, kind] = [search.value.trim().toLowerCase(), filter.value];
    for (const line of lines()) line.hidden = !fits(line, text, kind);
    const shown = lines().filter((line) => !line.hidden);
    const picked = lines().filter((line) => box(line).checked);
    const unseen = picked.filter((line) => line.hidden).length;
    none.hidden = shown.length > 0;
    all.checked = shown.length > 0 && shown.every((line) => box(line).checked);
    all.indeterminate = !all.checked && shown.some((line) => box(line).checked);
    count.textContent = `${picked.length} of ${lines().length} selected${unseen ? `, ${unseen} not shown` : ""}`;
    form.elements.set.disabled = !picked.length;
  };
  search.addEventListener("input", show);
  search.addEventListener("keydown", (event) => event.key === "Enter" && event.preventDefault());
  filter.addEventListener("change", show);
  all.addEventListener("change", () => {
    for (const line of lines()) if (!line.hidden) box(line).checked = all.checked;
    show();
  });
  let before = null; // the checkbox clicked last, the start of a range selected with Shift
  list.addEventListener("click", (event) => {
    if (event.target.type !== "checkbox") return;
    const shown = lines().filter((line) => !line.hidden).map(box);
    const [start, end] = [shown.indexOf(before), shown.indexOf(event.target)].sort((a, b) => a - b);
    if (event.shiftKey && start >= 0) for (const each of shown.slice(start, end + 1)) each.checked = event.target.checked;
    before = event.target;
    show();
  });
  list.addEventListener("swapped", show);
  show();
}
