// Sign-in at an issuer: an authorization code with PKCE (RFC 7636). The hub redeems the code, and the token stays in this tab.

import { get, post, Refused } from "./api.js";
import { signIn } from "./session.js";

const PATH = "/ui/api/sign-in";
/** What this tab must remember while the browser is at the issuer. */
const PENDING = "wheelhouse.sign-in";

const base64url = (bytes) => btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)));

/** How people sign in here, beside tokens: nothing where the hub has no issuer for it, `null` while that one does not answer. */
export const offered = async () => (await get(PATH)).oidc;

/** Sends the browser to the issuer. */
export async function go(offer) {
  const pending = { verifier: random(), state: random(), nonce: random(), redirectUri: location.origin + location.pathname, hash: location.hash };
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(pending.verifier));
  sessionStorage.setItem(PENDING, JSON.stringify(pending));
  const address = new URL(offer.authorizationEndpoint);
  const parameters = {
    response_type: "code", client_id: offer.clientId, scope: offer.scope, redirect_uri: pending.redirectUri,
    state: pending.state, nonce: pending.nonce, code_challenge: base64url(new Uint8Array(digest)), code_challenge_method: "S256",
  };
  for (const [name, value] of Object.entries(parameters)) address.searchParams.set(name, value);
  location.assign(address);
}

/** What a token says, as far as this page must know it. The hub checks it. */
function claims(token) {
  const [, payload = ""] = token.split(".");
  const bytes = Uint8Array.from(atob(payload.replaceAll("-", "+").replaceAll("_", "/")), (it) => it.charCodeAt(0));
  return JSON.parse(new TextDecoder().decode(bytes));
}

/** Whether the browser comes from an issuer. */
export const isBack = () => {
  const answer = new URLSearchParams(location.search);
  return answer.has("state") && (answer.has("code") || answer.has("error"));
};

/** Signs in with what the issuer has sent the browser back with, and takes it out of the address. */
export async function comeBack() {
  const answer = new URLSearchParams(location.search);
  let pending = null;
  try {
    pending = JSON.parse(sessionStorage.getItem(PENDING));
  } catch {
    // As if there were none.
  }
  sessionStorage.removeItem(PENDING);
  history.replaceState(null, "", location.pathname + (pending?.hash ?? ""));
  // Another site may send a browser here, with a code of its own.
  if (!pending || answer.get("state") !== pending.state) throw new Refused(401, "This sign-in did not begin in this tab. Try again.");
  const refused = answer.get("error");
  if (refused) throw new Refused(401, `The issuer refused the sign-in: ${answer.get("error_description") ?? refused}`);
  const { token } = await post(PATH, { code: answer.get("code"), codeVerifier: pending.verifier, redirectUri: pending.redirectUri });
  if (claims(token).nonce !== pending.nonce) throw new Refused(401, "The issuer's token is of another sign-in. Try again.");
  signIn(token);
}
