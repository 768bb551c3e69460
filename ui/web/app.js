// The frame of all pages: sign-in, navigation, the fleet and the definitions, which several pages read, and one render for each change.

import { html, nothing, render } from "./vendor/lit-html.js";
import { at, DEFINITIONS, follow, hub, ownClusters, SPOKES, waitAfter, whoAmI } from "./api.js";
import { hasToken, isToken, signIn, signOut } from "./session.js";
import { ofClusters, ofDefinitions } from "./kinds.js";
import { links, refusal, text } from "./parts.js";
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
/** A pause in changes of definitions. */
const KINDS_MS = 50;

const root = document.getElementById("app");
const announcer = document.getElementById("announcer");

const app = {
  user: undefined,
  problem: null,
  /** The issuer at which people sign in: nothing where there is none, `null` where it does not answer. */
  offer: undefined,
  /** Spokes by uid: objects, or `{hidden, name}` for those that the user may use and not read; `isOwn` where these are all that the user sees. */
  fleet: { spokes: new Map(), error: null, isKnown: false },
  /** Definitions by uid, and the kinds of instances that there are: `{resource, kind, cluster, name}`. */
  definitions: { objects: new Map(), error: null },
  kinds: [],
  areKindsKnown: false,
  update,
};
let page = null;
let area = "";
/** What is done for who is signed in: it ends with the session, and nothing that comes later is shown. */
let session = { ending: new AbortController(), ends: [], finding: null };
/** Counts the attempts to sign in: the last one counts. */
let attempt = 0;
let isDue = false;
let isCleared = false;

function update() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    try {
      render(frame(), root);
      page?.rendered?.();
    } catch (error) {
      render(broken(error), root);
    }
  });
}

// === who ===

/** Returns whether this attempt is still the last one. */
async function begin() {
  const mine = ++attempt;
  let [user, problem] = [null, null];
  try {
    user = await whoAmI();
  } catch (error) {
    problem = error;
  }
  if (mine !== attempt) return false;
  stop();
  [app.user, app.problem] = [user, problem];
  if (app.user) start();
  update();
  if (!app.user) offer(mine);
  return true;
}

/** Looks whether people sign in at an issuer here. Without an answer there are tokens. */
async function offer(mine) {
  try {
    const { offered } = await import("./sign-in.js");
    const found = await offered();
    if (mine !== attempt) return;
    app.offer = found;
    update();
  } catch {
    app.offer = undefined;
  }
}

function start() {
  session = { ending: new AbortController(), ends: [], finding: null };
  followFleet();
  followDefinitions();
  open();
}

/** Ends all that goes on for who is signed in, and forgets what was read. */
function stop() {
  session.ending.abort();
  for (const end of session.ends.splice(0)) end();
  page?.stop();
  page = null;
  app.fleet = { spokes: new Map(), error: null, isKnown: false };
  app.definitions = { objects: new Map(), error: null };
  app.kinds = [];
  app.areKindsKnown = false;
}

