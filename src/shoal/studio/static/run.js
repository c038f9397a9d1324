// Updates the shown command when options change.
import { ask } from "/static/studio.js";

const form = document.querySelector("#start");
form.addEventListener("change", async () => {
  const body = new URLSearchParams(new FormData(form));
  const command = await ask(`${form.action}/command`, { method: "POST", body });
  if (command !== null) document.querySelector("#command").textContent = command;
});
