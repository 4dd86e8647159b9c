// What every page has: filters that submit themselves, the theme, copy buttons, keys.

const FILTER_PAUSE_MS = 250;

/** Submit a form when its text has not changed for a moment; the server filters. */
function submitAfterPause(input) {
  let timer = 0;
  const first = input.value;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => replaceTable(input), FILTER_PAUSE_MS);
  });
  return first;
}

/** Get the filtered page and put its table in place of this one, so that the focus stays. */
async function replaceTable(input) {
  const form = input.form;
  const url = new URL(location.pathname, location.href);
  for (const [name, value] of new FormData(form)) {
    if (value) url.searchParams.append(name, value);
  }
  const wanted = input.value;
  const response = await fetch(url);
  const text = await response.text();
  if (input.value !== wanted) return; // A later request is on its way.
  const page = new DOMParser().parseFromString(text, "text/html");
  const found = page.querySelector("[data-table]");
  const own = document.querySelector("[data-table]");
  if (!found || !own) {
    location.assign(url);
    return;
  }
  own.replaceWith(document.importNode(found, true));
  history.replaceState(null, "", url);
  prepareCopies();
}

function prepareCopies() {
  for (const button of document.querySelectorAll("[data-copies]")) {
    if (!navigator.clipboard || !button.hidden) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.dataset.copies);
      const label = button.textContent;
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = label), 1500);
    });
  }
}

/** `/` goes to the filter of the page, as in many tools. */
function onKey(event) {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select")) return;
  const search = document.querySelector("input[type=search]");
  if (search) {
    event.preventDefault();
    search.focus();
    search.select();
  }
}

for (const input of document.querySelectorAll("[data-filters]")) submitAfterPause(input);
for (const select of document.querySelectorAll("[data-submits]")) {
  select.addEventListener("change", () => select.form.requestSubmit());
}
for (const form of document.querySelectorAll("form[data-confirm]")) {
  form.addEventListener("submit", (event) => {
    if (!confirm(form.dataset.confirm)) event.preventDefault();
  });
}
document.addEventListener("keydown", onKey);
// On a phone the menu is a row that scrolls: begin where the page's own entry is.
const own = document.querySelector(".menu [aria-current]");
own?.scrollIntoView({ block: "nearest", inline: "center" });
prepareCopies();
