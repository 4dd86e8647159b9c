// A search that goes on by itself: it gets the next part of the search and adds its rows, until
// the page is full, all is searched, or the visitor stops it.  The URL of the page follows, so that
// a reload or a link goes on from there.

const scan = document.getElementById("scan");
const rows = document.getElementById("rows");
const stop = scan?.querySelector("[data-stop]");

let isStopped = false;

function text(selector, value) {
  const element = scan.querySelector(selector);
  if (element) element.textContent = value;
}

async function goOn() {
  const limit = Number(scan.dataset.limit);
  let found = Number(scan.dataset.found);
  stop.hidden = false;
  while (!isStopped && found < limit) {
    const link = document.querySelector("#pages [data-next]");
    if (!link) break;
    const response = await fetch(link.href);
    if (!response.ok) break;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const other = page.getElementById("scan");
    if (!other) break;
    const added = [...page.querySelectorAll("#rows > tr")];
    rows.append(...added.map((row) => document.importNode(row, true)));
    found += added.length;
    document.getElementById("nothing")?.toggleAttribute("hidden", found > 0);
    text("[data-shown]", found.toLocaleString("en"));
    text("[data-share]", other.querySelector("[data-share]")?.textContent ?? "100.0");
    const bar = scan.querySelector("progress");
    const share = other.querySelector("progress")?.value ?? 1;
    if (bar) bar.value = share;
    document.getElementById("pages").replaceWith(
      document.importNode(page.getElementById("pages"), true),
    );
  }
  stop.hidden = true;
  if (found === 0 && !isStopped) {
    const nothing = document.querySelector("#nothing p");
    if (nothing) nothing.textContent = "No message passes the filter.";
  }
}

if (scan && stop) {
  stop.addEventListener("click", () => {
    isStopped = true;
  });
  goOn();
}

// Offset and time are only asked where they count.
const start = document.getElementById("from");
function showFields() {
  for (const input of document.querySelectorAll("[data-only]")) {
    input.closest(".field").hidden = input.dataset.only !== start.value;
  }
}
if (start) {
  start.addEventListener("change", showFields);
  showFields();
}
