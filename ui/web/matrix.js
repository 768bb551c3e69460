// Definitions against clusters: how many instances there are, how many of them are ready, and which revision they have.

import { html, nothing } from "./vendor/lit-html.js";
import { get, isFinal, query, waitAfter } from "./api.js";
import { asked, choose, UNWATCHED_MS, watching } from "./kinds.js";
import { bar, chip, isAway, links, list, notes, refusal, share, stateOfSpoke, text } from "./parts.js";
import { chipOfDefinition, clusterOf, stateOfDefinition } from "./definitions.js";

export const title = () => "Matrix";

const CALM_MS = 250;

export function page(app) {
  let cells = new Map();
  let [error, answer] = [null, null];
  let due = null;
  let lastCost = 0;
  let failures = 0;
  let isReading = false;
  let reading = new AbortController();
  let chosen = choose([]);
  const watches = watching(() => refresh());

  async function read() {
    const { signal } = reading;
    if (!chosen.kinds.length) return;
    if (isReading) {
      refresh();
      return;
    }
    isReading = true;
    const began = performance.now();
    try {
      const found = await get(`/ui/api/instances${query({ kind: chosen.kinds.map(asked), limit: 1 })}`, signal);
      if (signal.aborted) return;
      lastCost = performance.now() - began;
      cells = new Map(list(found.cells).map((cell) => [`${cell.resource}/${cell.cluster}`, cell]));
      [error, answer] = [null, found];
      watches.from(chosen.kinds, found.resourceVersions);
      const isShort = list(found.failures).some((it) => !isFinal(it));
      failures = isShort ? failures + 1 : 0;
      // What failed is read again, and so is what no watch tells of.
      if (isShort) refresh(waitAfter(failures));
      else if (watches.misses(chosen.kinds)) refresh(UNWATCHED_MS);
    } catch (failure) {
      if (signal.aborted) return;
      error = failure;
      if (!isFinal(failure)) refresh(waitAfter(failures++));
    } finally {
      if (!signal.aborted) isReading = false;
    }
    app.update();
  }

  /** Reads anew, in a while: at the earliest time that is asked for. */
  function refresh(wait = 0) {
    const time = performance.now() + Math.max(CALM_MS, 4 * lastCost, wait);
    if (reading.signal.aborted || (due && due.time <= time)) return;
    clearTimeout(due?.timer);
    due = { time, timer: setTimeout(() => { due = null; read(); }, time - performance.now()) };
  }

  function begin() {
    end();
    reading = new AbortController();
    isReading = false;
    chosen = choose(app.kinds);
    read();
  }

  function end() {
    clearTimeout(due?.timer);
    due = null;
    reading.abort();
    watches.end();
  }

  /** By which revisions the instances of a cell were reconciled, and whether that is the one that the definition has now. */
  const revision = (found, latest) => {
    const [first, last] = [Number(found?.first), Number(found?.last)];
    if (!first || !last) return nothing;
    const isBehind = Number(latest) > 0 && first !== Number(latest);
    const said = first === last ? `r${first}` : `r${first}–${last}`;
    const spoken = isBehind ? `revision ${said.slice(1)} of ${latest}` : `revision ${said.slice(1)}`;
    return html`<small class=${isBehind ? "revision behind" : "revision"} title=${spoken}>${said}</small>`;
  };

  const cell = (kind, cluster, latest, isStale) => {
    const { resource } = kind;
    const found = kind.cluster === "root" || kind.cluster === cluster ? cells.get(`${resource}/${cluster}`) : null;
    const counts = found?.counts;
    if (!counts && isStale) return html`<td class="none"><span class="quiet" title="not read: the cluster is away">?</span></td>`;
    if (!counts) return html`<td class="none"><span class="quiet" aria-label="none">·</span></td>`;
    const look = counts.error ? "bad" : counts.ready === counts.total ? "" : "warn";
    return html`<td class="${look} ${isStale ? "stale" : ""}"><a href=${links.instances({ kind: resource, cluster })} title="${counts.ready} of ${counts.total} ready, ${counts.error} in error">${share(counts)}${revision(found.revisions, latest)}${bar(counts)}</a></td>`;
  };

  /** Definitions in error that no kind is served for. */
  const unserved = () => [...app.definitions.objects.values()].filter((it) => stateOfDefinition(it) === "error"
    && !app.kinds.some(({ cluster, name }) => name === text(it.metadata?.name) && cluster === clusterOf(it)));

  const render = () => {
    const spokes = new Map([...app.fleet.spokes.values()].map((it) => [it.name ?? text(it.metadata?.name), it]));
    const clusters = [...new Set([...spokes.keys(), ...[...cells.keys()].map((key) => key.split("/")[1])])]
      .sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
    const of = ({ cluster, name }) => [...app.definitions.objects.values()].find((it) => text(it.metadata?.name) === name && clusterOf(it) === cluster);
    const stateOf = (name) => {
      const spoke = spokes.get(name);
      return spoke && !spoke.hidden ? stateOfSpoke(spoke).state : null;
    };
    return html`<div class="head"><h1 tabindex="-1">Matrix</h1><p class="summary">definitions by cluster: instances, or ready/all where some are not, and their revision; · none</p></div>
      ${refusal(error, "instances")}${notes(answer, chosen.omitted)}
      ${chosen.kinds.length || unserved().length ? html`<div class="canvas" tabindex="0" role="group" aria-label="Matrix"><table class="matrix">
        <thead><tr><th scope="col">Definition</th><th scope="col" class="number">Revision</th>${clusters.map((name) => {
          const state = stateOf(name);
          return html`<th scope="col"><a href=${name === "root" ? links.instances({ cluster: name }) : links.spoke(name)}>${name}</a>${state && state !== "ready" ? html`<br>${chip(state)}` : nothing}</th>`;
        })}</tr></thead>
        <tbody>${chosen.kinds.map((kind) => {
          const definition = of(kind);
          const latest = text(definition?.status?.lastIssuedRevision);
          const state = definition && stateOfDefinition(definition);
          return html`<tr><th scope="row">${kind.name ? html`<a href=${links.definition(kind.cluster, kind.name)}>${kind.kind}</a>` : kind.kind}
              ${kind.name && kind.name !== kind.kind ? html`<span class="quiet">${kind.name}</span>` : nothing} ${state && state !== "ready" ? chipOfDefinition(definition) : nothing}</th>
            <td class="number">${latest}</td>${clusters.map((name) => cell(kind, name, latest, isAway(stateOf(name))))}</tr>`;
        })}${unserved().map((it) => html`<tr><th scope="row"><a href=${links.definition(clusterOf(it), text(it.metadata?.name))}>${text(it.spec?.schema?.kind)}</a>
              <span class="quiet">${text(it.metadata?.name)}</span> ${chipOfDefinition(it)}</th><td class="number">${text(it.status?.lastIssuedRevision)}</td>
              <td class="none" colspan=${Math.max(1, clusters.length)}><span class="quiet">its kind is not served</span></td></tr>`)}</tbody></table></div>` : html`<p class="quiet">No definitions yet.</p>`}`;
  };
  begin();
  return { render, kindsChanged: begin, stop: end };
}
