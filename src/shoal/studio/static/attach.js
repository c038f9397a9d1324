// Attaches a file to the project, then reloads the page.
import { ask, announce } from "/static/studio.js";

const attach = async (chooser) => {
  if (!chooser.dataset.attach || !chooser.files[0]) return;
  const file = chooser.files[0];
  announce(`Adding ${file.name}`);
  const headers = { "Shoal-Name": encodeURIComponent(file.name), "Content-Type": "application/octet-stream" };
  const answer = await ask(chooser.dataset.attach, { method: "PUT", headers, body: file });
  chooser.value = "";
  if (answer !== null) location.reload();
};

document.addEventListener("change", (event) => attach(event.target)); // also in parts that are swapped in later
document.querySelectorAll("[data-attach]").forEach(attach); // chosen before this script was loaded
