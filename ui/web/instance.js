// One instance: what it waits for, its graph with the state of each node, its children live, events, YAML.

import { html, nothing } from "./vendor/lit-html.js";
import { at, DEFINITIONS, follow, get, isFinal, waitAfter } from "./api.js";
import { clusterOf } from "./definitions.js";
import { drawing } from "./graph.js";
import { comparison } from "./preview.js";
import { ago, brief, chip, conditions, eventTable, links, list, refusal, source, stateOf, text, trouble, when } from "./parts.js";

export const title = ([, cluster, , name]) => `${name} in ${cluster}`;

/** Whether a child looks ready by itself: what its own status says, where it says anything. */
function healthOf(child) {
  if (child.metadata?.deletionTimestamp) return { state: "deleting", word: "Deleting" };
  const all = list(child.status?.conditions);
  const failed = all.find((it) => ["Ready", "Available", "Complete", "Established"].includes(it?.type) && it.status === "False");
  const { replicas } = child.spec ?? {};
  if (Number.isInteger(replicas)) {
    const ready = Number(child.status?.availableReplicas ?? child.status?.readyReplicas ?? 0);
    return { state: ready >= replicas ? "ready" : "inProgress", word: `${ready}/${replicas}` };
  }
  if (failed) return { state: "inProgress", word: text(failed.reason) || "Not ready" };
  return { state: "ready", word: "Present" };
}

/** What the status of an instance says of a node: how it looks, for each state that there is. */
const TOLD = {
  SYNCED: { look: "good", word: "Ready" }, SKIPPED: { look: "off", word: "Left out" }, ERROR: { look: "bad", word: "Failed" },
  WAITING_FOR_READINESS: { look: "busy", word: "Not ready" }, IN_PROGRESS: { look: "busy", word: "In progress" }, DELETING: { look: "busy", word: "Deleting" },
};

/** Reasons of nodes that only wait for another one. */
const OF_OTHERS = ["IncludeWhenPending", "DependencyNotReady", "DependencyFailed", "DataPending", "NotReached"];

/** By how much the clock of a spoke may be behind the hub's. */
const CLOCKS_APART_MS = 10_000;

const LOOK = { ready: "good", inProgress: "busy", deleting: "busy", error: "bad" };

