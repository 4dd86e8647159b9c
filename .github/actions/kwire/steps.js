// What the steps of the action share: inputs, files of the runner, and commands.
// It uses nothing but Node.js, so that the action runs from the clone as it is.
"use strict";

const { spawnSync } = require("node:child_process");
const { appendFileSync } = require("node:fs");
const { randomUUID } = require("node:crypto");
const { EOL } = require("node:os");

/** The value of an input, without spaces around it. */
function input(name) {
  return (process.env[`INPUT_${name.replaceAll(" ", "_").toUpperCase()}`] ?? "").trim();
}

/** The lines of an input that are not empty. */
function lines(name) {
  return input(name)
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== "");
}

/** Add NAME=VALUE to a file of the runner: GITHUB_OUTPUT, GITHUB_ENV or GITHUB_STATE. */
function set(file, name, value) {
  const path = process.env[file];
  if (!path) throw new Error(`${file} is not set: this action runs in a job of GitHub Actions`);
  const end = `end-${randomUUID()}`;
  appendFileSync(path, `${name}<<${end}${EOL}${value}${EOL}${end}${EOL}`);
}

/** Run a command with its output in the log of the job.  Throws if it fails. */
function run(command, ...words) {
  const done = spawnSync(command, words, { stdio: "inherit" });
  if (done.error) throw new Error(`cannot run ${command}: ${done.error.message}`);
  if (done.status !== 0) throw new Error(`${command} ${words.join(" ")} exited with ${done.status}`);
}

/** Report an error as an annotation of the job, and fail the step. */
function fail(error) {
  const text = error.message.replaceAll("%", "%25").replaceAll("\r", "%0D").replaceAll("\n", "%0A");
  process.stdout.write(`::error::${text}${EOL}`);
  process.exitCode = 1;
}

module.exports = { fail, input, lines, run, set };
