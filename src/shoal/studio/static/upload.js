// Uploads a table with a progress bar and a cancel button. Also reads a policy file into a field.
import { announce, notify, whenChosen } from "/static/studio.js";

const form = document.querySelector("[data-upload]");
if (form) {
  const [file, drop, state, says, bar] = ["file", "drop", "upload-state", "upload-says", "upload-progress"].map((id) => document.getElementById(id));
  const cancel = document.getElementById("upload-cancel");
  const again = document.getElementById("upload-again");

  const send = (chosen) => {
    notify("");
    again.hidden = true;
    file.value = "";
    const query = new URLSearchParams({ delimiter: form.elements.delimiter.value, encoding: form.elements.encoding.value, project: form.dataset.project ?? "" });
    const request = new XMLHttpRequest();
    request.open("PUT", `${form.getAttribute("action")}?${query}`);
    request.setRequestHeader("Shoal-Swap", "1");
    request.setRequestHeader("Shoal-Name", encodeURIComponent(chosen.name));
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.onprogress = (event) => {
      bar.value = event.total ? (100 * event.loaded) / event.total : 0;
    };
    request.upload.onload = () => {
      bar.removeAttribute("value");
      says.textContent = `Looking at ${chosen.name}`;
      announce(says.textContent);
    };
    const end = (html) => {
      state.hidden = true;
      if (html) notify(html);
      if (!html.includes("More about text files")) return;
      document.getElementById("reading").open = true;
      again.textContent = `Open ${chosen.name} again`;
      again.hidden = false;
      again.onclick = () => send(chosen);
      form.elements.encoding.select();
    };
    request.onload = () => {
      if (request.status === 200) location.assign(JSON.parse(request.responseText).location);
      else end(request.responseText);
    };
    request.onerror = () => end('<div class="notice problem"><p>The upload was interrupted; choose the file again.</p></div>');
    request.onabort = () => {
      end("");
      announce("Upload cancelled");
    };
    cancel.onclick = () => request.abort();
    bar.value = 0;
    says.textContent = `Uploading ${chosen.name}`;
    state.hidden = false;
    announce(says.textContent);
    request.send(chosen);
  };

  whenChosen(file, send);
  for (const kind of ["dragover", "dragenter"]) {
    drop.addEventListener(kind, (event) => {
      event.preventDefault();
      drop.classList.add("over");
    });
  }
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    if (event.dataTransfer.files[0]) send(event.dataTransfer.files[0]);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
}

for (const chooser of document.querySelectorAll("[data-read-into]")) {
  whenChosen(chooser, async (chosen) => {
    const field = document.querySelector(chooser.dataset.readInto);
    field.value = await chosen.text();
    chooser.value = "";
    field.focus();
    announce("The file was read into the field; save it to use it");
  });
}
