// A graph that the hub has laid out, as SVG. Shape, word and colour say the same.

import { html, nothing, svg } from "./vendor/lit-html.js";
import { text } from "./parts.js";

const PAD = 10;
/** Characters that fit on a node. */
const FIT = 22;

const short = (words) => (words.length > FIT ? `${words.slice(0, FIT - 1)}…` : words);

/** A smooth arrow through its points. */
function path(points) {
  const [[x, y], ...rest] = points;
  let drawn = `M${x} ${y}`;
  let [beforeX, beforeY] = [x, y];
  rest.forEach(([nextX, nextY]) => {
    const middle = (beforeX + nextX) / 2;
    drawn += beforeY === nextY ? `L${nextX} ${nextY}` : `C${middle} ${beforeY} ${middle} ${nextY} ${nextX} ${nextY}`;
    [beforeX, beforeY] = [nextX, nextY];
  });
  return drawn;
}

const TRAITS = { collection: "for each", conditional: "conditional", external: "read only", gated: "waits for ready" };
const is = (node, it) => node.traits.includes(it);

/**
 * Draws a graph. `stateOf(node)` gives `{look, word}` of a node, or nothing; `first` is the node that holds the others up; `chosen` is the
 * id that is looked at, and `choose(id)` looks at another one.
 */
export function drawing(graph, { stateOf = () => null, first = null, chosen = null, choose = () => {} } = {}) {
  if (!graph) return nothing;
  if (!graph.nodes.length) return html`<p class="quiet">The graph has no nodes.</p>`;
  const [width, height] = [graph.width + 2 * PAD, graph.height + 2 * PAD];
  const node = (it) => {
    const state = stateOf(it);
    const label = [it.id, it.kind, state?.word, ...it.traits.map((one) => TRAITS[one]), it.dependencies.length ? `needs ${it.dependencies.join(", ")}` : ""].filter(Boolean).join(", ");
    const pick = () => choose(it.id === chosen ? null : it.id);
    return svg`<g class="node ${state?.look ?? "plain"} ${it.id === first ? "first" : ""} ${it.id === chosen ? "chosen" : ""}" transform="translate(${it.x} ${it.y})"
        role="button" tabindex="0" aria-label=${label} aria-pressed=${it.id === chosen ? "true" : "false"} data-node=${it.id}
        @click=${pick} @keydown=${(event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); pick(); } }}>
      <title>${label}</title>
      ${is(it, "collection") ? svg`<rect class="behind" x="4" y="-4" width=${it.width} height=${it.height} rx="6"></rect>` : nothing}
      <rect class="box ${is(it, "conditional") ? "dashed" : ""}" width=${it.width} height=${it.height} rx="6"></rect>
      <circle class="dot" cx="14" cy="19" r="4.5"></circle>
      <text class="id" x="26" y="23">${short(it.id)}</text>
      <text class="kind" x="14" y="41">${short(text(it.kind))}</text>
      ${state ? svg`<text class="state" x=${it.width - 10} y="41" text-anchor="end">${state.word}</text>` : nothing}
    </g>`;
  };
  return html`<div class="canvas" tabindex="0" role="group" aria-label="Graph of ${graph.name}">
    <svg viewBox="${-PAD} ${-PAD} ${width} ${height}" width=${width} height=${height}>
      <defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z"></path></marker></defs>
      ${graph.edges.map((edge) => svg`<path class="edge ${chosen && (edge.from === chosen || edge.to === chosen) ? "lit" : ""}" d=${path(edge.points)} marker-end="url(#tip)"></path>`)}
      ${graph.nodes.map(node)}
    </svg></div>
    ${graph.compiled ? nothing : html`<p class="quiet">The definition as it stands was not accepted, so its dependencies are not known.</p>`}
    ${graph.omitted ? html`<p class="quiet">${graph.omitted} further nodes are not drawn.</p>` : nothing}`;
}
