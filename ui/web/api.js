// Calls to the hub's API, as the user. Everything that is shown comes from here.

import { credentials } from "./session.js";

/** A refusal: what the hub says, and its code. 0 is a hub that does not answer. */
export class Refused extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

export const SPOKES = "/apis/wheelhouse.dev/v1alpha1/spokes";
export const DEFINITIONS = "/apis/kro.run/v1alpha1/resourcegraphdefinitions";

/** The path of a logical cluster; `*` is all of them. */
export const at = (cluster) => (cluster === "root" ? "" : `/clusters/${cluster === "*" ? "*" : encodeURIComponent(cluster)}`);

/** Makes a query of what has a value; a list gives several. */
export function query(parameters) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null && one !== "") search.append(name, one);
    }
  }
  const text = search.toString();
  return text && `?${text}`;
}

/** Browsers are answered in a form for people, which costs the hub more than the answer does. */
const compact = (path) => (path.startsWith("/ui/") ? path : `${path}${path.includes("?") ? "&" : "?"}pretty=false`);

/** Whether the hub has answered the last call, and since when it does not. */
export const hub = { lostAt: null };

function heard(isThere) {
  const before = hub.lostAt;
  hub.lostAt = isThere ? null : before ?? Date.now();
  if ((before === null) !== (hub.lostAt === null)) dispatchEvent(new CustomEvent("wheelhouse-heard"));
}

async function send(path, { method = "GET", body, signal, accept = "application/json", isReview = false, isYaml = false } = {}) {
  const headers = { accept, ...credentials() };
  if (body !== undefined) headers["content-type"] = isYaml ? "application/yaml" : "application/json";
  let response;
  try {
    response = await fetch(compact(path), {
      method, headers, signal, redirect: "error", cache: "no-store",
      body: body === undefined || isYaml ? body : JSON.stringify(body),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    heard(false);
    throw new Refused(0, "The hub does not answer.");
  }
  heard(true);
  if (response.ok) return response;
  const status = await response.json().catch(() => ({}));
  const refused = new Refused(response.status, String(status?.message ?? response.statusText));
  // Of a call that was given up nobody wants to know, such as one of who was signed in before.
  if (response.status === 401 && !isReview && !signal?.aborted) dispatchEvent(new CustomEvent("wheelhouse-unauthorized"));
  throw refused;
}

export const get = async (path, signal) => (await send(path, { signal })).json();
export const post = async (path, body, signal) => (await send(path, { method: "POST", body, signal })).json();
/** Creates what a text of YAML says. */
export const postYaml = async (path, body, signal) => (await send(path, { method: "POST", body, signal, isYaml: true })).json();
const review = async (path, body) => (await send(path, { method: "POST", body, isReview: true })).json();

/** Who the hub takes the caller for; null for nobody. */
export async function whoAmI() {
  const question = { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" };
  try {
    const answer = await review("/apis/authentication.k8s.io/v1/selfsubjectreviews", question);
    const user = answer.status?.userInfo?.username;
    return user && user !== "system:anonymous" ? user : null;
  } catch (error) {
    if (error.code === 401 || error.code === 403) return null;
    throw error;
  }
}

/** The lines of a body. */
async function* lines(body, signal) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  const abort = () => reader.cancel().catch(() => {});
  signal?.addEventListener("abort", abort, { once: true });
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n");
      rest = parts.pop();
      yield* parts.filter(Boolean);
    }
  } finally {
    signal?.removeEventListener("abort", abort);
    abort();
  }
}

/** The events of a watch from a version on. Ends when the hub ends it; 410 is thrown. */
async function* watchFrom(path, parameters, resourceVersion, signal) {
  const all = { ...parameters, watch: "1", allowWatchBookmarks: "true", resourceVersion };
  const response = await send(path + query(all), { signal });
  for await (const line of lines(response.body, signal)) {
    const event = JSON.parse(line);
    if (event.type === "ERROR") throw new Refused(event.object?.code ?? 500, String(event.object?.message ?? "the watch failed"));
    yield event;
  }
}

/** How long to wait: longer with each failure, with jitter, at most ten seconds. */
export const waitAfter = (failures) => Math.min(10_000, 250 * 2 ** failures) * (0.5 + Math.random() / 2);

const pause = (failures, signal) => new Promise((resolve) => {
  const timer = setTimeout(resolve, waitAfter(failures));
  signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
});

const identity = (object) => object.metadata?.uid ?? `${object.metadata?.namespace}/${object.metadata?.name}`;

/** Whether going on makes sense: what the user may not see stays unseen until they sign in anew. */
export const isFinal = (error) => [400, 401, 403, 404, 405, 413].includes(error.code);

/**
 * Keeps a list up to date: listed once, then watched. `changed(objects, event)` is called with all objects by uid after the list and
 * after each event; `told(error)` with what is wrong, or null. Returns what ends it.
 */
export function follow(path, { parameters = {}, changed, told = () => {} }) {
  const ending = new AbortController();
  const { signal } = ending;
  (async () => {
    let failures = 0;
    while (!signal.aborted) {
      try {
        const list = await get(path + query(parameters), signal);
        if (signal.aborted) return;
        const objects = new Map((list.items ?? []).map((object) => [identity(object), object]));
        told(null);
        changed(objects, null);
        let version = list.metadata?.resourceVersion;
        for (;;) {
          const began = performance.now();
          for await (const event of watchFrom(path, parameters, version, signal)) {
            if (signal.aborted) return;
            version = event.object?.metadata?.resourceVersion ?? version;
            failures = 0;
            if (event.type === "BOOKMARK") continue;
            if (event.type === "DELETED") objects.delete(identity(event.object));
            else objects.set(identity(event.object), event.object);
            changed(objects, event);
          }
          if (signal.aborted) return;
          // A watch ends by itself after minutes; one that ends at once is no reason to hurry.
          if (performance.now() - began < 1000) await pause(failures++, signal);
        }
      } catch (error) {
        if (signal.aborted) return;
        // After 410 there is a list to read, and a server that always says so is not asked without a pause.
        if (error.code !== 410) told(error);
        if (isFinal(error)) return;
        await pause(failures++, signal);
      }
    }
  })();
  return () => ending.abort();
}

/** Tells of events from a version on, without keeping objects. Returns what ends it. */
export function notice(path, resourceVersion, happened) {
  const ending = new AbortController();
  const { signal } = ending;
  (async () => {
    let version = resourceVersion;
    for (let failures = 0; !signal.aborted;) {
      try {
        for await (const event of watchFrom(path, { partial: "true" }, version, signal)) {
          if (signal.aborted) return;
          version = event.object?.metadata?.resourceVersion ?? version;
          failures = 0;
          if (event.type !== "BOOKMARK") happened(event);
        }
      } catch (error) {
        if (signal.aborted || isFinal(error)) return;
        if (error.code === 410) {
          happened(null); // what was missed is read anew, by a list that says from where on
          return;
        }
      }
      await pause(failures++, signal);
    }
  })();
  return () => ending.abort();
}

/** The logical clusters that the user may access by name, where the user may not list Spokes. */
export async function ownClusters(signal) {
  const question = { apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectRulesReview", spec: { namespace: "default" } };
  const answer = await post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", question, signal);
  const names = new Set();
  for (const rule of answer.status?.resourceRules ?? []) {
    const covers = (field, word) => (rule[field] ?? []).some((it) => it === "*" || it === word);
    if (!covers("apiGroups", "wheelhouse.dev") || !covers("resources", "spokes") || !covers("verbs", "access")) continue;
    for (const name of rule.resourceNames ?? []) if (name !== "*") names.add(name);
  }
  return [...names].sort();
}
