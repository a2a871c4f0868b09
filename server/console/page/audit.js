// Who settled and purged what, and why.
import { call, faultNotice } from "./calls.js";
import { announce, byId, foreign, make, notice, onSubmit, stateTag, table, whileBusy } from "./dom.js";
import { daemonNow } from "./overview.js";
import { timeText } from "./text.js";

const pageSize = 50;

const result = byId("audit-result");
const form = byId("audit-form");

const actions = {
  AUDIT_ACTION_RESOLVED_COMPLETED: "settled as completed",
  AUDIT_ACTION_RESOLVED_RELEASED: "settled as released",
  AUDIT_ACTION_PURGED: "purged",
  AUDIT_ACTION_PURGED_TO_TOMBSTONE: "purged, keys refused",
  AUDIT_ACTION_RESEALED: "resealed",
};

async function show(namespace, token) {
  try {
    display(namespace, await call("ListAudit", { namespace, page_size: pageSize, page_token: token }));
  } catch (fault) {
    result.replaceChildren(faultNotice(fault));
  }
}

// Shown as other pages are, the oldest first.
async function showLatest(namespace) {
  try {
    const page = await call("ListAudit", { namespace, page_size: pageSize, newest_first: true });
    display(namespace, { entries: page.entries.reverse(), next_page_token: "" });
  } catch (fault) {
    result.replaceChildren(faultNotice(fault));
  }
}

function display(namespace, page) {
  const now = daemonNow();
  const rows = page.entries.map((entry) => [
    make("span", { class: "number" }, timeText(entry.at, now)),
    foreign(entry.actor),
    `${actions[entry.action] ?? "–"}${entry.forced ? ", forced" : ""}`,
    stateTag(entry.state),
    make("a", { class: "id", href: `#record/${encodeURIComponent(entry.record_id)}` }, entry.record_id),
    foreign(entry.reason),
  ]);
  result.replaceChildren(
    rows.length > 0 ? table("Audit log, the oldest first", ["Time", "Who", "Action", "State before", "Record", "Reason"], rows)
      : notice("idle", "No entry", "Nothing was settled or purged in this namespace."),
    make("div", { class: "pager" },
      make("span", { class: "muted" }, "The oldest first"),
      make("button", {
        type: "button", disabled: page.next_page_token ? null : "",
        onclick: () => show(namespace, page.next_page_token),
      }, "Next page")));
  announce(`${rows.length} entries`);
}

export function startAudit() {
  onSubmit(form, (data) => show(data.get("namespace").trim(), ""));
  byId("audit-end").addEventListener("click", () => {
    if (form.reportValidity()) whileBusy(form, () => showLatest(form.elements.namespace.value.trim()));
  });
}
