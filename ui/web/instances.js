// Instances over all clusters: searched, filtered, sorted and paged by the hub, of which the rows in sight are drawn.

import { html, nothing } from "./vendor/lit-html.js";
import { get, isFinal, query, waitAfter } from "./api.js";
import { asked, choose, UNWATCHED_MS, watching } from "./kinds.js";
import { ago, brief, chip, links, list, notes, plural, refusal, stateOf, trouble, text } from "./parts.js";

export const title = () => "Instances";

const ROW_HEIGHT = 34;
/** Rows that are asked for at a time. */
const BLOCK = 100;
/** Rows beyond the edge of what is seen. */
const MARGIN = 8;
/** The least time between two readings of what has changed; a reading takes longer in a large fleet, and then the next one waits longer. */
const CALM_MS = 250;
/** A pause in typing. */
const TYPING_MS = 150;
/** A pause in scrolling: what passes by is not read. */
const SCROLLING_MS = 100;
/** Blocks that are read at the same time. Each one is a search of the hub in all clusters. */
const AT_ONCE = 2;
/** What is found where there is no kind to ask for. */
const NOTHING = { total: 0, rows: [], states: {} };

const COLUMNS = [["state", "State"], ["cluster", "Cluster"], ["namespace", "Namespace"], ["name", "Name"], ["kind", "Kind"], ["created", "Age"]];
const FILTERS = [["", "All"], ["error", "Errors"], ["inProgress", "In progress"], ["deleting", "Deleting"], ["ready", "Ready"]];

