// Text for people. What callers wrote (keys, scopes, labels, reasons) is hostile.

// Characters that are not shown or that change the direction of text, as in
// explanation/printable_text.cc.
const hidden =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}\ud800-\udfff\\]/gu;

// `text` with such characters escaped as \u{N}, so that no text looks like another.
export function printable(text) {
  return String(text ?? "").replace(hidden, (character) =>
    character === "\\" ? "\\\\" : `\\u{${character.codePointAt(0).toString(16)}}`);
}

const units = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];

// "3m" for some seconds, rounded down to the largest unit.
export function span(seconds) {
  for (const [name, size] of units) {
    if (seconds >= size) return `${Math.floor(seconds / size)}${name}`;
  }
  return "0s";
}

// A time of protobuf's JSON in milliseconds; null if there is none.
export function milliseconds(timestamp) {
  const time = Date.parse(timestamp ?? "");
  return Number.isNaN(time) ? null : time;
}

// "2026-11-24 10:00:00 UTC (3m ago)".
export function timeText(timestamp, now) {
  const time = milliseconds(timestamp);
  if (time === null) return "–";
  const written = `${new Date(time).toISOString().slice(0, 19).replace("T", " ")} UTC`;
  const distance = (now - time) / 1000;
  return distance > -1 ? `${written} (${span(distance)} ago)` : `${written} (in ${span(-distance)})`;
}

// How long ago, or "–".
export function age(timestamp, now) {
  const time = milliseconds(timestamp);
  return time === null ? "–" : span(Math.max(0, (now - time) / 1000));
}

// With as many digits as tell something.
export function number(value) {
  if (value === 0 || value >= 100) return Math.round(value).toLocaleString("en");
  return value.toLocaleString("en", { maximumFractionDigits: value >= 10 ? 1 : 2 });
}

// A time of an answer: "850 µs", "3.2 ms", "1.5 s".
export function duration(seconds) {
  if (seconds === 0) return "0";
  if (seconds < 0.001) return `${number(seconds * 1e6)} µs`;
  if (seconds < 1) return `${number(seconds * 1e3)} ms`;
  return `${number(seconds)} s`;
}

export const states = {
  RECORD_STATE_RESERVED: { name: "Reserved", sign: "●" },
  RECORD_STATE_COMPLETED: { name: "Completed", sign: "✓" },
  RECORD_STATE_RELEASED: { name: "Released", sign: "○" },
  RECORD_STATE_UNKNOWN: { name: "Unknown", sign: "▲" },
};

export function stateName(state) {
  return states[state]?.name ?? "–";
}

export const codes = ["OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
  "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED",
  "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"];
