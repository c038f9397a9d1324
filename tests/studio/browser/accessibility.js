// What is wrong with a page for people who use a keyboard, a screen reader, large letters or a small screen.
(asked) => {
  for (const each of document.querySelectorAll("main details")) each.open = true;
  const wrong = [];
  const shown = (element) => element.checkVisibility({ visibilityProperty: true }) && element.getBoundingClientRect().width > 1;
  const told = (element) => `<${element.tagName.toLowerCase()}${element.id ? ` id=${element.id}` : ""}${element.getAttribute("class") ? ` class=${element.getAttribute("class")}` : ""}> ${(element.textContent || "").trim().slice(0, 40)}`;
  const all = (selector) => [...document.querySelectorAll(selector)].filter((each) => shown(each) && !each.closest("[aria-hidden=true]"));
  const complain = (what, element) => wrong.push(`${what}: ${stated(element)}`);

  const name = (element) => {
    const by = element.getAttribute("aria-labelledby");
    if (by) return by.split(/\s+/).map((id) => document.getElementById(id)?.textContent ?? "").join(" ").trim();
    const labels = element.labels ? [...element.labels].map((label) => label.textContent).join(" ") : "";
    const alternative = element.tagName === "IMG" ? element.getAttribute("alt") : "";
    const title = element.querySelector?.(":scope > title")?.textContent ?? "";
    return (element.getAttribute("aria-label") || labels || alternative || title || element.getAttribute("title") || "").trim();
  };

  // One title, one language, one first heading; none leaves out a level.
  if (!document.documentElement.lang) wrong.push("the page has no language");
  if (!document.title.trim()) wrong.push("the page has no title");
  const headings = all("h1, h2, h3, h4, h5, h6");
  const levels = headings.map((each) => Number(each.tagName[1]));
  if (levels.filter((level) => level === 1).length !== 1) wrong.push(`${levels.filter((level) => level === 1).length} first headings`);
  if (levels[0] !== 1) wrong.push("the first heading is not the highest");
  levels.forEach((level, place) => place && level > levels[place - 1] + 1 && complain("a level is left out before", headings[place]));

  // Landmarks, and a place where changes are told.
  if (all("main").length !== 1) wrong.push(`${all("main").length} main parts`);
  if (!asked.report && !document.querySelector("[role=status], [aria-live]")) wrong.push("changes are told nowhere");
  const navigations = all("nav").map(name);
  if (navigations.length > 1 && new Set(navigations).size !== navigations.length) wrong.push("navigations are not told apart");

  // Names.
  for (const each of document.querySelectorAll("input:not([type=hidden]), select, textarea, progress")) {
    if (each.checkVisibility() && !name(each)) complain("a field without a name", each);
  }
  for (const each of all("a[href], button, summary, [role=button], [role=slider], [role=treeitem]")) {
    if (!name(each) && !each.textContent.trim()) complain("nothing says what this does", each);
  }
  for (const each of all("img")) if (!each.hasAttribute("alt")) complain("a picture without words", each);
  for (const each of all("svg")) {
    if (each.parentElement.closest("svg") || each.getAttribute("aria-hidden") === "true") continue;
    if (!["img", "group"].includes(each.getAttribute("role")) || !name(each)) complain("a drawing without words", each);
  }
  for (const each of all("iframe")) if (!name(each)) complain("a frame without a name", each);
  for (const each of all("table")) {
    if (!each.querySelector("th")) complain("a table without heads", each);
    if (!each.caption && !name(each) && !each.closest("[aria-labelledby]")) complain("a table without a caption", each);
  }
  const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
  for (const id of new Set(ids.filter((id, place) => ids.indexOf(id) !== place))) wrong.push(`two elements are called ${id}`);
  for (const attribute of ["aria-describedby", "aria-labelledby", "for"]) {
    for (const each of document.querySelectorAll(`[${attribute}]`)) {
      for (const id of each.getAttribute(attribute).split(/\s+/)) if (!document.getElementById(id)) complain(`${attribute} leads to nothing`, each);
    }
  }

  // Contrast of text, by the formula of WCAG 2.2; large text may have less.
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const brush = canvas.getContext("2d", { willReadFrequently: true });
  const paint = (layers) => {
    brush.clearRect(0, 0, 1, 1);
    for (const layer of layers) {
      brush.fillStyle = layer;
      brush.fillRect(0, 0, 1, 1);
    }
    return [...brush.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (parts) => {
    const [red, green, blue] = parts.map((part) => part / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const grounds = (element) => {
    const layers = [];
    for (let up = element; up; up = up.parentElement) layers.unshift(getComputedStyle(up).backgroundColor);
    return ["Canvas", ...layers];
  };
  const seen = new Set();
  const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (words.nextNode()) {
    const element = words.currentNode.parentElement;
    if (!words.currentNode.textContent.trim() || !shown(element) || element.closest("svg, .unseen, [aria-hidden=true], :disabled, option")) continue;
    const style = getComputedStyle(element);
    const layers = grounds(element);
    const ground = paint(layers);
    const ink = paint([...layers, style.color]);
    const [more, less] = [light(ink), light(ground)].sort((a, b) => b - a);
    const size = parseFloat(style.fontSize);
    const enough = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    const contrast = (more + 0.05) / (less + 0.05);
    const key = `${style.color} ${ground}`;
    if (contrast < enough && !seen.has(key)) complain(`contrast ${contrast.toFixed(2)}`, element);
    seen.add(key);
  }

  // Targets that a finger hits: 24 pixels, or alone in a circle of 24; links within a sentence may be smaller.
  const targets = all("button, select, summary, input:not([type=hidden], .unseen), a.button, nav a, li > a:only-child").map((each) => {
    const label = ["checkbox", "radio"].includes(each.type) ? each.closest("label") : null;
    return { each, box: (label ?? each).getBoundingClientRect() };
  });
  for (const { each, box } of targets) {
    if (box.height >= 24 && box.width >= 24) continue;
    const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
    const near = targets.some(({ each: other, box: its }) => {
      const [across, down] = [Math.max(its.left - x, x - its.right, 0), Math.max(its.top - y, y - its.bottom, 0)];
      return other !== each && !other.contains(each) && Math.hypot(across, down) < 12;
    });
    if (near) complain(`a target of ${Math.round(box.width)} by ${Math.round(box.height)}`, each);
  }

  // Nothing wider than the screen.
  if (document.documentElement.scrollWidth > asked.width) {
    const widest = all("body *").filter((each) => each.getBoundingClientRect().right > asked.width + 1 && !each.closest(".scroll, .steps ol, pre, .columns-nav, svg"));
    wrong.push(`the page is ${document.documentElement.scrollWidth} wide: ${widest.slice(0, 3).map(told).join(" | ")}`);
  }

  // The focus can be seen.
  for (const each of all("a[href], button, select, summary, input:not([type=hidden]), textarea, [tabindex='0']").slice(0, 60)) {
    each.focus({ focusVisible: true });
    if (document.activeElement !== each || !each.matches(":focus-visible")) continue;
    const marks = [each, ...each.querySelectorAll("*"), each.previousElementSibling, each.nextElementSibling].filter(Boolean);
    const outlined = marks.some((mark) => getComputedStyle(mark).outlineStyle !== "none" && parseFloat(getComputedStyle(mark).outlineWidth) >= 2);
    const drawn = each.closest("svg") && [...each.querySelectorAll("circle, polygon")].some((mark) => parseFloat(getComputedStyle(mark).strokeWidth) >= 3);
    if (!outlined && !drawn) complain("the focus cannot be seen", each);
  }
  return [...new Set(wrong)];
}
