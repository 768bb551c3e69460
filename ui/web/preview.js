// What a change of a definition would do to the fleet: asked of the hub, which writes nothing.

import { html, nothing } from "./vendor/lit-html.js";
import { at, post, postYaml } from "./api.js";
import { links, list, plural, refusal, text, yaml } from "./parts.js";

const SIGN = { Create: "+", Update: "~", Delete: "-" };

/** What stays though it is not wanted any more, by its deletion policy. */
const isKept = (it) => it.action === "Retain" || it.action === "Orphan";

/** Annotations that nobody writes. */
const NOT_WRITTEN = ["kcp.io/cluster", "kubectl.kubernetes.io/last-applied-configuration"];

/** A definition as somebody would write it. */
function written(definition) {
  const { name, labels, annotations } = definition.metadata ?? {};
  const kept = Object.fromEntries(Object.entries(annotations ?? {}).filter(([key]) => !key.startsWith("internal.") && !NOT_WRITTEN.includes(key)));
  const metadata = { name, ...(labels ? { labels } : {}), ...(Object.keys(kept).length ? { annotations: kept } : {}) };
  return yaml({ apiVersion: definition.apiVersion, kind: definition.kind, metadata, spec: definition.spec });
}

/** Lines and columns of the text of a preview before those of its definition. */
const [LINES_BEFORE, COLUMNS_BEFORE] = [4, 4];

/** What is wrong with a text, told of the definition alone. */
const ofDefinition = (error) => {
  const message = error.message.replace(/ \([0-9a-f]{20,}[^)]*\)/, "")
    .replace(/line (\d+), column (\d+)/, (_, line, column) => `line ${line - LINES_BEFORE}, column ${column - COLUMNS_BEFORE}`);
  return Object.assign(new Error(message), { code: error.code });
};

/** The text of a definition within that of a preview. */
const asked = (definition) => `apiVersion: wheelhouse.dev/v1alpha1
kind: DefinitionPreview
spec:
  definition:
${definition.replace(/^---.*\n/, "").split("\n").map((line) => `    ${line}`).join("\n")}
`;

const place = (it) => `${it.namespace ? `${text(it.namespace)}/` : ""}${text(it.name)}`;

const ofChild = (it) => html`<tr><td>${isKept(it) ? html`= <span class="quiet">${text(it.action)}</span>` : SIGN[it.action] ?? text(it.action)}</td><td>${text(it.nodeID)}</td><td>${text(it.kind)}</td><th scope="row">${place(it)}</th>
  <td class="prose">${list(it.fields).map((field) => html`<div><code>${text(field?.path)}</code> ${text(field?.from) || "–"} → ${text(field?.to) || "–"}</div>`)}
    ${it.fieldsOmitted ? html`<div class="quiet">${plural(Number(it.fieldsOmitted), "more field")}</div>` : nothing}</td></tr>`;

const ofInstance = (cluster, it) => html`<h3><a href=${links.spoke(cluster)}>${cluster}</a> ${place(it)}</h3>
  ${list(it.invalid).map((why) => html`<p class="refusal">Not allowed by the new schema: ${text(why)}</p>`)}
  ${it.failure ? html`<p class="refusal">Nothing would be written: ${text(it.failure)}</p>` : nothing}
  ${it.confirmation ? html`<p class="waits error">${text(it.confirmation)}</p>` : nothing}
  ${list(it.children).length ? html`<table class="plain"><thead><tr><th scope="col">What</th><th scope="col">Node</th><th scope="col">Kind</th><th scope="col">Name</th><th scope="col">Fields</th></tr></thead>
    <tbody>${list(it.children).map(ofChild)}</tbody></table>` : nothing}
  ${it.childrenOmitted ? html`<p class="quiet">${plural(Number(it.childrenOmitted), "more object")}</p>` : nothing}
  ${it.deletionsWait ? html`<p class="quiet">Deletions wait until all nodes are there.</p>` : nothing}
  ${list(it.waiting).map((node) => html`<p class="quiet">Cannot be told: <b>${text(node?.id)}</b>, ${text(node?.reason)}: ${text(node?.message)}</p>`)}`;

