// Follows a trace: asks for the rows of newer requests, and puts them on top.

const AGAIN_MS = 500;
const ROWS_MAX = 500;

const body = document.getElementById("requests");
const live = document.getElementById("live");
const counts = document.getElementById("counts");
const pause = document.getElementById("pause");
const ending = new AbortController();
let isPaused = false;
let leftOut = Number(counts.dataset.dropped);

pause.hidden = false;
pause.addEventListener("click", () => {
  isPaused = !isPaused;
  pause.textContent = isPaused ? "Go on" : "Pause";
  tell(isPaused ? "off" : "on", isPaused ? "paused" : "live");
});

// The form ends the recording: a request that arrives after it would be refused.
document.getElementById("end").addEventListener("submit", () => ending.abort());

function tell(state, text) {
  live.dataset.state = state;
  if (live.textContent !== text) live.textContent = text;
}

// The rows in an answer, parsed apart from the page: the server has escaped all values.
function rowsIn(text) {
  const template = document.createElement("template");
  template.innerHTML = `<table><tbody>${text}</tbody></table>`;
  return [...template.content.querySelectorAll("tbody > tr")];
}

async function look() {
  if (ending.signal.aborted) return;
  if (!isPaused && !document.hidden) {
    try {
      const last = Number(body.dataset.last);
      const response = await fetch(`${body.dataset.more}&after=${last}`, {
        credentials: "same-origin",
        signal: ending.signal,
      });
      if (response.status === 400) {
        tell("broken", "the recording has ended");
        return;
      }
      if (!response.ok) {
        tell("broken", "the broker does not answer");
      } else {
        show(rowsIn(await response.text()), last);
        tell("on", "live");
      }
    } catch {
      if (ending.signal.aborted) return;
      tell("broken", "the console does not answer");
    }
  }
  setTimeout(look, AGAIN_MS);
}

function show(rows, last) {
  if (rows.length === 0) return;
  const newest = Number(rows[0].dataset.number);
  leftOut += newest - last - rows.length;
  body.dataset.last = String(newest);
  body.prepend(...rows);
  while (body.rows.length > ROWS_MAX) {
    // A row that somebody reads stays.
    const oldest = [...body.rows].reverse().find((row) => !row.querySelector("details[open]"));
    if (oldest === undefined) break;
    oldest.remove();
    leftOut += 1;
  }
  document.getElementById("none").hidden = true;
  counts.textContent = `${body.rows.length} shown${leftOut > 0 ? `, ${leftOut} left out` : ""}`;
}

setTimeout(look, AGAIN_MS);
