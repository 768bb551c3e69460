// Definitions against clusters: how many instances there are, and how many of them are ready.

import { html, nothing } from "./vendor/lit-html.js";
import { at, get, notice, query } from "./api.js";
import { bar, chip, links, refusal, share, stateOfSpoke, text } from "./parts.js";
import { stateOfDefinition } from "./definitions.js";

export const title = () => "Matrix";

const CALM_MS = 250;

export function page(app) {
  let cells = new Map();
  let [error, failures] = [null, []];
  let due = null;
  let lastCost = 0;
  let ends = null;
  const ending = new AbortController();

  async function read() {
    const kind = app.kinds.map(({ resource }) => resource);
    if (!kind.length) return;
    const began = performance.now();
    try {
      const answer = await get(`/ui/api/instances${query({ kind, limit: 1 })}`, ending.signal);
      lastCost = performance.now() - began;
      cells = new Map(answer.cells.map((cell) => [`${cell.resource}/${cell.cluster}`, cell.counts]));
      [error, failures] = [null, answer.failures];
      if (!ends) watch(answer.resourceVersion);
    } catch (failure) {
      if (ending.signal.aborted) return;
      error = failure;
    }
    app.update();
  }

  function refresh() {
    due ??= setTimeout(() => { due = null; read(); }, Math.max(CALM_MS, 4 * lastCost));
  }

  function watch(resourceVersion) {
    ends = app.kinds.map(({ resource }) => {
      const [name, version, ...group] = resource.split(".");
      return notice(`${at("*")}/apis/${group.join(".")}/${version}/${name}`, resourceVersion, (event) => {
        if (!event) begin();
        else refresh();
      });
    });
  }

  function begin() {
    for (const end of ends ?? []) end();
    ends = null;
    read();
  }

  const cell = (resource, cluster) => {
    const counts = cells.get(`${resource}/${cluster}`);
    if (!counts) return html`<td class="none"><span class="quiet" aria-label="none">·</span></td>`;
    const look = counts.error ? "bad" : counts.ready === counts.total ? "" : "warn";
    return html`<td class=${look}><a href=${links.instances({ kind: resource, cluster })} title="${counts.ready} of ${counts.total} ready, ${counts.error} in error">${share(counts)}${bar(counts)}</a></td>`;
  };

  const render = () => {
    const spokes = new Map([...app.fleet.spokes.values()].map((it) => [it.name ?? text(it.metadata?.name), it]));
    const clusters = [...new Set([...spokes.keys(), ...[...cells.keys()].map((key) => key.split("/")[1])])].filter((it) => it !== "root")
      .sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
    const of = ({ cluster, name }) => [...app.definitions.objects.values()].find((it) => text(it.metadata?.name) === name
      && (text(it.metadata?.annotations?.["kcp.io/cluster"]) || "root") === cluster);
    return html`<div class="head"><h1 tabindex="-1">Matrix</h1><p class="summary">definitions by cluster: instances, or ready/all where some are not</p></div>
      ${refusal(error, "instances")}${failures.map((it) => refusal(it, it.resource))}
      ${app.kinds.length ? html`<div class="canvas" tabindex="0" role="group" aria-label="Matrix"><table class="matrix">
        <thead><tr><th scope="col">Definition</th><th scope="col" class="number">Revision</th>${clusters.map((name) => {
          const spoke = spokes.get(name);
          const state = spoke && !spoke.hidden ? stateOfSpoke(spoke).state : null;
          return html`<th scope="col"><a href=${links.spoke(name)}>${name}</a>${state && state !== "ready" ? html`<br>${chip(state)}` : nothing}</th>`;
        })}</tr></thead>
        <tbody>${app.kinds.map((kind) => {
          const definition = of(kind);
          const state = definition && stateOfDefinition(definition);
          return html`<tr><th scope="row">${kind.name ? html`<a href=${links.definition(kind.cluster, kind.name)}>${kind.kind}</a>` : kind.kind}
              ${state && state !== "ready" ? chip(state) : nothing}</th>
            <td class="number">${definition ? text(definition.status?.lastIssuedRevision) : ""}</td>${clusters.map((name) => cell(kind.resource, name))}</tr>`;
        })}</tbody></table></div>` : html`<p class="quiet">No definitions yet.</p>`}`;
  };
  read();
  return { render, kindsChanged: begin, stop() { clearTimeout(due); ending.abort(); for (const end of ends ?? []) end(); } };
}
