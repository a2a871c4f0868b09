// Settling one record: it is checked as it was shown, then written.
import { call, Fault } from "./calls.js";
import { announce, byId, fillFacts, foreign, make, onSubmit, open, stateTag, whileBusy } from "./dom.js";
import { Outcome } from "./outcome.js";
import { daemonNow } from "./overview.js";
import { codes, milliseconds, stateName, timeText } from "./text.js";

const dialog = byId("resolve-dialog");
const form = byId("resolve-form");
const outcome = new Outcome(byId("resolve-outcome"));
const write = byId("resolve-write");
const maxBody = 40 * 1024;

let record = null;
let onDone = () => {};
// What was checked, and is written as it is.
let checked = null;

// Asks what becomes of `shown`, as it is shown; `done` is called after it was settled.
export function openResolve(shown, done) {
  record = shown;
  onDone = done;
  form.reset();
  fillFacts(byId("resolve-facts"), [
    ["Record", shown.record_id], ["State", stateTag(shown.state)], ["Attempt", String(shown.attempt)],
    ["Operation", foreign(shown.record_key.operation)], ["Key", foreign(shown.record_key.key)]]);
  byId("resolve-force").hidden = !isRunning(shown);
  changed();
  open(dialog);
}

function isRunning(shown) {
  return shown.state === "RECORD_STATE_RESERVED" && milliseconds(shown.lease_expires_at) > daemonNow();
}

// What was checked is no longer what stands there.
function changed() {
  checked = null;
  write.disabled = true;
  outcome.report("", "");
  const completes = form.elements.outcome.value === "RESOLVE_OUTCOME_COMPLETED";
  byId("reply-fields").hidden = !completes;
  byId("body-field").hidden = byId("body-hint").hidden = form.elements.code.value !== "0";
}

async function requestOf() {
  const fields = form.elements;
  const request = {
    record_id: record.record_id,
    outcome: fields.outcome.value,
    reason: fields.reason.value,
    expected_attempt: record.attempt,
    expected_state: record.state,
    force: fields.force.checked,
  };
  if (request.outcome !== "RESOLVE_OUTCOME_COMPLETED") return request;
  request.reply = { code: Number(fields.code.value), message: fields.message.value };
  const file = fields.body.files[0];
  if (request.reply.code === 0 && !file) throw new Fault("INVALID_ARGUMENT", "", "choose the file of the response message: callers get it");
  if (request.reply.code === 0) request.reply.body = await base64(file);
  return request;
}

async function base64(file) {
  if (file.size > maxBody) throw new Fault("INVALID_ARGUMENT", "", "the file is larger than 40 KiB: use idempotencyctl resolve");
  const bytes = new Uint8Array(await file.arrayBuffer());
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}

async function check() {
  const request = await requestOf();
  const answer = await call("Resolve", { ...request, validate_only: true });
  checked = request;
  write.disabled = false;
  outcome.report("good", `The record would be ${stateName(answer.state)} (it is ${stateName(answer.previous_state)}), ` +
    `attempt ${answer.attempt}, kept until ${timeText(answer.expires_at, daemonNow())}. Nothing is written yet.`);
  write.focus();
}

async function settle() {
  if (!checked) return;
  const answer = await call("Resolve", checked);
  dialog.close();
  announce(answer.repeated ? `The record was settled already: ${stateName(answer.state)}`
    : `The record is settled: ${stateName(answer.state)}`);
  onDone();
}

export function startResolve() {
  form.elements.code.replaceChildren(...codes.map((name, code) => make("option", { value: code }, name)));
  form.addEventListener("input", changed);
  onSubmit(form, () => outcome.attempt(check));
  write.addEventListener("click", () => whileBusy(form, () => outcome.attempt(settle)));
}
