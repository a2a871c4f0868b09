// Forgetting records: they are counted, then forgotten.
import { call, Fault } from "./calls.js";
import { announce, byId, fillFacts, foreign, onSubmit, open, whileBusy } from "./dom.js";
import { Outcome } from "./outcome.js";
import { daemonNow } from "./overview.js";
import { number, timeText } from "./text.js";

const dialog = byId("purge-dialog");
const form = byId("purge-dialog-form");
const outcome = new Outcome(byId("purge-outcome"));
const write = byId("purge-write");

// {target, namespace, one, facts, done}: `target` is that of a PurgeRequest.
let current = null;
let checked = null;
let closed = true;

export function openPurge(purge) {
  current = purge;
  closed = false;
  form.reset();
  fillFacts(byId("purge-facts"), purge.facts);
  changed();
  open(dialog);
}

function changed(event) {
  if (event?.target === form.elements.confirm) return allow();
  checked = null;
  form.elements.confirm.value = "";
  byId("purge-confirm").hidden = true;
  outcome.report("", "");
  allow();
}

// Many records are forgotten only after the namespace was typed.
function allow() {
  write.disabled = !checked || (!current.one && form.elements.confirm.value !== current.namespace);
}

// Calls until the whole target was visited; the sums of the pages.
async function purge(request, verb) {
  const sums = { purged: 0, refused: 0, busy: 0 };
  let found = {};
  let token = "";
  do {
    if (closed) throw new Fault("CANCELLED", "", `${verb} ${number(sums.purged)} so far, then the dialog was closed`);
    try {
      const page = await call("Purge", { ...request, page_token: token });
      for (const name of Object.keys(sums)) sums[name] += Number(page[name]);
      if (current.one) found = { expected_state: page.previous_state, expected_attempt: page.attempt };
      token = page.next_page_token;
    } catch (fault) {
      if (sums.purged > 0) fault.message += `; ${verb} ${number(sums.purged)} so far: do it again for the others`;
      throw fault;
    }
    if (token) outcome.report("", `${verb} ${number(sums.purged)} so far…`);
  } while (token);
  return { ...sums, found };
}

const records = (count) => (count === 1 ? "1 record" : `${number(count)} records`);

function sumText(sums, verb) {
  const stay = (count) => `${records(count)} ${verb.startsWith("would") ? "would stay" : count === 1 ? "stays" : "stay"}`;
  const parts = [`${records(sums.purged)} ${verb}.`];
  if (sums.refused > 0) parts.push(`${stay(sums.refused)}: the operation might run twice. Settle first, or tick the box.`);
  if (sums.busy > 0) parts.push(`${stay(sums.busy)}: in use at this moment.`);
  return parts.join(" ");
}

async function count() {
  const fields = form.elements;
  const request = { ...current.target, reason: fields.reason.value, force: fields.force.checked };
  if (fields.tombstone.value) request.tombstone = fields.tombstone.value;
  const sums = await purge({ ...request, validate_only: true }, "counted");
  const some = sums.purged > 0;
  // Of one record: only as it was counted.
  checked = some ? { ...request, ...sums.found } : null;
  const late = request.tombstone ? "Their keys are refused afterwards." : "A late retry of theirs will run again.";
  outcome.report(some ? "good" : "bad",
    `${sumText(sums, "would be forgotten")} ${some ? `${late} Nothing is written yet.` : ""}`);
  byId("purge-confirm").hidden = !some || current.one;
  allow();
  if (some) (current.one ? write : fields.confirm).focus();
}

async function forget() {
  if (!checked || write.disabled) return;
  const sums = await purge(checked, "forgot");
  const { done } = current;
  const text = sumText(sums, sums.purged === 1 ? "is forgotten" : "are forgotten");
  dialog.close();
  announce(text);
  done(text);
}

function openMany(data) {
  const namespace = data.get("namespace").trim();
  const facts = [["Namespace", foreign(namespace)]];
  const target = {};
  if (data.get("target") === "scope") {
    target.scope = { namespace, scope: data.get("scope") };
    facts.push(["Scope", foreign(data.get("scope"))]);
  } else {
    const before = new Date(daemonNow() - Number(data.get("age")) * Number(data.get("unit")) * 1000).toISOString();
    target.before = { namespace, created_before: before };
    facts.push(["First reserved before", timeText(before, daemonNow())]);
  }
  openPurge({ target, namespace, one: false, facts, done: showDone });
}

function showDone(text) {
  let shown = byId("purge-done");
  if (!shown) {
    shown = document.createElement("p");
    shown.id = "purge-done";
    shown.className = "notice";
    shown.dataset.level = "good";
    byId("view-purge").append(shown);
  }
  shown.textContent = text;
}

export function startPurge() {
  form.addEventListener("input", changed);
  dialog.addEventListener("close", () => { closed = !dialog.open; });
  onSubmit(form, () => outcome.attempt(count));
  write.addEventListener("click", () => whileBusy(form, () => outcome.attempt(forget)));
  onSubmit(byId("purge-form"), openMany);
}