function followFleet() {
  session.ends.push(follow(SPOKES, {
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
  const { ending: { signal }, ends } = session;
  const spokes = new Map();
  let problem = null;
  const take = () => { app.fleet = { spokes, error: problem, isKnown: true, isOwn: true }; update(); };
  const names = await ownClusters(signal).catch((error) => { problem = error; return []; });
  if (signal.aborted) return;
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
  session.ends.push(follow(at("*") + DEFINITIONS, {
    parameters: { partial: "true" },
    changed(objects) {
      app.definitions = { objects, error: null };
      findKinds();
      update();
    },
    told(error) {
      app.definitions.error = error;
      if (error?.code === 403) findKinds();
      update();
    },
  }));
}

/** Finds out which kinds of instances there are, once at a time: definitions that change meanwhile make it look again. */
async function findKinds() {
  const mine = session;
  if (mine.finding) {
    mine.finding.isStale = true;
    return;
  }
  const { signal } = mine.ending;
  for (let failures = 0; ; ) {
    mine.finding = { isStale: false };
    const wait = failures ? waitAfter(failures) : KINDS_MS;
    await new Promise((resolve) => { setTimeout(resolve, wait); });
    if (signal.aborted) return;
    try {
      const isHidden = app.definitions.error?.code === 403;
      const found = isHidden ? await ofClusters(await ownClusters(signal), signal)
        : await ofDefinitions([...app.definitions.objects.values()], signal);
      if (signal.aborted) return;
      failures = 0;
      takeKinds(found);
    } catch {
      if (signal.aborted) return;
      failures += 1;
      continue;
    }
    if (!mine.finding.isStale) break;
  }
  mine.finding = null;
}

function takeKinds(found) {
  if (app.areKindsKnown && JSON.stringify(found) === JSON.stringify(app.kinds)) return;
  app.kinds = found;
  app.areKindsKnown = true;
  page?.kindsChanged?.();
  update();
}

// === where ===

/** Lets go of what is drawn of the last page: what was typed into a form of one is never in another's. */
function clear() {
  isCleared = true;
  render(frame(), root);
  isCleared = false;
}

function open() {
  if (!app.user) return;
  const [path, search = ""] = (location.hash.slice(1) || "/").split("?");
  page?.stop();
  page = null;
  clear();
  area = "";
  document.title = "No such page · Wheelhouse";
  announcer.textContent = "No such page";
  for (const [pattern, module, name] of ROUTES) {
    const found = pattern.exec(path);
    if (!found) continue;
    let parts;
    try {
      parts = found.slice(1).map(decodeURIComponent);
    } catch {
      break;
    }
    try {
      page = module.page(app, parts, new URLSearchParams(search));
    } catch (error) {
      page = { render() { throw error; }, stop() {} };
    }
    area = name;
    document.title = `${module.title(parts)} · Wheelhouse`;
    announcer.textContent = module.title(parts);
    break;
  }
  update();
}

addEventListener("wheelhouse-heard", () => update());
addEventListener("hashchange", () => {
  open();
  requestAnimationFrame(() => document.querySelector("h1")?.focus());
});
/** A 401 may be that of a spoke, which decides nothing here: the hub is asked. */
addEventListener("wheelhouse-unauthorized", async () => {
  const mine = session;
  if (!app.user || mine.isDoubted) return;
  mine.isDoubted = true;
  const user = await whoAmI().catch(() => app.user);
  mine.isDoubted = false;
  if (mine !== session || mine.ending.signal.aborted || user) return;
  strand({ code: 401, message: "The hub no longer accepts this credential." });
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
  } else if (["ArrowDown", "ArrowUp"].includes(event.key) && !event.target.closest(".scroller, .canvas")) {
    // The table has the arrow keys as soon as its page is there.
    document.querySelector(".scroller")?.focus();
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

const broken = (error) => html`<h1 tabindex="-1">This page cannot be shown</h1>${refusal({ code: -1, message: String(error) }, "what it shows")}`;

/** What the page shows. Nothing that it is given stops the frame around it. */
function content() {
  try {
    return page.render();
  } catch (error) {
    return broken(error);
  }
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
    ${hub.lostAt === null ? nothing : html`<p class="refusal lost" role="alert"><b>The hub does not answer</b>
      <span>since ${new Date(hub.lostAt).toLocaleTimeString()}. What you see is from before then. The page keeps trying.</span></p>`}
    <main id="main">${isCleared ? nothing : page ? content() : html`<h1 tabindex="-1">No such page</h1><p><a href=${links.fleet}>To the fleet</a></p>`}</main>`;
};

/** Shows the page of sign-in, and why. */
function strand(problem) {
  attempt += 1;
  stop();
  [app.user, app.problem] = [null, problem];
  offer(attempt);
  update();
}

function leave() {
  signOut();
  strand(null);
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
  begin().then((isLast) => {
    if (!isLast || app.user) return;
    signOut();
    app.problem ??= { code: 401, message: "The hub does not accept this token." };
    update();
  });
}

async function goToIssuer() {
  try {
    const { go } = await import("./sign-in.js");
    await go(app.offer);
  } catch (error) {
    app.problem = { code: 0, message: String(error?.message ?? error) };
    update();
  }
}

/** Where an issuer is, as a person knows it. */
const placeOf = (issuer) => {
  try {
    return new URL(issuer).host;
  } catch {
    return text(issuer);
  }
};

const issuerPart = () => {
  if (app.offer === undefined) return nothing;
  if (app.offer === null) return html`<p class="quiet">Sign-in at the issuer is not possible at the moment: it does not answer the hub.</p>`;
  return html`<button type="button" class="issuer" @click=${goToIssuer}>Sign in at ${placeOf(app.offer.issuer)}</button>`;
};

const signInPage = () => html`<main class="sign-in"><h1 tabindex="-1">Wheelhouse</h1>
  ${issuerPart()}
  <form @submit=${enter}>
    <label for="token">Token</label>
    <input id="token" name="token" type="password" autocomplete="off" spellcheck="false" required aria-describedby="token-help">
    <button type="submit">Sign in</button>
    ${app.problem ? html`<p class="refusal" role="alert">${app.problem.message}</p>` : nothing}
    <p id="token-help" class="quiet">Any bearer token that the hub accepts, such as that of a ServiceAccount of root that has rights:
      <code>kubectl create token NAME</code>. It stays in this tab and acts with its own rights.
      A browser with a client certificate of the hub needs none.</p>
  </form></main>`;

const theme = sessionStorage.getItem("wheelhouse.theme");
if (theme) document.documentElement.dataset.theme = theme;
setInterval(() => app.user && update(), AGES_MS);
// An issuer that did not answer the hub may do so by now.
setInterval(() => !app.user && app.offer === null && offer(attempt), AGES_MS);

/** Begins, with what an issuer has sent the browser back with, if it comes from one. */
async function arrive() {
  let problem = null;
  if (new URLSearchParams(location.search).has("state")) {
    try {
      const { comeBack, isBack } = await import("./sign-in.js");
      if (isBack()) await comeBack();
    } catch (error) {
      problem = error;
    }
  }
  await begin();
  if (problem && !app.user) {
    app.problem = problem;
    update();
  }
}

arrive();
