// One record: its story, the next verdict, what to do about it.
import { call, faultNotice } from "./calls.js";
import { announce, byId, fillFacts, foreign, make, notice, onSubmit, stateTag } from "./dom.js";
import { daemonNow } from "./overview.js";
import { openPurge } from "./purge.js";
import { openResolve } from "./resolve.js";
import { codes, stateName, timeText } from "./text.js";

const result = byId("record-result");
// The request of the record that is shown.
let shown = null;

async function show(request) {
  shown = request;
  try {
    const explanation = await call("Explain", request);
    if (shown !== request) return;
    result.replaceChildren(describe(explanation));
    announce(`The record is ${stateName(explanation.record.state)}`);
  } catch (fault) {
    if (shown !== request) return;
    result.replaceChildren(faultNotice(fault));
  }
}

function describe({ record, story, next_verdict: verdict, remedy }) {
  return make("article", { class: "card" },
    make("header", { class: "card-head" },
      stateTag(record.state),
      make("code", { class: "id" }, record.record_id),
      make("span", { class: "muted" }, `attempt ${record.attempt}`)),
    paragraph("What happened", story),
    paragraph("The next call", verdict),
    remedy ? paragraph("What to do", remedy) : "",
    actions(record),
    make("h2", {}, "Details"),
    facts(record));
}

// The daemon's text, with text of callers in it, which it escapes.
function paragraph(title, text) {
  return make("section", { class: "story" }, make("h2", {}, title), make("p", { dir: "auto" }, text));
}

function actions(record) {
  const settled = !["RECORD_STATE_RESERVED", "RECORD_STATE_UNKNOWN"].includes(record.state);
  const again = () => show({ record_id: record.record_id });
  return make("div", { class: "actions" },
    settled ? "" : make("button", { type: "button", onclick: () => openResolve(record, again) }, "Settle…"),
    make("button", {
      type: "button",
      onclick: () => openPurge({
        target: { record_id: record.record_id }, namespace: record.record_key.namespace, one: true,
        facts: [["Record", record.record_id], ["State", stateTag(record.state)],
          ["Key", foreign(record.record_key.key)]],
        done: (text) => result.replaceChildren(notice("good", "The record was purged", text)),
      }),
    }, "Purge…"),
    make("button", { type: "button", onclick: again }, "Read again"));
}

function facts(record) {
  const now = daemonNow();
  const key = record.record_key ?? {};
  const reply = record.reply;
  const time = (value) => (value ? timeText(value, now) : null);
  const list = make("dl", { class: "facts" });
  fillFacts(list, [
    ["Namespace", foreign(key.namespace)],
    ["Scope", foreign(key.scope)],
    ["Operation", foreign(key.operation)],
    ["Key", foreign(key.key)],
    ["First reserved", time(record.created_at)],
    ["Lease ends", time(record.lease_expires_at)],
    ["Completed", time(record.completed_at)],
    ["Kept until", time(record.expires_at)],
    ["Reply kept until", time(record.reply_expires_at)],
    ["Refused until", time(record.tombstone_until)],
    ["After a lost lease", leaseExpiry[record.on_lease_expiry] ?? null],
    ["Release reason", record.release_reason ? foreign(record.release_reason) : null],
    ["Reply", reply ? make("span", {}, `${codes[reply.code] ?? reply.code} `, foreign(reply.message)) : null],
    ["Reply is", reply ? content[reply.content] ?? null : null],
    ["Parent", record.parent?.key ? foreign(`${record.parent.operation} ${record.parent.key}`) : null],
    ...Object.entries(record.labels ?? {}).map(
      ([name, value]) => [foreign(name, { title: "label" }), foreign(value)]),
  ]);
  return list;
}

const leaseExpiry = {
  LEASE_EXPIRY_TAKE_OVER: "the next call runs (TAKE_OVER)",
  LEASE_EXPIRY_REQUIRE_RECOVERY: "nothing runs before it is settled (REQUIRE_RECOVERY)",
};
const content = {
  REPLY_CONTENT_FULL: "whole",
  REPLY_CONTENT_STATUS_ONLY: "code and message only",
  REPLY_CONTENT_REFERENCE: "a reference",
  REPLY_CONTENT_REDACTED: "whole, without the fields that the policy omits",
};

// Shows the record of a link.
export function showRecord(id) {
  byId("by-id").elements.record_id.value = id;
  result.replaceChildren(notice("idle", "Reading…", ""));
  show({ record_id: id });
}

export function startRecord() {
  onSubmit(byId("by-id"), (form) => show({ record_id: form.get("record_id").trim() }));
  onSubmit(byId("by-key"), (form) => show({
    record_key: Object.fromEntries(["namespace", "scope", "operation", "key"].map(
      (name) => [name, form.get(name)])),
  }));
}
