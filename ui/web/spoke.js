// One spoke: heartbeat, circuit, queue, conditions, events, the ledger, what has failed there last.

import { html, nothing } from "./vendor/lit-html.js";
import { at, follow, get, isFinal, query, waitAfter } from "./api.js";
import { asked, choose } from "./kinds.js";
import { bar, chip, conditions, eventsOf, eventTable, heard, isAway, links, list, notes, plural, refusal, share, source, stateOfSpoke, text, when } from "./parts.js";

export const title = ([name]) => name;

/** Instances in error that are listed here; the link leads to all. */
const ERROR_COUNT = 10;
/** Ledgers that are counted at a time. */
const LEDGER_COUNT = 500;

export function page(app, [name]) {
  let [errors, ledger] = [null, null];
  let [error, ledgerError] = [null, null];
  let seen = null;
  let failures = 0;
  let due = null;
  let isReading = false;
  const ending = new AbortController();
  let chosen = choose([]);
  let [events, eventsError] = [[], null];
  const stopEvents = follow(`${at("root")}/api/v1/namespaces/default/events`, {
    parameters: { fieldSelector: `involvedObject.kind=Spoke,involvedObject.name=${name}` },
    changed(objects) { events = [...objects.values()]; app.update(); },
    told(failure) { eventsError = failure; app.update(); },
  });
  const find = () => [...app.fleet.spokes.values()].find((it) => (it.name ?? text(it.metadata?.name)) === name);

  /** Reads anew where the Spoke tells of other counts: it is written when an instance changes its state. */
  async function read(version) {
    // What changes meanwhile is seen once this reading is done.
    if (version === seen || isReading) return;
    [seen, isReading] = [version, true];
    clearTimeout(due);
    const { signal } = ending;
    chosen = choose(app.kinds, { cluster: name });
    const kind = chosen.kinds.map(asked);
    const [found, entries] = await Promise.all([
      kind.length ? get(`/ui/api/instances${query({ kind, cluster: name, state: "error", limit: ERROR_COUNT })}`, signal).catch((it) => it) : null,
      get(`${at(name)}/apis/internal.wheelhouse.dev/v1alpha1/inventories${query({ limit: LEDGER_COUNT })}`, signal).catch((it) => it),
    ]);
    if (signal.aborted) return;
    isReading = false;
    [errors, error] = found instanceof Error ? [null, found] : [found, null];
    [ledger, ledgerError] = entries instanceof Error ? [null, entries] : [entries, null];
    const isShort = [error, ledgerError, ...list(errors?.failures)].some((it) => it && !isFinal(it));
    failures = isShort ? failures + 1 : 0;
    if (isShort) due = setTimeout(() => { seen = null; app.update(); }, waitAfter(failures));
    app.update();
  }

  const fact = (word, value) => (value === nothing || value === undefined || value === "" ? nothing : html`<div><dt>${word}</dt><dd>${value}</dd></div>`);

  const facts = (spoke) => {
    const { status = {}, spec = {} } = spoke;
    const { circuit = {}, queue = {}, storeRevision = {} } = status;
    return html`<dl class="facts-list">
      ${fact("Version", text(status.version))}${fact("Heartbeat", status.lastHeartbeatTime ? (isAway(stateOfSpoke(spoke).state) ? when : heard)(status.lastHeartbeatTime) : nothing)}
      ${fact("Circuit", circuit.state ? html`${text(circuit.state)}${circuit.since ? html`<span class="quiet">, since ${when(circuit.since)}</span>` : nothing}${Date.parse(circuit.nextProbeTime) > Date.now() ? html`<span class="quiet">; next try in ${Math.ceil((Date.parse(circuit.nextProbeTime) - Date.now()) / 1000)} s</span>` : nothing}` : nothing)}
      ${fact("Queue", status.queue ? `${queue.ready ?? 0} now, ${queue.later ?? 0} later` : nothing)}
      ${fact("Store revision", storeRevision.revision ? html`${text(storeRevision.revision)} <span class="quiet">${when(storeRevision.time)}</span>` : nothing)}
      ${fact("Provider", text(spec.provider))}${fact("Suspended", spec.suspended ? "yes" : nothing)}${fact("Cluster uid", text(status.clusterUID))}${fact("Cluster id", text(status.clusterID))}
      ${fact("Ledger", ledger ? html`${plural(list(ledger.items).length, "entry", "entries")}${ledger.metadata?.continue ? " and more" : ""}, ${plural(list(ledger.items).reduce((sum, it) => sum + list(it.spec?.members).length, 0), "object")}` : nothing)}
      ${fact("Joined", when(spoke.metadata?.creationTimestamp))}</dl>`;
  };

  const failed = () => {
    if (!errors) return nothing;
    const { rows } = errors;
    if (!rows.length) return html`<p class="quiet">None.</p>`;
    return html`<table class="plain"><thead><tr><th scope="col">Instance</th><th scope="col">Kind</th><th scope="col">Why</th></tr></thead>
      <tbody>${rows.map((row) => html`<tr><th scope="row"><a href=${links.instance(row.resource, row.cluster, row.namespace, row.name)}>${row.namespace ? `${row.namespace}/` : ""}${row.name}</a></th>
        <td>${row.kind}</td><td class="prose">${row.message || row.reason}</td></tr>`)}</tbody></table>
      ${errors.total > rows.length ? html`<p><a href=${links.instances({ cluster: name, state: "error" })}>All ${errors.total}</a></p>` : nothing}`;
  };

  const render = () => {
    const spoke = find();
    read(`${text(spoke?.metadata?.resourceVersion)} ${app.kinds.length}`);
    const view = spoke && !spoke.hidden ? stateOfSpoke(spoke) : spoke ? { state: "hidden", message: "You may use this cluster, but not read its Spoke." } : null;
    const counts = spoke?.status?.instances;
    // Why is said once, above: what could not be read says the same.
    const isSilent = isAway(view?.state) && [error, ledgerError, ...list(errors?.failures)].some((it) => it?.code === 503);
    return html`<div class="head"><h1 tabindex="-1">${name}</h1>${view ? chip(view.state) : nothing}
        ${counts ? html`<p class="summary ${isAway(view?.state) ? "stale" : ""}">${bar(counts)} <a href=${links.instances({ cluster: name })}>${share(counts)} ${Number(counts.total) === 1 ? "instance" : "instances"}</a></p>` : nothing}</div>
      ${!spoke && app.fleet.isKnown ? html`<p class="refusal" role="alert"><b>You see no spoke of this name.</b></p>` : nothing}
      ${view?.message && view.state !== "ready" ? html`<p class="waits ${view.state}">${view.message}</p>` : nothing}
      ${spoke && !spoke.hidden ? html`${facts(spoke)}` : nothing}
      ${!spoke && app.fleet.isKnown ? nothing : html`<section><h2>Instances in error</h2>${isSilent ? html`<p class="quiet">Not known while the hub does not use the spoke.</p>` : html`${refusal(error, "instances")}${notes(errors, chosen.omitted)}${error ? nothing : failed()}`}</section>`}
      ${isSilent || (!spoke && app.fleet.isKnown) ? nothing : refusal(ledgerError, "the ledger")}
      ${spoke && !spoke.hidden ? html`<section><h2>Conditions</h2>${conditions(spoke)}</section><section><h2>Events</h2>${refusal(eventsError, "events")}${eventsError ? nothing : eventTable(eventsOf(text(spoke.metadata?.uid), events))}</section>${source(spoke)}` : nothing}`;
  };
  return { render, stop() { clearTimeout(due); ending.abort(); stopEvents(); } };
}