function answered(status) {
  if (!status.accepted) return html`<p class="refusal" role="alert"><b>It would be refused.</b> ${text(status.message)}</p>`;
  const { crd, summary = {} } = status;
  const isRefused = crd?.action === "Refused";
  const clusters = list(status.clusters).filter(Boolean);
  const count = (name) => Number(summary[name] ?? 0);
  return html`${isRefused ? html`<p class="refusal" role="alert"><b>Its CRD would be refused.</b> ${text(crd.message)}
      ${list(crd.breaking).length ? html`To accept that, annotate the definition with <code>kro.run/allow-breaking-changes: "true"</code>. What follows is what would be done then.` : nothing}</p>` : nothing}
    <p role="status"><b>${count("created")}</b> to create, <b>${count("updated")}</b> to change, <b>${count("deleted")}</b> to delete${count("kept") ? html`, <b>${count("kept")}</b> to keep` : nothing}, in ${plural(clusters.length, "cluster")};
      ${plural(count("examined"), "instance")} of ${count("instances")} examined, ${count("invalid")} invalid, ${count("failing")} failing, ${count("held")} waiting for a confirmation.</p>
    ${crd?.message && !isRefused ? html`<p class="refusal">${text(crd.message)}</p>` : nothing}
    ${list(crd?.breaking).map((it) => html`<p class="quiet">Breaking: ${text(it)}</p>`)}
    ${clusters.filter((it) => it.message).map((it) => html`<p class="quiet"><b>${text(it.cluster)}</b>: ${text(it.message)}</p>`)}
    ${clusters.map((it) => html`${list(it.changes).map((one) => ofInstance(text(it.cluster), one))}
      ${it.changesOmitted ? html`<p class="quiet">${text(it.cluster)}: ${plural(Number(it.changesOmitted), "more instance")}</p>` : nothing}`)}
    ${list(status.omitted).map((it) => html`<p class="quiet">Not looked at: ${text(it)}</p>`)}`;
}

/** What differs between what a definition wants for one instance and what is there: asked when it is opened, and again on demand. */
export function comparison(app, { cluster, namespace, name }) {
  let [answer, error, isAsking] = [null, null, false];
  const ending = new AbortController();

  async function ask(definition, home) {
    if (isAsking) return;
    [answer, error, isAsking] = [null, null, true];
    app.update();
    const body = { apiVersion: "wheelhouse.dev/v1alpha1", kind: "DefinitionPreview", spec: { definition, instance: { cluster, namespace, name } } };
    try {
      answer = await post(`${at(home)}/apis/wheelhouse.dev/v1alpha1/definitionpreviews`, body, ending.signal);
    } catch (failure) {
      if (ending.signal.aborted) return;
      error = failure;
    }
    isAsking = false;
    app.update();
  }

  function found({ status = {} }) {
    if (!status.accepted) return html`<p class="refusal" role="alert"><b>The definition does not compile.</b> ${text(status.message)}</p>`;
    const own = list(status.clusters).find((it) => text(it?.cluster) === cluster);
    if (!own) return html`<p class="refusal" role="alert">You see neither the cluster nor what is in it.</p>`;
    if (own.message) return html`<p class="refusal" role="alert">${text(own.message)}</p>`;
    const [change] = list(own.changes);
    return change ? ofInstance(cluster, change) : html`<p role="status">Nothing differs.</p>`;
  }

  /** `read` gives the definition and the logical cluster that it is in. */
  const render = (read) => html`<details class="preview" @toggle=${(event) => event.target.open && read().then(({ definition, home }) => ask(definition, home), (failure) => { error = failure; app.update(); })}>
    <summary>Wanted and live</summary>
    ${isAsking ? html`<p class="quiet">Asking…</p>` : nothing}${refusal(error, "the comparison")}${answer ? found(answer) : nothing}
    <p class="quiet">Fields of children as they are → as the definition asks for them. Close and open to ask again.</p></details>`;
  return { render, stop() { ending.abort(); } };
}

/** What a new definition begins with. */
const NEW = `apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata:
  name: example
spec:
  schema:
    apiVersion: v1alpha1
    kind: Example
    spec:
      message: string | default="hello"
  resources:
  - id: config
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata:
        name: \${schema.metadata.name}
      data:
        message: \${schema.spec.message}
`;

/** A form for a change of a definition of a logical cluster, or for a new one. */
export function preview(app, cluster) {
  let [answer, error, isAsking] = [null, null, false];
  const ending = new AbortController();

  async function ask(event) {
    event.preventDefault();
    const definition = event.target.querySelector("textarea").value;
    [answer, error, isAsking] = [null, null, true];
    app.update();
    try {
      answer = await postYaml(`${at(cluster)}/apis/wheelhouse.dev/v1alpha1/definitionpreviews`, asked(definition), ending.signal);
    } catch (failure) {
      if (ending.signal.aborted) return;
      error = ofDefinition(failure);
    }
    isAsking = false;
    app.update();
  }

  /** It is filled in when it is opened, so that what is typed stays while the definition changes. */
  function open(event, definition) {
    const area = event.target.querySelector("textarea");
    if (event.target.open && !area.value) area.value = definition ? written(definition) : NEW;
  }

  const render = (definition) => html`<details class="preview" @toggle=${(event) => open(event, definition)}><summary>${definition ? "Preview a change" : "Preview a new definition"}</summary>
    <form @submit=${ask}><label>The definition as it would be applied<textarea rows="18" spellcheck="false" autocomplete="off"></textarea></label>
      <button type="submit" ?disabled=${isAsking}>${isAsking ? "Asking…" : "Preview"}</button> <span class="quiet">Nothing is written.</span></form>
    ${refusal(error, "the preview")}
    ${answer ? answered(answer.status ?? {}) : nothing}</details>`;
  return { render, stop() { ending.abort(); } };
}
