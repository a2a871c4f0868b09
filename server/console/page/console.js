// The page: its sections, the token, the namespaces to choose from.
import { startAudit } from "./audit.js";
import { hasToken, useToken } from "./calls.js";
import { announce, byId, make, onSubmit, open } from "./dom.js";
import { pollNow, startPolling } from "./overview.js";
import { startPurge } from "./purge.js";
import { showRecord, startRecord } from "./record.js";
import { startRecords } from "./records.js";
import { startResolve } from "./resolve.js";

const sections = ["overview", "records", "record", "purge", "audit"];

function showSection() {
  const [name, id] = location.hash.slice(1).split("/");
  // The link that skips to the content.
  if (name === "main") return;
  const chosen = sections.includes(name) ? name : "overview";
  for (const section of sections) byId(`view-${section}`).hidden = section !== chosen;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${chosen}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${byId(`${chosen}-title`).textContent} – idempotencyd`;
  if (chosen === "record" && id) showRecord(decodeId(id));
}

function decodeId(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// Offers the namespaces, and fills in the only one.
let offered = "";
function offerNamespaces(namespaces) {
  const names = namespaces.map((shown) => shown.name);
  if (names.join() === offered) return;
  offered = names.join();
  byId("namespaces").replaceChildren(...names.map((name) => make("option", { value: name })));
  for (const input of document.querySelectorAll("input[list=namespaces]")) {
    if (input.value === "" && names.length > 0) input.value = names[0];
  }
}

function startToken() {
  const dialog = byId("token-dialog");
  const form = byId("token-form");
  const use = (token, text) => {
    useToken(token);
    form.reset();
    byId("token-open").textContent = hasToken() ? "Token set…" : "Token…";
    dialog.close();
    announce(text);
    pollNow();
  };
  byId("token-open").addEventListener("click", () => open(dialog));
  byId("token-forget").addEventListener("click", () => use("", "The token is forgotten"));
  onSubmit(form, (data) => use(data.get("token").trim(), "The token is used from now on"));
  dialog.addEventListener("close", () => { if (!dialog.open) form.reset(); });
}

function start() {
  for (const button of document.querySelectorAll("dialog [data-close]")) {
    button.addEventListener("click", () => button.closest("dialog").close());
  }
  startToken();
  startRecords();
  startRecord();
  startResolve();
  startPurge();
  startAudit();
  window.addEventListener("hashchange", showSection);
  showSection();
  startPolling(offerNamespaces);
}

start();
