// The kinds of instances: which there are, where each of them is listed, and which of them a page asks for.

import { at, get, notice } from "./api.js";
import { list, text } from "./parts.js";

/** Kinds that the hub searches at a time. */
const SEARCHED = 256;
/** Kinds that a page watches. It reads the others anew after a while. */
const WATCHED = 64;
export const UNWATCHED_MS = 15_000;
/** Requests at a time. */
const AT_ONCE = 6;

/** As a search names a kind. What one cluster alone defines is asked for there, and nowhere else. */
export const asked = ({ resource, cluster }) => (cluster === "root" ? resource : `${resource}@${cluster}`);

/**
 * The kinds to ask for, of a resource or of all, in a cluster or in all; and how many others there would be. Those of root come first,
 * then one of each cluster in turn: a cluster with many kinds does not displace those of another.
 */
export function choose(all, { resource = "", cluster = "" } = {}) {
  const turns = new Map();
  const fit = all.filter((it) => (!resource || it.resource === resource) && (!cluster || it.cluster === "root" || it.cluster === cluster))
    .map((kind) => {
      const turn = kind.cluster === "root" ? 0 : (turns.get(kind.cluster) ?? 0) + 1;
      turns.set(kind.cluster, turn);
      return { kind, turn };
    });
  fit.sort((one, other) => one.turn - other.turn);
  return { kinds: fit.slice(0, SEARCHED).map(({ kind }) => kind), omitted: Math.max(0, fit.length - SEARCHED) };
}

/** Calls `work` for each item, for a few at a time. */
async function each(items, work) {
  const left = [...items];
  const worker = async () => { while (left.length) await work(left.shift()); };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

/** The resources of a group that a cluster has: none of one that it does not serve or show. */
async function resourcesOf(cluster, group, signal) {
  const [name, version] = group.split("/");
  try {
    const found = await get(`${at(cluster)}/apis/${encodeURIComponent(name)}/${encodeURIComponent(version)}`, signal);
    return list(found?.resources).filter((it) => it && !text(it.name).includes("/") && it.name !== "resourcegraphdefinitions");
  } catch (error) {
    if (error.code === 403 || error.code === 404) return [];
    throw error;
  }
}

/** The kinds of definitions: `{resource, kind, cluster, name}`. What root defines is of all clusters. */
export async function ofDefinitions(definitions, signal) {
  const wanted = new Map();
  for (const object of definitions) {
    const schema = object?.spec?.schema ?? {};
    const group = `${text(schema.group) || "kro.run"}/${text(schema.apiVersion)}`;
    const cluster = text(object?.metadata?.annotations?.["kcp.io/cluster"]) || "root";
    const kinds = wanted.get(group) ?? new Map();
    const definers = kinds.get(text(schema.kind)) ?? [];
    definers.push({ cluster, name: text(object?.metadata?.name) });
    wanted.set(group, kinds.set(text(schema.kind), definers));
  }
  const found = new Map();
  await each(wanted, async ([group, kinds]) => {
    const [name, version] = group.split("/");
    for (const it of await resourcesOf("*", group, signal)) {
      const definers = kinds.get(text(it.kind)) ?? [];
      const root = definers.filter(({ cluster }) => cluster === "root");
      for (const definer of root.length ? root : definers) {
        const kind = { resource: `${text(it.name)}.${version}.${name}`, kind: text(it.kind), ...definer };
        found.set(asked(kind), kind);
      }
    }
  });
  return sorted(found);
}

/** For who may not list definitions: what root, and each of the user's own clusters, has in the group of kro. */
export async function ofClusters(clusters, signal) {
  const found = new Map();
  const take = async (cluster) => {
    for (const it of await resourcesOf(cluster, "kro.run/v1alpha1", signal)) {
      const kind = { resource: `${text(it.name)}.v1alpha1.kro.run`, kind: text(it.kind), cluster };
      if (!found.has(kind.resource)) found.set(asked(kind), kind);
    }
  };
  await take("root");
  await each(clusters.filter((it) => it !== "root"), take);
  return sorted(found);
}

const sorted = (found) => [...found.values()].sort((one, other) => one.kind.localeCompare(other.kind) || one.cluster.localeCompare(other.cluster));

/** Watches the kinds of searches, each from the version that an answer has for it. `happened(event)` is as that of `notice`. */
export function watching(happened) {
  const open = new Map();
  return {
    /** Watches those that are not watched yet. */
    from(kinds, versions, cluster = "") {
      for (const kind of kinds.slice(0, WATCHED)) {
        const name = asked(kind);
        const version = text(versions?.[name]);
        if (!version || open.has(name)) continue;
        const [resource, its, ...group] = kind.resource.split(".").map(encodeURIComponent);
        const where = kind.cluster === "root" ? cluster || "*" : kind.cluster;
        open.set(name, notice(`${at(where)}/apis/${group.join(".")}/${its}/${resource}`, version, (event) => {
          // What was missed is in the next answer, which says from where on.
          if (!event) open.delete(name);
          happened(event);
        }));
      }
    },
    /** Whether some of them are not watched, because they are too many. */
    misses: (kinds) => kinds.length > WATCHED,
    end() {
      for (const end of open.values()) end();
      open.clear();
    },
  };
}
