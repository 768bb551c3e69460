// The fleet: a tile per spoke, trouble first.

import { html, nothing } from "./vendor/lit-html.js";
import { stateOfDefinition } from "./definitions.js";
import { STATES, bar, chip, heard, isAway, links, plural, rank, refusal, share, stateOfSpoke, text, when } from "./parts.js";

export const title = () => "Fleet";

/** What a tile shows of a spoke. */
const viewOf = (spoke) => {
  if (spoke.hidden) return { spoke, name: spoke.name, state: "hidden", message: "You may use this cluster, but not read its Spoke." };
  return { spoke, name: text(spoke.metadata?.name), ...stateOfSpoke(spoke) };
};

const matches = ({ name, state, message, spoke }, words) => {
  const labels = Object.entries(spoke.metadata?.labels ?? {}).map(([key, value]) => `${key}=${value}`);
  const all = [name, state, message, text(spoke.status?.version), ...labels].join(" ").toLowerCase();
  return words.every((word) => all.includes(word));
};

export function page(app) {
  let search = "";
  let isTroubleOnly = false;
  const tile = ({ spoke, name, state, message, since }) => {
    const status = spoke.status ?? {};
    const counts = status.instances;
    const labels = Object.entries(spoke.metadata?.labels ?? {});
    // What is not heard of is not shown as well.
    const isStale = isAway(state);
    const queue = Number(status.queue?.ready ?? 0);
    return html`<li class="tile ${state}" data-spoke=${name} data-state=${state}>
      <header><h2><a href=${links.spoke(name)}>${name}</a></h2>${chip(state)}</header>
      ${message ? html`<p class="why" title=${message}>${message}${since && !message.includes(" since ") ? html` <span class="quiet">since ${when(since)}</span>` : nothing}</p>` : nothing}
      ${counts ? html`<p class="counts ${isStale ? "stale" : ""}">${bar(counts)}
        <a href=${links.instances({ cluster: name })}><b class=${counts.ready === counts.total ? "" : "short"}>${share(counts)}</b> ${Number(counts.total) === 1 ? "instance" : "instances"}</a>
        ${isStale ? html`<span class="quiet">last known</span>` : nothing}
        ${counts.error ? html`<a class="bad" href=${links.instances({ cluster: name, state: "error" })}>${plural(counts.error, "error")}</a>` : nothing}
        ${counts.inProgress ? html`<span class="busy">${counts.inProgress} in progress</span>` : nothing}</p>` : nothing}
      <p class="facts">${status.version ? html`<span title="Version">${text(status.version)}</span>` : nothing}
        ${status.lastHeartbeatTime ? html`<span>heard ${isStale ? when(status.lastHeartbeatTime) : heard(status.lastHeartbeatTime)}</span>` : nothing}
        ${queue ? html`<span>${queue} queued</span>` : nothing}
        ${status.circuit?.state && status.circuit.state !== "Closed" ? html`<span class="warn">circuit ${text(status.circuit.state)}</span>` : nothing}</p>
      ${labels.length ? html`<p class="labels">${labels.slice(0, 6).map(([key, value]) => html`<span>${key}=${text(value)}</span>`)}${labels.length > 6 ? html`<span>${labels.length - 6} more</span>` : nothing}</p>` : nothing}
    </li>`;
  };
  const render = () => {
    const { spokes, error, isKnown } = app.fleet;
    const all = [...spokes.values()].map(viewOf);
    const words = search.toLowerCase().split(/\s+/).filter(Boolean);
    const isTroubled = ({ state }) => rank(state) < rank("suspended") && state !== "deleting";
    const troubled = all.filter(isTroubled).length;
    if (!troubled) isTroubleOnly = false;
    const refused = [...app.definitions.objects.values()].filter((it) => stateOfDefinition(it) === "error").length;
    // What is neither well nor in trouble is counted, too.
    const quiet = ["deleting", "suspended", "hidden"].map((state) => [state, all.filter((it) => it.state === state).length]).filter(([, count]) => count);
    const shown = all.filter((it) => matches(it, words) && (!isTroubleOnly || isTroubled(it)))
      .sort((one, other) => rank(one.state) - rank(other.state) || one.name.localeCompare(other.name, "en", { numeric: true }));
    const sum = (field) => all.reduce((count, { spoke }) => count + Number(spoke.status?.instances?.[field] ?? 0), 0);
    return html`<div class="head"><h1 tabindex="-1">Fleet</h1>
        ${all.length ? html`<p class="summary">${plural(all.length, "spoke")}${troubled ? html`, <button type="button" class="flat bad" aria-pressed=${isTroubleOnly ? "true" : "false"} title=${isTroubleOnly ? "Show all" : "Show these alone"}
          @click=${() => { isTroubleOnly = !isTroubleOnly; app.update(); }}>${troubled} in trouble</button>` : !refused && all.every(({ state }) => state === "ready") && sum("ready") === sum("total") ? ", all well" : nothing}${quiet.map(([state, count]) => `, ${count} ${STATES[state].word.toLowerCase()}`)}
          ${refused ? html`<span class="quiet">·</span> <a class="bad" href=${links.definitions}>${plural(refused, "definition")} inactive</a>` : nothing}
          <span class="quiet">·</span> ${share({ ready: sum("ready"), total: sum("total") })} ${sum("total") === 1 ? "instance" : "instances"} ready</p>` : nothing}
        <input type="search" class="search" placeholder="Find a spoke" aria-label="Find a spoke by name, state, version or label" .value=${search}
          @input=${(event) => { search = event.target.value; app.update(); }}></div>
      ${refusal(error, "the fleet")}
      ${shown.length ? html`<ul class="tiles" aria-label="Spokes, trouble first">${shown.map(tile)}</ul>` : nothing}
      ${isKnown && !all.length && !error && app.fleet.isOwn ? html`<div class="empty"><h2>You see no spokes</h2><p>You may neither list Spokes nor access one. An administrator grants it in root:</p>
        <pre><code>kubectl create clusterrole enter-NAME --verb=access --resource=spokes.wheelhouse.dev --resource-name=NAME
kubectl create clusterrolebinding enter-NAME --clusterrole=enter-NAME --user=${app.user}</code></pre></div>` : nothing}
      ${isKnown && !all.length && !error && !app.fleet.isOwn ? html`<div class="empty"><h2>No spokes yet</h2><p>Join a cluster:</p><pre><code>wheelhouse spoke add NAME --from KUBECONFIG</code></pre></div>` : nothing}
      ${all.length && !shown.length ? html`<p class="quiet">${search ? html`No spoke matches “${search}”.` : "No spoke is in trouble."}</p>` : nothing}
      ${isKnown || error ? nothing : html`<p class="quiet">Reading the fleet …</p>`}`;
  };
  return { render, stop() {} };
}