export function page(app, _parts, search) {
  const filter = Object.fromEntries(["q", "cluster", "kind", "state", "sort"].map((name) => [name, search.get(name) ?? ""]));
  /** Rows by the place of their first one. */
  let blocks = new Map();
  /** What ends the reading of a block, by the same. */
  const readings = new Map();
  let summary = null;
  let error = null;
  let failures = 0;
  let [top, height] = [0, 800];
  let selected = -1;
  let [due, scrolling] = [null, null];
  let lastCost = 0;
  let isStopped = false;
  let chosen = choose([]);
  const watches = watching((event) => {
    if (event?.type === "MODIFIED") mend(event.object);
    refresh();
  });

  async function read(offset) {
    const ending = new AbortController();
    const { signal } = ending;
    readings.set(offset, ending);
    const began = performance.now();
    const parameters = { kind: chosen.kinds.map(asked), cluster: filter.cluster, q: filter.q, state: filter.state, sort: filter.sort, offset, limit: BLOCK };
    try {
      const answer = await get(`/ui/api/instances${query(parameters)}`, signal);
      if (signal.aborted) return;
      lastCost = performance.now() - began;
      error = null;
      blocks.set(offset, list(answer.rows));
      summary = answer;
      watches.from(chosen.kinds, answer.resourceVersions, filter.cluster);
      const isShort = list(answer.failures).some((it) => !isFinal(it));
      failures = isShort ? failures + 1 : 0;
      // What failed is read again, and so is what no watch tells of.
      if (isShort) refresh(waitAfter(failures));
      else if (watches.misses(chosen.kinds)) refresh(UNWATCHED_MS);
    } catch (failure) {
      if (signal.aborted) return;
      error = failure;
      // The block is missing still; it is read again after a pause, and not at once.
      if (!isFinal(failure)) refresh(waitAfter(failures++));
    } finally {
      if (readings.get(offset) === ending) readings.delete(offset);
    }
    if (!error) readMissing();
    app.update();
  }

  /** The first row of each block that is in sight. */
  function sight() {
    const first = Math.max(0, Math.floor(top / ROW_HEIGHT) - MARGIN);
    const last = Math.min(Math.ceil((top + height) / ROW_HEIGHT) + MARGIN, summary?.total ?? BLOCK);
    const starts = [];
    for (let start = first - (first % BLOCK); start < Math.max(last, 1); start += BLOCK) starts.push(start);
    return { first, last, starts };
  }

  function readMissing() {
    if (!chosen.kinds.length) {
      if (app.areKindsKnown) summary = NOTHING;
      return;
    }
    for (const start of sight().starts) {
      if (readings.size >= AT_ONCE) return;
      if (!blocks.has(start) && !readings.has(start)) read(start);
    }
  }

  /** Reads what is in sight, once it stays there, and nothing else any more. */
  function scrolled() {
    clearTimeout(scrolling);
    scrolling = setTimeout(() => {
      const { starts } = sight();
      for (const [start, ending] of readings) {
        if (starts.includes(start)) continue;
        ending.abort();
        readings.delete(start);
      }
      readMissing();
    }, SCROLLING_MS);
  }

  function end() {
    watches.end();
    clearTimeout(due?.timer);
    due = null;
    clearTimeout(scrolling);
    for (const ending of readings.values()) ending.abort();
    readings.clear();
  }

  /** Everything anew: another question. */
  function ask() {
    end();
    chosen = choose(app.kinds, { resource: filter.kind, cluster: filter.cluster });
    blocks = new Map();
    [summary, error] = [null, null];
    selected = -1;
    readMissing();
    const { q, cluster, kind, state, sort } = filter;
    history.replaceState(null, "", links.instances({ q, cluster, kind, state, sort }));
    app.update();
  }

  /** What is in sight anew, in a while, at the earliest time that is asked for: the rows stay until the new ones are there. */
  function refresh(wait = 0) {
    const time = performance.now() + Math.max(CALM_MS, 4 * lastCost, wait);
    if (isStopped || (due && due.time <= time)) return;
    clearTimeout(due?.timer);
    due = { time, timer: setTimeout(async () => {
      due = null;
      if (readings.size) {
        refresh();
        return;
      }
      const { starts } = sight();
      for (const start of blocks.keys()) if (!starts.includes(start)) blocks.delete(start);
      await Promise.all(starts.slice(0, AT_ONCE).map(read));
    }, time - performance.now()) };
  }

  /** Shows at once what a watch says of a row in sight; its place among the others follows. */
  function mend(object) {
    for (const rows of blocks.values()) {
      const row = rows?.find(({ uid }) => uid === object.metadata?.uid);
      if (!row) continue;
      const why = trouble(object);
      Object.assign(row, { state: stateOf(object), reason: text(why?.reason), message: text(why?.message) });
      app.update();
    }
  }

  const address = (row) => links.instance(row.resource, row.cluster, row.namespace, row.name);

  const line = (row, index) => html`<div role="row" aria-rowindex=${index + 2} class="row ${index === selected ? "selected" : ""}" .style=${`top:${index * ROW_HEIGHT}px`}>
    ${row ? html`<span role="cell">${chip(row.state)}</span>
      <span role="cell">${row.cluster}</span><span role="cell">${row.namespace}</span>
      <span role="cell"><a href=${address(row)} tabindex=${index === selected ? 0 : -1}>${row.name}</a></span>
      <span role="cell">${row.kind}</span><span role="cell" class="age" title=${row.created}>${ago(row.created)}</span>
      <span role="cell" class="message" title=${row.message || row.reason}>${row.state === "ready" ? nothing : brief(row.message) || row.reason}</span>`
    : html`<span role="cell" class="quiet">…</span>`}</div>`;

  const header = ([name, word]) => {
    const is = filter.sort.replace("-", "") === name || (!filter.sort && name === "state");
    const isDown = filter.sort.startsWith("-");
    return html`<span role="columnheader" aria-sort=${is ? (isDown ? "descending" : "ascending") : "none"}>
      <button type="button" class="flat" @click=${() => { filter.sort = is && !isDown ? `-${name}` : name; ask(); }}>${word}${is ? html`<i class="arrow ${isDown ? "down" : ""}" aria-hidden="true"></i>` : nothing}</button></span>`;
  };

  function keys(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20 }[event.key];
    const total = summary?.total ?? 0;
    if (event.key === "Enter" && event.target.classList.contains("scroller")) {
      const row = blocks.get(selected - (selected % BLOCK))?.[selected % BLOCK];
      if (row) location.hash = address(row);
    }
    if (!step || !total) return;
    event.preventDefault();
    selected = Math.max(0, Math.min(total - 1, selected + step));
    const scroller = event.currentTarget;
    const place = selected * ROW_HEIGHT;
    if (place < scroller.scrollTop) scroller.scrollTop = place;
    if (place + ROW_HEIGHT > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = place + ROW_HEIGHT - scroller.clientHeight;
    app.update();
  }

  let typing = null;
  const filterBy = (name) => (event) => {
    filter[name] = event.target.value;
    clearTimeout(typing);
    typing = setTimeout(ask, TYPING_MS);
  };

  /** One that is asked for and not there is named, too. */
  const clusters = () => [...new Set(["root", ...[...app.fleet.spokes.values()].map((spoke) => spoke.name ?? text(spoke.metadata?.name)).sort(), filter.cluster])].filter(Boolean);

  /** Whether a kind or a cluster was not read: the notes below say why. */
  const isShort = () => [summary?.failures, summary?.warnings].some((it) => list(it).length) || summary?.omitted;

  const render = () => {
    const { first, last } = sight();
    const rows = [];
    for (let index = first; summary && index < Math.min(last, summary.total); index += 1) {
      rows.push(line(blocks.get(index - (index % BLOCK))?.[index % BLOCK], index));
    }
    const states = summary?.states ?? {};
    return html`<div class="head"><h1 tabindex="-1">Instances</h1>
        <p class="summary" role="status">${summary ? plural(summary.total, "instance") : nothing}${isShort() ? html`, <b class="bad">not all are counted</b>` : nothing}</p>
        <input type="search" class="search" placeholder="Find: name, cluster, message" aria-label="Find instances by name, namespace, cluster, kind, state or message" .value=${filter.q} @input=${filterBy("q")}></div>
      <div class="filters">
        <div role="group" aria-label="State">${FILTERS.map(([state, word]) => html`<button type="button" aria-pressed=${filter.state === state ? "true" : "false"}
          @click=${() => { filter.state = state; ask(); }}>${word} <span class="count">${(state ? states[state] : states.total) ?? ""}</span></button>`)}</div>
        <label>Cluster <select @change=${filterBy("cluster")}><option value="">all</option>${clusters().map((name) => html`<option ?selected=${name === filter.cluster}>${name}</option>`)}</select></label>
        <label>Kind <select @change=${filterBy("kind")}><option value="">all</option>${[...new Map(app.kinds.map(({ resource, kind }) => [resource, kind]))].map(([resource, kind]) => html`<option value=${resource} ?selected=${resource === filter.kind}>${kind}</option>`)}</select></label>
      </div>
      ${refusal(error, "instances")}
      ${notes(summary, chosen.omitted)}
      <div class="table" role="table" aria-label="Instances" aria-rowcount=${(summary?.total ?? 0) + 1}>
        <div role="rowgroup" class="columns"><div role="row" aria-rowindex="1">${COLUMNS.map(header)}<span role="columnheader">What it waits for</span></div></div>
        <div role="rowgroup" class="scroller" tabindex="0" aria-label="Rows; arrow keys choose one, Enter opens it" @keydown=${keys}
          @scroll=${(event) => { top = event.target.scrollTop; scrolled(); app.update(); }}>
          <div role="presentation" class="rows" .style=${`height:${(summary?.total ?? 0) * ROW_HEIGHT}px`}>${rows}</div>
          ${summary && !summary.total ? html`<p class="quiet none">${filter.q || filter.state || filter.cluster || filter.kind ? "No instance matches." : "No instances yet."}</p>` : nothing}
        </div></div>`;
  };

  const rendered = () => {
    const now = document.querySelector(".scroller")?.clientHeight;
    if (now && now !== height) {
      height = now;
      readMissing();
      app.update();
    }
  };

  ask();
  return {
    render, rendered, kindsChanged: ask,
    stop() {
      isStopped = true;
      clearTimeout(typing);
      end();
    },
  };
}
