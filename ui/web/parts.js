// What several pages show in the same way: states, counts, ages, links. Pure: values in, templates out.

import { html, nothing } from "./vendor/lit-html.js";

/** States in the order of trouble: a word for people, and the class that gives colour and shape. */
export const STATES = {
  error: { word: "Error", look: "bad" },
  unreachable: { word: "Unreachable", look: "bad" },
  refused: { word: "Refused", look: "bad" },
  degraded: { word: "Degraded", look: "warn" },
  unknown: { word: "Unknown", look: "unknown" },
  inProgress: { word: "In progress", look: "busy" },
  deleting: { word: "Deleting", look: "busy" },
  suspended: { word: "Suspended", look: "unknown" },
  hidden: { word: "Not shown to you", look: "unknown" },
  ready: { word: "Ready", look: "good" },
};
const ORDER = Object.keys(STATES);

export const rank = (state) => ORDER.indexOf(state);

/** A state: shape, colour and word. */
export const chip = (state, word) => {
  const known = STATES[state] ?? STATES.unknown;
  return html`<span class="chip ${known.look}"><i class="mark" aria-hidden="true"></i>${word ?? known.word}</span>`;
};

export const text = (value) => (typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value));
export const list = (value) => (Array.isArray(value) ? value : []);

export const condition = (object, type) => list(object?.status?.conditions).find((it) => it?.type === type);

const INSTANCE_STATES = new Map([["ACTIVE", "ready"], ["ERROR", "error"], ["DELETING", "deleting"]]);
const CONDITION_STATES = new Map([["True", "ready"], ["False", "error"]]);

/** The state of an instance, as the hub counts it. */
export function stateOf(instance) {
  if (instance?.metadata?.deletionTimestamp) return "deleting";
  return INSTANCE_STATES.get(instance?.status?.state) ?? "inProgress";
}

/** The first condition that does not hold, `Ready` last, because it repeats another. */
export function trouble(object) {
  const open = list(object?.status?.conditions).filter((it) => it?.type && it.status !== "True");
  const weight = (it) => (it.reason === "AwaitingReconciliation" ? 8 : 0) + (it.type === "Ready" ? 4 : 0) + (it.status === "False" ? 0 : 2) + (it.message ? 0 : 1);
  return open.sort((one, other) => weight(one) - weight(other))[0];
}

/** A message without what kro puts before each, for a column; the whole one is a pointer away. */
export const brief = (message) => message.replace(/^resource reconciliation failed: (apply results contain errors: )?/, "")
  .replace(/^waiting for node "([^"]*)": node "\1": /, 'waiting for node "$1": ');

/** The state of a spoke, and why. */
export function stateOfSpoke(spoke) {
  const message = text(spoke.status?.message);
  if (spoke.metadata?.deletionTimestamp) return { state: "deleting", message };
  // Before what is reachable: the hub has let go of it.
  if (spoke.spec?.suspended) return { state: "suspended", message: "spec.suspended is set" };
  const of = (type) => condition(spoke, type);
  const reachable = of("Reachable");
  if (reachable && reachable.status !== "True") {
    const failed = ["Refused", "NotConnected"].includes(reachable.reason) ? "refused" : "unreachable";
    const state = reachable.status === "False" ? failed : "unknown";
    return { state, message: text(reachable.message) || message, since: reachable.lastTransitionTime };
  }
  const ready = of("Ready");
  if (!ready) return { state: "unknown", message: message || "the hub has not reported on it yet" };
  if (ready.status !== "True") {
    const why = trouble(spoke) ?? ready;
    const state = ready.status === "False" ? "degraded" : "unknown";
    return { state, message: text(why.message) || message || text(why.reason), since: ready.lastTransitionTime };
  }
  const errors = Number(spoke.status?.instances?.error ?? 0);
  if (errors > 0) return { state: "degraded", message: message || `${errors} ${errors === 1 ? "instance has" : "instances have"} failed` };
  return { state: "ready", message };
}

/** The time since, as people say it. */
export function ago(time, now = Date.now()) {
  const since = Math.max(0, (now - Date.parse(time)) / 1000);
  if (!Number.isFinite(since)) return "";
  for (const [unit, seconds] of [["d", 86_400], ["h", 3_600], ["m", 60]]) {
    if (since >= 2 * seconds) return `${Math.floor(since / seconds)} ${unit}`;
  }
  return since < 5 ? "now" : `${Math.floor(since)} s`;
}

