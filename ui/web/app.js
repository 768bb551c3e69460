// The frame of all pages: sign-in, navigation, the fleet and the definitions, which several pages read, and one render for each change.

import { html, nothing, render } from "./vendor/lit-html.js";
import { at, DEFINITIONS, follow, get, ownClusters, query, SPOKES, whoAmI } from "./api.js";
import { hasToken, isToken, signIn, signOut } from "./session.js";
import { links, text } from "./parts.js";
import * as fleet from "./fleet.js";
import * as instances from "./instances.js";
import * as instance from "./instance.js";
import * as definitions from "./definitions.js";
import * as matrix from "./matrix.js";
import * as spoke from "./spoke.js";

const ROUTES = [
  [/^\/?$/, fleet, "fleet"],
  [/^\/instances$/, instances, "instances"],
  [/^\/instances\/([^/]+)\/([^/]+)\/([^/]+)\/([^/]+)$/, instance, "instances"],
  [/^\/definitions$/, definitions, "definitions"],
  [/^\/definitions\/([^/]+)\/([^/]+)$/, definitions, "definitions"],
  [/^\/matrix$/, matrix, "matrix"],
  [/^\/spokes\/([^/]+)$/, spoke, "fleet"],
];

/** How often ages are told anew. Nothing is asked for. */
const AGES_MS = 5_000;

const root = document.getElementById("app");
const announcer = document.getElementById("announcer");

const app = {
  user: undefined,
  problem: null,
  /** Spokes by uid: objects, or `{hidden, name}` for those that the user may use and not read. */
  fleet: { spokes: new Map(), error: null, isKnown: false },
  /** Definitions by uid, and the kinds of instances that there are: `{resource, kind, cluster, name}`. */
  definitions: { objects: new Map(), error: null },
  kinds: [],
  update,
};
let page = null;
let area = "";
let ends = [];
let isDue = false;

function update() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    render(frame(), root);
    page?.rendered?.();
  });
}

// === who ===

async function begin() {
  try {
    app.user = await whoAmI();
    app.problem = null;
  } catch (error) {
    app.user = null;
    app.problem = error;
  }
  if (app.user) start();
  update();
}

function start() {
  stop();
  app.fleet = { spokes: new Map(), error: null, isKnown: false };
  app.definitions = { objects: new Map(), error: null };
  followFleet();
  followDefinitions();
  open();
}

function stop() {
  for (const end of ends.splice(0)) end();
  page?.stop();
  page = null;
}

function followFleet() {
  ends.push(follow(SPOKES, {
    changed(objects) {
      app.fleet = { spokes: objects, error: null, isKnown: true };
      update();
    },
    told(error) {
      if (error?.code === 403) followOwn();
      else app.fleet.error = error;
      update();
    },
  }));
}

/** The clusters of a user who may not list Spokes: by name, as the user's rights name them. */
async function followOwn() {
  const spokes = new Map();
  const take = () => { app.fleet = { spokes, error: null, isKnown: true }; update(); };
  const names = await ownClusters().catch((error) => { app.fleet.error = error; return []; });
  for (const name of names) {
    spokes.set(name, { hidden: true, name });
    ends.push(follow(SPOKES, {
      parameters: { fieldSelector: `metadata.name=${name}` },
      changed(objects) {
        const found = [...objects.values()][0];
        if (found) spokes.set(name, found);
        else spokes.delete(name);
        take();
      },
    }));
  }
  take();
}

function followDefinitions() {
  ends.push(follow(at("*") + DEFINITIONS, {
    parameters: { partial: "true" },
    changed(objects) {
      app.definitions = { objects, error: null };
      findKinds();
      update();
    },
    told(error) {
      app.definitions.error = error;
      if (error) findKinds();
      update();
    },
  }));
}

/** Which resources instances have: those of definitions, and for who may not read those, what the group of kro holds. */
async function findKinds() {
  const wanted = new Map();
  for (const object of app.definitions.objects.values()) {
    const schema = object.spec?.schema ?? {};
    const group = text(schema.group) || "kro.run";
    const cluster = text(object.metadata?.annotations?.["kcp.io/cluster"]) || "root";
    wanted.set(`${group}/${text(schema.apiVersion)}/${text(schema.kind)}`, { cluster, name: text(object.metadata?.name) });
  }
  const groups = new Set([...wanted.keys()].map((key) => key.split("/").slice(0, 2).join("/")));
  groups.add("kro.run/v1alpha1");
  const clusters = app.definitions.error ? await ownClusters().catch(() => []) : ["*"];
  const kinds = new Map();
  await Promise.all(clusters.flatMap((cluster) => [...groups].map(async (group) => {
    const found = await get(`${at(cluster)}/apis/${group}`).catch(() => ({ resources: [] }));
    for (const { name, kind } of found.resources ?? []) {
      if (name.includes("/") || name === "resourcegraphdefinitions") continue;
      const definition = wanted.get(`${group}/${kind}`);
      if (!definition && !app.definitions.error) continue;
      const [ofGroup, version] = group.split("/");
      kinds.set(`${name}.${version}.${ofGroup}`, { resource: `${name}.${version}.${ofGroup}`, kind, ...definition });
    }
  })));
  const found = [...kinds.values()].sort((one, other) => one.kind.localeCompare(other.kind));
  if (JSON.stringify(found) === JSON.stringify(app.kinds)) return;
  app.kinds = found;
  page?.kindsChanged?.();
  update();
}

