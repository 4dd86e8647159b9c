#!/bin/sh
# Write what a broker holds into the folder $1: its log, its state, its records, and what is not well.
# `kwire apply state.yaml` makes the same topics, users and records on another broker.
set -eu
folder=$1
kwire=${KWIRE_COMMAND:-kwire}
mkdir -p "$folder"
if [ -n "${KWIRE_LOG:-}" ] && [ -f "$KWIRE_LOG" ]; then cp "$KWIRE_LOG" "$folder/broker.log"; fi
if ! "$kwire" ping --wait "${WAIT_S:-10}"; then
  echo "::warning::the broker does not answer: only its log is collected"
  exit 0
fi
"$kwire" export -o "$folder/state.yaml" --records "$folder/records"
"$kwire" groups list > "$folder/groups.txt"
"$kwire" doctor > "$folder/doctor.txt" 2>&1 || echo "the broker is not well: see doctor.txt"