/** Whether a spoke of this state is not heard of: what is shown of it is what was last known. */
export const isAway = (state) => ["unreachable", "refused", "unknown"].includes(state);

/** A time: how long ago, with the exact one to point at. */
export const when = (time) => {
  if (!time) return nothing;
  const words = ago(time);
  return html`<time datetime=${text(time)} title=${text(time)}>${words === "now" ? "just now" : `${words} ago`}</time>`;
};

/** When a spoke was last heard of. The hub asks every 5 s, and writes it down every 30 s. */
export const heard = (time) => (Date.now() - Date.parse(time) < 60_000 ? html`<time datetime=${text(time)} title=${text(time)}>within a minute</time>` : when(time));

const SHARES = [["error", "bad"], ["inProgress", "busy"], ["deleting", "fade"], ["ready", "good"]];

/** A bar of counts by state. The numbers beside it say the same. */
export const bar = (counts) => {
  const total = Number(counts?.total ?? 0);
  if (!total) return html`<span class="bar" aria-hidden="true"></span>`;
  return html`<span class="bar" aria-hidden="true">${SHARES.map(([name, look]) => {
    const count = Number(counts[name] ?? 0);
    return count ? html`<i class=${look} .style=${`flex-grow:${count}`}></i>` : nothing;
  })}</span>`;
};

/** A plain count where all is well, `ready/total` where it is not. */
export const share = (counts) => {
  const [ready, total] = [Number(counts?.ready ?? 0), Number(counts?.total ?? 0)];
  return ready === total ? `${total}` : `${ready}/${total}`;
};

export const plural = (count, word, words = `${word}s`) => `${count} ${count === 1 ? word : words}`;

// Addresses of pages. Each part is escaped, so that no name is read as an address.
const part = encodeURIComponent;
export const links = {
  fleet: "#/",
  instances: (filter = {}) => {
    const search = new URLSearchParams(Object.entries(filter).filter(([, value]) => value)).toString();
    return `#/instances${search && `?${search}`}`;
  },
  instance: (resource, cluster, namespace, name) => `#/instances/${part(resource)}/${part(cluster)}/${part(namespace || "-")}/${part(name)}`,
  spoke: (name) => `#/spokes/${part(name)}`,
  definitions: "#/definitions",
  definition: (cluster, name) => `#/definitions/${part(cluster)}/${part(name)}`,
  matrix: "#/matrix",
};

/** Conditions as a table, those that do not hold first. Of what is still under way none has failed. */
export const conditions = (object, isUnderWay = false) => {
  const all = list(object?.status?.conditions).filter((it) => it?.type);
  if (!all.length) return html`<p class="quiet">No conditions yet.</p>`;
  const cause = trouble(object);
  const weight = (it) => (it === cause ? 0 : it.status === "False" ? 1 : it.status === "True" ? 3 : 2);
  const sorted = [...all].sort((one, other) => weight(one) - weight(other));
  // Ready repeats what another condition says.
  const repeats = (it) => it.type === "Ready" && sorted.some((other) => other !== it && other.message === it.message);
  return html`<table class="plain"><thead><tr><th scope="col">Condition</th><th scope="col">Status</th><th scope="col">Why</th><th scope="col">Since</th></tr></thead>
    <tbody>${sorted.map((it) => html`<tr>
      <th scope="row">${text(it.type)}</th>
      <td>${chip(it.status === "False" && isUnderWay ? "inProgress" : CONDITION_STATES.get(it.status) ?? "unknown", text(it.status))}</td>
      <td class="prose" title=${text(it.message)}><b>${text(it.reason)}</b> ${repeats(it) ? nothing : brief(text(it.message))}</td>
      <td>${when(it.lastTransitionTime)}</td></tr>`)}</tbody></table>`;
};

/** Events that are not about another object, which had the name before: by its uid. */
export const eventsOf = (uid, events) => events.filter((it) => !uid || !it.involvedObject?.uid || text(it.involvedObject.uid) === uid);

