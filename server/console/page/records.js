// Records by state and age, a page at a time.
import { call, faultNotice } from "./calls.js";
import { announce, byId, foreign, make, notice, onSubmit, stateTag, table } from "./dom.js";
import { daemonNow } from "./overview.js";
import { age, milliseconds } from "./text.js";

const pageSize = 50;
// A page may be empty and have a next one: a bounded number is read at once.
const pagesAtOnce = 20;

const result = byId("records-result");

function requestOf(form) {
  const request = { namespace: form.get("namespace").trim(), page_size: pageSize };
  for (const name of ["state", "scope", "operation"]) {
    if (form.get(name)) request[name] = form.get(name);
  }
  const seconds = Number(form.get("age"));
  if (seconds > 0) request.created_before = new Date(daemonNow() - seconds * 1000).toISOString();
  return request;
}

// The next page that has records, or the last one.
async function nextPage(request, token) {
  let page = { next_page_token: token };
  let damaged = 0;
  for (let read = 0; read < pagesAtOnce; ++read) {
    page = await call("List", { ...request, page_token: page.next_page_token });
    damaged += Number(page.damaged);
    if (page.records.length > 0 || !page.next_page_token) break;
  }
  return { ...page, damaged };
}

async function show(request, token, number) {
  try {
    const page = await nextPage(request, token);
    const records = [...page.records].sort(
      (a, b) => (milliseconds(a.created_at) ?? 0) - (milliseconds(b.created_at) ?? 0));
    result.replaceChildren(...unread(page.damaged),
      records.length > 0 ? list(records, number) : empty(page.next_page_token),
      pager(request, page.next_page_token, number));
    announce(`${records.length} records on page ${number}${page.damaged > 0 ? `, ${page.damaged} not listed` : ""}`);
  } catch (fault) {
    result.replaceChildren(faultNotice(fault));
  }
}

function list(records, number) {
  const now = daemonNow();
  const rows = records.map((record) => [
    stateTag(record.state),
    make("span", { class: "number" }, age(record.created_at, now)),
    make("a", { class: "id", href: `#record/${encodeURIComponent(record.record_id)}` }, record.record_id),
    make("span", { class: "number" }, String(record.attempt)),
    foreign(record.record_key?.scope),
    foreign(record.record_key?.operation),
    foreign(record.record_key?.key),
  ]);
  return table(`Records, page ${number}, the oldest first`,
    ["State", "Age", "Record", "Attempt", "Scope", "Operation", "Key"], rows, ["Age", "Attempt"]);
}

// Without it, a list looks as if there were no such record.
function unread(damaged) {
  if (damaged === 0) return [];
  return [notice("bad", damaged === 1 ? "1 record is not listed" : `${damaged} records are not listed`,
    "They cannot be read (RECORD_DAMAGED). Calls with their keys are refused.")];
}

function empty(more) {
  return notice("idle", more ? "No record so far" : "No record",
    more ? "The records that were read do not match; the next page reads on." : "No record matches.");
}

function pager(request, next, number) {
  const button = (name, token, page) => make("button", {
    type: "button", disabled: token === null ? "" : null, onclick: () => show(request, token, page),
  }, name);
  return make("div", { class: "pager" },
    button("First page", number > 1 ? "" : null, 1),
    make("span", { class: "muted" }, `Page ${number}, each with the oldest first`),
    button("Next page", next || null, number + 1));
}

export function startRecords() {
  onSubmit(byId("records-form"), (form) => show(requestOf(form), "", 1));
}
