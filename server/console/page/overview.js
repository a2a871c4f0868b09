// What the daemon does now, and did in the last ten minutes, from what it counts.
import { call, faultTitle, Fault, sentence } from "./calls.js";
import { fillLegend, LineChart } from "./chart.js";
import { byId, make } from "./dom.js";
import { duration, milliseconds, number, printable, span } from "./text.js";

const pollEvery = 2000;
// Without a permitted caller.
const pollRarely = 10_000;
// What the charts show, in minutes: the least that has everything.
const spans = [2, 5, 10];
const history = spans.at(-1) * 60_000;
// Latencies are those of the calls of this time.
const latencyWindow = 10_000;
const verdictNames = ["reserved", "replay", "in_flight", "mismatch", "outcome_unknown", "expired"];

const samples = [];
let clockDifference = 0;
let timer = 0;
let onNamespaces = () => {};

const rateChart = new LineChart(byId("rate-plot"),
  { title: "Verdicts per second", format: number, least: 1 });
const latencyChart = new LineChart(byId("latency-plot"),
  { title: "Time to an answer of Reserve", format: duration, least: 0.001 });

// The daemon's time, in milliseconds.
export const daemonNow = () => Date.now() + clockDifference;

export function startPolling(namespacesChanged) {
  onNamespaces = namespacesChanged;
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) pollNow();
  });
  showOverview(null);
  pollNow();
}

export function pollNow() {
  clearTimeout(timer);
  const turn = timer = setTimeout(async () => {
    const pause = await poll();
    if (timer === turn && !document.hidden) timer = setTimeout(pollNow, pause);
  }, 0);
}

async function poll() {
  try {
    const overview = await call("Overview");
    clockDifference = milliseconds(overview.now) - Date.now();
    remember(overview);
    showOverview(overview);
    showStatus(overview.store_up ? "good" : "bad", overview.store_up ? "Serving" : "The store is down");
    showBanner(overview.store_up ? null : ["The store is down",
      "Calls are answered STORE_UNAVAILABLE, and protected methods do not run. Records cannot be read or settled."]);
    onNamespaces(overview.namespaces ?? []);
    return pollEvery;
  } catch (fault) {
    if (!(fault instanceof Fault)) throw fault;
    showStatus("bad", faultTitle(fault));
    const stranger = fault.code === "UNAUTHENTICATED";
    showBanner([faultTitle(fault), stranger
      ? "Open this page with a client certificate, or paste a bearer token with the button Token…"
      : printable(sentence(fault))]);
    showCaller("", "");
    return fault.code === "NO_ANSWER" ? pollEvery : pollRarely;
  }
}

function remember(overview) {
  const at = performance.now();
  const last = samples.at(-1);
  // Counters of a process that has restarted.
  if (last && total(overview) < total(last.overview)) samples.length = 0;
  samples.push({ at, overview });
  while (samples.length > 0 && samples[0].at < at - history - latencyWindow) samples.shift();
}

const total = (overview) => Object.values(overview.verdicts ?? {}).reduce((sum, count) => sum + count, 0);

function rateLines() {
  return verdictNames.map((name) => ({
    name: name.replace("_", " "),
    points: samples.slice(1).map((sample, index) => {
      const before = samples[index];
      const counted = (sample.overview.verdicts?.[name] ?? 0) - (before.overview.verdicts?.[name] ?? 0);
      return { at: sample.at, value: counted * 1000 / (sample.at - before.at) };
    }),
  }));
}

// The upper bound of a share of the calls between two samples, between the bounds of its bucket;
// null if there was no call.
function quantile(share, before, after) {
  const bounds = after.latency?.bounds_seconds ?? [];
  const earlier = before.latency?.counts ?? [];
  const counts = (after.latency?.counts ?? []).map((count, index) => count - (earlier[index] ?? 0));
  let wanted = share * counts.reduce((sum, count) => sum + count, 0);
  if (wanted <= 0) return null;
  for (let index = 0; index < bounds.length; ++index) {
    if (counts[index] >= wanted) {
      const low = index === 0 ? 0 : bounds[index - 1];
      return low + (bounds[index] - low) * wanted / counts[index];
    }
    wanted -= counts[index];
  }
  return bounds.at(-1) ?? null;
}

function latencyLines() {
  return [["p50", 0.5], ["p99", 0.99]].map(([name, share]) => {
    let begin = 0;
    return {
      name,
      points: samples.slice(1).map((sample) => {
        while (samples[begin + 1].at < sample.at - latencyWindow) ++begin;
        return { at: sample.at, value: quantile(share, samples[begin].overview, sample.overview) };
      }),
    };
  });
}

const latest = (line) => line.points.at(-1)?.value ?? null;

function showOverview(overview) {
  const rates = rateLines();
  const latencies = latencyLines();
  const now = performance.now();
  const known = samples.length > 0 ? now - samples[0].at : 0;
  const minutes = spans.find((length) => known < length * 60_000) ?? spans.at(-1);
  rateChart.show(rates, now, minutes);
  latencyChart.show(latencies, now, minutes);
  byId("rate-span").textContent = `last ${minutes} minutes`;
  byId("latency-span").textContent = `last ${minutes} minutes, over 10 s each`;
  fillLegend(byId("rate-legend"), rates, number);
  fillLegend(byId("latency-legend"), latencies, duration);
  if (overview) showCaller(overview.caller, overview.version);
  showTiles(overview, rates, latencies);
}

function showTiles(overview, rates, latencies) {
  const rate = samples.length > 1 ? number(rates.reduce((sum, line) => sum + (latest(line) ?? 0), 0)) : "–";
  const time = (line) => (latest(line) === null ? "–" : duration(latest(line)));
  const gauge = (value) => (overview ? number(value) : "–");
  const unknown = overview?.unknown_records ?? 0;
  const oldest = overview?.oldest_reservation_age_seconds ?? 0;
  const tiles = [
    ["Verdicts / s", rate, ""],
    ["p50 of Reserve", time(latencies[0]), ""],
    ["p99 of Reserve", time(latencies[1]), ""],
    ["Unknown records", unknown >= 1000 ? "1,000 or more" : gauge(unknown), unknown > 0 ? "▲ to settle" : ""],
    ["Oldest reservation", overview && oldest > 0 ? span(oldest) : "–", ""],
    ["Sessions", gauge(overview?.sessions ?? 0), ""],
    ["Waiting callers", gauge(overview?.waiters ?? 0), ""],
  ];
  byId("tiles").replaceChildren(...tiles.map(([name, value, note]) => make("div", {},
    make("dt", {}, name),
    make("dd", {}, make("span", { class: "figure" }, value),
      note ? make("a", { class: "note", href: "#records" }, note) : ""))));
}

function showCaller(caller, version) {
  byId("version").textContent = version;
  byId("caller").textContent = caller ? `as ${printable(caller)}` : "";
}

function showStatus(level, text) {
  byId("status").dataset.level = level;
  // A screen reader repeats what is set.
  if (byId("status-text").textContent !== text) byId("status-text").textContent = text;
}

function showBanner(shown) {
  const banner = byId("banner");
  const text = shown ? shown.join("\n") : "";
  if (banner.dataset.text === text) return;
  banner.dataset.text = text;
  banner.hidden = !shown;
  banner.replaceChildren(...(shown ? [make("strong", {}, shown[0]), make("span", {}, shown[1])] : []));
}