/** The newest events of an object. */
export const eventTable = (events) => {
  if (!events.length) return html`<p class="quiet">No events.</p>`;
  const time = (it) => text(it.lastTimestamp ?? it.eventTime ?? it.metadata?.creationTimestamp);
  const sorted = [...events].sort((one, other) => time(other).localeCompare(time(one))).slice(0, 50);
  return html`<table class="plain"><thead><tr><th scope="col">When</th><th scope="col">Reason</th><th scope="col">Message</th></tr></thead>
    <tbody>${sorted.map((it) => html`<tr><td>${when(time(it))}</td><td>${it.type === "Warning" ? chip("degraded", text(it.reason)) : text(it.reason)}</td>
      <td class="prose">${text(it.message)}${it.count > 1 ? html` <span class="quiet">×${text(it.count)}</span>` : nothing}</td></tr>`)}</tbody></table>`;
};

/** A refusal, in the place of what was refused: rights and health are different things. */
export const refusal = (error, what) => {
  if (!error) return nothing;
  // Every page says above all else that the hub does not answer.
  if (error.code === 0) return nothing;
  const head = {
    401: "Sign in again", 403: `You may not read ${what}`, 404: `Not found: ${what}`,
    413: "Too large to be shown", 429: "Too many requests", 503: "Not reachable at the moment", 504: "Not read in time",
  }[error.code] ?? `${what} cannot be read`;
  return html`<p class="refusal ${error.code === 403 ? "rights" : ""}" role=${error.code === 403 ? "note" : "alert"}><b>${head}.</b> <span>${error.message}</span></p>`;
};

/** Notes that say the same, as one: that of many kinds in a cluster that is away, for instance. */
function together(all) {
  const found = new Map();
  for (const it of list(all)) {
    const same = found.get(`${it.code} ${it.message}`);
    if (same) same.resources.push(it.resource);
    else found.set(`${it.code} ${it.message}`, { ...it, resources: [it.resource] });
  }
  return [...found.values()].map((it) => ({ ...it, what: it.resources.length > 3 ? `${it.resources.slice(0, 2).join(", ")} and ${it.resources.length - 2} more` : it.resources.join(", ") }));
}

/** What an answer of a search says of kinds that were not read, or not to the end, and of kinds that were not asked for. */
export const notes = (answer, omitted = 0) => html`${together(answer?.failures).map((it) => refusal(it, it.what))}
  ${together(answer?.warnings).map((it) => html`<p class="refusal rights" role="note"><b>${it.what}:</b> <span>${it.message}</span></p>`)}
  ${answer?.omitted ? html`<p class="refusal rights" role="note">${plural(answer.omitted, "further note")}.</p>` : nothing}
  ${omitted ? html`<p class="refusal rights" role="note">${plural(omitted, "further kind is", "further kinds are")} not read here. Choose one of them to see its instances.</p>` : nothing}`;

const PLAIN = /^[A-Za-z_./][\w./@-]*( [\w./@()-]+)*$/;
const WORDS = /^(true|false|null|yes|no|on|off|~|\.inf|\.nan|-?\.?\d.*)$/i;

const scalar = (value) => (typeof value === "string" && PLAIN.test(value) && !WORDS.test(value) ? value : JSON.stringify(value));

/** How deep a value is shown. */
const DEPTH = 100;

/** A value as YAML, to be read by people. */
export function yaml(value, indent = "") {
  if (indent.length > 2 * DEPTH) return "…";
  if (Array.isArray(value)) {
    if (!value.length) return "[]";
    return value.map((it) => `${indent}- ${yaml(it, `${indent}  `).trimStart()}`).join("\n");
  }
  if (value && typeof value === "object") {
    const entries = Object.entries(value);
    if (!entries.length) return "{}";
    return entries.map(([key, it]) => {
      const name = `${indent}${scalar(key)}:`;
      if (typeof it === "string" && it.includes("\n")) {
        const body = it.replace(/\n$/, "").split("\n").map((line) => (line ? `${indent}  ${line}` : "")).join("\n");
        return `${name} |${it.endsWith("\n") ? "" : "-"}\n${body}`;
      }
      const below = it && typeof it === "object" && Object.keys(it).length;
      if (!below) return `${name} ${yaml(it)}`;
      return `${name}\n${yaml(it, Array.isArray(it) ? indent : `${indent}  `)}`;
    }).join("\n");
  }
  return scalar(value ?? null);
}

/** An object as YAML, without what only machines read. */
export const source = (object) => {
  const { managedFields, ...metadata } = object.metadata ?? {};
  return html`<details class="source"><summary>YAML</summary><pre tabindex="0" aria-label="The object as YAML"><code>${yaml({ ...object, metadata })}</code></pre></details>`;
};
