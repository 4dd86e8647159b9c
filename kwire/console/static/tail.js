// The live tail: a bounded list of the newest messages.  The server sends a piece a few times a
// second; rows that would not be seen are neither sent nor made.

import "./scan.js";

const ROWS_MAX = 500;
const RETRY_MS = 2000;
const RATE_WINDOW_MS = 5000;

const bar = document.querySelector("[data-live]");
const rows = document.getElementById("rows");
const state = bar.querySelector(".live");
const pause = bar.querySelector("[data-pause]");
const clear = bar.querySelector("[data-clear]");
const base = bar.dataset.live.split("/messages/live")[0];

let seen = 0;
let found = 0;
let isPaused = false;
let arrivals = [];

function show(name, text) {
  state.dataset.state = name;
  if (state.textContent !== text) state.textContent = text;
}

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function dataCell(className, text, word) {
  const td = element("td", className);
  if (word === "null" || word === "empty") {
    td.append(element("span", "null", word));
  } else if (word === "tombstone") {
    td.append(element("span", "tag warn", word));
  } else {
    if (word) td.append(element("span", "tag", word), " ");
    td.append(element("span", "cell", text));
  }
  return td;
}

function rowOf(record) {
  const tr = element("tr");
  const time = element("td", "tight");
  time.append(element("time", "", record.time));
  const link = element("a", "", record.offset.toLocaleString("en"));
  link.href = `${base}/messages/${record.partition}/${record.offset}`;
  const offset = element("td", "n");
  offset.append(link);
  tr.append(
    time,
    element("td", "n optional", record.partition),
    offset,
    dataCell("key", record.key, record.key_word),
    dataCell("value", record.value, record.value_word),
    element("td", "n optional", record.headers || ""),
  );
  return tr;
}

function count(name, value) {
  const element = bar.querySelector(`[data-count=${name}]`);
  if (element) element.textContent = value.toLocaleString("en");
}

function take(piece) {
  if (piece.error) {
    show("broken", piece.error);
    return;
  }
  seen += piece.seen;
  found += piece.found;
  const now = performance.now();
  arrivals.push([now, piece.seen]);
  arrivals = arrivals.filter(([at]) => now - at < RATE_WINDOW_MS);
  const span = Math.max(1, (now - arrivals[0][0]) / 1000);
  count("seen", seen);
  count("found", found);
  count("rate", Math.round(arrivals.reduce((sum, [, n]) => sum + n, 0) / span));
  if (isPaused || !piece.rows.length) return;
  const made = document.createDocumentFragment();
  for (const record of piece.rows.reverse()) made.append(rowOf(record));
  rows.prepend(made);
  while (rows.childElementCount > ROWS_MAX) rows.lastElementChild.remove();
}

async function follow() {
  const response = await fetch(bar.dataset.live);
  if (!response.ok) {
    const answer = await response.json().catch(() => ({}));
    throw new Error(answer.error ?? `The console answers with status ${response.status}.`);
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let isBroken = false;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const piece = JSON.parse(line);
      if (!piece.error && !isPaused) show("on", "Live");
      isBroken = Boolean(piece.error);
      take(piece);
    }
  }
  if (!isBroken) show("broken", "The connection ended; trying again");
}

async function followAlways() {
  for (;;) {
    try {
      await follow();
    } catch (error) {
      show("broken", error.message);
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

pause.hidden = clear.hidden = false;
pause.addEventListener("click", () => {
  isPaused = !isPaused;
  pause.textContent = isPaused ? "Go on" : "Pause";
  show(isPaused ? "off" : "on", isPaused ? "Paused" : "Live");
});
clear.addEventListener("click", () => rows.replaceChildren());
show("off", "Connecting");
followAlways();