// === where ===

function open() {
  if (!app.user) return;
  const [path, search = ""] = (location.hash.slice(1) || "/").split("?");
  page?.stop();
  page = null;
  for (const [pattern, module, name] of ROUTES) {
    const found = pattern.exec(path);
    if (!found) continue;
    let parts;
    try {
      parts = found.slice(1).map(decodeURIComponent);
    } catch {
      break;
    }
    page = module.page(app, parts, new URLSearchParams(search));
    area = name;
    document.title = `${module.title(parts)} · Wheelhouse`;
    announcer.textContent = module.title(parts);
    break;
  }
  update();
}

addEventListener("hashchange", () => {
  open();
  requestAnimationFrame(() => document.querySelector("h1")?.focus());
});
addEventListener("wheelhouse-unauthorized", () => {
  if (!app.user) return;
  stop();
  app.user = null;
  app.problem = { code: 401, message: "The hub no longer accepts this credential." };
  update();
});

const KEYS = { f: links.fleet, i: "#/instances", d: links.definitions, m: links.matrix };
let isGoing = false;
addEventListener("keydown", (event) => {
  if (event.target.matches?.("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (isGoing && KEYS[event.key]) location.hash = KEYS[event.key];
  else if (event.key === "/") {
    const search = document.querySelector("input[type=search]");
    search?.focus();
    if (search) event.preventDefault();
  }
  isGoing = event.key === "g";
});

// === what is seen ===

const NAVIGATION = [["fleet", "Fleet", links.fleet], ["instances", "Instances", "#/instances"],
  ["definitions", "Definitions", links.definitions], ["matrix", "Matrix", links.matrix]];

function setTheme() {
  const isDark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = isDark ? "light" : "dark";
  sessionStorage.setItem("wheelhouse.theme", document.documentElement.dataset.theme);
}

const frame = () => {
  if (app.user === undefined) return nothing;
  if (!app.user) return signInPage();
  return html`<a class="skip" href="#main" @click=${(event) => { event.preventDefault(); document.querySelector("h1")?.focus(); }}>To the content</a>
    <header class="top">
      <a class="name" href=${links.fleet}>Wheelhouse</a>
      <nav aria-label="Pages">${NAVIGATION.map(([name, word, link]) => html`<a href=${link} aria-current=${name === area ? "page" : nothing}>${word}</a>`)}</nav>
      <span class="user" title="Signed in as">${app.user}</span>
      <button type="button" class="flat" @click=${setTheme} title="Switch between light and dark">Light/dark</button>
      ${hasToken() ? html`<button type="button" class="flat" @click=${leave}>Sign out</button>` : nothing}
    </header>
    <main id="main">${page ? page.render() : html`<h1 tabindex="-1">No such page</h1><p><a href=${links.fleet}>To the fleet</a></p>`}</main>`;
};

function leave() {
  signOut();
  stop();
  app.user = null;
  app.problem = null;
  update();
}

function enter(event) {
  event.preventDefault();
  const token = event.target.elements.token.value.trim();
  if (!isToken(token)) {
    app.problem = { code: 0, message: "This is not a bearer token." };
    update();
    return;
  }
  signIn(token);
  begin().then(() => {
    if (app.user) return;
    signOut();
    app.problem ??= { code: 401, message: "The hub does not accept this token." };
    update();
  });
}

const signInPage = () => html`<main class="sign-in"><h1 tabindex="-1">Wheelhouse</h1>
  <form @submit=${enter}>
    <label for="token">Token</label>
    <input id="token" name="token" type="password" autocomplete="off" spellcheck="false" required aria-describedby="token-help">
    <button type="submit">Sign in</button>
    ${app.problem ? html`<p class="refusal" role="alert">${app.problem.message}</p>` : nothing}
    <p id="token-help" class="quiet">Any bearer token that the hub accepts, such as that of a ServiceAccount of root:
      <code>kubectl create token NAME</code>. It stays in this tab and acts with its own rights.
      A browser with a client certificate of the hub needs none.</p>
  </form></main>`;

const theme = sessionStorage.getItem("wheelhouse.theme");
if (theme) document.documentElement.dataset.theme = theme;
setInterval(() => app.user && update(), AGES_MS);
begin();
