// Stop the broker at the end of the job.  If it has ended before, show its log.
"use strict";

const { readFileSync } = require("node:fs");
const { setTimeout: sleep } = require("node:timers/promises");
const { fail } = require("./steps.js");

const STOP_MS = 30_000;

/** Whether a process of this id runs.  One that nobody waits for is a zombie, which does not. */
function runs(pid) {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return process.platform !== "linux"; // without /proc the signal has to do
  }
}

async function main() {
  const pid = Number(process.env.STATE_pid);
  if (!pid) return; // the broker has not started
  if (!runs(pid)) {
    process.stdout.write(readFileSync(process.env.STATE_log, "utf8"));
    throw new Error("the broker ended before the job did; its log is above");
  }
  process.kill(pid, "SIGTERM");
  for (const end = Date.now() + STOP_MS; Date.now() < end; await sleep(50)) {
    if (!runs(pid)) return;
  }
  process.kill(pid, "SIGKILL");
  throw new Error(`the broker did not stop within ${STOP_MS / 1000} s, and was killed`);
}

main().catch(fail);
