import { Store } from "./store";
import type { Login, Problem } from "./types";

const name = "capt-session";

/** key is the key of the session; it is empty without one. */
export const key = new Store("");

/** why is why there is no session, in the words of the server. */
export const why = new Store("");

/**
 * login is how a session is opened: by a link of captctl ui, or in a cluster with a token
 * or an identity provider.
 */
export const login = new Store<Login>({});

/** failure is why a login at the identity provider failed: failed or refused. */
export const failure = new Store("");

const path = "/api/v1/session";

/** headers returns what requests of the session carry. In a cluster, a cookie that scripts cannot read is the secret. */
export function headers(): Record<string, string> {
  return login.value.token ? { "X-Capt-Csrf": key.value } : { Authorization: "Bearer " + key.value };
}

/**
 * open gets the key of a session: from a one-time link, from this tab, from the cookie of
 * the browser, or from another tab of the page.
 */
export async function open(): Promise<void> {
  const hash = new URLSearchParams(location.hash.slice(1));
  const token = hash.get("token");
  if (hash.has("login")) {
    failure.value = hash.get("login") ?? "";
    history.replaceState(null, "", location.pathname + location.search);
  }
  if (token) {
    // The token leaves the address bar and the history at once.
    history.replaceState(null, "", location.pathname + location.search);
    why.value = await exchange(token);
    if (key.value) return;
  }
  key.value = sessionStorage.getItem(name) ?? "";
  if (key.value) {
    why.value = "";
    return;
  }
  await describe();
  if (!key.value && !login.value.token) await askOtherTabs();
}

/** describe asks the server how users log in, and for the session of the browser. */
async function describe(): Promise<void> {
  try {
    const response = await fetch(path);
    if (response.ok) begin(await response.json());
  } catch {
    // The server does not respond: the page says how to start it.
  }
}

/** begin continues with what the server says about a session. */
function begin(answer: Login): void {
  if (!answer.key) {
    login.value = answer;
    return;
  }
  adopt(answer);
  // Other tabs continue with this session.
  tabs?.postMessage(answer);
}

// owner is the user of the page, since it has a session.
let owner: string | undefined;

/** adopt continues with a session. What the page of another user shows is not for this one. */
function adopt(answer: Login): void {
  if (answer.token && owner !== undefined && owner !== (answer.user ?? "")) {
    location.reload();
    return;
  }
  if (answer.token) owner = answer.user ?? "";
  login.value = answer;
  why.value = failure.value = "";
  keep(answer.key!);
}

let asking: Promise<void> | undefined;

/**
 * renew is called when the server does not accept a key. It returns true if the browser has
 * another session, for example of a login in another tab; otherwise the session has ended.
 */
export async function renew(used: string, text: string): Promise<boolean> {
  if (key.value === used && login.value.token) {
    asking ??= describe().finally(() => (asking = undefined));
    await asking;
  }
  if (key.value !== used) return key.value !== "";
  end(text);
  return false;
}

/** exchange opens a session with the token of a link or of a user. It returns why that failed. */
export async function exchange(token: string): Promise<string> {
  const response = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token }),
  });
  const body: Login & Problem = await response.json();
  if (!response.ok) return body.error;
  begin(body);
  return "";
}

/** logout ends the session in this browser. */
export async function logout(): Promise<void> {
  try {
    await fetch(path, { method: "DELETE", headers: headers() });
  } finally {
    end("");
    tabs?.postMessage("end");
    // Nothing of the page stays for the next user. After a logout that failed, it shows that.
    location.reload();
  }
}

/** Link is what a user pasted: the token of a link, and its address if that is another one. */
export interface Link {
  token: string;
  elsewhere?: string;
}

/** parseLink returns the parts of a link of captctl ui, or undefined if it is none. */
export function parseLink(text: string, here: { origin: string; pathname: string; search: string }): Link | undefined {
  let url: URL;
  try {
    url = new URL(text.trim());
  } catch {
    return undefined;
  }
  const token = new URLSearchParams(url.hash.slice(1)).get("token");
  if (!token || url.protocol !== "http:" || !["127.0.0.1", "localhost", "[::1]"].includes(url.hostname)) return undefined;
  if (url.origin === here.origin) return { token };
  // captctl was started again with another port: its page opens what this one shows.
  return { token, elsewhere: url.origin + here.pathname + here.search + url.hash };
}

/** enter continues with a link that the user pasted. It returns why that failed, or undefined if the text is no link. */
export async function enter(text: string): Promise<string | undefined> {
  const link = parseLink(text, location);
  if (!link) return undefined;
  if (link.elsewhere) {
    location.assign(link.elsewhere);
    return "";
  }
  try {
    why.value = await exchange(link.token);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  return why.value;
}

function keep(value: string) {
  // In a cluster the cookie is the session, and the key follows from it.
  if (!login.value.token) sessionStorage.setItem(name, value);
  key.value = value;
}

/** end forgets the session. */
export function end(text: string): void {
  sessionStorage.removeItem(name);
  why.value = text;
  key.value = "";
}

// Tabs of the same origin share the session; other origins cannot listen.
const tabs = typeof BroadcastChannel === "undefined" ? undefined : new BroadcastChannel(name);
tabs?.addEventListener("message", (message) => {
  if (message.data === "ask" && key.value) tabs.postMessage({ ...login.value, key: key.value });
  else if (message.data === "end") {
    end("");
    location.reload();
  }
  // In a cluster all tabs have the cookie of the latest session.
  else if (message.data?.key && (message.data.token || !key.value)) adopt(message.data);
});

// A tab may have missed what other tabs said while it was suspended.
if (typeof document !== "undefined") {
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && login.value.token && !key.value) void describe();
  });
}

function askOtherTabs(): Promise<void> {
  tabs?.postMessage("ask");
  return new Promise((resolve) => setTimeout(resolve, 150));
}
