import { Store } from "./store";

const name = "capt-session";

/** key is the key of the session; it is empty without one. */
export const key = new Store("");

/** why is why there is no session, in the words of the server. */
export const why = new Store("");

/**
 * open gets the key of a session: from a one-time link, from this tab, or from another
 * tab of the page.
 */
export async function open(): Promise<void> {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    // The token leaves the address bar and the history at once.
    history.replaceState(null, "", location.pathname + location.search);
    why.value = await exchange(token);
    if (key.value) return;
  }
  key.value = sessionStorage.getItem(name) ?? "";
  if (key.value) why.value = "";
  else await askOtherTabs();
}

/** exchange opens a session with the token of a link. It returns why that failed. */
async function exchange(token: string): Promise<string> {
  const response = await fetch("/api/v1/session", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token }),
  });
  const body = await response.json();
  if (!response.ok) return body.error;
  keep(body.key);
  // Tabs whose session has ended continue with this one.
  tabs?.postMessage({ key: body.key });
  return "";
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
  sessionStorage.setItem(name, value);
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
  if (message.data === "ask" && key.value) tabs.postMessage({ key: key.value });
  else if (message.data?.key && !key.value) {
    why.value = "";
    keep(message.data.key);
  }
});

function askOtherTabs(): Promise<void> {
  tabs?.postMessage("ask");
  return new Promise((resolve) => setTimeout(resolve, 150));
}
