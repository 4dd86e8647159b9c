// Install kwire, start a broker, wait until it answers, create topics and apply a declared state.
"use strict";

const { spawn } = require("node:child_process");
const { mkdtempSync, openSync, readFileSync, realpathSync, appendFileSync } = require("node:fs");
const { tmpdir } = require("node:os");
const { dirname, join, resolve } = require("node:path");
const { fail, input, lines, run, set } = require("./steps.js");

/** Install the clone that has this action, with the versions of its lock.  Returns the command. */
function installed(folder) {
  const root = resolve(realpathSync(__dirname), "../../..");
  const python = join(folder, "venv", "bin", "python");
  const pip = (...words) => run(python, "-m", "pip", "install", "--quiet", ...words);
  const locks = ["build", "kwire"].flatMap((name) => ["-r", join(root, "requirements", `${name}.txt`)]);
  run(input("python") || "python3", "-m", "venv", join(folder, "venv"));
  pip("--require-hashes", ...locks);
  pip("--no-build-isolation", "--no-deps", root);
  return join(folder, "venv", "bin", "kwire");
}

/** The words of a line of the input `topics`: a name, and a number of partitions. */
function topicWords(line) {
  const found = /^(\S+?)(?:\s+([1-9][0-9]*))?$/.exec(line);
  if (!found) throw new Error(`topics: '${line}' is not like 'orders' or 'orders 3'`);
  return [found[1], "--partitions", found[2] ?? "1"];
}

/** The options of the broker for the lines of the input `settings`. */
function settingWords(line) {
  if (!/^[^=\s]+=/.test(line)) throw new Error(`settings: '${line}' is not like NAME=VALUE`);
  return ["--set", line];
}

function main() {
  const topics = lines("topics").map(topicWords);
  const settings = lines("settings").flatMap(settingWords);
  const port = input("port") || "9092";
  if (!/^[0-9]{1,5}$/.test(port) || Number(port) < 1 || Number(port) > 65535) {
    throw new Error(`port: '${port}' is not a port from 1 to 65535`);
  }
  const folder = mkdtempSync(join(process.env.RUNNER_TEMP || tmpdir(), "kwire-"));
  const kwire = input("command") || installed(folder);
  const [data, log] = [join(folder, "data"), join(folder, "broker.log")];
  const output = openSync(log, "a");
  const words = ["serve", "--port", port, "--data", data, ...settings];
  const broker = spawn(kwire, words, { detached: true, stdio: ["ignore", output, output] });
  broker.on("error", (error) => fail(new Error(`cannot run ${kwire}: ${error.message}`)));
  if (broker.pid === undefined) return;
  broker.unref();
  set("GITHUB_STATE", "pid", broker.pid);
  set("GITHUB_STATE", "log", log);
  const servers = `127.0.0.1:${port}`;
  try {
    run(kwire, "ping", "-b", servers, "--wait", input("wait") || "60");
    process.kill(broker.pid, 0); // else another process has answered at this port
    for (const each of topics) run(kwire, "topics", "create", ...each, "-b", servers);
    if (input("state")) run(kwire, "apply", input("state"), "--yes", "-b", servers);
  } catch (error) {
    process.stdout.write(readFileSync(log, "utf8"));
    throw error;
  }
  set("GITHUB_OUTPUT", "bootstrap-servers", servers);
  set("GITHUB_OUTPUT", "log", log);
  set("GITHUB_OUTPUT", "data", data);
  set("GITHUB_ENV", "KWIRE_BOOTSTRAP_SERVERS", servers);
  set("GITHUB_ENV", "KAFKA_BOOTSTRAP_SERVERS", servers);
  set("GITHUB_ENV", "KWIRE_LOG", log);
  if (process.env.GITHUB_PATH && !input("command")) {
    appendFileSync(process.env.GITHUB_PATH, `${dirname(kwire)}\n`);
  }
}

try {
  main();
} catch (error) {
  fail(error);
}