export function page(app, [resource, cluster, space, name]) {
  const namespace = space === "-" ? "" : space;
  const [plural, version, ...rest] = resource.split(".");
  const group = rest.join(".");
  const segment = encodeURIComponent;
  const within = namespace ? `/namespaces/${segment(namespace)}` : "";
  const path = `${at(cluster)}/apis/${segment(group)}/${segment(version)}${within}/${segment(plural)}`;
  let instance = null;
  /** Whether the hub has said that there is none of this name: it is gone, or was never there. */
  let isGone = false;
  let [error, ledgerError, graphError, eventsError] = [null, null, null, null];
  let ledger = null;
  let graph = null;
  let events = [];
  let chosen = null;
  const children = new Map();
  const childErrors = new Map();
  const ends = [];
  const followed = new Map();
  const ending = new AbortController();
  let due = null;
  const compared = comparison(app, { cluster, namespace, name });

  ends.push(follow(path, {
    parameters: { fieldSelector: `metadata.name=${name}` },
    changed(objects) {
      const found = [...objects.values()][0];
      isGone = !found;
      if (found) {
        if (instance?.metadata?.uid !== found.metadata?.uid) begin(found);
        instance = found;
      }
      app.update();
    },
    told(failure) { error = failure; app.update(); },
  }));

  /** What hangs on the uid of an instance. */
  function begin(found) {
    const { uid } = found.metadata;
    for (const end of ends.splice(1)) end();
    followed.clear();
    children.clear();
    ends.push(follow(`${at(cluster)}/apis/internal.wheelhouse.dev/v1alpha1/inventories`, {
      parameters: { fieldSelector: `metadata.name=${uid}` },
      changed(objects) { ledger = [...objects.values()][0] ?? null; followChildren(uid); app.update(); },
      told(failure) { ledgerError = failure; app.update(); },
    }));
    // By name: a spoke knows the instance by the uid of its mirror.
    ends.push(follow(`${at(cluster)}/api/v1${within}/events`, {
      parameters: { fieldSelector: `involvedObject.kind=${text(found.kind)},involvedObject.name=${name}` },
      changed(objects) { events = [...objects.values()]; app.update(); },
      told(failure) { eventsError = failure; app.update(); },
    }));
    draw(found);
  }

  /** The definition of the instance: its name, and the logical clusters in which it may be. */
  function definitionOf(found) {
    const label = (part) => text(found?.metadata?.labels?.[`kro.run/resource-graph-definition-${part}`]);
    const known = app.definitions.objects.get(label("id"));
    // Who may not list definitions may still read one: the cluster's own comes before one of root with the same name.
    return { definition: label("name"), homes: known ? [clusterOf(known)] : [cluster, "root"] };
  }

  async function readDefinition() {
    const { definition, homes } = definitionOf(instance);
    let failure = null;
    for (const home of homes) {
      try {
        return { home, definition: await get(`${at(home)}${DEFINITIONS}/${segment(definition)}`, ending.signal) };
      } catch (refused) {
        failure = refused;
      }
    }
    throw failure;
  }

  async function draw(found, failures = 0) {
    clearTimeout(due);
    const { definition, homes } = definitionOf(found);
    if (!definition) return;
    for (const where of homes) {
      try {
        const drawn = await get(`/ui/api/drawing/${segment(where)}/${segment(definition)}`, ending.signal);
        if (ending.signal.aborted) return;
        [graph, graphError] = [drawn, null];
        break;
      } catch (failure) {
        if (ending.signal.aborted) return;
        graphError = failure;
      }
    }
    // One that was refused for a reason that passes is asked for again.
    if (graphError && !isFinal(graphError)) due = setTimeout(() => draw(found, failures + 1), waitAfter(failures));
    app.update();
  }

  /** One watch per kind and namespace of the children that the ledger names. */
  function followChildren(uid) {
    for (const member of list(ledger?.spec?.members).filter(Boolean)) {
      const { group: of = "", version: its, resource: their, namespace: where = "" } = member;
      if (!their) continue;
      const base = of ? `/apis/${segment(of)}/${segment(its)}` : `/api/${segment(its)}`;
      const list_ = `${at(cluster)}${base}${where ? `/namespaces/${segment(where)}` : ""}/${segment(their)}`;
      if (followed.has(list_)) continue;
      followed.set(list_, true);
      ends.push(follow(list_, {
        parameters: { labelSelector: `kro.run/instance-id=${uid}` },
        changed(objects) { children.set(list_, objects); app.update(); },
        told(failure) { childErrors.set(list_, failure); app.update(); },
      }));
    }
  }

  const live = () => [...children.values()].flatMap((objects) => [...objects.values()]);
  const nodeOf = (object) => text(object.metadata?.labels?.["kro.run/node-id"]);

  /** Whether all that is there for a node is ready. Its own needs are not looked at: in a graph with a circle they have no end. */
  const isReady = (node) => {
    const mine = live().filter((object) => nodeOf(object) === node.id);
    return mine.length > 0 && mine.every((object) => healthOf(object).state === "ready");
  };

  /** What the instance's own status says of a node; without the gate InstanceNodeStatus it says nothing. */
  const toldOf = (id) => list(instance?.status?.nodes).find((it) => it?.id === id && Object.hasOwn(TOLD, it.state));

  /** The state of a node: as the status has it, and else from what is there for it, and what the definition says of it. */
  function stateOfNode(node) {
    const told = toldOf(node.id);
    if (told) {
      if (OF_OTHERS.includes(told.reason)) return { look: "off", word: "Waits" };
      const { look, word } = TOLD[told.state];
      return { look, word: Number.isInteger(told.desired) && told.desired > 1 ? `${text(told.observed)}/${told.desired}` : word };
    }
    const mine = live().filter((object) => nodeOf(object) === node.id);
    const members = list(ledger?.spec?.members).filter((member) => member?.node === node.id);
    if (mine.length) {
      const all = mine.map(healthOf);
      const worst = all.find(({ state }) => state !== "ready") ?? all[0];
      const word = node.traits.includes("collection") || mine.length > 1 ? `${all.filter(({ state }) => state === "ready").length}/${mine.length}` : worst.word;
      return { look: LOOK[worst.state], word };
    }
    if (members.some(({ applied }) => applied)) return { look: "unknown", word: ledger ? "Applied" : "Unknown" };
    if (node.traits.includes("external")) return { look: "plain", word: "Read" };
    if (stateOf(instance) === "ready") return { look: "off", word: node.traits.includes("conditional") ? "Left out" : "None" };
    if (!ledger) return { look: "unknown", word: "" };
    const waits = node.dependencies.some((id) => {
      const other = graph.nodes.find((it) => it.id === id);
      return other && !other.traits.includes("external") && !isReady(other);
    });
    if (waits) return { look: "off", word: "Waits" };
    if (stateOf(instance) === "error") return { look: "bad", word: "Failed" };
    return { look: "busy", word: node.traits.includes("conditional") ? "Not there" : "Next" };
  }

  /** The node that the others wait for: the first of the order that is not good and whose own needs are. */
  const blocking = () => {
    if (!graph || !instance || stateOf(instance) === "ready") return null;
    return graph.nodes.find((node) => ["busy", "bad"].includes(stateOfNode(node).look))?.id ?? null;
  };

  const childRows = () => {
    const shown = live().filter((object) => !chosen || nodeOf(object) === chosen);
    const order = new Map((graph?.nodes ?? []).map((node, index) => [node.id, index]));
    shown.sort((one, other) => (order.get(nodeOf(one)) ?? 0) - (order.get(nodeOf(other)) ?? 0) || text(one.metadata?.name).localeCompare(text(other.metadata?.name)));
    if (!shown.length) return html`<p class="quiet">${chosen ? `Nothing is there for ${chosen}.` : "No children yet."}</p>`;
    const kinds = new Map(list(ledger?.spec?.members).map((member) => [`${text(member?.node)}/${text(member?.name)}`, text(member?.kind)]));
    return html`<table class="plain"><thead><tr><th scope="col">Node</th><th scope="col">Kind</th><th scope="col">Name</th><th scope="col">State</th><th scope="col">Age</th></tr></thead>
      <tbody>${shown.map((object) => {
        const { state, word } = healthOf(object);
        return html`<tr><th scope="row">${nodeOf(object)}</th><td>${text(object.kind) || kinds.get(`${nodeOf(object)}/${text(object.metadata?.name)}`)}</td>
          <td>${object.metadata?.namespace && object.metadata.namespace !== namespace ? `${object.metadata.namespace}/` : ""}${text(object.metadata?.name)}</td>
          <td>${chip(state, word)}</td><td>${ago(object.metadata?.creationTimestamp)}</td></tr>`;
      })}</tbody></table>`;
  };

  /** Events since the instance is there, as far as clocks agree: its name may have been another one's. */
  const lately = () => {
    const time = (it) => text(it.lastTimestamp ?? it.eventTime ?? it.metadata?.creationTimestamp);
    const since = Date.parse(text(instance?.metadata?.creationTimestamp)) - CLOCKS_APART_MS;
    return events.filter((it) => !(/^\d{4}-/.test(time(it)) && Date.parse(time(it)) < since));
  };

  /** The kind, which leads to its definition. */
  const kindLink = () => {
    const { definition, homes } = definitionOf(instance);
    return definition ? html`<a href=${links.definition(homes[0], definition)}>${text(instance?.kind)}</a>` : text(instance?.kind);
  };

  const render = () => {
    const state = instance && stateOf(instance);
    const why = instance && state !== "ready" ? trouble(instance) : null;
    const held = blocking();
    const heldBy = held && toldOf(held);
    return html`<div class="head"><h1 tabindex="-1">${name}</h1>${isGone ? chip("unknown", instance ? "Gone" : "Not there") : state ? chip(state) : nothing}
        <p class="summary">${kindLink()} in <a href=${links.spoke(cluster)}>${cluster}</a>${namespace ? html`, namespace ${namespace}` : nothing}
        ${instance ? html`<span class="quiet">· created ${when(instance.metadata?.creationTimestamp)}</span>` : nothing}</p></div>
      ${refusal(error, name)}
      ${isGone && !error ? html`<p class="refusal" role="alert">${instance ? html`<b>The instance is gone.</b> What is shown is what was last known of it.` : html`<b>There is no instance of this name.</b> <a href=${links.instances({ cluster })}>Instances in ${cluster}</a>`}</p>` : nothing}
      ${why ? html`<p class="waits ${state}"><b>${text(why.reason)}</b> ${brief(text(why.message))}${held ? html` <span class="quiet">First node in the way: <b>${held}</b>${heldBy ? html`, ${text(heldBy.reason)}${heldBy.message && !text(why.message).includes(text(heldBy.message)) ? html`: ${text(heldBy.message)}` : nothing}` : nothing}.</span>` : nothing}</p>` : nothing}
      <section aria-label="Graph">${refusal(graphError, "the definition")}
        ${drawing(graph, { stateOf: instance ? stateOfNode : undefined, first: held, chosen, choose: (id) => { chosen = id; app.update(); } })}</section>
      <div class="columns-two">
        ${instance ? html`<section><h2>Children${chosen ? html` of ${chosen} <button type="button" class="flat" @click=${() => { chosen = null; app.update(); }}>show all</button>` : nothing}</h2>
          ${refusal(ledgerError, "the ledger")}
          ${[...childErrors].map(([what, failure]) => refusal(failure, what.split("/").pop()))}${ledger ? childRows() : nothing}</section>` : nothing}
        ${instance ? html`<section><h2>Conditions</h2>${conditions(instance, state === "inProgress")}<h2>Events</h2>${refusal(eventsError, "events")}${eventsError ? nothing : eventTable(lately())}</section>` : nothing}
      </div>
      ${instance && !isGone ? compared.render(readDefinition) : nothing}
      ${instance ? source(instance) : nothing}`;
  };
  return { render, stop() { clearTimeout(due); ending.abort(); compared.stop(); for (const end of ends) end(); } };
}
