// Who is signed in. The token is kept for this tab alone (sessionStorage), and sent as a header to this hub alone.

const TOKEN = "wheelhouse.token";

/** Takes a token that `wheelhouse dev` has put behind the address, and takes it out of there. */
function tokenOfAddress() {
  const found = /^#token=([\w.~-]+)$/.exec(location.hash);
  if (!found) return;
  history.replaceState(null, "", location.pathname);
  sessionStorage.setItem(TOKEN, found[1]);
}

tokenOfAddress();

/** The headers that say who asks. Without a token the browser's client certificate says it, if it has one. */
export function credentials() {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { authorization: `Bearer ${token}` } : {};
}

export const hasToken = () => sessionStorage.getItem(TOKEN) !== null;

/** Whether a text can be a bearer token (RFC 6750): anything else would not go into a header. */
export const isToken = (text) => /^[\w.~+/-]+=*$/.test(text);

export function signIn(token) {
  sessionStorage.setItem(TOKEN, token);
}

export function signOut() {
  sessionStorage.removeItem(TOKEN);
}
