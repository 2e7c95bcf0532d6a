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
    const response = await fetch("/api/v1/session", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ token }),
    });
    const body = await response.json();
    if (response.ok) {
      keep(body.key);
      return;
    }
    why.value = body.error;
  }
  key.value = sessionStorage.getItem(name) ?? "";
  if (key.value) why.value = "";
  else await askOtherTabs();
}

function keep(value: string) {
  sessionStorage.setItem(name, value);
  key.value = value;
}

/** end forgets the session. */
export function end(text: string): void {
  sessionStorage.removeItem(name);
  key.value = "";
  why.value = text;
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
