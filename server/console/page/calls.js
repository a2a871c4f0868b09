// Calls of the daemon. The bearer token is kept here alone.
import { notice } from "./dom.js";
import { printable } from "./text.js";

let token = "";

export function useToken(value) {
  token = value;
}

export const hasToken = () => token !== "";

// Longer than the daemon takes.
const patience = 70_000;

// Why a call failed: `code` is that of gRPC; "NO_ANSWER" if the daemon cannot be reached.
export class Fault extends Error {
  constructor(code, reason, message, metadata = {}) {
    super(message);
    this.code = code;
    this.reason = reason;
    this.metadata = metadata;
  }
}

// The answer of a method of the console, or a thrown Fault.
export async function call(method, request = {}) {
  const headers = { "Content-Type": "application/json", "X-Idempotency-Console": "1" };
  if (token) headers.Authorization = `Bearer ${token}`;
  let response;
  let answer;
  try {
    response = await fetch(`/api/${method}`, {
      method: "POST", headers, body: JSON.stringify(request), cache: "no-store", redirect: "error",
      signal: AbortSignal.timeout(patience),
    });
    answer = await response.json();
  } catch {
    throw new Fault("NO_ANSWER", "", "the daemon does not answer");
  }
  if (response.ok) return answer;
  const { code, reason, message, metadata } = answer.error ?? {};
  throw new Fault(code || "INTERNAL", reason || "", message || `HTTP status ${response.status}`, metadata);
}

const titles = {
  NO_ANSWER: "The daemon does not answer",
  UNAUTHENTICATED: "The daemon does not know you",
  PERMISSION_DENIED: "You may not do this",
  NOT_FOUND: "There is no such record",
  UNAVAILABLE: "The store is down",
  RESOURCE_EXHAUSTED: "The daemon is busy",
  INVALID_ARGUMENT: "The request is not valid",
  FAILED_PRECONDITION: "Nothing was changed",
};

const advice = {
  UNAUTHENTICATED: "Open this page with a client certificate, or paste a bearer token with the button Token…",
  NO_ANSWER: "If it was a change, look up whether it was made: it may be made again without harm.",
};

export const faultTitle = (fault) => titles[fault.code] ?? "The call failed";

// What is shown in place of a result.
export function faultNotice(fault) {
  if (!(fault instanceof Fault)) throw fault;
  const shown = notice("bad", faultTitle(fault), printable(sentence(fault)));
  if (advice[fault.code]) shown.append(paragraph(advice[fault.code]));
  if (fault.reason) shown.append(paragraph(`${fault.code} / ${fault.reason}`, "hint"));
  return shown;
}

function paragraph(text, name = "") {
  const element = document.createElement("p");
  element.className = name;
  element.textContent = text;
  return element;
}

// The message, and the fields that it is about.
export function sentence(fault) {
  const fields = Object.entries(fault.metadata ?? {}).filter(([name]) => !fault.message.includes(name));
  const more = fields.map(([name, value]) => `${name}: ${value}`).join(", ");
  return more ? `${fault.message} (${more})` : fault.message;
}
