// Definitions, and one of them with its graph.

import { html, nothing } from "./vendor/lit-html.js";
import { at, follow, get, isFinal, waitAfter } from "./api.js";
import { drawing } from "./graph.js";
import { preview } from "./preview.js";
import { chip, condition, conditions, eventsOf, eventTable, links, list, refusal, source, text, trouble, when, yaml } from "./parts.js";

export const title = ([, name]) => name ?? "Definitions";

export const clusterOf = (object) => text(object.metadata?.annotations?.["kcp.io/cluster"]) || "root";

export function stateOfDefinition(definition) {
  if (definition.metadata?.deletionTimestamp) return "deleting";
  const ready = condition(definition, "Ready");
  if (ready?.status === "True") return "ready";
  if (ready?.status === "False") return text(definition.status?.state) === "Active" ? "degraded" : "error";
  return definition.status?.conditions ? "inProgress" : "unknown";
}

/** Its state in kro's words, where kro has one. */
const WORDS = { ready: "Active", degraded: "Active, not ready", error: "Inactive" };
export const chipOfDefinition = (definition) => {
  const state = stateOfDefinition(definition);
  return chip(state, WORDS[state]);
};

export const page = (app, parts) => (parts.length ? one(app, parts) : all(app));

function all(app) {
  const added = preview(app, "root");
  const render = () => {
    const { objects, error } = app.definitions;
    const rows = [...objects.values()].sort((it, other) => text(it.metadata?.name).localeCompare(text(other.metadata?.name)));
    return html`<div class="head"><h1 tabindex="-1">Definitions</h1><p class="summary">${rows.length || nothing}</p></div>
      ${refusal(error, "definitions")}
      ${rows.length ? html`<table class="plain wide"><thead><tr><th scope="col">Name</th><th scope="col">Kind</th><th scope="col">Where</th><th scope="col">State</th>
        <th scope="col" class="number">Revision</th><th scope="col" class="number">Nodes</th><th scope="col">Why</th><th scope="col">Age</th></tr></thead>
        <tbody>${rows.map((it) => {
          const [state, why] = [stateOfDefinition(it), trouble(it)];
          return html`<tr><th scope="row"><a href=${links.definition(clusterOf(it), text(it.metadata?.name))}>${text(it.metadata?.name)}</a></th>
            <td>${text(it.spec?.schema?.kind)}</td><td>${clusterOf(it) === "root" ? html`<span class="quiet">fleet</span>` : clusterOf(it)}</td>
            <td>${chipOfDefinition(it)}</td><td class="number">${text(it.status?.lastIssuedRevision)}</td><td class="number">${list(it.spec?.resources).length}</td>
            <td class="prose">${state === "ready" ? nothing : text(why?.message) || text(why?.reason)}</td><td>${when(it.metadata?.creationTimestamp)}</td></tr>`;
        })}</tbody></table>` : error ? nothing : html`<p class="quiet">No definitions yet. A ResourceGraphDefinition in root offers its kind to the whole fleet.</p>`}
      ${added.render(null)}`;
  };
  return { render, stop() { added.stop(); } };
}

function one(app, [cluster, name]) {
  let graph = null;
  let error = null;
  let shown = null;
  let chosen = null;
  let isReading = false;
  const ending = new AbortController();
  let failures = 0;
  let due = null;
  const change = preview(app, cluster);
  let [events, eventsError] = [[], null];
  const stopEvents = follow(`${at(cluster)}/api/v1/namespaces/default/events`, {
    parameters: { fieldSelector: `involvedObject.kind=ResourceGraphDefinition,involvedObject.name=${name}` },
    changed(objects) { events = [...objects.values()]; app.update(); },
    told(failure) { eventsError = failure; app.update(); },
  });
  const find = () => [...app.definitions.objects.values()].find((it) => text(it.metadata?.name) === name && clusterOf(it) === cluster);
  /** Draws anew where the definition, or what the compiler says of it, has changed. */
  async function draw(version) {
    if (version === shown || isReading) return;
    [shown, isReading] = [version, true];
    clearTimeout(due);
    const { signal } = ending;
    try {
      const found = await get(`/ui/api/drawing/${encodeURIComponent(cluster)}/${encodeURIComponent(name)}`, signal);
      if (signal.aborted) return;
      [graph, error, failures] = [found, null, 0];
    } catch (failure) {
      if (signal.aborted) return;
      error = failure;
      if (!isFinal(failure)) due = setTimeout(() => { shown = null; app.update(); }, waitAfter(failures++));
    }
    isReading = false;
    app.update();
  }
  const render = () => {
    const definition = find();
    draw(text(definition?.metadata?.resourceVersion) || "none");
    const kind = app.kinds.find((it) => it.name === name && it.cluster === cluster);
    const state = definition && stateOfDefinition(definition);
    const why = definition && state !== "ready" ? trouble(definition) : null;
    const node = list(definition?.spec?.resources).find((it) => it?.id === chosen);
    return html`<div class="head"><h1 tabindex="-1">${name}</h1>${definition ? chipOfDefinition(definition) : nothing}
        <p class="summary">${graph?.kind ? html`defines <b>${graph.kind}</b>` : nothing} ${cluster === "root" ? "for the fleet" : html`for <a href=${links.spoke(cluster)}>${cluster}</a>`}
        ${kind ? html`<span class="quiet">·</span> <a href=${links.instances({ kind: kind.resource, cluster: cluster === "root" ? "" : cluster })}>its instances</a>` : nothing}</p></div>
      ${refusal(error, name)}
      ${!definition && app.areKindsKnown && !app.definitions.error ? html`<p class="refusal" role="alert"><b>You see no definition of this name.</b></p>` : nothing}
      ${why ? html`<p class="waits ${state}"><b>${text(why.reason)}</b> ${text(why.message)}${kind && state === "error" && definition.status?.lastIssuedRevision ? html` <span class="quiet">Revision ${text(definition.status.lastIssuedRevision)} stays in use.</span>` : nothing}</p>` : nothing}
      <section aria-label="Graph">${drawing(graph, { chosen, choose: (id) => { chosen = id; app.update(); } })}</section>
      ${node ? html`<section aria-label="Node ${chosen}"><h2>${chosen}</h2><pre tabindex="0"><code>${yaml(node)}</code></pre></section>` : nothing}
      ${definition ? change.render(definition) : nothing}
      ${definition ? html`<section><h2>Conditions</h2>${conditions(definition)}</section>
        <section><h2>Events</h2>${refusal(eventsError, "events")}${eventsError ? nothing : eventTable(eventsOf(text(definition.metadata?.uid), events))}</section>${source(definition)}` : nothing}`;
  };
  return { render, stop() { clearTimeout(due); ending.abort(); change.stop(); stopEvents(); } };
}
